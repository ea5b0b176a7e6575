// @ts-check
/** The cards beside the picture: what needs a person, the picked task, and why the plan changed. */
import { h, icon } from './dom.js';
import { rowsOf } from './fold.js';
import { roleOf } from './plan/rows.js';
import { itemWords, statusOf, tookOf, waitWords, workedIn } from './status.js';
import { brief, count, dollars, duration, isLong, moment, printed, taskName, textOf } from './words.js';

/** @typedef {import('./fold.js').Row} Row */
/** @typedef {import('./fold.js').Rows} Rows */
/** @typedef {import('./player/story.js').Edit} Edit */
/** @typedef {{text: string, skipped: number}} Log the end of the output of an attempt, and the bytes before it */

const QUESTIONS = 20;
const CHIPS = 9;
const MOST_CHIPS = 300;
const ATTEMPTS = 20;
/** Failed tasks that are linked. */
const FAILED = 5;

/**
 * @param {string} glyph
 * @param {string} title
 * @param {string} kind
 * @param {...any} kids
 */
const card = (glyph, title, kind, ...kids) => h('section', { class: `card ${kind}`, 'aria-label': title }, h('h2', {}, icon(glyph), title), kids);

/**
 * Return a term and its value for a list; nothing for an empty value.
 * @param {string} term
 * @param {any} value
 */
const pair = (term, value) => (value === null || value === undefined || value === '' ? [] : [h('dt', {}, term), h('dd', { dir: 'auto' }, value)]);

/**
 * Return a JSON value or a text as a block; of a long one its beginning, and where the rest is.
 * @param {any} value
 */
export function block(value) {
  const whole = isLong(value) ? h('p', { class: 'mute' }, `${count(value.$long, 'character')} in all${value.seq ? `; entry ${value.seq} of the journal has them` : ''}`) : null;
  return [h('pre', { tabindex: 0, dir: 'auto' }, textOf(value)), whole];
}

/**
 * Return a card for each open question.
 * @param {Rows} rows
 * @param {boolean} [isPast] they are of an earlier entry, and may have been answered since
 */
export function questionCards(rows, isPast = false) {
  const asks = [...rowsOf(rows, 'ask')];
  const more = asks.length > QUESTIONS ? h('p', { class: 'mute' }, `and ${count(asks.length - QUESTIONS, 'more question')}`) : null;
  return [asks.slice(0, QUESTIONS).map(([id, ask]) => questionCard(id, ask, rows, isPast)), more];
}

/**
 * @param {string} id
 * @param {Row} ask
 * @param {Rows} rows
 * @param {boolean} isPast
 */
function questionCard(id, ask, rows, isPast) {
  const task = rows.get(`task:${ask.part}`);
  const verb = ask.verbs?.[0] ?? 'approve';
  const details = ask.subject && Object.keys(ask.subject).length ? h('details', {}, h('summary', {}, 'What it is about'), block(ask.subject)) : null;
  return card(
    'waiting',
    isPast ? 'Waited for a person at this entry' : 'Needs you',
    'question',
    h('p', { class: 'lead', dir: 'auto' }, textOf(ask.prompt)),
    h('dl', { class: 'pairs' }, pair('Task', task ? brief(task.name || ask.part) : ask.part), pair('Answers', (ask.verbs ?? []).join(', ')), pair('Risk', ask.risk), pair('Expires', ask.expires_at && moment(ask.expires_at))),
    details,
    isPast ? null : h('code', { class: 'command' }, `asterism answer ${id} ${verb}`),
  );
}

/**
 * Return a card that says why a run has failed or was cancelled; nothing for another one.
 * @param {Row} run
 * @param {Rows} rows
 * @param {(id: string) => void} pick picks a task
 */
export function failureCard(run, rows, pick) {
  const title = { failed: 'Why it failed', cancelled: 'Why it was cancelled' }[/** @type {string} */ (run.outcome)];
  if (!title || !run.reason) return null;
  const failed = [...rowsOf(rows, 'task')].filter(([, row]) => row.status === 'FAILED' && !row.item).slice(0, FAILED);
  const links = failed.map(([id, row]) => h('button', { type: 'button', class: 'linkish', dir: 'auto', onclick: () => pick(id) }, brief(row.name || id, 60)));
  return card(run.outcome, title, run.outcome === 'failed' ? 'failure' : 'cancelled', h('p', { class: 'error', dir: 'auto' }, textOf(run.reason)), links.length ? h('p', { class: 'mute links' }, 'Show ', links) : null);
}

/**
 * Return the attempts of a task or step, by effect id, and the ids of the runs that it has started.
 * @param {string} id
 * @param {Rows} rows
 * @returns {[[string, Row][], string[]]}
 */
