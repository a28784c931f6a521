"""`python -m layercast_lab.results record|bench|tables`, behind `make results`, `bench-results`, `tables`."""

from __future__ import annotations

import argparse
import sys
import time
from fnmatch import fnmatchcase
from pathlib import Path

from layercast_lab.experiment import experiments
from layercast_lab.results import bench
from layercast_lab.results.pages import pages, rows
from layercast_lab.results.record import Length, record
from layercast_lab.results.schema import ResultError, load


def main() -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m layercast_lab.results", description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of the JSON files")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("record", help="run experiments and keep their rows")
    run.add_argument("ids", nargs="*", default=["*"], help="ids or patterns such as 'mets/*' (default: all)")
    run.add_argument("--skip", action="append", default=[], help="leave out this pattern (repeatable)")
    run.add_argument("--seeds", type=int)
    run.add_argument("--seconds", type=float)
    run.add_argument("--full", action="store_true")
    run.add_argument("--timeout", type=float, help="abort an experiment after this number of seconds")
    run.add_argument(
        "--out", type=Path, default=Path("target/lab"), help="folder for figures and the gallery"
    )
    benches = commands.add_parser("bench", help="keep the figures that benchmarks wrote into target/bench")
    benches.add_argument("--bench", type=Path, default=Path("target/bench"), help="folder of their output")
    benches.add_argument("--conditions", default="", help="what else ran on the machine, priority, build")
    made = commands.add_parser("tables", help="write the pages")
    made.add_argument("--pages", type=Path, default=Path("docs/src/results"), help="folder of the pages")
    given = parser.parse_args()
    try:
        return {"tables": tables, "bench": keep_benches, "record": run_all}[given.command](given)
    except ResultError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def tables(given: argparse.Namespace) -> int:
    """Writes every page whose text has changed, and the table of all rows."""
    groups = load(given.results)
    made = {given.pages / name: text for name, text in pages(groups, given.results / "pages").items()}
    for path, text in (made | {given.results / "rows.csv": rows(groups)}).items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(path)
    return 0


def keep_benches(given: argparse.Namespace) -> int:
    """Keeps the output of benchmarks."""
    print("\n".join(bench.record(given.results, given.bench, given.conditions)))
    return 0


def run_all(given: argparse.Namespace) -> int:
    """Records the chosen experiments, one after the other; 1 if one of them could not be recorded."""
    chosen = [
        id
        for id in experiments()
        if any(fnmatchcase(id, word) for word in given.ids)
        and not any(fnmatchcase(id, word) for word in given.skip)
    ]
    if not chosen:
        raise ResultError("no experiment has such an id; `layercast-lab list` names all")
    length, failed = Length(given.seeds, given.seconds, given.full), False
    for id in chosen:
        start = time.monotonic()
        verdict = record(given.results, id, length, given.out, given.timeout)
        failed |= verdict.startswith("not recorded")
        print(f"{id}: {verdict} ({time.monotonic() - start:.0f} s)", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
