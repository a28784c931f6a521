"""A switch started by a program: a source here, `layercast switch` as a process, a receiver on each link.

Prints the frames of each layer that each receiver got. The narrow link carries the base layer and E1.
"""

import asyncio
import collections
import os

import layercast

LAYERCAST = os.environ.get("LAYERCAST", "layercast")


async def receive(url: str, name: str) -> collections.Counter:
    frames: collections.Counter = collections.Counter()
    async with await layercast.join(url, name=name) as (media, _control, _management):
        async for frame in media:
            frames[frame.layer.name] += 1
    return frames


async def main() -> None:
    async with layercast.Server("127.0.0.1:0") as server:
        group = await server.open_group("film", wait_for=2)
        arguments = ["--upstream", group.url, "--listen", "127.0.0.1:0", "--port", "narrow=240kbit/s"]
        pipe = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.DEVNULL}
        switch = await asyncio.create_subprocess_exec(LAYERCAST, "switch", *arguments, **pipe)
        try:
            # A switch writes its URL to standard output; the flow goes before the query.
            node, query = (await switch.stdout.readline()).decode().strip().split("?")
            url = f"{node}/film?{query}"
            names = ["narrow", "wide"]
            receivers = [asyncio.create_task(receive(url, name)) for name in names]
            for n in range(144):
                # 24 frames/s in GOPs of 12: 1 of the base layer, 3 of E1, 8 of E2.
                layer = 0 if n % 12 == 0 else 1 if n % 3 == 0 else 2
                await group.send(bytes([n]) * (4000 if layer == 0 else 1200), layer)
            await group.close()
            for name, receiver in zip(names, receivers, strict=True):
                frames = await receiver
                print(f"{name}: {frames['BL']} BL, {frames['E1']} E1, {frames['E2']} E2")
        finally:
            switch.terminate()
            await switch.wait()


asyncio.run(main())
