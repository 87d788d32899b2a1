// A canvas with an axis of time: zoom and drag along it, a hint at the pointer, a choice by keys.

import { clipped, h, tip } from "views/text";

const { d3 } = /** @type {any} */ (globalThis);
const NEAR = 5; // pixels beside a bar at which it is still pointed at

/** The value of a custom property of the style. @param {string} name */
export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/**
 * @typedef {{x0: number, x1: number, y0: number, y1: number, item: any, name?: string}} Spot where an item was drawn;
 *   `name`: one for which its bar is too narrow
 */

export class Plot {
  /**
   * @param {string} label what it shows, for those who do not see it
   * @param {{left: number, top: number, end: number, draw: (plot: Plot) => void,
   *   describe: (item: any) => any[], choose: (item: any) => void, order: any[], scrolls?: boolean}} options
   *   `end`: of the time, in microseconds; `order`: the items as arrow keys go through them; `scrolls`: in y
   */
  constructor(label, options) {
    this.options = options;
    this.element = h("div", { class: "canvas", tabindex: 0, role: "application", "aria-label": `${label}. Left and right arrow keys go through it, plus and minus zoom.` });
    this.canvas = /** @type {HTMLCanvasElement} */ (h("canvas"));
    this.element.append(this.canvas);
    /** @type {Spot[]} */ this.spots = [];
    /** @type {any} */ this.chosen = null;
    this.transform = d3.zoomIdentity;
    this.scroll = 0;
    this.zoom = d3.zoom().scaleExtent([1, 1e5]).filter((/** @type {any} */ e) => !e.button && !(e.type === "wheel" && e.shiftKey))
      .on("zoom", (/** @type {any} */ e) => { this.transform = e.transform; this.draw(); tip(null); });
    this.selection = d3.select(this.canvas).call(this.zoom).on("dblclick.zoom", null);
    this.canvas.addEventListener("wheel", (e) => { if (options.scrolls && e.shiftKey) { this.scroll = Math.max(0, this.scroll + (e.deltaY || e.deltaX)); this.draw(); } });
    this.canvas.addEventListener("mousemove", (e) => this.point(e));
    this.canvas.addEventListener("mouseleave", () => tip(null));
    this.canvas.addEventListener("click", (e) => { const spot = this.at(e); if (spot) { this.chosen = spot.item; options.choose(spot.item); this.draw(); } });
    this.element.addEventListener("keydown", (e) => this.key(e));
  }

  /** @param {MouseEvent} e */
  at(e) {
    const { left, top } = this.canvas.getBoundingClientRect(), x = e.clientX - left, y = e.clientY - top;
    const away = (/** @type {Spot} */ s) => Math.max(s.x0 - x, x - s.x1, 0);
    const near = this.spots.filter((s) => y >= s.y0 && y <= s.y1 && away(s) <= NEAR);
    return near.reduceRight((/** @type {Spot | undefined} */ best, s) => (best && away(best) <= away(s) ? best : s), undefined);
  }

  /** @param {MouseEvent} e */
  point(e) {
    const spot = this.at(e);
    this.canvas.style.cursor = spot ? "pointer" : "default";
    tip(spot ? e : null, ...(spot ? this.options.describe(spot.item) : []));
  }

  /** @param {KeyboardEvent} e */
  key(e) {
    const { order } = this.options;
    if (e.key === "ArrowRight" || e.key === "ArrowLeft") {
      e.preventDefault();
      const at = order.indexOf(this.chosen), next = order[at < 0 ? 0 : Math.min(Math.max(at + (e.key === "ArrowRight" ? 1 : -1), 0), order.length - 1)];
      if (!next) return;
      this.choose(next);
      this.options.choose(next);
    } else if (e.key === "+" || e.key === "=") this.selection.call(this.zoom.scaleBy, 1.5);
    else if (e.key === "-") this.selection.call(this.zoom.scaleBy, 1 / 1.5);
    else if (e.key === "0") this.reset();
  }

  reset() { this.selection.call(this.zoom.transform, d3.zoomIdentity); }

  /** Mark an item, and bring its time into view. @param {any} item */
  choose(item) {
    this.chosen = item;
    if (item) {
      const x = this.base(item.start_us), right = this.base(item.end_us ?? item.start_us + item.duration_us);
      const [from, to] = [this.transform.applyX(x), this.transform.applyX(right)];
      if (to < this.options.left || from > this.width) this.selection.call(this.zoom.translateTo, (x + right) / 2, 0);
    }
    this.draw();
  }

