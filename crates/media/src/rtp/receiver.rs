use std::collections::VecDeque;

use layercast_core::{Media, Time};
use serde::Serialize;

use super::av1::Av1Parts;
use super::codec::{Carried, Foreign};
use super::h264::H264;
use super::h265::H265;
use super::nal::{Depacketiser, NalCodec};
use super::pictures::{MpegPictures, NalPictures, Pictures};
use super::reorder::{Ordered, Reorder};
use super::session::RtpSession;
use super::source::{Kept, RtpNote, Sources, Verdict};
use super::vpx::VpxParts;
use super::{MPEG_VIDEO, RtpPacket, RtpSource};
use crate::live::TimedFrame;
use crate::ts::{StreamChange, TsSplitter};
use crate::{Map, Picture};

/// Frames kept for a caller that does not poll.
const MAX_FRAMES: usize = 4_096;

/// What an [`RtpReceiver`] saw.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct RtpStats {
    /// Packets of the source that is received.
    pub packets: u64,
    /// Packets lost, by their sequence numbers.
    pub lost: u64,
    /// Duplicates, late packets, and single packets of another source; dropped.
    pub dropped: u64,
    /// Datagrams that are not RTP, and payloads that do not follow their format.
    pub malformed: u64,
    /// Pictures left out because a packet of them, or of a picture that they refer to, is lost. Of a transport stream, pictures that
    /// are marked because a packet of them is.
    pub incomplete: u64,
    /// Packets of other sources on the port.
    pub other_sources: u64,
    /// RTCP packets and STUN messages on the port.
    pub control: u64,
}

/// Layered frames from the RTP packets of one source on a port.
///
/// The payload type identifies the content (RFC 3551); of dynamic ones (96 to 127) by what several packets
/// hold: an MPEG transport stream, H.264, H.265, AV1, VP8 or VP9. The first such source is taken, others are counted and named; if it
/// is silent for a second, another one that carries the same takes its place.
///
/// A machine without a clock: after each call take the frames and notes, then ask
/// [`next_timeout`](RtpReceiver::next_timeout).
#[derive(Debug, Default)]
pub struct RtpReceiver {
    sources: Sources,
    /// Parameter sets of the session description.
    parameter_sets: Vec<Vec<u8>>,
    map: Map,
    reorder: Reorder,
    content: Option<Content>,
    /// Packets that are missing before the next one with a payload, at most.
    loss: u32,
    frames: VecDeque<TimedFrame>,
    scratch: Vec<TimedFrame>,
    stats: RtpStats,
    elsewhere: Elsewhere,
}

/// What is missing of a stream while its source sends another codec: nothing of that was lost on the way.
#[derive(Default, Debug)]
struct Elsewhere {
    /// The source sends another codec now.
    is_now: bool,
    /// Packets and pictures that were missing when the last picture came, and of those the ones that were not lost.
    pictured: [u64; 2],
    left_out: [u64; 2],
}

#[derive(Debug)]
enum Content {
    Transport(Box<TsSplitter>),
    Mpeg(Box<MpegPictures>),
    H264(Box<NalPictures<H264>>),
    H265(Box<NalPictures<H265>>),
    Av1(Box<Pictures<Av1Parts>>),
    Vpx(Box<Pictures<VpxParts>>),
}

impl RtpReceiver {
    /// A receiver that waits for its first packets.
    pub fn new() -> RtpReceiver {
        RtpReceiver::default()
    }

    /// A receiver of the stream that a session description names.
    pub fn of_session(session: &RtpSession) -> RtpReceiver {
        let mut receiver = RtpReceiver::default();
        receiver.describe(session);
        receiver
    }

    /// Takes the stream that a session description names, with the parameter sets in it.
    pub fn describe(&mut self, session: &RtpSession) {
        self.sources.describe(session.payload_type, session.carried);
        self.parameter_sets.clone_from(&session.parameter_sets);
    }

    /// Distributes pictures over the layers as `map` says. To be called before anything comes.
    pub fn set_map(&mut self, map: Map) {
        self.map = map;
    }

    /// Why the map does not fit the video, as far as it came.
    pub fn misfit(&self) -> Option<String> {
        match self.content.as_ref()? {
            Content::Transport(splitter) => splitter.misfit(),
            Content::Mpeg(_) if self.map.needs_references() => {
                Some(self.map.misfit("MPEG-1/2 video"))
            }
            Content::Mpeg(_) => None,
            Content::H264(pictures) => misfit_of(&pictures.parts.codec, self.map),
            Content::H265(pictures) => misfit_of(&pictures.parts.codec, self.map),
            Content::Av1(pictures) => pictures.parts.frames.misfit(),
            // Which frame is the first of the stream is not known.
            Content::Vpx(pictures) if self.map.is_by_place() => {
                Some(self.map.misfit(pictures.parts.frames.codec().name()))
            }
            Content::Vpx(pictures) => pictures.parts.frames.misfit(),
        }
    }

