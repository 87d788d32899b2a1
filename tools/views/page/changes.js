// The time with other options, where they were tried; then on a machine that is better in one respect.

import { bar, bytes, card, h, share, table, time } from "views/text";

export class ChangesView {
  /** @param {import("views/app").App} app */
  constructor(app) {
    const { what_if, time: run } = app.model.payload;
    const rows = [...what_if].sort((a, b) => a.ratio - b.ratio).map((w) =>
      [w.title, h("code", {}, w.change), time(w.latency_us), `${(100 * w.ratio).toFixed(1)}%`, bar(w.ratio)]);
    rows.push(["as it is", "", time(run.latency_us), "100.0%", bar(1)]);
    const bound = ["the lower bound of any schedule of these tasks", "", time(run.lower_bound_us), share(run.lower_bound_us, run.latency_us), bar(run.lower_bound_us / run.latency_us)];
    const machine = card("Another machine",
      h("p", { class: "note" }, `The same program, with its tilings and its schedule, on a ${run.target} that differs in one respect. Compiled for that machine it might gain more. ge-run --what-if simulates other changes.`),
      table(["Change", "--what-if", "#Latency", "#Of the time", ""], [...rows, bound]));
    this.element = h("div", { class: "sheet" }, h("div", { class: "columns wide" }, this.tried(app), machine));
  }

  /** The options that ge-run --explain compiled and timed. @param {import("views/app").App} app */
  tried(app) {
    const found = app.model.payload.report?.time?.explained;
    if (!found?.tried?.length) return card("Other options", h("p", { class: "note" }, "None were tried. ge-run --explain --html compiles and times them: other types, memory levels, batches."));
    const rows = found.tried.map((/** @type {any} */ t) => [h("code", {}, t.flags), time(t.latency_us), share(t.latency_us, app.model.latency), bytes(t.bytes), t.numbers ?? ""]);
    const not = Object.entries(found.not_tried ?? {}).map(([name, why]) => h("li", {}, `${name}: ${why}`));
    return card("Other options, compiled and timed", table(["Options", "#Latency", "#Of the time", "#Memory", "Numbers"], rows),
      not.length ? [h("h3", {}, "Not tried"), h("ul", { class: "note" }, not)] : null);
  }
}
