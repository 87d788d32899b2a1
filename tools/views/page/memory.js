// Which bytes are used when: address against time, a rectangle for each buffer.

import { colorOf, kindsOf } from "views/graph";
import { Plot, color } from "views/plot";
import { bytes, h, says, share, time } from "views/text";

const { d3 } = /** @type {any} */ (globalThis);
const LEFT = 92, TOP = 30, CURVE = 74;
const SHADES = [1, 0.78, 0.9, 0.68];

export class MemoryView {
  /** @param {import("views/app").App} app */
  constructor(app) {
    this.app = app;
    const memory = app.model.payload.memory;
    this.segments = memory.segments;
    /** @type {any[]} */ this.all = memory.buffers;
    this.segment = this.segments[0];
    this.plot = new Plot("Memory: address by time", {
      left: LEFT, top: TOP, end: app.model.latency, order: [], draw: (plot) => this.draw(plot),
      describe: (b) => this.describe(b), choose: (b) => this.pick(b),
    });
    this.bar = h("div", { class: "tools" });
    this.element = h("div", { class: "stage" }, this.bar, this.plot.element);
    this.choose(this.segment);
  }

  /** @param {any} segment */
  choose(segment) {
    this.segment = segment;
    this.buffers = this.all.filter((b) => b.segment === segment.name);
    this.plot.options.order = [...this.buffers].sort((a, b) => a.start_us - b.start_us);
    this.steps = this.live();
    const act = (/** @type {string} */ name, /** @type {() => void} */ f) => h("button", { class: "act", type: "button", onclick: f }, name);
    this.bar.replaceChildren(
      h("div", { class: "segmented", role: "group", "aria-label": "Segment" }, this.segments.map((/** @type {any} */ s) =>
        h("button", { type: "button", "aria-pressed": String(s === segment), onclick: () => { this.choose(s); this.plot.draw(); } }, s.name))),
      says(`${this.buffers.length} buffers in ${bytes(segment.bytes)}; peak ${bytes(segment.peak_bytes)} at ${time(segment.peak_us ?? 0)}`, "Colours: the kind of op that makes what is in a buffer."),
      h("span", { class: "space" }), h("span", { class: "says note keyed" }, kindsOf()), act("The peak", () => this.peak()), act("All", () => this.plot.reset()));
  }

  peak() {
    const at = this.segment.peak_us ?? 0, span = this.app.model.latency / 12;
    this.plot.showTime(Math.max(0, at - span / 2), at + span / 2);
  }

  /** Bytes in use from each time on, places that buffers share counted once. */
  live() {
    const times = [...new Set(this.buffers.flatMap((/** @type {any} */ b) => [b.start_us, b.end_us]))].sort((a, b) => a - b);
    return times.map((at) => {
      const spans = this.buffers.filter((/** @type {any} */ b) => b.start_us <= at && at < b.end_us).map((/** @type {any} */ b) => [b.offset, b.offset + b.bytes]).sort((/** @type {number[]} */ a, /** @type {number[]} */ b) => a[0] - b[0]);
      let total = 0, end = 0;
      for (const [low, high] of spans) { total += Math.max(high - Math.max(low, end), 0); end = Math.max(end, high); }
      return [at, total];
    });
  }

  /** @param {Plot} plot */
  draw(plot) {
    const c = plot.context, bottom = plot.height - CURVE - 22;
    const y = d3.scaleLinear([0, Math.max(this.segment.bytes, 1)], [bottom, TOP + 6]);
    /** @type {Map<string, string>} */ const fills = new Map();
    const fill = (/** @type {string} */ op) => {
      const name = colorOf(op).slice(4, -1);
      if (!fills.has(name)) fills.set(name, color(name));
      return fills.get(name) ?? "";
    };
    c.save();
    c.beginPath();
    c.rect(LEFT, TOP, plot.width, plot.height);
    c.clip();
    this.buffers.forEach((/** @type {any} */ b, /** @type {number} */ i) => {
      c.globalAlpha = SHADES[i % SHADES.length]; // neighbours differ
      const top = y(b.offset + b.bytes), height = Math.max(y(b.offset) - top - 0.6, 1);
      plot.bar(b, b.start_us, b.end_us, top, height, fill(this.kindOf(b)), b.name || b.type || "");
    });
    c.globalAlpha = 1;
    this.curve(plot, bottom + 22);
    this.peakLine(plot, bottom);
    c.restore();
    this.addresses(plot, y, bottom);
  }

