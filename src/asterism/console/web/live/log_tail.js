// @ts-check
/** The end of the output of a task as it grows, as pieces of text. Pure. */
import { byteCount, printed } from '../words.js';

/**
 * A part of a log, as the API sends it.
 * @typedef {object} Chunk
 * @property {number} seq
 * @property {string} effect id of the attempt; empty for a note that `position` bytes of the run's output were removed
 * @property {number} number of the attempt, from 1
 * @property {string} stream
 * @property {number} position bytes of the stream before it
 * @property {number} size its bytes
 * @property {string} text
 */
/** @typedef {{stream: string, text: string}} Piece output of a stream, or a remark (stream '') */

/** Bytes of output that a read returns, roughly, and its parts. */
export const READ = { tail: 64 << 10, limit: 256 };

/** The beginning of a command for a terminal at the end of a text; `printed` has the whole ones. */
// eslint-disable-next-line no-control-regex
const BEGUN = /\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]{0,200}\x1b?)?$/;

export class LogTail {
  constructor() {
    /** `after` of the next read; 0 before the first one. */
    this.after = 0;
    /** There is output before the first piece. */
    this.isCut = false;
    /** Bytes of each stream so far. @type {Map<string, number>} */
    this.ends = new Map();
    /** What may be the beginning of a command at the end of each stream. @type {Map<string, string>} */
    this.begun = new Map();
    this.number = 1;
  }

  /**
   * Return the pieces to show after those before.
   * @param {Chunk[]} chunks
   * @param {number} next
   * @returns {Piece[]}
   */
  take(chunks, next) {
    const isFirst = !this.after;
    this.after = next;
    if (isFirst) this.isCut = chunks.length >= READ.limit || chunks.reduce((sum, { size }) => sum + size, 0) >= READ.tail;
    return chunks.flatMap((chunk) => this.piecesOf(chunk, isFirst));
  }

  /**
   * @param {Chunk} chunk
   * @param {boolean} isFirst it is of the first read, which has only the end of a stream
   * @returns {Piece[]}
   */
  piecesOf({ effect, number, stream, position, size, text }, isFirst) {
    const place = `${effect} ${stream}`;
    const gap = effect ? position - (this.ends.get(place) ?? 0) : position;
    const isBefore = isFirst && !this.ends.has(place);
    this.ends.set(place, position + size);
    /** @type {Piece[]} */
    const pieces = [];
    if (gap > 0 && isBefore) this.isCut = true;
    else if (gap > 0) pieces.push({ stream: '', text: `… ${byteCount(gap)} left out …` });
    if (effect && number !== this.number) pieces.push({ stream: '', text: `Attempt ${(this.number = number)}` });
    const whole = (this.begun.get(place) ?? '') + text;
    const begun = whole.match(BEGUN)?.[0] ?? '';
    this.begun.set(place, begun);
    const shown = printed(whole.slice(0, whole.length - begun.length));
    return shown ? [...pieces, { stream, text: shown }] : pieces;
  }
}
