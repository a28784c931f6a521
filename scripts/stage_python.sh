#!/usr/bin/env bash
# Puts the Python packages with the bindings that cargo has built side by side, without touching those that `make lab`
# has installed. Usage: stage_python.sh BUILD, such as target/debug; they are in BUILD/python.
set -euo pipefail
build=$1 sources=$(cd "$(dirname "$0")/../python" && pwd)
mkdir -p "$build/python/layercast"
ln -sfn "$sources/layercast_lab" "$build/python/layercast_lab"
ln -sf "$sources"/layercast/*.py "$sources/layercast/py.typed" "$build/python/layercast/"
ln -sf ../../lib_layercast.so "$build/python/layercast/_layercast.abi3.so"
