// @ts-check
/** `<run-timeline>`: a lane for each device, the planner and people. Its playhead is the slider of the cursor. */
import { h, icon, setAttribute } from './dom.js';
import { rowsOf } from './fold.js';
import { inRows } from './player/lanes.js';
import { Scale } from './player/scale.js';
import { HANDLERS, PEOPLE, PLANNER } from './player/story.js';
import { count, duration } from './words.js';

/** @typedef {import('./player/story.js').Bar} Bar */
/** Bars that are drawn at most, many of them as one; a run with more shows the first and says so. */
const MOST = 20_000;
/** Marks of edits, and of resumes, at most: the last ones. */
const MARKS = 200;
/** Pixels below which bars that follow each other are drawn as one. */
const NARROW = 4;
/** Milliseconds between two drawings of a record that grows, at least, and as a multiple of those that one takes. */
const PACE_MS = 250;
const PACE = 20;
/** Width of a letter of a name, about. */
const LETTER = 6.4;
/** Width from which a bar shows the beginning of its name. */
const LEAST = 22;

export class RunTimeline extends HTMLElement {
  constructor() {
    super();
    this.length = 0;
    this.width = 0;
    this.picked = '';
    /** @type {Scale | null} */
    this.scale = null;
    /** @type {import('./player/story.js').Story | null} whose record is drawn */
    this.drawnOf = null;
    /** Entries that it was drawn with. */
    this.drawnLength = 0;
    /** End of the axis that it was drawn with. */
    this.drawnNow = 0;
    /** Timer of the next drawing of a record that grows; 0 for none. */
    this.soon = 0;
    /** Milliseconds that the last drawing took. */
    this.took = 0;
    /** @type {[import('./player/story.js').Story, import('./player/cursor.js').Cursor, string, number] | null} */
    this.shown = null;
  }

