// @ts-check
/** What differs between two runs, or between two entries of one. Pure. */
import { rowsOf } from '../fold.js';
import { statusOf } from '../status.js';
import { isLong, textOf } from '../words.js';

/** @typedef {import('../fold.js').Row} Row */
/** @typedef {import('../fold.js').Rows} Rows */
/**
 * @typedef {object} Difference a task, a field of a conversation, or the run itself, in both
 * @property {string} id id of its row
 * @property {string} name
 * @property {'same' | 'changed' | 'a' | 'b'} where `a` and `b` for one that only that side has
 * @property {string} [a] its status in the first; absent if it is not there
 * @property {string} [b]
 * @property {Record<string, [any, any]>} fields fields that differ, of both
 */
/** @typedef {{added: Set<string>, removed: Map<string, Row>, changed: Map<string, Record<string, [any, any]>>}} Marks */

/** Fields of a task that say what it is and what it came to; the others are of one run only. */
const TASK = ['name', 'device', 'skill', 'inputs', 'env', 'folder', 'tasks', 'requires_approval', 'result', 'error', 'reason', 'attempts'];
const RUN = ['reason', 'summary', 'request', 'name', 'limit'];
/** Lines of a text that are compared; of a longer one, all others count as different. */
const LINES = 400;

/**
 * Return the tasks of two states, the first one's in their order, then those that only the second has.
 * @param {Rows} a
 * @param {Rows} b
 * @returns {Difference[]}
 */
export function differences(a, b) {
  const found = [...union(a, b, 'task'), ...union(a, b, 'field')];
  const both = found.map((id) => differenceOf(id, a, b));
  const run = a.has('run') && b.has('run') ? differenceOf('run', a, b) : null;
  return run?.where === 'changed' ? [run, ...both] : both;
}

/**
 * @param {Rows} a
 * @param {Rows} b
 * @param {string} kind
 */
function union(a, b, kind) {
  const ids = new Set();
  for (const rows of [a, b]) {
    const sorted = [...rowsOf(rows, kind)].filter(([, row]) => !row.item).sort(([, x], [, y]) => (x.order ?? 0) - (y.order ?? 0));
    for (const [key] of sorted) ids.add(`${kind}:${key}`);
  }
  return [...ids];
}

/**
 * @param {string} id
 * @param {Rows} a
 * @param {Rows} b
 * @returns {Difference}
 */
function differenceOf(id, a, b) {
  const [one, other] = [a.get(id), b.get(id)];
  const row = /** @type {Row} */ (one ?? other);
  const isTask = id.startsWith('task:');
  const name = id === 'run' ? 'The run' : textOf(row.name) || id.slice(id.indexOf(':') + 1);
  const [before, after] = [one && wordOf(id, one, a), other && wordOf(id, other, b)];
  /** @type {Record<string, [any, any]>} */
  const fields = {};
  if (one && other) {
    if (before !== after) fields.status = [before, after];
    for (const field of isTask ? TASK : id === 'run' ? RUN : ['value']) if (!same(one[field], other[field])) fields[field] = [one[field], other[field]];
  }
  const where = !one ? 'b' : !other ? 'a' : Object.keys(fields).length ? 'changed' : 'same';
  return { id, name, where, a: before, b: after, fields };
}

/**
 * @param {string} id
 * @param {Row} row
 * @param {Rows} rows
 */
const wordOf = (id, row, rows) => (id.startsWith('task:') ? statusOf(row, rows) : id === 'run' ? String(row.outcome ?? row.state) : String(row.status));

/**
 * @param {any} a
 * @param {any} b
 */
function same(a, b) {
  if (isLong(a) && isLong(b)) return a.$long === b.$long && a.beginning === b.beginning;
  return textOf(a) === textOf(b);
}

/**
 * Return the marks of both plans: what only one of them has, and the tasks that differ.
 * @param {Difference[]} found
 * @param {Rows} a
 * @param {Rows} b
 * @returns {[Marks, Marks]}
 */
export function marksOf(found, a, b) {
  const changed = new Map(found.filter((it) => it.where === 'changed' && it.id !== 'run').map((it) => [it.id, it.fields]));
  const lines = (/** @type {Rows} */ rows, /** @type {Rows} */ others) => [...rowsOf(rows, 'line')].map(([key]) => `line:${key}`).filter((id) => !others.has(id));
  const only = (/** @type {string} */ side) => found.filter((it) => it.where === side).map((it) => it.id);
  const removed = new Map([...only('a'), ...lines(a, b)].map((id) => [id, /** @type {Row} */ (a.get(id))]));
  const added = new Set([...only('b'), ...lines(b, a)]);
  return [
    { added: new Set(), removed, changed },
    { added, removed: new Map(), changed },
  ];
}

/** @typedef {{run: {run_id: string, created_at: number}, origin: {run_id: string, is_retry: boolean} | null, at: number}} Compared a run at an entry, and what it was copied from */

/**
 * Return what each of two is to the other: the origin and its copy, or the earlier and the later one; empty for the same.
 * @param {Compared} a
 * @param {Compared} b
 * @returns {[string, string]}
 */
export function rolesOf(a, b) {
  for (const [copy, other, at] of /** @type {[Compared, Compared, number][]} */ ([[a, b, 0], [b, a, 1]])) {
    if (copy.origin?.run_id !== other.run.run_id) continue;
    const roles = [copy.origin.is_retry ? 'its retry' : 'its copy', 'the origin'];
    return /** @type {[string, string]} */ (at ? roles.reverse() : roles);
  }
  const later = a.run.run_id === b.run.run_id ? a.at - b.at : a.run.created_at - b.run.created_at;
  return later ? (later > 0 ? ['later', 'earlier'] : ['earlier', 'later']) : ['', ''];
}

/**
 * Return the differences in words: `2 tasks differ, 1 only in A`.
 * @param {Difference[]} found
 */
export function summaryOf(found) {
  const tasks = found.filter((it) => it.id !== 'run');
  const number = (/** @type {string} */ where) => tasks.filter((it) => it.where === where).length;
  const [changed, a, b, same] = ['changed', 'a', 'b', 'same'].map(number);
  const words = [changed ? `${changed} differ${changed === 1 ? 's' : ''}` : '', a ? `${a} only in A` : '', b ? `${b} only in B` : '', same ? `${same} the same` : ''];
  return words.filter(Boolean).join(' · ') || 'nothing to compare';
}

/**
 * Return the lines of two texts, each with whether the other text has it there, too.
 * @param {string} a
 * @param {string} b
 * @returns {[[string, boolean][], [string, boolean][]]}
 */
export function textDifference(a, b) {
  const [one, other] = [a.split('\n'), b.split('\n')];
  const [n, m] = [Math.min(one.length, LINES), Math.min(other.length, LINES)];
  const longest = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1));
  for (let i = n - 1; i >= 0; i--) for (let j = m - 1; j >= 0; j--) longest[i][j] = one[i] === other[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
  const [left, right] = [one.map(() => false), other.map(() => false)];
  for (let i = 0, j = 0; i < n && j < m; ) {
    if (one[i] === other[j]) [left[i++], right[j++]] = [true, true];
    else if (longest[i + 1][j] >= longest[i][j + 1]) i++;
    else j++;
  }
  return [one.map((line, at) => [line, left[at]]), other.map((line, at) => [line, right[at]])];
}
