// @ts-check
/** `<loop-view>`: a loop as its request, its steps with their findings, and its answer. */
import { fill, h, icon } from './dom.js';
import { rowsOf } from './fold.js';
import { block } from './side.js';
import { statusOf } from './status.js';
import { brief, textOf } from './words.js';

/** @typedef {import('./fold.js').Row} Row */
/** @typedef {import('./fold.js').Rows} Rows */

class LoopView extends HTMLElement {
  /**
   * @param {Rows} rows
   * @param {string} picked
   * @param {string} key changes when the rows do
   */
  draw(rows, picked, key) {
    fill(this, `${key}\n${picked}`, () => this.page(rows, picked));
  }

  /**
   * @param {Rows} rows
   * @param {string} picked
   */
  page(rows, picked) {
    const run = rows.get('run') ?? {};
    const findings = [...rowsOf(rows, 'step')];
    const steps = [...rowsOf(rows, 'task')].sort(([, a], [, b]) => (a.order ?? Infinity) - (b.order ?? Infinity));
    const known = new Set(steps.map(([id]) => id));
    const others = findings.filter(([, finding]) => !known.has(finding.part));
    const answer = run.answer ?? null;
    return h(
      'div',
      { class: 'reading' },
      h('section', { class: 'said' }, h('h2', {}, icon('person'), 'Request'), h('p', { dir: 'auto' }, textOf(run.request))),
      h('ol', { class: 'steps' }, steps.map(([id, row]) => this.step(id, row, rows, findings.filter(([, finding]) => finding.part === id), picked))),
      others.length ? h('ol', { class: 'steps' }, others.map(([number, finding]) => h('li', {}, h('div', { class: 'step' }, icon('person'), h('b', { dir: 'auto' }, finding.part), h('small', {}, finding.worker)), found(number, finding)))) : null,
      answer === null ? null : h('section', { class: 'said answer' }, h('h2', {}, icon('succeeded'), 'Answer'), typeof answer === 'string' ? h('p', { dir: 'auto' }, answer) : block(answer)),
      run.ended && run.code !== 'finished' ? h('section', { class: 'said failure' }, h('h2', {}, icon('failed'), 'Ended'), h('p', { dir: 'auto' }, `${run.outcome}: ${textOf(run.reason) || run.code}`)) : null,
    );
  }

  /**
   * @param {string} id
   * @param {Row} row
   * @param {Rows} rows
   * @param {[string, Row][]} findings
   * @param {string} picked
   */
  step(id, row, rows, findings, picked) {
    const status = statusOf(row, rows);
    const pick = () => this.dispatchEvent(new CustomEvent('pick', { detail: id, bubbles: true }));
    const words = [row.worker, status === 'succeeded' ? '' : status, row.attempt > 1 ? `attempt ${row.attempt}` : ''].filter(Boolean).join(' · ');
    const head = h('button', { type: 'button', class: 'step', 'data-status': status, 'aria-current': id === picked ? 'true' : null, onclick: pick }, h('span', { class: 'glyph' }, icon(status)), h('b', { dir: 'auto' }, brief(row.name || id, 300)), h('small', { dir: 'auto' }, words));
    return h('li', {}, head, findings.map(([number, finding]) => found(number, finding)));
  }
}

/**
 * @param {string} number
 * @param {Row} finding
 */
function found(number, finding) {
  const ok = finding.status === 'ok';
  const title = `Finding ${number}, by ${finding.worker}${finding.attempt > 1 ? `, attempt ${finding.attempt}` : ''}`;
  return h('div', { class: `finding ${ok ? '' : 'bad'}` }, h('small', {}, ok ? title : `${title}: ${finding.status}`), ok ? block(finding.output) : h('p', { dir: 'auto' }, textOf(finding.reason)), finding.feedback ? h('p', { dir: 'auto' }, 'Feedback: ', textOf(finding.feedback)) : null);
}

customElements.define('loop-view', LoopView);
