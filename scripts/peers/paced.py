#!/usr/bin/env python3
"""Sends a transport stream to a UDP port at a pace that changes, as an encoder that catches up.

Usage: paced.py FILE.ts HOST:PORT PACE:SECONDS...

PACE is media time per second, SECONDS the media time for which it holds: `0.85:8.5 1.2:8 1:60` falls behind,
catches up and keeps real time. The clock is the program clock reference (ISO/IEC 13818-1, 2.4.3.5).
"""

import socket
import sys
import time
from pathlib import Path

PACKET = 188
IN_DATAGRAM = 7


def clock_reference(packet: bytes) -> float | None:
    """The program clock reference of a packet in seconds, if it has one."""
    if not packet[3] & 0x20 or packet[4] < 7 or not packet[5] & 0x10:
        return None
    return (int.from_bytes(packet[6:10], "big") << 1 | packet[10] >> 7) / 90_000


def main(path: str, to: str, *paces: str) -> None:
    """Sends the file."""
    host, _, port = to.rpartition(":")
    plan = [(float(pace), float(seconds)) for pace, _, seconds in (it.partition(":") for it in paces)]
    data = Path(path).read_bytes()
    packets = [data[at : at + PACKET] for at in range(0, len(data) - PACKET + 1, PACKET)]
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    due, last, waiting = time.monotonic(), None, []
    pace, left = plan.pop(0)
    for packet in packets:
        reference = clock_reference(packet)
        if reference is not None:
            step = max(reference - last, 0.0) if last is not None else 0.0
            last, left, due = reference, left - step, due + step / pace
            if left <= 0:
                if not plan:
                    return
                pace, left = plan.pop(0)
                print(f"{pace:g} s of media per second", flush=True)
            if waiting:
                sender.sendto(b"".join(waiting), (host, int(port)))
                waiting = []
            time.sleep(max(due - time.monotonic(), 0.0))
        waiting.append(packet)
        if len(waiting) == IN_DATAGRAM:
            sender.sendto(b"".join(waiting), (host, int(port)))
            waiting = []


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
