// @ts-check
/** The keys of the console that hold on every page. */
import { h } from '../dom.js';
import { RAIL } from './pages.js';

/** Milliseconds in which the second key must follow G. */
const SECOND_MS = 1500;
const KEYS = [
  ['Ctrl K', 'search, and all commands'],
  ['/', 'search in the page'],
  ...RAIL.map(([, name, , key]) => [`G ${key.toUpperCase()}`, name.toLowerCase()]),
  ['?', 'these keys'],
];

/**
 * Listen to the keys.
 * @param {import('./shell.js').ConsoleShell} shell
 */
export function watchKeys(shell) {
  let since = -Infinity;
  const does = (/** @type {KeyboardEvent} */ event) => {
    if (!shell.isConnected) return null; // somebody has to log in first
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') return () => shell.openPalette();
    const target = /** @type {Element} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || target.closest?.('input, textarea, select, dialog, [contenteditable]')) return null;
    const entry = performance.now() - since < SECOND_MS && RAIL.find(([, , , key]) => key === event.key.toLowerCase());
    since = -Infinity;
    if (entry) return () => shell.site.go(entry[0]);
    if (event.key === 'g') return () => void (since = performance.now());
    if (event.key === '?') return () => shell.openHelp();
    const field = event.key === '/' ? shell.main.querySelector('[data-search]') : null;
    return field ? () => field.focus() : null;
  };
  addEventListener(
    'keydown',
    (event) => {
      const act = does(event);
      if (!act) return;
      event.preventDefault();
      event.stopPropagation();
      act();
    },
    true, // before the keys of the page
  );
}

/**
 * Return the list of the keys.
 * @param {string[][]} more keys of the page
 */
export function shortcutsOf(more) {
  const list = (/** @type {string[][]} */ keys) => h('dl', { class: 'keys' }, keys.map(([key, text]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, text)]));
  return h('div', {}, h('h2', {}, 'Keys'), list(KEYS), more.length ? [h('h2', {}, 'On this page'), list(more)] : null, h('form', { method: 'dialog' }, h('button', { class: 'button' }, 'Close')));
}
