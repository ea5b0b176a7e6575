// @ts-check
/** Zoom and position of a picture: by wheel, by two fingers, by dragging, and by fitting it into its pane. */
import { h, icon } from './dom.js';

/** Zoom from which a task shows all, and from which it shows its name. Below, it is a colored box with a glyph. */
export const DETAIL = 0.56;
const NAMES = 0.3;
const LEAST = 0.03;
const MOST = 2;
/** Pixels that a pointer moves before it drags. */
const SLACK = 4;

/** @typedef {{left: number, top: number, right: number, bottom: number}} Box */

export class Viewport {
  /**
   * @param {HTMLElement} pane
   * @param {HTMLElement} world element that is moved and scaled
   * @param {() => void} [moved] called when another part of the picture is in view
   */
  constructor(pane, world, moved = () => {}) {
    this.pane = pane;
    this.world = world;
    this.moved = moved;
    this.x = this.y = 0;
    this.k = 1;
    this.w = this.h = 1;
    /** The whole picture is shown, also after the pane or the picture has changed. */
    this.follows = true;
    /** @type {Map<number, PointerEvent>} */
    this.fingers = new Map();
    /** The pointer has moved since it went down, so its end is no click. */
    this.dragged = false;
    pane.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
    pane.addEventListener('pointerdown', (event) => this.down(event));
    pane.addEventListener('pointermove', (event) => this.move(event));
    for (const kind of ['pointerup', 'pointercancel']) pane.addEventListener(kind, (event) => this.fingers.delete(/** @type {PointerEvent} */ (event).pointerId));
  }

  /** Return the buttons that zoom. */
  buttons() {
    const button = (/** @type {string} */ title, /** @type {any} */ face, /** @type {() => void} */ click) => h('button', { type: 'button', title, 'aria-label': title, onclick: click }, face);
    return h(
      'div',
      { class: 'zoom', role: 'toolbar', 'aria-label': 'Zoom' },
      button('Zoom in (+)', '+', () => this.zoom(1.25)),
      button('Zoom out (-)', '−', () => this.zoom(0.8)),
      button('Show all (0)', icon('fit'), () => this.fit(true)),
    );
  }

  /**
   * Set the size of the picture.
   * @param {number} w
   * @param {number} h
   * @param {boolean} glide
   */
  sized(w, h, glide) {
    this.w = Math.max(1, w);
    this.h = Math.max(1, h);
    if (this.follows) this.fit(glide);
    else this.paint(glide);
  }

  /** Return true if tasks are too small for names. */
  get isFar() {
    return this.k <= NAMES;
  }

  /** @param {boolean} glide */
  fit(glide) {
    const { clientWidth: width, clientHeight: height } = this.pane;
    this.follows = true;
    this.k = Math.min(1.15, (width - 56) / this.w, (height - 48) / this.h);
    if (!(this.k > LEAST)) this.k = LEAST;
    this.x = (width - this.w * this.k) / 2;
    this.y = (height - this.h * this.k) / 2;
    this.paint(glide);
  }

  /**
   * Zoom around a point of the pane, by default its center.
   * @param {number} by
   * @param {{clientX: number, clientY: number}} [at]
   */
  zoom(by, at) {
    const box = this.pane.getBoundingClientRect();
    const x = at ? at.clientX - box.left : box.width / 2;
    const y = at ? at.clientY - box.top : box.height / 2;
    const k = Math.min(MOST, Math.max(LEAST, this.k * by));
    this.x = x - ((x - this.x) * k) / this.k;
    this.y = y - ((y - this.y) * k) / this.k;
    this.k = k;
    this.follows = false;
    this.paint(false);
  }

  /**
   * Return the part of the picture that is in view.
   * @param {number} margin how much more on each side, as a part of the pane
   * @returns {Box}
   */
  view(margin) {
    const { clientWidth: width, clientHeight: height } = this.pane;
    return {
      left: (-this.x - width * margin) / this.k,
      top: (-this.y - height * margin) / this.k,
      right: (-this.x + width * (1 + margin)) / this.k,
      bottom: (-this.y + height * (1 + margin)) / this.k,
    };
  }

  /**
   * Return the point of the picture at the pointer.
   * @param {{clientX: number, clientY: number}} event
   */
  point(event) {
    const box = this.pane.getBoundingClientRect();
    return { x: (event.clientX - box.left - this.x) / this.k, y: (event.clientY - box.top - this.y) / this.k };
  }

  /**
   * Move the picture so that a box of it is visible.
   * @param {number} x
   * @param {number} y
   * @param {number} w
   * @param {number} h
   * @param {number} [least] zoom at least
   */
  reveal(x, y, w, h, least = 0) {
    if (this.k < least) this.zoom(least / this.k);
    const [left, top] = [x * this.k + this.x, y * this.k + this.y];
    const { clientWidth: width, clientHeight: height } = this.pane;
    if (left >= 0 && top >= 0 && left + w * this.k <= width && top + h * this.k <= height) return;
    this.x += width / 2 - left - (w * this.k) / 2;
    this.y += height / 2 - top - (h * this.k) / 2;
    this.follows = false;
    this.paint(true);
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    event.preventDefault();
    this.follows = false;
    if (event.ctrlKey || event.metaKey || event.deltaMode) return this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0022)), event);
    this.x -= event.deltaX;
    this.y -= event.deltaY;
    this.paint(false);
  }

  /** @param {PointerEvent} event */
  down(event) {
    this.dragged = false;
    if (/** @type {Element} */ (event.target).closest('button')) return;
    this.fingers.set(event.pointerId, event);
    this.pane.setPointerCapture(event.pointerId);
  }

  /** @param {PointerEvent} event */
  move(event) {
    const before = this.fingers.get(event.pointerId);
    if (!before) return;
    if (!this.dragged && Math.hypot(event.clientX - before.clientX, event.clientY - before.clientY) < SLACK) return;
    this.dragged = true;
    this.fingers.set(event.pointerId, event);
    this.follows = false;
    const other = [...this.fingers.values()].find((finger) => finger.pointerId !== event.pointerId);
    if (other) {
      const apart = (/** @type {PointerEvent} */ finger) => Math.hypot(finger.clientX - other.clientX, finger.clientY - other.clientY) || 1;
      this.zoom(apart(event) / apart(before), other);
    } else {
      this.x += event.clientX - before.clientX;
      this.y += event.clientY - before.clientY;
      this.paint(false);
    }
  }

  /** @param {boolean} glide */
  paint(glide) {
    this.world.classList.toggle('glide', glide);
    this.world.style.transform = `translate(${this.x}px,${this.y}px) scale(${this.k})`;
    this.pane.dataset.zoom = this.k > DETAIL ? 'detail' : this.isFar ? 'far' : 'names';
    this.moved();
  }
}
