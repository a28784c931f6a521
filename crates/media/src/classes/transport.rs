use std::ops::Range;

use layercast_core::DataClass;
use serde::Serialize;
use thiserror::Error;

use super::{Findings, PictureClassifier, VideoClassifier};
use crate::ts::VideoCodec;
use crate::ts::packet::{NULL, Packet, TS_PACKET};
use crate::ts::pes::PesHeader;
use crate::ts::tables::Tables;

/// Octets of a PES header that tell its length.
const PES_HEAD: usize = 9;
/// Packets without a sync byte after which the synchronisation is lost.
const LOST_AFTER: u32 = 3;

/// What a [`TsClassifier`] does with what it cannot read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassifierConfig {
    /// The class of scrambled payload, of video whose codec is not known well enough, and of octets that are no packets.
    pub fallback: DataClass,
}

impl Default for ClassifierConfig {
    fn default() -> ClassifierConfig {
        ClassifierConfig {
            fallback: DataClass::Intra,
        }
    }
}

/// Three packets in a row do not begin with a sync byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "no packet of a transport stream since {packets} packets of 188 octets: the stream is not aligned, or is none"
)]
pub struct TsSyncLost {
    /// Packets without a sync byte so far.
    pub packets: u32,
}

/// The headers at the beginning of a packet of a transport stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TsHeaders {
    /// Octets of the packet header and the adaptation field.
    pub packet: usize,
    /// Octets of the PES header behind them.
    pub pes: usize,
}

impl TsHeaders {
    /// The headers of a packet; `None` if it does not begin with a sync byte.
    ///
    /// A packet without payload is a header as a whole.
    pub fn of(packet: &[u8; TS_PACKET]) -> Option<TsHeaders> {
        let packet = Packet::new(packet)?;
        let payload = packet.payload();
        let pes = match packet.starts() {
            true => PesHeader::parse(payload).map_or(0, |header| header.len),
            false => 0,
        };
        Some(TsHeaders {
            packet: TS_PACKET - payload.len(),
            pes: pes.min(payload.len()),
        })
    }
}

/// What a [`TsClassifier`] could not read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct ClassStats {
    /// Packets.
    pub packets: u64,
    /// Octets of scrambled payload of video.
    pub scrambled_octets: u64,
    /// Octets of video whose pictures are not distinguished.
    pub unread_octets: u64,
    /// Packets of video with the transport error indicator.
    pub damaged_packets: u64,
    /// Packets of video that came twice: the second one is padding.
    pub repeated_packets: u64,
    /// Packets without a sync byte.
    pub unaligned_packets: u64,
    /// Times the synchronisation was lost.
    pub sync_losses: u64,
    /// Pictures whose coding type the standard does not have.
    pub unknown_picture_types: u64,
}

/// Gives each octet of a transport stream its class, packet by packet (specs/mpeg-picture-quality.md 2.3).
///
/// Headers of packets, adaptation fields, PES headers, tables and everything that is no video are
/// [`DataClass::System`]; payload of null packets is [`DataClass::Bidirectional`]. The program maps say which packets carry
/// video, and of which codec; a map may change at any time. A header that continues in the next packet is system data in
/// both.
///
/// ```
/// use layercast_media::TsClassifier;
/// use layercast_core::DataClass;
///
/// let mut null = [0xFF; 188];
/// null[..4].copy_from_slice(&[0x47, 0x1F, 0xFF, 0x10]);
/// let mut runs = Vec::new();
/// let mut classifier = TsClassifier::default();
/// classifier.push(&null, |class, range| runs.push((class, range))).unwrap();
/// assert_eq!(runs, [(DataClass::System, 0..4), (DataClass::Bidirectional, 4..188)]);
/// ```
#[derive(Default, Debug)]
pub struct TsClassifier {
    config: ClassifierConfig,
    tables: Tables,
    videos: Vec<Video>,
    /// Packets without a sync byte in a row.
    unaligned: u32,
    /// Of videos that are gone.
    unknown_types: u64,
    stats: ClassStats,
}

