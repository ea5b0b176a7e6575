import assert from 'node:assert/strict';
import { test } from 'node:test';
import { guardCommands, guardKeys } from '../../../src/asterism/console/web/live/guard.js';

/** A place with a button that commands something, or another one; clicks tell whether they have passed. */
function page() {
  const [root, clock] = [new EventTarget(), { now: 0 }];
  let isCommand = true;
  root.closest = () => (isCommand ? root : null);
  guardCommands(root, () => clock.now);
  const click = (x, { detail = 1, command = true, after = 100 } = {}) => {
    clock.now += after;
    isCommand = command;
    return root.dispatchEvent(Object.assign(new Event('click', { cancelable: true }), { detail, clientX: x, clientY: 0 }));
  };
  return { click, enter: () => root.dispatchEvent(new Event('input')) };
}

test('a second click at the same place commands nothing, whatever has come there', () => {
  const { click } = page();
  assert.equal(click(10, { command: false }), true);
  assert.equal(click(12), false);
  assert.equal(click(12, { after: 900 }), false);
  assert.equal(click(12, { after: 1001 }), true);
});

test('a click passes at another place, of another button, by a key, or after something was entered', () => {
  const { click, enter } = page();
  assert.equal(click(10), true);
  assert.equal(click(40), true);
  assert.equal(click(40, { command: false }), true);
  assert.equal(click(40, { detail: 0 }), true);
  enter();
  assert.equal(click(40), true);
});

test('a key is of a text if it follows another one at once; a modifier is no such key, and Escape ends a text', () => {
  const [root, clock] = [new EventTarget(), { now: 0 }];
  const isTyped = guardKeys(root, () => clock.now);
  const press = (key, after) => {
    clock.now += after;
    root.dispatchEvent(Object.assign(new Event('keydown'), { key }));
    return isTyped();
  };
  assert.deepEqual([...'Okafor'].map((key) => press(key, 150)), [false, true, true, true, true, true]);
  assert.equal(press('a', 701), false);
  press('Shift', 600);
  assert.equal(press('A', 200), false);
  press('Escape', 50);
  assert.equal(press('j', 50), false);
});
