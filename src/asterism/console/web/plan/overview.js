// @ts-check
/** A large plan from afar, as one picture of its tasks and dependencies. What it says is in the table, too. */
import { h } from '../dom.js';
import { statusOf } from '../status.js';
import { H, W } from './places.js';
import { markOf } from './rows.js';

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
const HOLLOW = new Set(['pending', 'skipped', 'cancelled']);
/** Opacity of the dependencies. */
const FAINT = 0.45;

export class Overview {
  /** @param {() => void} changed called when the colors have changed */
  constructor(changed) {
    this.canvas = h('canvas', { class: 'overview', 'aria-hidden': 'true' });
    /** @type {Record<string, string>} */
    this.colors = {};
    const recolor = () => {
      this.colors = {};
      changed();
    };
    new MutationObserver(recolor).observe(document.documentElement, { attributeFilter: ['data-theme'] });
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', recolor);
  }

  /**
   * Draw the part of the plan that is in view.
   * @param {import('../viewport.js').Viewport} viewport
   * @param {Layout} layout
   * @param {Map<string, Row>} tasks
   * @param {import('../fold.js').Rows} rows
   * @param {import('../player/story.js').Edit | null} edit
   */
  draw(viewport, layout, tasks, rows, edit) {
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
    this.drawLines(pen, layout, view, 1 / k);
    for (const [kind, places] of this.kinds(layout, tasks, rows, edit, view)) this.drawTasks(pen, kind, places, 1 / k);
  }

  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {Layout} layout
   * @param {import('../viewport.js').Box} view
   * @param {number} pixel
   */
  drawLines(pen, layout, view, pixel) {
    pen.globalAlpha = FAINT;
    pen.strokeStyle = this.color('edge');
    pen.lineWidth = pixel;
    for (const { points, box } of layout.edges.values()) {
      if (box.left > view.right || box.right < view.left || box.top > view.bottom || box.bottom < view.top) continue;
      pen.beginPath();
      for (const [x, y] of points) pen.lineTo(x, y);
      pen.stroke();
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
   * Draw tasks that look alike: what has not been done is hollow, what has failed is crossed, what waits stands out.
   * @param {CanvasRenderingContext2D} pen
   * @param {string} kind
   * @param {{x: number, y: number}[]} places
   * @param {number} pixel
   */
  drawTasks(pen, kind, places, pixel) {
    const isHollow = HOLLOW.has(kind);
    const grown = kind === 'waiting' ? H / 2 : 0;
    pen.fillStyle = isHollow ? this.color('soft') : this.color(COLORS[kind]);
    pen.strokeStyle = isHollow ? this.color(COLORS[kind]) : this.color('card');
    pen.lineWidth = pixel;
    for (const { x, y } of places) {
      pen.fillRect(x - grown, y - grown, W + 2 * grown, H + 2 * grown);
      if (isHollow) pen.strokeRect(x, y, W, H);
      if (kind !== 'failed') continue;
      pen.beginPath();
      pen.moveTo(x, y);
      pen.lineTo(x + W, y + H);
      pen.moveTo(x + W, y);
      pen.lineTo(x, y + H);
      pen.stroke();
    }
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
