#!/usr/bin/env bash
# Layercast beside others over the same emulated path; docs/src/results/bench-media.md and bench-live.md say what
# and how.
# Usage: bench_peers.sh PYTHON TARGET_DIR
# Environment: PARTS (srt renditions jitter repair latency hops start cost), what is run, by default all. ROWS,
# conditions of the part `repair` with commas between, such as "3 %,5 % in bursts of 20": only these rows, and
# without PARTS only this part. RUNS (default 3). LAYERCAST, the program; BENCH_URGENT=1, as root: the measured
# programs run before all others.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 target=$2
layercast=${LAYERCAST:-$target/release/layercast} out=$target/bench runs=${RUNS:-3}
all="srt renditions jitter repair latency hops start cost"
[ -z "${ROWS:-}" ] || all=repair
rows=()
[ -z "${ROWS:-}" ] || rows=(--conditions "$ROWS")
mkdir -p "$out"
for part in ${PARTS:-$all}; do
    case $part in
    srt | renditions) "$python" scripts/peers/srt.py "$layercast" "$out" --set "$part" --runs "$runs" ;;
    jitter) "$python" scripts/peers/jitter.py "$layercast" "$out" ;;
    repair) "$python" scripts/peers/repair.py "$layercast" "$out" --runs "$runs" "${rows[@]}" ;;
    latency) ${BENCH_URGENT:+chrt -f 20} "$python" scripts/peers/latency.py "$layercast" "$out" --seconds 60 --runs "$runs" ;;
    hops) "$python" scripts/peers/hops.py "$layercast" "$out" --seconds 60 --playouts 300 --runs "$runs" ;;
    start) "$python" scripts/peers/fast_start.py "$layercast" "$out" --loss 3 --gops 2,8 --seeds "$runs" ;;
    cost) "$python" scripts/peers/repair_cost.py "$layercast" "$out" ;;
    *)
        echo "bench_peers.sh: no part $part; the parts are $all" >&2
        exit 2
        ;;
    esac
done
