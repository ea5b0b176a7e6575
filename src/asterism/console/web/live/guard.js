// @ts-check
/** Keeps a second click at the same place from a command: what is under the pointer may be another button than before. */

/** Milliseconds and pixels within which a click is at the place of the last one. */
const [AGAIN_MS, NEAR_PX] = [1000, 6];
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
