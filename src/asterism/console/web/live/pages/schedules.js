// @ts-check
/** `<schedules-page>` */
import { h } from '../../dom.js';

export class SchedulesPage extends HTMLElement {
  constructor() {
    super();
    this.heading = 'Schedules';
  }

  /** @type {import('../site.js').Page['enter']} */
  enter() {
    this.replaceChildren(h('p', { class: 'empty' }, 'Nothing here yet.'));
  }
}

customElements.define('schedules-page', SchedulesPage);
