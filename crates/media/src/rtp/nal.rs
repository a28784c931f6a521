//! Video in NAL units over RTP: H.264 (RFC 6184) and H.265 (RFC 7798), which packetise them in the same ways.

use std::fmt::Debug;

use layercast_core::Serial;
use memchr::memmem;

use super::pictures::{Fit, Parts};
use crate::Map;
use crate::h264::nals;
use crate::live::{Stamp, TimedFrame};

/// Longest NAL unit put together from fragments.
const MAX_NAL: usize = (1 << 24) - 1;

/// What a payload holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape<'a> {
    /// A NAL unit.
    Single(&'a [u8]),
    /// Several, each behind its length in 16 bits.
    Together(&'a [u8]),
    Fragment(Fragment<'a>),
    Malformed,
}

/// A part of a NAL unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fragment<'a> {
    /// The header of the unit, of which this count of octets is used.
    pub head: [u8; 2],
    pub head_len: usize,
    pub first: bool,
    pub last: bool,
    pub data: &'a [u8],
}

impl Fragment<'_> {
    pub fn head(&self) -> &[u8] {
        &self.head[..self.head_len]
    }
}

/// What is known of a picture of which something is missing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) enum Torn {
    /// No slice of it came.
    #[default]
    Unknown,
    /// No other picture refers to it.
    Unreferenced,
    /// Others may refer to it.
    Referenced,
    /// A picture to start at, to which nothing before it matters.
    Start,
}

/// A codec in NAL units: how RTP carries them, and the access units that they make.
pub(crate) trait NalCodec: Default + Debug {
    type Unit: Debug;
    /// Octets of the header of a NAL unit.
    const HEAD: usize;
    /// Octets in front of the data of a fragment.
    const FRAGMENT_HEAD: usize;
    const NAME: &'static str;

    fn shape(payload: &[u8]) -> Shape<'_>;
    /// Whether the header of a NAL unit may be one of the stream.
    fn fit(&self, head: &[u8]) -> Fit;
    /// Whether a payload whose shape is not known belongs to a mode that is not offered.
    fn is_of_other_mode(payload: &[u8]) -> bool;
    /// Whether a NAL unit, of which only the header may be there, is a slice.
    fn is_slice(nal: &[u8]) -> bool;
    /// What a NAL unit, of which only the header may be there, says of its picture; nothing if it is no slice.
    fn says(nal: &[u8]) -> Torn;
    /// The header of the fragments of a unit, with the bits for the first and the last one clear; and the octets of
    /// the unit for which it stands.
    fn fragment_head(nal: &[u8]) -> ([u8; 3], usize);
    /// Begins the header of several units together, or changes it as another one needs.
    fn join_head(head: &mut Vec<u8>, nal: &[u8]);

    fn set_map(&mut self, map: Map);
    /// Takes a parameter set of the session description.
    fn take_set(&mut self, set: &[u8]);
    fn has_temporal_layers(&self) -> bool;
    /// Slices that came without their parameter sets, if there are none.
    fn lacks_parameter_sets(&self) -> Option<u64>;
    /// Takes a NAL unit; gives the access unit before it, if it begins a new one.
    fn push(&mut self, nal: &[u8]) -> Option<Self::Unit>;
    /// The access unit is over.
    fn finish(&mut self) -> Option<Self::Unit>;
    /// Whether it has its first slice.
    fn begins(unit: &Self::Unit) -> bool;
    /// The frame of an access unit, number `seq` of those that came or may be missing; `None` if it cannot be decoded.
    fn frame(&mut self, unit: Self::Unit, seq: Serial, stamp: Stamp) -> Option<TimedFrame>;
    /// A picture of which something is missing is left out.
    fn leave_out(&mut self, torn: Torn);
    /// A part of the picture given last is missing.
    fn lose(&mut self);
    /// Forgets the access unit that is being read.
    fn clear(&mut self);
}

/// NAL units from RTP payloads, and access units from those.
#[derive(Default, Debug)]
pub(crate) struct Depacketiser<C: NalCodec> {
    pub codec: C,
    /// The NAL unit that comes in fragments.
    fragments: Vec<u8>,
    /// Something of the access unit is missing.
    damaged: bool,
    /// Something may be missing before the first slice that comes.
    front_lost: bool,
    /// What the slices that came say of the picture.
    torn: Torn,
    pub malformed: u64,
}

impl<C: NalCodec> Parts for Depacketiser<C> {
    type Unit = C::Unit;

    fn holds_picture(&self, payload: &[u8]) -> bool {
        carries_slice::<C>(payload)
    }

    fn begins_picture(&self, _: &[u8]) -> bool {
        // Slices tell where an access unit begins.
        false
    }

