// @ts-check
/** `<run-timeline>`: a lane for each device, the planner and people. Its playhead is the slider of the cursor. */
import { arrange, h, icon, setAttribute } from './dom.js';
import { rowsOf } from './fold.js';
import { inRows, span } from './player/lanes.js';
import { Scale, tickWords } from './player/scale.js';
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
/** Part of the axis over which a pointer is dragged to choose a range, at least. */
const DRAGGED = 0.01;
/** Seconds, or entries, that a range has at least. */
const SHORTEST = 0.01;
/** How much of the axis is shown after `+`, after `-` and after `0`: at most the whole. */
const ZOOMS = /** @type {Record<string, number>} */ ({ '+': 0.6, '-': 1 / 0.6, 0: 1e9 });

/** @param {number} x */
const onAxis = (x) => Math.min(1, Math.max(0, x));

class RunTimeline extends HTMLElement {
  constructor() {
    super();
    this.length = 0;
    this.width = 0;
    this.picked = '';
    /** @type {Scale | null} */
    this.scale = null;
    /** The part of the run that the axis shows; null for the whole. @type {import('./player/scale.js').Range | null} */
    this.range = null;
    /** Place of the axis at which a pointer began to choose a range. @type {number | null} */
    this.since = null;
    /** Place of the playhead. */
    this.place = 1;
    /** How often the cursor had been moved. */
    this.moves = 0;
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
    this.axis = h('div', { class: 'axis', 'aria-hidden': 'true', title: 'Drag to look at a part of the run' });
    this.chosen = h('i', { class: 'chosen', hidden: true });
    this.marks = h('div', { class: 'marks' });
    this.lanes = h('div', { class: 'lanes' });
    this.head = h('div', { class: 'playhead', role: 'slider', tabindex: 0, 'aria-label': 'Entry', 'aria-valuemin': 1 });
    this.track = h('div', { class: 'track' }, this.head);
    this.plot = h('div', { class: 'plot' }, this.axis, this.marks, this.lanes, this.track);
    this.append(this.plot);
    new ResizeObserver(() => this.resized()).observe(this);
    for (const kind of ['pointerdown', 'pointermove', 'pointerup', 'pointercancel']) this.plot.addEventListener(kind, (/** @type {PointerEvent} */ event) => this.point(event));
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
    const by = ZOOMS[event.key];
    if (by) this.look(this.place * (1 - by), this.place + (1 - this.place) * by);
    else if (to !== undefined) this.show(to);
    else return;
    event.preventDefault();
  }

  /**
   * Move the playhead; on the axis, choose the range that is shown.
   * @param {PointerEvent} event
   */
  point(event) {
    const box = this.track.getBoundingClientRect();
    const x = onAxis((event.clientX - box.left) / box.width);
    const target = /** @type {Element} */ (event.target);
    if (event.type === 'pointerdown' && !target.closest('button')) {
      this.plot.setPointerCapture(event.pointerId);
      this.since = this.axis.contains(target) ? x : null;
    }
    if (!this.plot.hasPointerCapture(event.pointerId)) return;
    const [from, to] = [x, this.since ?? x].sort((a, b) => a - b);
    const [isRange, isEnd] = [to - from > DRAGGED, event.type === 'pointerup'];
    this.chosen.hidden = !isRange || event.type !== 'pointermove';
    this.chosen.style.setProperty('--x', String(from));
    this.chosen.style.setProperty('--w', String(to - from));
    if (this.since === null || (isEnd && !isRange)) this.show(this.scale?.count(x) ?? 1);
    else if (isEnd) this.look(from, to);
  }

  /**
   * Show what is between two places of the axis.
   * @param {number} from
   * @param {number} to
   */
  look(from, to) {
    const range = this.scale?.range(from, to) ?? null;
    if (range && range[1] - range[0] < SHORTEST) return;
    this.range = range;
    this.drawnOf = null;
    this.dispatchEvent(new CustomEvent('range', { bubbles: true }));
  }

