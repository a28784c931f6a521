"""A source: ten seconds of frames in two layers. Prints the URL to join."""

import asyncio

import layercast


async def main() -> None:
    async with layercast.Server("127.0.0.1:0") as server:
        group = await server.open_group("film")
        for n in range(240):
            # A real source sends pictures: I pictures as base layer, P pictures as E1, B pictures as E2.
            if n % 12 == 0:
                await group.send(bytes([n]) * 4000, layercast.Layer.BL)
            else:
                await group.send(bytes([n]) * 1000, layercast.Layer.E1)
            if n == 12:
                # The rates are learned from the first group of pictures; from now on receivers can join.
                print(group.url, flush=True)
                await group.wait_for_members(1)


asyncio.run(main())
