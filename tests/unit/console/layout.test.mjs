// The layout of the console, on plans drawn at random.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { separate } from '../../../src/asterism/console/web/layout/coordinates.js';
import { bestLayout, layout } from '../../../src/asterism/console/web/layout.js';

const SEEDS = 200;
const W = 178;
const H = 50;

/** A generator of numbers in [0, 1) from a seed (mulberry32). */
const chance = (seed) => () => {
  seed = (seed + 0x6d2b79f5) | 0;
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
};

/** A plan of up to 40 tasks; each depends on up to three earlier ones, and one edge in four has a label. */
const plan = (seed) => {
  const next = chance(seed);
  const count = 1 + Math.floor(next() * 40);
  const nodes = Array.from({ length: count }, (_, n) => ({ id: `t${n}`, w: W, h: H }));
  const edges = new Map();
  for (let to = 1; to < count; to++) {
    for (let k = Math.floor(next() * 4); k > 0; k--) {
      const from = Math.max(0, to - 1 - Math.floor(next() * next() * 12));
      const label = next() < 0.25 ? { w: 40 + Math.floor(next() * 120), h: 20 } : undefined;
      edges.set(`t${from}>t${to}`, { id: `t${from}>t${to}`, from: `t${from}`, to: `t${to}`, label });
    }
  }
  return { nodes, edges: [...edges.values()] };
};

const overlap = (a, b, slack = 0.5) => a.x + a.w > b.x + slack && b.x + b.w > a.x + slack && a.y + a.h > b.y + slack && b.y + b.h > a.y + slack;

/** Points of a path of M, L and C commands. */
const points = (d) => {
  const found = [];
  for (const [, command, text] of d.matchAll(/([MLC])([^MLC]*)/g)) {
    const pairs = text.trim().split(' ').map((pair) => pair.split(',').map(Number));
    if (command !== 'C') found.push(...pairs);
    else {
      const [a, b, c, e] = [found.at(-1), ...pairs];
      for (let k = 1; k <= 12; k++) {
        const t = k / 12;
        const u = 1 - t;
        found.push([0, 1].map((i) => u ** 3 * a[i] + 3 * u * u * t * b[i] + 3 * u * t * t * c[i] + t ** 3 * e[i]));
      }
    }
  }
  return found;
};

const variants = [
  { direction: 'down', bands: 1 },
  { direction: 'right', bands: 1 },
  { direction: 'down', bands: 3 },
  { direction: 'right', bands: 2 },
];

/** The boxes of nodes, and the labels of edges. */
const boxes = ({ nodes, edges }, found) => ({
  drawn: nodes.map((node) => ({ id: node.id, w: W, h: H, ...found.nodes.get(node.id) })),
  labels: edges.filter((it) => it.label).map((it) => ({ id: it.id, x: found.edges.get(it.id).x - it.label.w / 2, y: found.edges.get(it.id).y - it.label.h / 2, ...it.label })),
});

for (const options of variants) {
  const title = `${options.direction}, in ${options.bands} band${options.bands > 1 ? 's' : ''}`;

  test(`no two tasks overlap, and all are within the picture: ${title}`, () => {
    for (let seed = 0; seed < SEEDS; seed++) {
      const drawing = plan(seed);
      const found = layout(drawing.nodes, drawing.edges, options);
      const { drawn } = boxes(drawing, found);
      for (const [at, a] of drawn.entries()) {
        for (const b of drawn.slice(at + 1)) assert.ok(!overlap(a, b), `seed ${seed}: ${a.id} overlaps ${b.id}`);
        assert.ok(a.x > -0.5 && a.y > -0.5 && a.x + a.w < found.w + 0.5 && a.y + a.h < found.h + 0.5, `seed ${seed}: ${a.id} is outside`);
      }
    }
  });

  test(`an edge starts and ends at its tasks, and crosses no other: ${title}`, () => {
    for (let seed = 0; seed < SEEDS; seed++) {
      const drawing = plan(seed);
      const found = layout(drawing.nodes, drawing.edges, options);
      const { drawn } = boxes(drawing, found);
      for (const edge of drawing.edges) {
        const way = points(found.edges.get(edge.id).d);
        const touches = (id, [x, y]) => drawn.some((it) => it.id === id && overlap({ x: x - 1, y: y - 1, w: 2, h: 2 }, it, 0));
        assert.ok(touches(edge.from, way[0]) && touches(edge.to, way.at(-1)), `seed ${seed}: ${edge.id}`);
        for (const [x, y] of way) {
          const hit = drawn.find((it) => it.id !== edge.from && it.id !== edge.to && overlap({ x, y, w: 0.01, h: 0.01 }, it, 1));
          assert.ok(!hit, `seed ${seed}: ${edge.id} crosses ${hit?.id}`);
        }
      }
    }
  });

  test(`a label covers no task: ${title}`, () => {
    for (let seed = 0; seed < SEEDS; seed++) {
      const drawing = plan(seed);
      const { drawn, labels } = boxes(drawing, layout(drawing.nodes, drawing.edges, options));
      for (const label of labels) {
        const hit = drawn.find((it) => overlap(label, it));
        assert.ok(!hit, `seed ${seed}: the label of ${label.id} covers ${hit?.id}`);
      }
    }
  });
}

