// @ts-check
/** `<conversation-page>` */
import { h } from '../../dom.js';

export class ConversationPage extends HTMLElement {
  constructor() {
    super();
    this.heading = 'Conversation';
  }

  /** @type {import('../site.js').Page['enter']} */
  enter() {
    this.replaceChildren(h('p', { class: 'empty' }, 'Nothing here yet.'));
  }
}

customElements.define('conversation-page', ConversationPage);
