// @ts-check
/** `<inbox-page>`: all open questions, oldest first; each is answered in its place. */
import { fill, h, icon, setText } from '../../dom.js';
import { brief, moment } from '../../words.js';
import '../answer.js';
import { askedBy, closedIn, ended, KEYS, VERBS } from '../answers.js';
import { pageOf } from '../run_words.js';
import { valuesLine } from '../subject.js';
import { dateOf, dayTime, relative } from '../times.js';

/** @typedef {import('../answers.js').Inquiry} Inquiry */
/** @typedef {import('../answer.js').AnswerForm} AnswerForm */
/** @typedef {{inquiry: Inquiry, form: AnswerForm | null, closed: string}} Item closed: what became of it; empty while it is open */

const PAGE = 100;
/** Questions that are shown; the oldest of more. */
const MOST = 500;
/** Closed questions that the page remembers. */
const CLOSED = 20;
const TICK_MS = 15_000;
/** Entries before the end of a journal that have a fresh answer. */
const RECENT = 200;

/** Questions that were closed while this tab was open, newest first. @type {Item[]} */
let closedHere = [];

class InboxPage extends HTMLElement {
  constructor() {
    super();
    this.heading = 'Inbox';
    this.site = /** @type {import('../site.js').Site} */ (/** @type {unknown} */ (null)); // `enter` sets it before anything is shown
    this.keys = /** @type {[string, string][]} */ ([['J K', 'next, previous question'], ['A', 'approve the question that is shown; of high risk, with Enter after it'], ['R', 'reject it'], ['E', 'edit it, and approve that']]);
    /** @type {Map<string, Item>} the open ones, oldest first, and the current one */
    this.items = new Map();
    /** @type {Map<string, string>} titles of runs, by id */
    this.titles = new Map();
    /** @type {Map<string, string>} addresses of runs, by id */
    this.links = new Map();
    this.current = '';
    /** Where the next question is while none is the current one: the place of the one that was answered last. */
    this.place = 0;
    /** The last key went to another question: the next one may follow it at once, also from an empty field. */
    this.isMoving = false;
    this.isMore = false;
    /** @type {(() => void)[]} */
    this.stops = [];
  }

  /** @type {import('../site.js').Page['enter']} */
  async enter(site, _params, query) {
    this.site = site;
    this.query = query;
    this.list = h('ol', { class: 'inbox', tabindex: -1 });
    this.past = h('section', { class: 'answered' });
    this.hint = h('p', { class: 'mute keys-hint' });
    this.replaceChildren(this.hint, this.list, this.past);
    const keys = (/** @type {KeyboardEvent} */ event) => this.key(event);
    addEventListener('keydown', keys);
    const timer = setInterval(() => this.tick(), TICK_MS);
    this.stops = [() => removeEventListener('keydown', keys), () => clearInterval(timer)];
    await this.load();
    if (!this.current) this.show(query.get('question') ?? ''); // somebody may have chosen one already
    this.stops.push(site.channel.onTopic('inquiries', (ids) => void this.changed(ids)));
  }

  leave() {
    for (const stop of this.stops) stop();
    this.stops = [];
    const shown = this.items.get(this.current);
    if (shown?.closed) this.retire(shown);
  }

  /** Read the whole list. Questions that it no longer has were closed. */
  async load() {
    /** @type {Map<string, Inquiry>} */
    const found = new Map();
    let after = '';
    do {
      const page = await this.site.api.get(`/api/inquiries?limit=${PAGE}&after=${encodeURIComponent(after)}`);
      for (const inquiry of page.inquiries) found.set(inquiry.inquiry_id, inquiry);
      after = page.next ?? '';
    } while (after && found.size < MOST);
    this.isMore = !!after;
    for (const inquiry of found.values()) this.add(inquiry);
    for (const [id, item] of this.items) if (!found.has(id) && !item.closed) await this.look(id);
    this.draw();
    await this.name();
  }

  /** @param {string[] | null} ids */
  async changed(ids) {
    try {
      if (!ids || ids.length > RECENT / 10) await this.load();
      else for (const id of ids) await this.look(id);
      this.draw();
      await this.name();
    } catch (error) {
      if (this.isConnected) this.site.toast(`The inbox could not be read: ${/** @type {Error} */ (error).message}`);
    }
  }

  /**
   * Read one question again.
   * @param {string} id
   */
  async look(id) {
    const inquiry = await this.site.api.get(`/api/inquiries/${encodeURIComponent(id)}`).catch((/** @type {any} */ problem) => {
      if (problem.status === 404) return null;
      throw problem;
    });
    if (inquiry && !inquiry.answer) return this.add(inquiry);
    const item = this.items.get(id);
    if (item && !item.closed) await this.end(item, inquiry?.answer ?? '');
  }

