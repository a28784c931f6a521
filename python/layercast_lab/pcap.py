"""Packets of a capture that `layercast sim --pcap` wrote."""

from __future__ import annotations

import struct
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path

INTERFACE, PACKET = 1, 6
IPV4 = 228
IF_NAME = 2
TCP, SYN, FIN = 6, 2, 1


@dataclass(frozen=True)
class Packet:
    """An IPv4 packet that a link or LAN took."""

    at: float
    """Seconds since the start of the run, to the nanosecond."""
    interface: str
    """Such as "a->router", or the name of a LAN."""
    bytes: int
    """With its headers."""
    source: tuple[str, int]
    """Address and port."""
    destination: tuple[str, int]
    protocol: int
    seq: int
    """Of TCP, as it is in the header; else 0."""
    flags: int
    """Of TCP."""
    data: int
    """Bytes of data in TCP or UDP."""


def packets(path: Path, interfaces: Container[str] | None = None) -> Iterator[Packet]:
    """Packets in the order of the file, of some interfaces only; not cells, nor later fragments."""
    data, names, at = path.read_bytes(), [], 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == INTERFACE:
            (carries,) = struct.unpack_from("<H", data, at + 8)
            names.append(name_of(data[at + 16 : at + length - 4]) if carries == IPV4 else None)
        elif kind == PACKET:
            number, high, low, size, _ = struct.unpack_from("<IIIII", data, at + 8)
            name = names[number]
            if name is not None and (interfaces is None or name in interfaces):
                yield packet((high << 32 | low) / 1e9, name, data[at + 28 : at + 28 + size])
        at += length


def name_of(options: bytes) -> str:
    """The name among the options of an interface."""
    at = 0
    while at < len(options):
        code, length = struct.unpack_from("<HH", options, at)
        if code == IF_NAME:
            return options[at + 4 : at + 4 + length].decode()
        at += 4 + -(-length // 4) * 4
    return ""


def packet(at: float, interface: str, raw: bytes) -> Packet:
    """One packet from its bytes."""
    header = 4 * (raw[0] & 15)
    (total,) = struct.unpack_from(">H", raw, 2)
    ends = [".".join(map(str, raw[start : start + 4])) for start in (12, 16)]
    ports = struct.unpack_from(">HH", raw, header)
    seq = flags = 0
    inner = 8
    if raw[9] == TCP:
        (seq,) = struct.unpack_from(">I", raw, header + 4)
        inner, flags = 4 * (raw[header + 12] >> 4), raw[header + 13]
    source, destination = zip(ends, ports, strict=True)
    return Packet(at, interface, total, source, destination, raw[9], seq, flags, total - header - inner)
