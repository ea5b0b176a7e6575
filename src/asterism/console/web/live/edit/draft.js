// @ts-check
/** Edits of a plan that somebody draws: they are collected, shown in the plan, and sent as one batch. Pure. */
import { rowsOf } from '../../fold.js';
import { lineRow, taskRow } from './planned.js';

/** @typedef {import('../../fold.js').Row} Row */
/** @typedef {import('../../fold.js').Rows} Rows */
/** @typedef {import('../../player/story.js').Edit} Edit */
/** @typedef {{tool: string, parameters: Record<string, any>}} Action an edit, as the API takes it */

/** Edits of one batch: as many as a reader can review. */
export const MOST = 100;
const EDITABLE = new Set(['PENDING', 'WAITING_DEPENDENCY']);

/** Return true if a task has not started, so that it can be edited. */
export const isEditable = (/** @type {Row | undefined} */ task) => !!task && !task.item && EDITABLE.has(task.status);

export class Draft {
  constructor() {
    /** @type {Action[]} */
    this.actions = [];
  }

  /**
   * Add an edit. Returns why it cannot be; empty if it was added.
   * @param {Action} action
   * @param {Rows} rows of the run
   */
  add(action, rows) {
    if (this.actions.length >= MOST) return `A batch has at most ${MOST} edits. Send these first.`;
    const drawn = this.applied(rows).rows;
    const why = whyNot(action, drawn);
    if (why) return why;
    const { tool, parameters } = action;
    if (tool === 'remove_task') {
      const isOwn = this.actions.some((it) => it.tool === 'add_task' && it.parameters.task_id === parameters.task_id);
      this.actions = this.actions.filter((it) => !touches(it, parameters.task_id));
      if (isOwn) return '';
    }
    const own = tool === 'remove_dependency' ? this.actions.findIndex((it) => it.tool === 'add_dependency' && lineRow(it.parameters).id === parameters.dependency_id) : -1;
    if (own >= 0) this.actions.splice(own, 1);
    else this.actions.push(action);
    return '';
  }

  /**
   * Take an edit back, and those that need it.
   * @param {number} at
   */
  remove(at) {
    const [gone] = this.actions.splice(at, 1);
    if (gone?.tool === 'add_task') this.actions = this.actions.filter((it) => !touches(it, gone.parameters.task_id));
  }

  /**
   * Return the rows with the edits in them, what they change, and why some of them no longer can be.
   * @param {Rows} rows of the run; not changed
   * @returns {{rows: Rows, edit: Edit | null, problems: string[]}} problems: one for each edit, empty for none
   */
  applied(rows) {
    if (!this.actions.length) return { rows, edit: null, problems: [] };
    const drawn = new Map(rows);
    const problems = this.actions.map((action) => {
      const why = whyNot(action, drawn);
      if (!why) apply(action, drawn);
      return why;
    });
    const added = new Set([...drawn.keys()].filter((id) => !rows.has(id)));
    const removed = new Map([...rows].filter(([id]) => !drawn.has(id)));
    const delta = /** @type {any} */ ({ seq: 0, at: 0, kind: 'edited', actor: '', state: '' });
    return { rows: drawn, edit: { count: 0, delta, created: false, added, removed, changed: new Map(), planning: null }, problems };
  }
}

/**
 * Return an edit in words.
 * @param {Action} action
 * @param {Rows} rows
 */
export function actionWords({ tool, parameters }, rows) {
  const name = (/** @type {string} */ id) => rows.get(`task:${id}`)?.name || id;
  const line = rows.get(`line:${parameters.dependency_id}`);
  switch (tool) {
    case 'add_task':
      return `Add ${parameters.name || parameters.task_id}${parameters.device ? ` on ${parameters.device}` : ''}`;
    case 'remove_task':
      return `Remove ${name(parameters.task_id)}`;
    case 'add_dependency':
      return `${name(parameters.to)} waits for ${name(parameters.from)}${parameters.condition ? ` if ${parameters.condition}` : ''}`;
    default:
      return line ? `${name(line.to)} no longer waits for ${name(line.from)}` : `Remove ${parameters.dependency_id}`;
  }
}

