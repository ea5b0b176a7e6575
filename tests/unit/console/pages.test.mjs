// The pure parts of the console's pages: differences of runs, devices, periods, and moments in words.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { canDrain, deviceRows, loadOf } from '../../../src/asterism/console/web/live/device_rows.js';
import { differences, marksOf, rolesOf, summaryOf, textDifference } from '../../../src/asterism/console/web/live/differences.js';
import { lastNight, periodOf } from '../../../src/asterism/console/web/live/period.js';
import { exact, folded, moment, named, stateWords } from '../../../src/asterism/console/web/words.js';
import { inZone, relative } from '../../../src/asterism/console/web/live/times.js';

const golden = JSON.parse(readFileSync(new URL('../views/folds.json', import.meta.url), 'utf8'));
/** @param {Record<string, any>} rows */
const rowsWith = (rows) => new Map(Object.entries(rows));
const task = (more = {}) => ({ name: 'build', order: 1, status: 'COMPLETED', result: { n: 1 }, ...more });

for (const { name, rows } of golden) {
  test(`the rows of ${name} do not differ from themselves`, () => {
    const found = differences(rowsWith(rows), rowsWith(rows));
    assert.deepEqual(found.filter((it) => it.where !== 'same'), []);
    assert.equal(found.some((it) => it.id.startsWith('attempt:')), false);
  });
}

test('a task with another result differs in that field, and one of another status in that', () => {
  const a = rowsWith({ 'task:x': task(), 'task:y': task({ name: 'test', status: 'FAILED', error: { code: 'raised', message: 'no' }, result: null }) });
  const b = rowsWith({ 'task:x': task({ result: { n: 2 } }), 'task:y': task({ name: 'test' }) });
  const [x, y] = differences(a, b);
  assert.deepEqual([x.where, x.fields], ['changed', { result: [{ n: 1 }, { n: 2 }] }]);
  assert.deepEqual([y.a, y.b, Object.keys(y.fields)], ['failed', 'succeeded', ['status', 'result', 'error']]);
});

test('times and ids of one run are no difference', () => {
  const a = rowsWith({ 'task:x': task({ effect: 'r:3.0', started_at: 1, ended_at: 2, pending_at: 0 }) });
  const b = rowsWith({ 'task:x': task({ effect: 'q:9.0', started_at: 7, ended_at: 9, pending_at: 6 }) });
  assert.equal(differences(a, b)[0].where, 'same');
});

test('a task that one side does not have is marked there, with its dependencies', () => {
  const a = rowsWith({ run: { state: 'CONTINUE' }, 'task:x': task(), 'task:old': task({ order: 2 }), 'line:x->old': { from: 'x', to: 'old' } });
  const b = rowsWith({ run: { state: 'FINISH', outcome: 'finished' }, 'task:x': task(), 'task:new': task({ order: 2 }), 'line:x->new': { from: 'x', to: 'new' } });
  const found = differences(a, b);
  assert.deepEqual(found.map((it) => [it.id, it.where]), [['run', 'changed'], ['task:x', 'same'], ['task:old', 'a'], ['task:new', 'b']]);
  const [left, right] = marksOf(found, a, b);
  assert.deepEqual([[...left.removed.keys()], [...left.added]], [['task:old', 'line:x->old'], []]);
  assert.deepEqual([[...right.removed.keys()], [...right.added]], [[], ['task:new', 'line:x->new']]);
  assert.equal(left.changed.has('run'), false);
  assert.equal(summaryOf(found), '1 only in A · 1 only in B · 1 the same');
});

test('of two that are compared, each is called what it is to the other', () => {
  const side = (run_id, created_at, at, origin = null) => ({ run: { run_id, created_at }, at, origin });
  const [first, copy] = [side('r', 5, 9), side('c', 8, 12, { run_id: 'r', is_retry: false })];
  assert.deepEqual(rolesOf(first, copy), ['the origin', 'its copy']);
  assert.deepEqual(rolesOf(copy, first), ['its copy', 'the origin']);
  assert.deepEqual(rolesOf(first, side('t', 9, 12, { run_id: 'r', is_retry: true })), ['the origin', 'its retry']);
  assert.deepEqual(rolesOf(side('r', 5, 9), side('r', 5, 2)), ['later', 'earlier']);
  assert.deepEqual(rolesOf(copy, side('other', 20, 1)), ['earlier', 'later']);
  assert.deepEqual(rolesOf(first, first), ['', '']);
});

