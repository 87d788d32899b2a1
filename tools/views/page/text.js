// Texts for people, and elements of the page.

/** A time, given in microseconds. @param {number} us */
export function time(us) {
  if (us >= 1e6) return `${(us / 1e6).toFixed(2)} s`;
  if (us >= 1e4) return `${(us / 1e3).toFixed(2)} ms`;
  return `${us.toFixed(us < 100 ? 2 : 1)} us`;
}

/** @param {number} count */
export function bytes(count) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) { count /= 1024; unit += 1; }
  return `${unit ? count.toFixed(count < 100 ? 2 : 1) : count} ${units[unit]}`;
}

/** @param {number} part @param {number} whole */
export function share(part, whole) {
  return whole ? `${((100 * part) / whole).toFixed(part / whole < 0.0995 ? 1 : 0)}%` : "";
}

/** A rate with a prefix. @param {number} value @param {string} unit */
export function rate(value, unit) {
  const prefixes = ["", "k", "M", "G", "T", "P", "E"];
  let prefix = 0;
  while (value >= 1000 && prefix < prefixes.length - 1) { value /= 1000; prefix += 1; }
  return `${value.toPrecision(3)} ${prefixes[prefix]}${unit}`;
}

const CAUSES = /** @type {Record<string, [string, string]>} */ ({
  products: ["products", "--cube"], vector: ["vector work", "--vector"], loads: ["loads", "--dma_in"], stores: ["stores", "--dma_out"],
  memory: ["HBM both ways", "--host"], link: ["host link", "--host"], links: ["links between devices", "--comm"], launch: ["launch", "--faint"], waiting: ["waiting", "--idle"],
});

/** What bounds a task, for people. @param {string} name */
export function cause(name) { return CAUSES[name]?.[0] ?? name; }

/** @param {string} name */
export function causeColor(name) { return `var(${CAUSES[name]?.[1] ?? "--accent"})`; }

/** The name of an op without its dialect. @param {string} op */
export function short(op) {
  return op.replace(/^(graph\.|fused_op\.|npu_task\.|launch )/, "");
}

/** @param {string} text @param {number} most */
export function clipped(text, most) {
  return text.length <= most ? text : `${text.slice(0, Math.ceil(most / 2) - 1)}…${text.slice(-Math.floor(most / 2))}`;
}

/**
 * An element: attributes by name, `on...` are listeners, texts and elements are its content.
 * @param {string} tag @param {Record<string, any>} [attributes] @param {...any} content
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...content) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false || value === null) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...content.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

/**
 * A table. Cells are texts or elements; columns that begin with `#` are of numbers; `pick` is called
 * with the number of the row that is chosen.
 * @param {string[]} columns @param {any[][]} rows @param {(row: number) => void} [pick]
 */
export function table(columns, rows, pick) {
  const numbers = columns.map((c) => c.startsWith("#"));
  const heads = columns.map((c, i) => h("th", { scope: "col", class: numbers[i] ? "number" : undefined }, c.replace(/^#/, "")));
  const body = rows.map((row, n) => {
    const cells = row.map((cell, i) => h("td", { class: numbers[i] ? "number" : "name" }, cell));
    if (!pick) return h("tr", {}, cells);
    const key = (/** @type {KeyboardEvent} */ e) => { if (e.key === "Enter") pick(n); };
    return h("tr", { class: "pick", tabindex: 0, onclick: () => pick(n), onkeydown: key }, cells);
  });
  return h("table", {}, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, body));
}

/** A text in a row of controls, cut where they need the room; a pointer shows it whole.
 * @param {string} text @param {string} [more] shown to a pointer too */
export function says(text, more) { return h("span", { class: "says note", title: more ? `${text}. ${more}` : text }, text); }

/** A bar of a share between 0 and 1. @param {number} part @param {string} [color] */
export function bar(part, color) {
  const width = `width:${(100 * Math.min(Math.max(part, 0), 1)).toFixed(1)}%`;
  return h("div", { class: "bar", "aria-hidden": "true" }, h("i", { style: color ? `${width};background:${color}` : width }));
}

/** @param {string} name @param {...any} content */
export function card(name, ...content) {
  return h("section", { class: "card" }, name ? h("h2", {}, name) : null, content);
}

const canvas = document.createElement("canvas").getContext("2d");

/** The width of a text in pixels. @param {string} text @param {string} font its weight and size, as in a style */
export function widthOf(text, font) {
  if (!canvas) return 7 * text.length;
  canvas.font = `${font} ${getComputedStyle(document.body).fontFamily}`;
  return canvas.measureText(text).width;
}

/** What is shown beside the pointer. @param {MouseEvent | null} event @param {...any} content */
export function tip(event, ...content) {
  const box = /** @type {HTMLElement} */ (document.getElementById("tip"));
  box.hidden = event === null;
  if (event === null) return;
  box.replaceChildren(...content.flat().filter(Boolean));
  const { width, height } = box.getBoundingClientRect();
  box.style.left = `${Math.min(event.clientX + 14, innerWidth - width - 8)}px`;
  box.style.top = `${event.clientY + 18 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 18}px`;
}
