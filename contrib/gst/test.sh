#!/usr/bin/env bash
# Builds layercastsrc and layercastsink and runs them: what gst-inspect-1.0 says, then pipelines from `layercast serve` to
# decoded pictures, from a file to `layercast join`, and of both elements.
# Usage: test.sh LAYERCAST FOLDER (with liblayercast_c.so)
set -euo pipefail
layercast=$1 libraries=$2
here=$(cd "$(dirname "$0")" && pwd)
out=$libraries/gst
mkdir -p "$out"

# shellcheck disable=SC2046
cc -std=c11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Werror -fPIC -shared "$here"/*.c -o "$out/libgstlayercast.so" \
    -I"$here/../../crates/capi/include" $(pkg-config --cflags --libs gstreamer-1.0 gstreamer-base-1.0) \
    -L"$libraries" -Wl,-rpath,"$(realpath "$libraries")" -llayercast_c
export GST_PLUGIN_PATH=$out GST_REGISTRY=$out/registry.bin
gst-inspect-1.0 layercastsrc | grep -A4 'URI handling'
gst-inspect-1.0 layercastsink | grep -A2 '^  url  '

work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT
fail() { echo "error: $*" >&2; cat "$work"/*.log >&2; exit 1; }

# Renditions of 8 s with 25 pictures/s, and a stream of one rendition.
program=(-program program_num=1:st=0 -program program_num=2:st=1)
ffmpeg -nostdin -v error -y -f lavfi -i testsrc2=rate=25:size=640x360 -t 8 -filter_complex '[0:v]split=2[a][b];[a]scale=320:180[low];[b]null[high]' \
    -map '[low]' -map '[high]' -c:v libx264 -preset veryfast -bf 2 -x264-params scenecut=0:open-gop=0:b-pyramid=none -g 250 \
    -force_key_frames 'expr:gte(t,n_forced*1)' -b:v:0 200k -b:v:1 600k "${program[@]}" -f mpegts "$work/renditions.ts"
ffmpeg -nostdin -v error -y -i "$work/renditions.ts" -map 0:v:1 -c copy -f mpegts "$work/film.ts"

# Serves a clip with these options, and plays it by `layercastsrc` and these words; prints a line for each picture.
play() { # NAME CLIP SERVE-OPTIONS -- WORDS..
    local name=$1 clip=$2 options=()
    shift 2
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    "$layercast" serve "$clip" --listen 127.0.0.1:0 --start-when-joined 1 "${options[@]}" >"$work/$name.url" 2>"$work/$name-serve.log" &
    local server=$!
    for _ in $(seq 100); do grep -qm1 'layercasts://' "$work/$name.url" && break; sleep 0.1; done
    local url
    url=$(grep -om1 'layercasts://[^ ]*' "$work/$name.url") || fail "serve gives no URL"
    # With its messages, lines of several threads would run into each other; warnings and errors go to standard error.
    timeout 60 gst-launch-1.0 --quiet "${@//URL/$url}" >"$work/$name.out" 2>"$work/$name.log" || fail "$name: the pipeline failed"
    wait "$server" || fail "$name: serve failed"
    [ ! -s "$work/$name.log" ] || fail "$name: warnings"
    grep -E '^[0-9]:[0-9:.]+ [0-9a-f]{32}$' "$work/$name.out" || true
}
film=$work/renditions.ts
sums() { ffmpeg -nostdin -v error -i "$film" -map "0:v:$1" -fps_mode passthrough -f framemd5 - | grep -v '^#' | sed 's/.*, *//'; }
I420=(videoconvert '!' 'video/x-raw,format=I420' '!' checksumsink hash=md5 sync=false)

expect() { # NAME PROGRAM PICTURES: as many pictures, equal to those of the program from the first key frame on
    local pictures
    pictures=$(wc -l <"$work/$1.sums")
    [ "$pictures" -ge "$3" ] || fail "$1: $pictures pictures instead of $3"
    cmp <(awk '{ print $2 }' "$work/$1.sums") <(sums "$2" | tail -n "$pictures") || fail "$1: other pictures"
    echo "$1: $pictures pictures, equal to those of program $(($2 + 1))"
}

play film "$work/film.ts" -- layercastsrc uri=URL '!' tsdemux '!' h264parse '!' avdec_h264 '!' "${I420[@]}" >"$work/film.sums"
expect film 1 200
# A URI handler: decoders are found by themselves. The lower of two renditions, all of its pictures.
play low "$work/renditions.ts" --renditions programs -- layercastsrc uri=URL level=0 '!' decodebin '!' "${I420[@]}" >"$work/low.sums"
expect low 0 200
play uri "$work/film.ts" -- uridecodebin uri=URL '!' "${I420[@]}" >"$work/uri.sums"
expect uri 1 200

