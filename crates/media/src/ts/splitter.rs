use std::collections::VecDeque;

use bytes::Bytes;
use layercast_core::Media;

use super::headers::with_headers;
use super::packet::{NULL, PAT, PCR_HZ, Packet, SYNC, TS_PACKET};
use super::pes::PesHeader;
use super::psi::{ProgramMap, Sections, programs};
use super::video::{Coded, VideoInspector};
use crate::live::{Stamp, TimedFrame};
use crate::mpeg::es::Stream;
use crate::{Frame, MediaError, Picture};

/// Largest frame, in whole packets: what a METS frame holds.
const MAX_FRAME: usize = ((1 << 24) - 1) / TS_PACKET * TS_PACKET;
/// Packets of other streams that wait for the end of a picture at most.
const MAX_WAITING: usize = 256 * TS_PACKET;
/// Frames kept for a caller that does not poll.
const MAX_FRAMES: usize = 4_096;
/// Without video: how much of the clock goes into one frame, and how often receivers can start.
const DATA_FRAME: u64 = PCR_HZ / 20;
const DATA_START: u64 = PCR_HZ / 2;

/// What a [`TsSplitter`] saw.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize)]
pub struct TsStats {
    /// Packets taken.
    pub packets: u64,
    /// Bytes skipped in search of a packet.
    pub skipped: u64,
    /// Packets missing, as their counters tell.
    pub lost: u64,
    /// Packets that came twice, or marked as damaged; dropped.
    pub dropped: u64,
}

/// Splits a transport stream into layered frames (2.4.3).
///
/// A frame is a run of whole packets. A picture of the first video stream with all its packets is
/// a frame of its picture's layer; what came in between (audio, tables, other streams) follows
/// it as a frame of the base layer. A frame that receivers can start at begins with PAT and PMT.
#[derive(Debug)]
pub struct TsSplitter {
    /// Less than a packet.
    rest: Vec<u8>,
    synced: bool,
    pat: Sections,
    pmt: Sections,
    pat_packets: Vec<u8>,
    pmt_packets: Vec<u8>,
    map_pid: Option<u16>,
    map: Option<ProgramMap>,
    video: Option<Video>,
    others: Vec<u8>,
    last_pcr: Option<u64>,
    /// Clock at the last frame, and at the last start, of a stream without video.
    cut_at: Option<u64>,
    start_at: Option<u64>,
    counters: Box<[u8; 8_192]>,
    frames: VecDeque<TimedFrame>,
    stats: TsStats,
}

/// The video stream, and the picture of it that is being read.
#[derive(Debug)]
struct Video {
    pid: u16,
    kind: u8,
    inspector: VideoInspector,
    packets: Vec<u8>,
    /// Its elementary stream.
    payload: Vec<u8>,
    random_access: bool,
    scrambled: bool,
    stamp: Option<Stamp>,
    /// A first field that waits for its second.
    field: Option<(Coded, TimedFrame, Vec<u8>)>,
}

const NO_COUNTER: u8 = 0xFF;

impl Default for TsSplitter {
    fn default() -> TsSplitter {
        TsSplitter {
            rest: Vec::new(),
            synced: false,
            pat: Sections::default(),
            pmt: Sections::default(),
            pat_packets: Vec::new(),
            pmt_packets: Vec::new(),
            map_pid: None,
            map: None,
            video: None,
            others: Vec::new(),
            last_pcr: None,
            cut_at: None,
            start_at: None,
            counters: Box::new([NO_COUNTER; 8_192]),
            frames: VecDeque::new(),
            stats: TsStats::default(),
        }
    }
}

impl TsSplitter {
    /// A splitter that waits for a program map.
    pub fn new() -> TsSplitter {
        TsSplitter::default()
    }