    /// Takes a datagram that arrives `now`.
    pub fn push(&mut self, now: Time, datagram: &[u8]) {
        let Some(packet) = RtpPacket::parse(datagram) else {
            match is_control(datagram) {
                true => self.stats.control += 1,
                false => self.stats.malformed += 1,
            }
            return;
        };
        match self.sources.push(now, &packet, datagram) {
            Verdict::Pass => self.packet(now, &packet),
            Verdict::Take(carried, kept) => self.take(carried, kept.into()),
            Verdict::Hold => {}
        }
        self.on_timeout(now);
        self.elsewhere.is_now |= self.sources.has_left();
    }

    /// When [`on_timeout`](RtpReceiver::on_timeout) is to be called, if nothing comes before.
    pub fn next_timeout(&self) -> Option<Time> {
        let picture = match &self.content {
            Some(Content::H264(pictures)) => pictures.next_timeout(),
            Some(Content::H265(pictures)) => pictures.next_timeout(),
            Some(Content::Av1(pictures)) => pictures.next_timeout(),
            Some(Content::Vpx(pictures)) => pictures.next_timeout(),
            _ => None,
        };
        [self.reorder.next_timeout(), picture]
            .into_iter()
            .flatten()
            .min()
    }

    /// Gives up what did not come in time: missing packets, and the end of a picture.
    pub fn on_timeout(&mut self, now: Time) {
        while let Some(packet) = self.reorder.pop(now) {
            self.ordered(now, &packet);
        }
        match &mut self.content {
            Some(Content::H264(pictures)) => pictures.on_timeout(now, &mut self.scratch),
            Some(Content::H265(pictures)) => pictures.on_timeout(now, &mut self.scratch),
            Some(Content::Av1(pictures)) => pictures.on_timeout(now, &mut self.scratch),
            Some(Content::Vpx(pictures)) => pictures.on_timeout(now, &mut self.scratch),
            _ => {}
        }
        self.collect();
    }

    /// The stream is over: what is there goes out.
    pub fn finish(&mut self) {
        let now = Time::ZERO;
        if let Verdict::Take(carried, kept) = self.sources.finish(now) {
            self.take(carried, kept.into());
        }
        while let Some(packet) = self.reorder.take() {
            self.ordered(now, &packet);
        }
        match &mut self.content {
            Some(Content::Transport(splitter)) => splitter.finish(),
            Some(Content::Mpeg(pictures)) => pictures.finish(&mut self.scratch),
            Some(Content::H264(pictures)) => pictures.end_picture(&mut self.scratch),
            Some(Content::H265(pictures)) => pictures.end_picture(&mut self.scratch),
            Some(Content::Av1(pictures)) => pictures.end_picture(&mut self.scratch),
            Some(Content::Vpx(pictures)) => pictures.end_picture(&mut self.scratch),
            None => {}
        }
        self.collect();
    }

    /// The next frame.
    pub fn poll(&mut self) -> Option<TimedFrame> {
        self.frames.pop_front()
    }

    /// The next thing a user should know of the sources on the port.
    pub fn poll_note(&mut self) -> Option<RtpNote> {
        self.sources.poll_note()
    }

    /// The next stream of a transport stream in it that stopped or comes again.
    pub fn poll_change(&mut self) -> Option<StreamChange> {
        match &mut self.content {
            Some(Content::Transport(splitter)) => splitter.poll_change(),
            _ => None,
        }
    }

    /// What it carries, once that is known.
    pub fn media(&self) -> Option<Media> {
        Some(match self.content.as_ref()? {
            Content::Transport(_) => Media::MpegTs,
            Content::Mpeg(pictures) if pictures.mpeg2 => Media::Mpeg2,
            Content::Mpeg(_) => Media::Mpeg1,
            Content::H264(_) => Media::H264,
            Content::H265(_) => Media::H265,
            Content::Av1(_) => Media::Av1,
            Content::Vpx(pictures) => pictures.parts.frames.codec(),
        })
    }

    /// Whether no frame has come out of it.
    pub(crate) fn is_barren(&self) -> bool {
        self.sources.is_barren()
    }

