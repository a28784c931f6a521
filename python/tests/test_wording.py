"""The lint of banned phrases: scripts/wording.py."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/wording.py"
SPEC = importlib.util.spec_from_file_location("wording", SCRIPT)
wording = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(wording)


def phrases(name: str, source: str) -> list[tuple[int, str]]:
    return [(found.line, found.phrase) for found in wording.findings(name, source)]


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("a.rs", "/// The peer who sends.\nfn who() {}", [(1, "who")]),
        ("a.rs", '#[error("nobody is there")]', [(1, "nobody")]),
        ("a.rs", 'r#"it said "go on" and left"#', [(1, "go on")]),
        ("a.rs", "/* first\n so many */ let told = 1;", [(2, "so many")]),
        ("a.py", '"""Waits.\n\nIs told what comes."""', [(3, "told"), (3, "what comes")]),
        ("a.py", 'x = f"{told[0]} went on"  # at once', [(1, "at once"), (1, "went on")]),
        ("a.md", "Text.\n\n```\nnobody\n```\n\nWhoever reads.", [(7, "Whoever")]),
        ("a.toml", 'key = "nobody" # so long', [(1, "so long")]),
    ],
)
def test_phrases_are_found_in_text(name: str, source: str, expected: list[tuple[int, str]]) -> None:
    assert phrases(name, source) == expected


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.rs", 'let who = told(seat); let c = \'"\'; // plain\nlet d = "x";'),
        ("a.rs", "/// A user who reads `told`.\n/// Who may join? Members."),
        ("a.rs", 'stream("ties/who"); panic!("level {told} is missing");'),
        ("a.py", "told = 'nobody'"),
        ("a.md", "So far `so many` is code, and people who read it know."),
        ("a.toml", 'who = "nobody goes on"'),
    ],
)
def test_code_and_people_are_not_found(name: str, source: str) -> None:
    assert phrases(name, source) == []


def test_a_phrase_over_two_lines_is_one() -> None:
    assert phrases("a.rs", "    /// This goes\n    /// on.\n") == [(1, "goes on")]
    assert phrases("a.py", "# As so\n# many others.\n") == [(1, "so many")]
    assert phrases("a.rs", "/// This goes\nfn on() {}\n/// on.\n") == []


def test_findings_have_a_place_and_advice_and_fail(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    run = [sys.executable, str(SCRIPT), str(path)]
    path.write_text("Fine.\n\nIt is done at once.\n")
    found = subprocess.run(run, capture_output=True, text=True, check=False)
    assert found.stdout == f"{path}:3: at once: immediately, or simultaneously\n"
    assert found.returncode == 1
    path.write_text("Fine.\n")
    assert subprocess.run(run, capture_output=True, text=True, check=False).returncode == 0
