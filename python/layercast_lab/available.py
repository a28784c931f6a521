"""Synchronous trains through one link (crate `layercast-sync-index`), run from Python."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from layercast import _layercast
from layercast_lab.experiment import Context
from layercast_lab.simulator import run_all

PERIOD_MS = 10.0
PAPER = {"m": 10, "n": 30, "eps": 0.3, "mode": "tumbling", "filter": "paper"}
"""The analysis of the paper: contiguous windows, lags between successive arrivals."""
NV = {"kind": "nv", "start_s": 0.0, "bps": 384e3, "fps": 10.0, "sigma": 0.3, "bytes": 1_000}
MINUTE = 6_010
"""Probes of a minute, whose last block is complete."""


def ask(what: str, **question: Any) -> Any:
    """The answer of the crate to `run`, `selfsim` or `calibrate`; see crates/python/src/sync_index.rs."""
    return json.loads(_layercast.sync_index_json(json.dumps({"ask": what, **question})))


def ftp(burst: int = 4, *, start_s: float = 0.0, size: int = 1_500) -> dict[str, Any]:
    """A TCP bulk flow whose receiver acknowledges `burst` segments by one packet, half of its window."""
    return {"kind": "ftp", "start_s": start_s, "bytes": size, "burst": burst, "window": 2 * burst}


def office(load: float) -> dict[str, Any]:
    """Twenty sources with Pareto-distributed times on and off."""
    shape = {"count": 20, "alpha": 1.6, "on_s": 0.2, "peak_bps": 256e3, "bytes": 576}
    return {"kind": "office", **shape, "load": load}


def poisson(load: float) -> dict[str, Any]:
    """Packets of 700 bytes at random instants."""
    return {"kind": "poisson", "bytes": 700, "load": load}


def run(
    context: Context,
    what: str,
    sources: Sequence[list[dict[str, Any]]],
    *,
    probes: int = MINUTE,
    analyses: Sequence[dict[str, Any]] = (PAPER,),
    seeds: int = 5,
) -> list[list[dict[str, Any]]]:
    """The runs of each set of sources beside a train, one for each seed."""
    if context.seconds:
        probes = min(probes, round(100 * context.seconds))
    numbers = context.seed_range(seeds)

    def one(beside: list[dict[str, Any]]) -> list[dict[str, Any]]:
        settings = [{"seed": seed, "probes": probes, "sources": beside} for seed in numbers]
        return ask("run", settings=settings, analyses=list(analyses))

    return run_all(context, what, one, list(sources))


def xis(found: dict[str, Any], analysis: int = 0) -> np.ndarray:
    """The index of each block in milliseconds; NaN where there is none."""
    outcomes = found["analyses"][analysis]["outcomes"]
    return np.array([it.get("xi_ms", np.nan) for it in outcomes])


def xi(found: Sequence[dict[str, Any]], analysis: int = 0) -> float:
    """Mean index of all blocks of all seeds."""
    return float(np.nanmean(np.concatenate([xis(one, analysis) for one in found])))


def lags(found: dict[str, Any], analysis: int = 0) -> np.ndarray:
    """Slots and lags of a run."""
    return np.array(found["analyses"][analysis]["lags"])


def windows(found: dict[str, Any], key: str, analysis: int = 0) -> np.ndarray:
    """A value of each window."""
    return np.array([it[key] for it in found["analyses"][analysis]["windows"]], dtype=float)


def fractional_noise(hurst: float, count: int, seed: int) -> np.ndarray:
    """Fractional Gaussian noise by circulant embedding (Davies and Harte 1987): exact."""
    k = np.arange(count + 1, dtype=float)
    rho = 0.5 * ((k + 1) ** (2 * hurst) - 2 * k ** (2 * hurst) + np.abs(k - 1) ** (2 * hurst))
    eigenvalues = np.fft.fft(np.concatenate([rho, rho[-2:0:-1]])).real.clip(0)
    random = np.random.default_rng(seed)
    size = len(eigenvalues)
    noise = random.normal(size=size) + 1j * random.normal(size=size)
    return np.fft.fft(np.sqrt(eigenvalues / size) * noise).real[:count]
