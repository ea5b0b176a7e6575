// @ts-check
/** What a page follows: the deltas of runs, and lists that change. One worker follows for all tabs of a browser. */
import { parse } from '../json.js';
import { Stream } from './stream.js';

/** @typedef {import('../fold.js').Delta} Delta */
/** @typedef {import('./stream.js').Liveness} Liveness */
/** @typedef {import('./stream.js').Message} Message */
/** @typedef {(request: import('./stream.js').Request) => void} Post */
/**
 * Takes the next deltas of a run, in order and without a gap. Null says that they cannot be continued: load the run again.
 * @typedef {(deltas: Delta[] | null, problem?: string) => void} OnDeltas
 */

/** Milliseconds after the end of the worker until another one is started. */
const AGAIN_MS = 1000;

export class Channel {
  /** @param {(take: (message: Message) => void) => Post} connect returns the function that sends to the stream */
  constructor(connect) {
    /** @type {Map<string, Set<{last: number, onDeltas: OnDeltas}>>} */
    this.followers = new Map();
    /** @type {Map<string, Set<(ids: string[] | null) => void>>} */
    this.topics = new Map();
    /** @type {Liveness} */
    this.liveness = { state: 'connecting', since: Date.now() / 1000 };
    /** @type {Set<(liveness: Liveness) => void>} */
    this.watchers = new Set();
    /** Called when nobody is logged in any more. */
    this.onLoggedOut = () => {};
    this.post = connect((message) => this.take(message));
  }

  /**
   * Follow a run; returns the function that stops.
   * @param {string} run
   * @param {number} after seq of the last entry that the caller has
   * @param {OnDeltas} onDeltas
   */
  follow(run, after, onDeltas) {
    const follower = { last: after, onDeltas };
    const followers = added(this.followers, run, follower);
    this.post({ follow: run, after });
    return () => {
      if (!followers.delete(follower) || followers.size) return;
      this.followers.delete(run);
      this.post({ leave: run });
    };
  }

  /**
   * Follow a list: `runs`, `inquiries` or `devices`. The first call comes soon; null asks to read the whole list.
   * @param {string} topic
   * @param {(ids: string[] | null) => void} onIds
   */
  onTopic(topic, onIds) {
    const listeners = added(this.topics, topic, onIds);
    this.post({ topic, on: true });
    return () => {
      if (!listeners.delete(onIds) || listeners.size) return;
      this.topics.delete(topic);
      this.post({ topic, on: false });
    };
  }

  /**
   * Be called with the liveness now, and whenever it changes; returns the function that stops.
   * @param {(liveness: Liveness) => void} watcher
   */
  watch(watcher) {
    this.watchers.add(watcher);
    watcher(this.liveness);
    return () => void this.watchers.delete(watcher);
  }

  /** Ask for everything again, of a stream that knows nothing of it. */
  again() {
    for (const [run, followers] of this.followers) for (const { last } of followers) this.post({ follow: run, after: last });
    for (const topic of this.topics.keys()) this.post({ topic, on: true });
  }

  /** @param {Message} message */
  take(message) {
    if ('deltas' in message) for (const batch of parse(message.deltas)) this.next(batch.run, batch.deltas);
    else if ('changed' in message) for (const listener of [...(this.topics.get(message.changed) ?? [])]) listener(message.ids);
    else if ('reset' in message) this.end(message.reset);
    else if ('problem' in message) this.end(message.problem, message.detail);
    else if ('loggedOut' in message) this.onLoggedOut();
    else {
      this.liveness = message.liveness;
      for (const watcher of [...this.watchers]) watcher(message.liveness);
    }
  }

  /**
   * @param {string} run
   * @param {Delta[]} deltas
   */
  next(run, deltas) {
    for (const follower of [...(this.followers.get(run) ?? [])]) {
      const fresh = deltas.filter((delta) => delta.seq > follower.last);
      if (!fresh.length) continue;
      if (fresh[0].seq !== follower.last + 1) {
        this.post({ follow: run, after: follower.last }); // it joined a stream that was ahead
        continue;
      }
      follower.last = fresh[fresh.length - 1].seq;
      follower.onDeltas(fresh);
    }
  }

  /**
   * @param {string} run
   * @param {string} [problem]
   */
  end(run, problem) {
    const followers = [...(this.followers.get(run) ?? [])];
    this.followers.delete(run);
    this.post({ leave: run });
    for (const follower of followers) follower.onDeltas(null, problem);
  }
}

/**
 * @template T
 * @param {Map<string, Set<T>>} sets
 * @param {string} name
 * @param {T} item
 */
function added(sets, name, item) {
  const set = sets.get(name) ?? new Set();
  sets.set(name, set);
  return set.add(item);
}

/** Return a channel over the worker of the browser, or, where there is none or it is refused, over a stream of this tab. */
export function openChannel() {
  /** @type {Post} */
  let post;
  const channel = new Channel((take) => {
    const connect = () => (post = connected(take, lost));
    const lost = () => {
      take({ liveness: { state: 'lost', since: Date.now() / 1000 } });
      setTimeout(() => (connect(), channel.again()), AGAIN_MS);
    };
    connect();
    return (request) => post(request);
  });
  const hurry = () => document.visibilityState === 'visible' && post({ hurry: true });
  document.addEventListener('visibilitychange', hurry);
  addEventListener('online', hurry);
  return channel;
}

/**
 * @param {(message: Message) => void} take
 * @param {() => void} lost
 * @returns {Post}
 */
function connected(take, lost) {
  try {
    return overWorker(take, lost);
  } catch {
    return overTab(take);
  }
}

/**
 * @param {(message: Message) => void} take
 * @param {() => void} lost called when the worker has ended, however it did, or could not be loaded
 * @returns {Post}
 */
function overWorker(take, lost) {
  const url = new URL('./worker.js', import.meta.url);
  const worker = new SharedWorker(url, { type: 'module', name: 'asterism' });
  const { port } = worker;
  const lock = `asterism ${crypto.randomUUID()}`;
  const ended = () => {
    port.onmessage = worker.onerror = null;
    lost();
  };
  worker.onerror = ended;
  port.addEventListener('message', () => void navigator.locks.request(url.href, { mode: 'shared' }, ended), { once: true }); // the worker has it by then
  port.onmessage = ({ data }) => take(data);
  void navigator.locks.request(lock, () => {
    port.postMessage({ lock });
    return new Promise(() => {}); // until the tab is closed
  });
  return (request) => port.postMessage(request);
}

/**
 * @param {(message: Message) => void} take
 * @returns {Post}
 */
function overTab(take) {
  const { receive } = new Stream().add((message) => queueMicrotask(() => take(message)));
  return receive;
}
