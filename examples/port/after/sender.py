"""Sends a video file, picture by picture, as fast as it is to be shown.

sender.py FILE HOST:PORT [FRAMES-PER-SECOND]
"""

import asyncio
import sys

import layercast

STARTS = (b"\x00\x00\x01\xb3", b"\x00\x00\x01\xb8", b"\x00\x00\x01\x00")  # sequence, GOP, picture


def pictures(film):
    """The pictures of an MPEG-1 video stream, each with the headers before it."""
    begin, at = 0, film.find(STARTS[2]) + 4
    while at >= 4:
        found = [film.find(start, at) for start in STARTS]
        end = min((place for place in found if place >= 0), default=len(film))
        yield film[begin:end]
        begin, at = end, film.find(STARTS[2], end) + 4


async def main():
    path, address = sys.argv[1:3]
    rate = float(sys.argv[3]) if len(sys.argv) > 3 else 24
    with open(path, "rb") as file:
        film = file.read()
    number = 0
    async with layercast.Server(address) as server:
        group = await server.open_group("film", frame_rate=rate, wait_for=1)
        print(group.url, flush=True)
        for picture in pictures(film):
            kind = picture[picture.find(STARTS[2]) + 5] >> 3 & 7  # I, P, B are 1, 2, 3
            await group.send(picture, layer=kind - 1)
            number += 1
    print(f"{number} pictures sent", file=sys.stderr)


asyncio.run(main())
