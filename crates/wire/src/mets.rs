use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use bytes::{Buf, Bytes};
use layercast_core::{FlowId, Layer, Serial, Span};
use thiserror::Error;

use crate::{Passing, Payload};

/// Bytes of a METS data header.
pub const METS_HEADER: usize = 24;
/// Version of the METS data header and of RES/ADAPT.
pub const METS_VERSION: u8 = 1;

const MAX_24: u32 = (1 << 24) - 1;

/// The first 16 bits of every METS PDU: which layer, or which control message (specs/mets.md 2.6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameType(pub u16);

/// Flags of a METS data header (specs/mets.md 2.6) in the low half of the octet, and the mark of the life of the
/// flow ([`Epoch::mark`](crate::Epoch::mark)) in the high half.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u8);

/// The METS data header, 24 bytes big-endian at the front of every packet (specs/mets.md 2.6).
///
/// | off | size | field |
/// |---|---|---|
/// | 0 | 2 | type |
/// | 2 | 1 | mark of the life (4 bits), flags (4 bits) |
/// | 3 | 1 | which layers pass (4 bits, [`Passing`]), version (4 bits: 1) |
/// | 4 | 4 | flow |
/// | 8 | 4 | ALF sequence number |
/// | 12 | 4 | emission timestamp, us |
/// | 16 | 1 + 3 | E1 count, ALF length |
/// | 20 | 1 + 3 | E2 count, fragment offset; in the first fragment, whose offset is 0, how long a live frame [`Waited`], and [`Sound`] |
///
/// The specification gives lengths 32 bits; 24 are enough. The spare octets say how many E1 and
/// E2 frames the source emitted up to and including this one, modulo 256. The sequence number
/// counts the frames of all layers, so from the two headers around a gap a receiver knows exactly
/// how many frames of each layer were in it, and a switch that drops a layer on purpose does not
/// look like loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetsHeader {
    /// Layer of the frame.
    pub kind: FrameType,
    /// GOP start, first and last fragment, dummy cells.
    pub flags: Flags,
    /// The flow.
    pub flow: FlowId,
    /// ALF sequence number: one per frame of any layer, shared by all its fragments.
    pub seq: Serial,
    /// When the source emitted the frame, in microseconds, wrapping at 2^32.
    pub timestamp_us: u32,
    /// E1 frames emitted up to and including this frame, modulo 256.
    pub e1_count: u8,
    /// E2 frames emitted up to and including this frame, modulo 256.
    pub e2_count: u8,
    /// Bytes of the whole frame, 1 to 2^24 - 1.
    pub alf_len: u32,
    /// Where in the frame the payload of this packet starts, in bytes, below 2^24.
    pub offset: u32,
    /// How long the frame waited at its source; travels in the first fragment.
    pub waited: Waited,
    /// Whether it is sound; travels in the first fragment.
    pub sound: Sound,
    /// Which layers of the flow pass this link.
    pub passing: Passing,
}

/// How long a live frame waited at its source: 20 bits in the first packet of the frame.
///
/// The upper 13 bits are 4096 and the time from the arrival of the last byte to the emission timestamp in milliseconds, which
/// is less than zero if the frame arrived later than it was due; the next 7 bits are the time from then until this packet
/// left the source, in units of 2 ms. Longer times are cut to the largest that fits. All are zero for frames that are not
/// live.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Waited(u32);

/// Whether a frame is sound, and how many frames of sound came before it: 4 bits in the first packet of the frame.
///
/// Sound is any data beside the pictures of a flow, in its base layer, without references from one to the other: that of
/// other streams, too. The upper bit tells whether the frame is sound; the others are the frames of sound up to and including
/// this one, modulo 8. From the two frames around a gap a receiver knows how many frames of sound are missing in it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sound(u8);

/// A METS packet: header and a fragment of a media frame.
///
/// ```
/// use layercast_core::{FlowId, Level, Serial};
/// use layercast_wire::{Flags, FrameType, MetsError, MetsHeader, MetsPacket, Passing, Payload, Sound, Waited};
///
/// let frame = MetsHeader {
///     kind: FrameType::BL,
///     flags: Flags::GOP_START,
///     flow: FlowId(7),
///     seq: Serial(1),
///     timestamp_us: 40_000,
///     e1_count: 0,
///     e2_count: 0,
///     alf_len: 0,
///     offset: 0,
///     waited: Waited::default(),
///     sound: Sound::default(),
///     passing: Passing::of(Level::FULL),
/// };
/// let packets: Vec<_> = MetsPacket::fragments(frame, &Payload::Zeros(2_500), 1_176).collect();
/// assert_eq!(packets.len(), 3);
/// let mut octets = Vec::new();
/// packets[2].encode_into(&mut octets);
/// let decoded = MetsPacket::decode(octets.into(), false)?;
/// assert_eq!(decoded.header, packets[2].header);
/// assert_eq!(decoded.payload.len(), 2_500 - 2 * 1_176);
/// assert_eq!(MetsPacket::decode(vec![0; 5].into(), false), Err(MetsError::Short(5)));
/// # Ok::<(), MetsError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MetsPacket {
    /// The 24-byte header.
    pub header: MetsHeader,
    /// The media bytes.
    pub payload: Payload,
    /// Congestion experienced on the way: EFCI of cells, ECN of datagrams; not in the bytes.
    pub congestion: bool,
}

