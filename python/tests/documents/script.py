"""From the blocks of a page to one bash script that runs them in order and reports what failed."""

import itertools
import re
import shlex

from . import blocks
from .blocks import Block

# Commands that run until they are interrupted: in the foreground they have a terminal of their own.
SERVICE = re.compile(
    r"\blayercast (serve|switch|web|xtpd|fec edge|path recv|emulate(?!-)|policer-probe --listen)\b"
    r"|\blayercast receive\b.*--forever|\bhttp\.server\b|^\s*cat\b.*\| *layercast serve"
)
NODE = re.compile(r"\blayercast (serve|switch)\b")
# `URL` as an argument, and a URL with something left out.
PLACE = re.compile(r"'layercasts?://[^' ]*\.\.[^' ]*'|'URL([^' ]*)'|(?<![\w/-])URL(?![\w=])")
LINGER = "3"


def of_page(page: list[Block]) -> str:
    """The script of those blocks of a page that are run."""
    return "\n".join(map(of_block, page))


def of_block(block: Block) -> str:
    """The script of a block."""
    nodes = 0
    script = [f"begin {shlex.quote(block.name)}"]
    every = [*block.notes.get("setup", []), *(command for _, command in blocks.commands(block.text))]
    for command in [*every, *block.notes.get("while", [])]:
        line, nodes = of_command(command, nodes)
        script += [f"say {shlex.quote(command)}", line]
    linger = "0" if "while" in block.notes else LINGER
    script.append(f"finish {block.note('linger') or linger}")
    script += outcomes(block)
    script += block.notes.get("check", [])
    script.append(f"echo 'end {block.name}' >&3")
    return "\n".join(script) + "\n"


def of_command(command: str, nodes: int) -> tuple[str, int]:
    """One command as it is run, after `nodes` nodes of its block, and the number of nodes after it.

    It is literal but for URLs that another command printed, and the host of its prompt.
    """
    seen = nodes
    command = PLACE.sub(lambda found: f'"$(address {max(seen, 1)})"', command)
    nodes += len(NODE.findall(command)) if "--help" not in command else 0
    background = blocks.in_background(command)
    if prompt := blocks.PROMPT.match(command):
        host, command = prompt.groups()
        command, background = f"host {host}\n{{ trap - ERR; on {host} {shlex.quote(command)}; }} &", True
    elif not background and SERVICE.search(command):
        command, background = f"{{ trap - ERR; {command}\n}} &", True
    if background:
        # A job in the background has a process group of its own; one in the foreground has the terminal.
        command = f"set -m\n{command}\nset +m\nstarted $! {shlex.quote(command.splitlines()[0])}"
        command += "\nsleep 0.3" if prompt else ""
    return command, nodes


def outcomes(block: Block) -> list[str]:
    """What every command must have left behind, by what its options say."""
    checks: list[str] = []
    received: str | None = None
    for _, command in blocks.commands(block.text):
        try:
            words = shlex.split(command.split(" | ")[0], comments=True)
        except ValueError:
            continue
        name = " ".join(words[:2])
        for option, value in itertools.pairwise(words):
            quoted = shlex.quote(value)
            if name in ("layercast join", "layercast filter") and option in ("--out", "-o"):
                if value != "-" and "://" not in value:
                    checks.append(f"pictures {quoted}")
            elif name == "layercast receive" and option == "--out":
                received = value
            elif option == "--pcap":
                checks.append(f"capture {quoted}")
            elif option == "--trace":
                checks.append(f"trace {quoted}")
            elif option == ">" and value.endswith(".json"):
                checks.append(f"json {quoted}")
        if name == "layercast receive" and received is None:
            received = "."
        if name == "layercast send" and received is not None:
            files = [
                word for word in words[2:] if "." in word and ":" not in word and not word.startswith("-")
            ]
            files = [word for word in files if not re.fullmatch(r"[\w.]*example[\w.]*|[\d.]+", word)]
            for file in files:
                if received != ".":
                    checks.append(f"cmp {shlex.quote(file)} {shlex.quote(received + '/' + file)}")
    return checks
