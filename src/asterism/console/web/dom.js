// @ts-check
/** Builds elements. Every text is set as text: nothing here parses HTML, so a name that looks like HTML is a name. */
import { visible } from './words.js';

const SVG = 'http://www.w3.org/2000/svg';
const SVG_TAGS = new Set(['svg', 'g', 'path', 'rect', 'circle', 'text', 'marker', 'defs', 'title', 'line']);

/**
 * Build an element. `on…` adds a listener, `style` sets properties one by one (a content security policy forbids style
 * attributes), `true` sets an empty attribute, and null or false sets none.
 * @param {string} tag
 * @param {Record<string, any>} [props]
 * @param {...any} kids elements, texts, or lists of them; null and false are left out
 * @returns {any}
 */
export function h(tag, props = {}, ...kids) {
  const element = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'style') for (const [property, it] of Object.entries(value)) element.style.setProperty(property, it);
    else element.setAttribute(name, value === true ? '' : visible(String(value)));
  }
  element.append(...nodes(kids));
  return element;
}

/**
 * @param {any[]} kids
 * @returns {(Node | string)[]}
 */
function nodes(kids) {
  return kids.flat(Infinity).filter((kid) => kid !== null && kid !== undefined && kid !== false).map((kid) => (kid instanceof Node ? kid : visible(String(kid))));
}

/**
 * Replace the children of an element, unless its key is the same as the last time. By their `data-key`, the element that has
 * the focus keeps it, and details stay as somebody has opened or closed them.
 * @param {any} element
 * @param {string} key
 * @param {() => any} kids
 */
export function fill(element, key, kids) {
  if (element.drawnKey === key) return;
  element.drawnKey = key;
  const active = /** @type {HTMLElement | null} */ (document.activeElement);
  const focused = active && element.contains(active) ? active : null;
  const keyed = () => /** @type {any[]} */ ([...element.querySelectorAll('details[data-key]')]);
  const opened = new Map(keyed().filter((it) => it.open !== it.wasOpen).map((it) => [it.dataset.key, it.open]));
  element.replaceChildren(...nodes([kids()]));
  for (const it of keyed()) {
    it.wasOpen = it.open;
    it.open = opened.get(it.dataset.key) ?? it.open;
  }
  if (!focused || element.contains(document.activeElement)) return;
  const again = element.contains(focused) ? focused : focused.dataset.key ? element.querySelector(`[data-key="${CSS.escape(focused.dataset.key)}"]`) : null;
  /** @type {HTMLElement | null} */ (again)?.focus({ preventScroll: true });
}

/**
 * Give an element these children, and leave those in place that it has.
 * @param {Element} element
 * @param {Element[]} kids
 */
export function arrange(element, kids) {
  const wanted = new Set(kids);
  for (const kid of [...element.children]) if (!wanted.has(kid)) kid.remove();
  let next = element.firstElementChild;
  for (const kid of kids) {
    if (kid === next) next = next.nextElementSibling;
    else element.insertBefore(kid, next);
  }
}

/**
 * Set the text of an element, if it differs.
 * @param {any} element
 * @param {string} text
 */
export function setText(element, text) {
  const shown = visible(text);
  if (element.textContent !== shown) element.textContent = shown;
}

/**
 * Set an attribute, or remove it where the value is empty.
 * @param {Element} element
 * @param {string} name
 * @param {string | null} value
 */
export function setAttribute(element, name, value) {
  if (!value) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, visible(value));
}

