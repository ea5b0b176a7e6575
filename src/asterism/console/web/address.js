// @ts-check
/** Writes the state of a page into the address of the tab, seldom enough for browsers, which refuse more than 100 changes in 30 s. */

/** Milliseconds between two changes. */
const PAUSE_MS = 400;

export class Address {
  /**
   * @param {(text: string) => void} write
   * @param {() => number} [now] milliseconds
   */
  constructor(write, now = () => performance.now()) {
    this.write = write;
    this.now = now;
    this.text = '';
    this.writtenAt = -Infinity;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  /**
   * Write a text now, or the last one of several after a pause.
   * @param {string} text
   */
  keep(text) {
    this.text = text;
    if (this.timer !== undefined) return;
    const wait = this.writtenAt + PAUSE_MS - this.now();
    if (wait <= 0) this.put();
    else this.timer = setTimeout(() => this.put(), wait);
  }

  put() {
    this.forget();
    this.writtenAt = this.now();
    this.write(this.text);
  }

  /** Write what is still to be written. */
  flush() {
    if (this.timer !== undefined) this.put();
  }

  /** Leave out what is still to be written. */
  forget() {
    clearTimeout(this.timer);
    this.timer = undefined;
  }
}
