import assert from 'node:assert/strict';
import { test } from 'node:test';

const { filesOf } = await import('../../../src/asterism/console/web/live/run_files.js');

const file = (digit) => ({ digest: `sha256:${digit.repeat(64)}`, name: digit, media_type: '', size: 1 });
const value = (digit) => ({ $file: file(digit).digest, name: digit });

test('the files of a task are those that its inputs and its result name', () => {
  const files = [file('a'), file('b'), file('c'), { ...file('a'), name: 'of another task' }];
  const names = (row) => filesOf(files, row).map((it) => it.name);
  assert.deepEqual(names({ inputs: { x: [value('c')] }, result: { deep: { y: value('a') } } }), ['a', 'c']);
  assert.deepEqual(names({ result: { $long: 5000, beginning: JSON.stringify({ x: value('b') }) } }), ['b']);
  assert.deepEqual(names({ result: 'sha256:short' }), []);
  assert.deepEqual(names(undefined), []);
});
