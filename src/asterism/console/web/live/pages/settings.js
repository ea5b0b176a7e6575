// @ts-check
/** `<settings-page>`: how this browser shows the console, who is logged in, and tokens. */
import { fill, h, icon } from '../../dom.js';
import { moment } from '../../words.js';
import { Problem } from '../api.js';
import { confirmed } from '../dialogs.js';
import { chooser, field, segments } from '../forms.js';
import { prefer, preferences } from '../preferences.js';
import { timeOf } from '../times.js';

/** @typedef {{id: string, name: string, roles: string[], tenant: string, created_at: number, expires_at: number, revoked_at: number}} Token */

/** The most days for which a token lasts that a browser creates. */
const MOST_DAYS = 90;
const CHOICES = /** @type {[string, string, [string, string][]][]} */ ([
  ['theme', 'Colors', [['auto', 'As the system'], ['light', 'Light'], ['dark', 'Dark']]],
  ['density', 'Density', [['normal', 'Normal'], ['compact', 'Compact']]],
  ['motion', 'Motion', [['auto', 'As the system'], ['none', 'None']]],
]);
const STATUSES = ['pending', 'ready', 'running', 'waiting', 'succeeded', 'partial', 'failed', 'skipped', 'cancelled'];
const ROLES = /** @type {[string, string][]} */ ([['viewer', 'viewer: reads'], ['operator', 'operator: starts, commands and edits runs'], ['approver', 'approver: answers, and starts nothing'], ['operator,approver', 'operator and approver'], ['admin', 'admin: also tokens and devices']]);

class SettingsPage extends HTMLElement {
  constructor() {
    super();
    this.site = /** @type {import('../site.js').Site} */ (/** @type {unknown} */ (null)); // `enter` sets it
    this.heading = 'Settings';
    /** @type {Token[]} */
    this.tokens = [];
    /** @type {any} the token that was created last; only now its text is known */
    this.fresh = null;
  }

  /** @type {import('../site.js').Page['enter']} */
  async enter(site) {
    this.site = site;
    this.looks = h('section', { class: 'card' });
    this.list = h('section', { class: 'card', 'aria-label': 'Tokens', hidden: true });
    this.replaceChildren(h('div', { class: 'page settings' }, this.looks, this.you(await site.api.get('/api/session')), this.list));
    this.drawLooks();
    if (site.may('admin')) await this.load();
  }

  drawLooks() {
    const chosen = preferences();
    const choose = (/** @type {string} */ name) => (/** @type {string} */ value) => {
      prefer(name, value);
      this.drawLooks();
    };
    fill(this.looks, JSON.stringify(chosen), () => [
      h('h2', {}, 'This browser'),
      h('dl', { class: 'choices-list' }, CHOICES.map(([name, words, choices]) => [h('dt', {}, words), h('dd', {}, segments(words, choices, chosen[name], choose(name)))])),
      h('h3', {}, 'Statuses'),
      h('ul', { class: 'statuses' }, STATUSES.map((status) => h('li', { 'data-status': status }, h('span', { class: 'glyph' }, icon(status)), status))),
      h('p', { class: 'mute' }, 'Each status has a shape of its own, and a color that differs from the others with any color vision.'),
    ]);
  }

  /** @param {any} session */
  you(session) {
    const link = h('div', { role: 'status' });
    const pairs = [['Name', session.name], ['Roles', session.roles.join(', ')], ['Tenant', session.tenant || 'all'], ['Logged in until', session.expires_at ? moment(session.expires_at) : 'revoked']];
    const makeLink = () =>
      this.doing(async () => {
        const made = await this.site.api.send('POST', '/api/login-links');
        const address = `${location.origin}/#login=${made.link}`;
        link.replaceChildren(once('Open it in the other browser within five minutes. It works once.', address, (text) => this.copy(text)));
      });
    const logOut = () =>
      this.doing(async () => {
        await this.site.api.send('DELETE', '/api/session');
        location.assign('/');
      });
    return h(
      'section',
      { class: 'card', 'aria-label': 'You' },
      h('h2', {}, icon('person'), 'You'),
      h('dl', { class: 'pairs' }, pairs.map(([term, value]) => [h('dt', {}, term), h('dd', { dir: 'auto' }, value)])),
      h('div', { class: 'buttons' }, h('button', { type: 'button', class: 'button', onclick: makeLink }, 'Log in another browser'), h('button', { type: 'button', class: 'button', onclick: logOut }, 'Log out')),
      link,
    );
  }

