// @ts-check
/** Dialogs that are opened, and removed when they are closed. */
import { h } from '../dom.js';

/**
 * Ask whether to do something that cannot be undone.
 * @param {string} title
 * @param {string} text
 * @param {string} verb what the button says
 * @returns {Promise<boolean>}
 */
export function confirmed(title, text, verb) {
  return new Promise((resolve) => {
    const buttons = h('div', { class: 'buttons' }, h('button', { type: 'button', class: 'button danger', onclick: () => dialog.close('yes') }, verb), h('button', { type: 'button', class: 'button', autofocus: true, onclick: () => dialog.close() }, 'Keep it'));
    const dialog = opened(title, h('p', { dir: 'auto' }, text), buttons);
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'));
  });
}

/**
 * Open a dialog; closing it removes it.
 * @param {string} title
 * @param {...any} kids
 * @returns {HTMLDialogElement}
 */
export function opened(title, ...kids) {
  const dialog = h('dialog', { class: 'asking', 'aria-label': title }, h('h2', {}, title), kids);
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
