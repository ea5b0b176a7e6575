// @ts-check
/** `<run-actions>`: what one may do with a run. Each is a command, and nothing changes on the page before the run does. */
import { fill, h, icon } from '../dom.js';
import { rowsOf } from '../fold.js';
import { brief, count, dollars } from '../words.js';
import { command } from './commands.js';
import { openDialog } from './dialog.js';
import { skippedAfter } from './run_words.js';
import './form/form.js';

/** @typedef {import('./site.js').Site} Site */
/**
 * What the actions depend on.
 * @typedef {object} About
 * @property {string} run id
 * @property {import('../fold.js').Rows} rows the last ones
 * @property {number} seq entry at the cursor
 * @property {boolean} atEnd the cursor is at the last entry
 */
/**
 * An action.
 * @typedef {object} Action
 * @property {string} name
 * @property {string} glyph
 * @property {string} title
 * @property {() => void} run
 * @property {boolean} [danger]
 */

const FAILED = new Set(['FAILED', 'CANCELLED']);
const LIMITS = {
  type: 'object',
  properties: {
    max_cost_usd: { type: 'number', exclusiveMinimum: 0, title: 'Cost of planning, in US dollars' },
    max_tokens: { type: 'integer', exclusiveMinimum: 0, title: 'Tokens of planning' },
  },
};

export class RunActions extends HTMLElement {
  /** @param {Site} site */
  open(site) {
    this.site = site;
    return this;
  }

  /**
   * Show the actions that the run accepts now.
   * @param {About} about
   * @param {Action[]} [more] further ones of the page
   */
  draw(about, more = []) {
    this.about = about;
    this.more = more;
    const [first, others] = this.actions();
    const isLive = !!this.site?.isLive;
    const key = [about.run, isLive, ...first.map((it) => it.name), '', ...others.map((it) => it.name)].join('\n');
    fill(this, key, () => [
      first.map((it) => h('button', { type: 'button', class: `button ${it.danger ? 'danger' : ''}`, title: it.title, 'aria-label': it.name, disabled: !isLive, onclick: () => this.do(it.name) }, icon(it.glyph), h('span', {}, it.name))),
      others.length ? this.menu(others, isLive) : null,
    ]);
  }

  /**
   * @param {Action[]} actions
   * @param {boolean} isLive
   */
  menu(actions, isLive) {
    const close = () => (menu.open = false);
    const menu = h(
      'details',
      { class: 'menu', 'data-key': 'menu', onkeydown: (/** @type {KeyboardEvent} */ event) => event.key === 'Escape' && menu.open && (event.stopPropagation(), close(), menu.firstElementChild.focus()), onfocusout: (/** @type {FocusEvent} */ event) => event.relatedTarget && !menu.contains(event.relatedTarget) && close() },
      h('summary', { class: 'button', title: 'More actions', 'data-key': 'more' }, icon('more'), h('span', {}, 'More')),
      h('div', { class: 'menu-items' }, actions.map((it) => h('button', { type: 'button', title: it.title, 'data-key': it.name, disabled: !isLive, onclick: () => (close(), this.do(it.name)) }, icon(it.glyph), it.name))),
    );
    return menu;
  }

  /**
   * Carry out an action, if the run still accepts it.
   * @param {string} name
   */
  do(name) {
    const found = this.actions().flat().find((it) => it.name === name);
    if (found && this.site?.isLive) found.run();
  }

  /**
   * Return the actions in the bar, and those in the menu.
   * @returns {[Action[], Action[]]}
   */
  actions() {
    const about = /** @type {About} */ (this.about);
    const { rows, seq, atEnd } = about;
    const run = rows.get('run') ?? {};
    if (!rows.has('run')) return [[], []];
    if (!this.site?.may('command')) return [[], this.more ?? []];
    const isPlan = run.machine === 'constellation agent';
    const failed = isPlan ? [...rowsOf(rows, 'task')].filter(([, row]) => !row.item && FAILED.has(row.status)) : [];
    const pause = { name: 'Pause', glyph: 'pause', title: 'Start nothing new; what is under way goes on', run: () => this.send({ command: 'pause' }, 'The run is paused.') };
    const unpause = { name: 'Continue', glyph: 'play', title: 'Continue after the pause', run: () => this.send({ command: 'unpause' }, 'The run continues.') };
    const retry = { name: failed.length && failed.every(([, row]) => row.status === 'CANCELLED') ? 'Retry' : 'Retry failed', glyph: 'resume', title: `Let ${count(failed.length, 'task')} run again`, run: () => this.retry(run, failed) };
    const cancel = { name: 'Cancel', glyph: 'stop', title: 'End the run for good', danger: true, run: () => this.cancel() };
    const fork = { name: atEnd ? 'Fork here' : `Fork at entry ${seq}`, glyph: 'fork', title: 'Start a new run as a copy of this one up to the entry that is shown', run: () => this.fork(seq) };
    const raise = { name: 'Raise limits', glyph: 'end', title: 'Set other limits of planning', run: () => this.raise(run) };
    const first = [...(run.ended ? [] : [run.paused ? unpause : pause]), ...(failed.length ? [retry] : []), ...(run.ended ? [] : [cancel])];
    return [first, [...(seq > 0 ? [fork] : []), ...(isPlan && !run.ended ? [raise] : []), ...(this.more ?? [])]];
  }