# Renditions with sound over a line whose rate changes every 1.4 s: all pictures, each of one of the renditions, without a
# gap of the sound and without a warning.
ffmpeg -nostdin -v error -y -f lavfi -i testsrc2=rate=25:size=640x360 -f lavfi -i sine=sample_rate=48000 -t 26 \
    -filter_complex '[0:v]split=2[a][b];[a]scale=320:180[low];[b]null[high]' -map '[low]' -map '[high]' -map 1:a -c:a aac -b:a 96k \
    -c:v libx264 -preset veryfast -bf 2 -x264-params scenecut=0:open-gop=0:b-pyramid=none -g 250 \
    -force_key_frames 'expr:gte(t,n_forced*0.5)' -b:v:0 200k -b:v:1 600k -program program_num=1:st=0:st=2 -program program_num=2:st=1 \
    -f mpegts "$work/switching.ts"
steps=''
for i in $(seq 16); do
    steps+=",$(awk "BEGIN { print 1.5 + 1.4 * $i }")s:$((i % 2 ? 55 : 100))%"
done
play switches "$work/switching.ts" --renditions programs --port "seen=1200kbit/s,schedule=${steps#,}" -- layercastsrc uri=URL member=seen '!' \
    tsdemux name=d d. '!' queue '!' h264parse '!' avdec_h264 '!' "${I420[@]}" d. '!' queue '!' aacparse '!' checksumsink hash=sha1 sync=false \
    >"$work/switches.sums"
film=$work/switching.ts
paste -d' ' <(sums 0) <(sums 1) <(awk '{ print $2 }' "$work/switches.sums") | awk '
    { now = $3 == $1 ? "low" : $3 == $2 ? "high" : "none" }
    now == "none" { print "picture " NR " is of no rendition"; exit 1 }
    NR > 1 && now != last { at[++changes] = NR / 25 }
    { last = now }
    END {
        if (NR != 650) { print NR " pictures instead of 650"; exit 1 }
        if (changes < 14 || at[14] - at[1] > 20) { print changes " changes of the rendition"; exit 1 }
        print "switches: 650 pictures, each of a rendition; 14 changes in " at[14] - at[1] " s"
    }' || fail "switches: pictures"
# A frame of sound is 21.3 ms, to which tsdemux adds what it estimates of the clock: 22.7 ms were seen where the stream has exact times. A
# missing frame would make it 42.7 ms.
grep -E '^[0-9]:[0-9:.]+ [0-9a-f]{40}$' "$work/switches.out" | awk -F'[: ]' '
    { at = 3600 * $1 + 60 * $2 + $3 }
    NR > 1 && (at - last > 0.032 || at <= last) { print "sound jumps from " last " to " at; exit 1 }
    { last = at }
    END { if (NR < 1200) { print NR " frames of sound"; exit 1 } print "switches: " NR " frames of sound without a gap" }
    ' || fail "switches: sound"
# Each frame of it is the next one of the stream.
grep -oE '[0-9a-f]{40}$' "$work/switches.out" >"$work/switches.sound"
ffmpeg -nostdin -v error -i "$film" -map 0:a -c copy -f framehash -hash sha160 - | awk -F', *' '!/^#/ { print $6 }' >"$work/stream.sound"
first=$(grep -nxm1 "$(head -1 "$work/switches.sound")" "$work/stream.sound" | cut -d: -f1) || fail "switches: sound of another stream"
cmp <(tail -n "+$first" "$work/stream.sound" | head -n "$(wc -l <"$work/switches.sound")") "$work/switches.sound" || fail "switches: other sound"
film=$work/renditions.ts

# What `layercast join` writes of the flow at @NAME.url until its end, decoded: the last pictures of a program.
join() { # NAME PROGRAM PICTURES JOIN-OPTIONS..
    local name=$1 program=$2 least=$3
    shift 3
    for _ in $(seq 150); do [ -s "$work/$name.url" ] && break; sleep 0.1; done
    timeout 60 "$layercast" join "@$work/$name.url" "$@" --out "$work/$name-got.ts" >"$work/$name-join.log" 2>&1 || fail "$name: join failed"
    ffmpeg -nostdin -v warning -xerror -i "$work/$name-got.ts" -map 0:v -fps_mode passthrough -f framemd5 "$work/$name.decoded" \
        2>"$work/$name-decoded.log" || fail "$name: ffmpeg cannot decode it"
    [ ! -s "$work/$name-decoded.log" ] || fail "$name: ffmpeg has complaints"
    sed '/^#/d; s/.*, */x /' "$work/$name.decoded" >"$work/$name.sums"
    expect "$name" "$program" "$least"
}
sink() { # NAME: a sink on this machine that writes the URL
    printf '%s ' layercastsink address=127.0.0.1 port=0 "flow=$1" "url-file=$work/$1.url"
}
launch() { # NAME WORDS..: a pipeline in the background
    local name=$1
    shift
    timeout 60 gst-launch-1.0 --quiet "$@" >"$work/$name.out" 2>"$work/$name.log" &
    sender=$!
}
sent() { # NAME: the pipeline ended with its stream, and has reported nothing
    wait "$sender" || fail "$1: the pipeline failed"
    [ ! -s "$work/$1.log" ] || fail "$1: warnings"
}

