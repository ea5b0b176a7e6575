// @ts-check
/** `<chat-view>`: a conversation as its messages, beside the fields that it has collected. */
import { fill, h, icon } from './dom.js';
import { rowsOf } from './fold.js';
import { count, duration, textOf } from './words.js';

/** @typedef {import('./fold.js').Row} Row */
/** @typedef {import('./fold.js').Rows} Rows */
/** Messages that are shown; a conversation with more shows the last ones. */
const MOST = 400;
const STATUSES = /** @type {Record<string, string>} */ ({ said: 'given', withheld: 'secret, not stored', default: 'default', open: 'open' });

class ChatView extends HTMLElement {
  constructor() {
    super();
    /** @type {any} */
    this.list = null;
    /** @type {ResizeObserver | null} shows the last message, also after the pane has changed */
    this.observer = null;
  }

  /**
   * @param {Rows} rows
   * @param {number} start time of the first entry
   * @param {string} key changes when the rows do
   */
  draw(rows, start, key) {
    fill(this, key, () => this.page(rows, start));
    this.observer ??= new ResizeObserver(() => this.list && (this.list.scrollTop = this.list.scrollHeight));
    this.observer.disconnect();
    this.observer.observe(this.list);
  }

  /**
   * @param {Rows} rows
   * @param {number} start
   */
  page(rows, start) {
    const messages = [...rowsOf(rows, 'message')];
    const left = messages.length - MOST;
    this.list = h(
      'ol',
      { class: 'messages', tabindex: 0, 'aria-label': 'Messages' },
      left > 0 ? h('li', { class: 'mute' }, count(left, 'earlier message')) : null,
      messages.slice(-MOST).map(([, message]) => {
        const agent = message.by === 'agent';
        return h('li', { class: agent ? 'agent' : 'person' }, h('small', {}, icon(agent ? 'agent' : 'person'), message.by, ' · ', duration(message.at - start)), h('p', { dir: 'auto' }, textOf(message.text)));
      }),
    );
    const fields = [...rowsOf(rows, 'field')].map(([name, field]) =>
      h('tr', { 'data-status': field.status, class: field.asked ? 'asked' : '' }, h('th', { scope: 'row', dir: 'auto' }, name), h('td', { dir: 'auto' }, field.status === 'withheld' ? '' : field.value === null ? '–' : textOf(field.value)), h('td', {}, field.asked ? 'asked now' : (STATUSES[field.status] ?? field.status))),
    );
    const table = h('table', {}, h('caption', {}, 'Fields'), h('tbody', {}, fields));
    return h('div', { class: 'conversation' }, this.list, h('section', { class: 'fields' }, fields.length ? table : h('p', { class: 'mute' }, 'No fields')));
  }
}

customElements.define('chat-view', ChatView);
