// What rules did, what they nearly did, and what that costs.

import { card, h, share, short, table, time } from "views/text";
import { groups } from "views/model";

const MOST = 200; // remarks that are listed

export class FusionView {
  /** @param {import("views/app").App} app */
  constructor(app) {
    this.app = app;
    /** @type {any[]} */ this.remarks = app.model.payload.remarks ?? [];
    this.detail = h("div");
    const near = this.remarks.filter((r) => !r.applied && !r.settled), settled = this.remarks.filter((r) => r.settled).length, lost = near.reduce((s, r) => s + (r.loss_us ?? 0), 0);
    const text = near.length ? `${near.length} near misses; those with an estimate cost ${time(lost)} together${app.model.latency ? `, ${share(lost, app.model.latency)} of the run` : ""}. An estimate is of one chance alone: several may exclude each other.` : "No rule nearly matched without being applied in another way.";
    this.element = h("div", { class: "sheet" }, h("div", { class: "columns wide" }, card("Near misses", h("p", { class: "note" }, text, settled ? ` ${settled} more cost nothing: their rule was applied to the same op in another way.` : ""), this.missed(near)),
      card("Rules", this.rules())), h("div", { style: "height:16px" }), this.detail);
  }

  /** @param {any[]} near */
  missed(near) {
    const sorted = [...near].sort((a, b) => (b.loss_us ?? -1) - (a.loss_us ?? -1)).slice(0, MOST);
    return sorted.length ? h("div", { style: "max-height:340px;overflow:auto" }, this.list(sorted)) : null;
  }

  /** @param {any[]} remarks */
  list(remarks) {
    const rows = remarks.map((r) => [h("code", {}, r.rule), r.source ?? "", short(r.op), r.settled ? `${r.why} (applied in another way)` : r.why ?? "", r.loss_us === undefined || r.settled ? "" : time(r.loss_us)]);
    return table(["Rule", "Node", "Op", "Why", "#Cost, about"], rows, (i) => this.goto(remarks[i]));
  }

  rules() {
    const counts = this.app.model.payload.report?.fusion ?? {}, by = groups(this.remarks, (r) => r.rule);
    const names = [...new Set([...Object.keys(counts), ...by.keys()])];
    const rows = names.map((name) => {
      const said = by.get(name) ?? [], near = said.filter((r) => !r.applied && !r.settled);
      return { name, matched: counts[name]?.matched ?? said.length, applied: counts[name]?.applied ?? said.filter((r) => r.applied).length, near: near.length, lost: near.reduce((s, r) => s + (r.loss_us ?? 0), 0), said };
    }).sort((a, b) => b.lost - a.lost || b.applied - a.applied);
    return table(["Rule", "#Matched", "#Applied", "#Near misses", "#Cost, about"], rows.map((r) => [h("code", {}, r.name), String(r.matched), String(r.applied), r.near ? String(r.near) : "", r.lost ? time(r.lost) : ""]),
      (i) => this.show_rule(rows[i]));
  }

  /** @param {{name: string, said: any[]}} rule */
  show_rule({ name, said }) {
    const text = said.length ? this.list(said.slice(0, MOST)) : h("p", { class: "note" }, "This rule says nothing of single ops.");
    this.detail.replaceChildren(card(name, text));
    this.detail.scrollIntoView({ behavior: "smooth", block: "nearest" });
  }

  /** The op that a remark is about, at the level where it is nearest. @param {any} remark */
  goto(remark) {
    const { levels, bySource } = this.app.model;
    const order = ["fused", "graph", "program", "model"].map((n) => levels.findIndex((l) => l.name === n)).filter((i) => i >= 0);
    for (const level of order) {
      const [node] = bySource[level].get(remark.source) ?? [];
      if (node !== undefined) { this.app.goto({ level, node }); return; }
    }
  }
}
