"""`layercast-lab classes`: a report of `layercast probe --classes` as a picture."""

import json
from pathlib import Path

import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from typer.testing import CliRunner

from layercast_lab import classes, cli

ROOT = Path(__file__).resolve().parents[2]
SHARES = {"S": (500, 10, 200), "I": (5300, 60, 500), "P": (2900, 20, 200), "B": (1300, 10, 100)}
GOP = {
    "count": 3,
    "min_pictures": 6,
    "max_pictures": 6,
    "reference_distance": 3,
    "pattern": "IBBPBB",
    "pattern_percent": 100.0,
}


def report(**changes) -> dict:
    """A transport stream of one video, with these fields of the report replaced."""
    sizes = {"I": (3, 2000.0, 2500), "P": (3, 900.0, 1200), "B": (12, 100.0, 150)}
    keys = ("count", "mean_octets", "max_octets")
    pictures = [{"class": kind} | dict(zip(keys, it, strict=True)) for kind, it in sizes.items()]
    keys = ("octets", "packets", "cells")
    shares = [{"class": kind} | dict(zip(keys, it, strict=True)) for kind, it in SHARES.items()]
    return {"classes": shares, "videos": [{"pid": 256, "pictures": pictures, "gop": GOP}]} | changes


def drawn(data: dict):
    """The axes of the picture of a report."""
    figure = classes.draw(classes.parse(json.dumps(data), "a.json"), "a.json")
    plt.close(figure)
    return figure.axes


def test_bars_have_the_shares_of_each_unit_in_the_order_of_the_classes():
    shares = drawn(report())[0]
    assert [it.get_text() for it in shares.get_yticklabels()] == ["octets", "packets", "cells"]
    assert [it.get_text()[0] for it in shares.get_legend().get_texts()] == list("SIPB")
    for place, unit in enumerate(("octets", "packets", "cells")):
        bars = [it for it in shares.patches if it.get_y() + it.get_height() / 2 == place]
        whole = sum(it[place] for it in SHARES.values())
        widths = [100 * it[place] / whole for it in SHARES.values()]
        assert [it.get_width() for it in bars] == pytest.approx(widths), unit
        assert [it.get_x() for it in bars] == pytest.approx([sum(widths[:n]) for n in range(4)]), unit
        colours = [to_hex(it.get_facecolor()) for it in bars]
        assert colours == [classes.COLOURS[name] for name in "SIPB"], unit


def test_a_video_has_its_sizes_and_its_most_frequent_gop():
    _, sizes, gop = drawn(report())
    assert sizes.get_title() == "video 0x0100"
    assert [it.get_text() for it in sizes.get_xticklabels()] == ["I\n3", "P\n3", "B\n12"]
    assert [it.get_height() for it in sizes.patches] == pytest.approx([2.0, 0.9, 0.1])
    assert [it.get_ydata()[0] for it in sizes.lines] == pytest.approx([2.5, 1.2, 0.15])
    assert "".join(it.get_text() for it in gop.get_xticklabels()) == "IBBPBB"
    assert [it.get_height() for it in gop.patches] == pytest.approx([2.0, 0.1, 0.1, 0.9, 0.1, 0.1])
    assert gop.get_title() == "3 GOPs of 6 pictures, references 3 apart\n100.0 % are like this one"


def test_each_picture_has_a_point_if_the_report_has_all():
    sequence = {"classes": "IBBPBBI", "octets": [2500, 90, 110, 900, 150, 50, 2000]}
    _, course, gop = drawn(report(videos=[report()["videos"][0] | {"sequence": sequence}]))
    found = {it.get_label(): (list(it.get_xdata()), list(it.get_ydata())) for it in course.lines}
    assert found == {
        "I": ([0, 6], [2.5, 2.0]),
        "P": ([3], [0.9]),
        "B": ([1, 2, 4, 5], [0.09, 0.11, 0.15, 0.05]),
    }
    assert course.get_yscale() == "log" and course.get_xlabel() == "pictures as sent"
    assert "".join(it.get_text() for it in gop.get_xticklabels()) == "IBBPBB"


def test_what_a_stream_does_not_have_is_not_drawn():
    octets = [{"class": kind, "octets": it[0]} for kind, it in SHARES.items()]
    still = {"pictures": report()["videos"][0]["pictures"]}
    shares, sizes, gop = drawn(report(classes=octets, videos=[still]))
    assert [it.get_text() for it in shares.get_yticklabels()] == ["octets"]
    assert sizes.get_title() == "video"
    assert not gop.patches and "no GOP" in gop.texts[0].get_text()
    # Sound alone; and a stream of which nothing was understood.
    assert len(drawn(report(videos=[]))) == 1
    nothing = [{"class": kind, "octets": 0} for kind in SHARES]
    assert [it.get_width() for it in drawn(report(classes=nothing, videos=[]))[0].patches] == [0.0] * 4