  /** @param {Plot} plot @param {number} bottom */
  peakLine(plot, bottom) {
    const c = plot.context, x = plot.x(this.segment.peak_us ?? 0);
    c.strokeStyle = `rgb(${color("--heat")})`;
    c.lineWidth = 1.5;
    c.setLineDash([5, 3]);
    c.beginPath();
    c.moveTo(x, TOP);
    c.lineTo(x, plot.height);
    c.stroke();
    c.setLineDash([]);
    const text = `peak ${bytes(this.segment.peak_bytes)}`, width = c.measureText(text).width + 10;
    const left = x + width + 6 > plot.width ? x - width - 4 : x + 4;
    c.fillStyle = `rgb(${color("--heat")})`;
    c.fillRect(left, bottom + 3, width, 16);
    c.fillStyle = "#fff";
    c.fillText(text, left + 5, bottom + 11);
  }

  /** @param {Plot} plot @param {number} top */
  curve(plot, top) {
    const c = plot.context, y = d3.scaleLinear([0, Math.max(this.segment.peak_bytes, 1)], [plot.height - 2, top + 6]);
    c.fillStyle = color("--accent-soft");
    c.strokeStyle = color("--accent");
    c.lineWidth = 1.3;
    c.beginPath();
    c.moveTo(plot.x(0), y(0));
    let last = 0;
    for (const [at, size] of this.steps ?? []) { c.lineTo(plot.x(at), y(last)); c.lineTo(plot.x(at), y(size)); last = size; }
    c.lineTo(plot.x(this.app.model.latency), y(last));
    c.lineTo(plot.x(this.app.model.latency), y(0));
    c.fill();
    c.stroke();
  }

  /** @param {Plot} plot @param {any} y @param {number} bottom */
  addresses(plot, y, bottom) {
    const c = plot.context;
    c.fillStyle = color("--bg");
    c.fillRect(0, 0, LEFT - 1, plot.height);
    c.fillStyle = color("--line");
    c.fillRect(LEFT - 1, TOP, 1, plot.height);
    c.fillRect(0, bottom + 0.5, plot.width, 1);
    c.fillStyle = color("--muted");
    c.textAlign = "right";
    const step = 2 ** Math.ceil(Math.log2(Math.max(this.segment.bytes, 8) / 8));
    for (let at = 0; at <= this.segment.bytes; at += step) c.fillText(bytes(at).replace(/\.0+ /, " "), LEFT - 8, Math.max(y(at), TOP + 8));
    c.fillText("in use", LEFT - 8, bottom + 22 + CURVE / 2);
    c.textAlign = "left";
  }

  /** The op that makes what is in a buffer. @param {any} b */
  kindOf(b) {
    const { model } = this.app, op = model.levels[model.program].nodes[b.nodes?.[0]];
    return op?.attributes?.computes ?? op?.op ?? "copy";
  }

  /** @param {any} b */
  describe(b) {
    return [h("b", {}, b.name || b.segment), h("span", {}, b.type), h("span", {}, `${bytes(b.bytes)} at ${b.offset.toLocaleString("en")}, ${share(b.bytes, this.segment.bytes)} of the segment`),
      h("span", {}, `from ${time(b.start_us)} to ${time(b.end_us)}, used by ${(b.nodes ?? []).length} tasks`)];
  }

  /** @param {any} b */
  pick(b) {
    if (b.nodes?.length) this.app.select({ level: this.app.model.program, node: b.nodes[0] }, false);
  }

  /** @param {any} b */
  showBuffer(b) {
    this.choose(this.segments.find((/** @type {any} */ s) => s.name === b.segment));
    this.plot.choose(b);
  }

  /** @param {import("views/model").Place | null} place */
  chose(place) {
    const [launch] = place ? this.app.model.launches(place) : [];
    if (this.plot.chosen?.nodes?.[0] === launch) return;
    this.plot.choose(this.buffers.find((/** @type {any} */ b) => b.nodes?.[0] === launch) ?? null);
  }

  show() { this.plot.draw(); if (this.app.chosen) this.chose(this.app.chosen); }
  resize() { this.plot.resize(); }
  recolor() { this.plot.draw(); }
}