  /** @param {Inquiry} inquiry */
  add(inquiry) {
    if (this.items.has(inquiry.inquiry_id) || closedHere.some((it) => it.inquiry.inquiry_id === inquiry.inquiry_id)) return;
    this.items.set(inquiry.inquiry_id, { inquiry, form: null, closed: '' });
    const sorted = [...this.items].sort(([, a], [, b]) => a.inquiry.asked_at - b.inquiry.asked_at);
    this.items = new Map(sorted);
  }

  /**
   * Note that a question was closed, and by whom. The current one stays where it is, and says so.
   * @param {Item} item
   * @param {string} answer
   */
  async end(item, answer) {
    const { inquiry } = item;
    item.closed = ended(answer);
    const at = await this.closedAt(inquiry).catch(() => 0);
    if (at) item.closed = `${ended(answer)}, ${dayTime(at, this.site.now())}`;
    item.form?.close(`This question is no longer open: ${item.closed}.`);
    if (this.current !== inquiry.inquiry_id) this.retire(item);
  }

  /**
   * Return when a question was closed; 0 if the end of its journal does not say.
   * @param {Inquiry} inquiry
   */
  async closedAt({ inquiry_id: id, run_id: run }) {
    const { run: row } = await this.site.api.get(`/api/runs/${encodeURIComponent(run)}`);
    for await (const deltas of this.site.api.lines(`/api/runs/${encodeURIComponent(run)}/deltas?after=${Math.max(0, row.seq - RECENT)}`)) {
      const at = closedIn(deltas, id);
      if (at) return at;
    }
    return 0;
  }

  /**
   * Move a closed question to the list of those.
   * @param {Item} item
   */
  retire(item) {
    this.items.delete(item.inquiry.inquiry_id);
    closedHere = [item, ...closedHere].slice(0, CLOSED);
  }

  /** Read the titles of the runs that ask. */
  async name() {
    const runs = [...new Set([...this.items.values(), ...closedHere].map(({ inquiry }) => inquiry.run_id))].filter((run) => !this.titles.has(run)).slice(0, PAGE);
    await Promise.all(
      runs.map(async (id) => {
        const found = await this.site.api.get(`/api/runs/${encodeURIComponent(id)}`).catch(() => null);
        this.titles.set(id, found?.run.title ?? '');
        if (found) this.links.set(id, pageOf(found.run));
      }),
    );
    if (runs.length) this.draw();
  }

  draw() {
    fill(this.list, [this.isMore, ...[...this.items].map(([id, item]) => `${id} ${item.closed} ${id === this.current} ${this.titles.get(item.inquiry.run_id)}`)].join('\n'), () =>
      this.items.size ? [[...this.items.values()].map((item) => this.row(item)), this.isMore ? h('li', { class: 'mute' }, `These are the oldest ${this.items.size}; there are more.`) : null] : h('li', { class: 'empty' }, icon('succeeded'), h('b', {}, 'No open questions'), h('span', {}, 'A question appears here when a run waits for a person.')),
    );
    fill(this.past, closedHere.map(({ inquiry }) => `${inquiry.inquiry_id} ${this.links.get(inquiry.run_id)}`).join('\n'), () =>
      closedHere.length ? [h('h2', {}, 'Closed while this tab was open'), h('ul', {}, closedHere.map((item) => h('li', {}, icon('person'), h('a', { href: this.links.get(item.inquiry.run_id) ?? '/runs', dir: 'auto' }, brief(item.inquiry.prompt, 120)), h('span', { class: 'mute', dir: 'auto' }, item.closed))))] : null,
    );
    const verbs = this.open?.inquiry.verbs ?? [];
    const keys = [['J', 'next'], ['K', 'previous'], ...Object.entries(KEYS).map(([verb, key]) => [key, verb]).filter(([, verb]) => verbs.includes(verb))];
    fill(this.hint, String(keys), () => keys.map(([key, name]) => h('span', {}, h('kbd', {}, key), ` ${name}`)));
    this.hint.hidden = !this.items.size;
    this.tick();
  }

  /** Return the form of the question that is shown, while one may answer it. */
  get open() {
    const form = this.items.get(this.current)?.form;
    return form?.isOpen && this.site.may('answer') ? form : null;
  }

