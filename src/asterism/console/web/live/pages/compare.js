// @ts-check
/** `<compare-page>`: two runs, or two entries of one, side by side: both plans with what differs, the same as a table, and as text. */
import { fill, h, icon } from '../../dom.js';
import '../../plan.js';
import { brief, named, textOf } from '../../words.js';
import { Problem } from '../api.js';
import { differences, marksOf, rolesOf, summaryOf, textDifference } from '../differences.js';
import { segments } from '../forms.js';
import { dayTime } from '../times.js';

/** @typedef {import('../differences.js').Difference} Difference */
/** @typedef {{run: any, origin: any, at: number, rows: import('../../fold.js').Rows}} Side */

/** Milliseconds after the last change of an entry until it is read. */
const SETTLED_MS = 250;
const SIDES = /** @type {const} */ (['a', 'b']);
/** Statuses with a glyph, and the outcomes of a run that have that of another status. */
const SHAPED = new Set(['pending', 'ready', 'running', 'waiting', 'succeeded', 'partial', 'failed', 'skipped', 'cancelled']);
const GLYPHS = /** @type {Record<string, string>} */ ({ finished: 'succeeded' });
const WHERE = /** @type {Record<string, string>} */ ({ changed: 'differs', a: 'only in A', b: 'only in B', same: 'the same' });

class ComparePage extends HTMLElement {
  constructor() {
    super();
    this.site = /** @type {import('../site.js').Site} */ (/** @type {unknown} */ (null)); // `enter` sets it
    this.query = new URLSearchParams();
    this.heading = 'Compare';
    /** @type {Record<'a' | 'b', Side | null>} */
    this.sides = { a: null, b: null };
    /** @type {Difference[]} */
    this.found = [];
    this.picked = '';
    this.timer = 0;
    this.pickers = { a: h('div', { class: 'picker' }), b: h('div', { class: 'picker' }) };
    this.plans = { a: h('plan-view', { 'aria-label': 'Plan of A' }), b: h('plan-view', { 'aria-label': 'Plan of B' }) };
  }

  /** @type {import('../site.js').Page['enter']} */
  async enter(site, _params, query) {
    this.site = site;
    this.query = query;
    this.summary = h('div', { class: 'tools' });
    this.pictures = h('div', { class: 'plan-panes' }, SIDES.map((side) => h('div', { class: 'plan-pane' }, h('span', { class: 'side-name' }, side.toUpperCase()), this.plans[side])));
    this.texts = h('section', { class: 'differences', 'aria-label': 'What differs' });
    this.replaceChildren(h('div', { class: 'page compare' }, h('div', { class: 'pickers' }, SIDES.map((side) => this.pickers[side])), this.summary, this.pictures, this.texts));
    this.addEventListener('pick', (event) => this.pick(/** @type {CustomEvent} */ (event).detail));
    for (const side of SIDES) this.drawPicker(side);
    await Promise.all(SIDES.map((side) => this.load(side)));
    this.draw();
  }

  leave() {
    clearTimeout(this.timer);
  }

  /**
   * Read a run at an entry, as the address says: `a=RUN@SEQ`, or `a=RUN` for its last entry.
   * @param {'a' | 'b'} side
   */
  async load(side) {
    const given = this.query.get(side) ?? '';
    const cut = given.lastIndexOf('@');
    const id = cut > 0 ? given.slice(0, cut) : given;
    if (!id) return;
    const path = `/api/runs/${encodeURIComponent(id)}`;
    const { run, origin } = await this.site.api.get(path);
    const at = cut > 0 ? Math.min(run.seq, Math.max(1, Math.round(Number(given.slice(cut + 1))) || run.seq)) : run.seq;
    const view = await this.site.api.get(`${path}/view?at=${at}`);
    this.sides[side] = { run, origin, at, rows: new Map(Object.entries(view.rows)) };
    for (const each of SIDES) this.drawPicker(each);
  }

  /**
   * Compare with another run or entry.
   * @param {'a' | 'b'} side
   * @param {string} given
   */
  async choose(side, given) {
    this.query.set(side, given);
    this.site.keep(this.query);
    try {
      await this.load(side);
      this.draw();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.site.toast(error.detail);
    }
  }

