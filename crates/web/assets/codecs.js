// @ts-check
// Pictures decoded by WebCodecs and drawn on a canvas.

import { HEADER } from "./pipes.js";

/** Pictures that wait for the decoder; more, and it is behind: it continues with the next key picture. */
const MOST_UNDECODED = 60;
/** Decoded pictures that wait for their time. */
const MOST_UNSHOWN = 30;

/** @typedef {{ codec: string, size: [number, number] | null }} VideoInfo */
/** @typedef {{ video: VideoInfo, sound: { rate: number, channels: number } | null, other_sound: boolean }} StreamInfo */

export class Codecs {
  /** @type {VideoDecoder | null} */ #decoder = null;
  /** @type {VideoInfo | null} */ #video = null;
  /** @type {VideoFrame[]} */ #frames = [];
  #waitsForKey = true;

  /**
   * @param {HTMLCanvasElement} canvas @param {import("./sound.js").Sound} sound
   * @param {{ decoded: number, errors: number }} figures @param {(text: string) => void} say
   */
  constructor(canvas, sound, figures, say) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false, desynchronized: true });
    [this.sound, this.figures, this.say] = [sound, figures, say];
  }

  get element() { return this.canvas; }
  get isSoundOn() { return this.sound.isOn; }
  toggleSound() { return this.sound.toggle(); }

  /** A connection begins. */
  begin() {
    this.#waitsForKey = true;
  }

  /** @param {StreamInfo} stream */
  async configure({ video }) {
    this.#video = video;
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

  /** @param {Uint8Array} message */
  media(message) {
    const view = new DataView(message.buffer, message.byteOffset);
    const [kind, isKey, timestamp] = [view.getUint8(0), (view.getUint8(1) & 1) === 1, Number(view.getBigInt64(4))];
    const data = message.subarray(HEADER);
    if (kind === 2) return this.sound.decode(timestamp, data);
    if (!this.#decoder && isKey) this.#renew();
    const decoder = this.#decoder;
    if (!decoder || decoder.state !== "configured") return;
    if (decoder.decodeQueueSize > MOST_UNDECODED) this.#waitsForKey = true;
    if (this.#waitsForKey && !isKey) return;
    this.#waitsForKey = false;
    decoder.decode(new EncodedVideoChunk({ type: isKey ? "key" : "delta", timestamp, data }));
  }

  /** @param {VideoFrame} frame */
  #decoded(frame) {
    this.figures.decoded++;
    this.#frames.push(frame);
    // Those are due at once, all but the last, if nobody draws: a page in the background.
    while (this.#frames.length > MOST_UNSHOWN) this.#frames.shift()?.close();
  }

  /** Draws the last picture that is due; `true` if there is one. @param {number} now */
  draw(now) {
    const isDue = (/** @type {VideoFrame} */ frame) => (this.sound.dueAt(frame.timestamp) ?? 0) <= now;
    let next = null;
    while (this.#frames.length && isDue(this.#frames[0])) {
      next?.close();
      next = this.#frames.shift() ?? null;
    }
    if (!next) return false;
    const [width, height] = [next.displayWidth, next.displayHeight];
    if (this.canvas.width !== width || this.canvas.height !== height) [this.canvas.width, this.canvas.height] = [width, height];
    this.context?.drawImage(next, 0, 0, width, height);
    next.close();
    return true;
  }

  /** The picture, for tests. */
  picture() {
    return this.context;
  }

  /** Another flow or level is opened, or none. */
  end() {
    if (this.#decoder && this.#decoder.state !== "closed") this.#decoder.close();
    for (const frame of this.#frames) frame.close();
    [this.#decoder, this.#video, this.#frames] = [null, null, []];
  }
}
