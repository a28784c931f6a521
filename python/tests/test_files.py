"""Files to many from Python."""

import asyncio
import math
import re
import socket

import pytest

from layercast import LayercastError, _checks, files


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


def _session(*outcomes: str, **more) -> dict:
    receivers = [{"address": f"127.0.0.1:{n}", "outcome": it} for n, it in enumerate(outcomes)]
    return {"failure": None, "receivers": receivers, "unreached": []} | more


def _sent(*sessions: dict, manifest: dict | None = None, of: int | None = None) -> files.Sent:
    of = len(sessions) if of is None else of
    return files.Sent(of, 0, 0.0, list(sessions), manifest, [], None)


def test_a_report_is_complete_if_every_receiver_has_files_and_list():
    good, bad = _session("delivered"), _session("failed")
    assert _sent(good, good, manifest=good).complete
    assert _sent(good).complete
    assert _sent(manifest=good, of=0).complete
    # A receiver that answers after the list was sent gets the files.
    assert _sent(good, manifest=_session("never answered")).complete
    assert not _sent(good, manifest=bad).complete
    assert not _sent(manifest=bad, of=0).complete
    assert not _sent(good, bad, manifest=good).complete
    assert not _sent(good, manifest=good, of=2).complete
    assert not _sent().complete
    assert not _sent(_session("delivered", failure="the rate is too low")).complete


def test_a_receiver_whose_name_is_in_use_makes_a_report_incomplete():
    good = _session("delivered")
    refused = _session("delivered", in_use=["127.0.0.1:9"])
    assert not _sent(good, refused).complete
    assert not _sent(good, manifest=refused).complete
    assert not _sent(manifest=refused, of=0).complete
    # It was refused first, and has every file in the end.
    accepted = _session("delivered", in_use=["127.0.0.1:0"])
    assert _sent(good, accepted, manifest=accepted).complete


def test_a_receiver_that_cannot_use_the_list_makes_a_report_incomplete(tmp_path):
    top, out = tmp_path / "top", tmp_path / "out"
    (top / "folder").mkdir(parents=True)
    (top / "a.bin").write_bytes(b"data")
    (out / "top").mkdir(parents=True)
    (out / "top" / "folder").write_text("a file has the name of the folder")
    address = f"127.0.0.1:{_port()}"

    async def both():
        receiving = asyncio.ensure_future(files.receive(out, listen=address, wait=20))
        sent = await files.send([top], to=[address])
        return sent, await receiving

    sent, received = asyncio.run(asyncio.wait_for(both(), 60))
    assert [it["outcome"] for it in sent.manifest["receivers"]] == ["failed"]
    assert not sent.complete
    assert not received.complete


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"rate_bps": -5}, "rate_bps is -5: give a number from 1 to 1e+12 bit/s"),
        ({"rate_bps": 0}, "rate_bps is 0"),
        ({"rate_bps": math.nan}, "rate_bps is nan"),
        ({"rate_bps": math.inf}, "rate_bps is inf"),
        ({"rate_bps": 10**400}, "rate_bps is 1"),
        ({"rate_bps": "fast"}, "rate_bps is 'fast'"),
        ({"wait": -1}, "wait is -1: give a number from 0 to 1e+07 seconds"),
        ({"wait": 1e300}, "wait is 1e+300"),
        ({"hops": -1}, "hops is -1: give a whole number from 0 to 255"),
        ({"hops": 1.5}, "hops is 1.5"),
        ({"packet": 0}, "packet is 0: give a whole number from 64 to 8900"),
        ({"packet": 10**9}, "packet is 1000000000"),
        ({"receivers": 0}, "receivers is 0: give a whole number from 1 to 65536"),
        ({"receivers": 10**12}, "receivers is 1000000000000"),
        ({"interface": "eth0"}, "interface is 'eth0': give the IPv4 address"),
        ({"follow_links": "yes"}, "follow_links is 'yes': give True or False"),
        ({"to": ["127.0.0.1", "nonsense"]}, "to[1] is 'nonsense': give an IP address"),
        ({"to": [""]}, "to[0] is ''"),
        ({"to": ["[::1"]}, "to[0] is '[::1'"),
        ({"to": ["1.2.3.4:99999"]}, "to[0] is '1.2.3.4:99999'"),
        ({"to": ["1.2.3.4:0"]}, "to[0] is '1.2.3.4:0': give a port"),
        ({"to": [5]}, "to[0] is 5"),
        ({"to": ["239.1.1.1"]}, "to[0] is '239.1.1.1', a multicast group"),
        ({"to": "127.0.0.1"}, "to is '127.0.0.1': give a list"),
        ({"to": (), "group": "1.2.3.4:5"}, "group is '1.2.3.4:5': give an IPv4 multicast group"),
        ({"paths": "abc"}, "paths is 'abc': give a list"),
        ({"paths": []}, "paths is empty"),
        ({"paths": [None]}, "paths[0] is None"),
        ({"paths": ["\udcff"]}, "paths[0] is '\\udcff'"),
    ],
)
def test_values_of_send_without_a_meaning_are_named(options, what):
    with pytest.raises(ValueError, match=f"^{re.escape(what)}"):
        asyncio.run(files.send(**{"paths": ["/nowhere"], "to": ["127.0.0.1"], "wait": 0} | options))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"wait": math.nan}, "wait is nan"),
        ({"listen": "x"}, "listen is 'x': give an IP address"),
        ({"group": "zz"}, "group is 'zz'"),
        ({"interface": "::1"}, "interface is '::1'"),
        ({"overwrite": 1}, "overwrite is 1"),
    ],
)
def test_values_of_receive_without_a_meaning_are_named(options, what, tmp_path):
    with pytest.raises(ValueError, match=f"^{re.escape(what)}"):
        asyncio.run(files.receive(tmp_path, **options))


def test_an_output_that_is_no_folder_is_named(tmp_path):
    file = tmp_path / "file"
    file.touch()
    for out in (file, file / "below"):
        with pytest.raises(NotADirectoryError, match=re.escape(str(out))):
            asyncio.run(files.receive(out, listen="127.0.0.1:0", wait=0.01))
    with pytest.raises(OSError, match="/proc/folder"):
        asyncio.run(files.receive("/proc/folder", listen="127.0.0.1:0", wait=0.01))


def test_addresses_get_the_default_port():
    def address(text: str) -> str:
        return _checks.address("to", text, 7600, is_remote=True)

    assert address("192.0.2.7") == "192.0.2.7:7600"
    assert address("192.0.2.7:80") == "192.0.2.7:80"
    assert address("2001:db8::7") == address("[2001:db8::7]") == "[2001:db8::7]:7600"
    assert address("[fe80::1%2]:80") == "[fe80::1%2]:80"


def test_all_missing_inputs_are_named(tmp_path):
    with pytest.raises(LayercastError, match=r"(?s)one.*two"):
        asyncio.run(files.send([tmp_path / "one", tmp_path / "two"], to=["127.0.0.1"]))
    with pytest.raises(ValueError, match="either"):
        asyncio.run(files.send([tmp_path]))
