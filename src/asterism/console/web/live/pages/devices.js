// @ts-check
/** `<devices-page>`: what each device is, does, and did in a period. */
import { fill, h, icon } from '../../dom.js';
import { count, duration } from '../../words.js';
import { Problem } from '../api.js';
import { canDrain, deviceRows, loadOf } from '../device_rows.js';
import { chooser } from '../forms.js';
import { asLocal, PERIODS, periodOf } from '../period.js';
import { gathered, reload } from '../reload.js';
import { dateOf, timeOf } from '../times.js';

/** @typedef {import('../device_rows.js').DeviceRow} DeviceRow */
/** @typedef {import('../device_rows.js').Attempt} Attempt */

/** Seconds of the period that has what is under way: clocks differ. */
const RECENT_S = 60;
/** Milliseconds between a change and the next look. */
const LOOK_MS = 1500;
/** Attempts that are listed, and drawn in a strip. */
const [LISTED, DRAWN] = [200, 400];
/** Width of a strip in its own units. */
const STRIP = 200;
const GLYPHS = { lost: 'failed', draining: 'waiting', busy: 'running', idle: 'succeeded', gone: 'skipped' };
const WORDS = { lost: 'Lost', draining: 'Draining', busy: 'Busy', idle: 'Idle', gone: 'Not in the fleet' };

class DevicesPage extends HTMLElement {
  constructor() {
    super();
    this.site = /** @type {import('../site.js').Site} */ (/** @type {unknown} */ (null)); // `enter` sets it
    this.query = new URLSearchParams();
    this.heading = 'Devices';
    /** @type {DeviceRow[]} */
    this.rows = [];
    this.fleet = '';
    this.period = periodOf(this.query, 0);
    this.whole = true;
    /** @type {(() => void)[]} */
    this.stops = [];
  }

  /** @type {import('../site.js').Page['enter']} */
  async enter(site, _params, query) {
    this.site = site;
    this.query = query;
    this.tools = h('div', { class: 'tools' });
    this.list = h('div', { class: 'panel', tabindex: 0, role: 'region', 'aria-label': 'Devices' });
    this.details = h('section', { class: 'details', 'aria-label': 'Device' });
    this.replaceChildren(h('div', { class: 'split' }, h('div', { class: 'main' }, this.tools, this.list), this.details));
    await this.load();
    const looking = gathered(() => this.again(), LOOK_MS);
    const clock = setInterval(() => this.draw(), 10_000);
    this.stops = [site.channel.onTopic('devices', looking.start), site.channel.onTopic('runs', looking.start), looking.stop, () => clearInterval(clock)];
  }

  leave() {
    for (const stop of this.stops) stop();
  }

  async again() {
    await reload(() => this.load());
  }

  async load() {
    const { begin, end } = (this.period = periodOf(this.query, this.site.now()));
    const asked = new URLSearchParams({ begin: String(begin), limit: '1000', ...(end === null ? {} : { end: String(end) }) });
    const read = (/** @type {any} */ query) => this.site.api.get(`/api/attempts?${new URLSearchParams(query)}`);
    const [fleet, work, present] = await Promise.all([this.site.api.get('/api/devices'), read(asked), end === null ? null : read({ begin: String(this.site.now() - RECENT_S), limit: '1000' })]);
    this.fleet = fleet.fleet;
    this.whole = work.whole;
    this.rows = deviceRows(fleet.devices, work.attempts, (present ?? work).lost, present?.attempts);
    this.draw();
  }

  draw() {
    const now = this.site.now();
    const picked = this.rows.find((row) => row.id === this.query.get('device')); // none until somebody chooses one, as its commands come with it
    fill(this.tools, JSON.stringify(this.period.name), () => this.chooserOf());
    const key = JSON.stringify([this.rows, picked?.id, Math.round(now / 10)]);
    fill(this.list, key, () => (this.rows.length ? this.table(now, picked) : h('p', { class: 'empty' }, 'This server has no devices. Start it with --fleet FILE.')));
    fill(this.details, key, () => (picked ? this.card(picked, now) : this.rows.length ? h('p', { class: 'empty' }, 'Choose a device to see what it did.') : null));
  }

