// @ts-check
/**
 * `<plan-view>`: tasks and dependencies. A change of status touches one task; a change of the plan lays it out again. Of a
 * large plan, only what is around the view is made of elements; from afar, it is an overview.
 */
import { h, setAttribute } from './dom.js';
import { bestLayout } from './layout.js';
import { Overview } from './plan/overview.js';
import { H, nextTask, taskAt, W } from './plan/places.js';
import { drawnRows, labelOf, labelTitle, markOf, sameShape, stateOf } from './plan/rows.js';
import { showTask, taskButton } from './plan/task.js';
import { workedIn } from './status.js';
import { DETAIL, Viewport } from './viewport.js';
import { brief } from './words.js';

/** @typedef {import('./fold.js').Row} Row */
/** @typedef {import('./fold.js').Rows} Rows */
/** @typedef {import('./player/story.js').Edit} Edit */

/** Tasks from which the picture is denser. */
const MANY = 60;
/** Tasks and dependencies from which a plan is large: from afar it is an overview, and near by only what is around the view is made. */
const LARGE_TASKS = 150;
const LARGE_LINES = 1000;
/** Tasks and dependencies that are elements at the same time, at most. */
const [MOST_TASKS, MOST_LINES] = [600, 3000];
/** What is made around the view, on each side, as a part of the pane. */
const MARGIN = 0.5;
const EVERYWHERE = { left: -Infinity, top: -Infinity, right: Infinity, bottom: Infinity };

export class PlanView extends HTMLElement {
  constructor() {
    super();
    /** @type {import('./plan/rows.js').Plan} what is drawn, in view or not */
    this.plan = { tasks: new Map(), lines: new Map() };
    /** @type {[Rows, Edit | null, number] | null} */
    this.shown = null;
    this.layout = /** @type {import('./layout.js').Layout | null} */ (null);
    /** Size of the pane that the layout was made for; empty if another layout is needed. */
    this.size = '';
    /** @type {Map<string, import('./plan/task.js').TaskButton>} the tasks that are elements */
    this.tasks = new Map();
    /** @type {Map<string, any>} */
    this.paths = new Map();
    /** @type {Map<string, any>} */
    this.chips = new Map();
    this.made = /** @type {import('./viewport.js').Box | null} */ (null); // where tasks are elements, once they are made
    this.isAfar = false;
    this.picked = '';
    /** Id of the task that Tab reaches. */
    this.roaming = '';
  }

  connectedCallback() {
    if (!this.world) this.build();
    this.unwatch = this.overview?.watch();
  }

  disconnectedCallback() {
    this.unwatch?.();
  }

  build() {
    const tips = ['idle', 'ok', 'bad', 'added', 'removed'].map((kind) =>
      h('marker', { id: `tip-${kind}`, viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 12, markerHeight: 12, markerUnits: 'userSpaceOnUse', orient: 'auto', class: `tip ${kind}` }, h('path', { d: 'M0 .6 7 4 0 7.4Z' })),
    );
    this.svg = h('svg', { class: 'edges', 'aria-hidden': 'true' }, h('defs', {}, tips));
    this.overview = new Overview(() => this.show());
    this.world = h('div', { class: 'world' }, this.svg);
    this.viewport = new Viewport(this, this.world, () => this.moved());
    this.append(this.overview.canvas, this.world, this.viewport.buttons());
    this.addEventListener('keydown', (event) => this.key(event));
    this.addEventListener('click', (event) => {
      const id = this.viewport?.dragged ? '' : this.farTaskAt(event);
      if (id) this.pick(id);
    });
    this.addEventListener('dblclick', (event) => this.isAfar && this.viewport?.zoom((1.2 * DETAIL) / this.viewport.k, event));
    this.addEventListener('pointermove', (event) => {
      const id = this.farTaskAt(event);
      setAttribute(this, 'title', id && brief(this.plan.tasks.get(id)?.name || id, 80));
    });
    new ResizeObserver(() => this.resized()).observe(this);
  }

  resized() {
    if (!this.shown || !this.viewport?.follows || this.size === `${this.clientWidth} ${this.clientHeight}`) return;
    this.size = '';
    this.draw(...this.shown);
  }

  /**
   * Draw a plan.
   * @param {Rows} rows
   * @param {Edit | null} edit edit to mark; null for none
   * @param {number} now seconds since 1970, for the time of what runs
   */
  draw(rows, edit, now) {
    this.shown = [rows, edit, now];
    const before = this.plan;
    this.plan = drawnRows(rows, edit);
    if (!this.size || !sameShape(before, this.plan)) this.place();
    else this.show();
    this.toggleAttribute('data-marked', !!edit);
  }

