// @ts-check
/** What every page is given: the server, who is logged in, and the address. */

/** @typedef {{name: string, roles: string[], permissions: string[], tenant: string}} Who */
/** @typedef {{title: string, hint?: string, run: () => void}} Command an entry of the palette */
/**
 * A page: a custom element that the shell makes for an address, and removes when another one is shown.
 * @typedef {object} Page
 * @property {(site: Site, params: Record<string, string>, query: URLSearchParams) => void | Promise<void>} enter shows it; a problem that it throws is shown in its place
 * @property {() => void} [leave] ends what it has begun
 * @property {string} heading what it is called in the header and in the tab; call `site.retitle()` after a change
 * @property {HTMLElement} [bar] controls for the header; one with an `h1` replaces the heading there
 * @property {() => Command[]} [commands] entries of the palette while the page is shown
 * @property {[string, string][]} [keys] its keys and what they do, for the list of shortcuts
 */

export class Site {
  /**
   * @param {import('./api.js').Api} api
   * @param {import('./channel.js').Channel} channel
   * @param {Who} who
   */
  constructor(api, channel, who) {
    this.api = api;
    this.channel = channel;
    this.who = who;
    /** Show the page of an address. @type {(address: string) => void} */
    this.go = () => {};
    /** Put the state of the page into the address. @type {(query: URLSearchParams) => void} */
    this.keep = () => {};
    /** Say something in passing, with a link to the address of a run. @type {(text: string, run?: string) => void} */
    this.toast = () => {};
    /** Return true if the last key was one of a text that somebody types, and so commands nothing. */
    this.isTyped = () => false;
    /** Show the title of the page, which has changed. */
    this.retitle = () => {};
  }

  /**
   * Return true if the one who is logged in has a permission.
   * @param {string} permission
   */
  may(permission) {
    return this.who.permissions.includes(permission);
  }

  /** Return true while the server is there. A button that changes something is disabled otherwise. */
  get isLive() {
    return this.channel.liveness.state !== 'lost';
  }

  /** Return the time of the server, in seconds since 1970; while the connection is lost, when that happened. */
  now() {
    const { state, since } = this.channel.liveness;
    return (state === 'lost' ? since : Date.now() / 1000) + this.api.skew;
  }
}
