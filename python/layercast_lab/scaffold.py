"""The beginning of somebody's own experiment: `layercast-lab new`."""

from __future__ import annotations

import re
from pathlib import Path

SCENARIO = """\
# Two senders, one of them far away, share a line of 10 Mbit/s.
# All keys: docs/src/reference/simulator.md.
schema = "internet/1"
name = "{name}"

[run]
duration = "12s"
warm_up = "2s"

[[host]]
name = "near"

[[host]]
name = "far"

[[host]]
name = "sink"

[[router]]
name = "r"

[[link]]
ends = ["near", "r"]
rate = "100 Mbit/s"
delay = "1ms"

[[link]]
ends = ["far", "r"]
rate = "100 Mbit/s"
delay = "40ms"

[[link]]
ends = ["r", "sink"]
rate = "10 Mbit/s"
delay = "5ms"
queue = "50 packets"

[[flow]]
from = "near"
to = "sink"

[[flow]]
from = "far"
to = "sink"
"""

CAMPAIGN = """\
# How much of the line does the far sender get, and does a longer queue help it?
#   layercast-lab campaign {name}/campaign.toml --dry-run     what would be run
#   layercast-lab campaign {name}/campaign.toml               run it, or what of it is missing
scenario = "scenario.toml"
seeds = "1..5"

# An axis is a field of the scenario and the values to put there; all combinations are run.
[grid]
"link[2].queue" = ["10 packets", "20 packets", "50 packets", "100 packets"]
"tcp.default.variant" = ["reno", "cubic"]

# What is looked at in each run: PART/NAME/FIGURE, as in docs/src/how-to/campaigns.md; * is anything.
[collect]
far = {{ of = "flows/far->sink/goodput_bps", per = "flows/near->sink/goodput_bps" }}
wait = "queues/r->sink/mean_wait"

# plot.png and plot.svg in the folder of results.
[plot]
x = "link[2].queue"
y = ["far", "wait"]
by = "tcp.default.variant"
log = true
"""

ANALYSIS = '''\
"""What the campaign beside this file found: which difference is more than chance?

Run it after `layercast-lab campaign {name}/campaign.toml`: python {name}/analysis.py
"""

from pathlib import Path

from layercast_lab import description
from layercast_lab.compare import compare

campaign = description.read(Path(__file__).with_name("campaign.toml")).campaign
frame = campaign.frame()
found = compare(frame, "tcp.default.variant", base="reno", confidence=0.9)
print(found.select("link[2].queue", "metric", "new", "percent", "low", "high", "significant", "q"))
'''

FILES = {"scenario.toml": SCENARIO, "campaign.toml": CAMPAIGN, "analysis.py": ANALYSIS}


def new(folder: Path) -> list[Path]:
    """Makes a folder with a scenario, a campaign and an analysis that run as they are; the files.

    Raises ValueError for a name that no scenario may have, FileExistsError if there is something already.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", folder.name):
        raise ValueError(f"{folder.name!r} is no name: take letters, digits, - and _")
    folder.mkdir(parents=True)
    made = []
    for name, text in FILES.items():
        path = folder / name
        path.write_text(text.format(name=folder.name))
        made.append(path)
    return made
