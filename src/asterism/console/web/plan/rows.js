// @ts-check
/** The rows that a plan is drawn from, and its labels. Pure. */
import { rowsOf } from '../fold.js';
import { brief, named } from '../words.js';

/** @typedef {import('../fold.js').Row} Row */
/** @typedef {import('../fold.js').Rows} Rows */
/** @typedef {import('../player/story.js').Edit} Edit */
/** @typedef {{tasks: Map<string, Row>, lines: Map<string, Row>}} Plan rows by the ids of tasks and dependencies */

/** Letters of a label. */
const CHIP = 26;
const TYPES = /** @type {Record<string, string>} */ ({ COMPLETION_ONLY: 'completed or failed', UNCONDITIONAL: 'always' });

/**
 * Return the rows of the tasks and dependencies to draw: the plan, and what the edit has removed from it.
 * @param {Rows} rows
 * @param {Edit | null} edit
 * @returns {Plan}
 */
export function drawnRows(rows, edit) {
  /** @type {Map<string, Row>} */
  const tasks = new Map();
  /** @type {Map<string, Row>} */
  const lines = new Map();
  const plan = [...rowsOf(rows, 'task')].filter(([, row]) => !row.item).sort(([, a], [, b]) => (a.order ?? 0) - (b.order ?? 0));
  for (const [id, row] of plan) tasks.set(id, row);
  for (const [id, row] of rowsOf(rows, 'line')) lines.set(id, row);
  for (const [id, row] of edit?.removed ?? []) (id.startsWith('task:') ? tasks : lines).set(id.slice(5), row);
  return { tasks, lines };
}

/**
 * Return true if two plans have the same layout: the same tasks in the same order, and the same dependencies.
 * @param {Plan} a
 * @param {Plan} b
 */
export function sameShape(a, b) {
  if (a.tasks.size !== b.tasks.size || a.lines.size !== b.lines.size) return false;
  const ids = a.tasks.keys();
  for (const id of b.tasks.keys()) if (ids.next().value !== id) return false;
  for (const [id, line] of b.lines) {
    const other = a.lines.get(id);
    if (other === line) continue;
    if (!other || other.from !== line.from || other.to !== line.to || other.type !== line.type || labelTitle(other) !== labelTitle(line)) return false;
  }
  return true;
}

/**
 * Return the label of a dependency; empty for one that waits for success.
 * @param {Row} line
 */
export const labelOf = (line) => (labelTitle(line) ? brief(labelTitle(line), CHIP) : '');

/**
 * Return the label of a dependency in full.
 * @param {Row} line
 * @returns {string}
 */
export const labelTitle = (line) => line.condition ?? TYPES[line.type] ?? '';

/**
 * Return when a handler runs; empty for another task.
 * @param {Row} row
 * @returns {string}
 */
export const roleOf = (row) => (row.role ?? '').replaceAll('_', ' ');

/**
 * Return how an edit changed a row; empty without an edit.
 * @param {Edit | null} edit
 * @param {string} id
 */
export const markOf = (edit, id) => (!edit ? '' : edit.added.has(id) ? 'added' : edit.removed.has(id) ? 'removed' : edit.changed.has(id) ? 'changed' : 'same');

/**
 * Return how a dependency is drawn: by what an edit did to it, else by whether it is satisfied.
 * @param {Row} line
 * @param {string} mark
 */
export const stateOf = ({ satisfied }, mark) => (mark === 'added' || mark === 'removed' ? mark : satisfied === true ? 'ok' : satisfied === false ? 'bad' : 'idle');

/**
 * Return what the run decides or waits for as a whole; empty for nothing.
 * @param {Row} run
 */
export function runNote(run) {
  if (run.ended) return '';
  const about = run.deciding?.about?.length ? ` about ${run.deciding.about.join(', ')}` : '';
  if (run.paused) return run.limit ? `Paused: ${brief(run.limit)}` : 'Paused';
  if (run.deciding?.by === 'planner') return `The planner decides${about}`;
  if (run.deciding?.by === 'person') return `A person decides about the plan${about}`;
  return run.stage && run.state ? named(String(run.stage)) : '';
}
