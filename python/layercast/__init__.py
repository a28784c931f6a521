"""Layercast from Python: live flows on asyncio, and the simulator with NumPy arrays.

>>> import layercast
>>> result = layercast.run("scenarios/quickstart.toml")  # doctest: +SKIP
>>> result.receiver("wide").levels                       # doctest: +SKIP
"""

try:
    from layercast._layercast import LayercastError
except ModuleNotFoundError as error:
    if error.name != "layercast._layercast":
        raise
    # Without this, the first module that needs the bindings reports a circular import.
    raise ImportError(
        f"{__path__[0]} lacks the compiled module _layercast: `make lab` builds it (10 minutes)",
        name=error.name,
    ) from error

from layercast import files
from layercast.live import (
    AdmissionError,
    BusyError,
    ClosedError,
    Control,
    Group,
    GroupControl,
    InvalidError,
    Layer,
    Management,
    Media,
    Member,
    NetworkError,
    NoFilterError,
    NotRegisteredError,
    Played,
    PolicyError,
    QosError,
    Server,
    Session,
    TimedOutError,
    Upcall,
    join,
)
from layercast.result import Receiver, Result, probe, run

__all__ = [
    "AdmissionError",
    "BusyError",
    "ClosedError",
    "Control",
    "Group",
    "GroupControl",
    "InvalidError",
    "Layer",
    "LayercastError",
    "Management",
    "Media",
    "Member",
    "NetworkError",
    "NoFilterError",
    "NotRegisteredError",
    "Played",
    "PolicyError",
    "QosError",
    "Receiver",
    "Result",
    "Server",
    "Session",
    "TimedOutError",
    "Upcall",
    "files",
    "join",
    "probe",
    "run",
]
