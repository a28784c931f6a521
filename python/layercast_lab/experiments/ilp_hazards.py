"""ILP hazards: when one fused loop is slower than a loop for each function."""

from __future__ import annotations

import numpy as np

from layercast_lab import ilp, style
from layercast_lab.experiment import Context, Report, Row, experiment, judge, judge_shape
from layercast_lab.ilp import HARDWARE, INSTR, PAPER_HAZARDS, times
from layercast_lab.plots import COLOURS
from layercast_lab.style import plt

SPEC = "ilp-hazards"
MACHINES = {"ss2": "SS-2", "hp": "HP"}
STATES = range(1, 11)
SIZES = {"ss2": (1, 2, 3, 5), "hp": (2, 4, 6, 8)}
TITLES = {
    "e1": "Instructions of a function",
    "e2": "State of a function",
    "e3": "Number of functions",
    "m1": "The model and its reference values",
    "m2": "This machine",
    "v1": "Real and synthetic functions",
}

# Reference values of the specification, in ns an octet: fused warm, apart warm, fused cold, apart cold.
E1 = {
    "ss2": (
        (183, 295, 482, 858, 1232, 1608, 1982),
        (318, 430, 618, 992, 1368, 1742, 2117),
        (226, 339, 526, 901, 1276, 1651, 2026),
        (449, 561, 749, 1124, 1499, 1874, 2249),
    ),
    "hp": (
        (44, 90, 165, 317, 468, 620, 771),
        (64, 110, 186, 337, 489, 640, 792),
        (56, 102, 178, 329, 481, 632, 784),
        (110, 150, 220, 365, 515, 666, 817),
    ),
}
E2 = {
    "ss2": (
        (295, 295, 389, 482, 576, 670, 764, 858, 951, 1045),
        (430, 430, 430, 430, 430, 430, 524, 618, 711, 805),
        (339, 339, 432, 526, 620, 714, 807, 901, 995, 1089),
        (561, 561, 561, 561, 561, 561, 655, 749, 842, 936),
    ),
    "hp": (
        (90, 90, 90, 90, 90, 99, 108, 117, 126, 135),
        (110,) * 10,
        (102, 102, 102, 102, 102, 111, 120, 129, 138, 147),
        (150,) * 10,
    ),
}
E3 = {
    ("ss2", 1): (170, 233, 295, 358, 420, 482, 576, 670),
    ("ss2", 2): (170, 233, 295, 420, 545, 670, 795, 920),
    ("ss2", 3): (170, 233, 389, 545, 701, 858, 1014, 1170),
    ("ss2", 5): (170, 358, 576, 795, 1014, 1232, 1451, 1670),
    ("hp", 2): (39, 64, 90, 115, 140, 165, 191, 219),
    ("hp", 4): (39, 64, 90, 118, 155, 193, 230, 267),
    ("hp", 6): (39, 64, 99, 142, 186, 229, 272, 316),
    ("hp", 8): (39, 67, 117, 166, 216, 265, 315, 364),
}
APART = {
    "ss2": (170, 300, 430, 560, 690, 820, 950, 1080),
    "hp": (39, 74, 110, 145, 181, 216, 251, 287),
}


# Ten instructions of a cycle each, in ns an octet.
ARITHMETIC = {"ss2": 10 * 25 / 4, "hp": 10 * 10.1 / 4}


def by_instr(machine: str, cold: bool) -> np.ndarray:
    """E1: fused and apart, by the instructions of a function."""
    return np.array([times(3, 2, instr, machine, cold) for instr in INSTR]).T


def by_state(machine: str, cold: bool) -> np.ndarray:
    """E2: fused and apart, by the state of a function."""
    return np.array([times(3, state, 10, machine, cold) for state in STATES]).T


def by_number(machine: str, state: int) -> np.ndarray:
    """E3: fused and apart, by the number of functions."""
    return np.array([times(n, state, 10, machine) for n in range(1, 9)]).T


def near(name: str, told: float, here: float, share: float, unit: str = "ns/octet") -> Row:
    """A number of the paper with a tolerance as a share of it."""
    tolerance = f"within {share:.0%}"
    return Row(
        name, f"{told:g} {unit}", f"{here:.1f} {unit}", tolerance, judge(abs(here / told - 1) <= share)
    )


def within(name: str, told: str, here: float, least: float, most: float, unit: str, note: str = "") -> Row:
    """A number that must be in a range."""
    tolerance = f"{least:g} to {most:g} {unit}"
    return Row(name, told, f"{here:.1f} {unit}", tolerance, judge(least <= here <= most), note)


