"""Sends a file or folder to many receivers; each repairs what it lost, and the digest is checked.

On each receiver: python files_to_many.py receive FOLDER ADDRESS:PORT
Then:             python files_to_many.py send PATH ADDRESS:PORT...
"""

import asyncio
import sys

from layercast import files


async def main(what: str, path: str, *addresses: str) -> bool:
    if what == "receive":
        received = await files.receive(path, listen=addresses[0], wait=60)
        for file in received.files:
            print(f"{file['file']} of {file['size']} bytes: {file['path'] or file['why']}")
        return received.complete
    sent = await files.send([path], to=addresses, rate_bps=100e6)
    for file in sent.files:
        for receiver in file["receivers"]:
            print(f"{file['file']}: {receiver['address']} {receiver['outcome']}")
    return sent.complete


if len(sys.argv) < 4:
    sys.exit(__doc__)
sys.exit(not asyncio.run(main(*sys.argv[1:])))
