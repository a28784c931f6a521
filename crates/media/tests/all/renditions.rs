//! Whole renditions as levels: what receivers get of each, and of changes between them, is what ffmpeg decodes.
//!
//! Skipped with a note where ffmpeg is missing, unless `LAYERCAST_REQUIRE_TOOLS=1` is set.

use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use layercast_core::{Composition, Layer, PerLayer, Serial, Span, Time};
use layercast_media::{Clip, FlowWriter, Frame, OutputForm, Received, RenditionNote, Renditions};

use crate::common::{file, have_ffmpeg, have_gstreamer, once};

/// Three programs of 20 s with key frames each second, sound in the first.
const ALIGNED: &str = "-force_key_frames expr:gte(t,n_forced*1) -x264-params scenecut=0:open-gop=0";

/// The renditions that the options of `encoder` make, written once.
fn made(name: &str, seconds: u32, encoder: &str) -> Bytes {
    let data = once(name, || {
        let path = file(&format!("{name}.ts"));
        let seconds = seconds.to_string();
        let split = "[0:v]split=3[a][b][c];[a]scale=96:54[l];[b]scale=160:90[m];[c]copy[h]";
        ffmpeg(&["-f", "lavfi", "-i", "testsrc2=rate=25:size=320x180"])
            .args(["-f", "lavfi", "-i", "sine=frequency=440", "-t", &seconds])
            .args(["-filter_complex", split])
            .args(["-map", "[l]", "-map", "[m]", "-map", "[h]", "-map", "1:a"])
            .args(["-b:v:0", "60k", "-b:v:1", "150k", "-b:v:2", "400k"])
            .args(encoder.split_whitespace())
            .args(["-c:a", "mp2", "-program", "program_num=1:st=0:st=3"])
            .args(["-program", "program_num=2:st=1"])
            .args(["-program", "program_num=3:st=2", "-f", "mpegts"])
            .arg(&path)
            .status()
            .ok()
            .filter(std::process::ExitStatus::success)
            .expect("ffmpeg makes renditions");
        std::fs::read(path).expect("ffmpeg wrote it")
    });
    Bytes::from(data)
}

fn ffmpeg(input: &[&str]) -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-y", "-v", "warning", "-threads", "1"]);
    command.args(input);
    command
}

fn h264(name: &str, seconds: u32) -> Bytes {
    let encoder = format!("-c:v libx264 -preset veryfast -threads 1 {ALIGNED}");
    made(name, seconds, &encoder)
}

/// Writes what a test made of a stream.
fn written(name: &str, bytes: &[u8]) -> PathBuf {
    let path = file(name);
    std::fs::write(&path, bytes).expect("a file");
    path
}

/// The streams that `map` chooses: presentation time of each frame in ticks of 90 kHz and its checksum, pictures scaled to one
/// size. The decoder must not print anything.
fn decoded(path: &PathBuf, map: &str) -> Vec<(i64, String)> {
    let mut command = ffmpeg(&["-copyts", "-i"]);
    command.arg(path).args(["-map", map]);
    if !map.contains('a') {
        command.args(["-vf", "scale=160:90:flags=neighbor+bitexact+accurate_rnd"]);
        command.args(["-fps_mode", "passthrough", "-enc_time_base", "1:90000"]);
    }
    let output = command.args(["-f", "framemd5", "-"]).output();
    let output = output.expect("ffmpeg runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let frames = lines.filter_map(|line| {
        let mut fields = line.split(',').map(str::trim);
        let time = fields.nth(2)?.parse().ok()?;
        Some((time, fields.next_back()?.to_owned()))
    });
    frames.collect()
}