test('items of a fan-out are no tasks of the plan', () => {
  assert.deepEqual(differences(new Map(), rowsWith({ 'task:x': task(), 'task:x[0]': task({ item: true }) })).map((it) => it.id), ['task:x']);
});

test('the fields of a conversation are compared', () => {
  const a = rowsWith({ 'field:size': { status: 'said', value: 'L' }, 'field:pin': { status: 'withheld', value: null } });
  const b = rowsWith({ 'field:size': { status: 'said', value: 'M' }, 'field:pin': { status: 'withheld', value: null } });
  assert.deepEqual(differences(a, b).map((it) => [it.name, it.where]), [['size', 'changed'], ['pin', 'same']]);
});

test('texts are compared line by line', () => {
  const [a, b] = textDifference('one\ntwo\nthree', 'zero\none\nthree\nfour');
  assert.deepEqual(a, [['one', true], ['two', false], ['three', true]]);
  assert.deepEqual(b, [['zero', false], ['one', true], ['three', true], ['four', false]]);
  assert.deepEqual(textDifference('', '')[0], [['', true]]);
  assert.equal(textDifference('x\n'.repeat(9000), 'x\n'.repeat(9000))[0].filter(([, both]) => both).length, 400);
});

const device = (id, more = {}) => ({ device_id: id, kind: 'local', description: '', aliases: [], capabilities: [], natural_language: false, concurrency: 2, skills: [], draining: false, draining_by: '', ...more });
const attempt = (id, more = {}) => ({ device: id, run_id: 'r', title: 'R', task: 't', name: 't', skill: 's', number: 1, child: '', status: 'succeeded', error: '', began_at: 10, ended_at: 20, seen_at: 20, ...more });

test('a device is lost, draining, busy or idle, in this order', () => {
  const devices = [device('a'), device('b', { draining: true, draining_by: 'ada@admin' }), device('c'), device('d')];
  const attempts = [attempt('a', { status: 'running', ended_at: null }), attempt('c', { status: 'running', ended_at: null, began_at: 30, seen_at: 31 }), attempt('c', { status: 'queued', ended_at: null })];
  const rows = deviceRows(devices, attempts, { a: 'no answer' });
  assert.deepEqual(rows.map((it) => [it.id, it.health, it.why]), [['a', 'lost', 'no answer'], ['b', 'draining', 'ada@admin'], ['c', 'busy', ''], ['d', 'idle', '']]);
  assert.deepEqual([rows[2].now, rows[2].queued].map((some) => some.map((it) => it.status)), [['running'], ['queued']]);
  assert.deepEqual([loadOf(rows[2]), loadOf(rows[3]), rows[2].seen, rows[3].seen], ['1 of 2, 1 queued', '0 of 2', 31, 0]);
});

test('what a device does now is no matter of the period that is shown', () => {
  const [row] = deviceRows([device('a', { concurrency: 2 })], [attempt('a', { ended_at: 20, seen_at: 20 })], {}, [attempt('a', { task: 'now', status: 'running', seen_at: 90 })]);
  assert.deepEqual([row.health, loadOf(row), row.now.map((it) => it.task), row.attempts.length, row.seen], ['busy', '1 of 2', ['now'], 1, 90]);
});

test('a device that has left the fleet is shown with what it did', () => {
  const rows = deviceRows([device('a')], [attempt('old', { ended_at: 40 }), attempt('old', { ended_at: 50, task: 'last' })], {});
  assert.deepEqual(rows.map((it) => [it.id, it.health, it.last?.task]), [['a', 'idle', undefined], ['old', 'gone', 'last']]);
  assert.deepEqual([canDrain(device('a')), canDrain(device('x', { kind: 'flow' }))], [true, false]);
});

