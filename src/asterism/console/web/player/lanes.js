// @ts-check
/** The bars of a lane in rows, so that no two overlap. Pure. */

/** @typedef {import('./story.js').Bar} Bar */
/**
 * One bar, or several that follow each other and together are too narrow to tell apart.
 * @typedef {object} Placed
 * @property {Bar[]} bars
 * @property {Bar['status']} status the one of them that needs most attention
 * @property {number} row
 * @property {number} from place on the axis, from 0 to 1; of a bar that begins before the axis, 0
 * @property {number} to
 * @property {number} room part of the axis up to the next bar of the row, where a name may continue
 */

/** Rows of one lane at most; further bars share the last one. */
const ROWS = 12;
/** Statuses, the one first that a group of bars has if any of them has it. */
const ATTENTION = ['failed', 'waiting', 'interrupted', 'running', 'queued', 'cancelled', 'succeeded'];

/**
 * Return where a bar begins and ends; one that is open reaches the end of the axis.
 * @param {Bar} bar
 * @param {import('./scale.js').Scale} scale
 * @returns {[from: number, to: number]}
 */
export const span = (bar, scale) => [scale.place(bar.from), scale.place(bar.to ?? Infinity)];

/**
 * Place the bars of a lane, of which each is on the axis at least in part.
 * @param {Bar[]} bars in the order of their beginnings
 * @param {import('./scale.js').Scale} scale
 * @param {number} narrow part of the axis below which bars that follow each other are one
 * @returns {{placed: Placed[], rows: number}}
 */
export function inRows(bars, scale, narrow) {
  /** @type {number[]} */
  const ends = [];
  /** @type {Placed[]} */
  const placed = [];
  /** @type {Placed[]} the last one of each row */
  const last = [];
  for (const bar of bars) {
    let row = ends.findIndex((end) => end <= bar.from);
    if (row < 0) row = ends.length < ROWS ? ends.length : ROWS - 1;
    ends[row] = bar.to ?? Infinity;
    const [from, to] = span(bar, scale).map((x) => Math.min(1, Math.max(0, x)));
    const before = last[row];
    if (before && to - before.from < narrow) {
      before.bars.push(bar);
      before.to = Math.max(before.to, to);
      if (ATTENTION.indexOf(bar.status) < ATTENTION.indexOf(before.status)) before.status = bar.status;
      continue;
    }
    if (before) before.room = from - before.from;
    placed.push((last[row] = { bars: [bar], status: bar.status, row, from, to, room: 1.02 - from }));
  }
  return { placed, rows: ends.length };
}
