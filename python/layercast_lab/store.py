"""Results of runs in a folder: each file is whole or not there, and its name says what is in it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from layercast_lab.grid import digest

RUNS = "runs"
PART = ".part"


class StoreError(OSError):
    """A folder that cannot be used; the text says why."""


class Store:
    """The folder `runs` of `folder`, of files ADDRESS-CHECKSUM.parquet.

    A file gets its name when all of it is on the disk. The checksum is that of its bytes, so a file that
    was damaged later is reported by its name. Several campaigns may share a folder, one at a time.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._runs = folder, folder / RUNS
        self._lock: int | None = None

    def __enter__(self) -> Store:
        self._runs.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise StoreError(f"another campaign is at work in {self.folder}") from None
        for left in self._runs.glob(f"*{PART}"):
            # Of a start that was killed.
            left.unlink()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)

    def find(self, addresses: Iterable[str]) -> dict[str, Path]:
        """The files of these runs, of those that are there, damaged or not."""
        wanted = set(addresses)
        if not self._runs.is_dir():
            return {}
        names = (entry.name for entry in os.scandir(self._runs) if entry.name.endswith(".parquet"))
        found = ((name.partition("-")[0], name) for name in names)
        return {address: self._runs / name for address, name in found if address in wanted}

    def remove_damaged(self, files: Mapping[str, Path]) -> list[str]:
        """Removes the files that are not what their names say; the addresses of their runs."""
        damaged = [address for address, path in files.items() if not intact(path)]
        for address in damaged:
            files[address].unlink()
        return damaged

    def put(self, address: str, data: bytes) -> None:
        """Keeps the result of a run."""
        self._write(self._runs / f"{address}-{digest(data)}.parquet", data)

    def write(self, name: str, data: bytes) -> Path:
        """Writes a file beside the runs, which may be there already, whole or not at all."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self._write(path, data)
        return path

    def write_json(self, name: str, value: Any) -> Path:
        """`write` of JSON."""
        return self.write(name, (json.dumps(value, indent=2) + "\n").encode())

    def read_json(self, name: str) -> dict[str, Any]:
        """What `write_json` left, or nothing."""
        try:
            found = json.loads((self.folder / name).read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def log(self, entry: Mapping[str, Any]) -> None:
        """Adds a line to log.jsonl: what is not the same each time."""
        with (self.folder / "log.jsonl").open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def _write(self, path: Path, data: bytes) -> None:
        part = path.with_name(path.name + PART)
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # The name is not waited for: a run whose name a power failure takes along is made again.
        part.rename(path)


def intact(path: Path) -> bool:
    """Whether a file holds the bytes that its name says."""
    return digest(path.read_bytes()) == path.stem.partition("-")[2]
