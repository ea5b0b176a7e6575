// @ts-check
/** A journal that can be read at any entry: rows are folded from the nearest of the stored snapshots. */
import { apply } from '../fold.js';

/** @typedef {import('../fold.js').Delta} Delta */
/** @typedef {import('../fold.js').Rows} Rows */

/** Deltas between two snapshots at least. */
export const KEYFRAME = 64;
/** Rows for which there is one more delta between two snapshots, so that all of them grow no faster than the journal. */
const ROWS = 4;

/**
 * The deltas of a run so far, in order. An exported page pushes all of them at once; a live page
 * pushes each as it arrives.
 */
export class Journal {
  constructor() {
    /** @type {Delta[]} */
    this.deltas = [];
    /** @type {Rows} rows after the last delta */
    this.rows = new Map();
    /** @type {{count: number, rows: Rows}[]} the rows after the first `count` deltas */
    this.keyframes = [{ count: 0, rows: new Map() }];
  }

  /** Return the number of deltas. */
  get length() {
    return this.deltas.length;
  }

  /**
   * Append a delta. A reconnected stream may repeat one, which is ignored.
   * @param {Delta} delta
   * @returns {boolean} false for a delta that is known
   */
  push(delta) {
    if (this.length && delta.seq <= this.deltas[this.length - 1].seq) return false;
    this.deltas.push(delta);
    apply(this.rows, delta);
    const since = this.length - this.keyframes[this.keyframes.length - 1].count;
    if (since >= Math.max(KEYFRAME, this.rows.size / ROWS)) this.keyframes.push({ count: this.length, rows: new Map(this.rows) });
    return true;
  }

  /**
   * Return the rows after the first `count` deltas. Callers do not change them.
   * @param {number} count
   * @returns {Rows}
   */
  at(count) {
    if (count >= this.length) return this.rows;
    const frame = this.keyframes[leading(this.keyframes, (it) => it.count <= count) - 1] ?? this.keyframes[0];
    const rows = new Map(frame.rows);
    for (let n = frame.count; n < count; n++) apply(rows, this.deltas[n]);
    return rows;
  }

  /**
   * Return how many deltas have a seq up to this one.
   * @param {number} seq
   */
  countOf(seq) {
    return leading(this.deltas, (delta) => delta.seq <= seq);
  }
}

/**
 * Return the number of leading items with a property, by bisection: no later one may have it.
 * @template T
 * @param {T[]} items
 * @param {(item: T) => boolean} has
 */
export function leading(items, has) {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (has(items[middle])) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The entry that is shown: the last one, which follows a live run, or an earlier one. */
export class Cursor {
  /** @param {Journal} journal */
  constructor(journal) {
    this.journal = journal;
    /** @type {number | null} deltas that are shown; null follows the last one */
    this.fixed = null;
    /** How often an entry was asked for, also if it was shown already. */
    this.moves = 0;
    /** @type {Set<() => void>} */
    this.watchers = new Set();
  }

  /** Return how many deltas are shown. */
  get count() {
    return this.fixed ?? this.journal.length;
  }

  /** Return true if the last delta is shown. */
  get atEnd() {
    return this.count >= this.journal.length;
  }

  /** Return the delta that is shown; undefined for a journal without deltas. */
  get delta() {
    return this.journal.deltas[this.count - 1];
  }

  /** Return the rows that are shown. */
  get rows() {
    return this.journal.at(this.count);
  }

  /**
   * Show the first `count` deltas, at least one; the end if there are no more.
   * @param {number} count
   */
  show(count) {
    const now = Math.max(1, Math.round(count));
    this.moves++;
    this.fixed = now >= this.journal.length ? null : now;
    for (const watcher of this.watchers) watcher();
  }

  /**
   * Jump to the entry with a number.
   * @param {number} seq
   */
  jump(seq) {
    this.show(this.journal.countOf(seq));
  }

  /**
   * Move by a number of entries.
   * @param {number} by
   */
  step(by) {
    this.show(this.count + by);
  }
}
