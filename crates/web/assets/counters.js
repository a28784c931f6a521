// @ts-check
// The counters of a node in words, with units.

const LAYERS = ["BL", "E1", "E2"];

const count = (/** @type {number} */ n) => n.toLocaleString("en").replaceAll(",", " ");
const text = (/** @type {unknown} */ value) => String(value);
const yes = (/** @type {boolean} */ value) => (value ? "yes" : "no");
const layers = (/** @type {Record<string, number>} */ of) => LAYERS.map((layer) => `${layer} ${count(of[layer] ?? 0)}`).join(" · ");
/** A rate in the unit that fits. @param {number} bps */
export const rate = (bps) => (bps >= 1e6 ? `${(bps / 1e6).toFixed(2)} Mbit/s` : `${(bps / 1e3).toFixed(1)} kbit/s`);
const ms = (/** @type {number} */ value) => `${value.toFixed(value && Math.abs(value) < 10 ? 1 : 0)} ms`;
const us = (/** @type {number} */ value) => ms(value / 1e3);

/**
 * What a node says of a link and of a flow (docs/src/reference/statistics.md): the name of each value, and how it is written. Parts of one are
 * found by their path. A value that is not known is "not known".
 * @type {Record<string, [string, (value: any) => string]>}
 */
export const WORDS = {
  "link.neighbour": ["link to", text],
  "link.sent": ["datagrams sent", layers],
  "link.lost": ["datagrams lost", layers],
  "link.repairs": ["repairs sent", layers],
  "link.too_late": ["not repaired: too late", layers],
  "link.over_grant": ["not repaired: rate used up", layers],
  "link.repaired": ["datagrams that came as a repair", layers],
  "link.requested": ["datagrams asked for again", count],
  "link.spurious": ["repairs that were not needed", count],
  "link.rtt_us": ["round trip", (value) => (value ? us(value) : "not known")],
  "link.crowded_out": ["datagrams from there, dropped since they came too fast", count],
  "link.path": ["path", () => ""],
  "link.path.rate_bps": ["rate of the path", rate],
  "link.path.competes": ["shares the path with others", yes],
  "link.path.queue_us": ["queue on the path", us],
  "link.path.cuts": ["rate cut because of a queue", count],
  "link.clock": ["clock", () => ""],
  "link.clock.ahead_us": ["clock of the neighbour ahead by", us],
  "link.clock.drift_ppb": ["clock of the neighbour gains", (value) => `${(value / 1e3).toFixed(1)} ppm`],
  "link.clock.bound_us": ["clock known to", (value) => `± ${us(value)}`],
  "link.clock.age_ms": ["clock measured", (value) => `${ms(value)} ago`],
  "link.clock.delay_us": ["delay to the neighbour", us],
  "link.clock.delay_back_us": ["delay from the neighbour", us],
  "flow.name": ["flow", text],
  "flow.id": ["number of the flow", text],
  "flow.source": ["comes from", text],
  "flow.core": ["core switch", text],
  "flow.media": ["media", text],
  "flow.fps": ["pictures", (value) => `${+value.toFixed(2)} /s`],
  "flow.delay_max_ms": ["delay bound", (value) => (value ? ms(value) : "none")],
  "flow.level_bps": ["rate of BL, BL+E1, all", (value) => value.map(rate).join(" · ")],
  "flow.contract": ["agreed", () => ""],
  "flow.contract.throughput": ["throughput agreed", (it) => `${it.agreed ? `at least ${rate(it.agreed)}` : "as the media vary"}${it.mean ? `, mean ${rate(it.mean)}` : ""}`],
  "flow.contract.delay": ["delay in the network agreed", (it) => `at most ${ms(1e3 * it.agreed)}`],
  "flow.contract.jitter": ["jitter agreed", (it) => `at most ${ms(1e3 * it.agreed)}`],
  "flow.contract.error_rate": ["lost or late agreed", (it) => `at most ${+(100 * it.agreed).toPrecision(3)} %`],
  "flow.media_ms_per_s": ["speed of the source", (value) => `${(value / 1e3).toFixed(2)} s of media per second`],
  "flow.input_damaged": ["pictures damaged before the source", count],
  "flow.advice": ["advice", (value) => value.join("; ") || "none"],
  "flow.members": ["receivers", (value) => count(value.length)],
};

/** The place of each value on the page: what identifies a link or a flow first, then what it is and carries. */
const PLACES = new Map(Object.keys(WORDS).map((key, place) => [key, place]));

/** Names and values in the order of {@link WORDS}; what it does not have comes last. @param {string} path @param {any} of @returns {[string, string][]} */
export function words(path, of) {
  const place = (/** @type {string} */ key) => PLACES.get(`${path}.${key}`) ?? PLACES.size;
  const entries = Object.entries(of).sort(([a], [b]) => place(a) - place(b));
  return entries.flatMap(([key, value]) => {
    const at = `${path}.${key}`;
    const inner = value !== null && typeof value === "object" && Object.keys(WORDS).some((known) => known.startsWith(`${at}.`));
    if (inner) return words(at, value);
    // What is not agreed is no value that could be known.
    if (value === null && path === "flow.contract") return [];
    const [name, write] = WORDS[at] ?? [key.replaceAll("_", " "), JSON.stringify];
    return [[name, value === null ? "not known" : write(value)]];
  });
}
