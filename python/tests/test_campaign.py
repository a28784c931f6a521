import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from distributed import Client, LocalCluster
from typer.testing import CliRunner

from layercast_lab import Campaign, executor
from layercast_lab.campaign import job
from layercast_lab.cli import app
from layercast_lab.engine import Done
from layercast_lab.metrics import MetricError
from layercast_lab.store import Store, StoreError

ROOT = Path(__file__).resolve().parents[2]
# Twenty runs of a tenth of a second each: enough to be stopped in the middle.
MINIATURE = f"""
scenario = "{ROOT}/scenarios/internet/dumbbell.toml"
seeds = "1..4"

[grid]
"run.duration" = ["5s"]
"topology.trunk.queue" = ["10 packets", "20 packets", "50 packets", "100 packets", "200 packets"]

[collect]
wait = "queues/left->right/mean_wait"
goodput = {{ of = "flows/*/goodput_bps", take = "sum" }}
loss = {{ of = "queues/left->right/dropped_full", per = "queues/left->right/offered" }}
"""
TINY = {
    "schema": "internet/1",
    "name": "tiny",
    "run": {"duration": "100ms"},
    "host": [{"name": "a"}, {"name": "b"}],
    "link": [{"ends": ["a", "b"], "rate": "10 Mbit/s", "delay": "1ms"}],
    "flow": [{"from": "a", "to": "b"}],
}


def lab(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "layercast_lab.cli", "campaign", *arguments]


def start(*arguments: str) -> SimpleNamespace:
    """The command, in this process."""
    found = CliRunner().invoke(app, ["campaign", *arguments])
    return SimpleNamespace(returncode=found.exit_code, stdout=found.stdout, stderr=found.stderr)


def results(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((out / "runs").glob("*.parquet"))}


