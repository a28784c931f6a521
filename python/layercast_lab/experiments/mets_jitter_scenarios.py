"""The two scenarios of METS E4: a receiver that stalls, and Gaussian delay."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from layercast_lab.simulator import Frames, run_traced
from layercast_lab.testbed import packet_bytes, scenario, write_trace

SECONDS = 60.0
FLOWS = 5
# When the receiver stalls, and for how long (specs/mets.md 4.7, decided there).
STALLS = ((42.6, 0.180), (43.15, 0.250))
RELAY_CELL_S = 57e-6
BURST_FRAMES = 5

PAPER_FILTER = {"a": 1 / 8, "beta": 1 / 16, "r": 2.0, "hold_gops": 8}
GAUSS_LINKS = 12
GAUSS_SD_MS = 5


def stalled(setting: Mapping[str, float], seed: int) -> Frames:
    """Frames of the first of five Lougher flows to a receiver that stalls twice.

    The simulator has no stalls on command. A processor before dwp, which spends 57 us on each
    cell of everything that passes, gets some packets for somebody else simultaneously: together they
    keep it busy for as long as the stall shall last, and what came meanwhile leaves at its end.
    """
    flows: list[dict[str, Any]] = [
        {
            "name": f"lougher{i}",
            "clip": {"synthetic": "lougher"},
            "frame_rate": 24,
            "stop": f"{SECONDS:g}s",
            "random_phase": True,
            "shaping": {"b": 17, "p": 1},
        }
        for i in range(FLOWS)
    ]
    with tempfile.TemporaryDirectory() as folder:
        setup = scenario("e4", SECONDS + 1, flows, admission=False)
        setup["receiver"][0]["playout"] = dict(setting)
        free = {"send_cell": "0s"}
        setup["node"] += [
            {"name": "relay", "kind": "switch", "host": {"switch_cell": f"{RELAY_CELL_S * 1e6:g}us"}},
            {"name": "njy", "kind": "host", "host": free},
            {"name": "scaup", "kind": "host", "host": free},
        ]
        last = setup["link"][-1]
        setup["link"] += [
            last | {"a": "rook", "b": "relay", "queue": "4000 cells"},
            last | {"a": "njy", "b": "rook", "queue": "4000 cells"},
            last | {"a": "relay", "b": "scaup"},
        ]
        last["a"] = "relay"
        for at, length in STALLS:
            cells = round(length / RELAY_CELL_S / BURST_FRAMES)
            parts = -(-cells // 683)
            trace = write_trace(Path(folder, f"{at}.trace"), [packet_bytes(cells // parts)])
            for i in range(BURST_FRAMES * parts):
                name = f"burst-{at:g}-{i}"
                setup["flow"].append(
                    {
                        "name": name,
                        "source": "njy",
                        "clip": {"trace": str(trace)},
                        "frame_rate": 1,
                        "start": f"{at:g}s",
                        "shaping": "off",
                    }
                )
                setup["receiver"].append({"name": f"{name}-at-scaup", "node": "scaup", "flow": name})
        return run_traced(setup, seed)[0]


def gaussian(hold_gops: int, seed: int, seconds: float) -> Frames:
    """Frames of a run with Gaussian delays: twelve links of uniform jitter in a row."""
    nodes = ["a", *(f"s{i}" for i in range(1, GAUSS_LINKS)), "b"]
    ends = itertools.pairwise(nodes)
    with tempfile.TemporaryDirectory() as folder:
        trace = write_trace(Path(folder, "clip"), [1000] * round(24 * seconds), "IPBBPBBPBBBB")
        setup = {
            "name": "gauss",
            "duration": f"{seconds + 2:g}s",
            "carriage": "datagrams",
            "node": [{"name": n, "kind": "switch" if n[0] == "s" else "host"} for n in nodes],
            # The variance of a uniform variable is a twelfth of the square of its width.
            "link": [
                {"a": a, "b": b, "rate": "100 Mbit/s", "jitter": {"uniform": f"{GAUSS_SD_MS}ms"}}
                for a, b in ends
            ],
            "flow": [
                {
                    "name": "f",
                    "source": "a",
                    "clip": {"trace": str(trace)},
                    "frame_rate": 24,
                    "shaping": "off",
                }
            ],
            "receiver": [{"node": "b", "flow": "f", "playout": PAPER_FILTER | {"hold_gops": hold_gops}}],
        }
        return run_traced(setup, seed)[0]
