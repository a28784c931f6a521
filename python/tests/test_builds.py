import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import layercast
from layercast import _layercast

ROOT = Path(__file__).resolve().parents[2]
DEBUG_BINARY = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "layercast"


def sim(*arguments: str) -> dict:
    command = [DEBUG_BINARY, "sim", *arguments, "--json"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    return without_wall_time(json.loads(run.stdout))


def without_wall_time(summary: dict) -> dict:
    return {name: value for name, value in summary.items() if name != "wall_seconds"}


@pytest.mark.skipif(
    Path(_layercast.__file__).resolve().parent.name == "debug",
    reason="the bindings are a debug build, too; `make interop` compares with a release build",
)
@pytest.mark.parametrize("name", ["quickstart", "lossy"])
def test_debug_and_release_builds_give_the_same_summary(name):
    scenario = f"scenarios/{name}.toml"
    released = layercast.run(ROOT / scenario, seed=5, base_dir=ROOT)
    assert json.dumps(sim(scenario, "--seed", "5")) == json.dumps(without_wall_time(released.summary))


def test_captures_are_the_same_twice_and_with_wire_check(tmp_path):
    def capture(file: str, *more: str) -> str:
        path = tmp_path / file
        sim("scenarios/quickstart.toml", "--pcap", str(path), *more)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    assert capture("one") == capture("two") == capture("checked", "--wire-check")


def test_an_import_without_the_bindings_says_how_to_build_them(tmp_path):
    sources = Path(layercast.__file__).parent
    shutil.copytree(sources, tmp_path / "layercast", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    run = [sys.executable, "-c", "import layercast"]
    done = subprocess.run(
        run, env={"PYTHONPATH": str(tmp_path)}, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    lacks = f"ImportError: {tmp_path}/layercast lacks the compiled module _layercast: `make lab` builds it"
    assert said.startswith(lacks), done.stderr
