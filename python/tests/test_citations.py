"""What comments, scenarios, help texts and documents cite is in the repository."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SPECS = REPOSITORY / "docs" / "src" / "specs"

TEXT = {
    ".rs",
    ".py",
    ".toml",
    ".md",
    ".json",
    ".sh",
    ".c",
    ".h",
    ".hpp",
    ".cpp",
    ".yml",
    ".yaml",
    ".ipynb",
    ".txt",
    ".lua",
}
"""Suffixes of the files that are read; also Makefiles and Dockerfiles."""

SKIPPED = {"target", "corpus", "book", "node_modules", "__pycache__"}
"""Folders that hold no sources; neither do those whose name begins with a dot, except these:"""
HIDDEN = {".cargo", ".github"}

COMMENT = re.compile(r"\n[ \t]*(?://[/!]?|#|\*)?[ \t]*")
"""The end of a line, and what continues a comment on the next."""

REFERENCE = r"(?:\d+(?:\.\d+)*(?: \(\d+\))?|[A-Z]-?\d+)(?![\w.]*\w)"
# In a list a number before a word is no section: `5.3, 16 seeds`.
REFERENCES = rf"(?: {REFERENCE})?(?:(?:,| and| to) {REFERENCE}(?! (?!and |to )[a-z]))*"
CITATION = re.compile(rf"(?<![\w/])(?:docs/src/)?specs/(?P<page>[\w-]+)\.md(?P<sections>{REFERENCES})")
"""`specs/mets.md 2.2, 6.2 (11) and E5`."""

PLACEHOLDER = "NAME"
"""Stands for any page in texts about citations."""

PATH = re.compile(
    r"(?<![\w/.-])(?:docs|scenarios|scripts|crates|examples|results)/[\w./-]*[\w-]\.(?:md|toml|rs|py|sh|json|png)\b"
)
"""A path that begins at the root of the repository."""

FORBIDDEN = re.compile(r"shared/(?:specs|findings|papers|cases|DESIGN)|DESIGN\.md")
"""Files of the project that are not in the repository."""


@cache
def texts() -> dict[Path, str]:
    """The text files of the repository, by their paths in it."""
    return {file.relative_to(REPOSITORY): file.read_text(errors="replace") for file in files(REPOSITORY)}


def files(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.is_symlink():
            continue
        if entry.is_dir():
            if entry.name in HIDDEN or not (entry.name in SKIPPED or entry.name.startswith(".")):
                yield from files(entry)
        elif (entry.suffix in TEXT or entry.name in {"Makefile", "Dockerfile"}) and entry != Path(
            __file__
        ).resolve():
            yield entry


@cache
def sections(page: str) -> set[str] | None:
    """The section numbers of a page; `None` if there is no such page."""
    file = SPECS / f"{page}.md"
    if not file.is_file():
        return None
    return set(re.findall(r"^#+ (\d+(?:\.\d+)*) ", file.read_text(), re.MULTILINE))


def fault(page: str, reference: str) -> str | None:
    """Why a reference to a page does not resolve; an empty one is to the page itself."""
    known = sections(page)
    if known is None:
        return f"docs/src/specs/{page}.md does not exist"
    if not reference:
        return None
    text = (SPECS / f"{page}.md").read_text()
    number, _, item = reference.partition(" ")
    if number[0].isalpha():
        return None if re.search(rf"\b{number}\b", text) else f"{page}.md has no {number}"
    if number not in known:
        return f"{page}.md has no section {number}"
    if item:
        part = re.split(rf"^#+ {re.escape(number)} ", text, flags=re.MULTILINE)[1].split("\n#")[0]
        if not re.search(rf"^\| {item.strip('()')} \|", part, re.MULTILINE):
            return f"{page}.md has no item {item} in section {number}"
    return None


def cited(text: str) -> Iterator[tuple[str, str]]:
    """The pages that a text cites, each with a reference in it, empty for the page itself."""
    if "specs/" not in text:
        return
    joined = COMMENT.sub(" ", text)
    for citation in CITATION.finditer(joined):
        if citation["page"] == PLACEHOLDER:
            continue
        yield citation["page"], ""
        for reference in re.findall(REFERENCE, citation["sections"]):
            yield citation["page"], reference


def test_citations_are_parsed():
    text = (
        "/// As METS does (specs/mets.md 2.2,\n/// 6.2 (11) and E5); 0 is none. specs/xtp.md 7, 48 packets."
    )
    assert list(cited(text)) == [
        ("mets", ""),
        ("mets", "2.2"),
        ("mets", "6.2 (11)"),
        ("mets", "E5"),
        ("xtp", ""),
        ("xtp", "7"),
    ]
    assert fault("mets", "2.99") and fault("none", "1") and fault("mets", "6.2 (99)") and fault("mets", "Z9")
    assert not fault("mets", "2.12") and not fault("mets", "6.2 (11)") and not fault("mets", "E5")


def test_every_cited_section_of_a_specification_exists():
    found = 0
    faults = []
    for path, text in texts().items():
        for page, reference in cited(text):
            found += 1
            if problem := fault(page, reference):
                faults.append(f"{path}: specs/{page}.md {reference}: {problem}")
    assert not faults, "\n".join(faults)
    assert found > 500


def test_sections_are_cited_with_their_folder():
    names = "|".join(sorted(page.stem for page in SPECS.glob("*.md") if page.stem != "README"))
    bare = re.compile(rf"(?<![\w/.\[-])(?:{names})\.md,? (?:sections? )?\d")
    faults = [f"{path}: {it[0]}" for path, text in texts().items() for it in bare.finditer(text)]
    assert not faults, "write specs/NAME.md:\n" + "\n".join(faults)


def test_every_cited_path_exists():
    """From the root, or from a folder that the citing file is in: `examples/soak.rs` in a crate."""
    faults = []
    for path, text in texts().items():
        for cited_path in {it[0] for it in PATH.finditer(text) if PLACEHOLDER not in it[0]}:
            if not any((folder / cited_path).exists() for folder in (REPOSITORY / path).parents):
                faults.append(f"{path}: {cited_path}")
    assert not faults, "\n".join(faults)


def test_no_file_outside_the_repository_is_cited():
    faults = [f"{path}: {it[0]}" for path, text in texts().items() for it in FORBIDDEN.finditer(text)]
    assert not faults, "\n".join(faults)
