"""Packet-level FEC beyond the paper's figures: real blocks to a star, a controller, bursts, speed."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np

from layercast_lab import fec, style
from layercast_lab.experiment import Context, Report, Row, arithmetic, experiment, judge
from layercast_lab.experiments.fec_models import PAPER
from layercast_lab.fec import CODES, ask, cost, within
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.simulator import run_all
from layercast_lab.style import plt

STAR = {"scheme": "xor-shift", "repair": "raw", "seed": 1}


def star(code: tuple[int, int], e: float, group: int, packets: int, **other: object) -> dict:
    """Real blocks to a star."""
    n, m = code
    study = STAR | {"n": n, "m": m, "e": e, "group": group, "packets": packets} | other
    return ask("star", study=study)


@experiment(
    "packet-level-fec/s1",
    title="Real blocks to a star beside model B",
    paper=f"{PAPER}, figures 1 to 4 simulated",
)
def s1(context: Context) -> Report:
    """Blocks really encoded, lost and decoded, beside model B; and repairs by fresh parities."""
    packets = 100_000 if context.full else 700 if context.seconds else 20_000
    jobs = [(name, e, group) for e in (0.001, 0.01, 0.1) for group in (1, 10, 100, 1_000) for name in CODES]
    found = run_all(context, "stars", lambda it: star(CODES[it[0]], it[1], it[2], packets), jobs)
    rows = []
    for e in (0.001, 0.01, 0.1):
        off = {}
        for (name, loss, group), seen in zip(jobs, found, strict=True):
            if loss == e:
                told = float(cost(CODES[name], e, [group], "B")[0])
                off[f"{name}, {group}"] = seen["cost"] / told - 1
        worst = max(off, key=lambda it: abs(off[it]))
        measured = f"at most {100 * abs(off[worst]):.2f} % off ({worst} receivers)"
        rows.append(
            Row(f"loss {100 * e:g} %, 16 points", "model B", measured, "2 %", judge(abs(off[worst]) <= 0.02))
        )
    wrong = sum(seen["wrong"] for seen in found)
    decoded = sum(seen["decoded"] for seen in found)
    rows.append(
        Row(
            "packets decoded wrongly",
            "0",
            f"{wrong} in {decoded} decoded blocks",
            "0",
            judge(wrong == 0 and decoded > 0),
        )
    )
    sizes = [(7, 1.287), (20, 1.141), (100, 1.056)]
    parities = [
        star(
            (k, 0),
            0.01,
            1_000,
            min(packets, 6_000),
            repair="parities",
            scheme="xor-shift" if k < 50 else "reed-solomon",
        )
        for k, _ in sizes
    ]
    for (k, told), seen in zip(sizes, parities, strict=True):
        row = Row(
            f"fresh parities, blocks of {k}, 1000 receivers, 1 %",
            f"{told}",
            f"{seen['cost']:.3f}",
            "2 %",
            judge(within(seen["cost"], told, 0.02)),
        )
        rows.append(row)
    return Report("packet-level-fec/s1", s1.__doc__ or "", rows, draw_star(context, jobs, found))


def draw_star(context: Context, jobs: list, found: list) -> str:
    """Model B as lines, simulated blocks as marks, one picture for each loss rate."""
    figure, panels = fec.axes(3)
    groups = np.unique(np.logspace(0, 3, 60).round())
    for axis, e in zip(panels, (0.001, 0.01, 0.1), strict=True):
        for number, (name, code) in enumerate(CODES.items()):
            axis.plot(groups, cost(code, e, groups, "B"), color=COLOURS[number], label=name)
            points = [
                (job[2], seen["cost"]) for job, seen in zip(jobs, found, strict=True) if job[:2] == (name, e)
            ]
            axis.plot(*zip(*points, strict=True), MARKERS[number], color=COLOURS[number], ms=5, mfc="none")
        axis.set(xscale="log", xlabel="receivers")
        axis.set_title(f"loss {100 * e:g} %", fontsize=9.5)
    panels[0].set_ylabel("packets sent per source packet")
    panels[0].legend(fontsize=8.5)
    return style.save(figure, context.path("fec-s1"))


PHASES = [(40, 100, 0.0005), (80, 100, 0.02), (80, 1_000, 0.02), (80, 1_000, 0.001), (60, 3, 0.001)]
"""Round trips, receivers and loss of each."""


@experiment(
    "packet-level-fec/s2",
    title="The controller after steps of loss and group",
    paper="specs/packet-level-fec.md 2.7",
)
def s2(context: Context) -> Report:
    """How long the controller takes to the best code after loss or group changed, and the load meanwhile."""
    controller = {
        "objective": {"for": "goodput"},
        "block": 8,
        "parities": 3,
        "cap": 0.5,
        "trim": 0.05,
        "hysteresis": 0.03,
        "receivers": 100_000,
    }
    phases = [{"rounds": rounds, "group": group, "loss": loss} for rounds, group, loss in PHASES]
    steps = ask("steps", study={"controller": controller, "phases": phases, "window": 200, "seed": 1})
    rows, start = [], 0
    for rounds, group, loss in PHASES:
        part = steps[start : start + rounds]
        good = [step["cost"] <= 1.05 * step["best"] for step in part]
        # From then on it stays within 5 %.
        settled = next((number for number in range(rounds) if all(good[number:])), None)
        last = part[-1]
        name = f"{group} receivers, loss {100 * loss:g} %"
        measured = f"{last['n']}+{last['m']} " + (
            "never" if settled is None else f"after {settled} round trips"
        )
        ok = settled is not None and settled <= 30
        rows.append(
            Row(name, "the best code within 5 % of its cost", measured, "at most 30 round trips", judge(ok))
        )
        start += rounds
    load = max(step["load"] for step in steps)
    rows.append(
        Row(
            "load on the path",
            "FEC never adds load",
            f"at most {load:.3f} of the window",
            "1",
            arithmetic(load <= 1),
        )
    )
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(6.4, 4.6), sharex=True)
    top.plot([step["cost"] for step in steps], color=COLOURS[0], label="chosen")
    top.plot([step["best"] for step in steps], "--", color=COLOURS[1], lw=1, label="best of all")
    top.set_ylabel("packets per source packet")
    top.legend(fontsize=8.5)
    bottom.step(range(len(steps)), [step["n"] for step in steps], color=COLOURS[0], label="N", where="post")
    bottom.step(range(len(steps)), [step["m"] for step in steps], color=COLOURS[1], label="M", where="post")
    bottom.set(xlabel="round trips", ylabel="packets of a block")
    bottom.legend(fontsize=8.5)
    for axis in (top, bottom):
        for edge in np.cumsum([it[0] for it in PHASES])[:-1]:
            axis.axvline(edge, color="0.7", lw=0.8)
    return Report("packet-level-fec/s2", s2.__doc__ or "", rows, style.save(figure, context.path("fec-s2")))


BURSTS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0)


@experiment(
    "packet-level-fec/s3",
    title="Loss in bursts, with and without interleaving",
    paper="specs/packet-level-fec.md 4, S3",
)
def s3(context: Context) -> Report:
    """What decoding leaves of a loss of 1 % in bursts (Gilbert's channel), against independent losses."""
    packets = 4_000_000 if context.full else 20_000 if context.seconds else 600_000
    depths = (1, 4, 16)
    jobs = [(name, depth, burst) for name in ("7+1", "6+2", "5+3") for depth in depths for burst in BURSTS]

    def run(job: tuple[str, int, float | None]) -> dict:
        (n, m), depth, burst = CODES[job[0]], job[1], job[2]
        study = {
            "scheme": "xor-shift",
            "n": n,
            "m": m,
            "interleave": depth,
            "e": 0.01,
            "burst": burst,
            "packets": packets,
            "seed": 1,
        }
        return ask("bursts", study=study)

    found = dict(zip(jobs, run_all(context, "streams", run, jobs), strict=True))
    rows = []
    for name in ("7+1", "6+2", "5+3"):
        told = ask("residual", points=[(*CODES[name], 0.01)])[0]
        plain, spread = (found[name, depth, 3.0]["residual"] for depth in (1, 16))
        measured = f"{plain:.1e} without, {spread:.1e} with 16 blocks in turn"
        note = f"independent losses: {told:.1e}"
        ok = plain > 3 * told and spread < plain / 2
        rows.append(
            Row(
                f"{name}, bursts of 3",
                "bursts undo FEC, interleaving brings it back",
                measured,
                "worse; at most half",
                judge(ok),
                note,
            )
        )
    told = ask("residual", points=[(7, 1, 0.01)])[0]
    independent = run(("7+1", 1, None))["residual"]
    singly = found["7+1", 1, 1.0]["residual"]
    rows.append(
        Row(
            "7+1, independent losses",
            f"{told:.2e}",
            f"{independent:.2e}",
            "15 %",
            judge(within(independent, told, 0.15)),
            f"never two in a row: {singly:.1e}, as a quarter of all pairs of a block are neighbours",
        )
    )
    figure, panels = fec.axes(3, sharey=True)
    for axis, name in zip(panels, ("7+1", "6+2", "5+3"), strict=True):
        for number, depth in enumerate(depths):
            # What never happened has no place on a logarithmic axis.
            line = [found[name, depth, burst]["residual"] or np.nan for burst in BURSTS]
            label = "one after the other" if depth == 1 else f"{depth} blocks in turn"
            axis.plot(BURSTS, line, color=COLOURS[number], marker=MARKERS[number], ms=4, label=label)
        axis.axhline(
            ask("residual", points=[(*CODES[name], 0.01)])[0],
            color="0.5",
            ls="--",
            lw=0.9,
            label="independent",
        )
        axis.set(yscale="log", xlabel="mean burst (packets)", ylim=(1e-7, 2e-2))
        axis.set_title(name, fontsize=9.5)
    panels[0].set_ylabel("loss after decoding")
    panels[0].legend(fontsize=8)
    return Report("packet-level-fec/s3", s3.__doc__ or "", rows, style.save(figure, context.path("fec-s3")))


def throughput() -> list[dict] | None:
    """What `cargo run --release -p layercast-fec --example throughput` prints, if it was built."""
    root = Path(__file__).resolve().parents[3]
    target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
    command = os.environ.get("LAYERCAST_THROUGHPUT", str(target / "release" / "examples" / "throughput"))
    if not Path(command).exists():
        return None
    return json.loads(subprocess.run([command], check=True, stdout=subprocess.PIPE).stdout)


@experiment(
    "packet-level-fec/b1",
    title="Speed of the codes",
    paper=f"{PAPER}, section 2: a memory move per packet and parity",
)
def b1(context: Context) -> Report:
    """Source octets encoded in a second on one core, beside a plain copy of them; packets of 1400 octets."""
    found = throughput()
    if found is None:
        missing = "cargo build --release -p layercast-fec --example throughput makes what measures"
        rows = [Row("XOR, 7+1", "about a memory move per packet", "-", "50 % of memcpy", "missing", missing)]
        return Report("packet-level-fec/b1", b1.__doc__ or "", rows)
    table = {(it["scheme"], it["n"], it["m"]): it["encode"] for it in found}
    copy = table["memcpy", 0, 0]
    share = table["xor-shift", 7, 1] / copy
    rows = [
        Row(
            "XOR, 7+1",
            "about a memory move per packet",
            f"{table['xor-shift', 7, 1]:.1f} GB/s, {100 * share:.0f} % of memcpy",
            "50 % of memcpy",
            judge(share >= 0.5),
            "a trend, never a gate",
        )
    ]
    shapes = [(7, 1), (6, 2), (20, 4), (100, 20)]
    for scheme in ("xor-shift", "reed-solomon", "raptorq"):
        measured = ", ".join(f"{n}+{m}: {table[scheme, n, m]:.2f}" for n, m in shapes)
        rows.append(Row(f"{scheme} (GB/s)", "-", measured, "-", "open"))
    figure, axis = fec.axes()
    places = np.arange(len(shapes))
    for number, scheme in enumerate(("xor-shift", "reed-solomon", "raptorq")):
        values = [table[scheme, n, m] for n, m in shapes]
        axis.bar(places + 0.27 * (number - 1), values, 0.25, color=COLOURS[number], label=scheme)
    axis.axhline(copy, color="0.5", ls="--", lw=0.9, label="memcpy")
    axis.set_xticks(places, [f"{n}+{m}" for n, m in shapes])
    axis.set(yscale="log", ylabel="GB/s of source packets")
    axis.legend(fontsize=8.5)
    return Report("packet-level-fec/b1", b1.__doc__ or "", rows, style.save(figure, context.path("fec-b1")))
