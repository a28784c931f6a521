"""The JSON Schemas of the tree file and of the campaign file, and the programs that read them, agree."""

import json
import subprocess
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from layercast_lab import description, grid, scaffold
from layercast_lab.cli import app

ROOT = Path(__file__).resolve().parents[2]
TREE = """
[[branch]]
name = "wan"
loss = 0.001
hops = 12

[[branch]]
name = "office"
parent = "wan"
part = "offices"
loss = 0
count = 200

[[branch]]
name = "spare"
parent = "wan"
loss = 0.5
hops = 0
receiver = false
"""
# What replaces a text of TREE, and the field that the program names.
BAD_TREES = {
    "loss = 0.001": ["loss = 1", "loss = 1.0", "loss = -0.1", 'loss = "1 %"', "loss = true", "los = 0.001"],
    "hops = 12": ["hops = -1", "hops = 4294967296", "hops = 1.5", 'hops = "12"'],
    "count = 200": ["count = -1", "count = 0.5", "counts = 200"],
    'name = "wan"': ["name = 5", "", 'name = ["wan"]'],
    'part = "offices"': ["part = false", "part = {}"],
    "receiver = false": ["receiver = 0", 'receiver = "no"'],
    'parent = "wan"\npart': ["parent = 1\npart", "parent = []\npart"],
}
CAMPAIGN = """
scenario = "scenario.toml"
seeds = "1..5"

[grid]
"link[2].queue" = ["10 packets", "20 packets"]
"tcp.default.variant" = ["reno", "cubic"]
"run.duration" = ["2s"]

[grid.path]
near = { "link[1].delay" = "1ms", "flow[*].start" = "0s" }
far = { "link[1].delay" = "40ms" }

[collect]
far = { of = "flows/far->sink/goodput_bps", per = "flows/near->sink/goodput_bps", take = "sum", unit = "" }
wait = "queues/r->sink/mean_wait"
less = { of = "run/events", less = "run/events", optional = true }

[plot]
x = "link[2].queue"
y = ["far", "wait"]
by = "tcp.default.variant"
log = true
"""
GOOD_CAMPAIGNS = {
    'seeds = "1..5"': ["seeds = 7", "seeds = [3, 9, 9223372036854775807]", ""],
    '"run.duration" = ["2s"]': ['run = { a = { "run.duration" = "2s" } }', '"run.new.key" = [1, 2.5, true]'],
    'y = ["far", "wait"]': ['y = "wait"', ""],
    'by = "tcp.default.variant"': ['by = "path"', ""],
    'wait = "queues/r->sink/mean_wait"': ['wait = { of = "queues/*/mean_wait", take = "max" }'],
}
BAD_CAMPAIGNS = {
    'scenario = "scenario.toml"': ["", "scenario = 1", 'scenario = ""', 'scenarios = "scenario.toml"'],
    'seeds = "1..5"': [
        "seeds = 0",
        "seeds = -1",
        "seeds = true",
        "seeds = 1.5",
        "seeds = 100001",
        'seeds = "5"',
        'seeds = "1-5"',
        "seeds = []",
        "seeds = [1, 1]",
        "seeds = [-1]",
        'seeds = ["1"]',
        "seeds = {}",
    ],
    '"run.duration" = ["2s"]': [
        '"run.duration" = "2s"',
        '"run.duration" = []',
        '"run.duration" = {}',
        '"run.duration" = ["2s", "2s"]',
        '"run.duration" = { a = "2s" }',
        '"run.duration." = ["2s"]',
        '"[0].duration" = ["2s"]',
        '"flow[-1].start" = ["2s"]',
        '"flow[1]start" = ["2s"]',
        '"run duration" = ["2s"]',
        '"" = ["2s"]',
        "seed = [1]",
        'value = { a = { "run.duration" = "2s" } }',
        'a = { b = { "run..duration" = "2s" } }',
    ],
    'wait = "queues/r->sink/mean_wait"': [
        'wait = "mean_wait"',
        "wait = 5",
        'wait = ["queues/r->sink/mean_wait"]',
        "wait = {}",
        'wait = { take = "sum" }',
        'wait = { of = "mean_wait" }',
        'wait = { of = "queues/*/mean_wait", take = "most" }',
        'wait = { of = "queues/*/mean_wait", per = "" }',
        'wait = { of = "queues/*/mean_wait", unit = 1 }',
        'wait = { of = "queues/*/mean_wait", optional = "yes" }',
        'wait = { of = "queues/*/mean_wait", units = "s" }',
    ],
    'x = "link[2].queue"': ["", "x = 1", 'x = ["link[2].queue"]'],
    'y = ["far", "wait"]': ["y = []", "y = 1", 'y = [["far"]]', "y = [1]"],
    'by = "tcp.default.variant"': ["by = 1", "by = true", 'colour = "path"'],
    "log = true": ["log = 1", 'log = "yes"', "logs = true"],
}
TABLES = ("grid", "collect", "plot")


