#!/usr/bin/env python3
"""One side of a WebRTC call with aiortc, which has Google's congestion control (GCC): REMB, NACK, PLI.

Usage: webrtc.py send FOLDER RATE START        raw yuv420p pictures on standard input, at most RATE bit/s
       webrtc.py receive FOLDER UNTIL          luminance to FOLDER/webrtc.gray, times to FOLDER/webrtc.json

START and UNTIL are times of the monotonic clock. The sides exchange their descriptions as files in FOLDER;
`run_webrtc` starts both, with the emulated path between them.
"""

import asyncio
import fractions
import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from clip import FPS, FRAMES, HEIGHT, WIDTH, Clip
from nodes import Programs, hurry
from quality import quantile

CLOCK = 90_000
# A candidate that is none: the receiver answers where packets come from, which is the path.
NOWHERE = "127.0.0.1 9"


async def description(folder: Path, name: str) -> str:
    """The description that the other side writes."""
    path = folder / name
    while not path.exists():
        await asyncio.sleep(0.05)
    return path.read_text()


def write(folder: Path, name: str, text: str) -> None:
    """A file that is whole as soon as it is there."""
    part = folder / f".{name}"
    part.write_text(text)
    part.rename(folder / name)


def with_candidate(sdp: str, place: str) -> str:
    """The description with `place`, an address and a port, as its only candidate."""
    return re.sub(r"(a=candidate:\S+ \d+ \w+ \d+) \S+ \d+", rf"\1 {place}", sdp)


def prepare() -> None:
    """Both sides are on this host."""
    import aioice.ice

    aioice.ice.get_host_addresses = lambda use_ipv4, use_ipv6: ["127.0.0.1"]
    hurry()


async def send(folder: Path, rate: int, start: float) -> None:
    """Send pictures until there are no more, as a camera gives them."""
    prepare()
    import aiortc
    from aiortc import rtcrtpsender
    from aiortc.codecs import h264
    from av import VideoFrame

    # No more than the other programs have.
    h264.MAX_BITRATE = rate
    h264.DEFAULT_BITRATE = min(h264.DEFAULT_BITRATE, rate)
    ended = asyncio.Event()
    sent: list[float] = []

    class Camera(aiortc.VideoStreamTrack):
        async def recv(self) -> VideoFrame:
            number = len(sent)
            await asyncio.sleep(max(start + number / FPS - time.monotonic(), 0))
            data = await asyncio.to_thread(sys.stdin.buffer.read, WIDTH * HEIGHT * 3 // 2)
            if number == FRAMES or len(data) < WIDTH * HEIGHT * 3 // 2:
                ended.set()
                await asyncio.sleep(3600)
            pixels = np.frombuffer(data, np.uint8).reshape(HEIGHT * 3 // 2, WIDTH)
            frame = VideoFrame.from_ndarray(pixels, format="yuv420p")
            frame.pts, frame.time_base = number * CLOCK // FPS, fractions.Fraction(1, CLOCK)
            sent.append(start + number / FPS)
            return frame

    call = aiortc.RTCPeerConnection()
    call.addTrack(Camera())
    transceiver = call.getTransceivers()[0]
    codecs = aiortc.RTCRtpSender.getCapabilities("video").codecs
    transceiver.setCodecPreferences([c for c in codecs if c.mimeType in ("video/H264", "video/rtx")])
    # The times of packets begin at 0, so that the receiver knows the numbers of pictures.
    rtcrtpsender.random32 = lambda: 0
    await call.setLocalDescription(await call.createOffer())
    write(folder, "offer.sdp", with_candidate(call.localDescription.sdp, NOWHERE))
    answer = await description(folder, "path.sdp")
    await call.setRemoteDescription(aiortc.RTCSessionDescription(answer, "answer"))
    await ended.wait()
    write(folder, "sent.json", json.dumps(sent))
    await asyncio.sleep(2)
    await call.close()


async def receive(folder: Path, until: float) -> None:
    """Keep what a viewer would see until a time."""
    prepare()
    import aiortc

    times: list[tuple[int, float]] = []
    call = aiortc.RTCPeerConnection()
    with (folder / "webrtc.gray").open("wb") as file:

        async def keep(track: aiortc.MediaStreamTrack) -> None:
            while True:
                frame = await track.recv()
                times.append((frame.pts * FPS // CLOCK, time.monotonic()))
                file.write(frame.to_ndarray(format="gray").tobytes())

        tasks = []
        call.on("track", lambda track: tasks.append(asyncio.create_task(keep(track))))
        offer = await description(folder, "offer.sdp")
        await call.setRemoteDescription(aiortc.RTCSessionDescription(offer, "offer"))
        await call.setLocalDescription(await call.createAnswer())
        write(folder, "answer.sdp", call.localDescription.sdp)
        await asyncio.sleep(until - time.monotonic())
        for task in tasks:
            task.cancel()
    write(folder, "webrtc.json", json.dumps(times))
    await call.close()


def run_webrtc(
    layercast: str,
    clip: Clip,
    rate: int,
    path: Callable[[int], list],
    latency: int,
    settle: float,
    folder: Path,
) -> dict:
    """One run through the emulated path; `path(port)` is the command of the latter.

    Pictures that come later than `latency` ms after their time are not shown, as with the others.
    """
    for name in ("offer.sdp", "answer.sdp", "path.sdp", "sent.json"):
        (folder / name).unlink(missing_ok=True)
    begun = time.monotonic()
    start, end = begun + 3 + settle, begun + 3 + settle + FRAMES / FPS + 1
    program = [sys.executable, __file__]
    with Programs(layercast) as programs, clip.raw() as pictures:
        receiver = programs.start([*program, "receive", folder, end])
        programs.start([*program, "send", folder, rate, start], stdin=pictures)
        answer = asyncio.run(description(folder, "answer.sdp"))
        port = int(re.search(r"a=candidate:\S+ \d+ \w+ \d+ \S+ (\d+)", answer)[1])
        entrance = programs.ready(path(port))
        time.sleep(max(begun + 3 - time.monotonic(), 0))
        write(folder, "path.sdp", with_candidate(answer, entrance.replace(":", " ")))
        receiver.wait()
    sent = json.loads((folder / "sent.json").read_text())
    times = json.loads((folder / "webrtc.json").read_text())
    pixels = np.fromfile(folder / "webrtc.gray", np.uint8).reshape(-1, HEIGHT, WIDTH)
    late = {number: at - sent[number] for number, at in times if number < len(sent)}
    shown = {
        number: picture
        for (number, _), picture in zip(times, pixels, strict=False)
        if late.get(number, latency) * 1_000 <= latency
    }
    delays = list(late.values())
    return {"pictures": shown, "delay_ms": {"p50": quantile(delays, 0.5), "p99": quantile(delays, 0.99)}}


if __name__ == "__main__":
    what, folder, *rest = sys.argv[1:]
    if what == "send":
        asyncio.run(send(Path(folder), int(rest[0]), float(rest[1])))
    else:
        asyncio.run(receive(Path(folder), float(rest[0])))
