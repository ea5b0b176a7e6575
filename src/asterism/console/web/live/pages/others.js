// @ts-check
/** All pages but that of a run, which are one script. */
import './compare.js';
import './conversation.js';
import './conversations.js';
import './devices.js';
import './inbox.js';
import './machines.js';
import './runs.js';
import './schedules.js';
import './settings.js';
import './submit.js';
