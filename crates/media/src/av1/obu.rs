use crate::MediaError;

/// `obu_type` (6.2.2).
pub(crate) mod kind {
    pub const SEQUENCE: u8 = 1;
    pub const DELIMITER: u8 = 2;
    pub const FRAME_HEADER: u8 = 3;
    pub const TILE_GROUP: u8 = 4;
    pub const FRAME: u8 = 6;
    pub const TILE_LIST: u8 = 8;
    pub const PADDING: u8 = 15;
}

/// A temporal delimiter with its size.
pub(super) const DELIMITER: [u8; 2] = [kind::DELIMITER << 3 | HAS_SIZE, 0];
const HAS_SIZE: u8 = 2;
const EXTENSION: u8 = 4;

/// An open bitstream unit (5.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Obu<'a> {
    pub kind: u8,
    /// Temporal and spatial layer, if it has an extension header.
    pub ids: Option<(u8, u8)>,
    /// First octet of the header, and the extension.
    head: u8,
    extension: u8,
    pub payload: &'a [u8],
}

/// The header of a unit (5.3.1), with its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub kind: u8,
    pub ids: Option<(u8, u8)>,
    first: u8,
    extension: u8,
    /// Octets of the header and of the size.
    pub octets: usize,
    /// Octets of what follows, if the unit says it.
    pub len: Option<usize>,
}

impl Head {
    /// Longest header: two octets, and a size of up to eight.
    pub const LONGEST: usize = 10;

    /// Reads the header that begins `data`; `None` if it is none, or not whole.
    pub fn read(data: &[u8]) -> Option<Head> {
        let (&first, mut rest) = data.split_first()?;
        if first & 0x80 != 0 {
            return None;
        }
        let mut extension = 0;
        if first & EXTENSION != 0 {
            (extension, rest) = rest.split_first().map(|(&byte, rest)| (byte, rest))?;
        }
        let mut len = None;
        if first & HAS_SIZE != 0 {
            let (size, behind) = leb128(rest)?;
            (len, rest) = (Some(size), behind);
        }
        Some(Head {
            kind: first >> 3 & 15,
            ids: (first & EXTENSION != 0).then_some((extension >> 5, extension >> 3 & 3)),
            first,
            extension,
            octets: data.len() - rest.len(),
            len,
        })
    }

    /// The unit with this header, as far as its payload is at hand.
    pub fn with(self, payload: &[u8]) -> Obu<'_> {
        Obu {
            kind: self.kind,
            ids: self.ids,
            head: self.first,
            extension: self.extension,
            payload,
        }
    }
}

impl<'a> Obu<'a> {
    /// Reads the unit that begins `data`; one without a size takes all of it. Gives what is behind it.
    pub fn read(data: &'a [u8]) -> Option<(Obu<'a>, &'a [u8])> {
        let head = Head::read(data)?;
        let rest = &data[head.octets..];
        let (payload, rest) = match head.len {
            None => (rest, &[][..]),
            Some(len) => rest.split_at_checked(len)?,
        };
        Some((head.with(payload), rest))
    }

    /// Appends the unit without a size, as RTP carries it.
    pub fn write_bare(&self, out: &mut Vec<u8>) {
        out.push(self.head & !HAS_SIZE);
        if self.head & EXTENSION != 0 {
            out.push(self.extension);
        }
        out.extend_from_slice(self.payload);
    }

    /// Appends the unit with its size.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(self.head | HAS_SIZE);
        if self.head & EXTENSION != 0 {
            out.push(self.extension);
        }
        put_leb128(self.payload.len(), out);
        out.extend_from_slice(self.payload);
    }
}

/// The units of a temporal unit, up to one that is cut.
pub(crate) fn obus(data: &[u8]) -> impl Iterator<Item = Obu<'_>> {
    let mut rest = data;
    std::iter::from_fn(move || {
        let (obu, after) = Obu::read(rest)?;
        rest = after;
        Some(obu)
    })
}

/// Whether OBUs take all octets of a temporal unit.
pub(crate) fn is_whole(mut data: &[u8]) -> bool {
    while !data.is_empty() {
        let Some((_, rest)) = Obu::read(data) else {
            return false;
        };
        data = rest;
    }
    true
}

/// A number of up to 32 bits in groups of seven (4.10.5), and what is behind it.
pub(crate) fn leb128(data: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0u64;
    for (index, &byte) in data.iter().take(8).enumerate() {
        value |= u64::from(byte & 0x7F) << (7 * index);
        if byte & 0x80 == 0 {
            let value = u32::try_from(value).ok()?;
            return Some((value as usize, &data[index + 1..]));
        }
    }
    None
}