  /** Lay the plan out. */
  place() {
    const { tasks, lines } = this.plan;
    const many = tasks.size > MANY;
    const { clientWidth: width, clientHeight: height } = this;
    this.size = `${width} ${height}`;
    const edges = [...lines].map(([id, line]) => {
      const label = labelOf(line);
      return { id, from: String(line.from), to: String(line.to), label: label ? { w: Math.min(W, label.length * 6.6 + 18), h: 20 } : undefined };
    });
    const nodes = [...tasks.keys()].map((id) => ({ id, w: W, h: H }));
    const box = { w: Math.max(200, width - 56), h: Math.max(200, height - 48) };
    const spaces = many ? { gapMain: 60, gapAcross: 16 } : { gapMain: 42, gapAcross: 26 };
    const before = this.layout;
    this.layout = bestLayout(nodes, edges, box, { ...spaces, largest: 1.15, before: many ? undefined : before?.order });
    setAttribute(this.svg, 'width', String(this.layout.w));
    setAttribute(this.svg, 'height', String(this.layout.h));
    for (const chip of this.chips.values()) chip.remove(); // their texts may have changed
    this.chips.clear();
    this.made = null;
    const glide = !!before?.nodes.size;
    this.viewport?.sized(this.layout.w, this.layout.h, glide);
    if (glide) for (const [id, { button }] of this.tasks) button.classList.toggle('fresh', !before.nodes.has(id));
  }

  /** Make what has come into view. From afar, which tasks are elements depends on the zoom, too. */
  moved() {
    const { made, viewport, layout } = this;
    if (!viewport || !layout) return;
    const view = viewport.view(0);
    const inside = made && view.left >= made.left && view.top >= made.top && view.right <= made.right && view.bottom <= made.bottom;
    if (!inside || this.isAfar || viewport.isFar) this.make(viewport, layout);
  }

  /**
   * Make the tasks and dependencies around the view, and remove the others.
   * @param {Viewport} viewport
   * @param {import('./layout.js').Layout} layout
   */
  make(viewport, layout) {
    const { tasks, lines } = this.plan;
    const isLarge = tasks.size > LARGE_TASKS || lines.size > LARGE_LINES;
    const box = isLarge ? viewport.view(MARGIN) : EVERYWHERE;
    const within = (/** @type {import('./viewport.js').Box} */ it) => it.left <= box.right && it.right >= box.left && it.top <= box.bottom && it.bottom >= box.top;
    let near = [...layout.nodes].filter(([, { x, y }]) => within({ left: x, top: y, right: x + W, bottom: y + H })).map(([id]) => id);
    let routes = [...layout.edges].filter(([, route]) => within(route.box));
    this.isAfar = (isLarge && viewport.isFar) || near.length > MOST_TASKS || routes.length > MOST_LINES;
    if (this.isAfar) near = routes = [];
    this.toggleAttribute('data-afar', this.isAfar);
    const isNew = !this.made; // the layout is
    this.made = box;
    if (!layout.nodes.has(this.roaming)) this.roaming = layout.nodes.keys().next().value ?? '';
    const wanted = new Set([...near, ...[this.roaming, this.picked].filter((id) => layout.nodes.has(id))]);
    drop(this.tasks, wanted, (drawn) => drawn.button.remove());
    const kept = new Map(routes);
    drop(this.paths, kept, (path) => path.remove());
    drop(this.chips, kept, (chip) => chip.remove());
    for (const id of wanted) if (isNew || !this.tasks.has(id)) this.placeTask(id, /** @type {{x: number, y: number}} */ (layout.nodes.get(id)));
    for (const [id, route] of routes) if (isNew || !this.paths.has(id)) this.placeLine(id, /** @type {Row} */ (lines.get(id)), route);
    this.show();
  }

  /**
   * @param {string} id
   * @param {{x: number, y: number}} place
   */
  placeTask(id, place) {
    let drawn = this.tasks.get(id);
    if (!drawn) {
      this.tasks.set(id, (drawn = taskButton(id, () => this.pick(id), () => this.roam(id))));
      this.world.append(drawn.button);
    }
    [drawn.button.style.left, drawn.button.style.top] = [`${place.x}px`, `${place.y}px`]; // a transform of each would cost more with each frame
    drawn.button.tabIndex = id === this.roaming ? 0 : -1;
    setAttribute(drawn.button, 'aria-current', id === this.picked ? 'true' : null);
  }

