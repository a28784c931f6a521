"""Loops over data: plans and measurements of `layercast ilp`, and programs in C that it emits."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from layercast_lab.simulator import command, toml_file

PAPER_HAZARDS = "Ahlgren, Björkman and Gunningberg 1996 (PfHSN'96 chapter 12)"
PAPER_GENERATION = "Braun and Diot 1996 (PfHSN'96 chapter 13)"

HARDWARE = "depends on the hardware"
"""Note of rows that another machine may answer differently."""

INSTR = (4, 10, 20, 40, 60, 80, 100)

EXAMPLE = """
[CHECKSUM]
MACRONAME_S=tcp_checksum
MACRONAME_R=tcp_checksum
LENGTH=4
RESULT=(u_int, xsum, 0)
POSITION=BOTTOM
FINAL_S=(TCP_xsum_final(xsum))
FINAL_R=(TCP_xsum_final(xsum))
"""
ENCRYPTION = """
[ENCRYPTION]
MACRONAME_S=saferk64_encrypt
MACRONAME_R=saferk64_decrypt
NEXT=CHECKSUM
LENGTH=8
POSITION=TOP
VARIABLE=(char*, key)
VARIABLE=(u_int*, logtab)
VARIABLE=(u_int*, exptab)
INIT=saferk64_ilp_init
"""


def ask(*words: str) -> dict[str, Any]:
    """What `layercast ilp` prints with --json."""
    done = subprocess.run([command(), "ilp", *words, "--json"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


@cache
def plan(chain: str, machine: str, cold: bool = False) -> dict[str, Any]:
    """The plan of a chain on a machine."""
    return ask("explain", chain, "--machine", machine, *(["--cold"] if cold else []))


def times(n: int, state: int, instr: int, machine: str, cold: bool = False) -> tuple[float, float]:
    """Fused and sequential time of `n` like functions in the model, in ns an octet."""
    found = plan(",".join([f"{state}/{instr}"] * n), machine, cold)
    return found["fused_ns"], found["sequential_ns"]


@cache
def calibrated() -> dict[str, Any]:
    """Loops of E1 to E3 on this machine, and the fitted constants; busy machines are measured, too."""
    return ask("calibrate", "--force")


@cache
def measured(runs: int) -> list[dict[str, Any]]:
    """Real chains on this machine."""
    return ask("measure", "--runs", str(runs))["chains"]


WAYS = ("sequential_ns", "fused_ns", "strip_ns")
"""One loop for each stage, one for all, one for each over strips: names in plans and in measurements."""


def planned_well(chains: Sequence[dict[str, Any]], profile: dict[str, Any]) -> list[bool]:
    """Of each chain, whether the way predicted to be the fastest is within 10 % of the fastest."""
    with TemporaryDirectory() as folder:
        machine = Path(folder, "machine.toml")
        machine.write_text(toml_file({name: value for name, value in profile.items() if value is not None}))
        well = []
        for chain in chains:
            stages = chain["chain"].replace(" ", "").removeprefix("copy,")
            told = plan(f"copy,{stages}", str(machine), chain["cold"])
            way = min(WAYS, key=told.__getitem__)
            well.append(chain[way] <= 1.1 * min(chain[way] for way in WAYS))
        return well


def compiled(config: str, main: str, folder: Path, *flags: str) -> Path:
    """A program in C with the emitted loops of a configuration, which `main` includes as `if_ilp.c`."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "if.cfg"
    file.write_text(config)
    subprocess.run([command(), "ilp", "emit", file, "--out", folder], check=True, capture_output=True)
    (folder / "main.c").write_text(main)
    words = ["cc", "-O2", "-fno-tree-vectorize", *flags, "-o", "main", "main.c", "ilp.c"]
    subprocess.run(words, check=True, cwd=folder)
    return folder / "main"


def printed(program: Path, *words: object) -> str:
    """What a program prints."""
    done = subprocess.run([program, *map(str, words)], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def spread(values: Sequence[float]) -> str:
    """The least and the largest of some values."""
    return f"{min(values):.1f} to {max(values):.1f}"