def figure(context: Context, id: str, curves: dict[str, dict[str, tuple]], label: str) -> str:
    """A panel for each machine."""
    shown, axes = plt.subplots(1, len(curves), figsize=(9, 3.4), squeeze=False)
    for axis, (machine, lines) in zip(axes[0], curves.items(), strict=True):
        for at, (name, (x, y)) in enumerate(lines.items()):
            axis.plot(x, y, label=name, color=COLOURS[at % len(COLOURS)], marker="o", markersize=3)
        axis.set(title=machine, xlabel=label, ylabel="ns an octet")
        axis.legend(fontsize=7)
    return style.save(shown, context.path(id))


def four(machine: str, of) -> dict[str, tuple]:
    """The four curves of a plot."""
    (warm, apart), (cold, apart_cold) = of(machine, False), of(machine, True)
    return {"fused, warm": warm, "apart, warm": apart, "fused, cold": cold, "apart, cold": apart_cold}


@experiment(f"{SPEC}/e1", title=TITLES["e1"], paper=f"{PAPER_HAZARDS}, Figures 1 and 2")
def e1(context: Context) -> Report:
    """E1 of the specification, by its model of both machines."""
    curves = {machine: four(machine, by_instr) for machine in MACHINES}
    rows = []
    for machine, name in MACHINES.items():
        lines = curves[machine]
        below = all(
            np.all(lines[f"fused, {heat}"] < lines[f"apart, {heat}"]) for heat in ("warm", "cold")
        ) and np.all(lines["fused, warm"] < lines["fused, cold"])
        rows.append(
            Row(
                f"{name} fused below apart, warm below cold, for every a",
                "always",
                "always" if below else "not always",
                "shape",
                judge_shape(bool(below)),
            )
        )
    gain = {
        (machine, heat): lines[f"apart, {heat}"] - lines[f"fused, {heat}"]
        for machine, lines in curves.items()
        for heat in ("warm", "cold")
    }
    rows += [
        near("SS-2 gain, cold", 220, gain["ss2", "cold"][1], 0.05),
        near("SS-2 gain, warm", 135, gain["ss2", "warm"][1], 0.05),
        near("HP gain, cold, a=100", 30, gain["hp", "cold"][-1], 0.30),
        near("HP gain, warm", 20, gain["hp", "warm"][1], 0.05),
    ]
    for machine, told, most in (("ss2", 65, (60, 70)), ("hp", 60, (45, 65))):
        share = 100 * gain[machine, "cold"][1] / curves[machine]["fused, cold"][1]
        rows.append(within(f"{MACHINES[machine]} throughput gain at a=10", f"{told} %", share, *most, "%"))
    for machine, told in (("ss2", 11), ("hp", 4)):
        share = 100 * gain[machine, "cold"][-1] / curves[machine]["fused, cold"][-1]
        name = f"{MACHINES[machine]} throughput gain at a=100"
        rows.append(within(name, f"{told} %", share, told - 2, told + 2, "%"))
    less = {
        (machine, way): lines[f"{way}, cold"] - lines[f"{way}, warm"]
        for machine, lines in curves.items()
        for way in ("fused", "apart")
    }
    rows += [
        near("SS-2 benefit of a warm cache, fused", 44, less["ss2", "fused"][1], 0.03),
        within(
            "HP benefit of a warm cache, fused", "10-15 ns/octet", less["hp", "fused"][1], 10, 15, "ns/octet"
        ),
        near("SS-2 benefit of a warm cache, apart", 129, less["ss2", "apart"][1], 0.03),
    ]
    apart = less["hp", "apart"]
    rows.append(
        Row(
            "HP benefit of a warm cache, apart, a=4 to 100",
            "25-40 ns/octet, larger for few instructions",
            ilp.spread(apart) + " ns/octet",
            "25 to 40, falling",
            judge(bool(apart.min() >= 24.5 and apart.max() <= 40.5 and np.all(np.diff(apart) < 0))),
        )
    )
    for machine, told in (("ss2", 18.75), ("hp", 7.6)):
        slope = np.diff(curves[machine]["fused, warm"]) / np.diff(INSTR)
        rows.append(near(f"{MACHINES[machine]} slope", told, float(slope.mean()), 0.01, "ns/octet a=1"))
    rows += [
        near("SS-2 level, cold, fused, a=10", 338, curves["ss2"]["fused, cold"][1], 0.05),
        near("SS-2 level, cold, apart, a=10", 558, curves["ss2"]["apart, cold"][1], 0.05),
        near("SS-2 level, cold, fused, a=100", 2000, curves["ss2"]["fused, cold"][-1], 0.05),
        near("SS-2 level, cold, apart, a=100", 2220, curves["ss2"]["apart, cold"][-1], 0.05),
        near("HP level, cold, fused, a=100", 765, curves["hp"]["fused, cold"][-1], 0.05),
    ]
    drawn = {
        MACHINES[machine]: {name: (INSTR, line) for name, line in lines.items()}
        for machine, lines in curves.items()
    }
    return Report(f"{SPEC}/e1", TITLES["e1"], rows, figure(context, "e1", drawn, "instructions a"))


