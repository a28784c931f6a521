import csv
import html
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import layercast
from layercast_lab import cli, simulator, testbed
from layercast_lab.experiment import (
    VERDICT_TEXT,
    Context,
    Experiment,
    Report,
    Row,
    arithmetic,
    experiments,
    judge,
    judge_shape,
)
from layercast_lab.experiments import mets_filters, mets_loss, mets_scale, sim_scale, tcp_dumbbell

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = (
    "*-sockets",
    "tcp/*",
    "sim/*",
    "insane-*",
    "mpeg-*",
    "rmtp-*",
    "fully-*",
    "tcp-xtp-*",
    "xtp/*",
    "packet-*",
    "partial-order-*",
    "admission-*",
    "ilp-*",
    "network-*",
    "available-*",
    "user-to-user-*",
    "where-*",
    "multicast/*",
    "mets/scale",
    # As long as E4 for each of ten settings, and with its code.
    "mets/sweep-late",
)
SKIPPED = [word for name in ELSEWHERE for word in ("--skip", name)]


def lab(*arguments: str, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "layercast_lab.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, **options)


def test_list_names_every_experiment_with_its_paper():
    listed = json.loads(lab("list", "--json").stdout)
    assert [entry["id"] for entry in listed] == list(experiments())
    assert all(entry["paper"] and entry["title"] for entry in listed)
    # In a pipe a table is cells between tabs.
    lines = [line.split("\t") for line in lab("list").stdout.splitlines()]
    assert lines == [["id", "what it shows", "paper"], *([e["id"], e["title"], e["paper"]] for e in listed)]


def test_e5_is_reproduced_with_its_picture(tmp_path):
    run = lab("reproduce", "mets/e5", "--json", "--seeds", "5", "--out", str(tmp_path))
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert report["id"] == "mets/e5"
    assert [row["name"].split()[0] for row in report["rows"]] == ["E5-1", "E5-2", "E5-3", "E5-4", "E5"]
    # E5-4 is a matter of taste.
    wanted = ["reproduced"] * 3 + ["open", "reproduced"]
    assert [row["verdict"] for row in report["rows"]] == wanted, report["rows"]
    picture = Path(report["figure"])
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.with_suffix(".svg").exists()


@pytest.fixture(scope="module")
def everything(command, tmp_path_factory) -> tuple[Path, dict[str, dict]]:
    """All experiments of the simulator, as short as they go: the folder written to, and the reports by id."""
    try:
        mets_filters.check_tools()
    except FileNotFoundError as error:
        if os.environ.get("LAYERCAST_REQUIRE_TOOLS"):
            raise
        pytest.skip(str(error))
    out = tmp_path_factory.mktemp("lab")
    short = ["--seeds", "1", "--seconds", "2"]
    # Those beside other simulators and the largest networks take minutes.
    run = lab("reproduce", "--all", *SKIPPED, "--json", *short, "--out", str(out))
    assert run.returncode == 0, run.stderr
    return out, {report["id"]: report for report in json.loads(run.stdout)}


def test_all_experiments_run_and_draw(everything):
    _, reports = everything
    assert list(reports) == [
        id
        for id in experiments()
        if id.startswith(("mets/", "vbr-")) and not id.endswith(("-sockets", "/scale", "/sweep-late"))
    ]
    for report in reports.values():
        assert Path(report["figure"]).read_bytes().startswith(b"\x89PNG")
        assert report["rows"] and all(row["verdict"] in VERDICT_TEXT for row in report["rows"])
        assert not any("nan" in row["measured"] for row in report["rows"]), report


def test_an_experiment_runs_on_sockets(tmp_path):
    run = lab(
        "reproduce", "mets/e3a-sockets", "--json", "--seeds", "1", "--seconds", "2", "--out", str(tmp_path)
    )
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert Path(report["figure"]).read_bytes().startswith(b"\x89PNG")
    assert len(report["rows"]) == 5 and not any("nan" in row["measured"] for row in report["rows"])


def test_the_gallery_shows_every_report(everything):
    out, reports = everything
    page = (out / "index.html").read_text()
    for id, report in reports.items():
        assert f"layercast-lab reproduce {id} --seeds 1 --seconds 2" in page
        figure = Path(report["figure"]).relative_to(out)
        assert f'src="{figure.as_posix()}"' in page
        assert all(html.escape(row["measured"]) in page for row in report["rows"])


def test_what_does_not_hang_on_chance_is_reproduced_in_two_seconds(everything):
    _, reports = everything
    verdicts = {row["name"]: row["verdict"] for report in reports.values() for row in report["rows"]}
    for name in ("E1-1 fastest sender", "E1-3 shape", "E1-4 goodput", "E5-2 level, 20-50 s"):
        assert verdicts[name] == "reproduced", name


def test_frames_are_read_from_a_trace():
    def event(what: str, time: float, **more) -> str:
        record = {"time": time * 1e12, "machine": "sink", "event": what, "flow": 2, "seq": 7} | more
        return "\x1e" + json.dumps(record, separators=(",", ":")) + "\n"

    trace = [
        '\x1e{"qlog_format":"JSON-SEQ"}\n',
        event("sent", 1.0, machine="source"),
        event("sent", 1.5, machine="source", seq=9),
        event("received", 1.25, delay=0.5e12),
        event("played", 2.0),
        event("lost", 3.0, count=1),
    ]
    none, frames = simulator.frames(trace, 2)
    assert len(none.sent) == 0
    assert frames.seq.tolist() == [7, 9]
    assert frames.delay_ms.tolist() == [250]
    assert (frames.sent[0], frames.arrived[0], frames.emitted[0], frames.played[0]) == (1.0, 1.25, 0.75, 2.0)
    assert np.isnan(frames.arrived[1]) and np.isnan(frames.played[1])


def test_a_scenario_reads_the_same_as_toml():
    setup = testbed.scenario("x", 3, [{"name": "f", "clip": {"synthetic": "canyon"}, "frame_rate": 24}])
    text = "".join(f"{name} = {simulator.toml(value)}\n" for name, value in setup.items())
    assert tomllib.loads(text) == setup


def test_synthetic_sizes_are_those_of_the_clip():
    sizes = testbed.video_sizes("canyon", 1200, np.random.default_rng(1))
    cells = np.array([testbed.packet_cells(size) for size in sizes]).reshape(-1, 12)
    assert abs(cells[:, 0].mean() - 240) < 10 and abs(cells[:, 2].mean() - 120) < 5
    assert abs(cells.mean() - 140) < 3


def test_where_a_curve_crosses_is_interpolated():
    assert mets_loss.crosses(np.array([0.0, 5.0, 15.0]), 10.0) == 2.5
    assert mets_loss.crosses(np.array([0.0, 5.0]), 10.0) is None
    assert mets_loss.crosses(np.array([12.0]), 10.0) == 1.0


def test_no_command_is_an_error_that_says_what_to_do(tmp_path):
    run = lab("reproduce", "mets/e3a", "--out", str(tmp_path), env=os.environ | {"LAYERCAST": str(tmp_path)})
    assert run.returncode == 1
    # A long path is wrapped.
    assert str(tmp_path) in run.stderr.replace("\n", "")


def test_an_id_and_all_exclude_one_another():
    assert lab("reproduce").returncode == 2
    assert lab("reproduce", "mets/e5", "--all").returncode == 2
    assert lab("reproduce", "mets/e5", "--skip", "x").returncode == 2


def test_an_unknown_id_says_where_to_look():
    run = lab("reproduce", "mets/e99")
    assert run.returncode == 2
    assert "layercast-lab list" in run.stderr


def test_the_verdict_of_a_report_is_its_weakest_row():
    row = lambda verdict: Row("x", "1", "1", "0", verdict)  # noqa: E731
    assert Report("a/b", "", [row("reproduced"), row("shape")]).verdict == "shape"
    assert Report("a/b", "", [row("shape"), row("differs"), row("reproduced")]).verdict == "differs"
    assert Report("a/b", "", [row("arithmetic"), row("reproduced")]).verdict == "reproduced"
    assert Report("a/b", "", []).verdict == "differs"


def test_a_row_outside_its_tolerance_differs_and_a_shape_is_asked_for():
    assert (judge(True), judge(False)) == ("reproduced", "differs")
    assert (judge_shape(True), judge_shape(False)) == ("shape", "differs")
    assert (arithmetic(True), arithmetic(False)) == ("arithmetic", "differs")


def test_strict_names_the_rows_that_differ_and_csv_has_all_rows(tmp_path, monkeypatch):
    rows = [
        Row("one", "1", "1.0, 2", "exact", "reproduced"),
        Row("two", "2", "3", "exact", "differs", 'a "note"'),
        Row("three", "2", "3", "-", "open"),
    ]
    found = {name: Experiment(name, "", "", lambda _, name=name: Report(name, "", rows)) for name in ("a/b",)}
    monkeypatch.setattr(cli, "experiments", lambda: found)
    file = tmp_path / "rows.csv"
    run = CliRunner().invoke
    short = ["reproduce", "a/b", "--out", str(tmp_path)]
    assert run(cli.app, short).exit_code == 0
    strict = run(cli.app, [*short, "--strict", "--csv", str(file)])
    assert (strict.exit_code, strict.stderr.splitlines()[-1]) == (1, "differs: a/b: two")
    with file.open(newline="") as lines:
        told = list(csv.DictReader(lines))
    assert [(it["experiment"], it["name"], it["verdict"]) for it in told] == [
        ("a/b", "one", "reproduced"),
        ("a/b", "two", "differs"),
        ("a/b", "three", "open"),
    ]
    assert (told[0]["measured"], told[1]["note"]) == ("1.0, 2", 'a "note"')
    printed = run(cli.app, [*short, "--csv", "-"])
    assert printed.stdout == file.read_text()
    assert run(cli.app, [*short, "--csv", "-", "--json"]).exit_code == 2
    assert run(cli.app, [*short, "--csv", str(tmp_path / "none" / "x.csv")]).exit_code == 1
    rows.pop(1)
    assert run(cli.app, [*short, "--strict"]).exit_code == 0


def test_a_wrong_level_is_not_called_reproduced(tmp_path, monkeypatch):
    scenarios = tmp_path / "scenarios"
    scenarios.mkdir()
    text = (ROOT / "scenarios/e5.toml").read_text()
    # With 3000 cells/s E1 fits beside Canyon and Flight never, and E2 never at all.
    assert "3500 cells/s" in text
    (scenarios / "e5.toml").write_text(text.replace("3500 cells/s", "3000 cells/s"))
    monkeypatch.setattr(simulator, "SCENARIOS", scenarios)
    report = experiments()["mets/e5"].run(Context(out=tmp_path, seeds=2))
    assert report.verdict == "differs"


def test_a_dumbbell_is_judged_by_peers_that_agree():
    def judge(*means: float) -> str:
        runs = [tcp_dumbbell.Found([mean] if mean else []) for mean in means]
        return tcp_dumbbell.judge(dict(zip(tcp_dumbbell.SIMULATORS, runs, strict=True)))[0]

    assert judge(9.5, 9.4, 9.7) == "reproduced"
    assert judge(9.0, 9.4, 9.7) == "differs"
    assert judge(9.5, 9.4, 5.0) == judge(7.0, 9.4, 5.0) == judge(9.5, 9.4, 0) == "open"
    assert judge(4.0, 9.4, 5.0) == judge(8.0, 9.4, 0) == "differs"


@pytest.mark.usefixtures("command")
def test_a_dumbbell_fills_its_trunk():
    for red in (False, True):
        cell = tcp_dumbbell.Cell("sack", flows=2, mbps=1, rtt_ms=10, red=red, shorter=0.2)
        told = cell.arguments(seed=1)
        goodput = sum(tcp_dumbbell.ours(told)["goodputs"])
        # What waited behind a hole when the measurement began is delivered within it: at most the windows of
        # the receivers. A lost retransmission waits for a time-out, while what follows it is acknowledged and
        # lets new data leave.
        held = cell.flows * told["window"] * tcp_dumbbell.MSS * 8
        trunk = 1e6 * tcp_dumbbell.MSS / (tcp_dumbbell.MSS + tcp_dumbbell.HEADERS)
        assert 0.9e6 < goodput < trunk + held / (told["seconds"] - told["warm_up"])


def test_a_network_of_any_size_gives_every_host_something_to_do():
    for hosts in (120, 240):
        network = sim_scale.network(hosts, seed=1)
        summary = layercast.run(network | {"run": {"duration": "2s"}}).summary
        assert len(summary["flows"]) == hosts
        assert all(flow["sent"] > 0 for flow in summary["flows"])
        used = [q["utilisation"] for q in summary["queues"] if sim_scale.TRUNK.fullmatch(q["name"])]
        assert len(used) == hosts // 12 * 2
        assert min(used) > 0.1


@pytest.mark.usefixtures("command")
def test_trees_of_receivers_are_measured_and_drawn(monkeypatch, tmp_path):
    monkeypatch.setattr(mets_scale, "SIZES", (10, 100))
    report = mets_scale.scale(Context(tmp_path))
    assert Path(report.figure).read_bytes().startswith(b"\x89PNG")
    # Convergence and cost are judged at 1,000 receivers.
    assert report.rows[0].name.startswith("S-1") and report.rows[0].verdict == "reproduced", report.rows


@pytest.mark.usefixtures("command")
def test_a_network_is_metered_apart_from_who_runs_it():
    found = sim_scale.measure(120, seed=1)
    assert (found.hosts, found.flows, found.silent) == (120, 110, 0)
    assert found.cpu_s > 0
    assert found.events > 50_000
    # The program and 120 hosts; this process is larger.
    assert 4 < found.memory_mib < 60
    assert found.same, "threads change the result"
    if len(os.sched_getaffinity(0)) > 1:
        assert found.together_s is not None


def test_what_costs_too_much_at_scale_is_said(monkeypatch):
    def measured(
        hosts: int, cpu_s: float, silent: int = 0, together_s: float | None = None, *, same: bool = True
    ) -> sim_scale.Measured:
        counts = (hosts / 100, hosts * 100, hosts * 100, 0.8)
        return sim_scale.Measured(hosts, hosts, cpu_s, *counts, silent, cpu_s, together_s, same)

    def verdicts(*runs: sim_scale.Measured) -> list[str]:
        return [row.verdict for row in sim_scale.rows(runs)]

    assert verdicts(measured(120, 1), measured(1_200, 13)) == ["reproduced"] * 3
    assert verdicts(measured(120, 1), measured(1_200, 14)) == ["differs", "reproduced", "reproduced"]
    assert verdicts(measured(120, 1), measured(1_200, 27, 1)) == ["differs", "reproduced", "differs"]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    small = measured(120, 1, together_s=1)
    for large, verdict in [
        (measured(1_200, 13, together_s=7), "reproduced"),
        (measured(1_200, 13, together_s=12), "differs"),
        (measured(1_200, 13, together_s=14), "differs"),
        (measured(1_200, 13, together_s=7, same=False), "differs"),
    ]:
        assert verdicts(small, large)[-1] == verdict
