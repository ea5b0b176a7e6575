// @ts-check
/** The fields of a form, made from a JSON Schema. What a field cannot show is written as JSON. Pure. */

/** @typedef {any} Schema a JSON Schema: an object or a boolean */
/** @typedef {{label: string, value: any}} Option */
/**
 * A field of a form.
 * @typedef {object} Field
 * @property {'text' | 'number' | 'boolean' | 'choice' | 'choices' | 'list' | 'object' | 'json' | 'file'} kind
 * @property {string} name
 * @property {string} title
 * @property {string} description
 * @property {boolean} required
 * @property {boolean} nullable null is a value of it
 * @property {any} fallback its default; undefined for none
 * @property {Schema} schema
 * @property {Option[]} options of a choice
 * @property {Field[]} fields of an object
 * @property {Field | null} item of a list
 */

const DEPTH = 5;
const MOST_FIELDS = 60;
const MOST_OPTIONS = 500;
/** Items of a list that have fields of their own. */
export const MOST_ITEMS = 50;

/**
 * Return the field of a schema.
 * @param {Schema} schema
 * @param {any} [value] value to begin with; its members that the schema does not name are fields, too
 * @param {string} [name]
 * @param {boolean} [required]
 * @param {Schema} [root] schema that `$ref` refers to
 * @param {number} [depth]
 * @returns {Field}
 */
export function fieldOf(schema, value, name = '', required = true, root = schema, depth = 0) {
  const given = resolved(schema, root);
  const [it, nullable] = withoutNull(given, root);
  /** @type {Field} */
  const field = {
    kind: 'json',
    name,
    title: String(given.title ?? it.title ?? name),
    description: String(given.description ?? it.description ?? ''),
    required,
    nullable,
    fallback: given.default ?? it.default ?? (value === '' ? '' : undefined), // an empty text that was given is a value
    schema: it,
    options: [],
    fields: [],
    item: null,
  };
  const options = optionsOf(it);
  const items = resolved(it.items ?? {}, root);
  if (it.format === 'asterism-json' || !suits(it, options, value)) return field;
  if (options) return { ...field, kind: 'choice', options };
  if (it.format === 'asterism-file') return { ...field, kind: 'file' };
  if (it.type === 'string') return { ...field, kind: 'text' };
  if (it.type === 'integer' || it.type === 'number') return { ...field, kind: 'number' };
  if (it.type === 'boolean') return { ...field, kind: 'boolean' };
  if (it.type === 'array' && optionsOf(items)) return { ...field, kind: 'choices', options: /** @type {Option[]} */ (optionsOf(items)) };
  if (depth >= DEPTH) return field;
  if (it.type === 'array' && it.items && !it.prefixItems && !(Array.isArray(value) && value.length > MOST_ITEMS)) {
    const kinds = (Array.isArray(value) && value.length ? value : [undefined]).map((one) => fieldOf(items, one, '', true, root, depth + 1));
    return kinds.some((one) => one.kind === 'json' || one.fields.length !== kinds[0].fields.length) ? field : { ...field, kind: 'list', item: kinds[0] };
  }
  const names = Object.keys(it.properties ?? {});
  const others = isObject(value) ? Object.keys(value).filter((key) => !names.includes(key)) : [];
  if (!names.length && !others.length && !(isObject(value) && it.type === 'object')) return field;
  if (names.length + others.length > MOST_FIELDS) return field;
  const isNeeded = (/** @type {string} */ key) => (it.required ?? []).includes(key);
  const fields = names.map((key) => fieldOf(it.properties[key], memberOf(value, key), key, isNeeded(key), root, depth + 1));
  fields.push(...others.map((key) => fieldOf(schemaOf(value[key]), value[key], key, true, root, depth + 1)));
  return { ...field, kind: 'object', fields };
}

/**
 * Return the schema that a value suggests, for a value without one.
 * @param {any} value
 * @returns {Schema}
 */
