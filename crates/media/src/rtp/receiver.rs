use std::collections::VecDeque;

use layercast_core::{Layer, Media, Serial};
use serde::Serialize;

use super::reorder::{Ordered, Reorder};
use super::{MPEG_VIDEO, RtpPacket, TRANSPORT, h264, mpeg};
use crate::h264::{DisplayOrder, Unit};
use crate::live::{Stamp, TimedFrame};
use crate::mpeg::unit::AccessUnit;
use crate::ts::packet::SYNC;
use crate::ts::{TsSplitter, VideoInspector};
use crate::{Frame, H264Writer, Picture};

/// Ticks of a picture where the stream does not say.
const DEFAULT_PERIOD: u64 = 3_600;
/// Frames kept for a caller that does not poll.
const MAX_FRAMES: usize = 4_096;

/// What an [`RtpReceiver`] saw.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct RtpStats {
    /// Packets taken.
    pub packets: u64,
    /// Packets missing.
    pub lost: u64,
    /// Packets that came twice, too late, or alone from somewhere else.
    pub dropped: u64,
    /// Datagrams that are no RTP, and payloads that break their format.
    pub malformed: u64,
    /// Pictures left out because something of them, or of what they refer to, is missing.
    pub incomplete: u64,
}

/// Layered frames from RTP packets: what they carry is told by their payload type, H.264 is assumed of
/// dynamic ones (96 to 127) unless they carry a transport stream.
#[derive(Debug, Default)]
pub struct RtpReceiver {
    reorder: Reorder,
    content: Option<Content>,
    timestamp: Option<u32>,
    frames: VecDeque<TimedFrame>,
    stats: RtpStats,
}

#[derive(Debug)]
enum Content {
    Transport(Box<TsSplitter>),
    Mpeg(Box<MpegPictures>),
    H264(Box<H264Units>),
}

#[derive(Debug)]
struct MpegPictures {
    parts: mpeg::Depacketiser,
    inspector: VideoInspector,
    mpeg2: bool,
    /// Pictures since the last GOP header.
    coded: u64,
}

#[derive(Default, Debug)]
struct H264Units {
    parts: h264::Depacketiser,
    order: DisplayOrder,
    /// Leaves out what cannot be decoded after a loss.
    guard: H264Writer,
    seq: Serial,
    units: Vec<Unit>,
}

impl RtpReceiver {
    /// A receiver that waits for its first packet.
    pub fn new() -> RtpReceiver {
        RtpReceiver::default()
    }

    /// Takes a datagram.
    pub fn push(&mut self, datagram: &[u8]) {
        let Some(packet) = RtpPacket::parse(datagram) else {
            self.stats.malformed += 1;
            return;
        };
        self.stats.packets += 1;
        self.reorder.push(&packet);
        while let Some(packet) = self.reorder.pop() {
            self.packet(&packet);
        }
    }

    /// The stream is over: what is there goes out.
    pub fn finish(&mut self) {
        while let Some(packet) = self.reorder.take() {
            self.packet(&packet);
        }
        self.end_picture();
        if let Some(Content::Transport(splitter)) = &mut self.content {
            splitter.finish();
        }
        self.collect();
    }

    /// The next frame.
    pub fn poll(&mut self) -> Option<TimedFrame> {
        self.frames.pop_front()
    }

    /// What it carries, once that is known.
    pub fn media(&self) -> Option<Media> {
        Some(match self.content.as_ref()? {
            Content::Transport(_) => Media::MpegTs,
            Content::Mpeg(pictures) if pictures.mpeg2 => Media::Mpeg2,
            Content::Mpeg(_) => Media::Mpeg1,
            Content::H264(_) => Media::H264,
        })
    }

    /// What it saw.
    pub fn stats(&self) -> RtpStats {
        let malformed = match &self.content {
            Some(Content::Mpeg(pictures)) => pictures.parts.malformed,
            Some(Content::H264(units)) => units.parts.malformed,
            _ => 0,
        };
        RtpStats {
            lost: self.reorder.lost,
            dropped: self.reorder.dropped,
            malformed: self.stats.malformed + malformed,
            ..self.stats
        }
    }

    fn packet(&mut self, packet: &Ordered) {
        if packet.payload.is_empty() {
            return;
        }
        let content = self.content.get_or_insert_with(|| Content::of(packet));
        if packet.after_loss {
            match content {
                Content::Transport(_) => {}
                Content::Mpeg(pictures) => pictures.parts.lose(),
                Content::H264(units) => units.parts.lose(),
            }
        }
        if self.timestamp.is_some_and(|last| last != packet.timestamp) {
            self.end_picture();
            // Whether the loss was before or behind the end of the picture nobody knows.
            if packet.after_loss {
                match &mut self.content {
                    Some(Content::Mpeg(pictures)) => pictures.parts.lose(),
                    Some(Content::H264(units)) => units.parts.lose(),
                    _ => {}
                }
            }
        }
        self.timestamp = Some(packet.timestamp);
        match &mut self.content {
            Some(Content::Transport(splitter)) => splitter.push(&packet.payload),
            Some(Content::Mpeg(pictures)) => pictures.parts.push(&packet.payload),
            Some(Content::H264(units)) => {
                let H264Units { parts, units, .. } = &mut **units;
                parts.push(&packet.payload, units);
            }
            None => {}
        }
        if packet.marker {
            self.end_picture();
        }
        self.collect();
    }