def knee(line: np.ndarray) -> int:
    """The first state at which a curve has begun to rise."""
    return int(np.argmax(np.diff(line) > 0.5)) + 2


def crossing(fused: np.ndarray, apart: np.ndarray) -> int | None:
    """The first state at which the fused loop is slower."""
    above = np.flatnonzero(fused > apart)
    return int(above[0]) + 1 if len(above) else None


@experiment(f"{SPEC}/e2", title=TITLES["e2"], paper=f"{PAPER_HAZARDS}, Figures 3 and 4")
def e2(context: Context) -> Report:
    """E2 of the specification, by its model of both machines."""
    curves = {machine: four(machine, by_state) for machine in MACHINES}
    rows = []
    knees = {machine: knee(lines["fused, warm"]) for machine, lines in curves.items()}
    for machine, lines in curves.items():
        flat = [np.ptp(lines[f"apart, {heat}"]) < 1 for heat in ("warm", "cold")]
        rises = knee(lines["apart, warm"]) if not all(flat) else None
        rows.append(
            Row(
                f"{MACHINES[machine]} apart, s=1 to 10",
                "flat in the plotted range",
                "flat" if all(flat) else f"flat up to s={rises - 1}, the registers",
                "shape",
                judge_shape(all(flat) or rises > 6),
            )
        )
    rows += [
        Row("SS-2 fused rises from", "s=3", f"s={knees['ss2']}", "3", judge(knees["ss2"] == 3)),
        Row(
            "HP fused rises later than SS-2",
            "later",
            f"s={knees['hp']} and s={knees['ss2']}",
            "later",
            judge_shape(knees["hp"] > knees["ss2"]),
        ),
    ]
    for machine, told in (("ss2", 3 * 5.0 * 25 / 4), ("hp", 3 * 1.2 * 10.1 / 4)):
        slope = float(np.diff(curves[machine]["fused, warm"])[-1])
        rows.append(near(f"{MACHINES[machine]} slope beyond: 3 words to load and store", told, slope, 0.01))
    for machine, heat, told in (
        ("ss2", "warm", 4),
        ("ss2", "cold", 5),
        ("hp", "warm", 8),
        ("hp", "cold", None),
    ):
        found = crossing(curves[machine][f"fused, {heat}"], curves[machine][f"apart, {heat}"])
        words = {None: "not up to s=10"}
        rows.append(
            Row(
                f"{MACHINES[machine]} {heat}: fused is slower from",
                words.get(told, f"the model: s={told}"),
                words.get(found, f"s={found}"),
                "equal",
                judge(found == told),
            )
        )
    for machine, lines in curves.items():
        off = [lines[f"{way}, cold"] - lines[f"{way}, warm"] for way in ("fused", "apart")]
        same = all(np.ptp(one) < 1 for one in off) and off[0].mean() < off[1].mean()
        rows.append(
            Row(
                f"{MACHINES[machine]} cold less warm",
                "constant, smaller fused",
                f"{off[0].mean():.0f} fused, {off[1].mean():.0f} apart",
                "shape",
                judge_shape(bool(same)),
            )
        )
    drawn = {
        MACHINES[machine]: {name: (list(STATES), line) for name, line in lines.items()}
        for machine, lines in curves.items()
    }
    return Report(f"{SPEC}/e2", TITLES["e2"], rows, figure(context, "e2", drawn, "state s, words"))