# shellcheck disable=SC2046
launch muxed filesrc location="$work/film.ts" '!' tsdemux '!' h264parse config-interval=-1 '!' mpegtsmux alignment=7 '!' $(sink muxed)
join muxed 1 50
sent muxed
# shellcheck disable=SC2046
launch renditions filesrc location="$work/renditions.ts" '!' tsparse set-timestamps=true '!' $(sink renditions) renditions=true
join renditions 0 50 --level 0
sent renditions
# A pipeline of both elements.
"$layercast" serve "$work/film.ts" --listen 127.0.0.1:0 --start-when-joined 1 >"$work/origin.url" 2>"$work/origin.log" &
origin=$!
for _ in $(seq 100); do grep -qm1 'layercasts://' "$work/origin.url" && break; sleep 0.1; done
# shellcheck disable=SC2046
launch both layercastsrc uri="$(grep -om1 'layercasts://[^ ]*' "$work/origin.url")" '!' $(sink both)
join both 1 50
sent both
wait "$origin" || fail "both: serve failed"

# What is no stream, and a port that is taken, are errors that say so.
head -c 100000 /dev/urandom >"$work/noise"
refused() { # NAME WORDS..: the error
    local name=$1
    shift
    if timeout 60 gst-launch-1.0 "$@" >"$work/$name.log" 2>&1; then fail "$name was served"; fi
    grep -o 'Cannot serve .*\|The stream cannot be served: .*' "$work/$name.log" | head -1 | grep . || fail "$name: no error"
}
# shellcheck disable=SC2046
refused noise filesrc location="$work/noise" '!' 'video/mpegts,systemstream=true' '!' $(sink noise)
"$layercast" serve "$work/film.ts" --loop --listen 127.0.0.1:7433 >"$work/taken.url" 2>"$work/taken.log" &
taken=$!
for _ in $(seq 100); do grep -qm1 'layercasts://' "$work/taken.url" && break; sleep 0.1; done
refused port filesrc location="$work/film.ts" '!' tsparse '!' layercastsink address=127.0.0.1 port=7433
kill -INT "$taken"
# Stopped in the middle it ends its flow: a receiver does not wait for it.
# shellcheck disable=SC2046
launch stopped filesrc location="$work/film.ts" '!' tsparse set-timestamps=true '!' $(sink stopped)
for _ in $(seq 150); do [ -s "$work/stopped.url" ] && break; sleep 0.1; done
"$layercast" join "@$work/stopped.url" --out "$work/stopped-got.ts" >"$work/stopped-join.log" 2>&1 &
receiver=$!
sleep 2
pkill -INT -P "$sender"
wait "$sender" || true
for _ in $(seq 50); do kill -0 "$receiver" 2>/dev/null || break; sleep 0.1; done
! kill -0 "$receiver" 2>/dev/null || fail "stopped: the receiver waits"
grep -q 'the flow is over' "$work/stopped-join.log" || fail "stopped: the flow is not closed"

# A flow that is not there is an error that says so.
if gst-launch-1.0 layercastsrc uri=layercast://127.0.0.1:1/film within=300 '!' fakesink >"$work/none.log" 2>&1; then
    fail "a flow that is not there was received"
fi
grep -o 'Cannot join layercast://127.0.0.1:1/film: .*' "$work/none.log" | head -1
# Leaving in the middle ends the pipeline, and raises no signal.
"$layercast" serve "$work/film.ts" --loop --listen 127.0.0.1:0 >"$work/leave.url" 2>"$work/leave-serve.log" &
server=$!
for _ in $(seq 100); do grep -qm1 'layercasts://' "$work/leave.url" && break; sleep 0.1; done
url=$(grep -om1 'layercasts://[^ ]*' "$work/leave.url")
timeout 30 gst-launch-1.0 layercastsrc uri="$url" num-buffers=20 '!' fakesink >"$work/leave.log" 2>&1 || fail "leaving: exit code $?"
kill -INT "$server"
echo "all pipelines passed"
