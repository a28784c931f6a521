"""Checks of arguments: each error names the parameter, the value and what is possible."""

from __future__ import annotations

import ipaddress
from numbers import Integral, Real

LONGEST = 10_000_000
"""The longest time in seconds, 115 days: the library counts picoseconds in 64 bits."""


def within(
    name: str, value: float, least: float, most: float, *, unit: str = "", error: type[Exception] = ValueError
) -> float:
    """A number from `least` to `most`; raises `error`."""
    if not isinstance(value, Real) or not least <= value <= most:
        unit = unit and f" {unit}"
        raise error(f"{name} is {value!r}: give a number from {least:g} to {most:g}{unit}")
    return float(value)


def above_zero(
    name: str, value: float, most: float, *, unit: str = "", error: type[Exception] = ValueError
) -> float:
    """A number above 0, at most `most`; raises `error`."""
    if not isinstance(value, Real) or not 0 < value <= most:
        unit = unit and f" {unit}"
        raise error(f"{name} is {value!r}: give a number above 0, at most {most:g}{unit}")
    return float(value)


def whole(name: str, value: int, least: int, most: int, *, error: type[Exception] = ValueError) -> int:
    """A whole number from `least` to `most`; raises `error`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or not least <= value <= most:
        raise error(f"{name} is {value!r}: give a whole number from {least} to {most}")
    return int(value)


def flag(name: str, value: bool) -> bool:
    """True or False; raises ValueError."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}: give True or False")
    return value


def text(name: str, value: str, what: str) -> str:
    """A text; raises TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}: give {what} as a str")
    return value


def interface(name: str, value: str) -> str:
    """The IPv4 address of an interface; raises ValueError."""
    try:
        return str(ipaddress.IPv4Address(value if isinstance(value, str) else ""))
    except ValueError:
        raise ValueError(
            f"{name} is {value!r}: give the IPv4 address of an interface, such as 192.0.2.7, "
            "or 0.0.0.0 for the choice of the system"
        ) from None


def _parts(text: str) -> tuple[str, str]:
    """Host and port; the port is empty if none is given."""
    if text.startswith("["):
        host, closes, port = text[1:].partition("]")
        if not closes or (port and not (port.startswith(":") and len(port) > 1)) or ":" not in host:
            raise ValueError
        return host, port[1:]
    if text.count(":") == 1:
        host, _, port = text.partition(":")
        if not port:
            raise ValueError
        return host, port
    return text, ""


def _socket(text: str, default: int) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]:
    host, port = _parts(text)
    if port and not (port.isascii() and port.isdigit()):
        raise ValueError
    found = ipaddress.ip_address(host)
    number = int(port) if port else default
    scope = getattr(found, "scope_id", None)
    if number > 65_535 or (scope is not None and not scope.isdigit()):
        raise ValueError
    return found, number


def address(name: str, value: str, default: int, *, is_remote: bool) -> str:
    """An IP address with a port, `default` if none is given; raises ValueError.

    A remote one is no multicast group and its port is not 0.
    """
    try:
        host, port = _socket(value if isinstance(value, str) else "", default)
    except ValueError:
        raise ValueError(
            f"{name} is {value!r}: give an IP address, with or without a port from "
            f"{int(is_remote)} to 65535, such as 192.0.2.7:7600 or [2001:db8::7]:7600"
        ) from None
    if is_remote and port == 0:
        raise ValueError(f"{name} is {value!r}: give a port from 1 to 65535")
    if is_remote and host.is_multicast:
        raise ValueError(f"{name} is {value!r}, a multicast group: give it as group")
    return f"[{host}]:{port}" if host.version == 6 else f"{host}:{port}"


def group(name: str, value: str, default: int) -> str:
    """An IPv4 multicast group with a port, `default` if none is given; raises ValueError."""
    try:
        host, port = _socket(value if isinstance(value, str) else "", default)
        if host.version != 4 or not host.is_multicast or port == 0:
            raise ValueError
    except ValueError:
        raise ValueError(
            f"{name} is {value!r}: give an IPv4 multicast group, 224.0.0.0 to 239.255.255.255, with or "
            "without a port from 1 to 65535, such as 239.1.2.3:7600"
        ) from None
    return f"{host}:{port}"
