// @ts-check
/** A journal that can be read at any entry: rows are folded from the nearest of the stored snapshots. */
import { apply } from '../fold.js';

/** @typedef {import('../fold.js').Delta} Delta */
/** @typedef {import('../fold.js').Rows} Rows */

/** Deltas between two snapshots: a jump folds 63 deltas at most. */
export const KEYFRAME = 64;

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
    /** @type {Rows[]} `keyframes[k]` has the rows after `k * KEYFRAME` deltas */
    this.keyframes = [new Map()];
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
    if (this.length % KEYFRAME === 0) this.keyframes.push(new Map(this.rows));
    return true;
  }

  /**
   * Return the rows after the first `count` deltas. Callers do not change them.
   * @param {number} count
   * @returns {Rows}
   */
  at(count) {
    if (count >= this.length) return this.rows;
    const frame = Math.floor(Math.max(0, count) / KEYFRAME);
    const rows = new Map(this.keyframes[frame]);
    for (let n = frame * KEYFRAME; n < count; n++) apply(rows, this.deltas[n]);
    return rows;
  }

  /**
   * Return how many deltas have a seq up to this one.
   * @param {number} seq
   */
  countOf(seq) {
    return this.upTo((delta) => delta.seq <= seq);
  }

  /**
   * Return how many deltas are not later than a time.
   * @param {number} at seconds since 1970
   */
  countAt(at) {
    return this.upTo((delta) => delta.at <= at);
  }

  /**
   * Return the number of leading deltas with a property, by bisection: no later one may have it.
   * @param {(delta: Delta) => boolean} has
   */
  upTo(has) {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (has(this.deltas[middle])) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** The entry that is shown: the last one, which follows a live run, or an earlier one. */
export class Cursor {
  /** @param {Journal} journal */
  constructor(journal) {
    this.journal = journal;
    /** @type {number | null} deltas that are shown; null follows the last one */
    this.fixed = null;
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