/// What a receiver writes of the frames that `passes` lets through.
fn received<'a>(frames: impl Iterator<Item = (usize, &'a Frame)>) -> Vec<u8> {
    let rate = layercast_core::FrameRate { num: 25, den: 1 };
    let mut writer = FlowWriter::new(layercast_core::Media::MpegTs, rate, OutputForm::Native);
    writer.set_composition(Composition::Alternative);
    writer.set_gop(Span::from_secs(1));
    let (mut out, mut ends) = (Vec::new(), Vec::new());
    let mut last: Option<usize> = None;
    for (index, frame) in frames {
        let gap = last.replace(index).map_or(0, |last| index - last - 1);
        let mut missing = PerLayer::<u32>::default();
        // Of renditions that are not received all is missing, whatever a receiver knows of it.
        for layer in Layer::ALL.into_iter().filter(|it| *it != frame.layer) {
            missing[layer] = gap as u32;
        }
        let received = Received {
            seq: Serial(index as u32),
            layer: frame.layer,
            gop_start: frame.gop_start,
            sound: frame.sound,
            missing,
            emitted: Time::ZERO.saturating_add(frame.time.expect("a time")),
            data: frame.data.as_deref().expect("bytes"),
        };
        writer.frame(&received, &mut out, &mut ends);
    }
    writer.finish(&mut out);
    assert_eq!(writer.stats().undecodable, 0, "{:?}", writer.stats());
    out
}

/// The frames that a receiver gets whose level at each second is the one of `levels`.
fn chosen<'a>(
    clip: &'a Clip,
    levels: &'a [Layer],
) -> impl Iterator<Item = (usize, &'a Frame)> + use<'a> {
    let mut second = 0;
    let mut seen: Option<Option<Span>> = None;
    clip.frames.iter().enumerate().filter(move |(_, frame)| {
        if frame.gop_start && Some(frame.time) != seen && seen.replace(frame.time).is_some() {
            second += 1;
        }
        let level = levels.get(second).or(levels.last());
        frame.sound || level == Some(&frame.layer)
    })
}

/// Why there is no clip of these files.
fn refused(files: &[Bytes]) -> String {
    let error = Clip::of_renditions(files).err();
    error.expect("they are refused").to_string()
}

#[test]
fn each_level_is_the_rendition_as_ffmpeg_decodes_it() {
    if !have_ffmpeg() {
        return;
    }
    let data = h264("renditions-20", 20);
    let whole = written("renditions-whole.ts", &data);
    let found = Clip::of_renditions(&[data]).expect("renditions");
    assert_eq!(found.notes, []);
    let sizes: Vec<u32> = found.renditions.iter().map(|it| it.width).collect();
    assert_eq!(sizes, [96, 160, 320]);
    assert!(
        found
            .renditions
            .iter()
            .all(|it| (it.aligned, it.alone) == (20, 0))
    );
    let sound = decoded(&whole, "0:a");
    for (index, layer) in Layer::ALL.into_iter().enumerate() {
        let out = received(chosen(&found.clip, &[layer]));
        let path = written(&format!("renditions-level-{index}.ts"), &out);
        let program = decoded(&whole, &format!("0:v:{index}"));
        assert_eq!(program.len(), 500);
        assert_eq!(decoded(&path, "0:v"), program, "{layer}");
        assert_eq!(decoded(&path, "0:a"), sound, "{layer}");
    }
}

/// Levels of 20 s, which change 14 times.
fn fourteen() -> Vec<Layer> {
    let levels = [0, 2, 1, 0, 1, 2, 2, 0, 2, 1, 1, 2, 0, 0, 1, 0, 2, 2, 1, 1];
    let levels = levels.map(|index| Layer::ALL[index]).to_vec();
    let changes = levels.windows(2).filter(|pair| pair[0] != pair[1]);
    assert_eq!(changes.count(), 14);
    levels
}

/// All renditions, and what a receiver writes whose level changes 14 times.
pub fn switched(name: &str) -> (PathBuf, PathBuf, Vec<u8>) {
    let data = h264("renditions-20", 20);
    let whole = written(&format!("{name}-whole.ts"), &data);
    let found = Clip::of_renditions(&[data]).expect("renditions");
    let out = received(chosen(&found.clip, &fourteen()));
    (whole, written(&format!("{name}.ts"), &out), out)
}

/// Of each second the pictures of the program that is its level.
pub fn by_level<T: Clone>(programs: &[Vec<T>; 3]) -> Vec<T> {
    let levels = fourteen();
    let picture = |number: usize| programs[levels[number / 25].index()][number].clone();
    (0..500).map(picture).collect()
}

#[test]
fn fourteen_changes_in_twenty_seconds_are_one_stream() {
    if !have_ffmpeg() {
        return;
    }
    let (whole, path, out) = switched("renditions-switched");
    let programs = [0, 1, 2].map(|index| decoded(&whole, &format!("0:v:{index}")));
    assert_eq!(decoded(&path, "0:v"), by_level(&programs));
    assert_eq!(decoded(&path, "0:a"), decoded(&whole, "0:a"));
    // Continuity counters, by packet identifier.
    let mut counters = std::collections::BTreeMap::new();
    for packet in out.chunks(188) {
        let pid = u16::from_be_bytes([packet[1] & 0x1F, packet[2]]);
        let (counter, payload) = (packet[3] & 15, packet[3] & 0x10 != 0);
        if let Some(last) = counters.insert(pid, counter) {
            let step = u8::from(payload);
            assert_eq!(counter, (last + step) & 15, "PID {pid}");
        }
    }
    assert_eq!(
        counters.len(),
        5,
        "PAT, SDT, PMT, video, sound: {counters:?}"
    );
}

/// The frames that GStreamer plays of a file: time and checksum. Its bus has no warning and no error.
fn played(path: &Path, demux: &str, branch: &str) -> Vec<(f64, String)> {
    let location = format!("location={}", path.display());
    let words = format!("filesrc {location} ! {demux} {branch} ! checksumsink hash=md5 sync=false");
    let output = Command::new("gst-launch-1.0")
        // With its messages, lines of several threads would run into each other; warnings and errors go to standard error.
        .arg("--quiet")
        .args(words.split_whitespace())
        .output()
        .expect("gst-launch-1.0 runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    let frames = text.lines().filter_map(|line| {
        let (time, sum) = line.split_once(' ')?;
        let seconds = time.strip_prefix("0:00:")?.parse().ok()?;
        (sum.len() == 32).then(|| (seconds, sum.to_owned()))
    });
    frames.collect()
}

