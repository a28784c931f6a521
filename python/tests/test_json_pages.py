"""The pages of JSON output name every key that the commands print, and no key that the code does not have."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs/src/reference"
PAGES = sorted(REFERENCE.glob("json*.md"))
# The pages of scenarios and counters name fields that JSON output has, too.
MORE = [REFERENCE / name for name in ("statistics.md", "simulator-output.md", "fec-models.md")]
CLIP = ROOT / "target/demo/clip.m1v"
TREE = """
[[branch]]
name = "wan"
loss = 0.01
hops = 12

[[branch]]
name = "office"
parent = "wan"
loss = 0.001
count = 200
"""
# Quick runs of commands; {out} is an empty folder. Those of live nodes are tested beside their own tests.
RUNS = {
    "probe": "probe {clip} --json",
    "filter": "filter --low-pass 10 {clip} -o {out}/soft.m1v --json",
    "live flows": "sim scenarios/quickstart.toml --json",
    "faults": "sim scenarios/lossy.toml --json",
    "internetwork": "sim scenarios/internet/star.toml --duration 1s --json",
    "dumbbell": "sim scenarios/internet/dumbbell.toml --duration 1s --json",
    "reliable multicast": "sim scenarios/group/star.toml --json",
    "FRM": "sim scenarios/group/frm.toml --json",
    "backbone": "sim scenarios/internet/vbr.toml --duration 100ms --json",
    "XTP": "sim scenarios/internet/xtp-multicast.toml --json",
    "seeds": "sim scenarios/internet/star.toml --duration 300ms --seeds 1..2 --out {out}/runs --json",
    "places of parities": "fec plan {out}/tree.toml --json",
    "estimate": "send scenarios/quickstart.toml --to 127.0.0.1 --dry-run --receivers 3 --json",
}


def words(text: str) -> set[str]:
    """The keys that a page names: in quotes in its blocks, in back quotes elsewhere."""
    found: set[str] = set()
    for part in re.split(r"(?m)^```", text):
        found |= set(re.findall(r'"(\w+)"', part))
        for code in re.findall(r"`([^`\n]+)`", part):
            found |= set(re.findall(r"\w+", code))
    return found


def keys(value: object) -> set[str]:
    """All keys in a JSON value, but those of tables by name or number of a thing."""
    if isinstance(value, list):
        return set().union(*map(keys, value))
    if isinstance(value, dict):
        return set(value).union(*map(keys, value.values()))
    return set()


@pytest.fixture(scope="module")
def documented() -> set[str]:
    return set().union(*(words(path.read_text()) for path in [*PAGES, *MORE]))


@pytest.mark.parametrize("run", RUNS)
def test_the_pages_name_every_printed_key(command, documented, run, tmp_path):
    if "{clip}" in RUNS[run] and not CLIP.exists():
        pytest.skip("make clips")
    (tmp_path / "tree.toml").write_text(TREE)
    arguments = RUNS[run].format(clip=CLIP, out=tmp_path).split()
    printed = subprocess.run([command, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert printed.returncode == 0, printed.stderr
    value = json.loads(printed.stdout)
    assert value
    assert keys(value) <= documented, sorted(keys(value) - documented)


@pytest.mark.parametrize("arguments", [["list"], ["reproduce", "fully-reliable-multicast/sanity"]])
def test_the_pages_name_every_key_of_the_lab(documented, arguments, tmp_path):
    out = ["--out", str(tmp_path)] if arguments[0] == "reproduce" else []
    run = [sys.executable, "-m", "layercast_lab.cli", *arguments, *out, "--json"]
    printed = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True)
    assert keys(json.loads(printed.stdout)) <= documented


def code() -> str:
    """The text of the code that prints JSON."""
    rust = (ROOT / "crates").glob("*/src/**/*.rs")
    python = (ROOT / "python/layercast_lab").rglob("*.py")
    return "\n".join(path.read_text() for path in [*rust, *python])


def test_the_code_has_every_key_of_the_pages():
    blocks = [block for path in PAGES for block in re.findall(r"```text\n(.*?)```", path.read_text(), re.S)]
    named = set(re.findall(r'"(\w+)"', "\n".join(blocks)))
    assert len(named) > 200
    known = set(re.findall(r"[\w-]+", code()))
    # A key of a variant or a word is the name in another spelling.
    spelled = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).lower() for word in known}
    missing = sorted(key for key in named if key not in known and key not in spelled)
    assert not missing
