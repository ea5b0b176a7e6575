// @ts-check
/** What somebody submits: a request in words or a plan, and the form of its parameters. Pure. */
import { parse } from '../json.js';
import { isObject } from './form/fields.js';

const TYPES = /** @type {Record<string, any>} */ ({
  str: { type: 'string' },
  int: { type: 'integer' },
  float: { type: 'number' },
  bool: { type: 'boolean' },
  list: { type: 'array' },
  dict: { type: 'object' },
  file: { format: 'asterism-file' },
});
const HINTS = /** @type {Record<string, string>} */ ({ int: 'whole number', float: 'number', list: 'JSON list', dict: 'JSON object' });

/**
 * Return the plan in a text. Throws an error whose message says what is wrong.
 * @param {string} text
 */
export function planOf(text) {
  let plan;
  try {
    plan = parse(text);
  } catch (error) {
    const isYaml = /^\s*(#|---|[A-Za-z_]+:)/.test(text);
    throw new Error(isYaml ? 'This looks like YAML. Here a plan is JSON; a plan file in YAML is started by the command: asterism run FILE --server URL' : `This is no JSON: ${/** @type {Error} */ (error).message}`);
  }
  if (!isObject(plan)) throw new Error('A plan is a JSON object with tasks and dependencies.');
  return isObject(plan.constellation) ? plan.constellation : plan;
}

/**
 * Return the JSON Schema of the parameters of a plan; null for a plan without parameters.
 * @param {any} plan as the server has checked it
 */
export function paramSchema(plan) {
  const params = Object.entries(plan.params ?? {});
  if (!params.length) return null;
  const properties = Object.fromEntries(
    params.map(([name, { type = 'str', description = '', ...more }]) => [name, { ...TYPES[type], description: [HINTS[type], description].filter(Boolean).join(' · '), ...('default' in more ? { default: more.default } : {}) }]),
  );
  return { type: 'object', properties, required: params.filter(([, it]) => !('default' in /** @type {any} */ (it))).map(([name]) => name) };
}

/**
 * Return values with each file replaced by what its upload returns.
 * @param {Record<string, any>} values
 * @param {(file: File) => Promise<any>} upload
 */
export async function uploaded(values, upload) {
  /** @type {Record<string, any>} */
  const found = {};
  for (const [name, value] of Object.entries(values)) found[name] = typeof File !== 'undefined' && value instanceof File ? await upload(value) : value;
  return found;
}
