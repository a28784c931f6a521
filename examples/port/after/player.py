"""Writes the video of a sender to standard output, for a decoder to show.

player.py ADDRESS | ffplay -
"""

import asyncio
import sys

import layercast


async def main():
    media, _control, _management = await layercast.join(sys.argv[1])
    shown = 0
    async for picture in media:
        sys.stdout.buffer.write(picture.data)
        sys.stdout.buffer.flush()
        shown += 1
    print(f"{shown} pictures shown", file=sys.stderr)


asyncio.run(main())
