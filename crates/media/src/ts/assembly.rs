use std::ops::Range;

use layercast_core::{FrameRate, Time};

use super::codec::VideoCodec;
use super::packet::{Adaptation, Packet, TS_PACKET};
use super::pes::{FIRST_VIDEO, PesHeader, put_pes};
use super::stamps::{Given, Stamps};
use super::units::Syntax;
use super::video::{Coded, VideoInspector};
use crate::live::Stamp;
use crate::{Map, Picture};

/// Largest frame, in whole packets: what a METS frame holds.
pub(super) const MAX_FRAME: usize = ((1 << 24) - 1) / TS_PACKET * TS_PACKET;
/// Parameter sets without a picture wait for the PES packet with the picture up to this size.
const MAX_FRONT: usize = 64 * 1_024;
/// PES packets over which one unit may reach: more than a picture has slices.
const MAX_HEADS: usize = 256;
/// Clocks of a unit that are kept.
const MAX_CLOCKS: usize = 256;

/// Cuts a video stream into its access units, whichever way PES packets hold them: one each, several in one, or one
/// over several (2.4.3.6).
///
/// The packets of a unit that has them for itself are kept as they are. Units that share a packet are put into PES
/// packets of their own.
#[derive(Debug)]
pub(super) struct Assembly {
    pub pid: u16,
    pub codec: VideoCodec,
    inspector: VideoInspector,
    stamps: Stamps,
    /// The packets of what is gathered, and its elementary stream.
    packets: Vec<u8>,
    payload: Vec<u8>,
    /// PES packets that begin in `payload`, and where.
    heads: Vec<(usize, Head)>,
    /// Clocks in `payload`, in ticks of 27 MHz, and where.
    clocks: Vec<(usize, u64)>,
    /// `packets` hold `payload` and nothing else.
    exact: bool,
    /// `payload` begins inside a unit.
    headless: bool,
    scrambled: bool,
    /// Octets of it are missing, or may be.
    torn: bool,
    /// Packets before it are missing, and it may refer to what was in them.
    behind_gap: bool,
    /// When the last packet of what is gathered came.
    came: Time,
    /// The PES packet that came last.
    pes: Pes,
    /// The stream ends inside what is gathered.
    cut: bool,
    units: Vec<Unit>,
}

/// How much of a PES packet came.
#[derive(Clone, Copy, Default, Debug)]
struct Pes {
    /// The offset of its first transport packet.
    at: u64,
    /// Octets that are still to come, if it says how many it has.
    left: Option<usize>,
    /// Its last transport packet had no room for more, as only the last one of a PES packet has.
    is_full: bool,
}

/// The packet that a stream ends inside, as far as it is there.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Cut {
    pub pid: Option<u16>,
    /// A PES packet begins in it.
    pub starts: bool,
}

/// What is wrong with a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Damage {
    None,
    /// Pictures before it may be missing.
    BehindGap,
    /// Octets of it are missing, or may be.
    Torn,
}

/// The beginning of a PES packet.
#[derive(Clone, Copy, Debug)]
struct Head {
    stream_id: u8,
    pts: Option<u64>,
    dts: Option<u64>,
    random_access: bool,
}

/// An access unit, or a field.
#[derive(Debug)]
pub(super) struct Unit {
    pub coded: Coded,
    pub packets: Vec<u8>,
    pub stamp: Option<Stamp>,
    /// When its last packet came.
    pub came: Time,
    pub damage: Damage,
}

impl Assembly {
    pub fn new(pid: u16, codec: VideoCodec, map: Map) -> Assembly {
        Assembly {
            pid,
            codec,
            inspector: codec.inspector(map),
            stamps: Stamps::default(),
            packets: Vec::new(),
            payload: Vec::new(),
            heads: Vec::new(),
            clocks: Vec::new(),
            exact: true,
            headless: false,
            scrambled: false,
            torn: false,
            behind_gap: false,
            came: Time::ZERO,
            pes: Pes::default(),
            cut: false,
            units: Vec::new(),
        }
    }