@experiment(f"{SPEC}/e3", title=TITLES["e3"], paper=f"{PAPER_HAZARDS}, Figures 5 and 6")
def e3(context: Context) -> Report:
    """E3 of the specification, by its model of both machines."""
    rows, drawn = [], {}
    registers = {"ss2": 6, "hp": 15}
    for machine, name in MACHINES.items():
        lines = {state: by_number(machine, state) for state in SIZES[machine]}
        apart = lines[SIZES[machine][0]][1]
        linear = float(np.ptp(np.diff(apart)))
        rows.append(
            Row(
                f"{name} apart",
                "linear in n",
                f"steps differ by {linear:.2g}",
                "shape",
                judge_shape(linear < 1),
            )
        )
        for state, (fused, _) in lines.items():
            steps = np.diff(fused)
            # The last number of functions before a step that costs more than arithmetic.
            steeper = np.flatnonzero(steps > ARITHMETIC[machine] + 0.5)
            found = int(steeper[0]) + 1 if len(steeper) else None
            first = next((n for n in range(1, 8) if (n + 1) * state > registers[machine]), None)
            rows.append(
                Row(
                    f"{name} s={state}: the knee",
                    "none up to n=8" if first is None else f"n={first}, R/s",
                    "none" if found is None else f"n={found}",
                    "equal",
                    judge(found == first),
                )
            )
            faster = float(steps[-1]) > float(np.diff(apart)[-1])
            bound = {"ss2": 2, "hp": 3}[machine]
            if (machine, state) != ("hp", 2):
                told = "fused grows faster" if state > bound else "fused grows slower"
                rows.append(
                    Row(
                        f"{name} s={state}: growth at n=8",
                        told,
                        f"{steps[-1]:.0f} fused, {np.diff(apart)[-1]:.0f} apart",
                        "as reported",
                        judge(faster == (state > bound)),
                    )
                )
        drawn[name] = {"apart": (range(1, 9), apart)} | {
            f"fused, s={state}": (range(1, 9), fused) for state, (fused, _) in lines.items()
        }
    fused, apart = by_number("ss2", 5)
    cuts = fused[0] <= apart[0] + 0.01 and fused[1] > apart[1]
    rows.append(
        Row(
            "SS-2 s=5 cuts the curve apart",
            "between n=1 and n=2",
            f"{fused[0]:.0f}/{apart[0]:.0f}, then {fused[1]:.0f}/{apart[1]:.0f} ns/octet",
            "exact",
            judge(bool(cuts)),
        )
    )
    sums = [
        ilp.plan(chain, "ss2")["fused_ns"]
        for chain in ("4/10,4/10,4/10", "12/10,0/10,0/10", "1/10,9/10,2/10")
    ]
    rows.append(
        Row(
            "states of one sum, fused",
            "only the sum matters",
            ilp.spread(sums) + " ns/octet",
            "equal",
            judge(float(np.ptp(sums)) < 1e-6),
        )
    )
    return Report(f"{SPEC}/e3", TITLES["e3"], rows, figure(context, "e3", drawn, "functions n"))


@experiment(f"{SPEC}/m1", title=TITLES["m1"], paper="specs/ilp-hazards.md 2.4 and 5")
def m1(context: Context) -> Report:
    """M1: every reference value of the model, within 1 ns an octet."""
    rows = []

    def row(name: str, told, here) -> None:
        off = float(np.max(np.abs(np.asarray(told) - np.asarray(here))))
        count = np.asarray(told).size
        rows.append(
            Row(
                name,
                f"the model: {count} values",
                f"off by {off:.2f} ns/octet at most",
                "1 ns/octet",
                judge(off <= 1),
            )
        )

    for machine, name in MACHINES.items():
        for told, of, id in ((E1, by_instr, "E1"), (E2, by_state, "E2")):
            here = [*of(machine, False), *of(machine, True)]
            row(f"{id} {name}", told[machine], here)
        fused = [by_number(machine, state)[0] for state in SIZES[machine]]
        row(f"E3 {name}, fused", [E3[machine, state] for state in SIZES[machine]], fused)
        row(f"E3 {name}, apart", APART[machine], by_number(machine, SIZES[machine][0])[1])
    return Report(f"{SPEC}/m1", TITLES["m1"], rows)


def pairs() -> dict[tuple[bool, str], tuple[float, float]]:
    """Real and synthetic functions on this machine, by kind and temperature: apart and fused."""
    found = ilp.calibrated()["pair"]
    return {(one["synthetic"], one["temperature"]): (one["sequential_ns"], one["fused_ns"]) for one in found}


