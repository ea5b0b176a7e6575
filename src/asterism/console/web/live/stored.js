// @ts-check
/** What a browser stores for the console. One that stores nothing has it until the page is loaded again. */

/** @type {Map<string, string>} */
const held = new Map();

/**
 * Return a text that was stored; empty if there is none.
 * @param {'localStorage' | 'sessionStorage'} place
 * @param {string} name
 */
export function stored(place, name) {
  try {
    return window[place].getItem(name) ?? held.get(name) ?? '';
  } catch {
    return held.get(name) ?? '';
  }
}

/**
 * Store a text.
 * @param {'localStorage' | 'sessionStorage'} place
 * @param {string} name
 * @param {string} text
 */
export function store(place, name, text) {
  held.set(name, text);
  try {
    window[place].setItem(name, text);
  } catch {
    // it is full, or its owner refuses it
  }
}
