// @ts-check
// Sound: decoded by WebCodecs, played at the time of its pictures.

/** How much sound is ahead of the loudspeaker: what its scheduling may jitter, in seconds. */
const AHEAD = 0.08;
/** Sound that is this much early or late is placed anew, in seconds. */
const OFF = 0.25;

export class Sound {
  /** @type {AudioContext | null} */ #context = null;
  /** @type {AudioDecoder | null} */ #decoder = null;
  /** Seconds from the time of a frame to that of the context. @type {number | null} */ #offset = null;
  #isOn = false;
  /** Time of the last frame. */ #last = 0;

  /** @param {{ rate: number, channels: number }} info @param {(problem: string) => void} fail */
  configure(info, fail) {
    this.close();
    if (typeof AudioDecoder === "undefined") return fail("this browser decodes no sound");
    this.#decoder = new AudioDecoder({ output: (data) => this.#play(data), error: (error) => fail(String(error)) });
    // AAC LC; without a description the frames have ADTS headers.
    this.#decoder.configure({ codec: "mp4a.40.2", sampleRate: info.rate, numberOfChannels: info.channels });
  }

  get isOn() { return this.#isOn; }

  /** Browsers play sound after a click only. */
  async toggle() {
    this.#isOn = !this.#isOn;
    this.#context ??= new AudioContext({ latencyHint: "interactive" });
    this.#offset = null;
    await (this.#isOn ? this.#context.resume() : this.#context.suspend());
  }

  /** @param {number} time @param {Uint8Array} data */
  decode(time, data) {
    // In datagrams one may overtake another; a stream that begins again has other times.
    const isOvertaken = time <= this.#last && time > this.#last - 1e6;
    if (!this.#isOn || this.#decoder?.state !== "configured" || isOvertaken) return;
    this.#last = time;
    this.#decoder.decode(new EncodedAudioChunk({ type: "key", timestamp: time, data }));
  }

  /** @param {AudioData} data */
  #play(data) {
    const context = this.#context;
    if (!context || !this.#isOn) return data.close();
    const buffer = context.createBuffer(data.numberOfChannels, data.numberOfFrames, data.sampleRate);
    for (let channel = 0; channel < data.numberOfChannels; channel++) {
      data.copyTo(buffer.getChannelData(channel), { planeIndex: channel, format: "f32-planar" });
    }
    const time = data.timestamp / 1e6;
    data.close();
    const now = context.currentTime;
    if (this.#offset === null || Math.abs(time + this.#offset - now - AHEAD) > OFF) this.#offset = now + AHEAD - time;
    const at = time + this.#offset;
    if (at < now) return;
    const source = context.createBufferSource();
    source.buffer = buffer;
    source.connect(context.destination);
    source.start(at);
  }

  /** When a picture of this time in microseconds is due, on the clock of `performance.now()`; null: at once. @param {number} time */
  dueAt(time) {
    const context = this.#context;
    if (!this.#isOn || !context || this.#offset === null) return null;
    const ahead = time / 1e6 + this.#offset - context.currentTime;
    return ahead > 0 && ahead < 2 * OFF ? performance.now() + ahead * 1000 : null;
  }

  close() {
    if (this.#decoder && this.#decoder.state !== "closed") this.#decoder.close();
    this.#decoder = null;
    this.#offset = null;
  }
}
