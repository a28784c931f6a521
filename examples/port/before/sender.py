"""Sends a video file, picture by picture, as fast as it is to be shown.

sender.py FILE HOST:PORT [FRAMES-PER-SECOND]
"""

import socket
import struct
import sys
import time

PART = 1200
STARTS = (b"\x00\x00\x01\xb3", b"\x00\x00\x01\xb8", b"\x00\x00\x01\x00")  # sequence, GOP, picture


def pictures(film):
    """The pictures of an MPEG-1 video stream, each with the headers before it."""
    begin, at = 0, film.find(STARTS[2]) + 4
    while at >= 4:
        found = [film.find(start, at) for start in STARTS]
        end = min((place for place in found if place >= 0), default=len(film))
        yield film[begin:end]
        begin, at = end, film.find(STARTS[2], end) + 4


def main():
    path, address = sys.argv[1:3]
    rate = float(sys.argv[3]) if len(sys.argv) > 3 else 24
    host, port = address.rsplit(":", 1)
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with open(path, "rb") as file:
        film = file.read()
    begun = time.monotonic()
    number = 0
    for picture in pictures(film):
        time.sleep(max(0, begun + number / rate - time.monotonic()))
        parts = [picture[at : at + PART] for at in range(0, len(picture), PART)]
        for index, part in enumerate(parts):
            header = struct.pack("!IHH", number, index, len(parts))
            out.sendto(header + part, (host, int(port)))
        number += 1
    out.sendto(struct.pack("!IHH", number, 0, 0), (host, int(port)))
    print(f"{number} pictures sent", file=sys.stderr)


main()
