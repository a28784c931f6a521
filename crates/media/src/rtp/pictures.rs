use std::fmt::Debug;

use layercast_core::{FrameRate, Serial, Time};

use super::codec::is_transport;
use super::mpeg;
use super::nal::Depacketiser;
use super::packet::RtpPacket;
use super::reorder::REORDER_TIME;
use crate::Frame;
use crate::live::{Stamp, TimedFrame};
use crate::mpeg::anchors::Anchors;
use crate::mpeg::unit::AccessUnit;
use crate::ts::{Coded, VideoInspector};

/// Ticks of a picture where the stream does not say.
const DEFAULT_PERIOD: u64 = 3_600;
/// Pictures in a row that end with the marker of their last packet, and have no other, until markers are
/// relied on.
const TRUST: u8 = 16;

/// What is known of the marker bit, which is to be set on the last packet of a picture (RFC 6184, 5.1).
///
/// Some senders set it on every slice or NAL unit. So a picture ends with its time stamp, until enough
/// pictures have shown that the marker can be relied on; one that is wrong ends the reliance for good.
#[derive(Default, Debug)]
struct Markers {
    good: u8,
    wrong: bool,
}

impl Markers {
    fn are_reliable(&self) -> bool {
        !self.wrong && self.good >= TRUST
    }
}

/// Odd ones among the last 16 payloads at which they are those of another codec.
const ODD: u32 = 4;
/// Payloads that fit, one behind the other, at which they are those of the codec again.
const CLEAN: u32 = 4;

/// How a payload fits the codec of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fit {
    Fits,
    /// No sender is known to send it, and it is no part of a picture.
    Odd,
    /// The codec forbids it.
    Forbidden,
}

/// Whether the payloads of a source are those of another codec than that of the stream: what looks like a picture in them is none.
#[derive(Default, Debug)]
struct Doubt {
    /// Which of the last payloads were odd, the latest in the lowest bit.
    recent: u16,
    is_other: bool,
    awaits_start: bool,
}

impl Doubt {
    fn push(&mut self, fit: Fit) {
        self.recent = self.recent << 1 | u16::from(fit != Fit::Fits);
        self.awaits_start |= fit == Fit::Forbidden;
        if self.is_other && self.recent.trailing_zeros() >= CLEAN {
            (self.is_other, self.recent) = (false, 0);
        } else if self.recent.count_ones() >= ODD {
            (self.is_other, self.awaits_start) = (true, true);
        }
    }

    /// Whether a picture is one of the stream; `starts` if nothing before it matters.
    fn takes(&mut self, starts: bool) -> bool {
        let takes = !self.is_other && (starts || !self.awaits_start);
        self.awaits_start &= !takes;
        takes
    }
}

/// Puts payloads together to what makes pictures.
pub(crate) trait Parts: Debug {
    type Unit: Debug;

    /// Whether a payload holds a part of a picture, as opposed to something beside it.
    fn holds_picture(&self, payload: &[u8]) -> bool;
    /// Whether a payload begins another picture, also where it has the time stamp of the one before.
    fn begins_picture(&self, payload: &[u8]) -> bool;
    /// Whether a payload may be one of the codec.
    fn fit(&self, payload: &[u8]) -> Fit;
    /// Takes a payload.
    fn push(&mut self, payload: &[u8], units: &mut Vec<Self::Unit>);
    /// Forgets what came and is of no picture yet.
    fn clear(&mut self) {}
    /// Packets are missing before the next one, inside a picture.
    fn lose(&mut self);
    /// Packets are missing before the next one, with which a picture may begin or not.
    fn lose_front(&mut self);
    /// The picture is over. One of which something is missing is dropped: gives whether that is so.
    fn end_unit(&mut self, units: &mut Vec<Self::Unit>) -> bool;
    /// The frame of a picture, number `seq` of those that came or may be missing; `None` if it cannot be decoded.
    fn frame(&mut self, unit: Self::Unit, seq: Serial, stamp: Stamp) -> Option<TimedFrame>;
    /// A part of the picture given last is missing.
    fn lose_last(&mut self);
    /// Payloads that do not follow their format.
    fn malformed(&self) -> u64;
}

