// @ts-check
// The player: access units from a WebSocket, decoded by WebCodecs, drawn on a canvas.

import { Refused, address, isAsked, report } from "./session.js";
import { Sound } from "./sound.js";

/** Octets before the access unit of a message. */
const HEADER = 12;
/** Pictures that wait for the decoder; more, and it is behind: it continues with the next key picture. */
const MOST_UNDECODED = 60;
/** A picture that stays this much longer than the pictures before it is a stall, in milliseconds. */
const STALL = 500;
const AGAIN = 1000;

/** @typedef {{ codec: string, size: [number, number] | null }} VideoInfo */

export class Player {
  /** @type {WebSocket | null} */ #socket = null;
  /** @type {VideoDecoder | null} */ #decoder = null;
  /** @type {VideoInfo | null} */ #video = null;
  /** Decoded pictures that wait for their time. @type {VideoFrame[]} */ #frames = [];
  #waitsForKey = true;
  /** Longest time between two of the last pictures, in milliseconds. */ #between = 0;
  #isStalled = false;
  #hasProblem = false;
  #turn = 0;
  #lastShown = 0;
  #begun = 0;
  #sound = new Sound();
  figures = { decoded: 0, shown: 0, skipped: 0, errors: 0, stalls: 0, firstMs: /** @type {number | null} */ (null), member: "", codec: "", size: "", rate: 0 };

