"""Points of a campaign beside each other, along one axis at a time."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import polars as pl

from layercast_lab.analysis import Level, attainable, exact, false_discovery, p_value, separated, shift

NOT_AXES = {"seed", "metric", "value", "unit"}


def compare(frame: pl.DataFrame, axis: str, base: Any, confidence: Level = Fraction(9, 10)) -> pl.DataFrame:
    """Each value of an axis beside `base`, everything else being the same, for each metric.

    `frame` is that of a campaign (axes, seed, metric, value, unit). A row has, beside the other axes and the
    metric, `base` and `new`; `n_base` and `n_new` runs; `change` of the mean, also in `percent` of the
    base; `shift` with the interval `low` to `high` and whether it is `significant` (`analysis.shift`: null
    where the runs are too few for the confidence); `separated` (`analysis.separated`); the probability `p`
    and, over all rows, Benjamini and Hochberg's `q`, which are apart from what is significant.
    """
    if base not in frame[axis]:
        raise ValueError(
            f"{axis} has no {base!r}; there are {frame[axis].unique(maintain_order=True).to_list()}"
        )
    others = [name for name in frame.columns if name not in NOT_AXES and name != axis]
    rows = list(pairs(frame, axis, base, others, exact(confidence)))
    schema = {name: frame.schema[name] for name in [*others, "metric", "unit"]}
    schema |= {"base": frame.schema[axis], "new": frame.schema[axis], "n_base": pl.Int64, "n_new": pl.Int64}
    schema |= dict.fromkeys(("change", "percent", "shift", "low", "high"), pl.Float64)
    schema |= {"significant": pl.Boolean, "separated": pl.Int64, "p": pl.Float64}
    q = pl.Series("q", false_discovery([row["p"] for row in rows]), dtype=pl.Float64)
    return pl.DataFrame(rows, schema=schema).with_columns(q)


def pairs(
    frame: pl.DataFrame, axis: str, base: Any, others: list[str], confidence: Fraction
) -> Iterator[dict[str, Any]]:
    """The rows of `compare`, without q."""
    alike = frame.filter(pl.col("value").is_not_null()).group_by(
        [*others, "metric", "unit"], maintain_order=True
    )
    for labels, group in alike:
        values = {key: part["value"].to_list() for (key,), part in group.group_by(axis, maintain_order=True)}
        if base not in values:
            continue
        old = values.pop(base)
        for key, new in values.items():
            before, after = sum(old) / len(old), sum(new) / len(new)
            found = shift(old, new, confidence) if attainable(len(old), len(new)) >= confidence else None
            yield {
                **dict(zip([*others, "metric", "unit"], labels, strict=True)),
                "base": base,
                "new": key,
                "n_base": len(old),
                "n_new": len(new),
                "change": after - before,
                "percent": 100 * (after - before) / before if before else None,
                "shift": found and found.estimate,
                "low": found and found.low,
                "high": found and found.high,
                "significant": found and found.significant,
                "separated": separated(old, new),
                "p": float(p_value(old, new)),
            }