  connectedCallback() {
    if (this.plot) return;
    this.axis = h('div', { class: 'axis', 'aria-hidden': 'true' });
    this.marks = h('div', { class: 'marks' });
    this.lanes = h('div', { class: 'lanes' });
    this.head = h('div', { class: 'playhead', role: 'slider', tabindex: 0, 'aria-label': 'Entry', 'aria-valuemin': 1 });
    this.track = h('div', { class: 'track' }, this.head);
    this.plot = h('div', { class: 'plot' }, this.axis, this.marks, this.lanes, this.track);
    this.append(this.plot);
    new ResizeObserver(() => this.resized()).observe(this);
    this.plot.addEventListener('pointerdown', (/** @type {PointerEvent} */ event) => {
      if (/** @type {Element} */ (event.target).closest('button')) return;
      this.plot.setPointerCapture(event.pointerId);
      this.seek(event);
    });
    this.plot.addEventListener('pointermove', (/** @type {PointerEvent} */ event) => this.plot.hasPointerCapture(event.pointerId) && this.seek(event));
    this.head.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => this.key(event));
  }

  resized() {
    if (Math.abs(this.track.clientWidth - this.width) >= 2) this.again();
  }

  /** Draw the record again: its axis is another one. */
  again() {
    this.drawnOf = null;
    if (this.shown) this.draw(...this.shown);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const now = Number(this.head.getAttribute('aria-valuenow'));
    const to = { Home: 1, End: this.length, PageUp: now - 10, PageDown: now + 10 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.show(to);
  }

  /** @param {PointerEvent} event */
  seek(event) {
    const box = this.track.getBoundingClientRect();
    this.show(this.scale?.count((event.clientX - box.left) / box.width) ?? 1);
  }

  /** @param {number} to */
  show(to) {
    this.dispatchEvent(new CustomEvent('seek', { detail: to, bubbles: true }));
  }

  /**
   * Draw the record of a run, and the cursor in it.
   * @param {import('./player/story.js').Story} story
   * @param {import('./player/cursor.js').Cursor} cursor
   * @param {string} picked id of the picked task
   * @param {number} [now] seconds since 1970, up to which the axis of a run that goes on reaches; 0 for a record
   */
  draw(story, cursor, picked, now = 0) {
    const { journal } = cursor;
    this.shown = [story, cursor, picked, now];
    this.length = journal.length;
    if (this.drawnOf !== story) this.drawRecord(story, journal, now);
    else if (this.drawnLength !== journal.length || this.drawnNow !== now) this.soon ||= setTimeout(() => this.again(), Math.max(PACE_MS, PACE * this.took));
    const scale = /** @type {Scale} */ (this.scale);
    const place = now ? 1 : scale.place(cursor.count);
    this.track.style.setProperty('--at', String(place)); // not on all: every bar below would get a new style
    this.classList.toggle('past', !cursor.atEnd);
    setAttribute(this.head, 'aria-valuenow', String(cursor.count));
    setAttribute(this.head, 'aria-valuemax', String(journal.length));
    const delta = cursor.delta;
    setAttribute(this.head, 'aria-valuetext', delta ? `entry ${delta.seq}, ${duration(delta.at - scale.start)}, ${delta.text ?? ''}` : 'no entry');
    if (this.picked === picked) return;
    this.picked = picked;
    for (const bar of this.lanes.querySelectorAll('.bar')) bar.classList.toggle('picked', !!picked && bar.dataset.part === picked);
  }

  /**
   * @param {import('./player/story.js').Story} story
   * @param {import('./player/cursor.js').Journal} journal
   * @param {number} now
   */
  drawRecord(story, journal, now) {
    clearTimeout(this.soon);
    this.soon = 0;
    this.drawnLength = journal.length;
    this.drawnOf = story;
    this.drawnNow = now;
    const since = performance.now();
    const scale = (this.scale = new Scale(journal.deltas, story.bars.values(), now));
    this.width = this.track.clientWidth;
    this.picked = '';
    const bars = [...story.bars.values()].sort((a, b) => a.from - b.from);
    const used = new Set(bars.map((bar) => bar.lane));
    const planned = new Set([...rowsOf(story.rows, 'task')].map(([, task]) => String(task.device)));
    const devices = [...rowsOf(story.rows, 'device')].map(([id]) => id).filter((id) => used.has(id) || planned.has(id));
    const between = [...new Set([...devices, ...used])].filter((lane) => lane !== PLANNER && lane !== PEOPLE);
    const lanes = [...(used.has(PLANNER) ? [PLANNER] : []), ...between, ...(used.has(PEOPLE) ? [PEOPLE] : [])];
    const shown = bars.slice(0, MOST);
    this.lanes.replaceChildren(...lanes.map((lane) => this.lane(lane, shown.filter((bar) => bar.lane === lane), scale, story)));
    if (bars.length > MOST) this.lanes.append(h('p', { class: 'mute' }, `${count(bars.length - MOST, 'later bar')} not drawn; the table has all tasks.`));
    const marks = story.edits.slice(-MARKS).map((edit) => {
      const text = edit.created ? 'Plan created' : `Plan changed: ${edit.delta.text ?? ''}`;
      const button = h('button', { type: 'button', class: 'edit-mark', title: text, 'aria-label': text, onclick: () => this.show(edit.count) }, icon('agent'));
      button.style.setProperty('--x', String(scale.place(edit.count)));
      return button;
    });
    const resumes = story.resumes.slice(-MARKS).map(({ count, delta }) => {
      const [text, x] = [`Entry ${delta.seq}: ${delta.text ?? ''}`, String(scale.place(count))];
      const button = h('button', { type: 'button', class: 'edit-mark resume-mark', title: text, 'aria-label': text, style: { '--x': x }, onclick: () => this.show(count) }, icon('resume'));
      return [button, h('i', { class: 'resumed', style: { '--x': x } })];
    });
    this.marks.replaceChildren(...marks, ...resumes.map(([button]) => button));
    this.track.replaceChildren(...resumes.map(([, line]) => line), this.head);
    const ticks = scale.ticks(Math.max(3, Math.floor(this.width / 100)));
    const words = ticks.map(({ value }) => duration(value));
    const labels = ticks.flatMap(({ x }, at) => (words[at] === words[at - 1] ? [] : [h('span', { style: { '--x': String(x) } }, words[at])]));
    const gaps = scale.gaps.filter((gap) => gap.seconds >= 1).map(({ x, seconds }) => h('i', { class: 'gap', style: { '--x': String(x) }, title: `${duration(seconds)} without an entry, shortened` }));
    this.axis.replaceChildren(...labels, ...gaps);
    this.took = performance.now() - since;
  }

  /**
   * @param {string} lane
   * @param {Bar[]} bars
   * @param {Scale} scale
   * @param {import('./player/story.js').Story} story
   */
  lane(lane, bars, scale, story) {
    const { placed, rows } = inRows(bars, scale, NARROW / (this.width || NARROW * 100));
    const device = story.rows.get(`device:${lane}`);
    const glyph = lane === PLANNER ? 'agent' : lane === PEOPLE ? 'person' : 'device';
    const name = lane === PLANNER ? 'Planner' : lane === PEOPLE ? 'People' : lane === HANDLERS ? 'Handlers' : lane;
    const who = h('span', { class: 'who', 'data-lost': device?.lost ? 'true' : null, title: device?.lost ? `${name}: lost` : name }, icon(glyph), h('span', { dir: 'auto' }, name));
    return h('div', { class: 'lane', style: { '--rows': String(Math.max(1, rows)) } }, who, h('div', { class: 'bars' }, placed.map((it) => this.bar(it, scale))));
  }

  /**
   * @param {import('./player/lanes.js').Placed} placed
   * @param {Scale} scale
   */
  bar({ bars, status, row, from, to, room }, scale) {
    const [bar] = bars;
    const [title, name] = bars.length > 1 ? [groupWords(bars), ''] : [barWords(bar, scale), bar.name];
    const click = () => (bars.length > 1 ? this.show(bar.from) : this.dispatchEvent(new CustomEvent('pick', { detail: bar.part, bubbles: true })));
    const button = h('button', { type: 'button', class: bars.length > 1 ? 'bar many' : 'bar', tabindex: -1, 'data-status': status, title, 'aria-label': title, onclick: click });
    if (bars.length === 1) button.dataset.part = bar.part;
    const [own, need] = [this.width * (to - from), name.length * LETTER + 10];
    const beside = own < need && this.width * room - own > need;
    const label = name && (own > LEAST || beside) ? h('span', { class: beside ? 'name beside' : 'name', 'aria-hidden': 'true', dir: 'auto' }, name) : null;
    for (const element of label ? [button, label] : [button]) {
      for (const [property, value] of Object.entries({ '--x': from, '--w': to - from, '--row': row })) element.style.setProperty(property, String(value));
    }
    return [button, label];
  }
}

/**
 * @param {Bar} bar
 * @param {Scale} scale
 */
function barWords(bar, scale) {
  const isInterrupted = bar.status === 'interrupted';
  const seconds = ((!isInterrupted && bar.row.ended_at) || scale.times[(bar.to ?? scale.times.length) - 1]) - scale.times[bar.from - 1];
  const how = bar.status === 'waiting' && bar.to !== null ? 'answered' : bar.status;
  return isInterrupted ? `${bar.name}, interrupted and performed again ${duration(seconds)} later` : `${bar.name}, ${how}, ${duration(seconds)}`;
}

/** @param {Bar[]} bars */
function groupWords(bars) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { status } of bars) counts.set(status, (counts.get(status) ?? 0) + 1);
  return `${count(bars.length, 'bar')}: ${[...counts].map(([status, number]) => `${number} ${status}`).join(', ')}`;
}

customElements.define('run-timeline', RunTimeline);
