// The graph of a level: laid out by dagre, drawn as SVG; what is not open is one box.

import { Layout } from "views/layout";
import { Tree } from "views/tree";
import { clipped, h, says, short, share, time, tip, widthOf } from "views/text";

const { d3 } = /** @type {any} */ (globalThis);
const WIDTH = 196, HEIGHT = 44, END = 26, TITLE = 20;
const MOST_AT_FIRST = 48; // boxes that are shown before anything is opened
const MOST = 300; // boxes that are laid out at once
const USERS = 8, MAKERS = 14; // an edge of more users of one value, or to a box that reads more, is drawn when it is chosen
const HEAD = "600 11.5px", AT_HEAD = "11px"; // fonts of the title of a container, and of the time beside it
const FAR = 0.38; // below this scale texts are left out

/** Kind of an op -> colour. @param {string} op */
export function colorOf(op) {
  const name = short(op.replace(/^launch @/, "")).toLowerCase();
  if (/matmul|linear|gemm|conv|einsum|grouped/.test(name)) return "var(--cube)";
  if (/attention|softmax/.test(name)) return "var(--dma_in)";
  if (/norm|reduce|mean|sum/.test(name)) return "var(--dma_out)";
  if (/reshape|transpose|slice|concat|split|gather|pad|expand|squeeze|copy|cast|identity/.test(name)) return "var(--faint)";
  if (/quantize/.test(name)) return "var(--host)";
  return "var(--vector)";
}

/** What the colours of ops stand for. */
export function kindsOf() {
  const kinds = [["matmul", "products"], ["attention", "attention, softmax"], ["norm", "norms, sums"], ["add", "elementwise"], ["reshape", "movement"]];
  return kinds.map(([op, text]) => h("span", {}, h("i", { class: "swatch", style: `background:${colorOf(op)}` }), text));
}

export class GraphView {
  /** @param {import("views/app").App} app */
  constructor(app) {
    this.app = app;
    this.model = app.model;
    this.level = Math.max(this.model.levels.findIndex((l) => l.name === "fused"), 0);
    this.kernels = true;
    this.root = "";
    this.down = true;
    /** @type {Map<string, Set<string>>} */ this.openAt = new Map();
    this.transform = null;
    this.element = h("div", { class: "stage" });
    this.canvas = h("div", { class: "canvas", tabindex: 0, role: "application",
      "aria-label": "Graph. Arrow keys go to the next op, Enter opens or closes a module." });
    this.bar = h("div", { class: "tools" });
    this.element.append(this.bar, this.canvas);
    this.svg = d3.select(this.canvas).append("svg").attr("class", "graph");
    this.scene = this.svg.append("g");
    this.canvas.append(this.legend(), this.zoomButtons());
    this.zoom = d3.zoom().scaleExtent([0.04, 3]).on("zoom", (/** @type {any} */ e) => this.moved(e.transform));
    this.svg.call(this.zoom).on("dblclick.zoom", null);
    this.svg.on("click", (/** @type {MouseEvent} */ e) => { if (e.target === this.svg.node()) app.select(null); });
    this.canvas.addEventListener("keydown", (e) => this.key(e));
  }

  legend() {
    const heat = this.model.tasks.length ? h("span", {}, h("i", { class: "swatch", style: "background:rgb(var(--heat))" }), "bar: share of the time") : null;
    return h("div", { class: "legend" }, kindsOf(), heat);
  }

  zoomButtons() {
    const step = (/** @type {number} */ k) => () => this.svg.transition().duration(150).call(this.zoom.scaleBy, k);
    return h("div", { class: "zoom" },
      h("button", { class: "plain", type: "button", "aria-label": "Zoom in", title: "Zoom in (+)", onclick: step(1.4) }, "+"),
      h("button", { class: "plain", type: "button", "aria-label": "Zoom out", title: "Zoom out (−)", onclick: step(1 / 1.4) }, "−"),
      h("button", { class: "plain", type: "button", "aria-label": "Fit all", title: "Fit all (0)", onclick: () => this.fit(true) }, "⤢"));
  }

  show() {
    if (!this.tree) this.setLevel(this.level);
    else if (!this.drawn) this.draw();
  }

