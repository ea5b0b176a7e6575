import assert from 'node:assert/strict';
import test from 'node:test';
import { paced } from '../../../src/asterism/console/web/pace.js';

test('of several calls the last one counts, and none follows another too soon', ({ mock }) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  let now = 0;
  mock.method(performance, 'now', () => now);
  const on = (/** @type {number} */ ms) => ((now += ms), mock.timers.tick(ms));
  /** @type {[number, string][]} */
  const done = [];
  const say = paced((text) => void done.push([now, text]), 400);
  say('a');
  on(1);
  say('b');
  on(100);
  say('c');
  on(299);
  assert.deepEqual(done, [[1, 'a']]);
  on(1);
  assert.deepEqual(done, [[1, 'a'], [401, 'c']]);
  say('d');
  say.stop();
  on(1000);
  assert.equal(done.length, 2);
});
