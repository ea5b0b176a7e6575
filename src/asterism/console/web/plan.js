// @ts-check
/** `<plan-view>`: tasks and dependencies. A change of status touches one task; a change of the plan lays it out again. */
import { fill, h, icon, setAttribute, setText } from './dom.js';
import { bestLayout } from './layout.js';
import { drawnRows, labelOf, labelTitle, markOf, roleOf } from './plan/rows.js';
import { statusOf, taskWords } from './status.js';
import { Viewport } from './viewport.js';
import { brief } from './words.js';

/** @typedef {import('./fold.js').Row} Row */
/** @typedef {import('./fold.js').Rows} Rows */
/** @typedef {import('./player/story.js').Edit} Edit */
/** @typedef {{button: any, glyph: any, name: any, words: any, hidden: any, role: any, key: string}} Drawn */

const W = 184;
const H = 52;
/** Tasks from which the picture is denser. */
const MANY = 60;

export class PlanView extends HTMLElement {
  constructor() {
    super();
    /** @type {Map<string, Drawn>} */
    this.tasks = new Map();
    /** @type {Map<string, any>} */
    this.paths = new Map();
    /** @type {Map<string, any>} */
    this.chips = new Map();
    this.shape = '';
    this.size = '';
    this.picked = '';
    /** @type {import('./layout.js').Layout | null} */
    this.layout = null;
    /** @type {[Rows, Edit | null, number] | null} */
    this.shown = null;
  }

  connectedCallback() {
    if (this.world) return;
    const tips = ['idle', 'ok', 'bad', 'added', 'removed'].map((kind) =>
      h('marker', { id: `tip-${kind}`, viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 12, markerHeight: 12, markerUnits: 'userSpaceOnUse', orient: 'auto', class: `tip ${kind}` }, h('path', { d: 'M0 .6 7 4 0 7.4Z' })),
    );
    this.svg = h('svg', { class: 'edges', 'aria-hidden': 'true' }, h('defs', {}, tips));
    this.world = h('div', { class: 'world' }, this.svg);
    this.viewport = new Viewport(this, this.world);
    const button = (/** @type {string} */ title, /** @type {any} */ face, /** @type {() => void} */ click) => h('button', { type: 'button', title, 'aria-label': title, onclick: click }, face);
    const zoom = h(
      'div',
      { class: 'zoom', role: 'toolbar', 'aria-label': 'Zoom' },
      button('Zoom in (+)', '+', () => this.viewport?.zoom(1.25)),
      button('Zoom out (-)', '−', () => this.viewport?.zoom(0.8)),
      button('Show all (0)', icon('fit'), () => this.viewport?.fit(true)),
    );
    this.append(this.world, zoom);
    this.addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(() => this.resized()).observe(this);
  }

  resized() {
    if (!this.shown || !this.viewport?.follows || this.size === `${this.clientWidth} ${this.clientHeight}`) return;
    this.shape = '';
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
    const { tasks, lines } = drawnRows(rows, edit);
    const shape = `${[...tasks.keys()].join('\n')}\n\n${[...lines].map(([id, line]) => `${id} ${line.from} ${line.to}`).join('\n')}`;
    if (shape !== this.shape) {
      this.shape = shape;
      this.place(tasks, lines);
    }
    for (const [id, row] of tasks) this.task(id, row, rows, edit, now);
    for (const [id, line] of lines) this.line(id, line, edit);
    this.toggleAttribute('data-marked', !!edit);
  }

  /**
   * @param {Map<string, Row>} tasks
   * @param {Map<string, Row>} lines
   */
  place(tasks, lines) {
    const many = tasks.size > MANY;
    const { clientWidth: width, clientHeight: height } = this;
    const box = { w: Math.max(200, width - 56), h: Math.max(200, height - 48) };
    this.size = `${width} ${height}`;
    const edges = [...lines].map(([id, line]) => {
      const label = labelOf(line);
      return { id, from: String(line.from), to: String(line.to), label: label ? { w: Math.min(W, label.length * 6.6 + 18), h: 20 } : undefined };
    });
    const nodes = [...tasks.keys()].map((id) => ({ id, w: W, h: H }));
    const spaces = many ? { gapMain: 60, gapAcross: 16 } : { gapMain: 42, gapAcross: 26 };
    const found = bestLayout(nodes, edges, box, { ...spaces, largest: 1.15, before: many ? undefined : this.layout?.order });
    const wasEmpty = !this.tasks.size;
    this.layout = found;
    drop(this.tasks, tasks, (drawn) => drawn.button.remove());
    drop(this.paths, lines, (path) => path.remove());
    drop(this.chips, lines, (chip) => chip.remove());
    const fresh = [];
    for (const id of tasks.keys()) {
      let drawn = this.tasks.get(id);
      if (!drawn) {
        this.tasks.set(id, (drawn = this.make(id)));
        fresh.push(drawn.button);
      }
      const place = /** @type {{x: number, y: number}} */ (found.nodes.get(id));
      drawn.button.style.transform = `translate(${place.x}px,${place.y}px)`;
    }
    this.world.append(...fresh);
    if (!wasEmpty) for (const button of fresh) button.classList.add('fresh');
    for (const edge of edges) this.placeLine(edge, /** @type {Row} */ (lines.get(edge.id)));
    setAttribute(this.svg, 'width', String(found.w));
    setAttribute(this.svg, 'height', String(found.h));
    this.viewport?.sized(found.w, found.h, !wasEmpty);
  }

