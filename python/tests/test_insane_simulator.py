import json
import math
from dataclasses import replace

import numpy as np
import pytest

import layercast
from layercast_lab import gallery, simulator
from layercast_lab.experiment import Context, Experiment, Report, Row
from layercast_lab.experiments import insane_simulator_calls as calls
from layercast_lab.experiments import insane_simulator_cells as cells
from layercast_lab.experiments import insane_simulator_decisions as decisions
from layercast_lab.experiments import insane_simulator_leaks as leaks
from layercast_lab.experiments import insane_simulator_priority as priority
from layercast_lab.experiments import insane_simulator_queue as queue
from layercast_lab.experiments import insane_simulator_results as results
from layercast_lab.experiments import insane_simulator_same as same
from layercast_lab.experiments import insane_simulator_tcp as tcp
from layercast_lab.experiments import insane_study_interference as interference
from layercast_lab.grid import load
from layercast_lab.insane import simulator as reported
from layercast_lab.insane import study
from layercast_lab.insane.line import CELL_S
from layercast_lab.insane.line import cells as cells_of
from layercast_lab.insane.target import alone, value

pytestmark = pytest.mark.usefixtures("command")


def test_a_packet_has_as_many_cells_as_the_specification_says():
    assert [cells_of(size) for size in (40, 41, 44, 552, 1500, 348)] == [1, 2, 2, 12, 32, 8]


def test_a_timeline_has_rounds_until_the_link_is_full():
    segment, round_trip = 12 * CELL_S, 13 * CELL_S + 0.2
    found = tcp.timeline(7, 0.1, tcp.OPEN)
    wanted = [0, round_trip, round_trip + segment] + [2 * round_trip + n * segment for n in range(4)]
    assert found == pytest.approx(wanted)
    # The window holds two segments: two a round trip forever.
    capped = tcp.timeline(7, 0.1, 2 * tcp.MSS)
    assert capped == pytest.approx([0] + [n * round_trip + s for n in (1, 2, 3) for s in (0, segment)])
    # Beyond the round trip segments follow one another.
    assert np.diff(tcp.timeline(100, 0.001, tcp.OPEN)[2:]) == pytest.approx(segment)


def test_slow_start_is_on_time_and_a_late_segment_is_told(tmp_path):
    times = tcp.transfer(Context(tmp_path), 30, tcp.OPEN)
    assert tcp.row(30, tcp.OPEN, times).verdict == "reproduced"
    times[-1] += 1e-5
    assert tcp.row(30, tcp.OPEN, times).verdict == "differs"
    assert tcp.row(30, tcp.OPEN, times[:-1]).verdict == "differs"
    assert tcp.row(100, tcp.OPEN, times).verdict == "differs"


def test_ticks_are_uniform_or_said_not_to_be(tmp_path):
    waits = tcp.first_acks(Context(tmp_path), 1)
    assert len(waits) == tcp.HOSTS and tcp.ticks(waits).verdict == "reproduced"
    assert tcp.ticks([0.1] * tcp.HOSTS).verdict == "differs"
    assert tcp.ticks([0.3] * tcp.HOSTS).verdict == "differs"


def test_waits_are_those_of_theory_or_said_not_to_be(tmp_path):
    assert [queue.student(0.99, n) for n in (9, 19)] == pytest.approx([3.250, 2.861], abs=0.02)
    for what in ("cells", "packets"):
        found = queue.waits(Context(tmp_path, seeds=6, seconds=20), what, 0.5)
        assert found.theory == 0.5 and np.mean(found.waits) == pytest.approx(0.5, rel=0.03)
    assert queue.row(queue.Found("cells", 0.5, [0.49, 0.5, 0.51, 0.5])).verdict == "reproduced"
    assert queue.row(queue.Found("cells", 0.5, [0.51, 0.511, 0.512])).verdict == "differs"
    assert queue.row(queue.Found("cells", 0.5, [0.6, 0.7, 0.5])).verdict == "differs", "too wide"


def test_priority_waits_for_a_cell_and_best_effort_for_all(tmp_path):
    report = priority.s3(Context(tmp_path, seeds=1, seconds=20))
    assert [row.verdict for row in report.rows] == ["reproduced"] * 3, report.rows
    plain = priority.excess(Context(tmp_path, seconds=20), "noqos-conv-svc", 1)
    assert plain.max() > 1.5, "the bound can be broken"


def test_cells_add_up_and_a_lost_one_is_told(tmp_path):
    found = [cells.accounts(Context(tmp_path, seeds=1), number)[0] for number in range(12)]
    rows = {row.name: row.verdict for row in cells.rows(found)}
    assert set(list(rows.values())[:4]) == {"reproduced"}, rows
    assert any(run.dropped for run in found)
    for change in ({"entered": found[0].entered + 1}, {"leaks": 1}, {"frames": (1, 2)}):
        wrong = [replace(found[0], **change), *found[1:]]
        assert "differs" in {row.verdict for row in cells.rows(wrong)[:4]}, change


