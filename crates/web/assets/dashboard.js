// @ts-check
// The state of the nodes: receivers with zones and reasons, their history, and what was clicked.

import { Charts } from "./charts.js";
import { LOST, Refused, address, ask, report } from "./session.js";
import { drawTopology } from "./topology.js";

/** Receivers that the table shows; the rest is found with the filter. */
const MOST_ROWS = 100;
/** Seconds of history that are kept, and over which shares of frames are shown. */
const KEPT_S = 600;
const WINDOW_S = 10;
/** A report older than this says nothing of now, in milliseconds. */
const STALE_MS = 8000;
const AGAIN = 1000;
const LEVELS = ["BL", "BL+E1", "BL+E1+E2"];

/**
 * @typedef {"green" | "yellow" | "red" | "grey"} Zone
 * @typedef {{ t: number, frames: number, lost: number, late: number, outage: number }} Counted
 * @typedef {{ key: string, name: string, flow: string, at: string, level: number, levelName: string,
 *   delay50: number | null, delay99: number | null, playout: number | null, lost: number, late: number, outage: number, zone: Zone, reason: string, raw: any }} Member
 * @typedef {{ t: number[], level: number[], delay50: (number | null)[], delay99: (number | null)[], lost: number[], late: number[],
 *   counted: Counted[], zone?: Zone, events: { t: number, text: string }[] }} History
 */

const sum = (/** @type {Record<string, number>} */ counts) => Object.values(counts).reduce((a, b) => a + b, 0);
const ORDER = { red: 0, yellow: 1, grey: 2, green: 3 };

export class Dashboard {
  /** @type {Member[]} */ members = [];
  /** @type {Map<string, History>} */ #histories = new Map();
  /** @type {any} */ #state = null;
  /** What is shown in detail: a receiver by its key, or a node by its name. @type {{ member?: string, node?: string }} */ #chosen = {};
  #charts = new Charts();
  #rows = /** @type {HTMLTableSectionElement} */ (document.querySelector("#receivers tbody"));
  #filter = /** @type {HTMLInputElement} */ (document.getElementById("filter"));

  /** @param {(problem: string) => void} say */
  constructor(say) {
    this.say = say;
    this.#filter.addEventListener("input", () => this.#table());
    this.#rows.addEventListener("click", (event) => this.#choose(event.target));
    this.#rows.addEventListener("keydown", (event) => { if (event.key === "Enter") this.#choose(event.target); });
  }

