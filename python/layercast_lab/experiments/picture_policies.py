"""Picture quality on ATM: units of discard, and policers (specs/mpeg-picture-quality.md 4, Q3 to Q5)."""

from __future__ import annotations

from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.experiments.picture_switch import PAPER, by_load, draw, formula, mean, named, settings
from layercast_lab.picture import letters

LOADS = (1.05, 1.1, 1.149, 1.25, 1.5)
EARLY = ("exclp", "exclp_epd", "dependent", "whole_gops")
B_SHARE, GOP_PICTURES, B_PICTURES = 13.0, 12, 8
EXCESS = (1.1, 1.2, 1.3, 1.4, 1.5)
ACTIONS = {"discard": "Discard", "demote_one": "DemoteOne", "tag": "Tag"}
BURST = 40
"""Cells that may come immediately after each other: two header cells and the frames between them."""


@experiment("mpeg-picture-quality/q3", title="A buffer without the cells of B pictures", paper=PAPER)
def q3(context: Context) -> Report:
    """Cells offered, carried and waiting, with class B and without, in a buffer that knows no classes."""
    points = [(load, refused) for load in LOADS for refused in (False, True)]
    wanted = [{"load": load, "policy": "fifo", "refuse_b": refused} for load, refused in points]
    found = dict(zip(points, settings(context, wanted), strict=True))
    rows = []
    for load in LOADS:
        before, after = found[load, False], found[load, True]
        share = mean(before, "share_percent")[3]
        others = [mean(after, "loss_percent")[place] for place in range(3)]
        left = max(0.0, 100 * (1 - 1 / (load * (1 - B_SHARE / 100))))
        rows.append(
            Row(
                f"load {load:g}, cells that B groups take away",
                f"{B_SHARE:g} %",
                f"{share:.1f} %",
                "within 1 point",
                judge(abs(share - B_SHARE) <= 1),
            )
        )
        rows.append(
            Row(
                f"load {load:g}, losses of S, I and P without B",
                f"closed form: {left:.1f} %",
                " ".join(f"{value:.1f}" for value in others) + " %",
                "within 3 points",
                judge(all(abs(value - left) <= 3 for value in others)),
            )
        )
        waiting = [mean(runs, "mean_occupancy")[0] for runs in (before, after)]
        rows.append(
            Row(
                f"load {load:g}, mean cells in the buffer, with and without B",
                f"{B_SHARE:g} % fewer",
                f"{waiting[0]:.0f} and {waiting[1]:.0f}: {100 * (1 - waiting[1] / waiting[0]):.0f} % fewer",
                "fewer",
                judge(waiting[1] < waiting[0]),
            )
        )
    return Report("mpeg-picture-quality/q3", "A buffer without the cells of B pictures", rows)


def bound(load: float) -> float:
    """Decodable pictures in percent if whole B pictures of equal size are lost, and nothing else."""
    lost = formula(load)[3] / 100
    return 100 * (1 - B_PICTURES / GOP_PICTURES * lost)


@experiment("mpeg-picture-quality/q4", title="Groups, pictures and GOPs as units of discard", paper=PAPER)
def q4(context: Context) -> Report:
    """Goodput and decodable pictures of policies that discard cells, frames, dependent pictures, and GOPs."""
    found = by_load(context, LOADS, EARLY)
    rows = []
    for load in LOADS:
        goodput = [mean(found[load, policy], "goodput_percent")[0] for policy in EARLY]
        decodable = [mean(found[load, policy], "decodable_percent")[0] for policy in EARLY]
        rows.append(
            Row(
                f"load {load:g}, cells of decodable pictures in cells carried",
                "exclp_epd more than exclp",
                named(EARLY, goodput, 1),
                "more",
                judge(goodput[1] > goodput[0]),
            )
        )
        rows.append(
            Row(
                f"load {load:g}, decodable pictures",
                "dependent at least exclp_epd",
                named(EARLY, decodable, 1),
                "at least",
                judge(decodable[2] >= decodable[1]),
            )
        )
        sizes = "ours"
        if load < 1.149:
            limit = bound(load)
            rows.append(
                Row(
                    f"load {load:g}, decodable pictures if B pictures alone are lost",
                    f"closed form, equal pictures: at most {limit:.1f} %",
                    named(EARLY[:3], decodable[:3], 1),
                    "at most 3 points more",
                    judge(max(decodable[:3]) <= limit + 3),
                )
            )
        lost = mean(found[load, "whole_gops"], "loss_percent")
        rows.append(Row(f"load {load:g}, losses with whole_gops", sizes, letters(lost), "-", "open"))
    dependent, whole = (mean(found[1.05, policy], "decodable_percent")[0] for policy in EARLY[2:])
    rows.append(
        Row(
            "load 1.05, decodable pictures, references known",
            "at least 80 %",
            named(EARLY[2:], (dependent, whole), 1),
            "whole_gops at least 80 %",
            judge(whole >= 80),
        )
    )
    delays = [mean(found[1.05, policy], "delay_us")[1] / 1000 for policy in EARLY]
    pairs = ", ".join(f"{policy} {value:.2f}" for policy, value in zip(EARLY, delays, strict=True))
    rows.append(Row("load 1.05, 99 % of the delays", "at most the buffer", f"{pairs} ms", "-", "open"))
    figure = draw(context, "picture-q4", EARLY, found)
    return Report("mpeg-picture-quality/q4", "Groups, pictures and GOPs as units of discard", rows, figure)


@experiment("mpeg-picture-quality/q5", title="Policers of videos with classes", paper=PAPER)
def q5(context: Context) -> Report:
    """Losses by the class that the source gave, behind policers that discard, demote or tag excess cells."""
    points = [(excess, action) for excess in EXCESS for action in ACTIONS]
    wanted = [
        {"load": 1.05, "policy": "exclp", "police": {"action": action, "excess": excess, "burst": BURST}}
        for excess, action in points
    ]
    found = dict(zip(points, settings(context, wanted), strict=True))
    rows = []
    for excess in EXCESS:
        losses = {action: mean(found[excess, action], "loss_percent") for action in ACTIONS}
        over = 100 * (1 - 1 / excess)
        # Each class loses the same at a policer that tells none apart.
        discarded = losses["discard"]
        rows.append(
            Row(
                f"{excess:g} times the contract, Discard",
                f"closed form: {over:.1f} % of each class",
                letters(discarded),
                "within 3 points",
                judge(all(abs(value - over) <= 3 for value in discarded)),
            )
        )
        rows.append(
            Row(
                f"{excess:g} times the contract, Tag",
                "conflict: tagged cells of I are lost as B",
                letters(losses["tag"]),
                "I more than 0.5 %",
                judge(losses["tag"][1] > 0.5),
            )
        )
        gentle = sum(losses["demote_one"][:2]) < sum(losses["tag"][:2]) and losses["demote_one"][0] < 0.5
        rows.append(
            Row(
                f"{excess:g} times the contract, DemoteOne",
                "S and I lose less than with Tag",
                letters(losses["demote_one"]),
                "S + I less, S below 0.5 %",
                judge(gentle),
            )
        )
        decodable = [mean(found[excess, action], "decodable_percent")[0] for action in ACTIONS]
        pairs = ", ".join(
            f"{name} {value:.1f}" for name, value in zip(ACTIONS.values(), decodable, strict=True)
        )
        rows.append(
            Row(f"{excess:g} times the contract, decodable pictures", "ours", f"{pairs} %", "-", "open")
        )
    return Report("mpeg-picture-quality/q5", "Policers of videos with classes", rows)
