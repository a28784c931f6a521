// @ts-check
// Connections that media come over: WebTransport, and WebSocket where UDP or the browser does not allow it.

/** Time until WebTransport counts as not getting through, in milliseconds. */
const WITHIN = 1500;
/** Octets of the number before a message of WebTransport. */
const NUMBER = 4;
/** Octets before the content of a message. */
export const HEADER = 12;
/** Codes of a WebSocket that is closed since the viewer is not admitted: this and the status of HTTP. */
const REFUSED = 4000;
/** Messages that wait for one before them; more, and the connection is given up. */
const MOST_HELD = 512;

/** The server says why it does not admit this viewer now. */
export class NotAdmitted extends Error {}

/**
 * What a connection gives.
 * @typedef {{ text: (text: any) => void, media: (message: Uint8Array) => void }} Sink
 */
/**
 * An open connection.
 * @typedef {{ isOpen: () => boolean, close: () => void, closed: Promise<void> }} Pipe
 */

/** Reads a text or passes media on. @param {Uint8Array} message @param {Sink} sink */
function pass(message, sink) {
  if (message[0] === 0) sink.text(JSON.parse(new TextDecoder().decode(message.subarray(HEADER))));
  else sink.media(message);
}

/**
 * What a request needs.
 * @typedef {Awaited<ReturnType<typeof import("./session.js").grant>>} Granted
 */
/** @param {Granted} granted @param {Record<string, string>} query @param {Sink} sink @returns {Promise<Pipe>} */
export async function webSocket({ ticket }, query, sink) {
  const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/api/watch?${new URLSearchParams({ ...query, ticket })}`);
  socket.binaryType = "arraybuffer";
  socket.onmessage = ({ data }) => {
    if (typeof data === "string") sink.text(JSON.parse(data));
    else sink.media(new Uint8Array(data));
  };
  const closed = new Promise((done, fail) => {
    socket.onclose = ({ code, reason }) => (code >= REFUSED ? fail(new NotAdmitted(reason)) : done(undefined));
  });
  // Another flow may have been opened meanwhile.
  closed.catch(() => {});
  return { isOpen: () => socket.readyState === WebSocket.OPEN, close: () => socket.close(), closed };
}

/** Messages in the order of their numbers: streams come in any. */
class Order {
  #next = 0;
  /** @type {Map<number, Uint8Array>} */ #held = new Map();

  /** @param {Sink} sink */
  constructor(sink) { this.sink = sink; }

  /** @param {Uint8Array} message its number is before it @returns {boolean} whether there is room for more */
  take(message) {
    this.#held.set(numberOf(message), message.subarray(NUMBER));
    for (let next; (next = this.#held.get(this.#next)); this.#next = (this.#next + 1) >>> 0) {
      this.#held.delete(this.#next);
      pass(next, this.sink);
    }
    return this.#held.size < MOST_HELD;
  }
}

/** @param {Uint8Array} message */
const numberOf = (message) => new DataView(message.buffer, message.byteOffset).getUint32(0);

/** @param {string} fingerprint */
const octets = (fingerprint) => new Uint8Array(fingerprint.split(":").map((it) => parseInt(it, 16)));

/**
 * Throws if this does not get through, and says why.
 * @param {Granted} granted @param {Record<string, string>} query @param {Sink} sink @returns {Promise<Pipe>}
 */
export async function webTransport({ ticket, transport }, query, sink) {
  if (!("WebTransport" in window)) throw new Error(isSecureContext ? "this browser has none" : "the page needs HTTPS for it, or 127.0.0.1");
  if (!transport.port) throw new Error(transport.why ?? "the server has none");
  const url = `https://${location.hostname}:${transport.port}/api/watch?${new URLSearchParams({ ...query, ticket })}`;
  const serverCertificateHashes = transport.fingerprints.map((/** @type {string} */ it) => ({ algorithm: "sha-256", value: octets(it) }));
  const session = new WebTransport(url, { serverCertificateHashes, congestionControl: "low-latency" });
  let isOpen = true;
  // It ends in order, or with an error.
  const closed = session.closed.then(() => {}, () => {}).then(() => { isOpen = false; });
  let timer = 0;
  const late = new Promise((_, fail) => { timer = setTimeout(() => fail(new Error(`no answer over UDP within ${WITHIN / 1000} s`)), WITHIN); });
  try {
    // A session that fails to open is closed with the same error.
    await Promise.race([session.ready.catch(() => { throw new Error("it is refused, or UDP does not get through"); }), late]);
  } catch (error) {
    session.ready.catch(() => {});
    close(session);
    throw error;
  } finally {
    clearTimeout(timer);
  }
  const fail = () => close(session);
  streams(session, new Order(sink), fail).catch(fail);
  datagrams(session, sink).catch(fail);
  return { isOpen: () => isOpen, close: fail, closed };
}

/** @param {WebTransport} session */
function close(session) {
  try { session.close(); } catch { /* It is not open yet, or no longer. */ }
}

/** @param {WebTransport} session @param {Order} order @param {() => void} fail */
async function streams(session, order, fail) {
  const reader = session.incomingUnidirectionalStreams.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    new Response(value).arrayBuffer().then((message) => {
      if (message.byteLength < NUMBER + HEADER || !order.take(new Uint8Array(message))) fail();
    }).catch(fail);
  }
}

/** Sound: what comes late is left out. @param {WebTransport} session @param {Sink} sink */
async function datagrams(session, sink) {
  const reader = session.datagrams.readable.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    if (value.byteLength > NUMBER + HEADER) pass(value.subarray(NUMBER), sink);
  }
}
