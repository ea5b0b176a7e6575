// @ts-check
/** `<runs-page>`: the runs, newest first, and a box to submit one. */
import { fill, h, icon, setAttribute, setText } from '../../dom.js';
import { dollars, duration, stateWords } from '../../words.js';
import { newKey, Problem } from '../api.js';
import { ChosenRuns } from '../chosen_runs.js';
import { gathered } from '../reload.js';
import { RunOrigins } from '../run_origins.js';
import { asked, isAsking, isQueued, lasted, pageOf, STATUSES, statusOfRun } from '../run_words.js';
import { relative, timeOf } from '../times.js';

/** @typedef {import('../run_words.js').Run} Run */

const LISTED = 50;
/** Open questions that are read; runs with later ones have no mark. */
const MOST_QUESTIONS = 1000;
/** Milliseconds between a change and the next look, and between two drawings of the times. */
const [LOOK_MS, TICK_MS] = [400, 1000];
/** Milliseconds without a key before the list is searched. */
const PAUSE_MS = 200;
/** Runs of which the cost is shown, and milliseconds between two looks at it. */
const [PRICED, PRICE_MS] = [12, 5000];
const FILTERS = ['q', 'status', 'machine', 'since', 'until', 'after'];

class RunsPage extends HTMLElement {
  constructor() {
    super();
    this.heading = 'Runs';
    this.keys = /** @type {[string, string][]} */ ([['J', 'next run'], ['K', 'previous run'], ['Enter', 'open the run'], ['X', 'choose the run; with Shift, all up to it']]);
    this.site = /** @type {import('../site.js').Site} */ (/** @type {unknown} */ (null)); // `enter` sets it before anything is shown
    this.query = new URLSearchParams();
    this.origins = /** @type {RunOrigins} */ (/** @type {unknown} */ (null)); // `enter` sets it
    this.chosen = /** @type {ChosenRuns} */ (/** @type {unknown} */ (null)); // `enter` sets it
    /** @type {Run[]} */
    this.runs = [];
    /** @type {string | null} cursor of the next page */
    this.next = null;
    /** @type {string[]} ids of the runs with open questions */
    this.asking = [];
    /** @type {Map<string, number>} US dollars that the unfinished runs have cost */
    this.costs = new Map();
    /** @type {Set<string>} ids of the runs that only wait for places of devices */
    this.queued = new Set();
    this.problem = '';
    this.looks = 0;
    this.key = newKey();
    /** @type {(() => void)[]} what ends with the page */
    this.stops = [];
  }

  /** @type {import('../site.js').Page['enter']} */
  async enter(site, _params, query) {
    this.site = site;
    this.origins = new RunOrigins(site.api);
    this.chosen = new ChosenRuns(site, () => this.draw());
    if (!site.may('command')) this.keys.pop();
    this.query = new URLSearchParams(FILTERS.flatMap((name) => (query.get(name) ? [[name, query.get(name) ?? '']] : [])));
    const { machines } = await site.api.get('/api/machines');
    this.build(machines.map((/** @type {any} */ it) => it.name));
    await this.load();
    if (!this.isConnected) return;
    void this.price();
    const pricing = gathered(async () => {
      pricing.start(); // after this look
      if (!document.hidden) await this.price();
    }, PRICE_MS);
    pricing.start();
    const looking = gathered(() => this.look(), LOOK_MS);
    const tick = setInterval(() => this.tick(), TICK_MS);
    const onKey = (/** @type {KeyboardEvent} */ event) => this.pressed(event);
    addEventListener('keydown', onKey);
    this.stops = [
      site.channel.onTopic('runs', looking.start),
      site.channel.onTopic('inquiries', looking.start),
      site.channel.watch(() => (this.enable(), this.chosen.draw(this.runs))),
      looking.stop,
      () => clearInterval(tick),
      pricing.stop,
      () => removeEventListener('keydown', onKey),
    ];
  }

  leave() {
    for (const stop of this.stops) stop();
    clearTimeout(this.typing);
  }

  /** @param {string[]} machines */
  build(machines) {
    const select = (/** @type {string} */ name, /** @type {string} */ title, /** @type {string[][]} */ options) =>
      h('select', { 'aria-label': title, onchange: (/** @type {any} */ event) => this.narrow(name, event.target.value) }, [['', `Any ${title.toLowerCase()}`], ...options].map(([value, text]) => h('option', { value, selected: value === (this.query.get(name) ?? '') }, text)));
    this.search = h('input', { type: 'search', class: 'field', 'data-search': true, 'aria-label': 'Search runs', placeholder: 'Search by title or id', autocomplete: 'off', spellcheck: 'false', value: this.query.get('q') ?? '', maxlength: 200, oninput: () => this.typed() });
    const day = (/** @type {string} */ name) => h('label', { class: 'day' }, name, h('input', { type: 'date', class: 'field', value: this.query.get(name.toLowerCase()) ?? '', title: 'When the run has started', onchange: (/** @type {any} */ event) => this.narrow(name.toLowerCase(), event.target.value) }));
    this.list = h('div', { class: 'panel', role: 'region', 'aria-label': 'Runs' });
    this.pages = h('nav', { class: 'tools pages', 'aria-label': 'Pages of runs' });
    this.replaceChildren(
      h(
        'div',
        { class: 'page' },
        this.site.may('submit') ? this.buildForm() : null,
        h('div', { class: 'tools' }, h('label', { class: 'searching' }, icon('search'), this.search, h('kbd', {}, '/')), select('status', 'Status', Object.entries(STATUSES)), select('machine', 'Machine', machines.map((name) => [name, name])), day('Since'), day('Until')),
        this.list,
        this.pages,
        this.chosen.bar,
      ),
    );
  }

