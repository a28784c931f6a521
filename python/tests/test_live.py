import asyncio
import os
import re
import subprocess
import textwrap
import time
from itertools import pairwise
from pathlib import Path

import pytest

import layercast

REPOSITORY = Path(__file__).resolve().parents[2]
README = REPOSITORY / "README.md"
LAYERCAST = Path(os.environ.get("LAYERCAST", REPOSITORY / "target/debug/layercast"))
SPEC = {
    "gop_n": 3,
    "gop_m": 1,
    "delay_max_ms": 200,
    "frame_rate": {"num": 48, "den": 1},
    "layers": {"BL": {"mean": 200}, "E1": {"mean": 100}, "E2": {"mean": 100}},
}


def picture(number: int) -> tuple[bytes, int]:
    return bytes([number % 256]) * 200, number % 3


async def film(group: layercast.Group) -> None:
    number = 0
    while True:
        await group.send(*picture(number))
        number += 1


async def event(management: layercast.Management, name: str) -> layercast.Upcall:
    async for upcall in management:
        if upcall.name == name:
            return upcall
    raise AssertionError(f"the upcalls ended without {name}")


def run(main) -> None:
    async def within() -> None:
        async with asyncio.timeout(30):
            await main()

    asyncio.run(within())


def test_media_control_and_management():
    async def main() -> None:
        async with layercast.Server("127.0.0.1:0") as server:
            group = await server.open_group("film", spec=SPEC, wait_for=1)
            playing = asyncio.create_task(film(group))
            async with await layercast.join(group.url, name="alice") as (media, control, management):
                assert media.flow == "film"
                base = 0
                async for frame in media:
                    assert (frame.data, frame.layer) == picture(frame.seq)
                    assert 0 <= frame.delay < 5
                    base += frame.gop_start
                    if base == 9:
                        break
                await control.send(b"pause")
                member, message = await group.control.recv()
                assert (member.name, message) == ("alice", b"pause")
                await group.control.send(member, b"paused")
                assert await control.recv() == b"paused"
                assert (await management.info())["name"] == "film"
                assert (await group.management.stats())[0]["member"]["name"] == "alice"
                await management.change_qos("adapt", "none")
                alarm = {
                    "metric": "rate",
                    "op": ">",
                    "threshold": 1.0,
                    "window_ms": 200,
                    "hysteresis": 0.0,
                    "oneshot": True,
                }
                await management.change_qos("event", alarm)
                assert (await event(management, "ALARM")).data["value"] > 1
                with pytest.raises(layercast.InvalidError) as nak:
                    await management.change_qos("qos_policy", {"signal_period_ms": 0})
                assert nak.value.code == "EINVAL"
                with pytest.raises(layercast.InvalidError):
                    await management.change_qos("everything")
            with pytest.raises(layercast.ClosedError):
                await management.change_qos("maint")
            await event(group.management, "MEMBER_LEFT")
            playing.cancel()

    run(main)


