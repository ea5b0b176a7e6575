// What the page reads from a journal beside its rows: edits, bars, changes of state, and the axis of time.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parse } from '../../../src/asterism/console/web/json.js';
import { Journal } from '../../../src/asterism/console/web/player/cursor.js';
import { Scale, tickWords } from '../../../src/asterism/console/web/player/scale.js';
import { inRows } from '../../../src/asterism/console/web/player/lanes.js';
import { PEOPLE, PLANNER, Story } from '../../../src/asterism/console/web/player/story.js';
import { itemWords, progressWords, statusOf, taskWords, tookOf, workedIn } from '../../../src/asterism/console/web/status.js';
import { brief, dollars, duration, short, textOf, visible } from '../../../src/asterism/console/web/words.js';

const golden = new Map(JSON.parse(readFileSync(new URL('../views/folds.json', import.meta.url), 'utf8')).map((it) => [it.name, it.deltas]));

const storyOf = (deltas) => {
  const journal = new Journal();
  deltas.forEach((delta) => journal.push(delta));
  return new Story(journal).read();
};

const delta = (seq, at, put, more = {}) => ({ seq, at, kind: 'planned', actor: 'planner', state: 'CONTINUE', put, ...more });

test('a restart removes the whole plan, and the next one is created', () => {
  const { edits } = storyOf(golden.get('restart'));
  assert.deepEqual(edits.map((edit) => [edit.created, edit.added.size, edit.removed.size]), [[true, 2, 0], [false, 0, 2], [true, 1, 0]]);
  assert.equal(edits[1].planning.thought, 'from scratch');
});

test('the lanes of a run are its devices, the planner and people', () => {
  const bars = [...storyOf(golden.get('child')).bars.values()];
  assert.deepEqual(bars.map((bar) => [bar.lane, bar.name, bar.status]), [['d', 'p', 'succeeded'], [PEOPLE, 'q', 'waiting'], ['d', 'q', 'succeeded']]);
  assert.equal(bars[1].to, 11);
  assert.ok([...storyOf(golden.get('restart')).bars.values()].some((bar) => bar.lane === PLANNER));
});

test('changes of state are counted where they happen', () => {
  const { moves } = storyOf(golden.get('restart'));
  assert.deepEqual(moves.map((move) => `${move.from} ${move.to}`), ['START CONTINUE', 'CONTINUE START', 'START CONTINUE', 'CONTINUE FINISH']);
});

test('an edit shows the fields of a task before and after; progress and items are no edit', () => {
  const row = { name: 'a', inputs: { x: 1 }, status: 'PENDING', item: null };
  const { edits } = storyOf([
    delta(1, 0, { 'task:a': row, 'task:b': row }),
    delta(2, 1, { 'task:a': { inputs: { x: 2 }, status: 'RUNNING' } }),
    delta(3, 2, { 'task:a': { status: 'COMPLETED' }, 'task:b.0': { ...row, item: { of: 'b', index: 0 } } }),
    delta(4, 3, { 'line:a->b': { from: 'a', to: 'b' } }, { kind: 'edited', actor: 'ada' }),
    delta(5, 4, { 'task:a': { device: 'd2' } }, { kind: 'batch_ended' }),
  ]);
  assert.deepEqual(edits.map((edit) => edit.count), [1, 2, 4]);
  assert.deepEqual([...edits[1].changed], [['task:a', { inputs: [{ x: 1 }, { x: 2 }] }]]);
  assert.equal(edits[2].planning, null);
});

test('a journal that grows is read on from where it was', () => {
  const deltas = golden.get('queue');
  const journal = new Journal();
  const story = new Story(journal);
  for (const it of deltas) {
    journal.push(it);
    story.read();
  }
  assert.deepEqual([...story.bars], [...storyOf(deltas).bars]);
});

test('bars that overlap are in different rows, and those too narrow to tell apart are one, with the worst status', () => {
  const deltas = Array.from({ length: 101 }, (_, n) => delta(n + 1, n, {}));
  const bar = (from, to, status = 'succeeded') => ({ id: `attempt:${from}`, lane: 'd', part: 't', name: 't', from, to, status, row: {} });
  const bars = [bar(1, 2), bar(2, 3, 'failed'), bar(3, 4), bar(10, 60), bar(20, null, 'running'), bar(60, 61)];
  const { placed, rows } = inRows(bars, new Scale(deltas, bars), 0.035);
  assert.equal(rows, 2);
  assert.deepEqual(placed.map((it) => [it.bars.length, it.status, it.row]), [[3, 'failed', 0], [1, 'succeeded', 0], [1, 'running', 1], [1, 'succeeded', 0]]);
  assert.equal(placed[0].room, placed[1].from);
});