  /** @param {number} level */
  setLevel(level) {
    this.level = level;
    this.root = "";
    this.tree = new Tree(this.model, level, this.kernels);
    this.draw();
    this.fit(false);
  }

  get open() {
    const key = `${this.level} ${this.root} ${this.kernels}`;
    let open = this.openAt.get(key);
    if (!open) this.openAt.set(key, (open = this.tree.opened(this.root, MOST_AT_FIRST)));
    return open;
  }

  // ---- tools

  tools() {
    const levels = h("div", { class: "segmented", role: "group", "aria-label": "Level" }, this.model.levels.map((l, i) =>
      h("button", { type: "button", "aria-pressed": String(i === this.level), title: l.summary, onclick: () => this.setLevel(i) }, l.name)));
    const level = this.model.levels[this.level];
    const grouped = level.name === "graph" && level.nodes.some((n) => n.group !== undefined) ? h("label", {},
      h("input", { type: "checkbox", checked: this.kernels, onchange: () => { this.kernels = !this.kernels; this.setLevel(this.level); } }), "kernels as clusters") : null;
    const crumbs = h("span", { class: "crumbs" }, this.root ? [
      h("button", { class: "link", type: "button", onclick: () => this.enter("") }, "model"), " / ",
      this.tree.get(this.root).path || this.tree.get(this.root).title] : null);
    const act = (/** @type {string} */ name, /** @type {string} */ title, /** @type {() => void} */ f) =>
      h("button", { class: "act", type: "button", title, onclick: f }, name);
    this.bar.replaceChildren(...[levels, grouped, crumbs, h("span", { class: "space" }),
      says(this.shownText ?? "", "Edges of values with many users are drawn when one of their ends is chosen."),
      act("Open all", `Open modules, as far as ${MOST} boxes go`, () => this.openAll()),
      act("Close all", "Close all modules", () => { this.open.clear(); this.draw(); this.fit(false); }),
      act(this.down ? "↓" : "→", "Direction of the layout", () => { this.down = !this.down; this.draw(); this.fit(false); }),
    ].filter(Boolean));
  }

  openAll() {
    const open = this.open;
    for (const id of this.tree.opened(this.root, MOST)) open.add(id);
    let { leaves } = this.tree.visible(this.root, open);
    for (const id of leaves.filter((/** @type {string} */ l) => this.tree.containers.has(l))) {
      const more = this.tree.get(id).items.length;
      if (leaves.length + more > MOST) break;
      open.add(id);
      leaves = this.tree.visible(this.root, open).leaves;
    }
    this.draw();
    this.fit(false);
  }

  /** Show the inside of a container only. @param {string} id */
  enter(id) { this.root = id; this.draw(); this.fit(false); }

  // ---- drawing

  draw() {
    const started = performance.now();
    this.drawn = true;
    const { leaves, clusters, edges: all } = this.tree.visible(this.root, this.open);
    const users = d3.rollup(all, (/** @type {any[]} */ e) => e.length, (/** @type {any} */ e) => e.from), makers = d3.rollup(all, (/** @type {any[]} */ e) => e.length, (/** @type {any} */ e) => e.to);
    const order = new Map(leaves.map((id, i) => [id, i]));
    const first = d3.rollup(all, (/** @type {any[]} */ es) => d3.least(es, (/** @type {any} */ e) => order.get(e.to)), (/** @type {any} */ e) => e.from);
    const last = d3.rollup(all, (/** @type {any[]} */ es) => d3.greatest(es, (/** @type {any} */ e) => order.get(e.from)), (/** @type {any} */ e) => e.to);
    const isWide = (/** @type {any} */ e) => (users.get(e.from) > USERS || makers.get(e.to) > MAKERS) && first.get(e.from) !== e && last.get(e.to) !== e;
    const edges = all.filter((e) => !isWide(e));
    this.wide = all.filter(isWide);
    this.users = users;
    this.leaves = leaves;
    const layout = this.layout(leaves, clusters, edges);
    this.places = layout;
    this.scene.selectAll("*").remove();
    this.drawClusters(clusters, layout);
    this.drawEdges(edges, layout);
    this.drawLeaves(leaves, layout);
    this.mark();
    const ops = this.tree.get(this.root).ops;
    this.shownText = `${leaves.length} boxes, ${ops} ops${this.wide.length ? ` · ${this.wide.length} edges on demand` : ""}`;
    this.tools();
    this.took = performance.now() - started;
  }

