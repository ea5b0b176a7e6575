// @ts-check
/** `<plan-editor>`: edits of the plan of a run under way: drawn in the plan or made here, collected, and sent as one batch. */
import { fill, h, icon } from '../../dom.js';
import { rowsOf } from '../../fold.js';
import { brief, count } from '../../words.js';
import { command } from '../commands.js';
import { actionWords, Draft, isEditable, partnersOf, whyNot } from './draft.js';
import { drawIn, widenLines } from './drag.js';
import { askTask } from './task_form.js';

/** @typedef {import('../site.js').Site} Site */
/** @typedef {import('../../fold.js').Rows} Rows */
/** @typedef {import('./draft.js').Action} Action */

/** It dispatches `edited` when its edits change, and `close` when somebody has finished. */
export class PlanEditor extends HTMLElement {
  constructor() {
    super();
    this.draft = new Draft();
    /** @type {Rows} the last rows of the run */
    this.rows = new Map();
    this.picked = '';
    this.problem = '';
    /** Why the run has refused one of the edits, by its place. @type {Map<number, string>} */
    this.refused = new Map();
    /** What was sent without an answer. @type {any} */
    this.sent = null;
    this.isBusy = false;
    this.stop = () => {};
  }

  /**
   * Begin to edit.
   * @param {Site} site
   * @param {string} run
   * @param {import('../../plan.js').PlanView} plan
   * @param {any[]} devices with their skills
   */
  open(site, run, plan, devices) {
    this.site = site;
    this.run = run;
    this.plan = plan;
    this.devices = devices;
    this.stop = drawIn(plan, {
      why: (from, to) => whyNot(join(from, to), this.applied.rows),
      join: (from, to) => void this.add([join(from, to)]),
      part: (line) => void this.add([{ tool: 'remove_dependency', parameters: { dependency_id: line } }]),
    });
    return this;
  }

  disconnectedCallback() {
    this.stop();
  }

  /** Return the rows with the edits in them, and what they change. */
  get applied() {
    return this.draft.applied(this.rows);
  }

  /**
   * Show the edits beside the plan, which is drawn already.
   * @param {Rows} rows the last ones of the run
   * @param {string} picked id of the picked task; empty for none
   */
  draw(rows, picked) {
    this.rows = rows;
    this.picked = picked;
    widenLines(/** @type {import('../../plan.js').PlanView} */ (this.plan));
    const { rows: drawn, problems: own } = this.applied;
    const problems = own.map((problem, at) => problem || (this.refused.get(at) ?? ''));
    const lines = [...rowsOf(drawn, 'line')].filter(([, line]) => line.to === picked);
    const tasks = [...rowsOf(drawn, 'task')].filter(([, task]) => !task.item);
    const key = JSON.stringify([this.draft.actions, problems, picked, this.problem, this.isBusy, this.site?.isLive, tasks.map(([id, task]) => [id, task.name, task.status]), lines.map(([id]) => id)]);
    fill(this, key, () => this.card(tasks, lines, problems));
  }

  /**
   * @param {[string, import('../../fold.js').Row][]} tasks
   * @param {[string, import('../../fold.js').Row][]} lines of the picked task
   * @param {string[]} problems
   */
  card(tasks, lines, problems) {
    const { actions } = this.draft;
    const rows = this.applied.rows;
    const button = (/** @type {string} */ name, /** @type {() => void} */ click, /** @type {string} */ kind = '', disabled = false) => h('button', { type: 'button', class: `button ${kind}`, disabled: disabled || this.isBusy, onclick: click }, name);
    const items = actions.map((action, at) => h('li', { class: problems[at] ? 'wrong' : action.tool.startsWith('add') ? 'added' : 'removed' }, h('span', { dir: 'auto' }, actionWords(action, new Map([...this.rows, ...rows])), problems[at] ? h('small', { class: 'problem' }, problems[at]) : null), h('button', { type: 'button', class: 'button quiet', title: 'Take back', 'aria-label': `Take back: ${actionWords(action, rows)}`, onclick: () => this.takeBack(at) }, '×')));
    return h(
      'section',
      { class: 'card thought editor', 'aria-label': 'Edit the plan' },
      h('h2', {}, icon('agent'), 'Edit the plan'),
      h('p', { class: 'mute' }, 'Drag from one task to another: the second waits for the first. Click a dependency to remove it. The run changes when you send.'),
      items.length ? h('ol', { class: 'edits' }, items) : null,
      this.picked && rows.has(`task:${this.picked}`) ? this.ofTask(lines, button) : h('p', { class: 'mute' }, 'Pick a task to do this by keys.'),
      h('div', { class: 'verbs' }, button('Add a task …', () => this.askTask(tasks))),
      this.problem ? h('p', { class: 'problem', role: 'alert', dir: 'auto' }, this.problem) : null,
      h('div', { class: 'verbs' }, button(actions.length ? `Send ${count(actions.length, 'edit')}` : 'Send', () => this.send(), 'primary', !actions.length || !this.site?.isLive), button(actions.length ? 'Discard' : 'Done', () => this.close())),
    );
  }

