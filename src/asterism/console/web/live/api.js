// @ts-check
/** Requests to the API of the server. Answers are JSON, read without rounding. */
import { parse } from '../json.js';

/** Milliseconds within which an answer, or the next part of a long one, must arrive. */
const TIMEOUT_MS = 30_000;
/** Seconds by which the clocks of the server and the browser may differ without a correction. */
const SKEW_S = 2;

/** An answer that is an error, or no answer (status 0). `detail` says what is wrong and what to do. */
export class Problem extends Error {
  /**
   * @param {number} status
   * @param {string} title
   * @param {string} detail
   * @param {Record<string, any>} [body] the problem details, with their further members
   */
  constructor(status, title, detail, body = {}) {
    super(detail || title);
    this.status = status;
    this.title = title;
    this.detail = detail || title;
    this.body = body;
  }
}

export class Api {
  /**
   * @param {() => void} [onLoggedOut] called for an answer which says that nobody is logged in
   * @param {typeof fetch} [request]
   */
  constructor(onLoggedOut = () => {}, request = (...given) => fetch(...given)) {
    this.onLoggedOut = onLoggedOut;
    this.request = request;
    /** Seconds that the clock of the server is ahead. */
    this.skew = 0;
  }

  /**
   * Return the JSON at a path.
   * @param {string} path
   * @returns {Promise<any>}
   * @throws {Problem}
   */
  get(path) {
    return this.send('GET', path);
  }

  /**
   * Send a request, and return the JSON of its answer; null if it has none. The same `key` with the same body is one request.
   * @param {string} method
   * @param {string} path
   * @param {any} [body] a value that is sent as JSON, or a Blob that is sent as it is
   * @param {{key?: string, headers?: Record<string, string>}} [more]
   * @returns {Promise<any>}
   * @throws {Problem}
   */
  async send(method, path, body, { key, headers = {} } = {}) {
    const isFile = body instanceof Blob;
    const sent = { ...headers, ...(body === undefined || isFile ? {} : { 'Content-Type': 'application/json' }), ...(key ? { 'Idempotency-Key': key } : {}) };
    const answer = await this.answer(path, { method, headers: sent, body: body === undefined || isFile ? body : JSON.stringify(body), signal: AbortSignal.timeout(isFile ? TIMEOUT_MS * 20 : TIMEOUT_MS) });
    const text = await answer.text();
    return text ? parse(text) : null;
  }

  /**
   * Yield the values of a resource that has one in each line: a list for each part that arrives.
   * @param {string} path
   * @returns {AsyncGenerator<any[]>}
   * @throws {Problem}
   */
  async *lines(path) {
    const stopped = new AbortController();
    let timer = setTimeout(() => stopped.abort(), TIMEOUT_MS);
    try {
      const answer = await this.answer(path, { signal: stopped.signal });
      const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body).getReader();
      const decoder = new TextDecoder();
      let rest = '';
      for (;;) {
        const { done, value } = await reader.read().catch((error) => {
          throw unreachable(error);
        });
        clearTimeout(timer);
        timer = setTimeout(() => stopped.abort(), TIMEOUT_MS);
        rest += decoder.decode(value, { stream: !done });
        const lines = rest.split('\n');
        rest = done ? '' : (lines.pop() ?? '');
        const values = lines.filter(Boolean).map(parse);
        if (values.length) yield values;
        if (done) return;
      }
    } finally {
      clearTimeout(timer);
      stopped.abort();
    }
  }

  /**
   * @param {string} path
   * @param {RequestInit} options
   */
  async answer(path, options) {
    const answer = await this.request(path, options).catch((error) => {
      throw unreachable(error);
    });
    const date = Date.parse(answer.headers.get('date') ?? '');
    const ahead = date ? (date - Date.now()) / 1000 : 0;
    this.skew = Math.abs(ahead) > SKEW_S ? ahead : 0;
    if (answer.ok) return answer;
    if (answer.status === 401) this.onLoggedOut();
    throw problemOf(answer.status, answer.statusText, await answer.text().catch(() => ''));
  }
}

/**
 * @param {number} status
 * @param {string} title
 * @param {string} text
 */
function problemOf(status, title, text) {
  try {
    const body = parse(text);
    return new Problem(status, String(body.title ?? title), String(body.detail ?? ''), body);
  } catch {
    return new Problem(status, title, `The server answered ${status}${title ? `, ${title}` : ''}.`);
  }
}

/** @param {Error} error */
const unreachable = (error) => new Problem(0, 'No answer', error.name === 'TimeoutError' || error.name === 'AbortError' ? 'The server has not answered in time.' : 'The server cannot be reached.');

/** Return a new idempotency key. */
export const newKey = () => crypto.randomUUID();
