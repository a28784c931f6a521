"""JSON Schemas of the Rust types that serde serialises, read from the source.

The source is formatted by rustfmt and each field has a doc comment, so a reader of lines is enough. A schema
that does not follow the type fails the tests that validate real output (python/tests/test_json_output.py).
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

CRATES = Path(__file__).resolve().parents[1] / "crates"
ITEM = re.compile(
    r"^(?:pub(?:\([a-z]+\))? )?(struct|enum) (\w+)(?:<([^>{]*)>)?(?:\((.*)\);| ?(\{)\}?)$", re.MULTILINE
)
FIELD = re.compile(r"^(?:pub(?:\([a-z]+\))? )?(?:r#)?(\w+): (.*),$", re.DOTALL)
UNSIGNED = re.compile(r"u(?:8|16|32|64|128|size)|NonZero<?\w*>?")
TEXTS = {"String", "str", "char", "PathBuf", "Path", "Text", "SocketAddr", "SocketAddrV4", "SocketAddrV6"}
TEXTS |= {"IpAddr", "Ipv4Addr", "Ipv6Addr", "Fingerprint", "JoinUrl"}
LISTS = {"Vec", "VecDeque", "BTreeSet", "HashSet"}
# Marks the comment that names the type of a `Value`.
JSON = "// JSON: "
MAPS = {"BTreeMap", "HashMap", "Map"}


class Unknown(LookupError):
    """A type that is not in the source, or a form of serde that is not supported."""


@dataclass
class Field:
    """A field of a struct, or the fields of a variant."""

    name: str
    type: str
    about: str
    serde: dict[str, str | None]


@dataclass
class Variant:
    """A variant of an enum: without content, with a type, or with fields."""

    name: str
    about: str
    serde: dict[str, str | None]
    type: str | None = None
    fields: list[Field] = field(default_factory=list)


@dataclass
class Item:
    """A struct or an enum of the source."""

    file: str
    name: str
    kind: str
    about: str
    serde: dict[str, str | None]
    parameters: list[str]
    tuple: str | None
    fields: list[Field]
    variants: list[Variant]

    def __hash__(self) -> int:
        return hash((self.file, self.name))


def split(text: str) -> list[str]:
    """Splits at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        depth += sign in "<([{"
        depth -= sign in ")]}" or (sign == ">" and text[at - 1] != "-")
        if sign == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [part for part in [*parts, text[start:].strip()] if part]


def serde_of(attributes: str) -> dict[str, str | None]:
    """The settings in the attributes of serde."""
    found: dict[str, str | None] = {}
    for inside in re.findall(r"#\[serde\((.*?)\)\]", attributes, re.DOTALL):
        for part in split(inside):
            key, _, value = part.partition("=")
            found[key.strip()] = value.strip().strip('"') or None
    return found


def plain(comment: str) -> str:
    """The text of a doc comment in one line; links of rustdoc are names."""
    lines = [line.strip().removeprefix("///").strip() for line in comment.splitlines()]
    text = " ".join(line for line in lines if line)
    text = re.sub(r"\[(`[^`]+`)\](\([^)]*\))?", r"\1", text)
    text = text.replace("`None`", "null")
    # The citations of specifications are for readers of the code.
    return re.sub(r" \(specs/[^)]*\)", "", text)


def members(body: str, indent: int) -> list[tuple[str, str, str]]:
    """Doc comment, attributes and text of each member of a body at this depth."""
    if "\n" not in body.strip():
        return [("", "", part + ",") for part in split(body)]
    found, comment, attributes, lines = [], "", "", body.splitlines()
    margin = " " * indent
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        stripped = line.strip()
        if stripped.startswith("///"):
            comment += stripped + "\n"
        elif stripped.startswith(JSON):
            # The type of a value that is built at run time.
            attributes += f'#[serde(json = "{stripped.removeprefix(JSON)}")]\n'
        elif stripped.startswith("//") or not stripped:
            continue
        elif stripped.startswith("#["):
            while not stripped.endswith("]") and at < len(lines):
                stripped += lines[at].strip()
                at += 1
            attributes += stripped + "\n"
        else:
            text = last = line
            # A member ends with a comma at its own depth.
            while not (text.endswith(",") and last.startswith(margin) and last[indent] != " "):
                if at == len(lines):
                    raise Unknown(f"no end of: {text.strip()[:60]}")
                last = lines[at]
                text += "\n" + last
                at += 1
            found.append((comment, attributes, text.strip()))
            comment = attributes = ""
    return found


