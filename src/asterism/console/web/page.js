// @ts-check
/** `<run-page>`: one run at one cursor. Every part of the page is drawn from the same rows. */
import './chat.js';
import { fill, h, icon, setAttribute, setText } from './dom.js';
import { rowsOf } from './fold.js';
import './loop.js';
import './machine.js';
import { keys, shortcuts } from './keys.js';
import { runNote } from './plan/rows.js';
import { Cursor } from './player/cursor.js';
import { Story } from './player/story.js';
import { editCard, journalRows, questionCards, taskCard } from './side.js';
import { progressWords, statusOf } from './status.js';
import './table.js';
import './timeline.js';
import { brief, duration, moment, textOf } from './words.js';

/**
 * A run that the page can show.
 * @typedef {object} Shown
 * @property {string} run id
 * @property {string} parent id of the parent run; empty for a root
 * @property {import('./machine.js').Machine} machine
 * @property {import('./player/cursor.js').Journal} journal
 * @property {Record<string, import('./side.js').Log>} logs
 */

/** Seconds in which a recorded run is played. */
const PLAYED = 20;

export class RunPage extends HTMLElement {
  constructor() {
    super();
    /** @type {Map<string, Shown>} */
    this.runs = new Map();
    const unset = /** @type {any} */ (null); // `open` chooses a run before anything is drawn
    /** @type {Shown} */
    this.shown = unset;
    /** @type {Cursor} */
    this.cursor = unset;
    /** @type {Story} */
    this.story = unset;
    this.picked = '';
    this.marking = false;
    this.asTable = false;
    this.details = false;
    /** @type {string | undefined} */
    this.hash = undefined;
    this.waiting = 0;
    this.timer = 0;
  }

  /**
   * Show one of several runs.
   * @param {Map<string, Shown>} runs by id, the root first
   */
  open(runs) {
    this.runs = runs;
    this.build();
    keys(this);
    addEventListener('hashchange', () => this.restore());
    this.restore();
  }

  /** Show what the address says: the run, the entry, the picked task, and how. */
  restore() {
    const hash = location.hash.slice(1);
    if (hash === this.hash) return;
    const wanted = new URLSearchParams(hash);
    this.choose(this.runs.get(wanted.get('run') ?? '') ?? [...this.runs.values()][0]);
    this.picked = wanted.get('task') ?? '';
    this.marking = wanted.has('edit');
    this.asTable = wanted.get('view') === 'table';
    const at = Number(wanted.get('at'));
    if (at > 0) this.cursor.jump(at);
    else this.cursor.show(Infinity);
  }

  /** @param {Shown} shown */
  choose(shown) {
    this.stop();
    this.shown = shown;
    this.cursor = new Cursor(shown.journal);
    this.story = new Story(shown.journal);
    this.cursor.watchers.add(() => this.later());
  }

