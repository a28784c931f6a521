"""A static page of all reports made so far, by paper."""

from __future__ import annotations

import html
import inspect
import json
import os
import re
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

from layercast_lab.experiment import VERDICT_TEXT, Experiment, Report, Verdict

MAH = "B. A. Mah, Quality of Service and ATM in IP Internetworks, 1996"
PAPERS = {
    "mets": "A. Campbell, G. Coulson, QoS Adaptive Transports, IEEE Network 1997; PfHSN 1996 chapter 14",
    "insane-study": f"{MAH}: the study",
    "insane-modern": f"{MAH}: the study today",
    "insane-simulator": f"{MAH}: the simulator",
    "insane-workloads": f"{MAH}: the workloads",
    "vbr-atm-lan": "O. Bonaventure, E. Klovning, A. Danthine, Is VBR a solution for an ATM LAN?, PfHSN 1996",
    "tcp-xtp-over-atm": "M. Ajmone Marsan et al., TCP and XTP File Transfers in ATM Networks, PfHSN 1996",
    "packet-level-fec": "C. Huitema, The case for packet level FEC, PfHSN 1996",
    "where-to-use-fec": "J. Nonnenmacher, E. Biersack, Where to use FEC in a multicast tree, PfHSN 1996",
    "xtp": "Porting SandiaXTP to the ORL ATM environment, about 1995",
    "tcp": "Beside ns-2 and ns-3",
    "sim": "Without a paper: the internetwork simulator",
}
"""What to call the experiments whose ids begin so; in the order of the page."""
ROOT = Path(__file__).resolve().parents[2]

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2939; background: #faf9f6; }
body { margin: 0 auto; padding: 1rem; max-width: 60rem; }
section { background: white; border: 1px solid #e5e1d8; border-radius: 6px; }
section { padding: 0 1.2rem 1rem; margin: 1.2rem 0; }
h2 { font-size: 1.15rem; } h3 { font-size: 1.05rem; }
code { background: #f1efe9; padding: .1em .3em; border-radius: 3px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .87rem; width: 100%; }
td, th { text-align: left; vertical-align: top; }
td, th { padding: .3rem .6rem .3rem 0; border-bottom: 1px solid #e5e1d8; }
td.number, th.number { text-align: right; }
nav { font-size: .87rem; }
nav td:first-child, nav td:last-child { white-space: nowrap; }
dl { display: grid; grid-template-columns: max-content auto; gap: .1rem .8rem; margin: .6rem 0; }
dt { color: #667085; } dd { margin: 0; overflow-wrap: anywhere; }
h1 + p { max-width: 45rem; }
img { max-width: 100%; }
.reproduced { color: #15803d; } .shape { color: #a16207; } .differs { color: #b91c1c; }
.arithmetic, .open, .missing { color: #667085; }
"""
COLUMNS = ("name", "reported", "measured", "tolerance", "verdict", "note")


def add(out: Path, report: Report, made: Experiment, command: str) -> Path:
    """Keeps the report in `out` and writes `out`/index.html with all that are kept there."""
    kept = out / f"{report.id}.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    told = {
        "figure": relative(report.figure, out),
        "scenario": place_of(report.scenario, out),
        "command": command,
        "paper": made.paper,
        "source": place_of(inspect.getfile(made.run), out),
    }
    kept.write_text(json.dumps(report.to_json() | told, indent=2) + "\n")
    reports = [json.loads(path.read_text()) for path in out.glob("*/*.json")]
    page = out / "index.html"
    page.write_text(render(reports))
    return page


def relative(path: str, out: Path) -> str:
    """A path from where the page is."""
    return Path(os.path.relpath(path, out)).as_posix() if path else ""


def place_of(path: str, out: Path) -> str:
    """A file of this source tree by its place there, one that an experiment made from where the page is."""
    found = Path(path).resolve()
    if path and found.is_relative_to(ROOT) and not found.is_relative_to(out.resolve()):
        return found.relative_to(ROOT).as_posix()
    return relative(path, out)


def group(report: dict[str, Any]) -> str:
    """What the id of a report begins with."""
    return report["id"].partition("/")[0]


def render(reports: list[dict[str, Any]]) -> str:
    """The page."""
    places = list(PAPERS)

    def place(report: dict[str, Any]) -> tuple[int, str, list[Any]]:
        name = group(report)
        # e10 after e9.
        parts = [int(part) if part.isdigit() else part for part in split(report["id"])]
        return places.index(name) if name in PAPERS else len(places), name, parts

    groups = [(name, list(some)) for name, some in groupby(sorted(reports, key=place), group)]
    index = "".join(table_of(name, some) for name, some in groups)
    body = "".join(f"<h2>{title(name)}</h2>\n" + "".join(map(section, some)) for name, some in groups)
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
<p>What papers report beside what we measured. Verdicts are computed from the data of the run; that of an
experiment is its weakest row. Each section has the command that makes it again.</p>
<nav>
{index}</nav>
{body}</body>
</html>
"""


def split(id: str) -> list[str]:
    """An id in texts and numbers, in turn."""
    return re.split(r"(\d+)", id)


def title(name: str) -> str:
    """Of a group of experiments."""
    return html.escape(PAPERS.get(name, name))


def table_of(name: str, reports: list[dict[str, Any]]) -> str:
    """The index of one paper: what each experiment shows, and how many rows have which verdict."""
    e = html.escape
    head = "".join(f'<th class="number">{text}</th>' for text in VERDICT_TEXT.values())
    rows = ""
    for report in reports:
        counts = Counter(row["verdict"] for row in report["rows"])
        numbers = "".join(f'<td class="number">{counts[kind] or ""}</td>' for kind in VERDICT_TEXT)
        link = f'<a href="#{e(report["id"])}">{e(report["id"])}</a>'
        rows += f"<tr><td>{link}</td><td>{e(report['title'])}</td>{numbers}"
        rows += f"<td>{verdict(report['verdict'])}</td></tr>\n"
    return f"""<section>
<h2>{title(name)}</h2>
<div class="wide"><table>
<tr><th></th><th></th>{head}<th>verdict</th></tr>
{rows}</table></div>
</section>
"""


def section(report: dict[str, Any]) -> str:
    """Title, verdict, where it is from, command, figure and table of one report."""
    e = html.escape
    head = "".join(f"<th>{'' if column == 'name' else column}</th>" for column in COLUMNS)
    rows = ""
    for row in report["rows"]:
        rows += "<tr>" + "".join(cell(column, row[column]) for column in COLUMNS) + "</tr>\n"
    figure = f'<img src="{e(report["figure"])}" alt="{e(report["title"])}">' if report["figure"] else ""
    # Reports that were kept by an earlier version have less.
    facts = {
        "from": e(report.get("paper", "")),
        "command": f"<code>{e(report['command'])}</code>",
        "scenario": code(f"layercast sim {report['scenario']}" if report.get("scenario") else ""),
        "source": code(report.get("source", "")),
    }
    told = "".join(f"<dt>{name}</dt><dd>{fact}</dd>\n" for name, fact in facts.items() if fact)
    return f"""<section id="{e(report["id"])}">
<h3>{e(report["title"])}: {verdict(report["verdict"])}</h3>
<dl>
{told}</dl>
{figure}
<div class="wide"><table>
<tr>{head}</tr>
{rows}</table></div>
</section>
"""


def code(text: str) -> str:
    """As something to type, if it is there."""
    return f"<code>{html.escape(text)}</code>" if text else ""


def cell(column: str, value: str) -> str:
    """One cell of a table."""
    return f"<td>{verdict(value) if column == 'verdict' else html.escape(value)}</td>"


def verdict(name: Verdict) -> str:
    """A verdict in its colour."""
    return f'<b class="{html.escape(name)}">{html.escape(VERDICT_TEXT[name])}</b>'
