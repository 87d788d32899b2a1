import { h } from "views/text";
export class LayersView {
  constructor(app) { this.app = app; this.element = h("div", {class: "empty"}, "soon"); }
}
