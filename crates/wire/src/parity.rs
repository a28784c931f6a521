use bytes::{Buf, BufMut, Bytes, BytesMut};
use layercast_core::Serial;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What the parities of a flow's base layer are, as its advertisement says (docs/src/reference/fec.md).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BaseParities {
    /// Most source packets of a block.
    pub n: u8,
    /// Most parities of a block.
    pub m: u8,
}

/// Packets of the base layer before repair, since a receiver joined: what its parities tell were sent, and
/// what came of them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct BasePackets {
    /// Packets sent, parities included.
    pub expected: u64,
    /// Packets received, without duplicates.
    pub received: u64,
}

/// Fragments of one frame of the base layer that follow one another, as members of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Number of the frame.
    pub seq: Serial,
    /// Where the first of them starts in the frame, in bytes, below 2^24.
    pub offset: u32,
    /// How many, at least one.
    pub count: u8,
}

/// The header in front of the FEC packet in a METS packet of type [`PARITY`](crate::FrameType::PARITY): which
/// packets of the base layer are in its block.
///
/// | octets | field |
/// |---|---|
/// | 2 | pitch: bytes from one fragment of a frame to the next |
/// | 1 | number of runs |
/// | 8 each | run: ALF sequence number (4), offset of its first fragment (3), fragments (1) |
///
/// Source packets themselves stay as they are, so a receiver without FEC support loses nothing
/// (specs/packet-level-fec.md 2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParityTable<'a> {
    pitch: u16,
    /// The runs in octets, checked.
    runs: &'a [u8],
}

/// Why octets are no table of a parity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ParityError {
    /// The octets end in the table.
    #[error("a parity of {0} octets ends within its table")]
    Short(usize),
    /// There is no source packet in the block, or more than its numbers can name.
    #[error("a parity of {0} source packets")]
    Sources(usize),
    /// A run without fragments, or of fragments that no frame has.
    #[error("{count} fragments from {offset} on, {pitch} bytes apart")]
    Run {
        /// Where the first starts.
        offset: u32,
        /// Fragments.
        count: u8,
        /// Bytes from one to the next.
        pitch: u16,
    },
}

impl Run {
    /// Octets of a run.
    pub const SIZE: usize = 8;

    fn encode(&self) -> [u8; Run::SIZE] {
        let [s0, s1, s2, s3] = self.seq.0.to_be_bytes();
        let [_, o1, o2, o3] = self.offset.to_be_bytes();
        [s0, s1, s2, s3, o1, o2, o3, self.count]
    }

    fn decode(&[s0, s1, s2, s3, o1, o2, o3, count]: &[u8; Run::SIZE]) -> Run {
        Run {
            seq: Serial(u32::from_be_bytes([s0, s1, s2, s3])),
            offset: u32::from_be_bytes([0, o1, o2, o3]),
            count,
        }
    }

    fn check(&self, pitch: u16) -> Result<(), ParityError> {
        let last = u32::from(self.count.saturating_sub(1)) * u32::from(pitch);
        let apart = pitch > 0 || self.count == 1;
        match self.count > 0 && apart && self.offset + last < 1 << 24 {
            true => Ok(()),
            false => Err(ParityError::Run {
                offset: self.offset,
                count: self.count,
                pitch,
            }),
        }
    }
}

impl<'a> ParityTable<'a> {
    /// Octets in front of the runs.
    pub const PREFIX: usize = 3;
    /// Most packets of a block whose table is sent or believed.
    pub const MOST: usize = 255;

    /// Appends a table; `runs` are at most [`MOST`](ParityTable::MOST).
    pub fn put(pitch: u16, runs: &[Run], out: &mut BytesMut) {
        debug_assert!(runs.len() <= ParityTable::MOST);
        out.put_u16(pitch);
        out.put_u8(runs.len() as u8);
        for run in runs {
            out.put_slice(&run.encode());
        }
    }

