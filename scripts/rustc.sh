#!/usr/bin/env bash
# Compiles a crate of the workspace and lints it and its documentation: RUSTC_WORKSPACE_WRAPPER of `make test`.
# cargo calls it with `rustc` and the arguments of that.
#
# `cargo clippy` and `cargo doc` would each compile the metadata of all dependencies once more. Warnings are errors, so
# cargo never takes a crate with warnings for built.
set -euo pipefail
clippy-driver "$@" -D warnings

# Documented are libraries, as by `cargo doc`: the one program has `doc = false`.
shift
crate=() source='' kind=''
while (($#)); do
    case $1 in
    --test) exit ;;
    --crate-type)
        kind=$2
        shift
        ;;
    --crate-name | --extern | --cfg | --check-cfg | -L)
        crate+=("$1" "$2")
        shift
        ;;
    # What the compiler alone takes, with its value.
    -C | -l | --out-dir) shift ;;
    -C* | -l* | --emit=*) ;;
    --json=*) crate+=(--json=diagnostic-rendered-ansi) ;;
    -*) crate+=("$1") ;;
    *) source=$1 ;;
    esac
    shift
done
# Programs, examples, benchmarks and build scripts; and calls that only ask for the version.
[[ $source = */src/* && $kind != bin ]] || exit 0
[[ $kind = proc-macro ]] || kind=lib
pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
rustdoc "${crate[@]}" --crate-type "$kind" "$source" --out-dir "$pages" -D warnings
