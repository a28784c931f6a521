#!/usr/bin/env bash
# Makes sure that the named tools (those of the table below) can be used:
# from the system, with apt where that is possible, else ffmpeg from the imageio-ffmpeg wheel.
# Usage: install_tools.sh PYTHON TOOL...
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
shift

declare -A package=([ffmpeg]=ffmpeg [tshark]=tshark [chromium]=chromium [srt-live-transmit]=srt-tools [ristsender]=rist-tools
    [ns]=ns2 [ns3-dev]=libns3-dev [srt-dev]=libsrt-openssl-dev [isal]=libisal-dev
    [iperf3]=iperf3 [jq]=jq [snmpbulkwalk]=snmp [curl]=curl [ping]=iputils-ping [ip]=iproute2
    [uftp]=uftp [nft]=nftables [ethtool]=ethtool [libnorm]=libnorm1
    [gst-launch-1.0]="gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good python3-gi gir1.2-gstreamer-1.0"
    [gst-dev]="libgstreamer1.0-dev pkg-config" [aom-dev]=libaom-dev [openh264-dev]=libopenh264-dev
    [gst-elements]="gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good gstreamer1.0-plugins-bad gstreamer1.0-libav")

# GStreamer plays streams only with the elements that the tests use.
have() {
    [ "$1" != isal ] || { [ -e /usr/include/isa-l.h ]; return; }
    [ "$1" != ns3-dev ] || { [ -e /usr/include/ns3/core-module.h ]; return; }
    [ "$1" != srt-dev ] || { [ -e /usr/include/srt/srt.h ]; return; }
    [ "$1" != libnorm ] || { ldconfig -p | grep -q 'libnorm\.so\.1 '; return; }
    [ "$1" != aom-dev ] || { [ -e /usr/include/aom/aomcx.h ]; return; }
    [ "$1" != openh264-dev ] || { [ -e /usr/include/wels/codec_api.h ]; return; }
    [ "$1" != gst-dev ] || { pkg-config --exists gstreamer-base-1.0 2>/dev/null; return; }
    [ "$1" = gst-elements ] || { command -v "$1" >/dev/null; return; }
    for element in udpsrc tsdemux h264parse rtph264depay avdec_h264 checksumsink mpegtsmux mpegvideoparse mpegaudioparse; do
        gst-inspect-1.0 --exists "$element" 2>/dev/null || return 1
    done
}
missing=()
for tool in "$@"; do
    have "$tool" || missing+=("$tool")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing ${missing[*]} with apt-get" >&2
    packages=()
    # A tool may be several packages.
    # shellcheck disable=SC2206
    for tool in "${missing[@]}"; do packages+=(${package[$tool]}); done
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    install() {
        apt-get update && apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${packages[@]}"
    } >"$log" 2>&1
    # Another apt may be at work: then once more.
    install || { sleep 10; install; } || tail -n 20 "$log" >&2
    rm -f "$log"
fi

for tool in "${missing[@]}"; do
    have "$tool" && continue
    if [ "$tool" = ffmpeg ]; then
        "$python" -m pip install --quiet imageio-ffmpeg
        mkdir -p target/tools/bin
        ln -sf "$("$python" -c 'import imageio_ffmpeg; print(imageio_ffmpeg.get_ffmpeg_exe())')" target/tools/bin/ffmpeg
        continue
    fi
    echo "error: $tool is missing and could not be installed; install it with your package manager, or set" \
        "LAYERCAST_REQUIRE_TOOLS=0 and leave out the tests that need it" >&2
    [ "${LAYERCAST_REQUIRE_TOOLS:-1}" = 0 ] || exit 1
done
