// @ts-check
// The charts of a receiver, and the counters of a node.

import { words } from "./counters.js";
import uPlot from "./vendor/uplot.js";

const LEVELS = ["BL", "+E1", "+E2"];

export class Charts {
  /** @type {string | null} */ #key = null;
  /** @type {uPlot[]} */ #plots = [];
  #width = 0;
  /** Charts are drawn in the colours of the moment. */
  #dark = matchMedia("(prefers-color-scheme: dark)");
  #wasDark = false;

  /** @param {HTMLElement} section @param {any} member @param {any} history */
  show(section, member, history) {
    const isOther = this.#key !== member.key || this.#width !== section.clientWidth || this.#wasDark !== this.#dark.matches;
    if (isOther || section.hidden) this.#build(section, member);
    const { t, level, delay50, delay99, lost, late } = history;
    const data = [[t, level], [t, delay50, delay99], [t, lost, late]];
    this.#plots.forEach((plot, index) => plot.setData(/** @type {any} */ (data[index])));
    const title = section.querySelector("h2");
    if (title) title.textContent = `${member.name} of ${member.flow}: ${member.levelName}${member.reason ? `: ${member.reason}` : ""}`;
    section.querySelector(".events")?.replaceChildren(...(history.events.length ? history.events : [{ t: null, text: "no change of level or zone since this page is open" }]).map((/** @type {any} */ event) => {
      const [item, time] = [document.createElement("li"), document.createElement("time")];
      time.textContent = event.t === null ? "" : new Date(event.t * 1000).toLocaleTimeString();
      item.append(time, event.text);
      return item;
    }));
  }

  /** @param {HTMLElement} section @param {any} member */
  #build(section, member) {
    this.#key = member.key;
    const [title, charts, heading, events] = [document.createElement("h2"), document.createElement("div"), document.createElement("h3"), document.createElement("ul")];
    charts.className = "charts";
    heading.textContent = "Decisions";
    events.className = "events";
    section.replaceChildren(title, charts, heading, events);
    section.hidden = false;
    [this.#width, this.#wasDark] = [section.clientWidth, this.#dark.matches];
    const places = [0, 1, 2].map(() => charts.appendChild(document.createElement("div")));
    const style = getComputedStyle(document.documentElement);
    const colour = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
    const axis = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") } };
    const steps = uPlot.paths.stepped?.({ align: 1 });
    const number = (/** @type {string} */ unit) => (/** @type {any} */ _, /** @type {number | null} */ value) => value === null || value === undefined ? "-" : `${value.toFixed(1)} ${unit}`;
    const named = (/** @type {any} */ _, /** @type {number | null} */ value) => value === null || value === undefined ? "-" : LEVELS[value];
    const time = { label: "time", value: (/** @type {any} */ _, /** @type {number | null} */ at) => at === null || at === undefined ? "-" : new Date(at * 1000).toLocaleTimeString() };
    // Without a mouse over the chart the figures below it are those of now.
    const last = (/** @type {any} */ plot) => {
      const idx = plot.data[0].length - 1;
      if (plot.cursor.left < 0 && idx >= 0) plot.setLegend({ idx }, false);
    };
    /** @param {string} name @param {any[]} series @param {object} scale @param {object} [y] */
    const plot = (name, series, scale, y = {}) => {
      const place = /** @type {HTMLElement} */ (places.shift());
      return new uPlot({
        width: place.clientWidth, height: 190, title: name, series: [time, ...series], scales: { y: scale }, axes: [{ ...axis }, { ...axis, size: 48, ...y }],
        cursor: { drag: { x: false, y: false } }, hooks: { setLegend: [last] },
      }, /** @type {any} */ ([[], ...series.map(() => [])]), place);
    };
    this.#plots = [
      plot("level", [
        { label: "granted", stroke: colour("blue"), width: 2, paths: steps, points: { show: false }, value: named },
      ], { range: [-0.2, 2.2] }, { splits: () => [0, 1, 2], values: () => LEVELS }),
      plot("delay, ms", [
        { label: "median", stroke: colour("blue"), width: 2, points: { show: false }, value: number("ms") },
        { label: "99 %", stroke: colour("yellow"), points: { show: false }, value: number("ms") },
      ], { range: (/** @type {any} */ _, /** @type {number} */ _low, /** @type {number} */ high) => [0, Math.max(10, high * 1.1)] }),
      plot("frames of the last 10 s, %", [
        { label: "lost", stroke: colour("red"), width: 2, points: { show: false }, value: number("%") },
        { label: "late", stroke: colour("yellow"), points: { show: false }, value: number("%") },
      ], { range: (/** @type {any} */ _, /** @type {number} */ _low, /** @type {number} */ high) => [0, Math.max(1, high * 1.1)] }),
    ];
  }

  /** All counters of a node. @param {HTMLElement} section @param {string} name @param {{ link?: any, flows: any[] }} what */
  counters(section, name, { link, flows }) {
    this.#key = null;
    const title = document.createElement("h2");
    title.textContent = name;
    const list = document.createElement("dl");
    list.className = "counters";
    const all = [...(link ? words("link", link) : []), ...flows.flatMap((flow) => words("flow", flow))];
    list.append(...all.map(([term, data]) => {
      const [group, dt, dd] = [document.createElement("div"), document.createElement("dt"), document.createElement("dd")];
      dt.textContent = term;
      dd.textContent = data;
      group.append(dt, dd);
      return group;
    }));
    section.replaceChildren(title, list);
    section.hidden = false;
  }
}
