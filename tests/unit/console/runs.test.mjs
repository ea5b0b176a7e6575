import assert from 'node:assert/strict';
import { test } from 'node:test';

const { retriesOf } = await import('../../../src/asterism/console/web/live/run_origins.js');
const { asked, isAsking, isQueued, lasted, pageOf, skippedAfter, statusOfRun } = await import('../../../src/asterism/console/web/live/run_words.js');

const RUN = { run_id: 'r', status: 'active', outcome: '', driven: true, seq: 9, created_at: 100, updated_at: 130, problem: '' };
const words = (changes) => statusOfRun({ ...RUN, ...changes });

test('each status of a run has its glyph and its words', () => {
  assert.deepEqual(words({}), ['running', 'Running']);
  assert.deepEqual(words({ driven: false }), ['ready', 'Interrupted']);
  assert.deepEqual(words({ driven: false, seq: 1 }), ['ready', 'Queued']);
  assert.deepEqual(words({ driven: false, problem: 'no device' }), ['partial', 'Stuck']);
  assert.deepEqual(words({ status: 'waiting' }), ['waiting', 'Waiting']);
  assert.deepEqual(words({ status: 'paused' }), ['pending', 'Paused']);
  assert.deepEqual(words({ status: 'ended', outcome: 'finished' }), ['succeeded', 'Finished']);
  assert.deepEqual(words({ status: 'ended', outcome: 'failed' }), ['failed', 'Failed']);
  assert.deepEqual(words({ status: 'ended', outcome: 'cancelled' }), ['cancelled', 'Cancelled']);
});

test('a run lasts until now while somebody works on it or has to answer, and else until its last entry', () => {
  assert.equal(lasted(RUN, 200), 100);
  assert.equal(lasted({ ...RUN, driven: false, status: 'waiting' }, 200), 100);
  assert.equal(lasted({ ...RUN, driven: false }, 200), 30);
  assert.equal(lasted({ ...RUN, status: 'ended' }, 200), 30);
});

test('a run asks if it or a run of its tree has an open question', () => {
  assert.equal(isAsking(RUN, ['r']), true);
  assert.equal(isAsking(RUN, ['r.3.0']), true);
  assert.equal(isAsking(RUN, ['r2', 'other.r']), false);
  assert.equal(isAsking({ ...RUN, status: 'ended' }, ['r']), false);
});

test('a status that says how runs have ended is asked for as their outcome', () => {
  const query = (text) => String(asked(new URLSearchParams(text)));
  assert.equal(query('q=a&status=failed'), 'q=a&outcome=failed');
  assert.equal(query('status=ended'), 'status=ended');
  assert.equal(query('status=toString'), 'status=toString');
});

test('days of a list are whole days of the reader, and what is no day is none', () => {
  const query = (text) => Object.fromEntries(asked(new URLSearchParams(text)));
  const at = (...day) => String(new Date(...day).getTime() / 1000);
  assert.deepEqual(query('since=2026-02-27&until=2026-02-28&q=a'), { q: 'a', created_from: at(2026, 1, 27), created_before: at(2026, 2, 1) });
  assert.deepEqual(query('since=2026-03-29&until='), { created_from: at(2026, 2, 29) });
  assert.deepEqual(query('since=yesterday&until=2026-02-31T12'), {});
});

test('a conversation has a page of its own', () => {
  assert.equal(pageOf({ run_id: '260101-a.3.0', machine: 'orchestration loop' }), '/runs/260101-a.3.0');
  assert.equal(pageOf({ run_id: '260101-b', machine: 'flow agent' }), '/conversations/260101-b');
});

test('a retry runs what was skipped because of the tasks again, and nothing else', () => {
  const line = (from, to) => [`line:${from}->${to}`, { from, to }];
  const task = (id, status) => [`task:${id}`, { status }];
  const rows = new Map([task('a', 'FAILED'), task('b', 'SKIPPED'), task('c', 'SKIPPED'), task('d', 'COMPLETED'), task('e', 'SKIPPED'), line('a', 'b'), line('b', 'c'), line('a', 'd'), line('d', 'e'), line('a', 'c')]);
  assert.deepEqual(skippedAfter(rows, ['a']), ['b', 'c']);
  assert.deepEqual(skippedAfter(rows, ['d']), ['e']);
});

test('the last retry of a run is known, and a copy that is no retry is none', () => {
  const run = (id) => ({ ...RUN, run_id: id });
  const of = (id, isRetry) => ({ run_id: id, is_retry: isRetry });
  const found = retriesOf([run('c'), run('b'), run('fork'), run('a'), run('later')], new Map([['c', of('a', true)], ['b', of('a', true)], ['fork', of('b', false)], ['later', null]]));
  assert.deepEqual([...found].map(([id, retry]) => [id, retry.run_id]), [['a', 'c']]);
});

test('a run is queued while all that it has begun waits for places, and it alone', () => {
  const attempt = (run_id, status, more = {}) => ({ run_id, status, ended_at: null, child: '', ...more });
  assert.equal(isQueued(RUN, [attempt('r', 'queued'), attempt('other', 'running')]), true);
  assert.equal(isQueued(RUN, [attempt('r', 'queued'), attempt('r.3.0', 'running')]), false);
  assert.equal(isQueued(RUN, [attempt('r', 'running', { child: 'r.3.0' }), attempt('r.3.0', 'queued')]), true);
  assert.equal(isQueued(RUN, [attempt('r', 'queued', { ended_at: 5 })]), false);
  assert.deepEqual(statusOfRun(RUN, true), ['ready', 'Queued']);
  assert.deepEqual(statusOfRun({ ...RUN, status: 'paused' }, true), ['pending', 'Paused']);
});
