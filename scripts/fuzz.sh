#!/usr/bin/env bash
# Runs every fuzz target for a bounded time. Usage: fuzz.sh SECONDS
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=$1
rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal
cargo fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz
for target in $(cd fuzz && cargo +nightly fuzz list); do
    echo "== $target: $seconds s"
    # New inputs go to a folder of their own: the committed corpus changes only on purpose.
    mkdir -p "fuzz/target/found/$target"
    log=fuzz/target/found/$target.log
    if ! cargo +nightly fuzz run "$target" "fuzz/target/found/$target" "fuzz/corpus/$target" -- \
        -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        echo "error: $target failed; its input is in fuzz/artifacts/$target" >&2
        exit 1
    fi
    grep 'stat::number_of_executed_units' "$log"
done