export function schemaOf(value) {
  if (typeof value === 'string') return { type: 'string' };
  if (isNumber(value)) return { type: 'number' };
  if (typeof value === 'boolean') return { type: 'boolean' };
  if (Array.isArray(value) && value.length) {
    const kinds = new Set(value.map((item) => schemaOf(item).type));
    return kinds.size === 1 && !kinds.has('object') && !kinds.has('array') && !kinds.has(undefined) ? { type: 'array', items: schemaOf(value[0]) } : {};
  }
  return isObject(value) ? { type: 'object' } : {};
}

/**
 * Return a schema without a reference: only those into the same document are followed.
 * @param {Schema} schema
 * @param {Schema} root
 */
function resolved(schema, root) {
  let it = schema;
  for (let n = 0; n < DEPTH && typeof it?.$ref === 'string'; n++) {
    const path = it.$ref.startsWith('#/') ? it.$ref.slice(2).split('/') : [];
    const { $ref, ...more } = it;
    it = { ...path.reduce((/** @type {any} */ at, /** @type {string} */ key) => (isObject(at) ? at[key] : undefined), path.length ? root : undefined), ...more };
  }
  return isObject(it) ? it : {};
}

/**
 * Return a schema without `null`, and whether it allows null.
 * @param {Schema} schema
 * @param {Schema} root
 * @returns {[Schema, boolean]}
 */
function withoutNull(schema, root) {
  const some = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(some) && !some.every(isConstant)) {
    const others = some.map((it) => resolved(it, root)).filter((it) => it.type !== 'null');
    return [others.length === 1 ? others[0] : {}, others.length < some.length];
  }
  if (Array.isArray(schema.type)) {
    const others = schema.type.filter((/** @type {string} */ it) => it !== 'null');
    return [others.length === 1 ? { ...schema, type: others[0] } : {}, others.length < schema.type.length];
  }
  return [schema, false];
}

/**
 * Return the options of a schema that lists its values; null for another one.
 * @param {Schema} schema
 * @returns {Option[] | null}
 */
function optionsOf(schema) {
  const labels = schema.enumNames ?? [];
  const some = schema.oneOf ?? schema.anyOf;
  const options = Array.isArray(schema.enum)
    ? schema.enum.map((/** @type {any} */ value, /** @type {number} */ at) => ({ value, label: String(labels[at] ?? labelOf(value)) }))
    : Array.isArray(some) && some.every(isConstant)
      ? some.map((it) => ({ value: it.const, label: String(it.title ?? labelOf(it.const)) }))
      : 'const' in schema
        ? [{ value: schema.const, label: labelOf(schema.const) }]
        : null;
  return options && options.length && options.length <= MOST_OPTIONS ? options : null;
}

/** @param {any} value */
const labelOf = (value) => (typeof value === 'string' ? value : JSON.stringify(value));

/** @param {any} schema */
const isConstant = (schema) => isObject(schema) && 'const' in schema;

/**
 * Return true for a number, also for one that `parse` keeps as it is written.
 * @param {any} value
 */
const isNumber = (value) => typeof value === 'number' || isRaw(value);

/** @param {any} value */
const isRaw = (value) => typeof value === 'object' && value !== null && !!(/** @type {any} */ (JSON).isRawJSON?.(value));

/**
 * @param {any} value
 * @returns {value is Record<string, any>}
 */
export const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value) && !isRaw(value);

/**
 * Return a member of an object; undefined where it has none, also none that all objects have.
 * @param {any} value
 * @param {string} name
 */
export const memberOf = (value, name) => (isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined);

/**
 * Return false for a value that a field of this schema could not show as it is.
 * @param {Schema} schema
 * @param {Option[] | null} options
 * @param {any} value
 * @returns {boolean}
 */
function suits(schema, options, value) {
  if (value === undefined || value === null) return true;
  if (options) return options.some((it) => JSON.stringify(it.value) === JSON.stringify(value));
  if (schema.type === 'array') {
    const some = optionsOf(schema.items ?? {});
    return Array.isArray(value) && (!some || value.every((it) => suits(schema.items, some, it)));
  }
  return { string: typeof value === 'string', number: isNumber(value), integer: isNumber(value), boolean: typeof value === 'boolean', object: isObject(value) }[/** @type {string} */ (schema.type)] ?? true;
}