  /** @param {string[]} leaves @param {string[]} clusters @param {import("views/layout").Edge[]} edges */
  layout(leaves, clusters, edges) {
    const held = new Set(clusters);
    const parent = (/** @type {string} */ id) => {
      const around = this.tree.containers.has(id) ? this.tree.get(id).parent : this.tree.home[Number(id)];
      return held.has(around) ? around : this.root;
    };
    const size = (/** @type {string} */ id) => ({ width: WIDTH, height: this.isEnd(id) ? END : HEIGHT });
    const free = (/** @type {string} */ id, /** @type {number} */ width) => this.free(id, width);
    return new Layout({ leaves, clusters, edges, parent, size, root: this.root, down: this.down, title: TITLE, free });
  }

  /** @param {string} id */
  isEnd(id) { return !this.tree.containers.has(id) && ["input", "output"].includes(this.tree.nodes[Number(id)].op); }

  /** @param {string[]} clusters @param {any} layout */
  drawClusters(clusters, layout) {
    const groups = this.scene.selectAll("g.cluster").data(clusters, (/** @type {string} */ d) => d).join("g")
      .attr("class", (/** @type {string} */ d) => `cluster ${this.tree.get(d).kind === "module" ? "" : "kernel"}`)
      .attr("data-id", (/** @type {string} */ d) => d);
    const self = this;
    groups.each(function (/** @type {string} */ id) {
      const { x, y, width, height } = layout.box(id);
      const left = x - width / 2, top = y - height / 2;
      const g = d3.select(this);
      g.append("rect").attr("x", left).attr("y", top).attr("width", width).attr("height", height).attr("rx", 7);
      g.append("text").attr("x", left + 10).attr("y", top + 15).text(self.headOf(id, width));
      const us = self.timeOf(id);
      if (us) g.append("text").attr("class", "time").attr("x", left + width - 10).attr("y", top + 15).text(time(us));
    });
    this.listen(groups);
  }

  /** @param {string} id */
  titleOf(id) {
    const container = this.tree.get(id);
    if (container.kind === "module") return container.title;
    const op = container.kind === "kernel" ? this.model.levels.find((l) => l.name === "fused")?.nodes[container.node] : this.tree.nodes[container.node];
    return op ? `${short(op.op)}  ${op.name}` : container.title;
  }

  /** What is written at the top of a container, as much as there is room for beside edges. @param {string} id @param {number} width */
  headOf(id, width) { return `▾ ${clipped(this.titleOf(id), Math.max(10, Math.floor((width - 130) / 7)))}`; }

  /** From where to where nothing is written at the top of a container. @param {string} id @param {number} width @returns {[number, number]} */
  free(id, width) {
    const us = this.timeOf(id), from = 16 + widthOf(this.headOf(id, width), HEAD);
    return [from, Math.max(from, width - 16 - (us ? widthOf(time(us), AT_HEAD) : 0))];
  }

  /** @param {{from: string, to: string, types: Set<string>}[]} edges @param {any} layout */
  drawEdges(edges, layout) {
    const line = d3.line().curve(d3.curveMonotoneY);
    const back = d3.line().curve(d3.curveCatmullRom.alpha(0.7)); // of loops
    const across = d3.line().curve(d3.curveMonotoneX);
    this.scene.append("defs").append("marker").attr("id", "arrow").attr("viewBox", "0 0 8 8").attr("refX", 7).attr("refY", 4)
      .attr("markerWidth", 7).attr("markerHeight", 7).attr("orient", "auto").append("path").attr("d", "M0,0.8 L7,4 L0,7.2 z").attr("fill", "var(--edge)");
    this.edges = this.scene.selectAll("path.edge").data(edges).join("path").attr("class", "edge").attr("marker-end", "url(#arrow)")
      .attr("d", (/** @type {any} */ e) => {
        const points = layout.points(e), axis = this.down ? 1 : 0;
        const ahead = points.every((p, i) => !i || p[axis] >= points[i - 1][axis] - 0.5);
        return ahead ? (this.down ? line : across)(points) : back(points);
      });
  }

