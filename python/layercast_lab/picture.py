"""Studies of picture quality on ATM (crate `layercast-picture`), run from Python."""

from __future__ import annotations

import json
from typing import Any

from layercast import _layercast

CLASSES = "SIPB"
POLICIES = ("fifo", "clp", "exclp", "exclp_epd", "dependent", "whole_gops", "thresholds", "dedicated")
"""Policies of the shared buffer, from the one that knows least to the one that knows most, and two others."""


def ask(what: str, **question: Any) -> Any:
    """The answer of the crate to `run`, `losses` or `classes`; see crates/python/src/picture.rs."""
    return json.loads(_layercast.picture_json(json.dumps({"ask": what, **question})))


def letters(values: list[float], digits: int = 1) -> str:
    """Four values, one for each class."""
    return " ".join(f"{name} {value:.{digits}f}" for name, value in zip(CLASSES, values, strict=True))
