import assert from 'node:assert/strict';
import { test } from 'node:test';

const { LogTail, READ } = await import('../../../src/asterism/console/web/live/log_tail.js');
globalThis.HTMLElement ??= class {};
globalThis.customElements ??= { define() {} };
const { placesOf } = await import('../../../src/asterism/console/web/live/log_view.js');
const { byteCount } = await import('../../../src/asterism/console/web/words.js');

const chunk = (text, changes = {}) => ({ seq: 1, effect: 'r:2.0', number: 1, stream: 'stdout', position: 0, size: text.length, text, ...changes });
const shown = (tail, ...chunks) => tail.take(chunks, 1).map(({ stream, text }) => (stream ? `${stream}: ${text}` : `(${text})`));

test('output is shown as it was printed, without what a terminal reads as commands', () => {
  const tail = new LogTail();
  assert.deepEqual(shown(tail, chunk('\x1b[1;31mred\x1b[0m\r\n10 %\r20 %'), chunk('oh', { stream: 'stderr' })), ['stdout: red\n10 %\n20 %', 'stderr: oh']);
  assert.equal(tail.isCut, false);
});

test('a command that is split between two parts is left out', () => {
  const tail = new LogTail();
  assert.deepEqual(shown(tail, chunk('a\x1b[3')), ['stdout: a']);
  assert.deepEqual(shown(tail, chunk('1mb', { position: 4 })), ['stdout: b']);
  assert.deepEqual(shown(tail, chunk('\x1b', { position: 7 })), []);
  assert.deepEqual(shown(tail, chunk('[0m', { position: 8 })), []);
});

test('an escape character that begins no command stays', () => {
  assert.deepEqual(shown(new LogTail(), chunk('\x1b!')), ['stdout: \x1b!']);
});

test('each further attempt has a line before it', () => {
  const tail = new LogTail();
  assert.deepEqual(shown(tail, chunk('a'), chunk('b', { effect: 'r:5.0', number: 2 })), ['stdout: a', '(Attempt 2)', 'stdout: b']);
  assert.deepEqual(shown(tail, chunk('c', { effect: 'r:5.0', number: 2, position: 1 })), ['stdout: c']);
});

test('a gap says how much is missing, and one before the first part says that only the end is shown', () => {
  const tail = new LogTail();
  assert.deepEqual(shown(tail, chunk('b', { position: 2000 }), chunk('d', { position: 4001 })), ['stdout: b', '(… 2 kB left out …)', 'stdout: d']);
  assert.equal(tail.isCut, true);
  assert.deepEqual(shown(tail, chunk('x', { stream: 'stderr', position: 7 })), ['(… 7 bytes left out …)', 'stderr: x']);
  assert.deepEqual(shown(tail, chunk('', { effect: '', position: 12_345_678, size: 0 })), ['(… 12.3 MB left out …)']);
});

test('a first read that is full says that only the end is shown', () => {
  const tail = new LogTail();
  tail.take([chunk('x', { size: READ.tail })], 1);
  assert.equal(tail.isCut, true);
});

test('a number of bytes is in words', () => {
  assert.deepEqual([0, 1, 999, 1000, 999_600, 83_640_000, 2e9].map(byteCount), ['0 bytes', '1 byte', '999 bytes', '1 kB', '1000 kB', '83.6 MB', '2000 MB']);
});

test('a text is found in a log as it stands, small or capital', () => {
  assert.deepEqual(placesOf('Index [a.b] missing\nindex', 'index'), [[0, 5], [20, 25]]);
  assert.deepEqual(placesOf('a.b axb [A.B]', 'a.b'), [[0, 3], [9, 12]]);
  assert.deepEqual(placesOf('no-op', 'o-o'), [[1, 4]]);
  assert.deepEqual(placesOf('a', ''), []);
  assert.equal(placesOf('a'.repeat(5000), 'a').length, 1000);
});
