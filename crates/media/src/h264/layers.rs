use h264_reader::nal::sei::{HeaderType, SeiReader};
use h264_reader::nal::slice::{FieldPic, PicOrderCountLsb, SliceFamily, SliceHeader};
use h264_reader::nal::sps::PicOrderCntType;
use h264_reader::nal::{Nal, NalHeader, RefNal, parse_nal_header_extension};
use h264_reader::nal::{NalHeaderExtension, UnitType};
use h264_reader::rbsp::{BitRead, BitReader};
use layercast_core::Layer;

use super::annexb::put;
use super::nal;
use super::params::ParameterSets;
use crate::Picture;
use crate::map::{Map, Split};

/// Bytes of a slice in which its header must end.
const SLICE_HEADER: usize = 1_024;

/// What matters of a slice header (7.3.3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Slice {
    pub kind: Picture,
    pub idr: Option<u32>,
    pub reference: bool,
    /// It holds the first macroblock of its picture.
    pub top: bool,
    pub frame_num: u32,
    pub max_frame_num: u32,
    pub gaps_allowed: bool,
    /// `Some(bottom)` of a field.
    pub field: Option<bool>,
    pub pps: u8,
    pub order: Order,
    /// Pictures that may be decoded before one that is displayed earlier, if the stream says so.
    pub reorder: Option<u32>,
}

/// The part of the picture order count that a slice header holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// `pic_order_cnt_lsb` and its modulus.
    Lsb { lsb: u32, modulus: u32, bottom: i32 },
    /// `delta_pic_order_cnt`.
    Delta([i32; 2]),
    /// Output order is decoding order.
    Decoding,
}

impl Slice {
    /// Whether both slices belong to one picture (7.4.1.2.4).
    pub fn same_picture(&self, other: &Slice) -> bool {
        let same = |a: &Slice, b: &Slice| {
            (a.frame_num, a.field, a.pps, a.idr) == (b.frame_num, b.field, b.pps, b.idr)
                && a.order == b.order
                && a.reference == b.reference
        };
        same(self, other)
    }

    /// 1 for a bottom field, 0 for a top field or a frame.
    fn parity(&self) -> usize {
        usize::from(self.field == Some(true))
    }

    /// Whether it can be the other field of the frame of which `first` came, though only one of them may be referred to.
    fn is_other_field_of(&self, first: &Slice) -> bool {
        matches!((self.field, first.field), (Some(a), Some(b)) if a != b)
            && self.frame_num == first.frame_num
            && self.idr.is_none()
    }

    /// Whether both are fields of one frame.
    pub fn pairs_with(&self, first: &Slice) -> bool {
        self.is_other_field_of(first) && (self.reference == first.reference || first.idr.is_some())
    }
}

/// An access unit as far as its NAL units were looked at.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct UnitInfo {
    /// Its first slice.
    pub first: Option<Slice>,
    /// How its slices are coded: B if any is, else P if any is.
    kind: Option<Picture>,
    /// The same of slices that came before the first parameter sets, and whether others refer to the picture.
    early: Option<(Picture, bool)>,
    /// It is a random access point of an open GOP.
    recovery: bool,
    /// From a prefix NAL unit or a sub-sequence.
    temporal: Option<u8>,
    /// It carries parameter sets that say something new.
    new_sets: bool,
    /// It carries an SPS.
    pub has_sps: bool,
    /// It carries a PPS.
    pub has_pps: bool,
    /// It has the first macroblock of its frame or top field, of its bottom field.
    tops: [bool; 2],
}

impl UnitInfo {
    /// How it is coded; nothing of a unit without a slice that can be read.
    pub fn picture(&self) -> Picture {
        let early = self.early.map(|(kind, _)| kind);
        self.kind.or(early).unwrap_or(Picture::Data)
    }

    pub fn is_idr(&self) -> bool {
        self.first.as_ref().is_some_and(|slice| slice.idr.is_some())
    }

    /// Whether a slice belongs to the same access unit: to the same picture, or to the other field of its
    /// frame. The first macroblock comes once in a picture.
    pub fn continues_with(&self, slice: &Slice) -> bool {
        let Some(first) = &self.first else {
            return false;
        };
        let again = slice.top && self.tops[slice.parity()];
        !again && (slice.same_picture(first) || slice.pairs_with(first))
    }

