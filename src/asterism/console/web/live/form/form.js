// @ts-check
/** `<value-form>`: a value as fields, made from a JSON Schema, with what is wrong beside each of them. */
import { h, setAttribute, setText } from '../../dom.js';
import { fieldOf, MOST_ITEMS } from './fields.js';
import { draftOf, valueOf } from './values.js';

/** @typedef {import('./fields.js').Field} Field */
/** @typedef {import('./values.js').Draft} Draft */
/** @typedef {(draft: Draft) => void} Take takes the new draft of a field */

/** Characters from which a text has several lines. */
const LONG = 60;
let forms = 0;

export class ValueForm extends HTMLElement {
  constructor() {
    super();
    this.made = 0;
    this.number = ++forms;
    /** @type {Map<string, {input: any, error: HTMLElement}>} */
    this.places = new Map();
    /** @type {{references?: boolean}} */
    this.allow = {};
  }

  /**
   * Show fields for a value.
   * @param {any} schema
   * @param {any} [value] undefined for none
   * @param {{name?: string, required?: boolean, references?: boolean}} [options] name: the title of a value that is no object
   */
  open(schema, value, options = {}) {
    this.allow = { references: options.references };
    this.field = fieldOf(schema, value, options.name ?? 'Value', options.required ?? true);
    this.draft = draftOf(this.field, value);
    this.places.clear();
    this.replaceChildren(...this.parts(this.field, this.draft, (/** @type {Draft} */ draft) => (this.draft = draft), ''));
    return this;
  }

  /** Return the value and mark what is wrong with it; undefined if something is. */
  read() {
    const { value, problems } = valueOf(/** @type {Field} */ (this.field), this.draft, this.allow);
    this.mark(problems);
    return problems.size ? undefined : { value };
  }

  /**
   * Show problems beside their fields, and focus the first.
   * @param {Map<string, string>} problems by path
   */
  mark(problems) {
    let first;
    for (const [path, { input, error }] of this.places) {
      const problem = problems.get(path) ?? '';
      setText(error, problem);
      error.hidden = !problem;
      setAttribute(input, 'aria-invalid', problem ? 'true' : '');
      if (problem) first ??= input;
    }
    first?.focus();
  }

  /**
   * Return the fields of the top: those of an object, or the field itself.
   * @param {Field} field
   * @param {Draft} draft
   * @param {Take} take
   * @param {string} path
   */
  parts(field, draft, take, path) {
    if (field.kind !== 'object') return [this.row(field, draft, take, path)];
    const own = { ...draft };
    return field.fields.map((it) => this.row(it, own[it.name], (next) => ((own[it.name] = next), take(own)), `${path}/${it.name}`));
  }

  /**
   * @param {Field} field
   * @param {Draft} draft
   * @param {Take} take
   * @param {string} path
   * @returns {HTMLElement}
   */
  row(field, draft, take, path) {
    const id = `form-${this.number}-${this.made++}`;
    const error = h('p', { class: 'problem', id: `${id}-problem`, hidden: true });
    const hint = field.description ? h('small', { id: `${id}-hint`, dir: 'auto' }, field.description) : null;
    const about = { id, 'aria-describedby': `${hint ? `${id}-hint ` : ''}${id}-problem` };
    const optional = field.required || field.kind === 'boolean' ? null : h('span', { class: 'optional' }, 'optional');
    if (field.kind === 'object' || field.kind === 'list' || field.kind === 'choices') {
      const group = h('fieldset', { 'aria-describedby': about['aria-describedby'], tabindex: -1 }, h('legend', { dir: 'auto' }, field.title, optional), hint);
      this.places.set(path, { input: group, error });
      group.append(...this.group(field, draft, take, path), error);
      return group;
    }
    const input = this.input(field, draft, take, about);
    this.places.set(path, { input, error });
    const isCheck = input.type === 'checkbox';
    const label = h('label', { for: id, dir: 'auto' }, field.title || 'Value', optional);
    return h('div', { class: isCheck ? 'form-row check' : 'form-row' }, isCheck ? [input, label] : [label, input], hint, error);
  }

