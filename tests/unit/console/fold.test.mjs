// The fold of the console beside the golden folds that Python wrote, and its journal beside the fold.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fold, linesOf, rowsOf } from '../../../src/asterism/console/web/fold.js';
import { Cursor, Journal, KEYFRAME } from '../../../src/asterism/console/web/player/cursor.js';

const golden = JSON.parse(readFileSync(new URL('../views/folds.json', import.meta.url), 'utf8'));

for (const { name, deltas, rows } of golden) {
  test(`the golden deltas of ${name} fold to the rows of Python`, () => {
    assert.deepEqual(Object.fromEntries(fold(deltas)), rows);
  });

  test(`a journal has the rows of ${name} after each entry, wherever the cursor was before`, () => {
    const journal = new Journal();
    deltas.forEach((delta) => journal.push(delta));
    const counts = deltas.map((_, index) => (index * 7) % (deltas.length + 1));
    for (const count of counts) assert.deepEqual(journal.at(count), fold(deltas.slice(0, count)));
  });
}

/** @param {number} length */
const counting = (length) => {
  const journal = new Journal();
  for (let n = 1; n <= length; n++) journal.push({ seq: n * 2, at: n, kind: 'go', actor: 'a', state: 'A', put: { run: { n }, [`task:${n}`]: { n } } });
  return journal;
};

test('a journal of several snapshots is read at each entry', () => {
  const journal = counting(3 * KEYFRAME + 5);
  for (let count = 0; count <= journal.length; count++) assert.equal(journal.at(count).size, count && count + 1);
  assert.equal(journal.keyframes.length, 4);
});

test('the snapshots of a journal together grow no faster than the journal', () => {
  const journal = counting(20_000);
  const stored = journal.keyframes.reduce((sum, frame) => sum + frame.rows.size, 0);
  assert.ok(stored < 6 * journal.length, String(stored));
  assert.equal(journal.at(12_345).size, 12_346);
});

test('reading a past entry changes nothing', () => {
  const journal = counting(KEYFRAME + 9);
  journal.at(3);
  journal.at(KEYFRAME + 1);
  assert.deepEqual(journal.at(journal.length).get('run'), { n: KEYFRAME + 9 });
  assert.deepEqual(journal.at(2).get('run'), { n: 2 });
});

test('a repeated delta is ignored', () => {
  const journal = counting(5);
  assert.equal(journal.push(journal.deltas[3]), false);
  assert.equal(journal.length, 5);
});

test('entries are found by seq', () => {
  const journal = counting(100);
  assert.deepEqual([0, 1, 2, 3, 200, 999].map((seq) => journal.countOf(seq)), [0, 0, 1, 1, 100, 100]);
});

test('a cursor stays between the first entry and the end, and reports each move', () => {
  const cursor = new Cursor(counting(10));
  let moves = 0;
  cursor.watchers.add(() => moves++);
  cursor.step(-4);
  assert.deepEqual([cursor.count, cursor.delta.seq, cursor.atEnd], [6, 12, false]);
  cursor.step(-40);
  assert.equal(cursor.count, 1);
  cursor.jump(7);
  assert.equal(cursor.count, 3);
  cursor.step(40);
  assert.deepEqual([cursor.count, cursor.atEnd, cursor.fixed], [10, true, null]);
  assert.equal(moves, 4);
});

test('a row is found by its kind, whatever its key has in it', () => {
  const rows = fold([{ seq: 1, at: 0, kind: 'go', actor: 'a', state: 'A', put: { 'task:a:b': { n: 1 }, 'task:__proto__': { n: 2 }, run: {} } }]);
  assert.deepEqual([...rowsOf(rows, 'task')], [['a:b', { n: 1 }], ['__proto__', { n: 2 }]]);
});

test('the lines of a delta have their defaults', () => {
  assert.deepEqual(linesOf({ seq: 1, at: 0, kind: 'go', actor: 'a', state: 'A', text: 'goes', more: [{ text: 'on', part: 'b' }] }), [
    { text: 'goes', part: '', weight: 'event' },
    { text: 'on', part: 'b' },
  ]);
});
