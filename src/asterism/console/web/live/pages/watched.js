// @ts-check
/** The pages that people watch, which are one script. */
import './conversation.js';
import './conversations.js';
import './devices.js';
import './inbox.js';
import './runs.js';