    /// Width, height and, if the stream says so, frames per second.
    pub fn format(&self) -> Option<(u32, u32, Option<FrameRate>)> {
        self.inspector.format()
    }

    /// Whether pictures name temporal layers; `None` of codecs that have none.
    pub fn has_temporal_layers(&self) -> Option<bool> {
        self.inspector.has_temporal_layers()
    }

    /// The units that are complete.
    pub fn take(&mut self) -> Vec<Unit> {
        std::mem::take(&mut self.units)
    }

    /// Takes a packet of the stream that arrives at `now`. `at` is its byte offset in the stream; `lost` is true if packets before it are missing.
    /// Returns `false` if the packet is not used, because it continues a PES packet whose beginning is missing.
    pub fn push(&mut self, now: Time, (at, packet): (u64, &Packet), lost: bool) -> bool {
        let mut payload = packet.payload();
        if lost && !(packet.starts() && self.has_end()) {
            self.tear();
        }
        self.pes.take(at, packet);
        if packet.starts() {
            let header = PesHeader::parse(payload);
            if let Some(header) = &header {
                payload = payload.get(header.len..).unwrap_or_default();
            }
            self.begin(packet, header, payload);
            let continues = self.heads.len() > 1;
            self.torn |= lost && continues;
            self.behind_gap |= lost && !continues;
        } else if self.heads.is_empty() {
            return false;
        }
        self.came = now;
        self.scrambled |= packet.scrambled();
        if let Some(pcr) = packet.pcr().filter(|_| self.clocks.len() < MAX_CLOCKS) {
            self.clocks.push((self.payload.len(), pcr));
        }
        if self.exact {
            self.packets.extend_from_slice(packet.bytes());
        }
        self.payload.extend_from_slice(payload);
        if self.packets.len() >= MAX_FRAME || self.payload.len() >= MAX_FRAME {
            self.finish();
        }
        true
    }

    /// Octets of what is gathered are missing, or some behind it, which may be of it.
    pub fn tear(&mut self) {
        self.torn |= !self.heads.is_empty();
    }

    /// The PES packet that came last is whole, as far as its packets say. One without a length ends with a packet that it does not fill,
    /// unless its octets fit exactly.
    fn has_end(&self) -> bool {
        match self.pes.left {
            Some(left) => left == 0,
            None => !self.pes.is_full || self.codec.syntax().is_ended(&self.payload),
        }
    }

    /// A PES packet begins, with `payload` as the first bytes of its elementary stream.
    fn begin(&mut self, packet: &Packet, header: Option<PesHeader>, payload: &[u8]) {
        let opaque = self.scrambled || packet.scrambled() || header.is_none();
        let syntax = match opaque {
            true => Syntax::Opaque,
            false => self.codec.syntax(),
        };
        if self.heads.is_empty() {
            self.headless = !syntax.begins(payload, true);
        } else if opaque || self.heads.len() >= MAX_HEADS {
            self.finish();
        } else {
            let units = syntax.units(&self.payload);
            let picture = units.has_picture || self.payload.len() > MAX_FRONT;
            if syntax.begins(payload, picture) {
                self.flush(&units.starts, false);
            } else if units.starts.len() > 1 {
                self.flush(&units.starts, true);
            }
        }
        let head = Head {
            stream_id: header.map_or(FIRST_VIDEO, |header| header.stream_id),
            pts: header.and_then(|header| header.pts),
            dts: header.and_then(|header| header.dts),
            random_access: packet.random_access(),
        };
        self.heads.push((self.payload.len(), head));
    }

    /// What is gathered is complete.
    pub fn finish(&mut self) {
        if self.heads.is_empty() {
            return;
        }
        let starts = match self.scrambled {
            true => vec![0],
            false => self.codec.syntax().units(&self.payload).starts,
        };
        self.flush(&starts, false);
    }

