// @ts-check
/**
 * One stream of events for everybody in a browser who follows a run or a list. It connects again after each loss, from the
 * last event that it has received. The server sends at least a comment every ten seconds, so silence is a loss, too.
 */
import { cursorsOf, EventReader } from './events.js';

/** Milliseconds without a byte after which the connection counts as lost. */
const SILENCE_MS = 25_000;
/** Milliseconds before the next try: the first time, and at most. */
const FIRST_MS = 500;
const MOST_MS = 15_000;
/** Milliseconds in which changes of what is followed are collected, because each of them needs another connection. */
const COLLECT_MS = 20;
/** Runs that are followed at most. */
const MAX_RUNS = 400;

/**
 * What a subscriber sends.
 * @typedef {{follow: string, after: number} | {leave: string} | {topic: string, on: boolean} | {hurry: true}} Request
 */
/**
 * What a subscriber receives. `deltas` is the data of an event as text, because numbers in it may be too large for a copy.
 * @typedef {{deltas: string} | {reset: string} | {problem: string, detail: string} | {changed: string, ids: string[] | null} | {liveness: Liveness} | {loggedOut: true}} Message
 */
/** @typedef {{state: 'connecting' | 'live' | 'lost', since: number}} Liveness `since` in seconds since 1970: of `lost`, the last sign of the server */
/** @typedef {{runs: Set<string>, topics: Set<string>, post: (message: Message) => void}} Subscriber */
/** @typedef {{request: typeof fetch, now: () => number}} World */

export class Stream {
  /** @param {World} [world] */
  constructor(world = { request: (...given) => fetch(...given), now: () => Date.now() / 1000 }) {
    this.world = world;
    /** @type {Set<Subscriber>} */
    this.subscribers = new Set();
    /** @type {Map<string, number>} seq of the last entry that was received, by run */
    this.cursors = new Map();
    /** @type {Liveness} */
    this.liveness = { state: 'connecting', since: world.now() };
    this.lastByte = 0;
    /** @type {AbortController | null} the connection */
    this.connection = null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.wait = FIRST_MS;
  }

  /**
   * Add a subscriber; returns the function that takes its requests.
   * @param {(message: Message) => void} post
   */
  add(post) {
    /** @type {Subscriber} */
    const subscriber = { runs: new Set(), topics: new Set(), post };
    this.subscribers.add(subscriber);
    post({ liveness: this.liveness });
    return { receive: (/** @type {Request} */ request) => this.receive(subscriber, request), remove: () => this.remove(subscriber) };
  }

  /**
   * @param {Subscriber} subscriber
   * @param {Request} request
   */
  receive(subscriber, request) {
    if ('hurry' in request) {
      if (this.liveness.state === 'lost') this.again(0);
    } else if ('follow' in request) this.follow(subscriber, request.follow, request.after);
    else if ('leave' in request) {
      subscriber.runs.delete(request.leave);
      this.prune();
    } else if (!request.on) {
      subscriber.topics.delete(request.topic);
      this.prune();
    } else {
      const isNew = !this.topics().has(request.topic);
      subscriber.topics.add(request.topic);
      if (isNew) this.again(COLLECT_MS);
      else subscriber.post({ changed: request.topic, ids: null });
    }
  }

  /**
   * @param {Subscriber} subscriber
   * @param {string} run
   * @param {number} after
   */
  follow(subscriber, run, after) {
    const cursor = this.cursors.get(run);
    if (cursor === undefined && this.cursors.size >= MAX_RUNS) {
      subscriber.post({ problem: run, detail: `More than ${MAX_RUNS} runs are followed in this browser; close some of their pages.` });
      return;
    }
    subscriber.runs.add(run);
    if (cursor !== undefined && cursor <= after) return;
    if (cursor !== undefined) this.stop(); // before its next event sets the cursor
    this.cursors.set(run, after); // those who have more of it ignore what comes again
    this.again(COLLECT_MS);
  }

  /** @param {Subscriber} subscriber */
  remove(subscriber) {
    this.subscribers.delete(subscriber);
    this.prune();
  }

  /** Stop following what nobody follows any more. The next connection is without it; this one may go on. */
  prune() {
    const runs = new Set([...this.subscribers].flatMap((it) => [...it.runs]));
    for (const run of [...this.cursors.keys()]) if (!runs.has(run)) this.cursors.delete(run);
    if (!this.cursors.size && !this.topics().size) this.stop();
  }

