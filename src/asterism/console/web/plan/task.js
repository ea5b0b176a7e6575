// @ts-check
/** A task of the plan, as a button. */
import { h, icon, setAttribute, setIcon, setText } from '../dom.js';
import { statusOf, taskWords } from '../status.js';
import { brief } from '../words.js';
import { markOf, roleOf } from './rows.js';

/** @typedef {{button: any, glyph: any, name: any, words: any, hidden: any, role: any, key: string}} TaskButton */

/**
 * Return the button of a task, still without its texts.
 * @param {string} id
 * @param {() => void} pick
 * @param {() => void} focused
 * @returns {TaskButton}
 */
export function taskButton(id, pick, focused) {
  const glyph = icon('pending');
  const [name, words, hidden, role] = [h('b', { dir: 'auto' }), h('small', { dir: 'auto' }), h('span', { class: 'hidden' }), h('span', { class: 'role' })];
  const button = h(
    'button',
    { type: 'button', class: 'task', tabindex: -1, onclick: pick, onfocus: focused },
    h('span', { class: 'glyph' }, glyph),
    h('span', { class: 'words' }, name, ' ', words),
    hidden,
    role,
    h('i', { class: 'mark', 'aria-hidden': 'true' }),
  );
  button.dataset.task = id;
  return { button, glyph, name, words, hidden, role, key: '' };
}

/**
 * Show the row of a task on its button.
 * @param {TaskButton} drawn
 * @param {string} id
 * @param {import('../fold.js').Row} row
 * @param {import('../fold.js').Rows} rows
 * @param {import('../player/story.js').Edit | null} edit
 * @param {number} now seconds since 1970
 * @param {number} [worked] seconds in which its attempts were under way
 */
export function showTask(drawn, id, row, rows, edit, now, worked) {
  const [status, mark] = [statusOf(row, rows), markOf(edit, `task:${id}`)];
  const name = brief(row.name || id, 80) || id; // a name may be blank
  const words = taskWords(row, status, now, worked);
  const role = roleOf(row);
  const key = [status, mark, name, words, role].join('\n');
  if (drawn.key === key) return;
  drawn.key = key;
  setAttribute(drawn.button, 'data-status', status);
  setAttribute(drawn.button, 'data-mark', mark);
  setText(drawn.name, name);
  setText(drawn.words, words);
  setText(drawn.role, role);
  setIcon(drawn.glyph, status);
  setText(drawn.hidden, [status, mark && mark !== 'same' && `${mark} by this edit`].filter(Boolean).join(', '));
  setAttribute(drawn.button, 'title', [name, role, words].filter(Boolean).join('\n'));
}
