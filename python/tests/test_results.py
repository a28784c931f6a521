"""The files of `results/`, what `reproduce --json` gives, and the pages made of both agree."""

import json
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from layercast_lab.experiment import Report, experiments
from layercast_lab.experiment import Row as Told
from layercast_lab.results import bench, pages, record, schema

ROOT = Path(__file__).parents[2]
RESULTS, TEXTS, PAGES = ROOT / "results", ROOT / "results/pages", ROOT / "docs/src/results"
RUN = {
    "command": "layercast-lab reproduce a/b",
    "date": "2026-11-26",
    "commit": "abcdef123",
    "machine": "A",
    "cores": 2,
    "length": "default",
}
ROW = {
    "id": "e1",
    "name": "E1",
    "reported": "4",
    "source": "paper",
    "measured": "5 ms",
    "unit": "ms",
    "value": 5.0,
    "tolerance": "10 %",
    "verdict": "differs",
}


def group(**changes) -> str:
    """The text of a file with one experiment and one row."""
    experiment = {"id": "a/b", "title": "T", "paper": "P", "run": RUN, "verdict": "differs", "rows": [ROW]}
    return json.dumps({"group": "a", "title": "A", "experiments": [experiment | changes], "format": 1})


@pytest.fixture(scope="module")
def stored() -> dict[str, schema.Group]:
    return schema.load(RESULTS)


def test_the_pages_are_what_the_generator_makes_of_the_results(stored):
    made = pages.pages(stored, TEXTS)
    for name, text in made.items():
        assert (PAGES / name).read_text() == text, f"{name} is out of date: run `make tables`"
    table = (RESULTS / "rows.csv").read_text()
    assert table == pages.rows(stored), "results/rows.csv is out of date: run `make tables`"
    for path in PAGES.glob("*.md"):
        assert path.name in made, f"{path} is not made from results/pages"


def test_every_figure_has_a_command_and_a_date(stored):
    for group_of in stored.values():
        for one in [*group_of.experiments, *group_of.tables]:
            assert one.run.command and date.fromisoformat(one.run.date) <= date.today(), one.id
    shown = "".join(path.read_text() for path in PAGES.glob("*.md"))
    tables = sum(len(g.tables) for g in stored.values())
    assert len(re.findall(r"`: \d{4}-\d\d-\d\d, commit ", shown)) >= tables


def test_stored_experiments_exist_and_their_verdict_is_that_of_their_rows(stored):
    known = experiments()
    for name, group_of in stored.items():
        for one in group_of.experiments:
            assert one.id in known and one.id.startswith(f"{name}/")
            rows = [Told(r.name, r.reported, r.measured, r.tolerance, r.verdict) for r in one.rows]
            assert one.verdict == Report(one.id, one.title, rows).verdict, one.id


def test_the_index_names_every_experiment(stored):
    text = (PAGES / "index.md").read_text()
    summaries = [summary for g in stored.values() for summary in g.summaries]
    for id in experiments():
        summarised = any(pages.matches(id, summary) for summary in summaries)
        assert summarised or re.search(rf"^\| \[?{re.escape(id)}\b", text, re.MULTILINE), id


def test_what_reproduce_prints_becomes_a_row(tmp_path):
    arguments = ["reproduce", "fully-reliable-multicast/sanity", "--json", "--out", str(tmp_path)]
    printed = subprocess.run(
        [sys.executable, "-m", "layercast_lab.cli", *arguments], capture_output=True, text=True, check=True
    )
    report = json.loads(printed.stdout)
    assert report["rows"]
    for told in report["rows"]:
        assert set(told) == record.row_fields()
    rows = record.rows_of(report, experiments()[report["id"]].paper)
    assert [row.name for row in rows] == [told["name"] for told in report["rows"]]
    assert schema.parse(group(id=report["id"], rows=[vars(row) for row in rows]), "a.json")


