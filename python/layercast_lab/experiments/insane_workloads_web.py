"""INSANE A-1 and A-2: the model of the Web out of traces of its own (specs/insane-workloads.md 4, 5.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from layercast_lab import style
from layercast_lab.experiment import Context, Report, Row, experiment, judge
from layercast_lab.insane.workloads import PAPER, SITES, SPAN_S, WORKSTATIONS, Web, fit, span, webs, whole
from layercast_lab.plots import COLOURS
from layercast_lab.style import plt

TRACES = {
    "19 Sep": (142_849, 5030, 1678, 253, (2.9, 4.1)),
    "11 Oct": (102_083, 5699, 1995, 306, (2.8, 4.3)),
    "1 Nov": (84_625, 3659, 1092, 171, (3.2, 4.2)),
    "20 Nov": (497_681, 18_034, 5692, 873, (3.1, 4.4)),
}
"""Seconds, requests, pauses, visits, and means of files and visits: tables A-1, A-4 and A-7 to A-9."""
A1 = "INSANE A-1: traces of the Web, from connections to pages"


@experiment("insane-workloads/a1", title=A1, paper=f"{PAPER}, tables A-1, A-2")
def a1(context: Context) -> Report:
    """Whether the analyser finds the pages that the browsers fetched."""
    traces = webs(context, "a1")
    found = [trace.analysed() for trace in traces]
    path = counts_drawn(found, context.path("a1"))
    rows = [size(found, whole_length=context.seconds is None), *pipeline(traces, found), *scale(found)]
    return Report("insane-workloads/a1", A1, rows, path)


def size(found: Sequence[Mapping[str, Any]], whole_length: bool) -> Row:
    """As many clients for as long."""
    clients, seconds = [one["clients"] for one in found], [one["seconds"] for one in found]
    told = f"{span(clients, whole)} clients, {span(seconds, whole)} s"
    near = all(abs(one / SPAN_S - 1) < 0.01 for one in seconds)
    same = near and set(clients) == {SITES * WORKSTATIONS}
    verdict = judge(same) if whole_length else "open"
    return Row(
        "19 Sep: monitored workstations",
        f"about 100 workstations, {whole(SPAN_S)} s",
        told,
        "102, 1 %",
        verdict,
    )


def pipeline(traces: Sequence[Web], found: Sequence[Mapping[str, Any]]) -> list[Row]:
    """What the browsers counted beside what was found in their connections."""
    rows = []
    for name, record in (("pages", "http.page"), ("files", "http.item")):
        fetched = [trace.offered["apps"]["http"]["records"][record] for trace in traces]
        seen = [one["pages"] if name == "pages" else one["connections"]["kept"] for one in found]
        # Of a page that the end cuts the browser says nothing; its files that came are in the trace.
        off = [there - counted for there, counted in zip(seen, fetched, strict=True)]
        most = SITES * WORKSTATIONS if name == "pages" else 0
        rows.append(
            Row(
                f"{name} found in the connections",
                f"those that browsers fetched: {span(fetched, whole)}",
                f"{span(seen, whole)}; {min(off)} to {max(off)} more",
                f"0 to {most} more, cut by the end" if most else "exact",
                judge(all(0 <= one <= most for one in off)),
            )
        )
    mixed = sum(one["mixed_pages"] for one in found)
    rows.append(
        Row(
            "pages with files of several servers", "none in the model", str(mixed), "exact", judge(mixed == 0)
        )
    )
    return rows


def scale(found: Sequence[Mapping[str, Any]]) -> list[Row]:
    """How large traces are beside those of the thesis."""
    rows = []
    for name, (seconds, requests, pauses, visits, _) in TRACES.items():
        told = f"{whole(seconds)} s: {whole(requests)} transfers, {whole(pauses)} pauses, {visits} visits"
        ours = [
            np.mean([one["quantities"][f"http.{what}"]["number"] / one["seconds"] for one in found])
            for what in ("request", "think", "consecutive_pages")
        ]
        measured = "; ".join(whole(rate * seconds) for rate in ours)
        note = "ours in as many seconds: browsers of the model never close"
        rows.append(Row(f"{name}: size", told, measured, "none", "open", note))
    return rows


def counts_drawn(found: Sequence[Mapping[str, Any]], path: Path) -> str:
    """Files of a page and pages of a visit, which do not depend on how long and how many were listened to."""
    figure, axis = plt.subplots(figsize=(6.4, 3.3))
    quantities = ("http.files_per_page", "http.consecutive_pages")
    for number, (name, (*_, means)) in enumerate(TRACES.items()):
        places = np.arange(2) + 0.16 * (number - 2)
        axis.bar(places, means, 0.15, label=name, color=COLOURS[0], alpha=1 - 0.2 * number)
    for place, name in enumerate(quantities):
        means = [one["quantities"][name]["mean"] for one in found]
        label = f"ours, {len(means)} seeds" if place == 0 else None
        axis.plot([place + 0.32] * len(means), means, "o", color=style.ACCENT, ms=4, label=label)
    axis.set_xticks([0, 1], ["files of a page", "pages of a visit"])
    axis.set_ylabel("mean")
    axis.legend(ncols=5, loc="lower center", bbox_to_anchor=(0.5, 1), fontsize=8)
    axis.grid(axis="x", visible=False)
    return style.save(figure, path)


A2 = "INSANE A-2: requests and replies"
LENGTHS = {"request": (5030, 10, 1825, 356, 231), "reply": (5030, 62, 8_146_976, 10_664, 2035)}
"""Number, least, most, mean and median of 19 September, tables A-4 and A-5."""
ALPHAS = {"19 Sep": (1.05, 0.98), "11 Oct": (1.04, 0.99), "1 Nov": (1.09, 0.97), "20 Nov": (1.14, 0.98)}
"""Exponent and R2 of table A-6."""


@experiment("insane-workloads/a2", title=A2, paper=f"{PAPER}, tables A-4 to A-6, figures A-1, A-2")
def a2(context: Context) -> Report:
    """Round trip: model, connections, samples, and the model again."""
    traces = webs(context, "a2")
    found = [trace.analysed() for trace in traces]
    kept = [trace.samples() for trace in traces]
    rows = [row for name in LENGTHS for row in lengths(name, found)]
    rows += [agreement(name, traces) for name in LENGTHS]
    rows += [tail(found), bimodal([one["request"] for one in kept])]
    return Report("insane-workloads/a2", A2, rows, lengths_drawn(kept, found, context.path("a2")))


def lengths(name: str, found: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The columns of tables A-4 and A-5."""
    _, least, most, mean, median = LENGTHS[name]
    of = [one["quantities"][f"http.{name}"] for one in found]
    rows = []
    # The mean of replies hangs on the few largest: an eighth of the bytes is in one file of a thousand.
    for what, reported, off in (
        ("mean", mean, 0.05 if name == "request" else 0.25),
        ("median", median, 0.05),
    ):
        values = [one[what] for one in of]
        near = abs(np.mean(values) / reported - 1)
        rows.append(
            Row(
                f"{name} {what}",
                f"{whole(reported)} B",
                f"{span(values, whole)} B",
                f"{off:.0%}",
                judge(near <= off),
            )
        )
    low, high = [one["min"] for one in of], [one["max"] for one in of]
    rows.append(
        Row(
            f"{name} least; most",
            f"{least}; {whole(most)} B",
            f"{span(low, whole)}; {span(high, whole)} B",
            "most not above",
            judge(max(high) <= most),
            "what the model has as 0 bytes is sent as 1" if name == "request" else "",
        )
    )
    return rows


