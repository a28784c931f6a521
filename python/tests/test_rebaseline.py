"""The comparison of two builds over many seeds (scripts/rebaseline.py)."""

from __future__ import annotations

import importlib.util
import json
import random
import stat
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("rebaseline", ROOT / "scripts" / "rebaseline.py")
rebaseline = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rebaseline)

SEEDS = range(1, 21)


def build(of: str, shift: float) -> dict[tuple[str, str], dict[str, float]]:
    """Runs with figures of noise, one of them moved."""
    noise = random.Random(of)
    return {
        ("film", str(seed)): {"same": 7.0, "noise": noise.gauss(), "moved": shift + noise.gauss()}
        for seed in SEEDS
    }


def test_figures_bear_the_names_of_what_they_are_of() -> None:
    report = {"seed": 3, "events": 9, "ok": True, "flows": [{"name": "film", "bytes": 5, "levels": [1, 2]}]}
    assert dict(rebaseline.figures(report)) == {
        "flows[film].bytes": 5.0,
        "flows[film].levels[0]": 1.0,
        "flows[film].levels[1]": 2.0,
    }


def test_a_shift_is_found_and_noise_is_not() -> None:
    rows = rebaseline.differences(build("old", 0.0), build("new", 3.0))
    assert [row["figure"] for row in rows] == ["moved", "noise"], "what is the same is no difference"
    assert [row["holm"] < rebaseline.SIGNIFICANT for row in rows] == [True, False]
    assert "| film | `moved` | 20 |" in rebaseline.page(rows, 20)


def test_holm_multiplies_and_never_falls() -> None:
    assert rebaseline.holm([0.01, 0.02, 0.03, 0.5]) == pytest.approx([0.04, 0.06, 0.06, 0.5])


def test_runs_continue_where_they_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "layercast"
    program.write_text(
        f'#!/bin/sh\necho x >> {tmp_path}/calls\necho \'{{"flows": [{{"name": "f", "bytes": 1}}]}}\'\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    arguments = [
        "run",
        "--layercast",
        str(program),
        "--out",
        str(tmp_path / "out"),
        "--only",
        "fec",
        "--seeds",
    ]
    for seeds, calls in (("2", 2), ("3", 3)):
        given = rebaseline.parser().parse_args([*arguments, seeds])
        assert given.function(given) == 0
        assert len((tmp_path / "calls").read_text().splitlines()) == calls
    found = json.loads((tmp_path / "out" / "fec" / "3.json").read_text())
    assert found == {"flows[f].bytes": 1.0}
    given = rebaseline.parser().parse_args(["compare", str(tmp_path / "out"), str(tmp_path / "out")])
    assert given.function(given) == 0
    assert "0 figures differ" in capsys.readouterr().out


def test_folders_without_a_common_run_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = rebaseline.parser().parse_args(["compare", str(tmp_path), str(tmp_path)])
    assert given.function(given) == 2
    assert "`run` makes them" in capsys.readouterr().err
