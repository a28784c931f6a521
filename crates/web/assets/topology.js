// @ts-check
// The nodes and their links as a drawing, from the sources on the left to the receivers on the right.

/** Nodes and receivers behind one node that are drawn one by one; the rest is one box. */
const MOST_DRAWN = 12;
const [HEIGHT, GAP] = [40, 12];
/** Width of a box, distance of two columns, longest name; where there is little room, the second one. */
const WIDE = { width: 150, column: 250, name: 19 };
const NARROW = { width: 118, column: 165, name: 15 };
/** Below this width of the drawing, in pixels, there is little room. */
const LITTLE = 560;
/** Least share of its size in which it is drawn; it scrolls beyond that. */
const LEAST = 0.78;
const WORST = ["red", "yellow", "grey", "green"];
const SVG = "http://www.w3.org/2000/svg";

/** @param {string} name @param {Record<string, string | number>} attributes @param {(Node | string)[]} [children] */
function svg(name, attributes, children = []) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

const short = (/** @type {string} */ text, /** @type {number} */ most) => text.length > most ? `${text.slice(0, most - 1)}…` : text;

/**
 * @typedef {{ name: string, sub: string, zone: string, edge: string, children: Tree[], what: { member?: string, node?: string }, y: number, depth: number }} Tree
 */

/** @param {HTMLElement} place @param {any} state @param {any[]} members @param {(what: { member?: string, node?: string }) => void} choose */
export function drawTopology(place, state, members, choose) {
  const form = place.clientWidth < LITTLE ? NARROW : WIDE;
  /** @type {Map<string, { parent: string | null, members: any[] }>} */ const nodes = new Map();
  const node = (/** @type {string} */ name) => {
    let it = nodes.get(name);
    if (!it) nodes.set(name, it = { parent: null, members: [] });
    return it;
  };
  const links = new Map(state.nodes.flatMap((/** @type {any} */ it) => it.stats?.links ?? []).map((/** @type {any} */ it) => [it.neighbour, it]));
  for (const { stats } of state.nodes) {
    for (const flow of stats?.flows ?? []) {
      node(flow.source);
      for (const raw of flow.members) {
        // The node that was asked, the one before it, and the next one on the way to the member.
        if (raw.upstream) node(raw.node).parent ??= raw.upstream;
        if (raw.next && raw.next !== raw.node) node(raw.next).parent ??= raw.node;
      }
    }
  }
  for (const member of members) node(member.at).members.push(member);
  for (const { parent } of [...nodes.values()]) if (parent) node(parent);

  const worst = (/** @type {string[]} */ zones) => WORST.find((zone) => zones.includes(zone)) ?? "grey";
  const linkText = (/** @type {string} */ name) => {
    const link = links.get(name);
    if (!link) return "";
    const rate = link.path?.rate_bps;
    const texts = [link.rtt_us ? `${(link.rtt_us / 1000).toFixed(0)} ms` : "", rate ? `${(rate / 1e6).toFixed(1)} Mbit/s` : ""].filter(Boolean);
    return form === WIDE ? texts.join(", ") : texts[0] ?? "";
  };
  /** @param {string} name @param {Set<string>} above @returns {Tree} */
  const tree = (name, above) => {
    const it = node(name);
    const below = [...nodes].filter(([other, { parent }]) => parent === name && !above.has(other)).map(([other]) => tree(other, new Set([...above, other])));
    const hidden = below.splice(MOST_DRAWN - 1);
    const room = Math.max(1, MOST_DRAWN - below.length);
    const drawn = it.members.slice(0, it.members.length > room ? room - 1 : room);
    const rest = it.members.slice(drawn.length);
    const leaf = (/** @type {any} */ member) => ({ name: member.name, sub: member.levelName, zone: member.zone, edge: linkText(member.name), children: [], what: { member: member.key }, y: 0, depth: 0 });
    const children = [...below, ...drawn.map(leaf)];
    if (rest.length || hidden.length) {
      const zones = [...rest, ...hidden].map((other) => other.zone);
      children.push({ name: `${rest.length + hidden.length} more`, sub: "in the table", zone: worst(zones), edge: "", children: [], what: { node: name }, y: 0, depth: 0 });
    }
    const zone = worst(children.map((child) => child.zone));
    return { name, sub: it.members.length + below.length ? "" : "no receivers", zone, edge: linkText(name), children, what: { node: name }, y: 0, depth: 0 };
  };
  const roots = [...nodes].filter(([, { parent }]) => !parent).map(([name]) => tree(name, new Set([name])));

  let [next, deepest] = [0, 0];
  /** @param {Tree} it @param {number} depth */
  const arrange = (it, depth) => {
    it.depth = depth;
    deepest = Math.max(deepest, depth);
    for (const child of it.children) arrange(child, depth + 1);
    if (it.children.length) it.y = (it.children[0].y + it.children[it.children.length - 1].y) / 2;
    else { it.y = next; next += HEIGHT + GAP; }
  };
  for (const root of roots) arrange(root, 0);

  /** @type {Node[]} */ const drawn = [];
  /** @param {Tree} it */
  const draw = (it) => {
    const x = it.depth * form.column;
    for (const child of it.children) {
      const [from, to] = [it.y + HEIGHT / 2, child.y + HEIGHT / 2];
      const [start, end] = [x + form.width, x + form.column];
      const bend = (end - start) / 2;
      drawn.push(svg("path", { d: `M${start} ${from} C${start + bend} ${from} ${end - bend} ${to} ${end} ${to}`, class: child.zone }));
      if (child.edge) drawn.push(svg("text", { x: end - 4, y: to - 6, class: "faint", "text-anchor": "end" }, [child.edge]));
      draw(child);
    }
    const box = svg("g", { class: "node", tabindex: 0, role: "button" }, [
      svg("title", {}, [it.name]),
      svg("rect", { x, y: it.y, width: form.width, height: HEIGHT, rx: 6, class: it.zone }),
      svg("text", { x: x + 10, y: it.y + (it.sub ? 17 : 25) }, [short(it.name, form.name)]),
      svg("text", { x: x + 10, y: it.y + 32, class: "faint" }, [it.sub]),
    ]);
    box.addEventListener("click", () => choose(it.what));
    box.addEventListener("keydown", (event) => { if (/** @type {KeyboardEvent} */ (event).key === "Enter") choose(it.what); });
    drawn.push(box);
  };
  for (const root of roots) draw(root);
  const [width, height] = [deepest * form.column + form.width, Math.max(HEIGHT, next - GAP)];
  const picture = svg("svg", { viewBox: `-2 -2 ${width + 4} ${height + 4}`, role: "img" }, drawn);
  const { style } = /** @type {SVGSVGElement} */ (picture);
  style.maxWidth = `${width * 1.1}px`;
  style.minWidth = `${width * LEAST}px`;
  place.replaceChildren(picture);
}
