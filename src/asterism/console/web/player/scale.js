// @ts-check
/**
 * The axis of the timeline: a place from 0 to 1 for each delta. Time in which nothing is under way is shortened, and the
 * place where it was is known. A journal whose entries share one time is measured in entries.
 */

/** An idle gap is shown in full up to this part of the time in which something is under way. */
const IDLE = 0.05;
const TICKS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400, 604_800];

/** @typedef {{x: number, seconds: number}} Gap a shortened gap: its middle, and how long it was */

export class Scale {
  /**
   * @param {import('../fold.js').Delta[]} deltas
   * @param {Iterable<import('./story.js').Bar>} bars
   * @param {number} [now] end of the axis after the last delta, in seconds since 1970; 0 for an axis that ends with it
   */
  constructor(deltas, bars, now = 0) {
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
    /** Seconds that the axis shows. */
    this.shown = whole ? total : 0;
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
    let low = 1;
    let high = this.places.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.places[middle - 1] <= x + 1e-9) low = middle;
      else high = middle - 1;
    }
    return low;
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
      const [a, b] = [this.times[k] - this.start, this.times[k + 1] - this.start];
      const [x, y] = [this.places[k], this.places[k + 1]];
      if (y <= x || b <= a) continue;
      const first = Math.ceil(a / step - 1e-9) * step;
      for (let value = first, n = 0; value <= b + 1e-9 && n <= most; value += step, n++) {
        const place = x + ((value - a) / (b - a)) * (y - x);
        if (place - last > 0.6 / most || last < 0) {
          found.push({ x: place, value });
          last = place;
        }
      }
    }
    return found;
  }
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
