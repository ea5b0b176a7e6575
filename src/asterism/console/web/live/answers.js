// @ts-check
/** What the answers to a question mean, and what became of it. Pure. */
import { brief, count } from '../words.js';
import { isObject, schemaOf } from './form/fields.js';
import { changesOf } from './form/values.js';

/** @typedef {any} Inquiry a question, as the API returns it */
/** @typedef {any} Device a device with its skills, as the API returns it */
/**
 * What somebody fills in for an answer.
 * @typedef {object} Form
 * @property {any} schema
 * @property {any} value value to begin with; undefined for none
 * @property {string} name title of a value that is no object
 * @property {(value: any) => any} sent the value that is sent; undefined if nothing has changed
 */

/** Answers, as buttons call them. */
export const VERBS = /** @type {Record<string, string>} */ ({ approve: 'Approve', edit: 'Edit', reject: 'Reject', respond: 'Answer' });
/** Answers, as a line says what became of a question. */
const ENDED = /** @type {Record<string, string>} */ ({ approve: 'approved', edit: 'approved with changes', reject: 'rejected', respond: 'answered', cancel: 'cancelled', withdrawn: 'withdrawn' });

/** Keys of answers. */
export const KEYS = /** @type {Record<string, string>} */ ({ approve: 'A', edit: 'E', reject: 'R' });

const GIVEN = /** @type {Record<string, string>} */ ({ approve: 'You have approved it', edit: 'You have approved it with changes', reject: 'You have rejected it', respond: 'You have answered it' });

/**
 * Return in words what somebody has answered.
 * @param {{verb: string, value?: any, reason?: string}} answer
 */
export function givenWords({ verb, value, reason }) {
  const said = verb === 'respond' && !isObject(value) ? brief(value) : isObject(value) ? Object.entries(value).map(([name, it]) => `${name} ${brief(it, 40)}`).join(', ') : (reason ?? '');
  return said ? `${GIVEN[verb]}: ${brief(said)}.` : `${GIVEN[verb]}.`;
}

/**
 * Return in words what became of a question.
 * @param {string} answer as the API returns it: `approve by ann@approver`, `withdrawn`
 */
export function ended(answer) {
  const [verb, ...by] = answer.split(' by ');
  return [ENDED[verb] ?? 'closed', ...by].join(' by ');
}

/**
 * Return what somebody can edit before they approve it.
 * @param {Inquiry} inquiry
 * @param {Device[]} devices
 * @returns {Form}
 */
export function editForm({ subject, form }, devices) {
  const given = isObject(subject) ? subject : {};
  const whole = (/** @type {any} */ value, /** @type {string} */ name) => ({ schema: { format: 'asterism-json' }, value, name, sent: (/** @type {any} */ now) => (JSON.stringify(now) === JSON.stringify(value) ? undefined : now) });
  if (given.kind === 'plan') return whole(given.plan, 'Plan, as JSON');
  if (given.kind === 'edits') return whole({ actions: given.actions }, 'Edits, as JSON');
  const [value, types] = editable(given, skillOf(given, devices)?.parameters);
  const shown = without(value, form);
  const schema = { ...types, required: [...(types.required ?? []), ...Object.keys(shown)] }; // an argument can be changed, not taken away
  const sent = (/** @type {any} */ now) => {
    const changes = changesOf(shown, now);
    return Object.keys(changes).length ? changes : undefined;
  };
  return { schema, value: shown, name: 'Arguments', sent };
}

/**
 * Return the part of a subject that can be edited, and its schema.
 * @param {any} subject
 * @param {any} parameters JSON Schema of the arguments; undefined where it is not known
 * @returns {[any, any]}
 */
function editable(subject, parameters) {
  if (isObject(subject.arguments)) return [subject.arguments, parameters ?? schemaOf(subject.arguments)];
  if (typeof subject.intent === 'string') return [{ intent: subject.intent, context: subject.context ?? {} }, { type: 'object' }];
  return isObject(subject.fields) ? [subject.fields, { type: 'object' }] : [{}, {}];
}

/**
 * Return the members of a value that may be given here: a secret may not.
 * @param {any} value
 * @param {any} form JSON Schema of the answer; its `false` properties are secrets
 */
const without = (value, form) => Object.fromEntries(Object.entries(value).filter(([name]) => form?.properties?.[name] !== false));

/**
 * Return what somebody fills in to answer a question with a value of their own.
 * @param {Inquiry} inquiry
 * @param {Device[]} devices
 * @returns {Form}
 */
export function respondForm({ subject, form, verbs }, devices) {
  const sent = (/** @type {any} */ value) => value;
  const known = Object.keys(form ?? {}).some((name) => name !== 'properties' || Object.values(form.properties).some((it) => it !== false));
  if (known) return { schema: form, value: undefined, name: 'Answer', sent };
  const isResult = isObject(subject) && 'task_id' in subject && verbs.includes('approve');
  if (isResult) return { schema: skillOf(subject, devices)?.output ?? {}, value: undefined, name: 'Result, as JSON', sent };
  return { schema: { type: 'string', maxLength: 100_000 }, value: undefined, name: 'Answer', sent };
}

/**
 * @param {any} subject
 * @param {Device[]} devices
 */
const skillOf = (subject, devices) => devices.find((it) => it.device_id === subject.device)?.skills.find((/** @type {any} */ it) => it.name === subject.skill);

/**
 * What became of a question whose answer was not taken.
 * @typedef {object} Refused
 * @property {'answered' | 'gone' | 'refused'} kind answered by somebody else, closed in another way, or still open
 * @property {string} text
 * @property {Inquiry[]} open the questions of its run that are open instead
 */

/**
 * Return what a refusal of an answer means.
 * @param {{status: number, detail: string, body?: any}} problem
 * @returns {Refused}
 */
export function refusalOf({ status, detail, body }) {
  if (status === 410) {
    const open = Array.isArray(body?.open) ? body.open : [];
    return { kind: 'gone', text: `This question is no longer open, and your answer was not taken.${open.length ? ` ${count(open.length, 'question')} of its run ${open.length === 1 ? 'is' : 'are'} open now.` : ''}`, open };
  }
  if (status === 409 && body?.answer) return { kind: 'answered', text: `Somebody else was first: ${ended(body.answer)}. Your answer was not taken.`, open: [] };
  return { kind: 'refused', text: detail, open: [] };
}

/**
 * Return in words which run asks a question: its title, and the task.
 * @param {Inquiry} inquiry
 * @param {Map<string, string>} titles titles of runs, by id
 */
export function askedBy({ run_id, subject }, titles) {
  const task = isObject(subject) ? (subject.task_id ?? subject.step_id ?? subject.tool) : '';
  return [brief(titles.get(run_id) || run_id, 80), task].filter(Boolean).join(' · ');
}

/**
 * Return when a question was closed, in seconds since 1970; 0 if the deltas do not say.
 * @param {Iterable<import('../fold.js').Delta>} deltas
 * @param {string} inquiry id of the question
 */
export function closedIn(deltas, inquiry) {
  for (const { drop, at } of deltas) if (drop?.includes(`ask:${inquiry}`)) return at;
  return 0;
}
