// @ts-check
/** `<conversations-page>`: the conversations, the newest first, and a form that starts one with an agent of the server. */
import { fill, h, icon } from '../../dom.js';
import { brief, stateWords } from '../../words.js';
import { newKey, Problem } from '../api.js';
import { chooser } from '../forms.js';
import { gathered, reload } from '../reload.js';
import { timeOf } from '../times.js';

const LOOK_MS = 1000;
const PAGE = 50;
const MACHINE = 'flow agent';
const GLYPHS = /** @type {Record<string, string>} */ ({ active: 'running', waiting: 'waiting', paused: 'pending' });
const OUTCOMES = /** @type {Record<string, string>} */ ({ finished: 'succeeded', failed: 'failed', cancelled: 'cancelled' });
const WORDS = /** @type {Record<string, string>} */ ({ active: 'agent works', waiting: 'waits for a person', paused: 'paused' });

class ConversationsPage extends HTMLElement {
  constructor() {
    super();
    this.site = /** @type {import('../site.js').Site} */ (/** @type {unknown} */ (null)); // `enter` sets it
    this.heading = 'Conversations';
    /** @type {any[]} */
    this.runs = [];
    /** @type {string | null} */
    this.next = null;
    this.most = PAGE;
    /** @type {(() => void)[]} */
    this.stops = [];
  }

  /** @type {import('../site.js').Page['enter']} */
  async enter(site) {
    this.site = site;
    this.list = h('div', { class: 'panel', tabindex: 0, role: 'region', 'aria-label': 'Conversations' });
    const start = h('div');
    this.replaceChildren(h('div', { class: 'page' }, start, this.list));
    const [{ agents }] = await Promise.all([site.api.get('/api/agents'), this.load()]);
    start.replaceWith(this.starter(agents));
    const looking = gathered(() => this.again(), LOOK_MS);
    const clock = setInterval(() => this.draw(), 10_000);
    this.stops = [site.channel.onTopic('runs', looking.start), looking.stop, () => clearInterval(clock)];
  }

  leave() {
    for (const stop of this.stops) stop();
  }

  async again() {
    await reload(() => this.load());
  }

  async load() {
    const found = await this.site.api.get(`/api/runs?${new URLSearchParams({ machine: MACHINE, children: 'true', limit: String(this.most) })}`);
    this.runs = found.runs;
    this.next = found.next;
    this.draw();
  }

  draw() {
    const now = this.site.now();
    fill(this.list, JSON.stringify([this.runs.map((run) => [run.run_id, run.seq]), this.next, Math.round(now / 10)]), () => (this.runs.length ? this.table(now) : h('p', { class: 'empty' }, 'No conversations yet.')));
  }

  /** @param {number} now */
  table(now) {
    const rows = this.runs.map((run) => {
      const status = run.status === 'ended' ? (OUTCOMES[run.outcome] ?? 'failed') : GLYPHS[run.status];
      const words = run.problem ? 'stuck' : run.status === 'ended' ? run.outcome : WORDS[run.status];
      const address = `/conversations/${encodeURIComponent(run.run_id)}`;
      return h(
        'tr',
        {},
        h('th', { scope: 'row' }, h('a', { href: address, dir: 'auto', 'data-key': run.run_id }, brief(run.title || run.run_id, 80)), h('div', { class: 'mute' }, run.run_id)),
        h('td', {}, h('span', { class: 'status', 'data-status': status, title: run.problem || null }, icon(status), words)),
        h('td', {}, h('code', {}, stateWords(run.state, run.outcome))),
        h('td', { dir: 'auto' }, run.actor),
        h('td', {}, timeOf(run.created_at, now)),
        h('td', {}, timeOf(run.updated_at, now)),
      );
    });
    const more = () => {
      this.most = Math.min(1000, this.most + PAGE);
      void this.again();
    };
    const heads = ['Conversation', 'Status', 'State', 'Started by', 'Started', 'Last entry'];
    return [h('table', {}, h('caption', { class: 'hidden' }, 'Conversations'), h('thead', {}, h('tr', {}, heads.map((head) => h('th', { scope: 'col' }, head)))), h('tbody', {}, rows)), this.next && this.most < 1000 ? h('button', { type: 'button', class: 'button more', onclick: more }, 'Show more') : null];
  }

  /** @param {{name: string, description: string}[]} agents */
  starter(agents) {
    if (!agents.length) return h('p', { class: 'mute' }, 'This server has no agents with which to start a conversation; start it with ', h('code', {}, '--agents SOURCE'), '.');
    if (!this.site.may('submit')) return h('p', { class: 'mute' }, 'To start a conversation takes the role operator.');
    const described = h('p', { class: 'mute', dir: 'auto' }, agents[0].description);
    const agent = chooser(agents.map(({ name }) => [name, name]), agents[0].name, { 'aria-label': 'Agent', onchange: () => described.replaceChildren(agents.find(({ name }) => name === agent.value)?.description ?? '') });
    const text = h('input', { class: 'field grows', 'aria-label': 'First message', placeholder: 'First message, or nothing', maxlength: 10_000, autocomplete: 'off' });
    const button = h('button', { class: 'button primary' }, icon('chat'), 'Start');
    let key = newKey();
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault();
      button.disabled = true;
      try {
        const { run_id } = await this.site.api.send('POST', '/api/conversations', { agent: agent.value, text: text.value }, { key });
        if (this.isConnected) this.site.go(`/conversations/${encodeURIComponent(run_id)}`);
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        this.site.toast(error.detail);
        if (error.status) key = newKey();
        button.disabled = false;
      }
    };
    return h('form', { class: 'card', onsubmit: submit }, h('div', { class: 'tools' }, agent, text, button), described);
  }
}

customElements.define('conversations-page', ConversationsPage);
