use layercast_core::Serial;

use crate::IpError;

/// Most bytes of options a header has room for.
pub(crate) const MAX_OPTIONS: usize = 40;
/// Most SACK blocks that fit (RFC 2018 3); with timestamps one fewer.
pub const MAX_SACK: usize = 4;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// The options of a TCP segment that we know.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TcpOptions {
    /// Largest segment the sender accepts, in bytes (RFC 9293 3.7.1).
    pub mss: Option<u16>,
    /// Left shift of the windows the sender will announce (RFC 7323 2.2).
    pub window_scale: Option<u8>,
    /// The sender takes SACK (RFC 2018 2).
    pub sack_permitted: bool,
    /// Timestamps (RFC 7323 3).
    pub timestamps: Option<Timestamps>,
    /// Blocks that arrived out of order (RFC 2018 3).
    pub sack: SackBlocks,
}

/// The timestamps option (RFC 7323 3.2).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Timestamps {
    /// The clock of the sender.
    pub value: u32,
    /// The last value from the other side; valid if ACK is set.
    pub echo: u32,
}

/// Up to [`MAX_SACK`] blocks, each from its first byte to the one after its last; none is empty.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SackBlocks {
    /// Those that are empty are not there: a count would make every segment longer.
    blocks: [(Serial, Serial); MAX_SACK],
}

impl SackBlocks {
    /// The blocks, the most recent first.
    #[inline]
    pub fn as_slice(&self) -> &[(Serial, Serial)] {
        let len = self.blocks.iter().position(|(from, to)| from == to);
        &self.blocks[..len.unwrap_or(MAX_SACK)]
    }

    /// Appends a block; `false` if there is no room, or nothing in it.
    #[inline]
    pub fn push(&mut self, from: Serial, to: Serial) -> bool {
        let free = self.blocks.iter_mut().find(|(from, to)| from == to);
        let Some(place) = free.filter(|_| from != to) else {
            return false;
        };
        *place = (from, to);
        true
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.blocks[0].0 == self.blocks[0].1
    }
}

impl TcpOptions {
    /// Bytes of the options, a multiple of four, at most 40.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        let fixed = self.fixed_len();
        match self.sack_room(fixed) {
            0 => fixed,
            blocks => fixed + 4 + 8 * blocks,
        }
    }

    /// Length of all but the SACK blocks.
    #[inline]
    fn fixed_len(&self) -> usize {
        let permitted = match (self.timestamps, self.sack_permitted) {
            (Some(_), _) => 12,
            (None, true) => 4,
            (None, false) => 0,
        };
        let mss = if self.mss.is_some() { 4 } else { 0 };
        let scale = if self.window_scale.is_some() { 4 } else { 0 };
        mss + permitted + scale
    }

    /// SACK blocks that fit behind the others.
    #[inline]
    fn sack_room(&self, fixed: usize) -> usize {
        ((MAX_OPTIONS - fixed - 4) / 8).min(self.sack.as_slice().len())
    }

    /// Writes the options at the front of `out` in the order every stack writes them (RFC 7323 A);
    /// gives their length. SACK blocks that do not fit are left out, the oldest first.
    pub(crate) fn encode(&self, out: &mut [u8]) -> usize {
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        if let Some(mss) = self.mss {
            put(&[MSS, 4]);
            put(&mss.to_be_bytes());
        }
        if self.sack_permitted {
            if self.timestamps.is_none() {
                put(&[NOP, NOP]);
            }
            put(&[SACK_PERMITTED, 2]);
        } else if self.timestamps.is_some() {
            put(&[NOP, NOP]);
        }
        if let Some(stamps) = self.timestamps {
            put(&[TIMESTAMPS, 10]);
            put(&stamps.value.to_be_bytes());
            put(&stamps.echo.to_be_bytes());
        }
        if let Some(scale) = self.window_scale {
            put(&[NOP, WINDOW_SCALE, 3, scale]);
        }
        let blocks = self.sack_room(self.fixed_len());
        if blocks > 0 {
            put(&[NOP, NOP, SACK, 2 + 8 * blocks as u8]);
            for (from, to) in &self.sack.blocks[..blocks] {
                put(&from.0.to_be_bytes());
                put(&to.0.to_be_bytes());
            }
        }
        at
    }

    /// Decodes the option field; unknown options are skipped (RFC 9293 3.1, MUST-6), of several
    /// of a kind the last counts.
    pub(crate) fn decode(field: &[u8]) -> Result<TcpOptions, IpError> {
        let mut options = TcpOptions::default();
        let mut at = 0;
        while let Some(&kind) = field.get(at) {
            match kind {
                END => break,
                NOP => {
                    at += 1;
                    continue;
                }
                _ => {}
            }
            let bad = IpError::TcpOption { kind, at };
            let len = usize::from(*field.get(at + 1).ok_or(bad)?);
            let body = field.get(at + 2..at + len).ok_or(bad)?;
            match (kind, body) {
                (MSS, &[a, b]) => options.mss = Some(u16::from_be_bytes([a, b])),
                (WINDOW_SCALE, &[scale]) => options.window_scale = Some(scale),
                (SACK_PERMITTED, []) => options.sack_permitted = true,
                (TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => {
                    options.timestamps = Some(Timestamps {
                        value: u32::from_be_bytes([a, b, c, d]),
                        echo: u32::from_be_bytes([e, f, g, h]),
                    });
                }
                (SACK, blocks) if matches!(blocks.len(), 8 | 16 | 24 | 32) => {
                    options.sack = SackBlocks::default();
                    for block in blocks.as_chunks::<8>().0 {
                        let (from, to) = (word(block, 0), word(block, 4));
                        options.sack.push(from, to);
                    }
                }
                (MSS | WINDOW_SCALE | SACK_PERMITTED | TIMESTAMPS | SACK, _) => return Err(bad),
                _ => {}
            }
            at += len;
        }
        Ok(options)
    }
}