  /** Build the parts of the page. */
  build() {
    const button = (/** @type {string} */ glyph, /** @type {string} */ title, /** @type {() => void} */ click, /** @type {string} */ text = '') => h('button', { type: 'button', class: 'button', title, 'aria-label': text ? null : title, onclick: click }, icon(glyph), text ? h('span', {}, text) : null);
    this.heading = h('h1', { dir: 'auto' });
    this.pill = h('span', { class: 'pill' });
    this.when = h('span', { class: 'when', role: 'status' });
    this.stats = h('dl', { class: 'stats' });
    this.view = button('table', 'Picture or table (T)', () => this.switchView(), 'Table');
    this.up = h('span', { class: 'up' });
    const top = h('header', { class: 'top' }, h('div', { class: 'title' }, this.up, this.heading, this.pill, this.when), this.stats, h('div', { class: 'acts' }, this.view, button('theme', 'Light or dark', () => this.switchTheme()), button('help', 'Keys (?)', () => this.help.showModal())));
    this.plan = h('plan-view', { 'aria-label': 'Plan' });
    this.table = h('task-table', { tabindex: 0, role: 'region', 'aria-label': 'Tasks' });
    this.loop = h('loop-view', { tabindex: 0, role: 'region', 'aria-label': 'Steps' });
    this.chat = h('chat-view');
    this.note = h('p', { class: 'note', role: 'status' });
    this.main = h('main', { id: 'main', tabindex: -1 }, this.plan, this.table, this.loop, this.chat, this.note);
    this.questions = h('div', { class: 'stack' });
    this.task = h('div', { class: 'stack' });
    this.why = h('div', { class: 'stack' });
    this.machine = h('state-machine');
    this.journal = h('div');
    const details = h('label', {}, h('input', { type: 'checkbox', onchange: (/** @type {any} */ event) => this.switchDetails(event.target.checked) }), 'all entries');
    const side = h('aside', { 'aria-label': 'Details' }, this.questions, this.task, this.why, h('section', { class: 'card' }, h('h2', {}, 'State'), this.machine), h('section', { class: 'card' }, h('h2', {}, 'Journal', details), this.journal));
    this.playing = button('play', 'Play (space)', () => this.play());
    this.marker = button('diff', 'Mark the last edit (D)', () => this.switchMarking(), 'Show edit');
    this.last = button('end', 'To the end (L)', () => this.cursor.show(Infinity), 'End');
    const steps = h('span', { class: 'segments' }, button('previousEdit', 'Previous edit of the plan ([)', () => this.toEdit(-1)), button('previous', 'One entry back (←)', () => this.cursor.step(-1)), this.playing, button('next', 'One entry on (→)', () => this.cursor.step(1)), button('nextEdit', 'Next edit of the plan (])', () => this.toEdit(1)));
    this.entry = h('p', { class: 'entry', dir: 'auto' });
    this.timeline = h('run-timeline');
    const dock = h('section', { class: 'dock', 'aria-label': 'Timeline' }, h('div', { class: 'controls' }, steps, this.last, this.marker, this.entry), this.timeline);
    this.help = shortcuts();
    this.replaceChildren(h('a', { class: 'skip', href: '#main', onclick: (/** @type {Event} */ event) => (event.preventDefault(), this.main.focus()) }, 'Skip to the plan'), top, this.main, side, dock, this.help);
    this.addEventListener('pick', (event) => this.pick(/** @type {CustomEvent} */ (event).detail));
    this.addEventListener('seek', (event) => this.cursor.show(/** @type {CustomEvent} */ (event).detail));
  }

