// @ts-check
/**
 * `<task-table>`: the same tasks as the picture, and the items of a fan-out, as a table that can be sorted. Of a machine
 * of a user's own it shows the rows that its view adds.
 */
import { fill, h, icon } from './dom.js';
import { rowsOf } from './fold.js';
import { statusOf, tookOf, workedIn } from './status.js';
import { brief, count, duration, named, taskName } from './words.js';

/** @typedef {import('./fold.js').Row} Row */
/** @typedef {import('./fold.js').Rows} Rows */
/** Rows that are shown before someone asks for more. */
const PAGE = 200;
/** Kinds of rows that the runs of all machines have, and the page shows elsewhere. */
const COMMON = /^(run|ask|child|attempt)\b/;

/** @typedef {{id: string, name: string, status: string, isQueued: boolean, where: string, skill: string, began: number, took: number, attempts: number, after: string, result: string}} Line */

const COLUMNS = /** @type {[keyof Line, string][]} */ ([
  ['name', 'Task'],
  ['status', 'Status'],
  ['where', 'Device'],
  ['skill', 'Skill'],
  ['began', 'Started'],
  ['took', 'Took'],
  ['attempts', 'Attempts'],
  ['after', 'After'],
  ['result', 'Result'],
]);

const TIMES = /** @type {Record<string, (line: Line, start: number) => string>} */ ({
  began: (line, start) => (line.began ? duration(line.began - start) : '–'),
  took: (line) => (line.took >= 0 ? duration(line.took) : '–'),
});

class TaskTable extends HTMLElement {
  constructor() {
    super();
    /** @type {keyof Line | ''} */
    this.sorted = '';
    this.up = true;
    this.most = PAGE;
  }

  /**
   * @param {Rows} rows
   * @param {number} now
   * @param {number} start time of the first entry
   * @param {string} picked
   * @param {string} key changes when the rows do
   * @param {boolean} isOwn the machine is a user's own
   */
  draw(rows, now, start, picked, key, isOwn) {
    this.again = () => this.draw(rows, now, start, picked, key, isOwn);
    fill(this, [key, picked, this.sorted, this.up, this.most].join('\n'), () => (isOwn ? this.ownRows(rows) : this.table(rows, now, start, picked)));
  }

  /**
   * @param {Rows} rows
   * @param {number} now
   * @param {number} start
   * @param {string} picked
   */
  table(rows, now, start, picked) {
    const lines = linesOf(rows, now);
    const by = this.sorted;
    if (by) {
      lines.sort((a, b) => (typeof a[by] === 'number' ? Number(a[by]) - Number(b[by]) : String(a[by]).localeCompare(String(b[by]))) * (this.up ? 1 : -1));
    }
    const columns = COLUMNS.filter(([name]) => name === 'name' || name === 'status' || lines.some((line) => line[name]));
    const head = columns.map(([name, title]) =>
      h('th', { scope: 'col', 'aria-sort': by === name ? (this.up ? 'ascending' : 'descending') : null }, h('button', { type: 'button', onclick: () => this.sort(name) }, title, by === name ? (this.up ? ' ↑' : ' ↓') : '')),
    );
    const body = lines.slice(0, this.most).map((line) => {
      const pick = h('button', { type: 'button', class: 'linkish', dir: 'auto', onclick: () => this.dispatchEvent(new CustomEvent('pick', { detail: line.id, bubbles: true })) }, line.name);
      const cells = columns.slice(2).map(([name]) => h('td', { dir: 'auto', class: name }, TIMES[name] ? TIMES[name](line, start) : line[name]));
      const status = h('span', { class: 'status', 'data-status': line.status }, icon(line.status), line.isQueued ? 'queued' : line.status);
      return h('tr', { 'data-task': line.id, 'aria-current': line.id === picked ? 'true' : null }, h('th', { scope: 'row', title: line.id }, pick), h('td', {}, status), cells);
    });
    return this.page(lines.length, 'task', head, body);
  }

  /** @param {Rows} rows */
  ownRows(rows) {
    const own = [...rows].filter(([id]) => !COMMON.test(id));
    const fields = [...new Set(own.flatMap(([, row]) => Object.keys(row)))];
    const head = ['row', ...fields].map((name) => h('th', { scope: 'col' }, named(name)));
    const body = own.slice(0, this.most).map(([id, row]) => h('tr', {}, h('th', { scope: 'row', dir: 'auto' }, brief(id, 80)), fields.map((name) => h('td', { dir: 'auto' }, brief(row[name], 80)))));
    return own.length ? this.page(own.length, 'row', head, body) : null;
  }

  /**
   * Return a table with the first lines, and a button that shows more.
   * @param {number} length lines in all
   * @param {string} noun
   * @param {HTMLElement[]} head
   * @param {HTMLElement[]} body
   */
  page(length, noun, head, body) {
    const left = length - this.most;
    const more = left > 0 ? h('button', { type: 'button', class: 'button', onclick: () => this.more() }, `Show ${Math.min(left, PAGE)} more of ${count(length, noun)}`) : null;
    return [h('table', {}, h('caption', {}, count(length, noun)), h('thead', {}, h('tr', {}, head)), h('tbody', {}, body)), more];
  }

  /** @param {keyof Line} name */
  sort(name) {
    this.up = this.sorted === name ? !this.up : true;
    this.sorted = name;
    this.again?.();
  }

  more() {
    this.most += PAGE;
    this.again?.();
  }
}

/**
 * @param {Rows} rows
 * @param {number} now
 * @returns {Line[]}
 */
function linesOf(rows, now) {
  /** @type {Map<string, string[]>} */
  const after = new Map();
  for (const [, line] of rowsOf(rows, 'line')) after.set(line.to, [...(after.get(line.to) ?? []), `${taskName(rows, line.from)}${line.condition ? ` if ${line.condition}` : ''}`]);
  const worked = workedIn(rows, now);
  const tasks = [...rowsOf(rows, 'task')].sort(([, a], [, b]) => (a.order ?? 0) - (b.order ?? 0));
  return tasks.map(([id, row]) => {
    const status = statusOf(row, rows);
    const took = tookOf(id, row, status, now, worked);
    const result = row.error ? `${row.error.code}: ${brief(row.error.message)}` : row.reason ? brief(row.reason) : row.result === null ? '' : brief(row.result, 80);
    return { id, name: brief(row.name || id, 80), status, isQueued: !!row.queued, where: row.device ?? row.worker ?? '', skill: brief(row.skill ?? '', 60), began: row.started_at ?? 0, took, attempts: row.attempts ?? row.attempt ?? 0, after: (after.get(id) ?? []).join(', '), result };
  });
}

customElements.define('task-table', TaskTable);
