use std::collections::VecDeque;

use bytes::BytesMut;
use layercast_core::{Cause, Layer, Level, Serial};

use crate::{Flags, MetsHeader, MetsPacket, Payload};

/// Frames in the making at one time.
const MAX_PARTIAL: usize = 64;
/// Fragments of one frame; a frame of 16 MiB in packets of 1176 bytes has 14 267.
const MAX_FRAGMENTS: usize = 16_384;

/// A media frame that arrived whole.
#[derive(Clone, PartialEq, Debug)]
pub struct WholeFrame {
    /// Header of its first fragment to arrive.
    pub header: MetsHeader,
    /// Its layer.
    pub layer: Layer,
    /// Level granted when its first fragment came.
    pub level: Level,
    /// Its bytes.
    pub payload: Payload,
}

impl WholeFrame {
    /// Whether it opens a group of pictures.
    pub fn gop_start(&self) -> bool {
        self.header.flags.contains(Flags::GOP_START)
    }
}

/// Puts fragments together into frames, in bounded memory.
///
/// Memory follows what arrived, never what a header announces: fragments are kept as they came
/// and copied into one piece when the last one is there. If there are too many bytes or frames,
/// the oldest frame in the making goes.
#[derive(Debug)]
pub struct Assembler {
    /// By sequence number.
    partial: VecDeque<Partial>,
    bytes: usize,
    max_bytes: usize,
    max_frame: u32,
    /// Empty lists for reuse.
    spare: Vec<Vec<(u32, u32, Payload)>>,
    evicted: u64,
}

#[derive(Debug)]
struct Partial {
    header: MetsHeader,
    layer: Layer,
    level: Level,
    bytes: usize,
    /// By offset, without overlap; each with the bytes it had when it travelled.
    fragments: Vec<(u32, u32, Payload)>,
}

impl Assembler {
    /// For frames of at most `max_frame` bytes.
    pub fn new(max_frame: u32) -> Assembler {
        Assembler {
            partial: VecDeque::new(),
            bytes: 0,
            // Reordering mixes few frames; eight of the largest are plenty.
            max_bytes: 8 * max_frame as usize,
            max_frame,
            spare: Vec::new(),
            evicted: 0,
        }
    }

    /// Frames of up to `max_frame` bytes may come from here on, besides those that might before.
    pub fn allow(&mut self, max_frame: u32) {
        self.max_frame = self.max_frame.max(max_frame);
        self.max_bytes = self.max_bytes.max(8 * max_frame as usize);
    }

    /// Bytes held in unfinished frames.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Unfinished frames given up for want of memory.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Takes a packet whose header was checked, with the level granted when it came; gives the frame
    /// it completes. Of its `travelled` bytes the header speaks; fewer are left once it is opened.
    ///
    /// # Errors
    /// Why the packet is dropped: it came twice, is too long, or contradicts the others.
    pub fn insert(
        &mut self,
        packet: MetsPacket,
        travelled: usize,
        layer: Layer,
        level: Level,
    ) -> Result<Option<WholeFrame>, Cause> {
        let MetsPacket {
            header, payload, ..
        } = packet;
        if header.alf_len > self.max_frame {
            return Err(Cause::Length);
        }
        let at = self
            .partial
            .partition_point(|partial| header.seq.is_after(partial.header.seq));
        let known = self
            .partial
            .get(at)
            .is_some_and(|partial| partial.header.seq == header.seq);
        if !known && travelled == header.alf_len as usize {
            return Ok(Some(WholeFrame {
                header,
                layer,
                level,
                payload,
            }));
        }
        if !known {
            let partial = Partial {
                header,
                layer,
                level,
                bytes: 0,
                fragments: self.spare.pop().unwrap_or_default(),
            };
            self.partial.insert(at, partial);
        }
        let partial = &mut self.partial[at];
        partial
            .add(header, travelled, payload)
            .map(|added| self.bytes += added)?;
        if partial.bytes == partial.header.alf_len as usize {
            return Ok(self.take(at).map(|mut partial| {
                let payload = join(&partial.fragments);
                partial.fragments.clear();
                self.spare.push(partial.fragments);
                WholeFrame {
                    header: partial.header,
                    layer: partial.layer,
                    level: partial.level,
                    payload,
                }
            }));
        }
        while self.bytes > self.max_bytes || self.partial.len() > MAX_PARTIAL {
            self.evict(0);
            self.evicted += 1;
        }
        Ok(None)
    }

