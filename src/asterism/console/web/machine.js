// @ts-check
/** `<state-machine>`: the states of a run's machine, and how often the run went from one to another. */
import { fill, h } from './dom.js';
import { bestLayout } from './layout.js';
import { count, named } from './words.js';

/** @typedef {{name: string, initial: string, states: string[], ends: string[], moves: [string, string][]}} Machine */

/** States up to which a machine is drawn whole; of a larger one, only those that the run was in. */
const WHOLE = 5;
const H = 30;

class StateMachine extends HTMLElement {
  /**
   * @param {Machine} machine
   * @param {{from: string, to: string}[]} moves changes of state up to the cursor
   * @param {string} state
   */
  draw(machine, moves, state) {
    fill(this, [machine.name, state, moves.length].join('\n'), () => this.picture(machine, moves, state));
  }

  /**
   * @param {Machine} machine
   * @param {{from: string, to: string}[]} moves
   * @param {string} state
   */
  picture(machine, moves, state) {
    /** @type {Map<string, number>} */
    const counts = new Map();
    for (const { from, to } of moves) counts.set(`${from}>${to}`, (counts.get(`${from}>${to}`) ?? 0) + 1);
    const last = moves.length ? `${moves[moves.length - 1].from}>${moves[moves.length - 1].to}` : '';
    const seen = new Set([machine.initial, state, ...moves.flatMap((move) => [move.from, move.to])]);
    const whole = machine.states.length <= WHOLE;
    const states = machine.states.filter((it) => whole || seen.has(it));
    const nodes = states.map((id) => ({ id, w: id.length * 7.4 + 22, h: H }));
    const edges = machine.moves
      .map(([from, to]) => ({ id: `${from}>${to}`, from, to }))
      .filter(({ id, from, to }) => (whole ? from !== to : counts.has(id)) && states.includes(from) && states.includes(to));
    const found = bestLayout(nodes, edges, { w: 330, h: 230 }, { gapMain: 36, gapAcross: 18, largest: 1 });
    const [w, height] = [found.w + 8, found.h + 8];
    const drawnEdges = edges.map(({ id, from, to }) => {
      const route = found.edges.get(id);
      const taken = counts.get(id);
      const opposite = edges.some((it) => it.from === to && it.to === from);
      const aside = opposite ? (machine.states.indexOf(from) < machine.states.indexOf(to) ? -6 : 6) : 0;
      const text = `${id.replace('>', ' to ')}${taken ? `, ${count(taken, 'time')}` : ', not taken'}`;
      return h(
        'g',
        { class: `move ${taken ? 'taken' : ''} ${id === last ? 'last' : ''}`, transform: found.direction === 'down' ? `translate(${aside} 0)` : `translate(0 ${aside})` },
        h('title', {}, text),
        h('path', { d: route?.d, 'marker-end': 'url(#move-tip)' }),
        taken && taken > 1 ? h('g', { class: 'times' }, h('circle', { cx: route?.x, cy: route?.y, r: 8.5 }), h('text', { x: route?.x, y: (route?.y ?? 0) + 3.5, 'text-anchor': 'middle' }, String(taken))) : null,
      );
    });
    const drawnStates = nodes.map((node) => {
      const place = found.nodes.get(node.id) ?? { x: 0, y: 0 };
      const classes = ['state', node.id === state && 'now', machine.ends.includes(node.id) && 'end', seen.has(node.id) && 'seen'].filter(Boolean).join(' ');
      const text = h('text', { x: place.x + node.w / 2, y: place.y + H / 2 + 4, 'text-anchor': 'middle' }, node.id);
      return h('g', { class: classes }, h('rect', { x: place.x, y: place.y, width: node.w, height: H, rx: machine.ends.includes(node.id) ? 15 : 8 }), text);
    });
    const tip = h('marker', { id: 'move-tip', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: 'auto' }, h('path', { d: 'M0 .6 7 4 0 7.4Z' }));
    const picture = h('svg', { viewBox: `-4 -4 ${w} ${height}`, role: 'img', 'aria-label': `${named(machine.name)}, now in ${state}` }, h('defs', {}, tip), drawnEdges, drawnStates);
    picture.style.maxWidth = `${w}px`;
    const left = machine.states.length - states.length;
    return [picture, left ? h('p', { class: 'mute' }, `${count(left, 'other state')} of this machine not entered`) : null];
  }
}

customElements.define('state-machine', StateMachine);