  /** @param {EventTarget | null} target */
  #choose(target) {
    const key = target instanceof Element ? target.closest("tr")?.dataset.key : undefined;
    if (key) this.choose({ member: key });
  }

  /** Shows a receiver or a node in detail. @param {{ member?: string, node?: string }} what */
  choose(what) {
    this.#chosen = what;
    this.#table();
    this.#detail();
    document.getElementById("detail")?.scrollIntoView({ behavior: "smooth", block: "nearest" });
  }

  /** The receiver of this name. @param {string} name */
  member(name) { return this.members.find((it) => it.name === name); }

  async start() {
    for (;;) {
      try {
        await this.#follow();
        this.say(LOST);
      } catch (error) {
        this.say(error instanceof Error ? error.message : String(error));
        if (error instanceof Refused) return;
      }
      await new Promise((done) => setTimeout(done, AGAIN));
    }
  }

  /** Reads server-sent events. An EventSource does not tell why the server refuses it. */
  async #follow() {
    const answer = await ask(await address("/api/board"));
    if (!answer.ok || !answer.body) throw new Error((await answer.text()).trim());
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let held = "";
    for (;;) {
      const { done, value } = await reader.read().catch(() => ({ done: true, value: undefined }));
      if (done) return;
      const events = (held + value).split("\n\n");
      held = events.pop() ?? "";
      for (const event of events) {
        const data = event.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5)).join("\n");
        if (!data) continue;
        this.say("");
        this.#take(JSON.parse(data));
      }
    }
  }

  /** @param {any} state */
  #take(state) {
    this.#state = state;
    const t = state.time_ms / 1000;
    /** @type {Map<string, [any, any]>} */ const found = new Map();
    for (const node of state.nodes) {
      for (const flow of node.stats?.flows ?? []) {
        for (const raw of flow.members) {
          const key = `${flow.id} ${raw.member.id} ${raw.member.name}`;
          // Several nodes that are shown may know it: the last one on its way knows it best.
          if (!found.has(key) || !raw.next) found.set(key, [flow, raw]);
        }
      }
    }
    const members = [...found].map(([key, [flow, raw]]) => this.#member(t, key, flow, raw));
    for (const key of this.#histories.keys()) if (!found.has(key)) this.#histories.delete(key);
    members.sort((a, b) => ORDER[a.zone] - ORDER[b.zone] || a.name.localeCompare(b.name, undefined, { numeric: true }));
    this.members = members;
    this.#summary();
    this.#table();
    const topology = document.getElementById("topology");
    if (topology) drawTopology(topology, state, members, (what) => this.choose(what));
    this.#detail();
    report({ type: "dashboard", members: members.map(({ name, levelName, zone, reason }) => ({ name, levelName, zone, reason })) });
  }

  /** @param {number} t @param {string} key @param {any} flow @param {any} raw @returns {Member} */
  #member(t, key, flow, raw) {
    const told = raw.report;
    const history = this.#history(key);
    const isStale = raw.gone || (raw.report_age_ms ?? 0) > STALE_MS;
    /** What the monitor of the receiver says. @type {Zone} */
    const zone = isStale ? "grey" : told?.quality?.zone ?? "grey";
    const shares = { lost: 0, late: 0, outage: 0 };
    if (told) {
      const counted = { t, frames: sum(told.frames), lost: sum(told.lost), late: told.late, outage: told.outage_ms };
      // A receiver that joined again counts anew.
      if (history.counted.length && counted.frames < history.counted[history.counted.length - 1].frames) history.counted = [];
      history.counted.push(counted);
      while (history.counted.length > 1 && t - history.counted[0].t > WINDOW_S) history.counted.shift();
      const since = history.counted[0];
      const [lost, late] = [counted.lost - since.lost, counted.late - since.late];
      const all = Math.max(1, counted.frames - since.frames + lost + late);
      Object.assign(shares, { lost: lost / all, late: late / all, outage: counted.outage / 1000 });
    }
    const levelName = LEVELS[raw.level] ?? String(raw.level);
    const before = history.level[history.level.length - 1];
    const age = isStale && !raw.gone ? `no report for ${Math.round(raw.report_age_ms / 1000)} s; ` : "";
    const reason = age + raw.why;
    if (before !== undefined && before !== raw.level) {
      const why = raw.level < before && reason ? `: ${reason}` : "";
      history.events.unshift({ t, text: `level ${LEVELS[before]} → ${levelName}${why}` });
      history.events.splice(50);
    }
    if (history.zone && history.zone !== zone) {
      const why = zone === "yellow" || zone === "red" ? `: ${reason}` : "";
      history.events.unshift({ t, text: `zone ${history.zone} → ${zone}${why}` });
      history.events.splice(50);
    }
    history.zone = zone;
    const [delay50, delay99] = [told?.delay_ms_p50 ?? null, told?.delay_ms_p99 ?? null];
    history.t.push(t);
    history.level.push(raw.level);
    history.delay50.push(delay50);
    history.delay99.push(delay99);
    history.lost.push(100 * shares.lost);
    history.late.push(100 * shares.late);
    while (t - history.t[0] > KEPT_S) {
      for (const list of [history.t, history.level, history.delay50, history.delay99, history.lost, history.late]) list.shift();
    }
    return {
      key, name: raw.member.name, flow: flow.name, at: raw.next ?? raw.node, level: raw.level, levelName,
      delay50, delay99, playout: told?.playout_ms ?? null, zone, ...shares, reason, raw,
    };
  }

  /** @param {string} key @returns {History} */
  #history(key) {
    let history = this.#histories.get(key);
    if (!history) {
      history = { t: [], level: [], delay50: [], delay99: [], lost: [], late: [], counted: [], events: [] };
      this.#histories.set(key, history);
    }
    return history;
  }

  #summary() {
    const count = (/** @type {Zone} */ zone) => this.members.filter((it) => it.zone === zone).length;
    const problems = this.#state.nodes.filter((/** @type {any} */ it) => it.problem).map((/** @type {any} */ it) => `${it.name}: ${it.problem}`);
    const zones = /** @type {Zone[]} */ (["red", "yellow", "grey"]).filter((zone) => count(zone)).map((zone) => `${count(zone)} ${zone}`);
    const many = this.members.length;
    // Of a node that does not answer nothing is known.
    const green = many && !problems.length ? ", all green" : "";
    const text = `${many} receiver${many === 1 ? "" : "s"}${zones.length ? `: ${zones.join(", ")}` : green}`;
    const summary = document.getElementById("summary");
    if (summary) summary.textContent = [text, ...problems].join("; ");
  }

  #table() {
    const wanted = this.#filter.value.toLowerCase();
    const found = this.members.filter((it) => `${it.name} ${it.flow} ${it.at} ${it.reason}`.toLowerCase().includes(wanted));
    const rows = found.slice(0, MOST_ROWS).map((it) => {
      const row = document.createElement("tr");
      row.dataset.key = it.key;
      row.tabIndex = 0;
      row.classList.toggle("gone", Boolean(it.raw.gone));
      row.classList.toggle("chosen", it.key === this.#chosen.member);
      const zone = document.createElement("td");
      const dot = document.createElement("span");
      dot.className = `zone ${it.zone}`;
      dot.title = it.zone;
      zone.append(dot);
      const level = document.createElement("td");
      const bars = document.createElement("span");
      bars.className = "levels";
      bars.append(...LEVELS.map((_, index) => {
        const bar = document.createElement("i");
        bar.className = index <= it.level ? "got" : "";
        return bar;
      }));
      level.append(bars, it.levelName);
      const percent = (/** @type {number} */ share) => `${(100 * share).toFixed(share && share < 0.1 ? 1 : 0)} %`;
      const delay = it.delay50 === null ? "-" : `${it.delay50.toFixed(0)} / ${it.delay99?.toFixed(0)}`;
      const cells = [it.raw.gone ? `${it.name} (gone)` : it.name, it.flow, it.at, null, delay, percent(it.lost), percent(it.late), it.outage.toFixed(1), it.reason].map((text) => {
        if (text === null) return level;
        const cell = document.createElement("td");
        cell.textContent = text;
        return cell;
      });
      cells[cells.length - 1].className = "reason";
      row.append(zone, ...cells);
      return row;
    });
    this.#rows.replaceChildren(...rows);
    const more = document.getElementById("more");
    if (more) more.textContent = found.length > MOST_ROWS ? `${found.length - MOST_ROWS} more: the filter finds them` : "";
  }

  #detail() {
    const section = document.getElementById("detail");
    if (!section) return;
    const member = this.members.find((it) => it.key === this.#chosen.member);
    const history = member && this.#histories.get(member.key);
    if (member && history) return this.#charts.show(section, member, history);
    const links = this.#state?.nodes.flatMap((/** @type {any} */ node) => node.stats?.links ?? []);
    const link = links?.find((/** @type {any} */ it) => it.neighbour === this.#chosen.node);
    const node = this.#state?.nodes.find((/** @type {any} */ it) => it.name === this.#chosen.node || it.stats?.flows.some((/** @type {any} */ f) => f.source === this.#chosen.node));
    if (this.#chosen.node && (link || node)) {
      return this.#charts.counters(section, this.#chosen.node, { link, flows: node?.stats?.flows ?? [] });
    }
    section.hidden = true;
  }
}