export function attemptsOf(id, rows) {
  const attempts = [...rowsOf(rows, 'attempt')].filter(([, attempt]) => attempt.part === id);
  return [attempts, [...new Set([rows.get(`task:${id}`)?.child, ...attempts.map(([, attempt]) => attempt.child)])].filter(Boolean)];
}

/**
 * Return the card of a task or step.
 * @param {string} id
 * @param {Rows} rows
 * @param {number} now
 * @param {Record<string, Log> | null} logs by effect id; null where they are elsewhere
 * @param {string} run id of the run
 * @param {(child: string) => any} link returns a link to a child run
 */
export function taskCard(id, rows, now, logs, run, link) {
  const row = rows.get(`task:${id}`);
  if (!row) return null;
  const status = statusOf(row, rows);
  const [attempts, children] = attemptsOf(id, rows);
  const lines = [...rowsOf(rows, 'line')].filter(([, line]) => line.to === id).map(([, line]) => lineWords(line, rows));
  const error = row.error ? h('p', { class: 'error', dir: 'auto' }, h('b', {}, row.error.code), ' ', textOf(row.error.message)) : row.reason ? h('p', { class: 'error', dir: 'auto' }, textOf(row.reason)) : null;
  return card(
    status,
    'Task',
    'picked',
    h('p', { class: 'lead', dir: 'auto' }, brief(row.name || id, 200), row.name && row.name !== id ? [' ', h('code', {}, id)] : null),
    h(
      'dl',
      { class: 'pairs' },
      pair('Status', h('span', { class: 'status', 'data-status': status }, row.queued ? 'queued' : status)),
      pair('Runs', roleOf(row)),
      pair('Device', row.device ?? row.worker),
      pair('Skill', row.skill && brief(row.skill)),
      pair(row.queued ? 'Waits' : 'Took', h('span', { class: 'clock' }, clockOf(id, rows, now))),
      pair('Waits for', row.waits && waitWords(row.waits)),
      pair('Items', row.items && itemWords(row.items)),
      pair('Attempts', row.attempts > 1 ? row.attempts : null),
      pair('Approval', row.requires_approval ? 'required' : null),
      pair('After', lines.length ? lines : null),
      pair('Its run', children.length ? children.map((child) => link(child)) : null),
    ),
    error,
    row.inputs && Object.keys(row.inputs).length ? h('details', { 'data-key': 'inputs' }, h('summary', { 'data-key': 'about inputs' }, 'Inputs'), block(row.inputs)) : null,
    row.result !== null && row.result !== undefined ? h('details', { 'data-key': 'result', open: true }, h('summary', { 'data-key': 'about result' }, 'Result'), block(row.result)) : null,
    attempts.slice(-ATTEMPTS).map(([effect, attempt], at) => attemptDetails(effect, attempt, now, logs?.[effect], attempts.length, at, row)),
    logs && h('p', { class: 'mute' }, 'Output: ', h('code', { class: 'command' }, `asterism logs ${run} ${id}`)),
  );
}

/**
 * Return in words how long a task has been under way, or how long it has waited for a place of its device.
 * @param {string} id
 * @param {Rows} rows
 * @param {number} now
 */
export function clockOf(id, rows, now) {
  const row = rows.get(`task:${id}`);
  if (!row) return '';
  if (row.queued) return `${duration(now - (rows.get(`attempt:${row.effect}`)?.began_at ?? now))} for a place of ${row.device}`;
  const took = tookOf(id, row, statusOf(row, rows), now, workedIn(rows, now));
  return took >= 0 ? duration(took) : '–';
}

/**
 * @param {Row} line
 * @param {Rows} rows
 */
function lineWords(line, rows) {
  const how = line.condition ?? { COMPLETION_ONLY: 'completed or failed', UNCONDITIONAL: 'always' }[/** @type {string} */ (line.type)];
  const verdict = line.satisfied === false ? `, not satisfied${line.reason ? `: ${line.reason}` : ''}` : '';
  return h('span', { class: 'after' }, `${taskName(rows, line.from)}${how ? ` if ${how}` : ''}${verdict}`);
}

/**
 * @param {string} effect
 * @param {Row} attempt
 * @param {number} now
 * @param {Log | undefined} log
 * @param {number} total
 * @param {number} at
 * @param {Row} row its task
 */