def test_a_member_plays_by_the_clock_of_a_host_whose_clock_is_an_hour_ahead(tmp_path):
    ahead = ["unshare", "--user", "--map-root-user", "--time", "--monotonic", "3600"]
    if subprocess.run([*ahead, "true"], capture_output=True).returncode != 0:
        pytest.skip("unshare --user --time does not work here")
    clip = tmp_path / "film.m1v"
    picture = "testsrc2=size=160x120:rate=24:duration=8"
    make = f"ffmpeg -v error -nostdin -y -f lavfi -i {picture} -g 12 -bf 2 -b:v 300k"
    subprocess.run([*make.split(), str(clip)], check=True)
    serve = [str(LAYERCAST), "serve", str(clip), "--loop", "--insecure", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        [*ahead, *serve], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            url = server.stdout.readline().strip()

            async def main() -> None:
                async with await layercast.join(url, sync=0.4) as (media, _, management):
                    await event(management, "SYNCHRONISED")
                    spread = []
                    async for _ in aiter_of(media, 100):
                        spread.append(time.monotonic())
                    # Those that waited come immediately; then they come as they were sent, 24 a second.
                    assert 0.5 < spread[-1] - spread[-25] < 2, spread

            run(main)
        finally:
            server.kill()


async def received(group: layercast.Group, level: int, frames: int) -> list[layercast.Played]:
    async with await layercast.join(group.url, level=level) as (media, _, _):
        return [frame async for frame in aiter_of(media, frames)]


async def aiter_of(media: layercast.Media, frames: int):
    for _ in range(frames):
        frame = await media.recv()
        assert frame is not None
        yield frame


@pytest.mark.parametrize("learned", [True, False])
def test_alternative_layers_are_received_one_level_at_a_time(learned):
    sizes = (100, 300, 800)

    async def send(group: layercast.Group) -> None:
        time = 0
        while True:
            for layer, size in enumerate(sizes):
                await group.send(bytes([time % 256]) * size, layer, gop_start=time % 8 == 0)
            time += 1

    async def main() -> None:
        async with layercast.Server("127.0.0.1:0") as server:
            options: dict = {"composition": "alternative", "frame_rate": 75, "delay_max": 0.2}
            if not learned:
                layers = {"BL": {"mean": 100}, "E1": {"mean": 250}, "E2": {"mean": 550}}
                spec = {"composition": "alternative", "frame_rate": {"num": 75, "den": 1}, "gop_n": 24}
                options = {"spec": spec | {"layers": layers, "picture_rate": {"num": 25, "den": 1}}}
            group = await server.open_group("film", **options)
            playing = asyncio.create_task(send(group))
            low, high = await asyncio.gather(received(group, 0, 100), received(group, 2, 100))
            playing.cancel()
        for frames, layer in ((low, 0), (high, 2)):
            # Before the first demand arrives another level may pass; it ends with a group of pictures.
            settled = [frame for frame in frames if frame.layer == layer]
            assert len(settled) >= 60, [int(frame.layer) for frame in frames]
            assert frames[-60:] == settled[-60:]
            assert {len(frame.data) for frame in settled} == {sizes[layer]}
            times = [frame.data[0] for frame in frames]
            assert len(set(times)) == len(times), "a picture was shown twice"
            seqs = {frame.seq - previous.seq for previous, frame in pairwise(settled[-60:])}
            assert seqs == {3}, "a picture is missing"

    run(main)


def test_a_member_with_a_profile_hears_what_its_flow_is_held_to():
    async def main() -> None:
        async with layercast.Server("127.0.0.1:0") as server:
            group = await server.open_group("film", spec=SPEC)
            async with await layercast.join(group.url, name="eye", profile="conferencing") as (
                _,
                _,
                management,
            ):
                agreed = (await event(management, "AGREED")).data
                assert agreed["committed"] is False, "the source promises nothing"
                assert agreed["contract"]["jitter"]["agreed"] == 0.04
                await management.set_profile("playback")
                assert (await event(management, "AGREED")).data["contract"] != agreed["contract"]
                with pytest.raises(layercast.InvalidError, match="profile"):
                    await management.set_profile("no such profile")
                await management.set_profile(None)

    run(main)


def test_a_composition_that_does_not_exist_is_refused():
    async def main() -> None:
        async with layercast.Server("127.0.0.1:0") as server:
            with pytest.raises(layercast.InvalidError, match="additive, alternative"):
                await server.open_group("film", composition="stacked")

    run(main)


def five_lines(word: str, name: str, arguments: str):
    """The block of the README that says `word`, as a coroutine function."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (block,) = [block for block in blocks if word in block]
    space = {"layercast": layercast}
    exec(f"async def {name}({arguments}):\n" + textwrap.indent(block, "    "), space)
    return space[name]


def test_the_five_lines_of_the_readme_run():
    source = five_lines("layercast.Server", "source", "frames, print")
    sink = five_lines("layercast.join", "sink", "url, print")
    frames = [picture(number) for number in range(96)]
    played: list[str] = []

    async def main() -> None:
        url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        sending = asyncio.create_task(source(frames, lambda _, address: url.set_result(address)))
        await sink(await url, lambda layer, _: played.append(layer))
        await sending

    run(main)
    assert played.count("BL") > 16


def test_what_goes_wrong_has_a_type_and_a_code():
    async def main() -> None:
        with pytest.raises(layercast.InvalidError):
            await layercast.join("http://nowhere")
        with pytest.raises(layercast.InvalidError, match="profile"):
            await layercast.join("127.0.0.1:1/film", profile="no such profile")
        for url in ("127.0.0.1:1/film", f"layercasts://127.0.0.1:1?fp={'A' * 43}", "nowhere.invalid:1/film"):
            begun = time.monotonic()
            with pytest.raises(layercast.NetworkError) as error:
                await layercast.join(url, within=0.5)
            assert 0.5 <= time.monotonic() - begun < 6, url
            assert error.value.code == "ENET"
            assert isinstance(error.value, layercast.LayercastError)
        with pytest.raises(layercast.ClosedError):
            await layercast.Server("127.0.0.1:0").open_group("film")
        async with layercast.Server("127.0.0.1:0") as server:
            group = await server.open_group("film", spec=SPEC, registered=False)
            with pytest.raises(layercast.NotRegisteredError):
                await group.management.change_qos("maint")
            await group.management.register(group)
            with pytest.raises(layercast.InvalidError):
                await group.send(b"")
            with pytest.raises(layercast.InvalidError):
                await group.send(b"x", 3)
            with pytest.raises(layercast.InvalidError):
                await server.open_group("film")

    run(main)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"frame_rate": 0}, "frame_rate is 0: give a number from 0.001 to 1000 frames a second"),
        ({"frame_rate": -1}, "frame_rate is -1"),
        ({"frame_rate": 1e300}, "frame_rate is 1e+300"),
        ({"frame_rate": float("nan")}, "frame_rate is nan"),
        ({"delay_max": 1e300}, "delay_max is 1e+300: give a number above 0, at most 3600 seconds"),
        ({"delay_max": 0}, "delay_max is 0"),
        ({"delay_max": float("inf")}, "delay_max is inf"),
        ({"wait_for": -1}, "wait_for is -1"),
    ],
)
def test_values_of_a_group_without_a_meaning_are_named(options, what):
    async def main() -> None:
        async with layercast.Server("127.0.0.1:0") as server:
            with pytest.raises(layercast.InvalidError, match=f"^{re.escape(what)}"):
                await server.open_group("film", **options)

    run(main)


def test_times_and_levels_without_a_meaning_are_named():
    async def main() -> None:
        async with layercast.Server("127.0.0.1:0") as server:
            group = await server.open_group("film", spec=SPEC)
            for call, what in (
                (lambda: group.send(b"x", time=1e300), "time is 1e+300"),
                (lambda: group.send(b"x", -1), "layer is -1: give a whole number from 0 to 2"),
                (lambda: group.close(1e300), "grace is 1e+300"),
                (lambda: group.wait_for_members(-1), "members is -1"),
                (lambda: layercast.join(group.url, playout=1e300), "playout is 1e+300"),
                (lambda: layercast.join(group.url, within=float("nan")), "within is nan"),
                (lambda: layercast.join(group.url, level=3), "level is 3"),
            ):
                with pytest.raises(layercast.InvalidError, match=f"^{re.escape(what)}"):
                    await call()
            with pytest.raises(layercast.InvalidError, match="valid is 1e"):
                group.url_for(valid=1e300)

    run(main)


def test_a_group_with_tokens_takes_only_those_who_have_one():
    async def main() -> None:
        async with layercast.Server("127.0.0.1:0") as server:
            group = await server.open_group("film", spec=SPEC, tokens=True)
            playing = asyncio.create_task(film(group))
            with pytest.raises(layercast.AdmissionError):
                await layercast.join(group.url)
            url = group.url_for("ann", level=1, valid=60)
            async with await layercast.join(url, name="ann") as (media, _control, _management):
                frame = await anext(aiter(media))
                assert (frame.data, frame.layer) == picture(frame.seq)
            playing.cancel()

    run(main)
