"""A static page of all reports made so far."""

from __future__ import annotations

import html
import json
import os
from pathlib import Path
from typing import Any

from layercast_lab.experiment import VERDICT_TEXT, Report, Verdict

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2939; background: #faf9f6; }
body { margin: 0 auto; padding: 1rem; max-width: 60rem; }
section { background: white; border: 1px solid #e5e1d8; border-radius: 6px; }
section { padding: 0 1.2rem 1rem; margin: 1.2rem 0; }
h2 { font-size: 1.15rem; }
code { background: #f1efe9; padding: .1em .3em; border-radius: 3px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .87rem; width: 100%; }
td, th { text-align: left; vertical-align: top; }
td, th { padding: .3rem .6rem .3rem 0; border-bottom: 1px solid #e5e1d8; }
img { max-width: 100%; }
.reproduced { color: #15803d; } .shape { color: #a16207; } .differs { color: #b91c1c; }
.open, .missing { color: #667085; }
"""
COLUMNS = ("name", "reported", "measured", "tolerance", "verdict", "note")


def add(out: Path, report: Report, command: str) -> Path:
    """Keeps the report in `out` and writes `out`/index.html with all that are kept there."""
    kept = out / f"{report.id}.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    figure = Path(os.path.relpath(report.figure, out)).as_posix() if report.figure else ""
    kept.write_text(json.dumps(report.to_json() | {"figure": figure, "command": command}, indent=2) + "\n")
    reports = [json.loads(path.read_text()) for path in sorted(out.glob("*/*.json"))]
    page = out / "index.html"
    page.write_text(render(reports))
    return page


def render(reports: list[dict[str, Any]]) -> str:
    """The page."""
    body = "".join(map(section, reports))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Layercast lab</title>
<style>{STYLE}</style>
</head>
<body>
<h1>Layercast lab</h1>
<p>What papers report beside what we measured. Verdicts are computed from the data of the run.</p>
{body}</body>
</html>
"""


def section(report: dict[str, Any]) -> str:
    """Title, verdict, command, figure and table of one report."""
    e = html.escape
    head = "".join(f"<th>{'' if column == 'name' else column}</th>" for column in COLUMNS)
    rows = ""
    for row in report["rows"]:
        rows += "<tr>" + "".join(cell(column, row[column]) for column in COLUMNS) + "</tr>\n"
    figure = f'<img src="{e(report["figure"])}" alt="{e(report["title"])}">' if report["figure"] else ""
    return f"""<section id="{e(report["id"])}">
<h2>{e(report["title"])}: {verdict(report["verdict"])}</h2>
<p><code>{e(report["command"])}</code></p>
{figure}
<div class="wide"><table>
<tr>{head}</tr>
{rows}</table></div>
</section>
"""


def cell(column: str, value: str) -> str:
    """One cell of a table."""
    return f"<td>{verdict(value) if column == 'verdict' else html.escape(value)}</td>"


def verdict(name: Verdict) -> str:
    """A verdict in its colour."""
    return f'<b class="{html.escape(name)}">{html.escape(VERDICT_TEXT[name])}</b>'
