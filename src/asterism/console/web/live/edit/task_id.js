// @ts-check
/** Ids of new tasks. Pure. */

const ID = /^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$/;
const NOT_ID = /[^A-Za-z0-9_-]+/g;

/**
 * Return an id for a name, which no task has.
 * @param {string} name
 * @param {[string, string][]} tasks
 */
export function idOf(name, tasks) {
  const taken = new Set(tasks.map(([id]) => id));
  const base = name.trim().toLowerCase().replace(NOT_ID, '_').replace(/^_+|_+$/g, '').slice(0, 56);
  const own = ID.test(base) ? base : 'task';
  let id = own;
  for (let n = 2; taken.has(id); n++) id = `${own}_${n}`;
  return id;
}
