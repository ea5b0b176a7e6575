// @ts-check
/**
 * Keeps from a command what was not meant as one: a second click at the same place, where another button may be than before,
 * and the letters of a text that somebody types.
 */

/** Milliseconds and pixels within which a click is at the place of the last one. */
const [AGAIN_MS, NEAR_PX] = [1000, 6];
/** Milliseconds in which a key after another one belongs to a text. */
const TYPED_MS = 700;
const MODIFIERS = ['Shift', 'Control', 'Alt', 'AltGraph', 'Meta'];
const COMMANDS = '.verbs button, .buttons button, run-actions button, .details .button';

/**
 * Let buttons that command something take no click at the place of the last click, unless something was entered meanwhile.
 * Keys are not held up.
 * @param {EventTarget} root
 * @param {() => number} [now] milliseconds
 */
export function guardCommands(root, now = () => performance.now()) {
  let [at, x, y] = [-Infinity, 0, 0];
  const guard = (/** @type {MouseEvent} */ event) => {
    if (!event.detail) return; // by a key
    const isAgain = now() - at < AGAIN_MS && Math.hypot(event.clientX - x, event.clientY - y) < NEAR_PX;
    [at, x, y] = [now(), event.clientX, event.clientY];
    if (!isAgain || !(/** @type {Element} */ (event.target).closest(COMMANDS))) return;
    event.preventDefault();
    event.stopPropagation();
  };
  root.addEventListener('input', () => (at = -Infinity), { capture: true });
  root.addEventListener('click', /** @type {EventListener} */ (guard), { capture: true });
}

/**
 * Listen to the keys; the function that is returned says of the last one whether it followed another one at once, as in a text.
 * Escape ends a text.
 * @param {EventTarget} root
 * @param {() => number} [now] milliseconds
 */
export function guardKeys(root, now = () => performance.now()) {
  let [last, pause] = [-Infinity, Infinity];
  const note = (/** @type {KeyboardEvent} */ { key }) => {
    if (MODIFIERS.includes(key)) return;
    pause = now() - last;
    last = key === 'Escape' ? -Infinity : now();
  };
  root.addEventListener('keydown', /** @type {EventListener} */ (note), { capture: true });
  return () => pause < TYPED_MS;
}