    /// Whether a receiver can start here: IDR, or the I picture of an open GOP.
    pub fn gop_start(&self) -> bool {
        self.is_idr() || self.recovery && self.kind == Some(Picture::I)
    }

    /// Whether others refer to it, as far as that is known.
    fn is_reference(&self) -> bool {
        let first = self.first.as_ref().map(|slice| slice.reference);
        let early = self.early.map(|(_, reference)| reference);
        first.or(early).unwrap_or(true)
    }

    /// It is one field, whose other half may be the next unit.
    fn lone_field(&self) -> Option<&Slice> {
        let field = self.first.as_ref().filter(|slice| slice.field.is_some());
        field.filter(|_| self.tops != [true; 2])
    }
}

/// Looks at the NAL units of a stream, and keeps its parameter sets.
#[derive(Default, Debug)]
pub(crate) struct Inspector {
    pub sets: ParameterSets,
    pub map: Map,
    split: Split,
    /// A field that waits for its other half, and its layer.
    field: Option<(Slice, Layer)>,
    /// A picture of a temporal layer above the lowest came.
    temporal: bool,
    scratch: Vec<u8>,
    unread: u64,
}

/// What a NAL unit means to the access unit it may belong to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// A slice of a primary coded picture.
    Slice(Slice),
    /// Stands before the slices of its access unit.
    Front,
    /// Begins an access unit.
    Delimiter,
    /// Means nothing; goes with what is before it.
    Filler,
    /// Ends the sequence or the stream: the next picture begins again.
    End,
    /// Goes with the picture before it.
    Rest,
    /// A slice that cannot be read: its parameter sets are unknown.
    Unread,
}

/// Order of the kinds of slices: that of a picture is the highest of its slices.
fn rank(kind: Option<Picture>) -> u8 {
    match kind {
        Some(Picture::P) => 1,
        Some(Picture::B) => 2,
        _ => 0,
    }
}

/// What a slice shows without its parameter sets (7.3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EarlySlice {
    /// It holds the first macroblock of its picture.
    pub top: bool,
    pub kind: Picture,
}

/// The elements of a slice header that need no parameter sets (7.3.3). A receiver that tunes in between
/// key frames can tell the layers of pictures by them, though it cannot decode them.
pub(crate) fn early_slice(unit: &[u8]) -> Option<EarlySlice> {
    let front = &unit[..unit.len().min(SLICE_HEADER)];
    let nal = RefNal::new(front, &[], front.len() == unit.len());
    let mut bits = nal.rbsp_bits();
    let top = bits.read_ue("first_mb_in_slice").ok()? == 0;
    // Table 7-6.
    let kind = match bits.read_ue("slice_type").ok()? {
        0 | 3 | 5 | 8 => Picture::P,
        1 | 6 => Picture::B,
        2 | 4 | 7 | 9 => Picture::I,
        _ => return None,
    };
    Some(EarlySlice { top, kind })
}

/// Why a slice is of no use.
enum NoSlice {
    /// Of a redundant coded picture.
    Redundant,
    /// Its parameter sets are unknown, or it is damaged.
    Unread,
}

impl Inspector {
    /// What a NAL unit is; parameter sets are not taken yet.
    pub fn part(&self, unit: &[u8]) -> Part {
        match nal::kind(unit) {
            nal::SLICE | nal::PARTITION_A | nal::IDR => match self.slice(unit) {
                Ok(slice) => Part::Slice(slice),
                Err(NoSlice::Redundant) => Part::Rest,
                Err(NoSlice::Unread) => Part::Unread,
            },
            nal::DELIMITER => Part::Delimiter,
            nal::SEI | nal::SPS | nal::PPS => Part::Front,
            nal::PREFIX..=nal::RESERVED_18 => Part::Front,
            nal::FILLER => Part::Filler,
            nal::END_OF_SEQUENCE | nal::END_OF_STREAM => Part::End,
            _ => Part::Rest,
        }
    }

