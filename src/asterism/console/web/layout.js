// @ts-check
/**
 * The layered layout of a plan. Pure: no DOM and no clock; the same input gives the same output.
 *
 * Ranks, then the order within ranks, then positions, then bands (`layout/`). The order is the same for every
 * direction and number of bands, so all of them can be tried.
 */
import { folded } from './layout/bands.js';
import { placed } from './layout/coordinates.js';
import { ordered } from './layout/order.js';
import { layered } from './layout/ranks.js';
import { routed } from './layout/routes.js';

/** @typedef {{id: string, w: number, h: number}} Node */
/** @typedef {{id: string, from: string, to: string, label?: {w: number, h: number}}} Edge */
/** @typedef {'down' | 'right'} Direction */
/**
 * @typedef {object} Options
 * @property {Direction} [direction] direction of the edges
 * @property {number} [bands] bands at most
 * @property {number} [gapMain] space between ranks
 * @property {number} [gapAcross] space between the nodes of a rank
 * @property {Map<string, number>} [before] the order of an earlier layout, to keep the picture that the reader knows
 */
/**
 * @typedef {object} Layout
 * @property {Map<string, {x: number, y: number}>} nodes left upper corner of each node
 * @property {Map<string, import('./layout/routes.js').Route>} edges
 * @property {number} w
 * @property {number} h
 * @property {Direction} direction
 * @property {number} bands
 * @property {number} ranks
 * @property {number} crossings
 * @property {Map<string, number>} order position across of each node, for `before`
 */

const GAP_MAIN = 44;
const GAP_ACROSS = 24;
/** Numbers of bands that are tried. */
const BANDS = [1, 2, 3, 4, 6, 8, 12];
/** Ranks that a band has at least. */
const BAND_RANKS = 3;

/**
 * Lay a plan out in one direction.
 * @param {Node[]} nodes
 * @param {Edge[]} edges
 * @param {Options} [options]
 * @returns {Layout}
 */
export function layout(nodes, edges, options = {}) {
  return sketched(nodes, edges, options)(options.direction ?? 'down')(options.bands ?? 1).finish();
}

/**
 * Lay a plan out in the direction and with the bands that can be drawn largest in a box.
 * @param {Node[]} nodes
 * @param {Edge[]} edges
 * @param {{w: number, h: number}} box
 * @param {Options & {largest?: number}} [options] `largest` is the zoom beyond which nothing is gained
 * @returns {Layout & {zoom: number}}
 */
export function bestLayout(nodes, edges, box, options = {}) {
  const sketch = sketched(nodes, edges, options);
  /** @type {(() => Layout & {zoom: number}) | null} */
  let best = null;
  let most = -Infinity;
  for (const direction of /** @type {Direction[]} */ (['down', 'right'])) {
    const fold = sketch(direction);
    for (const bands of BANDS) {
      const found = fold(bands);
      const zoom = Math.min(options.largest ?? 1.1, box.w / Math.max(1, found.w), box.h / Math.max(1, found.h));
      const score = zoom * (1 - 0.05 * Math.min(6, found.bands - 1)) * (direction === 'down' ? 1.05 : 1);
      if (score > most) {
        most = score;
        best = () => ({ ...found.finish(), zoom });
      }
      if (found.ranks < bands * BAND_RANKS) break;
    }
  }
  return /** @type {() => Layout & {zoom: number}} */ (best)();
}

/**
 * Order a plan once; return a function that places it in a direction, which returns one that folds it. What that one
 * returns has a size; `finish` makes its layout.
 * @param {Node[]} nodes
 * @param {Edge[]} edges
 * @param {Options} options
 */
function sketched(nodes, edges, options) {
  const { gapMain = GAP_MAIN, gapAcross = GAP_ACROSS, before } = options;
  const graph = layered(nodes, edges);
  const { rows, crossings } = ordered(graph, before && nodes.map((node) => before.get(node.id)));
  return (/** @type {Direction} */ direction) => {
    const sideways = direction === 'right';
    const { size, thick } = extents(graph, nodes, sideways);
    const x = placed(graph, rows, size, gapAcross);
    const deep = rows.map((row) => row.reduce((most, node) => Math.max(most, thick[node]), 0));
    const gaps = rows.map((_, r) => gapMain + labelSpace(graph, r, sideways));
    return (/** @type {number} */ wanted) => {
      const bands = folded(graph, rows, x, size, deep, gaps, wanted);
      const shape = {
        w: sideways ? bands.main : bands.across,
        h: sideways ? bands.across : bands.main,
        direction,
        bands: bands.left.length,
        ranks: graph.ranks,
        crossings,
      };
      /** @returns {Layout} */
      const finish = () => {
        /** @type {Layout['nodes']} */
        const places = new Map();
        nodes.forEach((node, at) => {
          const r = graph.rank[at];
          const across = x[at] + bands.shift[bands.band[r]] - size[at] / 2;
          const main = bands.top[r] + (deep[r] - thick[at]) / 2;
          places.set(node.id, sideways ? { x: main, y: across } : { x: across, y: main });
        });
        const order = new Map(nodes.map((node, at) => [node.id, x[at]]));
        return { ...shape, nodes: places, edges: routed(graph, bands, x, thick, deep, sideways), order };
      };
      return { ...shape, finish };
    };
  };
}

/**
 * Return the extents of nodes and points across and along the ranks; the first point of an edge makes room for its label.
 * @param {import('./layout/ranks.js').Layered} graph
 * @param {Node[]} nodes
 * @param {boolean} sideways
 */
function extents({ rank, count, chains }, nodes, sideways) {
  const size = rank.map((_, at) => (at < count ? (sideways ? nodes[at].h : nodes[at].w) : 4));
  const thick = rank.map((_, at) => (at < count ? (sideways ? nodes[at].w : nodes[at].h) : 0));
  for (const { edge, points } of chains) {
    if (edge.label && points.length > 2) size[points[1]] = sideways ? edge.label.h : edge.label.w;
  }
  return { size, thick };
}

/**
 * Return the additional space after a rank for the labels of the edges that leave it.
 * @param {import('./layout/ranks.js').Layered} graph
 * @param {number} r
 * @param {boolean} sideways
 */
function labelSpace({ chains, rank }, r, sideways) {
  return chains.reduce((most, { edge, points }) => {
    if (!edge.label || rank[points[0]] !== r) return most;
    return Math.max(most, sideways ? edge.label.w : edge.label.h - 6);
  }, 0);
}