    /// The stream is over, inside the packet `cut` if that is given. If it ends inside a picture, that picture is marked; returns where
    /// its PES packet begins.
    ///
    /// A PES packet without a length ends with a packet that it does not fill, unless its octets fit exactly, as those of one in 184 do. So
    /// a stream that ends between two packets is whole as far as its packets say.
    pub fn finish_cut(&mut self, cut: Option<Cut>) -> Option<u64> {
        if self.heads.is_empty() {
            return None;
        }
        let own = cut.filter(|it| it.pid.is_none_or(|pid| pid == self.pid));
        let is_cut = match (self.pes.left, own) {
            (Some(left), _) => left > 0,
            (None, Some(cut)) if cut.pid.is_some() => !cut.starts,
            // Inside a packet of another stream, or one that does not say which.
            (None, _) if cut.is_some() => !self.has_end(),
            (None, _) => false,
        };
        self.cut = is_cut;
        self.finish();
        self.cut = false;
        is_cut.then_some(self.pes.at)
    }

    /// Turns what is gathered into units that begin at `starts`; the last one stays if it is `open`.
    fn flush(&mut self, starts: &[usize], open: bool) {
        let payload = std::mem::take(&mut self.payload);
        let packets = std::mem::take(&mut self.packets);
        let mut heads = std::mem::take(&mut self.heads);
        let mut clocks = std::mem::take(&mut self.clocks);
        let exact = std::mem::replace(&mut self.exact, !open);
        let headless = std::mem::take(&mut self.headless) && !self.scrambled;
        let scrambled = std::mem::take(&mut self.scrambled);
        // The unit that stays may be the one.
        let torn = self.torn;
        self.torn &= open;
        let behind_gap = std::mem::take(&mut self.behind_gap);
        let cut = self.cut;
        let damage = |is_first: bool, is_last: bool| match torn || cut && is_last {
            true => Damage::Torn,
            false if behind_gap && is_first => Damage::BehindGap,
            false => Damage::None,
        };

        let mut starts = starts.to_vec();
        if headless {
            // The front belongs to a unit whose beginning is missing.
            match self.codec.syntax().first_start(&payload) {
                Some(at) => starts[0] = at,
                None => starts.clear(),
            }
            starts.retain({
                let from = starts.first().copied().unwrap_or(0);
                move |&at| at >= from
            });
        }
        let ends = starts.iter().skip(1).copied().chain([payload.len()]);
        let mut ranges: Vec<Range<usize>> = starts
            .iter()
            .copied()
            .zip(ends)
            .map(|(a, b)| a..b)
            .collect();
        let rest = match open {
            true => ranges.pop(),
            false => None,
        };
        let head = |at: usize| heads.iter().rfind(|(from, _)| *from <= at);
        let mut used = None;
        let mut pieces: Vec<Piece> = Vec::with_capacity(ranges.len());
        for range in ranges {
            // A stamp is that of the first unit that begins in the PES packet.
            let head = head(range.start).filter(|(from, _)| used.replace(*from) != Some(*from));
            let random_access = head.is_some_and(|(_, head)| head.random_access);
            let data = &payload[range.clone()];
            let coded = match scrambled {
                true => Coded::by_access(random_access),
                false => {
                    self.inspector.set_rate(self.stamps.rate());
                    let coded = self.inspector.read(data, random_access);
                    self.codec.refine(data, coded)
                }
            };
            match pieces.last_mut() {
                Some(last) if coded.completes(&last.coded) => {
                    last.range.end = range.end;
                    last.coded.complete();
                }
                // A part without a primary picture, such as a redundant one.
                Some(last) if coded.picture == Picture::Data => last.range.end = range.end,
                _ => pieces.push(Piece {
                    range,
                    head: head.map(|(_, head)| *head),
                    coded,
                }),
            }
        }
        if exact && !headless && !open && (pieces.len() == 1 || torn) {
            // What is missing must show, so that units cannot be distinguished.
            let key = pieces.iter().position(|piece| piece.coded.gop_start);
            if !pieces.is_empty() {
                let mut piece = pieces.swap_remove(key.unwrap_or(0));
                piece.head = heads.first().map(|(_, head)| *head);
                let stamp = self.stamp(&piece, clocks.first().map(|it| it.1));
                self.units.push(Unit {
                    coded: piece.coded,
                    packets,
                    stamp,
                    came: self.came,
                    damage: damage(true, true),
                });
            }
        } else {
            let counter = packets.get(3).map_or(0, |byte| byte & 15);
            let mut counter = counter;
            let last = pieces.len().saturating_sub(1);
            for (index, piece) in pieces.into_iter().enumerate() {
                let within = |at: usize| at < piece.range.end;
                let pcr = clocks.iter().position(|&(at, _)| within(at)).map(|index| {
                    let (_, pcr) = clocks[index];
                    clocks.retain(|&(at, _)| !within(at));
                    pcr
                });
                let data = &payload[piece.range.clone()];
                let packets = self.packed(&piece, data, pcr, &mut counter);
                let stamp = self.stamp(&piece, pcr);
                self.units.push(Unit {
                    coded: piece.coded,
                    packets,
                    stamp,
                    came: self.came,
                    damage: damage(index == 0, index == last),
                });
            }
        }
        if let Some(rest) = rest {
            let from = rest.start;
            let own = heads.iter().rposition(|(at, _)| *at <= from);
            let own = own.filter(|&index| used != Some(heads[index].0));
            heads = match own {
                Some(own) => heads.split_off(own),
                None => {
                    let mut heads: Vec<_> =
                        heads.into_iter().filter(|(at, _)| *at > from).collect();
                    let unstamped = Head {
                        stream_id: FIRST_VIDEO,
                        pts: None,
                        dts: None,
                        random_access: false,
                    };
                    heads.insert(0, (from, unstamped));
                    heads
                }
            };
            self.heads = heads
                .iter()
                .map(|&(at, head)| (at.saturating_sub(from), head))
                .collect();
            clocks.retain(|&(at, _)| at >= from);
            self.clocks = clocks.iter().map(|&(at, pcr)| (at - from, pcr)).collect();
            self.payload.extend_from_slice(&payload[rest]);
        }
    }

