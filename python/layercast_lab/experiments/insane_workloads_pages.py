"""INSANE A-3 and A-4: pages, pauses and visits, popularity of servers (specs/insane-workloads.md 4, 5.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.insane.workloads import (
    PAPER,
    SERVERS,
    SITES,
    Web,
    fit,
    model,
    samples,
    span,
    web,
    webs,
    whole,
)
from layercast_lab.plots import COLOURS, MARKERS
from layercast_lab.style import plt

A3 = "INSANE A-3: what makes connections a page"
THRESHOLDS = (0.1, 0.5, 1, 2, 5, 10, 30)
"""Seconds that may lie between connections of a page."""
CHOSEN = 1
PARALLEL = 4
"""Concurrent connections of the browsers whose connections overlap."""


@experiment("insane-workloads/a3", title=A3, paper=f"{PAPER}, table A-7, figures A-4, A-5")
def a3(context: Context) -> Report:
    """Files of a page and pauses, for every threshold."""
    traces = webs(context, "a3", seeds=3)
    found = {t: [trace.analysed("--threshold", f"{t}s") for trace in traces] for t in THRESHOLDS}
    kept = {t: traces[0].samples("--threshold", f"{t}s")["files_per_page"] for t in THRESHOLDS}
    overlapping = web(context, "a3-parallel", 1, parallel=PARALLEL)
    rows = [
        *files(found[CHOSEN]),
        *near_one(found),
        *far(found),
        overlap(overlapping),
        *pauses(found[CHOSEN]),
    ]
    return Report("insane-workloads/a3", A3, rows, pages_drawn(kept, found, context.path("a3")))


def quantity(found: Sequence[Mapping[str, Any]], name: str, what: str) -> list[float]:
    """Of each trace."""
    return [one["quantities"][f"http.{name}"][what] for one in found]


def files(found: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Table A-7."""
    means, medians = (quantity(found, "files_per_page", what) for what in ("mean", "median"))
    return [
        Row("files of a page, mean", "2.9", span(means), "5 %", judge(abs(np.mean(means) / 2.9 - 1) <= 0.05)),
        Row(
            "files of a page, median",
            "1",
            span(medians),
            "exact",
            judge(set(medians) == {1}),
            "2 in its data: 48.6 % of the pages are one file",
        ),
    ]


def near_one(found: Mapping[float, Sequence[Mapping[str, Any]]]) -> list[Row]:
    """The choice does not matter: means at half and at twice the threshold are much the same."""
    at = {t: np.mean(quantity(some, "files_per_page", "mean")) for t, some in found.items()}
    changes = {t: 100 * (at[t] / at[CHOSEN] - 1) for t in (0.1, 0.5, 2)}
    told = ", ".join(f"{change:+.1f} % at {t:g} s" for t, change in changes.items())
    most = max(map(abs, changes.values()))
    note = "downwards nothing changes: on this network a file follows the one before immediately"
    return [
        Row(
            "files of a page near 1 s",
            "very similar",
            told,
            "10 %",
            judge(most <= 10),
            note,
        )
    ]


def far(found: Mapping[float, Sequence[Mapping[str, Any]]]) -> list[Row]:
    """Longer thresholds join as many pages as there are shorter pauses."""
    rows = []
    think = found[CHOSEN]
    for t in THRESHOLDS:
        if t <= CHOSEN:
            continue
        # Each pause that is no longer makes one page of two.
        pages = np.mean([one["pages"] for one in found[t]])
        means = quantity(found[t], "files_per_page", "mean")
        share = below(t)
        whole_pages, pauses = (
            np.mean([one["pages"] for one in think]),
            np.mean(quantity(think, "think", "number")),
        )
        expected = whole_pages - share * pauses
        rows.append(
            Row(
                f"pages at {t:g} s",
                f"{whole(expected)}: {share:.1%} of the pauses are shorter",
                f"{whole(float(pages))}; {span(means)} files each",
                "2 %",
                judge(abs(pages / expected - 1) <= 0.02),
                "expected from the model",
            )
        )
    return rows


def below(seconds: float) -> float:
    """Share of the model's pauses that are no longer, from 3.1 of the specification."""
    knots = np.array([(0.0006, 1.005), (0.0965, 2.277), (0.2694, 5.677), (0.3665, 8.551), (0.4458, 12.025)])
    knots = np.vstack([knots, [(0.5948, 23.099), (0.6794, 35.812)]])
    return float(np.interp(seconds, knots[:, 1], knots[:, 0]))


def overlap(trace: Web) -> Row:
    """Several concurrent connections make no more pages."""
    (mine,) = quantity([trace.analysed()], "files_per_page", "mean")
    pages = trace.offered["apps"]["http"]["records"]["http.page"]
    found = trace.analysed()["pages"]
    expected = model("http.files_per_page")["mean"]
    return Row(
        f"{PARALLEL} concurrent connections",
        f"{expected:.3g} files of a page, {whole(pages)} pages",
        f"{mine:.3g} files, {whole(found)} pages",
        "5 %; 102 pages, cut by the end",
        judge(abs(mine / expected - 1) <= 0.05 and 0 <= found - pages <= 102),
        "overlapping connections are of one page",
    )


