"""The programs in examples/python run, and those that the tutorial shows are these."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = REPOSITORY / "examples/python"
LAYERCAST = Path(os.environ.get("LAYERCAST", REPOSITORY / "target/debug/layercast"))
CLIP = REPOSITORY / "target/demo/clip.m1v"
# Seconds until a program counts as hung.
HUNG = 60


def start(name: str, *arguments: object, **options) -> subprocess.Popen:
    command = [sys.executable, EXAMPLES / f"{name}.py", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)


def finish(program: subprocess.Popen) -> str:
    output, _ = program.communicate(timeout=HUNG)
    assert program.returncode == 0, output
    return output


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize("name", ["camera_relay", "files_to_many", "simulate_and_plot", "sink"])
def test_a_program_without_arguments_says_how_it_is_called(name):
    command = [sys.executable, EXAMPLES / f"{name}.py"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=HUNG, stdin=subprocess.DEVNULL)
    assert ended.returncode == 1
    assert f"python {name}.py" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_sink_saves_what_the_source_sends(tmp_path):
    source = start("source")
    saved = tmp_path / "film"
    printed = finish(start("sink", source.stdout.readline().strip(), saved))
    finish(source)
    sizes = [int(line.split()[2]) for line in printed.splitlines()]
    assert len(sizes) > 150
    assert saved.stat().st_size == sum(sizes)


def test_a_file_reaches_two_receivers(tmp_path):
    file = tmp_path / "disk.img"
    file.write_bytes(bytes(range(251)) * 2000)
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    folders = [tmp_path / "ann", tmp_path / "bob"]
    receivers = [start("files_to_many", "receive", *them) for them in zip(folders, addresses, strict=True)]
    assert finish(start("files_to_many", "send", file, *addresses)).count("delivered") == 2
    for receiver, folder in zip(receivers, folders, strict=True):
        finish(receiver)
        assert (folder / "disk.img").read_bytes() == file.read_bytes()


def test_the_relay_offers_what_comes_on_standard_input(tmp_path):
    if not CLIP.exists() or not shutil.which("ffmpeg"):
        pytest.skip("needs the demo clip (make clips) and ffmpeg")
    reads = ["ffmpeg", "-v", "error", "-nostdin", "-re", "-t", "5", "-i", CLIP, "-an"]
    encodes = ["-vf", "scale=320:-2", "-c:v", "mpeg1video", "-b:v", "1M", "-r", "25", "-g", "12", "-bf", "2"]
    camera = subprocess.Popen([*reads, *encodes, "-f", "mpeg1video", "-"], stdout=subprocess.PIPE)
    relay = start("camera_relay", "127.0.0.1:0", stdin=camera.stdout)
    saved = tmp_path / "got.m1v"
    finish(start("sink", relay.stdout.readline().strip(), saved))
    finish(relay)
    camera.wait()
    decodes = ["ffprobe", "-v", "error", "-count_frames", "-show_entries", "stream=nb_read_frames"]
    counted = subprocess.run([*decodes, "-of", "csv=p=0", saved], capture_output=True, text=True, check=True)
    assert int(counted.stdout.strip().strip(",")) >= 20


def test_each_link_carries_the_layers_that_fit():
    printed = finish(start("switch", env=os.environ | {"LAYERCAST": str(LAYERCAST)}))
    counts = {
        line.split(":")[0]: list(map(int, re.findall(r"(\d+) (?:BL|E1|E2)", line)))
        for line in printed.splitlines()
    }
    (narrow, wide) = (counts["narrow"], counts["wide"])
    # 12 groups of pictures; the first may begin before a receiver has its level.
    assert narrow[0] >= 11 and narrow[1] >= 30 and narrow[2] == 0
    assert wide[0] >= 11 and wide[2] >= 80


def test_the_simulation_makes_a_table_and_a_plot(tmp_path):
    plot = tmp_path / "queue.png"
    lines = finish(start("simulate_and_plot", plot)).splitlines()
    table = [list(map(float, line.split(","))) for line in lines[1:]]
    waits = [row[2] for row in table]
    assert len(table) == 5 and waits == sorted(waits)
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_the_programs_of_the_tutorial_are_the_examples():
    page = (REPOSITORY / "docs/src/tutorials/embed-python.md").read_text()
    shown = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert shown == [(EXAMPLES / f"{name}.py").read_text() for name in ("source", "sink")]