  /** @param {Record<string, string | null>} changes of the address */
  show(changes) {
    for (const [name, value] of Object.entries(changes)) value === null ? this.query.delete(name) : this.query.set(name, value);
    this.site.keep(this.query);
  }

  chooserOf() {
    const { name, begin, end } = this.period;
    const choose = async (/** @type {any} */ event) => {
      this.show({ period: event.target.value, begin: null, end: null });
      await this.again();
    };
    const between = ['begin', 'end'].map((which) => {
      const at = which === 'begin' ? begin : (end ?? this.site.now());
      const change = async (/** @type {any} */ event) => {
        this.show({ [which]: String(new Date(event.target.value).getTime() / 1000 || at) });
        await this.again();
      };
      return h('input', { type: 'datetime-local', class: 'field', value: asLocal(at), 'aria-label': which === 'begin' ? 'From' : 'To', 'data-key': which, onchange: change });
    });
    return [h('span', { class: 'mute' }, 'What they did'), chooser(/** @type {[string, string][]} */ (PERIODS), name, { class: 'field', 'aria-label': 'Period', 'data-key': 'period', onchange: choose }), name === 'between' ? between : null, this.fleet ? h('span', { class: 'mute push' }, `Fleet ${this.fleet}`) : null];
  }

  /**
   * @param {number} now
   * @param {DeviceRow | undefined} picked
   */
  table(now, picked) {
    const heads = ['Device', 'State', 'Does now', this.period.end === null ? 'Did last' : 'Last of the period', `${PERIODS.find(([name]) => name === this.period.name)?.[1] ?? ''}`];
    const rows = this.rows.map((row) => {
      const pick = () => {
        this.show({ device: row.id });
        this.draw();
        if (matchMedia('(width <= 1000px)').matches) this.details.scrollIntoView({ block: 'start' }); // it is below the list
      };
      const name = h('button', { type: 'button', class: 'linkish', dir: 'auto', 'data-key': row.id, onclick: pick }, row.id);
      const doing = row.now.slice(0, 2).map((it) => h('div', {}, taskLink(it)));
      const more = row.now.length > 2 ? h('div', { class: 'mute' }, `and ${row.now.length - 2} more`) : null;
      const waits = row.queued.length ? h('div', { class: 'mute' }, `${count(row.queued.length, 'task')} wait${row.queued.length === 1 ? 's' : ''} for it`) : null;
      const last = row.last ? [h('span', { class: 'status', 'data-status': row.last.status }, icon(row.last.status), taskLink(row.last)), h('div', { class: 'mute' }, timeOf(Number(row.last.ended_at), now))] : h('span', { class: 'mute' }, '–');
      return h('tr', { 'aria-current': row === picked ? 'true' : null }, h('th', { scope: 'row' }, name, h('div', { class: 'mute' }, row.device?.kind ?? '')), h('td', {}, healthOf(row), h('div', { class: 'mute' }, row.health === 'gone' ? '' : loadOf(row))), h('td', {}, doing.length || waits ? [doing, more, waits] : h('span', { class: 'mute' }, '–')), h('td', {}, last), h('td', { class: 'strip' }, this.strip(row, now)));
    });
    const left = this.whole ? null : h('p', { class: 'mute' }, 'There is more in this period than is shown: choose a shorter one.');
    return [h('table', { class: 'rows' }, h('caption', { class: 'hidden' }, 'Devices'), h('thead', {}, h('tr', {}, heads.map((head, at) => h('th', { scope: 'col', class: at === 4 ? 'strip' : null }, head)))), h('tbody', {}, rows)), left];
  }

  /**
   * Draw when a device was at work.
   * @param {DeviceRow} row
   * @param {number} now
   */
  strip(row, now) {
    const [begin, end] = [this.period.begin, this.period.end ?? now];
    const x = (/** @type {number} */ at) => Math.min(1, Math.max(0, (at - begin) / Math.max(1, end - begin))) * STRIP;
    const bars = row.attempts.slice(0, DRAWN).map((it) => {
      const width = Math.max(2, x(it.ended_at ?? end) - x(it.began_at));
      return h('rect', { 'data-status': it.status, x: Math.min(STRIP - width, x(it.began_at)).toFixed(1), y: 3, width: width.toFixed(1), height: 12 });
    });
    return h('svg', { viewBox: `0 0 ${STRIP} 18`, preserveAspectRatio: 'none', role: 'img', 'aria-label': count(row.attempts.length, 'attempt') }, h('line', { x1: 0, x2: STRIP, y1: 9, y2: 9 }), bars);
  }

