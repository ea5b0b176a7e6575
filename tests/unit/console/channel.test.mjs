// What a page takes from the stream: the deltas of its run in order and once, and the lists that change.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Channel } from '../../../src/asterism/console/web/live/channel.js';

/** Return a channel, what it has sent to the stream, and a function that gives it deltas. */
function opened() {
  const sent = [];
  const channel = new Channel(() => (request) => sent.push(request));
  const give = (run, ...seqs) => channel.take({ deltas: JSON.stringify([{ run, deltas: seqs.map((seq) => ({ seq })) }]) });
  return { channel, sent, give };
}

const seqs = (received) => received.map((deltas) => deltas?.map((it) => it.seq) ?? null);

test('deltas that come again are left out', () => {
  const { channel, give } = opened();
  const received = [];
  channel.follow('r', 2, (deltas) => received.push(deltas));
  give('r', 1, 2);
  give('r', 2, 3, 4);
  give('r', 4);
  give('s', 5);
  assert.deepEqual(seqs(received), [[3, 4]]);
});

test('a gap is not taken: the deltas are asked for again', () => {
  const { channel, sent, give } = opened();
  const received = [];
  channel.follow('r', 2, (deltas) => received.push(deltas));
  give('r', 5, 6);
  assert.deepEqual([received, sent], [[], [{ follow: 'r', after: 2 }, { follow: 'r', after: 2 }]]);
  give('r', 3, 4, 5, 6);
  assert.deepEqual(seqs(received), [[3, 4, 5, 6]]);
});

test('a stream that knows nothing is asked for all that is followed, from where each is', () => {
  const { channel, sent, give } = opened();
  const received = [];
  channel.follow('r', 2, (deltas) => received.push(deltas));
  channel.follow('left', 0, () => {})();
  channel.onTopic('runs', () => {});
  give('r', 3, 4);
  sent.length = 0;
  channel.again();
  assert.deepEqual(sent, [{ follow: 'r', after: 4 }, { topic: 'runs', on: true }]);
});

test('two parts of a page follow the same run from where each is, and it is left by the last', () => {
  const { channel, sent, give } = opened();
  const [one, two] = [[], []];
  const stopOne = channel.follow('r', 0, (deltas) => one.push(deltas));
  const stopTwo = channel.follow('r', 2, (deltas) => two.push(deltas));
  give('r', 1, 2, 3);
  assert.deepEqual([seqs(one), seqs(two)], [[[1, 2, 3]], [[3]]]);
  stopOne();
  assert.deepEqual(sent.filter((it) => 'leave' in it), []);
  stopTwo();
  stopTwo();
  assert.deepEqual(sent.filter((it) => 'leave' in it), [{ leave: 'r' }]);
});

test('a run that cannot be continued, or not be followed, ends for everybody who follows it', () => {
  const { channel, sent, give } = opened();
  const received = [];
  channel.follow('r', 0, (deltas, problem) => received.push([deltas, problem]));
  channel.take({ reset: 'r' });
  channel.follow('s', 0, (deltas, problem) => received.push([deltas, problem]));
  channel.take({ problem: 's', detail: 'Its journal is newer.' });
  give('r', 1);
  assert.deepEqual(received, [[null, undefined], [null, 'Its journal is newer.']]);
  assert.deepEqual(sent.filter((it) => 'leave' in it), [{ leave: 'r' }, { leave: 's' }]);
});

test('integers of deltas are not rounded', { skip: !('rawJSON' in JSON) }, () => {
  const { channel } = opened();
  const received = [];
  channel.follow('r', 0, (deltas) => received.push(...(deltas ?? [])));
  channel.take({ deltas: '[{"run":"r","deltas":[{"seq":1,"put":{"task:a":{"result":12345678901234567890}}}]}]' });
  assert.equal(JSON.stringify(received[0].put['task:a'].result), '12345678901234567890');
});

test('a listener may stop while a list changes, and the topic is left by the last', () => {
  const { channel, sent } = opened();
  const received = [];
  const stop = channel.onTopic('runs', (ids) => (received.push(['one', ids]), stop()));
  const stopTwo = channel.onTopic('runs', (ids) => received.push(['two', ids]));
  channel.take({ changed: 'runs', ids: ['r'] });
  channel.take({ changed: 'runs', ids: null });
  channel.take({ changed: 'devices', ids: null });
  assert.deepEqual(received, [['one', ['r']], ['two', ['r']], ['two', null]]);
  stopTwo();
  assert.deepEqual(sent.at(-1), { topic: 'runs', on: false });
});

test('liveness is said at once, and whenever it changes', () => {
  const { channel } = opened();
  const seen = [];
  const stop = channel.watch((liveness) => seen.push(liveness.state));
  channel.take({ liveness: { state: 'live', since: 1 } });
  channel.take({ liveness: { state: 'lost', since: 1 } });
  stop();
  channel.take({ liveness: { state: 'live', since: 2 } });
  assert.deepEqual(seen, ['connecting', 'live', 'lost']);
  assert.deepEqual(channel.liveness, { state: 'live', since: 2 });
});
