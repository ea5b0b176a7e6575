// @ts-check
/** `<submit-page>`: a request in words or a plan is checked, drawn, and started as it was drawn. */
import { h, icon } from '../../dom.js';
import { count } from '../../words.js';
import { sendOnce } from '../commands.js';
import '../form/form.js';
import { planPicture } from '../subject.js';
import { paramSchema, planOf, uploaded } from '../submission.js';

/** Bytes of a plan file, as the server accepts them. */
const MOST_BYTES = 8 << 20;
const EXAMPLE = '{\n  "name": "…",\n  "tasks": [\n    {"task_id": "a", "name": "…", "device": "…", "skill": "…", "inputs": {}}\n  ],\n  "dependencies": []\n}';

class SubmitPage extends HTMLElement {
  constructor() {
    super();
    this.heading = 'New run';
    this.site = /** @type {import('../site.js').Site} */ (/** @type {unknown} */ (null)); // `enter` sets it before anything is shown
    this.keys = [['Ctrl Enter', 'check what is written']];
    this.isWords = true;
    this.texts = { words: '', plan: '' };
    /** @type {any} the plan as the server has checked it */
    this.plan = null;
    this.isBusy = false;
  }

  /** @type {import('../site.js').Page['enter']} */
  enter(site, _params, query) {
    this.site = site;
    this.isWords = query.get('as') !== 'plan';
    this.texts.words = query.get('request') ?? '';
    if (!site.may('submit')) return void this.replaceChildren(h('p', { class: 'empty' }, `You are logged in as ${site.who.roles.join(', ')}. It takes an operator to start a run.`));
    const choice = (/** @type {boolean} */ isWords, /** @type {string} */ name) => h('label', {}, h('input', { type: 'radio', name: 'as', checked: isWords === this.isWords, onchange: () => this.turn(isWords) }), h('span', {}, name));
    this.text = h('textarea', { id: 'submitted', class: 'field', spellcheck: 'true', dir: 'auto', oninput: () => this.typed(), onkeydown: (/** @type {KeyboardEvent} */ event) => event.key === 'Enter' && (event.ctrlKey || event.metaKey) && void this.check() });
    this.file = h('input', { type: 'file', accept: '.json,application/json', class: 'hidden', id: 'plan-file', 'aria-label': 'A file with a plan', onchange: () => void this.read(this.file.files[0]) });
    this.pick = h('label', { class: 'button', for: 'plan-file' }, icon('file'), 'Choose a file');
    this.checking = h('button', { type: 'button', class: 'button primary', onclick: () => void this.check() }, 'Check');
    this.direct = h('button', { type: 'button', class: 'button', title: 'The run plans the request itself', onclick: () => void this.start(true) }, 'Start at once');
    this.said = h('p', { class: 'verdict', role: 'status', dir: 'auto' });
    this.shown = h('section', { class: 'checked', 'aria-label': 'Checked plan' });
    this.replaceChildren(
      h('section', { class: 'given' }, h('div', { class: 'choice', role: 'radiogroup', 'aria-label': 'Submit as' }, choice(true, 'In words'), choice(false, 'As a plan')), h('label', { class: 'hidden', for: 'submitted' }, 'What to do'), this.text, h('div', { class: 'verbs' }, this.checking, this.direct, this.file, this.pick), this.said),
      this.shown,
    );
    this.addEventListener('dragover', (event) => event.preventDefault());
    this.addEventListener('drop', (event) => (event.preventDefault(), void this.read(event.dataTransfer?.files[0])));
    this.turn(this.isWords);
  }

  /** @param {boolean} isWords */
  turn(isWords) {
    this.isWords = isWords;
    this.text.value = isWords ? this.texts.words : this.texts.plan;
    this.text.placeholder = isWords ? 'What is to be done, in a sentence or two' : EXAMPLE;
    this.text.classList.toggle('code', !isWords);
    this.text.rows = isWords ? 6 : 20;
    this.checking.textContent = isWords ? 'Show the plan' : 'Check the plan';
    this.direct.hidden = !isWords;
    this.pick.hidden = isWords;
    const query = new URLSearchParams(isWords ? {} : { as: 'plan' });
    this.site.keep(query);
    this.typed();
    this.text.focus();
  }

  /** The text has changed, so what was checked is not what would start. */
  typed() {
    this.texts[this.isWords ? 'words' : 'plan'] = this.text.value;
    this.checking.disabled = this.direct.disabled = this.isBusy || !this.text.value.trim();
    this.plan = null;
    this.say('');
    this.draw();
  }

