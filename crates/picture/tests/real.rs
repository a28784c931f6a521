//! Real transport streams of ffmpeg and GStreamer through AAL5+: the same octets without loss, and with a lost cell exactly the
//! packets that docs/src/reference/aal5-plus.md names.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use layercast_core::{DataClass, Time};
use layercast_picture::study::cells_of;
use layercast_picture::{Aal5PlusReceiver, MarkedCell, Mode, ReceiverConfig};

const PACKET: usize = 188;
/// Packets of a group.
const GROUP: usize = 8;
/// Octets of class S in a one-cell frame.
const PIECE: usize = 36;

type Packets = Vec<[u8; PACKET]>;

/// Big Buck Bunny, as `make clips` leaves it.
fn film() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/demo/clip.m1v")
}

/// Runs a command; says what is missing otherwise, unless tools are required.
fn made(what: &str, program: &str, words: &[String]) -> bool {
    let output = Command::new(program).args(words).output();
    let problem = match &output {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    let is_required = std::env::var("LAYERCAST_REQUIRE_TOOLS").is_ok_and(|it| it == "1");
    assert!(!is_required, "{what}: {program}: {problem}");
    eprintln!("left out: {what}: {program}: {problem}");
    false
}

/// Four seconds of the film with a tone: of ffmpeg as MPEG-2 and as H.264, and of GStreamer's mpegtsmux.
fn streams() -> Vec<(&'static str, Packets)> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let film = film();
    if !film.exists() {
        eprintln!("left out: {} is missing: make clips", film.display());
        return Vec::new();
    }
    let film = film.display().to_string();
    let ffmpeg = |what: &str, options: &str, name: &str| {
        let words = format!(
            "-v error -nostdin -y -i {film} -f lavfi -i sine=r=48000 -t 4 {options} {}",
            path(name)
        );
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        made(what, "ffmpeg", &words)
    };
    let mpeg2 =
        "-c:v mpeg2video -b:v 4M -maxrate 6M -bufsize 2M -g 12 -bf 2 -sc_threshold 1000000000";
    let h264 = "-c:v libx264 -preset veryfast -g 24 -bf 2 -x264-params b-pyramid=none:scenecut=0";
    let sound = "-c:a mp2 -b:a 192k";
    let both = "-map 0:v -map 1:a";
    let mut found = Vec::new();
    if ffmpeg(
        "MPEG-2",
        &format!("{both} {mpeg2} {sound} -f mpegts"),
        "mpeg2.ts",
    ) {
        found.push(("MPEG-2 of ffmpeg", path("mpeg2.ts")));
    }
    if ffmpeg(
        "H.264",
        &format!("{both} {h264} {sound} -f mpegts"),
        "h264.ts",
    ) {
        found.push(("H.264 of ffmpeg", path("h264.ts")));
    }
    let parts = [
        ("H.264 of mpegtsmux", h264, "h264", "h264parse"),
        ("MPEG-2 of mpegtsmux", mpeg2, "mpeg2video", "mpegvideoparse"),
    ];
    for (what, options, form, parser) in parts {
        let is_there = ffmpeg(what, &format!("-map 0:v {options} -f {form}"), form)
            && ffmpeg(what, &format!("-map 1:a {sound} -f mp2"), "tone.mp2");
        let out = path(&format!("{form}.gst.ts"));
        let words = format!(
            "-q mpegtsmux name=mux ! filesink location={out} \
             filesrc location={} ! {parser} ! queue ! mux. \
             filesrc location={} ! mpegaudioparse ! queue ! mux.",
            path(form),
            path("tone.mp2"),
        );
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        if is_there && made(what, "gst-launch-1.0", &words) {
            found.push((what, out));
        }
    }
    let read = |(what, path): (&'static str, String)| {
        let data = fs::read(path).expect("the stream");
        let (packets, rest) = data.as_chunks::<PACKET>();
        assert!(rest.is_empty() && packets.len() > 2_000, "{what}");
        assert!(packets.iter().all(|it| it[0] == 0x47), "{what}");
        (what, packets.to_vec())
    };
    found.into_iter().map(read).collect()
}

fn cells(mode: Mode, packets: &[[u8; PACKET]]) -> Vec<MarkedCell> {
    cells_of(mode, GROUP as u8, packets).expect("aligned").0
}

/// The packets that come of cells.
fn receive<'a>(mode: Mode, cells: impl Iterator<Item = &'a MarkedCell>) -> Packets {
    let mut receiver = Aal5PlusReceiver::new(ReceiverConfig {
        mode,
        ..ReceiverConfig::default()
    });
    let mut packets = Vec::new();
    for cell in cells {
        receiver.on_cell(Time::ZERO, cell);
        packets.extend(std::iter::from_fn(|| receiver.poll_packet()));
    }
    receiver.finish();
    packets.extend(std::iter::from_fn(|| receiver.poll_packet()));
    packets
}

