// @ts-check
/** `<machines-page>` */
import { h } from '../../dom.js';

export class MachinesPage extends HTMLElement {
  constructor() {
    super();
    this.heading = 'Machines';
  }

  /** @type {import('../site.js').Page['enter']} */
  enter() {
    this.replaceChildren(h('p', { class: 'empty' }, 'Nothing here yet.'));
  }
}

customElements.define('machines-page', MachinesPage);
