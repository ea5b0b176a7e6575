// @ts-check
/** Positions across the ranks: near their neighbors, in the given order, with the given gaps. */

/**
 * Return the center of each node and point.
 * @param {import('./ranks.js').Layered} graph
 * @param {number[][]} rows nodes and points of each rank, in order
 * @param {number[]} size size of each across the ranks
 * @param {number} gap
 * @returns {number[]}
 */
export function placed(graph, rows, size, gap) {
  const { rank, up, down } = graph;
  const x = new Array(rank.length).fill(0);
  for (const row of rows) {
    const width = row.reduce((sum, node) => sum + size[node] + gap, 0);
    let left = -width / 2;
    for (const node of row) {
      x[node] = left + size[node] / 2;
      left += size[node] + gap;
    }
  }
  const rounds = rank.length < 200 ? 24 : 6;
  for (let round = 0; round < rounds; round++) {
    for (let r = 1; r < rows.length; r++) pull(graph, x, rows[r], [up], size, gap);
    for (let r = rows.length - 2; r >= 0; r--) pull(graph, x, rows[r], [down], size, gap);
  }
  for (let round = 0; round < rounds; round++) {
    for (let r = 0; r < rows.length; r++) pull(graph, x, rows[round % 2 ? rows.length - 1 - r : r], [up, down], size, gap);
  }
  straighten(graph, x, rows, size, gap);
  return x;
}

/**
 * Move a rank toward the weighted mean of its neighbors.
 * @param {import('./ranks.js').Layered} graph
 * @param {number[]} x
 * @param {number[]} row
 * @param {number[][][]} sides
 * @param {number[]} size
 * @param {number} gap
 */
function pull(graph, x, row, sides, size, gap) {
  const wanted = [];
  const weights = [];
  for (const node of row) {
    let sum = 0;
    let weight = 0;
    for (const near of sides) {
      for (const it of near[node]) {
        const pulled = strength(graph, it, node);
        sum += x[it] * pulled;
        weight += pulled;
      }
    }
    wanted.push(weight ? sum / weight : x[node]);
    weights.push(weight || 0.1);
  }
  const found = separate(wanted, weights, row.map((node) => size[node]), gap);
  row.forEach((node, k) => (x[node] = found[k]));
}

/**
 * Return how strongly two neighbors pull: long edges and chains most, so that they are straight.
 * @param {import('./ranks.js').Layered} graph
 * @param {number} a
 * @param {number} b
 */
function strength({ count, up, down }, a, b) {
  if (a >= count && b >= count) return 8;
  if ((down[a].length === 1 && up[b].length === 1) || (up[a].length === 1 && down[b].length === 1)) return 6;
  return a >= count || b >= count ? 3 : 1;
}

/**
 * Return the positions nearest to the wanted ones, by least squares, that keep the order and the gaps: isotonic
 * regression by pooling adjacent violators.
 * @param {number[]} wanted
 * @param {number[]} weights
 * @param {number[]} sizes
 * @param {number} gap
 */
export function separate(wanted, weights, sizes, gap) {
  const offset = [0];
  for (let k = 1; k < wanted.length; k++) offset.push(offset[k - 1] + (sizes[k - 1] + sizes[k]) / 2 + gap);
  /** @type {{sum: number, weight: number, count: number}[]} */
  const pools = [];
  wanted.forEach((want, k) => {
    let pool = { sum: (want - offset[k]) * weights[k], weight: weights[k], count: 1 };
    for (let last = pools.at(-1); last && last.sum / last.weight > pool.sum / pool.weight; last = pools.at(-1)) {
      pools.pop();
      pool = { sum: last.sum + pool.sum, weight: last.weight + pool.weight, count: last.count + pool.count };
    }
    pools.push(pool);
  });
  /** @type {number[]} */
  const found = [];
  for (const pool of pools) for (let k = 0; k < pool.count; k++) found.push(pool.sum / pool.weight + offset[found.length]);
  return found;
}

/**
 * Move each chain as a whole to one position, where its neighbors leave room.
 * @param {import('./ranks.js').Layered} graph
 * @param {number[]} x
 * @param {number[][]} rows
 * @param {number[]} size
 * @param {number} gap
 */
function straighten({ rank, up, down }, x, rows, size, gap) {
  const place = new Array(rank.length).fill(0);
  for (const row of rows) row.forEach((node, k) => (place[node] = k));
  const follows = (/** @type {number} */ node) => up[node].length === 1 && down[up[node][0]].length === 1;
  const chains = [];
  for (let head = 0; head < rank.length; head++) {
    if (follows(head)) continue;
    const chain = [head];
    for (let end = head; down[end].length === 1 && up[down[end][0]].length === 1; chain.push(end)) end = down[end][0];
    if (chain.length > 1) chains.push(chain);
  }
  chains.sort((a, b) => b.length - a.length);
  for (let round = 0; round < 4; round++) {
    for (const chain of chains) {
      let low = -Infinity;
      let high = Infinity;
      for (const node of chain) {
        const row = rows[rank[node]];
        const left = row[place[node] - 1];
        const right = row[place[node] + 1];
        if (left !== undefined) low = Math.max(low, x[left] + (size[left] + size[node]) / 2 + gap);
        if (right !== undefined) high = Math.min(high, x[right] - (size[right] + size[node]) / 2 - gap);
      }
      if (low > high) continue;
      const mean = chain.reduce((sum, node) => sum + x[node], 0) / chain.length;
      for (const node of chain) x[node] = Math.min(high, Math.max(low, mean));
    }
  }
}