  /**
   * Return the controls for the picked task.
   * @param {[string, import('../../fold.js').Row][]} lines
   * @param {Function} button
   */
  ofTask(lines, button) {
    const id = this.picked;
    const rows = this.applied.rows;
    const name = (/** @type {string} */ it) => brief(rows.get(`task:${it}`)?.name || it, 40);
    const select = (/** @type {string} */ label, /** @type {string[]} */ possible, /** @type {(other: string) => Action} */ action) => {
      if (!possible.length) return null;
      const list = h('select', { 'aria-label': `${name(id)} ${label}` }, possible.map((other) => h('option', { value: other }, name(other))));
      return h('div', { class: 'pick-line' }, h('span', {}, label), list, button('Add', () => this.add([action(list.value)])));
    };
    const own = lines.map(([line, row]) => h('li', {}, h('span', { dir: 'auto' }, `waits for ${name(row.from)}`), button('Remove', () => this.add([{ tool: 'remove_dependency', parameters: { dependency_id: line } }]), '', !!whyNot({ tool: 'remove_dependency', parameters: { dependency_id: line } }, rows))));
    const editable = isEditable(rows.get(`task:${id}`));
    const [sources, targets] = partnersOf(id, rows);
    return h(
      'div',
      { class: 'of-task' },
      h('p', { class: 'lead', dir: 'auto' }, name(id)),
      editable ? null : h('p', { class: 'mute' }, 'It has started, so only other tasks can be made to wait for it.'),
      own.length && editable ? h('ul', { class: 'plain' }, own) : null,
      select('waits for', sources, (other) => join(other, id)),
      select('goes before', targets, (other) => join(id, other)),
      editable ? h('div', { class: 'verbs' }, button('Remove this task', () => this.removeTask(), 'danger')) : null,
    );
  }

  removeTask() {
    void this.add([{ tool: 'remove_task', parameters: { task_id: this.picked } }]);
  }

  /** @param {[string, import('../../fold.js').Row][]} [tasks] */
  askTask(tasks = [...rowsOf(this.applied.rows, 'task')].filter(([, task]) => !task.item)) {
    askTask(
      this.devices ?? [],
      tasks.map(([id, row]) => [id, brief(row.name || id, 80)]),
      this.picked,
      (actions) => this.add(actions),
    );
  }

  /**
   * Collect edits, all or none. Returns why they cannot be.
   * @param {Action[]} actions
   */
  add(actions) {
    const before = [...this.draft.actions];
    this.sent = null;
    this.refused.clear();
    this.problem = actions.map((action) => this.draft.add(action, this.rows)).find(Boolean) ?? '';
    if (this.problem) this.draft.actions = before;
    const why = this.problem;
    this.changed();
    return why;
  }

  /** @param {number} at */
  takeBack(at) {
    this.draft.remove(at);
    this.sent = null;
    this.refused.clear();
    this.problem = '';
    this.changed();
  }

  changed() {
    this.dispatchEvent(new CustomEvent('edited', { bubbles: true }));
  }

  async send() {
    const site = /** @type {Site} */ (this.site);
    this.isBusy = true;
    this.problem = '';
    this.refused.clear();
    this.changed();
    try {
      const { actions } = this.draft;
      this.sent ??= { command: 'edit', actions, version: this.rows.get('run')?.version ?? 0 };
      const said = await command(site, this.run ?? '', this.sent, `The run has taken ${count(actions.length, 'edit')}.`);
      site.toast(said.text);
      this.isBusy = false;
      this.close();
    } catch (error) {
      this.isBusy = false;
      const { status, message, body } = /** @type {import('../api.js').Problem} */ (error);
      if (status) this.sent = null;
      if (typeof body?.index === 'number') this.refused.set(body.index, message.replace(/^actions\[\d+\] /, ''));
      this.problem = status ? `The run has taken none of the edits${this.refused.size ? ', because of the marked one.' : `: ${message}`}` : `${message} Send the edits again: they are taken once.`;
      this.changed();
    }
  }

  close() {
    this.stop();
    this.dispatchEvent(new CustomEvent('close', { bubbles: true }));
  }
}

/**
 * @param {string} from
 * @param {string} to
 * @returns {Action}
 */
const join = (from, to) => ({ tool: 'add_dependency', parameters: { from, to } });

customElements.define('plan-editor', PlanEditor);