  buildForm() {
    const sends = (/** @type {KeyboardEvent} */ event) => event.key === 'Enter' && !event.shiftKey && !event.isComposing && (event.preventDefault(), void this.submit());
    this.request = h('textarea', { class: 'field', rows: 1, maxlength: 20_000, dir: 'auto', 'aria-label': 'Request in words', 'aria-describedby': 'submitted', placeholder: 'What is to be done, in words', oninput: () => this.changed(), onkeydown: sends });
    this.button = h('button', { type: 'submit', class: 'button primary', disabled: true }, icon('play'), 'Start the run');
    const plan = h('a', { class: 'button', href: '/submit?as=plan', title: 'Submit a plan' }, icon('file'), 'From a plan');
    this.said = h('p', { id: 'submitted', class: 'submitted', role: 'status', dir: 'auto' });
    return h('form', { class: 'submit', onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), void this.submit()) }, this.request, this.button, plan, this.said);
  }

  /** The request has changed, so it is another one. */
  changed() {
    this.key = newKey();
    this.said.replaceChildren();
    this.enable();
  }

  enable() {
    if (this.button) this.button.disabled = this.isSending || !this.site.isLive || !this.request.value.trim();
  }

  async submit() {
    const request = this.request.value.trim();
    if (this.button.disabled || !request) return;
    this.isSending = true;
    this.enable();
    try {
      const run = await this.site.api.send('POST', '/api/runs', { request }, { key: this.key });
      this.request.value = '';
      this.changed();
      this.said.replaceChildren('Started ', h('a', { href: pageOf(run) }, run.title || run.run_id));
      setAttribute(this.said, 'data-kind', null);
      void this.look();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setText(this.said, error.detail);
      setAttribute(this.said, 'data-kind', 'error');
    } finally {
      this.isSending = false;
      this.enable();
    }
  }

  typed() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.narrow('q', this.search.value.trim()), PAUSE_MS);
  }

  /**
   * Show the newest runs with a property; all for an empty value.
   * @param {string} name
   * @param {string} value
   */
  narrow(name, value) {
    if (value) this.query.set(name, value);
    else this.query.delete(name);
    this.query.delete('after');
    this.site.keep(this.query);
    void this.look();
  }

  /** Look again. What the server refuses is shown; without an answer, the list stays, and the header says that the connection is lost. */
  async look() {
    await this.load().catch((error) => {
      if (!(error instanceof Problem)) throw error;
      if (!error.status) return;
      this.problem = error.detail;
      this.draw();
    });
  }

  async load() {
    const look = ++this.looks;
    const [found, open] = await Promise.all([this.site.api.get(`/api/runs?${asked(this.query)}&limit=${LISTED}`), this.site.api.get(`/api/inquiries?limit=${MOST_QUESTIONS}`)]);
    if (look !== this.looks) return;
    this.runs = found.runs;
    this.next = found.next;
    this.asking = [...new Set(/** @type {string[]} */ (open.inquiries.map((/** @type {any} */ it) => it.run_id)))];
    this.problem = '';
    this.draw();
    void this.trace();
  }

  /** Read which of the runs are copies. A list of one status may lack the retries of its runs; they are among the newest of all. */
  async trace() {
    const { runs, query, site } = this;
    const others = query.has('status') ? (await site.api.get(`/api/runs?limit=${LISTED}`).catch(() => ({ runs: [] }))).runs : [];
    await this.origins.read([...others, ...runs]);
    if (this.isConnected && runs === this.runs) this.draw();
  }

  draw() {
    const { runs, problem, asking, query } = this;
    this.chosen.draw(runs);
    const key = JSON.stringify([problem, [...this.chosen.ids], runs.map((run) => [run, isAsking(run, asking), this.costs.get(run.run_id), this.queued.has(run.run_id), this.origins.known.get(run.run_id), this.origins.retries.get(run.run_id)]), String(query)]);
    fill(this.list, key, () => (problem ? h('p', { class: 'empty error', role: 'alert', dir: 'auto' }, problem) : runs.length ? this.table() : this.nothing()));
    const turned = (/** @type {string | null} */ after) => `/runs?${new URLSearchParams([...query].filter(([name]) => name !== 'after').concat(after ? [['after', after]] : []))}`;
    fill(this.pages, `${query}\n${this.next}`, () => [
      query.has('after') ? h('a', { class: 'button', href: turned(null), 'data-key': 'newest' }, icon('previous'), 'Newest') : null,
      this.next ? h('a', { class: 'button older', href: turned(this.next), 'data-key': 'older' }, 'Older', icon('next')) : null,
    ]);
    this.tick();
  }

  /** Read what the unfinished runs have cost so far, and which of them are queued. */
  async price() {
    const under = this.runs.filter((run) => run.status !== 'ended').slice(0, PRICED);
    const read = (/** @type {Run} */ run) => this.site.api.get(`/api/runs/${encodeURIComponent(run.run_id)}/view?kind=run`).catch(() => null); // read again soon
    const work = under.length ? this.site.api.get(`/api/attempts?${new URLSearchParams({ begin: String(this.site.now()), limit: '1000' })}`).catch(() => null) : null;
    const found = await Promise.all(under.map(read));
    const attempts = (await work)?.attempts ?? [];
    this.queued = new Set(this.runs.filter((run) => isQueued(run, attempts)).map((run) => run.run_id));
    this.costs = new Map(under.flatMap((run, at) => (found[at]?.rows.run?.used?.cost_usd ? [[run.run_id, found[at].rows.run.used.cost_usd]] : [])));
    if (this.isConnected) this.draw();
  }

  nothing() {
    if (this.query.size) return h('p', { class: 'empty' }, 'No run matches. ', h('a', { href: '/runs' }, 'Show all runs'));
    return h('p', { class: 'empty' }, 'No runs yet. Those that are submitted here, by a command or by a schedule are listed.');
  }

  table() {
    const now = this.site.now();
    const heads = ['Run', 'Status', 'State', 'Machine', 'Started', 'Elapsed'];
    return h('table', {}, h('thead', {}, h('tr', {}, heads.map((name) => h('th', { scope: 'col' }, name)))), h('tbody', {}, this.runs.map((run) => this.row(run, now))));
  }

  /**
   * @param {Run} run
   * @param {number} now
   */
  row(run, now) {
    const isInQueue = this.queued.has(run.run_id);
    const [status, words] = statusOfRun(run, isInQueue);
    const mark = h('span', { class: 'glyph', 'data-status': status }, icon(run.status === 'paused' ? 'pause' : status));
    const asks = isAsking(run, this.asking) ? h('span', { class: 'needs' }, icon('waiting'), 'Needs you') : null;
    const cost = this.costs.get(run.run_id);
    const price = cost ? h('span', { class: 'cost', title: 'Cost of its models so far' }, dollars(cost)) : null;
    return h(
      'tr',
      {},
      h('th', { scope: 'row' }, h('div', { class: 'run' }, this.chosen.box(run), mark, h('a', { href: pageOf(run), 'data-key': run.run_id, title: run.run_id, dir: 'auto' }, run.title || run.run_id), this.origins.links(run, now), asks, price)),
      h('td', { class: 'in-words', 'data-status': status, title: run.problem || (isInQueue && 'It waits for a place of a device') || null }, words),
      h('td', { class: 'state' }, h('code', {}, stateWords(run.state, run.outcome))),
      h('td', { class: 'of' }, run.machine),
      h('td', { class: 'started' }, timeOf(run.created_at, now)),
      h('td', { class: 'elapsed' }),
    );
  }

  /** Show the times of now. */
  tick() {
    const now = this.site.now();
    this.list.querySelectorAll('tbody tr').forEach((/** @type {HTMLElement} */ row, /** @type {number} */ at) => {
      const run = this.runs[at];
      setText(row.querySelector('.started time'), relative(run.created_at, now));
      setText(row.querySelector('.elapsed'), duration(lasted(run, now)));
    });
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const by = { j: 1, k: -1, x: 0 }[event.key.toLowerCase()];
    const target = /** @type {Element} */ (event.target);
    if (by === undefined || event.ctrlKey || event.metaKey || event.altKey || target.closest('input:not([type=checkbox]), textarea, select, dialog')) return;
    const rows = [...this.list.querySelectorAll('tbody tr')];
    const at = rows.indexOf(target.closest('tr'));
    if (by) rows[at < 0 ? 0 : Math.min(Math.max(at + by, 0), rows.length - 1)]?.querySelector('a').focus();
    else if (at >= 0) this.chosen.choose(this.runs[at].run_id, event.shiftKey);
  }

  commands() {
    return Object.entries(STATUSES).map(([status, name]) => ({ title: `Runs: ${name.toLowerCase()}`, run: () => this.site.go(`/runs?status=${status}`) }));
  }
}

customElements.define('runs-page', RunsPage);
