// Sums of time: by module, by kind of op, by what bounds.

import { groups, push } from "views/model";

export class Times {
  /** @param {import("views/model").Model} model */
  constructor(model) {
    this.model = model;
    this.total = model.tasks.reduce((sum, t) => sum + t.runs * t.duration_us, 0);
    /** Path of a module -> time of all in it. @type {Map<string, number>} */ this.modules = new Map();
    for (const task of model.tasks) {
      const path = this.moduleOf(task), us = task.runs * task.duration_us;
      for (let at = path; at; at = at.includes("/") ? at.slice(0, at.lastIndexOf("/")) : "")
        this.modules.set(at, (this.modules.get(at) ?? 0) + us);
    }
  }

  /** @param {import("views/model").Task} task */
  nodeOf(task) {
    return task.node === undefined || this.model.program < 0 ? null : this.model.levels[this.model.program].nodes[task.node];
  }

  /** @param {import("views/model").Task} task */
  moduleOf(task) { return this.nodeOf(task)?.module ?? ""; }

  /** @param {string} path */
  ofModule(path) { return this.modules.get(path) ?? 0; }

  /** What a task computes: the name of an op, or a direction of copies. @param {import("views/model").Task} task */
  kindOf(task) {
    if (task.engine === "dma_in") return "copy to the device";
    if (task.engine === "dma_out") return "copy to the host";
    return this.nodeOf(task)?.attributes?.computes ?? "copy";
  }

  /** Tasks by a key, the most time first.
   * @param {(task: import("views/model").Task) => string} key */
  by(key) {
    return [...groups(this.model.tasks, key)].map(([name, tasks]) => ({
      name, tasks, count: tasks.reduce((sum, t) => sum + t.runs, 0),
      us: tasks.reduce((sum, t) => sum + t.runs * t.duration_us, 0),
    })).sort((a, b) => b.us - a.us);
  }

  /** Modules as a tree for d3: what is in a module itself is a leaf of it. */
  tree() {
    const root = { name: "model", path: "", children: /** @type {any[]} */ ([]), own: 0 };
    const known = new Map([["", root]]);
    /** @param {string} path @returns {any} */
    const find = (path) => {
      let node = known.get(path);
      if (node) return node;
      const cut = path.lastIndexOf("/");
      node = { name: path.slice(cut + 1), path, children: [], own: 0 };
      known.set(path, node);
      find(cut < 0 ? "" : path.slice(0, cut)).children.push(node);
      return node;
    };
    /** @type {Map<string, import("views/model").Task[]>} */ const tasks = new Map();
    for (const task of this.model.tasks) {
      const path = this.moduleOf(task);
      find(path).own += task.runs * task.duration_us;
      push(tasks, path, task);
    }
    return root;
  }
}
