use std::collections::VecDeque;

use bytes::Bytes;
use layercast_core::{Media, Time};

use super::assembly::{Assembly, Cut, Damage, MAX_FRAME, Unit};
use super::beside::Beside;
use super::codec::VideoCodec;
use super::framing::{At, Framing};
use super::headers::with_headers;
use super::kept::{Found, Kept};
use super::packet::{NULL, PAT, PCR_HZ, Packet, TS_PACKET, set_error};
use super::silence::{SilenceWatch, StreamChange};
use super::tables::{Tables, video};
use super::video::Coded;
use crate::live::{Stamp, TimedFrame};
use crate::mpeg::es::Stream;
use crate::{Frame, Map, MediaError, Picture};

/// Packets of other streams that wait for the end of a picture at most.
const MAX_WAITING: usize = 256 * TS_PACKET;
/// Frames kept for a caller that does not poll.
const MAX_FRAMES: usize = 4_096;
/// Gaps in the counters of the last 32 packets of the video from which on these say nothing: some multiplexers do not count.
const NO_COUNT: u32 = 16;
/// Without video: how much of the clock goes into one frame, and how often receivers can start.
const DATA_FRAME: u64 = PCR_HZ / 20;
const DATA_START: u64 = PCR_HZ / 2;

/// What a [`TsSplitter`] saw.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize)]
pub struct TsStats {
    /// Packets accepted.
    pub packets: u64,
    /// Bytes skipped in search of a packet.
    pub skipped: u64,
    /// Packets lost, by their continuity counters.
    pub lost: u64,
    /// Duplicates, and packets with the transport error indicator; dropped.
    pub dropped: u64,
    /// Sections of PAT and PMT with a wrong checksum; dropped.
    pub damaged_tables: u64,
    /// Pictures of which something is lost, by the continuity counters, or inside which the stream ends; marked as damaged.
    pub damaged: u64,
    /// Packets of video in another codec than that of the flow, or that the program map does not name any more; left out.
    pub other_codec: u64,
    /// Packets of the video that are scrambled.
    pub scrambled: u64,
}

/// Splits a transport stream into layered frames (2.4.3).
///
/// A frame is a run of whole packets. A picture of the first video stream with all its packets is
/// a frame of its picture's layer; what came in between (audio, tables, other streams) follows
/// it as a frame of the base layer. If no picture comes, the other streams continue alone, in frames of 50 ms of their time. A frame that
/// receivers can start at begins with PAT and PMT.
///
/// A picture of which packets or octets are missing is marked: its packets have the transport error indicator, and no receiver
/// starts at it. [`TsWriter`](super::TsWriter) leaves it out, and what refers to it. So is the last picture if the stream ends inside it, and
/// one behind missing packets that is no key frame. A picture is whole as far as its packets say.
/// Packets may be 188, 192 or 204 bytes apart; frames hold packets of 188 bytes.
#[derive(Debug)]
pub struct TsSplitter {
    framing: Framing,
    tables: Tables,
    map: Map,
    video: Option<Assembly>,
    /// A first field that waits for its second.
    field: Option<(Coded, TimedFrame, Vec<u8>)>,
    /// A stream that the tables do not name is video.
    unnamed: bool,
    /// A picture came that receivers can start at.
    has_start: bool,
    others: Vec<u8>,
    /// Their time while no picture comes.
    beside: Beside,
    /// Of a stream that arrives live: streams of it that stop, and the codec that it keeps.
    silence: SilenceWatch,
    kept: Kept,
    is_live: bool,
    /// When the bytes at hand came, and when the last of `others` did.
    now: Time,
    others_came: Time,
    last_pcr: Option<u64>,
    /// Clock at the last frame, and at the last start, of a stream without video.
    cut_at: Option<u64>,
    start_at: Option<u64>,
    /// By packet identifier.
    seen: Box<[Seen]>,
    /// Which of the last packets of the video came behind a gap, the latest in the lowest bit.
    gaps: u32,
    /// Places at which packets do not follow one another.
    breaks: u32,
    frames: VecDeque<TimedFrame>,
    /// Where the picture or the packet begins that the stream ends inside.
    ends_inside: Option<u64>,
    stats: TsStats,
}

