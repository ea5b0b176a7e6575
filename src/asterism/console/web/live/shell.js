// @ts-check
/** `<console-shell>`: the rail, the header, and the page of the address. */
import { fill, h, icon, setAttribute, setText } from '../dom.js';
import { brief, count, duration } from '../words.js';
import { Problem } from './api.js';
import { guardCommands, guardKeys } from './guard.js';
import { loadPage, loadPages, RAIL, ROUTES } from './pages.js';
import { CommandPalette } from './palette.js';
import { switchTheme } from './preferences.js';
import { Router } from './router.js';
import { pageOf } from './run_words.js';
import { shortcutsOf, watchKeys } from './shortcuts.js';
import { dayTime } from './times.js';
import { ToastList } from './toasts.js';

/** @typedef {import('./site.js').Site} Site */
/** @typedef {import('./site.js').Page & HTMLElement} PageElement */

/** Questions that are counted; there may be more. */
const MOST_QUESTIONS = 100;
/** What the palette finds that is no command and no run. */
const MOST_FOUND = 8;
/** Milliseconds by which the clock of the browser is off after somebody has set it. */
const JUMP_MS = 2000;

export class ConsoleShell extends HTMLElement {
  constructor() {
    super();
    this.site = /** @type {Site} */ (/** @type {unknown} */ (null)); // `open` sets it before anything is shown
    /** @type {PageElement | null} */
    this.page = null;
    /** The server has not answered when the page was opened. */
    this.isUnread = false;
    this.questions = 0;
    /** Milliseconds at which the browser was started, by its clock, which somebody may set. */
    this.clock = Date.now() - performance.now();
    this.toasts = new ToastList();
    this.palette = new CommandPalette();
    /** @type {Router | null} */
    this.router = null;
    /** The address that is shown. @type {import('./router.js').Match | null} */
    this.match = null;
  }

  /** @param {Site} site */
  open(site) {
    this.site = site;
    this.build();
    const router = new Router(ROUTES, (match, query) => void this.show(match, query));
    site.go = (address) => router.go(address);
    this.router = router;
    site.toast = (text, run) => this.toasts.say(text, run);
    site.retitle = () => this.retitle();
    this.keys = watchKeys(this);
    guardCommands(document);
    site.isTyped = guardKeys(window);
    site.channel.watch(({ state }) => {
      this.drawLiveness();
      if (state === 'live' && this.isUnread) router.restore();
    });
    setInterval(() => this.tick(), 1000);
    site.channel.onTopic('inquiries', () => void this.count());
    router.restore();
  }

  build() {
    const entries = RAIL.map(([address, name, glyph, key]) => h('a', { href: address, class: 'rail-entry', title: `${name} (G ${key.toUpperCase()})` }, icon(glyph), h('span', {}, name)));
    const button = (/** @type {string} */ glyph, /** @type {string} */ name, /** @type {string} */ title, /** @type {() => void} */ click) => h('button', { type: 'button', class: 'rail-entry', title, onclick: click }, icon(glyph), h('span', {}, name));
    this.badge = h('span', { class: 'badge', hidden: true });
    entries.find((entry) => entry.getAttribute('href') === '/inbox')?.append(this.badge);
    this.rail = h(
      'nav',
      { class: 'rail', 'aria-label': 'Pages' },
      entries,
      h('span', { class: 'rail-rest' }),
      button('search', 'Search', 'Search and commands (Ctrl K)', () => this.openPalette()),
      button('theme', 'Theme', 'Light or dark', switchTheme),
      button('help', 'Keys', 'Keys (?)', () => this.openHelp()),
    );
    this.heading = h('h1', { dir: 'auto' });
    this.bar = h('div', { class: 'page-bar' });
    this.asked = h('a', { class: 'asked', href: '/inbox', hidden: true });
    this.liveness = h('span', { class: 'liveness', role: 'status' });
    this.main = h('main', { id: 'main', tabindex: -1 });
    this.help = h('dialog', { 'aria-label': 'Keys' });
    this.replaceChildren(
      h('a', { class: 'skip', href: '#main', onclick: (/** @type {Event} */ event) => (event.preventDefault(), this.main.focus()) }, 'Skip to the page'),
      this.rail,
      h('header', { class: 'top' }, this.heading, this.bar, this.asked, this.liveness),
      this.main,
      this.toasts,
      this.palette,
      this.help,
    );
  }

  /**
   * Show the page of an address.
   * @param {import('./router.js').Match | null} match
   * @param {URLSearchParams} query
   */
  async show(match, query) {
    this.match = match;
    this.page?.leave?.();
    this.toasts.leave();
    this.page = null;
    for (const dialog of document.querySelectorAll('dialog')) dialog.close(); // what one asks is about the page that is left
    this.isUnread = false;
    for (const entry of this.rail.querySelectorAll('a')) {
      const address = entry.getAttribute('href') ?? '';
      const isShown = location.pathname === address || location.pathname.startsWith(`${address}/`) || (address === '/runs' && location.pathname === '/');
      setAttribute(entry, 'aria-current', isShown ? 'page' : null);
    }
    if (!match) {
      this.bar.replaceChildren();
      this.main.replaceChildren(h('p', { class: 'empty' }, 'There is no such page.'));
      return this.retitle();
    }
    try {
      await loadPage(match.tag);
      if (this.match !== match) return;
      const page = this.place(match.tag);
      await Promise.resolve(page.enter(this.site, match.params, query)).finally(() => this.page !== page && page.leave?.()); // what it has begun since
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (this.match !== match) return;
      this.isUnread = !error.status; // it is shown again when the server is back
      (this.page ?? this.main).replaceChildren(h('p', { class: 'empty error', role: 'alert', dir: 'auto' }, error.detail));
    }
    if (this.match === match) this.retitle();
    loadPages();
  }