def fields_of(body: str, indent: int) -> list[Field]:
    """The fields in a body."""
    fields = []
    for comment, attributes, text in members(body, indent):
        match = FIELD.match(text)
        if not match:
            raise Unknown(f"no field: {text[:60]}")
        kind = re.sub(r"\s+", " ", match.group(2))
        fields.append(Field(match.group(1), kind, plain(comment), serde_of(attributes)))
    return fields


def variants_of(body: str) -> list[Variant]:
    """The variants in the body of an enum."""
    variants = []
    for comment, attributes, text in members(body, 4):
        name = re.match(r"\w+", text).group()
        variant = Variant(name, plain(comment), serde_of(attributes))
        rest = re.sub(r" = \d+$", "", text[len(name) :].strip().removesuffix(","))
        if rest.startswith("("):
            variant.type = re.sub(r"\s+", " ", rest[1:-1].strip().removesuffix(","))
        elif rest.startswith("{"):
            variant.fields = fields_of(rest[1:-1].strip("\n"), 8)
        variants.append(variant)
    return variants


def items_of(path: Path) -> list[Item]:
    """The structs and enums of a file that serde serialises."""
    text = path.read_text()
    file = str(path.relative_to(CRATES))
    found = []
    for match in ITEM.finditer(text):
        before = text[: match.start()].splitlines()
        head: list[str] = []
        while before and (before[-1].startswith(("///", "#[", "    ", ")]")) or before[-1] == "]"):
            head.insert(0, before.pop())
        header = "\n".join(head)
        if "Serialize" not in header:
            continue
        kind, name, parameters, content, brace = match.groups()
        body = ""
        if brace and not match.group().endswith("{}"):
            body = text[match.end() + 1 : text.index("\n}", match.end())]
        comment = "\n".join(line for line in head if line.startswith("///"))
        about = plain(comment)
        item = Item(file, name, kind, about, serde_of(header), split(parameters or ""), content, [], [])
        if kind == "enum":
            item.variants = variants_of(body)
        elif body:
            item.fields = fields_of(body, 4)
        found.append(item)
    return found


def uses_of(text: str) -> dict[str, tuple[str, str]]:
    """The names that a file imports: the crate and the name there."""
    found: dict[str, tuple[str, str]] = {}

    def expand(prefix: str, tree: str) -> None:
        head, brace, rest = tree.partition("{")
        if brace:
            for part in split(rest.rstrip("}") if rest.count("{") == 0 else rest[:-1]):
                expand(prefix + head, part)
            return
        name, _, alias = tree.partition(" as ")
        full = prefix + name
        found[alias or full.rsplit("::", 1)[-1]] = (full.split("::")[0], full.rsplit("::", 1)[-1])

    for tree in re.findall(r"^(?:pub )?use ([^;]+);", text, re.MULTILINE):
        expand("", re.sub(r"\s+", " ", tree).replace("{ ", "{").replace(" }", "}"))
    return found


def recase(name: str, rule: str | None) -> str:
    """A name of Rust as a rule of serde writes it."""
    # As serde does it: each capital begins a word.
    words = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    rules = {
        None: name,
        "PascalCase": name,
        "snake_case": words,
        "kebab-case": words.replace("_", "-"),
        "lowercase": name.lower(),
        "UPPERCASE": name.upper(),
    }
    if rule not in rules:
        raise Unknown(f"rename_all = {rule}")
    return rules[rule]


