#!/usr/bin/env python3
"""One file to 1, 5 and 20 receivers by `layercast send`, uftp and NORM, each host a network namespace.

Usage: multicast.py LAYERCAST OUT_DIR [MEGABYTES] [--receivers 1,5,20] [--loss 0,1,5] [--programs uftp,norm]

Needs root, ip, ethtool, nft, uftp and libnorm. Writes OUT_DIR/multicast.json, in which runs of other calls
with as many megabytes are kept; docs/src/results/bench-multicast.md says what it means.

Hosts hang on one bridge; each receiver drops a share of the datagrams that come in, independently, by a
rule of nftables. Segmentation is done before the link, so that what is dropped are single packets for
all others.
"""

import argparse
import filecmp
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GROUP, PORT, RATE = "239.77.2.1", 7611, 100_000_000
RECEIVERS, LOSSES = (1, 5, 20), (0, 1, 5)
PROGRAMS = ("layercast", "uftp", "norm")
LIMIT = 300
BRIDGE, PREFIX = "lcmbr", "lcm"


def run(*command: str) -> None:
    """A command that has to succeed."""
    subprocess.run(command, check=True, capture_output=True)


def inside(host: int) -> list[str]:
    """In front of a command: on this host."""
    return ["ip", "netns", "exec", f"{PREFIX}{host}"]


class Hosts:
    """A sender, host 0, and receivers on a bridge."""

    def __init__(self, receivers: int, loss: int) -> None:
        self.count, self.loss = receivers + 1, loss

    def __enter__(self) -> "Hosts":
        self.remove()
        run("ip", "link", "add", BRIDGE, "type", "bridge", "mcast_snooping", "0")
        run("ip", "link", "set", BRIDGE, "up")
        for host in range(self.count):
            name, outer = f"{PREFIX}{host}", f"{PREFIX}v{host}"
            run("ip", "netns", "add", name)
            run("ip", "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "link", "set", outer, "master", BRIDGE, "up")
            for command in (
                f"ip addr add 10.77.0.{host + 1}/24 dev eth0",
                "ip link set lo up",
                "ip link set eth0 up",
                "ip route add 224.0.0.0/4 dev eth0",
                "ethtool -K eth0 tx-udp-segmentation off gso off gro off",
            ):
                run(*inside(host), *command.split())
            if host and self.loss:
                rule = f"meta l4proto udp numgen random mod 100 < {self.loss} drop"
                table = f"table ip l {{ chain c {{ type filter hook input priority 0; {rule}; }}; }}"
                subprocess.run([*inside(host), "nft", "-f", "-"], input=table, text=True, check=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Whatever is left, also of a run that was killed."""
        for host in range(max(RECEIVERS) + 1):
            subprocess.run(["ip", "netns", "del", f"{PREFIX}{host}"], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True, check=False)

    def sent(self) -> int:
        """Octets that left the sender, headers of Ethernet and IP among them."""
        path = "/sys/class/net/eth0/statistics/tx_bytes"
        return int(subprocess.check_output([*inside(0), "cat", path]))


def commands(program: str, layercast: str, file: Path, out: list[Path]) -> tuple[list, list[list]]:
    """The command of the sender, and those of the receivers."""
    here = Path(__file__).parent
    addresses = [f"10.77.0.{host + 1}" for host in range(1, len(out) + 1)]
    if program == "layercast":
        group = ["--group", f"{GROUP}:{PORT}", "--json"]
        send = [layercast, "send", file, *group, "--receivers", len(out), "--rate", f"{RATE // 10**6}Mbit/s"]
        return send, [[layercast, "receive", *group, "--out", it] for it in out]
    if program == "uftp":
        own = ["-M", GROUP, "-p", PORT, "-I", "eth0"]
        send = ["uftp", "-R", RATE // 1000, *own, "-P", "239.77.2.2", "-b", 1400, "-B", 4 << 20]
        send += ["-H", ",".join(addresses), file]
        return send, [["uftpd", "-d", *own, "-B", 4 << 20, "-D", it] for it in out]
    ids = [str(host + 1) for host in range(1, len(out) + 1)]
    norm = [sys.executable, here / "norm_file.py"]
    own = [GROUP, PORT, "eth0"]
    send = [*norm, "send", *own, file, RATE, ",".join(ids)]
    return send, [[*norm, "receive", *own, it, host] for it, host in zip(out, ids, strict=True)]


def whole(file: Path, folder: Path) -> bool:
    """Whether the file is there and the same."""
    return any(filecmp.cmp(file, it, shallow=False) for it in folder.rglob("*") if it.is_file())


def measure(program: str, layercast: str, file: Path, receivers: int, loss: int) -> dict:
    """One run."""
    with tempfile.TemporaryDirectory(dir=file.parent) as work, Hosts(receivers, loss) as hosts:
        out = [Path(work) / str(host) for host in range(1, receivers + 1)]
        for it in out:
            it.mkdir()
        send, receive = commands(program, layercast, file, out)
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        running = [
            subprocess.Popen([*inside(host), *map(str, command)], **quiet)
            for host, command in enumerate(receive, 1)
        ]
        time.sleep(1)
        octets, begun = hosts.sent(), time.monotonic()
        sender = subprocess.Popen([*inside(0), *map(str, send)], **quiet)
        try:
            code = sender.wait(LIMIT)
        except subprocess.TimeoutExpired:
            sender.kill()
            code = sender.wait()
        seconds, octets = time.monotonic() - begun, hosts.sent() - octets
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        sender_cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        for it in running:
            it.terminate()
        for it in running:
            it.wait()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {
            "program": program,
            "receivers": receivers,
            "loss_percent": loss,
            "code": code,
            "complete": sum(whole(file, it) for it in out),
            "seconds": round(seconds, 2),
            "octets": octets,
            "sender_cpu": round(sender_cpu, 2),
            "cpu": round(cpu, 2),
        }


def arguments() -> argparse.Namespace:
    """What was asked for."""

    def numbers(text: str) -> list[int]:
        return [int(it) for it in text.split(",")]

    parser = argparse.ArgumentParser()
    parser.add_argument("layercast", type=os.path.abspath)
    parser.add_argument("out", type=Path)
    parser.add_argument("megabytes", type=int, nargs="?", default=500)
    parser.add_argument("--receivers", type=numbers, default=RECEIVERS)
    parser.add_argument("--loss", type=numbers, default=LOSSES)
    parser.add_argument("--programs", type=lambda text: text.split(","), default=PROGRAMS)
    return parser.parse_args()


def keep(path: Path, megabytes: int, run: dict) -> None:
    """Puts a run into the results, in place of the one of the same kind."""
    told = json.loads(path.read_text()) if path.exists() else {}
    runs = told["runs"] if told.get("megabytes") == megabytes else []
    kind = ("program", "receivers", "loss_percent")
    others = [it for it in runs if any(it[key] != run[key] for key in kind)]
    path.write_text(json.dumps({"megabytes": megabytes, "runs": [*others, run]}, indent=1))


def main() -> None:
    """All runs."""
    args = arguments()
    if shutil.which("uftp") is None:
        raise SystemExit("uftp is not installed: apt-get install uftp libnorm1 nftables ethtool")
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as work:
        file = Path(work) / "file"
        file.write_bytes(os.urandom(args.megabytes * 1_000_000))
        for receivers in args.receivers:
            for loss in args.loss:
                for program in args.programs:
                    it = measure(program, args.layercast, file, receivers, loss)
                    print(json.dumps(it), flush=True)
                    keep(args.out / "multicast.json", args.megabytes, it)


if __name__ == "__main__":
    main()