test('time in which nothing is under way is shortened, and the places of entries rise', () => {
  const attempt = { began_at: 0, kind: 'dispatch', part: 'a', device: 'd' };
  const deltas = [delta(1, 0, { 'attempt:1': attempt }), delta(2, 10, { 'attempt:1': { ended_at: 10 } }), delta(3, 90_010, { 'attempt:2': attempt }), delta(4, 90_020, { 'attempt:2': { ended_at: 90_020 } })];
  const scale = new Scale(deltas, storyOf(deltas).bars.values());
  assert.deepEqual(scale.gaps.map((gap) => gap.seconds), [90_000]);
  assert.ok(scale.places[2] - scale.places[1] < 0.1);
  assert.deepEqual([1, 2, 3, 4].map((count) => scale.count(scale.place(count))), [1, 2, 3, 4]);
  assert.equal(scale.place(4), 1);
  assert.ok(scale.ticks(10).length > 2);
});

test('entries of one time are measured in entries', () => {
  const scale = new Scale([1, 2, 3].map((seq) => delta(seq, 7, {})), []);
  assert.deepEqual(scale.places, [0, 0.5, 1]);
  assert.deepEqual(scale.ticks(10), []);
});

test('a journal of one entry, or of none, has an axis', () => {
  assert.equal(new Scale([delta(1, 7, {})], []).count(0.5), 1);
  assert.equal(new Scale([], []).count(0.5), 1);
});

test('a range of the axis has its places from 0 to 1, its own ticks, and nothing beyond', () => {
  const attempt = { began_at: 0, kind: 'dispatch', part: 'a', device: 'd' };
  const deltas = Array.from({ length: 101 }, (_, n) => delta(n + 1, 10 * n, n ? {} : { 'attempt:1': attempt }));
  const bars = [...storyOf(deltas).bars.values()];
  const whole = new Scale(deltas, bars);
  assert.deepEqual(whole.range(0.1, 0.35), [100, 350]);
  const part = new Scale(deltas, bars, 0, [100, 350]);
  assert.deepEqual([11, 36].map((count) => Math.round(part.place(count) * 1e6) / 1e6), [0, 1]);
  assert.deepEqual([-1, 0, 0.5, 1, 2].map((x) => part.count(x)), [1, 11, 23, 36, 61]);
  assert.deepEqual(part.ticks(5).map(({ value }) => value), [120, 180, 240, 300]);
  assert.ok(part.ticks(5).every(({ x }) => x >= 0 && x <= 1));
  assert.equal(Math.round(part.shown), 250);
});

test('a range between two entries shows a part of what is under way', () => {
  const deltas = [delta(1, 0, {}), delta(2, 1000, {})];
  const scale = new Scale(deltas, [], 0, [412.5, 412.9]);
  assert.deepEqual([scale.count(0), scale.count(1)], [1, 1]);
  assert.deepEqual(scale.ticks(10).map(({ value }) => value.toFixed(1)), ['412.5', '412.6', '412.7', '412.8', '412.9']);
});

test('a range that leaves the axis is moved, and one of all of it is the whole run', () => {
  const deltas = Array.from({ length: 11 }, (_, n) => delta(n + 1, n, {}));
  const scale = new Scale(deltas, [], 0, [2, 6]);
  assert.deepEqual(scale.range(-0.75, 0.25), [0, 4]);
  assert.deepEqual(scale.range(1.5, 2.5), [6, Infinity]);
  assert.equal(scale.range(-9, 9), null);
  assert.equal(scale.range(-Infinity, Infinity), null);
});

test('a range to the end goes on with a run that goes on, and another one stays', () => {
  const deltas = [delta(1, 0, {}), delta(2, 10, {})];
  const ends = (range) => [20, 40].map((now) => new Scale(deltas, [], now, range).place(Infinity));
  assert.deepEqual(ends([5, Infinity]), [1, 1]);
  const [sooner, later] = ends([5, 8]);
  assert.ok(1 < sooner && sooner < later);
});

test('an address with a range that is none shows the whole run', () => {
  const deltas = [delta(1, 0, {}), delta(2, 10, {})];
  for (const range of [[NaN, NaN], [5], [8, 5], [70, 90], [-9, 90]]) assert.deepEqual(new Scale(deltas, [], 0, range).places, [0, 1], String(range));
});

test('entries of one time have ranges, too, and times that go back have places that rise', () => {
  const entries = [1, 2, 3, 4, 5].map((seq) => delta(seq, 7, {}));
  assert.deepEqual(new Scale(entries, []).range(0.25, 0.75), [1, 3]);
  assert.deepEqual(new Scale(entries, [], 0, [1, 3]).places, [-0.5, 0, 0.5, 1, 1.5]);
  const back = new Scale([0, 10, 5, 20].map((at, k) => delta(k + 1, at, {})), []);
  assert.deepEqual(back.values, [0, 10, 10, 20]);
});

