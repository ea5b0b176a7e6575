// @ts-check
/** `<compare-page>` */
import { h } from '../../dom.js';

export class ComparePage extends HTMLElement {
  constructor() {
    super();
    this.heading = 'Compare';
  }

  /** @type {import('../site.js').Page['enter']} */
  enter() {
    this.replaceChildren(h('p', { class: 'empty' }, 'Nothing here yet.'));
  }
}

customElements.define('compare-page', ComparePage);