def test_a_recorded_row_keeps_its_cause_only_while_it_differs():
    before = schema.parse(group(rows=[ROW | {"cause": "because"}]), "a.json").experiments[0]
    told = {"name": "E1", "reported": "4", "measured": "5 ms", "tolerance": "10 %", "note": ""}
    for verdict, cause in (("differs", "because"), ("reproduced", ""), ("arithmetic", "")):
        row = record.rows_of({"id": "a/b", "rows": [told | {"verdict": verdict}]}, "P", before)[0]
        assert (row.cause, row.value, row.unit, row.source) == (cause, 5.0, "ms", "paper")


@pytest.mark.parametrize(
    "id, paper, reported, source",
    [
        ("mets/e2", "Campbell, Coulson 1997", "15 %", "paper"),
        ("mets/e2", "Campbell, Coulson 1997", "model: 10 %", "calibration"),
        ("mets/e2", "Campbell, Coulson 1997", "guaranteed", "decision"),
        ("mets/e5c", "Campbell, Coulson 1997", "level 2", "decision"),
        ("packet-level-fec/f1", "C. Huitema 1996, figure 1", "curves only", "restored"),
        ("packet-level-fec/s1", "C. Huitema 1996, figures 1 to 4 simulated", "model B", "restored"),
        ("where-to-use-fec/x3", "J. Nonnenmacher", "E(T) 2.049", "restored"),
        ("sim/scale", "No paper: ten times the hosts", "13 times", "decision"),
        ("tcp/dumbbell", "ns-2.35 and ns-3.37", "97 Mbit/s", "peer"),
    ],
)
def test_an_expected_value_has_a_kind_of_source(id, paper, reported, source):
    assert record.source_of(id, paper, reported) == source
    assert record.source_of(id, paper, reported, "the model's times were fitted to this") == "calibration"


@pytest.mark.parametrize(
    "text, error",
    [
        (group(run=RUN | {"command": ""}), "no command"),
        (group(run=RUN | {"date": "yesterday"}), "the date 'yesterday' is not YYYY-MM-DD"),
        (group(run=RUN | {"length": "long"}), "the length 'long'"),
        (group(rows=[ROW, ROW]), "two rows have the same id"),
        (group(rows=[ROW | {"verdict": "fine"}]), "unknown verdict 'fine'"),
        (group(rows=[ROW | {"source": "hearsay"}]), "unknown source 'hearsay'"),
        (group(rows=[ROW | {"verdict": "reproduced", "cause": "x"}]), "a cause, but nothing differs"),
        (group(rows=[ROW | {"colour": "red"}]), "unknown field 'colour'"),
        ('{"group": "a", "title": "A", "format": 2}', "format 2, not 1"),
        ("[]", "an object is expected"),
        ("{", "a.json"),
    ],
)
def test_a_file_without_the_form_is_refused(text, error):
    with pytest.raises(schema.ResultError, match=re.escape(error)):
        schema.parse(text, "a.json")


def test_a_page_shows_measured_values_causes_and_what_is_missing(tmp_path):
    table = {"id": "bench", "title": "B", "run": RUN, "columns": ["what", "time"], "units": [None, "s"]}
    data = json.loads(group(rows=[ROW | {"cause": "a | slow clock"}]))
    data["tables"] = [table | {"rows": [["x", None]]}]
    (tmp_path / "p.md").write_text("# P\n\n## A b\n\n{{a/b}}\n\n## B\n\n{{bench}}\n")
    groups = {"a": schema.parse(json.dumps(data), "a.json")}
    text = pages.pages(groups, tmp_path)["p.md"]
    assert "`layercast-lab reproduce a/b`: 2026-11-26, commit abcdef123; A, 2 cores." in text
    assert "| E1 | 4 | 5 ms | 10 % | differs |" in text and "- *E1*: a | slow clock" in text
    assert "| what | time (s) |" in text and "| x | not measured |" in text
    (tmp_path / "p.md").write_text("{{a/c}}\n")
    with pytest.raises(schema.ResultError, match="no results of 'a/c'"):
        pages.pages(groups, tmp_path)
    (tmp_path / "p.md").write_text("{{a/b}}\n")
    with pytest.raises(schema.ResultError, match="no page shows bench"):
        pages.pages(groups, tmp_path)