test('ticks that have the same words as the one before say how much later they are', () => {
  const words = (...values) => tickWords(values.map((value) => ({ value })));
  assert.deepEqual(words(0, 0.5, 9.5, 10), ['0 s', '0.5 s', '9.5 s', '10 s']);
  assert.deepEqual(words(723.2, 723.4, 723.6, 724), ['12:03', '+0.2 s', '+0.4 s', '12:04']);
  assert.deepEqual(words(18_720, 18_740, 18_760, 18_780), ['5 h 12', '+20 s', '+40 s', '5 h 13']);
});

test('a bar that is open, or reaches beyond a range, ends with the axis', () => {
  const deltas = Array.from({ length: 101 }, (_, n) => delta(n + 1, n, {}));
  const bar = (from, to) => ({ id: `attempt:${from}`, lane: 'd', part: 't', name: 't', from, to, status: 'running', row: {} });
  const { placed } = inRows([bar(11, 61), bar(41, null)], new Scale(deltas, [], 0, [20, 70]), 0.01);
  assert.deepEqual(placed.map(({ from, to }) => [from, to].map((x) => Math.round(x * 1e6) / 1e6)), [[0, 0.8], [0.4, 1]]);
});

test('a task waits while its question is open, while its run is blocked, and for an event or a time', () => {
  const row = { status: 'RUNNING', ask: 'q', effect: 'e' };
  assert.equal(statusOf(row, new Map([['ask:q', {}]])), 'waiting');
  assert.equal(statusOf(row, new Map([['child:e', { blocked: true }]])), 'waiting');
  assert.equal(statusOf(row, new Map()), 'running');
  const waits = { ...row, started_at: 10, waits: { event: 'invoice.paid' } };
  assert.deepEqual([statusOf(waits, new Map()), taskWords(waits, 'waiting', 99)], ['waiting', 'for invoice.paid']);
  assert.match(taskWords({ ...waits, waits: { until: 1767225600 } }, 'waiting', 99), /^for (1 Jan 2026|31 Dec 2025)/);
  assert.equal(taskWords({ device: 'd', started_at: 10, ended_at: 12.5 }, 'succeeded', 99), 'd · 2.5 s');
});

test('the time in which a task waits for a place of its device, or for a person, is no work', () => {
  const attempt = (more) => ({ part: 't', device: 'd', began_at: 10, ...more });
  const took = (attempts, status, row = {}) => tookOf('t', { status: 'RUNNING', started_at: 10, ...row }, status, 100, workedIn(new Map(attempts.map((it, n) => [`attempt:${n}`, it])), 100));
  assert.equal(took([attempt({ queued: true })], 'ready', { queued: true }), -1);
  assert.equal(took([attempt({ queued: false, begun_at: 90 })], 'running'), 10);
  assert.equal(took([attempt({ begun_at: 90, ended_at: 91 })], 'failed', { status: 'FAILED', ended_at: 99 }), 1);
  assert.equal(took([attempt({ ended_at: 12 }), attempt({ began_at: 50, begun_at: 60, ended_at: 63 })], 'succeeded'), 5);
  assert.equal(took([attempt({ queued: true, ended_at: 40 })], 'cancelled'), 0);
  assert.equal(took([], 'waiting'), -1);
  assert.equal(took([], 'succeeded', { ended_at: 12 }), 2);
  assert.equal(taskWords({ device: 'd', started_at: 10, ended_at: 99 }, 'succeeded', 100, 5), 'd · 5.0 s');
  assert.equal(taskWords({ device: 'd', started_at: 10, queued: true }, 'ready', 100, 0), 'd · queued');
});

test('the bar of an attempt that waits for a place is queued, and then that of its work', () => {
  const attempt = { 'attempt:1': { began_at: 0, kind: 'dispatch', part: 'a', device: 'd', queued: true } };
  const deltas = [delta(1, 0, attempt), delta(2, 60, { 'attempt:1': { queued: false, begun_at: 60 } }), delta(3, 61, { 'attempt:1': { ended_at: 61 } })];
  const bars = (length) => [...storyOf(deltas.slice(0, length)).bars.values()].map((bar) => [bar.status, bar.from, bar.to]);
  assert.deepEqual([1, 2, 3].map(bars), [[['queued', 1, null]], [['running', 2, null]], [['succeeded', 2, 3]]]);
  assert.deepEqual(new Scale(deltas, storyOf(deltas).bars.values()).gaps.map((gap) => gap.seconds), [60]);
});

test('a copy has lasted since it was made, and at an entry of its origin as long as that', () => {
  const story = storyOf([delta(1, 0, {}), delta(2, 600, {}, { kind: 'forked' }), delta(3, 601, {})]);
  assert.deepEqual([1, 2, 3].map((count) => story.forkedAt(count)), [0, 600, 600]);
});

