// The page: tabs, what is chosen, search, keys, light and dark.

import { GraphView } from "views/graph";
import { Inspector } from "views/inspect";
import { Model } from "views/model";
import { overview } from "views/overview";
import { Search } from "views/search";
import { Times } from "views/times";
import { h } from "views/text";
import { FusionView } from "views/fusion";
import { LayersView } from "views/layers";
import { MemoryView } from "views/memory";
import { RooflineView } from "views/roofline";
import { TimelineView } from "views/timeline";
import { ChangesView } from "views/changes";

const KEYS = [
  ["/", "search"], ["Esc", "close: search, details, what is chosen"], ["↑ ↓ ← →", "the next op, task or buffer"],
  ["Enter", "open or close a module; go to the details"], ["+  −  0", "zoom in, out, fit"], ["1 … 8", "the views"], ["?", "these keys"],
];
const ICON = '<svg viewBox="0 0 16 16" aria-hidden="true"><circle cx="8" cy="8" r="5.5"/><path d="M8 2.5a5.5 5.5 0 0 1 0 11z" fill="currentColor"/></svg>';

/** @param {string} id */
const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

export class App {
  /** @param {any} payload */
  constructor(payload) {
    this.model = new Model(payload);
    this.times = new Times(this.model);
    /** @type {import("views/model").Place | null} */ this.chosen = null;
    this.inspector = new Inspector(this, byId("inspector"));
    this.graph = new GraphView(this);
    const timed = this.model.tasks.length > 0;
    /** @type {{id: string, title: string, view: any, off?: boolean}[]} */
    this.tabs = [
      { id: "overview", title: "Overview", view: overview(this) },
      { id: "graph", title: "Graph", view: this.graph, off: !this.model.levels.length },
      { id: "timeline", title: "Timeline", view: timed && new TimelineView(this), off: !timed },
      { id: "memory", title: "Memory", view: timed && new MemoryView(this), off: !(payload.memory?.buffers ?? []).length },
      { id: "roofline", title: "Roofline", view: timed && new RooflineView(this), off: !timed },
      { id: "layers", title: "Layers", view: timed && new LayersView(this), off: !timed },
      { id: "fusion", title: "Fusion", view: new FusionView(this), off: !payload.remarks && !payload.report?.fusion },
      { id: "changes", title: "What if", view: timed && new ChangesView(this), off: !(payload.what_if ?? []).length },
    ];
    this.head();
    this.search = new Search(this, /** @type {HTMLInputElement} */ (byId("search")), byId("hits"));
    document.addEventListener("keydown", (e) => this.key(e));
    addEventListener("resize", () => this.tab?.view.resize?.());
    this.fromHash();
    const broken = this.model.levels[0]?.nodes.findIndex((n) => n.broken) ?? -1;
    if (broken >= 0 && !location.hash.includes("/")) this.graph.level = 0;
  }

