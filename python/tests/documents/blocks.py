"""The fenced blocks of a Markdown page and the examples of a help text, with their notes."""

import re
from dataclasses import dataclass, field

SHELL = ("sh", "bash")
NOTE = re.compile(r"^<!-- command-test\n(.*?)^-->", re.DOTALL | re.MULTILINE)
# A command on another host: `HOST$ COMMAND`.
PROMPT = re.compile(r"^([a-z]\w*)\$ (.*)$", re.DOTALL)
# The keys of a note; CONTRIBUTING.md says what each does.
KEYS = ("setup", "while", "check", "linger", "long", "not-run", "file", "append-to", "alone")


@dataclass
class Block:
    """One fenced block, or one example of a help text."""

    page: str
    line: int
    language: str
    text: str
    notes: dict[str, list[str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"

    def note(self, key: str) -> str | None:
        """The value of a key of the note, its lines joined."""
        return "\n".join(self.notes[key]) if key in self.notes else None


def read_note(text: str) -> dict[str, list[str]]:
    """The lines `KEY: VALUE` of one note. Any other line is an error, so that no check is lost."""
    notes: dict[str, list[str]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        key, colon, value = line.partition(":")
        if key not in KEYS or not colon:
            raise ValueError(
                f"'{line}' in a command-test note: KEY: VALUE is expected, KEY one of {', '.join(KEYS)}"
            )
        notes.setdefault(key, []).append(value.strip())
    return notes


def of_markdown(page: str, text: str) -> list[Block]:
    """All fenced blocks of a page. A note belongs to the block that follows it, with only space between."""
    blocks: list[Block] = []
    fence = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```[ ]*$", re.DOTALL | re.MULTILINE)
    notes = list(NOTE.finditer(text))
    for found in fence.finditer(text):
        before = [note for note in notes if note.end() <= found.start()]
        near = before[-1:] if before and not text[before[-1].end() : found.start()].strip() else []
        line = text.count("\n", 0, found.start()) + 1
        known = read_note(near[0].group(1)) if near else {}
        blocks.append(Block(page, line, found.group(1), found.group(2), known))
        for note in near:
            notes.remove(note)
    for note in notes:
        raise ValueError(f"{page}: no block follows the note {note.group(0)!r}")
    return blocks


def of_help(page: str, text: str) -> list[Block]:
    """The examples of a help text: the lines indented by two spaces below `Examples:` or `Start here:`.

    Each command is a block of its own, together with the commands before it that run in the background.
    """
    found = re.search(r"^(?:Examples|Start here)[^\n]*:\n((?:  [^\n]*\n?)+)", text, re.MULTILINE)
    if not found:
        return []
    first = text.count("\n", 0, found.start(1)) + 1
    whole = Block(page, first, "sh", "".join(line[2:] for line in found.group(1).splitlines(keepends=True)))
    return alone(whole)


def commands(text: str) -> list[tuple[int, str]]:
    """The commands of a shell text with their lines; continuations, here-documents, loops stay whole."""
    whole: list[tuple[int, str]] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        start = at
        part = [lines[at]]
        while part[-1].endswith("\\") and at + 1 < len(lines):
            at += 1
            part.append(lines[at])
        here = re.search(r"<<-?\s*['\"]?(\w+)['\"]?", part[0])
        loop = re.match(r"\s*(for|while|until|if)\b", part[0])
        ends = rf"^{here.group(1)}$" if here else r"\b(done|fi)\b" if loop else None
        while ends and not re.search(ends, part[-1]) and at + 1 < len(lines):
            at += 1
            part.append(lines[at])
        at += 1
        command = "\n".join(part)
        if command.strip() and not command.lstrip().startswith("#"):
            whole.append((start, command))
    return whole


def in_background(command: str) -> bool:
    """Does the command end in `&`, but for a comment?"""
    return re.search(r"(?<!&)&\s*(#.*)?$", command) is not None


def alone(block: Block) -> list[Block]:
    """The commands of a block as blocks of their own; one in the background goes with the next."""
    parts: list[Block] = []
    pending: list[str] = []
    start = None
    every = commands(block.text)
    for number, (offset, command) in enumerate(every):
        start = offset if start is None else start
        pending.append(command)
        if (in_background(command) or PROMPT.match(command)) and number + 1 < len(every):
            continue
        line = block.line + start + (1 if block.language else 0)
        parts.append(Block(block.page, line, block.language, "\n".join(pending) + "\n", dict(block.notes)))
        pending, start = [], None
    return parts
