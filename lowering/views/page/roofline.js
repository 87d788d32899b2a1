import { h } from "views/text";
export class RooflineView {
  constructor(app) { this.app = app; this.element = h("div", {class: "empty"}, "soon"); }
}