  head() {
    const { model, target, time } = this.model.payload;
    byId("brand").append(h("b", { title: model }, model), h("span", {}, time?.machine ?? target));
    byId("tabs").append(...this.tabs.map((tab, i) => h("button", {
      id: `tab-${tab.id}`, role: "tab", type: "button", "aria-selected": "false", "aria-controls": "view", disabled: tab.off,
      title: tab.off ? (this.model.payload.untimed ?? "Nothing is known of it") : `${tab.title} (${i + 1})`, onclick: () => this.show(tab.id),
    }, tab.title)));
    const root = document.documentElement, wide = matchMedia("(prefers-color-scheme: dark)");
    const set = (/** @type {boolean} */ dark) => { root.dataset.theme = dark ? "dark" : "light"; this.tab?.view.recolor?.(); };
    set(wide.matches);
    wide.addEventListener("change", (e) => set(e.matches));
    byId("theme").innerHTML = ICON;
    byId("theme").addEventListener("click", () => set(root.dataset.theme !== "dark"));
    const dialog = /** @type {HTMLDialogElement} */ (byId("keys"));
    dialog.append(h("h2", {}, "Keys"), h("dl", { class: "facts" }, KEYS.flatMap(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)])),
      h("p", { class: "note", style: "margin-top:12px" }, "Wheel or pinch to zoom, drag to move. A click on a module opens it, a double click shows it alone."));
    dialog.addEventListener("click", () => dialog.close());
    byId("help").addEventListener("click", () => dialog.showModal());
  }

  /** @param {string} id */
  show(id) {
    const tab = this.tabs.find((t) => t.id === id && !t.off) ?? this.tabs[0];
    if (this.tab === tab) return;
    this.tab = tab;
    for (const other of this.tabs) {
      byId(`tab-${other.id}`).setAttribute("aria-selected", String(other === tab));
      byId(`tab-${other.id}`).tabIndex = other === tab ? 0 : -1;
    }
    byId("view").setAttribute("aria-labelledby", `tab-${tab.id}`);
    byId("view").replaceChildren(tab.view.element);
    byId("view").scrollTop = 0;
    tab.view.show?.();
    this.toHash();
  }

  /** Choose an op, or nothing; with `reveal` it is brought into view. @param {import("views/model").Place | null} place */
  select(place, reveal = true) {
    this.chosen = place;
    const wide = byId("inspector").hidden;
    this.inspector.show(place);
    if (wide !== byId("inspector").hidden) this.tab?.view.resize?.();
    if (!place) this.graph.clear();
    else if (reveal && this.tab?.id === "graph") this.graph.reveal(place);
    this.tab?.view.chose?.(place);
    this.toHash();
  }

  /** Show an op in the graph. @param {import("views/model").Place} place */
  goto(place) {
    this.show("graph");
    this.select(place, true);
  }

  /** Show a buffer in the map. @param {any} buffer */
  showBuffer(buffer) {
    this.show("memory");
    this.tab?.view.showBuffer(buffer);
  }

  /** @param {string} path */
  selectModule(path) { this.inspector.showModule(path); }

  /** @param {string} path */
  gotoModule(path) {
    this.show("graph");
    this.graph.revealModule(path);
    this.inspector.showModule(path);
  }

  /** @param {KeyboardEvent} e */
  key(e) {
    const target = /** @type {HTMLElement} */ (e.target), typing = target.matches("input, select, textarea");
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === "Escape") {
      if (typing) target.blur();
      if (this.chosen || !byId("inspector").hidden) this.select(null);
    } else if (typing) return;
    else if (e.key === "/") { e.preventDefault(); byId("search").focus(); }
    else if (e.key === "?") /** @type {HTMLDialogElement} */ (byId("keys")).showModal();
    else if (/^[1-8]$/.test(e.key)) this.show(this.tabs[Number(e.key) - 1].id);
    else if (target.getAttribute("role") === "tab" && /^Arrow(Left|Right)$/.test(e.key)) this.nextTab(e.key === "ArrowRight" ? 1 : -1);
  }

  /** @param {number} step */
  nextTab(step) {
    const on = this.tabs.filter((t) => !t.off), at = on.findIndex((t) => t === this.tab);
    const next = on[(at + step + on.length) % on.length];
    this.show(next.id);
    byId(`tab-${next.id}`).focus();
  }

  toHash() {
    const parts = [this.tab?.id, ...(this.chosen ? [this.model.levels[this.chosen.level].name, this.chosen.node] : [])];
    history.replaceState(null, "", `#${parts.join("/")}`);
  }

  fromHash() {
    const [tab, name, node] = decodeURIComponent(location.hash.slice(1)).split("/");
    this.show(tab || "overview");
    const level = this.model.levels.findIndex((l) => l.name === name);
    if (level >= 0 && this.model.levels[level].nodes[Number(node)]) this.select({ level, node: Number(node) });
  }
}

export function start() {
  const text = byId("payload").textContent ?? "{}";
  const app = new App(JSON.parse(text));
  Object.assign(globalThis, { app });
}
