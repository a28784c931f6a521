"""Builds the documentation site: mdBook, the files of the repository that pages link to, and the API docs.

Usage: build_site.py OUT [RUSTDOC]. RUSTDOC is the folder that `cargo doc` wrote; without it links to it stay.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
DOCS = REPOSITORY / "docs"
LINK = re.compile(r'(href|src)="([^"#:?]+)((?:[#?][^"]*)?)"')


def build(out: Path, rustdoc: Path | None = None) -> None:
    """Writes the site to the folder `out`, which is replaced. Raises RuntimeError if mdBook warns."""
    out = out.resolve()
    done = subprocess.run(
        ["mdbook", "build", str(DOCS), "--dest-dir", str(out)], capture_output=True, text=True
    )
    said = done.stdout + done.stderr
    if done.returncode or re.search(r"\b(WARN|ERROR)\b", said):
        raise RuntimeError(f"mdbook build failed:\n{said}")
    if rustdoc:
        shutil.copytree(rustdoc, out / "rust", dirs_exist_ok=True)
    for page in sorted(out.rglob("*.html")):
        if "rust" not in page.relative_to(out).parts[:1]:
            link_repository(page, out)


def link_repository(page: Path, out: Path) -> None:
    """Replaces the links of a page that leave the site: to a copy of a file, or to a folder's address."""
    source = DOCS / "src" / page.relative_to(out).parent
    address = tomllib.loads((DOCS / "book.toml").read_text())["output"]["html"]["git-repository-url"]

    def replace(found: re.Match) -> str:
        attribute, target, rest = found.groups()
        inside = Path(os.path.normpath(page.parent / target))
        if target.startswith("/") or (inside.is_relative_to(out) and inside.exists()):
            return found.group(0)
        wanted = (source / target).resolve()
        # mdBook makes .html of .md in every relative link.
        if wanted.suffix == ".html" and not wanted.exists():
            wanted = wanted.with_suffix(".md")
        if not wanted.exists() or not wanted.is_relative_to(REPOSITORY):
            return found.group(0)
        name = wanted.relative_to(REPOSITORY)
        if wanted.is_dir():
            return f'{attribute}="{address}/tree/main/{name}{rest}"'
        # Browsers show text; the type of other names is unknown to most servers.
        copy = out / "files" / f"{name}{'' if wanted.suffix in ('.png', '.ipynb', '.json') else '.txt'}"
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(wanted, copy)
        return f'{attribute}="{os.path.relpath(copy, page.parent)}"'

    text = page.read_text()
    changed = LINK.sub(replace, text)
    if changed != text:
        page.write_text(changed)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    build(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) == 3 else None)
    print(f"the site: {Path(sys.argv[1]).resolve() / 'index.html'}")
