// @ts-check
/** `<answer-form>`: an open question with exactly what it is about, and the answers that somebody may give. */
import { h, icon, setText } from '../dom.js';
import { editForm, ended, givenWords, KEYS, refusalOf, respondForm, VERBS } from './answers.js';
import { newKey } from './api.js';
import './form/form.js';
import { subjectParts, watchFolded } from './subject.js';

/** @typedef {import('./answers.js').Inquiry} Inquiry */
/** @typedef {import('./answers.js').Refused} Refused */
/** @typedef {import('./site.js').Site} Site */

/** Milliseconds in which a question that has just come under the keys takes none: they may be meant for another one. */
const NEW_MS = 1000;

/** It dispatches `closed`, whose detail has a text, whether somebody has answered here, and the questions that are open instead. */
export class AnswerForm extends HTMLElement {
  /**
   * @param {Site} site
   * @param {Inquiry} inquiry
   * @param {{keys?: boolean}} [options] keys: the page answers this question by keys, which the buttons name
   */
  open(site, inquiry, { keys = false } = {}) {
    this.site = site;
    this.inquiry = inquiry;
    this.isBusy = false;
    this.isOpen = !inquiry.answer;
    /** @type {{text: string, key: string} | null} the answer that was sent last, with its idempotency key */
    this.sent = null;
    /** Enter approves it: the key of that was pressed before. */
    this.isAsked = false;
    /** Its field has the focus as soon as it is there. */
    this.isChosen = false;
    this.verdict = h('p', { class: 'verdict', role: 'status' });
    this.more = h('div', { class: 'more' });
    this.buttons = h('div', { class: 'verbs' }, this.verbs.map((verb) => this.button(verb, keys)));
    const subject = h('div', { class: 'subject' }, subjectParts(inquiry.subject));
    this.replaceChildren(subject, this.buttons, this.more, this.verdict);
    watchFolded(subject, (isFolded) => {
      this.isFolded = isFolded;
      this.hold(!!this.isBusy);
    });
    if (inquiry.answer) this.close(`This question is closed: ${ended(inquiry.answer)}.`);
    else if (!this.site.may('answer')) this.say(`You are logged in as ${site.who.roles.join(', ')}. It takes an approver to answer.`);
    else if (this.isDirect) void this.choose('respond', false);
    else if (!inquiry.verbs.length) this.say(`It asks for a secret, which is not sent over the network. Type it at a terminal: asterism resume ${inquiry.run_id}`);
    return this;
  }

  /** Return true if it asks for a value first of all: its field is there at once. */
  get isDirect() {
    return this.inquiry.verbs[0] === 'respond';
  }

  /** Return true if it has been under the keys for long enough to take one. */
  get takesKeys() {
    return performance.now() - (this.since ?? -Infinity) > NEW_MS;
  }

  /** Note that it has come under the keys. */
  come() {
    this.since = performance.now();
    if (this.isAsked) this.say('');
  }

  /** Note that somebody has chosen it, and focus its field. */
  enter() {
    this.come();
    this.isChosen = true;
    this.focusField();
  }

  focusField() {
    /** @type {HTMLElement | null | undefined} */ (this.more?.querySelector('input, textarea, select'))?.focus();
  }

  /**
   * Do what a key says; return true if it was for this question. A letter counts if it is pressed by itself, on a question
   * that was there before; what has a high risk takes a second key.
   * @param {KeyboardEvent} event
   */
  key({ key }) {
    const verb = Object.keys(KEYS).find((it) => KEYS[it] === key.toUpperCase()) ?? '';
    const isSure = this.isAsked && key === 'Enter';
    if (this.isAsked) this.say('');
    if (isSure) void this.choose('approve');
    else if (!this.isOpen || this.isBusy || this.more?.hasChildNodes() || !this.verbs.includes(verb)) return false;
    else if (!this.takesKeys || this.site?.isTyped()) this.say(`Nothing is done: ${KEYS[verb]} came right after something else. Press it again.`, true);
    else if (verb === 'approve' && this.inquiry.risk === 'high') {
      this.say('Press Enter to approve it. Any other key leaves it open.');
      this.isAsked = true;
    } else void this.choose(verb);
    return true;
  }

