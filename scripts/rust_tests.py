"""Runs what `cargo test --workspace` runs, in two streams: the tests of sockets, and the others beside them.

Tests of sockets wait in real time and leave the processors idle. The others compute, and yield (`nice`).
What is not built yet is built first. Exit code 1: a test has failed.
"""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

# The packages whose tests play media and send files in real time.
REAL_TIME = {"layercast", "layercast-c", "layercast-cli", "layercast-net"}
YIELD = 10
# Seconds after which a binary counts as hung.
HUNG = 900

printing = Lock()
running: set[int] = set()


def binaries() -> list[dict]:
    """The test binaries of the workspace: path, package, folder of the package."""
    cargo = ["cargo", "test", "--workspace", "--no-run", "--message-format=json"]
    built = subprocess.run(cargo, stdout=subprocess.PIPE, text=True, check=True)
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    found = []
    for message in messages:
        if message.get("executable") and message["profile"]["test"]:
            folder = Path(message["manifest_path"]).parent
            # .../crates/fec#layercast-fec@0.2.0, or #0.2.0 if the folder has the name of the package.
            end = message["package_id"].rpartition("#")[2]
            package = end.partition("@")[0] if "@" in end else folder.name
            source = os.path.relpath(message["target"]["src_path"], folder)
            found.append(
                {"path": message["executable"], "package": package, "folder": folder, "source": source}
            )
    return found


def run(name: str, command: list[str], nice: int, **options) -> bool:
    """Runs one binary and prints its output as a whole."""
    begun = time.monotonic()
    if nice:
        command = ["nice", "-n", str(nice), *command]
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    child = subprocess.Popen(command, process_group=0, **options)
    running.add(child.pid)
    try:
        output, _ = child.communicate(timeout=HUNG)
    except subprocess.TimeoutExpired:
        # What it has started holds the pipe, too.
        os.killpg(child.pid, signal.SIGKILL)
        output, _ = child.communicate()
        output += f"\nnot done within {HUNG} s"
    running.discard(child.pid)
    with printing:
        print(f"     Running {name}\n{output}", flush=True)
        verdict = "ok" if child.returncode == 0 else "FAILED"
        print(f"     {verdict}: {name}, {time.monotonic() - begun:.0f} s", flush=True)
    return child.returncode == 0


def stream(every: list[dict], nice: int) -> list[str]:
    """Runs binaries one after the other; the names of those that failed."""
    failed = []
    for it in every:
        name = f"{it['package']} {it['source']}"
        env = os.environ | {"CARGO_MANIFEST_DIR": str(it["folder"]), "CARGO_PKG_NAME": it["package"]}
        if not run(name, [it["path"]], nice, cwd=it["folder"], env=env):
            failed.append(name)
    return failed


def main() -> int:
    """Runs both streams; the exit code."""
    found = binaries()
    waiting = [it for it in found if it["package"] in REAL_TIME]
    computing = [it for it in found if it["package"] not in REAL_TIME]
    assert waiting and computing, "cargo has named no test binaries"

    def computed() -> list[str]:
        failed = stream(computing, YIELD)
        docs = "the examples in doc comments"
        return failed if run(docs, ["cargo", "test", "--workspace", "--doc"], YIELD) else [*failed, docs]

    # Not in a `with`: that would wait for the threads after Ctrl-C.
    pool = ThreadPoolExecutor(2)
    streams = [pool.submit(stream, waiting, 0), pool.submit(computed)]
    failed = [name for one in streams for name in one.result()]
    for name in failed:
        print(f"failed: {name}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        for group in running:
            os.killpg(group, signal.SIGKILL)
        os._exit(130)