/** Paths of 16 × 16 glyphs. Each status differs from the others in shape as well as in color. */
export const GLYPHS = /** @type {Record<string, string>} */ ({
  pending: 'M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2Z',
  ready: 'M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2ZM6.8 5.4 9.4 8l-2.6 2.6',
  running: 'M8 2a6 6 0 1 1-6 6',
  waiting: 'M8 1.6 14.4 8 8 14.4 1.6 8ZM6.6 6v4M9.4 6v4',
  succeeded: 'M3 8.6 6.4 12 13 4.6',
  partial: 'M8 2 14.5 13.6H1.5ZM8 6.4v3.4M8 11.6h.1',
  failed: 'M4 4l8 8M12 4l-8 8',
  skipped: 'M4 4l4 4-4 4M9 4l4 4-4 4',
  cancelled: 'M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2ZM4 12l8-8',
  resume: 'M13.5 8A5.5 5.5 0 1 1 11.6 3.8M13.5 2v3.4h-3.4',
  agent: 'M8 1.5 9.7 6.3 14.5 8 9.7 9.7 8 14.5 6.3 9.7 1.5 8l4.8-1.7Z',
  device: 'M2.5 3h11v8h-11ZM6 14h4',
  person: 'M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM2.5 14c.5-3 2.6-4.5 5.5-4.5s5 1.5 5.5 4.5',
  entry: 'M8 7.9h.1',
  previous: 'M11 3 5 8l6 5',
  next: 'M5 3l6 5-6 5',
  previousEdit: 'M11 3 5 8l6 5M3 3v10',
  nextEdit: 'M5 3l6 5-6 5M13 3v10',
  play: 'M4.5 3 12.5 8l-8 5Z',
  pause: 'M5 3v10M11 3v10',
  end: 'M3 3l5 5-5 5M8.5 3l5 5-5 5',
  fit: 'M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4',
  diff: 'M4 2v6M1 5h6M9 11h6M3 14 13 2',
  graph: 'M4.5 4.5 11.5 8M4.5 11.5 11.5 8M1.5 4a1.5 1.5 0 1 0 3 0 1.5 1.5 0 1 0-3 0M1.5 12a1.5 1.5 0 1 0 3 0 1.5 1.5 0 1 0-3 0M11.5 8a1.5 1.5 0 1 0 3 0 1.5 1.5 0 1 0-3 0',
  table: 'M2 3h12v10H2ZM2 6.5h12M6 6.5V13',
  theme: 'M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5Z',
  help: 'M5.8 6a2.2 2.2 0 1 1 3.4 1.9c-.8.5-1.2.9-1.2 1.8M8 12.4h.1',
  close: 'M4 4l8 8M12 4l-8 8',
  list: 'M5.5 4h8M5.5 8h8M5.5 12h8M2.5 4h.1M2.5 8h.1M2.5 12h.1',
  more: 'M3.5 8h.1M8 8h.1M12.5 8h.1',
  inbox: 'M2 9.5 3.6 3h8.8L14 9.5V13H2ZM2 9.5h3.4c.3 1.3 1.3 2 2.6 2s2.3-.7 2.6-2H14',
  chat: 'M2.5 3h11v7.5h-6L4.5 13v-2.5h-2Z',
  clock: 'M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2ZM8 4.6V8l2.4 1.6',
  settings: 'M2 4.5h6.5M12 4.5h2M2 11.5h2M7.5 11.5H14M8.5 4.5a1.75 1.75 0 1 0 3.5 0 1.75 1.75 0 1 0-3.5 0M4 11.5a1.75 1.75 0 1 0 3.5 0 1.75 1.75 0 1 0-3.5 0',
  search: 'M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9ZM10.4 10.4 14 14',
  add: 'M8 3v10M3 8h10',
  stop: 'M4 4h8v8H4Z',
  fork: 'M4 5.5v5M4 5.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3ZM4 13.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3ZM12 5.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3ZM12 5.5c0 3-8 1.5-8 5',
  mark: 'M4 14V2.5h8l-2 3 2 3H4',
  file: 'M4 1.8h5L12.5 5v9.2H4ZM9 1.8V5h3.5',
});

/**
 * @param {string} name
 * @param {string} [more] further classes
 */
export const icon = (name, more = '') =>
  h('svg', { viewBox: '0 0 16 16', class: `icon ${more}`, 'aria-hidden': 'true' }, h('path', { d: GLYPHS[name] ?? GLYPHS.entry }));

/**
 * Make an icon another one.
 * @param {Element} element
 * @param {string} name
 */
export const setIcon = (element, name) => setAttribute(/** @type {Element} */ (element.firstElementChild), 'd', GLYPHS[name] ?? GLYPHS.entry);
