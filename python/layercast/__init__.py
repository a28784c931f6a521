"""Layercast from Python: live flows on asyncio, and the simulator with NumPy arrays.

>>> import layercast
>>> result = layercast.run("scenarios/quickstart.toml")  # doctest: +SKIP
>>> result.receiver("wide").levels                       # doctest: +SKIP
"""

from layercast import files
from layercast._layercast import LayercastError
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
