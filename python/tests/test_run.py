import json
import os
import shutil
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import layercast

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "scenarios" / "quickstart.toml"

TINY = {
    "name": "tiny",
    "duration": "8s",
    "node": [
        {"name": "a", "kind": "host"},
        {"name": "s", "kind": "switch"},
        {"name": "b", "kind": "host"},
    ],
    "link": [
        {"a": "a", "b": "s", "rate": "100 Mbit/s", "queue": "2000 cells"},
        {"a": "s", "b": "b", "rate": "10 Mbit/s", "queue": "2000 cells", "efci": 0.9},
    ],
    "flow": [
        {"name": "canyon", "source": "a", "clip": {"synthetic": "canyon"}, "frame_rate": 24, "start": "1s"}
    ],
    "receiver": [{"name": "wide", "node": "b", "flow": "canyon"}],
}


def without_wall_time(result: layercast.Result) -> str:
    return json.dumps({k: v for k, v in result.summary.items() if k != "wall_seconds"})


def test_a_dict_runs_and_gives_arrays():
    receiver = layercast.run(TINY).receiver("wide")
    assert receiver.level_at(7.0) == 2
    assert receiver.levels.shape[1] == 2
    assert receiver.count("lost").tolist() == [0, 0, 0]
    frames = receiver.count("frames")
    assert frames[0] >= 10 and frames[2] > frames[1] > frames[0]
    assert {"t", "delay_ms", "rate_bps", "cells_BL", "cells_E1", "cells_E2"} <= receiver.series.keys()
    # Two BL frames a second at 24 frames/s and GOP 12, of 240 cells each on average.
    assert 380 < np.median(receiver.series["cells_BL"][2:7]) < 580


def test_the_same_seed_gives_the_same_summary_and_another_one_another():
    one, again, other = (layercast.run(TINY, seed=seed) for seed in (3, 3, 4))
    assert without_wall_time(one) == without_wall_time(again)
    assert without_wall_time(one) != without_wall_time(other)


def test_a_file_and_its_text_are_the_same_scenario():
    from_file = layercast.run(QUICKSTART)
    from_text = layercast.run(QUICKSTART.read_text())
    assert without_wall_time(from_file) == without_wall_time(from_text)


def test_threads_run_in_parallel_with_the_same_results():
    seeds = range(4)
    with ThreadPoolExecutor(2) as pool:
        parallel = list(pool.map(lambda seed: layercast.run(TINY, seed=seed), seeds))
    assert [without_wall_time(r) for r in parallel] == [
        without_wall_time(layercast.run(TINY, seed=seed)) for seed in seeds
    ]


def test_an_impossible_scenario_names_the_field():
    broken = TINY | {"flow": [TINY["flow"][0] | {"source": "nowhere"}]}
    with pytest.raises(layercast.LayercastError, match="nowhere"):
        layercast.run(broken)
    with pytest.raises(layercast.LayercastError, match="duration"):
        layercast.run(TINY | {"duration": "8 parsecs"})


def test_an_internetwork_runs_from_its_file_and_as_a_dict():
    file = ROOT / "scenarios" / "internet" / "star.toml"
    from_file = layercast.run(file, seed=5)
    as_dict = layercast.run(tomllib.loads(file.read_text()), seed=5)
    assert without_wall_time(from_file) == without_wall_time(as_dict)
    assert without_wall_time(from_file) != without_wall_time(layercast.run(file, seed=6))
    summary = from_file.summary
    assert (summary["scenario"], summary["seed"], summary["stopped"]) == ("star", 5, None)
    # Twenty transfers of 1 MB, and a stream.
    assert sum(flow["bytes"] == 1_000_000 and flow["completed"] < 5 for flow in summary["flows"][:20]) == 20
    assert summary["flows"][20]["received"] > 1_000
    assert from_file.receivers == []


def test_applications_of_an_internetwork_are_measured():
    hosts = [{"name": f"{kind}{site}"} for kind in ("user", "server") for site in "ab"]
    station = {"rate": "10 Mbit/s", "stations": [host["name"] for host in hosts]}
    sites = [{"workstations": [f"user{site}"], "servers": [f"server{site}"]} for site in "ab"]
    office = {
        "schema": "internet/1",
        "name": "office",
        "run": {"duration": "1000s"},
        "host": hosts,
        "lan": [{"name": "lan"} | station],
        "workload": {"use": "mah96", "site": sites},
    }
    measured = layercast.run(office).summary["measurements"]
    assert sum(kind["count"] for kind in measured) > 10
    with pytest.raises(layercast.LayercastError, match="no such"):
        layercast.run(office | {"workload": {"use": "no such.toml", "site": sites}})


def test_an_unknown_receiver_lists_those_there_are():
    with pytest.raises(KeyError, match="wide"):
        layercast.run(TINY).receiver("narrow")


def test_probe_reads_a_real_clip_and_refuses_a_foreign_one():
    clip = layercast.probe(ROOT / "target/demo/clip.m1v")
    assert (clip["width"], clip["height"], clip["pictures"]["I"]) == (1280, 720, 84)
    with pytest.raises(layercast.LayercastError):
        layercast.probe(QUICKSTART)
    with pytest.raises(OSError):
        layercast.probe("no such file")


def test_a_path_or_a_seed_that_cannot_be_is_named():
    with pytest.raises(ValueError, match=r"path is '\\ud800'"):
        layercast.probe("\ud800")
    for seed in (-1, 1 << 64, 0.5):
        with pytest.raises(ValueError, match=f"seed is {seed}"):
            layercast.run(TINY, seed=seed)


def test_probe_reads_a_file_whose_name_is_no_utf_8(tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/clip\xe9.m1v")
    shutil.copy(ROOT / "target/demo/clip.m1v", path)
    assert layercast.probe(path)["codec"] == layercast.probe(ROOT / "target/demo/clip.m1v")["codec"]
