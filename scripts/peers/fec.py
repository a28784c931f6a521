#!/usr/bin/env python3
"""The speed of our erasure codes beside memcpy, ISA-L and reed-solomon-simd alone, on one core.

Usage: fec.py TARGET_DIR. Writes TARGET_DIR/bench/fec.json; docs/src/results/bench-fec.md says what it means.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def measured(command: list[str]) -> list[dict]:
    """What a program prints, run before all others if BENCH_URGENT is set."""
    urgent = ["chrt", "-f", "20"] if os.environ.get("BENCH_URGENT") else []
    return json.loads(subprocess.run([*urgent, *command], check=True, stdout=subprocess.PIPE).stdout)


def main(target: Path) -> None:
    """Builds both, runs both, keeps and prints what they say."""
    out = target / "bench"
    out.mkdir(parents=True, exist_ok=True)
    example = ["cargo", "build", "--quiet", "--release", "-p", "layercast-fec", "--example", "throughput"]
    subprocess.run(example, check=True, cwd=ROOT)
    rows = measured([str(target / "release/examples/throughput")])
    isal = out / "fec-isal"
    source = str(ROOT / "scripts/peers/fec.c")
    subprocess.run(["cc", "-O2", "-o", str(isal), source, "-lisal"], check=True)
    rows += measured([str(isal)])
    text = json.dumps(rows, indent=2) + "\n"
    (out / "fec.json").write_text(text)
    print(text, end="")


main(Path(sys.argv[1]).resolve())
