// @ts-check
/** `<run-journal>`: the entries around the cursor, newest first. What an entry says is made once, because each update shows most of them again. */
import { arrange, h, icon, setAttribute, setText } from './dom.js';
import { linesOf } from './fold.js';
import { duration, moment, named, taskName } from './words.js';

/** @typedef {import('./fold.js').Delta} Delta */

/** Entries that are shown: up to the cursor, and after it. */
const BEFORE = 60;
const AFTER = 12;

/** @typedef {{lines: import('./fold.js').LogLine[], element: any}} Made what an entry says, and its element, once it was shown; one that says nothing is shown at the cursor only */

class RunJournal extends HTMLElement {
  constructor() {
    super();
    /** What the entries were made for. */
    this.key = '';
    /** @type {Map<number, Made>} the entries around the cursor, by their number */
    this.made = new Map();
    this.list = h('ol', { class: 'journal' });
    this.rest = h('p', { class: 'mute' });
  }

  /**
   * @param {import('./player/cursor.js').Cursor} cursor
   * @param {string} run id of the run
   * @param {boolean} details also the entries of no interest to most readers
   * @param {number} start time of the first entry
   */
  draw(cursor, run, details, start) {
    const key = `${run}\n${details}`;
    if (this.key !== key) this.made.clear();
    if (!this.key) this.append(this.list, this.rest);
    this.key = key;
    const { deltas } = cursor.journal;
    /** @type {Map<number, Made>} */
    const made = new Map();
    const shown = [];
    let n = Math.min(deltas.length, cursor.count + AFTER);
    for (; n >= 1 && shown.length < BEFORE + AFTER; n--) {
      const delta = deltas[n - 1];
      const entry = this.made.get(n) ?? { lines: linesOf(delta).filter((line) => details || line.weight !== 'detail'), element: null };
      made.set(n, entry);
      const isCurrent = n === cursor.count;
      if (!entry.lines.length && !isCurrent) continue;
      entry.element ??= this.entry(n, delta, entry.lines, start, cursor.journal.rows);
      entry.element.className = n > cursor.count ? 'later' : '';
      setAttribute(entry.element, 'aria-current', isCurrent ? 'true' : null);
      shown.push(entry.element);
    }
    this.made = made;
    arrange(this.list, shown);
    this.rest.hidden = !n;
    setText(this.rest, `${n.toLocaleString('en')} earlier ${n === 1 ? 'entry' : 'entries'}`);
  }

  /**
   * @param {number} n
   * @param {Delta} delta
   * @param {import('./fold.js').LogLine[]} lines
   * @param {number} start
   * @param {import('./fold.js').Rows} rows
   */
  entry(n, delta, lines, start, rows) {
    const body = lines.length ? lines.map((line) => h('span', { dir: 'auto' }, line.part ? h('b', { title: line.part }, `${taskName(rows, line.part)} `) : null, line.text)) : h('span', { class: 'mute' }, named(delta.kind));
    const glyph = glyphOf(delta);
    const show = () => this.dispatchEvent(new CustomEvent('seek', { detail: n, bubbles: true }));
    const title = `Entry ${delta.seq}, ${delta.kind} by ${delta.actor}, ${moment(delta.at)}`;
    const button = h('button', { type: 'button', onclick: show, title }, icon(glyph, `of-${glyph}`), h('span', { class: 'lines' }, body), h('time', {}, duration(delta.at - start)));
    return h('li', {}, button);
  }
}

/** @param {Delta} delta */
function glyphOf(delta) {
  const puts = Object.entries(delta.put ?? {});
  if (puts.some(([id]) => id.startsWith('ask:'))) return 'waiting';
  if (delta.kind === 'planned' || delta.kind === 'edited') return 'agent';
  if (delta.kind === 'answered') return 'person';
  if (delta.kind.startsWith('device')) return 'device';
  const status = puts.map(([id, fields]) => (id.startsWith('task:') ? fields.status : undefined)).find(Boolean);
  return { RUNNING: 'running', COMPLETED: 'succeeded', FAILED: 'failed', SKIPPED: 'skipped', CANCELLED: 'cancelled', ok: 'succeeded', failed: 'failed', running: 'running' }[/** @type {string} */ (status)] ?? 'entry';
}

customElements.define('run-journal', RunJournal);
