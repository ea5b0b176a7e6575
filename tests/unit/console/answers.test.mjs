// What the answers to a question mean, what is sent for them, and how a submission is made.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { askedBy, closedIn, editForm, ended, givenWords, refusalOf, respondForm } from '../../../src/asterism/console/web/live/answers.js';
import { fieldOf } from '../../../src/asterism/console/web/live/form/fields.js';
import { draftOf, valueOf } from '../../../src/asterism/console/web/live/form/values.js';
import { paramSchema, planOf } from '../../../src/asterism/console/web/live/submission.js';
import { idOf } from '../../../src/asterism/console/web/live/edit/task_id.js';

const DEVICES = [{ device_id: 'bank', skills: [{ name: 'pay', parameters: { type: 'object', properties: { amount: { type: 'integer' }, to: { type: 'string' }, note: { type: 'string' } }, required: ['amount'] }, output: { type: 'object', properties: { receipt: { type: 'string' } } } }] }];
const approval = { inquiry_id: 'r:5.0', run_id: 'r', verbs: ['approve', 'edit', 'reject'], form: {}, subject: { task_id: 'p', device: 'bank', skill: 'pay', arguments: { amount: 5, to: 'Ann' } } };

test('what somebody has answered is said in words', () => {
  assert.equal(givenWords({ verb: 'approve' }), 'You have approved it.');
  assert.equal(givenWords({ verb: 'respond', value: 'Okafor' }), 'You have answered it: Okafor.');
  assert.equal(givenWords({ verb: 'edit', value: { copies: 3, dry: false } }), 'You have approved it with changes: copies 3, dry false.');
  assert.equal(givenWords({ verb: 'reject', reason: 'too  many' }), 'You have rejected it: too many.');
  assert.equal(givenWords({ verb: 'reject', reason: '' }), 'You have rejected it.');
  assert.equal(givenWords({ verb: 'respond', value: 0 }), 'You have answered it: 0.');
});

test('the arguments of a task are edited in the types of its skill, and only changes are sent', () => {
  const form = editForm(approval, DEVICES);
  const field = fieldOf(form.schema, form.value);
  assert.deepEqual(field.fields.map((it) => [it.name, it.kind, it.required]), [['amount', 'number', true], ['to', 'text', true], ['note', 'text', false]]);
  const draft = draftOf(field, form.value);
  assert.equal(form.sent(valueOf(field, draft).value), undefined);
  assert.deepEqual(form.sent(valueOf(field, { ...draft, amount: '7' }).value), { amount: 7 });
  assert.equal(valueOf(field, { ...draft, to: '' }).problems.get('/to'), 'This is needed.');
  assert.deepEqual(fieldOf(editForm(approval, []).schema, form.value).fields.map((it) => it.kind), ['number', 'text']);
});

test('a plan is edited as a whole, a conversation without its secrets', () => {
  const plan = { tasks: [{ task_id: 'a' }] };
  const form = editForm({ subject: { kind: 'plan', plan }, form: {} }, []);
  assert.equal(fieldOf(form.schema, form.value).kind, 'json');
  assert.equal(form.sent(structuredClone(plan)), undefined);
  assert.deepEqual(form.sent({ tasks: [] }), { tasks: [] });
  assert.deepEqual(editForm({ subject: { kind: 'edits', actions: [1] }, form: {} }, []).value, { actions: [1] });
  const talk = editForm({ subject: { agent: 'a:B', fields: { size: 'small', pin: '***' } }, form: { properties: { pin: false } } }, []);
  assert.deepEqual(talk.value, { size: 'small' });
});

test('an answer has the form that the question has, a result that of its skill, any other one is a text', () => {
  const kindOf = (form) => fieldOf(form.schema, form.value).kind;
  assert.equal(kindOf(respondForm({ ...approval, verbs: ['respond', 'reject'], form: { type: 'boolean' } }, DEVICES)), 'boolean');
  assert.equal(kindOf(respondForm({ ...approval, verbs: ['approve', 'respond', 'reject'] }, DEVICES)), 'object');
  assert.equal(kindOf(respondForm({ ...approval, verbs: ['approve', 'respond', 'reject'] }, [])), 'json');
  assert.equal(kindOf(respondForm({ subject: { fields: {} }, verbs: ['respond'], form: { properties: { pin: false } } }, [])), 'text');
});

test('a refused answer says whether the question is answered, closed or still open', () => {
  assert.deepEqual(refusalOf({ status: 409, detail: 'x', body: { answer: 'approve by bob@admin' } }), { kind: 'answered', text: 'Somebody else was first: approved by bob@admin. Your answer was not taken.', open: [] });
  const gone = refusalOf({ status: 410, detail: 'x', body: { open: [{ inquiry_id: 'r:9.0' }] } });
  assert.deepEqual([gone.kind, gone.open.length, gone.text.endsWith('1 question of its run is open now.')], ['gone', 1, true]);
  assert.deepEqual(refusalOf({ status: 409, detail: 'pay accepts amount, to, not x', body: {} }), { kind: 'refused', text: 'pay accepts amount, to, not x', open: [] });
  assert.deepEqual(['withdrawn', 'edit by a by b@admin', 'new by x', ''].map(ended), ['withdrawn', 'approved with changes by a by b@admin', 'closed by x', 'closed']);
});

test('the delta that drops a question says when it was closed', () => {
  const deltas = [{ seq: 1, kind: 'answered', actor: 'eve', at: 1, drop: ['ask:r:4.0'] }, { seq: 2, kind: 'answered', actor: 'bob@approver', at: 7, drop: ['ask:r:5.0'] }, { seq: 3, kind: 'cancel', actor: 'eve', at: 9, drop: ['ask:r:6.0'] }];
  assert.deepEqual(['r:5.0', 'r:6.0', 'r:7.0'].map((id) => closedIn(deltas, id)), [7, 9, 0]);
  assert.equal(askedBy(approval, new Map([['r', 'Pay all']])), 'Pay all · p');
  assert.equal(askedBy({ run_id: 'r', subject: null }, new Map()), 'r');
});

test('a plan is JSON, and a text that is none says why', () => {
  assert.deepEqual(planOf('{"constellation": {"tasks": []}}'), { tasks: [] });
  assert.throws(() => planOf('tasks:\n  - a'), /looks like YAML/);
  assert.throws(() => planOf('{"tasks": [}'), /no JSON/);
  assert.throws(() => planOf('[1]'), /JSON object/);
});

test('parameters are asked for by their types, and those with a default need no value', () => {
  const schema = paramSchema({ params: { url: { type: 'str' }, count: { type: 'int', default: 3, description: 'how many' }, data: { type: 'file' }, more: { type: 'dict', default: {} } } });
  const field = fieldOf(schema);
  assert.deepEqual(field.fields.map((it) => [it.name, it.kind, it.required]), [['url', 'text', true], ['count', 'number', false], ['data', 'file', true], ['more', 'json', false]]);
  const { value, problems } = valueOf(field, { ...draftOf(field), url: 'x' });
  assert.deepEqual(value, { url: 'x', count: 3, more: {} });
  assert.deepEqual([...problems], [['/data', 'Choose a file.']]);
  assert.equal(paramSchema({ tasks: [] }), null);
});

test('a new task has an id made from its name, which no other task has', () => {
  const tasks = [['deploy', ''], ['deploy_2', '']];
  assert.deepEqual(['Deploy', 'Räume auf!', '…', 'x'.repeat(99)].map((name) => idOf(name, tasks)), ['deploy_3', 'r_ume_auf', 'task', 'x'.repeat(56)]);
});
