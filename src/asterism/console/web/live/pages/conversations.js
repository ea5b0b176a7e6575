// @ts-check
/** `<conversations-page>` */
import { h } from '../../dom.js';

export class ConversationsPage extends HTMLElement {
  constructor() {
    super();
    this.heading = 'Conversations';
  }

  /** @type {import('../site.js').Page['enter']} */
  enter() {
    this.replaceChildren(h('p', { class: 'empty' }, 'Nothing here yet.'));
  }
}

customElements.define('conversations-page', ConversationsPage);
