// @ts-check
/** `<schedules-page>`: what starts when, what the last due times led to, and the commands of a schedule. */
import { fill, h, icon } from '../../dom.js';
import { parse } from '../../json.js';
import { brief } from '../../words.js';
import { Problem } from '../api.js';
import { sendOnce } from '../commands.js';
import { confirmed, opened } from '../dialogs.js';
import { chooser, field } from '../forms.js';
import { gathered, reload } from '../reload.js';
import { statusOfRun } from '../run_words.js';
import { dateOf, timeOf } from '../times.js';

/** @typedef {import('../run_words.js').Run} Run */
/** @typedef {{due_at: number, run_id: string, status: string, reason: string}} Firing */
/** @typedef {{name: string, cron: string, words: string, zone: string, what: string, overlap: string, missed: string, paused: boolean, next_at: number, created_at: number, actor: string, last: (Firing & {outcome: string}) | null}} Schedule */
/** @typedef {{schedule: Schedule, next: number[], firings: Firing[]}} Details */

const LOOK_MS = 1500;
/** Milliseconds after which the list is read again, because no stream names schedules. */
const POLL_MS = 15_000;
const GLYPHS = /** @type {Record<string, string>} */ ({ due: 'ready', started: 'running', skipped: 'skipped', failed: 'failed', finished: 'succeeded', cancelled: 'cancelled' });

class SchedulesPage extends HTMLElement {
  constructor() {
    super();
    this.site = /** @type {import('../site.js').Site} */ (/** @type {unknown} */ (null)); // `enter` sets it
    this.query = new URLSearchParams();
    this.heading = 'Schedules';
    /** @type {Schedule[]} */
    this.all = [];
    /** @type {Details | null} of the picked one */
    this.details = null;
    /** @type {Map<string, Run>} the runs of the picked one, which begin with its name */
    this.runs = new Map();
    /** @type {(() => void)[]} */
    this.stops = [];
  }

  /** @type {import('../site.js').Page['enter']} */
  async enter(site, _params, query) {
    this.site = site;
    this.query = query;
    const add = site.may('submit') ? h('button', { type: 'button', class: 'button primary', onclick: () => this.add() }, 'Add a schedule') : null;
    this.list = h('div', { class: 'panel', tabindex: 0, role: 'region', 'aria-label': 'Schedules' });
    this.side = h('section', { class: 'details', 'aria-label': 'Schedule' });
    this.replaceChildren(h('div', { class: 'split' }, h('div', { class: 'main' }, h('div', { class: 'tools' }, add, h('span', { class: 'mute' }, 'The server starts these runs. “When” is in the time zone of a schedule; the other times are in yours.')), this.list), this.side));
    await this.load();
    const looking = gathered(() => this.again(), LOOK_MS);
    const [poll, clock] = [setInterval(looking.start, POLL_MS), setInterval(() => this.draw(), 10_000)];
    this.stops = [site.channel.onTopic('runs', looking.start), looking.stop, () => clearInterval(poll), () => clearInterval(clock)];
  }

  leave() {
    for (const stop of this.stops) stop();
  }

  /** @returns {import('../site.js').Command[]} */
  commands() {
    const add = this.site.may('submit') ? [{ title: 'Add a schedule', run: () => this.add() }] : [];
    return this.site.may('command') ? [...add, ...this.all.map((schedule) => ({ title: `Run ${schedule.name} now`, run: () => void this.command(schedule, 'run') }))] : add;
  }

  async again() {
    await reload(() => this.load());
  }

  async load() {
    this.all = (await this.site.api.get('/api/schedules')).schedules;
    const picked = this.picked;
    this.details = picked ? await this.site.api.get(`/api/schedules/${encodeURIComponent(picked.name)}?count=8&limit=30`) : null;
    const { runs } = this.details?.firings.length ? await this.site.api.get(`/api/runs?${new URLSearchParams({ actor: `schedule ${picked?.name}`, limit: '60' })}`) : { runs: [] };
    this.runs = new Map(runs.map((/** @type {Run} */ run) => [run.run_id, run]));
    this.draw();
  }

  /** Return the schedule that is shown in full; none until somebody chooses one, as its commands come with it. */
  get picked() {
    return this.all.find(({ name }) => name === this.query.get('schedule'));
  }