  /**
   * @param {DeviceRow} row
   * @param {number} now
   */
  card(row, now) {
    const { device } = row;
    const drains = device && canDrain(device) && this.site.may('admin') && !this.site.who.tenant;
    const change = async () => {
      try {
        await this.site.api.send('POST', `/api/devices/${encodeURIComponent(row.id)}/${device?.draining ? 'undrain' : 'drain'}`);
        this.site.toast(device?.draining ? `${row.id} is given new tasks again.` : `${row.id} gets no new tasks; those under way go on.`);
        await this.load();
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        this.site.toast(error.detail);
      }
    };
    const pairs = [
      ['State', healthOf(row)],
      [row.health === 'draining' ? 'Since set by' : 'Reason', row.why],
      ['Load', device ? loadOf(row) : ''],
      ['Last seen', row.seen ? timeOf(row.seen, now) : 'not in this period'],
      ['Kind', device?.kind],
      ['Also called', device?.aliases.join(', ')],
      ['Capabilities', device?.capabilities.join(', ')],
      ['Plain words', device?.natural_language ? 'takes tasks without a skill' : ''],
    ].filter(([, value]) => value);
    const skills = device?.skills ?? [];
    return [
      h('header', { class: 'head' }, h('h2', { class: 'page-name', dir: 'auto' }, icon('device'), row.id), drains ? h('button', { type: 'button', class: 'button', 'data-key': 'drain', disabled: !this.site.isLive, onclick: change }, device.draining ? 'Give it tasks again' : 'Drain') : null),
      device?.description ? h('p', { dir: 'auto' }, device.description) : null,
      h('dl', { class: 'pairs' }, pairs.map(([term, value]) => [h('dt', {}, term), h('dd', { dir: 'auto' }, value)])),
      skills.length ? h('details', {}, h('summary', {}, count(skills.length, 'skill')), h('dl', { class: 'skills' }, skills.map((skill) => [h('dt', { dir: 'auto' }, h('code', {}, skill.name)), h('dd', { dir: 'auto' }, skill.description)]))) : null,
      h('h3', {}, `${PERIODS.find(([name]) => name === this.period.name)?.[1]}: ${count(row.attempts.length, 'attempt')}`),
      row.attempts.length ? h('ol', { class: 'did' }, row.attempts.slice(0, LISTED).map((it) => attemptItem(it, now))) : h('p', { class: 'mute' }, 'It did nothing in this period.'),
    ];
  }
}

/** @param {DeviceRow} row */
const healthOf = (row) => h('span', { class: 'status', 'data-status': GLYPHS[row.health], title: row.why || null }, icon(GLYPHS[row.health]), WORDS[row.health]);

/** @param {Attempt} it */
const taskLink = (it) => h('a', { href: `/runs/${encodeURIComponent(it.run_id)}?${new URLSearchParams({ task: it.task })}`, dir: 'auto' }, it.name || it.task);

/**
 * @param {Attempt} it
 * @param {number} now
 */
function attemptItem(it, now) {
  const took = duration((it.ended_at ?? now) - it.began_at);
  const isQueued = it.status === 'queued';
  const how = it.error ? `${it.status}: ${it.error}` : it.status;
  return h('li', {}, h('span', { class: 'status', 'data-status': it.status, title: how }, icon(it.status), h('span', { class: 'hidden' }, how)), h('div', {}, h('div', {}, taskLink(it), it.number > 1 ? h('span', { class: 'mute' }, ` attempt ${it.number}`) : null), h('div', { class: 'mute', dir: 'auto' }, it.error ? `${it.error} · ` : '', it.title)), h('div', { class: 'at' }, dateOf(it.began_at), h('div', { class: 'mute' }, isQueued ? `queued ${took}` : took)));
}

customElements.define('devices-page', DevicesPage);