test('edges of an unfolded plan point in its direction', () => {
  for (let seed = 0; seed < SEEDS; seed++) {
    const { nodes, edges } = plan(seed);
    for (const [direction, axis] of [['down', 'y'], ['right', 'x']]) {
      const found = layout(nodes, edges, { direction });
      for (const { from, to } of edges) assert.ok(found.nodes.get(from)[axis] < found.nodes.get(to)[axis], `seed ${seed}: ${from} > ${to}`);
    }
  }
});

test('the same plan has the same layout', () => {
  const { nodes, edges } = plan(7);
  assert.deepEqual(bestLayout(nodes, edges, { w: 900, h: 500 }), bestLayout(nodes, edges, { w: 900, h: 500 }));
});

test('a long chain is folded, so that it is drawn larger', () => {
  const nodes = Array.from({ length: 18 }, (_, n) => ({ id: `t${n}`, w: W, h: H }));
  const edges = nodes.slice(1).map((node, n) => ({ id: node.id, from: `t${n}`, to: node.id }));
  const found = bestLayout(nodes, edges, { w: 1100, h: 560 });
  const whole = layout(nodes, edges);
  assert.ok(found.bands > 1);
  assert.ok(found.zoom > 2 * Math.min(1100 / whole.w, 560 / whole.h), String(found.zoom));
});

test('an added task keeps the order of the others', () => {
  const nodes = ['a', 'b', 'c', 'd'].map((id) => ({ id, w: W, h: H }));
  const edges = ['b', 'c', 'd'].map((id) => ({ id: `a>${id}`, from: 'a', to: id }));
  const before = layout(nodes, edges, { before: new Map([['b', 3], ['c', 2], ['d', 1]]) });
  assert.ok(before.nodes.get('d').x < before.nodes.get('c').x && before.nodes.get('c').x < before.nodes.get('b').x);
  const more = layout([...nodes, { id: 'e', w: W, h: H }], [...edges, { id: 'a>e', from: 'a', to: 'e' }], { before: before.order });
  assert.ok(more.nodes.get('d').x < more.nodes.get('c').x && more.nodes.get('c').x < more.nodes.get('b').x);
});

test('a cycle, as machines have them, is drawn with an edge against the direction', () => {
  const nodes = ['START', 'CONTINUE', 'FINISH'].map((id) => ({ id, w: 90, h: 30 }));
  const edges = [['START', 'CONTINUE'], ['CONTINUE', 'START'], ['CONTINUE', 'FINISH'], ['CONTINUE', 'CONTINUE']].map(([from, to]) => ({ id: `${from}>${to}`, from, to }));
  const found = layout(nodes, edges, { direction: 'right' });
  assert.deepEqual([...found.edges.keys()], ['START>CONTINUE', 'CONTINUE>START', 'CONTINUE>FINISH']);
  assert.ok(found.nodes.get('START').x < found.nodes.get('CONTINUE').x && found.nodes.get('CONTINUE').x < found.nodes.get('FINISH').x);
  const back = points(found.edges.get('CONTINUE>START').d);
  assert.ok(back[0][0] > back.at(-1)[0]);
});

test('a plan without tasks, and edges without their tasks, have a layout', () => {
  assert.equal(bestLayout([], [], { w: 100, h: 100 }).nodes.size, 0);
  assert.equal(layout([{ id: 'a', w: W, h: H }], [{ id: 'x', from: 'a', to: 'gone' }, { id: 'y', from: 'a', to: 'a' }]).edges.size, 0);
});

test('a plan of 5,000 tasks has a layout', () => {
  const next = chance(1);
  const nodes = Array.from({ length: 5000 }, (_, n) => ({ id: `t${n}`, w: W, h: H }));
  const edges = nodes.slice(60).map((node, n) => ({ id: node.id, from: `t${n + Math.floor(next() * 60)}`, to: node.id }));
  assert.equal(layout(nodes, edges).nodes.size, 5000);
});

test('separated positions keep order and gaps, and are the wanted ones where these do', () => {
  assert.deepEqual(separate([0, 100, 200], [1, 1, 1], [10, 10, 10], 5), [0, 100, 200]);
  assert.deepEqual(separate([50, 50], [1, 1], [10, 10], 10), [40, 60]);
});