def logged(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def miniature(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("miniature") / "miniature.toml"
    file.write_text(MINIATURE)
    return file


@pytest.fixture(scope="module")
def local(miniature) -> Path:
    """The results of the miniature on this machine, in one go."""
    out = miniature.parent / "local"
    run = start(str(miniature), "--out", str(out), "--json")
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert (told["runs"], told["computed"], told["kept"], told["left"]) == (20, 20, 0, 0)
    assert len(results(out)) == 20
    return out


def test_a_campaign_says_what_it_found(local, miniature):
    told = json.loads(start(str(miniature), "--out", str(local), "--json").stdout)
    assert len(told["metrics"]) == 15 and all(row["runs"] == 4 for row in told["metrics"])
    waits = [row["median"] for row in told["metrics"] if row["metric"] == "wait"]
    # A longer queue means a longer delay, and queued packets are not lost.
    assert waits == sorted(waits) and waits[-1] > 5 * waits[0]
    losses = [row for row in told["metrics"] if row["metric"] == "loss"]
    assert all(0 < row["min"] <= row["median"] <= row["max"] < 0.2 for row in losses)
    units = {row["metric"]: row["unit"] for row in told["metrics"]}
    assert units == {"wait": "s", "goodput": "bit/s", "loss": ""}
    assert all(Path(file).stat().st_size > 0 for file in told["files"])
    table = start(str(miniature), "--out", str(local))
    assert "goodput (Mbit/s)" in table.stdout and "20 kept" in table.stdout


def test_a_second_start_computes_nothing(local, miniature):
    before = {path: path.stat().st_mtime_ns for path in (local / "runs").iterdir()}
    told = json.loads(start(str(miniature), "--out", str(local), "--json").stdout)
    assert (told["computed"], told["kept"]) == (0, 20)
    assert {path: path.stat().st_mtime_ns for path in (local / "runs").iterdir()} == before
    assert len(logged(local)) == 20


def stopped_in_the_middle(miniature: Path, out: Path, how: signal.Signals) -> subprocess.Popen:
    """Starts the miniature, waits for some results, and sends a signal to the campaign alone."""
    campaign = subprocess.Popen(
        lab(str(miniature), "--out", str(out), "--jobs", "2"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while len(list((out / "runs").glob("*.parquet"))) < 3:
        assert campaign.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    campaign.send_signal(how)
    return campaign


def goes_on(miniature: Path, out: Path) -> None:
    """The same command makes the runs that are missing, and no others."""
    there = results(out)
    assert 3 <= len(there) < 20
    told = json.loads(start(str(miniature), "--out", str(out), "--json").stdout)
    assert (told["kept"], told["computed"], told["left"]) == (len(there), 20 - len(there), 0)
    assert results(out).items() >= there.items()


def has_ended(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def test_what_a_kill_leaves_is_gone_on_with(local, miniature, tmp_path):
    campaign = stopped_in_the_middle(miniature, tmp_path, signal.SIGKILL)
    campaign.communicate()
    # Its simulators end, too, in the middle of a run.
    workers = {int(entry["worker"].rpartition(":")[2]) for entry in logged(tmp_path)}
    deadline = time.monotonic() + 20
    while not all(map(has_ended, workers)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    (tmp_path / "runs" / "left.parquet.part").write_bytes(b"half a result")
    goes_on(miniature, tmp_path)
    assert results(tmp_path) == results(local)
    assert not list((tmp_path / "runs").glob("*.part"))


def test_ctrl_c_keeps_what_is_done(local, miniature, tmp_path):
    campaign = stopped_in_the_middle(miniature, tmp_path, signal.SIGINT)
    _, complaint = campaign.communicate(timeout=60)
    assert campaign.returncode == 130, complaint
    assert "the same command continues" in complaint and "Traceback" not in complaint
    goes_on(miniature, tmp_path)
    assert results(tmp_path) == results(local)


def test_damaged_results_are_computed_again(local, miniature, tmp_path):
    out = tmp_path / "copy"
    (out / "runs").mkdir(parents=True)
    whole = results(local)
    for name, data in whole.items():
        (out / "runs" / name).write_bytes(data)
    flipped, cut, gone, *_ = sorted((out / "runs").iterdir())
    data = bytearray(flipped.read_bytes())
    data[len(data) // 2] ^= 1
    flipped.write_bytes(data)
    cut.write_bytes(cut.read_bytes()[:-10])
    gone.unlink()
    told = json.loads(start(str(miniature), "--out", str(out), "--json").stdout)
    assert (told["damaged"], told["computed"], told["kept"]) == (2, 3, 17)
    assert results(out) == whole


@contextlib.contextmanager
def cluster(workers: int):
    """A Dask scheduler and a number of workers, each a process; the scheduler's address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    dask = [sys.executable, "-m"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = [*dask, "distributed.cli.dask_scheduler", "--host", address, "--no-dashboard"]
    worker = [
        *dask,
        "distributed.cli.dask_worker",
        address,
        "--nthreads",
        "1",
        "--no-nanny",
        "--no-dashboard",
    ]
    processes = [subprocess.Popen(command, **quiet) for command in (scheduler, *[worker] * workers)]
    try:
        # One that comes late may find that the other has done everything.
        with Client(address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=60)
        yield address
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def test_two_workers_of_a_cluster_give_the_same_files(local, miniature, tmp_path):
    with cluster(2) as address:
        run = start(str(miniature), "--out", str(tmp_path), "--scheduler", address, "--json")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["computed"] == 20
    assert results(tmp_path) == results(local)
    assert len({entry["worker"] for entry in logged(tmp_path)}) == 2


class Company(executor.Worker):
    """Holds back all runs after the first two until one more is under way."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = self._under_way = 0
        self._change = threading.Lock()
        self.found = threading.Event()

    def run(self, *arguments):
        with self._change:
            self._begun += 1
            self._under_way += 1
            waits = self._begun > 2
            if self._under_way == 2:
                self.found.set()
        try:
            if waits:
                self.found.wait(20)
            return super().run(*arguments)
        finally:
            with self._change:
                self._under_way -= 1


def test_workers_that_come_later_get_runs(tmp_path, monkeypatch):
    for name in ("AHEAD", "LEAST_AHEAD"):
        monkeypatch.setattr(executor, name, 1)
    monkeypatch.setattr(executor, "LOOK_EVERY_S", 0)
    # The workers are threads of this process, and each makes one run at a time.
    company = Company()
    monkeypatch.setattr(executor, "here", company)
    campaign = Campaign(TINY, {}, seeds=6, out=tmp_path)
    quiet = {"processes": False, "dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, **quiet) as dask,
        executor.Executor(dask.scheduler_address, None, None, None) as runs,
    ):
        outcomes = runs.run(map(job, campaign.runs), {})
        made = [next(outcomes)]
        assert not company.found.is_set()
        dask.scale(2)
        dask.wait_for_workers(2, timeout=60)
        made += outcomes
    assert [type(outcome) for outcome in made] == [Done] * 6
    assert company.found.is_set()


def test_no_cluster_is_an_error(miniature, tmp_path, monkeypatch):
    monkeypatch.setattr(executor, "WAIT_S", 1)
    run = start(str(miniature), "--out", str(tmp_path), "--scheduler", "tcp://127.0.0.1:9")
    assert run.returncode == 1
    assert "tcp://127.0.0.1:9" in run.stderr and "Traceback" not in run.stderr


def test_a_run_that_fails_does_not_stop_the_others(tmp_path):
    grid = {
        "what": {
            "sound": {},
            "wrong": {"flow[0].to": "unknown"},
            # More hosts than fit into the memory that it may have.
            "huge": {"host": [{"name": "a"}, {"name": "b"}, {"name": "x{1..800000}"}]},
        }
    }
    campaign = Campaign(TINY, grid, seeds=2, collect={"sent": "flows/*/sent"}, out=tmp_path)
    outcome = campaign.run(jobs=2, memory=250 << 20, quiet=True)
    assert (outcome.computed, outcome.left, len(outcome.failed)) == (2, 0, 4)
    errors = {run["what"]: run["error"] for run in outcome.failed}
    assert "unknown" in errors["wrong"]
    assert "died" in errors["huge"] and "250 MiB" in errors["huge"]
    assert campaign.frame()["what"].to_list() == ["sound", "sound"]
    # What failed has no result, so the next start tries again.
    assert len(campaign.pending()) == 4


def test_a_run_that_takes_too_long_fails(tmp_path):
    # A budget ends this run: it would simulate half a million seconds.
    campaign = Campaign(TINY, {"run.duration": ["1000000s"]}, seeds=1, out=tmp_path)
    [failed] = campaign.run(jobs=1, timeout=2, quiet=True).failed
    assert failed == {"run.duration": "1000000s", "seed": 1, "error": "it took more than 2 s"}


def test_a_run_at_the_end_of_its_budget_is_kept_and_named(tmp_path):
    longer = {**TINY, "run": {"duration": "20s"}}
    campaign = Campaign(longer, {"run.budget": [{"events": 50}, {"events": 10**9}]}, seeds=1, out=tmp_path)
    outcome = campaign.run(jobs=1, quiet=True)
    assert outcome.computed == 2
    assert outcome.partial == [{"run.budget": '{"events":50}', "seed": 1}]
    assert campaign.run(jobs=1, quiet=True).partial == outcome.partial


def test_one_campaign_at_a_time_works_in_a_folder(tmp_path):
    campaign = Campaign(TINY, seeds=1, out=tmp_path)
    with Store(tmp_path), pytest.raises(StoreError, match="another campaign"):
        campaign.run(jobs=1, quiet=True)
    assert campaign.run(jobs=1, quiet=True).computed == 1


def test_campaigns_share_what_is_the_same(tmp_path):
    few = Campaign(TINY, {"link[0].delay": ["1ms", "2ms"]}, seeds=2, out=tmp_path)
    more = Campaign(TINY, {"link[0].delay": ["2ms", "3ms", "1ms"]}, seeds="2..3", out=tmp_path)
    assert few.run(jobs=1, quiet=True).computed == 4
    outcome = more.run(jobs=1, quiet=True)
    assert (outcome.kept, outcome.computed) == (2, 4)
    # The contents of the folder are identifiable, whichever campaign was the last.
    few.run(jobs=1, quiet=True)
    told = json.loads((tmp_path / "campaign.json").read_text())
    assert {point["values"]["link[0].delay"] for point in told["points"]} == {"1ms", "2ms", "3ms"}
    # Another scenario that is the same, said in other words, and with a seed of its own.
    other = {**TINY, "run": {"seed": 9, "duration": "100ms"}}
    assert Campaign(other, seeds=2, out=tmp_path).run(jobs=1, quiet=True).kept == 2


def test_the_table_of_a_run_is_its_summary(tmp_path):
    campaign = Campaign(ROOT / "scenarios" / "quickstart.toml", seeds=[7], out=tmp_path)
    campaign.run(jobs=1, quiet=True)
    import layercast

    summary = layercast.run(ROOT / "scenarios" / "quickstart.toml", seed=7).summary
    [wide, _] = summary["flows"][0]["receivers"]
    found = campaign.rows("receivers/film/wide/*")
    series = found.filter(found["figure"] == "series_cells_E1")
    assert series["t"].to_list() == [second["t"] for second in wide["series"]]
    assert series["value"].to_list() == [second["cells"]["E1"] for second in wide["series"]]
    levels = found.filter(found["figure"] == "levels")
    assert [list(pair) for pair in zip(levels["t"], levels["value"], strict=True)] == wide["levels"]
    assert campaign.rows("run/events")["value"].to_list() == [summary["events"]]
    assert "wall_seconds" not in campaign.rows()["figure"]


def test_files_are_part_of_a_run_wherever_they_are(tmp_path):
    def folder(name: str, size: int) -> Path:
        made = tmp_path / name
        made.mkdir()
        (made / "size.dist").write_text(
            f'# dist v1\nname = "size"\nunit = "B"\nkind = "int"\ninterp = "step"\nsource = "here"\n'
            f"mean = {size}\n[knots]\n1 {size}\n"
        )
        (made / "mail.toml").write_text(
            "[app.smtp]\nmodel = 'push'\nport = 25\narrival = { process = 'poisson', mean_s = 1 }\n"
            "from = 'server'\nto = 'server'\ndist = { nitems = 'const(1) files', itemsize = 'size.dist' }\n"
        )
        hosts = "".join(f"[[host]]\nname = '{kind}{s}'\n" for kind in ("user", "server") for s in "ab")
        sites = "".join(
            f"[[workload.site]]\nworkstations = ['user{s}']\nservers = ['server{s}']\n" for s in "ab"
        )
        (made / "office.toml").write_text(
            "schema = 'internet/1'\nname = 'office'\n[run]\nduration = '60s'\n"
            f"{hosts}[[lan]]\nname = 'lan'\nrate = '10 Mbit/s'\nstations = ['user{{a,b}}', 'server{{a,b}}']\n"
            f"[workload]\nuse = 'mail.toml'\n{sites}".replace(
                "['user{a,b}', 'server{a,b}']", "['usera', 'userb', 'servera', 'serverb']"
            )
        )
        return made / "office.toml"

    def campaign(file: Path) -> Campaign:
        return Campaign(file, seeds=1, collect={"bytes": "queues/lan/bytes"}, out=tmp_path / "out")

    one, same, other = folder("one", 1_000), folder("same", 1_000), folder("other", 30_000)
    small = campaign(one)
    outcome = small.run(jobs=1, quiet=True)
    assert outcome.computed == 1, outcome
    assert campaign(same).run(jobs=1, quiet=True).kept == 1
    large = campaign(other)
    assert large.run(jobs=1, quiet=True).computed == 1
    assert large.frame()["value"].item() > 5 * small.frame()["value"].item()


def test_what_is_wrong_with_a_description_is_said(tmp_path):
    file = tmp_path / "c.toml"
    scenario = f'scenario = "{ROOT}/scenarios/internet/dumbbell.toml"\n'
    for text, complaint in (
        ("seeds = 3", "scenario"),
        ('scenario = "none.toml"', "none.toml"),
        (f"{scenario}seed = 3", "c.toml:2: seed: there is no such field; did you mean 'seeds'?"),
        (f'{scenario}seeds = "3.."', "FIRST..LAST"),
        (f'{scenario}[grid]\n"topology.trunk.queue" = "1 packets"', "topology.trunk.queue"),
        (f'{scenario}[grid]\n"flow[1].from" = ["a"]', "numbered from 0"),
        (f'{scenario}[grid]\n"topology..trunk" = ["a"]', "topology..trunk"),
        (f'{scenario}[grid]\n"name.x" = ["a"]', "no table"),
        (f'{scenario}[collect]\nwait = "mean_wait"', "PART/NAME/FIGURE"),
        (f'{scenario}[plot]\nx = "a"', "c.toml:3: plot.x: 'a' is no axis"),
        (f"{scenario}[plot]\nx = 3", "c.toml:3: plot.x: it is 3; expected the name of an axis"),
        ("scenario = ", "c.toml"),
    ):
        file.write_text(text)
        run = start(str(file), "--dry-run")
        assert run.returncode == 2, (text, run)
        assert complaint in run.stderr and "Traceback" not in run.stderr, run.stderr
    assert start(str(tmp_path / "none.toml")).returncode == 1


def test_a_metric_may_be_a_difference_or_not_there(tmp_path):
    collect = {
        "sent": "queues/*/sent",
        "left": {"of": "queues/*/offered", "less": "queues/*/sent", "take": "sum"},
        "share": {"of": "queues/*/offered", "less": "queues/*/sent", "per": "queues/*/offered"},
        "rare": {"of": "measurements/*/p50", "optional": True},
    }
    # Hardly anything may wait, so some of what is offered is not sent.
    short = {"link[0].queue": ["2 packets"]}
    campaign = Campaign(TINY, short, seeds=1, collect=collect, out=tmp_path)
    campaign.run(jobs=1, quiet=True)
    found = dict(campaign.frame().select("metric", "value").iter_rows())
    rows = campaign.rows("queues/*/*")
    offered, sent = (rows.filter(rows["figure"] == name)["value"] for name in ("offered", "sent"))
    assert found["left"] == offered.sum() - sent.sum() > 0
    assert found["share"] == pytest.approx(1 - sent.mean() / offered.mean())
    assert "rare" not in found
    with pytest.raises(MetricError, match="no run has"):
        Campaign(TINY, short, seeds=1, collect={"rare": "measurements/*/p50"}, out=tmp_path).frame()


def test_a_metric_that_no_run_has_says_what_there_is(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text(
        f'scenario = "{ROOT}/scenarios/internet/dumbbell.toml"\nseeds = 1\n'
        '[grid]\n"run.duration" = ["10ms"]\n[collect]\nwait = "queues/left->right/mean_weight"\n'
    )
    run = start(str(file), "--out", str(tmp_path / "out"))
    assert run.returncode == 2
    assert "queues/left->right/mean_wait" in run.stderr


def test_a_dry_run_runs_nothing(local, miniature, tmp_path):
    out = tmp_path / "out"
    plan = json.loads(start(str(miniature), "--out", str(out), "--dry-run", "--json").stdout)
    assert (plan["runs"], plan["pending"], plan["seeds"]) == (20, 20, [1, 2, 3, 4])
    assert not out.exists()
    shorter = start(str(miniature), "--out", str(local), "--dry-run", "--json", "--set", "run.duration=1s")
    assert json.loads(shorter.stdout)["axes"]["run.duration"] == ["1s"]
    assert json.loads(shorter.stdout)["pending"] == 20


def test_a_python_file_describes_a_campaign(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        f"from layercast_lab import Campaign\ntiny = {TINY!r}\n"
        "campaign = Campaign(tiny, {'link[0].delay': ['1ms', '2ms']}, seeds=1, collect={'e': 'run/events'})\n"
    )
    run = start(str(file), "--out", str(tmp_path / "out"), "--json")
    assert run.returncode == 0, run.stderr
    assert [row["link[0].delay"] for row in json.loads(run.stdout)["metrics"]] == ["1ms", "2ms"]
    assert os.listdir(tmp_path / "out" / "runs")


def test_an_experiment_that_was_begun_runs_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    begun = CliRunner().invoke(app, ["new", "my_experiment"])
    assert begun.exit_code == 0 and "my_experiment/campaign.toml" in begun.stdout
    scenario = tmp_path / "my_experiment" / "scenario.toml"
    scenario.write_text(scenario.read_text().replace('"12s"', '"3s"'))
    run = start("my_experiment/campaign.toml", "--json")
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert told["computed"] == 40 and len(told["metrics"]) == 16
    [picture] = [Path(file) for file in told["files"] if file.endswith(".png")]
    assert picture == Path("target/lab/campaigns/my_experiment/plot.png")
    assert picture.read_bytes().startswith(b"\x89PNG") and b"link[2].queue" in svg_text(picture)
    analysis = subprocess.run([sys.executable, "my_experiment/analysis.py"], capture_output=True, text=True)
    assert analysis.returncode == 0, analysis.stderr
    assert "significant" in analysis.stdout
    again = CliRunner().invoke(app, ["new", "my_experiment"])
    assert again.exit_code == 2 and "my_experiment" in again.stderr
    assert CliRunner().invoke(app, ["new", "my experiment"]).exit_code == 2


def svg_text(picture: Path) -> bytes:
    """The texts of a picture, which its SVG has as comments."""
    return b"\n".join(
        line for line in picture.with_suffix(".svg").read_bytes().splitlines() if b"<!--" in line
    )


def test_the_example_is_a_campaign():
    plan = json.loads(start(str(ROOT / "examples/campaign/queue.toml"), "--dry-run", "--json").stdout)
    assert plan["runs"] == 70
