"""Files to many from Python."""

import asyncio
import socket

import pytest

from layercast import LayercastError, files


def _port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_folder_arrives_and_the_report_says_so(tmp_path):
    top = tmp_path / "top"
    (top / "empty").mkdir(parents=True)
    (top / "a.bin").write_bytes(bytes(range(256)) * 400)
    address = f"127.0.0.1:{_port()}"

    async def both():
        receiving = asyncio.ensure_future(files.receive(tmp_path / "out", listen=address, wait=20))
        sent = await files.send([top], to=[address], receivers=1)
        return sent, await receiving

    sent, received = asyncio.run(asyncio.wait_for(both(), 60))
    assert sent.complete
    assert received.complete
    assert (sent.of, sent.octets) == (1, 102_400)
    assert sent.files[0]["receivers"][0]["outcome"] == "delivered"
    assert (tmp_path / "out/top/a.bin").read_bytes() == (top / "a.bin").read_bytes()
    assert (tmp_path / "out/top/empty").is_dir()


def test_all_missing_inputs_are_named(tmp_path):
    with pytest.raises(LayercastError, match=r"(?s)one.*two"):
        asyncio.run(files.send([tmp_path / "one", tmp_path / "two"], to=["127.0.0.1"]))
    with pytest.raises(ValueError, match="either"):
        asyncio.run(files.send([tmp_path]))
