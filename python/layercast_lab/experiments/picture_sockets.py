"""Cells in lost datagrams, on sockets and in the simulator (specs/mpeg-picture-quality.md 4, Q12)."""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.picture_cells import streams
from layercast_lab.experiments.picture_switch import PAPER
from layercast_lab.picture import ask
from layercast_lab.simulator import command

LOSSES = ((0.0, 1.0), (0.01, 1.0), (0.03, 4.0))
"""Share of the datagrams that is lost, and mean length of a burst."""
SETTINGS = {"AAL5": ["--mark"], "AAL5+": [], "AAL5+, parities 4 x 4": ["--parity", "4x4"]}
PATIENCE = 30.0
COUNTS = (
    "cells",
    "packets",
    "damaged_packets",
    "lost_system",
    "lost_pictures",
    "bad_frames",
    "unplaced",
    "resyncs",
)
"""Counters of the receiver that are shown when they differ."""


class Relay(threading.Thread):
    """Passes datagrams on, but for those with these numbers, and notes the classes of each code point."""

    def __init__(self, to: tuple[str, int], lost: set[int]) -> None:
        super().__init__(daemon=True)
        self.to, self.lost = to, lost
        self.inlet = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.inlet.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.inlet.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        self.inlet.bind(("127.0.0.1", 0))
        self.inlet.settimeout(PATIENCE)
        self.marks: dict[int, set[int]] = {}
        self.passed = 0

    def run(self) -> None:
        """Relays until the end of the stream, or until nothing comes any more."""
        while True:
            try:
                data, notes, _, _ = self.inlet.recvmsg(65_536, 256)
            except TimeoutError:
                return
            number = int.from_bytes(data[2:4], "big")
            is_end = len(data) == 20
            if is_end or number not in self.lost:
                self.inlet.sendto(data, self.to)
                self.passed += not is_end
            dscp = next((octets[0] >> 2 for _, kind, octets in notes if kind == socket.IP_TOS), 0)
            if is_end:
                return
            # CLP and EFCI of the first cell.
            header = data[20 + 3]
            self.marks.setdefault(dscp, set()).add((header & 1) << 1 | header >> 2 & 1)


def on_sockets(cells: Path, out: Path, lost: set[int]) -> tuple[dict[str, Any], Relay, dict[str, Any]]:
    """Plays a file through a relay to a receiver: report of the receiver, relay, report of the player."""
    receiver = subprocess.Popen(
        [command(), "receive-cells", "127.0.0.1:0", str(out), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert receiver.stderr is not None
    host, port = json.loads(receiver.stderr.readline())["address"].rsplit(":", 1)
    relay = Relay((host, int(port)), lost)
    relay.start()
    address = f"127.0.0.1:{relay.inlet.getsockname()[1]}"
    played = subprocess.run(
        [command(), "play-cells", str(cells), address, "--json"], capture_output=True, text=True, check=True
    )
    output, errors = receiver.communicate(timeout=PATIENCE)
    relay.join(PATIENCE)
    # 3: something was lost.
    if receiver.returncode not in (0, 3):
        raise RuntimeError(errors)
    return json.loads(output), relay, json.loads(played.stdout)


def digest(path: Path) -> str:
    """What tells files apart."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "nothing"


@experiment(
    "mpeg-picture-quality/q12", title="Cells in datagrams on sockets and in the simulator", paper=PAPER
)
def q12(context: Context) -> Report:
    """The same datagrams lost on sockets and in the simulator: counters of the receiver, and the stream."""
    rows = []
    with streams() as files, tempfile.TemporaryDirectory() as folder:
        stream = files["MPEG-2"]
        for name, options in SETTINGS.items():
            cells = Path(folder) / "clip.cells"
            words = [
                command(),
                "prepacketize",
                str(stream),
                str(cells),
                "--smooth",
                "gop",
                "--json",
                *options,
            ]
            made = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
            for rate, burst in LOSSES:
                outs = [Path(folder) / f"{place}.ts" for place in ("sockets", "simulator")]
                question = {"rate": rate, "burst": burst, "seed": 1}
                expected = ask("carried", file=str(cells), out=str(outs[1]), **question)
                got, relay, played = on_sockets(cells, outs[0], set(expected["lost"]))
                rows += beside(name, rate, burst, expected, got, relay, [digest(out) for out in outs])
                if rate == 0:
                    rows += lossless(name, made, stream, outs[0], relay, played)
    return Report("mpeg-picture-quality/q12", "Cells in datagrams on sockets and in the simulator", rows)


def lossless(
    name: str, made: dict[str, Any], stream: Path, out: Path, relay: Relay, played: dict[str, Any]
) -> list[Row]:
    """Rows of the run without loss."""
    same = digest(stream) == digest(out)
    marks = {dscp: sorted("SIPB"[rank] for rank in ranks) for dscp, ranks in sorted(relay.marks.items())}
    wanted = {34: ["I", "S"], 36: ["P"], 38: ["B"]}
    late = played["latest_ms"]
    return [
        Row(
            f"{name}, no loss: the stream behind sockets",
            "octet by octet that of the file",
            f"{'the same' if same else 'another'}, {made['packets']} packets in {played['datagrams']}",
            "the same",
            judge(same),
        ),
        Row(
            f"{name}, no loss: code points and classes of the datagrams",
            "AF41 S and I, AF42 P, AF43 B",
            ", ".join(f"{dscp}: {' '.join(classes)}" for dscp, classes in marks.items()),
            "exact",
            judge(marks == wanted),
        ),
        Row(
            f"{name}, no loss: time of play",
            f"{made['seconds']:.2f} s as prepared",
            f"{played['seconds']:.2f} s, at most {late:.1f} ms late",
            "within 0.1 s",
            judge(abs(played["seconds"] - made["seconds"]) <= 0.1),
        ),
    ]


def beside(
    name: str,
    rate: float,
    burst: float,
    expected: dict[str, Any],
    got: dict[str, Any],
    relay: Relay,
    digests: list[str],
) -> list[Row]:
    """The row of one loss: sockets beside the simulator."""
    counters = [it["stream"] for it in (got, expected)]
    parities = [it["parity"] for it in (got, expected)]
    same = digests[0] == digests[1] and counters[0] == counters[1] and parities[0] == parities[1]
    shown = "; ".join(
        f"{it['packets']} whole, {it['damaged_packets']} damaged packets"
        for it in counters[: 1 if same else 2]
    )
    if not same:
        shown += "; " + ", ".join(
            f"{key} {counters[0][key]} and {counters[1][key]}"
            for key in COUNTS
            if counters[0][key] != counters[1][key]
        )
    if parities[0]:
        shown += f"; {parities[0]['repaired']} cells back"
    return [
        Row(
            f"{name}, loss {rate:g} in bursts of {burst:g}",
            "counters of the receiver and stream as in the simulator",
            f"{'the same' if same else 'others'}: {shown}; "
            f"{len(expected['lost'])} of {expected['datagrams']} datagrams lost",
            "the same",
            judge(same and relay.passed == expected["datagrams"] - len(expected["lost"])),
        )
    ]
