import assert from 'node:assert/strict';
import { test } from 'node:test';
import { guardCommands } from '../../../src/asterism/console/web/live/guard.js';

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
