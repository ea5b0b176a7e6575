// @ts-check
/** Starts the console: logs in by the link in the address if there is one, and shows the page of the address. */
import { h } from '../dom.js';
import { Api, Problem } from './api.js';
import { openChannel } from './channel.js';
import { logIn } from './login.js';
import { loadPage, ROUTES } from './pages.js';
import { applyPreferences } from './preferences.js';
import { match } from './router.js';
import './shell.js';
import { Site } from './site.js';

applyPreferences();

/** @param {string} [problem] */
function askToLogIn(problem) {
  if (document.querySelector('log-in')) return;
  const form = /** @type {import('./login.js').LogIn} */ (document.createElement('log-in'));
  document.body.replaceChildren(h('main', { class: 'center' }, form));
  form.ask(new Api(), problem);
}

async function start() {
  const link = new URLSearchParams(location.hash.slice(1)).get('login');
  if (link) history.replaceState(null, '', location.pathname + location.search);
  const api = new Api();
  void loadPage(match(ROUTES, location.pathname)?.tag ?? '').catch(() => {}); // at the same time; the shell says what is wrong
  try {
    if (link) await logIn(api, `#login=${link}`);
    const who = await api.get('/api/session');
    api.onLoggedOut = () => askToLogIn();
    const channel = openChannel();
    channel.onLoggedOut = () => askToLogIn();
    const shell = /** @type {import('./shell.js').ConsoleShell} */ (document.createElement('console-shell'));
    document.body.replaceChildren(shell);
    shell.open(new Site(api, channel, who));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status === 401) askToLogIn(link ? error.detail : '');
    else document.body.replaceChildren(h('main', { class: 'center' }, h('p', { class: 'error', role: 'alert' }, error.detail), h('button', { type: 'button', class: 'button', onclick: () => location.reload() }, 'Try again')));
  }
}

void start();