#[test]
fn gstreamer_plays_every_picture_of_fourteen_changes_and_all_sound() {
    const VIDEO: &str = "d. ! queue ! videoconvert ! video/x-raw,format=I420";
    const SOUND: &str = "d. ! queue ! audioconvert ! audio/x-raw,format=F32LE,layout=interleaved";
    if !have_ffmpeg() || !have_gstreamer() {
        return;
    }
    let (whole, path, _) = switched("renditions-gstreamer");
    // As many pictures as ffmpeg decodes of each program, and equal ones.
    let programs = [0, 1, 2].map(|index| sums(&whole, &format!("0:v:{index}")));
    let pictures = played(
        &path,
        "decodebin name=d d. ! queue ! audioconvert ! fakesink",
        VIDEO,
    );
    let shown: Vec<String> = pictures.iter().map(|it| it.1.clone()).collect();
    assert_eq!(shown, by_level(&programs));
    for pair in pictures.windows(2) {
        let step = pair[1].0 - pair[0].0;
        assert!((step - 0.04).abs() < 1e-4, "{} s at {}", step, pair[0].0);
    }
    let demux = "decodebin name=d d. ! queue ! videoconvert ! fakesink";
    let sound = played(&path, demux, SOUND);
    assert!(sound.len() > 700, "{}", sound.len());
    let program = "tsdemux program-number=1 ! mpegaudioparse ! decodebin name=d";
    assert_eq!(sound, played(&whole, program, SOUND));
}

/// The checksums of the pictures of a program as ffmpeg decodes them, at their own size.
fn sums(path: &Path, map: &str) -> Vec<String> {
    let mut command = ffmpeg(&["-i"]);
    command
        .arg(path)
        .args(["-map", map, "-fps_mode", "passthrough"]);
    let output = command.args(["-f", "framemd5", "-"]).output();
    let text = String::from_utf8_lossy(&output.expect("ffmpeg runs").stdout).into_owned();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let sums = lines.filter_map(|line| Some(line.rsplit(',').next()?.trim().to_owned()));
    sums.collect()
}

