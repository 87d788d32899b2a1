import { h } from "views/text";
export class FusionView {
  constructor(app) { this.app = app; this.element = h("div", {class: "empty"}, "soon"); }
}
