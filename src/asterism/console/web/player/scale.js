// @ts-check
/**
 * The axis of the timeline: a place for each delta, from 0 to 1 in the range that is shown. Time in which nothing is under
 * way is shortened, and the place where it was is known. A journal whose entries share one time is measured in entries.
 */
import { duration } from '../words.js';
import { leading } from './cursor.js';

/** An idle gap is shown in full up to this part of the time in which something is under way. */
const IDLE = 0.05;
const TICKS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400, 604_800];

/** @typedef {{x: number, seconds: number}} Gap a shortened gap: its middle, and how long it was */
/** @typedef {number[]} Range its begin and its end, in seconds or entries since the start; Infinity is the end of the axis */

export class Scale {
  /**
   * @param {import('../fold.js').Delta[]} deltas
   * @param {Iterable<import('./story.js').Bar>} bars
   * @param {number} [now] end of the axis after the last delta, in seconds since 1970; 0 for an axis that ends with it
   * @param {Range | null} [range] what is shown; the whole run without it, and for one that is none
   */
  constructor(deltas, bars, now = 0, range = null) {
    const times = deltas.map((delta) => delta.at);
    if (now && times.length) times.push(Math.max(now, times[times.length - 1]));
    const busy = underWay(times.length, bars);
    const gaps = times.slice(1).map((at, k) => Math.max(0, at - times[k]));
    const worked = gaps.reduce((sum, gap, k) => sum + (busy[k + 1] ? gap : 0), 0);
    const whole = gaps.reduce((sum, gap) => sum + gap, 0);
    const most = (worked || whole / Math.max(1, gaps.length)) * IDLE * (worked ? 1 : 20);
    const widths = whole ? gaps.map((gap, k) => (busy[k + 1] ? gap : Math.min(gap, most))) : gaps.map(() => 1);
    const total = widths.reduce((sum, width) => sum + width, 0) || 1;
    this.start = deltas[0]?.at ?? 0;
    this.times = times;
    this.inEntries = !whole;
    let value = 0;
    /** Seconds since the start at each delta, or entries. */
    this.values = times.map((at, k) => (value = whole ? Math.max(value, at - this.start) : k));
    /** @type {number[]} place of each delta */
    this.places = [0];
    /** @type {Gap[]} */
    this.gaps = [];
    let sum = 0;
    widths.forEach((width, k) => {
      if (whole && width < gaps[k] * 0.999) this.gaps.push({ x: (sum + width / 2) / total, seconds: gaps[k] });
      sum += width;
      this.places.push(sum / total);
    });
    const [from, to] = (range ?? [0, Infinity]).map((value) => along(this.values, this.places, value));
    const part = to > from ? to - from : 1;
    const seen = (/** @type {number} */ x) => (x - (to > from ? from : 0)) / part;
    this.places = this.places.map(seen);
    this.gaps = this.gaps.map((gap) => ({ ...gap, x: seen(gap.x) })).filter(({ x }) => x >= 0 && x <= 1);
    /** Seconds that the axis shows. */
    this.shown = whole ? total * part : 0;
  }

  /**
   * Return the range between two places; null for the whole run. One that begins before the axis, or ends after it, is moved.
   * @param {number} from
   * @param {number} to
   * @returns {Range | null}
   */
  range(from, to) {
    const [first, last] = [this.places[0], this.places[this.places.length - 1]];
    if (to - from >= last - first) return null;
    const begin = Math.min(Math.max(from, first), last - (to - from));
    const [a, b] = [begin, begin + to - from].map((x) => Math.round(along(this.places, this.values, x) * 1000) / 1000);
    return [a, begin + to - from < last - 1e-9 ? b : Infinity];
  }

  /**
   * Return the place of the delta with this number, from 1.
   * @param {number} count
   */
  place(count) {
    return this.places[Math.min(this.places.length, Math.max(1, count)) - 1] ?? 0;
  }

  /**
   * Return the number of the last delta at or before a place, at least 1.
   * @param {number} x
   */
  count(x) {
    return Math.max(1, leading(this.places, (it) => it <= x + 1e-9));
  }

  /**
   * Return the ticks of the axis: their places, and seconds or entries since the start.
   * @param {number} most
   * @returns {{x: number, value: number}[]}
   */
  ticks(most) {
    if (this.inEntries) return [];
    const step = TICKS.find((it) => this.shown / it <= most) ?? Math.ceil(this.shown / most / 604_800) * 604_800;
    const found = [];
    let last = -1;
    for (let k = 0; k + 1 < this.times.length; k++) {
      const [a, b] = [this.values[k], this.values[k + 1]];
      const [x, y] = [this.places[k], this.places[k + 1]];
      if (y <= x || b <= a) continue;
      const begin = x < 0 ? a - (x / (y - x)) * (b - a) : a;
      const first = Math.ceil(begin / step - 1e-9) * step;
      for (let value = first, n = 0; value <= b + 1e-9 && n <= most; value += step, n++) {
        const place = x + ((value - a) / (b - a)) * (y - x);
        if (place <= 1 + 1e-9 && (place - last > 0.6 / most || last < 0)) {
          found.push({ x: place, value });
          last = place;
        }
      }
    }
    return found;
  }
}

/**
 * Return the number that belongs to `x`, in proportion between those that belong to its neighbors.
 * @param {number[]} rising
 * @param {number[]} others one for each of `rising`
 * @param {number} x
 */
function along(rising, others, x) {
  const k = Math.max(0, leading(rising, (it) => it <= x + 1e-9) - 1);
  if (k + 1 >= rising.length || x <= rising[k]) return others[k];
  return others[k] + ((x - rising[k]) / (rising[k + 1] - rising[k])) * (others[k + 1] - others[k]);
}

/**
 * Return ticks in words. One that has the same duration in words as the tick before says how much later it is.
 * @param {{value: number}[]} ticks
 * @returns {string[]}
 */
export function tickWords(ticks) {
  let [last, since] = ['', 0];
  return ticks.map(({ value }) => {
    const words = duration(value < 9.95 ? value : Math.floor(value + 0.01));
    if (words === last) return `+${duration(value - since)}`;
    [last, since] = [words, value];
    return words;
  });
}

/**
 * Return for each gap between two deltas whether something is under way in it; gap `n` follows the first `n` deltas.
 * @param {number} length
 * @param {Iterable<import('./story.js').Bar>} bars
 */
function underWay(length, bars) {
  const changes = new Int32Array(length + 2);
  for (const bar of bars) {
    if (bar.status === 'waiting' || bar.status === 'queued' || bar.id.startsWith('ask:')) continue;
    changes[bar.from]++;
    changes[bar.status === 'interrupted' ? Number(bar.to) - 1 : (bar.to ?? length)]--;
  }
  const busy = [];
  let open = 0;
  for (let n = 0; n <= length; n++) {
    open += changes[n];
    busy.push(open > 0);
  }
  return busy;
}
