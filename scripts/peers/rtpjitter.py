#!/usr/bin/python3
"""Sends traces through GStreamer's rtpjitterbuffer, in real time and all simultaneously.

Reads {"latencies_ms", "traces": {name: [[sent_s, arrived_s, number], ..]}} from standard input, each in
order of arrival; writes {name: [[[number, presentation_s], ..] for each latency]}: the time that
rtpjitterbuffer gives to each packet. A sink renders it at that time and the latency. A packet that comes too
late for that moves those times of all that follow.
"""

import json
import struct
import sys
import time

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: E402

CLOCK = 90_000


class Buffer:
    """One rtpjitterbuffer between an appsrc and an appsink."""

    def __init__(self, latency_ms: int) -> None:
        caps = f"application/x-rtp,media=video,clock-rate={CLOCK},encoding-name=H264,payload=96"
        self.pipeline = Gst.parse_launch(
            f"appsrc name=in is-live=true format=time caps={caps} ! rtpjitterbuffer latency={latency_ms} ! "
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
        """Note the time of a packet that came out."""
        buffer = sink.emit("pull-sample").get_buffer()
        data = buffer.extract_dup(0, 4)
        self.given.append((struct.unpack("!H", data[2:4])[0], buffer.pts / Gst.SECOND))
        return Gst.FlowReturn.OK


def main() -> None:
    """One buffer for each trace and latency, all fed at the times of the traces."""
    question = json.load(sys.stdin)
    traces, latencies = question["traces"], question["latencies_ms"]
    Gst.init(None)
    buffers = {name: [Buffer(latency) for latency in latencies] for name in traces}
    time.sleep(0.5)
    # Times of a trace count from when it begins; those of a pipeline from when that was started.
    shift = {}
    for name, row in buffers.items():
        bases = [b.pipeline.get_clock().get_time() - b.pipeline.get_base_time() for b in row]
        shift[name] = [base / Gst.SECOND for base in bases]
    everything = sorted((packet[1], name, packet) for name, trace in traces.items() for packet in trace)
    start = time.monotonic()
    for arrived, name, (sent, _, number) in everything:
        wait = start + arrived - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        for buffer, base in zip(buffers[name], shift[name], strict=True):
            buffer.push(sent, arrived + base, number)
    time.sleep(max(latencies) / 1_000 + 2)
    given = {}
    for name, row in buffers.items():
        given[name] = [[[n, t - base] for n, t in b.given] for b, base in zip(row, shift[name], strict=True)]
    print(json.dumps(given), flush=True)


main()