  /**
   * @param {{command: string} & Record<string, any>} body
   * @param {string} done
   */
  async send(body, done) {
    const site = /** @type {Site} */ (this.site);
    const { run } = /** @type {About} */ (this.about);
    try {
      const said = await command(site, run, body, done);
      site.toast(said.text);
      if (said.run !== run && this.isConnected) site.go(`/runs/${encodeURIComponent(said.run)}`);
    } catch (error) {
      site.toast(`Not done: ${/** @type {Error} */ (error).message}`);
    }
  }

  /**
   * @param {import('./dialog.js').Asked['title']} title
   * @param {any[]} parts
   * @param {string} confirm
   * @param {() => ({command: string} & Record<string, any>) | null} body null if the form is wrong
   * @param {string} done
   * @param {boolean} [danger]
   */
  ask(title, parts, confirm, body, done, danger = false) {
    const site = /** @type {Site} */ (this.site);
    const { run } = /** @type {About} */ (this.about);
    openDialog({
      title,
      parts,
      confirm,
      danger,
      submit: async () => {
        const given = body();
        if (!given) return 'Not sent: the form says what is wrong.';
        const said = await command(site, run, given, done);
        site.toast(said.text);
        if (said.run !== run && this.isConnected) site.go(`/runs/${encodeURIComponent(said.run)}`);
        return '';
      },
    });
  }

  cancel() {
    const reason = h('input', { class: 'field', type: 'text', maxlength: 10_000, dir: 'auto', autocomplete: 'off' });
    const run = this.about?.rows.get('run') ?? {};
    const cost = run.used?.cost_usd ? ` It has cost ${dollars(run.used.cost_usd)} so far.` : '';
    const parts = [h('p', { class: 'lead', dir: 'auto' }, brief(run.name || run.request || run.agent || this.about?.run, 140)), h('p', {}, 'What is under way is stopped, and the run ends for good. Tasks of “finally” still run.', cost), h('label', { class: 'form-row' }, h('span', {}, 'Reason ', h('span', { class: 'optional' }, 'optional')), reason)];
    this.ask('Cancel this run?', parts, 'Cancel the run', () => ({ command: 'cancel', reason: reason.value }), 'The run is cancelled.', true);
  }

  /**
   * @param {import('../fold.js').Row} run
   * @param {[string, import('../fold.js').Row][]} failed
   */
  retry(run, failed) {
    const { rows } = /** @type {About} */ (this.about);
    const skipped = skippedAfter(rows, failed.map(([id]) => id));
    const list = (/** @type {string[]} */ ids) => h('ul', { class: 'plain', dir: 'auto' }, ids.slice(0, 12).map((id) => h('li', {}, rows.get(`task:${id}`)?.name || id)), ids.length > 12 ? h('li', { class: 'mute' }, `and ${ids.length - 12} more`) : null);
    const others = skipped.length ? [h('p', {}, 'Then these, which were skipped because of them:'), list(skipped)] : null;
    const how = run.ended ? 'This run has ended. A new run continues from its end, with these tasks to run again:' : 'These tasks run again:';
    this.ask(`Retry ${count(failed.length, 'task')}${skipped.length ? `, and ${count(skipped.length, 'skipped one')}` : ''}?`, [h('p', {}, how), list(failed.map(([id]) => id)), others], 'Retry', () => ({ command: 'retry_failed' }), run.ended ? 'A new run retries what failed.' : 'The failed tasks run again.');
  }

  /** @param {number} seq */
  fork(seq) {
    const parts = [h('p', {}, `A new run begins as a copy of this one up to entry ${seq}, and goes on from there. This run stays as it is.`), h('p', {}, 'Work that was under way at that entry is started again where it is safe; otherwise a person is asked.')];
    this.ask(`Fork at entry ${seq}?`, parts, 'Fork', () => ({ command: 'fork', at: seq }), 'The new run goes on from there.');
  }

  /** @param {import('../fold.js').Row} run */
  raise(run) {
    const form = /** @type {import('./form/form.js').ValueForm} */ (document.createElement('value-form'));
    form.open(LIMITS);
    const { used } = run;
    const words = used ? `It has used ${dollars(used.cost_usd ?? 0)} and ${count((used.input_tokens ?? 0) + (used.output_tokens ?? 0), 'token')}.` : '';
    const parts = [h('p', {}, `${words} A limit that is left empty stays. A run that has paused itself at a limit continues.`), form];
    const body = () => {
      const found = form.read();
      return found && Object.keys(found.value).length ? { command: 'raise_limits', ...found.value } : null;
    };
    this.ask('Raise the limits of planning', parts, 'Set the limits', body, 'The limits are set.');
  }

  /** @returns {import('./site.js').Command[]} */
  commands() {
    return this.about ? this.actions().flat().map((it) => ({ title: `${it.name}: this run`, run: () => this.do(it.name) })) : [];
  }
}

customElements.define('run-actions', RunActions);