    /// Why the input yields no picture, with a remedy; `None` if no fault is known.
    pub fn problem(&self) -> Option<String> {
        if let Some((source, foreign)) = self.sources.foreign() {
            return Some(not_carried(source, foreign));
        }
        if let Some(source) = self.sources.mislabelled() {
            let says = match source.payload_type {
                MPEG_VIDEO => "MPEG-1/2 video",
                _ => "MPEG-TS",
            };
            return Some(format!(
                "RTP comes from {source}, which stands for {says} (RFC 3551), but its payloads are not that: let the \
                 encoder send {says}, or another payload type (ffmpeg: -f rtp for H.264 and H.265, -f rtp_mpegts for MPEG-TS)"
            ));
        }
        if let Some(Content::Transport(splitter)) = &self.content {
            return splitter.problem();
        }
        let (name, slices) = match &self.content {
            Some(Content::H264(pictures)) => lacking(&pictures.parts.codec)?,
            Some(Content::H265(pictures)) => lacking(&pictures.parts.codec)?,
            _ => return None,
        };
        let (sets, held_as) = match name {
            H265::NAME => ("VPS, SPS and PPS", "sprop-vps, sprop-sps and sprop-pps"),
            _ => ("SPS and PPS", "sprop-parameter-sets"),
        };
        Some(format!(
            "it is {name} in RTP without parameter sets ({sets}): {slices} slices came that cannot be read. \
             Give serve the session description of the sender, which holds them as {held_as} \
             (--sdp FILE), or let the encoder repeat them before each key frame (ffmpeg: -bsf:v dump_extra)"
        ))
    }

    /// What it saw.
    pub fn stats(&self) -> RtpStats {
        let all = self.all_stats();
        let Elsewhere {
            is_now,
            pictured,
            left_out,
        } = &self.elsewhere;
        let [lost, incomplete] = match is_now {
            true => *pictured,
            false => [all.lost, all.incomplete],
        };
        RtpStats {
            lost: lost.saturating_sub(left_out[0]),
            incomplete: incomplete.saturating_sub(left_out[1]),
            ..all
        }
    }

    /// Whether packets come, and for some time no picture.
    pub fn awaits_picture(&self) -> bool {
        self.sources.awaits_picture()
    }

    /// The same with all that is missing.
    fn all_stats(&self) -> RtpStats {
        let (malformed, incomplete) = match &self.content {
            Some(Content::Transport(splitter)) => (0, splitter.stats().damaged),
            Some(Content::Mpeg(pictures)) => (pictures.parts.malformed, pictures.incomplete),
            Some(Content::H264(pictures)) => (pictures.malformed(), pictures.incomplete),
            Some(Content::H265(pictures)) => (pictures.malformed(), pictures.incomplete),
            Some(Content::Av1(pictures)) => (pictures.malformed(), pictures.incomplete),
            Some(Content::Vpx(pictures)) => (pictures.malformed(), pictures.incomplete),
            None => (0, 0),
        };
        RtpStats {
            lost: self.stats.lost + self.reorder.lost,
            dropped: self.stats.dropped + self.reorder.dropped,
            malformed: self.stats.malformed + malformed,
            incomplete: self.stats.incomplete + incomplete,
            other_sources: self.sources.others,
            ..self.stats
        }
    }

    /// Takes a source, of which these packets came so far.
    fn take(&mut self, carried: Carried, kept: Vec<Kept>) {
        // What was counted of the source before stays counted.
        self.stats = RtpStats {
            other_sources: 0,
            ..self.all_stats()
        };
        self.reorder = Reorder::default();
        self.content = Some(match carried {
            Carried::Transport => {
                Content::Transport(Box::new(TsSplitter::new().with_map(self.map)))
            }
            Carried::Mpeg => Content::Mpeg(Box::default()),
            Carried::H264 => Content::H264(self.pictures()),
            Carried::H265 => Content::H265(self.pictures()),
            Carried::Av1 => Content::Av1(Box::new(Pictures::new(Av1Parts::new(self.map)))),
            Carried::Vp8 => self.vpx(Media::Vp8),
            Carried::Vp9 => self.vpx(Media::Vp9),
        });
        let mut kept: Vec<(u16, Kept)> = kept
            .into_iter()
            .filter_map(|it| Some((RtpPacket::parse(&it.datagram)?.seq, it)))
            .collect();
        // The first two may have come in the wrong order.
        if let Some(&(first, _)) = kept.first() {
            kept.sort_by_key(|(seq, _)| seq.wrapping_sub(first).wrapping_add(1 << 15));
        }
        for (_, Kept { at, datagram }) in kept {
            if let Some(packet) = RtpPacket::parse(&datagram) {
                self.packet(at, &packet);
            }
        }
        self.collect();
    }

    /// What makes pictures of NAL units.
    fn pictures<C: NalCodec>(&self) -> Box<NalPictures<C>> {
        let mut pictures: Box<NalPictures<C>> = Box::new(Pictures::new(Depacketiser::default()));
        pictures.parts.codec.set_map(self.map);
        for set in &self.parameter_sets {
            pictures.parts.codec.take_set(set);
        }
        pictures
    }

