import json
import subprocess
import sys
from pathlib import Path

from layercast_lab.experiment import Context, Report, Row, experiments

ROOT = Path(__file__).resolve().parents[2]


def lab(*arguments: str, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "layercast_lab.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, **options)


def test_list_names_every_experiment_with_its_paper():
    listed = json.loads(lab("list", "--json").stdout)
    assert [entry["id"] for entry in listed] == list(experiments())
    assert all(entry["paper"] and entry["title"] for entry in listed)
    assert "mets/e5" in lab("list").stdout


def test_e5_is_reproduced_with_its_picture(tmp_path):
    run = lab("reproduce", "mets/e5", "--json", "--seeds", "5", "--out", str(tmp_path))
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert report["id"] == "mets/e5"
    assert [row["name"].split()[0] for row in report["rows"]] == ["E5-1", "E5-2", "E5-3", "E5"]
    assert report["verdict"] == "reproduced", report["rows"]
    picture = Path(report["figure"])
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.with_suffix(".svg").exists()


def test_an_unknown_id_says_where_to_look():
    run = lab("reproduce", "mets/e99")
    assert run.returncode == 2
    assert "layercast-lab list" in run.stderr


def test_the_verdict_of_a_report_is_its_weakest_row():
    row = lambda verdict: Row("x", "1", "1", "0", verdict)  # noqa: E731
    assert Report("a/b", "", [row("reproduced"), row("shape")]).verdict == "shape"
    assert Report("a/b", "", [row("shape"), row("differs"), row("reproduced")]).verdict == "differs"
    assert Report("a/b", "", []).verdict == "differs"


def test_a_wrong_level_is_not_called_reproduced(tmp_path, monkeypatch):
    from layercast_lab.experiments import mets_adaptation

    scenarios = tmp_path / "scenarios"
    scenarios.mkdir()
    text = (ROOT / "scenarios/e5.toml").read_text()
    # With 3000 cells/s E1 fits beside Canyon and Flight never, and E2 never at all.
    assert "3500 cells/s" in text
    (scenarios / "e5.toml").write_text(text.replace("3500 cells/s", "3000 cells/s"))
    monkeypatch.setattr(mets_adaptation, "SCENARIOS", scenarios)
    report = experiments()["mets/e5"].run(Context(out=tmp_path, seeds=2))
    assert report.verdict == "differs"