  /** Return the topics that somebody follows. */
  topics() {
    return new Set([...this.subscribers].flatMap((it) => [...it.topics]));
  }

  /** End the connection. */
  stop() {
    clearTimeout(this.timer);
    this.connection?.abort();
    this.connection = null;
  }

  /**
   * Connect, or connect again, after a while.
   * @param {number} ms
   */
  again(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.connect(), ms);
  }

  async connect() {
    this.stop();
    const topics = this.topics();
    if (!this.cursors.size && !topics.size) return;
    const connection = (this.connection = new AbortController());
    let silence = setTimeout(() => connection.abort(), SILENCE_MS);
    try {
      const query = [...[...this.cursors].map(([run, seq]) => ['run', `${run}@${seq}`]), ...[...topics].map((topic) => ['topic', topic])];
      const answer = await this.world.request(`/api/stream?${new URLSearchParams(query)}`, { signal: connection.signal, headers: { Accept: 'text/event-stream' } });
      if (!answer.ok) await this.refused(answer);
      else {
        const events = new EventReader();
        const body = /** @type {ReadableStream<Uint8Array>} */ (answer.body);
        const reader = body.pipeThrough(/** @type {any} */ (new TextDecoderStream())).getReader();
        for (;;) {
          const { done, value } = await reader.read();
          if (done || this.connection !== connection) break;
          clearTimeout(silence);
          silence = setTimeout(() => connection.abort(), SILENCE_MS);
          this.heard();
          for (const event of events.read(value)) {
            this.take(event);
            this.wait = FIRST_MS; // a server whose events cannot be read is asked less and less often
          }
        }
      }
    } catch {
      // Below, the connection is made again. A refusal of the browser has no more to say than that there is none.
    } finally {
      clearTimeout(silence);
      connection.abort();
    }
    if (this.connection !== connection) return; // another one has replaced it
    this.connection = null;
    this.say({ state: 'lost', since: this.lastByte || this.liveness.since });
    this.again(this.wait);
    this.wait = Math.min(MOST_MS, this.wait * 2);
  }

  /** Note a sign of the server. */
  heard() {
    this.lastByte = this.world.now();
    if (this.liveness.state !== 'live') this.say({ state: 'live', since: this.lastByte });
  }

  /** @param {Liveness} liveness */
  say(liveness) {
    if (liveness.state === this.liveness.state) return;
    this.liveness = liveness;
    this.post(() => true, { liveness });
  }

  /**
   * @param {(subscriber: Subscriber) => boolean} to
   * @param {Message} message
   */
  post(to, message) {
    for (const subscriber of this.subscribers) if (to(subscriber)) subscriber.post(message);
  }

  /** @param {import('./events.js').ServerEvent} event */
  take({ kind, data, id }) {
    for (const [run, seq] of cursorsOf(id)) if (this.cursors.has(run)) this.cursors.set(run, seq);
    const value = JSON.parse(data);
    if (kind === 'deltas') {
      const runs = value.map((/** @type {{run: string}} */ it) => it.run);
      this.post((it) => runs.some((/** @type {string} */ run) => it.runs.has(run)), { deltas: data });
    } else if (kind === 'changed') this.post((it) => it.topics.has(value.topic), { changed: value.topic, ids: value.ids });
    else if (kind === 'reset') this.post((it) => it.runs.has(value.run), { reset: value.run });
    else if (kind === 'problem' && value.run) this.drop(value.run, value.detail);
  }

  /**
   * Stop following a run that cannot be followed, so that it does not keep the others from it.
   * @param {string} run
   * @param {string} detail
   */
  drop(run, detail) {
    this.cursors.delete(run);
    for (const subscriber of this.subscribers) if (subscriber.runs.delete(run)) subscriber.post({ problem: run, detail });
  }

  /**
   * Take a refusal: of a run among those that are followed, or of everything.
   * @param {Response} answer
   */
  async refused(answer) {
    const { detail = '', run = '' } = await answer.json().catch(() => ({}));
    if (answer.status === 401) this.post(() => true, { loggedOut: true });
    if (this.cursors.has(run)) this.drop(run, detail);
    else if (answer.status === 404 || answer.status === 409) for (const each of [...this.cursors.keys()]) this.drop(each, detail);
  }
}
