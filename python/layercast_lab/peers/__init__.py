"""What we are measured beside: ns-2.35, ns-3.37 and SRT as Debian has them, and htsim."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TCL = HERE / "dumbbell.tcl"
CPP = HERE / "dumbbell.cc"
HTSIM_CPP = HERE / "htsim.cpp"
SRT_CPP = HERE / "srt.cpp"
HTSIM_URL = "https://github.com/Broadcom/csg-htsim"
HTSIM_COMMIT = "841d9e7be46bb968eece766aa4b6c044c7799f67"
# pkg-config names libraries that the Debian package of ns-3 does not depend on.
NS3_PARTS = ("applications", "point-to-point", "internet", "traffic-control", "network", "core")
NS3_LIBRARIES = [f"-lns3-{part}" for part in NS3_PARTS]
HOW = "`make simulators` installs ns-2 and ns-3"


def ns2() -> list[str]:
    """The command that runs the dumbbell in ns-2; FileNotFoundError if there is no ns-2."""
    program = shutil.which("ns")
    if not program:
        raise FileNotFoundError(f"there is no `ns` command; {HOW}")
    return [program, str(TCL)]


def ns3(folder: Path) -> list[str]:
    """The command that runs the dumbbell in ns-3, compiled into `folder` if that was not done yet."""
    text = CPP.read_bytes()
    program = folder / f"ns3-dumbbell-{hashlib.sha256(text).hexdigest()[:12]}"
    if not program.exists():
        if not Path("/usr/include/ns3/core-module.h").exists():
            raise FileNotFoundError(f"there are no headers of ns-3 in /usr/include; {HOW}")
        folder.mkdir(parents=True, exist_ok=True)
        new = program.with_suffix(".new")
        made(["g++", "-O2", "-std=c++17", "-o", new, CPP, *NS3_LIBRARIES])
        new.rename(program)
    return [str(program)]


def htsim(folder: Path) -> list[str]:
    """The command that runs the dumbbell in htsim, built in `folder` with its own flags (-O3).

    From the checkout that $HTSIM names, else from a clone of the commit above; OSError if neither can be had.
    """
    named = os.environ.get("HTSIM")
    sources = folder / ("htsim-named" if named else f"htsim-{HTSIM_COMMIT[:12]}")
    program = folder / "htsim-dumbbell"
    folder.mkdir(parents=True, exist_ok=True)
    if named:
        shutil.copytree(Path(named, "sim"), sources / "sim", dirs_exist_ok=True)
    elif not sources.exists():
        clone = sources.with_suffix(".new")
        shutil.rmtree(clone, ignore_errors=True)
        made(["git", "clone", "--quiet", HTSIM_URL, clone])
        made(["git", "-C", clone, "checkout", "--quiet", HTSIM_COMMIT])
        clone.rename(sources)
    sim = sources / "sim"
    made(["make", "-s", "-C", sim, "libhtsim.a"])
    made(["g++", "-O3", "-std=c++17", "-I", sim, "-o", program, HTSIM_CPP, sim / "libhtsim.a"])
    return [str(program)]


def srt(folder: Path) -> list[str]:
    """The program that is one end of SRT (libsrt), compiled into `folder` if that was not done yet."""
    program = folder / f"srt-{hashlib.sha256(SRT_CPP.read_bytes()).hexdigest()[:12]}"
    if not program.exists():
        if not Path("/usr/include/srt/srt.h").exists():
            raise FileNotFoundError("there are no headers of SRT in /usr/include; `make peers` installs them")
        folder.mkdir(parents=True, exist_ok=True)
        new = program.with_suffix(".new")
        made(["g++", "-O2", "-std=c++17", "-o", new, SRT_CPP, "-lsrt"])
        new.rename(program)
    return [str(program)]


def made(command: list[str | Path]) -> None:
    """Runs a step of building something; OSError with the end of what it said if it fails."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(map(str, command))}: {done.stderr.strip()[-500:]}")


def run(command: list[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What a dumbbell program prints, given these arguments, or its signal; OSError if it fails."""
    words = [str(word) for pair in arguments.items() for word in pair]
    done = subprocess.run([*command, *words], capture_output=True, text=True)
    if done.returncode < 0:
        return {"crashed": -done.returncode}
    if done.returncode or not done.stdout.startswith("{"):
        said = (done.stderr or done.stdout).strip()[-500:]
        raise OSError(f"{' '.join([*command, *words])}: status {done.returncode} {said}")
    return json.loads(done.stdout)


def run_kept(kept: Path, command: list[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """As `run`, but what was run before by the same program is read from the folder `kept`.

    A peer does not change while we work, and gives the same for the same arguments.
    """
    program = Path(command[-1])
    key = hashlib.sha256(program.read_bytes() + json.dumps(dict(arguments)).encode()).hexdigest()[:24]
    file = kept / f"{program.stem}-{key}.json"
    if file.exists():
        return json.loads(file.read_text())
    found = run(command, arguments)
    kept.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(found) + "\n")
    return found