def test_digests_are_of_everything_but_the_time(tmp_path):
    context = Context(tmp_path, seconds=2)
    chosen = same.scenarios(context)
    for name in ("star", "nwc-http-conv-svc"):
        found = same.ways(context, name, chosen[name])
        assert same.row(found).verdict == "reproduced", found
    assert ("cell by cell" in found.digests) and len(found.digests) == 4
    assert same.row(replace(found, digests=found.digests | {"again": "x"})).verdict == "differs"
    assert same.row(replace(found, other_seed=found.digests["run"])).verdict == "differs"
    assert same.digest({"a": 1, "wall_seconds": 2}) == same.digest({"a": 1, "wall_seconds": 3})
    assert same.digest({"a": 1}) != same.digest({"a": 2})


def test_calls_end_once_although_cells_get_lost(tmp_path):
    runs = [calls.calls(Context(tmp_path, seconds=100), 0.3, seed) for seed in (1, 2)]
    assert calls.row(0.3, runs).verdict == "reproduced", runs
    assert all(run.requests > 50 for run in runs)
    assert calls.row(0.9, runs).verdict == "differs", "the loss was smaller"
    for change in ({"ready": runs[0].ready - 1}, {"ready": runs[0].ready + 1}, {"left": 1}, {"strays": 1}):
        assert calls.row(0.3, [replace(runs[0], **change), runs[1]]).verdict == "differs"


def test_nothing_stays_and_what_would_is_told(tmp_path):
    (tmp_path / "s7-voices.toml").write_text(simulator.toml_file({"app": leaks.voices()}))
    for policy in ("nwc-audio-conv-svc", "nwc-audio-conv-svccache"):
        found = leaks.waves(Context(tmp_path), policy)
        assert leaks.row(policy, found).verdict == "reproduced", leaks.row(policy, found)
        assert found[-1].refused > 0, "the link was full"
        kept = [replace(one, circuits=one.circuits + 1) for one in found]
        assert leaks.row(policy, kept).verdict == "differs"
        more = [*found[:-1], replace(found[-1], refused=found[-1].refused + 1)]
        assert leaks.row(policy, more).verdict == "differs", "room that is not given back"
    assert leaks.ended("p", "", leaks.Seen(1, 0, 0, 0, 1)).verdict == "differs"
    assert leaks.ended("p", "", leaks.Seen(1, 1, 0, 0, 0)).verdict == "differs"


def test_a_shared_circuit_makes_small_files_wait(tmp_path):
    context = Context(tmp_path, seconds=300)
    (tmp_path / "m4-files.toml").write_text(simulator.toml_file(interference.workload()))
    times = {}
    for mux in ("conv", "app"):
        found = interference.run(context, f"nwc-ftp-{mux}-svccache", 1)
        assert {one.bytes for one in found} == {interference.SMALL, interference.LARGE}
        times[f"nwc-ftp-{mux}-svccache"] = interference.split([found])
    rows = interference.rows_of("nwc-ftp", times)
    assert [row.verdict for row in rows] == ["reproduced"] * 2, rows
    swapped = dict(zip(times, reversed(times.values()), strict=True))
    assert [row.verdict for row in interference.rows_of("nwc-ftp", swapped)] == ["differs"] * 2
    nothing = {policy: ([], [], []) for policy in times}
    assert {row.verdict for row in interference.rows_of("nwc-ftp", nothing)} == {"missing"}


def test_the_table_of_the_simulator_takes_its_numbers_from_the_study():
    names = [target.name for target in reported.TARGETS]
    assert len(names) == len(set(names)) > 40
    found = {target.name: target.range for target in reported.TARGETS}
    counts = found["circuits asked for in a run, noqos-conv-svc"]
    assert counts.widened() == pytest.approx((168_936 * 0.95, 168_936 * 1.05))
    most = found["most circuits at a router, noqos-conv-svccache"]
    assert most.widened() == pytest.approx((472 * 0.65, 472 * 1.1))
    assert found["hit rate, noqos, app"].widened() == pytest.approx((0.97, 0.99))
    assert found["conv-svc to router-svc: telnet connect median"].widened() == (-70, -54)


def test_results_that_were_not_run_are_not_judged(tmp_path):
    report = results.results(Context(tmp_path / "insane-simulator"))
    verdicts = {row.name: row.verdict for row in report.rows}
    assert verdicts.pop("campaign") == "reproduced"
    assert set(verdicts.values()) == {"missing"}


