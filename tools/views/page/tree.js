// The ops of a level as a tree: modules, in them kernels and ops with bodies, in them ops.

/**
 * @typedef {{id: string, kind: "module" | "kernel" | "op", title: string, path: string, parent: string,
 *   node: number, items: string[], ops: number, first?: number}} Container
 */

const { d3 } = /** @type {any} */ (globalThis);
const LARGEST = 160, PART = 40; // ops in one container, and in each part of a larger one
const ENDS = 6; // inputs, and outputs, that are shown one by one at first

export class Tree {
  /** @param {import("views/model").Model} model @param {number} level @param {boolean} kernels whether ops of one kernel are put together */
  constructor(model, level, kernels) {
    this.model = model;
    this.level = level;
    this.nodes = model.levels[level].nodes;
    this.fused = model.levels.find((l) => l.name === "fused");
    /** @type {Map<string, Container>} */ this.containers = new Map();
    this.containers.set("", { id: "", kind: "module", title: "", path: "", parent: "", node: -1, items: [], ops: 0 });
    /** Container of each op. @type {string[]} */ this.home = [];
    const children = model.children[level];
    for (const end of ["input", "output"]) {
      const count = this.nodes.filter((n) => n.op === end).length;
      if (count > ENDS) this.add({ id: `io:${end}`, kind: "module", title: `${count} ${end}s`, path: "", parent: "", node: -1 });
    }
    this.nodes.forEach((node, i) => {
      const home = this.homeOf(node, kernels);
      this.home.push(home);
      if (children.has(i)) this.add({ id: `n:${i}`, kind: "op", title: node.name, path: node.module ?? "", parent: home, node: i });
      else this.containers.get(home)?.items.push(`${i}`);
    });
    this.dissolve("");
    for (const id of [...this.containers.keys()]) this.split(id);
    this.count("");
  }

  /** @param {import("views/model").Op} node @param {boolean} kernels */
  homeOf(node, kernels) {
    if ((node.parent ?? -1) >= 0) return `n:${node.parent}`;
    if (this.containers.has(`io:${node.op}`)) return `io:${node.op}`;
    if (!kernels || node.group === undefined || !this.fused) return this.module(node.module ?? "");
    const group = this.fused.nodes[node.group], id = `k:${node.group}`;
    if (!this.containers.has(id))
      this.add({ id, kind: "kernel", title: group.op, path: group.module ?? "", parent: this.module(group.module ?? ""), node: node.group });
    return id;
  }

  /** @param {string} path @returns {string} */
  module(path) {
    if (!path) return "";
    const id = `m:${path}`;
    if (!this.containers.has(id)) {
      const cut = path.lastIndexOf("/");
      const parent = this.module(cut < 0 ? "" : path.slice(0, cut));
      this.add({ id, kind: "module", title: path.slice(cut + 1), path, parent, node: -1 });
    }
    return id;
  }

  /** @param {Omit<Container, "items" | "ops">} container */
  add(container) {
    this.containers.set(container.id, { ...container, items: [], ops: 0 });
    this.containers.get(container.parent)?.items.push(container.id);
  }

  /** What holds one thing only is left out. @param {string} id */
  dissolve(id) {
    const container = this.get(id);
    container.items = container.items.flatMap((item) => {
      if (!this.containers.has(item)) { this.home[Number(item)] = id; return [item]; }
      const inner = this.get(item);
      inner.parent = id;
      this.dissolve(item);
      if (inner.kind === "op" || inner.items.length > 1) return [item];
      this.containers.delete(item);
      inner.items.forEach((i) => {
        const deeper = this.containers.get(i);
        if (!deeper) this.home[Number(i)] = id;
        else {
          deeper.parent = id;
          if (deeper.kind === "module") deeper.title = `${inner.title}/${deeper.title}`;
        }
      });
      return inner.items;
    });
  }

