// @ts-check
/** The runs of a list that somebody has chosen, and what can be done with all of them at once. */
import { fill, h, icon, setText } from '../dom.js';
import { count } from '../words.js';
import { command } from './commands.js';
import { openDialog } from './dialog.js';

/** @typedef {import('./run_words.js').Run} Run */

export class ChosenRuns {
  /**
   * @param {import('./site.js').Site} site
   * @param {() => void} changed
   */
  constructor(site, changed) {
    this.site = site;
    this.changed = changed;
    /** @type {Run[]} the runs that are listed */
    this.runs = [];
    /** @type {Set<string>} */
    this.ids = new Set();
    /** The run that was chosen last. */
    this.last = '';
    this.bar = h('div', { class: 'verbs' });
  }

  /**
   * Return the box that chooses a run; null for those who may command none.
   * @param {Run} run
   */
  box({ run_id: id, title }) {
    if (!this.site.may('command')) return null;
    const choose = (/** @type {MouseEvent} */ event) => this.choose(id, event.shiftKey);
    return h('input', { type: 'checkbox', checked: this.ids.has(id), 'data-key': `choose ${id}`, 'aria-label': `Choose ${title || id}`, onclick: choose });
  }

  /**
   * Choose a run, or choose it no longer.
   * @param {string} id
   * @param {boolean} isRange and the runs up to the one before
   */
  choose(id, isRange) {
    if (!this.site.may('command')) return;
    const at = this.runs.findIndex((run) => run.run_id === id);
    const last = isRange ? this.runs.findIndex((run) => run.run_id === this.last) : -1;
    const [from, to] = [at, last < 0 ? at : last].sort((a, b) => a - b);
    const isChosen = !this.ids.has(id);
    for (const { run_id } of this.runs.slice(from, to + 1)) isChosen ? this.ids.add(run_id) : this.ids.delete(run_id);
    this.last = id;
    this.changed();
  }

  /**
   * Draw what can be done with the chosen ones of the listed runs; the others are chosen no longer.
   * @param {Run[]} runs
   */
  draw(runs) {
    this.runs = runs;
    const chosen = runs.filter((run) => this.ids.has(run.run_id));
    this.ids = new Set(chosen.map((run) => run.run_id));
    const open = chosen.filter((run) => run.status !== 'ended');
    const failed = chosen.filter((run) => run.outcome === 'failed');
    const button = (/** @type {Run[]} */ of, /** @type {string} */ glyph, /** @type {string} */ name, /** @type {string} */ verb, /** @type {string} */ text) => {
      const title = `${name} ${count(of.length, 'run')}`;
      return of.length ? h('button', { type: 'button', class: `button ${verb === 'cancel' ? 'danger' : ''}`, disabled: !this.site.isLive, onclick: () => this.ask(of, title, verb, text) }, icon(glyph), title) : null;
    };
    fill(this.bar, `${this.site.isLive} ${chosen.map((run) => run.run_id + run.outcome)}`, () => [
      button(open, 'stop', 'Cancel', 'cancel', 'What is under way is stopped, and they end for good.'),
      button(failed, 'resume', 'Retry failed of', 'retry_failed', 'A new run continues each, and retries its failed tasks.'),
      chosen.length ? h('button', { type: 'button', class: 'button', onclick: () => (this.ids.clear(), this.changed()) }, `Clear ${chosen.length} chosen`) : null,
    ]);
  }

  /**
   * Ask once whether to command these runs. Those that refuse stay in the question, with the reason.
   * @param {Run[]} runs
   * @param {string} title
   * @param {string} verb
   * @param {string} text
   */
  ask(runs, title, verb, text) {
    const items = new Map(runs.map((run) => [run.run_id, h('li', {}, run.title || run.run_id, ' ', h('span', { class: 'mute' }, run.run_id))]));
    const send = async (/** @type {[string, HTMLElement]} */ [id, item]) => {
      try {
        await command(this.site, id, { command: verb }, '');
        items.delete(id);
        this.ids.delete(id);
        item.remove();
      } catch (error) {
        setText(item.lastChild, /** @type {Error} */ (error).message);
      }
    };
    const submit = async () => {
      await Promise.all([...items].map(send));
      this.changed();
      return items.size ? `Not confirmed by ${count(items.size, 'run')}.` : '';
    };
    openDialog({ title: `${title}?`, parts: [h('p', {}, text), h('ul', { class: 'plain', dir: 'auto' }, [...items.values()])], confirm: title, danger: verb === 'cancel', submit });
  }
}