    /// Reads a table at the beginning of the payload of a packet; gives the FEC packet behind it, too.
    ///
    /// # Errors
    ///
    /// [`ParityError`] for anything that no source sends.
    pub fn decode(payload: &'a Bytes) -> Result<(ParityTable<'a>, Bytes), ParityError> {
        let short = ParityError::Short(payload.len());
        let Some((&[p0, p1, count], rest)) = payload.split_first_chunk() else {
            return Err(short);
        };
        let octets = usize::from(count) * Run::SIZE;
        let runs = rest.get(..octets).ok_or(short)?;
        let table = ParityTable {
            pitch: u16::from_be_bytes([p0, p1]),
            runs,
        };
        table.runs().try_for_each(|run| run.check(table.pitch))?;
        let sources = table.sources();
        if !(1..=ParityTable::MOST).contains(&sources) {
            return Err(ParityError::Sources(sources));
        }
        let mut packet = payload.clone();
        packet.advance(ParityTable::PREFIX + octets);
        Ok((table, packet))
    }

    /// Bytes from one fragment of a frame to the next.
    pub fn pitch(&self) -> u16 {
        self.pitch
    }

    /// Source packets of the block.
    pub fn sources(&self) -> usize {
        self.runs().map(|run| usize::from(run.count)).sum()
    }

    /// The runs, in the order of the block.
    pub fn runs(&self) -> impl Iterator<Item = Run> + 'a {
        self.runs.as_chunks().0.iter().map(Run::decode)
    }

    /// The packets of the block, in order: number of the frame, and offset in it.
    pub fn packets(&self) -> impl Iterator<Item = (Serial, u32)> + 'a {
        let pitch = u32::from(self.pitch);
        let of_run = move |run: Run| {
            (0..u32::from(run.count)).map(move |it| (run.seq, run.offset + it * pitch))
        };
        self.runs().flat_map(of_run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(pitch: u16, runs: &[Run]) -> Bytes {
        let mut out = BytesMut::new();
        ParityTable::put(pitch, runs, &mut out);
        out.put_slice(b"rest");
        out.freeze()
    }

    #[test]
    fn a_table_names_the_packets_of_its_block() {
        let runs = [
            Run {
                seq: Serial(u32::MAX),
                offset: 2_000,
                count: 2,
            },
            Run {
                seq: Serial(11),
                offset: 0,
                count: 1,
            },
        ];
        let octets = table(1_000, &runs);
        assert_eq!(octets.len(), ParityTable::PREFIX + 2 * Run::SIZE + 4);
        let (table, rest) = ParityTable::decode(&octets).unwrap();
        assert_eq!(&rest[..], b"rest");
        assert!(table.runs().eq(runs));
        let packets: Vec<(u32, u32)> = table.packets().map(|it| (it.0.0, it.1)).collect();
        assert_eq!(packets, [(u32::MAX, 2_000), (u32::MAX, 3_000), (11, 0)]);
    }

    #[test]
    fn tables_that_no_source_sends_are_refused() {
        let run = |offset, count| Run {
            seq: Serial(1),
            offset,
            count,
        };
        let error = |pitch, runs: &[Run]| {
            let octets = table(pitch, runs);
            ParityTable::decode(&octets).map(drop).unwrap_err()
        };
        assert_eq!(error(1, &[]), ParityError::Sources(0));
        assert_eq!(
            error(1, &[run(0, 255), run(0, 1)]),
            ParityError::Sources(256)
        );
        assert!(matches!(error(1, &[run(0, 0)]), ParityError::Run { .. }));
        assert!(matches!(error(0, &[run(0, 2)]), ParityError::Run { .. }));
        let far = [run((1 << 24) - 1, 2)];
        assert!(matches!(error(1, &far), ParityError::Run { .. }));
        let whole = table(1, &[run(0, 1)]);
        for end in 0..ParityTable::PREFIX + Run::SIZE {
            let cut = ParityTable::decode(&whole.slice(..end)).map(drop);
            assert_eq!(cut, Err(ParityError::Short(end)));
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_as_it_was_written_or_refused(
            octets in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let octets = Bytes::from(octets);
            if let Ok((table, rest)) = ParityTable::decode(&octets) {
                let runs: Vec<Run> = table.runs().collect();
                let mut again = BytesMut::new();
                ParityTable::put(table.pitch, &runs, &mut again);
                again.put_slice(&rest);
                prop_assert_eq!(again.freeze(), octets.clone());
                prop_assert_eq!(table.packets().count(), table.sources());
            }
        }
    }
}