def changes(text: str, table: dict[str, list[str]]) -> list[str]:
    """The text with each of the replacements."""
    for old in table:
        assert text.count(old) == 1, old
    return [text.replace(old, new) for old, several in table.items() for new in several]


def errors(schema: dict, text: str) -> list[str]:
    Draft202012Validator.check_schema(schema)
    found = Draft202012Validator(schema).iter_errors(tomllib.loads(text))
    return [f"{error.json_path}: {error.message}" for error in found]


@pytest.fixture(scope="module")
def tree_schema(command) -> dict:
    printed = subprocess.check_output([command, "fec", "plan", "--schema"], text=True)
    assert printed == (ROOT / "scenarios/tree.schema.json").read_text()
    return json.loads(printed)


def plan(command, tmp_path, text: str) -> subprocess.CompletedProcess:
    """What `fec plan` says to a tree."""
    (tmp_path / "tree.toml").write_text(text)
    return subprocess.run(
        [command, "fec", "plan", "tree.toml"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )


def test_schema_and_command_accept_the_same_trees(command, tree_schema, tmp_path):
    whole = [TREE, *(TREE.replace(old, "") for old in ("hops = 12\n", "count = 200", 'part = "offices"'))]
    for text in whole:
        assert errors(tree_schema, text) == []
        done = plan(command, tmp_path, text)
        assert done.returncode == 0, done.stderr
    for text in ["", "branch = []", "branch = 1", *changes(TREE, BAD_TREES)]:
        assert errors(tree_schema, text), text
        done = plan(command, tmp_path, text)
        assert done.returncode == 1 and "tree.toml" in done.stderr, f"{text}{done}"


def campaign(tmp_path: Path, text: str) -> str | None:
    """What the lab says against a campaign file; None if it accepts it."""
    path = tmp_path / "campaign.toml"
    path.write_text(text)
    (tmp_path / "scenario.toml").write_text(scaffold.SCENARIO.format(name="s"))
    try:
        description.read(path, tmp_path / "out")
    except description.DescriptionError as error:
        assert str(error).startswith(str(path)), error
        return str(error)
    return None


def test_schema_and_lab_accept_the_same_campaigns(tmp_path):
    printed = CliRunner().invoke(app, ["campaign", "--schema"])
    assert printed.exit_code == 0
    schema = json.loads(printed.stdout)
    shipped = [path.read_text() for path in ROOT.glob("examples/campaign/*.toml")]
    new = scaffold.CAMPAIGN.format(name="new")
    assert shipped and all(errors(schema, text) == [] for text in [*shipped, new])
    for text in [CAMPAIGN, new, *changes(CAMPAIGN, GOOD_CAMPAIGNS)]:
        assert errors(schema, text) == [], text
        assert campaign(tmp_path, text) is None, text
    no_tables = ['scenario = "scenario.toml"\n' + f"{table} = []\n" for table in TABLES]
    for text in [*no_tables, *changes(CAMPAIGN, BAD_CAMPAIGNS)]:
        assert errors(schema, text), text
        assert campaign(tmp_path, text), text


def test_limits_of_campaigns(tmp_path):
    schema = json.loads(description.SCHEMA.read_text())
    numbers = schema["properties"]["seeds"]["anyOf"]
    assert numbers[0]["maximum"] == numbers[2]["maxItems"] == grid.MOST_SEEDS
    assert set(schema["properties"]["grid"]["propertyNames"]["not"]["enum"]) == grid.COLUMNS
    for seeds in ('"1..99999999999999999999"', f"{10**18}", '"7..3"'):
        assert "seeds" in campaign(tmp_path, CAMPAIGN.replace('"1..5"', seeds))
    many = "\n".join(f'"run.k{axis}" = {list(range(100))}' for axis in range(4))
    said = campaign(tmp_path, CAMPAIGN.replace('"run.duration" = ["2s"]', many))
    assert "1,000,000" in said
    neither = CliRunner().invoke(app, ["campaign"])
    assert neither.exit_code == 2 and "--schema" in neither.stderr
