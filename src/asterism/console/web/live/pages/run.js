// @ts-check
/** `<live-run-page>`: a run as the exported page shows it, while it goes on. */
import { h } from '../../dom.js';
import { KEYS } from '../../keys.js';
import '../../page.js';
import '../../plan.js';
import { Journal } from '../../player/cursor.js';
import { attemptsOf } from '../../side.js';
import { statusOf } from '../../status.js';
import { RunActs } from '../run_acts.js';
import { RunFiles } from '../run_files.js';
import { RunQueue } from '../run_queue.js';
import { pageOf, statusOfRun } from '../run_words.js';
import { TaskLog } from '../task_log.js';
import { dayTime } from '../times.js';

/** @typedef {import('../site.js').Site} Site */

/** Milliseconds between two drawings of a run in which only the time has changed. */
const TICK_MS = 1000;

class LiveRunPage extends HTMLElement {
  constructor() {
    super();
    this.heading = 'Run';
    this.keys = KEYS;
    this.bar = h('div', { class: 'run-bar' });
    this.isOpen = true;
    /** @type {(() => void)[]} what ends with the page */
    this.ends = [];
  }

  /** @type {import('../site.js').Page['enter']} */
  async enter(site, { id }, query) {
    this.site = site;
    this.run = id;
    const path = `/api/runs/${encodeURIComponent(id)}`;
    const [{ run, tree, origin }, { machines }] = await Promise.all([site.api.get(path), site.api.get('/api/machines')]);
    this.journal = new Journal();
    this.machine = machines.find((/** @type {any} */ it) => it.name === run.machine);
    const others = new Set(tree.map((/** @type {any} */ it) => it.run_id));
    for await (const deltas of site.api.lines(`${path}/deltas`)) {
      if (!this.isOpen) return;
      for (const delta of deltas) this.journal.push(delta);
    }
    if (!this.isOpen) return;
    const view = /** @type {import('../../page.js').RunPage} */ (document.createElement('run-page'));
    this.view = view;
    this.replaceChildren(view);
    const acts = new RunActs(site, id, () => this.view);
    this.acts = acts;
    this.ends.push(() => acts.stop());
    const log = new TaskLog().open(site, id);
    const files = new RunFiles(site, id, () => view.later());
    const queue = new RunQueue(site, () => view.later());
    this.ends.push(() => files.stop(), () => queue.stop());
    const [verbs, waits, ofTask, ofRun] = ['', '', '', ''].map(() => h('div', { class: 'stack' }));
    /** @type {import('../../page.js').Host} */
    const host = {
      bar: this.bar,
      acts: acts.bar,
      questions: (place, rows, atEnd) => acts.questions(place, rows, atEnd),
      task: (place, task, row) => {
        if (!place.contains(log)) place.replaceChildren(verbs, waits, ofTask, log);
        acts.drawn(verbs, task);
        queue.draw(waits, row && view.cursor.atEnd ? row : undefined);
        files.draw(ofRun, ofTask, view.shown.journal, row);
        log.isFork = !!acts.forked;
        const isRun = !!row && attemptsOf(task, view.cursor.rows)[1].length > 0; // the output is that of its run
        log.show(row && !isRun ? task : '', row ? statusOf(row, view.cursor.rows) : '', row?.attempts ?? 0);
      },
      drafted: (atEnd) => acts.drafted(atEnd),
      more: ofRun,
      now: () => site.now(),
      keep: (said) => site.keep(said),
      has: (other) => others.has(other) || other.startsWith(`${run.root}.`),
      goTo: (other) => site.go(`/runs/${encodeURIComponent(other)}`),
      titled: (title) => {
        this.heading = title;
        site.retitle();
      },
    };
    view.open(new Map([[id, { run: id, title: run.title, parent: run.parent, machine: this.machine, journal: this.journal, logs: null }]]), host, query);
    void othersOf(site, run, origin).then((links) => this.bar.querySelector('.title')?.append(...links));
    const { deltas } = this.journal;
    this.ends.push(site.channel.follow(id, deltas[deltas.length - 1]?.seq ?? 0, (next, problem) => this.take(next, problem)));
    const tick = setInterval(() => this.isOpen && view.goesOn(this.journal?.rows.get('run') ?? {}) && view.later(), TICK_MS);
    this.ends.push(() => clearInterval(tick));
  }

  commands() {
    return this.acts?.commands() ?? [];
  }

  leave() {
    this.isOpen = false;
    for (const end of this.ends) end();
  }

  /** @type {import('../channel.js').OnDeltas} */
  take(deltas, problem) {
    if (problem) {
      this.leave(); // to read it again would lead to the same, for good
      return this.replaceChildren(h('p', { class: 'empty error', role: 'alert', dir: 'auto' }, `${problem} Load the page again to follow the run.`));
    }
    if (deltas === null) return this.site?.go(location.pathname + location.search);
    for (const delta of deltas) this.journal?.push(delta);
    this.view?.later();
  }
}

/**
 * Return links to what a run is a copy of, and to the last run that goes on from it, if there are any.
 * @param {Site} site
 * @param {import('../run_words.js').Run} run
 * @param {import('../run_origins.js').Origin | null} origin
 */
async function othersOf(site, run, origin) {
  const { runs } = await site.api.get(`/api/runs?${new URLSearchParams({ q: run.title, limit: '50' })}`).catch(() => ({ runs: [] }));
  const again = runs.find((/** @type {import('../run_words.js').Run} */ it) => it.session === run.session && it.created_at > run.created_at);
  const link = (/** @type {string} */ id, /** @type {string} */ text) => h('a', { class: 'up', href: pageOf({ ...run, run_id: id }), title: id }, text);
  return [...(origin ? [link(origin.run_id, `${origin.is_retry ? 'retry' : 'copy'} of the run of ${dayTime(origin.created_at, site.now())}`)] : []), ...(again ? [link(again.run_id, `again ${dayTime(again.created_at, site.now())}: ${statusOfRun(again)[1].toLowerCase()}`)] : [])];
}

customElements.define('live-run-page', LiveRunPage);
