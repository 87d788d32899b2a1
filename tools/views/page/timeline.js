// When tasks run: rows of engines with what they wait for, and of streams.

import { Plot, color } from "views/plot";
import { bytes, cause, h, rate, says, share, short, time } from "views/text";

const LEFT = 118, TOP = 30, ROW = 24, GAP = 6, IDLE = 8;
const CAUSES = /** @type {Record<string, string>} */ ({ compute: "other engine", memory: "copies", schedule: "launches", sync: "host" });

export class TimelineView {
  /** @param {import("views/app").App} app */
  constructor(app) {
    this.app = app;
    this.path = false;
    const { model } = app;
    this.gaps = model.payload.time.gaps ?? [];
    this.lay();
    this.plot = new Plot("Timeline of engines and streams", {
      left: LEFT, top: TOP, end: model.latency, order: model.tasks, scrolls: true,
      draw: (plot) => this.draw(plot), describe: (item) => this.describe(item), choose: (item) => this.pick(item),
    });
    const box = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", onchange: () => { this.path = box.checked; this.plot.draw(); } }));
    const act = (/** @type {string} */ name, /** @type {() => void} */ f) => h("button", { class: "act", type: "button", onclick: f }, name);
    this.element = h("div", { class: "stage" },
      h("div", { class: "tools" }, h("label", {}, box, "critical path only"), h("span", { class: "space" }),
        says("wheel: zoom · drag: move · shift + wheel: down"),
        act("Longest task", () => this.longest()), act("All", () => this.plot.reset())),
      this.plot.element);
    this.plot.element.append(this.legend());
  }

  legend() {
    const engines = [...new Set(this.app.model.tasks.map((t) => t.engine))];
    return h("div", { class: "legend" }, engines.map((e) => h("span", {}, h("i", { class: "swatch", style: `background:var(--${e})` }), e)),
      this.gaps.length ? h("span", {}, h("i", { class: "swatch", style: "background:var(--idle)" }), "an engine waits") : null);
  }

  /** Which row each task is in. */
  lay() {
    const { tasks } = this.app.model;
    /** @type {{name: string, y: number, height: number, key: string}[]} */ this.rows = [];
    let y = TOP + 6;
    const add = (/** @type {string} */ key, /** @type {string} */ name, height = ROW) => { this.rows.push({ key, name, y, height }); y += height + 2; };
    for (const engine of ["cube", "vector", "dma_in", "dma_out", "comm", "host"]) {
      const lanes = tasks.filter((t) => t.engine === engine).reduce((most, t) => Math.max(most, t.lane + 1), 0);
      for (let lane = 0; lane < lanes; lane += 1) add(`e ${engine} ${lane}`, lane ? "" : engine);
      if (this.gaps.some((/** @type {any} */ g) => g.engine === engine)) add(`i ${engine}`, "", IDLE);
      if (lanes) y += GAP;
    }
    this.split = y;
    y += 14;
    for (const stream of [...new Set(tasks.map((t) => t.stream ?? -1))].sort((a, b) => a - b)) add(`s ${stream}`, stream < 0 ? "host thread" : `stream ${stream}`);
    this.bottom = y;
    this.rates = this.traffics();
    /** @type {Map<string, any>} */ this.at = new Map(this.rows.map((r) => [r.key, r]));
  }

  /** @param {Plot} plot */
  draw(plot) {
    const fills = Object.fromEntries(["cube", "vector", "dma_in", "dma_out", "comm", "host"].map((e) => [e, color(`--${e}`)]));
    const faint = color("--soft"), c = plot.context, down = plot.scroll;
    c.save();
    c.beginPath();
    c.rect(0, TOP, plot.width, plot.height);
    c.clip();
    for (const gap of this.gaps) {
      const row = this.at.get(`i ${gap.engine}`);
      plot.bar(gap, gap.start_us, gap.end_us, row.y - down, row.height, color("--idle"), "");
    }
    for (const task of this.app.model.tasks) {
      const end = task.start_us + task.duration_us, fill = this.path && !task.critical ? faint : fills[task.engine];
      for (const key of [`e ${task.engine} ${task.lane}`, `s ${task.stream ?? -1}`]) {
        const row = this.at.get(key);
        plot.bar(task, task.start_us, end, row.y - down, row.height, fill, this.path && !task.critical ? "" : task.name);
      }
    }
    plot.beside();
    this.arrows(plot);
    this.traffic(plot);
    c.restore();
    this.heads(plot);
  }

