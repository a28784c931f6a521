// @ts-check
// Fragmented MP4 played by Media Source Extensions, where there is no WebCodecs.

import { HEADER } from "./pipes.js";

/** How far the picture is behind the newest one, in seconds: at first, at most, and by how much more when the next one comes late. */
const BEHIND = 0.08;
const MOST_BEHIND = 0.5;
const MORE = 0.06;
/** Beyond the target by this much, it plays a little faster; before it by this much, a little slower. */
const LATE = 0.04;
const EARLY = 0.04;
const FASTER = 1.06;
const SLOWER = 0.96;
/** The rate when the next picture is late. */
const WAITING = 0.5;
/** Further behind than this it jumps, in seconds. */
const JUMP = 0.8;
/** What is kept behind the picture, in seconds. */
const KEPT = 10;
/** Segments that wait for the browser; more, and it starts again with the next key picture. */
const MOST_WAITING = 300;
/** Pause after an error, in milliseconds. */
const AGAIN = 1000;
const VIDEO = 1;
const SOUND = 2;

/** @typedef {import("./codecs.js").StreamInfo} StreamInfo */

/** A track of the source: its buffer, and the segments that wait for it. */
class Track {
  /** @type {Uint8Array[]} */ waiting = [];

  /** @param {SourceBuffer} buffer @param {() => void} fail */
  constructor(buffer, fail) {
    this.buffer = buffer;
    this.fail = fail;
    buffer.addEventListener("updateend", () => this.pump());
    buffer.addEventListener("error", fail);
  }

  /** @param {Uint8Array} segment */
  push(segment) {
    this.waiting.push(segment);
    this.pump();
  }

  pump() {
    try {
      if (this.buffer.updating) return;
      const segment = this.waiting.shift();
      if (segment) this.buffer.appendBuffer(/** @type {any} */ (segment));
    } catch {
      this.fail();
    }
  }

  /** Forgets what is before a time, in seconds. @param {number} time */
  forget(time) {
    const { buffered, updating } = this.buffer;
    if (!updating && buffered.length && buffered.start(0) < time - KEPT) this.buffer.remove(0, time);
  }
}

export class Mse {
  isSoundOn = false;
  /** @type {StreamInfo | null} */ #stream = null;
  /** @type {MediaSource | null} */ #source = null;
  /** @type {Map<number, Track>} */ #tracks = new Map();
  /** The segments before all fragments, by kind. @type {Map<number, Uint8Array>} */ #starts = new Map();
  #waitsForKey = true;
  #target = BEHIND;
  /** When the newest picture is decoded, in seconds of the source. */ #newest = 0;
  /** Whether the next picture is late. */ #isEarly = false;
  /** Pictures that the browser counted. */ #counted = 0;
  #hasNew = false;
  #isStarted = false;

  /** @param {HTMLVideoElement} video @param {{ decoded: number, errors: number }} figures @param {(text: string) => void} say */
  constructor(video, figures, say) {
    [this.video, this.figures, this.say] = [video, figures, say];
    const seen = () => {
      this.#hasNew = true;
      video.requestVideoFrameCallback(seen);
    };
    if ("requestVideoFrameCallback" in video) video.requestVideoFrameCallback(seen);
  }

  get element() { return this.video; }

