// @ts-check
/** What one does on the page of a run: its actions, its questions, and edits of its plan. */
import { fill, h, icon } from '../dom.js';
import { questionCards } from '../side.js';
import { brief } from '../words.js';
import './actions.js';
import './answer.js';
import { askedBy, VERBS } from './answers.js';
import { command } from './commands.js';
import { comparisons } from './run_compare.js';
import { dateOf } from './times.js';

/** @typedef {import('./site.js').Site} Site */
/** @typedef {import('../fold.js').Rows} Rows */
/** @typedef {import('./answer.js').AnswerForm} AnswerForm */
/** @typedef {import('./edit/editor.js').PlanEditor} PlanEditor */

/** Questions of a run and the runs below it that have a form. */
const MOST = 20;

export class RunActs {
  /**
   * @param {Site} site
   * @param {string} run
   * @param {() => import('../page.js').RunPage | undefined} page the page of the run, once it is there
   */
  constructor(site, run, page) {
    this.site = site;
    this.run = run;
    this.page = page;
    this.bar = /** @type {import('./actions.js').RunActions} */ (document.createElement('run-actions')).open(site);
    /** @type {Map<string, {card: HTMLElement, form: AnswerForm}>} the open questions, by id */
    this.cards = new Map();
    this.editing = h('div', { class: 'stack' });
    this.asking = h('div', { class: 'stack' });
    /** @type {PlanEditor | null} */
    this.editor = null;
    /** Seq of the entry that made the run a fork; 0 for none. @type {number | undefined} */
    this.forked = undefined;
    this.stops = [site.channel.onTopic('inquiries', () => void this.load()), site.channel.watch(() => this.page()?.later())];
  }

  stop() {
    for (const stop of this.stops) stop();
    this.editor?.stop();
  }

  /** Read the open questions of the run and the runs below it. */
  async load() {
    const found = await this.site.api.get(`/api/inquiries?run=${encodeURIComponent(this.run)}&limit=1000`).catch(() => null); // the list comes again
    if (!found) return;
    const open = found.inquiries.filter((/** @type {any} */ it) => it.run_id === this.run || it.run_id.startsWith(`${this.run}.`)).slice(0, MOST);
    const ids = new Set(open.map((/** @type {any} */ it) => it.inquiry_id));
    for (const [id, { form }] of this.cards) {
      if (ids.has(id)) continue;
      if (form.isOpen && !form.isBusy) this.site.toast(`No longer open: ${brief(form.inquiry.prompt, 80)}`);
      this.cards.delete(id);
    }
    for (const inquiry of open) if (!this.cards.has(inquiry.inquiry_id)) this.cards.set(inquiry.inquiry_id, this.card(inquiry));
    this.page()?.later();
  }

