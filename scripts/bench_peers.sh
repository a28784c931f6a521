#!/usr/bin/env bash
# Layercast beside others over the same emulated path; docs/src/results/bench-media.md says what and how.
# Usage: bench_peers.sh PYTHON TARGET_DIR
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 target=$2
mkdir -p "$target/bench"
"$python" scripts/peers/srt.py "$target/release/layercast" "$target/bench" "${RUNS:-3}"
"$python" scripts/peers/jitter.py "$target/release/layercast" "$target/bench"
"$python" scripts/peers/repair.py "$target/release/layercast" "$target/bench" --runs "${RUNS:-3}"
