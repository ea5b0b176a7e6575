// @ts-check
/** Reads JSON without rounding: an integer beyond 2^53 stays as it is written. */

/** Sixteen digits that do not follow a point: only then can there be such an integer. */
const LARGE = /(?<![.\d])\d{16}/;

/**
 * Return true for an integer that was rounded, also to infinity.
 * @param {any} value
 */
const isInexact = (value) => typeof value === 'number' && !Number.isSafeInteger(value) && (Number.isInteger(value) || !Number.isFinite(value));

/**
 * Return a JSON value. An integer that a number cannot hold is an object that `JSON.stringify` writes as its digits, in
 * browsers that have such objects.
 * @param {string} text
 * @returns {any}
 */
export function parse(text) {
  const { rawJSON } = /** @type {any} */ (JSON);
  if (!rawJSON || !LARGE.test(text)) return JSON.parse(text);
  const exact = (/** @type {string} */ _key, /** @type {any} */ value, /** @type {{source?: string}} */ context) =>
    isInexact(value) && context?.source ? rawJSON(context.source) : value;
  return JSON.parse(text, /** @type {any} */ (exact));
}