    fn fit(&self, payload: &[u8]) -> Fit {
        match C::shape(payload) {
            Shape::Single(unit) => match memmem::find(unit, &[0, 0, 1]) {
                Some(0 | 1) => {
                    let mut fits = nals(unit).map(|(_, unit)| self.codec.fit(unit));
                    fits.find(|it| *it != Fit::Fits).unwrap_or(Fit::Fits)
                }
                _ => self.codec.fit(unit),
            },
            Shape::Together(all) => aggregated(all)
                .next()
                .map_or(Fit::Odd, |unit| self.codec.fit(unit)),
            Shape::Fragment(fragment) => self.codec.fit(fragment.head()),
            Shape::Malformed if C::is_of_other_mode(payload) => Fit::Fits,
            Shape::Malformed => Fit::Odd,
        }
    }

    fn clear(&mut self) {
        self.codec.clear();
    }

    fn lose(&mut self) {
        self.damaged = true;
        self.fragments.clear();
    }

    fn lose_front(&mut self) {
        self.front_lost = true;
        self.fragments.clear();
    }

    fn push(&mut self, payload: &[u8], units: &mut Vec<C::Unit>) {
        let shape = C::shape(payload);
        if !matches!(shape, Shape::Fragment(_)) && !self.fragments.is_empty() {
            // The end of the NAL unit in fragments did not come.
            self.lose();
        }
        match shape {
            Shape::Single(nal) => self.nal(nal, units),
            Shape::Together(all) => {
                let mut rest = all;
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
            Shape::Fragment(fragment) => self.fragment(fragment, units),
            Shape::Malformed => self.malformed += 1,
        }
    }

    fn end_unit(&mut self, units: &mut Vec<C::Unit>) -> bool {
        let cut = !self.fragments.is_empty();
        self.fragments.clear();
        let unit = self.codec.finish();
        let headless = match &unit {
            Some(unit) => std::mem::take(&mut self.front_lost) && !C::begins(unit),
            None => false,
        };
        let torn = std::mem::take(&mut self.torn);
        if std::mem::take(&mut self.damaged) || cut || headless {
            self.codec.leave_out(torn);
            return true;
        }
        units.extend(unit);
        false
    }

    fn frame(&mut self, unit: C::Unit, seq: Serial, stamp: Stamp) -> Option<TimedFrame> {
        self.codec.frame(unit, seq, stamp)
    }

    fn lose_last(&mut self) {
        self.codec.lose();
    }

    fn malformed(&self) -> u64 {
        self.malformed
    }
}

impl<C: NalCodec> Depacketiser<C> {
    fn fragment(&mut self, fragment: Fragment, units: &mut Vec<C::Unit>) {
        let head = fragment.head();
        self.torn = self.torn.max(C::says(head));
        if fragment.first {
            if !self.fragments.is_empty() {
                // The end of the one before did not come.
                self.damaged = true;
            }
            self.fragments.clear();
            self.fragments.extend_from_slice(head);
        } else if !self.fragments.starts_with(head) {
            // Its beginning is missing.
            return self.lose();
        }
        if self.fragments.len() + fragment.data.len() > MAX_NAL {
            self.malformed += 1;
            return self.lose();
        }
        self.fragments.extend_from_slice(fragment.data);
        if fragment.last {
            let nal = std::mem::take(&mut self.fragments);
            self.nal(&nal, units);
            self.fragments = nal;
            self.fragments.clear();
        }
    }

