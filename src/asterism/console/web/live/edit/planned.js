// @ts-check
/** A plan that has not started, as the rows that a plan is drawn from. Pure. */

/** @typedef {import('../../fold.js').Rows} Rows */

const HANDLERS = ['on_failure', 'finally'];

/**
 * Return the rows of a plan, as a plan file or a question has it.
 * @param {any} plan
 * @returns {Rows}
 */
export function rowsOfPlan(plan) {
  /** @type {Rows} */
  const rows = new Map([['run', { machine: 'constellation agent', name: plan.name ?? '' }]]);
  const tasks = [...listed(plan.tasks, 'task_id'), ...HANDLERS.flatMap((role) => listed(plan[role], 'task_id').map((task) => ({ role, ...task })))];
  for (const task of tasks) rows.set(`task:${task.task_id}`, taskRow(task, rows.size));
  for (const line of listed(plan.dependencies, 'id')) {
    const { id, row } = lineRow(line);
    rows.set(`line:${id}`, row);
  }
  return rows;
}

/**
 * Return the row of a task as in a plan.
 * @param {any} task
 * @param {number} order
 */
export function taskRow(task, order) {
  return {
    name: task.name ?? '',
    order,
    role: task.role && task.role !== 'task' ? task.role : null,
    device: task.device ?? '',
    skill: task.skill ?? '',
    inputs: task.inputs ?? {},
    env: task.env ?? {},
    folder: task.folder ?? '',
    tasks: task.constellation ? listed(task.constellation.tasks, 'task_id').length : null,
    requires_approval: !!task.requires_approval,
    status: 'PENDING',
  };
}

/**
 * Return the id and the row of a dependency as in a plan.
 * @param {any} line
 */
export function lineRow(line) {
  const [from, to] = [line.from ?? line.from_task_id, line.to ?? line.to_task_id];
  const type = line.type ?? line.dependency_type ?? (line.condition ? 'CONDITIONAL' : 'SUCCESS_ONLY');
  const id = String(line.id || line.line_id || line.dependency_id || `${from}->${to}`);
  return { id, row: { from, to, type, condition: line.condition || null, satisfied: null, reason: null } };
}

/**
 * Return the tasks or dependencies of a plan, which may be an object by their ids.
 * @param {any} value
 * @param {string} name name of the field that has the id
 * @returns {any[]}
 */
function listed(value, name) {
  if (Array.isArray(value)) return value;
  return Object.entries(value ?? {}).map(([id, item]) => ({ [name]: id, ...item }));
}
