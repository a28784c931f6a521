import shutil
import subprocess
from pathlib import Path

import pytest

from layercast_lab import port

CLIP = Path(__file__).resolve().parents[2] / "target" / "demo" / "clip.m1v"


def test_the_port_changes_few_lines():
    changed = [port.changed_lines(program) for program in port.PROGRAMS]
    assert 0 < sum(change.written + change.removed for change in changed) <= port.MOST_CHANGED


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Four seconds of the demo's clip.
    if not CLIP.exists() or not shutil.which("ffmpeg"):
        pytest.skip("needs the demo clip (make clips) and ffmpeg")
    short = tmp_path_factory.mktemp("port") / "short.m1v"
    cut = ["-t", "4", "-c", "copy", "-f", "mpeg1video", short]
    subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-i", CLIP, *cut], check=True)
    return short


@pytest.mark.parametrize("version", ["before", "after"])
def test_both_versions_play_a_real_clip(version: str, clip: Path):
    run = port.play(version, clip, 24)
    assert run.sent > 80
    # At the least the I pictures, which are the base layer.
    assert run.shown > 7
    decode = ["ffmpeg", "-v", "error", "-nostdin", "-f", "mpegvideo", "-i", "-", "-f", "null", "-"]
    decoded = subprocess.run(decode, input=run.video, capture_output=True)
    assert decoded.returncode == 0
