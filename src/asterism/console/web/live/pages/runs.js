// @ts-check
/** `<runs-page>`: the runs, newest first, and a box to submit one. */
import { h } from '../../dom.js';

export class RunsPage extends HTMLElement {
  constructor() {
    super();
    this.heading = 'Runs';
  }

  /** @type {import('../site.js').Page['enter']} */
  async enter(site) {
    const { runs } = await site.api.get('/api/runs');
    this.replaceChildren(h('div', { class: 'page' }, h('ul', {}, runs.map((/** @type {any} */ run) => h('li', {}, h('a', { href: `/runs/${run.run_id}` }, run.title || run.run_id), ' ', run.status)))));
  }
}

customElements.define('runs-page', RunsPage);
