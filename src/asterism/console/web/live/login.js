// @ts-check
/** `<log-in>`: how to log in, for a browser that is not. A login link, or a token that is exchanged for one, logs in. */
import { fill, h, setText } from '../dom.js';
import { Problem } from './api.js';

/** What stands before the text of a login link. */
const LINK = '#login=';

export class LogIn extends HTMLElement {
  /**
   * @param {import('./api.js').Api} api
   * @param {string} [problem] why the last try failed
   */
  ask(api, problem = '') {
    const field = h('input', { id: 'login', type: 'password', autocomplete: 'off', required: true, 'aria-describedby': 'login-problem' });
    const failed = h('p', { class: 'error', role: 'alert', id: 'login-problem', hidden: !problem }, problem);
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault();
      try {
        await logIn(api, field.value.trim());
        location.reload();
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        setText(failed, error.detail);
        failed.hidden = false;
        field.select();
      }
    };
    fill(this, problem, () =>
      h(
        'form',
        { class: 'card login', onsubmit: submit },
        h('h1', {}, 'Log in'),
        h('p', {}, 'Open the login link that ', h('code', {}, 'asterism serve'), ' has printed. Or paste it here, or a token: that of this computer’s user is in the file ', h('code', {}, 'DATABASE.token'), '.'),
        h('label', { for: 'login' }, 'Login link or token'),
        field,
        failed,
        h('button', { class: 'button primary' }, 'Log in'),
      ),
    );
    field.focus();
  }
}

/**
 * Exchange a login link, its text after the `#`, or a token, for a cookie.
 * @param {import('./api.js').Api} api
 * @param {string} given
 * @throws {Problem}
 */
export async function logIn(api, given) {
  const [, link] = given.split(LINK);
  await api.send('POST', '/api/login', { link: link ?? (await linkOf(api, given)) });
  await api.get('/api/session').catch((error) => {
    throw error.status === 401 ? new Problem(401, 'Not logged in', 'This browser has refused the cookie of the login. Allow cookies for this site, and log in with another link.') : error;
  });
}

/**
 * Return a new login link for a token; a text that is no token may be a link itself.
 * @param {import('./api.js').Api} api
 * @param {string} given
 */
async function linkOf(api, given) {
  try {
    return (await api.send('POST', '/api/login-links', undefined, { headers: { Authorization: `Bearer ${given}` } })).link;
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 401) throw error;
    return given;
  }
}

customElements.define('log-in', LogIn);
