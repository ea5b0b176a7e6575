// The stream of events that all tabs share: how it connects, loses the server, connects again, and whom it tells what.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cursorsOf, EventReader } from '../../../src/asterism/console/web/live/events.js';
import { Stream } from '../../../src/asterism/console/web/live/stream.js';

/** Let everything happen that waits for no timer. */
const settled = async () => {
  for (let turns = 0; turns < 20; turns++) await new Promise((resolve) => setImmediate(resolve));
};

const event = (kind, data, id = '') => `${id ? `id: ${id}\n` : ''}event: ${kind}\ndata: ${JSON.stringify(data)}\n\n`;
const deltas = (run, ...seqs) => event('deltas', [{ run, deltas: seqs.map((seq) => ({ seq })) }], `${run}@${seqs.at(-1)}`);

/** A server whose connections the test holds in its hands, and a stream to it in virtual time. */
class Server {
  /** @param {any} context of the test */
  constructor(context) {
    this.timers = context.mock.timers;
    this.timers.enable({ apis: ['setTimeout'] });
    this.now = 1000;
    this.connections = [];
    this.answers = [];
    this.stream = new Stream({ request: (path, { signal }) => this.connect(path, signal), now: () => this.now });
  }

  connect(path, signal) {
    const given = this.answers.shift();
    const asked = [...new URL(path, 'http://x').searchParams].map(([name, value]) => `${name}=${value}`);
    const connection = { asked, signal, write: null, end: null, cut: null };
    this.connections.push(connection);
    if (given instanceof Error) return Promise.reject(given);
    if (given) return Promise.resolve(given);
    const body = new ReadableStream({
      start(controller) {
        connection.write = (text) => controller.enqueue(new TextEncoder().encode(text));
        connection.end = () => controller.close();
        connection.cut = () => controller.error(new TypeError('network error'));
        signal.addEventListener('abort', () => controller.error(signal.reason));
      },
    });
    return Promise.resolve(new Response(body));
  }

  get last() {
    return this.connections.at(-1);
  }

  async pass(ms) {
    this.now += ms / 1000;
    this.timers.tick(ms);
    await settled();
  }

  async write(text) {
    this.last.write(text);
    await settled();
  }

  /** Add a tab; returns what it receives, without the liveness, and its requests. */
  tab() {
    const received = [];
    const liveness = [];
    const { receive, remove } = this.stream.add((message) => ('liveness' in message ? liveness : received).push(message.liveness ?? message));
    return { received, liveness, receive, remove };
  }
}

test('events are read wherever the text is cut', () => {
  const text = `: comment\n\n${event('deltas', [{ run: 'r', text: 'a: b\u2028c' }], 'r@1')}: \n\n${event('changed', { topic: 'runs', ids: null })}`;
  const whole = new EventReader().read(text);
  assert.deepEqual(whole.map((it) => [it.kind, it.id, JSON.parse(it.data)]), [['deltas', 'r@1', [{ run: 'r', text: 'a: b\u2028c' }]], ['changed', '', { topic: 'runs', ids: null }]]);
  for (let at = 0; at <= text.length; at++) {
    const reader = new EventReader();
    assert.deepEqual([...reader.read(text.slice(0, at)), ...reader.read(text.slice(at))], whole);
  }
});

test('the cursors of an event are those that its id lists', () => {
  assert.deepEqual([...cursorsOf('260101-a@5,260101-a.3.0@12')], [['260101-a', 5], ['260101-a.3.0', 12]]);
  assert.deepEqual([...cursorsOf('')], []);
});