  /**
   * Put an empty page in place of the one before.
   * @param {string} tag
   */
  place(tag) {
    const page = /** @type {PageElement} */ (document.createElement(tag));
    this.page = page;
    this.site.keep = (given) => this.page === page && this.router?.keep(given);
    this.bar.replaceChildren(...(page.bar ? [page.bar] : []));
    this.main.replaceChildren(page);
    this.main.scrollTop = 0;
    this.retitle();
    return page;
  }

  retitle() {
    const heading = this.page?.heading || 'Asterism';
    setText(this.heading, heading);
    this.heading.hidden = !!this.bar.querySelector('h1');
    const title = `${this.questions ? `(${this.counted}) ` : ''}${heading}`;
    if (document.title !== title) document.title = title;
  }

  /** Return the number of open questions in words. */
  get counted() {
    return this.questions < MOST_QUESTIONS ? String(this.questions) : `${MOST_QUESTIONS - 1}+`;
  }

  /** Count the open questions. */
  async count() {
    const found = await this.site.api.get(`/api/inquiries?limit=${MOST_QUESTIONS}`).catch(() => null); // the list comes again
    if (!found) return;
    this.questions = found.inquiries.length;
    this.badge.hidden = this.asked.hidden = !this.questions;
    setText(this.badge, this.counted);
    fill(this.asked, this.counted, () => [icon('waiting'), this.questions < MOST_QUESTIONS ? count(this.questions, 'question') : `${this.counted} questions`]);
    this.retitle();
  }

  tick() {
    const clock = Date.now() - performance.now();
    if (Math.abs(clock - this.clock) > JUMP_MS) void this.count(); // its answer says how far the clock is off now
    this.clock = clock;
    this.drawLiveness();
  }

  drawLiveness() {
    const { state, since } = this.site.channel.liveness;
    const ago = duration(Date.now() / 1000 - since);
    setAttribute(this.liveness, 'data-state', state);
    setText(this.liveness, state === 'live' ? 'Live' : state === 'lost' ? `Connection lost, last update ${ago} ago` : 'Connecting');
    this.classList.toggle('lost', state === 'lost');
  }

  openPalette() {
    const pages = RAIL.map(([address, name, , key]) => ({ title: `Go to ${name.toLowerCase()}`, hint: `G ${key.toUpperCase()}`, run: () => this.site.go(address) }));
    const own = [...(this.site.may('submit') ? [{ title: 'New run', run: () => this.site.go('/submit') }] : []), { title: 'Light or dark', run: switchTheme }, { title: 'Show the keys', hint: '?', run: () => this.openHelp() }];
    this.palette.open([...(this.page?.commands?.() ?? []), ...pages, ...own], (text) => this.find(text));
  }

  /**
   * Return commands that open what has a text in its name: runs, devices, schedules, flow agents, and tasks of the last day.
   * @param {string} text
   */
  async find(text) {
    const { site } = this;
    const [found, ...others] = await Promise.all([`runs?${new URLSearchParams({ q: text, limit: '6' })}`, 'devices', 'schedules', 'agents', 'attempts'].map((path) => site.api.get(`/api/${path}`).catch(() => ({}))));
    const named = others.flatMap((it) => (it.devices ?? it.schedules ?? it.agents ?? it.attempts ?? []).map(linkOf));
    const links = new Map(named.filter(({ title }) => title.toLowerCase().includes(text.toLowerCase())).map((link) => [link.address, link]));
    const runs = (found.runs ?? []).map((/** @type {any} */ run) => ({ title: run.title || run.run_id, hint: dayTime(run.created_at, site.now()), address: pageOf(run) }));
    return [...runs, ...[...links.values()].slice(0, MOST_FOUND)].map((link) => ({ ...link, run: () => site.go(link.address) }));
  }

  openHelp() {
    this.help.replaceChildren(shortcutsOf(this.page?.keys ?? []));
    if (!this.help.open) this.help.showModal();
  }
}

/**
 * Return what the palette shows of a device, a schedule, a flow agent, or an attempt of a task.
 * @param {any} it
 */
function linkOf(it) {
  const query = (/** @type {Record<string, string>} */ given) => new URLSearchParams(given);
  if (it.task) return { title: String(it.name || it.task), hint: `task of ${brief(it.title, 40)}`, address: `/runs/${encodeURIComponent(it.run_id)}?${query({ task: it.task })}` };
  if (it.device_id) return { title: it.device_id, hint: 'device', address: `/devices?${query({ device: it.device_id })}` };
  return it.cron ? { title: it.name, hint: 'schedule', address: `/schedules?${query({ schedule: it.name })}` } : { title: `${it.name}`, hint: 'flow agent', address: '/conversations' };
}

customElements.define('console-shell', ConsoleShell);
