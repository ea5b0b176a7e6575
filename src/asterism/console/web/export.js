// @ts-check
/** Opens an exported page: its runs are in the document, and nothing is requested. */
import { parse } from './json.js';
import './page.js';
import './plan.js';
import { Journal } from './player/cursor.js';

const data = parse(document.getElementById('runs')?.textContent ?? '[]');
/** @type {Map<string, import('./page.js').Shown>} */
const runs = new Map();
for (const { run, parent, machine, logs, deltas } of data) {
  const journal = new Journal();
  for (const delta of deltas) journal.push(delta);
  runs.set(run, { run, parent, machine, logs, journal });
}
const page = /** @type {import('./page.js').RunPage} */ (document.createElement('run-page'));
document.body.append(page);
page.open(runs);
