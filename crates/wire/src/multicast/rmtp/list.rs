use super::RmtpError;

/// The symbol between the ends of a range.
const RANGE: u16 = 0xffff;
/// The highest number of a packet; the first is 1.
pub(super) const LAST_SEQ: u16 = 65_534;

/// Numbers of packets, from 1 to 65534, as ranges with both ends, in order, with a gap between any two.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RmtpList(Vec<(u16, u16)>);

impl RmtpList {
    /// The numbers in `ranges` (both ends belong to a range), in any order, also more than once.
    ///
    /// Errors: a number that is none of a packet, or a range whose end is before its start.
    pub fn of(ranges: impl IntoIterator<Item = (u16, u16)>) -> Result<RmtpList, RmtpError> {
        let mut ranges: Vec<_> = ranges.into_iter().collect();
        if let Some(&(first, last)) = ranges.iter().find(|it| !is_range(**it)) {
            return Err(RmtpError::Range(first, last));
        }
        ranges.sort_unstable();
        ranges.dedup_by(|next, before| {
            let touches = next.0 <= before.1 + 1;
            if touches {
                before.1 = before.1.max(next.1);
            }
            touches
        });
        Ok(RmtpList(ranges))
    }

    /// The ranges, with both ends.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u16, u16)> + '_ {
        self.0.iter().copied()
    }

    /// How many numbers.
    pub fn count(&self) -> usize {
        let sizes = self.iter().map(|(first, last)| last - first);
        sizes.map(|more| 1 + usize::from(more)).sum()
    }

    /// The highest number; 0 if there is none.
    pub fn highest(&self) -> u16 {
        self.0.last().map_or(0, |range| range.1)
    }

    /// Whether there is no number.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Symbols (of two octets) that say it.
    pub fn symbols(&self) -> usize {
        let sizes = self.iter().map(|(first, last)| last - first);
        sizes.map(|more| 1 + usize::from(more.min(2))).sum()
    }

    pub(super) fn encode_into(&self, out: &mut Vec<u8>) {
        let mut put = |symbol: u16| out.extend_from_slice(&symbol.to_be_bytes());
        for (first, last) in self.iter() {
            put(first);
            if last - first > 1 {
                put(RANGE);
            }
            if last > first {
                put(last);
            }
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<RmtpList, RmtpError> {
        let (symbols, odd) = bytes.as_chunks::<2>();
        if !odd.is_empty() {
            return Err(RmtpError::Odd(bytes.len()));
        }
        let mut symbols = symbols.iter().map(|it| u16::from_be_bytes(*it)).peekable();
        let mut ranges = Vec::new();
        while let Some(first) = symbols.next() {
            let range = symbols.next_if_eq(&RANGE).is_some();
            let last = match range {
                true => symbols.next().ok_or(RmtpError::Range(first, RANGE))?,
                false => first,
            };
            ranges.push((first, last));
        }
        RmtpList::of(ranges)
    }
}

fn is_range((first, last): (u16, u16)) -> bool {
    1 <= first && first <= last && last <= LAST_SEQ
}