  /** How fast HBM is read and written: bytes of each task, evenly over its time. @param {Plot} plot */
  traffic(plot) {
    const top = (this.bottom ?? 0) + 14 - plot.scroll, height = Math.min(110, plot.height - top - 50);
    if (height < 40 || !this.rates?.length) return;
    const c = plot.context, most = Math.max(...this.rates.map((r) => r[1]), 1e-9), y = (/** @type {number} */ v) => top + height - (v / most) * (height - 8);
    c.fillStyle = color("--accent-soft");
    c.strokeStyle = color("--accent");
    c.lineWidth = 1;
    c.beginPath();
    c.moveTo(plot.x(0), y(0));
    let last = 0;
    for (const [at, rate] of this.rates) { c.lineTo(plot.x(at), y(last)); c.lineTo(plot.x(at), y(rate)); last = rate; }
    c.lineTo(plot.x(this.app.model.latency), y(0));
    c.fill();
    c.stroke();
    this.trafficAt = { top, height, most };
  }

  /** Times, and bytes a microsecond from each on. */
  traffics() {
    /** @type {[number, number][]} */ const steps = [];
    for (const t of this.app.model.tasks)
      if (t.bytes && t.duration_us > 0) steps.push([t.start_us, t.bytes / t.duration_us], [t.start_us + t.duration_us, -t.bytes / t.duration_us]);
    steps.sort((a, b) => a[0] - b[0]);
    let sum = 0;
    return steps.map(([at, change]) => [at, Math.max(0, (sum += change))]);
  }

  /** Events that the chosen task waits for. @param {Plot} plot */
  arrows(plot) {
    const task = plot.chosen, c = plot.context;
    if (!task?.events) return;
    c.strokeStyle = color("--text");
    c.lineWidth = 1.2;
    for (const number of task.events) {
      const before = this.app.model.tasks[number], from = this.at.get(`s ${before.stream ?? -1}`), to = this.at.get(`s ${task.stream ?? -1}`);
      const x0 = plot.x(before.start_us + before.duration_us), x1 = plot.x(task.start_us);
      c.beginPath();
      c.moveTo(x0, from.y + ROW / 2 - plot.scroll);
      c.lineTo(x1, to.y + ROW / 2 - plot.scroll);
      c.stroke();
      c.beginPath();
      c.arc(x1, to.y + ROW / 2 - plot.scroll, 2.5, 0, 7);
      c.fill();
    }
  }

  /** @param {Plot} plot */
  heads(plot) {
    const c = plot.context;
    c.fillStyle = color("--surface");
    c.fillRect(0, 0, LEFT - 2, plot.height);
    c.fillStyle = color("--line");
    c.fillRect(LEFT - 2, 0, 1, plot.height);
    c.fillRect(0, (this.split ?? 0) + 4 - plot.scroll, plot.width, 1);
    c.fillStyle = color("--muted");
    if (this.trafficAt) {
      const { top, height, most } = this.trafficAt;
      c.fillText("HBM", 14, top + height / 2 - 8);
      c.fillText(`to ${rate(most * 1e6, "B/s")}`, 14, top + height / 2 + 8);
    }
    const { busy_us } = this.app.model.payload.time;
    for (const row of this.rows ?? []) {
      const y = row.y + row.height / 2 - plot.scroll;
      if (!row.name || y < TOP) continue;
      const busy = busy_us[row.name];
      c.fillStyle = color("--text");
      c.fillText(row.name, 14, y);
      if (busy) { c.fillStyle = color("--muted"); c.textAlign = "right"; c.fillText(share(busy, this.app.model.latency), LEFT - 10, y); c.textAlign = "left"; }
    }
  }

  /** @param {any} item */
  describe(item) {
    if (item.cause) return [h("b", {}, `${item.engine} waits ${time(item.end_us - item.start_us)}`), h("span", {}, `for ${CAUSES[item.cause] ?? item.cause}, from ${time(item.start_us)}`)];
    return [h("b", {}, item.name), h("span", {}, `${short(this.app.times.kindOf(item))}, ${item.engine}`),
      h("span", {}, `${time(item.duration_us)} from ${time(item.start_us)}, after ${time(item.start_us - item.ready_us)} of launch and waiting`),
      h("span", {}, `bound by ${cause(item.bound)}; ${bytes(item.bytes)} cross HBM`),
      item.runs > 1 ? h("span", {}, `stands for ${item.runs} runs`) : null];
  }

  /** @param {any} item */
  pick(item) {
    if (item.node !== undefined) this.app.select({ level: this.app.model.program, node: item.node }, false);
  }

  /** @param {import("views/model").Place | null} place */
  chose(place) {
    if (this.plot.chosen && place && this.plot.chosen.node === place.node && place.level === this.app.model.program) return;
    const [launch] = place ? this.app.model.launches(place) : [];
    this.plot.choose(launch === undefined ? null : this.app.model.tasksOf.get(launch)?.[0] ?? null);
  }

  longest() {
    const task = this.app.model.tasks.reduce((a, b) => (b.duration_us > a.duration_us ? b : a));
    this.plot.chosen = task;
    this.plot.showTime(task.start_us - task.duration_us, task.start_us + 2 * task.duration_us);
    this.pick(task);
  }

  show() { this.plot.draw(); if (this.app.chosen) this.chose(this.app.chosen); }
  resize() { this.plot.resize(); }
  recolor() { this.plot.draw(); }
}