test('durations have the precision that a reader needs', () => {
  assert.deepEqual([0, 0.04, 0.5, 9.94, 9.96, 59.4, 59.6, 119.9, 3600, 90_000].map(duration), ['0 s', '0 s', '0.5 s', '9.9 s', '10 s', '59 s', '1:00', '2:00', '1 h 00', '1 d 1 h']);
});

test('invisible characters are shown as escapes, and long values as their beginnings', () => {
  assert.equal(visible('a\u202eb\u001b[1m\n'), 'a\\u202eb\\u001b[1m\n');
  assert.equal(visible('a\ud800b\u200b\ufeff\u2028\u{e0041}\r'), 'a\\ud800b\\u200b\\ufeff\\u2028\\u{e0041}\\u000d');
  assert.equal(visible('👩\u200d🚀 ❤\ufe0f ü ש'), '👩\u200d🚀 ❤\ufe0f ü ש');
  assert.equal(brief('🚀🚀', 3), '🚀…');
  assert.equal(textOf({ $long: 5000, beginning: 'abc' }), 'abc…');
  assert.equal(brief('x'.repeat(200), 5), 'xxxxx…');
  assert.equal(brief({ a: [1] }), '{"a":[1]}');
});

test('an integer beyond the precision of numbers is read as it is written', () => {
  const text = '{"id":12345678901234567890,"n":[1,-2.5,0.12345678901234567,1767225602.9000000953674316],"t":"99999999999999999999"}';
  const value = parse(text);
  assert.equal(brief(value), '{"id":12345678901234567890,"n":[1,-2.5,0.12345678901234566,1767225602.9],"t":"99999999999999999999"}');
  assert.equal(brief(parse(`[1${'0'.repeat(400)}]`), 500), `[1${'0'.repeat(400)}]`);
  assert.deepEqual(parse('{"a":[1,null,"x"]}'), { a: [1, null, 'x'] });
});

test('a fan-out shows how many of its items completed, and is not green if one failed', () => {
  const items = { total: 4, completed: 3, failed: 1, cancelled: 0, skipped: 0 };
  const row = { status: 'COMPLETED', device: 'builder', items };
  assert.equal(statusOf(row, new Map()), 'partial');
  assert.equal(taskWords(row, 'partial', 0), '3 of 4, 1 failed · builder');
  assert.equal(itemWords(items), '3 of 4 items, 1 failed');
  assert.equal(statusOf({ ...row, items: { ...items, completed: 4, failed: 0 } }, new Map()), 'succeeded');
});

test('the tasks of a run are counted by how they ended', () => {
  assert.equal(progressWords(['succeeded', 'partial', 'running', 'pending']), '2 of 4 completed');
  assert.equal(progressWords(['succeeded', 'failed', 'cancelled', 'skipped', 'failed']), '1 of 5 completed, 2 failed, 1 cancelled, 1 skipped');
});

test('an attempt of a killed process and the one after it are two bars, and the resume is known', () => {
  const attempt = { began_at: 8, kind: 'dispatch', part: 'a', device: 'd' };
  const owned = (seq, at, put, text) => delta(seq, at, put, { kind: 'ownership_acquired', text });
  const deltas = [
    owned(1, 0, {}, 'owned by host:1'),
    delta(2, 8, { 'attempt:1': attempt, 'attempt:2': attempt }),
    owned(3, 5000, { 'attempt:1': { retried_at: 5000 } }, 'resumed by host:2'),
    delta(4, 5010, { 'attempt:1': { ended_at: 5010 }, 'attempt:2': { ended_at: 5010 } }),
    delta(5, 9000, {}),
  ];
  const { bars, resumes } = storyOf(deltas);
  assert.deepEqual([...bars.values()].filter((bar) => bar.id === 'attempt:1').map((bar) => [bar.from, bar.to, bar.status]), [[2, 3, 'interrupted'], [3, 4, 'succeeded']]);
  assert.deepEqual([bars.get('attempt:2').from, bars.get('attempt:2').to], [2, 4]);
  assert.deepEqual(resumes.map((resume) => [resume.count, resume.delta.text]), [[3, 'resumed by host:2']]);
  const alone = [...bars.values()].filter((bar) => bar.id === 'attempt:1');
  assert.deepEqual(new Scale(deltas, alone).gaps.map((gap) => gap.seconds), [8, 4992, 3990]);
});

test('costs and counts have the digits that matter', () => {
  assert.deepEqual([0, 0.00001, 0.0096, 0.0431, 0.276, 12.345].map(dollars), ['$0', '<$0.0001', '$0.0096', '$0.043', '$0.28', '$12.35']);
  assert.deepEqual([950, 16_130, 999_949, 3_244_500].map(short), ['950', '16.1k', '999.9k', '3.2M']);
});
