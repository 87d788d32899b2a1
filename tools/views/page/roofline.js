// Operations a second against operations a byte: each kernel below the roofs of the machine.

import { bytes, h, rate, share, short, table, time, tip } from "views/text";
import { groups } from "views/model";

const { d3 } = /** @type {any} */ (globalThis);
const MARGIN = { left: 84, right: 64, top: 20, bottom: 46 };
const EDGE = 32; // from the right edge: kernels that move no bytes

export class RooflineView {
  /** @param {import("views/app").App} app */
  constructor(app) {
    this.app = app;
    this.from = "bytes";
    this.kernels = [...groups(app.model.tasks.filter((t) => t.macs || t.vector_ops), (t) => t.kind)].map(([name, tasks]) => {
      const sum = (/** @type {(t: any) => number} */ f) => tasks.reduce((s, t) => s + t.runs * f(t), 0);
      return { name, tasks, us: sum((t) => t.duration_us), ops: sum((t) => (t.engine === "cube" ? 2 * t.macs : t.vector_ops)), bytes: sum((t) => t.bytes), l2_bytes: sum((t) => t.l2_bytes),
        engine: tasks[0].engine, count: sum(() => 1), kind: app.times.kindOf(tasks[0]), element: tasks[0].element };
    }).filter((k) => k.us > 0 && k.ops > 0).sort((a, b) => b.us - a.us);
    this.roofs = app.model.payload.time.roofs;
    this.canvas = h("div", { class: "canvas", style: "min-height:380px" });
    this.list = h("div", { style: "overflow:auto;max-height:34%;border-top:1px solid var(--line);background:var(--surface);flex:none" });
    this.note = h("span", { class: "says note" });
    this.bar = h("div", { class: "tools" });
    this.element = h("div", { class: "stage" }, this.bar, this.canvas, this.list);
    this.tools();
    this.fill();
  }

  tools() {
    const choice = (/** @type {string} */ key, /** @type {string} */ name) => h("button", { type: "button", "aria-pressed": String(this.from === key), onclick: () => { this.from = key; this.tools(); this.draw(); } }, name);
    this.bar.replaceChildren(h("span", {}, "Bytes of"), h("div", { class: "segmented", role: "group", "aria-label": "Bytes" }, choice("bytes", "HBM"), choice("l2_bytes", "L2")),
      h("span", { class: "space" }), this.note);
  }

  fill() {
    const { latency } = this.app.model;
    const rows = this.kernels.map((k) => [k.name, short(k.kind), String(k.count), time(k.us), share(k.us, latency), rate((1e6 * k.ops) / k.us, "op/s"),
      k.bytes ? d3.format(",.3~r")(k.ops / k.bytes) : "no bytes", share(k.ops / k.us, this.roofOf(k) / 1e6)]);
    this.list.replaceChildren(table(["Kernel", "Op", "#Launches", "#Time", "#Share", "#Reached", "#op / HBM byte", "#Of the roof of its engine"], rows, (i) => this.pick(this.kernels[i])));
  }

  /** The rate of the engine, of the type that it multiplies. @param {any} k */
  roofOf(k) {
    const find = (/** @type {string} */ name) => this.roofs.find((/** @type {any} */ r) => r.name === name)?.per_second;
    return k.engine === "cube" ? find(`cube ${k.element}`) ?? find("cube f16") : find(/^(f16|bf16)$/.test(k.element ?? "") ? "vector f16" : "vector f32");
  }

  /** @param {any} k */
  pick(k) {
    const task = k.tasks.reduce((/** @type {any} */ a, /** @type {any} */ b) => (b.duration_us > a.duration_us ? b : a));
    this.chosen = k;
    if (task.node !== undefined) this.app.select({ level: this.app.model.program, node: task.node }, false);
    this.draw();
  }

