// @ts-check
/** Drawing in a plan: from task to task for a new dependency, and a click on one that is to go. */
import { h, setAttribute } from '../../dom.js';

/** Pixels that the pointer moves before a press on a task is a drag. */
const SLACK = 6;

/**
 * What the drawn edits are given to.
 * @typedef {object} Drawing
 * @property {(from: string, to: string) => string} why returns why a dependency cannot be; empty if it can
 * @property {(from: string, to: string) => void} join
 * @property {(line: string) => void} part
 */

/**
 * Let somebody draw in a plan; returns the function that ends it.
 * @param {import('../../plan.js').PlanView} plan
 * @param {Drawing} drawing
 * @returns {() => void}
 */
export function drawIn(plan, drawing) {
  const stopped = new AbortController();
  const { signal } = stopped;
  const pen = h('path', { class: 'pen' });
  /** @type {{from: string, x: number, y: number, isMoving: boolean, over: HTMLElement | null, pointer: number} | null} */
  let drag = null;

  const over = (/** @type {HTMLElement | null} */ task) => {
    if (!drag || drag.over === task) return;
    drag.over?.removeAttribute('data-drop');
    drag.over = task;
    if (task) task.dataset.drop = drawing.why(drag.from, task.dataset.task ?? '') ? 'no' : 'yes';
  };
  const end = () => {
    over(null);
    drag = null;
    pen.remove();
    plan.removeAttribute('data-drawing');
  };
  const down = (/** @type {PointerEvent} */ event) => {
    const target = /** @type {SVGElement} */ (event.target);
    if (target.dataset?.line) return event.stopPropagation(); // the viewport would take the click
    const task = /** @type {HTMLElement | null} */ (target.closest('.task'));
    if (task && !event.button) drag = { from: task.dataset.task ?? '', x: event.clientX, y: event.clientY, isMoving: false, over: null, pointer: event.pointerId };
  };
  const move = (/** @type {PointerEvent} */ event) => {
    if (!drag || event.pointerId !== drag.pointer) return;
    if (!drag.isMoving && Math.hypot(event.clientX - drag.x, event.clientY - drag.y) < SLACK) return;
    if (!drag.isMoving) plan.svg.append(pen);
    drag.isMoving = true;
    plan.toggleAttribute('data-drawing', true);
    const [a, b] = [inWorld(plan, drag), inWorld(plan, { x: event.clientX, y: event.clientY })];
    setAttribute(pen, 'd', `M${a.x} ${a.y}L${b.x} ${b.y}`);
    over(/** @type {HTMLElement | null} */ (document.elementFromPoint(event.clientX, event.clientY)?.closest('.task') ?? null));
  };
  const up = (/** @type {PointerEvent} */ event) => {
    if (!drag || event.pointerId !== drag.pointer) return;
    const { from, isMoving } = drag;
    const to = drag.over?.dataset.task;
    end();
    if (isMoving) addEventListener('click', swallow, { capture: true, once: true });
    if (isMoving) setTimeout(() => removeEventListener('click', swallow, { capture: true }));
    if (isMoving && to !== undefined) drawing.join(from, to);
  };
  const click = (/** @type {MouseEvent} */ event) => {
    const line = /** @type {SVGElement} */ (event.target).dataset?.line;
    if (line) drawing.part(line);
  };
  plan.addEventListener('pointerdown', down, { signal, capture: true });
  plan.addEventListener('click', click, { signal });
  addEventListener('pointermove', move, { signal });
  addEventListener('pointerup', up, { signal });
  addEventListener('pointercancel', end, { signal });
  addEventListener('keydown', (event) => event.key === 'Escape' && drag && (event.stopPropagation(), end()), { signal, capture: true });
  plan.toggleAttribute('data-editing', true);
  return () => {
    stopped.abort();
    end();
    plan.removeAttribute('data-editing');
    for (const hit of plan.querySelectorAll('.hit')) hit.remove();
  };
}

/** A click that ends a drag picks no task. @param {Event} event */
const swallow = (event) => event.stopPropagation();

/**
 * Lay a wide line under each dependency, so that it can be clicked.
 * @param {import('../../plan.js').PlanView} plan
 */
export function widenLines(plan) {
  const known = new Map([...plan.querySelectorAll('.hit')].map((hit) => [/** @type {SVGElement} */ (hit).dataset.line, hit]));
  for (const [id, path] of plan.paths) {
    const hit = known.get(id) ?? h('path', { class: 'hit', 'data-line': id });
    if (!known.delete(id)) plan.svg.append(hit);
    setAttribute(hit, 'd', path.getAttribute('d'));
  }
  for (const hit of known.values()) hit.remove();
}

/**
 * Return a place of the window in the picture.
 * @param {import('../../plan.js').PlanView} plan
 * @param {{x: number, y: number}} at
 */
function inWorld(plan, at) {
  const box = plan.getBoundingClientRect();
  const { x, y, k } = /** @type {import('../../viewport.js').Viewport} */ (plan.viewport);
  return { x: (at.x - box.left - x) / k, y: (at.y - box.top - y) / k };
}
