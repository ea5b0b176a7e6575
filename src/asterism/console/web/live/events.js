// @ts-check
/** Reads server-sent events from text that arrives in parts. Pure. */

/** @typedef {{kind: string, data: string, id: string}} ServerEvent */

export class EventReader {
  constructor() {
    this.rest = '';
  }

  /**
   * Return the events that a part of the text completes. Comments, which show that the server is there, are no events.
   * @param {string} text
   * @returns {ServerEvent[]}
   */
  read(text) {
    const blocks = (this.rest + text).split('\n\n');
    this.rest = blocks.pop() ?? '';
    return blocks.map(eventOf).filter((event) => event.data !== '');
  }
}

/**
 * @param {string} block
 * @returns {ServerEvent}
 */
function eventOf(block) {
  const event = { kind: 'message', data: '', id: '' };
  for (const line of block.split('\n')) {
    const colon = line.indexOf(': ');
    const [name, value] = [line.slice(0, colon), line.slice(colon + 2)];
    if (name === 'event') event.kind = value;
    else if (name === 'data') event.data = value;
    else if (name === 'id') event.id = value;
  }
  return event;
}

/**
 * Return the cursors that the id of an event lists: `run@seq,run@seq`.
 * @param {string} id
 * @returns {Map<string, number>}
 */
export function cursorsOf(id) {
  const found = new Map();
  for (const part of id.split(',')) {
    const at = part.lastIndexOf('@');
    if (at > 0) found.set(part.slice(0, at), Number(part.slice(at + 1)));
  }
  return found;
}