    /// Gives up unfinished frames up to and including `seq`.
    pub fn forget_through(&mut self, seq: Serial) {
        while self
            .partial
            .front()
            .is_some_and(|partial| !partial.header.seq.is_after(seq))
        {
            self.evict(0);
        }
    }

    /// Gives up everything.
    pub fn clear(&mut self) {
        while !self.partial.is_empty() {
            self.evict(0);
        }
    }

    fn take(&mut self, at: usize) -> Option<Partial> {
        let partial = self.partial.remove(at)?;
        self.bytes -= partial.bytes;
        Some(partial)
    }

    fn evict(&mut self, at: usize) {
        if let Some(mut partial) = self.take(at) {
            partial.fragments.clear();
            self.spare.push(partial.fragments);
        }
    }
}

impl Partial {
    /// Adds a fragment; gives its bytes.
    fn add(&mut self, header: MetsHeader, len: usize, payload: Payload) -> Result<usize, Cause> {
        if !same_frame(&self.header, &header) {
            return Err(Cause::Malformed);
        }
        let start = header.offset;
        let end = start as usize + len;
        let at = self
            .fragments
            .partition_point(|&(offset, ..)| offset < start);
        if let Some((offset, known, _)) = self.fragments.get(at) {
            if *offset == start && *known as usize == len {
                return Err(Cause::Duplicate);
            }
            if end > *offset as usize {
                return Err(Cause::Malformed);
            }
        }
        let overlaps = at.checked_sub(1).is_some_and(|before| {
            let (offset, known, _) = &self.fragments[before];
            *offset as usize + *known as usize > start as usize
        });
        if overlaps || self.fragments.len() >= MAX_FRAGMENTS {
            return Err(Cause::Malformed);
        }
        self.fragments.insert(at, (start, len as u32, payload));
        self.bytes += len;
        if header.flags.contains(Flags::DUMMY) {
            self.header.flags |= Flags::DUMMY;
        }
        if start == 0 {
            (self.header.waited, self.header.sound) = (header.waited, header.sound);
        }
        Ok(len)
    }
}

/// Whether two packets say the same about the frame they belong to.
fn same_frame(a: &MetsHeader, b: &MetsHeader) -> bool {
    let gop = |h: &MetsHeader| h.flags.contains(Flags::GOP_START);
    a.kind == b.kind
        && a.flow == b.flow
        && a.timestamp_us == b.timestamp_us
        && a.e1_count == b.e1_count
        && a.e2_count == b.e2_count
        && a.alf_len == b.alf_len
        && gop(a) == gop(b)
}

