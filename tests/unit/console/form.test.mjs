// Forms made from JSON Schemas: their fields, the values that they say, and what is wrong with them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from '../../../src/asterism/console/web/json.js';
import { fieldOf, schemaOf } from '../../../src/asterism/console/web/live/form/fields.js';
import { changesOf, draftOf, valueOf } from '../../../src/asterism/console/web/live/form/values.js';

const SCHEMA = {
  type: 'object',
  properties: {
    name: { type: 'string', title: 'Full name', minLength: 2 },
    count: { type: 'integer', minimum: 1, maximum: 9 },
    share: { type: 'number', default: 0.5 },
    urgent: { type: 'boolean' },
    size: { enum: ['small', 'large'], enumNames: ['Small', 'Large'] },
    tags: { type: 'array', items: { enum: ['a', 'b', 'c'] }, minItems: 1 },
    words: { type: 'array', items: { type: 'string' } },
    where: { $ref: '#/$defs/Where' },
    note: { anyOf: [{ type: 'string' }, { type: 'null' }] },
  },
  required: ['name', 'count', 'where'],
  $defs: { Where: { type: 'object', properties: { city: { type: 'string' }, zip: { type: ['string', 'null'] } }, required: ['city'] } },
};

const field = fieldOf(SCHEMA);
const draft = (more = {}) => ({ ...draftOf(field, { name: 'Ann', count: 3, tags: ['b'], where: { city: 'Ulm' } }), ...more });

test('a schema becomes fields of its types, in its order', () => {
  assert.deepEqual(
    field.fields.map((it) => [it.name, it.kind, it.required]),
    [['name', 'text', true], ['count', 'number', true], ['share', 'number', false], ['urgent', 'boolean', false], ['size', 'choice', false], ['tags', 'choices', false], ['words', 'list', false], ['where', 'object', true], ['note', 'text', false]],
  );
  assert.equal(field.fields[0].title, 'Full name');
  assert.deepEqual(field.fields[4].options, [{ label: 'Small', value: 'small' }, { label: 'Large', value: 'large' }]);
  assert.deepEqual(field.fields[7].fields.map((it) => it.name), ['city', 'zip']);
});

test('what is left out has no value, and a default has its own', () => {
  const { value, problems } = valueOf(field, draft());
  assert.equal(problems.size, 0);
  assert.deepEqual(value, { name: 'Ann', count: 3, share: 0.5, tags: ['b'], where: { city: 'Ulm' } });
});

test('each problem is at the path of its field', () => {
  const { problems } = valueOf(field, draft({ name: '', count: '3.5', share: 'x', tags: [], where: { city: '' }, urgent: 'true' }));
  assert.deepEqual(Object.fromEntries(problems), { '/name': 'This is needed.', '/count': 'This is no whole number.', '/share': 'This is no number.', '/where/city': 'This is needed.' });
  const many = valueOf(field, draft({ name: 'A', count: '10' })).problems;
  assert.deepEqual(Object.fromEntries(many), { '/name': 'At least 2 characters; these are 1.', '/count': 'At most 9.' });
});

test('a list that is needed has at least as many items as its schema wants', () => {
  const list = fieldOf({ type: 'array', items: { type: 'integer' }, minItems: 2 });
  assert.equal(valueOf(list, ['1']).problems.get(''), 'At least 2; there is 1.');
  assert.deepEqual(Object.fromEntries(valueOf(list, ['1', 'x']).problems), { '/1': 'This is no number.' });
  assert.deepEqual(valueOf(list, ['1', '2']).value, [1, 2]);
});

test('a value without a schema is edited as what it is', () => {
  const given = { path: '/srv', depth: 2, dry: false, mixed: [1, 'a'], names: ['x'], none: null, empty: '', deep: { at: [{ a: 1 }] } };
  const form = fieldOf(schemaOf(given), given);
  assert.deepEqual(form.fields.map((it) => it.kind), ['text', 'number', 'boolean', 'json', 'list', 'json', 'text', 'object']);
  assert.deepEqual(valueOf(form, draftOf(form, given)), { value: given, problems: new Map() });
});

test('members that a schema does not name are fields, too', () => {
  const form = fieldOf({ type: 'object', properties: { a: { type: 'string' } } }, { a: 'x', b: 2 });
  assert.deepEqual(form.fields.map((it) => [it.name, it.kind]), [['a', 'text'], ['b', 'number']]);
});

test('a member that every object has is none of a value', () => {
  const names = ['constructor', 'toString', '__proto__'];
  const schema = JSON.parse(`{"type": "object", "properties": {${names.map((name) => `"${name}": {"type": "string"}`)}}}`);
  const form = fieldOf(schema, {});
  assert.deepEqual(form.fields.map((it) => [it.name, it.kind]), names.map((name) => [name, 'text']));
  assert.deepEqual(Object.entries(draftOf(form, {})), names.map((name) => [name, '']));
  const filled = draftOf(form, JSON.parse('{"__proto__": "a", "toString": "b"}'));
  assert.equal(JSON.stringify(valueOf(form, filled).value), '{"toString":"b","__proto__":"a"}');
});

test('a value that does not fit its schema is edited as JSON, so that its type stays', () => {
  for (const [schema, value] of [[{ type: 'string' }, { a: 1 }], [{ type: 'integer' }, '7'], [{ enum: ['a'] }, 'b'], [{ type: 'array', items: { type: 'string' } }, [1]], [{ type: 'array', items: { enum: ['a'] } }, ['b']]]) {
    const form = fieldOf(schema, value);
    assert.equal(form.kind, 'json');
    assert.deepEqual(valueOf(form, draftOf(form, value)).value, value);
  }
});

test('an integer beyond 2^53 keeps its digits', () => {
  const given = parse('{"id": 12345678901234567890}');
  const form = fieldOf(schemaOf(given), given);
  const { value } = valueOf(form, draftOf(form, given));
  assert.equal(JSON.stringify(value), '{"id":12345678901234567890}');
  const typed = fieldOf({ type: 'integer' });
  assert.equal(JSON.stringify(valueOf(typed, '12345678901234567890').value), '12345678901234567890');
});

test('a schema that refers to itself, outside itself or to nothing ends as JSON', () => {
  const loop = { type: 'object', properties: { next: { $ref: '#' } } };
  let deepest = fieldOf(loop);
  while (deepest.fields.length) [deepest] = deepest.fields;
  assert.equal(deepest.kind, 'json');
  for (const schema of [{ $ref: 'https://example.org/x' }, { $ref: '#/$defs/none' }, { $ref: '#/a', a: { $ref: '#/a' } }, true, null]) assert.equal(fieldOf(schema).kind, 'json');
  assert.equal(valueOf(fieldOf(true), '{"a": 1').problems.get('').startsWith('This is no JSON'), true);
});

test('a reference is a value of any field where a task may refer to results', () => {
  const number = fieldOf({ type: 'integer' });
  assert.equal(valueOf(number, '${measure.count}', { references: true }).value, '${measure.count}');
  assert.equal(valueOf(number, '${measure.count}').problems.get(''), 'This is no number.');
});

test('only the members that differ are changes', () => {
  assert.deepEqual(changesOf({ a: 1, b: [1], c: 'x' }, { a: 1, b: [2], c: 'x', d: true }), { b: [2], d: true });
});
