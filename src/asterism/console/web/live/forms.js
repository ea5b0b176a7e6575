// @ts-check
/** Fields of forms. */
import { h } from '../dom.js';

let number = 0;

/**
 * Return a labelled field: an `input`, a `select` or a `textarea`, and a note below it.
 * @param {string} label
 * @param {any} control
 * @param {string} [note]
 */
export function field(label, control, note) {
  control.id ||= `field-${++number}`;
  if (note) control.setAttribute('aria-describedby', `${control.id}-note`);
  return h('div', { class: 'labelled' }, h('label', { for: control.id }, label), control, note ? h('p', { class: 'mute', id: `${control.id}-note` }, note) : null);
}

/**
 * Return a list to choose from.
 * @param {[string, string][]} choices value and words
 * @param {string} chosen
 * @param {Record<string, any>} [props]
 */
export const chooser = (choices, chosen, props = {}) => h('select', props, choices.map(([value, words]) => h('option', { value, selected: value === chosen }, words)));

/**
 * Return buttons of which one is chosen.
 * @param {string} label
 * @param {[string, string][]} choices value and words
 * @param {string} chosen
 * @param {(value: string) => void} choose
 */
export function segments(label, choices, chosen, choose) {
  const buttons = choices.map(([value, words]) => h('button', { type: 'button', 'aria-pressed': String(value === chosen), 'data-key': `${label} ${value}`, onclick: () => choose(value) }, words));
  return h('div', { class: 'choices', role: 'group', 'aria-label': label }, buttons);
}