  /**
   * @param {Field} field
   * @param {Draft} draft
   * @param {Take} take
   * @param {string} path
   * @returns {HTMLElement[]}
   */
  group(field, draft, take, path) {
    if (field.kind === 'object') return this.parts(field, draft, take, path);
    if (field.kind === 'list') return [this.list(field, draft, take, path)];
    const chosen = new Set(draft);
    return field.options.map((option, at) => {
      const toggle = (/** @type {any} */ event) => {
        if (event.target.checked) chosen.add(String(at));
        else chosen.delete(String(at));
        take([...chosen].sort((a, b) => Number(a) - Number(b)));
      };
      return h('label', { class: 'check' }, h('input', { type: 'checkbox', checked: chosen.has(String(at)), onchange: toggle }), h('span', { dir: 'auto' }, option.label));
    });
  }

  /**
   * @param {Field} field
   * @param {Draft[]} draft
   * @param {Take} take
   * @param {string} path
   */
  list(field, draft, take, path) {
    const item = /** @type {Field} */ (field.item);
    const items = [...draft];
    const box = h('div', { class: 'items' });
    const change = (/** @type {number} */ focused) => {
      take([...items]);
      show();
      box.querySelectorAll('input, textarea, select')[focused]?.focus();
    };
    const show = () => {
      for (const known of [...this.places.keys()]) if (known.startsWith(`${path}/`)) this.places.delete(known);
      const rows = items.map((one, at) => {
        const named = { ...item, title: `${field.title} ${at + 1}` };
        const remove = h('button', { type: 'button', class: 'button quiet', 'aria-label': `Remove ${named.title}`, title: 'Remove', onclick: () => (items.splice(at, 1), change(at)) }, '×');
        return h('div', { class: 'item' }, this.row(named, one, (next) => ((items[at] = next), take([...items])), `${path}/${at}`), remove);
      });
      const add = h('button', { type: 'button', class: 'button', disabled: items.length >= MOST_ITEMS, onclick: () => (items.push(draftOf(item, undefined)), change(items.length - 1)) }, '+ Add');
      box.replaceChildren(...rows, add);
    };
    show();
    return box;
  }

  /**
   * @param {Field} field
   * @param {Draft} draft
   * @param {Take} take
   * @param {Record<string, string>} about
   * @returns {any}
   */
  input(field, draft, take, about) {
    const taken = (/** @type {any} */ event) => take(event.target.value);
    if (field.kind === 'file') return h('input', { ...about, type: 'file', onchange: (/** @type {any} */ event) => take(event.target.files[0] ?? null) });
    if (field.kind === 'boolean' && draft !== '') {
      return h('input', { ...about, type: 'checkbox', checked: draft === 'true', onchange: (/** @type {any} */ event) => take(String(event.target.checked)) });
    }
    if (field.kind === 'boolean' || field.kind === 'choice') {
      const options = field.kind === 'choice' ? field.options.map((it, at) => [String(at), it.label]) : [['true', 'yes'], ['false', 'no']];
      const select = h('select', { ...about, onchange: taken }, h('option', { value: '' }, field.required ? 'choose …' : 'not set'), options.map(([value, label]) => h('option', { value }, label)));
      select.value = draft;
      return select;
    }
    const isLong = field.kind === 'json' || (field.kind === 'text' && (draft.length > LONG || draft.includes('\n') || field.schema.maxLength > 500));
    const type = field.schema.writeOnly || field.schema.format === 'password' ? 'password' : 'text'; // a date field would hide a text that is no date
    const more = { ...about, oninput: taken, autocomplete: 'off', spellcheck: field.kind === 'text' ? null : 'false', dir: 'auto' };
    const rows = Math.min(14, Math.max(3, draft.split('\n').length));
    const input = isLong ? h('textarea', { ...more, rows, class: field.kind === 'json' ? 'field code' : 'field' }) : h('input', { ...more, type, class: 'field', inputmode: field.kind === 'number' ? 'decimal' : null });
    input.value = draft;
    return input;
  }
}

customElements.define('value-form', ValueForm);