fn word(block: &[u8; 8], at: usize) -> Serial {
    let bytes = [block[at], block[at + 1], block[at + 2], block[at + 3]];
    Serial(u32::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The SYN of a Linux 6 host, as tcpdump shows it.
    const LINUX_SYN: [u8; 20] = [
        2, 4, 5, 0xb4, 4, 2, 8, 10, 0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0, 1, 3, 3, 7,
    ];

    #[test]
    fn a_syn_of_linux_comes_back_as_it_was() {
        let options = TcpOptions::decode(&LINUX_SYN).unwrap();
        assert_eq!(options.mss, Some(1460));
        assert_eq!(options.window_scale, Some(7));
        assert!(options.sack_permitted);
        let mut out = [0; MAX_OPTIONS];
        let len = options.encode(&mut out);
        assert_eq!(out[..len], LINUX_SYN);
        assert_eq!(len, options.encoded_len());
    }

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        for field in [
            &[2u8, 3, 5][..],
            &[2, 4, 5],
            &[3],
            &[8, 0, 0],
            &[99, 1],
            &[5, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[4, 3, 0],
        ] {
            assert!(
                matches!(
                    TcpOptions::decode(field),
                    Err(IpError::TcpOption { at: 0, .. })
                ),
                "{field:?}"
            );
        }
        // Unknown ones are skipped, and nothing after the end counts.
        let field = [99, 4, 1, 2, 1, 0, 2, 0];
        assert_eq!(TcpOptions::decode(&field), Ok(TcpOptions::default()));
    }

    #[test]
    fn sack_blocks_that_do_not_fit_are_left_out() {
        let mut options = TcpOptions {
            timestamps: Some(Timestamps::default()),
            ..TcpOptions::default()
        };
        for n in 0..4 {
            assert!(options.sack.push(Serial(n), Serial(n + 1)));
        }
        assert!(!options.sack.push(Serial(9), Serial(10)));
        let mut out = [0; MAX_OPTIONS];
        let len = options.encode(&mut out);
        assert_eq!(len, options.encoded_len());
        let back = TcpOptions::decode(&out[..len]).unwrap();
        assert_eq!(back.sack.as_slice(), &options.sack.as_slice()[..3]);
    }
}
