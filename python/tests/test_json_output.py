"""What commands print with --json is what their JSON Schemas say, without unknown keys."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import outputs
import pytest

ROOT = Path(__file__).parents[2]
CLIP = ROOT / "target/demo/clip.m1v"
RENDITIONS = ROOT / "target/demo/renditions.ts"
TREE = """
[[branch]]
name = "wan"
loss = 0.01
hops = 12

[[branch]]
name = "office"
parent = "wan"
loss = 0.001
count = 200
"""
# Quick runs of commands; {out} is an empty folder with the files that they read.
RUNS = {
    "probe": ("probe", "probe {clip} --json"),
    "classes": ("probe-classes", "probe --classes fuzz/corpus/ts/mpeg2 --json"),
    "overload": ("overload", "overload {renditions} --copies 5 --watch 0 --json"),
    "profile": ("explain", "explain conferencing --json"),
    "rate": ("explain-rate", "explain 2Mbit/s --json"),
    "data units": ("explain-units", "explain 50x160 --factor 2:1 --json"),
    "loops": ("ilp-explain", "ilp explain 5/10,deflate,chacha20 --machine ss2 --json"),
    "constants": ("ilp-calibrate", "ilp calibrate --force --json"),
    "same octets": ("ilp-verify", "ilp verify --cases 20 --json"),
    "measured loops": ("ilp-measure", "ilp measure --size 64 --runs 1 --json"),
    "host with a video": ("nif-jitter", "nif jitter --transfers 1 --frames 20 --json"),
    "host with a program": (
        "nif-jitter",
        "nif jitter --network atm --scheduling deadline --program --frames 20 --json",
    ),
    "two hosts": ("nif-transfer", "nif transfer --duration 1s --json"),
    "video beside transfers": ("nif-sockets", "nif sockets --frames 10 --period 10ms --service 1ms --json"),
    "two clients": ("nif-buffers", "nif buffers --hog --json"),
    "cells": ("prepacketize", "prepacketize fuzz/corpus/ts/mpeg2 {out}/a.cells --json"),
    "filter": ("filter", "filter --low-pass 10 {clip} -o {out}/soft.m1v --json"),
    "live flows": ("sim", "sim scenarios/quickstart.toml --json"),
    "faults": ("sim", "sim scenarios/lossy.toml --json"),
    "requests and answers": ("sim", "sim scenarios/fec.toml --duration 5s --json"),
    "internetwork": ("sim-internet", "sim scenarios/internet/star.toml --duration 1s --json"),
    "dumbbell": ("sim-internet", "sim scenarios/internet/dumbbell.toml --duration 1s --json"),
    "generators": ("sim-internet", "sim scenarios/internet/web-search.toml --duration 5ms --json"),
    "backbone": ("sim-internet", "sim scenarios/internet/vbr.toml --duration 100ms --json"),
    "XTP": ("sim-internet", "sim scenarios/internet/xtp-multicast.toml --json"),
    "seeds": ("sim-seeds", "sim scenarios/internet/star.toml --duration 1s --seeds 1..2 --out {out} --json"),
    "reliable multicast": ("sim-group", "sim scenarios/group/star.toml --json"),
    "FRM": ("sim-group", "sim scenarios/group/frm.toml --json"),
    "places of parities": ("fec-plan", "fec plan {out}/tree.toml --json"),
    "estimate": ("send", "send scenarios/quickstart.toml --to 127.0.0.1 --dry-run --receivers 3 --json"),
    "distributions": ("workload-list", "workload list --json"),
    "samples": ("workload-compare", "workload compare http.reply -n 500 --json"),
    "workload": ("workload-offered", "workload offered --duration 60s --json"),
    "experiment": ("lab-reproduce", "lab reproduce fully-reliable-multicast/sanity --out {out} --json"),
    "experiments": ("lab-list", "lab list --json"),
}


def words_of(command: str, line: str, out: Path) -> list[str]:
    """A command line of RUNS as words."""
    words = line.format(clip=CLIP, renditions=RENDITIONS, out=out).split()
    if words[0] == "lab":
        return [sys.executable, "-m", "layercast_lab.cli", *words[1:]]
    return [command, *words]


@pytest.mark.parametrize("run", RUNS)
def test_output_follows_its_schema(command, run, tmp_path):
    name, line = RUNS[run]
    if ("{clip}" in line and not CLIP.exists()) or ("{renditions}" in line and not RENDITIONS.exists()):
        pytest.skip("make clips")
    (tmp_path / "tree.toml").write_text(TREE)
    done = subprocess.run(words_of(command, line, tmp_path), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    outputs.validate(name, done.stdout)
    if not line.startswith("lab"):
        assert outputs.output_of(line.split(), done.stdout) == name


class Running:
    """A command that runs until it is stopped; its lines are validated."""

    def __init__(self, name: str, *words: object):
        self.name = name
        self.process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self.first = self.process.stdout.readline()
        self.ready = json.loads(self.first)

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> set[str]:
        """Stops it as Ctrl-C does; returns the reports that it printed."""
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def end(self) -> set[str]:
        """Waits for its end; returns the reports that it printed."""
        printed, _ = self.process.communicate(timeout=60)
        return {value["report"] for value in outputs.validate(self.name, self.first + printed)}


@pytest.mark.skipif(not CLIP.exists(), reason="make clips")
@pytest.mark.parametrize("options", [[], ["--protect-base", "6+2"]], ids=["plain", "parities"])
def test_live_flows_follow_their_schemas(command, tmp_path, options):
    serve = [command, "serve", CLIP, "--loop", "--listen", "127.0.0.1:0", "--json", *options]
    with Running("node", *serve) as node:
        url = node.ready["url"]
        out = ["--out", tmp_path / "out.m1v", "--for", "3s", "--json"]
        with Running("join", command, "join", url, *out) as join:
            time.sleep(2)
            for words in (["stats", url], ["join", url, "--list"]):
                printed = subprocess.check_output([command, *words, "--json"], text=True)
                assert outputs.validate("stats", printed)[0]["flows"]
                assert outputs.output_of(words, printed) == "stats"
            assert join.end() >= {"event", "receiver", "summary"}
        assert node.stop() >= {"ready", "event", "node", "summary"}


def test_file_transfers_follow_their_schemas(command, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / name).write_bytes(bytes(200_000))
    (folder / "link").symlink_to("one")
    (tmp_path / "in").mkdir()
    there = [command, "receive", "--listen", "127.0.0.1:0", "--out", tmp_path / "in", "--json"]
    with Running("receive", *there) as receive:
        send = [command, "send", folder, "--to", receive.ready["address"], "--rate", "20Mbit/s", "--json"]
        done = subprocess.run(list(map(str, send)), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        reports = {value["report"] for value in outputs.validate("send", done.stdout)}
        assert reports >= {"skipped", "reading", "opened", "receiver", "summary"}
        assert receive.end() >= {"ready", "listed", "joined", "file", "summary"}


def test_tunnels_paths_and_daemons_follow_their_schemas(command, tmp_path):
    listen = ["--listen", "127.0.0.1:0", "--json"]
    edge = ["fec", "edge", "--peer", "127.0.0.1:9", "--in", "127.0.0.1:0", *listen]
    path = ["emulate", "--to", "127.0.0.1:9", *listen]
    daemon = ["xtpd", tmp_path / "xtpd", *listen]
    with (
        Running("fec-edge", command, *edge) as fec,
        Running("emulate-path", command, *path) as relay,
        Running("xtpd", command, *daemon) as xtpd,
    ):
        words = ["stats", f"xtp+daemon://{tmp_path}/xtpd", "--json"]
        printed = subprocess.check_output([command, *words], text=True)
        outputs.validate(outputs.output_of(words, printed), printed)
        time.sleep(1.5)
        assert fec.stop() >= {"ready", "edge", "summary"}
        assert relay.stop() >= {"ready", "path", "summary"}
        assert xtpd.stop() >= {"ready", "summary"}


def test_an_unknown_or_missing_key_is_refused(command, tmp_path):
    tree = tmp_path / "tree.toml"
    tree.write_text(TREE)
    plan = json.loads(subprocess.check_output([command, "fec", "plan", tree, "--json"], text=True))
    outputs.validate("fec-plan", json.dumps(plan))
    less = {key: plan[key] for key in plan if key != "links"}
    for changed in (plan | {"news": 1}, less, plan | {"links": "3"}):
        with pytest.raises(AssertionError):
            outputs.validate("fec-plan", json.dumps(changed))
    with pytest.raises(AssertionError):
        outputs.validate("join", '{"report": "node"}')


def test_every_schema_is_valid_and_described():
    assert len(outputs.names()) > 25
    for name in outputs.names():
        outputs.validator(name, None)
        schema = json.loads((outputs.SCHEMAS / f"{name}{outputs.SUFFIX}").read_text())
        bare = [key for key, it in properties(schema) if not it.get("description") and "const" not in it]
        assert not bare, f"{name}: {bare}"


def properties(value: object) -> list[tuple[str, dict]]:
    """All keys in a schema with their schemas."""
    if isinstance(value, list):
        return [found for part in value for found in properties(part)]
    if not isinstance(value, dict):
        return []
    own = list(value["properties"].items()) if isinstance(value.get("properties"), dict) else []
    return own + [found for part in value.values() for found in properties(part)]