  async toggleSound() {
    this.isSoundOn = !this.isSoundOn;
    this.video.muted = !this.isSoundOn;
    if (this.#stream) this.#open();
  }

  /** A connection begins: its times are other ones. */
  begin() {
    this.#starts.clear();
    [this.#stream, this.#target] = [null, BEHIND];
  }

  /** @param {StreamInfo} stream */
  configure(stream) {
    const isOther = stream.video.codec !== this.#stream?.video.codec || this.isSoundOn && Boolean(stream.sound) !== Boolean(this.#stream?.sound);
    this.#stream = stream;
    if (isOther) this.#open();
  }

  /** A new source: buffers cannot be added to one that plays. */
  #open() {
    const stream = this.#stream;
    if (!stream) return;
    const types = [[VIDEO, `video/mp4; codecs="${stream.video.codec}"`]];
    if (this.isSoundOn && stream.sound) types.push([SOUND, 'audio/mp4; codecs="mp4a.40.2"']);
    const unknown = types.find(([, type]) => !MediaSource.isTypeSupported(String(type)));
    if (unknown) return this.say(`this browser does not play ${unknown[1]}: use another one, or serve H.264`);
    this.#close();
    const source = new MediaSource();
    this.#source = source;
    this.video.src = URL.createObjectURL(source);
    source.addEventListener("sourceopen", () => {
      if (source !== this.#source) return;
      URL.revokeObjectURL(this.video.src);
      try {
        for (const [kind, type] of types) this.#add(source, Number(kind), String(type));
      } catch {
        this.#fail(source);
      }
    }, { once: true });
  }

  /** @param {MediaSource} source @param {number} kind @param {string} type */
  #add(source, kind, type) {
    const track = new Track(source.addSourceBuffer(type), () => this.#fail(source));
    this.#tracks.set(kind, track);
    const start = this.#starts.get(kind);
    if (start) track.push(start);
  }

  /** Begins again after a pause: what does not decode once may never do. @param {MediaSource} source */
  #fail(source) {
    if (source !== this.#source) return;
    this.figures.errors++;
    this.#close();
    setTimeout(() => { if (!this.#source) this.#open(); }, AGAIN);
  }

  /** @param {Uint8Array} message */
  media(message) {
    const view = new DataView(message.buffer, message.byteOffset);
    const [kind, flags, time] = [view.getUint8(0), view.getUint8(1), Number(view.getBigInt64(4)) / 1e6];
    const segment = message.subarray(HEADER);
    const track = this.#tracks.get(kind);
    if (flags & 2) {
      this.#starts.set(kind, segment);
      return track?.push(segment);
    }
    if (!track) return;
    if (track.waiting.length > MOST_WAITING) {
      track.waiting = [];
      this.#waitsForKey = true;
    }
    if (kind === SOUND) return this.#waitsForKey ? undefined : track.push(segment);
    const isKey = (flags & 1) === 1;
    if (this.#waitsForKey && !isKey) return;
    this.#waitsForKey = false;
    this.#newest = Math.max(this.#newest, time);
    track.push(segment);
  }

  /** Keeps close to the newest picture; `true` if there is a new one to see. */
  draw() {
    this.#follow();
    const { totalVideoFrames } = this.video.getVideoPlaybackQuality();
    const hasMore = totalVideoFrames > this.#counted;
    if (hasMore) this.figures.decoded += totalVideoFrames - this.#counted;
    this.#counted = totalVideoFrames;
    const hasNew = this.#hasNew || hasMore && !("requestVideoFrameCallback" in this.video);
    this.#hasNew = false;
    return hasNew;
  }

  #follow() {
    const { video } = this;
    const buffered = this.#tracks.get(VIDEO)?.buffer.buffered;
    if (!buffered?.length) return;
    const start = buffered.start(buffered.length - 1);
    const now = video.currentTime;
    const behind = this.#newest - now;
    // At first, behind a gap, and when the page slept.
    if (!this.#isStarted || now < start || behind > JUMP + this.#target) {
      const to = Math.max(start, this.#newest - this.#target);
      // A little later there may be more.
      if (!this.#isStarted || to > now) video.currentTime = to;
      this.#isStarted = true;
      video.play().catch(() => {});
      return;
    }
    if (behind < 0 && !this.#isEarly) this.#target = Math.min(this.#target + MORE, MOST_BEHIND);
    this.#isEarly = behind < 0;
    if (behind < 0) video.playbackRate = WAITING;
    else if (behind < this.#target - EARLY) video.playbackRate = SLOWER;
    else if (behind > this.#target + LATE) video.playbackRate = FASTER;
    else video.playbackRate = 1;
    for (const track of this.#tracks.values()) track.forget(now);
  }

  /** The picture, for tests. */
  picture() {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [this.video.videoWidth || 1, this.video.videoHeight || 1];
    const context = canvas.getContext("2d", { alpha: false });
    context?.drawImage(this.video, 0, 0);
    return context;
  }

  /** Another flow or level is opened, or none. */
  end() {
    this.#stream = null;
    this.#close();
    this.video.removeAttribute("src");
    this.video.load();
  }

  #close() {
    [this.#source, this.#isStarted, this.#isEarly, this.#waitsForKey, this.#newest] = [null, false, false, true, 0];
    this.#tracks.clear();
  }
}
