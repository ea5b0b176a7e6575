// @ts-check
/** `<run-page>`: one run at one cursor. Every part of the page is drawn from the same rows. */
import './chat.js';
import { button, RunDock } from './dock.js';
import { fill, h, setAttribute, setText } from './dom.js';
import { rowsOf } from './fold.js';
import './journal.js';
import './loop.js';
import './machine.js';
import { keys, shortcuts } from './keys.js';
import { runNote } from './plan/rows.js';
import { Cursor } from './player/cursor.js';
import { Story } from './player/story.js';
import { clockOf, editCard, failureCard, questionCards, taskCard } from './side.js';
import { progressWords, statusOf } from './status.js';
import './table.js';
import { brief, dollars, duration, moment, short, stateWords, textOf } from './words.js';

/**
 * @typedef {object} Shown a run that the page can show
 * @property {string} run id
 * @property {string} [title]
 * @property {string} parent id of the parent run; empty for a root
 * @property {import('./machine.js').Machine} machine
 * @property {import('./player/cursor.js').Journal} journal
 * @property {Record<string, import('./side.js').Log> | null} logs by effect id; null where the host draws them
 */

/**
 * What surrounds the page: a file, or the console.
 * @typedef {object} Host
 * @property {(query: URLSearchParams) => void} keep put into the address what is shown
 * @property {(run: string) => boolean} has true if another run can be shown
 * @property {(run: string) => void} goTo show another run
 * @property {(title: string) => void} titled
 * @property {HTMLElement} [bar] place for the title and the controls of the run; the page has its own without it
 * @property {HTMLElement} [acts] what can be done with the run
 * @property {HTMLElement} [more] more cards beside the picture
 * @property {() => number} [now] seconds since 1970, for a run that goes on; absent for a record
 * @property {(place: HTMLElement, rows: Rows, atEnd: boolean) => void} [questions] draws the open questions; they are shown as text without it
 * @property {(atEnd: boolean) => {rows: Rows, edit: import('./player/story.js').Edit | null} | null} [drafted] returns the plan with edits that are not sent
 * @property {(place: HTMLElement, task: string, row: import('./fold.js').Row | undefined) => void} [task] draws more about the picked task
 */