#[test]
fn sound_and_frames_of_one_time_come_in_order() {
    if !have_ffmpeg() {
        return;
    }
    let clip = Clip::of_renditions(&[h264("renditions-4", 4)])
        .expect("renditions")
        .clip;
    assert!(clip.frames[0].gop_start && clip.frames[0].layer == Layer::Base);
    let spec = clip.flow_spec();
    assert_eq!(spec.validate(), Ok(()));
    assert_eq!(spec.composition, Composition::Alternative);
    let rates = spec
        .layers
        .iter()
        .map(|(_, it)| it.mean.0)
        .collect::<Vec<_>>();
    // Each is a whole level, sound in each.
    assert!(
        rates.is_sorted() && rates[0] * 3 / 2 < rates[2],
        "{rates:?}"
    );
    assert!(
        (spec.gop().as_secs_f64() - 1.0).abs() < 0.1,
        "{:?}",
        spec.gop()
    );
    assert!((spec.pictures_per_second().as_f64() - 25.0).abs() < 0.3);
    let pictures: Vec<&Frame> = clip.frames.iter().filter(|it| !it.sound).collect();
    for time in pictures.chunks(3) {
        let layers: Vec<Layer> = time.iter().map(|it| it.layer).collect();
        assert_eq!(layers, Layer::ALL);
        assert!(
            time.iter()
                .all(|it| it.time == time[0].time && it.gop_start == time[0].gop_start)
        );
    }
    assert!(
        clip.frames
            .iter()
            .all(|it| !it.sound || it.layer == Layer::Base && !it.gop_start)
    );
    let levels = clip.levels();
    assert!(
        levels.iter().all(|it| (it.fps - 25.0).abs() < 0.3),
        "{levels:?}"
    );
    assert_eq!(levels[2].share_percent, 100.0);
}

#[test]
fn renditions_in_several_files_are_those_of_one() {
    if !have_ffmpeg() {
        return;
    }
    let data = h264("renditions-4", 4);
    let whole = written("renditions-apart.ts", &data);
    // From the largest to the smallest: the order is found.
    let files: Vec<Bytes> = [3, 2, 1]
        .map(|program| {
            let path = file(&format!("renditions-apart-{program}.ts"));
            let status = ffmpeg(&["-copyts", "-i"])
                .arg(&whole)
                .args(["-map", &format!("0:p:{program}"), "-c", "copy"])
                .args(["-muxpreload", "0", "-muxdelay", "0.7", "-f", "mpegts"])
                .arg(&path)
                .status();
            assert!(status.expect("ffmpeg runs").success());
            Bytes::from(std::fs::read(path).expect("a file"))
        })
        .to_vec();
    let found = Clip::of_renditions(&files).expect("renditions");
    let inputs: Vec<Option<usize>> = found.renditions.iter().map(|it| it.id.input).collect();
    assert_eq!(inputs, [Some(2), Some(1), Some(0)]);
    let levels = [Layer::E2, Layer::Base, Layer::E1, Layer::E2];
    let path = written(
        "renditions-joined.ts",
        &received(chosen(&found.clip, &levels)),
    );
    let programs = [0, 1, 2].map(|index| decoded(&whole, &format!("0:v:{index}")));
    let expected: Vec<String> = (0..100)
        .map(|picture| programs[levels[picture / 25].index()][picture].1.clone())
        .collect();
    let shown: Vec<String> = decoded(&path, "0:v").into_iter().map(|it| it.1).collect();
    assert_eq!(shown, expected);
}

/// A rendition in a file, `seconds` long, whose octets come in the seconds for which `moves` holds.
fn apart(name: &str, size: &str, seconds: u32, moves: &str) -> Bytes {
    let data = once(name, || {
        let path = file(name);
        let status = ffmpeg(&["-f", "lavfi", "-i"])
            .arg(format!("testsrc2=rate=25:size={size}"))
            .args(["-vf", &format!("noise=alls=60:allf=t:enable='{moves}'")])
            .args(["-t", &seconds.to_string(), "-c:v", "libx264"])
            .args(["-preset", "ultrafast", "-threads", "1"])
            .args(ALIGNED.split_whitespace())
            .args(["-f", "mpegts"])
            .arg(&path)
            .status();
        assert!(status.expect("ffmpeg runs").success());
        std::fs::read(path).expect("a file")
    });
    Bytes::from(data)
}

fn pictures(clip: &Clip) -> [usize; 2] {
    [Layer::Base, Layer::E1].map(|layer| {
        let of_it = clip.frames.iter();
        of_it.filter(|it| it.layer == layer && !it.sound).count()
    })
}

