"""Layercast from Python: run a scenario in the simulator and get NumPy arrays.

>>> import layercast
>>> result = layercast.run("scenarios/quickstart.toml")  # doctest: +SKIP
>>> result.receiver("wide").levels                       # doctest: +SKIP
"""

from layercast._layercast import LayercastError
from layercast.result import Receiver, Result, probe, run

__all__ = ["LayercastError", "Receiver", "Result", "probe", "run"]
