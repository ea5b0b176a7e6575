// @ts-check
/** Draws a part of a page again without taking the focus from it. */
import { fill } from '../dom.js';
import { Problem } from './api.js';

/**
 * Replace the children of an element, unless its key is the same as the last time. The focus stays on the element with
 * the same `data-key`.
 * @param {any} element
 * @param {string} key
 * @param {() => any} kids
 */
export function redraw(element, key, kids) {
  const focused = /** @type {HTMLElement | null} */ (document.activeElement);
  const id = focused && element.contains(focused) ? focused.dataset.key : undefined;
  fill(element, key, kids);
  if (id && !element.contains(document.activeElement)) element.querySelector(`[data-key="${CSS.escape(id)}"]`)?.focus({ preventScroll: true });
}

/**
 * Call a function soon after the first of several changes. A change while it works leads to one more call after it.
 * @param {() => Promise<void>} work
 * @param {number} ms
 */
export function gathered(work, ms) {
  let [timer, isWorking, isStale, isStopped] = [0, false, false, false];
  const call = async () => {
    [timer, isWorking, isStale] = [0, true, false];
    await work().finally(() => (isWorking = false));
    if (isStale) start();
  };
  const start = () => {
    if (isStopped) return;
    if (isWorking) isStale = true;
    else timer ||= window.setTimeout(() => void call(), ms);
  };
  const stop = () => {
    isStopped = true;
    clearTimeout(timer);
  };
  return { start, stop };
}

/**
 * Load again. What cannot be read now stays as it is, and the header says that the connection is lost.
 * @param {() => Promise<void>} load
 */
export async function reload(load) {
  await load().catch((error) => {
    if (!(error instanceof Problem)) throw error;
  });
}
