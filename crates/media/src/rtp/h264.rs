use memchr::memmem;

use crate::h264::{Cutter, Unit, nal, nals};

/// Longest NAL unit put together from fragments.
const MAX_NAL: usize = (1 << 24) - 1;

/// Single NAL units up to this type are as they are (RFC 6184, table 1).
const LAST_SINGLE: u8 = 23;
pub(crate) const STAP_A: u8 = 24;
pub(crate) const FU_A: u8 = 28;

/// NAL units from RTP payloads, and access units from those (RFC 6184).
#[derive(Default, Debug)]
pub(crate) struct Depacketiser {
    pub cutter: Cutter,
    /// The NAL unit that comes in fragments.
    fragments: Vec<u8>,
    /// Something of the access unit is missing.
    damaged: bool,
    /// Something may be missing before the first slice that comes.
    front_lost: bool,
    pub malformed: u64,
}

impl Depacketiser {
    /// Packets are missing before the next one, inside an access unit.
    pub fn lose(&mut self) {
        self.damaged = true;
        self.fragments.clear();
    }

    /// Packets are missing before the next one, with which an access unit may begin or not: its first slice
    /// will tell.
    pub fn lose_front(&mut self) {
        self.front_lost = true;
        self.fragments.clear();
    }

    /// Takes a payload.
    pub fn push(&mut self, payload: &[u8], units: &mut Vec<Unit>) {
        let kind = nal::kind(payload);
        if kind != FU_A && !self.fragments.is_empty() {
            // The end of the NAL unit in fragments did not come.
            self.lose();
        }
        match kind {
            1..=LAST_SINGLE => self.nal(payload, units),
            STAP_A => {
                let mut rest = &payload[1..];
                while let Some((len, after)) = rest.split_first_chunk() {
                    let len = usize::from(u16::from_be_bytes(*len));
                    let Some((nal, after)) = after.split_at_checked(len) else {
                        self.malformed += 1;
                        self.damaged = true;
                        return;
                    };
                    rest = after;
                    if !nal.is_empty() {
                        self.nal(nal, units);
                    }
                }
            }
            FU_A => self.fragment(payload, units),
            // A start code, which some senders leave before the NAL unit.
            0 if payload.starts_with(&[0, 0, 1]) || payload.starts_with(&[0, 0, 0, 1]) => {
                self.nal(payload, units);
            }
            // STAP-B, MTAP and FU-B belong to the interleaved mode, which is never offered.
            _ => self.malformed += 1,
        }
    }

    fn fragment(&mut self, payload: &[u8], units: &mut Vec<Unit>) {
        let &[indicator, header, ref data @ ..] = payload else {
            self.malformed += 1;
            return;
        };
        let first = indicator & 0xE0 | header & 0x1F;
        if header & 0x80 != 0 {
            if !self.fragments.is_empty() {
                // The end of the one before did not come.
                self.damaged = true;
            }
            self.fragments.clear();
            self.fragments.push(first);
        } else if self
            .fragments
            .first()
            .is_none_or(|known| known & 0x1F != header & 0x1F)
        {
            // Its beginning is missing.
            return self.lose();
        }
        if self.fragments.len() + data.len() > MAX_NAL {
            self.malformed += 1;
            return self.lose();
        }
        self.fragments.extend_from_slice(data);
        if header & 0x40 != 0 {
            let nal = std::mem::take(&mut self.fragments);
            self.nal(&nal, units);
            self.fragments = nal;
            self.fragments.clear();
        }
    }

    /// Takes a NAL unit. Start codes cannot be in one (7.4.1): where they are, several were sent as one.
    fn nal(&mut self, nal: &[u8], units: &mut Vec<Unit>) {
        let first = memmem::find(nal, &[0, 0, 1]).unwrap_or(nal.len());
        let zeros = nal[..first].iter().rev().take_while(|&&byte| byte == 0);
        let end = first - zeros.count();
        let alone = Some(&nal[..end]).filter(|nal| !nal.is_empty());
        for part in alone
            .into_iter()
            .chain(nals(&nal[first..]).map(|(_, part)| part))
        {
            units.extend(self.cutter.push(part));
        }
    }

    /// The access unit is over. One of which something is missing is dropped: gives whether that is so.
    pub fn end_unit(&mut self, units: &mut Vec<Unit>) -> bool {
        let cut = !self.fragments.is_empty();
        self.fragments.clear();
        let unit = self.cutter.finish();
        let begins = |unit: &Unit| unit.info.first.as_ref().is_some_and(|slice| slice.top);
        let headless = match &unit {
            Some(unit) => std::mem::take(&mut self.front_lost) && !begins(unit),
            None => false,
        };
        if std::mem::take(&mut self.damaged) || cut || headless {
            return true;
        }
        units.extend(unit);
        false
    }
}