/// Pictures of H.264 or H.265.
pub(crate) type NalPictures<C> = Pictures<Depacketiser<C>>;

/// Pictures from the packets of one source.
#[derive(Debug)]
pub(crate) struct Pictures<P: Parts> {
    pub parts: P,
    seq: Serial,
    units: Vec<P::Unit>,
    markers: Markers,
    timestamp: Option<u32>,
    /// When a marker came with a slice of this time stamp.
    marked: Option<Time>,
    /// The picture of this time stamp was given already.
    ended: bool,
    doubt: Doubt,
    /// Payloads that the codec forbids.
    forbidden: u64,
    /// Pictures left out because something of them, or of what they refer to, is missing.
    pub incomplete: u64,
}

impl<P: Parts> Pictures<P> {
    /// Pictures of what `parts` puts together.
    pub fn new(parts: P) -> Pictures<P> {
        Pictures {
            parts,
            seq: Serial::default(),
            units: Vec::new(),
            markers: Markers::default(),
            timestamp: None,
            marked: None,
            ended: false,
            doubt: Doubt::default(),
            forbidden: 0,
            incomplete: 0,
        }
    }

    /// Payloads that do not follow their format.
    pub fn malformed(&self) -> u64 {
        self.parts.malformed() + self.forbidden
    }

    /// Takes a packet in its place; as many are `missing` before it, at most.
    pub fn packet(
        &mut self,
        now: Time,
        packet: &RtpPacket,
        missing: u32,
        out: &mut Vec<TimedFrame>,
    ) {
        let after_loss = missing > 0;
        if self.timestamp != Some(packet.timestamp) {
            if after_loss && (self.marked.is_none() || self.markers.wrong) {
                self.parts.lose();
            }
            if self.marked.is_some() && !self.markers.wrong {
                self.markers.good = self.markers.good.saturating_add(1);
            }
            self.end_picture(out);
            if self.doubt.is_other {
                self.parts.clear();
            }
            (self.timestamp, self.marked, self.ended) = (Some(packet.timestamp), None, false);
            if after_loss {
                self.parts.lose_front();
                // Each may be a whole picture: references to them are recognised by their number.
                self.seq = self.seq.plus(missing);
            }
        } else if after_loss {
            self.parts.lose();
        }
        let fit = match is_transport(packet.payload) {
            // Its sync byte is the header of a parameter set of H.264, too.
            true => Fit::Odd,
            false => self.parts.fit(packet.payload),
        };
        self.doubt.push(fit);
        if fit == Fit::Forbidden {
            self.forbidden += 1;
            self.parts.lose();
            return;
        }
        let slice = self.parts.holds_picture(packet.payload);
        if slice && self.parts.begins_picture(packet.payload) {
            // The one before may have the same time stamp.
            self.end_picture(out);
            (self.marked, self.ended) = (None, false);
        } else if slice && self.marked.is_some() {
            self.markers.wrong = true;
            if std::mem::take(&mut self.ended) {
                // What was given was a part of a picture.
                self.parts.lose_last();
                self.incomplete += 1;
            }
        }
        self.parts.push(packet.payload, &mut self.units);
        if packet.marker && slice {
            self.marked = Some(now);
            if self.markers.are_reliable() {
                self.end_picture(out);
                self.ended = true;
            }
        }
    }

    /// When the picture that had a marker is over, though no later packet says so.
    pub fn next_timeout(&self) -> Option<Time> {
        let marked = self.marked.filter(|_| !self.ended)?;
        Some(marked.saturating_add(REORDER_TIME))
    }

