#!/usr/bin/env bash
# Counts the instructions of fixed runs of the simulator with callgrind: a dumbbell of TCP, XUNET, a chain of switches.
# The counts of one compiler and profile repeat within 0.01 %, however busy the machine is. A change that moves code
# keeps each of them within 1 % of the count before it.
#
# Usage: cost.sh [RUN...]        runs: dumbbell xunet chain-cells chain-datagrams
# Environment: PROFILE (default release), the cargo profile; compare counts of one profile only.
# Prints a line for each run: its name, the instructions, and the instructions for each hop of a packet or cell.
set -euo pipefail
cd "$(dirname "$0")/.."
profile=${PROFILE:-release}
if ! command -v valgrind >/dev/null; then
    echo "valgrind is missing: apt-get install valgrind" >&2
    exit 2
fi
cargo build --quiet --profile "$profile" -p layercast-sim --example cost
folder=$profile
[ "$folder" != dev ] || folder=debug
program=${CARGO_TARGET_DIR:-target}/$folder/examples/cost
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
[ $# -gt 0 ] || set -- dumbbell xunet chain-cells chain-datagrams
for run in "$@"; do
    valgrind --tool=callgrind --callgrind-out-file="$out/callgrind" "$program" "$run" >"$out/moved" 2>"$out/log" || {
        cat "$out/log" >&2
        exit 1
    }
    instructions=$(awk '/^summary:|^totals:/ { print $2; exit }' "$out/callgrind")
    hops=$(grep -o '_hops":[0-9]*' "$out/moved" | grep -o '[0-9]*$' | sort -n | tail -1)
    awk -v run="$run" -v n="$instructions" -v hops="$hops" \
        'BEGIN { printf "%-16s %14.0f instructions %8.1f for each of %d hops\n", run, n, n / hops, hops }'
done
