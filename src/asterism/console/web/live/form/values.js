// @ts-check
/** The value of a form as somebody has filled it in, and what is wrong with it. Pure; the server checks each value again. */
import { parse } from '../../json.js';
import { memberOf } from './fields.js';

/** @typedef {import('./fields.js').Field} Field */
/** @typedef {import('./fields.js').Option} Option */
/** @typedef {any} Schema */
/** @typedef {any} Draft what a form holds: a text of each field, and a list or an object of drafts where fields are nested */
/** @typedef {Map<string, string>} Problems what is wrong, by the path of its field: `/options/2/name` */

const INTEGER = /^[-+]?\d+$/;
const REFERENCE = /^\$\{[^{}]+\}$/;

/**
 * Return the draft of a field: its value as texts.
 * @param {Field} field
 * @param {any} value undefined for none: then its default
 * @returns {Draft}
 */
export function draftOf(field, value) {
  const given = value === undefined ? field.fallback : value;
  switch (field.kind) {
    case 'object':
      return Object.fromEntries(field.fields.map((it) => [it.name, draftOf(it, memberOf(given, it.name))]));
    case 'list':
      return Array.isArray(given) ? given.map((it) => draftOf(/** @type {Field} */ (field.item), it)) : [];
    case 'choices':
      return (Array.isArray(given) ? given : []).map((it) => indexOf(field.options, it)).filter((it) => it !== '');
    case 'choice':
      return given === undefined ? '' : indexOf(field.options, given);
    case 'file':
      return null;
    case 'boolean':
      return given === undefined || given === null ? (field.required && !field.nullable ? 'false' : '') : String(given);
    case 'json':
      return given === undefined ? '' : JSON.stringify(given, null, 2);
    default:
      return given === undefined || given === null ? '' : typeof given === 'object' ? JSON.stringify(given) : String(given);
  }
}

/**
 * Return the value that a draft says, and what is wrong with it. A field that is empty and not needed has no value.
 * @param {Field} field
 * @param {Draft} draft
 * @param {{references?: boolean}} [allow] references: a text such as `${task.field}` is a value of every field
 * @param {string} [path]
 * @returns {{value: any, problems: Problems}}
 */
export function valueOf(field, draft, allow = {}, path = '') {
  /** @type {Problems} */
  const problems = new Map();
  const nested = (/** @type {Field} */ it, /** @type {Draft} */ part, /** @type {string | number} */ key) => {
    const found = valueOf(it, part, allow, `${path}/${key}`);
    for (const [where, problem] of found.problems) problems.set(where, problem);
    return found.value;
  };
  if (field.kind === 'object') {
    const members = field.fields.map((it) => [it.name, nested(it, draft?.[it.name], it.name)]).filter(([, value]) => value !== undefined);
    const isEmpty = !field.required && !members.length;
    return { value: isEmpty ? undefined : Object.fromEntries(members), problems: isEmpty ? new Map() : problems };
  }
  if (field.kind === 'list' || field.kind === 'choices') {
    const { item } = field;
    const value = item ? draft.map((/** @type {Draft} */ it, /** @type {number} */ at) => nested(item, it, at)) : draft.map((/** @type {string} */ it) => field.options[Number(it)].value);
    const problem = listProblem(field.schema, value.length);
    if (!value.length && !field.required && field.fallback === undefined) return { value: undefined, problems };
    if (problem) problems.set(path, problem);
    return { value, problems };
  }
  try {
    return { value: scalarOf(field, draft, allow), problems };
  } catch (error) {
    problems.set(path, /** @type {Error} */ (error).message);
    return { value: undefined, problems };
  }
}

/**
 * Return the value of a field that is no list and no object. Throws an error whose message says what is wrong.
 * @param {Field} field
 * @param {Draft} draft
 * @param {{references?: boolean}} allow
 */
function scalarOf(field, draft, allow) {
  const { schema } = field;
  const text = String(draft ?? '');
  if (field.kind === 'file') {
    if (!draft && field.required) throw new Error('Choose a file.');
    return draft ?? undefined;
  }
  if (allow.references && REFERENCE.test(text.trim())) return text.trim();
  if (text.trim() === '' && !(field.kind === 'text' && text)) {
    if (field.kind === 'text' && field.fallback === '') return '';
    if (field.nullable) return field.required ? null : undefined;
    if (!field.required) return undefined;
    throw new Error('This is needed.');
  }
  if (field.kind === 'choice') return field.options[Number(text)].value;
  if (field.kind === 'boolean') return text === 'true';
  if (field.kind === 'json') return jsonOf(text);
  if (field.kind === 'text') return checkedText(schema, text);
  return checkedNumber(schema, text.trim());
}

/** @param {string} text */
function jsonOf(text) {
  try {
    return parse(text);
  } catch (error) {
    throw new Error(`This is no JSON: ${/** @type {Error} */ (error).message}`);
  }
}

/**
 * @param {Schema} schema
 * @param {string} text
 */
function checkedText(schema, text) {
  const length = [...text].length;
  if (schema.minLength > length) throw new Error(`At least ${schema.minLength} characters; these are ${length}.`);
  if (schema.maxLength < length) throw new Error(`At most ${schema.maxLength} characters; these are ${length}.`);
  return text;
}

/**
 * @param {Schema} schema
 * @param {string} text
 */
function checkedNumber(schema, text) {
  const number = Number(text);
  if (!Number.isFinite(number)) throw new Error('This is no number.');
  if (schema.type === 'integer' && !Number.isInteger(number)) throw new Error('This is no whole number.');
  if (number < schema.minimum) throw new Error(`At least ${schema.minimum}.`);
  if (number > schema.maximum) throw new Error(`At most ${schema.maximum}.`);
  if (number <= schema.exclusiveMinimum) throw new Error(`More than ${schema.exclusiveMinimum}.`);
  if (number >= schema.exclusiveMaximum) throw new Error(`Less than ${schema.exclusiveMaximum}.`);
  return INTEGER.test(text) && !Number.isSafeInteger(number) ? parse(text.replace(/^\+/, '')) : number;
}

/**
 * @param {Schema} schema
 * @param {number} length
 */
function listProblem(schema, length) {
  if (schema.minItems > length) return `At least ${schema.minItems}; there ${length === 1 ? 'is' : 'are'} ${length}.`;
  if (schema.maxItems < length) return `At most ${schema.maxItems}; there are ${length}.`;
  return '';
}

/**
 * @param {Option[]} options
 * @param {any} value
 */
function indexOf(options, value) {
  const text = JSON.stringify(value);
  const at = options.findIndex((it) => JSON.stringify(it.value) === text);
  return at < 0 ? '' : String(at);
}

/**
 * Return the members of an object that differ from those before.
 * @param {Record<string, any>} before
 * @param {Record<string, any>} after
 */
export const changesOf = (before, after) => Object.fromEntries(Object.entries(after).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name])));
