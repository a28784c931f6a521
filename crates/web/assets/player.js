// @ts-check
// The player: the way by which media come, what is shown of them, and its figures.

import { Codecs } from "./codecs.js";
import { Mse } from "./mse.js";
import { NotAdmitted, webSocket, webTransport } from "./pipes.js";
import { Refused, grant, isAsked, report, wanted } from "./session.js";
import { Sound } from "./sound.js";

/** A picture that stays this much longer than the pictures before it is a stall, in milliseconds. */
const STALL = 500;
const AGAIN = 1000;
/** WebTransport that did not get through is tried again after this time, in milliseconds. */
const WITHOUT = 60_000;

/**
 * Ways to get media, by the name that the fragment of the URL may have.
 * @type {Record<string, { name: string, open: typeof webSocket, query: Record<string, string> }>}
 */
const WAYS = {
  webtransport: { name: "WebTransport", open: webTransport, query: {} },
  websocket: { name: "WebSocket", open: webSocket, query: {} },
  mse: { name: "WebSocket, fragmented MP4", open: webSocket, query: { form: "mp4" } },
};

export class Player {
  /** @type {import("./pipes.js").Pipe | null} */ #pipe = null;
  /** Whether the stream was described. */ #isKnown = false;
  /** Longest time between two of the last pictures, in milliseconds. */ #between = 0;
  #isStalled = false;
  #hasProblem = false;
  #turn = 0;
  #lastShown = 0;
  #begun = 0;
  /** WebTransport is not tried before this time. */ #without = 0;
  #sound = new Sound();
  /** @type {{ codecs: Codecs, mse: Mse }} */ #screens;
  figures = {
    decoded: 0, shown: 0, skipped: 0, errors: 0, stalls: 0, firstMs: /** @type {number | null} */ (null), member: "", codec: "", size: "", rate: 0,
    transport: "", why: "",
  };

  /** What shows the media. @type {Codecs | Mse} */ screen;

