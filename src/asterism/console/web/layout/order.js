// @ts-check
/** The order within ranks, with few crossings: sweeps by the mean position of neighbors, and swaps of neighbors. */

const SWEEPS = 24;
const PATIENCE = 6;
/** Nodes and points up to which neighbors are also swapped, which costs more than a sweep. */
const SWAPPED = 1200;

/**
 * Return the nodes and points of each rank in order, and the number of crossings.
 * @param {import('./ranks.js').Layered} graph
 * @param {(number | undefined)[]} [before] positions on screen, to keep the picture that the reader knows
 * @returns {{rows: number[][], crossings: number}}
 */
export function ordered(graph, before) {
  const rows = started(graph);
  const at = new Array(graph.rank.length).fill(0);
  const mark = (/** @type {number[]} */ row) => row.forEach((node, place) => (at[node] = place));
  rows.forEach(mark);
  if (before) {
    sortBefore(graph, rows, before);
    rows.forEach(mark);
  }
  let best = crossings(graph, rows, at);
  let kept = rows.map((row) => row.slice());
  for (let sweep = 0, stale = 0; sweep < SWEEPS && best > 0 && stale < PATIENCE; sweep++) {
    const downward = sweep % 2 === 0;
    for (let k = 1; k < rows.length; k++) {
      const row = rows[downward ? k : rows.length - 1 - k];
      sortByNeighbors(row, downward ? graph.up : graph.down, at);
      mark(row);
    }
    if (graph.rank.length < SWAPPED) swapNeighbors(graph, rows, at);
    const now = crossings(graph, rows, at);
    stale++;
    if (now < best) {
      best = now;
      kept = rows.map((row) => row.slice());
      stale = 0;
    }
  }
  return { rows: kept, crossings: best };
}

/**
 * Return the ranks in the order of a depth-first walk.
 * @param {import('./ranks.js').Layered} graph
 */
function started({ rank, up, down, ranks }) {
  /** @type {number[][]} */
  const rows = Array.from({ length: ranks }, () => []);
  const seen = new Uint8Array(rank.length);
  const roots = [...rank.keys()].filter((node) => !up[node].length);
  for (const root of roots) {
    const stack = [root];
    for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
      if (seen[node]) continue;
      seen[node] = 1;
      rows[rank[node]].push(node);
      for (let k = down[node].length - 1; k >= 0; k--) stack.push(down[node][k]);
    }
  }
  return rows;
}

/**
 * @param {import('./ranks.js').Layered} graph
 * @param {number[][]} rows
 * @param {(number | undefined)[]} before
 */
function sortBefore({ up }, rows, before) {
  /** @type {(number | undefined)[]} */
  const known = before.slice();
  for (const row of rows) {
    for (const node of row) {
      const places = up[node].map((it) => known[it]).filter((it) => it !== undefined);
      if (known[node] === undefined && places.length) known[node] = places.reduce((sum, it) => sum + it, 0) / places.length;
    }
    row.sort((a, b) => (known[a] ?? 0) - (known[b] ?? 0));
  }
}

/**
 * @param {number[]} row
 * @param {number[][]} neighbors
 * @param {number[]} at
 */
function sortByNeighbors(row, neighbors, at) {
  /** @type {Map<number, number>} */
  const key = new Map();
  row.forEach((node, place) => {
    const near = neighbors[node];
    key.set(node, near.length ? near.reduce((sum, it) => sum + at[it], 0) / near.length : place);
  });
  row.sort((a, b) => /** @type {number} */ (key.get(a)) - /** @type {number} */ (key.get(b)));
}

/**
 * @param {import('./ranks.js').Layered} graph
 * @param {number[][]} rows
 * @param {number[]} at
 */
function swapNeighbors({ up, down }, rows, at) {
  for (let pass = 0, moved = true; pass < 4 && moved; pass++) {
    moved = false;
    for (const row of rows) {
      for (let k = 0; k + 1 < row.length; k++) {
        const [a, b] = [row[k], row[k + 1]];
        const now = pairCrossings(a, b, up, at) + pairCrossings(a, b, down, at);
        if (!now || pairCrossings(b, a, up, at) + pairCrossings(b, a, down, at) >= now) continue;
        [row[k], row[k + 1]] = [b, a];
        at[b] = k;
        at[a] = k + 1;
        moved = true;
      }
    }
  }
}

/**
 * @param {number} a
 * @param {number} b
 * @param {number[][]} neighbors
 * @param {number[]} at
 */
function pairCrossings(a, b, neighbors, at) {
  let count = 0;
  for (const i of neighbors[a]) for (const j of neighbors[b]) if (at[i] > at[j]) count++;
  return count;
}

/**
 * Return the crossings between all ranks, counted with a Fenwick tree.
 * @param {import('./ranks.js').Layered} graph
 * @param {number[][]} rows
 * @param {number[]} at
 */
function crossings({ down }, rows, at) {
  let count = 0;
  for (let r = 0; r + 1 < rows.length; r++) {
    const width = rows[r + 1].length;
    const tree = new Int32Array(width + 1);
    let total = 0;
    for (const node of rows[r]) {
      const places = down[node].map((it) => at[it]);
      for (const place of places) {
        let upTo = 0;
        for (let i = place + 1; i > 0; i -= i & -i) upTo += tree[i];
        count += total - upTo;
      }
      for (const place of places) {
        for (let i = place + 1; i <= width; i += i & -i) tree[i]++;
        total++;
      }
    }
  }
  return count;
}
