#!/usr/bin/python3
"""Sends traces through GStreamer's rtpjitterbuffer, in real time and all at once.

Reads {"fps", "traces": {name: [[sent_s, arrived_s, number], ..]}} from standard input, each in order of arrival; writes
{name: [[number, presentation_s], ..]}: the time rtpjitterbuffer gives to each packet. A sink renders it at that time and
the latency of the buffer, which is free to choose; the default of 200 ms is used here and does not move those times.
"""

import json
import struct
import sys
import threading
import time

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst  # noqa: E402

CLOCK = 90_000


class Buffer:
    """One rtpjitterbuffer between an appsrc and an appsink."""

    def __init__(self) -> None:
        caps = f"application/x-rtp,media=video,clock-rate={CLOCK},encoding-name=H264,payload=96"
        self.pipeline = Gst.parse_launch(
            f"appsrc name=in is-live=true format=time caps={caps} ! rtpjitterbuffer name=buffer ! "
            "appsink name=out sync=false emit-signals=true max-buffers=0"
        )
        self.given: list[tuple[int, float]] = []
        self.source = self.pipeline.get_by_name("in")
        self.pipeline.get_by_name("out").connect("new-sample", self.take)
        self.pipeline.set_state(Gst.State.PLAYING)

    def push(self, sent: float, arrived: float, number: int) -> None:
        """A packet of one frame, stamped with the time it was sent, that arrived when the trace says."""
        head = struct.pack("!BBHII", 0x80, 0xE0, number & 0xFFFF, round(sent * CLOCK) & 0xFFFFFFFF, 1)
        buffer = Gst.Buffer.new_wrapped(head + b"x")
        buffer.pts = buffer.dts = round(arrived * Gst.SECOND)
        self.source.emit("push-buffer", buffer)

    def take(self, sink) -> int:
        buffer = sink.emit("pull-sample").get_buffer()
        data = buffer.extract_dup(0, 4)
        self.given.append((struct.unpack("!H", data[2:4])[0], buffer.pts / Gst.SECOND))
        return Gst.FlowReturn.OK


def main() -> None:
    traces = json.load(sys.stdin)["traces"]
    Gst.init(None)
    loop = GLib.MainLoop()
    threading.Thread(target=loop.run, daemon=True).start()
    buffers = {name: Buffer() for name in traces}
    time.sleep(0.5)
    clocks = {name: buffer.pipeline.get_clock() for name, buffer in buffers.items()}
    everything = sorted((packet[1], name, packet) for name, trace in traces.items() for packet in trace)
    start = time.monotonic()
    # Times of a trace count from when its pipeline started.
    shift = {n: (clocks[n].get_time() - b.pipeline.get_base_time()) / Gst.SECOND for n, b in buffers.items()}
    for arrived, name, (sent, _, number) in everything:
        wait = start + arrived - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        buffers[name].push(sent, arrived + shift[name], number)
    time.sleep(1.5)
    given = {name: [[n, t - shift[name]] for n, t in buffer.given] for name, buffer in buffers.items()}
    for buffer in buffers.values():
        buffer.pipeline.set_state(Gst.State.NULL)
    print(json.dumps(given))


main()
