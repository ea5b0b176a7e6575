// @ts-check
/** `<inbox-page>` */
import { h } from '../../dom.js';

export class InboxPage extends HTMLElement {
  constructor() {
    super();
    this.heading = 'Inbox';
  }

  /** @type {import('../site.js').Page['enter']} */
  enter() {
    this.replaceChildren(h('p', { class: 'empty' }, 'Nothing here yet.'));
  }
}

customElements.define('inbox-page', InboxPage);
