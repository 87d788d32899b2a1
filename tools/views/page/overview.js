// What a run comes to: sentences, figures, the slowest tasks.

import { bytes, card, cause, causeColor, h, share, short, table, time } from "views/text";

const SLOWEST = 12;

/** @param {import("views/app").App} app */
export function overview(app) {
  const { payload } = app.model;
  const parts = [failure(app), verdict(payload), numbers(app), madeOf(payload), tiles(app)];
  const columns = [app.model.tasks.length ? slowest(app) : null, levels(app), passes(payload)];
  const notes = [...(payload.time?.notes ?? []), ...tried(payload)];
  return { element: h("div", { class: "sheet" }, parts, h("div", { class: "columns" }, columns),
    notes.length ? h("div", { style: "margin-top:16px" }, card("Notes", h("ul", { style: "margin:0;padding-left:18px" }, notes.map((n) => h("li", {}, n))))) : null) };
}

/** Ways to the nodes that the error names. @param {import("views/app").App} app */
function broken(app) {
  const nodes = app.model.levels[0]?.nodes ?? [], found = nodes.flatMap((n, i) => (n.broken ? [i] : []));
  return found.length ? h("p", { style: "margin:10px 0 0" }, found.slice(0, 20).flatMap((i) => [h("button", { class: "link", type: "button", onclick: () => app.goto({ level: 0, node: i }) }, `Show ${nodes[i].op} ${nodes[i].name}`), h("br")])) : null;
}

/** @param {import("views/app").App} app */
function failure(app) {
  const { payload } = app.model;
  if (!payload.failure) return null;
  const reached = (payload.levels ?? []).filter((l) => l.name !== "stopped").at(-1)?.name;
  const where = payload.failure.pass ? `in pass ${payload.failure.pass}` : "before the first pass";
  return h("section", { class: "card failure", style: "margin-bottom:16px" }, h("h2", {}, `The compilation stopped ${where}`),
    h("p", {}, `${payload.steps?.length ?? 0} passes had run${reached ? `; ${reached} is the last level that was reached` : ""}. The graph shows how far it got.`), h("pre", {}, payload.failure.message), broken(app));
}

/** @param {any} payload */
function verdict(payload) {
  if (payload.verdict) return h("section", { class: "card verdict" }, h("ol", {}, payload.verdict.map((/** @type {string} */ s) => h("li", {}, s))));
  if (!payload.untimed || payload.failure) return null;
  return h("section", { class: "card verdict" }, `There is no time: ${payload.untimed}`);
}

/** Outputs, and results of nodes, beside those of another program. @param {import("views/app").App} app */
function numbers(app) {
  const found = app.model.payload.report?.compared;
  if (!found) return null;
  const figures = (/** @type {any} */ f) => [f.share?.toExponential(1) ?? "", f.snr_db === undefined ? "" : `${f.snr_db.toFixed(1)} dB`];
  const outputs = Object.entries(found.outputs).map(([name, o]) => [name, o.type, ...figures(o), o.verdict]);
  const all = found.layers?.nodes ?? [], shown = all.slice(0, SLOWEST), nodes = app.model.levels[0]?.nodes ?? [];
  const rows = shown.map((/** @type {any} */ n) => [n.name, n.op, ...figures(n), figures(n.alone)[1], n.verdict === "wrong" ? wrong(n) : n.verdict]);
  const pick = (/** @type {number} */ i) => { const node = nodes.findIndex((n) => (n.sources ?? []).includes(shown[i].name)); if (node >= 0) app.goto({ level: 0, node }); };
  return h("section", { class: "card", style: "margin-bottom:16px" }, h("h2", {}, `Numbers beside ${found.with}: ${found.agrees ? "they agree" : "they differ"}`), h("p", { class: "note" }, `Tolerance: ${found.tolerance}`),
    table(["Output", "Type", "#Error, of the largest", "#SNR", "Verdict"], outputs),
    rows.length ? [h("h3", {}, `${found.layers.differ} of ${found.layers.compared} nodes are beyond it, ${found.layers.wrong} wrong alone`), table(["Node", "Op", "#Error, of the largest", "#SNR", "#SNR alone", "Verdict"], rows, pick)] : null);
}

/** A node that is wrong on the same operands, and what it is computed from. @param {any} n */
function wrong(n) {
  const others = (n.sources ?? []).filter((/** @type {string} */ s) => s !== n.name);
  return h("span", {}, h("strong", { style: "color:var(--bad)" }, "wrong"), others.length ? h("small", { class: "note" }, ` with ${others.join(", ")}`) : null);
}

