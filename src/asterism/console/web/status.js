// @ts-check
/** The status of tasks and steps, as the page draws them. Pure. */
import { rowsOf } from './fold.js';
import { brief, count, duration, moment } from './words.js';

/** @typedef {import('./fold.js').Row} Row */
/** @typedef {import('./fold.js').Rows} Rows */
/** @typedef {'pending' | 'ready' | 'running' | 'waiting' | 'succeeded' | 'partial' | 'failed' | 'skipped' | 'cancelled'} Status */

const STATUSES = /** @type {Record<string, Status>} */ ({
  PENDING: 'pending',
  WAITING_DEPENDENCY: 'pending',
  RUNNING: 'running',
  COMPLETED: 'succeeded',
  FAILED: 'failed',
  CANCELLED: 'cancelled',
  SKIPPED: 'skipped',
  planned: 'pending',
  ready: 'ready',
  running: 'running',
  waiting: 'waiting',
  ok: 'succeeded',
  skipped: 'skipped',
  cancelled: 'cancelled',
});

/**
 * Return the status of a task or step: one that waits for a person, a time or an event is `waiting`, also if a child run
 * asks. A fan-out that has completed without some of its items is `partial`.
 * @param {Row} row
 * @param {Rows} rows
 * @returns {Status}
 */
export function statusOf(row, rows) {
  if (row.ask && rows.has(`ask:${row.ask}`)) return 'waiting';
  if (row.effect && rows.get(`child:${row.effect}`)?.blocked) return 'waiting';
  if (row.waits) return 'waiting';
  if (row.queued) return 'ready';
  const status = STATUSES[row.status] ?? 'failed';
  return status === 'succeeded' && row.items?.failed ? 'partial' : status;
}

/** Statuses after which nothing more happens to a task. */
const SETTLED = new Set(['succeeded', 'partial', 'failed', 'skipped', 'cancelled']);

/**
 * Return for how many seconds the attempts at each task have been under way. The time in which an attempt waits for a place
 * of its device is none of them.
 * @param {Rows} rows
 * @param {number} now seconds since 1970
 * @returns {Map<string, number>} by task; without those that have no attempt
 */
export function workedIn(rows, now) {
  const found = new Map();
  for (const [, { part, queued, begun_at: begun, began_at: began, ended_at: ended }] of rowsOf(rows, 'attempt')) {
    if (part) found.set(part, (found.get(part) ?? 0) + (queued ? 0 : Math.max(0, (ended ?? now) - (begun ?? began))));
  }
  return found;
}

/**
 * Return how long a task has been under way, in seconds; -1 for one that has not begun.
 * @param {string} id
 * @param {Row} row
 * @param {Status} status
 * @param {number} now seconds since 1970
 * @param {Map<string, number>} worked
 */
export function tookOf(id, row, status, now, worked) {
  if (!row.started_at || row.queued || !(SETTLED.has(status) || row.status === 'RUNNING')) return -1;
  return worked.get(id) ?? (status === 'waiting' ? -1 : (row.ended_at ?? now) - row.started_at);
}

/**
 * Return the second line of a task: its device, and its time or what it waits for. Items come before the device, because
 * the end of a long line is cut.
 * @param {Row} row
 * @param {Status} status
 * @param {number} now seconds since 1970
 * @param {number} [worked] seconds in which its attempts were under way; by default from its start
 */
export function taskWords(row, status, now, worked) {
  const words = [row.device ?? row.worker, row.items ? itemWords(row.items, '') : stateWords(row, status, now, worked)].filter(Boolean);
  return (row.items ? words.reverse() : words).join(' · ');
}

/**
 * @param {Row} row
 * @param {Status} status
 * @param {number} now
 * @param {number} [worked]
 */
function stateWords(row, status, now, worked) {
  if (row.waits) return `for ${waitWords(row.waits)}`;
  if (status === 'waiting') return row.child ? 'its run waits' : 'needs you';
  if (row.queued && status === 'ready') return 'queued';
  if (row.not_before && row.not_before > now && status === 'pending') return `again in ${duration(row.not_before - now)}`;
  if (status === 'skipped' || status === 'cancelled') return status;
  if (row.started_at && status !== 'pending') return duration(worked ?? (row.ended_at ?? now) - row.started_at);
  return row.skill ? brief(row.skill, 24) : '';
}

/**
 * Return in words what a task waits for.
 * @param {Row} wait
 */
export const waitWords = (wait) => wait.event || moment(wait.until);

/**
 * Return the items of a fan-out in words: `3 of 4 items, 1 failed`.
 * @param {Row} items
 * @param {string} [noun] empty where there is little room
 */
export function itemWords(items, noun = 'item') {
  const total = items.total ?? 0;
  return [`${items.completed ?? 0} of ${noun ? count(total, noun) : total}`, ...outcomes(items)].join(', ');
}

/**
 * Return how many did not complete, in words: `1 failed`, `2 cancelled`.
 * @param {Row} counts
 */
const outcomes = (counts) => ['failed', 'cancelled', 'skipped'].filter((it) => counts[it]).map((it) => `${counts[it]} ${it}`);

/**
 * Return the statuses of tasks in words: how many of them completed, and how the others ended.
 * @param {Status[]} statuses
 */
export function progressWords(statuses) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const status of statuses) counts[status] = (counts[status] ?? 0) + 1;
  return [`${(counts.succeeded ?? 0) + (counts.partial ?? 0)} of ${statuses.length} completed`, ...outcomes(counts)].join(', ');
}
