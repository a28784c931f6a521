"""Tables for people and for pipes."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text


def put(console: Console, table: Table) -> None:
    """Print a table: drawn on a terminal; lines of cells between tabs, the heads first, in a pipe."""
    if console.is_terminal:
        console.print(table)
        return
    heads = [column.header for column in table.columns]
    for row in [heads, *zip(*(column.cells for column in table.columns), strict=True)]:
        print(*(" ".join(Text.from_markup(str(cell)).plain.split()) for cell in row), sep="\t")
