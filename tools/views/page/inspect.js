// The panel beside the views: all that is known of an op, or of a module.

import { bar, bytes, cause, causeColor, h, share, short, time } from "views/text";

export class Inspector {
  /** @param {import("views/app").App} app @param {HTMLElement} element */
  constructor(app, element) {
    this.app = app;
    this.element = element;
  }

  /** @param {import("views/model").Place | null} place */
  show(place) {
    this.element.hidden = place === null;
    if (!place) return;
    const { model } = this.app, op = model.node(place);
    this.fill(`${short(op.op)}`, op.name === short(op.op) ? "" : op.name, [
      op.broken ? h("div", { class: "card failure" }, op.broken) : null,
      this.facts(place), this.timing(place), this.values(place), this.attributes(op), this.memory(place),
      this.misses(place), this.passes(place), this.others(place),
    ]);
  }

  /** @param {string} path */
  showModule(path) {
    this.element.hidden = false;
    const { model, times } = this.app, us = times.ofModule(path);
    const inside = times.by((t) => times.kindOf(t)).map((k) => ({ ...k, tasks: k.tasks.filter((t) => (times.moduleOf(t) + "/").startsWith(path + "/")) }))
      .filter((k) => k.tasks.length).map((k) => ({ name: k.name, count: k.tasks.length, us: k.tasks.reduce((s, t) => s + t.runs * t.duration_us, 0) }))
      .sort((a, b) => b.us - a.us);
    const counts = model.levels.map((l) => [l.name, l.nodes.filter((n) => ((n.module ?? "") + "/").startsWith(path + "/") && (n.parent ?? -1) < 0).length]);
    this.fill(path.split("/").at(-1) ?? path, path, [
      list([...(us ? [["Time of its tasks", `${time(us)}, ${share(us, times.total)} of all tasks`]] : []), ...counts.filter(([, n]) => n).map(([l, n]) => [`Ops, ${l}`, String(n)])]),
      inside.length ? [h("h3", {}, "By kind of op"), inside.map((k) => h("div", {}, h("div", { style: "display:flex;justify-content:space-between;gap:8px" },
        h("span", {}, `${short(k.name)} × ${k.count}`), h("span", {}, time(k.us))), bar(k.us / us)))] : null,
    ]);
  }

  /** @param {string} title @param {string} sub @param {any[]} content */
  fill(title, sub, content) {
    const close = h("button", { class: "close", type: "button", "aria-label": "Close (Esc)", onclick: () => this.app.select(null) }, "×");
    this.element.replaceChildren(h("header", {}, h("div", {}, h("h2", {}, title), sub ? h("div", { class: "note", style: "overflow-wrap:anywhere" }, sub) : null), close),
      h("div", { style: "height:10px" }), ...content.flat(3).filter(Boolean));
    this.element.scrollTop = 0;
  }

  /** @param {import("views/model").Place} place */
  facts(place) {
    const { model } = this.app, op = model.node(place), level = model.levels[place.level];
    const rows = [["Op", h("code", {}, op.op)], ["Level", `${level.name}: ${level.summary}`]];
    if (op.module) rows.push(["Module", h("button", { class: "link", type: "button", onclick: () => this.app.gotoModule(op.module ?? "") }, op.module)]);
    const sources = op.sources ?? [];
    if (sources.length > (sources[0] === op.name ? 1 : 0)) rows.push([sources.length > 1 ? "Source nodes" : "Source node", sources.join(", ")]);
    return list(rows);
  }

  /** @param {import("views/model").Place} place */
  timing(place) {
    const { model } = this.app, launches = model.launches(place);
    const tasks = launches.flatMap((l) => model.tasksOf.get(l) ?? []);
    if (!tasks.length) return null;
    const us = launches.reduce((sum, l) => sum + model.timeOf(l), 0), alone = model.isAlone(place);
    const title = alone ? "Time" : launches.length > 1 ? `Time of the ${launches.length} launches that it is in` : "Time of the launch that it is in";
    const longest = tasks.reduce((a, b) => (b.duration_us > a.duration_us ? b : a));
    const rows = [
      ["Duration", `${time(us)}, ${share(us, model.latency)} of the run`],
      ...(tasks.length === 1 ? [["Runs", `from ${time(longest.start_us)} to ${time(longest.start_us + longest.duration_us)}, after ${time(longest.start_us - longest.ready_us)} of launch and waiting`]] : [["Tasks", String(tasks.length)]]),
      ["On", `${longest.engine}${longest.cores?.[longest.engine] > 1 ? `, ${longest.cores[longest.engine]} cores` : ""}, stream ${longest.stream ?? "of the host"}`],
      ["Critical path", longest.critical ? "it is on it" : `not on it: it may end ${time(longest.slack_us)} later`],
    ];
    if (longest.timed_by) rows.push(["Timed by", longest.timed_by]);
    const limits = Object.entries(longest.limits_us ?? {}).filter(([, us]) => us >= 0.005).sort((a, b) => b[1] - a[1]);
    return [h("h3", {}, title), list(rows), h("h3", {}, `Bound by ${cause(longest.bound)}: what each asks of it`),
      limits.map(([name, v]) => h("div", { style: "display:grid;grid-template-columns:104px 1fr 76px;gap:8px" },
        h("span", {}, cause(name)), bar(v / limits[0][1], causeColor(name)), h("span", { class: "number" }, time(v))))];
  }