  /** @param {'a' | 'b'} side */
  drawPicker(side) {
    const shown = this.sides[side];
    const name = side.toUpperCase();
    const { a, b } = this.sides;
    const role = (a && b && rolesOf(a, b)[SIDES.indexOf(side)]) || '';
    fill(this.pickers[side], JSON.stringify([shown?.run, shown?.at, role]), () => {
      const id = h('input', { class: 'field grows', value: shown?.run.run_id ?? '', placeholder: 'Id of a run', 'aria-label': `Run ${name}`, autocomplete: 'off', spellcheck: 'false', 'data-key': `${side} run`, onchange: () => id.value.trim() && this.choose(side, id.value.trim()) });
      const move = (/** @type {any} */ event) => {
        for (const control of [slider, number]) if (control !== event.target) control.value = event.target.value;
        clearTimeout(this.timer);
        this.timer = window.setTimeout(() => void this.choose(side, `${shown?.run.run_id}@${event.target.value}`), SETTLED_MS);
      };
      const range = { min: 1, max: shown?.run.seq, value: shown?.at, disabled: !shown, oninput: move };
      const slider = h('input', { type: 'range', ...range, 'aria-label': `Entry of ${name}`, 'data-key': `${side} slider` });
      const number = h('input', { type: 'number', class: 'field entry-number', ...range, 'aria-label': `Number of the entry of ${name}`, 'data-key': `${side} entry` });
      const title = shown ? h('a', { href: `/runs/${encodeURIComponent(shown.run.run_id)}?at=${shown.at}`, dir: 'auto' }, brief(shown.run.title || shown.run.run_id, 70)) : h('span', { class: 'mute' }, 'No run yet');
      return [h('span', { class: 'side-name' }, name), h('div', { class: 'picker-lines' }, h('div', {}, title, ' ', shown ? h('span', { class: 'mute' }, [role, dayTime(shown.run.created_at, this.site.now())].filter(Boolean).join(' · ')) : null), h('div', { class: 'tools' }, id, h('span', { class: 'mute' }, 'entry'), slider, number, shown ? h('span', { class: 'mute' }, `of ${shown.run.seq}`) : null))];
    });
  }

  draw() {
    const { a, b } = this.sides;
    if (!a || !b) return this.summary.replaceChildren(h('p', { class: 'mute' }, 'Name two runs, or one run twice with two entries.'));
    this.found = differences(a.rows, b.rows);
    const asTable = this.query.get('view') === 'table';
    const view = (/** @type {string} */ value) => {
      value === 'table' ? this.query.set('view', value) : this.query.delete('view');
      this.site.keep(this.query);
      this.draw();
    };
    const swap = () => this.site.go(`/compare?${new URLSearchParams({ a: this.addressOf(b), b: this.addressOf(a) })}`);
    fill(this.summary, JSON.stringify([summaryOf(this.found), asTable, a.at, b.at]), () => [h('b', { role: 'status' }, summaryOf(this.found)), h('button', { type: 'button', class: 'button push', 'data-key': 'swap', onclick: swap }, 'Swap'), segments('View', [['plan', 'Plans'], ['table', 'Table']], asTable ? 'table' : 'plan', view)]);
    this.pictures.hidden = asTable;
    const key = JSON.stringify([a.run.run_id, a.at, b.run.run_id, b.at, asTable]);
    fill(this.texts, key, () => (asTable ? this.table() : this.list()));
    if (asTable) return;
    const marks = marksOf(this.found, a.rows, b.rows);
    SIDES.forEach((side, at) => {
      const shown = /** @type {Side} */ (this.sides[side]);
      this.plans[side].draw(shown.rows, marks[at], shown.run.updated_at);
      this.plans[side].mark(this.picked);
    });
  }

  /** @param {Side} side */
  addressOf(side) {
    return `${side.run.run_id}@${side.at}`;
  }

  /**
   * Show how a task differs.
   * @param {string} id
   */
  pick(id) {
    this.picked = id;
    for (const side of SIDES) this.plans[side].mark(id);
    const entry = /** @type {HTMLDetailsElement | null} */ (this.texts.querySelector(`[data-difference="${CSS.escape(`task:${id}`)}"]`));
    if (!entry) return this.site.toast('This task is the same in both.');
    entry.open = true;
    entry.scrollIntoView({ block: 'nearest' });
  }