/// The last packet with payload of a packet identifier.
#[derive(Clone, Copy, Debug)]
struct Seen {
    counter: u8,
    /// Of its payload.
    hash: u64,
    /// Breaks of the stream before it.
    breaks: u32,
}

const NO_COUNTER: u8 = 0xFF;

/// What a packet is to the one before it of the same packet identifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Follows {
    Directly,
    /// Packets between are missing.
    Lost,
    /// The same packet, sent twice.
    Repeated,
}

impl Default for TsSplitter {
    fn default() -> TsSplitter {
        TsSplitter::of_program(None)
    }
}

impl TsSplitter {
    /// A splitter that waits for a program map.
    pub fn new() -> TsSplitter {
        TsSplitter::default()
    }

    /// A splitter that serves the program with this number and nothing of the others; without a number the first
    /// that has video, and the others as data.
    pub fn of_program(program: Option<u16>) -> TsSplitter {
        let none = Seen {
            counter: NO_COUNTER,
            hash: 0,
            breaks: 0,
        };
        TsSplitter {
            framing: Framing::default(),
            tables: Tables::of_program(program),
            map: Map::Auto,
            video: None,
            field: None,
            unnamed: false,
            has_start: false,
            others: Vec::new(),
            beside: Beside::default(),
            silence: SilenceWatch::default(),
            kept: Kept::default(),
            is_live: false,
            now: Time::ZERO,
            others_came: Time::ZERO,
            last_pcr: None,
            cut_at: None,
            start_at: None,
            seen: vec![none; 8_192].into_boxed_slice(),
            gaps: 0,
            breaks: 0,
            frames: VecDeque::new(),
            ends_inside: None,
            stats: TsStats::default(),
        }
    }

    /// Distributes pictures over the layers as `map` says. To be called before anything comes.
    #[must_use]
    pub fn with_map(self, map: Map) -> TsSplitter {
        TsSplitter { map, ..self }
    }

    /// Takes bytes of a stream that arrives live, at `now`; otherwise as [`push`](TsSplitter::push).
    pub fn push_at(&mut self, now: Time, bytes: &[u8]) {
        (self.now, self.is_live) = (now, true);
        self.push(bytes);
    }