  /** @param {string[]} leaves @param {any} layout */
  drawLeaves(leaves, layout) {
    const self = this;
    const groups = this.scene.selectAll("g.node").data(leaves, (/** @type {string} */ d) => d).join("g")
      .attr("data-id", (/** @type {string} */ d) => d)
      .attr("transform", (/** @type {string} */ d) => `translate(${layout.box(d).x - WIDTH / 2},${layout.box(d).y - layout.box(d).height / 2})`);
    groups.each(function (/** @type {string} */ id) { self.drawLeaf(d3.select(this), id); });
    this.listen(groups);
  }

  /** @param {any} g @param {string} id */
  drawLeaf(g, id) {
    const container = this.tree.containers.get(id), us = this.timeOf(id), whole = this.model.latency;
    if (this.isEnd(id)) {
      const node = this.tree.nodes[Number(id)];
      g.attr("class", "node end");
      g.append("rect").attr("class", "box").attr("width", WIDTH).attr("height", END).attr("rx", END / 2);
      g.append("text").attr("x", WIDTH / 2).attr("y", 17).attr("text-anchor", "middle").text(clipped(`${node.op} ${node.name}`, 28));
      return;
    }
    const op = container?.kind === "module" ? null : this.opOf(id);
    g.attr("class", `node ${container ? "folded" : ""} ${op?.broken ? "broken" : ""}`);
    if (container) g.append("rect").attr("class", "under").attr("x", 4).attr("y", 4).attr("width", WIDTH).attr("height", HEIGHT).attr("rx", 6);
    g.append("rect").attr("class", "box").attr("width", WIDTH).attr("height", HEIGHT).attr("rx", 6);
    if (op) g.append("rect").attr("width", 5).attr("height", HEIGHT - 2).attr("x", 1).attr("y", 1).attr("rx", 2.5).attr("fill", colorOf(op.attributes?.computes ?? op.op));
    const title = container ? `▸ ${container.kind === "module" ? container.title : short(op?.op ?? "")}` : short(op?.op ?? "");
    const sub = container?.kind === "module" ? `${container.ops} ops` : op?.name ?? "";
    const room = us ? 17 : 26, users = this.users.get(id) ?? 0;
    if (users > USERS) g.append("text").attr("class", "sub").attr("x", WIDTH - 8).attr("y", 34).attr("text-anchor", "end").text(`→ ${users}`);
    g.append("text").attr("class", "title").attr("x", 12).attr("y", 18).text(clipped(title, room));
    g.append("text").attr("class", "sub").attr("x", 12).attr("y", 34).text(clipped(sub, users > USERS ? 22 : 28));
    if (us) {
      g.append("text").attr("class", "time").attr("x", WIDTH - 8).attr("y", 18).text(time(us));
      g.append("rect").attr("class", "heat").attr("y", HEIGHT - 3).attr("x", 6).attr("height", 3).attr("rx", 1.5).attr("width", Math.max(1, (WIDTH - 12) * Math.min(1, us / whole)));
    }
  }

  /** The op of a leaf or container; of a kernel, that of the fused level. @param {string} id */
  opOf(id) {
    const place = this.placeOf(id);
    return place ? this.model.node(place) : null;
  }

  /** @param {string} id @returns {import("views/model").Place | null} */
  placeOf(id) {
    const container = this.tree.containers.get(id);
    if (!container) return { level: this.level, node: Number(id) };
    if (container.kind === "module") return null;
    const level = container.kind === "kernel" ? this.model.levels.findIndex((l) => l.name === "fused") : this.level;
    return { level, node: container.node };
  }

  /** The time of what is behind a box; of an op that shares its launch with others, none. @param {string} id */
  timeOf(id) {
    const container = this.tree.containers.get(id);
    if (!this.model.tasks.length) return 0;
    if (container?.kind === "module") return this.app.times.ofModule(container.path);
    const place = this.placeOf(id);
    if (!place || (!container && !this.model.isAlone(place))) return 0;
    return this.model.launches(place).reduce((sum, l) => sum + this.model.timeOf(l), 0);
  }

