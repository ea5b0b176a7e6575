// @ts-check
/** Opens an exported page: its runs are in the document, and nothing is requested. */
import { Address } from './address.js';
import { h } from './dom.js';
import { parse } from './json.js';
import './page.js';
import './plan.js';
import { Journal } from './player/cursor.js';

function open() {
  const data = parse(document.getElementById('runs')?.textContent ?? '[]');
  /** @type {Map<string, import('./page.js').Shown>} */
  const runs = new Map();
  for (const { run, parent, machine, logs, deltas } of data) {
    const journal = new Journal();
    for (const delta of deltas) journal.push(delta);
    runs.set(run, { run, parent, machine, logs, journal });
  }
  const page = /** @type {import('./page.js').RunPage} */ (document.createElement('run-page'));
  const address = new Address((text) => history.replaceState(null, '', `#${text}`));
  const said = () => new URLSearchParams(location.hash.slice(1));
  document.body.append(h('main', {}, page));
  page.open(
    runs,
    {
      keep: (query) => address.keep(String(query)),
      has: (run) => runs.has(run),
      goTo: (run) => (location.hash = String(new URLSearchParams({ run }))),
      titled: (title) => document.title === title || (document.title = title),
    },
    said(),
  );
  addEventListener('hashchange', () => page.restore(said()));
}

try {
  open();
} catch (error) {
  document.body.replaceChildren(h('p', { class: 'note', role: 'alert', dir: 'auto' }, `The run in this file cannot be read. Export it again. ${/** @type {Error} */ (error).message}`)); // half of a download, or somebody has changed it
}
