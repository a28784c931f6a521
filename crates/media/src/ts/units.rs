//! Where access units begin in the elementary stream of a video, by its start codes alone.

use memchr::memmem;

/// How the start codes of a stream are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Syntax {
    /// MPEG-1 and MPEG-2 video (ISO/IEC 11172-2, 13818-2).
    Mpeg,
    /// MPEG-4 part 2 (ISO/IEC 14496-2).
    Mpeg4,
    H264,
    H265,
    /// Nothing is known: each PES packet is a unit.
    Opaque,
}

/// What a start code says about access units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// Begins a unit if a picture came before it.
    Front,
    /// The first part of a picture.
    First,
    /// A part of a picture that is not its first.
    Part,
    /// Belongs to the unit in which it stands.
    Rest,
}

/// The units of a piece of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Units {
    /// Where units begin; the first is 0.
    pub starts: Vec<usize>,
    /// Whether the last unit has a part of a picture.
    pub has_picture: bool,
}

impl Syntax {
    /// The units in `data`.
    pub fn units(self, data: &[u8]) -> Units {
        let mut units = Units {
            starts: vec![0],
            has_picture: false,
        };
        let mut front = None;
        for (at, code) in codes(data) {
            match self.role(&data[code..]) {
                Role::Front => {
                    front = front.or(Some(at).filter(|_| units.has_picture));
                }
                role @ (Role::First | Role::Part) => {
                    // Slices of MPEG video do not say which is the first: the picture header does.
                    let begins = role == Role::First || self == Syntax::Mpeg;
                    match front.take() {
                        Some(front) if begins => units.starts.push(front),
                        None if role == Role::First && units.has_picture => units.starts.push(at),
                        _ => {}
                    }
                    units.has_picture = true;
                }
                Role::Rest => {}
            }
        }
        units
    }

    /// Whether a PES packet whose elementary stream begins with `data` begins a unit; otherwise it continues the
    /// one before it. `has_picture` tells whether that one has a part of a picture.
    pub fn begins(self, data: &[u8], has_picture: bool) -> bool {
        if self == Syntax::Opaque || data.is_empty() {
            return true;
        }
        let zeros = data.iter().take_while(|&&byte| byte == 0).count();
        if zeros < 2 || data.get(zeros) != Some(&1) {
            // The rest of something.
            return false;
        }
        let roles = codes(data).map(|(_, code)| self.role(&data[code..]));
        match roles.into_iter().find(|&role| role != Role::Rest) {
            // Units before a picture are one unit with it.
            Some(Role::First | Role::Front) => has_picture,
            Some(Role::Part) => false,
            Some(Role::Rest) | None => true,
        }
    }

    /// Whether `data` end with zeros, which no unit ends with, or with a code that ends
    /// the stream.
    pub fn is_ended(self, data: &[u8]) -> bool {
        match (self, data) {
            (Syntax::Opaque, _) => false,
            (_, [.., 0, 0]) => true,
            (Syntax::Mpeg, [.., 0, 0, 1, 0xB7]) | (Syntax::Mpeg4, [.., 0, 0, 1, 0xB1]) => true,
            (Syntax::H264, [.., 0, 0, 1, last]) => matches!(last & 31, 10 | 11),
            (Syntax::H265, [.., 0, 0, 1, last, _]) => matches!(last >> 1 & 63, 36 | 37),
            _ => false,
        }
    }

    /// The first place in `data` where a unit begins.
    pub fn first_start(self, data: &[u8]) -> Option<usize> {
        codes(data)
            .find(|&(_, code)| matches!(self.role(&data[code..]), Role::Front | Role::First))
            .map(|(at, _)| at)
    }

    /// What the code behind a start code prefix says.
    fn role(self, code: &[u8]) -> Role {
        let Some(&first) = code.first() else {
            return Role::Rest;
        };
        // The flag or number in which the first slice of a picture differs.
        let leads = |at: usize| match code.get(at) {
            Some(byte) if byte & 0x80 == 0 => Role::Part,
            _ => Role::First,
        };
        match self {
            Syntax::Mpeg => match first {
                0x01..=0xAF => Role::Part,
                0x00 | 0xB3 | 0xB8 => Role::Front,
                _ => Role::Rest,
            },
            Syntax::Mpeg4 => match first {
                0xB6 => Role::First,
                0x00..=0x2F | 0xB0 | 0xB3 | 0xB5 => Role::Front,
                _ => Role::Rest,
            },
            // `first_mb_in_slice` is zero where its first bit is set.
            Syntax::H264 => match first & 31 {
                1 | 2 | 5 => leads(1),
                6..=9 | 14..=18 => Role::Front,
                _ => Role::Rest,
            },
            Syntax::H265 => match (first >> 1 & 63, first & 1) {
                // Layers above the first belong to the unit of it.
                (_, 1) => Role::Rest,
                (0..=31, _) => leads(2),
                (32..=35 | 39 | 41..=44 | 48..=55, _) => Role::Front,
                _ => Role::Rest,
            },
            Syntax::Opaque => Role::Rest,
        }
    }
}

/// The start codes in `data`: where each begins, a zero byte before it included, and where its code is.
fn codes(data: &[u8]) -> impl Iterator<Item = (usize, usize)> + '_ {
    memmem::find_iter(data, &[0, 0, 1]).map(|at| {
        let long = at > 0 && data[at - 1] == 0;
        (at - usize::from(long), at + 3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUD: [u8; 6] = [0, 0, 0, 1, 9, 0xF0];
    const FIRST: [u8; 6] = [0, 0, 1, 0x41, 0x80, 7];
    const PART: [u8; 6] = [0, 0, 1, 0x41, 0x20, 7];

    #[test]
    fn units_of_h264_begin_before_their_delimiter_or_first_slice() {
        let data = [&AUD[..], &FIRST, &PART, &AUD, &FIRST, &FIRST, &PART].concat();
        let units = Syntax::H264.units(&data);
        assert_eq!(units.starts, [0, 18, 30]);
        assert!(units.has_picture);
        assert!(!Syntax::H264.units(&AUD).has_picture);
    }

    #[test]
    fn a_pes_packet_begins_a_unit_or_continues_one() {
        for (data, before, begins) in [
            (&AUD[..], true, true),
            (&FIRST, true, true),
            (&PART, true, false),
            // Parameter sets came in a packet of their own.
            (&FIRST, false, false),
            (&[7, 7, 0, 0, 1, 0x41, 0x80], true, false),
            (&[0, 0, 0, 1], true, true),
        ] {
            assert_eq!(Syntax::H264.begins(data, before), begins, "{data:?}");
        }
        assert!(Syntax::Opaque.begins(&[7], true));
    }

    #[test]
    fn pictures_of_mpeg_and_h265_begin_by_their_own_headers() {
        let sequence = [0, 0, 1, 0xB3, 1];
        let picture = [0, 0, 1, 0, 0, 8];
        let slice = [0, 0, 1, 1, 9];
        let data = [&sequence[..], &picture, &slice, &slice, &picture, &slice].concat();
        assert_eq!(Syntax::Mpeg.units(&data).starts, [0, 21]);
        assert!(!Syntax::Mpeg.begins(&slice, true));
        let (first, part) = ([0, 0, 1, 2, 1, 0x80], [0, 0, 1, 2, 1, 0x40]);
        let data = [&first[..], &part, &first].concat();
        assert_eq!(Syntax::H265.units(&data).starts, [0, 12]);
    }
}
