// What the picture of a plan is made from: when it needs another layout, and which task is where.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nextTask, taskAt } from '../../../src/asterism/console/web/plan/places.js';
import { drawnRows, sameShape } from '../../../src/asterism/console/web/plan/rows.js';

const rows = (entries) => new Map(Object.entries(entries));
const plan = (more = {}) => drawnRows(rows({ 'task:a': { order: 0 }, 'task:b': { order: 1 }, 'line:1': { from: 'a', to: 'b', type: 'SUCCESS_ONLY' }, ...more }), null);

test('a change of status keeps the layout, and a change of tasks or dependencies does not', () => {
  assert.ok(sameShape(plan(), plan({ 'task:a': { order: 0, status: 'RUNNING' }, 'line:1': { from: 'a', to: 'b', type: 'SUCCESS_ONLY', satisfied: true } })));
  assert.ok(sameShape(plan(), plan({ 'task:b.0': { order: 2, item: { of: 'b', index: 0 } } })));
  const changes = [{ 'task:c': { order: 2 } }, { 'task:a': { order: 3 } }, { 'line:2': { from: 'b', to: 'a' } }, { 'line:1': { from: 'b', to: 'a', type: 'SUCCESS_ONLY' } }, { 'line:1': { from: 'a', to: 'b', type: 'CONDITIONAL', condition: 'x > 1' } }];
  for (const change of changes) assert.ok(!sameShape(plan(), plan(change)), JSON.stringify(change));
});

test('a task is found by a point in it, and the next one by a direction', () => {
  const places = new Map([['a', { x: 0, y: 0 }], ['b', { x: 300, y: 10 }], ['c', { x: 0, y: 200 }]]);
  assert.deepEqual([[5, 5], [184, 52], [301, 61], [250, 5]].map(([x, y]) => taskAt(places, x, y)), ['a', 'a', 'b', '']);
  assert.deepEqual([[1, 0], [0, 1], [-1, 0]].map(([dx, dy]) => nextTask(places, 'a', dx, dy)), ['b', 'c', '']);
  assert.equal(nextTask(places, 'gone', 1, 0), '');
});
