"""Scenarios of schema group/1 (docs/src/reference/multicast-simulator.md) for the experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import layercast

Branch = dict[str, Any]


def scenario(
    name: str, session: Mapping[str, Any], branches: Sequence[Branch], seed: int = 1, **other: Any
) -> dict[str, Any]:
    """A scenario of a group; `other` are its other tables, as in the file."""
    run = {"seed": seed} | other.pop("run", {})
    made = {"schema": "group/1", "name": name, "run": run, "session": dict(session)}
    return made | {"branch": list(branches)} | other


def run(made: Mapping[str, Any]) -> dict[str, Any]:
    """What the simulator counted."""
    return layercast.run(made).summary


def tree(*rows: tuple[str, int, int, float]) -> list[Branch]:
    """Branches that hang on one another: name, copies on each of the one before, links in a row, their loss.

    Rows of no link are left out; the rows below them are below the one before.

    >>> [branch["name"] for branch in tree(("shared", 1, 0, 0.1), ("lan", 5, 2, 0.1))]
    ['lan']
    """
    made: list[Branch] = []
    for name, count, hops, loss in rows:
        if hops or count > 1:
            above = {"parent": made[-1]["name"]} if made else {}
            made.append({"name": name, "count": count, "hops": hops, "loss": loss, "delay": "5ms"} | above)
    return made


def union(packets: int, **other: Any) -> dict[str, Any]:
    """Selective repeat to all: RMTP at today's rates, a surplus of 100 ms.

    A poll ends each pass, with 200 µs of back-off for each that still responds; there are no good-byes.
    """
    timing = {"rate": "8 Mbit/s", "delta": "200us", "alpha": "100ms", "packet_size": 1_400}
    law = {"profile": "rmtp", "packets": packets, "unasked": False, "goodbye": False}
    return law | timing | other


def tree3(receivers: int, branch: int, losses: tuple[float, float], height: int = 30) -> list[Branch]:
    """Tree 3 of specs/where-to-use-fec.md 2.3: a shared path, then `receivers` branches of `links` links."""
    return tree(("shared", 1, height - branch, losses[0]), ("branch", receivers, branch, losses[1]))


def tree4(
    receivers: int, size: int, shared: int, losses: tuple[float, float, float], height: int = 30, lan: int = 5
) -> list[Branch]:
    """Tree 4: a shared path, branches to LANs, LANs of `size` receivers, each behind links of its own."""
    wan = height - lan - shared
    return tree(
        ("shared", 1, shared, losses[0]),
        ("wan", receivers // size, wan, losses[1]),
        ("lan", size, lan, losses[2]),
    )


def transmissions(branches: Sequence[Branch], packets: int, seed: int = 1) -> float:
    """Packets sent for each source packet until all have all, repaired by the union of what is missing."""
    return run(scenario("union", union(packets), branches, seed))["transmissions_per_packet"]


def coded(code: tuple[int, int], e: float, receivers: int, packets: int, seed: int = 1) -> float:
    """The same to a star that loses `e` on each link, above a code on all that is sent; parities count."""
    (n, m), star = code, tree(("receiver", receivers, 1, e))
    # At 1.4 ms a packet a block is filled before it is closed for its age.
    law = {"branches": ["receiver"], "scheme": "xor-shift", "flush": f"{50 + 2 * n}ms"}
    fec = [law | {"n": n, "m": m}] if m else []
    found = run(scenario("coded", union(packets), star, seed, fec=fec))
    # The code begins at the source: it has one encoder.
    return (found["sent"]["data"] + sum(it["parities"] for it in found["codes"])) / found["packets"]
