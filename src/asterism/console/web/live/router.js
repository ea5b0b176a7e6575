// @ts-check
/** Which page an address has. Pure, but for `Router`, which reads and writes the address of the tab. */

import { Address } from '../address.js';

/** @typedef {[address: string, tag: string][]} Routes an address may have a part `:id`, which becomes a parameter */
/** @typedef {{tag: string, params: Record<string, string>}} Match */

/**
 * Return the page of a path; null for an unknown one.
 * @param {Routes} routes
 * @param {string} path
 * @returns {Match | null}
 */
export function match(routes, path) {
  const parts = path.split('/').filter(Boolean);
  for (const [address, tag] of routes) {
    const wanted = address.split('/').filter(Boolean);
    if (wanted.length !== parts.length || !wanted.every((part, at) => part.startsWith(':') || part === parts[at])) continue;
    const given = wanted.flatMap((part, at) => (part.startsWith(':') ? [[part.slice(1), decoded(parts[at])]] : []));
    return { tag, params: Object.fromEntries(given) };
  }
  return null;
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export class Router {
  /**
   * @param {Routes} routes
   * @param {(match: Match | null, query: URLSearchParams) => void} show
   */
  constructor(routes, show) {
    this.routes = routes;
    this.show = show;
    this.address = new Address((text) => text !== location.search.slice(1) && history.replaceState(null, '', text ? `?${text}` : location.pathname));
    addEventListener('popstate', () => {
      this.address.forget();
      this.restore();
    });
    document.addEventListener('click', (event) => this.click(event));
  }

  /** Show the page of the tab's address. */
  restore() {
    this.show(match(this.routes, location.pathname), new URLSearchParams(location.search));
  }

  /**
   * Show the page of another address.
   * @param {string} address path and query
   */
  go(address) {
    this.address.flush();
    history.pushState(null, '', address);
    this.restore();
  }

  /**
   * Put the state of the page into the address, without another step in the history.
   * @param {URLSearchParams} query
   */
  keep(query) {
    this.address.keep(String(query));
  }

  /** @param {MouseEvent} event */
  click(event) {
    if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const link = /** @type {Element} */ (event.target).closest('a');
    if (!link || link.target || link.hasAttribute('download') || link.origin !== location.origin || link.getAttribute('href')?.startsWith('#')) return;
    if (!match(this.routes, link.pathname)) return;
    event.preventDefault();
    this.go(link.pathname + link.search);
  }
}
