// @ts-check
/** The form of a new task: its name, its device and skill, and the arguments of that skill. */
import { h } from '../../dom.js';
import { openDialog } from '../dialog.js';
import '../form/form.js';
import { idOf } from './task_id.js';

/** @typedef {import('../form/form.js').ValueForm} ValueForm */
/** @typedef {import('./draft.js').Action} Action */

/**
 * Ask for a new task.
 * @param {any[]} devices with their skills, as the API returns them
 * @param {[string, string][]} tasks ids and names of the tasks it may wait for
 * @param {string} after id of the task that it waits for at first; empty for none
 * @param {(actions: Action[]) => string} add takes the edits; returns why they cannot be
 */
export function askTask(devices, tasks, after, add) {
  const places = devices.flatMap((device) => (device.skills.length ? device.skills.map((/** @type {any} */ skill) => ({ device, skill })) : [{ device, skill: null }]));
  const title = (/** @type {any} */ { device, skill }) => (skill ? `${device.device_id} · ${skill.name}` : `${device.device_id}, told in words`);
  const form = /** @type {ValueForm} */ (document.createElement('value-form'));
  form.open({
    type: 'object',
    required: ['name', 'does'],
    properties: {
      name: { type: 'string', title: 'Name', maxLength: 200 },
      does: { title: 'Device and skill', oneOf: places.map((place, at) => ({ const: at, title: title(place) })) },
      after: { title: 'Waits for', oneOf: tasks.map(([id, name]) => ({ const: id, title: name })), default: after || undefined },
      description: { type: 'string', title: 'Description' },
      requires_approval: { type: 'boolean', title: 'A person approves it before it starts', default: false },
    },
  });
  const inputs = /** @type {ValueForm} */ (document.createElement('value-form'));
  const hint = h('p', { class: 'mute' });
  const choose = () => {
    const place = places[form.draft.does]; // none for the empty text before a choice
    const parameters = place?.skill?.parameters ?? {};
    const names = Object.keys(parameters.properties ?? {});
    inputs.hidden = !names.length;
    hint.textContent = place?.skill?.description ?? place?.device.description ?? '';
    if (names.length) inputs.open({ ...parameters, description: '' }, undefined, { references: true });
  };
  form.addEventListener('change', (event) => /** @type {any} */ (event.target).localName === 'select' && choose());
  choose();
  const submit = async () => {
    const found = form.read();
    const given = inputs.hidden ? { value: {} } : inputs.read();
    if (!found || !given) return 'Not added: the form says what is wrong.';
    const { name, does, after: source, ...more } = found.value;
    const { device, skill } = places[does];
    const id = idOf(name, tasks);
    /** @type {Action[]} */
    const actions = [{ tool: 'add_task', parameters: { task_id: id, name, device: device.device_id, ...(skill ? { skill: skill.name } : {}), inputs: given.value, ...more } }];
    if (source) actions.push({ tool: 'add_dependency', parameters: { from: source, to: id } });
    return add(actions);
  };
  const about = h('p', { class: 'mute' }, 'An argument may be a reference to an earlier result: ', h('code', {}, '${task.field}'));
  openDialog({ title: 'Add a task', parts: [form, hint, inputs, about], confirm: 'Add to the edits', submit });
}
