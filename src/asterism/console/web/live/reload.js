// @ts-check
/** Reads again what has changed. */
import { Problem } from './api.js';

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
