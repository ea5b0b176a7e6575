// @ts-check
/** The runs of a list in words. Pure. */

import { rowsOf } from '../fold.js';

/** @typedef {import('../status.js').Status} Status */
/**
 * A run, as the API lists it.
 * @typedef {object} Run
 * @property {string} run_id
 * @property {string} machine
 * @property {string} session the run itself, or the one that it continues or copies
 * @property {string} parent empty for a root
 * @property {string} title
 * @property {string} state
 * @property {'active' | 'paused' | 'waiting' | 'ended'} status
 * @property {string} outcome
 * @property {boolean} driven a process drives it
 * @property {number} seq
 * @property {number} created_at seconds since 1970
 * @property {number} updated_at
 * @property {string} problem why it is stuck
 */

/** What a list can be narrowed to. */
export const STATUSES = { active: 'Active', waiting: 'Waiting for a person', paused: 'Paused', ended: 'Ended', finished: 'Finished', failed: 'Failed', cancelled: 'Cancelled' };

/** How a run can end. */
const OUTCOMES = /** @type {Record<string, [Status, string]>} */ ({ finished: ['succeeded', 'Finished'], failed: ['failed', 'Failed'], cancelled: ['cancelled', 'Cancelled'] });

/**
 * Return the status of a run for its glyph, and in words.
 * @param {Run} run
 * @param {boolean} [isQueued] all that it has begun waits for a place of a device
 * @returns {[Status, string]}
 */
export function statusOfRun(run, isQueued = false) {
  if (run.status === 'ended') return OUTCOMES[run.outcome] ?? ['skipped', run.outcome || 'Ended'];
  if (run.problem && !run.driven) return ['partial', 'Stuck'];
  if (run.status === 'waiting') return ['waiting', 'Waiting'];
  if (run.status === 'paused') return ['pending', 'Paused'];
  if (run.driven) return isQueued ? ['ready', 'Queued'] : ['running', 'Running'];
  return run.seq <= 1 ? ['ready', 'Queued'] : ['ready', 'Interrupted'];
}

/**
 * Return true if a run, with those that it has started, does nothing but wait for places of devices.
 * @param {Run} run
 * @param {import('./device_rows.js').Attempt[]} attempts those under way, and those that wait
 */
export function isQueued(run, attempts) {
  const own = attempts.filter(({ run_id: id, ended_at: ended, child }) => ended === null && !child && (id === run.run_id || id.startsWith(`${run.run_id}.`)));
  return own.length > 0 && own.every(({ status }) => status === 'queued');
}

/**
 * Return the query of the API for what a list is narrowed to: `status` is also how a run has ended there, and `since` and
 * `until` are days of the reader, both included.
 * @param {URLSearchParams} query
 */
export function asked(query) {
  const found = new URLSearchParams(query);
  for (const [name, bound, days] of /** @type {const} */ ([['since', 'created_from', 0], ['until', 'created_before', 1]])) {
    const day = new Date(`${found.get(name)}T00:00`);
    const at = day.setDate(day.getDate() + days) / 1000;
    found.delete(name);
    if (at) found.set(bound, String(at));
  }
  const status = found.get('status') ?? '';
  if (Object.hasOwn(OUTCOMES, status)) {
    found.delete('status');
    found.set('outcome', status);
  }
  return found;
}

/**
 * Return how long a run has lasted in seconds; nobody works on one that is interrupted.
 * @param {Run} run
 * @param {number} now seconds since 1970
 */
export function lasted(run, now) {
  const isOver = run.status === 'ended' || (run.status === 'active' && !run.driven);
  return (isOver ? run.updated_at : now) - run.created_at;
}

/**
 * Return true if a run, or one that it has started, asks a question.
 * @param {Run} run
 * @param {string[]} asking ids of the runs with open questions
 */
export const isAsking = (run, asking) => run.status !== 'ended' && asking.some((id) => id === run.run_id || id.startsWith(`${run.run_id}.`));

/**
 * Return the address of a run's page; a conversation has a page of its own.
 * @param {{run_id: string, machine: string}} run
 */
export const pageOf = ({ run_id, machine }) => `/${machine === 'flow agent' ? 'conversations' : 'runs'}/${encodeURIComponent(run_id)}`;

/**
 * Return the ids of the tasks that run again with others, if these complete: those that were skipped because of them.
 * @param {import('../fold.js').Rows} rows
 * @param {string[]} failed ids of the tasks that are retried
 */
export function skippedAfter(rows, failed) {
  const found = new Set(failed);
  for (const id of found) {
    for (const [, line] of rowsOf(rows, 'line')) if (line.from === id && rows.get(`task:${line.to}`)?.status === 'SKIPPED') found.add(line.to);
  }
  return [...found].slice(failed.length);
}