def test_results_are_those_of_the_campaign(tmp_path):
    """Two of its policies, for a moment."""
    context = Context(tmp_path / "insane-simulator", seeds=1, seconds=5)
    campaign = results.made(context, ["noqos-router-pvc", "noqos-router-svccache"])
    (cell,) = results.cell_time(campaign)
    assert cell.verdict == "reproduced" and "276.04" in cell.measured
    assert {row.verdict for row in results.cost(campaign)} == {"missing"}, "times are of whole runs"
    values = study.values(campaign.frame())
    assert values["noqos-router-pvc", "requests"]


def test_all_policies_have_to_be_within_what_is_allowed():
    target = reported.told("n", "requests", "as printed", value(10, slack=1), pairs=alone("a", "b"))
    found = {("a", "requests"): [10.0], ("b", "requests"): [10.5]}
    assert results.line(target, found).verdict == "reproduced"
    found["b", "requests"] = [12.0]
    row = results.line(target, found)
    assert (row.verdict, row.note) == ("differs", "1 of 2 inside")
    assert results.line(target, {}).verdict == "missing"


def test_decisions_are_tried_with_what_they_change(tmp_path):
    for _, choices, targets in decisions.DECISIONS.values():
        assert not choices[0].fields and not choices[0].workload, "ours is the scenario as it is"
        assert all(len(target.policies) == len(target.metrics) == 1 for target in targets)
    chosen = [choice for _, some, _ in decisions.DECISIONS.values() for choice in some if choice.workload]
    changed = decisions.workload(Context(tmp_path), chosen[0]).read_text()
    assert 'placement = "distinct"' in changed and "coupon" not in changed
    longer = decisions.workload(Context(tmp_path), chosen[-1]).read_text()
    assert longer.count("exp(1800) s") == 2
    chain, _ = load(decisions.CHAIN)
    chain["run"]["duration"] = "1s"
    assert len(layercast.run(chain, seed=1).summary["atm"]["queues"]) == 22


def test_only_whole_runs_of_our_choice_are_judged():
    _, choices, targets = decisions.DECISIONS["mss"]
    values = {(one.policies[0], one.metrics[0]): [one.range.low] * 3 for one in targets}
    far = {key: [3 * number for number in runs] for key, runs in values.items()}
    found = {choices[0].name: values, choices[1].name: far, choices[2].name: far}
    *lines, last = decisions.rows(choices, targets, found, whole=True)
    assert [row.verdict for row in lines] == ["reproduced", "open", "open"] * len(targets)
    assert last.verdict == "reproduced"
    found = {choices[0].name: far, choices[1].name: values, choices[2].name: far}
    assert decisions.rows(choices, targets, found, whole=True)[-1].verdict == "differs"
    assert {row.verdict for row in decisions.rows(choices, targets, found, whole=False)} == {"open"}
    assert decisions.distance(far, targets) == pytest.approx(
        np.mean([math.log(3 * one.range.low / one.range.high) for one in targets])
    )
    assert decisions.distance({}, targets) == math.inf


def test_the_gallery_is_by_paper_and_says_how_to_make_a_figure_again(tmp_path):
    def keep(id: str) -> None:
        rows = [Row("n", "1", "2", "3", "differs"), Row("m", "1", "1", "0", "reproduced")]
        scenario = tmp_path / "insane-study" / "s.toml"
        report = Report(id, f"<{id}>", rows, str(tmp_path / "insane-study" / "f.png"), scenario=str(scenario))
        made = Experiment(id, "t", "a paper, figure 7", tcp.s1)
        gallery.add(tmp_path, report, made, f"layercast-lab reproduce {id}")

    for id in ("insane-study/q10", "other/x", "insane-study/q9", "mets/e5"):
        keep(id)
    page = (tmp_path / "index.html").read_text()
    order = ["mets/e5", "insane-study/q9", "insane-study/q10", "other/x"]
    for mark in ('href="#{}"', '<section id="{}">', "layercast-lab reproduce {}"):
        places = [page.index(mark.format(id)) for id in order]
        assert places == sorted(places), mark
    assert "B. A. Mah" in page and "a paper, figure 7" in page and "&lt;other/x&gt;" in page
    assert "layercast sim insane-study/s.toml" in page and 'src="insane-study/f.png"' in page
    assert "python/layercast_lab/experiments/insane_simulator_tcp.py" in page
    # What an earlier version kept has no scenario.
    kept = tmp_path / "mets" / "e5.json"
    old = {
        key: value for key, value in json.loads(kept.read_text()).items() if key not in ("scenario", "paper")
    }
    assert "mets/e5" in gallery.render([old])
