// @ts-check
/** `<command-palette>`: finds and carries out commands by typing a part of their names. */
import { h } from '../dom.js';

/** @typedef {import('./site.js').Command} Command */

const MOST = 12;
/** Milliseconds without a key before runs are searched. */
const PAUSE_MS = 150;

export class CommandPalette extends HTMLElement {
  constructor() {
    super();
    /** @type {Command[]} */
    this.commands = [];
    /** @type {Command[]} commands that match, in order */
    this.shown = [];
    /** @type {Command[]} */
    this.found = [];
    this.at = 0;
    this.isSearching = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  connectedCallback() {
    if (this.dialog) return;
    this.field = h('input', { type: 'text', role: 'combobox', 'aria-expanded': 'true', 'aria-controls': 'palette-list', 'aria-label': 'Search', placeholder: 'Search runs, tasks, devices, schedules, commands', autocomplete: 'off', spellcheck: 'false', oninput: () => this.typed() });
    this.list = h('ul', { id: 'palette-list', role: 'listbox', 'aria-label': 'Found' });
    this.dialog = h('dialog', { class: 'palette', 'aria-label': 'Commands', onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event), onclick: (/** @type {Event} */ event) => event.target === this.dialog && this.dialog.close() }, this.field, this.list);
    this.append(this.dialog);
  }

  /**
   * Open the palette.
   * @param {Command[]} commands
   * @param {(text: string) => Promise<Command[]>} find returns commands for a text that is none of their names
   */
  open(commands, find) {
    this.commands = commands;
    this.find = find;
    this.found = [];
    this.field.value = '';
    if (!this.dialog.open) this.dialog.showModal();
    this.draw();
  }

  typed() {
    clearTimeout(this.timer);
    const text = this.field.value.trim();
    this.found = [];
    this.isSearching = !!text;
    this.draw();
    if (!text) return;
    this.timer = setTimeout(async () => {
      const found = (await this.find?.(text)) ?? [];
      if (this.field.value.trim() !== text) return;
      this.found = found;
      this.isSearching = false;
      this.draw();
    }, PAUSE_MS);
  }

  draw() {
    const words = this.field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const named = this.commands.filter((command) => words.every((/** @type {string} */ word) => command.title.toLowerCase().includes(word)));
    this.shown = [...named.slice(0, MOST), ...this.found];
    this.at = Math.min(this.at, Math.max(0, this.shown.length - 1));
    if (!words.length) this.at = 0;
    const items = this.shown.map((command, at) =>
      h('li', { role: 'option', id: `palette-${at}`, 'aria-selected': String(at === this.at), onclick: () => this.run(command) }, h('span', { dir: 'auto' }, command.title), command.hint ? h('kbd', {}, command.hint) : null),
    );
    this.list.replaceChildren(...(items.length ? items : [h('li', { class: 'mute' }, this.isSearching ? 'Searching …' : 'Nothing found in commands, titles of runs, devices, schedules, flow agents, and the tasks of the last day')]));
    this.field.setAttribute('aria-activedescendant', this.shown.length ? `palette-${this.at}` : '');
    items[this.at]?.scrollIntoView({ block: 'nearest' });
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) {
      event.preventDefault();
      this.at = (this.at + by + this.shown.length) % Math.max(1, this.shown.length);
      this.draw();
    } else if (event.key === 'Enter') {
      event.preventDefault();
      const command = this.shown[this.at];
      if (command) this.run(command);
    }
  }

  /** @param {Command} command */
  run(command) {
    this.dialog.close();
    command.run();
  }
}

customElements.define('command-palette', CommandPalette);