/** @typedef {import('./fold.js').Rows} Rows */

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
    /** What the address says. @type {string | undefined} */
    this.said = undefined;
    this.host = /** @type {Host} */ (unset);
    /** @type {RunDock} */
    this.dock = unset;
    this.waiting = 0;
  }

  /**
   * Show one of several runs.
   * @param {Map<string, Shown>} runs by id, the root first
   * @param {Host} host
   * @param {URLSearchParams} query
   */
  open(runs, host, query) {
    this.runs = runs;
    this.host = host;
    this.build();
    this.restore(query);
  }

  connectedCallback() {
    this.unwatch = keys(this);
  }

  disconnectedCallback() {
    this.unwatch?.();
    this.dock?.stop();
  }

  /**
   * Show what an address says: the run, the entry, the picked task, and how.
   * @param {URLSearchParams} query
   */
  restore(query) {
    if (String(query) === this.said) return;
    this.choose(this.runs.get(query.get('run') ?? '') ?? this.first);
    this.picked = query.get('task') ?? '';
    this.marking = query.has('edit');
    this.asTable = query.get('view') === 'table';
    this.dock.timeline.range = query.get('range')?.split('-').map(Number) ?? null;
    const at = Number(query.get('at'));
    at > 0 ? this.cursor.jump(at) : this.cursor.show(Infinity);
  }

  /** Return the run that is shown without a choice. */
  get first() {
    return [...this.runs.values()][0];
  }

  /** @param {Shown} shown */
  choose(shown) {
    this.dock.stop();
    this.shown = shown;
    this.cursor = new Cursor(shown.journal);
    this.story = new Story(shown.journal);
    this.cursor.watchers.add(() => this.later());
  }

  /** Build the parts of the page. */
  build() {
    this.heading = h('h1', { dir: 'auto' });
    this.pill = h('span', { class: 'pill' });
    this.when = h('span', { class: 'when', role: 'status' });
    this.stats = h('dl', { class: 'stats' });
    this.view = button('table', 'Picture or table (T)', () => this.switchView(), 'Table');
    this.up = h('span', { class: 'up' });
    const { bar } = this.host;
    const parts = [h('div', { class: 'title' }, this.up, this.heading, this.pill, this.when), this.stats, h('div', { class: 'acts' }, this.view, this.host.acts, bar ? null : [button('theme', 'Light or dark', () => this.switchTheme()), button('help', 'Keys (?)', () => this.help.showModal())])];
    bar?.replaceChildren(...parts);
    this.plan = h('plan-view', { 'aria-label': 'Plan' });
    this.table = h('task-table', { tabindex: 0, role: 'region', 'aria-label': 'Tasks' });
    this.loop = h('loop-view', { tabindex: 0, role: 'region', 'aria-label': 'Steps' });
    this.chat = h('chat-view');
    this.note = h('p', { class: 'note', role: 'status' });
    this.main = h('section', { class: 'picture', tabindex: -1 }, this.plan, this.table, this.loop, this.chat, this.note);
    this.questions = h('div', { class: 'stack' });
    this.task = h('div', { class: 'stack' });
    this.ofTask = h('div', { class: 'stack' });
    this.why = h('div', { class: 'stack' });
    this.machine = h('state-machine');
    this.journal = h('run-journal');
    const details = h('label', {}, h('input', { type: 'checkbox', onchange: (/** @type {any} */ event) => ((this.details = event.target.checked), this.later()) }), 'all entries');
    const side = h('aside', { 'aria-label': 'Details' }, this.questions, this.task, this.ofTask, this.why, h('section', { class: 'card' }, h('h2', {}, 'State'), this.machine), h('section', { class: 'card' }, h('h2', {}, 'Journal', details), this.journal), this.host.more);
    this.dock = new RunDock(this);
    this.help = shortcuts();
    const skip = h('a', { class: 'skip', href: '#', onclick: (/** @type {Event} */ event) => (event.preventDefault(), this.main.focus()) }, 'Skip to the plan');
    this.replaceChildren(...(bar ? [] : [skip, h('header', { class: 'top' }, parts)]), this.main, side, this.dock, this.help);
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
    const goesOn = this.goesOn(run);
    const now = Math.max(delta?.at ?? start, goesOn ? (this.host.now?.() ?? 0) : 0);
    const edit = story.editAt(cursor.count);
    this.dock.draw(story, !!edit, goesOn ? now : 0); // first: its height decides about the layout of the plan
    const copied = story.forkedAt(cursor.count);
    this.drawTop(run, rows, [copied ? 'Since it was copied' : 'Elapsed', duration(now - (copied || start))]);
    this.drawMain(run, rows, this.marking ? edit : null, now, start);
    const key = `${shown.run}\n${cursor.count}`;
    const link = (/** @type {string} */ child) => (this.host.has(child) ? h('button', { type: 'button', class: 'linkish', onclick: () => this.host.goTo(child) }, child) : h('code', {}, child));
    if (this.host.questions) this.host.questions(this.questions, rows, cursor.atEnd);
    else fill(this.questions, `${shown.run}\n${[...rowsOf(rows, 'ask')].map(([id]) => id).join('\n')}`, () => questionCards(rows));
    fill(this.task, `${key}\n${this.picked}`, () => (this.picked ? taskCard(this.picked, rows, now, shown.logs, shown.run, link) : failureCard(run, rows, (id) => this.pick(id))));
    const clock = this.task.querySelector('.clock');
    if (clock) setText(clock, clockOf(this.picked, rows, now));
    this.host.task?.(this.ofTask, this.picked, rows.get(`task:${this.picked}`));
    fill(this.why, `${shown.run}\n${edit?.count}`, () => edit && editCard(edit, rows, (count) => this.showEntry(count)));
    this.machine.draw(shown.machine, story.moves.filter((move) => move.count <= cursor.count), delta?.state ?? shown.machine.initial);
    this.journal.draw(cursor, shown.run, this.details, start);
    this.classList.toggle('past', !cursor.atEnd);
    this.remember();
  }

  /**
   * @param {import('./fold.js').Row} run
   * @param {import('./fold.js').Rows} rows
   * @param {[string, string]} elapsed term and value
   */
  drawTop(run, rows, elapsed) {
    const { shown, cursor } = this;
    const title = brief(run.name || run.request || run.agent || shown.title || shown.run, 140);
    setText(this.heading, title);
    setAttribute(this.heading, 'title', textOf(run.request || run.agent || ''));
    this.host.titled(title);
    setText(this.pill, stateWords(cursor.delta?.state ?? shown.machine.initial, run.outcome));
    setAttribute(this.pill, 'data-outcome', run.outcome ?? '');
    setText(this.when, this.goesOn(run) ? '' : `${cursor.atEnd ? (run.ended ? 'ended' : 'not ended when exported') : 'earlier entry'} · ${moment(cursor.delta?.at ?? 0)}`);
    fill(this.up, shown.run, () => shown.parent && this.host.has(shown.parent) && h('button', { type: 'button', class: 'linkish', onclick: () => this.host.goTo(shown.parent) }, `run ${shown.parent} ›`));
    const tasks = [...rowsOf(rows, 'task')].filter(([, row]) => !row.item).map(([, row]) => statusOf(row, rows));
    const { used } = run;
    const stats = [
      tasks.length ? [run.machine === 'orchestration loop' ? 'Steps' : 'Tasks', progressWords(tasks)] : null,
      used?.cost_usd ? ['Cost', dollars(used.cost_usd)] : null,
      used && used.input_tokens + used.output_tokens ? ['Tokens', short(used.input_tokens + used.output_tokens)] : null,
      elapsed,
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
      const drafted = this.host.drafted?.(this.cursor.atEnd);
      this.plan.draw(drafted?.rows ?? rows, drafted?.edit ?? edit, now);
      this.plan.mark(this.picked);
    } else if (view === 'loop') this.loop.draw(rows, this.picked, key);
    else if (view === 'chat') this.chat.draw(rows, start, key);
    else this.table.draw(rows, now, start, this.picked, key, kind === 'table');
    const note = view === 'plan' ? runNote(run) : '';
    setText(this.note, note);
    this.note.hidden = !note;
  }

  /**
   * Return true if the last entry of a run is shown that goes on.
   * @param {import('./fold.js').Row} run
   */
  goesOn(run) {
    return !!this.host.now && this.cursor.atEnd && !run.ended;
  }

  /** Put into the address what is shown, so that it can be sent to somebody. */
  remember() {
    const query = new URLSearchParams();
    if (this.shown !== this.first) query.set('run', this.shown.run);
    if (!this.cursor.atEnd) query.set('at', String(this.cursor.delta?.seq));
    if (this.picked) query.set('task', this.picked);
    if (this.dock.timeline.range) query.set('range', this.dock.timeline.range.join('-'));
    if (this.marking) query.set('edit', '1');
    if (this.asTable) query.set('view', 'table');
    const text = String(query);
    if (text === (this.said ?? '')) return;
    this.said = text;
    this.host.keep(query);
  }

  /** @param {string} id */
  pick(id) {
    this.picked = this.picked === id ? '' : id;
    this.later();
    if (this.picked && !this.plan.hasAttribute('data-editing')) requestAnimationFrame(() => this.task.firstElementChild?.scrollIntoView()); // it is drawn by then, below questions
  }

  /**
   * Show an entry, also in the journal.
   * @param {number} count entries up to and including it
   */
  showEntry(count) {
    this.cursor.show(count);
    requestAnimationFrame(() => this.journal.querySelector('[aria-current]')?.scrollIntoView({ block: 'center' })); // it is drawn by then
  }

  switchMarking() {
    this.marking = !this.marking;
    this.later();
  }

  switchView() {
    this.asTable = !this.asTable;
    this.later();
  }

  switchTheme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
  }
}

customElements.define('run-page', RunPage);