  /** @param {import("views/model").Place} place */
  values({ level, node }) {
    const { model } = this.app, op = model.levels[level].nodes[node];
    const reads = (op.operands ?? []).map(([name, type, maker]) => h("li", {},
      maker >= 0 ? h("button", { class: "link", type: "button", onclick: () => this.app.goto({ level, node: maker }) }, name || `${short(model.levels[level].nodes[maker].op)}`) : `${name || "constant"}`,
      h("span", { class: "mono" }, type)));
    const users = model.levels[level].nodes.flatMap((n, i) => ((n.operands ?? []).some(([, , m]) => m === node) ? [i] : []));
    const used = users.slice(0, 12).map((i) => h("li", {}, h("button", { class: "link", type: "button", onclick: () => this.app.goto({ level, node: i }) },
      `${short(model.levels[level].nodes[i].op)} ${model.levels[level].nodes[i].name}`)));
    if (users.length > used.length) used.push(h("li", { class: "note" }, `and ${users.length - used.length} more`));
    return [
      reads.length ? [h("h3", {}, "Reads"), h("ul", { class: "ports" }, reads)] : null,
      (op.results ?? []).some(Boolean) ? [h("h3", {}, "Makes"), h("ul", { class: "ports" }, (op.results ?? []).map((t) => h("li", {}, h("span", { class: "mono" }, t))))] : null,
      used.length ? [h("h3", {}, "Used by"), h("ul", { class: "ports" }, used)] : null,
    ];
  }

  /** @param {import("views/model").Op} op */
  attributes(op) {
    const rows = Object.entries(op.attributes ?? {});
    return rows.length ? [h("h3", {}, "Attributes"), list(rows.map(([k, v]) => [k, h("code", {}, v)]))] : null;
  }

  /** @param {import("views/model").Place} place */
  memory(place) {
    const { model } = this.app, launches = model.launches(place);
    const buffers = [...new Set(launches.flatMap((l) => (model.buffersOf.get(l) ?? [])))];
    if (!buffers.length || buffers.length > 24) return null;
    return [h("h3", {}, "Memory of the launch"), h("ul", { class: "ports" }, buffers.map((b) => h("li", {},
      h("button", { class: "link", type: "button", onclick: () => this.app.showBuffer(b) }, b.name || b.segment), launches.includes(b.nodes[0]) ? " (made here)" : "",
      h("span", { class: "mono" }, `${b.segment} + ${b.offset.toLocaleString("en")}, ${bytes(b.bytes)}, ${time(b.start_us)} to ${time(b.end_us)}`))))];
  }

  /** @param {import("views/model").Place} place */
  misses(place) {
    const remarks = this.app.model.remarks(place), near = remarks.filter((r) => !r.applied && !r.settled), done = remarks.filter((r) => r.applied);
    return [
      near.length ? [h("h3", {}, "Near misses"), near.map((r) => h("div", { class: "miss" }, h("b", {}, r.rule),
        r.loss_us !== undefined ? ` costs about ${time(r.loss_us)}` : "", h("div", { class: "note" }, r.why)))] : null,
      done.length ? [h("h3", {}, "Rules applied"), h("ul", { class: "ports" }, done.map((r) => h("li", {}, r.rule, r.why ? h("span", { class: "note" }, ` ${r.why}`) : null)))] : null,
    ];
  }

  /** @param {import("views/model").Place} place */
  passes(place) {
    const passes = this.app.model.passes(place);
    if (!passes.length) return null;
    return [h("h3", {}, "Passes that touched it"), h("ol", { class: "passes" }, passes.map((p) => h("li", {}, h("span", { class: "what" }, p.what), h("code", {}, p.name))))];
  }

  /** @param {import("views/model").Place} place */
  others(place) {
    const { model } = this.app, places = model.elsewhere(place);
    if (!places.length) return null;
    const rows = model.levels.flatMap((level, i) => {
      const here = places.filter((p) => p.level === i);
      if (!here.length) return [];
      const links = here.slice(0, 6).map((p) => h("div", {}, h("button", { class: "link", type: "button", onclick: () => this.app.goto(p) }, `${short(model.node(p).op)} ${model.node(p).name}`)));
      return [[level.name, [...links, here.length > 6 ? h("div", { class: "note" }, `and ${here.length - 6} more`) : null]]];
    });
    return [h("h3", {}, "At other levels"), list(rows)];
  }
}

/** @param {any[][]} rows */
function list(rows) {
  return h("dl", { class: "facts" }, rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}
