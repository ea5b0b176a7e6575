// @ts-check
/** `<task-log>`: what the picked task has printed, followed while it is under way. The page has the end of it. */
import { h, icon } from '../dom.js';
import { Problem } from './api.js';
import { LogTail, READ } from './log_tail.js';
import { loadPage } from './pages.js';
import { gathered } from './reload.js';

/** Characters that the page has. */
const MOST = 64 << 10;
/** Milliseconds between two reads of output that grows. */
const POLL_MS = 1000;
/** Milliseconds in which several changes of a task lead to one read. */
const SOON_MS = 50;
/** Pixels from the end within which a reader is at the end. */
const AT_END = 24;

export class TaskLog extends HTMLElement {
  constructor() {
    super();
    this.site = /** @type {import('./site.js').Site} */ (/** @type {unknown} */ (null)); // `open` sets it
    this.run = '';
    this.task = '';
    this.isUnderWay = false;
    /** The run is a fork: what was printed before it began belongs to its origin. */
    this.isFork = false;
    /** What is known of the task: another text leads to a read. */
    this.seen = '';
    this.tail = new LogTail();
    this.length = 0;
    this.timer = 0;
    this.reads = gathered(() => this.read(), SOON_MS);
    this.larger = h('button', { type: 'button', class: 'linkish', onclick: () => this.enlarge() }, 'Open large');
    this.whole = h('a', { download: '' }, 'Download the log');
    this.note = h('p', { class: 'mute', role: 'status' });
    this.output = h('pre', { class: 'log', tabindex: 0, role: 'log', 'aria-live': 'off', 'aria-label': 'Log', dir: 'auto' });
  }

  /**
   * @param {import('./site.js').Site} site
   * @param {string} run id
   */
  open(site, run) {
    this.site = site;
    this.run = run;
    this.replaceChildren(h('section', { class: 'card', 'aria-label': 'Log' }, h('h2', {}, icon('list'), 'Log', this.larger, this.whole), this.note, this.output));
    this.hidden = true;
    return this;
  }

  async enlarge() {
    const problem = await loadPage('log-view').catch((/** @type {Problem} */ it) => it);
    if (problem) this.site.toast(problem.detail);
    else /** @type {import('./log_view.js').LogView} */ (document.createElement('log-view')).open(/** @type {HTMLElement} */ (this.firstElementChild), this.output);
  }

  disconnectedCallback() {
    this.stop();
  }

  stop() {
    this.reads.stop();
    clearTimeout(this.timer);
  }

  /**
   * Show the log of a task.
   * @param {string} task id; empty for none
   * @param {string} status
   * @param {number} attempts
   */
  show(task, status, attempts) {
    const hasBegun = !!task && !['pending', 'ready', 'skipped'].includes(status);
    if (!hasBegun || task !== this.task) this.clear(hasBegun ? task : '');
    const seen = `${task}\n${status}\n${attempts}`;
    if (!hasBegun || seen === this.seen) return;
    this.seen = seen;
    this.isUnderWay = status === 'running';
    this.reads.start();
  }

  /** @param {string} task */
  clear(task) {
    if (task === this.task) return;
    clearTimeout(this.timer);
    this.task = task;
    this.seen = '';
    this.tail = new LogTail();
    this.length = 0;
    this.hidden = true;
    this.output.replaceChildren();
    this.whole.href = `/api/runs/${encodeURIComponent(this.run)}/logs.txt?${new URLSearchParams({ task, below: 'false' })}`;
  }

  /** Read what has been printed since the last read. */
  async read() {
    const { task, tail } = this;
    if (!task) return;
    clearTimeout(this.timer);
    const query = new URLSearchParams({ task, below: 'false', after: String(tail.after), tail: String(READ.tail), limit: String(READ.limit) });
    let problem = '';
    if (!document.hidden || !tail.after) {
      try {
        const { chunks, next } = await this.site.api.get(`/api/runs/${encodeURIComponent(this.run)}/logs?${query}`);
        if (tail === this.tail) this.add(tail.take(chunks, next));
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        problem = error.status ? error.detail : ''; // without an answer, the header says that the connection is lost
      }
    }
    if (tail !== this.tail) return;
    this.hidden = false;
    this.say(problem);
    if (this.isUnderWay && this.isConnected) this.timer = window.setTimeout(() => this.reads.start(), POLL_MS);
  }

  /** @param {string} problem */
  say(problem) {
    const isEmpty = !this.output.childElementCount;
    const text = problem || (isEmpty ? (this.isUnderWay ? 'It has printed nothing yet.' : this.isFork ? 'It has printed nothing since the fork. What it printed before is in the log of the origin.' : 'It has printed nothing.') : this.tail.isCut ? 'Only the end is shown.' : '');
    if (this.note.textContent !== text) this.note.textContent = text;
    this.note.hidden = !text;
    this.larger.hidden = this.whole.hidden = this.output.hidden = isEmpty;
  }

  /**
   * Add pieces at the end, remove the first ones beyond the bound, and stay at the end if the reader is there.
   * @param {import('./log_tail.js').Piece[]} pieces
   */
  add(pieces) {
    const { output } = this;
    const isAtEnd = output.scrollHeight - output.scrollTop - output.clientHeight < AT_END;
    for (const { stream, text } of pieces) {
      const last = output.lastElementChild;
      const part = h('span', {}, text);
      if (stream && last?.dataset.stream === stream) last.append(part);
      else output.append(h('span', stream ? { class: 'printed', 'data-stream': stream } : { class: 'remark' }, part));
      this.length += part.textContent.length;
    }
    while (this.length > MOST) this.dropFirst();
    if (isAtEnd) output.scrollTop = output.scrollHeight;
  }

  /** Remove the first piece, or its beginning. */
  dropFirst() {
    const part = this.output.firstElementChild.firstElementChild;
    const { length } = part.textContent;
    const beyond = this.length - MOST;
    this.tail.isCut = true;
    this.length -= Math.min(length, beyond);
    if (length > beyond) part.textContent = part.textContent.slice(beyond);
    else if (part.nextElementSibling) part.remove();
    else part.parentElement.remove();
  }
}

customElements.define('task-log', TaskLog);
