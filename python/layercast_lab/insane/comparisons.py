"""Every policy beside its neighbour along each axis, with the number expected by chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from layercast_lab.compare import compare
from layercast_lab.insane.policies import parts
from layercast_lab.insane.study import AXIS, USERS

if TYPE_CHECKING:
    import polars as pl

BASES = {"qos": "noqos", "mux": "conv", "vc": "svc"}
"""The value of each axis that the others are beside."""


def comparisons(frame: pl.DataFrame) -> pl.DataFrame:
    """`compare` of a campaign's frame along each axis, for the metrics of users.

    `axis` says which; `q` is over all comparisons along it.
    """
    import polars as pl

    if frame.is_empty():
        # Its columns have no types either.
        return pl.DataFrame(schema={"axis": pl.String})
    users = frame.filter(pl.col("metric").is_in(list(USERS)))
    split = [parts(policy) for policy in users[AXIS]]
    labelled = users.select("seed", "metric", "value", "unit").with_columns(
        pl.Series(name, [found[place] for found in split], dtype=pl.String)
        for place, name in enumerate(BASES)
    )
    found = []
    for axis, base in BASES.items():
        if base in labelled[axis]:
            table = compare(labelled, axis, base)
            others = [pl.lit(None, pl.String).alias(name) if name == axis else pl.col(name) for name in BASES]
            found.append(table.select(pl.lit(axis).alias("axis"), *others, pl.exclude(*BASES)))
    return pl.concat(found) if found else pl.DataFrame(schema={"axis": pl.String})
