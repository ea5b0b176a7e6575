// @ts-check
/** `<conversation-page>`: a conversation beside the fields that it has collected. What is to be approved is shown in it. */
import { fill, h, icon, setText } from '../../dom.js';
import { rowsOf } from '../../fold.js';
import { Journal } from '../../player/cursor.js';
import { brief, count, moment, stateWords, textOf } from '../../words.js';
import { newKey, Problem } from '../api.js';
import { gathered } from '../reload.js';
import { subjectParts, watchFolded } from '../subject.js';
import { inZone } from '../times.js';

/** Messages that are shown; of a longer conversation, the last ones. */
const MOST = 400;
/** Milliseconds after an entry until the conversation is read again. */
const LOOK_MS = 150;
/** Milliseconds until the next look while the agent works. */
const WORKING_MS = 3000;
const STATUSES = /** @type {Record<string, string>} */ ({ said: 'given', withheld: 'secret, not stored', default: 'default', open: 'open' });

class ConversationPage extends HTMLElement {
  constructor() {
    super();
    this.site = /** @type {import('../site.js').Site} */ (/** @type {unknown} */ (null)); // `enter` sets it
    this.heading = 'Conversation';
    this.journal = new Journal();
    /** @type {any} the conversation as the API has it */
    this.model = null;
    /** @type {any} what is to be approved; null for nothing */
    this.asked = null;
    /** @type {{text: string, key: string} | null} a message that is under way */
    this.sending = null;
    /** Messages before it. */
    this.earlier = 0;
    /** A text that could not be sent, and the key under which it was tried. */
    this.failed = this.key = '';
    this.note = '';
    /** @type {Set<string>} names of secret fields */
    this.secret = new Set();
    /** @type {(() => void)[]} */
    this.stops = [];
  }

  /** @type {import('../site.js').Page['enter']} */
  async enter(site, { id }) {
    this.site = site;
    this.id = id;
    this.messages = h('ol', { class: 'messages', tabindex: 0, 'aria-label': 'Messages', 'aria-live': 'polite' });
    this.working = h('p', { class: 'working', role: 'status', hidden: true }, h('i'), h('i'), h('i'), h('span', {}, 'The agent works'));
    this.question = h('div');
    this.composer = h('div', { class: 'composer' });
    this.side = h('section', { class: 'details', 'aria-label': 'Fields' });
    this.replaceChildren(h('div', { class: 'split talk' }, h('div', { class: 'main' }, this.messages, this.working, this.question, this.composer), this.side));
    const path = encodeURIComponent(id);
    const [model, { agents }] = await Promise.all([site.api.get(`/api/conversations/${path}`), site.api.get('/api/agents')]);
    const schema = agents.find((/** @type {any} */ it) => it.name === model.agent)?.fields.properties ?? {};
    this.secret = new Set(Object.keys(schema).filter((name) => schema[name].writeOnly));
    for await (const deltas of site.api.lines(`/api/runs/${path}/deltas`)) for (const delta of deltas) this.journal.push(delta);
    if (!this.isConnected) return;
    this.took(model);
    const looking = gathered(() => this.look(), LOOK_MS);
    const stop = site.channel.follow(id, this.journal.deltas.at(-1)?.seq ?? 0, (deltas, problem) => {
      if (!deltas) return site.toast(problem ?? 'The conversation cannot be followed any more: load the page again.');
      for (const delta of deltas) this.journal.push(delta);
      this.draw();
      looking.start();
    });
    const poll = setInterval(() => this.model.waits || looking.start(), WORKING_MS);
    this.stops = [stop, looking.stop, () => clearInterval(poll), site.channel.watch(() => this.draw())];
  }

  leave() {
    for (const stop of this.stops) stop();
  }

  async look() {
    try {
      this.took(await this.site.api.get(`/api/conversations/${encodeURIComponent(this.id)}`));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
    }
  }

  /**
   * Take a conversation as the API has returned it.
   * @param {any} model
   */
  took(model) {
    this.model = model;
    this.asked = model.question?.verbs.includes('approve') ? model.question : null;
    this.heading = brief(model.agent || 'Conversation', 80);
    this.site.retitle();
    this.draw();
  }