/// A video of a program.
#[derive(Debug)]
struct Video {
    pid: u16,
    codec: VideoCodec,
    /// `None` if its pictures are not distinguished.
    classifier: Option<VideoClassifier>,
    pes: Pes,
    /// Continuity counter of the last packet with payload.
    counter: Option<u8>,
}

/// Where the next octet of payload is.
#[derive(Clone, Copy, Debug)]
enum Pes {
    /// Before the first PES packet, or in one that carries no video.
    Outside,
    /// Among the first octets of a PES header.
    Head { octets: [u8; PES_HEAD], len: usize },
    /// In the rest of a PES header.
    Header { left: usize },
    /// In the elementary stream.
    Payload,
}

impl TsClassifier {
    /// A classifier that has seen nothing.
    pub fn new(config: ClassifierConfig) -> TsClassifier {
        TsClassifier {
            config,
            ..TsClassifier::default()
        }
    }

    /// Takes the next packet; `run` gets the runs of octets of one class, in order: together they are the packet.
    ///
    /// # Errors
    /// This is the third packet in a row, or a later one, that does not begin with a sync byte. It has the fallback class,
    /// and the next packet with a sync byte is read again.
    pub fn push(
        &mut self,
        packet: &[u8; TS_PACKET],
        run: impl FnMut(DataClass, Range<usize>),
    ) -> Result<(), TsSyncLost> {
        let mut runs = Runs {
            class: DataClass::System,
            range: 0..0,
            run,
        };
        let result = self.classify(packet, &mut runs);
        runs.end();
        result
    }

    /// What could not be read so far.
    pub fn stats(&self) -> ClassStats {
        let videos = self.videos.iter().filter_map(|it| it.classifier.as_ref());
        let now: u64 = videos.map(PictureClassifier::unknown_types).sum();
        ClassStats {
            unknown_picture_types: self.unknown_types + now,
            ..self.stats
        }
    }

    /// The packet identifiers of the videos, and their codecs.
    pub fn videos(&self) -> impl Iterator<Item = (u16, VideoCodec)> + '_ {
        self.videos.iter().map(|it| (it.pid, it.codec))
    }

    pub(super) fn classify(
        &mut self,
        octets: &[u8; TS_PACKET],
        out: &mut impl Findings,
    ) -> Result<(), TsSyncLost> {
        self.stats.packets += 1;
        let Some(packet) = Packet::new(octets) else {
            return self.unaligned(out);
        };
        self.unaligned = 0;
        let payload = packet.payload();
        out.octets(DataClass::System, TS_PACKET - payload.len());
        let pid = packet.pid();
        if pid == NULL {
            out.octets(DataClass::Bidirectional, payload.len());
            return Ok(());
        }
        if !packet.error() && self.tables.reads(pid) {
            self.tables.push(&packet);
            self.follow_maps();
        }
        match self.videos.iter_mut().find(|it| it.pid == pid) {
            Some(video) => video.push(&packet, self.config.fallback, &mut self.stats, out),
            None => out.octets(DataClass::System, payload.len()),
        }
        Ok(())
    }

    fn unaligned(&mut self, out: &mut impl Findings) -> Result<(), TsSyncLost> {
        out.octets(self.config.fallback, TS_PACKET);
        self.stats.unaligned_packets += 1;
        self.unaligned += 1;
        if self.unaligned < LOST_AFTER {
            return Ok(());
        }
        if self.unaligned == LOST_AFTER {
            self.stats.sync_losses += 1;
            for video in &mut self.videos {
                video.gap();
                video.counter = None;
            }
        }
        Err(TsSyncLost {
            packets: self.unaligned,
        })
    }

    /// Follows the program maps: a video that stays what it was is read on.
    fn follow_maps(&mut self) {
        let maps = self.tables.maps();
        let streams = maps.flat_map(|map| &map.streams);
        let found = streams.filter_map(|it| Some((it.pid, VideoCodec::of(it)?)));
        let found: Vec<(u16, VideoCodec)> = found.collect();
        let unknown_types = &mut self.unknown_types;
        self.videos.retain(|video| {
            let stays = found.contains(&(video.pid, video.codec));
            if !stays && let Some(classifier) = &video.classifier {
                *unknown_types += classifier.unknown_types();
            }
            stays
        });
        for (pid, codec) in found {
            if self.videos.iter().all(|it| it.pid != pid) {
                self.videos.push(Video {
                    pid,
                    codec,
                    classifier: VideoClassifier::of(codec),
                    pes: Pes::Outside,
                    counter: None,
                });
            }
        }
    }
}