  /**
   * @param {import('./layout.js').Edge} edge
   * @param {Row} line
   */
  placeLine(edge, line) {
    const route = this.layout?.edges.get(edge.id);
    if (!route) return;
    let path = this.paths.get(edge.id);
    if (!path) {
      this.paths.set(edge.id, (path = h('path', { class: 'edge', 'data-type': line.type })));
      this.svg.append(path);
    }
    setAttribute(path, 'd', route.d);
    if (!edge.label) return;
    let chip = this.chips.get(edge.id);
    if (!chip) {
      this.chips.set(edge.id, (chip = h('span', { class: 'chip', title: labelTitle(line) }, labelOf(line))));
      this.world.append(chip);
    }
    chip.style.transform = `translate(${route.x}px,${route.y}px) translate(-50%,-50%)`;
  }

  /**
   * @param {string} id
   * @returns {Drawn}
   */
  make(id) {
    const [glyph, name, words, hidden, role] = [h('span', { class: 'glyph' }), h('b', { dir: 'auto' }), h('small', { dir: 'auto' }), h('span', { class: 'hidden' }), h('span', { class: 'role' })];
    const button = h(
      'button',
      { type: 'button', class: 'task', tabindex: this.tasks.size ? -1 : 0, onclick: () => this.pick(id), onfocus: () => this.roam(id) },
      glyph,
      h('span', { class: 'words' }, name, ' ', words),
      hidden,
      role,
      h('i', { class: 'mark', 'aria-hidden': 'true' }),
    );
    button.dataset.task = id;
    return { button, glyph, name, words, hidden, role, key: '' };
  }

  /**
   * @param {string} id
   * @param {Row} row
   * @param {Rows} rows
   * @param {Edit | null} edit
   * @param {number} now
   */
  task(id, row, rows, edit, now) {
    const drawn = /** @type {Drawn} */ (this.tasks.get(id));
    const [status, mark] = [statusOf(row, rows), markOf(edit, `task:${id}`)];
    const name = brief(row.name || id, 80);
    const words = taskWords(row, status, now);
    const role = roleOf(row);
    const key = [status, mark, name, words, role].join('\n');
    if (drawn.key === key) return;
    drawn.key = key;
    setAttribute(drawn.button, 'data-status', status);
    setAttribute(drawn.button, 'data-mark', mark);
    setText(drawn.name, name);
    setText(drawn.words, words);
    setText(drawn.role, role);
    fill(drawn.glyph, status, () => icon(status));
    setText(drawn.hidden, [status, mark && mark !== 'same' && `${mark} by this edit`].filter(Boolean).join(', '));
    setAttribute(drawn.button, 'title', [name, role, words].filter(Boolean).join('\n'));
  }

  /**
   * @param {string} id
   * @param {Row} line
   * @param {Edit | null} edit
   */
  line(id, line, edit) {
    const path = this.paths.get(id);
    if (!path) return;
    const mark = markOf(edit, `line:${id}`);
    const state = mark === 'added' || mark === 'removed' ? mark : line.satisfied === true ? 'ok' : line.satisfied === false ? 'bad' : 'idle';
    setAttribute(path, 'data-state', state);
    setAttribute(path, 'marker-end', `url(#tip-${state})`);
    const chip = this.chips.get(id);
    if (chip) setAttribute(chip, 'data-state', state);
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
    this.tasks.get(id)?.button.setAttribute('aria-current', 'true');
    this.picked = id;
  }

  /**
   * Make a task the one that Tab reaches.
   * @param {string} id
   */
  roam(id) {
    for (const [other, drawn] of this.tasks) drawn.button.tabIndex = other === id ? 0 : -1;
    const place = this.layout?.nodes.get(id);
    if (place) this.viewport?.reveal(place.x, place.y, W, H);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset.task;
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [0, 0];
    const from = focused === undefined ? undefined : this.layout?.nodes.get(focused);
    if (!from || (!dx && !dy)) return;
    event.preventDefault();
    event.stopPropagation();
    let least = Infinity;
    let nearest = '';
    for (const [id, to] of this.layout?.nodes ?? []) {
      const along = (to.x - from.x) * dx + (to.y - from.y) * dy;
      const aside = Math.abs((to.x - from.x) * dy) + Math.abs((to.y - from.y) * dx);
      if (along > 4 && along + aside * 2 < least) {
        least = along + aside * 2;
        nearest = id;
      }
    }
    if (nearest || least < Infinity) this.tasks.get(nearest)?.button.focus({ preventScroll: true });
  }
}

/**
 * Remove what is no longer there.
 * @template T
 * @param {Map<string, T>} drawn
 * @param {Map<string, any>} wanted
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
