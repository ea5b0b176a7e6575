// @ts-check
/** `<devices-page>` */
import { h } from '../../dom.js';

export class DevicesPage extends HTMLElement {
  constructor() {
    super();
    this.heading = 'Devices';
  }

  /** @type {import('../site.js').Page['enter']} */
  enter() {
    this.replaceChildren(h('p', { class: 'empty' }, 'Nothing here yet.'));
  }
}

customElements.define('devices-page', DevicesPage);
