"""Validates what commands print with --json against the schemas in docs/src/reference/schemas."""

import json
from functools import cache
from pathlib import Path

from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).parents[2] / "docs/src/reference/schemas"
SUFFIX = ".schema.json"


def names() -> list[str]:
    """The names of all outputs."""
    return sorted(path.name.removesuffix(SUFFIX) for path in SCHEMAS.glob(f"*{SUFFIX}"))


def closed(value: object) -> object:
    """A schema that allows no other keys than those that it lists."""
    if isinstance(value, list):
        return [closed(part) for part in value]
    if not isinstance(value, dict):
        return value
    found = {key: closed(part) for key, part in value.items()}
    if isinstance(found.get("properties"), dict) and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


@cache
def validator(name: str, report: str | None) -> Draft202012Validator:
    """Validates an output or one of its lines, and refuses unknown keys."""
    schema = closed(json.loads((SCHEMAS / f"{name}{SUFFIX}").read_text()))
    if report is not None:
        forms = [form for form in schema["oneOf"] if form["properties"]["report"]["const"] == report]
        if not forms:
            raise AssertionError(f"{name}{SUFFIX} has no report {report}")
        schema = forms[0] | {"$defs": schema["$defs"]}
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def has_lines(name: str) -> bool:
    """Does the command print one object a line?"""
    schema = json.loads((SCHEMAS / f"{name}{SUFFIX}").read_text())
    return "oneOf" in schema and all("report" in form["properties"] for form in schema["oneOf"])


def validate(name: str, printed: str) -> list[object]:
    """What was printed, as values. Raises AssertionError at the first one that the schema refuses."""
    lines = has_lines(name)
    values = [json.loads(line) for line in printed.splitlines()] if lines else [json.loads(printed)]
    assert values, "nothing was printed"
    for value in values:
        errors = validator(name, value["report"] if lines else None).iter_errors(value)
        said = [f"{error.json_path}: {error.message[:200]}" for error in errors]
        assert not said, f"{name}{SUFFIX}: {'; '.join(said[:5])}"
    return values


def output_of(words: list[str], printed: str) -> str:
    """The name of the output of a command line of `layercast`."""
    command, rest = words[0], words[1:]
    match command:
        case "serve" | "switch":
            return "node"
        case "probe" if "--classes" in rest:
            return "probe-classes"
        case "join" if "--list" in rest:
            return "stats"
        case "stats" if any(word.startswith("xtp+daemon:") for word in rest):
            return "xtpd-stats"
        case "explain":
            keys = json.loads(printed)
            kinds = {"pictures": "explain-rate", "units": "explain-units"}
            return next((name for key, name in kinds.items() if key in keys), "explain")
        case "emulate" if any(word.split("=")[0] == "--to" for word in rest):
            return "emulate-path"
        case "path" if "--idle" in rest:
            return "path-idle"
        case "fec" | "path" | "ilp" | "nif":
            return f"{command}-{rest[0]}"
        case "workload":
            return f"workload-{rest[1] if rest[0] == 'analyze' else rest[0]}"
        case "sim":
            keys = json.loads(printed)
            kinds = {"figures": "sim-seeds", "measurements": "sim-internet", "outcomes": "sim-group"}
            return next((name for key, name in kinds.items() if key in keys), "sim")
    return command