fn join(fragments: &[(u32, u32, Payload)]) -> Payload {
    let payloads = || fragments.iter().map(|(.., payload)| payload);
    let len = payloads().map(Payload::len).sum();
    if payloads().all(|payload| matches!(payload, Payload::Zeros(_))) {
        return Payload::Zeros(len as u32);
    }
    let mut whole = BytesMut::with_capacity(len);
    for payload in payloads() {
        match payload {
            Payload::Zeros(n) => whole.resize(whole.len() + *n as usize, 0),
            Payload::Bytes(bytes) => whole.extend_from_slice(bytes),
        }
    }
    Payload::Bytes(whole.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FrameType, Passing, Sound, Waited};
    use bytes::Bytes;
    use layercast_core::FlowId;
    use proptest::prelude::*;

    fn packet(seq: u32, alf_len: u32, offset: u32, payload: &[u8]) -> MetsPacket {
        let mut flags = Flags::default();
        if offset == 0 {
            flags |= Flags::FIRST;
        }
        if offset + payload.len() as u32 == alf_len {
            flags |= Flags::LAST;
        }
        MetsPacket {
            header: MetsHeader {
                kind: FrameType::BL,
                flags,
                flow: FlowId(1),
                seq: Serial(seq),
                timestamp_us: 0,
                e1_count: 0,
                e2_count: 0,
                alf_len,
                offset,
                waited: Waited::default(),
                sound: Sound::default(),
                passing: Passing::default(),
            },
            payload: Payload::Bytes(Bytes::copy_from_slice(payload)),
            congestion: false,
        }
    }

    fn insert(assembler: &mut Assembler, packet: MetsPacket) -> Result<Option<WholeFrame>, Cause> {
        let travelled = packet.payload.len();
        assembler.insert(packet, travelled, Layer::Base, Level::BASE)
    }

    #[test]
    fn fragments_in_any_order_make_the_frame() {
        let mut assembler = Assembler::new(100);
        assert_eq!(insert(&mut assembler, packet(1, 6, 4, b"ef")), Ok(None));
        assert_eq!(insert(&mut assembler, packet(1, 6, 0, b"ab")), Ok(None));
        assert_eq!(
            insert(&mut assembler, packet(1, 6, 0, b"ab")),
            Err(Cause::Duplicate)
        );
        let whole = insert(&mut assembler, packet(1, 6, 2, b"cd"))
            .unwrap()
            .unwrap();
        assert_eq!(whole.payload, Bytes::from_static(b"abcdef").into());
        assert_eq!(assembler.bytes(), 0);
    }

    #[test]
    fn overlaps_and_contradictions_are_refused() {
        let mut assembler = Assembler::new(100);
        insert(&mut assembler, packet(1, 9, 3, b"def")).unwrap();
        for (offset, bytes) in [(2, &b"cd"[..]), (5, b"fg"), (0, b"abcdefgh"), (4, b"e")] {
            assert_eq!(
                insert(&mut assembler, packet(1, 9, offset, bytes)),
                Err(Cause::Malformed),
                "{offset}"
            );
        }
        assert_eq!(
            insert(&mut assembler, packet(1, 10, 0, b"abc")),
            Err(Cause::Malformed)
        );
        assert_eq!(
            insert(&mut assembler, packet(2, 101, 0, b"abc")),
            Err(Cause::Length)
        );
    }

    #[test]
    fn announced_lengths_cost_nothing_and_old_frames_give_way() {
        let mut assembler = Assembler::new(1_000);
        for seq in 0..10_000 {
            let _ = insert(&mut assembler, packet(seq, 1_000, 0, &[1; 300]));
            assert!(assembler.bytes() <= 8_000);
            assert!(assembler.partial.len() <= MAX_PARTIAL);
        }
        assert!(assembler.evicted() > 9_000);
        assembler.forget_through(Serial(9_999));
        assert_eq!((assembler.bytes(), assembler.partial.len()), (0, 0));
    }

    proptest! {
        #[test]
        fn random_fragments_stay_within_bounds(
            fragments in prop::collection::vec((0u32..8, 1u32..40, 0u32..40, 1usize..40), 0..300)
        ) {
            let mut assembler = Assembler::new(32);
            for (seq, alf_len, offset, len) in fragments {
                let fragment = packet(seq, alf_len, offset, &vec![7; len]);
                if fragment.header.check(len).is_err() {
                    continue;
                }
                if let Ok(Some(whole)) = insert(&mut assembler, fragment) {
                    prop_assert_eq!(whole.payload.len(), alf_len as usize);
                }
                let held: usize = assembler.partial.iter().map(|partial| partial.bytes).sum();
                prop_assert_eq!(held, assembler.bytes());
                prop_assert!(held <= 8 * 32);
            }
        }
    }
}
