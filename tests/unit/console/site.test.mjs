// Addresses of pages, requests to the API, and what a page may do.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Api, Problem } from '../../../src/asterism/console/web/live/api.js';
import { sendOnce } from '../../../src/asterism/console/web/live/commands.js';
import { match } from '../../../src/asterism/console/web/live/router.js';
import { Site } from '../../../src/asterism/console/web/live/site.js';
import { store, stored } from '../../../src/asterism/console/web/live/stored.js';

const ROUTES = [['/', 'home-page'], ['/runs', 'runs-page'], ['/runs/:id', 'run-page']];

/** Return an API whose requests are answered by these, in order; and the requests. */
function answered(...answers) {
  const requests = [];
  const loggedOut = [];
  const request = (path, options) => {
    requests.push({ path, ...options });
    const answer = answers.shift();
    return answer instanceof Response ? Promise.resolve(answer) : Promise.reject(answer);
  };
  return { api: new Api(() => loggedOut.push(true), request), requests, loggedOut };
}

/** Return an answer whose body comes in these parts. */
const inParts = (...parts) => new Response(ReadableStream.from(parts.filter((part) => part.length)));
const bytes = (text) => new TextEncoder().encode(text);

test('an address has a page by its parts, and a part may be any text', () => {
  assert.deepEqual(match(ROUTES, '/'), { tag: 'home-page', params: {} });
  assert.deepEqual(match(ROUTES, '/runs/'), { tag: 'runs-page', params: {} });
  assert.deepEqual(match(ROUTES, '/runs/260101-a.3.0'), { tag: 'run-page', params: { id: '260101-a.3.0' } });
  assert.deepEqual(match(ROUTES, '/runs/a%2Fb%20%3Cb%3E'), { tag: 'run-page', params: { id: 'a/b <b>' } });
  assert.deepEqual(match(ROUTES, '/runs/%E0%A4%A'), { tag: 'run-page', params: { id: '%E0%A4%A' } });
  assert.equal(match(ROUTES, '/runs/a/b'), null);
  assert.equal(match(ROUTES, '/nothing'), null);
});

test('who is logged in may do what their permissions say', () => {
  const site = new Site(/** @type {any} */ ({}), /** @type {any} */ ({}), { name: 'a', roles: ['approver'], permissions: ['view', 'answer'], tenant: '' });
  assert.deepEqual(['view', 'submit', 'command', 'edit', 'answer', 'admin'].filter((it) => site.may(it)), ['view', 'answer']);
});

test('the time of a lost server is that of its last sign, and goes on by its clock otherwise', () => {
  const site = new Site(/** @type {any} */ ({ skew: 100 }), /** @type {any} */ ({ liveness: { state: 'lost', since: 5 } }), { name: '', roles: [], permissions: [], tenant: '' });
  assert.deepEqual([site.now(), site.isLive], [105, false]);
  site.channel.liveness = { state: 'live', since: 5 };
  assert.ok(site.now() > Date.now() / 1000 + 99);
});

test('a refusal is a problem with what the server says, and 401 says that nobody is logged in', async () => {
  const { api, loggedOut } = answered(new Response('{"title":"Conflict","detail":"It was answered.","answer":"approve by ann"}', { status: 409 }), new Response('<html>', { status: 502, statusText: 'Bad Gateway' }), new Response('{}', { status: 401 }), new TypeError('Failed to fetch'));
  await assert.rejects(api.get('/a'), (error) => error instanceof Problem && error.status === 409 && error.message === 'It was answered.' && error.body.answer === 'approve by ann');
  await assert.rejects(api.get('/a'), { status: 502, detail: 'The server answered 502, Bad Gateway.' });
  assert.deepEqual(loggedOut, []);
  await assert.rejects(api.get('/a'), { status: 401 });
  assert.deepEqual(loggedOut, [true]);
  await assert.rejects(api.get('/a'), { status: 0, detail: 'The server cannot be reached.' });
});

test('lines are values wherever the text is cut, also inside a character', async () => {
  const text = bytes('{"a":"ü"}\n\n[12345678901234567890]\n"last"');
  for (let at = 0; at <= text.length; at++) {
    const { api } = answered(inParts(text.slice(0, at), text.slice(at)));
    const values = [];
    for await (const part of api.lines('/a')) values.push(...part);
    assert.equal(JSON.stringify(values), '[{"a":"ü"},[12345678901234567890],"last"]');
  }
});

test('lines that break off are a problem', async () => {
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(bytes('1\n2'));
    },
    pull(controller) {
      controller.error(new TypeError('network error'));
    },
  });
  const { api } = answered(new Response(body));
  const read = async () => {
    for await (const part of api.lines('/a')) assert.deepEqual(part, [1]);
  };
  await assert.rejects(read(), { status: 0, detail: 'The server cannot be reached.' });
});

test('a command without an answer is sent again under its key, three times at most', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const failure = () => new TypeError('Failed to fetch');
  for (const [answers, tries] of /** @type {[any[], number][]} */ ([[[failure(), new Response('{"verdict":"accepted"}')], 2], [[failure(), failure(), failure()], 3], [[new Response('{"detail":"no"}', { status: 409 })], 1]])) {
    const { api, requests } = answered(...answers);
    let ended = false;
    const sent = sendOnce(/** @type {any} */ ({ api }), '/a', { command: 'pause' }).catch((error) => error).finally(() => (ended = true));
    for (let turns = 0; turns < 50 && !ended; turns++) {
      await new Promise((resolve) => setImmediate(resolve));
      context.mock.timers.tick(1000);
    }
    await sent;
    assert.deepEqual([ended, requests.length, new Set(requests.map((it) => it.headers['Idempotency-Key'])).size], [true, tries, 1]);
  }
});

test('a command whose answers were all lost has its key when it is given again, and any other a new one', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const [failure, taken] = [() => new TypeError('Failed to fetch'), () => new Response('{"verdict":"accepted"}')];
  const keys = [];
  const given = async (body, ...answers) => {
    const { api, requests } = answered(...answers);
    let ended = false;
    void sendOnce(/** @type {any} */ ({ api }), '/a', body).catch(() => {}).finally(() => (ended = true));
    for (let turns = 0; turns < 50 && !ended; turns++) {
      await new Promise((resolve) => setImmediate(resolve));
      context.mock.timers.tick(1000);
    }
    keys.push(...new Set(requests.map((it) => it.headers['Idempotency-Key'])));
  };
  await given({ command: 'fork', at: 3 }, failure(), failure(), failure());
  await given({ command: 'fork', at: 3 }, taken());
  await given({ command: 'fork', at: 3 }, failure(), failure(), failure());
  await given({ command: 'fork', at: 4 }, failure(), new Response('{"detail":"no"}', { status: 409 }));
  await given({ command: 'fork', at: 4 }, taken());
  assert.deepEqual(keys.map((key) => keys.indexOf(key)), [0, 0, 2, 3, 4]);
  keys.length = 0;
  for (const at of [5, 6, 5, 6]) await given({ command: 'fork', at }, ...(keys.length < 2 ? [failure(), failure(), failure()] : [taken()]));
  assert.deepEqual(keys.map((key) => keys.indexOf(key)), [0, 1, 0, 1]);
});

test('what a browser does not store is there until the page is loaded again', () => {
  assert.equal(stored('localStorage', 'a'), '');
  store('localStorage', 'a', 'b');
  assert.equal(stored('localStorage', 'a'), 'b');
});