  /** @param {Item} item */
  row(item) {
    const { inquiry } = item;
    const id = inquiry.inquiry_id;
    const isCurrent = id === this.current;
    const link = this.links.get(inquiry.run_id);
    const head = h(
      'button',
      { type: 'button', class: 'question-head', 'aria-expanded': String(isCurrent), 'data-question': id, onclick: () => this.show(isCurrent ? '' : id) },
      icon(item.closed ? 'person' : 'waiting'),
      h('span', { class: 'words' }, h('b', { dir: 'auto' }, brief(inquiry.prompt, isCurrent ? 2000 : 160)), h('small', { dir: 'auto' }, item.closed || askedBy(inquiry, this.titles)), isCurrent ? null : valuesLine(inquiry.subject)),
      h('span', { class: 'risk-of' }, inquiry.risk === 'low' ? null : h('span', { class: 'risk', 'data-risk': inquiry.risk }, `${inquiry.risk} risk`)),
      h('time', { 'data-at': inquiry.asked_at, title: `asked ${moment(inquiry.asked_at)}` }),
    );
    if (!isCurrent) return h('li', { class: 'question-row', tabindex: -1 }, head);
    item.form ??= this.form(item);
    const expires = inquiry.expires_at ? h('span', {}, 'Expires ', dateOf(inquiry.expires_at)) : null;
    return h('li', { class: 'question-row current' }, head, h('div', { class: 'body' }, h('p', { class: 'about' }, link ? h('a', { href: link }, 'Show the run') : null, expires, h('code', {}, id)), item.form));
  }

  /** @param {Item} item */
  form(item) {
    const form = /** @type {AnswerForm} */ (document.createElement('answer-form'));
    form.open(this.site, item.inquiry, { keys: true });
    form.addEventListener('closed', (event) => {
      const { text, open, isGiven } = /** @type {CustomEvent} */ (event).detail;
      if (item.closed) return;
      item.closed = text.replace(/\.$/, '');
      for (const inquiry of open) this.add(inquiry);
      if (open.length) this.site.toast(text);
      else if (isGiven) this.answered(item);
      this.draw();
    });
    return form;
  }

  /**
   * Close a question that was answered. The next one is not opened: its keys, and whatever is pressed next, would answer it.
   * @param {Item} item
   */
  answered(item) {
    const id = item.inquiry.inquiry_id;
    this.place = [...this.items.keys()].indexOf(id);
    this.site.toast(`${brief(item.inquiry.prompt, 80)}: ${item.closed}`);
    this.retire(item);
    if (this.current !== id) return; // somebody has gone on to another one
    this.show('');
    const rows = this.list.querySelectorAll('.question-row');
    (rows[Math.min(this.place, rows.length - 1)] ?? this.list).focus({ preventScroll: true });
  }

  /**
   * Make a question the current one.
   * @param {string} id empty for none
   * @param {boolean} [focus]
   */
  show(id, focus = false) {
    const before = this.items.get(this.current);
    if (before?.closed && this.current !== id) this.retire(before);
    this.current = this.items.has(id) ? id : '';
    const query = new URLSearchParams(this.query);
    if (this.current) query.set('question', this.current);
    else query.delete('question');
    this.site.keep(query);
    this.draw();
    const head = this.list?.querySelector('[aria-expanded="true"]');
    head?.closest('li')?.scrollIntoView({ block: 'nearest' });
    if (focus) head?.focus({ preventScroll: true });
    this.items.get(this.current)?.form?.enter();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]') || (this.open?.isBusy && !this.isMoving)) return;
    const isGoing = this.isMoving && this.site.isTyped();
    const field = /** @type {any} */ (event.target).closest('input, textarea, select');
    const by = { j: 1, k: -1 }[event.key.toLowerCase()];
    this.isMoving = !!by && (isGoing ? !field?.value : !field && (!this.current || !this.site.isTyped()));
    if (by && this.isMoving) this.move(by);
    else if (field || !this.open?.key(event)) return;
    event.preventDefault();
  }

  /** @param {number} by */
  move(by) {
    const ids = [...this.items.keys()];
    const at = ids.indexOf(this.current);
    const to = at < 0 ? this.place + Math.min(0, by) : at + by;
    if (ids.length) this.show(ids[Math.min(ids.length - 1, Math.max(0, to))], true);
  }

  /** Show how long ago each question was asked. */
  tick() {
    for (const time of this.querySelectorAll('time[data-at]')) {
      setText(time, relative(Number(/** @type {HTMLElement} */ (time).dataset.at), this.site.now()));
    }
  }

  /** @returns {import('../site.js').Command[]} */
  commands() {
    const form = this.open;
    const next = { title: 'Next question', hint: 'J', run: () => this.move(1) };
    return [next, ...(form?.inquiry.verbs ?? []).map((/** @type {string} */ verb) => ({ title: `${VERBS[verb] ?? verb} this question`, hint: KEYS[verb], run: () => void form?.choose(verb) }))];
  }
}

customElements.define('inbox-page', InboxPage);
