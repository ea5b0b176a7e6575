// @ts-check
/** Finds tasks by their places in the picture. Pure. */

/** Size of a task. */
export const W = 184;
export const H = 52;

/** @typedef {Map<string, {x: number, y: number}>} Places left upper corner of each task */

/**
 * Return the task at a point; empty for none.
 * @param {Places} places
 * @param {number} x
 * @param {number} y
 */
export function taskAt(places, x, y) {
  for (const [id, place] of places) if (x >= place.x && y >= place.y && x <= place.x + W && y <= place.y + H) return id;
  return '';
}

/**
 * Return the next task in a direction; empty for none.
 * @param {Places} places
 * @param {string} id
 * @param {number} dx 1 for right, -1 for left
 * @param {number} dy
 */
export function nextTask(places, id, dx, dy) {
  const from = places.get(id);
  let least = Infinity;
  let nearest = '';
  if (!from) return nearest;
  for (const [other, to] of places) {
    const along = (to.x - from.x) * dx + (to.y - from.y) * dy;
    const aside = Math.abs((to.x - from.x) * dy) + Math.abs((to.y - from.y) * dx);
    if (along > 4 && along + aside * 2 < least) {
      least = along + aside * 2;
      nearest = other;
    }
  }
  return nearest;
}
