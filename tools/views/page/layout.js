// Where boxes are and how edges run. Each open container is laid out by itself, by dagre, and is a
// box of that size in the one around it: so the time grows with the largest container, not with all.
// An edge that leaves a container passes a port in the middle of its lower side, and enters another
// through one in the middle of the upper side, beside what is written there (to the right, right and
// left).

const { dagre } = /** @type {any} */ (globalThis);

const IN = "(in)", OUT = "(out)";
const CLOSER = 24; // how much less room there is between a port and the boxes
const ROOT_PAD = 30, PAD = 12; // between a container and what is in it

/**
 * @typedef {{x: number, y: number, width: number, height: number}} Box the middle, and the size
 * @typedef {{boxes: Map<string, Box>, edges: Map<string, {x: number, y: number}[]>, width: number, height: number}} Arrangement
 * @typedef {[number, number]} Point
 * @typedef {{from: string, to: string, types: Set<string>}} Edge
 */

/** Arrangements by what is arranged: layers that repeat are laid out once. @type {Map<string, Arrangement>} */
const known = new Map();
const MOST_KNOWN = 400;

/** Boxes of these sizes with these edges, `0 1` from the first to the second.
 * @param {{width: number, height: number}[]} sizes @param {string[]} runs @param {boolean} down @param {number} pad @returns {Arrangement} */
function arrangement(sizes, runs, down, pad) {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: down ? "TB" : "LR", nodesep: 18, ranksep: down ? 34 : 46, marginx: pad, marginy: pad, ranker: sizes.length > 120 ? "longest-path" : "network-simplex" });
  graph.setDefaultEdgeLabel(() => ({}));
  sizes.forEach((size, i) => graph.setNode(`${i}`, { ...size }));
  const ends = runs.map((run) => run.split(" "));
  for (const port of [IN, OUT]) if (ends.some((e) => e.includes(port))) graph.setNode(port, { width: 1, height: 1 });
  for (const [from, to] of ends) graph.setEdge(from, to);
  // ports are above and below everything
  if (graph.hasNode(IN)) sizes.forEach((_, i) => { if (!graph.inEdges(`${i}`).length) graph.setEdge(IN, `${i}`, { weight: 0 }); });
  if (graph.hasNode(OUT)) sizes.forEach((_, i) => { if (!graph.outEdges(`${i}`).length) graph.setEdge(`${i}`, OUT, { weight: 0 }); });
  dagre.layout(graph);
  closer(graph, down);
  const { width, height } = graph.graph();
  return { boxes: new Map(graph.nodes().map((/** @type {string} */ n) => [n, graph.node(n)])), edges: new Map(runs.map((run, i) => [run, graph.edge(ends[i][0], ends[i][1]).points])),
    width: Math.max(width, 10), height: Math.max(height, 10) };
}

/** Ports take as little room as they can. @param {any} graph @param {boolean} down */
function closer(graph, down) {
  const axis = down ? "y" : "x", extent = down ? "height" : "width", info = graph.graph();
  if (graph.hasNode(OUT)) info[extent] -= CLOSER;
  if (!graph.hasNode(IN)) return;
  info[extent] -= CLOSER;
  for (const name of graph.nodes()) if (name !== IN) graph.node(name)[axis] -= CLOSER;
  for (const edge of graph.edges()) for (const point of graph.edge(edge).points) point[axis] -= CLOSER;
}

export class Layout {
  /**
   * @param {{leaves: string[], clusters: string[], edges: Edge[], parent: (id: string) => string,
   *   size: (leaf: string) => {width: number, height: number}, root: string, down: boolean, title: number,
   *   free: (container: string, width: number) => [number, number]}} given
   *   `parent`: the open container around a leaf or container; `title`: room above what is in a container;
   *   `free`: from where to where nothing is written in that room, from its left side
   */
  constructor(given) {
    this.given = given;
    /** @type {Map<string, Box>} */ this.boxes = new Map();
    /** Of each container what is in it, with numbers for names.
     * @type {Map<string, {arranged: Arrangement, name: (item: string) => number | string, offset: number[]}>} */
    this.inner = new Map();
    /** @type {Map<string, Map<number, number>>} */ this.ranks = new Map();
    this.collect();
    const { width, height } = this.arrange(given.root);
    this.width = width;
    this.height = height;
    this.place(given.root, 0, 0);
  }

  /** What is in each container, and which edges run there. */
  collect() {
    const { leaves, clusters, edges, root } = this.given;
    /** @type {Map<string, string[]>} */ this.items = new Map([[root, []], ...clusters.map((c) => /** @type {[string, string[]]} */ ([c, []]))]);
    for (const id of [...leaves, ...clusters]) this.items.get(this.given.parent(id))?.push(id);
    /** @type {Map<string, Map<string, [string, string]>>} */ this.runs = new Map([...this.items.keys()].map((id) => [id, new Map()]));
    /** @type {Map<Edge, [string, string, string][]>} */ this.ways = new Map();
    for (const edge of edges) {
      const way = this.way(edge);
      for (const [container, from, to] of way) this.runs.get(container)?.set(`${from} ${to}`, [from, to]);
      this.ways.set(edge, way);
    }
  }

  /** A leaf, and the open containers around it, the innermost first. @param {string} leaf */
  chain(leaf) {
    const chain = [leaf];
    for (let at = this.given.parent(leaf); at !== this.given.root; at = this.given.parent(at)) chain.push(at);
    return chain;
  }