    /// Takes bytes of the stream, cut anywhere.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut framing = std::mem::take(&mut self.framing);
        framing.push(bytes, |at, packet| self.packet(at, packet));
        self.framing = framing;
    }

    /// Takes a datagram of a stream that arrives live, at `now`. What is cut in it does not continue in the next one, if these hold whole
    /// packets.
    pub fn push_datagram_at(&mut self, now: Time, data: &[u8]) {
        (self.now, self.is_live) = (now, true);
        let mut framing = std::mem::take(&mut self.framing);
        framing.push_datagram(data, |at, packet| self.packet(at, packet));
        self.framing = framing;
    }

    /// Ends the stream: what is there goes out.
    pub fn finish(&mut self) {
        let mut framing = std::mem::take(&mut self.framing);
        let tail = framing.finish(|at, packet| self.packet(at, packet));
        self.framing = framing;
        let cut = tail.as_ref().map(|(_, packet)| cut_of(packet));
        let video = self.video.as_mut().and_then(|it| it.finish_cut(cut));
        self.ends_inside = video.or(tail.map(|(at, _)| at));
        self.end_video();
        self.end_others(None);
    }

    /// The next frame.
    pub fn poll(&mut self) -> Option<TimedFrame> {
        self.frames.pop_front()
    }

    /// The next stream of a live transport stream that stopped, comes again, or cannot be served.
    pub fn poll_change(&mut self) -> Option<StreamChange> {
        self.kept.poll().or_else(|| self.silence.poll())
    }

    /// What it saw.
    pub fn stats(&self) -> TsStats {
        TsStats {
            skipped: self.framing.skipped(),
            damaged_tables: self.tables.damaged(),
            ..self.stats
        }
    }

    /// Width, height and, if the stream says so, frames per second of the video.
    pub fn format(&self) -> Option<(u32, u32, Option<layercast_core::FrameRate>)> {
        self.video.as_ref()?.format()
    }

    /// Whether there is a program map, and video in it.
    pub fn has_video(&self) -> Option<bool> {
        self.tables.map().map(|_| self.video.is_some())
    }

    /// Of a stream that is finished: the offset of the picture or packet that it ends inside.
    pub fn ends_inside(&self) -> Option<u64> {
        self.ends_inside
    }

    /// The codec of the video, if there is any.
    pub fn codec(&self) -> Option<VideoCodec> {
        let unnamed = self.unnamed.then_some(VideoCodec::Unnamed);
        self.video.as_ref().map(|video| video.codec).or(unnamed)
    }

    /// The packets of the tables that a start begins with.
    pub(super) fn tables(&self) -> &[u8] {
        self.tables.packets()
    }

    /// The packet identifier of the video.
    pub(super) fn video_pid(&self) -> Option<u16> {
        self.video.as_ref().map(|video| video.pid)
    }

    /// Why the map does not fit the video, as far as it came.
    pub fn misfit(&self) -> Option<String> {
        let video = self.video.as_ref()?;
        let lacks_layers = self.map == Map::Temporal && video.has_temporal_layers() == Some(false);
        match video.codec.fits(self.map) {
            false => Some(self.map.misfit(video.codec.name())),
            true if lacks_layers => {
                let what = format!("this {} stream", video.codec.name());
                Some(self.map.misfit(&what))
            }
            true => None,
        }
    }

    /// Why nothing of the stream can be served: what is wrong with its tables, or that its video is scrambled, and what helps. `None` if
    /// the tables are known and nothing is known to be wrong.
    pub fn problem(&self) -> Option<String> {
        const REPAIR: &str = "write them again: ffmpeg -i FILE -c copy -f mpegts CLIP.ts";
        if self.tables.map().is_some() {
            let pid = self.video_pid().filter(|_| !self.has_start)?;
            return self.kept.is_scrambled(pid).then(|| {
                format!(
                    "the video (PID {pid}) of the transport stream is scrambled (transport_scrambling_control), and none of its packets \
                     has the random access flag, so that nothing is known of its pictures: descramble it first, with the receiver \
                     (conditional access module) that has its keys"
                )
            });
        }
        let numbers: Vec<u16> = self.tables.programs().collect();
        let listed = numbers
            .iter()
            .map(u16::to_string)
            .collect::<Vec<_>>()
            .join(", ");
        let damaged = self.tables.damaged();
        Some(match (self.tables.wanted(), numbers.is_empty(), damaged) {
            (_, _, 1..) => format!(
                "the transport stream has program tables (PAT and PMT), but they are damaged: {damaged} sections \
                 with a wrong checksum (CRC-32); {REPAIR}"
            ),
            (_, true, _) => format!(
                "the transport stream has no program tables (PAT and PMT), which name its streams; {REPAIR}"
            ),
            (Some(wanted), ..) if !numbers.contains(&wanted) => {
                format!("the transport stream has no program {wanted}; it has {listed}")
            }
            _ => format!(
                "the program table (PAT) lists program {listed}, but the map (PMT) of none is in the stream; {REPAIR}"
            ),
        })
    }

    /// Takes a packet. Before one behind a break anything may be missing, and the packet before it may be damaged.
    fn packet(&mut self, at: At, bytes: &[u8]) {
        if at.is_broken {
            self.breaks = self.breaks.wrapping_add(1);
            self.tear();
        }
        let Some(packet) = Packet::new(bytes) else {
            return;
        };
        if packet.error() || packet.pid() == NULL {
            self.stats.dropped += u64::from(packet.error());
            return;
        }
        self.stats.packets += 1;
        let is_behind_break = self.seen[usize::from(packet.pid())].breaks != self.breaks;
        let follows = self.follows(&packet);
        if follows == Follows::Repeated {
            self.stats.dropped += 1;
            return;
        }
        let pid = packet.pid();
        if self.tables.push(&packet) {
            self.on_map();
        }
        if let Some(pcr) = packet.pcr().filter(|_| self.is_clock(pid)) {
            self.last_pcr = Some(pcr);
            if self.video.is_none() {
                self.cut_data(pcr);
            }
        }
        if let Some(map) = self.tables.map() {
            if self.is_live {
                self.silence.push(self.now, &packet, map);
            }
            self.kept.look(&packet, map);
        }
        if self.kept.refuses(pid) {
            self.stats.other_codec += 1;
            return;
        }
        let is_away = self.kept.is_away();
        match &mut self.video {
            Some(video) if video.pid == pid && !is_away => {
                if packet.scrambled() {
                    self.stats.scrambled += 1;
                    if self.kept.leaves_out_scrambled() {
                        return self.leave_out(&packet);
                    }
                }
                let gap = follows == Follows::Lost;
                if packet.has_payload() {
                    self.beside.on_video(self.now);
                    self.gaps = self.gaps << 1 | u32::from(gap);
                }
                let lost = gap && (is_behind_break || self.gaps.count_ones() < NO_COUNT);
                let taken = video.push(self.now, (at.offset, &packet), lost);
                // The clock in a packet of a picture whose beginning is missing is still of use.
                if !taken && packet.pcr().is_some() && !packet.has_payload() {
                    self.on_other(&packet);
                }
                self.on_units();
            }
            // No receiver can start before the tables are known.
            _ if self.tables.map().is_some() => {
                self.go_on_alone(&packet);
                self.on_other(&packet);
            }
            _ => {}
        }
    }

    /// A packet of the video is left out, and what is to come of it refers to what is not there.
    fn leave_out(&mut self, packet: &Packet) {
        if !packet.starts() {
            self.tear();
        }
        self.end_video();
        self.kept.on_video();
        if packet.pcr().is_some() && !packet.has_payload() {
            self.on_other(packet);
        }
    }

    /// Beside a video of which nothing comes, the other streams continue, before this packet of one.
    fn go_on_alone(&mut self, packet: &Packet) {
        // In a file, what is between pictures may be far from them, and no receiver waits for it.
        let may = self.is_live && self.video.is_some();
        let Some(map) = self.tables.map().filter(|_| may) else {
            return;
        };
        let is_ours = map.streams.iter().any(|it| it.pid == packet.pid());
        self.beside.on_other(self.now, packet, is_ours);
        if self.beside.leaves() {
            self.end_video();
        }
        if let Some(stamp) = self.beside.frame() {
            self.end_others(Some(stamp));
        }
    }

    fn is_clock(&self, pid: u16) -> bool {
        self.tables.map().is_some_and(|map| map.pcr_pid == pid)
    }

    /// Checks the continuity counter (2.4.3.3): counts what is missing, and tells packets that are sent twice.
    fn follows(&mut self, packet: &Packet) -> Follows {
        if !packet.has_payload() {
            return Follows::Directly;
        }
        let now = Seen {
            counter: packet.continuity(),
            hash: hash(packet),
            breaks: self.breaks,
        };
        let last = std::mem::replace(&mut self.seen[usize::from(packet.pid())], now);
        if last.counter == NO_COUNTER || packet.discontinuity() {
            return Follows::Directly;
        }
        match now.counter.wrapping_sub(last.counter) & 15 {
            0 if now.hash == last.hash => Follows::Repeated,
            1 if last.breaks == self.breaks => Follows::Directly,
            step => {
                self.stats.lost += u64::from(step.wrapping_sub(1) & 15);
                Follows::Lost
            }
        }
    }

    /// Something of the picture at hand is missing for certain.
    fn tear(&mut self) {
        if let Some(video) = &mut self.video {
            video.tear();
        }
    }

    /// Another map is in force.
    fn on_map(&mut self) {
        let Some(map) = self.tables.map() else {
            return;
        };
        let current = self.video.as_ref().map(|it| (it.codec, it.pid));
        let was_away = self.kept.is_away();
        let found = match self.is_live {
            true => self.kept.find(map, current),
            // Of a file the codec may change: it is stored so, and players follow its tables.
            false => Found::Video(video(map)),
        };
        self.tables.hide(self.kept.refused());
        match found {
            Found::Away => self.end_video(),
            Found::Video(found) if found == current && !was_away => {}
            Found::Video(found) => {
                self.end_video();
                self.kept.on_video();
                self.video = found.map(|(codec, pid)| Assembly::new(pid, codec, self.map));
            }
        }
    }

    /// Passes on the units of the video that are complete.
    fn on_units(&mut self) {
        let units = self.video.as_mut().map(Assembly::take).unwrap_or_default();
        for unit in units {
            self.unit(unit);
        }
    }

    /// The video ends here.
    fn end_video(&mut self) {
        if let Some(video) = &mut self.video {
            video.finish();
        }
        self.on_units();
        // A first field whose second did not come.
        if let Some((_, frame, data)) = self.field.take() {
            self.emit(frame.with_data(data));
        }
    }

    /// A unit of the video is a frame, or one of the two fields of one.
    fn unit(&mut self, unit: Unit) {
        let Unit {
            mut coded,
            mut packets,
            stamp,
            came,
            damage,
        } = unit;
        let is_marked = match damage {
            Damage::None => false,
            // Where streams are joined, the second one begins with a key frame.
            Damage::BehindGap => !coded.gop_start,
            Damage::Torn => true,
        };
        if is_marked {
            coded.gop_start = false;
            coded.missing = None;
            packets.chunks_mut(TS_PACKET).for_each(set_error);
            self.stats.damaged += 1;
        }
        self.beside.on_picture(stamp);
        let video = self.video.as_ref().map(|it| (it.codec, it.pid));
        if let Some((codec, pid)) = video.filter(|_| self.is_live) {
            if coded.gop_start {
                self.tables.keep(codec);
                if !self.has_start && self.stats.scrambled == 0 {
                    self.kept.begins_clear();
                }
            }
            if !self.kept.takes(codec, pid, coded.gop_start) {
                return self.end_others(stamp);
            }
        }
        self.has_start |= coded.gop_start;
        if let Some((first, mut frame, mut data)) = self.field.take() {
            if coded.completes(&first) && data.len() + packets.len() <= MAX_FRAME {
                data.extend_from_slice(&packets);
                frame.arrived = Some(came);
                let whole = frame.with_data(data);
                self.emit(whole);
                return self.end_others(stamp);
            }
            self.emit(frame.with_data(data));
        }
        let packets = match coded.missing.take() {
            None => packets,
            Some(missing) => match with_headers(&packets, missing.at, &missing.headers) {
                Some(whole) if whole.len() <= MAX_FRAME => whole,
                // Receivers cannot start without them.
                _ => {
                    coded.gop_start = false;
                    packets
                }
            },
        };
        let data = match coded.gop_start {
            true => [self.tables.packets(), &packets].concat(),
            false => packets,
        };
        let frame = TimedFrame {
            frame: Frame {
                layer: coded.layer,
                gop_start: coded.gop_start,
                ..Frame::sized(coded.picture, 0)
            },
            stamp,
            arrived: Some(came),
        };
        if coded.is_field() {
            self.field = Some((coded, frame, data));
        } else {
            self.emit(frame.with_data(data));
            self.end_others(stamp);
        }
    }

    fn on_other(&mut self, packet: &Packet) {
        let pid = packet.pid();
        if pid == PAT && self.tables.rewrites_pat() {
            if packet.starts() {
                self.tables.put_pat(&mut self.others);
            }
        } else if self.tables.rewrites_map() && self.tables.is_map(pid) {
            if packet.starts() {
                self.tables.put_map(pid, &mut self.others);
            }
        } else if self.tables.carries(pid) {
            self.others.extend_from_slice(packet.bytes());
        }
        self.others_came = self.now;
        let is_video = |payload: &[u8]| matches!(payload, [0, 0, 1, 0xE0..=0xEF, ..]);
        if self.video.is_none() && packet.starts() && is_video(packet.payload()) {
            let mut streams = self.tables.map().into_iter().flat_map(|map| &map.streams);
            self.unnamed |= streams.any(|stream| stream.pid == pid);
        }
        if self.others.len() >= MAX_WAITING {
            self.end_others(None);
        }
    }

    /// Sends off what came beside the picture.
    fn end_others(&mut self, stamp: Option<Stamp>) {
        if !self.others.is_empty() {
            let data = std::mem::take(&mut self.others);
            let frame = Frame {
                sound: self.video.is_some(),
                ..Frame::sized(Picture::Data, 0)
            };
            self.emit_others(frame, stamp, data);
        }
    }

    /// Without video, frames are cut by the clock.
    fn cut_data(&mut self, pcr: u64) {
        let since = |mark: Option<u64>| mark.map_or(u64::MAX, |mark| pcr.wrapping_sub(mark));
        if since(self.cut_at) < DATA_FRAME || self.others.is_empty() {
            return;
        }
        self.cut_at = Some(pcr);
        let starts = since(self.start_at) >= DATA_START;
        let packets = std::mem::take(&mut self.others);
        let data = match starts {
            true => {
                self.start_at = Some(pcr);
                [self.tables.packets(), &packets].concat()
            }
            false => packets,
        };
        let frame = Frame {
            gop_start: starts,
            ..Frame::sized(Picture::Data, 0)
        };
        let stamp = Some(Stamp::pes(pcr / 300));
        self.emit_others(frame, stamp, data);
    }

    fn emit_others(&mut self, frame: Frame, stamp: Option<Stamp>, data: Vec<u8>) {
        let frame = TimedFrame {
            frame,
            stamp,
            arrived: Some(self.others_came),
        };
        self.emit(frame.with_data(data));
    }

    fn emit(&mut self, frame: TimedFrame) {
        if self.frames.len() < MAX_FRAMES {
            self.frames.push_back(frame);
        }
    }

    /// Reads the first tables of a whole file, so that they hold from its first packet on.
    pub(super) fn look_ahead(&mut self, data: &[u8]) {
        let tables = &mut self.tables;
        let mut framing = Framing::default();
        for chunk in data.chunks(64 * TS_PACKET) {
            framing.push(chunk, |_, bytes| {
                if let Some(packet) = Packet::new(bytes).filter(|it| !it.error()) {
                    tables.push(&packet);
                }
            });
            if tables.map().is_some() {
                break;
            }
        }
        if tables.map().is_none() {
            framing.finish(|_, bytes| {
                if let Some(packet) = Packet::new(bytes).filter(|it| !it.error()) {
                    tables.push(&packet);
                }
            });
            tables.settle();
        }
        self.on_map();
        // A file shows that it counts its packets before its counters are believed.
        self.gaps = u32::MAX;
    }
}