  /** @param {File | undefined} file */
  async read(file) {
    if (!file) return;
    this.file.value = '';
    if (file.size > MOST_BYTES) return this.say(`${file.name} is larger than 8 MiB.`, true);
    this.texts.plan = await file.text();
    this.turn(false);
    await this.check();
  }

  /** Ask the server for the plan with which a run would start. */
  async check() {
    if (this.isBusy || !this.text.value.trim()) return;
    const text = this.text.value;
    try {
      const body = this.isWords ? { request: text } : { plan: planOf(text) };
      this.hold(true, this.isWords ? 'The planner is asked …' : 'Checking …');
      const checked = await this.site.api.send('POST', '/api/plans/check', body);
      if (this.text.value !== text) return;
      this.plan = checked.plan;
      this.say('');
    } catch (error) {
      const { status, message } = /** @type {any} */ (error);
      this.say(status === 0 && this.isWords ? `${message} Planning can take longer: start it at once, and watch the run plan.` : message, true);
    } finally {
      this.hold(false);
      this.draw();
    }
  }

  /** Show the checked plan, its parameters, and the button that starts it. */
  draw() {
    if (!this.plan) return this.shown.replaceChildren(h('div', { class: 'empty' }, icon('graph'), h('span', {}, 'The plan is drawn here before it starts.')));
    const { plan } = this;
    const schema = paramSchema(plan);
    this.form = schema ? /** @type {import('../form/form.js').ValueForm} */ (document.createElement('value-form')) : null;
    this.form?.open(schema);
    const handlers = ['on_failure', 'finally'].filter((role) => plan[role]?.length).map((role) => `${count(plan[role].length, 'task')} ${role.replace('_', ' ')}`);
    const approvals = plan.tasks.filter((/** @type {any} */ task) => task.requires_approval).length;
    const words = [count(plan.tasks.length, 'task'), ...handlers, approvals ? `${approvals} need${approvals === 1 ? 's' : ''} approval` : ''].filter(Boolean).join(' · ');
    this.starting = h('button', { class: 'button primary' }, icon('play'), 'Start this plan');
    const submit = (/** @type {Event} */ event) => (event.preventDefault(), void this.start(false));
    this.shown.replaceChildren(
      h('header', {}, h('h2', { dir: 'auto' }, plan.name || 'Plan'), h('p', { class: 'mute' }, words)),
      planPicture(plan),
      h('form', { onsubmit: submit, novalidate: true }, this.form ? [h('h2', {}, 'Parameters'), this.form] : null, h('div', { class: 'verbs' }, this.starting)),
    );
  }

  /** @param {boolean} isDirect the request is submitted as it is written */
  async start(isDirect) {
    if (this.isBusy) return;
    const found = isDirect || !this.form ? { value: {} } : this.form.read();
    if (!found) return this.say('Not started: the parameters say what is wrong.', true);
    this.hold(true, 'Starting …');
    try {
      const upload = (/** @type {File} */ file) => this.site.api.send('POST', `/api/files?${new URLSearchParams({ name: file.name })}`, file);
      const params = await uploaded(found.value, upload);
      const plan = this.isWords ? { plan: this.plan, title: [...this.text.value.trim()].slice(0, 1000).join('') } : { plan: this.plan };
      const run = await sendOnce(this.site, '/api/runs', isDirect ? { request: this.text.value } : { ...plan, params });
      const address = `/runs/${encodeURIComponent(run.run_id)}`;
      this.site.toast('The run has started.', address);
      if (this.isConnected) this.site.go(address); // who has gone elsewhere meanwhile stays there
    } catch (error) {
      this.hold(false);
      this.say(`Not started: ${/** @type {Error} */ (error).message}`, true);
    }
  }

  /**
   * @param {boolean} busy
   * @param {string} [text]
   */
  hold(busy, text = '') {
    this.isBusy = busy;
    this.checking.disabled = this.direct.disabled = busy || !this.text.value.trim();
    if (this.starting) this.starting.disabled = busy;
    if (text) this.say(text);
  }

  /**
   * @param {string} text
   * @param {boolean} [isProblem]
   */
  say(text, isProblem = false) {
    this.said.classList.toggle('problem', isProblem);
    this.said.textContent = text;
  }
}

customElements.define('submit-page', SubmitPage);
