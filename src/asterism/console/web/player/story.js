// @ts-check
/**
 * What a journal shows beside its rows, read once from its deltas: the edits of the plan, the bars of the timeline, and
 * how often each state was left for another.
 */
import { apply } from '../fold.js';

/** @typedef {import('../fold.js').Delta} Delta */
/** @typedef {import('../fold.js').Row} Row */
/** @typedef {import('../fold.js').Rows} Rows */

/**
 * A change of the plan.
 * @typedef {object} Edit
 * @property {number} count deltas up to and including it
 * @property {Delta} delta
 * @property {boolean} created there was no plan before
 * @property {Set<string>} added ids of rows, `task:…` and `line:…`
 * @property {Map<string, Row>} removed rows before the edit
 * @property {Map<string, Record<string, [any, any]>>} changed fields of tasks, before and after
 * @property {Row | null} planning row of the planner's answer; null for a person's edit
 */
/**
 * A piece of work, a question, or a planner request.
 * @typedef {object} Bar
 * @property {string} id id of its row
 * @property {string} lane
 * @property {string} part id of the task or step
 * @property {string} name
 * @property {number} from deltas before it began, and the one that began it
 * @property {number | null} to deltas up to its end; null while it is open. An interrupted one ended at an unknown time
 *   before the delta that performs it again
 * @property {'running' | 'queued' | 'waiting' | 'succeeded' | 'failed' | 'cancelled' | 'interrupted'} status
 * @property {Row} row
 */

export const PLANNER = 'planner:';
export const PEOPLE = 'people:';
export const HANDLERS = 'handlers:';
/** Fields that make a task what it is; the others change as it runs. */
const DEFINITION = ['name', 'device', 'skill', 'inputs', 'env', 'folder', 'tasks', 'requires_approval'];
const EDITS = new Set(['constellation_submitted', 'planned', 'edited', 'answered']);

export class Story {
  /** @param {import('./cursor.js').Journal} journal */
  constructor(journal) {
    this.journal = journal;
    this.count = 0;
    /** @type {Rows} */
    this.rows = new Map();
    /** @type {Edit[]} */
    this.edits = [];
    /** @type {Map<string, Bar>} */
    this.bars = new Map();
    /** @type {{count: number, from: string, to: string}[]} changes of state */
    this.moves = [];
    this.state = '';
    /** @type {{count: number, delta: Delta}[]} the deltas by which another process resumed the run */
    this.resumes = [];
    this.owned = false;
    /** The fork that made the run from another one; its entries before are those of that one. @type {{count: number, at: number} | null} */
    this.fork = null;
  }

  /**
   * Return when the run began as a copy, in seconds since 1970; 0 among the first `count` entries if they are not its own.
   * @param {number} count
   */
  forkedAt(count) {
    return this.fork && this.fork.count <= count ? this.fork.at : 0;
  }

  /** Read the deltas that have arrived since. */
  read() {
    for (; this.count < this.journal.length; ) this.next(this.journal.deltas[this.count++]);
    return this;
  }

  /** @param {Delta} delta */
  next(delta) {
    const edit = EDITS.has(delta.kind) ? editOf(this.rows, delta) : null;
    const dropped = (delta.drop ?? []).map((id) => this.bars.get(id)).filter((bar) => bar !== undefined);
    apply(this.rows, delta);
    for (const bar of dropped) bar.to = this.count;
    for (const id of Object.keys(delta.put ?? {})) this.bar(id);
    if (delta.kind === 'forked') this.fork = { count: this.count, at: delta.at };
    if (delta.kind === 'ownership_acquired') {
      if (this.owned) this.resumes.push({ count: this.count, delta });
      this.owned = true;
    }
    if (edit) this.edits.push({ ...edit, count: this.count, delta, planning: this.planningOf(delta) });
    if (this.state && this.state !== delta.state) this.moves.push({ count: this.count, from: this.state, to: delta.state });
    this.state = delta.state;
  }