  /** The parts of an edge: container, and the items between which it runs there. @param {Edge} edge @returns {[string, string, string][]} */
  way({ from, to }) {
    const a = this.chain(from), b = this.chain(to);
    while (a.length > 1 && b.length > 1 && a[a.length - 1] === b[b.length - 1]) { a.pop(); b.pop(); }
    const leaving = a.slice(1).map((container, i) => /** @type {[string, string, string]} */ ([container, a[i], OUT]));
    const entering = b.slice(1).map((container, i) => /** @type {[string, string, string]} */ ([container, IN, b[i]])).reverse();
    return [...leaving, [this.given.parent(a[a.length - 1]), a[a.length - 1], b[b.length - 1]], ...entering];
  }

  /** Lay out a container, what is in it first. @param {string} id @returns {{width: number, height: number}} */
  arrange(id) {
    const items = this.items.get(id) ?? [], isRoot = id === this.given.root;
    const sizes = items.map((item) => (this.items.has(item) ? this.arrange(item) : this.given.size(item)));
    const numbers = new Map(items.map((item, i) => [item, i]));
    const name = (/** @type {string} */ end) => numbers.get(end) ?? end;
    const runs = [...(this.runs.get(id)?.values() ?? [])].filter(([from, to]) => from !== to).map(([from, to]) => `${name(from)} ${name(to)}`);
    const key = JSON.stringify([isRoot, this.given.down, sizes, runs]);
    let arranged = known.get(key);
    if (!arranged) {
      if (known.size > MOST_KNOWN) known.clear();
      known.set(key, (arranged = arrangement(sizes, runs, this.given.down, isRoot ? ROOT_PAD : PAD)));
    }
    this.inner.set(id, { arranged, name, offset: [0, 0] });
    return { width: arranged.width, height: arranged.height + (isRoot ? 0 : this.given.title) };
  }

  /** Give what is in a container its place. @param {string} id @param {number} left @param {number} top */
  place(id, left, top) {
    const inner = this.inner.get(id), y0 = top + (id === this.given.root ? 0 : this.given.title);
    if (!inner) return;
    inner.offset = [left, y0];
    for (const port of [IN, OUT]) {
      const at = inner.arranged.boxes.get(port);
      if (at) this.boxes.set(`${port} ${id}`, { ...at, x: left + at.x, y: y0 + at.y });
    }
    for (const item of this.items.get(id) ?? []) {
      const { x, y, width, height } = /** @type {Box} */ (inner.arranged.boxes.get(`${inner.name(item)}`));
      this.boxes.set(item, { x: left + x, y: y0 + y, width, height });
      if (this.items.has(item)) this.place(item, left + x - width / 2, y0 + y - height / 2);
    }
  }

  /** @param {string} id @returns {Box} */
  box(id) { return /** @type {Box} */ (this.boxes.get(id)); }

  /** The points of an edge. @param {Edge} edge @returns {Point[]} */
  points(edge) {
    /** @type {Point[]} */ const points = [];
    for (const [container, from, to] of this.ways.get(edge) ?? []) {
      const { arranged, name, offset: [dx, dy] } = /** @type {any} */ (this.inner.get(container));
      const inner = arranged.edges.get(`${name(from)} ${name(to)}`).map((/** @type {{x: number, y: number}} */ p) => /** @type {Point} */ ([p.x + dx, p.y + dy]));
      const enters = from === IN ? this.port(container, false) : null;
      const first = enters ?? (this.items.has(from) ? this.port(from, true) : inner[0]);
      const last = this.items.has(to) ? this.port(to, false) : to === OUT ? this.port(container, true) : inner[inner.length - 1];
      points.push(first);
      if (enters && this.given.down) points.push([enters[0], enters[1] + this.given.title]); // straight past the title
      points.push(...inner.slice(1, -1).flatMap((/** @type {Point} */ p) => this.along(container, p)), last);
    }
    return points.filter((p, i) => !i || Math.hypot(p[0] - points[i - 1][0], p[1] - points[i - 1][1]) > 0.5);
  }

  /** Past the boxes of a rank an edge runs straight, so that it does not cut their corners.
   * @param {string} container @param {Point} point in the middle of the rank @returns {Point[]} */
  along(container, [x, y]) {
    const axis = this.given.down ? y : x, half = (this.ranksOf(container).get(Math.round(axis)) ?? 0) / 2;
    return this.given.down ? [[x, y - half], [x, y + half]] : [[x - half, y], [x + half, y]];
  }

  /** Where the middle of each rank of a container is, and its extent. @param {string} container @returns {Map<number, number>} */
  ranksOf(container) {
    let ranks = this.ranks.get(container);
    if (!ranks) {
      this.ranks.set(container, (ranks = new Map()));
      for (const item of this.items.get(container) ?? []) {
        const box = this.box(item), [middle, extent] = this.given.down ? [box.y, box.height] : [box.x, box.width];
        ranks.set(Math.round(middle), Math.max(ranks.get(Math.round(middle)) ?? 0, extent));
      }
    }
    return ranks;
  }

  /** The place nearest to one where an edge may enter a container. @param {string} id @param {number} at */
  beside(id, at) {
    const { x, width } = this.box(id), [from, to] = this.given.free(id, width), left = x - width / 2;
    return Math.max(left + from, Math.min(at, left + to));
  }

  /** The port of a container where edges leave it, or enter. @param {string} id @param {boolean} leaves @returns {Point} */
  port(id, leaves) {
    const { x, y, width, height } = this.box(id), side = leaves ? 0.5 : -0.5;
    const port = this.boxes.get(`${leaves ? OUT : IN} ${id}`);
    if (this.given.down) return [leaves ? port?.x ?? x : this.beside(id, port?.x ?? x), y + side * height];
    return [x + side * width, port ? port.y : y];
  }
}
