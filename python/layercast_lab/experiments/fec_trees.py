"""Where to use FEC in a multicast tree: figures 4 to 12 of Nonnenmacher and Biersack."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from layercast_lab import fec, group
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.fec import ask, within
from layercast_lab.fec_group import row, trees

PAPER = "J. Nonnenmacher, E. Biersack, Where to use FEC in a multicast tree, PfHSN 1996"
HEIGHT, LAN_LINKS = 30, 5
BETTER = 100
SMALL = (1, *range(2, 31, 2))
BIG = (100, 200, 300, 500, 700, 1_000, 1_500, 2_000, 3_000)


def tree3(receivers: Sequence[int], branches: Sequence[int], shared: float, branch: float) -> np.ndarray:
    """E(T) of tree 3, a row for each length of the branches."""
    points = [(HEIGHT, k, r, shared, branch) for k in branches for r in receivers]
    return np.array(ask("tree3", points=points)).reshape(len(branches), len(receivers))


def tree4(receivers: Sequence[int], shared: Sequence[int], size: int, losses: Sequence[float]) -> np.ndarray:
    """E(T) of tree 4, a row for each length of the shared part."""
    height = HEIGHT - LAN_LINKS
    points = [(HEIGHT, height - s, LAN_LINKS, r, size, tuple(losses)) for s in shared for r in receivers]
    return np.array(ask("tree4", points=points)).reshape(len(shared), len(receivers))


Case = tuple[int, int, tuple[float, ...], int]
"""Receivers, shared links, losses of the parts, receivers of a LAN (0: tree 3)."""


def simulated(context: Context, what: str, cases: Sequence[Case]) -> tuple[Row, dict[Case, float]]:
    """Transmissions by RMTP to these trees, beside E(T)."""

    def made(case: Case) -> list[group.Branch]:
        receivers, shared, losses, size = case
        if size:
            return group.tree4(receivers, size, shared, losses, HEIGHT, LAN_LINKS)
        return group.tree3(receivers, HEIGHT - shared, losses, HEIGHT)

    def told(case: Case) -> float:
        receivers, shared, losses, size = case
        if size:
            return float(tree4([receivers], [shared], size, losses)[0, 0])
        return float(tree3([receivers], [HEIGHT - shared], *losses)[0, 0])

    cases = list(dict.fromkeys(cases))
    found = trees(context, what, made, cases)
    note = "RMTP, which repairs what anybody misses to all, instead of an ideal source: E(T)"
    return row(context, found, [told(case) for case in cases], note), dict(zip(cases, found, strict=True))


def exact(name: str, reported: str, found: float, told: float, decimals: int = 4) -> Row:
    """A row for a value of the specification, judged to a thousandth."""
    return Row(name, reported, f"{found:.{decimals}f}", f"{told:g} ± 0.1 %", judge(within(found, told, 1e-3)))


@experiment("where-to-use-fec/w1", title="FEC everywhere, small groups", paper=f"{PAPER}, figure 4")
def w1(context: Context) -> Report:
    """Gain over receivers and shared links if all links lose 1e-3, and with FEC 1e-5."""
    lengths = [*range(0, 30, 2), 29]
    branches = [HEIGHT - shared for shared in lengths]
    without, with_fec = tree3(SMALL, branches, 1e-3, 1e-3), tree3(SMALL, branches, 1e-5, 1e-5)
    gain = without / with_fec
    rows = [
        exact("30 receivers, nothing shared", "60 % more without FEC", gain[0, -1], 1.6059),
        exact("30 receivers, 29 links shared", "nearly no gain", gain[-1, -1], 1.0593),
        exact("with FEC, E(T)", "about 1", with_fec[0, -1], 1.009, 3),
    ]
    rising = bool((np.diff(gain, axis=1) > 0).all() and (np.diff(gain[:, 1:], axis=0) < 0).all())
    rows.append(
        Row(
            "shape",
            "grows with receivers, shrinks with sharing",
            "yes" if rising else "no",
            "everywhere",
            judge(rising),
        )
    )
    spots = [(receivers, shared) for receivers in (10, 30) for shared in (0, 10, 20, 29)]
    points = everywhere(context, "fec-w1", spots, rows)
    labels = ("receivers", "shared links", "gain")
    figure = fec.planes(context, "fec-w1", (SMALL, lengths), [gain], ["FEC everywhere"], labels, points)
    return Report("where-to-use-fec/w1", w1.__doc__ or "", rows, figure)


def everywhere(
    context: Context, name: str, spots: Sequence[tuple[int, int]], rows: list[Row]
) -> list[tuple[float, float, float]]:
    """Gain of FEC on all links of tree 3, simulated at these receivers and shared links; adds a row."""
    losses = {"none": (1e-3, 1e-3), "all": (1e-3 / BETTER, 1e-3 / BETTER)}
    cases = {(*spot, how): (*spot, law, 0) for spot in spots for how, law in losses.items()}
    row, found = simulated(context, name, list(cases.values()))
    rows.append(row)
    return [(*spot, found[cases[*spot, "none"]] / found[cases[*spot, "all"]]) for spot in spots]


def big() -> tuple[list[int], np.ndarray, np.ndarray]:
    """Lengths of the shared part, E(T) without and with FEC in big groups."""
    lengths = [0, 5, 10, 15, 20, 25, 29]
    branches = [HEIGHT - shared for shared in lengths]
    return lengths, tree3(BIG, branches, 1e-3, 1e-3), tree3(BIG, branches, 1e-5, 1e-5)


SPOTS = [(receivers, shared) for receivers in (100, 300, 1_000) for shared in (0, 10, 20, 29)]
"""Receivers and shared links that are simulated in big groups."""


@experiment("where-to-use-fec/w2", title="FEC everywhere, big groups", paper=f"{PAPER}, figure 5")
def w2(context: Context) -> Report:
    """Gain as before for 100 to 3000 receivers."""
    lengths, without, with_fec = big()
    gain = without / with_fec
    part = gain[:6, 2:]
    measured = f"{part.min():.2f} to {part.max():.2f} from 300 receivers and up to 25 shared links"
    # The band of the specification, which has it from three sizes of the group.
    ok = part.min() >= 1.795 and part.max() < 2.075
    halved = judge(ok)
    rows = [
        Row("gain", "nearly constant, transmissions reduced by half", measured, "1.80 to 2.07", halved),
        exact("at the edge: 300 receivers, 29 shared", "independent of sharing", gain[-1, 2], 1.292, 3),
        exact("3000 receivers, nothing shared", "about 2", gain[0, -1], 1.885, 3),
    ]
    points = everywhere(context, "fec-w2", SPOTS, rows)
    labels = ("receivers", "shared links", "gain")
    return Report(
        "where-to-use-fec/w2",
        w2.__doc__ or "",
        rows,
        fec.planes(context, "fec-w2", (BIG, lengths), [gain], ["FEC everywhere"], labels, points),
    )


@experiment("where-to-use-fec/w3", title="Transmissions in big groups", paper=f"{PAPER}, figures 6 and 7")
def w3(context: Context) -> Report:
    """E(T) without and with FEC: independent loss is the worst case."""
    lengths, without, with_fec = big()
    rows = [
        exact("3000 receivers, nothing shared", "independent loss is worst", without[0, -1], 3.004, 3),
        exact("3000 receivers, 29 shared", "falls with sharing", without[-1, -1], 2.011, 3),
        exact("with FEC, 3000 receivers, nothing shared", "-", with_fec[0, -1], 1.594, 3),
    ]
    falling = bool((np.diff(without, axis=0) < 0).all())
    rows.append(
        Row("shape", "E(T) falls with sharing", "yes" if falling else "no", "everywhere", judge(falling))
    )
    cases = [(*spot, (q, q), 0) for spot in SPOTS for q in (1e-3, 1e-3 / BETTER)]
    row, found = simulated(context, "fec-w3", cases)
    rows.append(row)
    points = [(case[0], case[1], it) for case, it in found.items()]
    labels = ("receivers", "shared links", "transmissions per packet")
    names = ["without FEC", "with FEC"]
    return Report(
        "where-to-use-fec/w3",
        w3.__doc__ or "",
        rows,
        fec.planes(context, "fec-w3", (BIG, lengths), [without, with_fec], names, labels, points),
    )


def two_places(branch_loss: float) -> list[np.ndarray]:
    """Gain with FEC on the shared path, and on the branches."""
    branches = range(1, 6)
    without = tree3(SMALL, branches, 1e-3, branch_loss)
    return [
        without / tree3(SMALL, branches, 1e-3 / BETTER, branch_loss),
        without / tree3(SMALL, branches, 1e-3, branch_loss / BETTER),
    ]


def two_places_simulated(
    context: Context, name: str, branch_loss: float, rows: list[Row]
) -> list[tuple[float, float, float]]:
    """Both gains simulated, by receivers and links of a branch; adds a row."""
    spots = [(receivers, branch) for receivers in (10, 30) for branch in (1, 3, 5)]
    laws = [(1e-3, branch_loss), (1e-3 / BETTER, branch_loss), (1e-3, branch_loss / BETTER)]
    cases = {(*spot, law): (spot[0], HEIGHT - spot[1], law, 0) for spot in spots for law in laws}
    row, found = simulated(context, name, list(cases.values()))
    rows.append(row)
    return [
        (*spot, found[cases[*spot, laws[0]]] / found[cases[*spot, law]]) for spot in spots for law in laws[1:]
    ]


@experiment("where-to-use-fec/w4", title="Shared path or wired LAN", paper=f"{PAPER}, figure 8")
def w4(context: Context) -> Report:
    """FEC in a WAN that loses 1e-3 a link, or in LANs that lose 1e-4."""
    wan, lan = two_places(1e-4)
    rows = [
        exact("WAN, branches of 1 link", "below 1.03", wan[0, -1], 1.0291),
        exact("WAN, branches of 5 links", "below 1.03", wan[4, -1], 1.0251),
        exact("LAN at most", "below 1.03", lan.max(), 1.0147),
    ]
    above = bool((wan > lan).all())
    rows.append(Row("shape", "WAN better everywhere", "yes" if above else "no", "everywhere", judge(above)))
    points = two_places_simulated(context, "fec-w4", 1e-4, rows)
    labels = ("receivers", "links of a branch", "gain")
    names = ["FEC in the WAN", "FEC in the LANs"]
    figure = fec.planes(context, "fec-w4", (SMALL, range(1, 6)), [wan, lan], names, labels, points)
    return Report("where-to-use-fec/w4", w4.__doc__ or "", rows, figure)


@experiment("where-to-use-fec/w5", title="Shared path or wireless LAN", paper=f"{PAPER}, figure 9")
def w5(context: Context) -> Report:
    """The same if a link of the LANs loses 1e-2."""
    wan, lan = two_places(1e-2)
    rows = [
        exact("LAN, 30 receivers, 5 links", "up to 1.8", lan[4, -1], 1.8247),
        exact("LAN, 20 receivers, 5 links", "grows with receivers", lan[4, SMALL.index(20)], 1.6668),
        exact("LAN, 30 receivers, 1 link", "grows with links", lan[0, -1], 1.2596),
        Row(
            "WAN",
            "no gain",
            f"{wan.min():.4f} to {wan.max():.4f}",
            "1.025 to 1.0295",
            judge(wan.min() > 1.0249 and wan.max() < 1.0295),
        ),
    ]
    points = two_places_simulated(context, "fec-w5", 1e-2, rows)
    labels = ("receivers", "links of a branch", "gain")
    names = ["FEC in the WAN", "FEC in the wireless LANs"]
    figure = fec.planes(context, "fec-w5", (SMALL, range(1, 6)), [wan, lan], names, labels, points)
    return Report("where-to-use-fec/w5", w5.__doc__ or "", rows, figure)


SHARED = tuple(range(25))
GROUPS4 = (100, 200, 300, 400, 500, 700, 900, 1_000, 1_500, 2_000, 2_500, 3_000)


def wan_and_lan(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Gain with FEC in the WAN and in the LANs of tree 4."""
    without = tree4(GROUPS4, SHARED, size, (1e-3, 1e-3, 1e-4))
    wan = without / tree4(GROUPS4, SHARED, size, (1e-5, 1e-5, 1e-4))
    return wan, without / tree4(GROUPS4, SHARED, size, (1e-3, 1e-3, 1e-6))


