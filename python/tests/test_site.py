"""The documentation site: links and anchors resolve, every page is in the summary, no page is too long."""

import os
import re
import sys
import tomllib
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = REPOSITORY / "docs/src"
SUMMARY = SOURCE / "SUMMARY.md"
# Lines of a page; longer ones hold several subjects.
LONGEST, LONGEST_OF_SPECIFICATION, LONGEST_README = 250, 400, 150
GENERATED = "<!-- Generated"
# Tables of a page that are generated: as long as the report that they describe.
TABLES = re.compile(r"<!-- schema: .*?<!-- end of schema -->", re.DOTALL)

sys.path.insert(0, str(REPOSITORY / "scripts"))
import build_site  # noqa: E402
import reference  # noqa: E402


def pages() -> list[Path]:
    return [page for page in sorted(SOURCE.rglob("*.md")) if page != SUMMARY]


def documents() -> list[Path]:
    """All Markdown files that a reader of the repository meets."""
    top = [REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    examples = [*REPOSITORY.glob("examples/**/*.md"), *REPOSITORY.glob("crates/*/README.md")]
    return [file for file in [*top, *sorted(examples), SUMMARY, *pages()] if file.exists()]


def name(file: Path) -> str:
    return str(file.relative_to(REPOSITORY))


@cache
def links(file: Path) -> list[tuple[int, str]]:
    """The targets of the links and pictures of a page, each with the line where its paragraph begins."""
    found = []
    for block in MarkdownIt("commonmark").enable("table").parse(file.read_text()):
        for token in block.children or []:
            target = token.attrGet("href") or token.attrGet("src")
            if target and token.type in ("link_open", "image"):
                found.append((block.map[0] + 1 if block.map else 0, str(target)))
    return found


@cache
def anchors(file: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub and mdBook make them."""
    tokens = MarkdownIt("commonmark").enable("table").parse(file.read_text())
    found: set[str] = set()
    for at, token in enumerate(tokens):
        if token.type != "heading_open":
            continue
        parts = [part for part in tokens[at + 1].children or [] if part.type in ("text", "code_inline")]
        words = "".join(part.content for part in parts).strip().lower()
        slug = plain = re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", words))
        number = 0
        while slug in found:
            number += 1
            slug = f"{plain}-{number}"
        found.add(slug)
    return found


def broken(file: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    wrong = []
    for line, target in links(file):
        parts = urlsplit(target)
        if parts.scheme or parts.netloc:
            continue
        wanted = (file.parent / unquote(parts.path)).resolve() if parts.path else file
        # `make docs` puts the output of `cargo doc` beside the pages.
        if wanted.is_relative_to(SOURCE / "rust"):
            crate = wanted.relative_to(SOURCE / "rust").parts[0]
            if crate not in crates():
                wrong.append(f"{name(file)}:{line}: there is no crate {crate}: {target}")
        elif not wanted.exists():
            wrong.append(f"{name(file)}:{line}: there is no such file: {target}")
        elif parts.fragment and wanted.suffix == ".md" and parts.fragment not in anchors(wanted):
            wrong.append(f"{name(file)}:{line}: there is no such heading: {target}")
    return wrong


@cache
def crates() -> set[str]:
    """The names of the libraries of the workspace, as rustdoc writes them."""
    names = set()
    for manifest in REPOSITORY.glob("crates/*/Cargo.toml"):
        package = tomllib.loads(manifest.read_text())
        names.add(package.get("lib", {}).get("name", package["package"]["name"].replace("-", "_")))
    return names


@pytest.mark.parametrize("file", documents(), ids=name)
def test_links_lead_to_files_and_headings(file: Path):
    wrong = broken(file)
    assert not wrong, "\n".join(wrong)


def test_every_page_is_in_the_summary_once():
    listed = [(SOURCE / target).resolve() for _, target in links(SUMMARY)]
    missing = [name(page) for page in pages() if page not in listed]
    assert not missing, f"add to docs/src/SUMMARY.md: {', '.join(missing)}"
    assert len(listed) == len(set(listed)), "docs/src/SUMMARY.md lists a page twice"


@pytest.mark.parametrize("page", pages(), ids=name)
def test_a_page_has_one_subject(page: Path):
    """One title, headings that do not skip a level, and a length that a reader can survey."""
    text = page.read_text()
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    levels = [int(token.tag[1]) for token in tokens if token.type == "heading_open"]
    assert levels[:1] == [1] and levels.count(1) == 1, f"{name(page)}: begin with one title: # TITLE"
    for above, below in pairwise(levels):
        assert below <= above + 1, f"{name(page)}: a heading of level {below} follows one of level {above}"
    longest = LONGEST_OF_SPECIFICATION if page.is_relative_to(SOURCE / "specs") else LONGEST
    lines = TABLES.sub("", text).count("\n")
    assert GENERATED in text or lines <= longest, (
        f"{name(page)} has {lines} lines, more than {longest}: split it"
    )


@pytest.mark.parametrize("page", reference.pages(), ids=name)
def test_generated_reference_pages_are_current(page: Path):
    assert page.exists() and page.read_text() == reference.pages()[page], "run: make reference"


def test_the_tests_that_the_page_of_edge_cases_names_exist():
    text = (SOURCE / "reference/edge-cases.md").read_text()
    named = set(re.findall(r"`([a-z0-9]+(?:_[a-z0-9]+){2,})`", text))
    code = (file.read_text() for file in REPOSITORY.glob("crates/**/*.rs"))
    found = {function for text in code for function in re.findall(r"\bfn (\w+)", text)}
    assert len(named) > 100
    assert not named - found, f"docs/src/reference/edge-cases.md: no such test: {sorted(named - found)}"


# A unit in the header of a table: its cells are quantities.
UNIT = re.compile(r"(?<![\w/])(?:[mµn]?s|dB|[kMG]?bit/s|[kMG]b/s|[kMG]?B/s|[KMG]i?B)(?![\w/(])|%")
DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")


def undated(text: str) -> list[str]:
    """The headers of the tables of quantities, if their page has no date."""
    if DATE.search(text):
        return []
    found = []
    for header, rule in pairwise(text.split("\n")):
        if header.startswith("|") and re.fullmatch(r"\|[ :|-]+\|", rule) and UNIT.search(header):
            found.append(header)
    return found


@pytest.mark.parametrize(
    "page", [page for page in pages() if not page.is_relative_to(SOURCE / "specs")], ids=name
)
def test_tables_of_quantities_have_a_date(page: Path):
    missing = undated(page.read_text())
    assert not missing, f"{name(page)}: add date and command of the measurement: {missing}"


def test_a_table_without_a_date_is_found():
    table = "# Title\n\n| rate, Mb/s | PSNR |\n|---|---|\n| 1 | 2 |\n"
    assert undated(table) == ["| rate, Mb/s | PSNR |"]
    assert not undated(f"{table}\nMeasured on 2026-11-27.\n")
    assert not undated("# Title\n\n| key | meaning |\n|---|---|\n| `rate` | in Mb/s |\n")


def test_the_readme_is_short():
    assert (REPOSITORY / "README.md").read_text().count("\n") <= LONGEST_README


class Page(HTMLParser):
    """The links and the anchors of a page of the site."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]):
        for key, value in attrs:
            if value and (key == "id" or (tag == "a" and key == "name")):
                self.anchors.add(value)
            elif value and key in ("href", "src"):
                self.links.append(value)


def test_the_site_is_built_and_its_links_resolve(tmp_path):
    out = tmp_path / "site"
    build_site.build(out)
    html = {file: Page(file.read_text()) for file in out.rglob("*.html")}
    assert len(html) > len(pages())
    wrong = []
    for file, page in html.items():
        # Pages that show others in a frame or an error have links from the root of the server.
        if file.name in ("404.html", "toc.html"):
            continue
        for target in page.links:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc or target.startswith("javascript:"):
                continue
            wanted = Path(os.path.normpath(file.parent / unquote(parts.path))) if parts.path else file
            if wanted.is_relative_to(out / "rust"):
                continue
            if not wanted.exists() or not wanted.is_relative_to(out):
                wrong.append(f"{file.relative_to(out)}: {target}")
            elif parts.fragment and wanted in html and unquote(parts.fragment) not in html[wanted].anchors:
                wrong.append(f"{file.relative_to(out)}: no anchor: {target}")
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_a_broken_link_is_found(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "REPOSITORY", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "# Title\n\n## A *b* `c`, d\n\n[a](#a-b-c-d) [b](#none) [c](none.md) [d](https://x.org)\n"
    )
    assert [wrong.split(": ")[-1] for wrong in broken(page)] == ["#none", "none.md"]
