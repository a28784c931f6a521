"""The table of all reported numbers as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from layercast_lab.experiment import VERDICT_TEXT, Row

SECTIONS = {
    "5.1": "Static priority",
    "5.2": "Guarantees, work-conserving",
    "5.3": "Guarantees with jitter control",
    "5.4": "Circuits per application or per conversation",
    "5.5": "Circuits per router",
    "5.6": "Circuits given back or kept",
    "5.7": "What keeping them is worth",
}
"""Of the specification, by the number that names of rows begin with."""


def markdown(conclusions: Sequence[Row], rows: Sequence[Row]) -> str:
    """Counts by section, the conclusions, and every row."""
    parts = [counts(rows), "### Ten conclusions\n", table(conclusions, ("", "stands on", "measured"))]
    for section, title in SECTIONS.items():
        there = [row for row in rows if section_of(row) == section]
        parts += [f"### {title}\n", table(there, ("", "reported", "measured"), section)]
    return "\n".join(parts)


def section_of(row: Row) -> str:
    """The number that the name of a row begins with."""
    return row.name.partition(" ")[0]


def counts(rows: Sequence[Row]) -> str:
    """How many rows of each section have which verdict."""
    lines = ["| | " + " | ".join(VERDICT_TEXT.values()) + " |", "|---" * (len(VERDICT_TEXT) + 1) + "|"]
    for section, title in (*SECTIONS.items(), ("", "all")):
        there = [row for row in rows if section in ("", section_of(row))]
        numbers = (str(sum(row.verdict == verdict for row in there)) for verdict in VERDICT_TEXT)
        lines.append(f"| {title} | {' | '.join(numbers)} |")
    return "\n".join(lines) + "\n"


def table(rows: Sequence[Row], head: Sequence[str], section: str = "") -> str:
    """Rows with their verdicts and notes."""
    lines = [f"| {' | '.join(head)} | verdict | |", "|---" * (len(head) + 2) + "|"]
    for row in rows:
        name = row.name.removeprefix(f"{section} ")
        cells = (name, row.reported, row.measured, VERDICT_TEXT[row.verdict], row.note)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