#[test]
fn real_streams_are_the_same_without_loss() {
    for (what, packets) in streams() {
        for mode in [Mode::Separate, Mode::Mark] {
            let cells = cells(mode, &packets);
            assert!(receive(mode, cells.iter()) == packets, "{what}, {mode:?}");
        }
    }
}

/// A frame of a group, read from its cells without the receiver.
#[derive(Clone, Debug)]
struct Frame {
    group: usize,
    /// Places of its cells.
    cells: Range<usize>,
    kind: Kind,
}

#[derive(Clone, PartialEq, Debug)]
enum Kind {
    Headers,
    /// Octets of class S.
    System(usize),
    /// Octets of a picture.
    Picture(usize),
}

/// The frames of cells.
fn frames(cells: &[MarkedCell]) -> Vec<Frame> {
    let mut found: Vec<Frame> = Vec::new();
    let (mut group, mut goes_on, mut begin) = (0, false, 0);
    for (number, marked) in cells.iter().enumerate() {
        let octets = &marked.cell.payload;
        let kind = if marked.class != DataClass::System {
            if !marked.cell.pti.auu() {
                continue;
            }
            Kind::Picture(usize::from(u16::from_be_bytes([octets[42], octets[43]])))
        } else if octets[40] & 0x80 == 0 {
            group += usize::from(!goes_on);
            goes_on = octets[0] & 1 != 0;
            Kind::Headers
        } else {
            let record = u32::from_be_bytes([0, octets[1], octets[2], octets[3]]);
            Kind::System((record >> 4 & 255) as usize)
        };
        found.push(Frame {
            group: group - 1,
            cells: begin..number + 1,
            kind,
        });
        begin = number + 1;
    }
    found
}

/// The frames of data of a group, each with its octets of the data of the group; the data of each packet; the first packet.
struct Group<'a> {
    frames: Vec<(&'a Frame, Range<usize>)>,
    data: Vec<Range<usize>>,
    first: usize,
}

impl Group<'_> {
    fn of<'a>(frames: &'a [Frame], group: usize, packets: &[[u8; PACKET]]) -> Group<'a> {
        let all = group * GROUP..packets.len().min((group + 1) * GROUP);
        let mut total = 0;
        let data = packets[all.clone()].iter().map(|packet| {
            let headers = layercast_media::TsHeaders::of(packet).expect("aligned");
            let len = PACKET - headers.packet - headers.pes;
            total += len;
            total - len..total
        });
        let data: Vec<Range<usize>> = data.collect();
        let mut at = 0;
        let own = frames
            .iter()
            .filter(|it| it.group == group && it.kind != Kind::Headers);
        let own = own.map(|frame| {
            let len = match frame.kind {
                Kind::System(len) | Kind::Picture(len) => len,
                Kind::Headers => 0,
            };
            at += len;
            (frame, at - len..at)
        });
        let frames: Vec<_> = own.collect();
        let end = frames.last().map_or(0, |(_, octets)| octets.end);
        assert_eq!(end, total, "the frames of group {group} are its data");
        Group {
            frames,
            data,
            first: all.start,
        }
    }

    /// The packets over which a frame reaches.
    fn reach(&self, frame: usize) -> impl Iterator<Item = usize> + '_ {
        let octets = self.frames[frame].1.clone();
        let data = (self.first..).zip(&self.data);
        data.filter(move |(_, it)| it.start < octets.end && octets.start < it.end)
            .map(|(number, _)| number)
    }

    fn is_picture(&self, frame: usize) -> bool {
        matches!(self.frames[frame].0.kind, Kind::Picture(_))
    }

    /// The frames of pictures in front of a place that are not put anywhere if the frame of class S in this place is missing.
    ///
    /// They have no place of their own: one in front is known to follow what came before it, unless the run of class S before it
    /// may have continued.
    fn unplaced(&self, place: usize) -> Vec<usize> {
        let before = (0..place).rev().take_while(|&it| self.is_picture(it));
        let before: Vec<usize> = before.collect();
        let last = place.checked_sub(before.len() + 1);
        let is_open = match last.map(|it| &self.frames[it].0.kind) {
            // All frames of a run of class S are full, except possibly the last.
            Some(Kind::System(len)) => *len == PIECE,
            _ => true,
        };
        let known = usize::from(!is_open);
        before.into_iter().rev().skip(known).collect()
    }
}