/// Why bytes are not a METS packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum MetsError {
    /// Shorter than the header.
    #[error("METS packet of {0} bytes is shorter than its header")]
    Short(usize),
    /// A version we do not speak.
    #[error("METS version {0} is not 1")]
    Version(u8),
    /// A RES or ADAPT message, which has a format of its own.
    #[error("METS type {0} is a control message, not data")]
    Control(FrameType),
    /// Frame length zero or above 24 bits.
    #[error("METS frame length {0} is not in 1..=16777215")]
    FrameLength(u32),
    /// No payload.
    #[error("METS packet without payload")]
    Empty,
    /// The fragment does not lie within its frame.
    #[error("METS fragment {offset}+{len} goes beyond its frame of {alf_len} bytes")]
    Beyond {
        /// Where the fragment starts.
        offset: u32,
        /// Its length.
        len: usize,
        /// Length of the frame.
        alf_len: u32,
    },
    /// FIRST or LAST disagrees with offset and length.
    #[error("METS flags {0} contradict the fragment offset")]
    FragmentFlags(Flags),
}

impl FrameType {
    /// Base layer.
    pub const BL: FrameType = FrameType(1);
    /// First enhancement layer.
    pub const E1: FrameType = FrameType(2);
    /// Second enhancement layer.
    pub const E2: FrameType = FrameType(3);
    /// Sound and other data that go with every level of a flow of alternative layers.
    pub const COMMON: FrameType = FrameType(4);
    /// RES: what a branch wants, towards the source.
    pub const RES: FrameType = FrameType(0x10);
    /// ADAPT: what the source gives, towards the receivers.
    pub const ADAPT: FrameType = FrameType(0x11);
    /// Probe or opaque data.
    pub const PROBE: FrameType = FrameType(0x20);
    /// Parity of a block of base-layer packets, behind a [`ParityTable`](crate::ParityTable).
    pub const PARITY: FrameType = FrameType(0x21);

    /// The default type of a layer.
    pub const fn from_layer(layer: Layer) -> FrameType {
        match layer {
            Layer::Base => FrameType::BL,
            Layer::E1 => FrameType::E1,
            Layer::E2 => FrameType::E2,
        }
    }

    /// The layer of a media frame, which for [`COMMON`](FrameType::COMMON) ones is the base layer; `None` for anything else.
    pub const fn layer(self) -> Option<Layer> {
        match self {
            FrameType::BL | FrameType::COMMON => Some(Layer::Base),
            FrameType::E1 => Some(Layer::E1),
            FrameType::E2 => Some(Layer::E2),
            _ => None,
        }
    }

    /// Whether this is RES or ADAPT.
    pub const fn is_adapter(self) -> bool {
        matches!(self, FrameType::RES | FrameType::ADAPT)
    }
}

impl Flags {
    /// First frame of a group of pictures.
    pub const GOP_START: Flags = Flags(1);
    /// First fragment of its frame.
    pub const FIRST: Flags = Flags(2);
    /// Last fragment of its frame.
    pub const LAST: Flags = Flags(4);
    /// Lost cells were replaced by zeros.
    pub const DUMMY: Flags = Flags(8);

    /// Whether all of `other` are set.
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The mark of the life of the flow, 0 to 15.
    pub const fn life(self) -> u8 {
        self.0 >> 4
    }

    /// The same flags in another life of the flow; of `life` the low four bits count.
    pub const fn with_life(self, life: u8) -> Flags {
        Flags(self.0 & 0x0f | life << 4)
    }
}

impl BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Flags) {
        self.0 |= other.0;
    }
}

impl Waited {
    /// Times that fit, in milliseconds and in units of 2 ms.
    const EARLY: i64 = (1 << 12) - 1;
    const QUEUED: u64 = (1 << 7) - 1;
    /// What is added to the time of a live frame: that of others is 0.
    const LIVE: i64 = 1 << 12;
    const MS: i64 = 1_000_000_000;