  /**
   * Return true if an entry is in the range that is shown: the state with which it begins, or a change within it.
   * @param {number} to
   */
  has(to) {
    return !!this.scale && to >= this.scale.count(0) && to <= this.scale.count(1);
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
    const isMoved = this.shown?.[0] === story && this.moves !== cursor.moves;
    this.moves = cursor.moves;
    this.shown = [story, cursor, picked, now];
    this.length = journal.length;
    if (this.drawnOf !== story) this.drawRecord(story, journal, now);
    else if (this.drawnLength !== journal.length || this.drawnNow !== now) this.soon ||= setTimeout(() => this.again(), Math.max(PACE_MS, PACE * this.took));
    const scale = /** @type {Scale} */ (this.scale);
    const place = scale.place(now ? Infinity : cursor.count);
    const isHere = this.has(cursor.count);
    this.place = onAxis(place);
    if (isMoved && !isHere) this.look(place - 0.5, place + 0.5);
    this.track.style.setProperty('--at', String(this.place)); // not on all: every bar below would get a new style
    this.head.classList.toggle('away', !isHere);
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
    const scale = (this.scale = new Scale(journal.deltas, story.bars.values(), now, this.range));
    this.width = this.track.clientWidth;
    this.picked = '';
    const bars = [...story.bars.values()].sort((a, b) => a.from - b.from);
    const used = new Set(bars.map((bar) => bar.lane));
    const planned = new Set([...rowsOf(story.rows, 'task')].map(([, task]) => String(task.device)));
    const devices = [...rowsOf(story.rows, 'device')].map(([id]) => id).filter((id) => used.has(id) || planned.has(id));
    const between = [...new Set([...devices, ...used])].filter((lane) => lane !== PLANNER && lane !== PEOPLE);
    const lanes = [...(used.has(PLANNER) ? [PLANNER] : []), ...between, ...(used.has(PEOPLE) ? [PEOPLE] : [])];
    const isOn = (/** @type {number} */ from, to = from) => from < 1 + 1e-9 && to > -1e-9;
    const all = bars.filter((bar) => isOn(...span(bar, scale)));
    const shown = all.slice(0, MOST);
    this.lanes.replaceChildren(...lanes.map((lane) => this.lane(lane, shown.filter((bar) => bar.lane === lane), scale, story)));
    if (all.length > MOST) this.lanes.append(h('p', { class: 'mute' }, `${count(all.length - MOST, 'later bar')} not drawn; the table has all tasks.`));
    const marks = story.edits.filter((edit) => isOn(scale.place(edit.count))).slice(-MARKS).map((edit) => {
      const text = edit.created ? 'Plan created' : `Plan changed: ${edit.delta.text ?? ''}`;
      const button = h('button', { type: 'button', class: 'edit-mark', title: text, 'aria-label': text, onclick: () => this.show(edit.count) }, icon('agent'));
      button.style.setProperty('--x', String(scale.place(edit.count)));
      return button;
    });
    const resumes = story.resumes.filter((it) => isOn(scale.place(it.count))).slice(-MARKS).map(({ count, delta }) => {
      const [text, x] = [`Entry ${delta.seq}: ${delta.text ?? ''}`, String(scale.place(count))];
      const button = h('button', { type: 'button', class: 'edit-mark resume-mark', title: text, 'aria-label': text, style: { '--x': x }, onclick: () => this.show(count) }, icon('resume'));
      return [button, h('i', { class: 'resumed', style: { '--x': x } })];
    });
    this.marks.replaceChildren(...marks, ...resumes.map(([button]) => button));
    arrange(this.track, [...resumes.map(([, line]) => line), this.chosen, this.head]); // the playhead may have the focus
    const ticks = scale.ticks(Math.max(3, Math.floor(this.width / 100)));
    const words = tickWords(ticks);
    const labels = ticks.map(({ x }, at) => h('span', { style: { '--x': String(x) } }, words[at]));
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
