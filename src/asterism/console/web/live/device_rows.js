// @ts-check
/** What the page of devices shows of each, from the fleet and the attempts of a period. Pure. */

/** @typedef {{device_id: string, kind: string, description: string, aliases: string[], capabilities: string[], natural_language: boolean, concurrency: number, skills: {name: string, description: string}[], draining: boolean, draining_by: string}} Device */
/** @typedef {{device: string, run_id: string, title: string, task: string, name: string, skill: string, number: number, child: string, status: string, error: string, began_at: number, ended_at: number | null, seen_at: number}} Attempt */
/**
 * @typedef {object} DeviceRow
 * @property {string} id
 * @property {Device | null} device null for one that is no longer in the fleet
 * @property {'lost' | 'draining' | 'busy' | 'idle' | 'gone'} health
 * @property {string} why why it is lost, or who drains it
 * @property {Attempt[]} now attempts under way
 * @property {Attempt[]} queued attempts that wait for a place
 * @property {Attempt | undefined} last the one that ended last
 * @property {number} seen when it was last heard of; 0 for never in the period
 * @property {Attempt[]} attempts of the period, the last begun first
 */

/** Kinds whose tasks are runs of their own; such a device has no queue. */
const CHILD_KINDS = new Set(['agent', 'flow']);

/**
 * Return the rows: those of the fleet in its order, then devices that have left it.
 * @param {Device[]} devices
 * @param {Attempt[]} attempts the last begun first
 * @param {Record<string, string>} lost reasons, by id
 * @param {Attempt[]} [present] with those under way, which a period of the past does not have
 * @returns {DeviceRow[]}
 */
export function deviceRows(devices, attempts, lost, present = attempts) {
  const [by, doing] = [attempts, present].map((some) => {
    /** @type {Map<string, Attempt[]>} */
    const found = new Map();
    for (const attempt of some) found.set(attempt.device, [...(found.get(attempt.device) ?? []), attempt]);
    return found;
  });
  const known = new Set(devices.map((device) => device.device_id));
  const left = [...by.keys()].filter((id) => id && !known.has(id)).sort();
  return [...devices.map((device) => rowOf(device.device_id, device, by, doing, lost)), ...left.map((id) => rowOf(id, null, by, doing, lost))];
}

/**
 * @param {string} id
 * @param {Device | null} device
 * @param {Map<string, Attempt[]>} by
 * @param {Map<string, Attempt[]>} doing
 * @param {Record<string, string>} lost
 * @returns {DeviceRow}
 */
function rowOf(id, device, by, doing, lost) {
  const attempts = by.get(id) ?? [];
  const present = doing.get(id) ?? [];
  const [now, queued] = ['running', 'queued'].map((status) => present.filter((it) => it.status === status));
  const ended = attempts.filter((it) => it.ended_at !== null).sort((a, b) => Number(b.ended_at) - Number(a.ended_at));
  const health = !device ? 'gone' : id in lost ? 'lost' : device.draining ? 'draining' : now.length ? 'busy' : 'idle';
  const why = health === 'lost' ? lost[id] : health === 'draining' ? (device?.draining_by ?? '') : '';
  return { id, device, health, why, now, queued, last: ended[0], seen: Math.max(0, ...[...attempts, ...present].map((it) => it.seen_at)), attempts };
}

/** @param {Device} device */
export const canDrain = (device) => !CHILD_KINDS.has(device.kind);

/**
 * Return the load of a device in words: `2 of 4`, and how many wait.
 * @param {DeviceRow} row
 */
export function loadOf(row) {
  const queued = row.queued.length;
  return `${row.now.length}${row.device && canDrain(row.device) ? ` of ${row.device.concurrency}` : ''}${queued ? `, ${queued} queued` : ''}`;
}