  /** Draw in the next frame, once for all changes until then. */
  later() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.draw();
    });
  }

  /** Draw the page at the cursor. */
  draw() {
    const { cursor, shown } = this;
    const story = this.story.read();
    const [delta, rows] = [cursor.delta, cursor.rows];
    const run = rows.get('run') ?? {};
    const start = shown.journal.deltas[0]?.at ?? 0;
    const now = delta?.at ?? start;
    const edit = story.editAt(cursor.count);
    this.drawTop(run, rows, now - start);
    this.drawMain(run, rows, this.marking ? edit : null, now, start);
    const key = `${shown.run}\n${cursor.count}`;
    const link = (/** @type {string} */ child) => (this.runs.has(child) ? h('button', { type: 'button', class: 'linkish', onclick: () => this.goTo(child) }, child) : h('code', {}, child));
    fill(this.questions, `${shown.run}\n${[...rowsOf(rows, 'ask')].map(([id]) => id).join('\n')}`, () => questionCards(rows));
    fill(this.task, `${key}\n${this.picked}`, () => this.picked && taskCard(this.picked, rows, now, shown.logs, shown.run, link));
    fill(this.why, `${shown.run}\n${edit?.count}`, () => edit && editCard(edit, rows, (count) => cursor.show(count)));
    this.machine.draw(shown.machine, story.moves.filter((move) => move.count <= cursor.count), delta?.state ?? shown.machine.initial);
    fill(this.journal, `${key}\n${this.details}`, () => journalRows(cursor, this.details, (count) => cursor.show(count), start));
    this.timeline.draw(story, cursor, this.picked);
    setText(this.entry, delta ? `Entry ${delta.seq} of ${shown.journal.deltas[shown.journal.length - 1].seq} · ${delta.part ? `${delta.part}: ` : ''}${delta.text ?? ''}` : '');
    setAttribute(this.marker, 'aria-pressed', String(this.marking));
    this.marker.disabled = !edit;
    this.last.disabled = cursor.atEnd;
    this.classList.toggle('past', !cursor.atEnd);
    this.remember();
  }

  /**
   * @param {import('./fold.js').Row} run
   * @param {import('./fold.js').Rows} rows
   * @param {number} elapsed
   */
  drawTop(run, rows, elapsed) {
    const { shown, cursor } = this;
    const title = brief(run.name || run.request || run.agent || shown.run, 140);
    setText(this.heading, title);
    setAttribute(this.heading, 'title', textOf(run.request || run.agent || ''));
    if (document.title !== title) document.title = title;
    setText(this.pill, cursor.delta?.state ?? shown.machine.initial);
    setAttribute(this.pill, 'data-outcome', run.outcome ?? '');
    setText(this.when, `${cursor.atEnd ? (run.ended ? 'ended' : 'not ended when exported') : 'earlier entry'} · ${moment(cursor.delta?.at ?? 0)}`);
    const parent = this.runs.get(shown.parent);
    fill(this.up, shown.run, () => parent && h('button', { type: 'button', class: 'linkish', onclick: () => this.goTo(parent.run) }, `run ${parent.run} ›`));
    const tasks = [...rowsOf(rows, 'task')].filter(([, row]) => !row.item).map(([, row]) => statusOf(row, rows));
    const { used } = run;
    const stats = [
      tasks.length ? [run.machine === 'orchestration loop' ? 'Steps' : 'Tasks', progressWords(tasks)] : null,
      used?.cost_usd ? ['Cost', `$${used.cost_usd.toFixed(3)}`] : null,
      used && used.input_tokens + used.output_tokens ? ['Tokens', `${((used.input_tokens + used.output_tokens) / 1000).toFixed(1)}k`] : null,
      ['Elapsed', duration(elapsed)],
    ].filter((it) => it !== null);
    fill(this.stats, JSON.stringify(stats), () => stats.map(([term, value]) => h('div', {}, h('dt', {}, term), h('dd', {}, value))));
  }

  /**
   * @param {import('./fold.js').Row} run
   * @param {import('./fold.js').Rows} rows
   * @param {import('./player/story.js').Edit | null} edit
   * @param {number} now
   * @param {number} start
   */
  drawMain(run, rows, edit, now, start) {
    const kind = { 'orchestration loop': 'loop', 'flow agent': 'chat', 'constellation agent': 'plan' }[/** @type {string} */ (run.machine)] ?? 'table';
    const view = this.asTable && kind !== 'chat' ? 'table' : kind;
    for (const [name, element] of [['plan', this.plan], ['table', this.table], ['loop', this.loop], ['chat', this.chat]]) element.hidden = name !== view;
    this.view.hidden = kind === 'chat' || kind === 'table';
    setAttribute(this.view, 'aria-pressed', String(this.asTable));
    const key = `${this.shown.run}\n${this.cursor.count}`;
    if (view === 'plan') {
      this.plan.draw(rows, edit, now);
      this.plan.mark(this.picked);
    } else if (view === 'loop') this.loop.draw(rows, this.picked, key);
    else if (view === 'chat') this.chat.draw(rows, start, key);
    else this.table.draw(rows, now, start, this.picked, key);
    const note = view === 'plan' ? runNote(run) : '';
    setText(this.note, note);
    this.note.hidden = !note;
  }

  /** Put into the address what is shown, so that it can be sent to somebody. */
  remember() {
    const said = new URLSearchParams();
    if (this.shown.parent) said.set('run', this.shown.run);
    if (!this.cursor.atEnd) said.set('at', String(this.cursor.delta?.seq));
    if (this.picked) said.set('task', this.picked);
    if (this.marking) said.set('edit', '1');
    if (this.asTable) said.set('view', 'table');
    const hash = String(said);
    if (hash === (this.hash ?? '')) return;
    this.hash = hash;
    history.replaceState(null, '', `#${hash}`);
  }

  /** @param {string} id */
  pick(id) {
    this.picked = this.picked === id ? '' : id;
    this.later();
  }

  /** @param {string} run */
  goTo(run) {
    location.hash = new URLSearchParams({ run }).toString();
  }

  /** @param {number} by 1 for the next edit of the plan, -1 for the one before */
  toEdit(by) {
    const { count } = this.cursor;
    const edit = by > 0 ? this.story.edits.find((it) => it.count > count) : this.story.edits.findLast((it) => it.count < count);
    if (!edit) return;
    this.marking = !edit.created;
    this.cursor.show(edit.count);
  }

  /** Play the record from the cursor, or from the start; stop if it plays. */
  play() {
    if (this.timer) return this.stop();
    if (this.cursor.atEnd) this.cursor.show(1);
    const from = this.timeline.scale?.place(this.cursor.count) ?? 0;
    const since = performance.now();
    const tick = () => {
      const x = from + (performance.now() - since) / 1000 / PLAYED;
      const count = this.timeline.scale?.count(x) ?? Infinity;
      if (count > this.cursor.count) this.cursor.show(count);
      if (x >= 1 || this.cursor.atEnd) return this.stop();
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

  switchMarking() {
    this.marking = !this.marking;
    this.later();
  }

  switchView() {
    this.asTable = !this.asTable;
    this.later();
  }

  /** @param {boolean} on */
  switchDetails(on) {
    this.details = on;
    this.later();
  }

  switchTheme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
  }
}

customElements.define('run-page', RunPage);
