// @ts-check
/** A large plan from afar, as one picture of its tasks and dependencies. What it says is in the table, too. */
import { GLYPHS, h } from '../dom.js';
import { statusOf } from '../status.js';
import { H, W } from './places.js';
import { markOf, stateOf } from './rows.js';

/** @typedef {import('../layout.js').Layout} Layout */
/** @typedef {import('../fold.js').Row} Row */

/** Names of the colors, from `tokens.css`, by status; `edited` are the tasks that a marked edit has changed. */
const COLORS = /** @type {Record<string, string>} */ ({
  pending: 'pending',
  skipped: 'pending',
  cancelled: 'pending',
  ready: 'ready',
  running: 'running',
  succeeded: 'succeeded',
  partial: 'failed',
  failed: 'failed',
  waiting: 'waiting',
  edited: 'agent',
});
/** The same by the state of dependencies. */
const LINE_COLORS = /** @type {Record<string, string>} */ ({ idle: 'edge', ok: 'succeeded', bad: 'failed', added: 'agent', removed: 'agent' });
const HOLLOW = new Set(['pending', 'skipped', 'cancelled']);
/** Opacity of the dependencies. */
const FAINT = 0.45;
/** Pixels of height from which a task has a glyph, and size of the glyph. One that failed always has it. */
const LEGIBLE = 6;
const GLYPH = 38;

export class Overview {
  /** @param {() => void} changed called when the colors have changed */
  constructor(changed) {
    this.changed = changed;
    this.canvas = h('canvas', { class: 'overview', 'aria-hidden': 'true' });
    this.colors = /** @type {Record<string, string>} */ ({});
    /** @type {WeakMap<import('../layout/routes.js').Route, Path2D>} */
    this.paths = new WeakMap();
  }

  /** Follow the colors of the page; returns the function that stops, without which the page would keep this for good. */
  watch() {
    this.colors = {};
    const recolor = () => {
      this.colors = {};
      this.changed();
    };
    const [theme, scheme] = [new MutationObserver(recolor), matchMedia('(prefers-color-scheme: dark)')];
    theme.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    scheme.addEventListener('change', recolor);
    return () => {
      theme.disconnect();
      scheme.removeEventListener('change', recolor);
    };
  }

  /**
   * Draw the part of the plan that is in view.
   * @param {import('../viewport.js').Viewport} viewport
   * @param {Layout} layout
   * @param {import('./rows.js').Plan} plan
   * @param {import('../fold.js').Rows} rows
   * @param {import('../player/story.js').Edit | null} edit
   */
  draw(viewport, layout, { tasks, lines }, rows, edit) {
    const { canvas } = this;
    const { clientWidth: width, clientHeight: height } = viewport.pane;
    const scale = devicePixelRatio;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    /** @type {CanvasRenderingContext2D} */
    const pen = canvas.getContext('2d');
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    const { x, y, k } = viewport;
    pen.setTransform(k * scale, 0, 0, k * scale, x * scale, y * scale);
    const view = viewport.view(0);
    this.drawLines(pen, layout, lines, edit, view, 1 / k);
    for (const [kind, places] of this.kinds(layout, tasks, rows, edit, view)) this.drawTasks(pen, kind, places, 1 / k);
  }

  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {Layout} layout
   * @param {Map<string, Row>} lines
   * @param {import('../player/story.js').Edit | null} edit
   * @param {import('../viewport.js').Box} view
   * @param {number} pixel
   */
  drawLines(pen, layout, lines, edit, view, pixel) {
    pen.globalAlpha = FAINT;
    pen.lineWidth = pixel;
    for (const [id, route] of layout.edges) {
      const { box, d } = route;
      if (box.left > view.right || box.right < view.left || box.top > view.bottom || box.bottom < view.top) continue;
      let path = this.paths.get(route);
      if (!path) this.paths.set(route, (path = new Path2D(d)));
      pen.strokeStyle = this.color(LINE_COLORS[stateOf(lines.get(id) ?? {}, markOf(edit, `line:${id}`))]);
      pen.stroke(path);
    }
    pen.globalAlpha = 1;
  }

  /**
   * Return the places of the tasks in view by what they look like.
   * @param {Layout} layout
   * @param {Map<string, Row>} tasks
   * @param {import('../fold.js').Rows} rows
   * @param {import('../player/story.js').Edit | null} edit
   * @param {import('../viewport.js').Box} view
   */
  kinds(layout, tasks, rows, edit, view) {
    /** @type {Map<string, {x: number, y: number}[]>} */
    const found = new Map(Object.keys(COLORS).map((kind) => [kind, []])); // what needs attention is drawn last
    for (const [id, row] of tasks) {
      const place = layout.nodes.get(id);
      if (!place || place.x > view.right || place.x + W < view.left || place.y > view.bottom || place.y + H < view.top) continue;
      const mark = markOf(edit, `task:${id}`);
      found.get(mark && mark !== 'same' ? 'edited' : statusOf(row, rows))?.push(place);
    }
    return found;
  }

  /**
   * Draw tasks that look alike: what has not been done is hollow, what waits stands out, and all have the glyph of their status.
   * @param {CanvasRenderingContext2D} pen
   * @param {string} kind
   * @param {{x: number, y: number}[]} places
   * @param {number} pixel
   */
  drawTasks(pen, kind, places, pixel) {
    const [own, other] = [this.color(COLORS[kind]), this.color(HOLLOW.has(kind) ? 'soft' : 'card')];
    const grown = kind === 'waiting' ? H / 2 : 0;
    [pen.fillStyle, pen.strokeStyle] = HOLLOW.has(kind) ? [other, own] : [own, other];
    pen.lineWidth = pixel;
    for (const { x, y } of places) {
      pen.fillRect(x - grown, y - grown, W + 2 * grown, H + 2 * grown);
      if (HOLLOW.has(kind)) pen.strokeRect(x, y, W, H);
    }
    if (H < LEGIBLE * pixel && kind !== 'failed') return;
    const glyph = new Path2D(GLYPHS[kind] ?? GLYPHS.agent);
    const all = new Path2D();
    for (const { x, y } of places) all.addPath(glyph, { a: GLYPH / 16, d: GLYPH / 16, e: x + (W - GLYPH) / 2, f: y + (H - GLYPH) / 2 });
    pen.lineWidth = Math.max(pixel, GLYPH / 10);
    pen.stroke(all);
  }

  /**
   * Return a color of the page.
   * @param {string} token
   */
  color(token) {
    if (!this.colors[token]) {
      this.canvas.style.color = `var(--${token})`;
      this.colors[token] = getComputedStyle(this.canvas).color;
    }
    return this.colors[token];
  }
}
