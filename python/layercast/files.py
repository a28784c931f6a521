"""Files and folders to many receivers, on asyncio (docs/src/reference/multicast.md).

>>> async def copy():
...     report = await files.send(["photos"], to=["192.0.2.7:7600"], rate_bps=400e6)
...     for file in report.files:
...         print(file["file"], [it["outcome"] for it in file["receivers"]])
...     return report.complete
"""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from layercast import _checks, _layercast

__all__ = ["Received", "Sent", "receive", "send"]

PORT = 7600
"""The port where none is given."""
FASTEST = 1e12
"""The highest rate in bit/s."""
MOST_RECEIVERS = 65_536
SMALLEST_PACKET, LARGEST_PACKET = 64, 8_900
"""Bytes of a packet."""


@dataclass(frozen=True)
class Sent:
    """The report of a transfer.

    `files` has a dictionary for each file: `file`, `size`, `seconds`, `failure`, `receivers` (each with
    `name`, `address`, `outcome`, `why`, `seconds` from the first data packet until it had the file,
    `repairs`, `loss`), `unreached` (addresses without an answer), `in_use` (addresses of receivers that
    were refused because another receiver has their name). `manifest` is such a dictionary for the list of
    files. `withheld` are files that changed or could not be read; `error` is what ended the transfer early.
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
        """Whether every receiver that took part, and every address, has every file.

        False if a receiver could not use the list of files, or was refused because another one has its name.
        """
        # Folders without a file are in the list alone.
        lists = [self.manifest] if self.manifest else []
        sessions = self.files or (lists if self.of == 0 else [])
        return (
            len(self.files) == self.of
            and self.error is None
            and not self.withheld
            and bool(sessions)
            and all(
                it["failure"] is None
                and not it["unreached"]
                and bool(it["receivers"])
                and all(one["outcome"] == "delivered" for one in it["receivers"])
                for it in sessions
            )
            and not any(one["outcome"] == "failed" for it in lists for one in it["receivers"])
            and self._refused(lists + self.files) <= set.intersection(*map(self._reached, sessions))
        )

    @staticmethod
    def _refused(sessions: Sequence[dict[str, Any]]) -> set[str]:
        """Addresses that were refused in one of the sessions because of their name."""
        return {address for it in sessions for address in it.get("in_use", ())}

    @staticmethod
    def _reached(session: dict[str, Any]) -> set[str | None]:
        """Addresses of the receivers that have what the session sent."""
        return {it["address"] for it in session["receivers"] if it["outcome"] == "delivered"}


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


def _many(name: str, values: Sequence[Any], what: str) -> list[Any]:
    """A sequence of values; raises ValueError for a single one."""
    if isinstance(values, str | bytes | os.PathLike) or not isinstance(values, Iterable):
        raise ValueError(f"{name} is {values!r}: give a list of {what}")
    return list(values)


def _path(name: str, value: str | os.PathLike[str]) -> str:
    """A path as text; raises ValueError."""
    try:
        path = os.fsdecode(value)
        path.encode()
    except (TypeError, UnicodeError):
        raise ValueError(f"{name} is {value!r}: give a path that is valid UTF-8") from None
    return path


def _milliseconds(wait: float) -> int:
    # Rounded up: 0 has a meaning of its own.
    return math.ceil(_checks.within("wait", wait, 0, _checks.LONGEST, unit="seconds") * 1_000)


def _make_folder(path: str) -> None:
    """Makes a folder if it does not exist; raises OSError with the path."""
    if os.path.exists(path) and not os.path.isdir(path):
        raise NotADirectoryError(errno.ENOTDIR, "out is not a folder; give the path of a folder", path)
    os.makedirs(path, exist_ok=True)
    if not os.access(path, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "out is a folder without permission to write", path)


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
    """Sends files and folders to addresses (`to`) or an IPv4 multicast group (`group`).

    Addresses are IP addresses with a port, 7600 by default; `interface` is the IPv4 address of the interface
    to the group. `hops` is 0 to 255, `rate_bps` 1 to 1e12 bit/s, `packet` 64 to 8900 bytes. The transfer
    starts with the number of `receivers`, 1 to 65536 (None: one for each address), or after `wait` seconds.

    Raises ValueError for other values, with the name of the parameter. Raises LayercastError if an input
    cannot be sent (all such inputs are named, nothing is sent) or no socket can be opened. Later failures are
    in the report.
    """
    paths = _many("paths", paths, "paths")
    if not paths:
        raise ValueError("paths is empty: give at least one path")
    to = _many("to", to, "addresses")
    if bool(to) == (group is not None):
        raise ValueError("either to=[...] or group=... names the receivers")
    request = {
        "paths": [_path(f"paths[{n}]", it) for n, it in enumerate(paths)],
        "to": [_checks.address(f"to[{n}]", it, PORT, is_remote=True) for n, it in enumerate(to)],
        "group": None if group is None else _checks.group("group", group, PORT),
        "interface": _checks.interface("interface", interface),
        "hops": _checks.whole("hops", hops, 0, 255),
        "rate_bps": int(_checks.within("rate_bps", rate_bps, 1, FASTEST, unit="bit/s")),
        "receivers": None if receivers is None else _checks.whole("receivers", receivers, 1, MOST_RECEIVERS),
        "wait_ms": _milliseconds(wait),
        "packet": _checks.whole("packet", packet, SMALLEST_PACKET, LARGEST_PACKET),
        "follow_links": _checks.flag("follow_links", follow_links),
        "rename": _checks.flag("rename", rename),
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

    It ends when no sender is heard for `wait` seconds (0: it waits without a limit). `listen` is an IP
    address with a port, 7600 by default; `group` and `interface` are as in `send`.

    Raises ValueError for other values, with the name of the parameter, and OSError with the path if `out` is
    no folder, or one without permission to write.
    """
    request = {
        "out": _path("out", out),
        "listen": _checks.address("listen", listen, PORT, is_remote=False),
        "group": None if group is None else _checks.group("group", group, PORT),
        "interface": _checks.interface("interface", interface),
        "overwrite": _checks.flag("overwrite", overwrite),
        "wait_ms": _milliseconds(wait),
    }
    _make_folder(request["out"])
    return Received(**json.loads(await _layercast.receive_json(json.dumps(request))))