    /// Takes a NAL unit. Start codes cannot be in one (7.4.1): where they are, several were sent as one.
    fn nal(&mut self, nal: &[u8], units: &mut Vec<C::Unit>) {
        let first = memmem::find(nal, &[0, 0, 1]).unwrap_or(nal.len());
        let zeros = nal[..first].iter().rev().take_while(|&&byte| byte == 0);
        let end = first - zeros.count();
        let alone = Some(&nal[..end]).filter(|nal| !nal.is_empty());
        for part in alone
            .into_iter()
            .chain(nals(&nal[first..]).map(|(_, part)| part))
        {
            let torn = C::says(part);
            if let Some(unit) = self.codec.push(part) {
                units.push(unit);
                self.torn = Torn::Unknown;
            }
            self.torn = self.torn.max(torn);
        }
    }
}

/// The NAL units behind one another, each behind its length, up to one that is cut.
pub(crate) fn aggregated(all: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = all;
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
pub(crate) fn carries_slice<C: NalCodec>(payload: &[u8]) -> bool {
    match C::shape(payload) {
        Shape::Fragment(fragment) => C::is_slice(fragment.head()),
        Shape::Together(all) => aggregated(all).any(C::is_slice),
        Shape::Single(nal) => C::is_slice(nal) || nals(nal).any(|(_, unit)| C::is_slice(unit)),
        Shape::Malformed => false,
    }
}

/// Cuts an access unit into payloads of at most `most` bytes: small NAL units that follow one another
/// together, large ones in fragments. `send` also gets whether it is the last.
pub(crate) fn packetise<C: NalCodec>(unit: &[u8], most: usize, mut send: impl FnMut(&[u8], bool)) {
    // What has no whole header is no NAL unit.
    let mut rest = nals(unit)
        .map(|(_, nal)| nal)
        .filter(|nal| nal.len() >= C::HEAD)
        .peekable();
    let mut together: Vec<u8> = Vec::new();
    while let Some(nal) = rest.next() {
        let last = rest.peek().is_none();
        if nal.len() > most {
            let (mut head, replaced) = C::fragment_head(nal);
            let head = &mut head[..C::FRAGMENT_HEAD];
            let bits = C::FRAGMENT_HEAD - 1;
            let kind = head[bits];
            let pieces = nal[replaced..].chunks(most - C::FRAGMENT_HEAD);
            let count = pieces.len();
            for (index, piece) in pieces.enumerate() {
                let (first, end) = (index == 0, index + 1 == count);
                head[bits] = kind | u8::from(first) << 7 | u8::from(end) << 6;
                send(&[head, piece].concat(), last && end);
            }
            continue;
        }
        let next = rest.peek().map_or(usize::MAX, |next| next.len());
        let used = together.len().max(C::FRAGMENT_HEAD - 1) + 2 + nal.len();
        let goes_on = next < most && used + 2 + next <= most;
        if together.is_empty() && !goes_on {
            send(nal, last);
            continue;
        }
        C::join_head(&mut together, nal);
        together.extend_from_slice(&(nal.len() as u16).to_be_bytes());
        together.extend_from_slice(nal);
        if !goes_on {
            send(&together, last);
            together.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rtp::{h264::H264, h265::H265};

    /// The NAL units of an access unit with such, through payloads and back.
    fn round<C: NalCodec>(nals: &[Vec<u8>]) -> (Vec<Vec<u8>>, usize) {
        let unit: Vec<u8> = nals
            .iter()
            .flat_map(|nal| [&[0, 0, 1][..], nal].concat())
            .collect();
        let (mut got, mut fragments, mut lasts) = (Vec::new(), Vec::new(), 0);
        packetise::<C>(&unit, 1_000, |payload, last| {
            assert!(payload.len() <= 1_000 && lasts == 0);
            lasts += usize::from(last);
            match C::shape(payload) {
                Shape::Single(nal) => got.push(nal.to_vec()),
                Shape::Together(all) => got.extend(aggregated(all).map(<[u8]>::to_vec)),
                Shape::Fragment(part) => {
                    if part.first {
                        fragments = part.head().to_vec();
                    }
                    fragments.extend_from_slice(part.data);
                    if part.last {
                        got.push(std::mem::take(&mut fragments));
                    }
                }
                Shape::Malformed => panic!("{payload:?}"),
            }
        });
        (got, lasts)
    }

    #[test]
    fn what_has_no_whole_header_is_left_out() {
        let units = [vec![0x42, 1, 9], vec![0x44], vec![0x26, 1, 9]];
        let (got, lasts) = round::<H265>(&units);
        assert_eq!((got, lasts), (vec![units[0].clone(), units[2].clone()], 1));
        assert_eq!(round::<H265>(&units[1..2]), (vec![], 0));
    }

    proptest! {
        #[test]
        fn what_is_cut_comes_together_again(
            lens in prop::collection::vec(2usize..3_000, 1..12)
        ) {
            for is_h265 in [false, true] {
                let heads: [[u8; 2]; 3] = match is_h265 {
                    false => [[0x06, 9], [0x61, 9], [0x67, 9]],
                    true => [[0x4E, 1], [0x02, 3], [0x42, 1]],
                };
                // No zeros: nothing that looks like a start code.
                let nal = |(n, len): (usize, &usize)| {
                    let mut nal = vec![n as u8 | 1; *len];
                    nal[..2].copy_from_slice(&heads[n % 3]);
                    nal
                };
                let sent: Vec<Vec<u8>> = lens.iter().enumerate().map(nal).collect();
                let (got, lasts) = match is_h265 {
                    false => round::<H264>(&sent),
                    true => round::<H265>(&sent),
                };
                prop_assert_eq!(got, sent);
                prop_assert_eq!(lasts, 1);
            }
        }

        #[test]
        fn any_payload_is_safe(payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..30)) {
            let mut parts = Depacketiser::<H265>::default();
            let mut units = Vec::new();
            for payload in &payloads {
                carries_slice::<H265>(payload);
                parts.push(payload, &mut units);
            }
            parts.end_unit(&mut units);
        }
    }
}