  /** The interval of time that is to be shown. @param {number} from @param {number} to */
  showTime(from, to) {
    const span = Math.max(to - from, 1e-3), k = Math.min(1e5, this.options.end / span);
    this.draw();
    this.selection.call(this.zoom.transform, d3.zoomIdentity.translate(this.options.left - k * this.base(from), 0).scale(k));
  }

  resize() { this.draw(); }

  draw() {
    const box = this.element.getBoundingClientRect();
    if (!box.width) return;
    const scale = devicePixelRatio || 1;
    this.width = box.width;
    this.height = box.height;
    if (this.canvas.width !== Math.round(box.width * scale) || this.canvas.height !== Math.round(box.height * scale)) {
      this.canvas.width = Math.round(box.width * scale);
      this.canvas.height = Math.round(box.height * scale);
      const { left } = this.options;
      this.zoom.extent([[left, 0], [box.width, box.height]]).translateExtent([[left, -Infinity], [box.width, Infinity]]);
    }
    this.base = d3.scaleLinear([0, this.options.end], [this.options.left, box.width - 12]);
    this.x = this.transform.rescaleX(this.base);
    const c = this.canvas.getContext("2d");
    if (!c) return;
    this.context = c;
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.clearRect(0, 0, box.width, box.height);
    c.font = `11.5px ${getComputedStyle(document.body).fontFamily}`;
    c.textBaseline = "middle";
    this.spots = [];
    this.axis();
    this.options.draw(this);
  }

  axis() {
    const c = this.context, { left, top } = this.options, ticks = this.x.ticks(Math.max(3, Math.floor((this.width - left) / 110)));
    c.textAlign = "center";
    for (const at of ticks) {
      const x = this.x(at);
      if (x < left) continue;
      c.fillStyle = color("--soft");
      c.fillRect(x, top, 1, this.height - top);
      c.fillStyle = color("--muted");
      c.fillText(this.tick(at, ticks), Math.min(Math.max(x, left + 20), this.width - 30), top - 10);
    }
    c.textAlign = "left";
  }

  /** @param {number} at @param {number[]} ticks */
  tick(at, ticks) {
    const step = ticks.length > 1 ? ticks[1] - ticks[0] : at || 1;
    const [unit, size] = this.options.end >= 1e4 ? ["ms", 1e3] : ["us", 1];
    return `${(at / size).toFixed(Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9)))} ${unit}`;
  }

  /** A bar from one time to another, with a name if there is room.
   * @param {any} item @param {number} from @param {number} to @param {number} y @param {number} height @param {string} fill @param {string} name */
  bar(item, from, to, y, height, fill, name) {
    const c = this.context, left = this.options.left, x0 = Math.max(this.x(from), left), x1 = Math.min(this.x(to), this.width);
    if (x1 < left || x0 > this.width || y > this.height || y + height < 0) return;
    const width = Math.max(x1 - x0, 1);
    c.fillStyle = fill;
    c.fillRect(x0, y, Math.max(width - (width > 3 ? 0.6 : 0), 0.7), height);
    if (item === this.chosen) {
      c.strokeStyle = color("--text");
      c.lineWidth = 2;
      c.strokeRect(x0 - 1, y - 1, width + 2, height + 2);
    }
    const inside = height > 9 && name && this.name(name, x0 + 5, y + height / 2, width - 8);
    this.spots.push({ x0, x1: x0 + width, y0: y, y1: y + height, item, name: height > 9 && !inside ? name : undefined });
  }

  /** Write a name, or its beginning and end; whether there is room for either.
   * @param {string} text @param {number} x @param {number} y @param {number} room @param {string} [ink] */
  name(text, x, y, room, ink = "#fff") {
    const c = this.context, wide = c.measureText(text).width;
    const most = wide <= room ? text.length : Math.floor((text.length * room) / wide) - 1;
    if (most < 6 && wide > room) return false;
    const alpha = c.globalAlpha;
    c.globalAlpha = 1;
    c.fillStyle = ink;
    c.fillText(clipped(text, most), x, y);
    c.globalAlpha = alpha;
    return true;
  }

  /** Names of narrow bars, right of them where the row is free as far. */
  beside() {
    const ink = color("--text"), rows = d3.group(this.spots.filter((s) => s.y1 - s.y0 > 9), (/** @type {Spot} */ s) => s.y0);
    for (const row of rows.values()) {
      row.sort((/** @type {Spot} */ a, /** @type {Spot} */ b) => a.x0 - b.x0);
      row.forEach((/** @type {Spot} */ s, /** @type {number} */ i) => {
        const room = (row[i + 1]?.x0 ?? this.width) - s.x1 - 8;
        if (s.name && this.context.measureText(s.name).width <= room) this.name(s.name, s.x1 + 4, (s.y0 + s.y1) / 2, room, ink);
      });
    }
  }
}