/**
 * Return why an edit cannot be; empty if it can. The server checks more.
 * @param {Action} action
 * @param {Rows} rows
 */
export function whyNot({ tool, parameters }, rows) {
  const task = (/** @type {string} */ id) => rows.get(`task:${id}`);
  const started = (/** @type {string} */ id) => (!task(id) ? `There is no task ${id}.` : isEditable(task(id)) ? '' : `${task(id)?.name || id} has started, and cannot be edited.`);
  switch (tool) {
    case 'add_task':
      return task(parameters.task_id) ? `There is a task ${parameters.task_id} already.` : '';
    case 'remove_task': {
      const after = [...rowsOf(rows, 'line')].map(([, line]) => line).find((line) => line.from === parameters.task_id && !isEditable(task(line.to)));
      return started(parameters.task_id) || (after ? started(after.to) : '');
    }
    case 'add_dependency': {
      const { from, to } = parameters;
      if (from === to) return 'A task cannot wait for itself.';
      if (!task(from)) return `There is no task ${from}.`;
      if (started(to)) return started(to);
      if ([...rowsOf(rows, 'line')].some(([, line]) => line.from === from && line.to === to)) return `${task(to)?.name || to} waits for ${task(from)?.name || from} already.`;
      return reached(to, neighbors(rows, 'from', 'to')).has(from) ? `${task(from)?.name || from} waits for ${task(to)?.name || to}; both would wait for each other.` : '';
    }
    default: {
      const line = rows.get(`line:${parameters.dependency_id}`);
      return line ? started(line.to) : `There is no dependency ${parameters.dependency_id}.`;
    }
  }
}

/**
 * @param {Action} action
 * @param {Rows} rows changed in place
 */
function apply({ tool, parameters }, rows) {
  if (tool === 'add_task') rows.set(`task:${parameters.task_id}`, taskRow(parameters, rows.size));
  else if (tool === 'remove_task') {
    rows.delete(`task:${parameters.task_id}`);
    for (const [id, line] of [...rowsOf(rows, 'line')]) if (line.from === parameters.task_id || line.to === parameters.task_id) rows.delete(`line:${id}`);
  } else if (tool === 'add_dependency') {
    const { id, row } = lineRow(parameters);
    rows.set(`line:${id}`, row);
  } else rows.delete(`line:${parameters.dependency_id}`);
}

/**
 * Return true if an edit is about a task.
 * @param {Action} action
 * @param {string} task
 */
const touches = ({ parameters }, task) => [parameters.task_id, parameters.from, parameters.to].includes(task);

/**
 * Return the tasks for which a task may be made to wait, and those that may be made to wait for it: what `whyNot` says of each.
 * @param {string} id
 * @param {Rows} rows
 * @returns {[string[], string[]]}
 */
export function partnersOf(id, rows) {
  const tasks = [...rowsOf(rows, 'task')].filter(([, task]) => !task.item);
  const [next, before] = [neighbors(rows, 'from', 'to'), neighbors(rows, 'to', 'from')];
  const [later, earlier] = [reached(id, next), reached(id, before)];
  const [after, waits] = [next, before].map((it) => new Set(it.get(id)));
  const sources = isEditable(rows.get(`task:${id}`)) ? tasks.filter(([other]) => !later.has(other) && !waits.has(other)) : [];
  const targets = tasks.filter(([other, task]) => isEditable(task) && !earlier.has(other) && !after.has(other));
  return [sources.map(([other]) => other), targets.map(([other]) => other)];
}

/**
 * Return the tasks at the other end of the dependencies of each task.
 * @param {Rows} rows
 * @param {'from' | 'to'} near
 * @param {'from' | 'to'} far
 */
function neighbors(rows, near, far) {
  /** @type {Map<string, string[]>} */
  const found = new Map();
  for (const [, line] of rowsOf(rows, 'line')) {
    const others = found.get(line[near]);
    if (others) others.push(line[far]);
    else found.set(line[near], [line[far]]);
  }
  return found;
}

/**
 * Return a task and all that can be reached from it.
 * @param {string} id
 * @param {Map<string, string[]>} next
 */
function reached(id, next) {
  const seen = new Set([id]);
  for (const at of seen) for (const it of next.get(at) ?? []) seen.add(it);
  return seen;
}
