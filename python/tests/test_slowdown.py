"""The command `layercast-lab slowdown`."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from typer.testing import CliRunner

from layercast_lab.cli import app
from layercast_lab.slowdown import curve

RUNNER = CliRunner()


def test_groups_have_the_percentiles_of_their_transfers() -> None:
    sizes = [*range(1, 101), *range(1001, 1101)]
    slow = [float(n) for n in range(1, 101)] * 2
    rows = curve(pl.DataFrame({"bytes": sizes, "slowdown": slow}).sample(fraction=1.0, shuffle=True, seed=1))
    assert rows["transfers"].to_list() == [20] * 10
    assert rows["bytes"].to_list()[:2] == [10.5, 30.5]
    # Of 1 to 20: at least half, 95 % and 99 % of them.
    assert [rows[f"p{percent}"][0] for percent in (50, 95, 99)] == [11.0, 20.0, 20.0]


def test_transfers_that_are_not_complete_are_left_out() -> None:
    rows = curve(pl.DataFrame({"bytes": [5, 6], "slowdown": [2.0, None]}))
    assert rows.rows() == [(0, 5.0, 1, 2.0, 2.0, 2.0)]


def test_a_picture_is_written(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    rows = pl.DataFrame({"bytes": [10, 1000] * 30, "slowdown": [1.5, 3.0] * 30})
    rows.write_parquet(run / "transfers.parquet")
    out = tmp_path / "x.png"
    found = RUNNER.invoke(app, ["slowdown", str(run), "--out", str(out)])
    assert found.exit_code == 0, found.output
    assert out.stat().st_size > 1000 and out.with_suffix(".svg").exists()


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    assert RUNNER.invoke(app, ["slowdown", str(tmp_path), "--out", "x.pdf"]).exit_code == 2
    assert RUNNER.invoke(app, ["slowdown", str(tmp_path)]).exit_code == 1
    pl.DataFrame({"bytes": ["a"], "slowdown": [1.0]}).write_parquet(tmp_path / "transfers.parquet")
    found = RUNNER.invoke(app, ["slowdown", str(tmp_path)])
    assert (found.exit_code, found.exception.__class__) == (1, SystemExit), found.output
    # No transfer is complete.
    none = pl.DataFrame(
        {"bytes": [1], "slowdown": [None]}, schema={"bytes": pl.Int64, "slowdown": pl.Float64}
    )
    none.write_parquet(tmp_path / "transfers.parquet")
    found = RUNNER.invoke(app, ["slowdown", str(tmp_path), "--out", str(tmp_path / "x.png")])
    assert (found.exit_code, found.exception.__class__) == (1, SystemExit), found.output
    assert "no transfer" in found.output
