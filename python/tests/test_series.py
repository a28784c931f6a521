"""The command `layercast-lab series`."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from typer.testing import CliRunner

from layercast_lab.cli import app
from layercast_lab.series import COLUMNS, choose, draw, read

RUNNER = CliRunner()


def points() -> pl.DataFrame:
    """Twelve flows, the last with most, and a queue that marks beside one that is always empty."""
    flow = [
        {
            "at": t / 10,
            "kind": "flow",
            "name": f"f{n}",
            "rate_bps": 1e6 * n,
            "delivered": t * n,
            "cwnd": 1000 * t,
        }
        for n in range(1, 13)
        for t in range(20)
    ]
    queue = [
        {
            "at": t / 10,
            "kind": "queue",
            "name": name,
            "rate_bps": 1e6,
            "waiting": t * k,
            "marked": t * k,
            "dropped": 0,
        }
        for name, k in (("busy", 1), ("empty", 0))
        for t in range(20)
    ]
    return pl.DataFrame([dict.fromkeys(COLUMNS) | row for row in flow + queue], schema=COLUMNS)


def test_the_largest_flows_and_the_longest_queues_are_chosen() -> None:
    names = set(choose(points(), [])["name"])
    assert names == {f"f{n}" for n in range(5, 13)} | {"busy"}
    assert set(choose(points(), ["f1", "e*"])["name"]) == {"f1", "empty"}


def test_a_picture_has_a_panel_for_each_value_there_is() -> None:
    labels = [axis.get_ylabel() for axis in draw(choose(points(), [])).axes]
    assert labels == ["window (kB)", "rate (Mbit/s)", "waiting", "sent (Mbit/s)", "marked so far"]
    # Files of before have no such column.
    down = choose(points(), []).with_columns(down=pl.when(pl.col("kind") == "queue").then(7))
    assert [axis.get_ylabel() for axis in draw(down).axes] == [*labels, "lost, link down"]


def test_a_picture_is_written(tmp_path: Path) -> None:
    points().write_parquet(tmp_path / "series.parquet")
    assert read(tmp_path).height == read(tmp_path / "series.parquet").height == 280
    out = tmp_path / "x.png"
    found = RUNNER.invoke(app, ["series", str(tmp_path), "--out", str(out), "--to", "1"])
    assert found.exit_code == 0, found.output
    assert out.stat().st_size > 1000 and out.with_suffix(".svg").exists()


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    points().write_parquet(tmp_path / "series.parquet")
    assert RUNNER.invoke(app, ["series", str(tmp_path), "--out", "x.pdf"]).exit_code == 2
    assert RUNNER.invoke(app, ["series", str(tmp_path / "none.parquet")]).exit_code == 1
    found = RUNNER.invoke(app, ["series", str(tmp_path), "--name", "nobody"])
    assert found.exit_code == 1


def test_a_table_of_something_else_is_refused(tmp_path: Path) -> None:
    points().drop("cwnd").write_parquet(tmp_path / "other.parquet")
    found = RUNNER.invoke(app, ["series", str(tmp_path / "other.parquet")])
    assert (found.exit_code, found.exception.__class__) == (1, SystemExit)
    assert "no column cwnd of type Int64" in found.output
    points().with_columns(pl.col("at").cast(pl.String)).write_parquet(tmp_path / "other.parquet")
    found = RUNNER.invoke(app, ["series", str(tmp_path / "other.parquet")])
    assert (found.exit_code, found.exception.__class__) == (1, SystemExit)
