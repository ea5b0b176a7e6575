// @ts-check
/**
 * Holds the stream of all tabs of a browser, because a browser opens six connections to a server at most. A tab holds a
 * lock for as long as it is open, so the worker knows of its end however it ends; and so do the tabs of that of the worker.
 */
import { Stream } from './stream.js';

const stream = new Stream();
const held = new Promise((resolve) => void navigator.locks.request(import.meta.url, () => (resolve(null), new Promise(() => {}))));

/** @type {any} */ (self).onconnect = async (/** @type {MessageEvent} */ event) => {
  const [port] = event.ports;
  await held;
  const { receive, remove } = stream.add((message) => port.postMessage(message));
  port.onmessage = ({ data }) => {
    if (data.lock) navigator.locks.request(data.lock, remove);
    else receive(data);
  };
};