  /** @param {import('./answers.js').Inquiry} inquiry */
  card(inquiry) {
    const form = /** @type {AnswerForm} */ (document.createElement('answer-form'));
    form.open(this.site, inquiry, { keys: true });
    form.addEventListener('closed', (event) => {
      this.site.toast(`${brief(inquiry.prompt, 80)}: ${/** @type {CustomEvent} */ (event).detail.text}`);
      void this.load();
    });
    const keys = (/** @type {KeyboardEvent} */ event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || /** @type {Element} */ (event.target).closest('input, textarea, select') || !form.key(event)) return;
      event.preventDefault();
      event.stopPropagation();
    };
    const come = (/** @type {FocusEvent} */ event) => card.contains(/** @type {Node | null} */ (event.relatedTarget)) || form.come();
    const below = inquiry.run_id === this.run ? null : h('p', { class: 'mute' }, 'asked by ', h('a', { href: `/runs/${encodeURIComponent(inquiry.run_id)}` }, askedBy(inquiry, new Map())));
    const expires = inquiry.expires_at ? h('p', { class: 'mute' }, 'Expires ', dateOf(inquiry.expires_at)) : null;
    const card = h('section', { class: 'card question', 'aria-label': 'Needs you', tabindex: -1, onkeydown: keys, onfocusin: come }, h('h2', {}, icon('waiting'), 'Needs you'), h('p', { class: 'lead', dir: 'auto' }, inquiry.prompt), below, expires, form);
    return { card, form };
  }

  /**
   * Draw the open questions; of an earlier entry, those that were open then, as text.
   * @param {HTMLElement} place
   * @param {Rows} rows
   * @param {boolean} atEnd
   */
  questions(place, rows, atEnd) {
    if (!place.contains(this.editing)) place.replaceChildren(this.editing, this.asking);
    const key = atEnd ? `open\n${[...this.cards.keys()].join('\n')}` : `then\n${[...rows.keys()].filter((id) => id.startsWith('ask:')).join('\n')}`;
    fill(this.asking, key, () => (atEnd ? [...this.cards.values()].map(({ card }) => card) : questionCards(rows, true)));
  }

  /**
   * Draw the actions of the run, and those of the picked task; the page has been drawn before.
   * @param {HTMLElement} place
   * @param {string} id id of the picked task; empty for none
   */
  drawn(place, id) {
    const page = this.page();
    if (!page) return;
    const { rows } = page.shown.journal;
    const run = rows.get('run') ?? {};
    const canEdit = this.site.may('edit') && run.machine === 'constellation agent' && !run.ended && !this.editor;
    const edit = { name: 'Edit the plan', glyph: 'diff', title: 'Add and remove tasks and dependencies that have not started', run: () => void this.edit() };
    const seq = page.cursor.delta?.seq ?? 0;
    this.forked ??= page.shown.journal.deltas.findLast((delta) => delta.kind === 'forked')?.seq ?? 0;
    this.bar.draw({ run: this.run, rows, seq, atEnd: page.cursor.atEnd }, [...(canEdit ? [edit] : []), ...comparisons(this.site, this.run, seq, this.forked, () => page.later())]);
    const task = rows.get(`task:${id}`);
    const canRetry = this.site.may('command') && !!task && !task.item && ['FAILED', 'CANCELLED'].includes(task.status);
    fill(place, `${id} ${canRetry} ${this.site.isLive}`, () => (canRetry ? h('div', { class: 'verbs' }, h('button', { type: 'button', class: 'button', disabled: !this.site.isLive, onclick: () => void this.retry(id) }, icon('resume'), 'Retry this task')) : null));
    this.editor?.draw(rows, id);
  }

  /** @param {string} task */
  async retry(task) {
    try {
      const said = await command(this.site, this.run, { command: 'retry_failed', tasks: [task] }, 'The task runs again.');
      this.site.toast(said.text);
      if (said.run !== this.run) this.site.go(`/runs/${encodeURIComponent(said.run)}`);
    } catch (error) {
      this.site.toast(`Not done: ${/** @type {Error} */ (error).message}`);
    }
  }

  /** Begin to edit the plan. */
  async edit() {
    const page = this.page();
    if (!page || this.editor) return;
    const isLoaded = await import('./edit/editor.js').catch(() => this.site.toast('The editor cannot be loaded. Reload the page.'));
    const { devices } = await this.site.api.get('/api/devices').catch(() => ({ devices: [] }));
    if (!isLoaded || this.editor || !page.isConnected) return;
    const editor = /** @type {PlanEditor} */ (document.createElement('plan-editor'));
    page.cursor.show(Infinity);
    this.editor = editor.open(this.site, this.run, page.plan, devices);
    editor.addEventListener('edited', () => page.later());
    editor.addEventListener('close', () => {
      this.editor = null;
      this.editing.replaceChildren();
      page.later();
    });
    this.editing.replaceChildren(editor);
    page.later();
  }

  /**
   * Return the plan with the edits that somebody collects; null without any.
   * @param {boolean} atEnd
   */
  drafted(atEnd) {
    return this.editor && atEnd && this.editor.draft.actions.length ? this.editor.applied : null;
  }

  /** @returns {import('./site.js').Command[]} */
  commands() {
    const answers = [...this.cards.values()].flatMap(({ card, form }) => (form.isOpen ? form.verbs : []).map((/** @type {string} */ verb) => ({ title: `${VERBS[verb] ?? verb}: ${brief(form.inquiry.prompt, 60)}`, run: () => (card.scrollIntoView({ block: 'nearest' }), void form.choose(verb)) })));
    const edits = this.editor ? [{ title: 'Add a task to the plan', run: () => this.editor?.askTask() }, { title: 'Send the edits', run: () => void this.editor?.send() }] : [];
    return [...answers, ...edits, ...this.bar.commands()];
  }
}