  list() {
    const found = this.found.filter((it) => it.where !== 'same');
    if (!found.length) return h('p', { class: 'empty' }, 'Nothing differs.');
    return [h('h2', {}, 'What differs'), found.map((it) => this.difference(it))];
  }

  /** @param {Difference} it */
  difference(it) {
    const fields = Object.entries(it.fields).filter(([field]) => field !== 'status');
    const head = h('summary', {}, h('b', { dir: 'auto' }, it.name), statusesOf(it), h('span', { class: 'mute' }, it.where === 'changed' ? fields.map(([field]) => named(field).toLowerCase()).join(', ') : WHERE[it.where]));
    const details = h('details', { class: 'card difference', 'data-difference': it.id, 'data-where': it.where }, head);
    details.addEventListener('toggle', () => details.open && details.childElementCount === 1 && details.append(...(it.where === 'changed' ? fields.map(([field, values]) => textsOf(field, values)) : [this.only(it)])));
    if (it.id !== 'run' && fields.some(([field]) => field === 'result' || field === 'error')) details.open = this.found.filter((other) => other.where !== 'same').length <= 12;
    return details;
  }

  /** @param {Difference} it a task that only one side has */
  only(it) {
    const side = /** @type {Side} */ (this.sides[/** @type {'a' | 'b'} */ (it.where)]);
    const row = side.rows.get(it.id) ?? {};
    const shown = Object.entries(row).filter(([name, value]) => value !== null && value !== false && ['device', 'skill', 'inputs', 'result', 'error', 'value'].includes(name));
    return h('dl', { class: 'pairs' }, shown.map(([name, value]) => [h('dt', {}, named(name)), h('dd', { dir: 'auto' }, brief(value, 400))]));
  }

  table() {
    const rows = this.found.map((it) => h('tr', { 'data-where': it.where }, h('th', { scope: 'row', dir: 'auto' }, it.name), h('td', {}, statusOf(it.a)), h('td', {}, statusOf(it.b)), h('td', {}, WHERE[it.where]), h('td', { class: 'wide', dir: 'auto' }, Object.entries(it.fields).filter(([field]) => field !== 'status').map(([field, [a, b]]) => h('div', {}, h('span', { class: 'mute' }, `${named(field)}: `), brief(a, 60), ' → ', brief(b, 60))))));
    return h('div', { class: 'panel', tabindex: 0, role: 'region', 'aria-label': 'Tasks of both' }, h('table', {}, h('caption', { class: 'hidden' }, 'Tasks of both'), h('thead', {}, h('tr', {}, ['Task', 'A', 'B', '', 'What differs'].map((head) => h('th', { scope: 'col' }, head)))), h('tbody', {}, rows)));
  }
}

/** @param {string | undefined} status */
function statusOf(status) {
  if (!status) return h('span', { class: 'mute' }, '–');
  const glyph = GLYPHS[status] ?? status;
  return h('span', { class: 'status', 'data-status': glyph }, SHAPED.has(glyph) ? icon(glyph) : null, status);
}

/** @param {Difference} it */
const statusesOf = (it) => (it.a === it.b ? statusOf(it.a) : [statusOf(it.a), h('span', { class: 'mute' }, '→'), statusOf(it.b)]);

/**
 * Return a field of both as two texts, with the lines marked that the other one does not have.
 * @param {string} name
 * @param {[any, any]} values
 */
function textsOf(name, values) {
  const texts = textDifference(textOf(values[0]) || '–', textOf(values[1]) || '–');
  const panes = texts.map((lines, at) => h('pre', { tabindex: 0, dir: 'auto', 'aria-label': `${named(name)} of ${at ? 'B' : 'A'}` }, lines.map(([line, both]) => (both ? `${line}\n` : h(at ? 'ins' : 'del', {}, `${line}\n`)))));
  return h('div', { class: 'two' }, h('h3', {}, named(name)), panes);
}

customElements.define('compare-page', ComparePage);
