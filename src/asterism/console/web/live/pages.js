// @ts-check
/** The pages: their addresses, and their places in the rail. */
import './pages/compare.js';
import './pages/conversation.js';
import './pages/conversations.js';
import './pages/devices.js';
import './pages/inbox.js';
import './pages/machines.js';
import './pages/run.js';
import './pages/runs.js';
import './pages/schedules.js';
import './pages/settings.js';
import './pages/submit.js';

/** @type {import('./router.js').Routes} */
export const ROUTES = [
  ['/', 'runs-page'],
  ['/runs', 'runs-page'],
  ['/runs/:id', 'live-run-page'],
  ['/submit', 'submit-page'],
  ['/inbox', 'inbox-page'],
  ['/conversations', 'conversations-page'],
  ['/conversations/:id', 'conversation-page'],
  ['/devices', 'devices-page'],
  ['/schedules', 'schedules-page'],
  ['/machines', 'machines-page'],
  ['/settings', 'settings-page'],
  ['/compare', 'compare-page'],
];

/** Entries of the rail: address, name, glyph, and the key after G. */
export const RAIL = [
  ['/runs', 'Runs', 'list', 'r'],
  ['/inbox', 'Inbox', 'inbox', 'i'],
  ['/conversations', 'Conversations', 'chat', 'c'],
  ['/devices', 'Devices', 'device', 'd'],
  ['/schedules', 'Schedules', 'clock', 's'],
  ['/machines', 'Machines', 'graph', 'm'],
  ['/settings', 'Settings', 'settings', 'e'],
];
