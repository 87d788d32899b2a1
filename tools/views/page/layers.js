// Time by module, as a picture that one goes into, and by kind of op.

import { bar, card, cause, causeColor, clipped, h, share, table, time, tip } from "views/text";

const { d3 } = /** @type {any} */ (globalThis);
const ROW = 27, DEPTH = 6;

export class LayersView {
  /** @param {import("views/app").App} app */
  constructor(app) {
    this.app = app;
    this.root = d3.hierarchy(app.times.tree()).sum((/** @type {any} */ d) => d.own).sort((/** @type {any} */ a, /** @type {any} */ b) => b.value - a.value);
    this.at = this.root;
    this.picture = h("div");
    this.crumbs = h("div", { class: "crumbs", style: "margin-bottom:8px" });
    this.rows = h("div");
    this.element = h("div", { class: "sheet" },
      card("Time by module", h("p", { class: "note" }, "Width is the time of tasks; they may overlap. Modules come from names of nodes and weights; a launch of several modules counts where they meet, and what lies between two layers for the first: an assumption."), this.crumbs, this.picture),
      h("div", { class: "columns", style: "margin-top:16px" }, card("In this module", this.rows), this.kinds(), this.bounds()));
  }

  /** @param {any} node */
  go(node) { this.at = node; this.draw(); }

  draw() {
    const width = this.picture.getBoundingClientRect().width;
    if (!width) return;
    const local = d3.partition().size([width, this.at.height + 1])(this.at.copy());
    const wide = local.descendants().filter((/** @type {any} */ d) => d.x1 - d.x0 > 3);
    const depth = Math.min(DEPTH, 1 + Math.max(...wide.map((/** @type {any} */ d) => d.depth - local.depth)));
    const svg = d3.create("svg").attr("class", "icicle").attr("width", width).attr("height", depth * ROW).attr("role", "img").attr("aria-label", "Time by module; the table below has the same figures");
    const shown = local.descendants().filter((/** @type {any} */ d) => d.depth - local.depth < depth && d.x1 - d.x0 > 0.5);
    const cells = svg.selectAll("g").data(shown).join("g").attr("transform", (/** @type {any} */ d) => `translate(${d.x0},${(d.depth - local.depth) * ROW})`);
    cells.append("rect").attr("width", (/** @type {any} */ d) => Math.max(d.x1 - d.x0 - 1, 0.5)).attr("height", ROW - 2).attr("rx", 3)
      .attr("fill", (/** @type {any} */ d) => `rgba(var(--heat), ${(0.1 + 0.6 * (d.value / this.root.value) ** 0.6).toFixed(3)})`)
      .on("mousemove", (/** @type {MouseEvent} */ e, /** @type {any} */ d) => tip(e, h("b", {}, d.data.path || "model"), h("span", {}, `${time(d.value)}, ${share(d.value, this.root.value)} of all tasks`)))
      .on("mouseleave", () => tip(null)).on("click", (/** @type {MouseEvent} */ e, /** @type {any} */ d) => { tip(null); this.go(this.find(d.data.path)); });
    cells.append("text").attr("x", 6).attr("y", ROW / 2 + 3).text((/** @type {any} */ d) => this.label(d, Math.floor((d.x1 - d.x0 - 10) / 6.4)));
    this.picture.replaceChildren(svg.node());
    this.path();
    this.inside();
  }

  /** A name, with the time where there is room. @param {any} d @param {number} room in characters */
  label(d, room) {
    const name = d.data.name, us = time(d.value);
    if (name.length + us.length + 2 <= room) return `${name}  ${us}`;
    return room < 5 ? "" : clipped(name, room);
  }

  /** @param {string} path */
  find(path) { return this.root.find((/** @type {any} */ d) => d.data.path === path) ?? this.root; }

  path() {
    const up = this.at.ancestors().reverse();
    this.crumbs.replaceChildren(...up.flatMap((/** @type {any} */ d, /** @type {number} */ i) => [i ? " / " : "",
      d === this.at ? h("b", {}, d.data.name) : h("button", { class: "link", type: "button", onclick: () => this.go(d) }, d.data.name)]));
  }

  inside() {
    const parts = (this.at.children ?? []).map((/** @type {any} */ d) => ({ name: d.data.name, path: d.data.path, us: d.value }));
    if (this.at.data.own) parts.push({ name: "(directly)", path: this.at.data.path, us: this.at.data.own });
    parts.sort((/** @type {any} */ a, /** @type {any} */ b) => b.us - a.us);
    const rows = parts.map((/** @type {any} */ p) => [p.name, time(p.us), share(p.us, this.root.value), bar(p.us / (parts[0].us || 1), "rgb(var(--heat))")]);
    this.rows.replaceChildren(table(["Module", "#Time", "#Share", ""], rows, (i) => {
      if (parts[i].path === this.at.data.path) { if (parts[i].path) this.app.gotoModule(parts[i].path); } else this.go(this.find(parts[i].path));
    }), this.at.data.path ? h("p", { style: "margin-top:10px" }, h("button", { class: "link", type: "button", onclick: () => this.app.gotoModule(this.at.data.path) }, "Show this module in the graph")) : h("span"));
  }

  kinds() {
    const found = this.app.times.by((t) => this.app.times.kindOf(t));
    const rows = found.map((k) => [k.name, String(k.count), time(k.us), share(k.us, this.app.times.total), bar(k.us / found[0].us)]);
    return card("By kind of op", table(["Op", "#Tasks", "#Time", "#Share", ""], rows, (i) => this.app.goto({ level: this.app.model.program, node: this.slowest(found[i].tasks) })));
  }

  bounds() {
    const found = this.app.times.by((t) => t.bound);
    const rows = found.map((k) => [cause(k.name), String(k.count), time(k.us), share(k.us, this.app.times.total), bar(k.us / found[0].us, causeColor(k.name))]);
    return card("By what bounds the tasks", table(["Bound by", "#Tasks", "#Time", "#Share", ""], rows));
  }

  /** @param {import("views/model").Task[]} tasks */
  slowest(tasks) { return tasks.reduce((a, b) => (b.duration_us > a.duration_us ? b : a)).node ?? 0; }

  show() { this.draw(); }
  resize() { this.draw(); }
}