#[test]
fn files_are_read_by_the_time_of_their_media_whatever_their_octets() {
    if !have_ffmpeg() {
        return;
    }
    let low = apart("renditions-early.ts", "96x54", 8, "lt(t,4)");
    let high = apart("renditions-late.ts", "160x90", 8, "gte(t,4)");
    let found = Clip::of_renditions(&[low.clone(), high]).expect("renditions");
    assert_eq!(pictures(&found.clip), [200, 200]);
    assert!(found.notes.is_empty(), "{:?}", found.notes);
    let keys = found.renditions.iter().map(|it| (it.aligned, it.alone));
    assert_eq!(keys.collect::<Vec<_>>(), [(8, 0); 2]);

    let short = apart("renditions-short.ts", "160x90", 5, "lt(t,0)");
    let found = Clip::of_renditions(&[low, short]).expect("renditions");
    assert_eq!(pictures(&found.clip), [125, 125]);
    let [RenditionNote::Ended { at, id }] = found.notes[..] else {
        panic!("{:?}", found.notes);
    };
    assert_eq!(id.input, Some(1));
    assert!((at.as_secs_f64() - 4.96).abs() < 0.01, "{at:?}");
}

#[test]
fn what_does_not_align_is_refused_with_the_setting_that_helps() {
    if !have_ffmpeg() {
        return;
    }
    // Key frames of the second rendition come half a second later.
    let encoder = "-c:v libx264 -preset veryfast -threads 1 -x264-params scenecut=0 -g 25 \
                   -force_key_frames:v:1 expr:gte(t,n_forced*1+0.5) -g:v:1 250 \
                   -force_key_frames:v:0 expr:gte(t,n_forced*1) -force_key_frames:v:2 expr:gte(t,n_forced*1+0.2)";
    let data = made("renditions-misaligned", 8, encoder);
    let mut cut = Renditions::of_programs();
    cut.push(None, 0, &data);
    cut.finish(0);
    // Only the first pictures are key frames of all.
    let error = refused(&[data]);
    assert!(error.contains("receivers could never change"), "{error}");
    assert!(error.contains("-force_key_frames"), "{error}");
    assert!(cut.problem().is_some());
}

/// Key frames each second in both, but the clock of one is 7.3 s ahead.
#[test]
fn another_time_base_is_named_and_not_the_key_frames() {
    if !have_ffmpeg() {
        return;
    }
    let low = apart("renditions-clock-low.ts", "96x54", 8, "lt(t,0)");
    let high = apart("renditions-clock-high.ts", "160x90", 8, "lt(t,0)");
    let shifted = file("renditions-clock-shifted.ts");
    let status = ffmpeg(&["-itsoffset", "7.3", "-i"])
        .arg(written("renditions-clock-whole.ts", &high))
        .args(["-c", "copy", "-f", "mpegts"])
        .arg(&shifted)
        .status();
    assert!(status.expect("ffmpeg runs").success());
    let shifted = Bytes::from(std::fs::read(shifted).expect("a file"));
    let error = refused(&[low.clone(), shifted.clone()]);
    assert!(error.contains("7.30 s ahead"), "{error}");
    assert!(!error.contains("-force_key_frames"), "{error}");
    assert!(refused(&[shifted, low]).contains("7.30 s ahead"));
}

#[test]
fn a_rendition_that_stops_is_named_and_the_others_go_on() {
    if !have_ffmpeg() {
        return;
    }
    let data = h264("renditions-20", 20);
    let packets: Vec<&[u8]> = data.chunks(188).collect();
    let is_second = |packet: &[u8]| packet[1] & 0x1F == 1 && packet[2] == 1;
    // It is away from 5 s to 12 s.
    let (from, to) = (packets.len() / 4, packets.len() * 3 / 5);
    let gap: Vec<u8> = packets
        .iter()
        .enumerate()
        .filter(|(index, packet)| !((from..to).contains(index) && is_second(packet)))
        .flat_map(|(_, packet)| packet.iter().copied())
        .collect();
    let found = Clip::of_renditions(&[Bytes::from(gap)]).expect("renditions");
    let stopped = found.notes.iter().find_map(|it| match it {
        RenditionNote::Stopped { at, id } => Some((*at, id.program)),
        _ => None,
    });
    let back = found.notes.iter().find_map(|it| match it {
        RenditionNote::Back { at, id } => Some((*at, id.program)),
        _ => None,
    });
    let (stopped, back) = (stopped.expect("it stops"), back.expect("it is back"));
    assert!((stopped.1, back.1) == (2, 2), "{:?}", found.notes);
    assert!((4.0..6.0).contains(&stopped.0.as_secs_f64()), "{stopped:?}");
    assert!((11.0..14.0).contains(&back.0.as_secs_f64()), "{back:?}");
    for layer in [Layer::Base, Layer::E2] {
        let of_it = found
            .clip
            .frames
            .iter()
            .filter(|it| it.layer == layer && !it.sound);
        assert_eq!(of_it.count(), 500, "{layer}");
    }
    let second = found.clip.frames.iter().filter(|it| it.layer == Layer::E1);
    let count = second.count();
    assert!((250..350).contains(&count), "{count}");
}

