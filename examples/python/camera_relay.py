"""Relays MPEG-1 video from standard input, picture by picture, as it comes. Prints the URL to join.

ffmpeg -f v4l2 -i /dev/video0 -c:v mpeg1video -r 25 -g 12 -bf 2 -f mpeg1video - | \\
    python camera_relay.py 0.0.0.0:7400
"""

import asyncio
import re
import sys

import layercast

# A picture begins with the headers before it: sequence header, GOP header, picture header.
START = re.compile(rb"\x00\x00\x01(?:\xb3|\xb8|\x00)")
PICTURE = b"\x00\x00\x01\x00"
# What is reserved, in cells of 48 bytes per second: about 1, 1.5 and 1 Mbit/s of BL, E1 and E2.
SPEC = {
    "frame_rate": {"num": 25, "den": 1},
    "gop_n": 12,
    "gop_m": 3,
    "max_frame": 65_536,
    "delay_max_ms": 1000,
    "layers": {
        "BL": {"mean": 2600, "peak": 8000, "burst": 1400},
        "E1": {"mean": 3900, "peak": 12_000, "burst": 1400},
        "E2": {"mean": 2600, "peak": 8000, "burst": 1400},
    },
}


def take_picture(video: bytearray) -> bytes | None:
    """Removes the first picture, once the start of the next one is there."""
    header = video.find(PICTURE)
    following = START.search(video, header + 4) if header >= 0 else None
    if following is None:
        return None
    picture = bytes(video[: following.start()])
    del video[: following.start()]
    return picture


def layer_of(picture: bytes) -> layercast.Layer:
    """I pictures are the base layer, P pictures E1, B pictures E2."""
    kind = picture[picture.find(PICTURE) + 5] >> 3 & 7
    return layercast.Layer(min(kind - 1, 2))


async def main(listen: str) -> None:
    video = bytearray()
    async with layercast.Server(listen) as server:
        group = await server.open_group("camera", spec=SPEC)
        print(group.url, flush=True)
        while piece := await asyncio.to_thread(sys.stdin.buffer.read1, 65_536):
            video += piece
            while picture := take_picture(video):
                await group.send(picture, layer_of(picture))


if len(sys.argv) != 2:
    sys.exit(__doc__)
asyncio.run(main(sys.argv[1]))