  /** @type {string[]} the answers that the one who is logged in may give */
  get verbs() {
    const site = this.site;
    const isPlan = ['plan', 'edits'].includes(this.inquiry.subject?.kind);
    return site?.may('answer') ? this.inquiry.verbs.filter((/** @type {string} */ verb) => verb !== 'edit' || !isPlan || site.may('edit')) : [];
  }

  /**
   * @param {string} verb
   * @param {boolean} keys
   */
  button(verb, keys) {
    const main = verb === this.inquiry.verbs[0];
    const key = keys && KEYS[verb] ? h('kbd', { 'aria-hidden': 'true' }, KEYS[verb]) : null;
    const click = () => this.choose(verb);
    return h('button', { type: 'button', class: `button ${main ? 'primary' : ''}`, 'data-verb': verb, onclick: click }, h('span', {}, VERBS[verb] ?? verb, verb === 'edit' ? ' …' : ''), key);
  }

  /**
   * Give an answer, or show the form that it needs.
   * @param {string} verb
   * @param {boolean} [focus] focus the form
   */
  async choose(verb, focus = true) {
    if (!this.isOpen || this.isBusy || !this.verbs.includes(verb)) return;
    if (this.isHeld(verb)) return this.say('Unfold it first.', true);
    if (verb === 'approve') return this.send({ verb });
    if (verb === 'reject') return this.askReason();
    this.hold(true); // what is typed meanwhile is for the form
    try {
      const { devices } = await /** @type {Site} */ (this.site).api.get('/api/devices');
      if (!this.isOpen) return;
      this.askValue(verb, (verb === 'edit' ? editForm : respondForm)(this.inquiry, devices));
      if (focus || this.isChosen) this.focusField();
    } catch (error) {
      this.say(/** @type {Error} */ (error).message, true);
    } finally {
      this.hold(false);
    }
  }