    /// Adds a NAL unit to what is known of its access unit.
    pub fn look(&mut self, unit: &[u8], info: &mut UnitInfo) {
        let part = self.part(unit);
        self.add(unit, part, info);
    }

    /// The same for a NAL unit of which it is known what it is.
    pub fn add(&mut self, unit: &[u8], part: Part, info: &mut UnitInfo) {
        match (part, nal::kind(unit)) {
            (Part::Slice(slice), _) => {
                if rank(Some(slice.kind)) >= rank(info.kind) {
                    info.kind = Some(slice.kind);
                }
                info.tops[slice.parity()] |= slice.top;
                info.first.get_or_insert(slice);
            }
            (Part::Unread, _) => {
                self.unread += 1;
                let kind = early_slice(unit)
                    .map(|slice| slice.kind)
                    .filter(|_| !self.sets.are_complete());
                if let Some(kind) = kind
                    && rank(Some(kind)) >= rank(info.early.map(|(kind, _)| kind))
                {
                    info.early = Some((kind, nal::is_reference(unit)));
                }
            }
            (_, kind @ (nal::SPS | nal::PPS)) => {
                info.has_sps |= kind == nal::SPS;
                info.has_pps |= kind == nal::PPS;
                info.new_sets |= self.sets.take(unit);
            }
            (_, nal::SEI) => self.sei(unit, info),
            (_, nal::PREFIX) => {
                let nal = RefNal::new(unit, &[], true);
                if let Ok((NalHeaderExtension::Svc(svc), _)) = parse_nal_header_extension(&nal) {
                    info.temporal = Some(svc.temporal_id());
                }
            }
            _ => {}
        }
    }

    /// The layer that carries a unit, which is the next one in decoding order.
    ///
    /// I pictures, IDR pictures and new parameter sets are always BL. Temporal layers are numbered: the lowest is BL, the next E1, all
    /// above E2. What is in the lowest or has no number is BL if others refer to it or may do so.
    pub fn layer(&mut self, info: &UnitInfo) -> Layer {
        let waiting = self.field.take();
        let layer = match (waiting, info.lone_field()) {
            // Both fields of a frame go the same way, whatever else they are.
            (Some((first, layer)), Some(second)) if second.is_other_field_of(&first) => {
                return match info.is_reference() || info.gop_start() {
                    true => layer.min(self.of_map(info)),
                    false => layer,
                };
            }
            _ => self.of_map(info),
        };
        self.field = info.lone_field().map(|first| (first.clone(), layer));
        layer
    }

    fn of_map(&mut self, info: &UnitInfo) -> Layer {
        let picture = info.picture();
        if picture == Picture::Data {
            return Layer::Base;
        }
        self.temporal |= info.temporal > Some(0);
        let is_reference = info.is_reference();
        // A damaged IDR picture may claim to be of another kind.
        let is_base = picture == Picture::I || info.gop_start() || info.new_sets;
        if is_base || is_reference {
            self.split.reference();
        }
        match (self.map, info.temporal) {
            _ if is_base => Layer::Base,
            (Map::Ipb, _) if is_reference => Layer::E1,
            (Map::Ipb, _) => Layer::E2,
            (Map::Auto | Map::Temporal, Some(1)) => Layer::E1,
            (Map::Auto | Map::Temporal, Some(2..)) => Layer::E2,
            (Map::Temporal, _) => Layer::Base,
            _ if is_reference => Layer::Base,
            _ => {
                let format = self.sets.format();
                let rate = format.and_then(|format| format.frame_rate);
                self.split.droppable(rate, true)
            }
        }
    }

    /// Whether a picture is of a temporal layer above the lowest.
    pub fn has_temporal_layers(&self) -> bool {
        self.temporal
    }

    /// Slices that could not be read because their parameter sets are unknown.
    pub fn unread(&self) -> u64 {
        self.unread
    }

    /// The parameter sets in Annex B form that have to be put before a unit: all of the stream, if
    /// receivers start at the unit and it does not bring its own. `None` if there is nothing to put.
    pub fn headers(&self, info: &UnitInfo) -> Option<Vec<u8>> {
        if !info.gop_start() || info.has_sps && info.has_pps {
            return None;
        }
        let mut headers = Vec::new();
        for set in self.sets.all() {
            put(set, true, &mut headers);
        }
        Some(headers).filter(|headers| !headers.is_empty())
    }

