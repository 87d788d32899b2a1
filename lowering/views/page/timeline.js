import { h } from "views/text";
export class TimelineView {
  constructor(app) { this.app = app; this.element = h("div", {class: "empty"}, "soon"); }
}