def agreement(name: str, traces: Sequence[Web]) -> Row:
    """Kolmogorov and Smirnov of the samples that were found beside the model they were drawn from."""
    fits = [fit(f"http.{name}", trace.connections.with_suffix("") / f"{name}.csv")["fit"] for trace in traces]
    values = [one["p_value"] for one in fits]
    # Of many seeds one in a hundred falls below by chance: the least is held against its own chance.
    level = 1 - 0.99 ** (1 / len(values))
    distances = span([one["distance"] for one in fits], "{:.4f}".format)
    told = f"D {distances}, p {min(values):.3f} to {max(values):.3f}"
    return Row(
        f"{name}: the model comes back",
        "same distribution",
        told,
        f"p >= {level:.4f}",
        judge(min(values) >= level),
    )


def tail(found: Sequence[Mapping[str, Any]]) -> Row:
    """Table A-6."""
    alphas, fits = ([one["reply_tail"][what] for one in found] for what in ("alpha", "r2"))
    thesis = [alpha for alpha, _ in ALPHAS.values()]
    low, high = min(thesis), max(thesis)
    reported = "; ".join(f"{alpha:.2f}" for alpha in thesis)
    told = f"{span(alphas, '{:.3f}'.format)}; R2 {span(fits, '{:.3f}'.format)}"
    inside = low - 0.05 <= np.mean(alphas) <= high + 0.05
    fitted = "; R2 0.97 to 0.99"
    return Row(
        "replies above 1 KB: Pareto's alpha",
        reported + fitted,
        told,
        "range of the four, 0.05",
        judge(inside),
    )