const local = (...parts) => new Date(...parts).getTime() / 1000;

test('the last night ends this morning, also for who asks in the evening', () => {
  assert.deepEqual(lastNight(local(2026, 10, 23, 9, 30)), { begin: local(2026, 10, 22, 18), end: local(2026, 10, 23, 8) });
  assert.deepEqual(lastNight(local(2026, 10, 23, 2)), { begin: local(2026, 10, 22, 18), end: null });
  assert.deepEqual(lastNight(local(2026, 10, 23, 20)), { begin: local(2026, 10, 22, 18), end: local(2026, 10, 23, 8) });
});

test('an address has a period, and any other is the last day', () => {
  const of = (text) => periodOf(new URLSearchParams(text), 1_000_000);
  assert.deepEqual(of(''), { name: 'day', begin: 913_600, end: null });
  assert.deepEqual(of('period=constructor').name, 'day');
  assert.deepEqual(of('period=hour'), { name: 'hour', begin: 996_400, end: null });
  assert.deepEqual(of('period=between&begin=5&end=9'), { name: 'between', begin: 5, end: 9 });
  assert.deepEqual(of('period=between&begin=9&end=5'), { name: 'between', begin: 9, end: 9 });
  for (const text of ['begin=1e99&end=1e99', 'begin=-1&end=x', 'begin=NaN']) assert.deepEqual(of(`period=between&${text}`), { name: 'between', begin: 913_600, end: 1_000_000 });
});

test('moments are near, past or to come', () => {
  assert.deepEqual([3, -40, 100, -3599, 500_000].map((away) => relative(1e6 + away, 1e6)), ['now', '40 s ago', 'in 2 min', '1 h ago', 'in 6 d']);
  const noon = new Date(2026, 10, 23, 12).getTime() / 1000;
  assert.deepEqual([2, 13, 37].map((hours) => relative(noon - hours * 3600, noon)), ['today 10:00', 'yesterday 23:00', inZone(noon - 37 * 3600, '')]);
  assert.equal(inZone(1_780_000_000, 'Asia/Tokyo').replace(',', ''), 'Fri 29 May 05:26');
  assert.match(inZone(0, 'No/Where'), /UTC$/);
});

test('an exact moment has one form, whatever the language of the browser', () => {
  assert.equal(moment(new Date(2026, 10, 24, 15, 4, 18).getTime() / 1000), '24 Nov 2026, 15:04:18');
});

test('a state that failed and cancelled runs share says which of them it is', () => {
  assert.deepEqual([['FAIL', 'cancelled'], ['ERROR', 'cancelled'], ['CANCELLED', 'cancelled'], ['FAIL', 'failed'], ['CONTINUE', undefined]].map(([state, outcome]) => stateWords(state, outcome)), ['FAIL · cancelled', 'ERROR · cancelled', 'CANCELLED', 'FAIL', 'CONTINUE']);
  assert.equal(named('effect_cancelled'), 'What was cancelled has stopped');
});

test('A5: a request is shown so that two requests that differ never look the same', () => {
  const values = ['rm a', 'rm  a', 'rm\na', 'rm a ', 'rm\ta', 'rm\u00a0a', 'rm\u202ea', 'rm\\u202ea', 'rm\u200da', 'rm\u001b[2Ka', '5', 5, 'null', null, true, 'true', '', '"x"', 'x', '[]', []];
  assert.equal(new Set(values.map(exact)).size, values.length);
  assert.ok(values.every((it) => !/[\u001b\u202e\u200d\u00a0\t]/.test(exact(it))));
  const tail = `${'x'.repeat(5000)}; then delete the customers table`;
  assert.equal(exact(tail), tail);
  assert.ok(exact({ $long: 5, beginning: 'ok', command: 'rm' }).includes('rm'));
});

test('A5: a list folds a long value, and says how long it is', () => {
  assert.equal(folded('a'.repeat(5000), 4), 'aaaa… 5,000 characters');
  assert.equal(folded('abc', 4), 'abc');
});