test('what several tabs follow is one connection, and each receives its own', async (context) => {
  const server = new Server(context);
  const [a, b] = [server.tab(), server.tab()];
  a.receive({ follow: 'r', after: 3 });
  a.receive({ topic: 'runs', on: true });
  b.receive({ follow: 's', after: 0 });
  await server.pass(20);
  assert.deepEqual(server.connections.map((it) => it.asked), [['run=r@3', 'run=s@0', 'topic=runs']]);
  await server.write(deltas('r', 4) + event('changed', { topic: 'runs', ids: ['s'] }) + deltas('s', 1, 2));
  assert.deepEqual(a.received.map((it) => it.deltas ?? it.ids), ['[{"run":"r","deltas":[{"seq":4}]}]', ['s']]);
  assert.deepEqual(b.received.map((it) => it.deltas), ['[{"run":"s","deltas":[{"seq":1},{"seq":2}]}]']);
  assert.deepEqual([a.liveness.at(-1).state, b.liveness.at(-1).state], ['live', 'live']);
});

test('a lost connection is made again from the last event, later each time, and says since when there was no sign', async (context) => {
  const server = new Server(context);
  const tab = server.tab();
  tab.receive({ follow: 'r', after: 0 });
  await server.pass(20);
  await server.write(deltas('r', 1, 2));
  const heard = server.now;
  await server.pass(5000);
  server.answers = Array.from({ length: 7 }, () => new TypeError('Failed to fetch'));
  server.last.cut();
  await settled();
  assert.deepEqual(tab.liveness.at(-1), { state: 'lost', since: heard });
  const waits = [];
  for (let tries = server.connections.length; waits.length < 7; tries = server.connections.length) {
    let waited = 0;
    for (; server.connections.length === tries; waited += 500) await server.pass(500);
    waits.push(waited);
  }
  assert.deepEqual(waits, [500, 1000, 2000, 4000, 8000, 15_000, 15_000]);
  assert.deepEqual(tab.liveness.at(-1), { state: 'lost', since: heard });
  await server.pass(15_000);
  await server.write(deltas('r', 3));
  assert.deepEqual([server.last.asked, tab.liveness.at(-1).state], [['run=r@2'], 'live']);
});

test('a server that sends halves of events, or what is none, is asked less and less often', async (context) => {
  const server = new Server(context);
  const tab = server.tab();
  tab.receive({ follow: 'r', after: 0 });
  await server.pass(20);
  const waits = [];
  for (const text of [deltas('r', 1).slice(0, 30), 'event: deltas\ndata: {no\n\n', ': \n\n', deltas('r', 1), deltas('r', 2)]) {
    await server.write(text);
    const tries = server.connections.length;
    if (server.last.signal.aborted === false) server.last.end();
    await settled();
    let waited = 0;
    for (; server.connections.length === tries; waited += 500) await server.pass(500);
    waits.push(waited);
  }
  assert.deepEqual(waits, [500, 1000, 2000, 500, 500]);
  assert.deepEqual(tab.received.map((it) => JSON.parse(it.deltas)[0].deltas[0].seq), [1, 2]);
});

test('a tab that is looked at again does not wait for the next try', async (context) => {
  const server = new Server(context);
  const tab = server.tab();
  tab.receive({ topic: 'runs', on: true });
  server.answers = Array.from({ length: 6 }, () => new TypeError('Failed to fetch'));
  await server.pass(20);
  for (const ms of [500, 1000, 2000, 4000]) await server.pass(ms);
  assert.equal(server.connections.length, 5);
  tab.receive({ hurry: true });
  await server.pass(0);
  assert.equal(server.connections.length, 6);
});

test('silence is a loss, and a comment is a sign', async (context) => {
  const server = new Server(context);
  const tab = server.tab();
  tab.receive({ topic: 'runs', on: true });
  await server.pass(20);
  await server.write(': \n\n');
  for (let times = 0; times < 3; times++) {
    await server.pass(20_000);
    await server.write(': \n\n');
  }
  assert.equal(tab.liveness.at(-1).state, 'live');
  await server.pass(25_000);
  assert.deepEqual([tab.liveness.at(-1).state, server.connections[0].signal.aborted], ['lost', true]);
  await server.pass(500);
  assert.equal(server.connections.length, 2);
});

