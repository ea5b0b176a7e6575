// @ts-check
/** The files of a run, as links: all of them, and those that the picked task has taken or returned. */
import { fill, h, icon } from '../dom.js';
import { rowsOf } from '../fold.js';
import { byteCount, count, isLong } from '../words.js';
import { gathered, reload } from './reload.js';

/** @typedef {{digest: string, name: string, media_type: string, size: number}} FileRow */

/** Files that a card shows. */
const MOST = 50;
/** Milliseconds in which the ends of several tasks lead to one read. */
const SOON_MS = 500;
const DIGEST = /sha256:[0-9a-f]{64}/g;

/**
 * Return the files that a row names in its inputs or its result; of a long value, those in its beginning.
 * @param {FileRow[]} files
 * @param {import('../fold.js').Row | undefined} row
 */
export function filesOf(files, row) {
  if (!row || !files.length) return [];
  const text = [row.inputs, row.result].map((value) => (isLong(value) ? value.beginning : JSON.stringify(value))).join('\n');
  const named = new Set(text.match(DIGEST));
  return files.filter((it) => named.has(it.digest) && text.includes(JSON.stringify(it.name)));
}

export class RunFiles {
  /**
   * @param {import('./site.js').Site} site
   * @param {string} run id
   * @param {() => void} later draws the page again
   */
  constructor(site, run, later) {
    this.path = `/api/runs/${encodeURIComponent(run)}/files`;
    /** @type {FileRow[]} */
    this.files = [];
    this.seen = '';
    this.length = 0;
    this.reads = gathered(
      () =>
        reload(async () => {
          this.files = (await site.api.get(this.path)).files;
          later();
        }),
      SOON_MS,
    );
  }

  stop() {
    this.reads.stop();
  }

  /**
   * Draw the files of the run, and those of the picked task; read them again after a task has ended.
   * @param {HTMLElement} ofRun
   * @param {HTMLElement} ofTask
   * @param {import('../player/cursor.js').Journal} journal
   * @param {import('../fold.js').Row | undefined} row of the picked task
   */
  draw(ofRun, ofTask, journal, row) {
    if (journal.length !== this.length) this.look(journal);
    const some = filesOf(this.files, row);
    fill(ofTask, some.map((it) => it.digest + it.name).join('\n'), () => some.length > 0 && this.card('Files of this task', some));
    fill(ofRun, this.files.map((it) => it.digest + it.name).join('\n'), () => this.files.length > 0 && this.card('Files of the run', this.files));
  }

  /** @param {import('../player/cursor.js').Journal} journal */
  look({ rows, length }) {
    this.length = length;
    const seen = `${[...rowsOf(rows, 'task')].filter(([, it]) => it.ended_at).length} ${rows.get('run')?.ended}`;
    if (seen !== this.seen) this.reads.start();
    this.seen = seen;
  }

  /**
   * @param {string} title
   * @param {FileRow[]} files
   */
  card(title, files) {
    const links = files.slice(0, MOST).map((it) => h('li', {}, h('a', { href: `${this.path}/${it.digest}`, download: true, dir: 'auto', title: it.media_type, 'data-key': it.digest + it.name }, it.name), h('span', { class: 'mute' }, byteCount(it.size))));
    const more = files.length > MOST ? h('p', { class: 'mute' }, `and ${count(files.length - MOST, 'more file')}; asterism files lists all`) : null;
    return h('section', { class: 'card', 'aria-label': title }, h('h2', {}, icon('file'), title), h('ul', { class: 'files' }, links), more);
  }
}
