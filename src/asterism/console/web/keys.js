// @ts-check
/** The keys of a run's page. Each has a button, too. */
import { h } from './dom.js';

export const KEYS = /** @type {[string, string][]} */ ([
  ['← →', 'one entry back, one on'],
  ['[ ]', 'previous, next edit of the plan'],
  ['Space', 'play the record, or stop'],
  ['L', 'to the last entry'],
  ['D', 'mark the last edit in the plan'],
  ['T', 'picture or table'],
  ['0 + −', 'show all, zoom in, zoom out; on the playhead, of the time'],
  ['Arrows', 'in the plan: go to the next task'],
  ['Enter', 'in the plan: show the task'],
  ['Esc', 'hide the task'],
]);

/**
 * Listen to the keys; returns the function that stops.
 * @param {import('./page.js').RunPage} page
 */
export function keys(page) {
  /** @type {Record<string, () => void>} */
  const does = {
    ArrowLeft: () => page.cursor.step(-1),
    ArrowRight: () => page.cursor.step(1),
    '[': () => page.dock.toEdit(-1),
    ']': () => page.dock.toEdit(1),
    ' ': () => page.dock.play(),
    l: () => page.cursor.show(Infinity),
    d: () => page.switchMarking(),
    t: () => page.switchView(),
    0: () => page.plan.viewport.fit(true),
    '+': () => page.plan.viewport.zoom(1.25),
    '-': () => page.plan.viewport.zoom(0.8),
    '?': () => page.help.showModal(),
    Escape: () => page.picked && page.pick(page.picked),
  };
  const listener = (/** @type {KeyboardEvent} */ event) => {
    if (event.defaultPrevented || !page.cursor || event.ctrlKey || event.metaKey || event.altKey || page.help.open) return;
    const target = /** @type {Element} */ (event.target);
    if (target.closest('input, textarea, select, pre, dialog')) return;
    if (event.key === ' ' && target.closest('button, a, summary')) return;
    const act = does[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    event.preventDefault();
    act();
  };
  addEventListener('keydown', listener);
  return () => removeEventListener('keydown', listener);
}

/** Return the dialog that lists the keys. */
export function shortcuts() {
  const list = h('dl', { class: 'keys' }, KEYS.map(([key, text]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, text)]));
  return h('dialog', { 'aria-label': 'Keys' }, h('h2', {}, 'Keys'), list, h('form', { method: 'dialog' }, h('button', { class: 'button' }, 'Close')));
}
