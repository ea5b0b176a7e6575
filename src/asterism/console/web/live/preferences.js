// @ts-check
/** What a person has chosen for this browser: the theme, the density, and the motion. The styles read them from the document. */
import { store, stored } from './stored.js';

const STORED = 'asterism';
const CHOICES = /** @type {Record<string, string[]>} */ ({ theme: ['auto', 'light', 'dark'], density: ['normal', 'compact'], motion: ['auto', 'none'] });

/** Return what is chosen; the first choice where nothing is. */
export function preferences() {
  /** @type {Record<string, unknown>} */
  let chosen = {};
  try {
    chosen = JSON.parse(stored('localStorage', STORED) || '{}') ?? {};
  } catch {
    // somebody else has written there
  }
  return Object.fromEntries(Object.entries(CHOICES).map(([name, choices]) => [name, choices.includes(String(chosen[name])) ? String(chosen[name]) : choices[0]]));
}

/**
 * Choose.
 * @param {string} name
 * @param {string} choice
 */
export function prefer(name, choice) {
  store('localStorage', STORED, JSON.stringify({ ...preferences(), [name]: choice }));
  applyPreferences();
}

/** Let the styles follow what is chosen. */
export function applyPreferences() {
  for (const [name, choice] of Object.entries(preferences())) {
    if (choice === CHOICES[name][0]) delete document.documentElement.dataset[name];
    else document.documentElement.dataset[name] = choice;
  }
}

/** Change between light and dark. */
export function switchTheme() {
  const { theme } = preferences();
  const dark = theme === 'auto' ? matchMedia('(prefers-color-scheme: dark)').matches : theme === 'dark';
  prefer('theme', dark ? 'light' : 'dark');
}
