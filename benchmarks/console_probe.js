// Measures a page of the console from inside; the browser runs it before the scripts of the page.
globalThis.probe = {
  /** Resolves when the next frame is painted; returns the milliseconds since the navigation. */
  painted: () =>
    new Promise((done) =>
      requestAnimationFrame(() => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => done(performance.now());
        port2.postMessage(null); // a message that is sent in a frame arrives after it
      }),
    ),

  /** Returns when a plan of so many tasks was painted, in milliseconds since the navigation. */
  async drawn(tasks) {
    const isThere = () => {
      const view = document.querySelector('plan-view');
      return view?.layout?.nodes.size === tasks && (view.isAfar || view.tasks.size === tasks);
    };
    for (const until = performance.now() + 60_000; !isThere(); await probe.painted()) if (performance.now() > until) throw new Error('never drawn');
    return probe.painted();
  },

  /** Calls a function of the run's page; returns the milliseconds until its change is painted. */
  async step(change) {
    const since = performance.now();
    change(document.querySelector('run-page'));
    return (await probe.painted()) - since;
  },

  /** Shows each tenth entry from the middle of the run on, as who drags the playhead by a pixel of a thousand. */
  async drag(steps) {
    const taken = [];
    for (let n = 0; n < steps; n++) taken.push(await probe.step(({ cursor }) => cursor.show(Math.floor(cursor.journal.length / 2) + 10 * n)));
    return taken;
  },

  /** Shows entries all over the run. */
  async scrub(steps) {
    const taken = [];
    for (let n = 0; n < steps; n++) taken.push(await probe.step(({ cursor }) => cursor.show(1 + ((n * 3701) % cursor.journal.length))));
    return taken;
  },

  /** Zooms from the whole plan until tasks have names, and back. */
  async zoom(steps) {
    const taken = [];
    for (let n = 0; n < steps; n++) taken.push(await probe.step(({ plan }) => plan.viewport.zoom(n < steps / 2 ? 1.5 : 1 / 1.5)));
    return taken;
  },

  /** Picks tasks all over the plan. */
  async pick(steps) {
    const taken = [];
    for (let n = 0; n < steps; n++) taken.push(await probe.step((page) => page.pick([...page.plan.layout.nodes.keys()][(n * 3701) % page.plan.layout.nodes.size])));
    return taken;
  },

  /** Notes of each task that ends when that was committed, when it arrived, and when it was painted: milliseconds since 1970. */
  watch() {
    const page = document.querySelector('run-page');
    const { journal } = page.shown;
    const [push, draw] = [journal.push, page.draw];
    let arrived = [];
    probe.updates = [];
    journal.push = (delta) => {
      if (delta.kind === 'attempt_ended') arrived.push([delta.at * 1000, Date.now()]);
      return push.call(journal, delta);
    };
    page.draw = () => {
      const drawn = arrived;
      arrived = [];
      draw.call(page);
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => drawn.forEach((it) => probe.updates.push([...it, Date.now()]));
      port2.postMessage(null);
    };
  },
};