def test_citations_of_specifications_are_links():
    assert pages.cells("specs/mets.md 2.11 (C)") == "| [specs/mets.md 2.11](../specs/mets.md) (C) |"
    assert pages.linked("[specs/mets.md](../specs/mets.md)") == "[specs/mets.md](../specs/mets.md)"


def test_runs_that_differ_in_the_load_alone_are_told_together(tmp_path):
    data = json.loads(group(run=RUN | {"conditions": "debug build, load 3 at the start"}))
    other = data["experiments"][0] | {"id": "a/c"}
    other["run"] = RUN | {
        "command": "layercast-lab reproduce a/c",
        "conditions": "debug build, load 9 at the start",
    }
    data["experiments"].append(other)
    (tmp_path / "p.md").write_text("{{a/b, a/c}}\n")
    text = pages.pages({"a": schema.parse(json.dumps(data), "a.json")}, tmp_path)["p.md"]
    assert "`layercast-lab reproduce a/b` and `layercast-lab reproduce a/c`: 2026-11-26" in text
    assert "debug build, load 3 to 9 at the start." in text and text.count("2026-11-26") == 1


def test_the_output_of_benchmarks_becomes_tables(tmp_path):
    results, output = tmp_path / "results", tmp_path / "bench"
    results.mkdir()
    output.mkdir()
    codes = [{"scheme": "memcpy", "n": 0, "m": 0, "encode": 121.0, "decode": None}]
    codes += [{"scheme": "xor-shift", "n": 7, "m": 1, "encode": 62.04, "decode": 28.0}]
    codes += [{"scheme": "isal-xor", "n": 7, "m": 1, "encode": 107.2}]
    (output / "fec.json").write_text(json.dumps(codes))
    bulk = [{"mbit_s": m, "cpu_s_per_gb": 0.6} for m in (21.0, 23.4, 22.9)]
    xtp = {
        "loopback": {"xtp": {"runs": bulk}, "srt-file": {"runs": bulk[:1]}},
        "messages": {"xtp": {"runs": [{"p50_us": 74.0, "p99_us": 135.0}]}},
    }
    (output / "xtp.json").write_text(json.dumps({"rounds": 3, **xtp}))
    one = {"cpu_seconds_of_all": [0.2, 0.25, 0.21], "packet_hops": 5_030_000, "goodput_mbps": 97.0}
    one |= {"packet_hops_per_cpu_second": 24_300_000, "layercast_times_as_fast": 1.0, "wall_seconds": 0.25}
    slow = one | {"layercast_times_as_fast": 2.19, "wall_seconds": 0.5}
    growth = {"10": {"layercast": one}, "100": {"layercast": slow, "htsim": slow}}
    (output / "dumbbell.json").write_text(json.dumps({"layercast": one, "htsim": slow, "growth": growth}))

    kept = bench.record(results, output, "idle")
    rows = {table.id: table.rows for g in schema.load(results).values() for table in g.tables}
    assert sorted(rows) == sorted(kept)
    assert rows["fec/encode"] == [
        ["XOR and shift", "62", None, None, None],
        ["ISA-L, XOR", "107", None, None, None],
    ]
    assert rows["fec/decode"] == [["XOR and shift", "28", None, None, None]]
    assert rows["transports/loopback"][0] == [
        "XTP, reliable",
        "23 (21-23)",
        "0.60 (0.60-0.60)",
        "74",
        "135",
    ]
    assert rows["transports/loopback"][1] == ["SRT, file", "21", "0.60", None, None]
    assert rows["simulator/dumbbell"][1] == [
        "htsim",
        "0.210 (0.200-0.250)",
        "5.03",
        "24.3",
        "2.19 times as fast",
        "97.0",
    ]
    assert rows["simulator/growth"] == [["10", "0.25", None, None], ["100", "0.5 (2.0 times)", None, "0.5"]]
    (output / "fec.json").write_text("[{}]")
    with pytest.raises(schema.ResultError, match="not the output of `make bench-fec`"):
        bench.record(results, output, "")


