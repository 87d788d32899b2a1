// The search box: ops of all levels by name, kind, kernel or module.

import { h, short } from "views/text";

const MOST = 40; // hits that are listed

export class Search {
  /** @param {import("views/app").App} app @param {HTMLInputElement} input @param {HTMLElement} list */
  constructor(app, input, list) {
    this.app = app;
    this.input = input;
    this.list = list;
    /** @type {import("views/model").Place[]} */ this.hits = [];
    this.at = 0;
    this.texts = app.model.levels.map((level) => level.nodes.map((n) =>
      [n.name, n.op, n.module, n.attributes?.kernel, ...(n.sources ?? [])].join(" ").toLowerCase()));
    input.addEventListener("input", () => this.find(input.value));
    input.addEventListener("focus", () => { if (input.value) this.find(input.value); });
    input.addEventListener("blur", () => setTimeout(() => this.close(), 120));
    input.addEventListener("keydown", (e) => this.key(e));
  }

  /** All words have to be found; levels in the order of what is shown, names that begin so first. @param {string} text */
  find(text) {
    const started = performance.now();
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const { levels } = this.app.model;
    const order = levels.map((_, i) => i).sort((a, b) => Number(b === this.app.graph.level) - Number(a === this.app.graph.level));
    /** @type {{place: import("views/model").Place, rank: number}[]} */ const found = [];
    order.forEach((level, at) => this.texts[level].forEach((t, node) => {
      if (!words.length || !words.every((w) => t.includes(w))) return;
      const { name, op } = levels[level].nodes[node], first = words[0];
      const rank = name.toLowerCase() === text ? 0 : name.toLowerCase().startsWith(first) || short(op).toLowerCase().startsWith(first) ? 1 : 2;
      found.push({ place: { level, node }, rank: 10 * rank + at });
    }));
    found.sort((a, b) => a.rank - b.rank);
    this.total = found.length;
    this.hits = found.slice(0, MOST).map((f) => f.place);
    this.at = 0;
    this.draw(Boolean(words.length));
    this.took = performance.now() - started;
  }

  /** @param {boolean} asked */
  draw(asked) {
    const { levels } = this.app.model;
    const items = this.hits.map((place, i) => {
      const op = levels[place.level].nodes[place.node];
      return h("li", { role: "option", id: `hit-${i}`, "aria-selected": String(i === this.at), onmousedown: () => this.take(i) },
        h("span", { class: "name" }, h("b", {}, short(op.op)), ` ${op.name}`), h("span", { class: "tag" }, levels[place.level].name),
        op.module ? h("span", { class: "where" }, op.module) : null);
    });
    if (asked && !items.length) items.push(h("li", { class: "none" }, "No op has this in its name, kind or module."));
    if (this.total > MOST) items.push(h("li", { class: "none" }, `and ${this.total - MOST} more`));
    this.list.replaceChildren(...items);
    this.list.hidden = !asked;
    this.input.setAttribute("aria-expanded", String(asked));
    if (this.hits.length) this.input.setAttribute("aria-activedescendant", `hit-${this.at}`);
  }

  /** @param {number} i */
  take(i) {
    const place = this.hits[i];
    if (!place) return;
    this.close();
    this.input.blur();
    this.app.goto(place);
    document.querySelector(".canvas")?.focus();
  }

  close() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
  }

  /** @param {KeyboardEvent} e */
  key(e) {
    if (e.key === "Enter") this.take(this.at);
    else if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      e.preventDefault();
      const step = e.key === "ArrowDown" ? 1 : -1;
      this.at = Math.min(Math.max(this.at + step, 0), this.hits.length - 1);
      this.draw(true);
      document.getElementById(`hit-${this.at}`)?.scrollIntoView({ block: "nearest" });
    } else if (e.key === "Escape") this.close();
  }
}