def crossing(wan: np.ndarray, lan: np.ndarray, receivers: int) -> int:
    """The first shared length from which FEC in the LAN gains more; 25: none."""
    place = GROUPS4.index(receivers)
    better = lan[:, place] > wan[:, place]
    return int(np.argmax(better)) if better.any() else len(SHARED)


def figure4(context: Context, size: int, name: str, planes4: Sequence[np.ndarray], rows: list[Row]) -> str:
    """Both planes, and both gains simulated; adds a row."""
    spots = [(receivers, shared) for receivers in (100, 1_000) for shared in (0, 10, 20)]
    laws = [(1e-3, 1e-3, 1e-4), (1e-5, 1e-5, 1e-4), (1e-3, 1e-3, 1e-6)]
    cases = {(*spot, law): (*spot, law, size) for spot in spots for law in laws}
    row, found = simulated(context, name, list(cases.values()))
    rows.append(row)
    points = [
        (*spot, found[cases[*spot, laws[0]]] / found[cases[*spot, law]]) for spot in spots for law in laws[1:]
    ]
    labels = ("receivers", "shared links", "gain")
    names = [f"FEC in the WAN, {size} receivers a LAN", "FEC in the LANs"]
    return fec.planes(context, name, (GROUPS4, SHARED), planes4, names, labels, points)