  /** @param {HTMLCanvasElement} canvas @param {(text: string) => void} say @param {(state: { has: boolean, why: string }) => void} onSound */
  constructor(canvas, say, onSound) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false, desynchronized: true });
    this.say = say;
    this.onSound = onSound;
    const draw = () => { this.#draw(); requestAnimationFrame(draw); };
    requestAnimationFrame(draw);
  }

  get sound() { return this.#sound; }

  /** Plays a flow at a level, until another one is opened. @param {string} flow @param {string} level */
  async open(flow, level) {
    const turn = ++this.#turn;
    this.#socket?.close();
    this.#begun = performance.now();
    this.figures.firstMs = null;
    [this.#lastShown, this.#between, this.#isStalled, this.#video] = [0, 0, false, null];
    if (typeof VideoDecoder === "undefined") {
      return this.say("this browser has no WebCodecs here: use a newer one, and call this page by 127.0.0.1, localhost or HTTPS");
    }
    while (turn === this.#turn) {
      try {
        await this.#play(turn, flow, level);
        this.say("the connection is lost; connecting again");
      } catch (error) {
        this.say(error instanceof Error ? error.message : String(error));
        if (error instanceof Refused) return;
      }
      await new Promise((done) => setTimeout(done, AGAIN));
    }
  }

  /** One connection. @param {number} turn @param {string} flow @param {string} level */
  async #play(turn, flow, level) {
    const path = await address("/api/watch", { flow, level });
    if (turn !== this.#turn) return;
    const socket = new WebSocket(path.replace(/^/, `${location.origin.replace(/^http/, "ws")}`));
    socket.binaryType = "arraybuffer";
    this.#socket = socket;
    this.#waitsForKey = true;
    await new Promise((done) => {
      socket.onclose = done;
      socket.onmessage = ({ data }) => {
        if (turn !== this.#turn) return socket.close();
        if (typeof data === "string") this.#text(JSON.parse(data));
        else this.#media(data);
      };
    });
  }

  /** @param {any} text */
  #text(text) {
    if (text.type === "status") {
      this.figures.member = text.member;
      this.figures.skipped = text.skipped;
      this.#hasProblem = Boolean(text.problem);
      if (text.problem) this.say(text.problem);
      else if (this.#isStalled) this.say("no picture comes: the source may have stopped");
      else if (!this.#video) this.say("waiting for a key picture");
    } else if (text.type === "stream") {
      this.#configure(text.video);
      if (text.sound) this.#sound.configure(text.sound, (problem) => this.onSound({ has: false, why: problem }));
      this.onSound({ has: Boolean(text.sound), why: text.other_sound ? "sound is not AAC" : "no sound" });
    }
  }

  /** @param {VideoInfo} video */
  async #configure(video) {
    this.#video = video;
    this.figures.codec = video.codec;
    this.figures.size = video.size ? video.size.join(" × ") : "";
    if (video.size) [this.canvas.width, this.canvas.height] = video.size;
    this.#renew();
    const { supported } = await VideoDecoder.isConfigSupported({ codec: video.codec, optimizeForLatency: true }).catch(() => ({ supported: false }));
    if (!supported) this.say(`this browser does not decode ${video.codec}: use another one, or serve H.264`);
  }

  /** A new decoder: the one before had an error, or the stream is another one. */
  #renew() {
    if (!this.#video) return;
    if (this.#decoder && this.#decoder.state !== "closed") this.#decoder.close();
    this.#waitsForKey = true;
    const decoder = new VideoDecoder({
      output: (frame) => this.#decoded(frame),
      error: () => {
        if (decoder !== this.#decoder) return;
        this.figures.errors++;
        this.#decoder = null;
      },
    });
    decoder.configure({ codec: this.#video.codec, optimizeForLatency: true });
    this.#decoder = decoder;
  }

  /** @param {ArrayBuffer} message */
  #media(message) {
    const view = new DataView(message);
    const [kind, isKey, time] = [view.getUint8(0), (view.getUint8(1) & 1) === 1, Number(view.getBigInt64(4))];
    const data = new Uint8Array(message, HEADER);
    if (kind === 2) return this.#sound.decode(time, data);
    if (!this.#decoder && isKey) this.#renew();
    const decoder = this.#decoder;
    if (!decoder || decoder.state !== "configured") return;
    if (decoder.decodeQueueSize > MOST_UNDECODED) this.#waitsForKey = true;
    if (this.#waitsForKey && !isKey) return;
    this.#waitsForKey = false;
    decoder.decode(new EncodedVideoChunk({ type: isKey ? "key" : "delta", timestamp: time, data }));
  }

  /** @param {VideoFrame} frame */
  #decoded(frame) {
    this.figures.decoded++;
    this.#frames.push(frame);
    // Those are due at once, all but the last, if nobody draws: a page in the background.
    while (this.#frames.length > 30) this.#frames.shift()?.close();
  }

  /** Draws the last picture that is due. */
  #draw() {
    const now = performance.now();
    // Levels have pictures of their own pace; while the receiver gets nothing, no picture is due.
    const isLate = this.#lastShown > 0 && now - this.#lastShown > STALL + this.#between;
    if (isLate && !this.#isStalled && !this.#hasProblem && this.#socket?.readyState === WebSocket.OPEN) {
      this.#isStalled = true;
      this.figures.stalls++;
    }
    const isDue = (/** @type {VideoFrame} */ frame) => (this.#sound.dueAt(frame.timestamp) ?? 0) <= now;
    let next = null;
    while (this.#frames.length && isDue(this.#frames[0])) {
      next?.close();
      next = this.#frames.shift() ?? null;
    }
    if (!next) return;
    const [width, height] = [next.displayWidth, next.displayHeight];
    if (this.canvas.width !== width || this.canvas.height !== height) [this.canvas.width, this.canvas.height] = [width, height];
    this.context?.drawImage(next, 0, 0, width, height);
    next.close();
    if (this.#lastShown && !this.#isStalled) this.#between = Math.max(now - this.#lastShown, 0.98 * this.#between);
    // A picture is there: whatever was wrong is over.
    if (this.#isStalled || this.#hasProblem || this.figures.firstMs === null) this.say("");
    [this.#isStalled, this.#hasProblem, this.#lastShown] = [false, false, now];
    this.figures.shown++;
    if (isAsked && this.figures.shown % 5 === 0) this.#reportStamp();
    if (this.figures.firstMs === null) {
      this.figures.firstMs = Math.round(now - this.#begun);
    }
  }

  /** Reports to a test what is written into the picture as 32 light and dark blocks along its upper edge, and when it was drawn. */
  #reportStamp() {
    const { width } = this.canvas;
    const row = this.context?.getImageData(0, 8, width, 1).data ?? [];
    let code = 0;
    for (let bit = 0; bit < 32; bit++) code = code * 2 + (row[4 * Math.floor((bit + 0.5) * width / 32)] > 127 ? 1 : 0);
    report({ type: "stamp", code, at: performance.timeOrigin + performance.now() });
  }

  /** Reports the figures to a test, with the mean brightness of the picture. */
  reportFigures() {
    if (!isAsked) return;
    const { width, height } = this.canvas;
    const pixels = this.context?.getImageData(0, 0, width, height).data ?? new Uint8ClampedArray();
    let [sum, count] = [0, 0];
    for (let at = 0; at < pixels.length; at += 4 * 97) { sum += pixels[at] + pixels[at + 1] + pixels[at + 2]; count += 3; }
    report({ type: "player", ...this.figures, brightness: count ? sum / count : 0, message: document.getElementById("message")?.textContent });
  }
}
