// Edits of a plan that somebody draws: what they show, what cannot be, and what is sent.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { actionWords, Draft, partnersOf, whyNot } from '../../../src/asterism/console/web/live/edit/draft.js';
import { rowsOfPlan } from '../../../src/asterism/console/web/live/edit/planned.js';

const task = (name, status = 'PENDING') => ({ name, status, order: 0 });
const line = (from, to) => ({ from, to, type: 'SUCCESS_ONLY' });
const plan = () => new Map([['run', {}], ['task:a', task('a', 'COMPLETED')], ['task:b', task('b', 'RUNNING')], ['task:c', task('c')], ['task:d', task('d', 'WAITING_DEPENDENCY')], ['line:a->b', line('a', 'b')], ['line:b->c', line('b', 'c')], ['line:c->d', line('c', 'd')]]);
const needs = (from, to) => ({ tool: 'add_dependency', parameters: { from, to } });
const frees = (id) => ({ tool: 'remove_dependency', parameters: { dependency_id: id } });
const adds = (task_id, more = {}) => ({ tool: 'add_task', parameters: { task_id, ...more } });
const drops = (task_id) => ({ tool: 'remove_task', parameters: { task_id } });

test('edits are drawn as what they add and remove, and the rows of the run stay', () => {
  const [draft, rows] = [new Draft(), plan()];
  for (const action of [adds('x', { name: 'extra', device: 'd' }), needs('a', 'x'), needs('x', 'd'), frees('c->d')]) assert.equal(draft.add(action, rows), '');
  const { rows: drawn, edit, problems } = draft.applied(rows);
  assert.deepEqual([...edit.added], ['task:x', 'line:a->x', 'line:x->d']);
  assert.deepEqual([...edit.removed.keys()], ['line:c->d']);
  assert.deepEqual(problems, ['', '', '', '']);
  assert.equal(drawn.get('task:x').status, 'PENDING');
  assert.equal(rows.has('task:x'), false);
  assert.deepEqual(draft.actions.map((it) => actionWords(it, rows)), ['Add extra on d', 'x waits for a', 'd waits for x', 'd no longer waits for c']);
});

test('a dependency that cannot be says why, and is not collected', () => {
  const [draft, rows] = [new Draft(), plan()];
  const why = [needs('c', 'c'), needs('d', 'c'), needs('a', 'b'), needs('c', 'd'), needs('z', 'c'), frees('a->b'), frees('none'), drops('b'), adds('a')].map((it) => draft.add(it, rows));
  assert.deepEqual(why, [
    'A task cannot wait for itself.',
    'd waits for c; both would wait for each other.',
    'b has started, and cannot be edited.',
    'd waits for c already.',
    'There is no task z.',
    'b has started, and cannot be edited.',
    'There is no dependency none.',
    'b has started, and cannot be edited.',
    'There is a task a already.',
  ]);
  assert.deepEqual(draft.actions, []);
});

test('the tasks that are offered for a dependency are those with which it can be', () => {
  const rows = plan();
  for (const more of ['e', 'f']) rows.set(`task:${more}`, task(more));
  rows.set('task:c.0', { ...task('c.0'), item: {} });
  rows.set('line:c->e', line('c', 'e'));
  const all = ['a', 'b', 'c', 'd', 'e', 'f'];
  for (const id of all) {
    const can = (dependency) => all.filter((other) => !whyNot(dependency(other), rows));
    assert.deepEqual(partnersOf(id, rows), [can((other) => needs(other, id)), can((other) => needs(id, other))]);
  }
  assert.deepEqual(partnersOf('c', rows), [['a', 'f'], ['f']]);
});

test('what is taken back is not sent', () => {
  const [draft, rows] = [new Draft(), plan()];
  for (const action of [adds('x'), needs('x', 'd'), drops('x')]) assert.equal(draft.add(action, rows), '');
  assert.deepEqual(draft.actions, []);
  for (const action of [needs('a', 'd'), frees('a->d')]) assert.equal(draft.add(action, rows), '');
  assert.deepEqual(draft.actions, []);
  for (const action of [adds('x'), needs('x', 'd'), needs('a', 'd')]) draft.add(action, rows);
  draft.remove(0);
  assert.deepEqual(draft.actions, [needs('a', 'd')]);
});

test('a removed task takes its dependencies along, also the drawn ones', () => {
  const [draft, rows] = [new Draft(), plan()];
  draft.add(needs('a', 'c'), rows);
  assert.equal(draft.add(drops('c'), rows), '');
  assert.deepEqual(draft.actions, [drops('c')]);
  assert.deepEqual([...draft.applied(rows).edit.removed.keys()], ['task:c', 'line:b->c', 'line:c->d']);
});

test('an edit that the run has overtaken says why, and the others stay', () => {
  const [draft, rows] = [new Draft(), plan()];
  draft.add(needs('a', 'c'), rows);
  draft.add(needs('a', 'd'), rows);
  rows.set('task:c', task('c', 'RUNNING'));
  const { edit, problems } = draft.applied(rows);
  assert.deepEqual(problems, ['c has started, and cannot be edited.', '']);
  assert.deepEqual([...edit.added], ['line:a->d']);
});

test('a plan has the same rows as a list and as an object, with its handlers', () => {
  const listed = rowsOfPlan({ tasks: [{ task_id: 'a', name: 'A', device: 'd' }, { task_id: 'b' }], dependencies: [{ from: 'a', to: 'b', condition: 'ok' }], finally: [{ task_id: 'z' }] });
  const named = rowsOfPlan({ tasks: { a: { name: 'A', device: 'd' }, b: {} }, dependencies: [{ from_task_id: 'a', to_task_id: 'b', condition: 'ok' }], finally: { z: {} } });
  assert.deepEqual([...listed], [...named]);
  assert.deepEqual([...listed.keys()], ['run', 'task:a', 'task:b', 'task:z', 'line:a->b']);
  assert.equal(listed.get('task:z').role, 'finally');
  assert.equal(listed.get('line:a->b').type, 'CONDITIONAL');
});
