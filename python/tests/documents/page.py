"""Runs the script of a page in a folder, a terminal and, where the system allows it, a network of its own."""

import functools
import os
import pty
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from . import script
from .blocks import Block

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]


@dataclass
class Result:
    """What became of a block."""

    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)
    ended: bool = False


@functools.cache
def has_network() -> bool:
    """May this user make network, mount and process namespaces?"""
    return subprocess.run([*namespaces(), "true"], capture_output=True).returncode == 0


def namespaces() -> list[str]:
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *user, "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def prepare(folder: Path, inputs: dict[str, Path | str]) -> None:
    """An empty folder that looks like the root of the repository; what is written stays in it.

    Each input is a file to copy, or a text.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for entry in REPOSITORY.iterdir():
        if entry.name not in (".git", ".venv", "target") and not entry.name.startswith("."):
            (folder / entry.name).symlink_to(entry)
    for name, source in inputs.items():
        place = folder / name
        # The links lead into the repository: an input replaces a link and is never written through one.
        place.unlink(missing_ok=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.parent.resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"the input {name} would be written into the repository")
        if isinstance(source, Path):
            shutil.copyfile(source, place)
        else:
            place.write_text(source)


def environment(layercast: Path, folder: Path, long: bool, network: bool) -> dict[str, str]:
    values = dict(os.environ)
    values["PATH"] = f"{HERE / 'bin'}:{values['PATH']}"
    values["DOCUMENTS_LAYERCAST"] = str(layercast)
    values["DOCUMENTS_PYTHON"] = sys.executable
    values["DOCUMENTS_LOG"] = str(folder / ".log")
    values["DOCUMENTS_REPOSITORY"] = str(REPOSITORY)
    values["LAYERCAST"] = str(layercast)
    values.update({"DOCUMENTS_LONG": "1"} if long else {})
    values.update({"DOCUMENTS_NETWORK": "1"} if network else {})
    return values


def kill_below(process: int) -> None:
    """Kills a process and what it has begun."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        os.kill(process, signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError):
        return
    for child in children:
        kill_below(int(child))


def run(page: list[Block], folder: Path, env: dict[str, str], limit: float) -> dict[str, Result]:
    """Runs the blocks in order. A block that takes longer than `limit` seconds ends the page."""
    text = f". {HERE / 'prelude.sh'}\n{script.of_page(page)}"
    (folder / ".script").write_text(text)
    results = {block.name: Result() for block in page}
    # Standard input is a terminal, as for a newcomer: a background job that stops to read it must fail.
    terminal, inside = pty.openpty()
    reports, to_reports = os.pipe()

    space = namespaces() if "DOCUMENTS_NETWORK" in env else []
    with open(folder / ".log", "wb") as log:
        # A shell in the background ignores Ctrl-C, and so would all that it starts.
        heeds = ["env", "--default-signal=INT"]
        child = subprocess.Popen(
            [*space, "setsid", "--ctty", "--wait", *heeds, "bash", str(folder / ".script")],
            cwd=folder,
            env=env | {"DOCUMENTS_REPORTS": str(to_reports)},
            stdin=inside,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(to_reports,),
        )
    os.close(to_reports)
    os.close(inside)
    current: list[str] = []
    last = {"command": "", "since": time.monotonic()}
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            if time.monotonic() - last["since"] > limit:
                if current:
                    results[current[0]].failures.append(f"not done within {limit:.0f} s: {last['command']}")
                kill_below(child.pid)
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    begun = time.monotonic()
    with open(reports, errors="replace") as lines:
        for line in lines:
            kind, _, rest = line.rstrip("\n").partition(" ")
            if kind == "block":
                current[:] = [rest]
                begun = last["since"] = time.monotonic()
            elif kind == "command":
                last["command"] = rest
            elif kind == "failed" and current:
                results[current[0]].failures.append(rest)
            elif kind == "end":
                results[rest].ended = True
                results[rest].seconds = time.monotonic() - begun
    child.wait()
    over.set()
    watcher.join()
    os.close(terminal)
    return results
