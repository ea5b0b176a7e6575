// @ts-check
/** Values of rows in words. Pure. */

/**
 * Control characters, half characters, line separators, and what has no shape of its own: marks that reorder the text
 * around them, tags, and others. Of these, U+200C and U+200D join or part the characters of some scripts and pictures.
 */
// eslint-disable-next-line no-control-regex
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\p{Cs}\p{Zl}\p{Zp}]|(?![\u200c\u200d])\p{Cf}/gu;
/** The first half of a character whose second half was cut off. */
const HALF = /[\ud800-\udbff]$/;
/** What a terminal reads as commands, such as colors. */
// eslint-disable-next-line no-control-regex
const COMMAND = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])/g;
const SHORT = 120;

/**
 * Return a text with escapes in place of the characters that a reader cannot see.
 * @param {string} text
 */
export const visible = (text) => text.replace(HIDDEN, escaped);

/** @param {string} character */
function escaped(character) {
  const code = /** @type {number} */ (character.codePointAt(0)).toString(16);
  return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, '0')}`;
}

/**
 * Return the output of a program as lines of text, without commands for a terminal.
 * @param {string} output
 */
export const printed = (output) => output.replace(COMMAND, '').replace(/\r\n?/g, '\n');

/**
 * Return a duration.
 * @param {number} seconds
 */
export function duration(seconds) {
  const s = Math.max(0, seconds);
  if (s < 9.95) return `${s < 0.05 ? 0 : s.toFixed(1)} s`;
  if (s < 59.5) return `${Math.round(s)} s`;
  const two = (/** @type {number} */ value) => String(Math.floor(value)).padStart(2, '0');
  if (s < 3600) return `${Math.floor(Math.round(s) / 60)}:${two(Math.round(s) % 60)}`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${two((s % 3600) / 60)}`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

const MOMENT = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });

/**
 * Return a moment in the time zone of the reader, as `24 Nov 2026, 15:24:18`.
 * @param {number} at seconds since 1970
 */
export const moment = (at) => MOMENT.format(at * 1000);

/**
 * Return a count with its noun.
 * @param {number} number
 * @param {string} noun
 */
export const count = (number, noun) => `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`;

/**
 * Return a number of bytes: `12 bytes`, `3.4 kB`, `84 MB`.
 * @param {number} number
 */
export function byteCount(number) {
  if (number < 1000) return count(number, 'byte');
  const [size, unit] = number < 1e6 ? [number / 1e3, 'kB'] : [number / 1e6, 'MB'];
  return `${size < 1000 ? Number(size.toPrecision(3)) : Math.round(size)} ${unit}`;
}

/**
 * Return an amount of US dollars, with two digits that count: `$12.35`, `$0.28`, `$0.0096`.
 * @param {number} amount
 */
export const dollars = (amount) => (amount > 0 && amount < 1e-4 ? '<$0.0001' : `$${amount < 0.1 ? Number(amount.toPrecision(2)) : amount.toFixed(2)}`);

/**
 * Return a large number in short: `950`, `16.1k`, `3.2M`.
 * @param {number} number
 */
export const short = (number) => (number < 1000 ? String(number) : number < 999_950 ? `${(number / 1e3).toFixed(1)}k` : `${(number / 1e6).toFixed(1)}M`);

/** @typedef {{$long: number, beginning: string, seq?: number}} Long a long value: its length and its beginning */

/**
 * Return true for the beginning of a value that is too long for a row.
 * @param {any} value
 * @returns {value is Long}
 */
export const isLong = (value) => typeof value === 'object' && value !== null && typeof value.$long === 'number' && 'beginning' in value;

/**
 * Return a value as text: a text as it is, anything else as JSON.
 * @param {any} value
 */
export function textOf(value) {
  if (value === null || value === undefined) return '';
  if (isLong(value)) return `${value.beginning}…`;
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}

/**
 * Return a value in one line.
 * @param {any} value
 * @param {number} [most] characters
 */
export function brief(value, most = SHORT) {
  if (value === null || value === undefined) return '–';
  const text = isLong(value) ? value.beginning : typeof value === 'string' ? value : JSON.stringify(value);
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length > most || isLong(value) ? `${line.slice(0, most).replace(HALF, '')}…` : line;
}

/**
 * Return a value in one line for a list: of a long one its beginning and its length.
 * @param {any} value
 * @param {number} most characters
 */
export function folded(value, most) {
  const { length } = exact(value ?? '');
  return brief(value, most) + (length > most ? ` ${count(length, 'character')}` : '');
}

/** Texts that look like other JSON, or have white space at an end. */
const UNCLEAR = /^(["[{]|-?\d|(true|false|null)$)|^\s|\s$|\\/;
/** White space that looks like another one, and what joins or parts characters. */
const ALIKE = /[^\S\n ]|[\u200c\u200d]/g;
const clear = (/** @type {string} */ text) => visible(text).replace(ALIKE, escaped);

/**
 * Return a JSON value in full: two values that differ never give the same text, as a page shows it.
 * @param {any} value
 */
export const exact = (value) => (typeof value === 'string' && value && !UNCLEAR.test(value) && clear(value) === value ? value : clear(JSON.stringify(value, null, 2)));

/**
 * Return the state of a machine; that of a cancelled run says so, because it may be the state of a failed one.
 * @param {string} state
 * @param {string | undefined} outcome
 */
export const stateWords = (state, outcome) => (outcome === 'cancelled' && state !== 'CANCELLED' ? `${state} · cancelled` : state);

/**
 * Return a name of the journal as words: `constellation_submitted`, `WAITING_FOR_INPUT`.
 * @param {string} name
 */
export function named(name) {
  if (name === 'effect_cancelled') return 'What was cancelled has stopped';
  const words = name.replaceAll('_', ' ').toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/**
 * Return the name of a task or step; its id where it has none, or is not in the rows.
 * @param {import('./fold.js').Rows} rows
 * @param {string} id
 * @param {number} [most] characters
 */
export const taskName = (rows, id, most = 60) => brief(rows.get(`task:${id}`)?.name || id, most) || id;