  draw() {
    const { journal, model } = this;
    if (!model) return;
    const messages = [...rowsOf(journal.rows, 'message')];
    if (this.sending && messages.length > this.earlier) this.sending = null;
    if (this.failed) this.recover(messages.slice(this.earlier).filter(([, it]) => it.by !== 'agent'));
    const { scrollHeight, scrollTop, clientHeight } = this.messages;
    const atEnd = scrollHeight - scrollTop - clientHeight < 40;
    this.say(messages);
    const isWorking = !journal.rows.get('run')?.ended && (!!this.sending || !model.waits);
    this.working.hidden = !isWorking;
    fill(this.question, JSON.stringify([this.asked, this.site.isLive]), () => this.asked && this.approval(this.asked));
    const fields = [...rowsOf(journal.rows, 'field')];
    const asked = fields.find(([, row]) => row.asked)?.[0] ?? '';
    this.drawComposer(this.secret.has(asked) ? asked : '', isWorking);
    fill(this.side, JSON.stringify([fields, model.code, model.reason, model.data, journal.deltas.at(-1)?.state]), () => this.card(fields));
    if (atEnd || this.sending) this.messages.scrollTop = this.messages.scrollHeight;
  }

  /**
   * Add the messages that are not shown yet.
   * @param {[string, any][]} messages
   */
  say(messages) {
    this.messages.querySelector('.sending')?.remove();
    const shown = this.messages.querySelectorAll('[data-message]').length;
    const left = Math.max(0, messages.length - MOST);
    const known = shown ? Number(this.messages.lastElementChild?.getAttribute('data-message') ?? 0) : left;
    if (!shown && left) this.messages.append(h('li', { class: 'mute' }, count(left, 'earlier message')));
    messages.forEach(([, message], at) => {
      if (at < known) return;
      const agent = message.by === 'agent';
      this.messages.append(h('li', { class: agent ? 'agent' : 'person', 'data-message': at + 1 }, h('small', { title: moment(message.at) }, icon(agent ? 'agent' : 'person'), message.by, ' · ', inZone(message.at, '')), h('p', { dir: 'auto' }, textOf(message.text))));
    });
    if (this.sending) this.messages.append(h('li', { class: 'person sending' }, h('small', {}, 'sending …'), h('p', { dir: 'auto' }, this.sending.text)));
  }

  /** @param {any} asked a question with an approval */
  approval(asked) {
    const answers = /** @type {[string, string, string][]} */ ([['approve', 'Approve', 'button primary'], ['reject', 'Reject', 'button']]).filter(([verb]) => asked.verbs.includes(verb));
    const may = this.site.may('answer') && this.site.isLive;
    const card = h(
      'section',
      { class: 'card question', 'aria-label': 'Approval' },
      h('h2', {}, icon('waiting'), 'Needs your approval'),
      h('p', { class: 'lead', dir: 'auto' }, textOf(asked.prompt)),
      subjectParts(asked.subject),
      h('div', { class: 'buttons' }, answers.map(([verb, words, kind]) => h('button', { type: 'button', class: kind, 'data-key': verb, disabled: !may, onclick: () => this.answer(asked, verb) }, words)), h('span', { class: 'mute' }, this.site.may('answer') ? 'or write what should be different' : 'takes the role approver')),
    );
    const approve = card.querySelector('[data-key=approve]');
    watchFolded(card, (isFolded) => (approve.disabled = !may || isFolded));
    return card;
  }

  /**
   * @param {any} asked
   * @param {string} verb
   */
  async answer(asked, verb) {
    this.asked = null;
    this.model = { ...this.model, waits: false };
    this.draw();
    try {
      await this.site.api.send('POST', `/api/inquiries/${encodeURIComponent(asked.inquiry_id)}/answer`, { verb, digest: asked.digest }, { key: newKey() });
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.site.toast(error.detail);
    }
    await this.look();
  }