  async load() {
    this.tokens = (await this.site.api.get('/api/tokens')).tokens;
    this.drawTokens();
  }

  drawTokens() {
    const now = this.site.now();
    this.list.hidden = false;
    const usable = this.tokens.filter((token) => !token.revoked_at && !(token.expires_at && token.expires_at <= now));
    const gone = this.tokens.length - usable.length;
    fill(this.list, JSON.stringify([this.tokens, this.fresh]), () => [h('h2', {}, 'Tokens'), h('p', { class: 'mute' }, 'Programs and other people use the server with a token. Journals name it as the actor.'), this.maker(), this.fresh ? once(`The token ${this.fresh.name}. This is the only time that it is shown.`, this.fresh.token, (text) => this.copy(text)) : null, h('div', { class: 'panel', tabindex: 0, role: 'region', 'aria-label': 'List of tokens' }, this.table(usable, now)), gone ? h('p', { class: 'mute' }, `${gone} that ${gone === 1 ? 'is' : 'are'} revoked or expired`) : null]);
  }

  /**
   * @param {Token[]} tokens
   * @param {number} now
   */
  table(tokens, now) {
    const rows = tokens.map((token) => h('tr', {}, h('th', { scope: 'row', dir: 'auto' }, token.name, h('div', { class: 'mute' }, token.id)), h('td', {}, token.roles.join(', ')), h('td', {}, token.tenant || 'all'), h('td', {}, timeOf(token.created_at, now)), h('td', {}, token.expires_at ? timeOf(token.expires_at, now) : 'never'), h('td', {}, h('button', { type: 'button', class: 'button small', 'data-key': `revoke ${token.id}`, onclick: () => this.revoke(token) }, 'Revoke'))));
    return h('table', {}, h('caption', { class: 'hidden' }, 'Tokens'), h('thead', {}, h('tr', {}, ['Name', 'Roles', 'Tenant', 'Created', 'Expires', ''].map((head) => h('th', { scope: 'col' }, head)))), h('tbody', {}, rows));
  }

  maker() {
    const name = h('input', { class: 'field', required: true, maxlength: 64, pattern: '[A-Za-z0-9][A-Za-z0-9._\\-]*', autocomplete: 'off', 'data-key': 'name' });
    const role = chooser(ROLES, 'viewer', { 'data-key': 'role' });
    const days = h('input', { class: 'field', type: 'number', min: 1, max: MOST_DAYS, value: 30, required: true, 'data-key': 'days' });
    const create = async (/** @type {Event} */ event) => {
      event.preventDefault();
      await this.doing(async () => {
        this.fresh = await this.site.api.send('POST', '/api/tokens', { name: name.value, roles: role.value.split(','), days: Number(days.value) });
        await this.load();
      });
    };
    return h('form', { class: 'tools makes', onsubmit: create }, field('Name', name), field('Roles', role), field('Days', days), h('button', { class: 'button primary' }, 'Create a token'));
  }

  /** @param {Token} token */
  async revoke(token) {
    if (!(await confirmed('Revoke this token?', `${token.name} can no longer be used, and browsers that were logged in with it are logged out.`, 'Revoke'))) return;
    await this.doing(async () => {
      await this.site.api.send('DELETE', `/api/tokens/${encodeURIComponent(token.id)}`);
      if (this.fresh?.id === token.id) this.fresh = null;
      this.site.toast(`${token.name} is revoked.`);
      await this.load();
    });
  }

  /** @param {string} text */
  async copy(text) {
    const said = await navigator.clipboard.writeText(text).then(() => 'Copied.', () => 'This browser refuses to copy. Select the text instead.');
    this.site.toast(said);
  }

  /** @param {() => Promise<void>} work */
  async doing(work) {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.site.toast(error.detail);
    }
  }
}

/**
 * Return a text that is shown once, to be copied.
 * @param {string} words
 * @param {string} text
 * @param {(text: string) => void} copy
 */
const once = (words, text, copy) => h('div', { class: 'once' }, h('p', {}, words), h('div', { class: 'tools' }, h('code', { class: 'command' }, text), h('button', { type: 'button', class: 'button', onclick: () => copy(text) }, 'Copy')));

customElements.define('settings-page', SettingsPage);