  /** Where too many ops are in one container, for no modules are known, some that follow each other are put together. @param {string} id */
  split(id) {
    const container = this.get(id), ops = container.items.filter((i) => !this.containers.has(i) && !["input", "output"].includes(this.nodes[Number(i)].op));
    if (ops.length <= LARGEST) return;
    for (let at = 0; at < ops.length; at += PART) {
      const part = ops.slice(at, at + PART), name = `part:${id}:${at}`;
      this.containers.set(name, { id: name, kind: "module", title: `ops ${at + 1} to ${at + part.length}`, path: "", parent: id, node: -1, items: part, ops: 0 });
      part.forEach((i) => { this.home[Number(i)] = name; });
    }
    const moved = new Set(ops);
    container.items = [...container.items.filter((i) => !moved.has(i)), ...[...this.containers.keys()].filter((c) => c.startsWith(`part:${id}:`))];
  }

  /** @param {string} id @returns {number} */
  count(id) {
    const container = this.get(id);
    container.ops = container.items.reduce((sum, i) => sum + (this.containers.has(i) ? this.count(i) : 1), 0);
    return container.ops;
  }

  /** The number of the first op of a container, of outputs the last one; or of an op. @param {string} item @returns {number} */
  first(item) {
    const container = this.containers.get(item);
    if (!container) return Number(item);
    if (item === "io:output") return Infinity;
    container.first ??= Math.min(container.node < 0 || container.kind === "kernel" ? Infinity : container.node, ...container.items.map((i) => this.first(i)));
    return container.first;
  }

  /** @param {string} id @returns {Container} */
  get(id) { return /** @type {Container} */ (this.containers.get(id)); }

  /** The containers around a container or an op, the outermost first. @param {string} item @returns {string[]} */
  around(item) {
    const parent = this.containers.has(item) ? this.get(item).parent : this.home[Number(item)];
    return parent ? [...this.around(parent), parent] : [];
  }

  /** Containers to open at first: all of a depth, while no more than so many things are shown. @param {string} root @param {number} most */
  opened(root, most) {
    const open = new Set();
    let shown = this.get(root).items;
    for (;;) {
      const next = shown.filter((i) => this.get(i)?.kind === "module" && !i.startsWith("io:"));
      const size = shown.length - next.length + next.reduce((sum, i) => sum + this.get(i).items.length, 0);
      if (!next.length || size > most) return open;
      next.forEach((i) => open.add(i));
      shown = shown.flatMap((i) => (next.includes(i) ? this.get(i).items : [i]));
    }
  }

  /** What is shown of the ops: leaves (ops and closed containers), open containers, and edges.
   * @param {string} root @param {Set<string>} open */
  visible(root, open) {
    /** @type {string[]} */ const leaves = [];
    /** @type {string[]} */ const clusters = [];
    /** @type {Map<number, string>} */ const shown = new Map();
    const mark = (/** @type {string} */ item, /** @type {string} */ as) => {
      const container = this.containers.get(item);
      if (!container) { shown.set(Number(item), as); return; }
      if (container.kind === "op") shown.set(container.node, as);
      container.items.forEach((i) => mark(i, as));
    };
    const walk = (/** @type {string} */ id) => {
      for (const item of d3.sort(this.get(id).items, (/** @type {string} */ i) => this.first(i))) {
        if (this.containers.has(item) && open.has(item)) { clusters.push(item); walk(item); }
        else { leaves.push(item); mark(item, item); }
      }
    };
    walk(root);
    return { leaves, clusters, edges: this.edges(shown) };
  }

  /** @param {Map<number, string>} shown op -> the leaf that it is in */
  edges(shown) {
    /** @type {Map<string, {from: string, to: string, types: Set<string>}>} */ const found = new Map();
    for (const [number, to] of shown) {
      for (const [, type, maker] of this.nodes[number].operands ?? []) {
        for (const from of this.makers(maker, shown)) {
          if (from === to) continue;
          const key = `${from} ${to}`;
          if (!found.has(key)) found.set(key, { from, to, types: new Set() });
          found.get(key)?.types.add(type);
        }
      }
    }
    return [...found.values()];
  }

  /** What is shown of what makes a value: of an op whose body is open, the ends of the body.
   * @param {number} maker @param {Map<number, string>} shown @returns {string[]} */
  makers(maker, shown) {
    if (maker < 0) return [];
    const as = shown.get(maker);
    if (as !== undefined) return [as];
    const inner = this.model.children[this.level].get(maker) ?? [];
    const last = inner[inner.length - 1];
    return last === undefined ? [] : this.makers(last, shown);
  }
}
