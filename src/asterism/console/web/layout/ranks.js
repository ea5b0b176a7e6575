// @ts-check
/** Ranks of a graph: each edge leads from one rank to the next; a long one goes through points between. */

/**
 * @typedef {object} Layered
 * @property {number} count nodes; larger indexes are points of long edges
 * @property {number[]} rank rank of each node and point
 * @property {number[][]} up neighbors in the rank before
 * @property {number[][]} down neighbors in the rank after
 * @property {Chain[]} chains
 * @property {number} ranks
 */
/**
 * An edge as nodes and points of consecutive ranks.
 * @typedef {object} Chain
 * @property {import('../layout.js').Edge} edge
 * @property {number[]} points
 * @property {boolean} backward the edge leads against the ranks, since it closes a cycle
 */

/**
 * Return nodes and edges in ranks. Edges from a node to itself, or without one of their nodes, are left out.
 * @param {import('../layout.js').Node[]} nodes
 * @param {import('../layout.js').Edge[]} edges
 * @returns {Layered}
 */
export function layered(nodes, edges) {
  const index = new Map(nodes.map((node, at) => [node.id, at]));
  /** @type {{edge: import('../layout.js').Edge, from: number, to: number}[]} */
  const links = [];
  for (const edge of edges) {
    const from = index.get(edge.from);
    const to = index.get(edge.to);
    if (from !== undefined && to !== undefined && from !== to) links.push({ edge, from, to });
  }
  const backward = closing(nodes.length, links);
  const forward = links.map((link) => (backward.has(link) ? { ...link, from: link.to, to: link.from } : link));
  const rank = ranksOf(nodes.length, forward);
  const up = nodes.map(() => /** @type {number[]} */ ([]));
  const down = nodes.map(() => /** @type {number[]} */ ([]));
  const join = (/** @type {number} */ a, /** @type {number} */ b) => {
    down[a].push(b);
    up[b].push(a);
  };
  const chains = forward.map(({ edge, from, to }, at) => {
    const points = [from];
    for (let r = rank[from] + 1; r < rank[to]; r++) {
      const point = rank.length;
      rank.push(r);
      up.push([]);
      down.push([]);
      join(points[points.length - 1], point);
      points.push(point);
    }
    join(points[points.length - 1], to);
    points.push(to);
    return { edge, points, backward: backward.has(links[at]) };
  });
  return { count: nodes.length, rank, up, down, chains, ranks: rank.reduce((most, r) => Math.max(most, r), -1) + 1 };
}

/**
 * Return the links that close a cycle in a depth-first walk; a plan has none.
 * @template {{from: number, to: number}} L
 * @param {number} count
 * @param {L[]} links
 * @returns {Set<L>}
 */
function closing(count, links) {
  const out = Array.from({ length: count }, () => /** @type {L[]} */ ([]));
  for (const link of links) out[link.from].push(link);
  const state = new Uint8Array(count); // 1: on the path, 2: done
  /** @type {Set<L>} */
  const found = new Set();
  for (let root = 0; root < count; root++) {
    if (state[root]) continue;
    const path = [{ node: root, next: 0 }];
    state[root] = 1;
    while (path.length) {
      const top = path[path.length - 1];
      const link = out[top.node][top.next++];
      if (!link) {
        state[top.node] = 2;
        path.pop();
      } else if (state[link.to] === 1) found.add(link);
      else if (!state[link.to]) {
        state[link.to] = 1;
        path.push({ node: link.to, next: 0 });
      }
    }
  }
  return found;
}

/**
 * Return the rank of each node: its longest path, then pulled toward the side with more edges.
 * @param {number} count
 * @param {{from: number, to: number}[]} links without cycles
 */
function ranksOf(count, links) {
  const out = Array.from({ length: count }, () => /** @type {number[]} */ ([]));
  const waits = new Array(count).fill(0);
  for (const { from, to } of links) {
    out[from].push(to);
    waits[to]++;
  }
  const rank = new Array(count).fill(0);
  const incoming = waits.slice();
  const sorted = [];
  for (let node = 0; node < count; node++) if (!waits[node]) sorted.push(node);
  for (let at = 0; at < sorted.length; at++) {
    for (const next of out[sorted[at]]) {
      rank[next] = Math.max(rank[next], rank[sorted[at]] + 1);
      if (!--waits[next]) sorted.push(next);
    }
  }
  for (let pass = 0; pass < 3; pass++) {
    for (let at = sorted.length - 1; at >= 0; at--) {
      const node = sorted[at];
      if (out[node].length > incoming[node]) rank[node] = out[node].reduce((least, next) => Math.min(least, rank[next]), Infinity) - 1;
    }
  }
  return rank;
}
