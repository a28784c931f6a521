// @ts-check
import { Dashboard } from "./dashboard.js";
import { Player } from "./player.js";
import { Refused, chosen, read, report } from "./session.js";

/** @template {HTMLElement} T @param {string} id @returns {T} */
const element = (id) => /** @type {any} */ (document.getElementById(id));
const [notice, message, flow, level, sound, figures] = ["notice", "message", "flow", "level", "sound", "figures"].map(element);

const player = new Player(
  element("picture"),
  /** @type {any} */ (element("film")),
  (text) => { message.textContent = text; },
  ({ has, why }) => {
    sound.toggleAttribute("disabled", !has);
    const other = player.isSoundOn ? "turn sound off" : "turn sound on";
    sound.textContent = has ? other : why;
  },
);
sound.addEventListener("click", async () => {
  sound.textContent = (await player.toggleSound()) ? "turn sound off" : "turn sound on";
});
/** Chooses an option by its text or value, if there is one. @param {HTMLElement} select @param {string | null} wish */
function choose(select, wish) {
  const { options } = /** @type {HTMLSelectElement} */ (select);
  const found = [...options].find(({ text, value }) => text === wish || value === wish);
  if (found) found.selected = true;
}
const open = () => player.open(/** @type {any} */ (flow).value, /** @type {any} */ (level).value);
flow.addEventListener("change", open);
level.addEventListener("change", open);

const dashboard = new Dashboard((text) => {
  if (text !== notice.textContent) report({ type: "notice", text });
  notice.textContent = text;
  notice.hidden = !text;
});

let last = { shown: 0, at: performance.now() };
/** Shows what the player does, once a second. */
function showFigures() {
  const { shown, firstMs, codec, size, skipped, errors, stalls, member, transport, why } = player.figures;
  const now = performance.now();
  player.figures.rate = Math.round((shown - last.shown) * 1000 / (now - last.at));
  last = { shown, at: now };
  const own = dashboard.member(member);
  /** @type {[string, string | number | null | undefined][]} */
  const entries = [
    ["level", own?.levelName], ["pictures/s", player.figures.rate], ["size", size], ["codec", codec],
    ["delay", own?.delay50 === null || own === undefined ? null : `${Math.round(own.delay50)} ms`],
    ["playout", own?.playout ? `${Math.round(own.playout)} ms` : null],
    ["first picture", firstMs === null ? null : `${firstMs} ms`], ["stalls", stalls],
    ["skipped here", skipped], ["decoding errors", errors], ["receiver", member],
    ["transport", transport], ["why not WebTransport", why],
  ];
  figures.replaceChildren(...entries.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => {
    const [group, term, data] = [document.createElement("div"), document.createElement("dt"), document.createElement("dd")];
    term.textContent = name;
    data.textContent = String(value);
    group.append(term, data);
    return group;
  }));
  player.reportFigures();
}

async function start() {
  for (;;) {
    try {
      const flows = await read("/api/flows");
      flow.replaceChildren(...flows.map((/** @type {{ name: string }} */ { name }, /** @type {number} */ index) => new Option(name, String(index))));
      break;
    } catch (error) {
      message.textContent = notice.textContent = error instanceof Error ? error.message : String(error);
      report({ type: "refused", message: notice.textContent });
      notice.hidden = false;
      if (error instanceof Refused) return;
      await new Promise((done) => setTimeout(done, 1000));
    }
  }
  notice.hidden = true;
  choose(flow, chosen.flow);
  choose(level, chosen.level);
  dashboard.start();
  open();
  setInterval(showFigures, 1000);
}
start();