/// Pushes two live renditions of 20 s, a 40 ms piece of each at a time: `pieces` says which pieces of the first and of the second
/// come at an instant. Returns the pictures of each, and the notes.
fn live(pieces: impl Fn(usize) -> [std::ops::Range<usize>; 2]) -> ([usize; 2], Vec<RenditionNote>) {
    let inputs = [
        ("96x54", "renditions-low.ts"),
        ("160x90", "renditions-high.ts"),
    ]
    .map(|(size, name)| apart(name, size, 20, "lt(t,0)"));
    let mut renditions = Renditions::of_inputs(2);
    let (mut counts, mut notes) = ([0; 2], Vec::new());
    let mut newest = None;
    for instant in 0..500 {
        for (input, range) in pieces(instant).into_iter().enumerate() {
            let data = &inputs[input];
            let at = |piece: usize| data.len() / 188 * piece.min(500) / 500 * 188;
            let now = Time::ZERO + Span::from_ms(40 * instant as u64);
            renditions.push(Some(now), input, &data[at(range.start)..at(range.end)]);
        }
        while let Some(frame) = renditions.poll() {
            // Sound and tables of the first one come as they are.
            if frame.frame.sound {
                continue;
            }
            let stamp = frame.stamp.expect("a stamp");
            // Nothing is shown again: time does not go back.
            let newest = newest.get_or_insert(stamp);
            assert!(
                stamp.since(*newest) >= -3_600,
                "{instant}: {:?} {stamp:?} behind {newest:?}, {counts:?} {notes:?}",
                frame.frame.layer
            );
            *newest = stamp;
            counts[frame.frame.layer.index()] += 1;
        }
        notes.extend(std::iter::from_fn(|| renditions.poll_note()));
    }
    (counts, notes)
}

/// The input that a note says to have stopped, and that it says to be back.
fn named(notes: &[RenditionNote]) -> (Vec<Option<usize>>, Vec<Option<usize>>) {
    let stopped = notes.iter().filter_map(|it| match it {
        RenditionNote::Stopped { id, .. } => Some(id.input),
        _ => None,
    });
    let back = notes.iter().filter_map(|it| match it {
        RenditionNote::Back { id, .. } => Some(id.input),
        _ => None,
    });
    (stopped.collect(), back.collect())
}

#[test]
fn a_rendition_that_comes_back_with_its_backlog_takes_nobody_back_in_time() {
    if !have_ffmpeg() {
        return;
    }
    for kept in [0, 1] {
        // From 5 s to 11 s nothing comes of it, then all immediately.
        let (counts, notes) = live(|instant| {
            [0, 1].map(|input| match instant {
                125..275 if input == kept => 0..0,
                275 if input == kept => 125..276,
                _ => instant..instant + 1,
            })
        });
        assert_eq!(
            named(&notes),
            (vec![Some(kept)], vec![Some(kept)]),
            "{notes:?}"
        );
        assert!(counts[1 - kept] > 490, "{counts:?}");
        // Away from 5 s to the first common key frame behind 11 s.
        assert!((300..355).contains(&counts[kept]), "{counts:?}");
    }
}