    /// What makes pictures of VP8 or VP9.
    fn vpx(&self, codec: Media) -> Content {
        Content::Vpx(Box::new(Pictures::new(VpxParts::new(codec, self.map))))
    }

    /// Takes a packet of the source that is taken.
    fn packet(&mut self, now: Time, packet: &RtpPacket) {
        self.stats.packets += 1;
        if let Some(missing) = self.reorder.push(now, packet) {
            self.in_order(now, packet, missing);
        }
        while let Some(packet) = self.reorder.pop(now) {
            self.ordered(now, &packet);
        }
        self.collect();
    }

    fn ordered(&mut self, now: Time, ordered: &Ordered) {
        let packet = RtpPacket {
            marker: ordered.marker,
            payload_type: 0,
            seq: 0,
            timestamp: ordered.timestamp,
            ssrc: 0,
            payload: &ordered.payload,
        };
        self.in_order(now, &packet, ordered.missing);
    }

    fn in_order(&mut self, now: Time, packet: &RtpPacket, missing: u32) {
        let missing = missing.saturating_add(std::mem::take(&mut self.loss));
        if packet.payload.is_empty() {
            // Nothing but padding: it holds the line open.
            self.loss = missing;
            return;
        }
        let out = &mut self.scratch;
        match &mut self.content {
            Some(Content::Transport(splitter)) => splitter.push_datagram_at(now, packet.payload),
            Some(Content::Mpeg(pictures)) => pictures.packet(packet, missing > 0, out),
            Some(Content::H264(pictures)) => pictures.packet(now, packet, missing, out),
            Some(Content::H265(pictures)) => pictures.packet(now, packet, missing, out),
            Some(Content::Av1(pictures)) => pictures.packet(now, packet, missing, out),
            Some(Content::Vpx(pictures)) => pictures.packet(now, packet, missing, out),
            None => {}
        }
    }

    fn collect(&mut self) {
        let splitter = match &mut self.content {
            Some(Content::Transport(splitter)) => Some(splitter),
            _ => None,
        };
        let of_transport = splitter
            .into_iter()
            .flat_map(|it| std::iter::from_fn(|| it.poll()));
        let mut shows_picture = false;
        for frame in self.scratch.drain(..).chain(of_transport) {
            // A transport stream has frames without a picture, too.
            shows_picture |= frame.frame.picture != Picture::Data;
            if self.frames.len() < MAX_FRAMES {
                self.frames.push_back(frame);
            }
        }
        if shows_picture {
            self.sources.confirm();
            let all = self.all_stats();
            let now = [all.lost, all.incomplete];
            let away = &mut self.elsewhere;
            if std::mem::take(&mut away.is_now) {
                let missing = now.iter().zip(away.pictured);
                let left_out = away.left_out.iter_mut().zip(missing);
                left_out.for_each(|(sum, (now, before))| *sum += now.saturating_sub(before));
            }
            away.pictured = now;
        }
    }
}

/// Why a map does not fit what came.
fn misfit_of<C: NalCodec>(codec: &C, map: Map) -> Option<String> {
    let lacks = map.is_by_place() || map == Map::Temporal && !codec.has_temporal_layers();
    lacks.then(|| map.misfit(&format!("this {} stream", C::NAME)))
}

/// The codec of which no picture can be given, and its slices: they came without their parameter sets.
fn lacking<C: NalCodec>(codec: &C) -> Option<(&'static str, u64)> {
    Some((C::NAME, codec.lacks_parameter_sets()?))
}

fn not_carried(source: RtpSource, foreign: Foreign) -> String {
    let (name, kind) = (foreign.name(), source.payload_type);
    if foreign == Foreign::Parities {
        return format!(
            "it is RTP with {name} (payload type {kind}), which protect the media of another port: give the port of the media, \
             which is 2 or 4 below, and --rtp-fec for both"
        );
    }
    format!(
        "it is RTP with {name} (payload type {kind}), not with H.264, H.265, AV1, VP8, VP9, MPEG-1/2 video or MPEG-TS: let the \
         encoder send H.264, or put the codec into MPEG-TS (ffmpeg: -f rtp_mpegts, or -f mpegts to a udp:// address)"
    )
}

/// Whether a datagram is RTCP (RFC 5761, 4) or STUN (RFC 8489, 5).
fn is_control(datagram: &[u8]) -> bool {
    match datagram {
        [first, kind, ..] if first >> 6 == 2 => (192..=223).contains(kind),
        [0..=3, _, _, _, 0x21, 0x12, 0xA4, 0x42, ..] => true,
        _ => false,
    }
}