    /// A frame whose last byte came at `arrived`, on the clock of its emission timestamp `due`, both in picoseconds
    /// of one clock, and that has not left yet.
    pub fn new(arrived_ps: u64, due_ps: u64) -> Waited {
        let early = (due_ps as i64).saturating_sub(arrived_ps as i64);
        let ms = early.saturating_add(early.signum() * Self::MS / 2) / Self::MS;
        let ms = ms.clamp(-Self::EARLY, Self::EARLY);
        Waited(((ms + Self::LIVE) as u32) << 7)
    }

    /// The same frame, which left `queued` after it was due and had arrived.
    #[must_use]
    pub fn left_after(self, queued: Span) -> Waited {
        if !self.is_live() {
            return self;
        }
        let pairs = queued.as_us().saturating_add(1_000) / 2_000;
        let pairs = pairs.min(Self::QUEUED);
        Waited(self.0 & !(Self::QUEUED as u32) | pairs as u32)
    }

    /// From the arrival of the last byte to the emission timestamp, in picoseconds; less than zero if it came late.
    pub fn early_ps(self) -> i64 {
        match self.is_live() {
            true => (i64::from(self.0 >> 7) - Self::LIVE) * Self::MS,
            false => 0,
        }
    }

    /// How long after the emission timestamp the last byte arrived; zero if it came in time.
    pub fn late(self) -> Span {
        Span::from_ps(u64::try_from(-self.early_ps()).unwrap_or(0))
    }

    /// What [`queued`](Waited::queued) gives for this time and longer ones.
    pub const LONGEST_QUEUED: Span = Span::from_ms(2 * Self::QUEUED);

    /// From the emission timestamp, or the later arrival of the last byte, until the first packet left.
    pub fn queued(self) -> Span {
        Span::from_ms(2 * (u64::from(self.0) & Self::QUEUED))
    }

    /// Whether the frame is live.
    pub fn is_live(self) -> bool {
        self.0 >> 7 != 0
    }
}

impl Sound {
    /// Frames of sound are counted modulo this.
    pub const MODULUS: u8 = 8;

    /// A frame that is sound or not, after `count` frames of sound, itself among them.
    pub fn new(is_sound: bool, count: u8) -> Sound {
        Sound(u8::from(is_sound) * Sound::MODULUS + count % Sound::MODULUS)
    }

    /// Whether the frame is sound.
    pub fn is_sound(self) -> bool {
        self.0 & Sound::MODULUS != 0
    }

    /// Frames of sound up to and including this frame, modulo [`MODULUS`](Sound::MODULUS).
    pub fn count(self) -> u8 {
        self.0 % Sound::MODULUS
    }
}

impl MetsHeader {
    /// Checks the fields against each other and against a payload of `len` bytes.
    pub fn check(&self, len: usize) -> Result<(), MetsError> {
        if self.kind.is_adapter() {
            return Err(MetsError::Control(self.kind));
        }
        if self.alf_len == 0 || self.alf_len > MAX_24 {
            return Err(MetsError::FrameLength(self.alf_len));
        }
        if len == 0 {
            return Err(MetsError::Empty);
        }
        let end = self.offset as usize + len;
        if self.offset > MAX_24 || end > self.alf_len as usize {
            let (offset, alf_len) = (self.offset, self.alf_len);
            return Err(MetsError::Beyond {
                offset,
                len,
                alf_len,
            });
        }
        let first = self.offset == 0;
        let last = end == self.alf_len as usize;
        let beside = (self.waited, self.sound);
        debug_assert!(first || beside == <(Waited, Sound)>::default());
        if self.flags.contains(Flags::FIRST) != first || self.flags.contains(Flags::LAST) != last {
            return Err(MetsError::FragmentFlags(self.flags));
        }
        Ok(())
    }

    /// The 24 bytes on the wire; lengths above 24 bits, which [`check`](Self::check) refuses, lose
    /// their top octet.
    pub fn encode(&self) -> [u8; METS_HEADER] {
        let mut out = [0; METS_HEADER];
        out[0..2].copy_from_slice(&self.kind.0.to_be_bytes());
        out[2] = self.flags.0;
        out[3] = METS_VERSION | self.passing.bits() << 4;
        out[4..8].copy_from_slice(&self.flow.0.to_be_bytes());
        out[8..12].copy_from_slice(&self.seq.0.to_be_bytes());
        out[12..16].copy_from_slice(&self.timestamp_us.to_be_bytes());
        out[16..20].copy_from_slice(&self.alf_len.to_be_bytes());
        let offset = match self.flags.contains(Flags::FIRST) {
            true => self.waited.0 << 4 | u32::from(self.sound.0),
            false => self.offset,
        };
        out[20..24].copy_from_slice(&offset.to_be_bytes());
        out[16] = self.e1_count;
        out[20] = self.e2_count;
        out
    }

