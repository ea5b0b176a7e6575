// @ts-check
/** The pages that are opened now and then, which are one script. */
import '../log_view.js';
import './compare.js';
import './machines.js';
import './schedules.js';
import './settings.js';
import './submit.js';