function attemptDetails(effect, attempt, now, log, total, at, row) {
  const end = attempt.ended_at ?? now;
  const how = attempt.error ? `failed: ${attempt.error.code}` : attempt.ended_at ? (attempt.abandoned ? 'cancelled' : 'ended') : attempt.queued ? 'queued' : 'under way';
  const title = `Attempt ${attempt.number ?? at + 1}${attempt.device ? ` on ${attempt.device}` : ''}: ${how}, ${duration(end - (attempt.begun_at ?? attempt.began_at))}`;
  const isSaid = !attempt.error || attempt.error.message === row.error?.message; // the card has the error of the task
  if (total === 1 && !log && isSaid && (row.error || !attempt.message)) return null;
  const output = log ? [log.skipped ? h('p', { class: 'mute' }, `${count(log.skipped, 'earlier byte')} left out`) : null, h('pre', { class: 'log', tabindex: 0, dir: 'auto' }, printed(log.text))] : null;
  return h('details', { 'data-effect': effect, 'data-key': effect, open: !!attempt.error }, h('summary', { 'data-key': `about ${effect}` }, title), attempt.error ? h('p', { class: 'error', dir: 'auto' }, textOf(attempt.error.message)) : null, attempt.message ? h('p', { dir: 'auto' }, textOf(attempt.message)) : null, output);
}

/**
 * Return the card of the last edit: who changed the plan, why, and what.
 * @param {Edit} edit
 * @param {Rows} rows
 * @param {(count: number) => void} show
 */
export function editCard(edit, rows, show) {
  const { planning, delta } = edit;
  const thought = planning ? textOf(planning.thought ?? planning.reason) : '';
  const by = planning ? 'The planner' : delta.actor;
  const head = !edit.created ? 'Why the plan changed' : planning ? 'Why this plan' : 'The plan';
  const usage = planning?.usage ? usageWords(planning.usage) : '';
  const took = planning?.ended_at ? duration(planning.ended_at - planning.began_at) : '';
  return card(
    'agent',
    head,
    'thought',
    thought ? h('p', { class: 'thought', dir: 'auto' }, thought) : h('p', {}, planning ? 'The planner gave no reason.' : `${by}: ${delta.text ?? delta.kind}`),
    edit.created ? null : changeList(edit, rows),
    planning?.about?.length ? h('p', { class: 'mute', dir: 'auto' }, `Asked about ${planning.about.map((/** @type {string} */ id) => taskName(rows, id)).join(', ')}`) : null,
    h('p', { class: 'mute' }, [planning ? by : '', delta.kind === 'answered' ? `approved by ${delta.actor}` : '', usage, took].filter(Boolean).join(' · '), ' ', h('button', { type: 'button', class: 'linkish', onclick: () => show(edit.count) }, `entry ${delta.seq}`)),
  );
}

/**
 * @param {Edit} edit
 * @param {Rows} rows
 */
function changeList(edit, rows) {
  const task = (/** @type {string} */ id) => brief((rows.get(`task:${id}`) ?? edit.removed.get(`task:${id}`))?.name || id, 40);
  const name = (/** @type {string} */ id) => {
    if (id.startsWith('task:')) return task(id.slice(5));
    const line = rows.get(id) ?? edit.removed.get(id);
    return line ? `${task(line.from)} → ${task(line.to)}` : id;
  };
  /** @type {[string, any][]} */
  const chips = [
    ...[...edit.added].map((id) => /** @type {[string, any]} */ ([id, h('li', { class: 'added' }, name(id))])),
    ...[...edit.changed].map(([id, fields]) => /** @type {[string, any]} */ ([id, changedChip(name(id), fields)])),
    ...[...edit.removed].filter(([, { from, to }]) => ![from, to].some((end) => edit.removed.has(`task:${end}`))).map(([id]) => /** @type {[string, any]} */ ([id, h('li', { class: 'removed' }, name(id))])),
  ];
  chips.sort(([a], [b]) => Number(b.startsWith('task:')) - Number(a.startsWith('task:')));
  const [first, others] = [chips.slice(0, CHIPS), chips.slice(CHIPS, MOST_CHIPS)].map((some) => some.map(([, chip]) => chip));
  const more = others.length ? h('details', {}, h('summary', {}, `and ${count(chips.length - CHIPS, 'more change')}`), h('ul', { class: 'changes' }, others)) : null;
  return [h('ul', { class: 'changes' }, first), more];
}

/**
 * @param {string} name
 * @param {Record<string, [any, any]>} fields before and after
 */
function changedChip(name, fields) {
  const changes = Object.entries(fields).map(([field, [was, now]]) => `${field}: ${brief(was, 60)} → ${brief(now, 60)}`);
  return h('li', { class: 'changed' }, `${name} `, h('small', {}, changes.join('; ')));
}

/**
 * @param {Row} usage
 */
function usageWords(usage) {
  const tokens = (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
  return [usage.model, tokens ? count(tokens, 'token') : '', usage.cost_usd ? dollars(usage.cost_usd) : ''].filter(Boolean).join(' · ');
}
