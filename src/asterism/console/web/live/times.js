// @ts-check
/** Moments in words, in the time zone of the reader. Pure, but for `timeOf` and `dateOf`, which build elements. */
import { h } from '../dom.js';
import { moment } from '../words.js';

const HOUR_S = 3600;

/**
 * Return how far a moment is from now; the time of day if it was more than an hour ago, since one looks for what was at night.
 * @param {number} at seconds since 1970
 * @param {number} now seconds since 1970
 */
export function relative(at, now) {
  const away = Math.abs(at - now);
  if (away < 5) return 'now';
  if (at > now) return `in ${rough(away)}`;
  return away < HOUR_S ? `${rough(away)} ago` : dayTime(at, now);
}

/**
 * Return the day and the time of a moment: `today 15:24`, `yesterday 02:00`, `Sun 22 Nov, 02:00`.
 * @param {number} at seconds since 1970
 * @param {number} now
 */
export function dayTime(at, now) {
  const words = inZone(at, '');
  const [today, yesterday] = [now, now - 24 * HOUR_S].map((it) => dayOf(inZone(it, '')));
  const near = dayOf(words) === today ? 'today' : dayOf(words) === yesterday ? 'yesterday' : '';
  return near ? `${near} ${words.slice(dayOf(words).length).replace(', ', '')}` : words;
}

/** @param {string} words of a moment, that end with the time of the day */
const dayOf = (words) => words.slice(0, words.lastIndexOf(', '));

/** @param {number} seconds */
function rough(seconds) {
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  if (seconds < 3570) return `${Math.round(seconds / 60)} min`;
  if (seconds < 36 * HOUR_S) return `${Math.round(seconds / HOUR_S)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

/**
 * Return a moment in words; its title has the exact one.
 * @param {number} at seconds since 1970
 * @param {number} now
 */
export const timeOf = (at, now) => h('time', { datetime: new Date(at * 1000).toISOString(), title: moment(at) }, relative(at, now));

/**
 * Return the day and the time of a moment; its title has the exact one, and that of another time zone.
 * @param {number} at seconds since 1970
 * @param {string} [zone] name of the other time zone
 */
export function dateOf(at, zone = '') {
  const [here, there] = [inZone(at, ''), inZone(at, zone)];
  return h('time', { datetime: new Date(at * 1000).toISOString(), title: here === there ? moment(at) : `${moment(at)}; ${there} in ${zone}` }, here);
}

/**
 * Return a moment in a time zone, as `Tue 24 Nov, 02:00`; in UTC if the browser does not know the zone.
 * @param {number} at
 * @param {string} zone name of a time zone; empty for the reader's
 */
export function inZone(at, zone) {
  const how = /** @type {Intl.DateTimeFormatOptions} */ ({ weekday: 'short', day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
  try {
    return new Intl.DateTimeFormat('en-GB', { ...how, timeZone: zone || undefined }).format(at * 1000);
  } catch {
    return `${new Intl.DateTimeFormat('en-GB', { ...how, timeZone: 'UTC' }).format(at * 1000)} UTC`;
  }
}
