// @ts-check
/** What the picked task waits for while it is queued: the attempts that its device performs, with links to their runs. */
import { fill, h, icon } from '../dom.js';
import { count } from '../words.js';
import { gathered, reload } from './reload.js';

/** @typedef {import('./device_rows.js').Attempt} Attempt */

/** Attempts that are named. */
const MOST = 5;
/** Milliseconds before a read, and seconds between two reads while the task is queued. */
const [SOON_MS, AGAIN_S] = [50, 5];
/** Seconds before now from which a run counts as under way; one that has not ended always does. */
const RECENT_S = 60;

export class RunQueue {
  /**
   * @param {import('./site.js').Site} site
   * @param {() => void} later draws the page again
   */
  constructor(site, later) {
    this.site = site;
    /** Device whose place the picked task waits for; empty for none. */
    this.device = '';
    /** @type {Attempt[] | null} what is under way on the device, and waits for it; null if it is not known yet */
    this.attempts = null;
    this.readAt = 0;
    this.reads = gathered(() => reload(() => this.read(later)), SOON_MS);
  }

  stop() {
    this.reads.stop();
  }

  /** @param {() => void} later */
  async read(later) {
    const { device } = this;
    if (!device) return;
    const { attempts } = await this.site.api.get(`/api/attempts?${new URLSearchParams({ device, begin: String(this.site.now() - RECENT_S) })}`);
    if (device !== this.device) return;
    this.attempts = attempts.filter((/** @type {Attempt} */ it) => it.ended_at === null);
    later();
  }

  /**
   * Draw what the picked task waits for; nothing for one that is not queued.
   * @param {HTMLElement} place
   * @param {import('../fold.js').Row | undefined} row
   */
  draw(place, row) {
    const device = row?.queued ? String(row.device) : '';
    if (device !== this.device) [this.device, this.attempts, this.readAt] = [device, null, 0];
    if (device && this.site.now() - this.readAt > AGAIN_S) {
      this.readAt = this.site.now();
      this.reads.start();
    }
    fill(place, JSON.stringify([device, this.attempts]), () => device && this.attempts && this.card(device, this.attempts));
  }

  /**
   * @param {string} device
   * @param {Attempt[]} attempts
   */
  card(device, attempts) {
    const running = attempts.filter((it) => it.status === 'running');
    const links = running.slice(0, MOST).map((it) => h('li', {}, h('a', { href: `/runs/${encodeURIComponent(it.run_id)}?${new URLSearchParams({ task: it.task })}`, 'data-key': `${it.run_id} ${it.task}`, dir: 'auto' }, it.name || it.task), ' of ', h('span', { dir: 'auto' }, it.title || it.run_id)));
    const others = [running.length > MOST ? `${count(running.length - MOST, 'more task')} there` : '', `${count(attempts.length - running.length, 'task')} queued, with this one`].filter(Boolean).join('; ');
    return h(
      'section',
      { class: 'card', 'aria-label': 'Queued' },
      h('h2', {}, icon('clock'), 'What it waits for', h('a', { href: `/devices?${new URLSearchParams({ device })}`, 'data-key': 'device', dir: 'auto' }, device)),
      links.length ? [h('p', {}, 'It begins after one of these:'), h('ul', { class: 'plain' }, links)] : h('p', {}, 'The device performs nothing else that is known here.'),
      h('p', { class: 'mute' }, others),
    );
  }
}
