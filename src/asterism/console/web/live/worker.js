// @ts-check
/**
 * Holds the stream of all tabs of a browser, because a browser opens six connections to a server at most. A tab holds a
 * lock for as long as it is open, so the worker knows of its end however it ends.
 */
import { Stream } from './stream.js';

const stream = new Stream();

/** @type {any} */ (self).onconnect = (/** @type {MessageEvent} */ event) => {
  const [port] = event.ports;
  const { receive, remove } = stream.add((message) => port.postMessage(message));
  port.onmessage = ({ data }) => {
    if (data.lock) navigator.locks.request(data.lock, remove);
    else receive(data);
  };
};