  /** @param {string} id */
  bar(id) {
    const kind = id.slice(0, id.indexOf(':'));
    if (kind !== 'attempt' && kind !== 'planning' && kind !== 'ask') return;
    const row = /** @type {Row} */ (this.rows.get(id));
    let bar = this.bars.get(id);
    if (bar?.to === null && row.retried_at !== bar.row.retried_at) {
      this.bars.delete(id);
      this.bars.set(`${id} until ${this.count}`, { ...bar, to: this.count, status: 'interrupted' });
      bar = undefined;
    }
    if (!bar || (kind === 'ask' && bar.to !== null)) {
      bar = { id, lane: this.laneOf(kind, row), part: row.part ?? '', name: '', from: this.count, to: null, status: 'running', row };
      this.bars.set(id, bar);
    }
    bar.row = row;
    bar.name = this.nameOf(kind, row);
    if (kind === 'ask') {
      bar.status = 'waiting';
      return;
    }
    if (bar.to === null && kind === 'attempt') {
      if (bar.status === 'queued' && !row.queued) bar.from = this.count; // the wait before it was no work
      bar.status = row.queued ? 'queued' : 'running';
    }
    if (row.ended_at !== undefined && bar.to === null) bar.to = this.count;
    if (bar.to !== null) bar.status = row.error || row.code || row.status === null || row.outcome === 'failed' ? 'failed' : row.abandoned ? 'cancelled' : 'succeeded';
  }

  /**
   * @param {string} kind
   * @param {Row} row
   */
  laneOf(kind, row) {
    if (kind === 'planning') return PLANNER;
    if (kind === 'ask') return PEOPLE;
    return row.device ?? this.rows.get(`task:${row.part}`)?.device ?? row.worker ?? HANDLERS;
  }

  /**
   * @param {string} kind
   * @param {Row} row
   */
  nameOf(kind, row) {
    if (kind === 'planning') return { CREATION: 'plan', EDITING: 'replan' }[/** @type {string} */ (row.mode)] ?? String(row.kind ?? 'plan').replaceAll('_', ' ');
    const task = this.rows.get(`task:${row.part}`);
    if (kind === 'ask' && !row.part) return 'question';
    const name = (typeof task?.name === 'string' && task.name) || row.part || row.skill || row.tool || row.kind || '';
    return typeof name === 'string' ? name : String(name.beginning ?? '');
  }

  /** @param {Delta} delta */
  planningOf(delta) {
    const own = Object.keys(delta.put ?? {}).find((id) => id.startsWith('planning:'));
    if (own) return this.rows.get(own) ?? null;
    if (delta.kind !== 'answered') return null;
    const last = [...this.rows.keys()].reverse().find((id) => id.startsWith('planning:'));
    return last ? (this.rows.get(last) ?? null) : null;
  }

  /**
   * Return the last edit that the first `count` deltas include.
   * @param {number} count
   */
  editAt(count) {
    return this.edits.findLast((edit) => edit.count <= count) ?? null;
  }
}

/**
 * Return how a delta changes the plan; null if it does not. Items of a fan-out are no change of the plan.
 * @param {Rows} before
 * @param {Delta} delta
 * @returns {Pick<Edit, 'created' | 'added' | 'removed' | 'changed'> | null}
 */
function editOf(before, delta) {
  const isPlan = (/** @type {string} */ id) => id.startsWith('task:') || id.startsWith('line:');
  /** @type {Edit['removed']} */
  const removed = new Map();
  /** @type {Edit['added']} */
  const added = new Set();
  /** @type {Edit['changed']} */
  const changed = new Map();
  for (const id of delta.drop ?? []) {
    const row = before.get(id);
    if (isPlan(id) && row && !row.item) removed.set(id, row);
  }
  for (const [id, fields] of Object.entries(delta.put ?? {})) {
    if (!isPlan(id) || fields.item) continue;
    const row = before.get(id);
    if (!row) added.add(id);
    else if (id.startsWith('task:')) {
      const names = DEFINITION.filter((name) => name in fields);
      if (names.length) changed.set(id, Object.fromEntries(names.map((name) => [name, [row[name], fields[name]]])));
    }
  }
  if (!added.size && !removed.size && !changed.size) return null;
  const created = ![...before.keys()].some(isPlan);
  return { created, added, removed, changed };
}
