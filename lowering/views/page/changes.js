import { h } from "views/text";
export class ChangesView {
  constructor(app) { this.app = app; this.element = h("div", {class: "empty"}, "soon"); }
}