def bimodal(requests: Sequence[np.ndarray]) -> Row:
    """Where the two heaps of requests are."""
    all = np.concatenate(requests)
    counts, edges = np.histogram(all, bins=np.arange(0, 1850, 50))
    middle = (edges[:-1] + edges[1:]) / 2
    split = middle < 600
    first, second = (middle[mask][np.argmax(counts[mask])] for mask in (split, ~split))
    between = counts[(middle > 400) & (middle < 900)].max()
    second_count = counts[~split].max()
    there = abs(first - 250) <= 50 and abs(second - 1050) <= 100 and between < second_count / 2
    told = f"heaps at {first:.0f} and {second:.0f} B, at most {between / len(all):.2%} in 50 B between"
    return Row("requests have two heaps", "about 250 B and 1 KB", told, "50 and 100 B", judge(there))


def lengths_drawn(
    kept: Sequence[Mapping[str, np.ndarray]], found: Sequence[Mapping[str, Any]], path: Path
) -> str:
    """Requests as a distribution, replies as the logarithm of what is beyond."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.7))
    for number, one in enumerate(kept):
        label = f"{len(kept)} traces" if number == 0 else None
        values = one["request"]
        left.step(values, np.arange(1, len(values) + 1) / len(values), color=COLOURS[0], lw=0.8, label=label)
        values = one["reply"][one["reply"] > 100]
        beyond = 1 - np.arange(len(one["reply"]) - len(values), len(one["reply"])) / len(one["reply"])
        right.plot(values, beyond, color=COLOURS[0], lw=0.8, label=label)
    left.plot(LENGTHS["request"][4], 0.5, "o", color=style.ACCENT, label="median of the thesis")
    left.set(xlabel="request (bytes)", ylabel="share of requests up to this", xlim=(0, 1900))
    alpha = ALPHAS["19 Sep"][0]
    x = np.array([1024, 8.1e6])
    # Through the share of our replies that is beyond 1 KB.
    start = np.mean([np.mean(one["reply"] > 1024) for one in kept])
    right.plot(
        x, start * (x / 1024) ** -alpha, "--", color=style.ACCENT, label=f"slope of the thesis, -{alpha}"
    )
    right.set(xscale="log", yscale="log", xlabel="reply (bytes)", ylabel="share of replies beyond this")
    right.set_ylim(bottom=1e-5)
    for axis in (left, right):
        axis.legend(loc="lower right" if axis is left else "lower left")
    return style.save(figure, path)