  // ---- what is pointed at, chosen, opened

  /** @param {any} groups */
  listen(groups) {
    groups
      .on("click", (/** @type {MouseEvent} */ e, /** @type {string} */ id) => { e.stopPropagation(); this.chosen(id, true); })
      .on("dblclick", (/** @type {MouseEvent} */ e, /** @type {string} */ id) => { e.stopPropagation(); if (this.tree.containers.has(id)) this.enter(id); })
      .on("mousemove", (/** @type {MouseEvent} */ e, /** @type {string} */ id) => tip(e, ...this.described(id)))
      .on("mouseleave", () => tip(null));
  }

  /** @param {string} id */
  described(id) {
    const container = this.tree.containers.get(id), op = this.opOf(id), us = this.timeOf(id);
    const timed = us ? h("span", {}, `${time(us)}, ${share(us, this.model.latency)} of the run`) : null;
    if (container?.kind === "module") return [h("b", {}, container.path || container.title), h("span", {}, `${container.ops} ops`), timed];
    return [h("b", {}, op?.op ?? ""), h("span", {}, op?.name ?? ""), h("span", {}, (op?.results ?? []).join(", ")), timed];
  }

  /** Choose a box; a container opens or closes. @param {string} id @param {boolean} toggle */
  chosen(id, toggle) {
    const container = this.tree.containers.get(id), place = this.placeOf(id);
    if (toggle && container) this.toggle(id);
    if (place) this.app.select(place, false);
    else if (container?.path) this.app.selectModule(container.path);
    this.at = id;
    this.mark();
  }

  /** @param {string} id */
  toggle(id) {
    const before = this.spot(id);
    if (this.open.has(id)) this.open.delete(id);
    else this.open.add(id);
    this.draw();
    const after = this.spot(id);
    if (!before || !after || !this.transform) return;
    const { k, x, y } = this.transform;
    this.svg.call(this.zoom.transform, d3.zoomIdentity.translate(x + k * (before[0] - after[0]), y + k * (before[1] - after[1])).scale(k));
  }

  /** The middle of the upper edge of a box. @param {string} id */
  spot(id) {
    const place = this.places?.boxes.get(id);
    return place ? [place.x, place.y - place.height / 2] : null;
  }

  /** Bring an op into view: what is around it is opened. @param {import("views/model").Place} place */
  reveal({ level, node }) {
    if (level !== this.level || !this.tree) { this.level = level; this.root = ""; this.tree = new Tree(this.model, level, this.kernels); }
    const id = this.tree.containers.has(`n:${node}`) ? `n:${node}` : `${node}`;
    const around = this.tree.around(id);
    if (this.root && !around.includes(this.root)) this.root = "";
    around.forEach((/** @type {string} */ c) => this.open.add(c));
    if (this.tree.visible(this.root, this.open).leaves.length > MOST) {
      this.open.clear();
      around.forEach((/** @type {string} */ c) => this.open.add(c));
    }
    this.at = id;
    this.draw();
    this.center(id);
  }

  /** @param {string} path */
  revealModule(path) {
    if (!this.tree) this.show();
    const id = `m:${path}`;
    if (!this.tree.containers.has(id)) return;
    this.root = "";
    this.tree.around(id).forEach((/** @type {string} */ c) => this.open.add(c));
    this.at = id;
    this.draw();
    this.center(id);
  }

  /** The box that was chosen last, and the edges at it. */
  mark() {
    const at = this.at, chosen = new Set(at === undefined ? [] : [at]);
    this.scene.selectAll(".node, .cluster").classed("chosen", (/** @type {string} */ d) => chosen.has(d));
    this.edges?.classed("near", (/** @type {any} */ e) => e.from === at || e.to === at);
    this.scene.selectAll("text.tensor").remove();
    this.scene.selectAll("path.wide").remove();
    const wide = (this.wide ?? []).filter((/** @type {any} */ e) => e.from === at || e.to === at).slice(0, 80);
    this.scene.selectAll("path.wide").data(wide).join("path").attr("class", "edge wide near").attr("d", (/** @type {any} */ e) => this.direct(e));
    const near = (this.edges?.data() ?? []).filter((/** @type {any} */ e) => e.from === at || e.to === at);
    for (const e of near.slice(0, 12)) {
      const points = this.places.points(e), middle = points[Math.floor(points.length / 2)];
      this.scene.append("text").attr("class", "tensor").attr("x", middle[0]).attr("y", middle[1] + 3).text(clipped([...e.types].join(", "), 34));
    }
  }