/** The latency by cause, as one bar. @param {any} payload */
function madeOf(payload) {
  const parts = Object.entries(payload.time?.made_of_us ?? {}), total = parts.reduce((s, [, us]) => s + us, 0);
  if (!total) return null;
  const strip = h("div", { class: "strip", role: "img", "aria-label": parts.map(([c, us]) => `${cause(c)} ${share(us, total)}`).join(", ") },
    parts.map(([c, us]) => h("i", { style: `flex-grow:${us / total};background:${causeColor(c)}`, title: `${cause(c)} ${time(us)}` })));
  const keys = parts.filter(([, us]) => us / total >= 0.0005).map(([c, us]) => h("span", {}, h("i", { class: "swatch", style: `background:${causeColor(c)}` }), `${cause(c)} ${share(us, total)}`, h("small", {}, ` ${time(us)}`)));
  return h("section", { class: "card", style: "margin-bottom:16px" }, h("h2", {}, "What the latency is made of, along the critical path"), strip, h("div", { class: "keys" }, keys));
}

/** @param {import("views/app").App} app */
function tiles(app) {
  const { payload } = app.model, figures = payload.memory?.figures ?? payload.report?.memory ?? {}, run = payload.time;
  const shown = run ? [
    ["Latency", time(run.latency_us), `at least ${time(run.lower_bound_us)}`],
    ...Object.entries(run.busy_us).map(([e, us]) => [`${e} busy`, share(us, run.latency_us), time(us)]),
    ...(run.exposed_us ? [["Communication exposed", share(run.exposed_us, run.latency_us), time(run.exposed_us)]] : []),
    ["Critical path", `${run.path_tasks} tasks`, `${time(run.latency_us - run.path_us)} of launches and waits`],
  ] : [];
  const named = { peak_bytes: "Arena", weight_bytes: "Weights", io_bytes: "Inputs, outputs", state_bytes: "State" };
  for (const [key, title] of Object.entries(named)) {
    if (typeof figures[key] === "number" && figures[key])
      shown.push([title, bytes(figures[key]), key === "peak_bytes" && figures.lower_bound_bytes ? `at least ${bytes(figures.lower_bound_bytes)}` : ""]);
  }
  return shown.length ? h("div", { class: "tiles" }, shown.map(([name, value, more]) => h("div", { class: "card tile" }, h("span", {}, name), h("b", {}, value), more ? h("small", {}, more) : null))) : null;
}

/** @param {import("views/app").App} app */
function slowest(app) {
  const { model } = app;
  const tasks = [...model.tasks].sort((a, b) => b.runs * b.duration_us - a.runs * a.duration_us).slice(0, SLOWEST);
  const rows = tasks.map((t) => [t.name, short(app.times.kindOf(t)), cause(t.bound), time(t.duration_us), share(t.runs * t.duration_us, model.latency)]);
  return card(`The ${tasks.length} slowest tasks`, table(["Task", "Op", "Bound by", "#Time", "#Share"], rows, (i) => {
    const node = tasks[i].node;
    if (node !== undefined) app.goto({ level: model.program, node });
  }));
}

/** @param {import("views/app").App} app */
function levels(app) {
  const rows = app.model.levels.map((l) => [l.name, l.summary, String(l.nodes.filter((n) => n.op !== "input" && n.op !== "output" && (n.parent ?? -1) < 0).length)]);
  return rows.length ? card("Levels", table(["Level", "An op is", "#Ops"], rows, (i) => { app.graph.level = i; app.graph.tree = undefined; app.show("graph"); })) : null;
}

/** @param {any} payload */
function passes(payload) {
  const timed = payload.report?.compile?.passes ?? [];
  if (!timed.length) return null;
  const total = payload.report.compile.seconds;
  const rows = [...timed].sort((a, b) => b.seconds - a.seconds).slice(0, 10).map((p) => [p.name, `${(1e3 * p.seconds).toFixed(1)} ms`, share(p.seconds, total)]);
  return card(`Compiled in ${total.toFixed(2)} s, the longest of ${timed.length} steps`, table(["Pass", "#Time", "#Share"], rows));
}

/** @param {any} payload */
function tried(payload) {
  const several = Object.entries(payload.tries ?? {}).filter(([, n]) => n > 1);
  return several.length ? [`Several ways down were tried (${several.map(([l, n]) => `${l} ${n} times`).join(", ")}); above the last level the graph shows the last of them.`] : [];
}
