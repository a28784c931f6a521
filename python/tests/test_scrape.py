"""What `layercast-lab campaign --metrics` serves."""

import contextlib
import http.client
import json
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from layercast_lab import scrape
from layercast_lab.cli import app
from layercast_lab.engine import Done, Failed

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/src/how-to/campaigns.md"


def done(worker: str, seconds: float, partial: bool = False) -> Done:
    return Done("a", b"", partial, 1_000, seconds, 1, worker)


def request(port: int, path: str, method: str = "GET") -> tuple[int, str, str]:
    """Status, type and text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    with contextlib.closing(connection):
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read().decode()


def samples(text: str) -> dict[str, float]:
    """The samples of a text in the Prometheus format, whose rules it is held to."""
    kinds: dict[str, str] = {}
    found: dict[str, float] = {}
    helped = None
    for line in text.splitlines():
        if match := re.fullmatch(r"# HELP (\S+) (\S.*)\.", line):
            helped = match[1]
        elif match := re.fullmatch(r"# TYPE (\S+) (counter|gauge)", line):
            # Each metric once, with its help before it.
            assert match[1] == helped and match[1] not in kinds
            kinds[match[1]] = match[2]
        else:
            name, value = line.split(" ")
            assert re.fullmatch(r"layercast_[a-z_]+", name) and name == helped
            assert name.endswith("_total") == (kinds[name] == "counter")
            # Base units, and no name of a kind in the name.
            assert not re.search(r"_(ms|us|milliseconds|minutes|bits|kilobytes|counter|gauge)(_|$)", name)
            found[name] = float(value)
    assert text.endswith("\n") and set(kinds) == set(found)
    if promtool := shutil.which("promtool"):
        checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
        assert (checked.returncode, checked.stderr) == (0, ""), checked.stderr
    return found


@pytest.fixture
def served(capsys):
    """Figures, and the port where they are."""
    with scrape.serve("0") as figures:
        said = capsys.readouterr().err
        yield figures, int(re.fullmatch(r"metrics at http://127\.0\.0\.1:(\d+)/metrics\n", said)[1])


def test_a_scrape_has_what_the_campaign_has_done(served):
    figures, port = served
    at_first = samples(request(port, "/metrics")[2])
    assert at_first["layercast_campaign_runs_done_total"] == 0
    # What is not known is absent.
    assert "layercast_campaign_left_seconds" not in at_first
    figures.begin(8, 3)
    for outcome in (done("x", 1.5), done("y", 0.5, partial=True), Failed("b", "why"), done("x", 1.0)):
        figures.add(outcome)
    status, kind, text = request(port, "/metrics")
    assert (status, kind) == (200, scrape.PROMETHEUS)
    found = {name.removeprefix("layercast_campaign_"): value for name, value in samples(text).items()}
    assert found.pop("left_seconds") >= 0
    assert abs(found.pop("layercast_start_time_seconds") - time.time()) < 60
    assert found == {
        "runs": 8,
        "runs_kept": 3,
        "runs_left": 4,
        "runs_done_total": 3,
        "runs_failed_total": 1,
        "runs_partial_total": 1,
        "run_seconds_total": 3,
        "longest_run_seconds": 1.5,
        "events_total": 3_000,
        "workers": 2,
    }


def test_other_requests_are_answered_in_words(served):
    _, port = served
    assert request(port, "/health")[:2] == (200, "application/json")
    assert json.loads(request(port, "/health")[2])["status"] == "ok"
    assert request(port, "/")[::2] == (404, "there are /metrics and /health\n")
    assert request(port, "/metrics", "POST")[0] == request(port, "/metrics", "DELETE")[0] == 405
    assert request(port, "/metrics", "HEAD")[::2] == (200, "")


def test_connections_that_say_nothing_keep_no_place(served, monkeypatch):
    monkeypatch.setattr(scrape, "PATIENCE_S", 0.5)
    _, port = served
    with contextlib.ExitStack() as silent:
        for _ in range(2 * scrape.MOST):
            silent.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert request(port, "/metrics")[0] == 200


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("9401", ("127.0.0.1", 9401)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),
        ("[::1]:9401", ("::1", 9401)),
    ],
)
def test_an_address(text, where):
    assert scrape.address(text) == where


@pytest.mark.parametrize("text", ["", "x", ":9401", "::1:9401", "127.0.0.1:", "65536", "[x]:1", "1.5", "-1"])
def test_what_is_no_address_is_wrong_use(text, tmp_path):
    file = tmp_path / "sweep.toml"
    file.write_text(f'scenario = "{ROOT}/scenarios/internet/dumbbell.toml"\nseeds = 1\n')
    found = CliRunner().invoke(app, ["campaign", str(file), "--out", str(tmp_path), f"--metrics={text}"])
    assert found.exit_code == 2 and "--metrics" in found.stderr, found.output


def test_a_taken_address_is_named_before_anything_is_run(tmp_path):
    file = tmp_path / "sweep.toml"
    file.write_text(f'scenario = "{ROOT}/scenarios/internet/dumbbell.toml"\nseeds = 1\n')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        found = CliRunner().invoke(
            app, ["campaign", str(file), "--out", str(tmp_path / "out"), "--metrics", port]
        )
    assert found.exit_code == 1, found.output
    assert f"cannot serve metrics at {port}" in found.stderr and "or 0 for any" in found.stderr
    assert not (tmp_path / "out").exists()


def test_a_campaign_serves_its_progress_until_it_ends(tmp_path):
    file = tmp_path / "sweep.toml"
    file.write_text(
        f'scenario = "{ROOT}/scenarios/internet/dumbbell.toml"\nseeds = "1..20"\n'
        '[grid]\n"run.duration" = ["5s"]\n'
    )
    command = [sys.executable, "-m", "layercast_lab.cli", "campaign", str(file), "--jobs", "1"]
    command += ["--out", str(tmp_path / "out"), "--json", "--metrics", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as campaign:
        said = campaign.stderr.readline()
        port = int(re.search(r":(\d+)/metrics$", said)[1])
        seen = []
        while campaign.poll() is None:
            try:
                seen.append(samples(request(port, "/metrics")[2]))
            except OSError:
                # It has ended.
                break
            time.sleep(0.02)
        told = json.loads(campaign.stdout.read())
    assert told["computed"] == 20
    counts = [it["layercast_campaign_runs_done_total"] for it in seen]
    assert counts == sorted(counts) and any(0 < it < 20 for it in counts), counts
    begun = [it for it in seen if it["layercast_campaign_runs"]]
    assert all(it["layercast_campaign_runs"] == 20 for it in begun)
    assert all(
        it["layercast_campaign_runs_left"] + it["layercast_campaign_runs_done_total"] == 20 for it in begun
    )


def test_the_page_has_all_metrics():
    rows = {}
    for line in PAGE.read_text().splitlines():
        if match := re.fullmatch(r"\| `(layercast_\w+)` \| (\w+) \| (.+) \|", line):
            rows[match[1]] = (match[2], match[3])
    told = {
        f"{family.name}_total" if family.kind == "counter" else family.name: (family.kind, family.help)
        for family in scrape.FAMILIES.values()
    }
    assert rows == told