    fn sei(&mut self, unit: &[u8], info: &mut UnitInfo) {
        let nal = RefNal::new(unit, &[], true);
        let mut messages = SeiReader::from_rbsp_bytes(nal.rbsp_bytes(), &mut self.scratch);
        while let Ok(Some(message)) = messages.next() {
            let mut bits = BitReader::new(message.payload);
            match message.payload_type {
                // Pictures are right from here on, in output order: not a gradual refresh.
                HeaderType::RecoveryPoint => {
                    info.recovery |= bits.read_ue("recovery_frame_cnt").is_ok_and(|n| n == 0);
                }
                HeaderType::SubSeqInfo => {
                    let layer = bits.read_ue("sub_seq_layer_num");
                    info.temporal = layer.ok().and_then(|layer| u8::try_from(layer).ok());
                }
                _ => {}
            }
        }
    }

    fn slice(&self, unit: &[u8]) -> Result<Slice, NoSlice> {
        self.read_slice(unit).unwrap_or(Err(NoSlice::Unread))
    }

    fn read_slice(&self, unit: &[u8]) -> Option<Result<Slice, NoSlice>> {
        let header = NalHeader::new(*unit.first()?).ok()?;
        let front = &unit[..unit.len().min(SLICE_HEADER)];
        let nal = RefNal::new(front, &[], front.len() == unit.len());
        let mut bits = nal.rbsp_bits();
        let (slice, sps, pps) =
            SliceHeader::from_bits(self.sets.context(), &mut bits, header, None).ok()?;
        if slice.redundant_pic_cnt.is_some_and(|count| count > 0) {
            return Some(Err(NoSlice::Redundant));
        }
        let order = match (&sps.pic_order_cnt, slice.pic_order_cnt_lsb) {
            (
                PicOrderCntType::TypeZero {
                    log2_max_pic_order_cnt_lsb_minus4,
                },
                Some(lsb),
            ) => {
                let modulus = 1 << (u32::from(*log2_max_pic_order_cnt_lsb_minus4) + 4).min(16);
                let (lsb, bottom) = match lsb {
                    PicOrderCountLsb::Frame(lsb) => (lsb, 0),
                    PicOrderCountLsb::FieldsAbsolute {
                        pic_order_cnt_lsb,
                        delta_pic_order_cnt_bottom,
                    } => (pic_order_cnt_lsb, delta_pic_order_cnt_bottom),
                    PicOrderCountLsb::FieldsDelta(_) => return None,
                };
                Order::Lsb {
                    lsb,
                    modulus,
                    bottom,
                }
            }
            (_, Some(PicOrderCountLsb::FieldsDelta(delta))) => Order::Delta(delta),
            _ => Order::Decoding,
        };
        let restrictions = sps
            .vui_parameters
            .as_ref()
            .and_then(|vui| vui.bitstream_restrictions.as_ref());
        Some(Ok(Slice {
            kind: match slice.slice_type.family {
                SliceFamily::I | SliceFamily::SI => Picture::I,
                SliceFamily::P | SliceFamily::SP => Picture::P,
                SliceFamily::B => Picture::B,
            },
            idr: match header.nal_unit_type() {
                UnitType::SliceLayerWithoutPartitioningIdr => slice.idr_pic_id,
                _ => None,
            },
            reference: header.nal_ref_idc() != 0,
            top: slice.first_mb_in_slice == 0,
            frame_num: u32::from(slice.frame_num),
            max_frame_num: 1 << sps.log2_max_frame_num(),
            gaps_allowed: sps.gaps_in_frame_num_value_allowed_flag,
            field: match slice.field_pic {
                FieldPic::Frame => None,
                FieldPic::Field(field) => Some(field == h264_reader::nal::slice::Field::Bottom),
            },
            pps: pps.pic_parameter_set_id.id(),
            order,
            reorder: restrictions.map(|limits| limits.max_num_reorder_frames),
        }))
    }
}
