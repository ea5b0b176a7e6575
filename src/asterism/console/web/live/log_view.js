// @ts-check
/** `<log-view>`: the log of a task, large, with a field that finds a text in it. It is needed now and then. */
import { h, setText } from '../dom.js';

/** Places of a text that are marked. */
const MOST = 1000;

/**
 * Return where a text stands in another one, as pairs of a beginning and an end. Small and capital letters are the same.
 * @param {string} text
 * @param {string} wanted
 * @returns {[number, number][]}
 */
export function placesOf(text, wanted) {
  const pattern = new RegExp(wanted.replace(/[^\p{L}\p{N}\s]/gu, '\\$&'), 'gi');
  const found = [];
  for (let match; wanted && found.length < MOST && (match = pattern.exec(text)); ) found.push(/** @type {[number, number]} */ ([match.index, pattern.lastIndex]));
  return found;
}

/**
 * Return the ranges of the document in which a text stands in an element.
 * @param {Element} element
 * @param {string} wanted
 */
function rangesOf(element, wanted) {
  /** @type {{node: Node, start: number}[]} */
  const nodes = [];
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let start = 0, node = walker.nextNode(); node; node = walker.nextNode()) {
    nodes.push({ node, start });
    start += /** @type {Text} */ (node).data.length;
  }
  return placesOf(element.textContent ?? '', wanted).map((ends) => {
    const range = new Range();
    const [[from, begin], [to, end]] = ends.map((at) => {
      const { node, start } = nodes.findLast((it) => it.start <= at) ?? nodes[0];
      return /** @type {[Node, number]} */ ([node, at - start]);
    });
    range.setStart(from, begin);
    range.setEnd(to, end);
    return range;
  });
}

export class LogView extends HTMLElement {
  /**
   * Show a log in a dialog, until that is closed; it goes on meanwhile.
   * @param {HTMLElement} card
   * @param {HTMLElement} output the log in it
   */
  open(card, output) {
    const home = card.parentElement;
    const counted = h('span', { class: 'mute', role: 'status' });
    let at = 0;
    const find = (/** @type {number} */ by) => {
      const ranges = rangesOf(output, field.value);
      at = ranges.length && by ? (at + by + ranges.length) % ranges.length : 0;
      CSS.highlights.set('found', new Highlight(...ranges));
      CSS.highlights.set('found-here', new Highlight(...ranges.slice(at, at + 1)));
      if (ranges.length) output.scrollTop += ranges[at].getBoundingClientRect().top - output.getBoundingClientRect().top - output.clientHeight / 2;
      setText(counted, ranges.length ? `${at + 1} of ${ranges.length}${ranges.length < MOST ? '' : ' or more'}` : field.value ? 'Not found' : '');
    };
    const key = (/** @type {KeyboardEvent} */ event) => event.key === 'Enter' && (event.preventDefault(), find(event.shiftKey ? -1 : 1));
    const field = h('input', { type: 'text', class: 'field', placeholder: 'Find in the log', 'aria-label': 'Find in the log', title: 'Enter: next, Shift Enter: previous', oninput: () => find(0), onkeydown: key });
    const close = () => {
      CSS.highlights.clear();
      home?.append(card);
      this.remove();
    };
    const dialog = h('dialog', { class: 'log-dialog', 'aria-label': 'Log', onclose: close }, h('form', { method: 'dialog' }, field, counted, h('button', { class: 'button' }, 'Close')), card);
    this.append(dialog);
    home?.append(this);
    dialog.showModal();
    field.focus();
    output.scrollTop = output.scrollHeight;
  }
}

customElements.define('log-view', LogView);
