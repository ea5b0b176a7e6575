// @ts-check
/** The period that a page looks at, as its address says it. Pure. */

/** @typedef {{name: string, begin: number, end: number | null}} Period seconds since 1970; no end is now */

const HOUR = 3600;
/** Seconds before now, by the name of a period. */
const LASTING = /** @type {Record<string, number>} */ ({ hour: HOUR, day: 24 * HOUR, week: 7 * 24 * HOUR });
/** The year 10000: a later moment is none that somebody has meant, and may be none of a calendar. */
const LATEST = 253_402_300_800;
/** Hours at which a night begins and ends. */
const [EVENING, MORNING] = [18, 8];

/** Periods that can be chosen: name and words. */
export const PERIODS = [
  ['hour', 'Last hour'],
  ['day', 'Last 24 hours'],
  ['night', 'Last night, 18:00 to 8:00'],
  ['week', 'Last 7 days'],
  ['between', 'Between …'],
];

/**
 * Return the period of an address: `period=night`, or `period=between&begin=…&end=…`.
 * @param {URLSearchParams} query
 * @param {number} now
 * @returns {Period}
 */
export function periodOf(query, now) {
  const name = query.get('period') ?? 'day';
  if (name === 'night') return { name, ...lastNight(now) };
  if (name === 'between') {
    const given = (/** @type {string} */ which) => [Number(query.get(which))].find((at) => at > 0 && at < LATEST);
    const begin = given('begin') ?? now - LASTING.day;
    return { name, begin, end: Math.max(begin, given('end') ?? now) };
  }
  const known = Object.hasOwn(LASTING, name) ? name : 'day';
  return { name: known, begin: now - LASTING[known], end: null };
}

/**
 * Return the night before today, in the time zone of the reader; before the morning, that one up to now.
 * @param {number} now
 */
export function lastNight(now) {
  const day = new Date(now * 1000);
  day.setDate(day.getDate() - 1);
  const begin = day.setHours(EVENING, 0, 0, 0) / 1000;
  day.setDate(day.getDate() + 1);
  const end = day.setHours(MORNING, 0, 0, 0) / 1000;
  return { begin, end: end > now ? null : end };
}

/**
 * Return a moment as a field of the type `datetime-local` has it.
 * @param {number} at
 */
export function asLocal(at) {
  const date = new Date(at * 1000);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