/// The encoder of the second is started again, and its time stamps begin again: no time tells which of its pictures are those of the
/// first.
#[test]
fn a_rendition_whose_time_stamps_begin_again_is_named_and_keeps_nobody() {
    if !have_ffmpeg() {
        return;
    }
    // Stopped and started again, at these pieces: jumps of less than 5 s and of more, with a pause and without.
    for (stop, start) in [(60, 90), (60, 62), (125, 225), (200, 202)] {
        let (counts, notes) = live(|instant| {
            let second = match instant {
                _ if instant < stop => instant..instant + 1,
                _ if instant < start => 0..0,
                _ => instant - start..instant - start + 1,
            };
            [instant..instant + 1, second]
        });
        let late: Vec<f64> = notes
            .iter()
            .filter_map(|it| match it {
                RenditionNote::Late { id, by, .. } if id.input == Some(1) => Some(by.as_secs_f64()),
                _ => None,
            })
            .collect();
        let [by] = late[..] else {
            panic!("{stop} {start}: {notes:?}");
        };
        assert!((by - start as f64 / 25.0).abs() < 0.2, "{start}: {by}");
        assert!(counts[0] > 480, "{stop} {start}: {counts:?} {notes:?}");
        assert!(counts[1] <= stop + 5, "{stop} {start}: {counts:?}");
        let (stopped, back) = named(&notes);
        assert_eq!(stopped.len(), usize::from(start - stop > 20), "{notes:?}");
        assert!(back.is_empty(), "{notes:?}");
    }
}

#[test]
fn a_rendition_that_is_ahead_waits_and_takes_nothing_from_the_others() {
    if !have_ffmpeg() {
        return;
    }
    for (ahead, is_left_out) in [(28, false), (150, true)] {
        // The second is away for four seconds, and then ahead.
        let (counts, notes) = live(|instant| {
            let second = match instant {
                100..200 => 0..0,
                200.. => instant + ahead..instant + ahead + 1,
                _ => instant..instant + 1,
            };
            [instant..instant + 1, second]
        });
        let (stopped, back) = named(&notes);
        assert_eq!(stopped, [Some(1)], "{notes:?}");
        assert!(counts[0] > 490, "{counts:?}");
        // The one that is left out is in when its input has ended and the other has reached it.
        assert_eq!(back, [Some(1)], "{notes:?}");
        assert_eq!(counts[1] < 250, is_left_out, "{counts:?}");
        let says = |it: &RenditionNote| matches!(it, RenditionNote::Ahead { id, .. } if id.input == Some(1));
        assert_eq!(notes.iter().any(says), is_left_out, "{notes:?}");
    }
}

#[test]
fn programs_that_are_no_renditions_are_named() {
    if !have_ffmpeg() {
        return;
    }
    let one = crate::common::encode("renditions-one.ts", "-t 1 -c:v libx264");
    let error = refused(&[Bytes::from(one)]);
    assert!(error.contains("1 program with video"), "{error}");
    refused(&[Bytes::from_static(b"no stream at all")]);
}

/// Renditions with random damage: no panic, no frame that is none.
#[test]
fn damaged_renditions_do_no_harm() {
    if !have_ffmpeg() {
        return;
    }
    let data = h264("renditions-4", 4);
    let mut state = 7u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    for round in 0..60 {
        let mut bytes = data.to_vec();
        for _ in 0..1 + round * 4 {
            let at = random(bytes.len());
            match round % 3 {
                0 => bytes[at] ^= 1 << random(8),
                1 => {
                    let end = (at + random(3_000)).min(bytes.len());
                    bytes.drain(at..end);
                }
                _ => {
                    // Stamps and tables.
                    let packet = at / 188 * 188;
                    let end = (packet + 30).min(bytes.len());
                    bytes[packet + 1..end]
                        .iter_mut()
                        .for_each(|it| *it ^= random(256) as u8);
                }
            }
        }
        let mut renditions = Renditions::of_programs();
        let mut frames = Vec::new();
        for piece in bytes.chunks(1 + random(4_000)) {
            renditions.push(Some(Time::ZERO), 0, piece);
            frames.extend(std::iter::from_fn(|| renditions.poll()));
        }
        renditions.finish(0);
        frames.extend(std::iter::from_fn(|| renditions.poll()));
        let held: usize = frames.iter().map(|it| it.frame.size as usize).sum();
        assert!(held <= bytes.len() * 2 + 3 * 564 * frames.len());
        for timed in &frames {
            let data = timed.frame.data.as_ref().expect("bytes");
            assert_eq!(data.len() % 188, 0);
        }
    }
}