def test_the_output_of_bench_and_bench_peers_becomes_tables(tmp_path):
    results, output = tmp_path / "results", tmp_path / "bench"
    results.mkdir()
    output.mkdir()
    run = {"process_seconds": 0.171, "simulated_seconds": 82.0, "events": 1_080_000, "peak_memory_mib": 12}
    printed = {
        "switch_ns_per_unit": {
            f"switch/{unit}/ports/{ports}": 48.6 for unit in ("cell", "datagram") for ports in (1, 8)
        },
        "sim_hops_per_second": {"chain/cell hops": 6_300_000, "chain/packet hops": 5_200_000},
        "whole_runs": {"e5": run, "demo": run},
        "soft_switch": {
            "switch_pps": 797_000.0,
            "bare_pps": 503_000.0,
            "protected_pps": 400_000.0,
            "protected_ratio": 0.502,
        },
    }
    (output / "bench.json").write_text(json.dumps(printed))
    figures = dict.fromkeys(bench.measured.FIGURES, 1.5)
    runs = [
        {**figures, "delay_ms": {"p50": delay}, "during": dict.fromkeys(figures, 9)} for delay in (209, 211)
    ]
    layers = {
        "frames": {"BL": 147, "E1": 380, "E2": 900},
        "lost": {"BL": 1, "E1": 10, "E2": 0},
        "late": {"all": 9, "BL": 4},
        "withheld": {"BL": 0, "E1": 5, "E2": 280},
    }
    layered = [run | layers for run in runs]
    streams = {"SRT 120 ms, H.264": runs, "Layercast 200 ms, MPEG-1, auto": layered, "SRT 500 ms, H.264": []}
    paths = {"3 % loss": streams, "drop to 60 %": streams}
    (output / "srt.json").write_text(json.dumps({"results": paths}))
    rows = [
        {"setting": setting, "late_percent": 0.9, "delay_ms": 33.84, "peer_delay_ms": peer}
        for setting, peer in (
            ({"permille": 10}, 36.0),
            ({"r": 2}, None),
            ({"permille": 10, "quantile": True}, 30.0),
        )
    ]
    delay = {"p50": 147.4, "p99": 181.0}
    told = {
        "pictures": 1_500,
        "delay_ms": delay,
        "mean_psnr": 42.18,
        "frozen_percent": 0.0,
        "repairs": 15,
        "sent": 1_000,
    }
    live = [told | {"path": "1 %", "stream": "SRT 120 ms", "wrong": wrong} for wrong in (0, 30)]
    counted = [row | {"stream": "Layercast", "damaged": 3} for row in live]
    unseen = {key: counted[0][key] for key in ("path", "stream", "delay_ms", "repairs", "sent")}
    live += [*counted, unseen | {"damaged": 0}]
    (output / "repair.json").write_text(json.dumps({"rows": live}))
    (output / "jitter.json").write_text(json.dumps({"Gaussian": {"rows": rows, "peer": [], "packets": 9}}))

    kept = bench.record(results, output, "idle")
    assert sorted(kept) == ["jitter/rtpjitterbuffer", "repair/live", "srt/h264", "srt/mpeg1", "switch/parts"]
    rows = {table.id: table.rows for g in schema.load(results).values() for table in g.tables}
    assert rows["switch/parts"][0][1] == "49 ns a cell, 49 ns a datagram"
    assert rows["switch/parts"][3][:2] == [
        "`layercast sim scenarios/e5.toml`: 82 s of network, 1.08 M events",
        "0.17 s, 12 MiB",
    ]
    assert rows["srt/h264"][0] == ["3 % loss", "SRT 120 ms", "210 (209-211)", *["1.5"] * 6, None, None]
    assert [[*row[:2], *row[-2:]] for row in rows["srt/mpeg1"]] == [
        ["3 % loss", "Layercast 200 ms, auto", "5", "95"],
        ["drop to 60 %", "Layercast 200 ms, auto", "5", "95"],
        [bench.measured.DURING, "Layercast 200 ms, auto", None, None],
    ]
    assert rows["jitter/rtpjitterbuffer"] == [
        ["Gaussian", "1 % late", "0.90", "33.8", "36.0"],
        ["Gaussian", "r = 2", "0.90", "33.8", None],
    ]
    assert rows["repair/live"] == [
        ["1 %", "SRT 120 ms", "147", "181", None, "42.18", "1 (0-2)", "0", "1.5"],
        # The pictures of one of its runs were not compared.
        ["1 %", "Layercast", "147", "181", "3 (0-3)", None, None, None, "1.5"],
    ]
    (output / "srt.json").write_text("{}")
    with pytest.raises(schema.ResultError, match="not the output of `make bench-peers`"):
        bench.record(results, output, "")