  /**
   * @param {string} id
   * @param {Row} line
   * @param {import('./layout/routes.js').Route} route
   */
  placeLine(id, line, route) {
    let path = this.paths.get(id);
    if (!path) {
      this.paths.set(id, (path = h('path', { class: 'edge' })));
      this.svg.append(path);
    }
    setAttribute(path, 'd', route.d);
    setAttribute(path, 'data-type', line.type);
    const label = labelOf(line);
    if (!label) return;
    const chip = h('span', { class: 'chip', title: labelTitle(line) }, label);
    chip.style.transform = `translate(${route.x}px,${route.y}px) translate(-50%,-50%)`;
    this.chips.set(id, chip);
    this.world.append(chip);
  }

  /** Show the rows on what is made. */
  show() {
    if (!this.shown || !this.layout) return;
    const [rows, edit, now] = this.shown;
    const { tasks, lines } = this.plan;
    const worked = workedIn(rows, now);
    for (const [id, drawn] of this.tasks) showTask(drawn, id, /** @type {Row} */ (tasks.get(id)), rows, edit, now, worked.get(id));
    for (const id of this.paths.keys()) this.showLine(id, /** @type {Row} */ (lines.get(id)), edit);
    if (this.isAfar && this.viewport) this.overview?.draw(this.viewport, this.layout, this.plan, rows, edit);
  }

  /**
   * @param {string} id
   * @param {Row} line
   * @param {Edit | null} edit
   */
  showLine(id, line, edit) {
    const path = this.paths.get(id);
    const state = stateOf(line, markOf(edit, `line:${id}`));
    if (path.drawnState === state) return;
    path.drawnState = path.dataset.state = state;
    setAttribute(path, 'marker-end', `url(#tip-${state})`);
    const chip = this.chips.get(id);
    if (chip) chip.dataset.state = state;
  }

  /**
   * Return the task at the pointer where tasks are no elements; empty for none.
   * @param {MouseEvent} event
   */
  farTaskAt(event) {
    if (!this.isAfar || !this.layout || !this.viewport || /** @type {Element} */ (event.target).closest('button')) return '';
    const { x, y } = this.viewport.point(event);
    return taskAt(this.layout.nodes, x, y);
  }

  /** @param {string} id */
  pick(id) {
    this.dispatchEvent(new CustomEvent('pick', { detail: id, bubbles: true }));
  }

  /**
   * Mark the picked task.
   * @param {string} id
   */
  mark(id) {
    if (this.picked === id) return;
    this.tasks.get(this.picked)?.button.removeAttribute('aria-current');
    this.picked = id;
    if (this.viewport && this.layout?.nodes.has(id) && !this.tasks.has(id)) this.make(this.viewport, this.layout);
    this.tasks.get(id)?.button.setAttribute('aria-current', 'true');
  }

  /**
   * Make a task the one that Tab reaches, and bring it into view.
   * @param {string} id
   */
  roam(id) {
    const [before, drawn] = [this.tasks.get(this.roaming), this.tasks.get(id)];
    if (before) before.button.tabIndex = -1;
    if (drawn) drawn.button.tabIndex = 0;
    this.roaming = id;
    const place = this.layout?.nodes.get(id);
    if (place) this.viewport?.reveal(place.x, place.y, W, H, this.isAfar && drawn?.button.matches(':focus-visible') ? DETAIL : 0);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset.task;
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [0, 0];
    if (focused === undefined || !this.layout || (!dx && !dy)) return;
    event.preventDefault();
    event.stopPropagation();
    const next = nextTask(this.layout.nodes, focused, dx, dy);
    const place = this.layout.nodes.get(next);
    if (!place) return;
    this.viewport?.reveal(place.x, place.y, W, H, this.isAfar ? DETAIL : 0); // which also makes it
    this.tasks.get(next)?.button.focus({ preventScroll: true });
  }
}

/**
 * Remove what is no longer wanted.
 * @template T
 * @param {Map<string, T>} drawn
 * @param {{has: (id: string) => boolean}} wanted
 * @param {(it: T) => void} remove
 */
function drop(drawn, wanted, remove) {
  for (const [id, it] of drawn) {
    if (wanted.has(id)) continue;
    remove(it);
    drawn.delete(id);
  }
}

customElements.define('plan-view', PlanView);
