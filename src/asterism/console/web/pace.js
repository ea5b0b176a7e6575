// @ts-check
/** Limits how often something is done. */

/**
 * Return a function that calls another one soon, but not before so many milliseconds after the last call; of several calls
 * meanwhile, the last one counts.
 * @template {any[]} Given
 * @param {(...given: Given) => void} work
 * @param {number} ms
 * @returns {((...given: Given) => void) & {stop: () => void}} `stop` drops the call that is due
 */
export function paced(work, ms) {
  let [timer, last] = [0, -ms];
  const later = (/** @type {Given} */ ...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      last = performance.now();
      work(...given);
    }, Math.max(0, last + ms - performance.now()));
  };
  return Object.assign(later, { stop: () => clearTimeout(timer) });
}
