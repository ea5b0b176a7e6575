// @ts-check
/** What exactly an answer approves: the task with its arguments, the plan as a picture, or the changes of a plan. */
import { h } from '../dom.js';
import '../plan.js';
import { count, exact, folded } from '../words.js';
import { rowsOfPlan } from './edit/planned.js';
import { isObject } from './form/fields.js';

const CHANGES = 200;
/** Values that the row of a question names. */
const VALUES = 8;
/** Characters up to which an argument stands in its row. */
const SHORT = 120;
/** Characters of a value that is not folded at most. */
const UNFOLDED = 2000;

/**
 * Return the elements that show what a question is about.
 * @param {any} subject
 * @returns {any[]}
 */
export function subjectParts(subject) {
  if (!isObject(subject) || !Object.keys(subject).length) return [];
  if (subject.kind) return [said(subject.thought), planPicture(subject.plan), changeRows(subject.changes ?? []), whole('The request as JSON', subject)];
  const { task_id: task, device, skill, worker, tool, arguments: given, constellation, intent, context, agent, fields, env, folder, step_id: step, ...others } = subject;
  const lines = [
    ['Task', task ?? step],
    ['Device', device],
    ['Skill', skill],
    ['Worker', worker],
    ['Tool', tool],
    ['Agent', agent],
    ['Folder', folder],
  ].filter(([, value]) => value);
  return [
    lines.length ? h('dl', { class: 'pairs' }, lines.map(([term, value]) => [h('dt', {}, term), h('dd', { dir: 'auto' }, exact(value))])) : null,
    intent ? whole('Intent', intent) : null,
    ...[['Arguments', given], ['Context', context], ['Fields', fields], ['Environment', env]].map(([title, value]) => valueRows(title, value)),
    constellation ? [planPicture(constellation), whole('The plan as JSON', constellation)] : null,
    Object.keys(others).length ? whole('More', others) : null,
  ];
}

/**
 * Return in one line what an answer is about: arguments of a task or a tool, or the fields of a conversation.
 * @param {any} subject
 */
export function valuesLine(subject) {
  const values = Object.entries(subject?.arguments ?? subject?.fields ?? {}).slice(0, VALUES);
  return values.length ? h('small', { class: 'given', dir: 'auto' }, values.map(([name, value]) => h('span', {}, `${name} `, h('b', {}, folded(value, 40))))) : null;
}

/** @param {any} thought */
const said = (thought) => (thought ? h('p', { class: 'said-by', dir: 'auto' }, exact(thought)) : null);

/**
 * Return a value in full; a long one is folded.
 * @param {string} title
 * @param {any} value
 */
function whole(title, value) {
  const text = exact(value);
  return h('details', { class: 'whole', 'data-key': title, open: text.length <= UNFOLDED }, h('summary', {}, `${title}, ${count(text.length, 'character')}`), h('pre', { tabindex: 0, dir: 'auto' }, text));
}

/**
 * Watch the parts of a subject that are folded: only when each has been unfolded has the whole request been shown.
 * @param {Element} element
 * @param {(isFolded: boolean) => void} watch called at once, and whenever one of them is unfolded
 */
export function watchFolded(element, watch) {
  const left = new Set(element.querySelectorAll('details.whole:not([open])'));
  for (const it of left) it.addEventListener('toggle', () => left.delete(it) && watch(!!left.size));
  watch(!!left.size);
}

/**
 * Return a table of the members of an object, in full.
 * @param {string} title
 * @param {any} value
 */
function valueRows(title, value) {
  if (!isObject(value)) return null;
  const members = Object.entries(value);
  if (!members.length) return title === 'Arguments' ? h('p', { class: 'mute' }, 'No arguments') : null;
  const cell = (/** @type {any} */ it) => {
    const text = exact(it);
    return text.length > SHORT || text.includes('\n') ? whole('Value', it) : h('code', { dir: 'auto' }, text);
  };
  return h('table', { class: 'values' }, h('caption', {}, title), h('tbody', {}, members.map(([name, it]) => h('tr', {}, h('th', { scope: 'row', dir: 'auto' }, exact(name)), h('td', {}, cell(it))))));
}

/**
 * Return a plan as a picture, drawn when it has a size.
 * @param {any} plan
 */
export function planPicture(plan) {
  if (!isObject(plan)) return null;
  const rows = rowsOfPlan(plan);
  const view = /** @type {any} */ (h('plan-view', { 'aria-label': 'Plan', class: 'small-plan' }));
  const drawn = new ResizeObserver(() => {
    if (!view.clientWidth) return;
    drawn.disconnect();
    view.draw(rows, null, 0);
  });
  drawn.observe(view);
  return view;
}

/** @param {any[]} changes */
function changeRows(changes) {
  const chip = (/** @type {any} */ { part, id, ends, before, after }) => {
    const name = part === 'dependency' && ends?.length ? `${ends[0]} → ${ends[1]}` : id;
    const kind = !before ? 'added' : !after ? 'removed' : 'changed';
    const fields = (/** @type {any} */ it) => Object.entries(it).filter(([field]) => !['task_id', 'id', 'from', 'to'].includes(field));
    const words = kind === 'changed' ? fields({ ...before, ...after }).map(([field]) => `${field}: ${folded(before[field], 60)} → ${folded(after[field], 60)}`) : fields(after ?? {}).map(([field, value]) => `${field}: ${folded(value, 60)}`);
    return h('li', { class: kind }, `${name} `, words.length && kind !== 'removed' ? h('small', {}, words.join('; ')) : null);
  };
  const more = changes.length > CHANGES ? h('p', { class: 'mute' }, `and ${count(changes.length - CHANGES, 'more change')}`) : null;
  return changes.length ? [h('ul', { class: 'changes' }, changes.slice(0, CHANGES).map(chip)), more] : null;
}
