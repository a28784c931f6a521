import numpy as np
import pytest

import layercast
from layercast_lab.experiment import Context
from layercast_lab.experiments import insane_workloads_composite as composite
from layercast_lab.experiments import insane_workloads_pages as pages
from layercast_lab.experiments import insane_workloads_samplers as samplers
from layercast_lab.experiments import insane_workloads_video as video
from layercast_lab.experiments import insane_workloads_web as web
from layercast_lab.insane import workloads

pytestmark = pytest.mark.usefixtures("command")


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Browsers for four hours."""
    return workloads.web(Context(tmp_path_factory.mktemp("web"), seconds=15_000), "web", 1)


def test_pages_of_the_browsers_are_found_and_missing_ones_told(trace):
    found = trace.analysed()
    assert [row.verdict for row in web.pipeline([trace], [found])] == ["reproduced"] * 3
    fewer = found | {"pages": found["pages"] - 300}
    assert web.pipeline([trace], [fewer])[0].verdict == "differs"
    assert web.pipeline([trace], [found | {"mixed_pages": 1}])[2].verdict == "differs"
    assert web.size([found], whole_length=True).verdict == "differs", "four hours are not forty"


def test_requests_and_replies_are_those_of_the_model(trace):
    found, kept = trace.analysed(), trace.samples()
    assert {row.verdict for row in web.lengths("request", [found])} == {"reproduced"}
    assert web.agreement("reply", [trace]).verdict == "reproduced"
    assert web.bimodal([kept["request"]]).verdict == "reproduced"
    assert web.bimodal([kept["reply"]]).verdict == "differs"
    steep = found | {"reply_tail": found["reply_tail"] | {"alpha": 2.0}}
    assert web.tail([steep]).verdict == "differs"
    # Replies put where requests were.
    file = trace.connections.with_suffix("") / "request.csv"
    np.savetxt(file, kept["reply"])
    assert web.agreement("request", [trace]).verdict == "differs"


def test_longer_thresholds_join_pages(trace):
    found = {t: [trace.analysed("--threshold", f"{t}s")] for t in pages.THRESHOLDS}
    rows = {row.name: row.verdict for row in pages.far(found)}
    # Of four hours long pauses are missing: more of those that are there are short.
    assert len(rows) == 4 and rows["pages at 2 s"] == rows["pages at 5 s"] == "reproduced", rows
    assert pages.near_one(found)[0].verdict == "reproduced"
    swapped = found | {2: found[30]}
    assert pages.near_one(swapped)[0].verdict == "differs"
    assert pages.far(swapped)[0].verdict == "differs"


def test_visits_are_those_of_the_sites():
    chosen = pages.choices()
    assert chosen.sum(axis=1) == pytest.approx(1)
    assert (chosen[0, [0, 6]] == 0).all() and chosen[0, 1] > chosen[1, 2] > chosen[0, 11] > 0
    assert pages.again() == pytest.approx(0.17, abs=0.02)
    # Two servers of each of six sites: numbers go by site, ranks across.
    visits = {site * 19 + 17 + n: 100 * n + site for site in range(6) for n in range(2)}
    found = {"popularity": [{"server": f"h{host}", "visits": count} for host, count in visits.items()]}
    assert pages.visits_by_rank(found).tolist() == [0, 1, 2, 3, 4, 5, 100, 101, 102, 103, 104, 105]


def test_states_of_video_are_told_apart_until_times_are_moved_too_far(tmp_path, monkeypatch):
    monkeypatch.setattr(video, "LABELLED", 2_000)
    context = Context(tmp_path)
    assert video.recovered(0, *video.told_apart(context, 0)).verdict == "reproduced"
    share, _ = video.told_apart(context, 200)
    assert video.recovered(20, share, 62.5).verdict == "differs"
    found = workloads.ask("analyze", "video", workloads.video(context, "v", 1, 300))
    assert [row.verdict for row in video.lines(found)] == ["reproduced"] * 2
    assert video.moments("cr", [found])[0].verdict == "reproduced"
    large = found | {"cr": found["cr"] | {"size": {"mean": 900.0}}}
    assert video.moments("cr", [large])[0].verdict == "differs"


def test_distributions_are_held_against_their_originals(tmp_path, monkeypatch):
    monkeypatch.setattr(samplers, "DRAWS", 5_000)
    originals = samplers.originals()
    assert len(originals) == 20 and originals[12].name == "http.reply"
    found = samplers.sampled(Context(tmp_path), originals[3])
    assert samplers.row(found).verdict == "reproduced"
    halved = samplers.Found(found.original, found.mean, found.most, "files", found.drawn / 2, found.p_value)
    assert samplers.row(halved).verdict == "differs"
    more = samplers.Found(found.original, 1.1 * found.mean, found.most, "files", found.drawn, found.p_value)
    assert samplers.row(more).verdict == "differs"


def test_what_is_offered_is_judged_by_its_mean():
    one = {"apps": {"telnet": {"conversations": 2400}}, "seconds": 4000}
    sessions = composite.EXPECTED[0]
    assert composite.row(sessions, [one], whole_length=True).verdict == "reproduced"
    assert composite.row(sessions, [one], whole_length=False).verdict == "open"
    far = {"apps": {"telnet": {"conversations": 3000}}, "seconds": 4000}
    assert composite.row(sessions, [far], whole_length=True).verdict == "differs"
    assert composite.row(sessions, [one, one, one, far], whole_length=True).verdict == "differs"
    matrix = np.arange(36).reshape(6, 6)
    part = {"apps": {"ftp": {"matrix": matrix}}, "seconds": 8e-3}
    assert composite.long_link("ftp", True)(part) == sum(matrix[w][e] for w in (0, 2, 4) for e in (1, 3, 5))


def test_circuits_of_the_simulator_are_not_judged_without_runs(tmp_path):
    report = composite.w2(Context(tmp_path / "insane-workloads", seeds=1, seconds=20))
    assert {row.verdict for row in report.rows} == {"missing"}
    assert len(report.rows) >= 9
    few = {("noqos-conv-svc", "requests"): [100.0], ("noqos-app-svc", "requests"): [42.0]}
    assert composite.ratio(few).verdict == "reproduced"
    few["noqos-app-svc", "requests"] = [60.0]
    assert composite.ratio(few).verdict == "differs"


def test_complaints_of_the_command_are_raised(tmp_path):
    (tmp_path / "cut.csv").write_text("a,b,80,0,1,2\n")
    with pytest.raises(layercast.LayercastError, match="line 1: 6 columns"):
        workloads.ask("analyze", "http", tmp_path / "cut.csv")
    with pytest.raises(layercast.LayercastError, match="unknown distribution"):
        workloads.tell("sample", "gopher")
