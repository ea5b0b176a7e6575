// @ts-check
/** Paths of edges: straight through each rank, a smooth step between ranks, rounded corners between bands. */
import { gutter } from './bands.js';

const CORNER = 9;
/** Distance of a label from the node that it stands at. */
const LABEL = 8;

/** @typedef {{main: number, across: number, band: number}} Point */
/**
 * @typedef {object} Route
 * @property {string} d path data
 * @property {import('../viewport.js').Box} box what the points of the path span
 * @property {number} x center of the label
 * @property {number} y
 */

/**
 * Return the path and the place of the label of each edge, by edge id.
 * @param {import('./ranks.js').Layered} graph
 * @param {import('./bands.js').Bands} bands
 * @param {number[]} x
 * @param {number[]} thick extent of each node along the main axis
 * @param {number[]} deep
 * @param {boolean} sideways the main axis is horizontal
 * @returns {Map<string, Route>}
 */
export function routed(graph, bands, x, thick, deep, sideways) {
  const text = (/** @type {number} */ main, /** @type {number} */ across) => (sideways ? `${round(main)},${round(across)}` : `${round(across)},${round(main)}`);
  const lanes = bands.turns.map(() => 0);
  /** @type {Map<string, Route>} */
  const routes = new Map();
  for (const { edge, points, backward } of graph.chains) {
    const path = pointsOf(graph, bands, x, thick, deep, points);
    const label = labelAt(graph, points, path, edge, sideways);
    const steps = [];
    for (let k = 1; k < path.length; k++) {
      const [from, to] = [path[k - 1], path[k]];
      steps.push(from.band === to.band ? smooth(from, to) : turn(from, to, gutter(bands, to.band, lanes[to.band]), lanes[to.band]++));
    }
    const d = backward ? reversed(path, steps, text) : forward(path, steps, text);
    const spots = path.map(({ main, across }) => /** @type {[number, number]} */ (sideways ? [main, across] : [across, main]));
    routes.set(edge.id, { d, box: boxOf(spots), x: sideways ? label.main : label.across, y: sideways ? label.across : label.main });
  }
  return routes;
}

/**
 * @param {import('./ranks.js').Layered} graph
 * @param {import('./bands.js').Bands} bands
 * @param {number[]} x
 * @param {number[]} thick
 * @param {number[]} deep
 * @param {number[]} chain
 * @returns {Point[]}
 */
function pointsOf({ count, rank }, { band, top, shift }, x, thick, deep, chain) {
  /** @type {Point[]} */
  const found = [];
  chain.forEach((node, k) => {
    const r = rank[node];
    const across = x[node] + shift[band[r]];
    const start = top[r] + (node < count ? (deep[r] - thick[node]) / 2 : 0);
    const end = node < count ? start + thick[node] : top[r] + deep[r];
    if (k > 0) found.push({ main: start, across, band: band[r] });
    if (k < chain.length - 1) found.push({ main: end, across, band: band[r] });
  });
  return found;
}

/** @param {[number, number][]} points */
function boxOf(points) {
  const box = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
  for (const [x, y] of points) {
    box.left = Math.min(box.left, x);
    box.top = Math.min(box.top, y);
    box.right = Math.max(box.right, x);
    box.bottom = Math.max(box.bottom, y);
  }
  return box;
}

/** @typedef {(number[])[]} Curve control points and end: one pair for a line, three for a Bézier curve */

/**
 * @param {Point} from
 * @param {Point} to
 * @returns {Curve[]}
 */
function smooth(from, to) {
  if (Math.abs(from.across - to.across) < 0.5) return [[[to.main, to.across]]];
  const middle = (from.main + to.main) / 2;
  return [[[middle, from.across], [middle, to.across], [to.main, to.across]]];
}

/**
 * Return the way from the end of one band, through the gutter, to the start of the next.
 * @param {Point} from
 * @param {Point} to
 * @param {number} lane place of the gutter across
 * @param {number} number number of the lane, from 0
 * @returns {Curve[]}
 */
function turn(from, to, lane, number) {
  const out = from.main + 17 + number * 3;
  const back = to.main - 17 - number * 3;
  const corners = [[from.main, from.across], [out, from.across], [out, lane], [back, lane], [back, to.across], [to.main, to.across]];
  /** @type {Curve[]} */
  const curves = [];
  for (let k = 1; k + 1 < corners.length; k++) {
    const [before, corner, after] = [corners[k - 1], corners[k], corners[k + 1]];
    const start = toward(corner, before);
    const end = toward(corner, after);
    curves.push([start], [corner, corner, end]);
  }
  curves.push([corners[corners.length - 1]]);
  return curves;
}

/**
 * @param {number[]} corner
 * @param {number[]} other
 */
function toward(corner, other) {
  const [dm, da] = [other[0] - corner[0], other[1] - corner[1]];
  const length = Math.hypot(dm, da) || 1;
  const by = Math.min(CORNER, length / 2) / length;
  return [corner[0] + dm * by, corner[1] + da * by];
}

/**
 * @param {Point[]} path
 * @param {Curve[][]} steps
 * @param {(main: number, across: number) => string} text
 */
function forward(path, steps, text) {
  const command = (/** @type {Curve} */ curve) => (curve.length === 1 ? 'L' : 'C') + curve.map(([main, across]) => text(main, across)).join(' ');
  return `M${text(path[0].main, path[0].across)}${steps.flat().map(command).join('')}`;
}

/**
 * Return the path from its end to its start, for an edge against the ranks.
 * @param {Point[]} path
 * @param {Curve[][]} steps
 * @param {(main: number, across: number) => string} text
 */
function reversed(path, steps, text) {
  const curves = steps.flat();
  const ends = [[path[0].main, path[0].across], ...curves.map((curve) => curve[curve.length - 1])];
  const parts = [];
  for (let k = curves.length - 1; k >= 0; k--) {
    const points = [...curves[k].slice(0, -1).reverse(), ends[k]];
    parts.push((points.length === 1 ? 'L' : 'C') + points.map(([main, across]) => text(main, across)).join(' '));
  }
  return `M${text(ends[ends.length - 1][0], ends[ends.length - 1][1])}${parts.join('')}`;
}

/**
 * Return the center of a label: near the end of the edge that has it alone, in the space between the ranks.
 * @param {import('./ranks.js').Layered} graph
 * @param {number[]} chain
 * @param {Point[]} path
 * @param {import('../layout.js').Edge} edge
 * @param {boolean} sideways
 * @returns {{main: number, across: number}}
 */
function labelAt({ up, down }, chain, path, edge, sideways) {
  const [from, to] = path;
  const half = edge.label ? (sideways ? edge.label.w : edge.label.h) / 2 : 0;
  if (from.band !== to.band) return { main: from.main + LABEL + half, across: from.across };
  if (down[chain[0]].length > 1 && up[chain[1]].length === 1) return { main: to.main - LABEL - half, across: to.across };
  if (down[chain[0]].length === 1) return { main: from.main + LABEL + half, across: from.across };
  return { main: (from.main + to.main) / 2, across: (from.across + to.across) / 2 };
}

/** @param {number} value */
const round = (value) => Math.round(value * 10) / 10;
