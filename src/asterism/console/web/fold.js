// @ts-check
/**
 * The rows of a run, folded from its deltas. The twin of `asterism.views.delta.fold`: both pass the
 * golden folds of `tests/unit/views`. It knows no machine.
 */

/** @typedef {Record<string, any>} Row */
/** @typedef {Map<string, Row>} Rows rows by id: `run`, `task:build`, `attempt:…` */
/**
 * @typedef {object} LogLine
 * @property {string} text the event in words
 * @property {string} [part] id of the task, step or field it is about
 * @property {'event' | 'progress' | 'detail'} [weight]
 */
/**
 * The changes that one journal entry makes, as Python sends them; defaults are absent.
 * @typedef {object} Delta
 * @property {number} seq
 * @property {number} at seconds since 1970
 * @property {string} kind
 * @property {string} actor
 * @property {string} state state of the run after the entry
 * @property {string} [text]
 * @property {string} [part]
 * @property {'event' | 'progress' | 'detail'} [weight]
 * @property {LogLine[]} [more]
 * @property {Record<string, Row>} [put]
 * @property {string[]} [drop]
 */

/**
 * Apply a delta. A changed row is replaced by a new object, so a copy of the map is a snapshot.
 * @param {Rows} rows changed in place
 * @param {Delta} delta
 * @returns {Rows} the same rows
 */
export function apply(rows, delta) {
  for (const id of delta.drop ?? []) rows.delete(id);
  for (const [id, fields] of Object.entries(delta.put ?? {})) rows.set(id, { ...rows.get(id), ...fields });
  return rows;
}

/**
 * Apply deltas in order.
 * @param {Iterable<Delta>} deltas
 * @param {Rows} [rows] rows before the first delta, changed in place
 */
export function fold(deltas, rows = new Map()) {
  for (const delta of deltas) apply(rows, delta);
  return rows;
}

/**
 * Yield key and row of each row of a kind, in the order in which they appeared.
 * @param {Rows} rows
 * @param {string} kind `task` for `task:build`
 * @returns {Iterable<[string, Row]>}
 */
export function* rowsOf(rows, kind) {
  const prefix = `${kind}:`;
  for (const [id, row] of rows) if (id.startsWith(prefix)) yield [id.slice(prefix.length), row];
}

/**
 * Return all log lines of a delta.
 * @param {Delta} delta
 * @returns {LogLine[]}
 */
export function linesOf(delta) {
  return [{ text: delta.text ?? '', part: delta.part ?? '', weight: delta.weight ?? 'event' }, ...(delta.more ?? [])];
}
