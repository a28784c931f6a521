"""JSON Schemas and tables of the output of `--json`, made from docs/output.toml and the Rust types."""

import json
import re
import tomllib
from functools import cache
from pathlib import Path

from rust_types import Types

REPOSITORY = Path(__file__).resolve().parents[1]
REFERENCE = REPOSITORY / "docs/src/reference"
SCHEMAS = REFERENCE / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
MARK = re.compile(r"<!-- schema: (\S+) -->\n.*?<!-- end of schema -->", re.DOTALL)
# An object with no more keys is described where it is used; with no more than LARGE, too, if it is used once.
SMALL = 4
LARGE = 12
# An object that is used as often as this has a table of its own.
MANY = 4
# The enum of the lines that most commands print, and the reports that the output `line` describes once.
LINE = "cli/src/line.rs: Line"
COMMON = ("ready", "event")
LAYERS = ["BL", "E1", "E2"]


def outputs() -> list[dict]:
    """The entries of docs/output.toml."""
    return tomllib.loads((REPOSITORY / "docs/output.toml").read_text())["output"]


@cache
def all_types() -> Types:
    """The types of the source."""
    return Types()


@cache
def schemas() -> dict[str, dict]:
    """The schema of each output that is printed by a Rust program, by name."""
    types = all_types()
    return {output["name"]: schema(types, output) for output in outputs() if not output.get("hand")}


def schema(types: Types, output: dict) -> dict:
    """The schema of an output."""
    types.begin()
    head = {"$schema": DIALECT, "title": output["command"].replace("`", "")}
    if "type" in output:
        body = types.reference(output["type"])
        if output.get("list"):
            body = {"type": "array", "items": body}
    else:
        body = {"oneOf": lines(types, output)}
    summary = types.reference(output["summary"]) if "summary" in output else None
    for place, (kind, about) in output.get("add", {}).items():
        name, _, key = place.partition(".")
        definition = types.definitions[name]
        definition["properties"][key.rstrip("?")] = {"description": about} | types.reference(kind)
        if not key.endswith("?"):
            definition["required"] = [*definition["required"], key]
    if summary:
        merge(body["oneOf"][-1], types.inlined(summary))
    used = reachable(body, types.definitions)
    return head | body | {"$defs": {name: types.definitions[name] for name in sorted(used)}}


def lines(types: Types, output: dict) -> list[dict]:
    """The forms of the lines of an output, in the order of `reports`."""
    reference = types.reference(output["lines"])
    forms = types.definitions[reference["$ref"].removeprefix("#/$defs/")]["oneOf"]
    by_report = {form["properties"]["report"]["const"]: form for form in forms}
    return [by_report[name] for name in output.get("reports", by_report)]


def merge(line: dict, summary: dict) -> None:
    """Adds the keys of a summary to its line."""
    line["properties"] |= summary["properties"]
    line["required"] = [*line["required"], *summary["required"]]


def reachable(body: object, definitions: dict[str, dict]) -> set[str]:
    """The definitions that a schema refers to, directly or not."""
    found: set[str] = set()
    waiting = [body]
    while waiting:
        text = json.dumps(waiting.pop())
        for name in re.findall(r'"#/\$defs/(\w+)"', text):
            if name not in found:
                found.add(name)
                waiting.append(definitions[name])
    return found