/// What the first bytes of a packet that is not whole say.
fn cut_of(bytes: &[u8]) -> Cut {
    match bytes {
        [_, a, b, ..] => Cut {
            pid: Some(u16::from_be_bytes([a & 0x1F, *b])),
            starts: a & 0x40 != 0,
        },
        _ => Cut::default(),
    }
}

/// What tells packets apart that have the same counter.
fn hash(packet: &Packet) -> u64 {
    let words = packet.payload().chunks(8).map(|bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    });
    words.fold(u64::from(packet.starts()), |hash, word| {
        (hash.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    })
}

/// Splits a whole file; frames get the media times of their stamps. Tables that come behind the first pictures hold
/// for these too. `program` is the one to be served, with layers as `map` says.
pub(crate) fn parse(
    data: &Bytes,
    program: Option<u16>,
    map: Map,
) -> Result<(Stream, Option<VideoCodec>), MediaError> {
    let mut splitter = TsSplitter::of_program(program).with_map(map);
    splitter.look_ahead(data);
    let mut timed = Vec::new();
    for chunk in data.chunks(64 * TS_PACKET) {
        splitter.push(chunk);
        timed.extend(std::iter::from_fn(|| splitter.poll()));
    }
    splitter.finish();
    timed.extend(std::iter::from_fn(|| splitter.poll()));
    if let Some(problem) = splitter.problem().or_else(|| splitter.misfit()) {
        return Err(MediaError::Unusable { problem });
    }
    let start = timed.iter().position(|timed| timed.frame.gop_start);
    let timed = start
        .map(|start| timed.split_off(start))
        .unwrap_or_default();
    if timed.is_empty() {
        return Err(MediaError::Truncated {
            offset: data.len() as u64,
            expected: "a picture that a receiver can start at (a key frame with its headers)",
        });
    }
    let crate::live::Timed {
        frames,
        rate: frame_rate,
        ..
    } = crate::live::on_a_timeline(timed);
    let (width, height, _) = splitter.format().unwrap_or((0, 0, None));
    let stream = Stream {
        codec: Media::MpegTs,
        width,
        height,
        frame_rate,
        frames,
        truncated: splitter.ends_inside(),
    };
    Ok((stream, splitter.codec()))
}