    /// The same header without what changes on the way: the queueing of the source, and which layers pass. Sealing and
    /// parities cover this.
    #[must_use]
    pub fn fixed(mut self) -> MetsHeader {
        self.passing = Passing::default();
        self.waited = self.waited.left_after(Span::ZERO);
        self
    }

    /// Reads the header at the front of `bytes`; checks its version only, the rest needs the
    /// length of the payload ([`check`](Self::check)).
    pub fn decode(bytes: &[u8]) -> Result<MetsHeader, MetsError> {
        let Some(b) = bytes.first_chunk::<METS_HEADER>() else {
            return Err(MetsError::Short(bytes.len()));
        };
        if b[3] & 0x0f != METS_VERSION {
            return Err(MetsError::Version(b[3]));
        }
        let passing = Passing::from_bits(b[3] >> 4);
        let flags = Flags(b[2]);
        let last = u32::from_be_bytes([0, b[21], b[22], b[23]]);
        let (offset, waited, sound) = match flags.contains(Flags::FIRST) {
            true => (0, Waited(last >> 4), Sound(last as u8 & 15)),
            false => (last, Waited::default(), Sound::default()),
        };
        Ok(MetsHeader {
            kind: FrameType(u16::from_be_bytes([b[0], b[1]])),
            flags,
            flow: FlowId(u32::from_be_bytes([b[4], b[5], b[6], b[7]])),
            seq: Serial(u32::from_be_bytes([b[8], b[9], b[10], b[11]])),
            timestamp_us: u32::from_be_bytes([b[12], b[13], b[14], b[15]]),
            e1_count: b[16],
            e2_count: b[20],
            alf_len: u32::from_be_bytes([0, b[17], b[18], b[19]]),
            offset,
            waited,
            sound,
            passing,
        })
    }
}

impl MetsPacket {
    /// Bytes of header and payload.
    pub fn encoded_len(&self) -> usize {
        METS_HEADER + self.payload.len()
    }

    /// Cuts a frame into packets of at most `mtu` payload bytes; of `frame`, length, offset and the
    /// marks of the first and last fragment are set here, the rest is kept.
    pub fn fragments(
        frame: MetsHeader,
        payload: &Payload,
        mtu: usize,
    ) -> impl Iterator<Item = MetsPacket> {
        let (len, mtu) = (payload.len(), mtu.max(1));
        (0..len).step_by(mtu).map(move |start| {
            let end = len.min(start + mtu);
            let mut flags = Flags(frame.flags.0 & !(Flags::FIRST | Flags::LAST).0);
            if start == 0 {
                flags |= Flags::FIRST;
            }
            if end == len {
                flags |= Flags::LAST;
            }
            let (waited, sound) = match start {
                0 => (frame.waited, frame.sound),
                _ => Default::default(),
            };
            MetsPacket {
                header: MetsHeader {
                    flags,
                    alf_len: len as u32,
                    offset: start as u32,
                    waited,
                    sound,
                    ..frame
                },
                payload: payload.slice(start..end),
                congestion: false,
            }
        })
    }

    /// Appends header and payload to `out`.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        debug_assert_eq!(self.header.check(self.payload.len()), Ok(()));
        out.extend_from_slice(&self.header.encode());
        self.payload.append_to(out);
    }

    /// Decodes a whole packet; the payload shares the memory of `bytes`.
    pub fn decode(mut bytes: Bytes, congestion: bool) -> Result<MetsPacket, MetsError> {
        let header = MetsHeader::decode(&bytes)?;
        bytes.advance(METS_HEADER);
        header.check(bytes.len())?;
        Ok(MetsPacket {
            header,
            payload: Payload::Bytes(bytes),
            congestion,
        })
    }
}

impl fmt::Display for FrameType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            FrameType::BL => f.write_str("BL"),
            FrameType::E1 => f.write_str("E1"),
            FrameType::E2 => f.write_str("E2"),
            FrameType::COMMON => f.write_str("COMMON"),
            FrameType::RES => f.write_str("RES"),
            FrameType::ADAPT => f.write_str("ADAPT"),
            FrameType::PROBE => f.write_str("PROBE"),
            FrameType::PARITY => f.write_str("PARITY"),
            FrameType(other) => write!(f, "{other:#06x}"),
        }
    }
}

impl fmt::Debug for FrameType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Flags::GOP_START, "GOP"),
            (Flags::FIRST, "FIRST"),
            (Flags::LAST, "LAST"),
            (Flags::DUMMY, "DUMMY"),
        ];
        let mut separator = "";
        for (_, name) in names.iter().filter(|(flag, _)| self.contains(*flag)) {
            write!(f, "{separator}{name}")?;
            separator = "|";
        }
        if separator.is_empty() {
            f.write_str("none")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