    /// Ends the picture whose time is over.
    pub fn on_timeout(&mut self, now: Time, out: &mut Vec<TimedFrame>) {
        if self.next_timeout().is_some_and(|at| at <= now) {
            self.end_picture(out);
            self.ended = true;
        }
    }

    /// The picture of the running time stamp is over.
    pub fn end_picture(&mut self, out: &mut Vec<TimedFrame>) {
        let Some(timestamp) = self.timestamp else {
            return;
        };
        if self.parts.end_unit(&mut self.units) {
            self.seq = self.seq.plus(1);
            self.incomplete += 1;
        }
        for unit in std::mem::take(&mut self.units) {
            self.seq = self.seq.plus(1);
            match self.parts.frame(unit, self.seq, Stamp::rtp(timestamp)) {
                Some(frame) if self.doubt.takes(frame.frame.gop_start) => out.push(frame),
                _ => self.incomplete += 1,
            }
        }
    }
}

/// Ticks from one picture to the next.
pub(super) fn period_of(rate: Option<FrameRate>) -> u64 {
    rate.map_or(DEFAULT_PERIOD, |rate| {
        90_000 * u64::from(rate.den) / u64::from(rate.num.max(1))
    })
}

/// A frame with the time of its decoding, which is `early` periods before the stamp: RTP says when a picture is shown.
pub(super) fn stamped(frame: Frame, shown: Stamp, early: u64, period: u64) -> TimedFrame {
    TimedFrame {
        frame,
        stamp: Some(shown.minus(early.min(16) * period)),
        arrived: None,
    }
}

/// Pictures of MPEG-1/2 video from the packets of one source.
#[derive(Debug)]
pub(crate) struct MpegPictures {
    pub parts: mpeg::Depacketiser,
    inspector: VideoInspector,
    pub mpeg2: bool,
    /// Pictures since the last GOP header.
    coded: u64,
    timestamp: Option<u32>,
    /// A first field that waits for its second.
    field: Option<(Coded, TimedFrame, Vec<u8>)>,
    anchors: Anchors,
    /// Packets are missing since the last picture.
    lost: bool,
    pub incomplete: u64,
}

impl Default for MpegPictures {
    fn default() -> MpegPictures {
        MpegPictures {
            parts: mpeg::Depacketiser::default(),
            inspector: VideoInspector::mpeg(),
            mpeg2: false,
            coded: 0,
            timestamp: None,
            field: None,
            anchors: Anchors::default(),
            lost: false,
            incomplete: 0,
        }
    }
}

impl MpegPictures {
    /// Takes a packet in its place.
    pub fn packet(&mut self, packet: &RtpPacket, after_loss: bool, out: &mut Vec<TimedFrame>) {
        self.lost |= after_loss;
        if after_loss {
            self.parts.lose();
        }
        if self.timestamp.is_some_and(|last| last != packet.timestamp) {
            self.end_picture(out);
            // It is unknown whether the loss was before or behind the end of the picture.
            if after_loss {
                self.parts.lose();
            }
        }
        self.timestamp = Some(packet.timestamp);
        self.parts.push(packet.payload);
        if packet.marker {
            self.end_picture(out);
        }
    }

    /// The picture of the running time stamp is over.
    pub fn end_picture(&mut self, out: &mut Vec<TimedFrame>) {
        let Some(timestamp) = self.timestamp else {
            return;
        };
        let (picture, damaged) = self.parts.end_picture();
        self.incomplete += u64::from(damaged);
        self.lost |= damaged;
        if let Some(data) = picture {
            self.picture(data, Stamp::rtp(timestamp), out);
        }
    }

    /// The stream is over.
    pub fn finish(&mut self, out: &mut Vec<TimedFrame>) {
        self.end_picture(out);
        self.end_field(out);
    }

    fn end_field(&mut self, out: &mut Vec<TimedFrame>) {
        if let Some((_, frame, data)) = self.field.take() {
            out.push(frame.with_data(data));
        }
    }

