#!/usr/bin/env python3
"""Find banned phrases in comments, help texts, messages and Markdown.

Usage: wording.py [PATH ...]

Prints each finding as `file:line: phrase: advice`. The exit code is 1 if there are findings, else 0.
Without arguments it reads the files that git tracks.
"""

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# After one of these words "who" is right.
PEOPLE = (
    "administrator",
    "administrators",
    "anybody",
    "anyone",
    "attacker",
    "attackers",
    "author",
    "authors",
    "developer",
    "developers",
    "everyone",
    "maintainer",
    "maintainers",
    "operator",
    "operators",
    "people",
    "person",
    "reader",
    "readers",
    "researcher",
    "researchers",
    "reviewer",
    "somebody",
    "someone",
    "stranger",
    "user",
    "users",
    "you",
)
NO_PERSON = "".join(rf"(?<!\b{word}\s)" for word in PEOPLE)
# What not to write, as a pattern, and what to write instead. A space in a pattern matches a line break, too.
RULES = (
    # In a question "who" is right, too.
    (
        r"\b(?=who)" + NO_PERSON + r"who(?:m|ever)?\b(?! should\b)(?![^.:;]{0,90}\?)",
        'a thing is "that" or "which": name it (peer, receiver)',
    ),
    (
        r"\bso (?:many|much|long|few|often)\b",
        "name the quantity (`count` packets, N percent), or: as long as",
    ),
    (r"\btold\b", "reported, notified, specified, distinguished"),
    (r"\blet(?:s|ting)? (?:\w+ )?go\b", "drop, release, forget"),
    (
        r"\bwhat (?:comes|goes|gets|hangs|lies|stands|waits|arrives|leaves)\b",
        "the noun: input, queue, packets",
    ),
    (r"\bat once\b", "immediately, or simultaneously"),
    (r"\bnobody\b", "no receiver, no peer, no process"),
    (r"\beverybody\b", "every receiver, all members"),
    (r"\b(?:go|goes|went) on\b", "continue"),
    (r"\b(?:stand|stands|stood) in\b", "replace, represent, be in"),
    (r"\banew\b", "again"),
    (r"\bfor ever\b", "forever, without limit"),
    (r"\bmeetings?\b", "barrier, rendezvous"),
    (r"\b(?:desks?|seats?|tellers?)\b", "table, entry, reporter"),
)
PATTERNS = [(re.compile(pattern.replace(" ", r"\s+"), re.I), advice) for pattern, advice in RULES]
# Generated files, test data, texts of others, and the banned phrases themselves.
EXCLUDED = ("fuzz/corpus/", "LICENSE", "python/tests/test_wording.py", "scripts/wording.py")
NAMES = {".rs", ".py", ".md", ".toml", ".sh", "Makefile"}

RUST = re.compile(
    r"""//[/!]?(?P<line>[^\n]*)|/\*(?P<block>.*?)\*/"""
    r"""|b?r(?P<fence>\#*)"(?P<raw>.*?)"(?P=fence)|b?"(?P<string>(?:\\.|[^"\\])*)\""""
    r"""|b?'(?:\\[^\n]*?|[^'\\\n])'""",
    re.S,
)
HASH = re.compile(r"(?:^|(?<=\s))#+([^\n]*)", re.M)
FENCED = re.compile(r"^ *(```+|~~~+).*?^ *\1", re.S | re.M)
# Code in back quotes, the values of a format string, and the target of a link.
CODE = re.compile(r"(`+)[^`].*?\1|\{[^{}\n]*\}|\]\([^()\s]*\)", re.S)

Span = tuple[int, int]


class Finding(NamedTuple):
    """A banned phrase: its line, its words, and what to write instead."""

    line: int
    phrase: str
    advice: str


def rust(source: str) -> Iterator[Span]:
    """The spans of comments and strings; a string without a space is a name."""
    for found in RUST.finditer(source):
        for group in ("line", "block", "raw", "string"):
            if found[group] and (group in ("line", "block") or " " in found[group]):
                yield found.span(group)


def python(source: str) -> Iterator[Span]:
    """The spans of comments and strings; a string without a space is a name."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = tokenize.tok_name[token.type]
        if kind == "COMMENT" or (kind in ("STRING", "FSTRING_MIDDLE") and " " in token.string):
            (first, column), (last, end) = token.start, token.end
            yield starts[first - 1] + column + (kind == "COMMENT"), starts[last - 1] + end


def markdown(source: str) -> Iterator[Span]:
    """The spans of text outside of code blocks."""
    at = 0
    for block in FENCED.finditer(source):
        yield at, block.start()
        at = block.end()
    yield at, len(source)


def hashes(source: str) -> Iterator[Span]:
    """The spans of comments that begin with a hash."""
    yield from (found.span(1) for found in HASH.finditer(source))


def text(name: str, source: str) -> str:
    """`source` with everything but text overwritten, so that offsets and lines stay."""
    reader = {".rs": rust, ".py": python, ".md": markdown}.get(Path(name).suffix, hashes)
    out, at = [], 0
    for start, end in reader(source):
        # A comment over several lines is one text: between its lines there is nothing but the marks.
        between = re.sub(r"//[/!]?|#", "", source[at:start])
        out.append((" " if between.isspace() else "\0") * (start - at))
        out.append(source[start:end])
        at = end
    out.append("\0" * (len(source) - at))
    return CODE.sub(lambda code: "\0" * len(code[0]), "".join(out))


def findings(name: str, source: str) -> list[Finding]:
    """The banned phrases in the text of `source`, by line; the suffix of `name` names its language."""
    found = text(name, source)
    return sorted(
        Finding(source.count("\n", 0, match.start()) + 1, " ".join(match[0].split()), advice)
        for pattern, advice in PATTERNS
        for match in pattern.finditer(found)
    )


def tracked() -> list[str]:
    """The files to read, of those that git tracks."""
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, check=True)
    names = (name for name in listed.stdout.split("\0") if not name.startswith(EXCLUDED))
    return [name for name in names if NAMES & {Path(name).suffix, Path(name).name}]


def main(names: list[str]) -> int:
    """Prints the findings in these files; returns the exit code."""
    count = 0
    for name in names or tracked():
        path = Path(name)
        if not path.is_file():
            continue
        for line, phrase, advice in findings(name, path.read_text(encoding="utf-8")):
            print(f"{name}:{line}: {phrase}: {advice}")
            count += 1
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
