// @ts-check
/** `<toast-list>`: short messages that go away by themselves. */
import { h } from '../dom.js';

const SHOWN_MS = 8000;
const MOST = 4;
/** Milliseconds from which a message is of the page before. */
const OLD_MS = 1000;

export class ToastList extends HTMLElement {
  connectedCallback() {
    this.setAttribute('role', 'status');
  }

  /**
   * @param {string} text
   * @param {string} [run] address of the run that it is about
   */
  say(text, run) {
    const toast = h('p', { class: 'toast', dir: 'auto' }, text, run ? [' ', h('a', { href: run }, 'Show the run')] : null);
    toast.since = performance.now();
    this.append(toast);
    while (this.children.length > MOST) this.firstElementChild?.remove();
    setTimeout(() => toast.remove(), SHOWN_MS);
  }

  /** Another page is shown: remove what was not said for it. */
  leave() {
    for (const toast of /** @type {any[]} */ ([...this.children])) if (performance.now() - toast.since > OLD_MS) toast.remove();
  }
}

customElements.define('toast-list', ToastList);