pub(crate) fn put_leb128(value: usize, out: &mut Vec<u8>) {
    let mut rest = value;
    while rest > 0x7F {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Whether these are the first octets of a low-overhead stream (5.2): a temporal delimiter.
pub(crate) fn is_section_5(data: &[u8]) -> bool {
    data.starts_with(&DELIMITER) && data.get(2).is_some_and(|head| head & 0x81 == 0)
}

/// Whether these are the first octets of a length-delimited stream (Annex B): a temporal unit that holds a frame unit that
/// begins with a temporal delimiter.
pub(crate) fn is_annex_b(data: &[u8]) -> bool {
    let begins = || -> Option<bool> {
        let (unit, rest) = leb128(data)?;
        let (frame, rest) = leb128(rest)?;
        let (obu, rest) = leb128(rest)?;
        let head = *rest.first()? & !HAS_SIZE;
        let has_size = usize::from(rest.first()? & HAS_SIZE != 0);
        let is_delimiter = head == kind::DELIMITER << 3 && obu == 1 + has_size;
        Some(is_delimiter && frame > obu && unit > frame)
    };
    begins() == Some(true)
}

/// Cuts a low-overhead stream into temporal units. Gives where the last unit begins that is cut.
pub(super) fn units_of_section_5(data: &[u8]) -> (Vec<&[u8]>, Option<u64>) {
    let mut units = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some((obu, rest)) = Obu::read(&data[at..]) {
        if obu.kind == kind::DELIMITER && at > start {
            units.push(&data[start..at]);
            start = at;
        }
        at = data.len() - rest.len();
    }
    let cut = (at < data.len()).then_some(start as u64);
    if cut.is_none() && at > start {
        units.push(&data[start..at]);
    }
    (units, cut)
}

/// The temporal units of a length-delimited stream (Annex B), as those of a low-overhead one. Gives where the last unit begins
/// that is cut.
pub(super) fn units_of_annex_b(data: &[u8]) -> Result<(Vec<Vec<u8>>, Option<u64>), MediaError> {
    let mut units = Vec::new();
    let mut rest = data;
    while !rest.is_empty() {
        let at = (data.len() - rest.len()) as u64;
        let whole = leb128(rest).and_then(|(len, rest)| rest.split_at_checked(len));
        let Some((mut unit, after)) = whole else {
            return Ok((units, Some(at)));
        };
        rest = after;
        let malformed = MediaError::Malformed {
            offset: at,
            expected: "a temporal unit of AV1 (Annex B) with the lengths of its frames and OBUs",
        };
        let mut out = Vec::with_capacity(unit.len());
        while !unit.is_empty() {
            let frame = leb128(unit).and_then(|(len, rest)| rest.split_at_checked(len));
            let (mut frame, after) = frame.ok_or_else(|| malformed.clone())?;
            unit = after;
            while !frame.is_empty() {
                let obu = leb128(frame).and_then(|(len, rest)| rest.split_at_checked(len));
                let (bytes, after) = obu.ok_or_else(|| malformed.clone())?;
                frame = after;
                let (obu, _) = Obu::read(bytes).ok_or_else(|| malformed.clone())?;
                obu.write(&mut out);
            }
        }
        units.push(out);
    }
    Ok((units, None))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units_with_and_without_sizes_are_read() {
        let data = [0x12, 0, 0x36, 0x48, 2, 7, 8, 0x30, 9];
        let found: Vec<Obu> = obus(&data).collect();
        assert_eq!(found.len(), 3);
        assert_eq!((found[1].kind, found[1].ids), (6, Some((2, 1))));
        assert_eq!((found[2].kind, found[2].payload), (6, &[9][..]));
        let mut out = Vec::new();
        found.iter().for_each(|it| it.write(&mut out));
        assert_eq!(out, [0x12, 0, 0x36, 0x48, 2, 7, 8, 0x32, 1, 9]);
    }

    #[test]
    fn both_forms_of_a_stream_are_told_and_cut() {
        let section_5 = [0x12, 0, 0x32, 1, 1, 0x12, 0, 0x32, 1, 2, 0x12, 0, 0x32, 9];
        assert!(is_section_5(&section_5) && !is_annex_b(&section_5));
        let (units, cut) = units_of_section_5(&section_5);
        assert_eq!(units, [&section_5[..5], &section_5[5..10]]);
        assert_eq!(cut, Some(10));
        // Units of 6 octets with a frame of 5: a delimiter, and a frame of two octets.
        let annex_b = [6, 5, 1, 0x10, 2, 0x30, 1, 6, 5, 1, 0x10, 2, 0x30, 2, 6, 5];
        assert!(is_annex_b(&annex_b) && !is_section_5(&annex_b));
        let (units, cut) = units_of_annex_b(&annex_b).expect("units");
        assert_eq!(units, [&section_5[..5], &section_5[5..10]]);
        assert_eq!(cut, Some(14));
        assert!(units_of_annex_b(&[3, 9, 1, 1]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(data in prop::collection::vec(any::<u8>(), 0..200)) {
            let most = data.len() * 2;
            let mut out = Vec::new();
            obus(&data).for_each(|it| it.write(&mut out));
            prop_assert!(out.len() <= most);
            units_of_section_5(&data);
            if let Ok((units, _)) = units_of_annex_b(&data) {
                prop_assert!(units.iter().map(Vec::len).sum::<usize>() <= most);
            }
            is_annex_b(&data);
        }

        #[test]
        fn numbers_come_back(value in 0usize..1 << 32) {
            let mut out = Vec::new();
            put_leb128(value, &mut out);
            prop_assert_eq!(leb128(&out), Some((value, &[][..])));
        }
    }
}