class Tables:
    """The tables of one output.

    `links` has the definitions that are described elsewhere, by the file and the name of their types. Those
    of this output are added, so that the next one refers to them.
    """

    def __init__(self, output: dict, page: str, links: dict[str, str]):
        self.output = output
        self.schema = known(output["name"])
        self.page = page
        self.links = links
        self.waiting: list[str] = []
        self.uses: dict[str, int] = {}
        for name in re.findall(r'"#/\$defs/(\w+)"', json.dumps(self.schema)):
            self.uses[name] = self.uses.get(name, 0) + 1

    def write(self) -> str:
        """All tables as Markdown."""
        parts = []
        top = self.schema
        if "oneOf" in top and all("report" in form["properties"] for form in top["oneOf"]):
            parts += self.lines(top["oneOf"])
        else:
            parts.append(self.forms(self.resolve(top["items"] if top.get("type") == "array" else top)))
        while self.waiting:
            name = self.waiting.pop(0)
            definition = self.schema["$defs"][name]
            parts.append(f"### {name}\n\n{cell(definition.get('description', ''))}")
            parts.append(self.forms(definition))
        return "\n\n".join(parts)

    def lines(self, forms: list[dict]) -> list[str]:
        """The tables of the lines."""
        parts = []
        common = COMMON if self.output["lines"] == LINE and self.output["name"] != "line" else ()
        skipped = ["report"]
        reports = [form["properties"]["report"]["const"] for form in forms]
        if shared := [f"`{report}`" for report in common if report in reports]:
            verb = "is that" if len(shared) == 1 else "are those"
            parts.append(f"{' and '.join(shared)} {verb} of [all commands](json.md#lines).")
        if like := self.output.get("like"):
            skipped += known(like)["$defs"][known(like)["$ref"].removeprefix("#/$defs/")]["properties"]
        for form in forms:
            report = form["properties"]["report"]["const"]
            if report in common:
                continue
            parts.append(f"### `{report}`\n\n{cell(form.get('description', ''))}")
            skip = skipped if report == "summary" else ["report"]
            if table := self.table(form, skip=tuple(skip)):
                parts.append(table)
        return parts

    def forms(self, definition: dict) -> str:
        """The table of an object, or of each form of a value."""
        if "properties" in definition:
            return self.table(definition)
        parts = []
        for form in definition["oneOf"]:
            tags = [f"`{key}` is {words(it)}." for key, it in form["properties"].items() if "const" in it]
            parts.append(" ".join([cell(form.get("description", "")), *tags]))
            if table := self.table(form):
                parts.append(table)
        return "\n\n".join(parts)

    def table(self, definition: dict, skip: tuple[str, ...] = ()) -> str:
        """The table of the keys of an object."""
        rows = self.rows("", definition, skip)
        return "\n".join(["| key | type | meaning |", "|---|---|---|", *rows]) if rows else ""

    def rows(self, prefix: str, definition: dict, skip: tuple[str, ...] = ()) -> list[str]:
        """The rows of the keys of an object."""
        rows = []
        required = definition.get("required", [])
        if not prefix and "$comment" in definition:
            # Keys of a type that has a table elsewhere.
            for place in definition["$comment"].split("; includes ")[1:]:
                if place in self.links:
                    link = self.links[place].removeprefix(self.page)
                    rows.append(f"| .. | | The keys of [{place.split(': ')[1]}]({link}). |")
                    skip = (*skip, *all_types().keys[place])
        for key, value in definition["properties"].items():
            if key in skip or "const" in value:
                continue
            kind, inner, suffix = self.kind(value)
            optional = "" if key in required else ", optional"
            about = value.get("description", "") or (inner or {}).get("description", "")
            rows.append(f"| `{prefix}{key}` | {kind}{optional} | {cell(about)} |")
            if inner:
                rows += self.rows(f"{prefix}{key}{suffix}.", inner)
        return rows

    def resolve(self, value: dict) -> dict:
        """What a reference refers to."""
        reference = value.get("$ref", "").removeprefix("#/$defs/")
        return self.schema["$defs"][reference] if reference else value

    def kind(self, value: dict) -> tuple[str, dict | None, str]:
        """The type of a value in words, the object whose keys follow, and the prefix of these keys."""
        if reference := value.get("$ref", "").removeprefix("#/$defs/"):
            definition = self.schema["$defs"][reference]
            if is_words(definition):
                return words(definition), None, ""
            place = definition["$comment"].split(";")[0] + ": " + reference
            size = len(definition.get("properties", {}))
            uses = self.uses[reference]
            most = LARGE if uses == 1 else SMALL if uses < MANY else 0
            if "properties" in definition and place not in self.links and size <= most:
                return "object", definition, ""
            if place not in self.links:
                self.waiting.append(reference)
                self.links[place] = f"{self.page}#{reference.lower()}"
            return f"[object]({self.links[place].removeprefix(self.page)})", None, ""
        if "anyOf" in value:
            forms = [form for form in value["anyOf"] if form != {"type": "null"}]
            kind, inner, suffix = self.kind(forms[0])
            return f"{kind} or null", inner, suffix
        if is_words(value):
            return words(value), None, ""
        types = value.get("type", "any")
        types = [types] if isinstance(types, str) else types
        names = {"string": "text", "boolean": "true or false", "null": "null"}
        if "array" in types:
            kind, inner, suffix = self.kind(value.get("items") or {})
            if "prefixItems" in value:
                parts = [self.kind(part)[0] for part in value["prefixItems"]]
                kind, inner = f"({', '.join(parts)})", None
            null = " or null" if "null" in types else ""
            return f"list of {plural(kind)}{null}", inner, f"[]{suffix}"
        if "properties" in value:
            if list(value["properties"]) == LAYERS:
                kind, _, _ = self.kind(value["properties"]["BL"])
                return f"{kind} per layer", None, ""
            return "object", value, ""
        if isinstance(value.get("additionalProperties"), dict):
            kind, inner, suffix = self.kind(value["additionalProperties"])
            return f"{kind} by name", inner, f".NAME{suffix}"
        return " or ".join(names.get(name, name) for name in types), None, ""