impl Video {
    fn push(
        &mut self,
        packet: &Packet,
        fallback: DataClass,
        stats: &mut ClassStats,
        out: &mut impl Findings,
    ) {
        let payload = packet.payload();
        if payload.is_empty() {
            return;
        }
        if packet.error() {
            stats.damaged_packets += 1;
            self.gap();
            out.octets(self.class(fallback), payload.len());
            return;
        }
        let counter = packet.continuity();
        let last = self.counter.replace(counter);
        match last.map(|last| counter.wrapping_sub(last) & 15) {
            Some(0) if !packet.discontinuity() => {
                stats.repeated_packets += 1;
                out.octets(DataClass::Bidirectional, payload.len());
                return;
            }
            None | Some(1) => {}
            Some(_) => self.gap(),
        }
        if packet.scrambled() {
            stats.scrambled_octets += payload.len() as u64;
            self.gap();
            self.pes = Pes::Outside;
            out.octets(fallback, payload.len());
            return;
        }
        if packet.starts() {
            self.pes = Pes::Head {
                octets: [0; PES_HEAD],
                len: 0,
            };
        }
        let rest = self.header(payload, out);
        match (&mut self.classifier, self.pes) {
            (Some(classifier), Pes::Payload) => classifier.push(rest, out),
            (None, Pes::Payload) => {
                stats.unread_octets += rest.len() as u64;
                out.octets(fallback, rest.len());
            }
            _ => out.octets(DataClass::System, rest.len()),
        }
    }

    /// Takes what belongs to a PES header; gives the rest.
    fn header<'a>(&mut self, payload: &'a [u8], out: &mut impl Findings) -> &'a [u8] {
        let mut rest = payload;
        if let Pes::Head { octets, len } = &mut self.pes {
            let (now, behind) = rest.split_at(rest.len().min(PES_HEAD - *len));
            octets[*len..*len + now.len()].copy_from_slice(now);
            *len += now.len();
            out.octets(DataClass::System, now.len());
            rest = behind;
            if *len == PES_HEAD {
                self.pes = match PesHeader::parse(&octets[..]) {
                    Some(header) => Pes::Header {
                        left: header.len - PES_HEAD,
                    },
                    None => Pes::Outside,
                };
            }
        }
        if let Pes::Header { left } = &mut self.pes {
            let (now, behind) = rest.split_at(rest.len().min(*left));
            out.octets(DataClass::System, now.len());
            *left -= now.len();
            rest = behind;
            if *left == 0 {
                self.pes = Pes::Payload;
            }
        }
        rest
    }

    /// Packets are missing here.
    fn gap(&mut self) {
        if let Some(classifier) = &mut self.classifier {
            classifier.gap();
        }
        // A header that is cut by the gap cannot be read on.
        if matches!(self.pes, Pes::Head { .. } | Pes::Header { .. }) {
            self.pes = Pes::Outside;
        }
    }

    fn class(&self, fallback: DataClass) -> DataClass {
        let classifier = self.classifier.as_ref();
        classifier.map_or(fallback, PictureClassifier::class)
    }
}

/// Joins neighbours of one class.
struct Runs<F> {
    class: DataClass,
    range: Range<usize>,
    run: F,
}

impl<F: FnMut(DataClass, Range<usize>)> Runs<F> {
    fn end(&mut self) {
        if !self.range.is_empty() {
            (self.run)(self.class, self.range.clone());
        }
    }
}

impl<F: FnMut(DataClass, Range<usize>)> Findings for Runs<F> {
    #[inline]
    fn octets(&mut self, class: DataClass, count: usize) {
        if count == 0 {
            return;
        }
        if class != self.class {
            self.end();
            (self.class, self.range.start) = (class, self.range.end);
        }
        self.range.end += count;
    }
}
