// @ts-check
/** Commands to runs: sent once, and what the run says to them. */
import { newKey } from './api.js';

/** @typedef {import('./site.js').Site} Site */

/** Requests for one command: it has a key, so one that arrives twice is carried out once. */
const TRIES = 3;
const PAUSE_MS = 1000;

/** The keys of requests that have no answer. Somebody who gives such a command again means the same one. @type {Map<string, string>} */
const open = new Map();
/** Requests without an answer whose keys are known. */
const MOST = 100;

/**
 * Send a request that has an idempotency key, again if there is no answer.
 * @param {Site} site
 * @param {string} path
 * @param {any} body
 * @returns {Promise<any>}
 * @throws {import('./api.js').Problem}
 */
export async function sendOnce(site, path, body) {
  const request = JSON.stringify([path, body]);
  const key = open.get(request) ?? newKey();
  open.set(request, key);
  for (const oldest of [...open.keys()].slice(0, -MOST)) open.delete(oldest);
  for (let tries = 1; ; tries++) {
    try {
      const answer = await site.api.send('POST', path, body, { key });
      open.delete(request);
      return answer;
    } catch (error) {
      const isLost = /** @type {any} */ (error).status === 0;
      if (!isLost) open.delete(request);
      if (!isLost || tries >= TRIES) throw error;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }
}

/**
 * Send a command to a run.
 * @param {Site} site
 * @param {string} run
 * @param {{command: string} & Record<string, any>} body
 * @param {string} done what the run has done, in words
 * @returns {Promise<{text: string, run: string}>} what to say, and the run; of a fork and a retry of an ended run, the new one
 * @throws {import('./api.js').Problem} the run refuses it
 */
export async function command(site, run, body, done) {
  const verdict = await sendOnce(site, `/api/runs/${encodeURIComponent(run)}/commands`, body);
  const text = verdict.verdict === 'accepted' ? done : 'Sent. The run has not taken it yet.';
  return { text, run: verdict.run_id };
}
