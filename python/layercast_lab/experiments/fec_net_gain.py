"""Where to use FEC, beyond the paper: parities counted, losses in bursts."""

from __future__ import annotations

import numpy as np

from layercast_lab import fec, style
from layercast_lab.experiment import Context, Report, Row, arithmetic, experiment, judge
from layercast_lab.experiments.fec_trees import HEIGHT, LAN_LINKS, PAPER
from layercast_lab.fec import ask
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.simulator import run_all

PARTS = {"WAN": {"shared", "wan"}, "LAN": {"lan"}, "everywhere": {"shared", "wan", "lan"}}


def branches(receivers: int, size: int, shared: int, wan_loss: float, lan_loss: float) -> dict:
    """Tree 4 as a file describes it."""
    rows = [{"name": "lan", "parent": "wan", "loss": lan_loss, "hops": LAN_LINKS, "count": size}]
    rows.append(
        {"name": "wan", "loss": wan_loss, "hops": HEIGHT - LAN_LINKS - shared, "count": receivers // size}
    )
    if shared:
        rows.append({"name": "shared", "loss": wan_loss, "hops": shared})
        rows[1]["parent"] = "shared"
    return {"branch": rows}


def placements(tree: dict) -> dict[str, dict]:
    """The placements of the paper with the best codes of blocks up to 100."""
    plan = ask("plan", tree=tree, effect={"best": {"block": 100}})
    names = {row["name"] for row in tree["branch"]}
    found = {}
    for name, parts in PARTS.items():
        found[name] = next(it for it in plan["placements"] if set(it["parts"]) == parts & names)
    return found


def codes(placement: dict) -> str:
    """Which code stands where."""
    told = zip(placement["parts"], placement["codes"], strict=True)
    return ", ".join(f"{part} {n}+{m}" if m else f"{part} none" for part, (n, m) in told)


@experiment("where-to-use-fec/x1", title="Net gain of real codes", paper=f"{PAPER}, parities counted")
def x1(context: Context) -> Report:
    """Gain less the parities on the links that carry them, with the best code of each part."""
    sizes, groups = (5, 25, 100), (100, 300, 1_000, 3_000)
    cases = {"wired LANs, 1e-4": 1e-4, "wireless LANs, 1e-2": 1e-2}
    jobs = [(lan, size, group) for lan in cases.values() for size in sizes for group in groups]
    found = dict(
        zip(
            jobs,
            run_all(context, "plans", lambda it: placements(branches(it[2], it[1], 10, 1e-3, it[0])), jobs),
            strict=True,
        )
    )
    rows = []
    for name, lan in cases.items():
        for size in sizes:
            here = found[lan, size, 3_000]
            best = max(here, key=lambda it: here[it]["net_gain"])
            measured = "; ".join(
                f"{place} {it['gain']:.3f} net {it['net_gain']:.3f}" for place, it in here.items()
            )
            note = f"best: {best} ({codes(here[best])})"
            honest = all(it["net_gain"] <= it["gain"] + 1e-12 for it in here.values())
            rows.append(
                Row(
                    f"{name}, {size} a LAN, 3000 receivers",
                    "gain without parities only",
                    measured,
                    "net at most gross",
                    arithmetic(honest),
                    note,
                )
            )
    figure, panels = fec.axes(2, sharey=True)
    for axis, (name, lan) in zip(panels, cases.items(), strict=True):
        for number, place in enumerate(PARTS):
            for look, size in zip(("-", "--", ":"), sizes, strict=True):
                line = [found[lan, size, group][place]["net_gain"] for group in groups]
                label = place if size == 5 else None
                axis.plot(
                    groups, line, look, color=COLOURS[number], marker=MARKERS[number], ms=4, label=label
                )
        axis.set(xscale="log", xlabel="receivers")
        axis.set_title(name, fontsize=9.5)
    for look, size in zip(("-", "--", ":"), sizes, strict=True):
        panels[1].plot([], [], look, color="0.4", label=f"{size} a LAN")
    panels[0].set_ylabel("net gain")
    panels[0].legend(fontsize=8.5)
    panels[1].legend(fontsize=8.5, loc="center left", bbox_to_anchor=(0, 0.3))
    return Report("where-to-use-fec/x1", x1.__doc__ or "", rows, style.save(figure, context.path("fec-x1")))


BURSTS = (1.0, 2.0, 3.0, 4.0, 5.0)
RECEIVERS, BRANCH = 30, 5


@experiment(
    "where-to-use-fec/x2", title="Losses in bursts", paper=f"{PAPER}, with Gilbert's channel on each path"
)
def x2(context: Context) -> Report:
    """Gain of real codes on wireless branches of tree 3 if losses come in bursts, with interleaving or not.

    Repairs come a round trip later and are lost independently, so that without FEC bursts change nothing;
    what decoding leaves of a path is simulated with real blocks.
    """
    packets = 2_000_000 if context.full else 20_000 if context.seconds else 300_000
    loss = 1 - (1 - 1e-2) ** BRANCH
    shared = 1e-3
    without = ask("tree3", points=[(HEIGHT, BRANCH, RECEIVERS, shared, 1e-2)])[0]
    tried = [(14, 2, 1), (14, 2, 8), (42, 6, 1), (42, 6, 8)]
    jobs = [(*code, burst) for code in tried for burst in BURSTS]

    def left(job: tuple[int, int, int, float]) -> float:
        n, m, depth, burst = job
        study = {
            "scheme": "xor-shift",
            "n": n,
            "m": m,
            "interleave": depth,
            "e": loss,
            "burst": burst,
            "packets": packets,
            "seed": 1,
        }
        return ask("bursts", study=study)["residual"]

    found = dict(zip(jobs, run_all(context, "streams", left, jobs), strict=True))

    def gain(residual: float) -> float:
        # One link as good as the decoded path.
        return without / ask("tree3", points=[(HEIGHT - BRANCH + 1, 1, RECEIVERS, shared, residual)])[0]

    rows = []
    for n, m, depth in tried:
        independent = gain(ask("residual", points=[(n, m, loss)])[0])
        line = [gain(found[n, m, depth, burst]) for burst in BURSTS]
        measured = f"{line[0]:.3f} at 1, {line[2]:.3f} at 3, {line[4]:.3f} at 5"
        name = f"{n}+{m}, {'one block' if depth == 1 else f'{depth} blocks in turn'}"
        ok = line[4] < line[0] if depth == 1 else line[4] > gain(found[n, m, 1, 5.0])
        rule = "falls with bursts" if depth == 1 else "better than without interleaving"
        rows.append(Row(name, f"independent losses: {independent:.3f}", measured, rule, judge(ok)))
    figure, axis = fec.axes()
    for number, (n, m, depth) in enumerate(tried):
        line = [gain(found[n, m, depth, burst]) for burst in BURSTS]
        label = f"{n}+{m}, " + ("one block" if depth == 1 else f"{depth} in turn")
        axis.plot(BURSTS, line, color=COLOURS[number], marker=MARKERS[number], ms=5, label=label)
    for number, (n, m) in enumerate(((14, 2), (42, 6))):
        axis.axhline(
            gain(ask("residual", points=[(n, m, loss)])[0]), color=COLOURS[2 * number], ls="--", lw=0.9
        )
    axis.plot([], [], "--", color="0.4", lw=0.9, label="independent losses")
    axis.set(
        xlabel="mean burst (packets)",
        ylabel="gain",
        ylim=(np.floor(10 * min(map(gain, found.values()))) / 10, None),
    )
    axis.legend(fontsize=8.5)
    return Report("where-to-use-fec/x2", x2.__doc__ or "", rows, style.save(figure, context.path("fec-x2")))
