// What the file holds, with what is looked up in it.

/**
 * @typedef {{name: string, op: string, sources?: string[], operands?: [string, string, number][],
 *   results?: string[], attributes?: Record<string, string>, module?: string, parent?: number,
 *   group?: number, task?: number, broken?: string}} Op
 * @typedef {{name: string, summary: string, after?: number, nodes: Op[]}} Level
 * @typedef {{node?: number, kind: string, name: string, engine: string, lane: number, stream: number,
 *   start_us: number, duration_us: number, ready_us: number, runs: number, critical: boolean,
 *   slack_us: number, bytes: number, l2_bytes: number, limits_us: Record<string, number>,
 *   bound: string, cores: Record<string, number>, macs: number, vector_ops: number,
 *   element?: string, timed_by?: string, events?: number[], number: number}} Task
 * @typedef {{level: number, node: number}} Place
 */

export class Model {
  /** @param {any} payload */
  constructor(payload) {
    this.payload = payload;
    /** @type {Level[]} */ this.levels = payload.levels ?? [];
    /** @type {Task[]} */ this.tasks = (payload.time?.tasks ?? []).map((/** @type {Task} */ t, /** @type {number} */ i) => ({ ...t, number: i }));
    this.latency = payload.time?.latency_us ?? 0;
    this.program = this.levels.findIndex((l) => l.name === "program");
    /** Number of a node of the program -> its tasks. @type {Map<number, Task[]>} */
    this.tasksOf = groups(this.tasks, (t) => t.node ?? -1);
    /** For each level, source -> numbers of nodes. @type {Map<string, number[]>[]} */
    this.bySource = this.levels.map((level) => {
      const found = new Map();
      level.nodes.forEach((node, i) => (node.sources ?? []).forEach((s) => push(found, s, i)));
      return found;
    });
    /** @type {Map<string, any[]>} */
    this.remarksOf = groups(payload.remarks ?? [], (r) => r.source);
    /** @type {Map<number, any[]>} */
    this.buffersOf = new Map();
    for (const buffer of payload.memory?.buffers ?? []) (buffer.nodes ?? []).forEach((/** @type {number} */ n) => push(this.buffersOf, n, buffer));
    this.children = this.levels.map((level) => {
      const found = new Map();
      level.nodes.forEach((node, i) => { if ((node.parent ?? -1) >= 0) push(found, node.parent, i); });
      return found;
    });
  }

  /** @param {Place} place */
  node({ level, node }) { return this.levels[level].nodes[node]; }

  /** Numbers of nodes of the program that execute a node. @param {Place} place @returns {number[]} */
  launches({ level, node }) {
    const op = this.levels[level].nodes[node];
    if (level === this.program) return this.tasksOf.has(node) ? [node] : [];
    let at = op;
    while (at.task === undefined && (at.parent ?? -1) >= 0) at = this.levels[level].nodes[/** @type {number} */ (at.parent)];
    if (at.task !== undefined) return [at.task];
    const fused = this.levels.findIndex((l) => l.name === "fused");
    if (this.levels[level].name !== "model" || fused < 0) return [];
    const found = new Set();
    for (const source of op.sources ?? [])
      for (const n of this.bySource[fused].get(source) ?? []) this.launches({ level: fused, node: n }).forEach((l) => found.add(l));
    return [...found];
  }

  /** Microseconds of all runs of a node of the program. @param {number} launch */
  timeOf(launch) {
    return (this.tasksOf.get(launch) ?? []).reduce((sum, t) => sum + t.runs * t.duration_us, 0);
  }

  /** Whether each of the launches does nothing but this. @param {Place} place */
  isAlone({ level, node }) {
    const name = this.levels[level].name, op = this.levels[level].nodes[node];
    if (name === "model") return false;
    return name === "graph" ? op.group === undefined && op.task !== undefined : (op.parent ?? -1) < 0;
  }

  /** What a node is at the other levels. @param {Place} place @returns {Place[]} */
  elsewhere({ level, node }) {
    const own = this.levels[level].nodes[node];
    const inner = (this.children[level].get(node) ?? []).flatMap((/** @type {number} */ c) => this.levels[level].nodes[c].sources ?? []);
    const sources = new Set([...(own.sources ?? []), ...inner]);
    const launches = new Set(this.launches({ level, node }));
    return this.levels.flatMap((other, i) => {
      if (i === level) return [];
      const found = new Set();
      sources.forEach((s) => (this.bySource[i].get(s) ?? []).forEach((n) => found.add(n)));
      const exact = [...found].filter((n) => {
        const task = i === this.program ? n : other.nodes[n].task;
        return other.name === "model" || !launches.size || task === undefined || launches.has(task);
      });
      if (i === this.program) launches.forEach((n) => { if (!exact.includes(n)) exact.push(n); });
      return exact.filter((n) => (other.nodes[n].parent ?? -1) < 0 || !exact.includes(other.nodes[n].parent)).map((n) => ({ level: i, node: n }));
    });
  }

  /** Remarks about what a node came from. @param {Place} place */
  remarks({ level, node }) {
    const op = this.levels[level].nodes[node];
    return (op.sources ?? []).flatMap((s) => this.remarksOf.get(s) ?? []);
  }

  /** The passes that touched what a node came from, up to its level. @param {Place} place */
  passes({ level, node }) {
    const { sources = [] } = this.levels[level].nodes[node];
    const after = this.levels[level].after ?? Infinity;
    const named = this.levels[level].name === "model" ? Infinity : after;
    /** @type {Map<number, string>} */ const found = new Map();
    for (const source of sources)
      for (const touch of this.payload.history?.[source] ?? [])
        if (touch.step < named && found.get(touch.step) !== "made") found.set(touch.step, touch.what);
    return [...found].sort((a, b) => a[0] - b[0]).map(([step, what]) => ({ step, what, name: this.payload.steps[step].name }));
  }
}

/** @template T, K @param {T[]} items @param {(item: T) => K} key @returns {Map<K, T[]>} */
export function groups(items, key) {
  const found = new Map();
  for (const item of items) push(found, key(item), item);
  return found;
}

/** @template K, V @param {Map<K, V[]>} map @param {K} key @param {V} value */
export function push(map, key, value) {
  const list = map.get(key);
  if (list) list.push(value); else map.set(key, [value]);
}
