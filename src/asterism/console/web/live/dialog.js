// @ts-check
/** A dialog with a form, which closes when what it asks for is done. */
import { h, setText } from '../dom.js';

/**
 * What a dialog asks.
 * @typedef {object} Asked
 * @property {string} title
 * @property {any[]} parts
 * @property {string} confirm name of the button that does it
 * @property {boolean} [danger] what is done cannot be undone
 * @property {() => Promise<string>} submit does it; returns what is wrong, or an empty text to close the dialog
 */

/**
 * Open a dialog.
 * @param {Asked} asked
 * @returns {HTMLDialogElement}
 */
export function openDialog({ title, parts, confirm, danger = false, submit }) {
  const problem = h('p', { class: 'problem', role: 'alert' });
  const go = h('button', { class: `button primary ${danger ? 'danger' : ''}` }, confirm);
  const close = h('button', { type: 'button', class: 'button', onclick: () => dialog.close() }, 'Back');
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (go.disabled) return;
    go.disabled = true;
    setText(problem, '');
    try {
      const wrong = await submit();
      if (wrong) setText(problem, wrong);
      else dialog.close();
    } catch (error) {
      setText(problem, /** @type {Error} */ (error).message);
    } finally {
      go.disabled = false;
    }
  };
  const dialog = h('dialog', { class: 'asks', 'aria-label': title, onclose: () => dialog.remove() }, h('form', { onsubmit: send, novalidate: true }, h('h2', {}, title), parts, problem, h('div', { class: 'verbs' }, go, close)));
  document.body.append(dialog);
  dialog.showModal();
  (dialog.querySelector('input, textarea, select') ?? (danger ? close : go)).focus();
  return dialog;
}