@experiment(f"{SPEC}/v1", title=TITLES["v1"], paper=f"{PAPER_HAZARDS}, Table 1")
def v1(context: Context) -> Report:
    """V1: byte swap, trivial cipher and checksum, and synthetic functions of the same parameters."""
    found = pairs()
    rows = []
    for heat in ("cold", "warm"):
        for way, name in enumerate(("apart", "fused")):
            real, synthetic = found[False, heat][way], found[True, heat][way]
            rows.append(
                Row(
                    f"{heat}, {name}: synthetic beside real",
                    "HP equal within 0.4 %, SS-2 2 to 9 % slower",
                    f"{synthetic:.3f} and {real:.3f} ns/octet, {synthetic / real - 1:+.0%}",
                    "10 %",
                    judge(abs(synthetic / real - 1) <= 0.1),
                    HARDWARE,
                )
            )
        ratio = found[False, heat][0] / found[False, heat][1]
        told = {"cold": "1.95 (HP), 1.98 (SS-2)", "warm": "1.48 (HP), 1.85 (SS-2)"}[heat]
        rows.append(
            Row(f"{heat}: throughput fused by apart, real", told, f"{ratio:.2f}", "-", "open", HARDWARE)
        )
    return Report(f"{SPEC}/v1", TITLES["v1"], rows)


@experiment(f"{SPEC}/m2", title=TITLES["m2"], paper="specs/ilp-hazards.md 4 and 8")
def m2(context: Context) -> Report:
    """M2: E1 to E3 on this machine, and the planner's choice against the faster way."""
    found = ilp.calibrated()
    points = found["points"]
    profile = found["profile"]
    rows = [
        Row(
            f"the better way is predicted, of {len(points)} points",
            "ours: 10 % off at most, at 90 % of the points",
            f"{found['right']:.1%}",
            "90 %",
            judge(found["right"] >= 0.9),
            HARDWARE,
        ),
        Row(
            "state that has registers",
            "12 to 15 (x86-64)",
            f"{profile['registers']} words",
            "-",
            "open",
            HARDWARE,
        ),
        Row("error of a predicted time, median", "-", f"{found['median_error']:.0%}", "-", "open", HARDWARE),
    ]

    # SAFER with other than six rounds is no stage of the library. Cold plans are for data that no cache holds
    # between two loops; the chains that start cold here are in the caches from their first loop on.
    chains = ilp.measured(10 * (context.seeds or 10) + 1)
    well = ilp.planned_well([it for it in chains if " of " not in it["chain"] and not it["cold"]], profile)
    rows.append(
        Row(
            f"the better way is predicted, of {len(well)} real chains, warm",
            "ours: 10 % off at most, at 90 % of the chains",
            f"{np.mean(well):.0%}",
            "90 %",
            judge(bool(np.mean(well) >= 0.9)),
            HARDWARE,
        )
    )

    def ratio(state: int, instr: int, heat: str) -> float:
        one = next(
            p
            for p in points
            if (p["functions"], p["state"], p["instr"], p["temperature"]) == (3, state, instr, heat)
        )
        return one["sequential_ns"] / one["fused_ns"]

    for heat in ("warm", "cold"):
        told = {"warm": "1.27 at a=4, 0.64 at a=100", "cold": "4.3 at a=4, 0.64 at a=100"}[heat]
        ends = [ratio(2, instr, heat) for instr in (4, 100)]
        rows.append(
            Row(
                f"E1 {heat}: throughput fused by apart",
                f"the specification's own run: {told}",
                f"{ends[0]:.2f} at a=4, {ends[1]:.2f} at a=100",
                "falls with a",
                judge_shape(ends[0] > ends[1]),
                HARDWARE,
            )
        )
    cold = [p for p in points if p["strip_ns"] is not None]
    best = [min(p["sequential_ns"], p["fused_ns"], p["strip_ns"]) for p in cold]
    near = np.mean([p["strip_ns"] <= 1.4 * least for p, least in zip(cold, best, strict=True)])
    rows.append(
        Row(
            "cold strips within 40 % of the best way",
            "the specification's own run: always",
            f"at {near:.0%} of {len(cold)} points",
            "always",
            judge(bool(near == 1)),
            HARDWARE,
        )
    )
    lines = {}
    for heat in ("warm", "cold"):
        line = [
            p
            for p in points
            if p["functions"] == 3 and p["temperature"] == heat and p["state"] + 1 <= p["instr"]
        ]
        line = {p["instr"]: p for p in line if p["state"] == 2}
        x = sorted(line)
        lines[f"fused, {heat}"] = (x, [line[a]["fused_ns"] for a in x])
        lines[f"apart, {heat}"] = (x, [line[a]["sequential_ns"] for a in x])
    return Report(
        f"{SPEC}/m2", TITLES["m2"], rows, figure(context, "m2", {"this machine": lines}, "instructions a")
    )