  draw() {
    const now = this.site.now();
    const key = JSON.stringify([this.all, this.details, [...this.runs.values()], Math.round(now / 10), this.site.isLive]);
    const none = () => h('p', { class: 'empty' }, 'No schedules yet. Add one here, or with ', h('code', {}, 'asterism schedule add'), '.');
    fill(this.list, key, () => (this.all.length ? this.table(now) : none()));
    fill(this.side, key, () => (this.details ? this.card(this.details, now) : this.all.length ? h('p', { class: 'empty' }, 'Choose a schedule to see its history, and to start or change it.') : null));
  }

  /** @param {number} now */
  table(now) {
    const rows = this.all.map((schedule) => {
      const { last } = schedule;
      const pick = () => {
        this.query.set('schedule', schedule.name);
        this.site.keep(this.query);
        void this.again();
        if (matchMedia('(width <= 1000px)').matches) this.side.scrollIntoView({ block: 'start' }); // it is below the list
      };
      const next = schedule.paused ? h('span', { class: 'status', 'data-status': 'cancelled' }, icon('pause'), 'Paused') : [timeOf(schedule.next_at, now), h('div', { class: 'mute' }, dateOf(schedule.next_at, schedule.zone))];
      return h(
        'tr',
        { 'aria-current': schedule === this.picked ? 'true' : null },
        h('th', { scope: 'row' }, h('button', { type: 'button', class: 'linkish', dir: 'auto', 'data-key': schedule.name, onclick: pick }, schedule.name)),
        h('td', { class: 'wide', dir: 'auto' }, brief(schedule.what)),
        h('td', { class: 'wide', title: schedule.cron }, schedule.words, h('div', { class: 'mute' }, schedule.zone)),
        h('td', {}, next),
        h('td', {}, last ? [outcomeOf(last), h('div', { class: 'mute' }, timeOf(last.due_at, now))] : h('span', { class: 'mute' }, '–')),
      );
    });
    const heads = ['Schedule', 'Starts', 'When', 'Next', 'Last'];
    return h('table', { class: 'rows' }, h('caption', { class: 'hidden' }, 'Schedules'), h('thead', {}, h('tr', {}, heads.map((head) => h('th', { scope: 'col' }, head)))), h('tbody', {}, rows));
  }

  /**
   * @param {Details} it
   * @param {number} now
   */
  card({ schedule, next, firings }, now) {
    const button = (/** @type {string} */ glyph, /** @type {string} */ text, /** @type {string} */ command) => h('button', { type: 'button', class: 'button', 'data-key': command, disabled: !this.site.isLive, onclick: () => this.command(schedule, command) }, icon(glyph), text);
    const buttons = this.site.may('command') ? h('div', { class: 'buttons' }, button('play', 'Run now', 'run'), schedule.paused ? button('resume', 'Resume', 'resume') : button('pause', 'Pause', 'pause'), h('button', { type: 'button', class: 'button danger', 'data-key': 'remove', disabled: !this.site.isLive, onclick: () => this.removeSchedule(schedule) }, icon('close'), 'Remove')) : null;
    const pairs = [
      ['Starts', brief(schedule.what, 1000)],
      ['When', `${schedule.words}, ${schedule.zone}`],
      ['As cron', h('code', {}, schedule.cron)],
      ['If the last one runs', schedule.overlap === 'skip' ? 'skip this time' : 'start another'],
      ['If no server ran', schedule.missed === 'once' ? 'start one run later' : 'start none'],
      ['Added', [timeOf(schedule.created_at, now), ` by ${schedule.actor || 'unknown'}`]],
    ];
    const times = next.map((at) => h('li', {}, dateOf(at, schedule.zone), h('span', { class: 'mute' }, timeOf(at, now))));
    return [
      h('h2', { class: 'page-name', dir: 'auto' }, icon('clock'), schedule.name),
      buttons,
      h('dl', { class: 'pairs' }, pairs.map(([term, value]) => [h('dt', {}, term), h('dd', { dir: 'auto' }, value)])),
      h('h3', {}, schedule.paused ? 'Due times, once it is resumed' : 'Next due times'),
      h('ol', { class: 'times' }, times),
      h('h3', {}, 'History'),
      firings.length ? h('ol', { class: 'did' }, firings.map((it) => firingItem(it, schedule.zone, this.runs.get(it.run_id)))) : h('p', { class: 'mute' }, 'None yet.'),
    ];
  }

  /**
   * @param {Schedule} schedule
   * @param {string} command
   */
  async command(schedule, command) {
    await this.doing(async () => {
      const { run_id } = await sendOnce(this.site, `/api/schedules/${encodeURIComponent(schedule.name)}/commands`, { command });
      if (run_id) this.site.toast(`A run of ${schedule.name} starts.`, `/runs/${encodeURIComponent(run_id)}`);
      else this.site.toast(command === 'pause' ? `${schedule.name} is paused.` : `${schedule.name} goes on.`);
    });
  }

