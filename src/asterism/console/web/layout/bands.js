// @ts-check
/** Folding: a plan of many ranks becomes several bands side by side, cut where few edges cross. */

/** Space between two bands without the edges that turn there, and for each such edge. */
const GUTTER = 48;
const LANE = 7;
/** Space above and below the ranks of a folded plan, for the turns. */
const MARGIN = 26;

/**
 * @typedef {object} Bands
 * @property {number[]} band band of each rank
 * @property {number[]} top start of each rank along the main axis
 * @property {number[]} shift offset of each band across
 * @property {number[]} left start of each band across
 * @property {number[]} turns edges that turn into each band
 * @property {number} main extent along the main axis
 * @property {number} across
 */

/**
 * Return the bands of a plan.
 * @param {import('./ranks.js').Layered} graph
 * @param {number[][]} rows
 * @param {number[]} x center of each node and point across
 * @param {number[]} size
 * @param {number[]} deep extent of each rank along the main axis
 * @param {number[]} gaps space after each rank
 * @param {number} wanted bands at most
 * @returns {Bands}
 */
export function folded(graph, rows, x, size, deep, gaps, wanted) {
  const waist = rows.map((row) => row.reduce((sum, node) => sum + graph.down[node].length, 0));
  const cuts = cutsOf(deep, gaps, waist, wanted);
  const band = rows.map((_, r) => cuts.filter((cut) => cut < r).length);
  const turns = [0, ...cuts.map((cut) => waist[cut])];
  const margin = cuts.length ? MARGIN + 3 * Math.max(...turns) : 0;
  const top = rows.map(() => 0);
  /** @type {number[]} */
  const shift = [];
  /** @type {number[]} */
  const left = [];
  let across = 0;
  let main = 0;
  for (let b = 0; b <= cuts.length; b++) {
    let low = Infinity;
    let high = -Infinity;
    let end = margin;
    rows.forEach((row, r) => {
      if (band[r] !== b) return;
      top[r] = end;
      end += deep[r] + gaps[r];
      main = Math.max(main, top[r] + deep[r]);
      for (const node of row) {
        low = Math.min(low, x[node] - size[node] / 2);
        high = Math.max(high, x[node] + size[node] / 2);
      }
    });
    if (low > high) continue;
    if (b) across += GUTTER + LANE * turns[b];
    left.push(across);
    shift.push(across - low);
    across += high - low;
  }
  return { band, top, shift, left, turns, main: main + margin, across };
}

/**
 * Return the ranks after which a band ends.
 * @param {number[]} deep
 * @param {number[]} gaps
 * @param {number[]} waist edges that leave each rank
 * @param {number} wanted
 */
function cutsOf(deep, gaps, waist, wanted) {
  const whole = deep.reduce((sum, it, r) => sum + it + gaps[r], 0);
  /** @type {number[]} */
  const cuts = [];
  for (let k = 1; k < wanted; k++) {
    let sum = 0;
    let found = -1;
    let least = Infinity;
    for (let r = 0; r + 1 < deep.length; r++) {
      sum += deep[r] + gaps[r];
      const cost = (Math.abs(sum - (whole * k) / wanted) / whole) * wanted * 6 + waist[r];
      if (cost < least && r > (cuts.at(-1) ?? -1) + 1) {
        least = cost;
        found = r;
      }
    }
    if (found >= 0) cuts.push(found);
  }
  return cuts;
}

/**
 * Return the place of the lane in the gutter before a band.
 * @param {Bands} bands
 * @param {number} b
 * @param {number} lane number of the edge that turns there, from 0
 */
export function gutter(bands, b, lane) {
  return bands.left[b] - GUTTER / 2 - LANE * (bands.turns[b] - lane) + LANE / 2;
}