    fn picture(&mut self, data: Vec<u8>, stamp: Stamp, out: &mut Vec<TimedFrame>) {
        let unit = AccessUnit::scan(&data);
        if std::mem::take(&mut self.lost) {
            self.anchors.lose();
        }
        if unit.is_some_and(|unit| !self.anchors.take(&unit, false)) {
            self.incomplete += 1;
            return;
        }
        let coded = self.inspector.read(&data, false);
        let data = match &coded.missing {
            Some(missing) => [&missing.headers[..], &data].concat(),
            None => data,
        };
        if let Some((first, frame, mut whole)) = self.field.take() {
            if coded.completes(&first) && whole.len() + data.len() <= mpeg::MAX_PICTURE {
                whole.extend_from_slice(&data);
                out.push(frame.with_data(whole));
                return;
            }
            out.push(frame.with_data(whole));
        }
        if let Some(unit) = unit {
            self.mpeg2 = unit.coding.is_some();
            if unit.gop.is_some() {
                self.coded = 0;
            }
        }
        let rate = self.inspector.format().and_then(|(_, _, rate)| rate);
        let period = period_of(rate);
        // RTP stamps say when a picture is shown; it is decoded as many pictures earlier as are shown
        // between.
        let reference = unit.map_or(0, |unit| u64::from(unit.picture.temporal_reference));
        let early = (reference + 1).saturating_sub(self.coded).min(16);
        self.coded += 1;
        let frame = Frame {
            layer: coded.layer,
            gop_start: coded.gop_start,
            ..Frame::sized(coded.picture, 0)
        };
        let frame = stamped(frame, stamp, early, period);
        match coded.is_field() {
            true => self.field = Some((coded, frame, data)),
            false => out.push(frame.with_data(data)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field picture of MPEG-2, with its sequence header if it is the first.
    fn field(bottom: bool, first: bool) -> Vec<u8> {
        let mut data = vec![0; 4];
        if first {
            data.extend_from_slice(&[0, 0, 1, 0xB3, 0x0B, 0, 0x90, 0x13, 0xFF, 0xFF, 0xE0, 0x18]);
            data.extend_from_slice(&[0, 0, 1, 0xB5, 0x14, 0x8A, 0, 1, 0, 0]);
        }
        let structure = if bottom { 0xF2 } else { 0xF1 };
        data.extend_from_slice(&[0, 0, 1, 0, 0, 0x0F, 0xFF, 0xF8]);
        data.extend_from_slice(&[0, 0, 1, 0xB5, 0x8F, 0xFF, structure, 0x41, 0x80]);
        data.extend_from_slice(&[0, 0, 1, 1, 0xAA, 0xAA]);
        data
    }

    fn receive(packets: &[(u32, Vec<u8>)]) -> Vec<(bool, usize)> {
        let mut pictures = MpegPictures::default();
        let mut out = Vec::new();
        for (timestamp, payload) in packets {
            let packet = RtpPacket {
                marker: true,
                payload_type: 32,
                seq: 0,
                timestamp: *timestamp,
                ssrc: 0,
                payload,
            };
            pictures.packet(&packet, false, &mut out);
        }
        pictures.finish(&mut out);
        let of = |it: &TimedFrame| {
            (
                it.frame.gop_start,
                it.frame.data.as_ref().map_or(0, |it| it.len()),
            )
        };
        out.iter().map(of).collect()
    }

    #[test]
    fn two_fields_of_mpeg_video_are_one_frame() {
        let (top, bottom) = (field(false, true), field(true, false));
        let both = top.len() + bottom.len() - 8;
        // Each field with a marker, with time stamps of their own.
        let pair = receive(&[(0, top.clone()), (1_800, bottom.clone())]);
        assert_eq!(pair, [(true, both)]);
        // A field without its other half is a frame.
        let lone = receive(&[(0, top.clone()), (3_600, top.clone()), (5_400, bottom)]);
        assert_eq!(lone, [(true, top.len() - 4), (true, both)]);
    }
}