  /**
   * @param {string} secret name of the secret field that the agent asks for; empty for none
   * @param {boolean} isWorking
   */
  drawComposer(secret, isWorking) {
    const ended = this.journal.rows.get('run')?.ended;
    const may = this.site.may('answer') && this.site.may('submit');
    const state = this.journal.deltas.at(-1)?.state ?? this.model.status;
    fill(this.composer, JSON.stringify([ended && state, may, secret]), () => {
      if (ended) return h('p', { class: 'mute' }, `This conversation has ended: ${state.toLowerCase()}.`);
      if (!may) return h('p', { class: 'mute' }, 'To write to an agent takes the roles operator and approver.');
      const said = { class: 'field grows', 'aria-label': 'Message', placeholder: secret ? `${secret}: it is not shown, and no journal has it` : 'Message', maxlength: 10_000, autocomplete: 'off', 'data-key': 'message' };
      const input = (this.input = secret ? h('input', { ...said, type: 'password' }) : h('textarea', { ...said, rows: 2 }));
      input.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => {
        if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        void this.send(secret);
      });
      const submit = (/** @type {Event} */ event) => {
        event.preventDefault();
        void this.send(secret);
      };
      this.sender = h('button', { class: 'button primary' }, 'Send');
      this.said = h('p', { class: 'mute', role: 'status' });
      return [this.said, h('form', { class: 'tools', onsubmit: submit }, input, this.sender)];
    });
    if (this.sender) this.sender.disabled = !this.site.isLive || !!this.sending;
    if (this.said) setText(this.said, this.note || (isWorking ? '' : 'Enter sends, Shift Enter begins a line.'));
  }

  /** @param {string} secret */
  async send(secret) {
    const text = this.input.value.trim();
    if (!text || this.sending || !this.site.isLive) return;
    const key = this.failed === text ? this.key : newKey();
    this.sending = { text: secret ? '•••' : text, key };
    this.earlier = [...rowsOf(this.journal.rows, 'message')].length;
    this.key = key;
    this.note = '';
    this.input.value = '';
    this.draw();
    try {
      const reply = await this.site.api.send('POST', `/api/conversations/${encodeURIComponent(this.id)}/messages`, { text, inquiry_id: this.model.inquiry_id, digest: this.model.question?.digest ?? '' }, { key });
      this.failed = '';
      this.note = reply.verdict === 'unclear' ? reply.text : '';
      if (reply.verdict === 'unclear') this.sending = null;
      this.took(reply);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.failed = text;
      this.input.value = secret ? '' : text;
      this.sending = null;
      this.note = error.detail;
      this.draw();
    }
  }

  /**
   * Offer a message whose answer was lost no longer, if it is among those that have arrived.
   * @param {[string, any][]} arrived
   */
  recover(arrived) {
    if (!arrived.length) return;
    const isThere = arrived.some(([, { text }]) => textOf(text) === this.failed);
    if (isThere && this.input.value.trim() === this.failed) this.input.value = '';
    this.failed = this.note = '';
  }

  /** @param {[string, any][]} fields */
  card(fields) {
    const { model } = this;
    const rows = fields.map(([name, field]) => h('tr', { class: field.asked ? 'asked-now' : '', 'data-status': field.status }, h('th', { scope: 'row', dir: 'auto' }, name), h('td', { dir: 'auto', class: 'wide' }, this.secret.has(name) || field.status === 'withheld' ? '' : field.value === null ? '–' : textOf(field.value)), h('td', { class: 'mute' }, field.asked ? 'asked now' : (STATUSES[field.status] ?? field.status))));
    return [
      h('header', { class: 'head' }, h('span', { class: 'pill', 'data-outcome': this.journal.rows.get('run')?.outcome ?? '' }, stateWords(this.journal.deltas.at(-1)?.state ?? model.status, this.journal.rows.get('run')?.outcome)), h('a', { href: `/runs/${encodeURIComponent(this.id)}` }, 'Its run')),
      model.code && model.reason ? h('p', { class: 'error', dir: 'auto' }, model.reason) : null,
      h('h3', {}, 'Fields'),
      rows.length ? h('table', { class: 'fields' }, h('caption', { class: 'hidden' }, 'Fields'), h('tbody', {}, rows)) : h('p', { class: 'mute' }, 'No fields.'),
      Object.keys(model.data ?? {}).length ? h('details', {}, h('summary', {}, 'Results'), h('pre', { tabindex: 0, dir: 'auto' }, textOf(model.data))) : null,
    ];
  }
}

customElements.define('conversation-page', ConversationPage);
