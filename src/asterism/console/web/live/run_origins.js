// @ts-check
/** Of which run a listed one is a copy, and what came of the retry of a listed one. */
import { h } from '../dom.js';
import { brief } from '../words.js';
import { pageOf, statusOfRun } from './run_words.js';
import { dayTime } from './times.js';

/** @typedef {import('./run_words.js').Run} Run */
/** @typedef {{run_id: string, seq: number, is_retry: boolean, created_at: number}} Origin what a run was copied from, as the API returns it */

/** Characters of a title beside another one. */
const SHORT = 28;

export class RunOrigins {
  /** @param {import('./api.js').Api} api */
  constructor(api) {
    this.api = api;
    /** @type {Map<string, Origin | null>} by the id of a run; null for a later one of its session */
    this.known = new Map();
    /** @type {Map<string, Run>} the last retry of a run, by its id */
    this.retries = new Map();
  }

  /**
   * Read the origins of the runs, one after the other. An origin never changes, so each is read once.
   * @param {Run[]} runs newest first
   */
  async read(runs) {
    for (const { run_id: id, session, parent } of runs) {
      if (session === id || parent || this.known.has(id)) continue;
      const found = await this.api.get(`/api/runs/${encodeURIComponent(id)}`).catch(() => null); // read again with the next list
      if (found) this.known.set(id, found.origin);
    }
    this.retries = retriesOf(runs, this.known);
  }

  /**
   * Return links to the origin of a run, and to its retry.
   * @param {Run} run
   * @param {number} now
   */
  links(run, now) {
    const origin = this.known.get(run.run_id);
    const retry = this.retries.get(run.run_id);
    const link = (/** @type {string} */ id, /** @type {string} */ kind, /** @type {string} */ text) => h('a', { class: 'of-session', href: pageOf({ ...run, run_id: id }), title: id, 'data-key': `${kind} ${run.run_id}`, dir: 'auto' }, text);
    const from = origin && `${origin.is_retry ? 'retry' : 'copy'} of ${origin.created_at ? `${brief(run.title, SHORT)}, ${dayTime(origin.created_at, now)}` : origin.run_id}`;
    return [origin && from ? link(origin.run_id, 'origin', from) : origin === null ? h('span', { class: 'mute of-session', title: run.session }, 'later run of a session') : null, retry ? link(retry.run_id, 'retry', `retried: ${statusOfRun(retry)[1].toLowerCase()}`) : null];
  }
}

/**
 * Return the last retry of each run that has one, by the id of the run.
 * @param {Run[]} runs newest first
 * @param {Map<string, Origin | null>} origins
 * @returns {Map<string, Run>}
 */
export function retriesOf(runs, origins) {
  const found = new Map();
  for (const run of runs) {
    const origin = origins.get(run.run_id);
    if (origin?.is_retry && !found.has(origin.run_id)) found.set(origin.run_id, run);
  }
  return found;
}
