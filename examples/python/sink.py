"""A sink: writes the flow at a URL to a file, and prints each frame when it is due.

python sink.py URL FILE
"""

import asyncio
import sys

import layercast


async def main(url: str, path: str) -> None:
    async with await layercast.join(url) as (media, _control, _management):
        with open(path, "wb") as file:
            async for frame in media:
                print(f"{frame.layer.name} of {len(frame.data)} bytes")
                file.write(frame.data)


if len(sys.argv) != 3:
    sys.exit(__doc__)
asyncio.run(main(*sys.argv[1:]))