    /// The packets of a unit, as a PES packet of its own.
    fn packed(&self, piece: &Piece, data: &[u8], pcr: Option<u64>, counter: &mut u8) -> Vec<u8> {
        let mut packets = Vec::with_capacity(data.len() + data.len() / 40 + TS_PACKET);
        let adaptation = Adaptation {
            random_access: piece.coded.gop_start,
            pcr,
        };
        let (id, pts, dts) = match piece.head {
            Some(head) => (head.stream_id, head.pts, head.dts),
            None => (FIRST_VIDEO, None, None),
        };
        let stamps = pts.map(|pts| (pts, dts.unwrap_or(pts)));
        put_pes(
            self.pid,
            id,
            counter,
            adaptation,
            stamps,
            [&[], data],
            &mut packets,
        );
        packets
    }

    /// When a unit is to be decoded.
    fn stamp(&mut self, piece: &Piece, pcr: Option<u64>) -> Option<Stamp> {
        let (pts, dts) = piece.head.map_or((None, None), |head| (head.pts, head.dts));
        let rate = self.inspector.format().and_then(|(_, _, rate)| rate);
        self.stamps
            .next(Given { pts, dts, pcr }, piece.coded.gop_start, rate)
    }
}

impl Pes {
    /// Takes a transport packet of the video, which stands `at` this offset.
    fn take(&mut self, at: u64, packet: &Packet) {
        if !packet.has_payload() {
            return;
        }
        let payload = packet.payload();
        if packet.starts() {
            let len = payload
                .get(4..6)
                .map(|it| u16::from_be_bytes([it[0], it[1]]));
            let left = len.filter(|&len| len > 0).map(|len| usize::from(len) + 6);
            *self = Pes {
                at,
                left,
                is_full: false,
            };
        }
        self.left = self.left.map(|left| left.saturating_sub(payload.len()));
        self.is_full = !packet.is_stuffed();
    }
}

/// A unit in what is gathered.
struct Piece {
    range: Range<usize>,
    head: Option<Head>,
    coded: Coded,
}
