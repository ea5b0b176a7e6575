// @ts-check
/** Links from the page of a run to a comparison: with its origin, and with an entry that somebody has marked. */

import { store, stored } from './stored.js';

/** @typedef {import('./actions.js').Action} Action */

const STORED = 'asterism.marked';
/** Characters of an entry's address: longer text there is of somebody else. */
const MOST = 300;

/** Return the address of the marked entry, `RUN@SEQ`; empty if none is marked in this tab. */
function marked() {
  const text = stored('sessionStorage', STORED);
  return /^[^@\s]+@\d+$/.test(text) && text.length < MOST ? text : '';
}

/**
 * Return the comparisons of a run.
 * @param {import('./site.js').Site} site
 * @param {string} run id
 * @param {number} seq entry at the cursor
 * @param {number} forked entry that made the run a fork; 0 if it is none
 * @param {() => void} later draws the page again
 * @returns {Action[]}
 */
export function comparisons(site, run, seq, forked, later) {
  const here = `${run}@${seq}`;
  const other = marked();
  const compare = (/** @type {string} */ a, /** @type {string} */ b) => site.go(`/compare?${new URLSearchParams({ a, b })}`);
  const mark = () => {
    store('sessionStorage', STORED, here);
    later();
    site.toast(`Entry ${seq} is marked. Go to another entry or run, and compare it.`);
  };
  const origin = async () => {
    const { body } = await site.api.get(`/api/runs/${encodeURIComponent(run)}/entries/${forked}`);
    compare(body.event.origin, run);
  };
  const failed = (/** @type {Error} */ error) => site.toast(`Not done: ${error.message}`);
  return [
    ...(forked ? [{ name: 'Compare with its origin', glyph: 'diff', title: 'What differs between this run and the one that it is a fork of', run: () => void origin().catch(failed) }] : []),
    ...(other && other !== here ? [{ name: 'Compare with the marked entry', glyph: 'diff', title: `Entry ${other.split('@')[1]} of run ${other.split('@')[0]}`, run: () => compare(other, here) }] : []),
    ...(other === here ? [] : [{ name: 'Mark this entry', glyph: 'mark', title: 'To compare another entry, or another run, with it', run: mark }]),
  ];
}