@experiment("where-to-use-fec/w6", title="WAN or LANs of 5", paper=f"{PAPER}, figure 10")
def w6(context: Context) -> Report:
    """FEC in the WAN or in the LANs, 5 receivers in each."""
    wan, lan = wan_and_lan(5)
    best = np.unravel_index(np.argmax(wan), wan.shape)
    cross = [crossing(wan, lan, r) for r in (100, 200, 500, 1_000, 3_000)]
    rows = [
        exact(
            f"WAN at most ({GROUPS4[best[1]]} receivers, {SHARED[best[0]]} shared)",
            "upper plane",
            wan.max(),
            1.626,
            3,
        ),
        Row(
            "LAN above WAN from",
            "never (figure 10)",
            f"{cross} shared links",
            "[24, 24, 23, 23, 23]",
            judge(cross == [24, 24, 23, 23, 23]),
            "for 100, 200, 500, 1000, 3000 receivers: the plane of the paper is above but for the last",
        ),
    ]
    return Report(
        "where-to-use-fec/w6", w6.__doc__ or "", rows, figure4(context, 5, "fec-w6", (wan, lan), rows)
    )


@experiment(
    "where-to-use-fec/w7", title="WAN or LANs of 25", paper=f"{PAPER}, figure 11 (its caption says 55)"
)
def w7(context: Context) -> Report:
    """The same with 25 receivers in each LAN."""
    wan, lan = wan_and_lan(25)
    cross = [crossing(wan, lan, r) for r in (100, 200, 500, 1_000, 3_000)]
    rows = [
        exact("LAN at most", "up to 1.6", lan.max(), 1.603, 3),
        exact("WAN, 3000 receivers, nothing shared", "up to 1.2", wan[0, -1], 1.193, 3),
        exact("WAN at most", "up to 1.2", wan.max(), 1.304, 3),
        Row(
            "LAN above WAN from",
            "planes cross",
            f"{cross} shared links",
            "[18, 15, 14, 14, 14]",
            judge(cross == [18, 15, 14, 14, 14]),
        ),
    ]
    return Report(
        "where-to-use-fec/w7", w7.__doc__ or "", rows, figure4(context, 25, "fec-w7", (wan, lan), rows)
    )


@experiment("where-to-use-fec/w8", title="WAN or LANs of 100", paper=f"{PAPER}, figure 12")
def w8(context: Context) -> Report:
    """The same with 100 receivers in each LAN."""
    wan, lan = wan_and_lan(100)
    above = bool((lan > wan).all())
    rows = [
        Row(
            "LAN plane",
            "above everywhere",
            "above everywhere" if above else "not everywhere",
            "everywhere",
            judge(above),
        ),
        exact("LAN at most", "-", lan.max(), 1.712, 3),
        exact("WAN at most", "-", wan.max(), 1.125, 3),
    ]
    return Report(
        "where-to-use-fec/w8", w8.__doc__ or "", rows, figure4(context, 100, "fec-w8", (wan, lan), rows)
    )