  /** A curve from one box to another, over whatever is between. @param {{from: string, to: string}} edge */
  direct({ from, to }) {
    const a = this.places.box(from), b = this.places.box(to);
    return this.down ? d3.linkVertical()({ source: [a.x, a.y + a.height / 2], target: [b.x, b.y - b.height / 2] })
      : d3.linkHorizontal()({ source: [a.x + a.width / 2, a.y], target: [b.x - b.width / 2, b.y] });
  }

  clear() { this.at = undefined; this.mark(); }

  // ---- where one looks

  /** @param {any} transform */
  moved(transform) {
    this.transform = transform;
    this.scene.attr("transform", transform);
    this.svg.classed("far", transform.k < FAR);
  }

  get size() {
    const { width, height } = this.canvas.getBoundingClientRect();
    return { width: width || 900, height: height || 600 };
  }

  /** @param {boolean} whole at any scale; else at one that can be read, from the beginning */
  fit(whole) {
    const { width, height } = this.places, box = this.size;
    let k = Math.min(box.width / width, (box.height - 30) / height, 1.15);
    if (!whole && k < 0.6) k = Math.min(0.85, Math.max(0.6, (this.down ? box.width / width : box.height / height)));
    let x = this.down || k * width < box.width ? (box.width - k * width) / 2 : 0;
    if (this.down && k * width > box.width) x = Math.min(20, Math.max(box.width - k * width - 20, box.width / 2 - k * this.begin()));
    const y = !this.down || k * height < box.height ? (box.height - k * height) / 2 : 0;
    this.svg.call(this.zoom.transform, d3.zoomIdentity.translate(x, Math.max(y, 0)).scale(k));
  }

  /** Where the first of the boxes is that something is read from. */
  begin() {
    const ends = new Set(this.edges.data().map((/** @type {any} */ e) => e.to));
    const first = this.leaves?.find((id) => ends.has(id)) ?? this.leaves?.[0];
    return first === undefined ? 0 : this.places.box(first).x;
  }

  /** @param {string} id */
  center(id) {
    const place = this.places.boxes.get(id);
    if (!place) return;
    const box = this.size, k = Math.max(this.transform?.k ?? 0.9, 0.8);
    this.svg.call(this.zoom.transform, d3.zoomIdentity.translate(box.width / 2 - k * place.x, box.height / 2 - k * place.y).scale(k));
  }

  // ---- keys

  /** @param {KeyboardEvent} e */
  key(e) {
    const steps = /** @type {Record<string, number[]>} */ ({ ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] });
    if (e.key in steps) { e.preventDefault(); this.step(steps[e.key]); }
    else if (e.key === "Enter" && this.at !== undefined) {
      if (this.tree.containers.has(this.at)) this.toggle(this.at);
      else document.getElementById("inspector")?.focus();
    } else if (e.key === "+" || e.key === "=") this.svg.call(this.zoom.scaleBy, 1.3);
    else if (e.key === "-") this.svg.call(this.zoom.scaleBy, 1 / 1.3);
    else if (e.key === "0") this.fit(true);
  }

  /** Choose the nearest box in a direction. @param {number[]} direction */
  step([dx, dy]) {
    const here = this.at === undefined ? null : this.places.boxes.get(this.at);
    if (!here) { if (this.leaves?.length) { this.chosen(this.leaves[0], false); this.center(this.leaves[0]); } return; }
    let best = null, least = Infinity;
    for (const id of this.leaves ?? []) {
      const { x, y } = this.places.box(id), ahead = dx * (x - here.x) + dy * (y - here.y), aside = Math.abs(dy * (x - here.x) + dx * (y - here.y));
      const distance = ahead + 2.5 * aside;
      if (ahead > 4 && distance < least) { least = distance; best = id; }
    }
    if (best !== null) { this.chosen(best, false); this.center(best); }
  }
}