/// The NAL units of an aggregation packet, up to one that does not fit into it.
pub(crate) fn aggregated(payload: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = payload.get(1..).unwrap_or_default();
    let units = std::iter::from_fn(move || {
        let (len, after) = rest.split_first_chunk()?;
        let len = usize::from(u16::from_be_bytes(*len));
        let (unit, after) = after.split_at_checked(len)?;
        rest = after;
        Some(unit)
    });
    units.filter(|unit| !unit.is_empty())
}

/// Whether a payload holds a slice, or a part of one.
pub(crate) fn carries_slice(payload: &[u8]) -> bool {
    let slice = |kind| (nal::SLICE..=nal::IDR).contains(&kind);
    match nal::kind(payload) {
        FU_A => payload.get(1).is_some_and(|header| slice(header & 0x1F)),
        STAP_A => aggregated(payload).any(|unit| slice(nal::kind(unit))),
        kind => slice(kind) || nals(payload).any(|(_, unit)| slice(nal::kind(unit))),
    }
}

/// Cuts an access unit into payloads of at most `most` bytes: small NAL units that follow one another
/// together, large ones in fragments. `send` also gets whether it is the last.
pub(crate) fn packetise(unit: &[u8], most: usize, mut send: impl FnMut(&[u8], bool)) {
    let mut rest = nals(unit).map(|(_, nal)| nal).peekable();
    let mut together: Vec<u8> = Vec::new();
    while let Some(nal) = rest.next() {
        let last = rest.peek().is_none();
        if nal.len() > most {
            let (indicator, kind) = (nal[0] & 0xE0 | FU_A, nal[0] & 0x1F);
            let pieces = nal[1..].chunks(most - 2);
            let count = pieces.len();
            for (index, piece) in pieces.enumerate() {
                let (first, end) = (index == 0, index + 1 == count);
                let bits = if first { 0x80 } else { 0 } | if end { 0x40 } else { 0 };
                let payload = [&[indicator, bits | kind][..], piece].concat();
                send(&payload, last && end);
            }
            continue;
        }
        let next = rest.peek().map_or(usize::MAX, |next| next.len());
        let with = |nal: &[u8], together: &mut Vec<u8>| {
            if together.is_empty() {
                together.push(STAP_A);
            }
            together[0] = together[0].max(nal[0] & 0x60 | STAP_A);
            together.extend_from_slice(&(nal.len() as u16).to_be_bytes());
            together.extend_from_slice(nal);
        };
        let used = together.len().max(1) + 2 + nal.len();
        let goes_on = next < most && used + 2 + next <= most;
        if together.is_empty() && !goes_on {
            send(nal, last);
            continue;
        }
        with(nal, &mut together);
        if !goes_on {
            send(&together, last);
            together.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_cut_comes_together_again(
            lens in prop::collection::vec(1usize..3_000, 1..12)
        ) {
            let mut unit = Vec::new();
            let mut sent = Vec::new();
            for (n, len) in lens.iter().enumerate() {
                // No zeros: nothing that looks like a start code.
                let mut nal = vec![n as u8 | 1; *len];
                nal[0] = [0x06, 0x61, 0x67][n % 3];
                unit.extend_from_slice(&[0, 0, 1]);
                unit.extend_from_slice(&nal);
                sent.push(nal);
            }
            let mut got: Vec<Vec<u8>> = Vec::new();
            let mut lasts = 0;
            let mut fragments = Vec::new();
            packetise(&unit, 1_000, |payload, last| {
                assert!(payload.len() <= 1_000 && lasts == 0);
                lasts += usize::from(last);
                match nal::kind(payload) {
                    STAP_A => {
                        let mut rest = &payload[1..];
                        while let Some((len, after)) = rest.split_first_chunk() {
                            let len = usize::from(u16::from_be_bytes(*len));
                            got.push(after[..len].to_vec());
                            rest = &after[len..];
                        }
                    }
                    FU_A => {
                        if payload[1] & 0x80 != 0 {
                            fragments = vec![payload[0] & 0xE0 | payload[1] & 0x1F];
                        }
                        fragments.extend_from_slice(&payload[2..]);
                        if payload[1] & 0x40 != 0 {
                            got.push(std::mem::take(&mut fragments));
                        }
                    }
                    _ => got.push(payload.to_vec()),
                }
            });
            prop_assert_eq!(got, sent);
            prop_assert_eq!(lasts, 1);
        }
    }
}