  /** @param {HTMLCanvasElement} canvas @param {HTMLVideoElement} video @param {(text: string) => void} say @param {(state: { has: boolean, why: string }) => void} onSound */
  constructor(canvas, video, say, onSound) {
    this.say = say;
    this.onSound = onSound;
    const codecs = new Codecs(canvas, this.#sound, this.figures, say);
    const mse = new Mse(video, this.figures, say);
    this.#screens = { codecs, mse };
    this.screen = codecs;
    const draw = () => { this.#draw(); requestAnimationFrame(draw); };
    requestAnimationFrame(draw);
  }

  get isSoundOn() { return this.screen.isSoundOn; }

  /** Browsers play sound after a click only. @returns {Promise<boolean>} whether it is on now */
  async toggleSound() {
    await this.screen.toggleSound();
    return this.isSoundOn;
  }

  /** Plays a flow at a level, until another one is opened. @param {string} flow @param {string} level */
  async open(flow, level) {
    const turn = ++this.#turn;
    this.#pipe?.close();
    this.screen.end();
    this.#begun = performance.now();
    this.figures.firstMs = null;
    [this.#lastShown, this.#between, this.#isStalled, this.#isKnown] = [0, 0, false, false];
    if (typeof VideoDecoder === "undefined" && typeof MediaSource === "undefined") {
      return this.say("this browser has neither WebCodecs nor Media Source Extensions: use a newer one, and call this page by 127.0.0.1, localhost or HTTPS");
    }
    while (turn === this.#turn) {
      try {
        await this.#play(turn, flow, level);
        this.say("the connection is lost; connecting again");
      } catch (error) {
        this.say(error instanceof Error ? error.message : String(error));
        if (error instanceof Refused) return;
        // Then UDP is not what keeps WebTransport away.
        if (error instanceof NotAdmitted) [this.figures.why, this.#without] = ["", 0];
      }
      await new Promise((done) => setTimeout(done, AGAIN));
    }
  }

  /** Names of the ways that are tried, best first. */
  #ways() {
    if (wanted && wanted in WAYS) return [wanted];
    if (typeof VideoDecoder === "undefined") {
      this.figures.why = isSecureContext ? "this browser has no WebCodecs" : "the page needs HTTPS for it, or 127.0.0.1";
      return ["mse"];
    }
    return performance.now() < this.#without ? ["websocket"] : ["webtransport", "websocket"];
  }

  /** One connection. @param {number} turn @param {string} flow @param {string} level */
  async #play(turn, flow, level) {
    const sink = {
      text: (/** @type {any} */ text) => { if (turn === this.#turn) this.#text(text); },
      media: (/** @type {Uint8Array} */ message) => { if (turn === this.#turn) this.screen.media(message); },
    };
    const ways = this.#ways();
    for (const way of ways) {
      const granted = await grant();
      this.#show(way === "mse" ? this.#screens.mse : this.#screens.codecs);
      const shown = this.figures.shown;
      let pipe;
      try {
        pipe = await WAYS[way].open(granted, { flow, level, ...WAYS[way].query }, sink);
      } catch (error) {
        this.#fails(way, error instanceof Error ? error.message : String(error));
        if (way === ways.at(-1)) throw error;
        continue;
      }
      if (turn !== this.#turn) return pipe.close();
      this.#pipe = pipe;
      this.figures.transport = WAYS[way].name;
      if (way === "webtransport") this.figures.why = "";
      await pipe.closed;
      if (turn === this.#turn && this.figures.shown === shown) this.#fails(way, "it ended without a picture");
      return;
    }
  }

  /** A connection begins whose media this shows. @param {Codecs | Mse} screen */
  #show(screen) {
    if (screen !== this.screen) this.screen.end();
    this.screen = screen;
    for (const other of Object.values(this.#screens)) other.element.hidden = other !== screen;
    screen.begin();
  }

  /** @param {string} way @param {string} why */
  #fails(way, why) {
    if (way !== "webtransport") return;
    this.figures.why = why;
    this.#without = performance.now() + WITHOUT;
  }

  /** @param {any} text */
  #text(text) {
    if (text.type === "status") {
      this.figures.member = text.member;
      this.figures.skipped = text.skipped;
      this.#hasProblem = Boolean(text.problem);
      if (text.problem) this.say(text.problem);
      else if (this.#isStalled) this.say("no picture comes: the source may have stopped");
      else if (!this.#isKnown) this.say("waiting for a key picture");
    } else if (text.type === "stream") {
      this.#isKnown = true;
      this.figures.codec = text.video.codec;
      this.figures.size = text.video.size ? text.video.size.join(" × ") : "";
      this.screen.configure(text);
      if (text.sound && this.screen !== this.#screens.mse) {
        this.#sound.configure(text.sound, (problem) => this.onSound({ has: false, why: problem }));
      }
      this.onSound({ has: Boolean(text.sound), why: text.other_sound ? "sound is not AAC" : "no sound" });
    }
  }

  /** Draws what is due. */
  #draw() {
    const now = performance.now();
    // Levels have pictures of their own pace; while the receiver gets nothing, no picture is due.
    const isLate = this.#lastShown > 0 && now - this.#lastShown > STALL + this.#between;
    if (isLate && !this.#isStalled && !this.#hasProblem && this.#pipe?.isOpen()) {
      this.#isStalled = true;
      this.figures.stalls++;
    }
    if (!this.screen.draw(now)) return;
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
    const picture = this.screen.picture();
    const width = picture?.canvas.width ?? 0;
    const row = picture?.getImageData(0, 8, width, 1).data ?? [];
    let code = 0;
    for (let bit = 0; bit < 32; bit++) code = code * 2 + (row[4 * Math.floor((bit + 0.5) * width / 32)] > 127 ? 1 : 0);
    report({ type: "stamp", code, at: performance.timeOrigin + performance.now() });
  }

  /** Reports the figures to a test, with the mean brightness of the picture. */
  reportFigures() {
    if (!isAsked) return;
    const picture = this.screen.picture();
    const pixels = picture?.getImageData(0, 0, picture.canvas.width, picture.canvas.height).data ?? new Uint8ClampedArray();
    let [sum, count] = [0, 0];
    for (let at = 0; at < pixels.length; at += 4 * 97) { sum += pixels[at] + pixels[at + 1] + pixels[at + 2]; count += 3; }
    report({ type: "player", ...this.figures, brightness: count ? sum / count : 0, message: document.getElementById("message")?.textContent });
  }
}
