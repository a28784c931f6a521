"""Writes the video of a sender to standard output, for a decoder to show.

player.py ADDRESS | ffplay -
"""

import socket
import struct
import sys


def pictures(packets):
    """Each picture of which all parts came, in order."""
    current, parts = None, []
    while True:
        packet = packets.recv(2048)
        number, index, count = struct.unpack_from("!IHH", packet)
        if count == 0:
            return
        if number != current:
            current, parts = number, []
        parts.append((index, packet[8:]))
        if len(parts) == count:
            yield b"".join(part for _, part in sorted(parts))


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    packets = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    packets.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    packets.bind((host, int(port)))
    shown = 0
    for picture in pictures(packets):
        sys.stdout.buffer.write(picture)
        sys.stdout.buffer.flush()
        shown += 1
    print(f"{shown} pictures shown", file=sys.stderr)


main()