def plural(kind: str) -> str:
    """More than one of a type."""
    return {"integer": "integers", "number": "numbers", "text": "texts", "object": "objects"}.get(kind, kind)


def is_words(value: dict) -> bool:
    """Is it one of several words?"""
    return "enum" in value or ("oneOf" in value and all("const" in form for form in value["oneOf"]))


def words(value: dict) -> str:
    """The words that a value may be."""
    all_words = value.get("enum") or [form["const"] for form in value.get("oneOf", [value])]
    return " \\| ".join(f"`{json.dumps(word)}`" for word in all_words)


def cell(text: str) -> str:
    """A description as the text of a cell."""
    text = " ".join(text.split())
    text = re.sub(r"docs/src/reference/([\w-]+)\.md", r"[\1](\1.md)", text)
    text = re.sub(r"docs/src/([\w-]+)/([\w-]+)\.md", r"[\2](../\1/\2.md)", text)
    parts = [part.replace("<", "&lt;") if at % 2 == 0 else part for at, part in enumerate(text.split("`"))]
    return "`".join(parts).replace("|", "\\|")


def known(name: str) -> dict:
    """The schema of an output: from the types, or kept by hand."""
    return schemas().get(name) or json.loads(place(name).read_text())


def place(name: str) -> Path:
    """The file of a schema."""
    return SCHEMAS / f"{name}.schema.json"


def files(links: dict[str, str]) -> dict[Path, str]:
    """The text of each schema, and of each page with tables; `links` has the types on other pages."""
    found = {place(name): json.dumps(it, indent=1) + "\n" for name, it in schemas().items()}
    pages = {path: path.read_text() for path in sorted(REFERENCE.glob("*.md"))}
    places = {mark[1]: path for path, text in pages.items() for mark in MARK.finditer(text)}
    links = dict(links)
    for output in outputs():
        name = output["name"]
        if name not in places:
            raise LookupError(f"docs/output.toml: no page has <!-- schema: {name} -->")
        path = places.pop(name)
        tables = Tables(output, path.name, links).write()
        text = (
            f"<!-- schema: {name} -->\n\nJSON Schema: [{name}.schema.json](schemas/{name}.schema.json).\n\n"
            f"{tables}\n\n<!-- end of schema -->"
        )
        pages[path] = MARK.sub(lambda mark: text if mark[1] == name else mark[0], pages[path])  # noqa: B023
        found[path] = pages[path]
    if places:
        raise LookupError(f"docs/output.toml has no output {', '.join(places)}")
    return found