  /** @param {Schedule} schedule */
  async removeSchedule(schedule) {
    if (!(await confirmed('Remove this schedule?', `${schedule.name} starts no more runs, and its history goes. The runs that it has started stay.`, 'Remove'))) return;
    await this.doing(async () => {
      await this.site.api.send('DELETE', `/api/schedules/${encodeURIComponent(schedule.name)}`);
      this.site.toast(`${schedule.name} is removed.`);
    });
  }

  /** @param {() => Promise<void>} work */
  async doing(work) {
    try {
      await work();
      await this.load();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.site.toast(error.detail);
    }
  }

  /** Open the form of a new schedule. */
  add() {
    const name = h('input', { class: 'field', required: true, maxlength: 40, pattern: '[A-Za-z0-9][A-Za-z0-9._\\-]*', autocomplete: 'off', autofocus: true });
    const cron = h('input', { class: 'field', required: true, value: '0 2 * * *', autocomplete: 'off', spellcheck: 'false' });
    const zone = h('input', { class: 'field', required: true, value: Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC', list: 'zones', autocomplete: 'off' });
    const zones = h('datalist', { id: 'zones' }, ['UTC', ...Intl.supportedValuesOf('timeZone')].map((value) => h('option', { value })));
    const what = h('textarea', { class: 'field', rows: 5, required: true, spellcheck: 'false' });
    const overlap = chooser([['skip', 'skip this time'], ['allow', 'start another']], 'skip', { class: 'field' });
    const missed = chooser([['once', 'start one run later'], ['skip', 'start none']], 'once', { class: 'field' });
    const wrong = h('p', { class: 'error', role: 'alert', hidden: true });
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault();
      try {
        await this.site.api.send('POST', '/api/schedules', { name: name.value, cron: cron.value, zone: zone.value, ...goalOf(what.value), overlap: overlap.value, missed: missed.value });
        this.query.set('schedule', name.value);
        this.site.keep(this.query);
        dialog.close();
        await this.load();
      } catch (error) {
        if (!(error instanceof Problem) && !(error instanceof SyntaxError)) throw error;
        wrong.textContent = error instanceof Problem ? error.detail : `The plan is no valid JSON: ${error.message}`;
        wrong.hidden = false;
      }
    };
    const dialog = opened(
      'Add a schedule',
      h(
        'form',
        { class: 'form', onsubmit: submit },
        field('Name', name),
        field('Starts', what, 'A request in words, or a plan as JSON.'),
        h('div', { class: 'pair' }, field('When', cron, 'Minute, hour, day, month, weekday; or @daily.'), field('Time zone', zone)),
        h('div', { class: 'pair' }, field('If the last one runs', overlap), field('If no server ran', missed)),
        zones,
        wrong,
        h('div', { class: 'buttons' }, h('button', { class: 'button primary' }, 'Add'), h('button', { type: 'button', class: 'button', onclick: () => dialog.close() }, 'Cancel')),
      ),
    );
  }
}

/**
 * Return the request or the plan that a text is. Raises SyntaxError for a plan that is no JSON.
 * @param {string} text
 */
const goalOf = (text) => (text.trim().startsWith('{') ? { plan: parse(text) } : { request: text.trim() });

/** @param {Firing & {outcome: string}} firing */
function outcomeOf(firing) {
  const status = firing.outcome || firing.status;
  const words = firing.run_id ? h('a', { href: `/runs/${encodeURIComponent(firing.run_id)}`, title: firing.run_id }, status) : status;
  return h('span', { class: 'status', 'data-status': GLYPHS[status] ?? 'pending', title: firing.reason || null }, icon(GLYPHS[status] ?? 'pending'), words);
}

/**
 * @param {Firing} firing
 * @param {string} zone
 * @param {Run | undefined} run that it has started
 */
function firingItem(firing, zone, run) {
  const [glyph, words] = run ? statusOfRun(run) : [GLYPHS[firing.status] ?? 'pending', firing.status];
  const about = firing.run_id ? h('a', { href: `/runs/${encodeURIComponent(firing.run_id)}`, title: firing.run_id }, words) : h('span', {}, words);
  return h('li', {}, h('span', { class: 'status', 'data-status': glyph }, icon(glyph)), h('div', {}, about, firing.reason ? h('div', { class: 'mute', dir: 'auto' }, firing.reason) : null), h('div', { class: 'at' }, dateOf(firing.due_at, zone)));
}

customElements.define('schedules-page', SchedulesPage);
