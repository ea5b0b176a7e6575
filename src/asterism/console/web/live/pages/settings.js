// @ts-check
/** `<settings-page>` */
import { h } from '../../dom.js';

export class SettingsPage extends HTMLElement {
  constructor() {
    super();
    this.heading = 'Settings';
  }

  /** @type {import('../site.js').Page['enter']} */
  enter() {
    this.replaceChildren(h('p', { class: 'empty' }, 'Nothing here yet.'));
  }
}

customElements.define('settings-page', SettingsPage);
