// @ts-check
/** `<machines-page>`: each machine as a picture and as a table, and how many unfinished runs are in each state. */
import { fill, h, icon } from '../../dom.js';
import { bestLayout } from '../../layout.js';
import { count, named } from '../../words.js';
import { gathered, reload } from '../reload.js';

/** @typedef {{event: string, states: string[], to: string[], stays: boolean}} Row */
/** @typedef {import('../../machine.js').Machine & {rows: Row[]}} Machine */

const LOOK_MS = 1500;
/** Runs of one status that are counted. */
const COUNTED = 1000;
const STATUSES = ['active', 'paused', 'waiting'];
const H = 30;

class MachinesPage extends HTMLElement {
  constructor() {
    super();
    this.site = /** @type {import('../site.js').Site} */ (/** @type {unknown} */ (null)); // `enter` sets it
    this.query = new URLSearchParams();
    this.heading = 'Machines';
    /** @type {Machine[]} */
    this.machines = [];
    /** @type {Map<string, Map<string, number>>} runs by machine and state */
    this.counts = new Map();
    this.whole = true;
    /** @type {(() => void)[]} */
    this.stops = [];
  }

  /** @type {import('../site.js').Page['enter']} */
  async enter(site, _params, query) {
    this.site = site;
    this.query = query;
    this.body = h('div', { class: 'page', tabindex: 0, role: 'region', 'aria-label': 'Machines' });
    this.replaceChildren(this.body);
    this.machines = (await site.api.get('/api/machines')).machines;
    await this.load();
    const looking = gathered(() => this.again(), LOOK_MS);
    this.stops = [site.channel.onTopic('runs', looking.start), looking.stop];
  }

  leave() {
    for (const stop of this.stops) stop();
  }

  async again() {
    await reload(() => this.load());
  }

  async load() {
    const lists = await Promise.all(STATUSES.map((status) => this.site.api.get(`/api/runs?${new URLSearchParams({ status, children: 'true', limit: String(COUNTED) })}`)));
    this.whole = lists.every((list) => !list.next);
    this.counts = new Map();
    for (const { machine, state } of lists.flatMap((list) => list.runs)) {
      const states = this.counts.get(machine) ?? new Map();
      this.counts.set(machine, states.set(state, (states.get(state) ?? 0) + 1));
    }
    this.draw();
  }

  draw() {
    const key = JSON.stringify([...this.counts].map(([machine, states]) => [machine, ...states]));
    fill(this.body, key, () => [h('p', { class: 'mute lead-in' }, 'A run is one machine: events move it from state to state, and nothing else does. The numbers count unfinished runs, those that other runs have started among them.'), this.machines.map((machine) => this.card(machine))]);
  }

  /** @param {Machine} machine */
  card(machine) {
    const counts = this.counts.get(machine.name) ?? new Map();
    const all = [...counts.values()].reduce((sum, number) => sum + number, 0);
    const open = this.query.get('table') === machine.name;
    const toggled = (/** @type {any} */ event) => {
      if (event.target.open) this.query.set('table', machine.name);
      else if (this.query.get('table') === machine.name) this.query.delete('table');
      this.site.keep(this.query);
    };
    const link = h('a', { href: `/runs?${new URLSearchParams({ machine: machine.name })}` }, `${all}${this.whole ? '' : ' or more'} unfinished`);
    return h(
      'section',
      { class: 'card machine' },
      h('header', { class: 'head' }, h('h2', { class: 'page-name' }, icon('graph'), named(machine.name)), h('span', { class: 'mute' }, `${count(machine.states.length, 'state')} · ${count(new Set(machine.rows.map((row) => row.event)).size, 'event')}`), link),
      picture(machine, counts),
      h('details', { open, ontoggle: toggled }, h('summary', { 'data-key': machine.name }, 'Transition table'), h('div', { class: 'panel', tabindex: 0, role: 'region', 'aria-label': `Table of the ${machine.name}` }, tableOf(machine))),
    );
  }
}