class Types:
    """All types that serde serialises, and the schemas of those that were asked for."""

    def __init__(self):
        self.items: dict[str, list[Item]] = {}
        self.uses: dict[str, dict[str, tuple[str, str]]] = {}
        # Schemas by name; a name that two types have is qualified by the crate.
        self.definitions: dict[str, dict] = {}
        self.names: dict[Item, str] = {}
        # The keys of all structs so far, by file and name.
        self.keys: dict[str, list[str]] = {}
        for path in sorted(CRATES.glob("*/src/**/*.rs")):
            self.uses[str(path.relative_to(CRATES))] = uses_of(path.read_text())
            for item in items_of(path) if "Serialize" in path.read_text() else []:
                self.items.setdefault(item.name, []).append(item)

    def find(self, name: str, file: str) -> Item:
        """The type that `name` means in `file`."""
        crate, wanted = self.uses.get(file, {}).get(name, ("crate", name))
        if not crate.startswith("layercast_"):
            # What the root of the crate passes on of another one.
            root = self.uses.get(f"{file.split('/')[0]}/src/lib.rs", {})
            crate, wanted = root.get(wanted, (crate, wanted))
        # A path that does not start with one of our crates starts with a module of this crate.
        is_ours = crate.startswith("layercast_")
        crate = crate.removeprefix("layercast_").replace("_", "-") if is_ours else "crate"
        found = self.items.get(wanted, [])
        here = [item for item in found if item.file == file]
        own = [item for item in found if item.file.split("/")[0] == file.split("/")[0]]
        other = [item for item in found if item.file.split("/")[0] == crate]
        for choice in (here, other, own, found):
            if len(choice) == 1:
                return choice[0]
        near = [item for item in own if Path(item.file).parent == Path(file).parent]
        if len(near) == 1:
            return near[0]
        raise Unknown(f"crates/{file}: {name} is {'ambiguous' if found else 'no type that serde serialises'}")

    def begin(self) -> None:
        """Begins a schema of its own: forgets the definitions."""
        self.definitions, self.names = {}, {}

    def reference(self, place: str) -> dict:
        """A reference to the type at a place such as `net/src/udp.rs: UdpStats`."""
        file, _, name = place.partition(": ")
        return self.of(name, file, {})

    def of(self, rust: str, file: str, bound: dict[str, dict]) -> dict:
        """The schema of a type as the source in `file` writes it."""
        rust = re.sub(r"&(?:'\w+ )?(?:mut )?", "", rust).strip()
        if rust in bound:
            return bound[rust]
        if rust.startswith("("):
            parts = [self.of(part, file, bound) for part in split(rust[1:-1])]
            size = len(parts)
            return {"type": "array", "prefixItems": parts, "items": False, "minItems": size, "maxItems": size}
        if rust.startswith("["):
            inner, _, count = rust[1:-1].partition(";")
            schema = {"type": "array", "items": self.of(inner, file, bound)}
            if count.strip().isdigit():
                schema |= {"minItems": int(count), "maxItems": int(count)}
            return schema
        name, _, inside = rust.partition("<")
        crate, name = name.split("::")[0], name.split("::")[-1]
        if crate.startswith("layercast_"):
            file = crate.removeprefix("layercast_").replace("_", "-") + "/src/lib.rs"
        arguments = [part for part in split(inside[:-1]) if not part.startswith("'")] if inside else []
        if name in ("Box", "Arc", "Rc", "Cow"):
            return self.of(arguments[0], file, bound)
        if name == "Option":
            return nullable(self.of(arguments[0], file, bound))
        if name in LISTS:
            return {"type": "array", "items": self.of(arguments[0], file, bound)}
        if name in MAPS:
            return {"type": "object", "additionalProperties": self.of(arguments[1], file, bound)}
        if UNSIGNED.fullmatch(name):
            return {"type": "integer", "minimum": 0}
        if re.fullmatch(r"i(?:8|16|32|64|size)", name):
            return {"type": "integer"}
        if name in ("f32", "f64"):
            return {"type": "number"}
        if name == "bool":
            return {"type": "boolean"}
        if name == "Value":
            return {}
        if name in TEXTS:
            return {"type": "string"}
        item = self.find(name, file)
        return self.item(item, [self.of(argument, file, bound) for argument in arguments])

    def item(self, item: Item, arguments: list[dict]) -> dict:
        """A struct or enum: a reference to its definition, or its schema if it is a plain value."""
        names = [it.split(":")[0] for it in item.parameters if not it.startswith("'")]
        bound = dict(zip(names, arguments, strict=False))
        if into := item.serde.get("into"):
            return self.of(into, item.file, bound)
        if item.tuple is not None:
            parts = [re.sub(r"^pub(?:\([a-z]+\))? ", "", part) for part in split(item.tuple)]
            return self.of(parts[0] if len(parts) == 1 else f"({', '.join(parts)})", item.file, bound)
        if "transparent" in item.serde:
            return self.of(item.fields[0].type, item.file, bound)
        if bound:
            return self.body(item, bound)
        if item not in self.names:
            name = item.name
            if name in self.definitions:
                name = item.file.split("/")[0].title() + name
            if name in self.definitions:
                raise Unknown(f"crates/{item.file}: a third type called {item.name} in one schema")
            self.names[item] = name
            self.definitions[name] = {}
            source = "; includes ".join([f"crates/{item.file}", *self.included(item)])
            self.definitions[name] |= self.body(item, bound) | {"$comment": source}
            self.keys[f"crates/{item.file}: {name}"] = list(self.definitions[name].get("properties", {}))
        return {"$ref": f"#/$defs/{self.names[item]}"}

    def body(self, item: Item, bound: dict[str, dict]) -> dict:
        """The schema of a struct or enum, written out."""
        about = {"description": item.about} if item.about else {}
        if item.kind == "struct":
            return about | self.object(item.fields, item.file, item.serde.get("rename_all"), bound)
        return about | self.choice(item, bound)

    def object(self, fields: list[Field], file: str, rule: str | None, bound: dict[str, dict]) -> dict:
        """The schema of an object with these fields."""
        properties: dict[str, dict] = {}
        required: list[str] = []
        for it in fields:
            if "skip" in it.serde or "skip_serializing" in it.serde:
                continue
            if {"with", "serialize_with"} & set(it.serde):
                way = it.serde.get("with") or it.serde.get("serialize_with")
                if way not in ("text", "text_opt"):
                    raise Unknown(f"crates/{file}: {it.name} is serialised with {way}")
                schema: dict = {"type": "string"}
            else:
                schema = self.of(it.serde.get("json") or it.type, file, bound)
            if "flatten" in it.serde:
                inner = self.inlined(schema)
                properties |= inner["properties"]
                if not it.type.startswith("Option"):
                    required += inner["required"]
                continue
            name = it.serde.get("rename") or recase(it.name, rule)
            if it.serde.get("skip_serializing_if") == "Option::is_none":
                schema = present(schema)
            properties[name] = schema | ({"description": it.about} if it.about else {})
            if "skip_serializing_if" not in it.serde:
                required.append(name)
        return {"type": "object", "properties": properties, "required": list(dict.fromkeys(required))}

    def included(self, item: Item) -> list[str]:
        """The types whose keys are among those of a struct."""
        found = []
        for it in item.fields:
            if "flatten" in it.serde:
                schema = self.of(it.serde.get("json") or it.type, item.file, {})
                name = schema.get("$ref", "").removeprefix("#/$defs/")
                if name:
                    found.append(f"{self.definitions[name]['$comment'].split(';')[0]}: {name}")
        return found

    def inlined(self, schema: dict) -> dict:
        """The object that a schema refers to."""
        for form in schema.get("anyOf", []):
            if form.get("type") != "null":
                schema = form
        if reference := schema.get("$ref"):
            schema = self.definitions[reference.removeprefix("#/$defs/")]
        if "properties" not in schema:
            raise Unknown(f"a flattened field is no object: {schema}")
        return schema

    def choice(self, item: Item, bound: dict[str, dict]) -> dict:
        """The schema of an enum."""
        rule, tag = item.serde.get("rename_all"), item.serde.get("tag")
        content = item.serde.get("content")
        forms = []
        for variant in item.variants:
            if "skip" in variant.serde:
                continue
            name = variant.serde.get("rename") or recase(variant.name, rule)
            about = {"description": variant.about} if variant.about else {}
            inner = None
            if variant.fields:
                inner = self.object(variant.fields, item.file, variant.serde.get("rename_all"), bound)
            elif variant.type:
                parts = split(variant.type)
                inner = self.of(variant.type if len(parts) == 1 else f"({variant.type})", item.file, bound)
            if "untagged" in item.serde:
                forms.append(about | (inner or {"type": "null"}))
            elif tag is None and inner is None:
                forms.append(about | {"const": name})
            elif tag is None:
                forms.append(about | {"type": "object", "properties": {name: inner}, "required": [name]})
            else:
                named = {"type": "object", "properties": {tag: {"const": name}}, "required": [tag]}
                if inner is not None and content:
                    named["properties"][content] = inner
                    named["required"].append(content)
                elif inner is not None and inner != {}:
                    inside = self.inlined(inner)
                    named["properties"] |= inside["properties"]
                    named["required"] = [tag, *inside["required"]]
                forms.append(about | named)
        if all(set(form) <= {"const"} for form in forms):
            return {"enum": [form["const"] for form in forms]}
        return {"oneOf": forms}


def present(schema: dict) -> dict:
    """A schema without its null."""
    if "anyOf" in schema:
        return next(form for form in schema["anyOf"] if form != {"type": "null"})
    if isinstance(schema.get("type"), list):
        return schema | {"type": next(kind for kind in schema["type"] if kind != "null")}
    return schema


def nullable(schema: dict) -> dict:
    """A schema that also accepts null."""
    if isinstance(schema.get("type"), str) and "enum" not in schema:
        return schema | {"type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]} if schema else {}