def test_of_many_videos_the_first_are_drawn_and_the_title_says_so():
    many = classes.parse(json.dumps(report(videos=report()["videos"] * 100)), "a.json")
    figure = classes.draw(many, "/somewhere/a.json")
    plt.close(figure)
    assert len(figure.axes) == 1 + 2 * classes.MOST_VIDEOS
    assert figure.get_suptitle() == "a.json: the first 8 of 100 videos"


def test_a_stream_becomes_a_png_and_an_svg(command, monkeypatch, tmp_path):
    monkeypatch.setenv("LAYERCAST", command)
    out = tmp_path / "a.svg"
    stream = ROOT / "fuzz/corpus/ts/mpeg2"
    done = CliRunner().invoke(cli.app, ["classes", str(stream), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert done.stdout.split() == [str(out.with_suffix(".png")), str(out)]
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in out.read_text()
    missing = CliRunner().invoke(cli.app, ["classes", str(tmp_path / "none.ts"), "--out", str(out)])
    assert missing.exit_code == 1 and "check the path" in missing.stderr


def test_a_report_comes_from_a_file_or_standard_input(tmp_path):
    file, out = tmp_path / "a.json", tmp_path / "a.png"
    file.write_text(json.dumps(report()))
    for name, text in ((str(file), ""), ("-", file.read_text())):
        done = CliRunner().invoke(cli.app, ["classes", name, "--out", str(out)], input=text)
        assert done.exit_code == 0, done.output
        assert out.read_bytes().startswith(b"\x89PNG")
        out.unlink()


@pytest.mark.parametrize(
    "text, error",
    [
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "an object is expected"),
        ("{}", "a report of classes has 'classes'"),
        (json.dumps(report(classes=report()["classes"][:3])), "no class B"),
        (json.dumps(report(classes="SIPB")), "no report of classes"),
        (json.dumps(report(videos=[{"pid": 1}])), "has 'pictures'"),
        (json.dumps(report(videos=[{"pictures": []}])), "has 'I'"),
        (json.dumps(report(videos=[report()["videos"][0] | {"gop": GOP | {"pattern": "IX"}}])), "'IX'"),
        (json.dumps(report(videos=[report()["videos"][0] | {"sequence": "I"}])), "no report"),
        (
            json.dumps(
                report(videos=[report()["videos"][0] | {"sequence": {"classes": "IP", "octets": [1]}}])
            ),
            "no report of classes (zip() argument 2 is shorter",
        ),
        (
            json.dumps(
                report(videos=[report()["videos"][0] | {"sequence": {"classes": "S", "octets": [1]}}])
            ),
            "a picture is none of I, P and B",
        ),
        (json.dumps(report()).replace("IBBPBB", "I" * 121), "a pattern of 121 pictures"),
        (json.dumps(report()).replace("5300", "-1"), "-1 is no amount"),
        (json.dumps(report()).replace("5300", "NaN"), "nan is no amount"),
        (json.dumps(report()).replace("5300", "1e999"), "inf is no amount"),
        (json.dumps(report()).replace("2000.0", '"x"'), "'x' is no amount"),
        (json.dumps(report()).replace("256", "null"), None),
    ],
)
def test_what_is_no_report_is_refused_with_what_to_do(text, error, tmp_path):
    out = tmp_path / "a.png"
    done = CliRunner().invoke(cli.app, ["classes", "-", "--out", str(out)], input=text)
    if error is None:
        assert done.exit_code == 0 and out.exists(), done.output
        return
    assert done.exit_code == 1 and done.exception.__class__ is SystemExit, done.output
    assert error in done.stderr and "make one with `layercast probe --classes FILE --json`" in done.stderr
    assert not out.exists()


def test_wrong_use_names_the_remedy(tmp_path):
    done = CliRunner().invoke(cli.app, ["classes", "-", "--out", "a.pdf"], input=json.dumps(report()))
    assert done.exit_code == 2 and "ends with .png or .svg" in done.stderr
    out = tmp_path / "none" / "a.png"
    done = CliRunner().invoke(cli.app, ["classes", "-", "--out", str(out)], input=json.dumps(report()))
    assert done.exit_code == 1 and "in a folder that exists" in done.stderr
    done = CliRunner().invoke(cli.app, ["classes", str(tmp_path / "none.json")])
    assert done.exit_code == 1 and "none.json: No such file" in done.stderr
    (tmp_path / "stream.json").write_bytes(b"\x47\xff\xfe")
    done = CliRunner().invoke(cli.app, ["classes", str(tmp_path / "stream.json")])
    assert done.exit_code == 1 and "it is no text" in done.stderr
