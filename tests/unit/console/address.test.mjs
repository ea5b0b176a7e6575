import assert from 'node:assert/strict';
import { test } from 'node:test';

const { Address } = await import('../../../src/asterism/console/web/address.js');

test('the first change is written at once, and of those that follow soon only the last one', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  const written = [];
  const address = new Address((text) => written.push(text), () => Date.now());
  for (let at = 0; at < 100; at++) address.keep(`at=${at}`);
  assert.deepEqual(written, ['at=0']);
  t.mock.timers.tick(400);
  t.mock.timers.tick(600);
  assert.deepEqual(written, ['at=0', 'at=99']);
  address.keep('at=5');
  assert.deepEqual(written, ['at=0', 'at=99', 'at=5']);
});

test('a page that is scrubbed for half a minute changes its address fewer than 100 times', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  let count = 0;
  const address = new Address(() => count++, () => Date.now());
  for (let step = 0; step < 1800; step++) {
    address.keep(String(step));
    t.mock.timers.tick(1000 / 60);
  }
  assert.ok(count > 50 && count < 100, String(count));
});

test('what is to be written is written before another page is shown, or forgotten', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  const written = [];
  const address = new Address((text) => written.push(text), () => Date.now());
  for (const text of ['a', 'b']) address.keep(text);
  address.flush();
  address.flush();
  address.keep('c');
  address.forget();
  t.mock.timers.tick(1000);
  assert.deepEqual(written, ['a', 'b']);
});