  askReason() {
    const reason = h('textarea', { class: 'field', rows: 2, maxlength: 10_000, dir: 'auto' });
    const label = h('label', { class: 'form-row' }, h('span', {}, 'Reason ', h('span', { class: 'optional' }, 'optional')), reason);
    reason.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => sends(event) && (event.preventDefault(), void this.send({ verb: 'reject', reason: reason.value })));
    this.show([label], 'Reject', () => this.send({ verb: 'reject', reason: reason.value }));
    reason.focus();
  }

  /**
   * @param {string} verb
   * @param {import('./answers.js').Form} asked
   */
  askValue(verb, asked) {
    const form = /** @type {import('./form/form.js').ValueForm} */ (document.createElement('value-form'));
    form.open(asked.schema, asked.value, { name: asked.name });
    const read = () => {
      const found = form.read();
      if (!found) return this.say('Not sent: the form says what is wrong.', true);
      const value = asked.sent(found.value);
      if (value === undefined) return this.say('Nothing is changed. Approve it instead, or change a value.', true);
      return this.send({ verb, value });
    };
    const isText = form.field?.kind === 'text';
    const hint = isText ? h('p', { class: 'mute' }, h('kbd', {}, 'Enter'), ' sends it, ', h('kbd', {}, 'Shift Enter'), ' starts a new line, ', h('kbd', {}, 'Esc'), ' leaves the field.') : null;
    const others = verb === 'respond' && this.isDirect ? this.inquiry.verbs.slice(1).map((/** @type {string} */ it) => this.button(it, false)) : undefined;
    this.show([form, hint], verb === 'edit' ? 'Approve with these changes' : 'Send the answer', read, others);
    if (isText) form.addEventListener('keydown', (event) => sends(event) && (event.preventDefault(), void read()));
  }

  /**
   * @param {any[]} parts
   * @param {string} name
   * @param {() => any} send
   * @param {any[]} [others] more buttons
   */
  show(parts, name, send, others = [h('button', { type: 'button', class: 'button', onclick: () => this.back() }, 'Back')]) {
    this.say('');
    const submit = (/** @type {Event} */ event) => (event.preventDefault(), void send());
    const leave = (/** @type {KeyboardEvent} */ event) => event.key === 'Escape' && /** @type {HTMLElement} */ (event.target).blur();
    this.more?.replaceChildren(h('form', { onsubmit: submit, onkeydown: leave, novalidate: true }, parts, h('div', { class: 'verbs' }, h('button', { class: 'button primary' }, name), others)));
    if (this.buttons) this.buttons.hidden = true;
  }

  /** Hide the form of an answer. */
  back() {
    if (this.isDirect) return void this.choose('respond');
    const used = /** @type {HTMLElement} */ (this.buttons);
    used.hidden = false;
    this.more?.replaceChildren();
    this.say('');
    used.querySelector('button')?.focus();
  }

  /** @param {{verb: string, value?: any, reason?: string}} answer */
  async send(answer) {
    const site = /** @type {Site} */ (this.site);
    if (this.isBusy || !this.isOpen) return;
    if (!site.isLive) return this.say('The connection is lost. Your answer was not sent.', true);
    this.hold(true);
    this.say('Sending …');
    try {
      const path = `/api/inquiries/${encodeURIComponent(this.inquiry.inquiry_id)}/answer`;
      const { verdict } = await site.api.send('POST', path, { ...answer, digest: this.inquiry.digest }, { key: this.keyOf(answer) });
      if (verdict === 'accepted') return this.close(givenWords(answer), { isGiven: true });
      this.hold(false);
      this.say('Sent. Its run has not taken it yet. The same answer may be sent again: it is taken once.');
    } catch (error) {
      this.refuse(/** @type {any} */ (error));
    }
  }

  /**
   * Return the idempotency key of an answer: the same one for the same answer to this question.
   * @param {{verb: string, value?: any, reason?: string}} answer
   */
  keyOf(answer) {
    const text = JSON.stringify(answer);
    if (this.sent?.text !== text) this.sent = { text, key: newKey() };
    return this.sent.key;
  }

  /** @param {import('./api.js').Problem} problem */
  refuse(problem) {
    if (problem.status === undefined) throw problem;
    const { kind, text, open } = refusalOf(problem);
    this.hold(false);
    if (kind === 'refused') this.say(problem.status === 0 ? `${text} Send it again: an answer is taken once.` : text, true);
    else this.close(text, { open });
  }

  /**
   * End the form: its question is closed.
   * @param {string} text
   * @param {{open?: Inquiry[], isGiven?: boolean}} [how] open: questions that are open instead; isGiven: it was answered here
   */
  close(text, { open = [], isGiven = false } = {}) {
    const was = this.isOpen;
    this.isOpen = false;
    this.hold(false);
    this.buttons?.replaceChildren();
    this.more?.replaceChildren();
    this.classList.add('closed');
    this.verdict?.replaceChildren(icon('entry'), text);
    if (was) this.dispatchEvent(new CustomEvent('closed', { detail: { text, open, isGiven }, bubbles: true }));
  }

  /** @param {boolean} busy */
  hold(busy) {
    this.isBusy = busy;
    for (const button of this.querySelectorAll('button')) button.disabled = busy || this.isHeld(button.dataset.verb);
  }

  /**
   * Return true for an answer that approves a request which has not been shown whole.
   * @param {string | undefined} verb
   */
  isHeld(verb) {
    return !!this.isFolded && (verb === 'approve' || verb === 'edit');
  }

  /**
   * @param {string} text
   * @param {boolean} [isProblem]
   */
  say(text, isProblem = false) {
    this.isAsked = false;
    this.verdict?.classList.toggle('problem', isProblem);
    if (this.verdict) setText(this.verdict, text);
  }
}

/**
 * Return true for the key that sends a text of one line.
 * @param {KeyboardEvent} event
 */
const sends = (event) => event.key === 'Enter' && !event.shiftKey && !event.isComposing && !(/** @type {HTMLInputElement} */ (event.target).value?.includes('\n'));

customElements.define('answer-form', AnswerForm);