    /// The picture of the running time stamp is over.
    fn end_picture(&mut self) {
        let Some(timestamp) = self.timestamp else {
            return;
        };
        let stamp = Stamp::rtp(timestamp);
        match &mut self.content {
            Some(Content::Mpeg(pictures)) => {
                let (picture, damaged) = pictures.parts.end_picture();
                self.stats.incomplete += u64::from(damaged);
                if let Some(data) = picture {
                    let frame = pictures.frame(data, stamp);
                    self.emit(frame);
                }
            }
            Some(Content::H264(units)) => {
                let H264Units {
                    parts, units: list, ..
                } = &mut **units;
                let damaged = parts.end_unit(list);
                let list = std::mem::take(list);
                if damaged {
                    units.seq = units.seq.plus(1);
                    self.stats.incomplete += 1;
                }
                for unit in list {
                    let frame = match &mut self.content {
                        Some(Content::H264(units)) => units.frame(unit, stamp),
                        _ => None,
                    };
                    match frame {
                        Some(frame) => self.emit(frame),
                        None => self.stats.incomplete += 1,
                    }
                }
            }
            _ => {}
        }
    }

    fn collect(&mut self) {
        while let Some(Content::Transport(splitter)) = &mut self.content {
            let Some(frame) = splitter.poll() else { return };
            self.emit(frame);
        }
    }

    fn emit(&mut self, frame: TimedFrame) {
        if self.frames.len() < MAX_FRAMES {
            self.frames.push_back(frame);
        }
    }
}

impl Content {
    fn of(packet: &Ordered) -> Content {
        let aligned = packet.payload.len().is_multiple_of(188) && packet.payload[0] == SYNC;
        match packet.payload_type {
            MPEG_VIDEO => Content::Mpeg(Box::new(MpegPictures {
                parts: mpeg::Depacketiser::default(),
                inspector: VideoInspector::Mpeg(Box::default()),
                mpeg2: false,
                coded: 0,
            })),
            TRANSPORT => Content::Transport(Box::default()),
            _ if aligned => Content::Transport(Box::default()),
            _ => Content::H264(Box::default()),
        }
    }
}

impl MpegPictures {
    fn frame(&mut self, data: Vec<u8>, stamp: Stamp) -> TimedFrame {
        let unit = AccessUnit::scan(&data);
        let coded = self.inspector.read(&data, false);
        let data = match &coded.missing {
            Some(missing) => [&missing.headers[..], &data].concat(),
            None => data,
        };
        if let Some(unit) = unit {
            self.mpeg2 = unit.coding.is_some();
            if unit.gop.is_some() {
                self.coded = 0;
            }
        }
        let rate = self.inspector.format().and_then(|(_, _, rate)| rate);
        let period = rate.map_or(DEFAULT_PERIOD, |rate| {
            90_000 * u64::from(rate.den) / u64::from(rate.num.max(1))
        });
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
        let stamp = Some(stamp.minus(early * period));
        TimedFrame { frame, stamp }.with_data(data)
    }
}

impl H264Units {
    /// The frame of an access unit; `None` if it cannot be decoded.
    fn frame(&mut self, unit: Unit, stamp: Stamp) -> Option<TimedFrame> {
        self.seq = self.seq.plus(1);
        let (layer, gop_start): (Layer, bool) = (unit.info.layer(), unit.info.gop_start());
        let mut kept = Vec::new();
        self.guard
            .frame(self.seq, layer, gop_start, &unit.data, &mut kept);
        if kept.is_empty() {
            return None;
        }
        let format = self.parts.cutter.inspector.sets.format();
        let rate = format.and_then(|format| format.frame_rate);
        let period = rate.map_or(DEFAULT_PERIOD, |rate| {
            90_000 * u64::from(rate.den) / u64::from(rate.num.max(1))
        });
        let early = match &unit.info.first {
            Some(slice) if unit.info.picture() != Picture::Data => {
                self.order.delay(slice, 0, gop_start)
            }
            _ => 0,
        };
        let stamp = Some(stamp.minus(early.min(16) * period));
        let frame = unit.into_frame();
        Some(TimedFrame { frame, stamp })
    }
}
