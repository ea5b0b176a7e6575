// @ts-check
/** `<run-dock>`: the controls of the cursor, and the timeline. */
import { h, icon, setAttribute, setText } from './dom.js';
import './timeline.js';
import { taskName } from './words.js';

/** Seconds in which a recorded run is played. */
const PLAYED = 20;

/**
 * @param {string} glyph
 * @param {string} title
 * @param {() => void} click
 * @param {string} [text]
 */
export const button = (glyph, title, click, text = '') => h('button', { type: 'button', class: 'button', title, 'aria-label': text ? null : title, onclick: click }, icon(glyph), text ? h('span', {}, text) : null);

export class RunDock extends HTMLElement {
  /** @param {import('./page.js').RunPage} page */
  constructor(page) {
    super();
    this.page = page;
    this.timer = 0;
    this.playing = button('play', 'Play (space)', () => this.play());
    this.marker = button('diff', 'Mark the last edit (D)', () => page.switchMarking(), 'Show edit');
    this.whole = button('fit', 'Show the whole run', () => this.timeline.look(-Infinity, Infinity), 'Whole run');
    this.last = button('end', 'To the end (L)', () => page.cursor.show(Infinity), 'End');
    this.entry = h('p', { class: 'entry', dir: 'auto' });
    this.timeline = h('run-timeline', { onrange: () => page.later() });
  }

  connectedCallback() {
    const { page } = this;
    setAttribute(this, 'role', 'region');
    setAttribute(this, 'aria-label', 'Timeline');
    const steps = h(
      'span',
      { class: 'segments' },
      button('previousEdit', 'Previous edit of the plan ([)', () => this.toEdit(-1)),
      button('previous', 'One entry back (←)', () => page.cursor.step(-1)),
      this.playing,
      button('next', 'One entry on (→)', () => page.cursor.step(1)),
      button('nextEdit', 'Next edit of the plan (])', () => this.toEdit(1)),
    );
    this.replaceChildren(h('div', { class: 'controls' }, steps, this.last, this.marker, this.whole, this.entry), this.timeline);
  }

  /**
   * Draw the record of the run, and the cursor in it.
   * @param {import('./player/story.js').Story} story
   * @param {boolean} hasEdit there is an edit to mark
   * @param {number} now end of the axis of a run that goes on, in seconds since 1970; 0 for a record
   */
  draw(story, hasEdit, now) {
    const { cursor, shown, picked, marking } = this.page;
    const { delta } = cursor;
    this.timeline.draw(story, cursor, picked, now);
    setText(this.entry, delta ? `Entry ${delta.seq} of ${shown.journal.deltas[shown.journal.length - 1].seq} · ${delta.part ? `${taskName(shown.journal.rows, delta.part)}: ` : ''}${delta.text ?? ''}` : '');
    setAttribute(this.marker, 'aria-pressed', String(marking));
    this.marker.disabled = !hasEdit;
    this.whole.hidden = !this.timeline.range;
    this.last.disabled = cursor.atEnd;
    setText(this.last.querySelector('span'), this.page.host.now && !shown.journal.rows.get('run')?.ended ? 'Live' : 'End');
  }

  /** @param {number} by 1 for the next edit of the plan, -1 for the one before */
  toEdit(by) {
    const { page } = this;
    const { count } = page.cursor;
    const edit = by > 0 ? page.story.edits.find((it) => it.count > count) : page.story.edits.findLast((it) => it.count < count);
    if (!edit) return;
    page.marking = !edit.created;
    page.cursor.show(edit.count);
  }

  /** Play what the timeline shows of the record from the cursor, or from the start; stop if it plays. */
  play() {
    if (this.timer) return this.stop();
    const { cursor } = this.page;
    const { scale } = this.timeline;
    if (cursor.atEnd || !this.timeline.has(cursor.count + 1)) cursor.show(scale?.count(0) ?? 1);
    const from = Math.max(0, scale?.place(cursor.count) ?? 0);
    const since = performance.now();
    const tick = () => {
      const x = from + (performance.now() - since) / 1000 / PLAYED;
      const count = this.timeline.scale?.count(x) ?? Infinity;
      if (count > cursor.count) cursor.show(count);
      if (x >= 1 || cursor.atEnd) return this.stop();
      this.timer = requestAnimationFrame(tick);
    };
    this.timer = requestAnimationFrame(tick);
    this.playing.replaceChildren(icon('pause'));
  }

  stop() {
    if (this.timer) cancelAnimationFrame(this.timer);
    this.timer = 0;
    this.playing.replaceChildren(icon('play'));
  }
}

customElements.define('run-dock', RunDock);