def test_the_output_of_the_parts_of_bench_peers_becomes_tables(tmp_path):
    results, output = tmp_path / "results", tmp_path / "bench"
    results.mkdir()
    output.mkdir()

    def written(name: str, told: dict) -> None:
        (output / name).write_text(json.dumps(told))

    figures = dict.fromkeys(bench.measured.FIGURES, 1.5)
    run = {**figures, "delay_ms": {"p50": 300}, "during": dict.fromkeys(figures, 9)}
    streams = {"SRT 300 ms": [run], "Layercast 300 ms, switch": [run, run]}
    written("renditions.json", {"results": {"drop to 60 %": streams}})
    delays = {"gop_s": 0.5, "p95_ms": 118.2, "max_ms": 121.0}
    rows = [
        delays | {"setting": "default", "url_after_s": after, "median_ms": middle, "late": 1, "lost": 2}
        for after, middle in ((3.1, 95.6), (3.3, 97.0))
    ]
    written("latency.json", {"rows": [*rows, delays | {"setting": "srt", "median_ms": 125.0}]})
    hop = {"playout_ms": 300, "repair": "hop by hop", "frames": 1_000}
    rows = [
        hop | {"world": world, "missed": missed, "repairs_percent": 5.6}
        for world, missed in (("simulator", 0), ("simulator", 4), ("sockets", 1))
    ]
    written("hops.json", {"rows": rows})
    start = {"gop_s": 2.0, "loss": 3.0, "place": "direct", "viewer": "first", "lost": 0, "late": 1}
    rows = [start | {"fast_start": on, "first_ms": ms, "bad": 0} for on, ms in ((False, 1390), (True, 200))]
    written("fast_start.json", {"rows": rows})
    cost = {"pairs": 2, "rate_mbps": 17.0, "with_over_without": 1.0271, "interval_95": [1.01, 1.04]}
    cost |= {"feedback_kbps": 22.3, "runs": [{"with_ms": 103, "without_ms": 100}] * 2}
    written("repair_cost.json", cost)

    bench.record(results, output, "idle")
    rows = {table.id: table.rows for g in schema.load(results).values() for table in g.tables}
    assert rows["renditions/drop"] == [
        ["drop to 60 %", "SRT 300 ms", "300", *["1.5"] * 6],
        ["drop to 60 %", "Layercast 300 ms, switch", "300", *["1.5"] * 6],
        [bench.measured.DURING, "SRT 300 ms", "300", *["9"] * 6],
        [bench.measured.DURING, "Layercast 300 ms, switch", "300", *["9"] * 6],
    ]
    assert rows["live/latency"] == [
        ["defaults", "0.5 s", "3.2 (3.1-3.3)", "96.5 (96-97)", "118", "121", "3"],
        ["srt-live-transmit 1.5.1, latency 120 ms", "0.5 s", "", "125", "118", "121", ""],
    ]
    assert rows["live/hops"] == [["300 ms", "hop by hop", "0.2 (0-0.4)", "5.6", "0.1", "5.6"]]
    assert rows["live/fast-start"] == [["2 s", "3 %", "direct", "first", "1390", "200", "0", "0", "1"]]
    assert rows["live/cost"] == [["17", "2", "103", "100", "1.027 (1.010-1.040)", "22.3"]]


def test_tables_of_benchmarks_that_are_kept_are_those_of_the_files(stored):
    columns = {table.id: len(table.columns) for g in stored.values() for table in g.tables}
    for id, kind in bench.TABLES.items():
        assert columns[id] == len(kind[4]), id
