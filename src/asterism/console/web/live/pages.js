// @ts-check
/** The pages: their scripts, their addresses, and their places in the rail. */
import { Problem } from './api.js';

/** Load the script of a run, which draws the most, of the pages that people watch, and of the others. A script is loaded once. */
const SCRIPTS = [() => import('./pages/run.js'), () => import('./pages/watched.js'), () => import('./pages/others.js')];
const WATCHED = new Set(['runs-page', 'inbox-page', 'conversations-page', 'conversation-page', 'devices-page']);

/**
 * Load the script of a page.
 * @param {string} tag
 * @throws {Problem}
 */
export async function loadPage(tag) {
  await SCRIPTS[tag === 'live-run-page' ? 0 : WATCHED.has(tag) ? 1 : 2]().catch(() => {
    throw new Problem(0, 'No script', 'The script of this page cannot be loaded. The server may be away, or have a new version: reload the page.');
  });
}

/** Load the scripts of all pages, so that another one can be opened while the server is away. */
export const loadPages = () => void Promise.allSettled(SCRIPTS.map((load) => load()));

/** @type {import('./router.js').Routes} */
export const ROUTES = [
  ['/', 'runs-page'],
  ['/runs', 'runs-page'],
  ['/runs/:id', 'live-run-page'],
  ['/submit', 'submit-page'],
  ['/inbox', 'inbox-page'],
  ['/conversations', 'conversations-page'],
  ['/conversations/:id', 'conversation-page'],
  ['/devices', 'devices-page'],
  ['/schedules', 'schedules-page'],
  ['/machines', 'machines-page'],
  ['/settings', 'settings-page'],
  ['/compare', 'compare-page'],
];

/** Entries of the rail: address, name, glyph, and the key after G. */
export const RAIL = [
  ['/runs', 'Runs', 'list', 'r'],
  ['/inbox', 'Inbox', 'inbox', 'i'],
  ['/conversations', 'Conversations', 'chat', 'c'],
  ['/devices', 'Devices', 'device', 'd'],
  ['/schedules', 'Schedules', 'clock', 's'],
  ['/machines', 'Machines', 'graph', 'm'],
  ['/settings', 'Settings', 'settings', 'e'],
];