    /// Takes bytes of the stream, cut anywhere.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.rest.is_empty() && self.synced && bytes.len() >= TS_PACKET && bytes[0] == SYNC {
                let (packet, after) = bytes.split_at(TS_PACKET);
                bytes = after;
                self.packet(packet);
                continue;
            }
            let wanted = 2 * TS_PACKET - self.rest.len();
            let (now, after) = bytes.split_at(wanted.min(bytes.len()));
            self.rest.extend_from_slice(now);
            bytes = after;
            self.settle();
        }
    }

    /// Takes packets out of the rest, and skips what is none. In search of a packet two sync bytes
    /// have to be seen, from then on one.
    fn settle(&mut self) {
        let rest = std::mem::take(&mut self.rest);
        let mut at = 0;
        while let Some(bytes) = rest.get(at..).filter(|bytes| bytes.len() >= TS_PACKET) {
            if bytes[0] != SYNC {
                self.synced = false;
            } else if !self.synced {
                match bytes.get(TS_PACKET) {
                    Some(&next) => self.synced = next == SYNC,
                    None => break,
                }
            }
            if self.synced {
                self.packet(&bytes[..TS_PACKET]);
                at += TS_PACKET;
            } else {
                self.stats.skipped += 1;
                at += 1;
            }
        }
        self.rest = rest;
        self.rest.drain(..at);
    }

    /// Ends the stream: what is there goes out.
    pub fn finish(&mut self) {
        if self.rest.len() == TS_PACKET {
            // Alone it is a packet if it looks like one.
            let rest = std::mem::take(&mut self.rest);
            self.packet(&rest);
        }
        self.end_picture();
        self.end_field();
        self.end_others(None);
    }

    /// The next frame.
    pub fn poll(&mut self) -> Option<TimedFrame> {
        self.frames.pop_front()
    }

    /// What it saw.
    pub fn stats(&self) -> TsStats {
        self.stats
    }

    /// Width, height and, if the stream says so, frames per second of the video.
    pub fn format(&self) -> Option<(u32, u32, Option<layercast_core::FrameRate>)> {
        self.video.as_ref()?.inspector.format()
    }

    /// Whether there is a program map, and video in it.
    pub fn has_video(&self) -> Option<bool> {
        self.map.as_ref().map(|_| self.video.is_some())
    }

    fn packet(&mut self, bytes: &[u8]) {
        let Some(packet) = Packet::new(bytes) else {
            return;
        };
        if packet.error() || packet.pid() == NULL {
            self.stats.dropped += u64::from(packet.error());
            return;
        }
        self.stats.packets += 1;
        if self.is_repeated(&packet) {
            self.stats.dropped += 1;
            return;
        }
        let pid = packet.pid();
        if pid == PAT {
            self.on_pat(&packet);
        } else if Some(pid) == self.map_pid {
            self.on_pmt(&packet);
        }
        if let Some(pcr) = packet.pcr().filter(|_| self.is_clock(pid)) {
            self.last_pcr = Some(pcr);
            if self.video.is_none() {
                self.cut_data(pcr);
            }
        }
        match &self.video {
            Some(video) if video.pid == pid => self.on_video(&packet),
            // Nobody can start before the tables are known.
            _ if self.map.is_some() => self.on_other(bytes),
            _ => {}
        }
    }

    fn is_clock(&self, pid: u16) -> bool {
        self.map.as_ref().is_some_and(|map| map.pcr_pid == pid)
    }

    /// Checks the continuity counter (2.4.3.3): counts what is missing, and tells repeated packets.
    fn is_repeated(&mut self, packet: &Packet) -> bool {
        if !packet.has_payload() {
            return false;
        }
        let counter = &mut self.counters[usize::from(packet.pid())];
        let last = std::mem::replace(counter, packet.continuity());
        if last == NO_COUNTER || packet.discontinuity() {
            return false;
        }
        let missing = packet.continuity().wrapping_sub(last).wrapping_sub(1) & 15;
        if missing == 15 && !packet.starts() {
            return true;
        }
        self.stats.lost += u64::from(missing);
        false
    }

    fn on_pat(&mut self, packet: &Packet) {
        let Some((section, packets)) = self.pat.push(packet) else {
            return;
        };
        // The first program; the others go along as they are.
        let pid = programs(section).map(|(_, pid)| pid).next();
        self.pat_packets = packets.to_vec();
        if pid != self.map_pid {
            self.map_pid = pid;
            self.pmt = Sections::default();
        }
    }

    fn on_pmt(&mut self, packet: &Packet) {
        let Some((section, packets)) = self.pmt.push(packet) else {
            return;
        };
        let Some(map) = ProgramMap::parse(section) else {
            return;
        };
        self.pmt_packets = packets.to_vec();
        if self.map.as_ref() == Some(&map) {
            return;
        }
        let video = map
            .streams
            .iter()
            .find_map(|&(kind, pid)| Some((kind, pid, VideoInspector::new(kind)?)));
        let same = match (&self.video, &video) {
            (Some(old), Some((kind, pid, _))) => old.pid == *pid && old.kind == *kind,
            (old, new) => old.is_none() && new.is_none(),
        };
        if !same {
            self.end_picture();
            self.end_field();
            self.video = video.map(|(kind, pid, inspector)| Video {
                pid,
                kind,
                inspector,
                packets: Vec::new(),
                payload: Vec::new(),
                random_access: false,
                scrambled: false,
                stamp: None,
                field: None,
            });
        }
        self.map = Some(map);
    }

    fn on_video(&mut self, packet: &Packet) {
        if packet.starts() {
            self.end_picture();
        }
        let Some(video) = &mut self.video else { return };
        if video.packets.is_empty() && !packet.starts() {
            // The rest of a picture whose beginning nobody saw; its clock is still of use.
            if packet.pcr().is_some() && !packet.has_payload() {
                self.on_other(packet.bytes());
            }
            return;
        }
        let mut payload = packet.payload();
        if packet.starts() {
            if let Some(header) = PesHeader::parse(payload) {
                video.stamp = header.dts.map(Stamp::pes);
                payload = payload.get(header.len..).unwrap_or_default();
            }
            video.random_access = packet.random_access();
        }
        video.scrambled |= packet.scrambled();
        video.packets.extend_from_slice(packet.bytes());
        video.payload.extend_from_slice(payload);
        if video.packets.len() >= MAX_FRAME {
            self.end_picture();
        }
    }

    /// The picture being read is whole.
    fn end_picture(&mut self) {
        let Some(video) = self.video.as_mut().filter(|it| !it.packets.is_empty()) else {
            return;
        };
        let mut coded = match std::mem::take(&mut video.scrambled) {
            true => VideoInspector::Other.read(&[], video.random_access),
            false => video.inspector.read(&video.payload, video.random_access),
        };
        let packets = std::mem::take(&mut video.packets);
        video.payload.clear();
        let stamp = video.stamp.take();
        if let Some((first, frame, mut data)) = video.field.take() {
            if coded.completes(&first) && data.len() + packets.len() <= MAX_FRAME {
                data.extend_from_slice(&packets);
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
            true => [&self.pat_packets[..], &self.pmt_packets, &packets].concat(),
            false => packets,
        };
        let frame = TimedFrame {
            frame: Frame {
                layer: coded.layer,
                gop_start: coded.gop_start,
                ..Frame::sized(coded.picture, 0)
            },
            stamp,
        };
        match (&mut self.video, coded.is_field()) {
            (Some(video), true) => video.field = Some((coded, frame, data)),
            _ => {
                self.emit(frame.with_data(data));
                self.end_others(stamp);
            }
        }
    }

    /// A first field whose second did not come.
    fn end_field(&mut self) {
        let field = self.video.as_mut().and_then(|video| video.field.take());
        if let Some((_, frame, data)) = field {
            self.emit(frame.with_data(data));
        }
    }

    fn on_other(&mut self, packet: &[u8]) {
        self.others.extend_from_slice(packet);
        if self.others.len() >= MAX_WAITING {
            self.end_others(None);
        }
    }

    /// Sends off what came beside the picture.
    fn end_others(&mut self, stamp: Option<Stamp>) {
        if !self.others.is_empty() {
            let data = std::mem::take(&mut self.others);
            let frame = Frame::sized(Picture::Data, 0);
            self.emit(TimedFrame { frame, stamp }.with_data(data));
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
                [&self.pat_packets[..], &self.pmt_packets, &packets].concat()
            }
            false => packets,
        };
        let frame = Frame {
            gop_start: starts,
            ..Frame::sized(Picture::Data, 0)
        };
        let stamp = Some(Stamp::pes(pcr / 300));
        self.emit(TimedFrame { frame, stamp }.with_data(data));
    }

    fn emit(&mut self, frame: TimedFrame) {
        if self.frames.len() < MAX_FRAMES {
            self.frames.push_back(frame);
        }
    }
}

/// Splits a whole file; frames get the media times of their stamps.
pub(crate) fn parse(data: &Bytes) -> Result<Stream, MediaError> {
    let mut splitter = TsSplitter::new();
    let mut timed = Vec::new();
    for chunk in data.chunks(64 * TS_PACKET) {
        splitter.push(chunk);
        timed.extend(std::iter::from_fn(|| splitter.poll()));
    }
    splitter.finish();
    timed.extend(std::iter::from_fn(|| splitter.poll()));
    let start = timed.iter().position(|timed| timed.frame.gop_start);
    let timed = start
        .map(|start| timed.split_off(start))
        .unwrap_or_default();
    if timed.is_empty() {
        return Err(MediaError::Truncated {
            offset: data.len() as u64,
            expected: match splitter.map {
                None => "program tables (PAT and PMT) in the transport stream",
                Some(_) => "a picture that a receiver can start at",
            },
        });
    }
    let (frames, frame_rate) = crate::live::on_a_timeline(timed);
    let (width, height, _) = splitter.format().unwrap_or((0, 0, None));
    Ok(Stream {
        codec: Media::MpegTs,
        width,
        height,
        frame_rate,
        frames,
        truncated: None,
    })
}