/** @param {Machine} machine */
function tableOf(machine) {
  const every = machine.states.length;
  const live = machine.states.filter((state) => !machine.ends.includes(state));
  const states = (/** @type {string[]} */ some) => (some.length === every ? 'every state' : some.length === live.length && live.every((it) => some.includes(it)) ? 'every state that is no end' : some.map((it, at) => [at ? ', ' : '', h('code', {}, it)]));
  const rows = [...machine.rows].sort((a, b) => Number(b.to.length > 0) - Number(a.to.length > 0) || a.event.localeCompare(b.event));
  const body = rows.map((row) => h('tr', {}, h('th', { scope: 'row' }, h('code', {}, row.event)), h('td', { class: 'wide' }, states(row.states)), h('td', { class: 'wide' }, row.to.length ? states(row.to) : h('span', { class: 'mute' }, '–')), h('td', {}, row.stays ? 'may stay' : '')));
  return h('table', { class: 'rows' }, h('caption', { class: 'hidden' }, `Transitions of the ${machine.name}`), h('thead', {}, h('tr', {}, ['Event', 'In', 'Leads to', ''].map((head) => h('th', { scope: 'col' }, head)))), h('tbody', {}, body));
}

/**
 * Draw all states of a machine, each with the number of runs in it.
 * @param {Machine} machine
 * @param {Map<string, number>} counts
 */
function picture(machine, counts) {
  const nodes = machine.states.map((id) => ({ id, w: id.length * 7.4 + 22 + (counts.get(id) ? 22 : 0), h: H }));
  const edges = machine.moves.filter(([from, to]) => from !== to).map(([from, to]) => ({ id: `${from}>${to}`, from, to }));
  const found = bestLayout(nodes, edges, { w: 900, h: 320 }, { gapMain: 44, gapAcross: 22, largest: 1 });
  const tip = `tip-${machine.name.replace(/\W/g, '-')}`;
  const lines = edges.map(({ id, from, to }) => {
    const opposite = edges.some((it) => it.from === to && it.to === from);
    const aside = opposite ? (machine.states.indexOf(from) < machine.states.indexOf(to) ? -6 : 6) : 0;
    return h('g', { class: 'move', transform: found.direction === 'down' ? `translate(${aside} 0)` : `translate(0 ${aside})` }, h('title', {}, id.replace('>', ' to ')), h('path', { d: found.edges.get(id)?.d, 'marker-end': `url(#${tip})` }));
  });
  const states = nodes.map((node) => {
    const place = found.nodes.get(node.id) ?? { x: 0, y: 0 };
    const number = counts.get(node.id);
    const classes = ['state', machine.ends.includes(node.id) && 'end', number && 'now'].filter(Boolean).join(' ');
    const badge = number ? [h('circle', { cx: place.x + node.w - 17, cy: place.y + H / 2, r: 10 }), h('text', { class: 'number', x: place.x + node.w - 17, y: place.y + H / 2 + 4, 'text-anchor': 'middle' }, number > 99 ? '99+' : String(number))] : null;
    return h('g', { class: classes }, h('title', {}, `${node.id}: ${count(number ?? 0, 'run')}`), h('rect', { x: place.x, y: place.y, width: node.w, height: H, rx: machine.ends.includes(node.id) ? 15 : 8 }), h('text', { x: place.x + (node.w - (number ? 22 : 0)) / 2, y: place.y + H / 2 + 4, 'text-anchor': 'middle' }, node.id), badge);
  });
  const said = machine.states.map((state) => (counts.get(state) ? `${state}: ${counts.get(state)}` : '')).filter(Boolean);
  const svg = h('svg', { viewBox: `-10 -10 ${found.w + 20} ${found.h + 20}`, role: 'img', 'aria-label': `${named(machine.name)}: ${said.join(', ') || 'no unfinished runs'}` }, h('defs', {}, h('marker', { id: tip, class: 'tip', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: 'auto' }, h('path', { d: 'M0 .6 7 4 0 7.4Z' }))), lines, states);
  svg.style.maxWidth = `${found.w + 20}px`;
  return svg;
}

customElements.define('machines-page', MachinesPage);
