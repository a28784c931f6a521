#!/usr/bin/env python3
"""A large file to many receivers on this machine, on disk: `layercast send` and `receive` as processes.

Usage: files_to_many.py LAYERCAST DIR [--megabytes 2000] [--receivers 30] [--rate 100Mbit/s] [--fault WHAT]

WHAT: `receivers` kills two receivers with SIGKILL at 40 % of the first pass and starts them again after 3 s,
`sender` does so with the sender. Every output is compared byte for byte, then deleted. Prints one JSON
object; memory is the most that was resident, processor time user and system of all lives of a process.
"""

import argparse
import filecmp
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

GROUP = "239.77.3.1:7612"
LIMIT = 1200


class Process:
    """A command that may be killed and started again; its lines of JSON go to a file."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.command, self.log = command, log
        self.cpu, self.memory, self.code = 0.0, 0, None
        self.start()

    def start(self) -> None:
        """Another life."""
        with self.log.open("ab") as out:
            self.it = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.code = None

    def reap(self, wait: bool) -> bool:
        """Whether it is over."""
        if self.code is not None:
            return True
        pid, status, used = os.wait4(self.it.pid, 0 if wait else os.WNOHANG)
        if pid == 0:
            return False
        self.cpu += used.ru_utime + used.ru_stime
        self.memory = max(self.memory, used.ru_maxrss)
        self.code = self.it.returncode = os.waitstatus_to_exitcode(status)
        return True

    def kill(self) -> None:
        """Without a word to anybody."""
        self.it.send_signal(signal.SIGKILL)
        self.reap(wait=True)

    def told(self, report: str) -> list[dict]:
        """What it said of one kind."""
        found = []
        for line in self.log.read_bytes().splitlines():
            try:
                it = json.loads(line)
            except ValueError:
                continue
            if isinstance(it, dict) and it.get("report") == report:
                found.append(it)
        return found


def fault(what: str, sender: Process, receivers: list[Process]) -> None:
    """Kills the chosen processes in the middle of the first pass, and starts them again."""
    begun = time.monotonic()
    while time.monotonic() - begun < LIMIT:
        time.sleep(0.5)
        progress = sender.told("progress")
        if progress and (progress[-1]["pass"] > 0 or progress[-1]["packets"] > 0.4 * progress[-1]["of"]):
            break
    killed = [sender] if what == "sender" else receivers[:2]
    for it in killed:
        it.kill()
    time.sleep(3)
    for it in killed:
        it.start()


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("layercast", type=os.path.abspath)
    parser.add_argument("dir", type=Path)
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument("--receivers", type=int, default=30)
    parser.add_argument("--rate", default="100Mbit/s")
    parser.add_argument("--fault", choices=["receivers", "sender"])
    return parser.parse_args()


def random_file(path: Path, megabytes: int) -> None:
    """A file of random octets."""
    with path.open("wb") as out:
        for _ in range(megabytes):
            out.write(os.urandom(1_000_000))


def main() -> int:
    """One run."""
    args = arguments()
    work = args.dir / "files-to-many"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    file = work / "film.bin"
    random_file(file, args.megabytes)
    own = ["--group", GROUP, "--interface", "127.0.0.1", "--json"]
    folders = [work / f"out{number}" for number in range(args.receivers)]
    receivers = [
        Process([args.layercast, "receive", *own, "--out", str(it)], work / f"{it.name}.log")
        for it in folders
    ]
    time.sleep(1)
    begun = time.monotonic()
    count = ["--receivers", str(args.receivers), "--rate", args.rate]
    sender = Process([args.layercast, "send", str(file), *own, *count], work / "send.log")
    if args.fault:
        fault(args.fault, sender, receivers)
    while not sender.reap(wait=False) and time.monotonic() - begun < LIMIT:
        time.sleep(0.05)
    seconds = time.monotonic() - begun
    if sender.code is None:
        sender.kill()
    ended = time.monotonic()
    while not all(it.reap(wait=False) for it in receivers) and time.monotonic() - ended < 30:
        time.sleep(0.05)
    for it in receivers:
        if it.code is None:
            it.kill()
    same = 0
    for folder in folders:
        there = [it for it in folder.glob("*") if it.is_file()]
        same += len(there) == 1 and filecmp.cmp(there[0], file, shallow=False)
        shutil.rmtree(folder)
    summary = sender.told("summary")
    sent = summary[-1]["files"][0] if summary else {}
    got = [it.told("file")[-1:] for it in receivers]
    result = {
        "megabytes": args.megabytes,
        "receivers": args.receivers,
        "rate": args.rate,
        "fault": args.fault,
        "seconds": round(seconds, 1),
        "transfer_seconds": sent.get("seconds"),
        "same": same,
        "codes": [sender.code, sorted({it.code for it in receivers}, key=str)],
        "sent_times": round(sent.get("octets", 0) / (args.megabytes * 1e6), 4),
        "passes": sent.get("passes"),
        "sender": {"cpu_s": round(sender.cpu, 1), "mb": sender.memory // 1000},
        "receiver": {
            "cpu_s": round(sum(it.cpu for it in receivers) / len(receivers), 1),
            "mb_most": max(it.memory for it in receivers) // 1000,
            "rebuilt": sum(it[0]["rebuilt"] for it in got if it) // max(1, len(receivers)),
            "held_before": [it[0]["held_before"] for it in got if it and it[0]["held_before"]],
        },
    }
    print(json.dumps(result))
    good = same == args.receivers and sender.code == 0
    if good:
        shutil.rmtree(work)
    else:
        file.unlink()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