/// Which packets a lost frame of `frames` costs: those that are missing, and those that are damaged.
fn cost(frames: &[Frame], lost: usize, packets: &[[u8; PACKET]]) -> [BTreeSet<usize>; 2] {
    let number = frames[lost].group;
    let group = Group::of(frames, number, packets);
    let mut damaged = BTreeSet::new();
    if frames[lost].kind == Kind::Headers {
        let missing = group.first..group.first + group.data.len();
        let is_first = lost == 0 || frames[lost - 1].group != number;
        if let Some(before) = number.checked_sub(1).filter(|_| is_first) {
            // The end of the group before shows by its headers; a longer frame fills more than what can be missing.
            let before = Group::of(frames, before, packets);
            let end = before.frames.len();
            let last = before
                .frames
                .last()
                .filter(|(frame, _)| matches!(frame.kind, Kind::Picture(len) if len <= PIECE));
            let lost = last.map_or(Vec::new(), |_| before.unplaced(end));
            damaged.extend(
                lost.into_iter()
                    .flat_map(|it| before.reach(it))
                    .collect::<Vec<_>>(),
            );
        }
        return [missing.collect(), damaged];
    }
    let mut places = group.frames.iter();
    let place = places.position(|(frame, _)| frame.cells == frames[lost].cells);
    let place = place.expect("a frame of its group");
    damaged.extend(group.reach(place));
    if !group.is_picture(place) {
        let behind = place + 1..group.frames.len();
        let behind = behind.take_while(|&it| group.is_picture(it));
        for frame in behind.chain(group.unplaced(place)) {
            damaged.extend(group.reach(frame));
        }
    }
    [BTreeSet::new(), damaged]
}

#[test]
fn a_lost_cell_costs_exactly_the_packets_that_the_page_names() {
    for (what, packets) in streams() {
        let cells = cells(Mode::Separate, &packets);
        let frames = frames(&cells);
        // Every 97th frame loses a cell, each alone.
        let mut kinds = [0_u32; 3];
        for lost in (0..frames.len()).step_by(97) {
            let frame = &frames[lost];
            let gone = frame.cells.start + lost % frame.cells.len();
            let rest = (0..cells.len()).filter(|&it| it != gone);
            let found = receive(Mode::Separate, rest.map(|it| &cells[it]));
            let [missing, damaged] = cost(&frames, lost, &packets);
            let expected = (0..packets.len()).filter(|number| !missing.contains(number));
            let expected: Vec<usize> = expected.collect();
            assert_eq!(found.len(), expected.len(), "{what}: {frame:?}");
            for (packet, number) in found.iter().zip(expected) {
                let is_marked = packet[1] & 0x80 != 0;
                assert_eq!(
                    is_marked,
                    damaged.contains(&number),
                    "{what}: {frame:?}, packet {number} of {damaged:?}"
                );
                assert!(is_marked || *packet == packets[number], "{what}: {number}");
                assert_eq!(packet[2..4], packets[number][2..4], "{what}: {number}");
            }
            kinds[match frame.kind {
                Kind::Headers => 0,
                Kind::System(_) => 1,
                Kind::Picture(_) => 2,
            }] += 1;
        }
        assert!(kinds.iter().all(|&it| it > 5), "{what}: {kinds:?}");
    }
}