def pauses(found: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Table A-8."""
    rows = []
    note = "the longest pauses do not fit into a trace of 40 hours"
    for what, reported, off in (("median", 15, 0.1), ("mean", 1313, 0.25)):
        values = quantity(found, "think", what)
        near = abs(np.mean(values) / reported - 1)
        told = f"{span(values)} s"
        verdict = judge(near <= off)
        rows.append(
            Row(
                f"pause, {what}",
                f"{whole(reported)} s",
                told,
                f"{off:.0%}",
                verdict,
                note if off > 0.1 else "",
            )
        )
    most = quantity(found, "think", "max")
    rows.append(
        Row("pause, longest", "86 395 s", f"{span(most, whole)} s", "not above", judge(max(most) <= 86_395.5))
    )
    return rows


def pages_drawn(
    kept: Mapping[float, np.ndarray], found: Mapping[float, Sequence[Mapping[str, Any]]], path: Path
) -> str:
    """Figure A-4: distributions for each threshold; and their means."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.7))
    shades = plt.cm.viridis(np.linspace(0, 0.9, len(kept)))
    for shade, (t, values) in zip(shades, kept.items(), strict=True):
        steps = np.arange(1, len(values) + 1) / len(values)
        width = 2.4 if t == CHOSEN else 1
        left.step(values, steps, where="post", color=shade, lw=width, label=f"{t:g} s")
    left.set(xscale="log", xlabel="files of a page", ylabel="share of pages up to this", xlim=(1, 100))
    left.legend(title="threshold", fontsize=8)
    means = [quantity(some, "files_per_page", "mean") for some in found.values()]
    right.plot(
        list(found), [np.mean(one) for one in means], color=COLOURS[0], marker=MARKERS[0], ms=4, label="mean"
    )
    right.axhline(2.9, color=style.ACCENT, ls="--", lw=1, label="thesis, 1 s")
    right.set(xscale="log", xlabel="threshold (s)", ylabel="files of a page", ylim=(0, None))
    right.set_xticks(THRESHOLDS, [f"{t:g}" for t in THRESHOLDS])
    right.minorticks_off()
    right.legend()
    return style.save(figure, path)


A4 = "INSANE A-4: pages in a row from one server, and popular servers"
TOP_TEN = (43, 11, 8, 7, 6, 6, 6, 6, 5, 5)
"""Visits of table A-11, of 253 to 136 servers."""
CHI2_99 = 24.7
"""Of 11 degrees of freedom, the value that chance exceeds once in a hundred."""


@experiment("insane-workloads/a4", title=A4, paper=f"{PAPER}, tables A-9, A-11")
def a4(context: Context) -> Report:
    """Visits as the model has them, and as the analyser sees them."""
    traces = webs(context, "a4")
    found = [trace.analysed() for trace in traces]
    kept = [trace.samples()["consecutive_pages"] for trace in traces]
    ranks = [visits_by_rank(one) for one in found]
    rows = [*visits(found), apart(kept, traces), *popularity(found, ranks)]
    return Report("insane-workloads/a4", A4, rows, visits_drawn(kept, ranks, context.path("a4")))


def choices() -> np.ndarray:
    """Of each site its probabilities of the servers by rank: Zipf's, without its own two."""
    number = SITES * SERVERS
    weights = np.tile(1 / np.arange(1, number + 1), (SITES, 1))
    for site in range(SITES):
        weights[site, site::SITES] = 0
    return weights / weights.sum(axis=1, keepdims=True)


def again() -> float:
    """How often the next visit is to the server of the last: seen as one."""
    return float(np.mean((choices() ** 2).sum(axis=1)))


def visits(found: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Table A-9."""
    means, medians = (quantity(found, "consecutive_pages", what) for what in ("mean", "median"))
    most, number = (quantity(found, "consecutive_pages", what) for what in ("max", "number"))
    expected = lasting(found)
    mean = float(np.mean(means))
    return [
        Row(
            "pages of a visit, mean",
            "4.1 (4.3, 4.2, 4.4)",
            span(means),
            "0.2",
            judge(abs(mean - 4.1) <= 0.2),
            f"{again():.0%} of the visits begin at the server of the last",
        ),
        Row(
            "pages of a visit, mean, as a trace has to show it",
            f"{expected:.2f}",
            span(means),
            "5 %",
            judge(abs(mean / expected - 1) <= 0.05),
            "from the model: two visits in a row are one, and the end of the trace cuts one of each client",
        ),
        Row(
            "pages of a visit, median",
            "2 (3, 3, 2)",
            span(medians),
            "2 or 3",
            judge(all(2 <= one <= 3 for one in medians)),
        ),
        Row(
            "visits; longest",
            "253; 37",
            f"{span(number, whole)}; {span(most, whole)}",
            "none",
            "open",
            "visits in a row add up",
        ),
    ]


def lasting(found: Sequence[Mapping[str, Any]]) -> float:
    """Mean pages of a visit that a trace of the model shows.

    Visits to the server of the last add up, as many as geometrically distributed. At the end of the trace a
    client is within a visit, more likely a long one, and half of its other pages are still to come.
    """
    one, q = samples("http.consecutive_pages", 100_000), again()
    mean = one.mean() / (1 - q)
    square = one.var() / (1 - q) + one.mean() ** 2 * q / (1 - q) ** 2 + mean**2
    to_come = (square - mean) / (2 * mean)
    visits = np.mean(
        [some["quantities"]["http.consecutive_pages"]["number"] / some["clients"] for some in found]
    )
    return float(mean - to_come / visits)


def apart(kept: Sequence[np.ndarray], traces: Sequence[Web]) -> Row:
    """80 % of the visits have fewer than six pages."""
    shares = [np.mean(one < 6) for one in kept]
    distances = [
        fit("http.consecutive_pages", trace.connections.with_suffix("") / "consecutive_pages.csv")["fit"][
            "distance"
        ]
        for trace in traces
    ]
    return Row(
        "visits of fewer than six pages",
        "80 %",
        f"{span(shares, '{:.1%}'.format)}; D to the model {span(distances)}",
        "5 points",
        judge(abs(np.mean(shares) - 0.8) <= 0.05),
    )


def visits_by_rank(found: Mapping[str, Any]) -> np.ndarray:
    """Visits of the servers in the order of the model's ranks: dealt to the sites in turn."""
    there = {one["server"]: one["visits"] for one in found["popularity"]}
    hosts = sorted(int(name[1:]) for name in there)
    # Host numbers go site by site, ranks across the sites.
    by_site = np.array([there[f"h{host}"] for host in hosts])
    if len(hosts) != SITES * SERVERS:
        return np.array(sorted(by_site, reverse=True))
    return by_site.reshape(SITES, SERVERS).T.ravel()


def popularity(found: Sequence[Mapping[str, Any]], ranks: Sequence[np.ndarray]) -> list[Row]:
    """Zipf's law, as far as the sites keep it."""
    p = choices()
    expected = (p * (1 - p)).mean(axis=0)
    expected /= expected.sum()
    exponents = [-one["zipf"]["slope"] for one in found]
    line = -np.polyfit(np.log10(np.arange(1, len(expected) + 1)), np.log10(np.sort(expected)[::-1]), 1)[0]
    top = [100 * one[0] / one.sum() for one in ranks]
    told = ", ".join(map(str, TOP_TEN))
    mine = ", ".join(whole(253 * np.mean([one[n] / one.sum() for one in ranks])) for n in range(10))
    chi = [float(((one - one.sum() * expected) ** 2 / (one.sum() * expected)).sum()) for one in ranks]
    within = sum(one <= CHI2_99 for one in chi)
    return [
        Row(
            "visits by rank",
            "Zipf, without the servers of the own site",
            f"chi squared {span(chi)}, {within} of {len(chi)} seeds below {CHI2_99}",
            "99 % of chance, all seeds but one",
            judge(within >= len(chi) - 1),
            "expected from the model; a visit to the same server again is not seen",
        ),
        Row(
            "visits fall with the rank to the power of",
            f"{line:.2f}",
            span(exponents),
            "0.1",
            judge(abs(np.mean(exponents) - line) <= 0.1),
            "1 without sites; expected from the model",
        ),
        Row(
            "visits of the ten most popular servers, of 253",
            told,
            mine,
            "none",
            "open",
            f"12 servers instead of 136; the first has {span(top)} %",
        ),
    ]


def visits_drawn(kept: Sequence[np.ndarray], ranks: Sequence[np.ndarray], path: Path) -> str:
    """Lengths of visits, and visits by rank."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.7))
    for number, values in enumerate(kept):
        steps = np.arange(1, len(values) + 1) / len(values)
        label = f"{len(kept)} traces" if number == 0 else None
        left.step(values, steps, where="post", color=COLOURS[0], lw=0.8, label=label)
    left.plot(5, 0.8, "o", color=style.ACCENT, label="thesis: 80 % below six")
    left.set(xscale="log", xlabel="pages of a visit", ylabel="share of visits up to this")
    left.set_xticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
    left.minorticks_off()
    left.legend(loc="lower right")
    for number, visits in enumerate(ranks):
        label = f"{len(ranks)} traces" if number == 0 else None
        at = np.arange(1, len(visits) + 1)
        right.plot(at, visits / visits.sum(), "o", color=COLOURS[0], ms=3, label=label)
    p = choices()
    expected = (p * (1 - p)).mean(axis=0)
    at = np.arange(1, len(expected) + 1)
    right.plot(at, expected / expected.sum(), color=COLOURS[0], lw=1, label="model")
    right.plot(
        np.arange(1, 11), np.array(TOP_TEN) / 253, "s", color=style.ACCENT, ms=4, label="thesis, 136 servers"
    )
    right.set(xscale="log", yscale="log", xlabel="rank", ylabel="share of visits")
    right.set_xticks([1, 2, 5, 10], ["1", "2", "5", "10"])
    right.set_yticks([0.02, 0.05, 0.1, 0.2], ["2 %", "5 %", "10 %", "20 %"])
    right.minorticks_off()
    right.legend()
    return style.save(figure, path)