test('a tab that has less of a run than the others makes the stream begin earlier', async (context) => {
  const server = new Server(context);
  const [a, b] = [server.tab(), server.tab()];
  a.receive({ follow: 'r', after: 0 });
  await server.pass(20);
  await server.write(deltas('r', 1, 2, 3));
  b.receive({ follow: 'r', after: 1 });
  await server.pass(20);
  assert.deepEqual([server.connections.length, server.last.asked, server.connections[0].signal.aborted], [2, ['run=r@1'], true]);
  b.receive({ follow: 'r', after: 9 });
  await server.pass(20);
  assert.equal(server.connections.length, 2);
});

test('a list that another tab follows already is read at once by a second one', async (context) => {
  const server = new Server(context);
  const [a, b] = [server.tab(), server.tab()];
  a.receive({ topic: 'inquiries', on: true });
  await server.pass(20);
  b.receive({ topic: 'inquiries', on: true });
  await server.pass(20);
  assert.deepEqual([server.connections.length, a.received, b.received], [1, [], [{ changed: 'inquiries', ids: null }]]);
});

test('a run that nobody follows any more is not in the next connection, and without any there is none', async (context) => {
  const server = new Server(context);
  const [a, b] = [server.tab(), server.tab()];
  a.receive({ follow: 'r', after: 0 });
  b.receive({ follow: 's', after: 0 });
  await server.pass(20);
  a.receive({ leave: 'r' });
  server.last.end();
  await settled();
  await server.pass(500);
  assert.deepEqual(server.last.asked, ['run=s@0']);
  b.remove(); // the tab is closed
  assert.equal(server.last.signal.aborted, true);
  await server.pass(60_000);
  assert.equal(server.connections.length, 2);
});

test('a run that cannot be followed says why, and does not keep the others from it', async (context) => {
  const server = new Server(context);
  const tab = server.tab();
  server.answers = [new Response(JSON.stringify({ detail: 'There is no run 260101-b.', run: '260101-b' }), { status: 404 })];
  tab.receive({ follow: '260101-a', after: 0 });
  tab.receive({ follow: '260101-b', after: 0 });
  await server.pass(20);
  assert.deepEqual(tab.received, [{ problem: '260101-b', detail: 'There is no run 260101-b.' }]);
  await server.pass(500);
  assert.deepEqual(server.last.asked, ['run=260101-a@0']);
  await server.write(event('problem', { run: '260101-a', detail: 'Its journal is newer.' }));
  assert.deepEqual(tab.received.at(-1), { problem: '260101-a', detail: 'Its journal is newer.' });
});

test('D6: a refusal ends the run that it names, and none whose id is a part of that', async (context) => {
  const server = new Server(context);
  const tab = server.tab();
  server.answers = [new Response(JSON.stringify({ detail: 'There is no run backup-2.', run: 'backup-2' }), { status: 404 })];
  for (const run of ['backup', 'backup-2', 'backup-2.1.0']) tab.receive({ follow: run, after: 0 });
  await server.pass(20);
  assert.deepEqual(tab.received, [{ problem: 'backup-2', detail: 'There is no run backup-2.' }]);
  await server.pass(500);
  assert.deepEqual(server.last.asked, ['run=backup@0', 'run=backup-2.1.0@0']);
});

test('a session that has ended is said, and one that is not refused by name stays followed', async (context) => {
  const server = new Server(context);
  const tab = server.tab();
  server.answers = [new Response('{}', { status: 401 }), new Response('{}', { status: 503 })];
  tab.receive({ follow: 'r', after: 7 });
  await server.pass(20);
  assert.deepEqual(tab.received, [{ loggedOut: true }]);
  await server.pass(500);
  await server.pass(1000);
  assert.deepEqual(server.last.asked, ['run=r@7']);
});

test('no more runs are followed than the server takes, and the next one is told', async (context) => {
  const server = new Server(context);
  const tab = server.tab();
  for (let number = 0; number <= 400; number++) tab.receive({ follow: `r${number}`, after: 0 });
  await server.pass(20);
  assert.equal(server.last.asked.length, 400);
  assert.deepEqual(tab.received.map((it) => it.problem), ['r400']);
});
