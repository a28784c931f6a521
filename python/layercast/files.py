"""Files and folders to many receivers, on asyncio (docs/src/reference/multicast.md).

>>> async def copy():
...     report = await files.send(["photos"], to=["192.0.2.7:7600"], rate_bps=400e6)
...     for file in report.files:
...         print(file["file"], [it["outcome"] for it in file["receivers"]])
...     return report.complete
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from layercast import _layercast

__all__ = ["Received", "Sent", "receive", "send"]

PORT = 7600


@dataclass(frozen=True)
class Sent:
    """The report of a transfer.

    `files` has a dictionary for each file: `file`, `size`, `seconds`, `failure`, `receivers` (each with
    `address`, `outcome`, `why`, `repairs`, `loss`), `unreached`. `withheld` are files that changed or could
    not be read; `error` is what ended the transfer early.
    """

    of: int
    octets: int
    seconds: float
    files: list[dict[str, Any]]
    manifest: dict[str, Any] | None
    withheld: list[dict[str, Any]]
    error: str | None

    @property
    def complete(self) -> bool:
        """Whether every receiver that took part, and every address, has every file."""
        sessions = self.files or ([self.manifest] if self.manifest and self.of == 0 else [])
        return (
            len(self.files) == self.of
            and self.error is None
            and not self.withheld
            and bool(sessions)
            and all(
                not it["unreached"]
                and bool(it["receivers"])
                and all(one["outcome"] == "delivered" for one in it["receivers"])
                for it in sessions
            )
        )


@dataclass(frozen=True)
class Received:
    """The files of a sender.

    `files` has a dictionary for each file: `file`, `size`, `path` (None: it is not here), `why`, `error`.
    `missing` is the number of announced files that did not arrive. `listed` is false if a list of files
    could not be used: which folders, permissions and times it has is not known.
    """

    files: list[dict[str, Any]]
    missing: int
    listed: bool = True

    @property
    def complete(self) -> bool:
        """Whether every file that was announced is here."""
        return self.listed and self.missing == 0 and all(it["path"] is not None for it in self.files)


def _address(text: str) -> str:
    """An IP address with a port, the default one if none is given."""
    if text.startswith("["):
        return text if "]:" in text else f"{text}:{PORT}"
    return {0: f"{text}:{PORT}", 1: text}.get(text.count(":"), f"[{text}]:{PORT}")


async def send(
    paths: Sequence[str | os.PathLike[str]],
    *,
    to: Sequence[str] = (),
    group: str | None = None,
    interface: str = "0.0.0.0",
    hops: int = 1,
    rate_bps: float = 100e6,
    receivers: int | None = None,
    wait: float = 5.0,
    packet: int = 1400,
    follow_links: bool = False,
    rename: bool = False,
) -> Sent:
    """Sends files and folders to addresses (`to`: IP addresses, port 7600 by default) or a multicast group.

    Raises LayercastError if an input cannot be sent (all such inputs are named, nothing is sent) or no socket
    can be opened. Later failures are in the report.
    """
    if bool(to) == (group is not None):
        raise ValueError("either to=[...] or group=... names the receivers")
    request = {
        "paths": [os.fspath(path) for path in paths],
        "to": [_address(it) for it in to],
        "group": group,
        "interface": interface,
        "hops": hops,
        "rate_bps": int(rate_bps),
        "receivers": receivers,
        "wait_ms": int(wait * 1000),
        "packet": packet,
        "follow_links": follow_links,
        "rename": rename,
    }
    return Sent(**json.loads(await _layercast.send_json(json.dumps(request))))


async def receive(
    out: str | os.PathLike[str],
    *,
    listen: str = "0.0.0.0:7600",
    group: str | None = None,
    interface: str = "0.0.0.0",
    overwrite: bool = False,
    wait: float = 0.0,
) -> Received:
    """Receives the files and folders of one sender into the folder `out`.

    It gives up when no sender is heard for `wait` seconds (0: never).
    """
    request = {
        "out": os.fspath(out),
        "listen": listen,
        "group": group,
        "interface": interface,
        "overwrite": overwrite,
        "wait_ms": int(wait * 1000),
    }
    return Received(**json.loads(await _layercast.receive_json(json.dumps(request))))