  draw() {
    const { width, height } = this.canvas.getBoundingClientRect();
    if (!width) return;
    const shown = this.kernels.map((k) => ({ k, bytes: k[this.from], y: (1e6 * k.ops) / k.us })).filter((d) => d.y > 0);
    const known = shown.filter((d) => d.bytes > 0), without = shown.filter((d) => !(d.bytes > 0));
    this.note.textContent = `${this.kernels.length} kernels, area by time; of the cube multiplications and additions alone${without.length ? `; ${without.length} move no byte of this memory: at the right edge` : ""}`;
    this.note.title = this.note.textContent;
    const roofs = this.roofs.filter((/** @type {any} */ r) => r.unit === "op"), memory = this.roofs.find((/** @type {any} */ r) => r.name === (this.from === "bytes" ? "HBM" : "L2"));
    if (!memory) return;
    const xs = known.map((d) => d.k.ops / d.bytes), most = Math.max(...roofs.map((/** @type {any} */ r) => r.per_second));
    const x = d3.scaleLog([Math.min(0.1, ...xs) / 1.5, Math.max((most / memory.per_second) * 4, ...xs) * 2], [MARGIN.left, width - MARGIN.right]);
    const y = d3.scaleLog([Math.max(Math.min(...shown.map((d) => d.y)) / 2, most / 1e7), most * 2.2], [height - MARGIN.bottom, MARGIN.top]);
    const svg = d3.create("svg").attr("class", "plot").attr("role", "img").attr("aria-label", "Roofline of all kernels; the table below has the same figures");
    this.axes(svg, x, y, width, height);
    this.lines(svg, x, y, roofs, memory);
    const r = d3.scaleSqrt([0, this.app.model.latency], [2.5, 68]);
    const dots = [...shown].sort((a, b) => b.k.us - a.k.us);
    svg.append("g").selectAll("circle").data(dots).join("circle").attr("class", (/** @type {any} */ d) => `dot ${d.k === this.chosen ? "chosen" : ""}`)
      .attr("cx", (/** @type {any} */ d) => (d.bytes > 0 ? x(d.k.ops / d.bytes) : width - Math.max(EDGE, r(d.k.us) + 2))).attr("cy", (/** @type {any} */ d) => y(Math.max(d.y, y.domain()[0])))
      .attr("r", (/** @type {any} */ d) => r(d.k.us)).attr("fill", (/** @type {any} */ d) => `var(--${d.k.engine})`)
      .on("mousemove", (/** @type {MouseEvent} */ e, /** @type {any} */ d) => tip(e, ...this.describe(d))).on("mouseleave", () => tip(null))
      .on("click", (/** @type {MouseEvent} */ e, /** @type {any} */ d) => this.pick(d.k));
    this.canvas.replaceChildren(svg.node());
  }

  /** @param {any} d */
  describe({ k, y }) {
    return [h("b", {}, `@${k.name}`), h("span", {}, `${short(k.kind)} on ${k.engine}, ${k.count} launches, ${time(k.us)}`),
      h("span", {}, `${rate(y, "op/s")}, ${share(y, this.roofOf(k))} of what the engine reaches`),
      h("span", {}, `${bytes(k.bytes)} of HBM, ${bytes(k.l2_bytes)} of L2`)];
  }

  /** @param {any} svg @param {any} x @param {any} y @param {number} width @param {number} height */
  axes(svg, x, y, width, height) {
    const powers = (/** @type {any} */ scale) => d3.range(Math.ceil(Math.log10(scale.domain()[0])), Math.floor(Math.log10(scale.domain()[1])) + 1).map((/** @type {number} */ p) => 10 ** p);
    svg.append("g").attr("class", "axis").attr("transform", `translate(0,${height - MARGIN.bottom})`)
      .call(d3.axisBottom(x).tickValues(powers(x)).tickFormat((/** @type {number} */ v) => (v >= 1 ? d3.format(",")(v) : String(v))).tickSizeInner(-(height - MARGIN.bottom - MARGIN.top)).tickPadding(8));
    svg.append("g").attr("class", "axis").attr("transform", `translate(${MARGIN.left},0)`)
      .call(d3.axisLeft(y).tickValues(powers(y)).tickFormat((/** @type {number} */ v) => rate(v, "op/s")).tickSizeInner(-(width - MARGIN.left - MARGIN.right)).tickPadding(8));
    svg.append("text").attr("x", width - MARGIN.right).attr("y", height - 8).attr("text-anchor", "end")
      .text(`operations for each byte of ${this.from === "bytes" ? "HBM" : "L2"}`);
  }

  /** @param {any} svg @param {any} x @param {any} y @param {any[]} roofs @param {any} memory */
  lines(svg, x, y, roofs, memory) {
    const [least, end] = x.domain(), bottom = y.domain()[0], most = Math.max(...roofs.map((r) => r.per_second));
    const from = Math.max(least, bottom / memory.per_second);
    svg.append("path").attr("class", "roof").attr("stroke", "var(--muted)").attr("d", d3.line()([[x(from), y(from * memory.per_second)], [x(most / memory.per_second), y(most)]]));
    const at = Math.max(from * 1.3, least * 1.3), angle = (180 / Math.PI) * Math.atan2(y(10 * memory.per_second) - y(memory.per_second), x(10) - x(1));
    svg.append("text").attr("transform", `translate(${x(at)},${y(at * memory.per_second) - 7}) rotate(${angle})`).text(`${memory.name} ${rate(memory.per_second, "B/s")}`);
    let last = -Infinity;
    for (const roof of [...roofs].sort((a, b) => b.per_second - a.per_second)) {
      const engine = roof.name.split(" ")[0], height = y(roof.per_second);
      svg.append("path").attr("class", "roof").attr("stroke", `var(--${engine})`).attr("d", d3.line()([[x(Math.max(least, roof.per_second / memory.per_second)), height], [x(end), height]]));
      const text = Math.max(height - 5, last + 13);
      last = text;
      svg.append("text").attr("x", x(end) - 4).attr("y", text).attr("text-anchor", "end").text(`${roof.name}  ${rate(roof.per_second, "op/s")}`);
    }
  }

  show() { this.draw(); }
  resize() { this.draw(); }
}
