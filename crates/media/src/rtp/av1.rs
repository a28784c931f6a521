//! AV1 in RTP (RTP Payload Format For AV1, version 1.0, of the Alliance for Open Media): OBUs, whole or in parts, behind an
//! aggregation header.

use layercast_core::{Media, Serial};

use super::pictures::{Fit, Parts};
use crate::Map;
use crate::av1::{Head, Obu, State, Unit, kind, leb128, obus, put_leb128};
use crate::bare::{BareFrames, MAX_FRAME};
use crate::live::{Stamp, TimedFrame};

/// Bits of the aggregation header (4.4).
const CONTINUES: u8 = 0x80;
const GOES_ON: u8 = 0x40;
const COUNT: u8 = 0x30;
const NEW_SEQUENCE: u8 = 0x08;

/// A payload: its OBU elements.
#[derive(Clone, Copy, Debug)]
struct Elements<'a> {
    /// How many there are, if that is said: then the last one has no length.
    count: Option<usize>,
    index: usize,
    rest: &'a [u8],
}

impl<'a> Elements<'a> {
    /// The aggregation header and what is behind it.
    fn read(payload: &'a [u8]) -> Option<(u8, Elements<'a>)> {
        let (&head, rest) = payload.split_first()?;
        let count = usize::from((head & COUNT) >> 4);
        let elements = Elements {
            count: (count > 0).then_some(count),
            index: 0,
            rest,
        };
        (!rest.is_empty()).then_some((head, elements))
    }

    /// The next element, and whether it is the last; `Err` if its length is wrong.
    fn next(&mut self) -> Option<Result<(&'a [u8], bool), ()>> {
        let is_over = self.count.is_some_and(|count| self.index == count);
        if self.rest.is_empty() && (self.count.is_none() || is_over) {
            return None;
        }
        self.index += 1;
        if self.count == Some(self.index) {
            return Some(Ok((std::mem::take(&mut self.rest), true)));
        }
        let sized = leb128(self.rest).and_then(|(len, rest)| rest.split_at_checked(len));
        let Some((element, rest)) = sized.filter(|_| !is_over) else {
            self.rest = &[];
            return Some(Err(()));
        };
        self.rest = rest;
        let is_last = self.count.is_none() && rest.is_empty();
        Some(Ok((element, is_last)))
    }
}

/// Whether a payload is one of AV1, and whether it shows that for certain: a coded video sequence begins with its header.
pub(super) fn shows_av1(payload: &[u8]) -> Option<bool> {
    const RESERVED: u8 = 0x07;
    let (head, mut elements) = Elements::read(payload)?;
    let mut continues = head & CONTINUES != 0;
    if head & RESERVED != 0 || continues && head & NEW_SEQUENCE != 0 {
        return None;
    }
    while let Some(element) = elements.next() {
        let (element, _) = element.ok()?;
        let begins = !std::mem::take(&mut continues);
        let is_known = |it: Head| {
            (kind::SEQUENCE..=kind::TILE_LIST).contains(&it.kind) || it.kind == kind::PADDING
        };
        if begins && !element.is_empty() && !Head::read(element).is_some_and(is_known) {
            return None;
        }
    }
    Some(begins_sequence(payload))
}

/// Whether a coded video sequence begins with its header.
fn begins_sequence(payload: &[u8]) -> bool {
    let Some((head, mut elements)) = Elements::read(payload) else {
        return false;
    };
    if head & NEW_SEQUENCE == 0 {
        return false;
    }
    let Some(Ok((mut element, mut is_last))) = elements.next() else {
        return false;
    };
    // Some senders keep the delimiter.
    if Obu::read(element).is_some_and(|(it, _)| it.kind == kind::DELIMITER)
        && let Some(Ok(next)) = elements.next()
    {
        (element, is_last) = next;
    }
    let is_cut = is_last && head & GOES_ON != 0;
    let sequence = Obu::read(element).filter(|(it, rest)| {
        it.kind == kind::SEQUENCE && rest.is_empty() && it.payload.len() >= 8 && !is_cut
    });
    let Some((sequence, _)) = sequence else {
        return false;
    };
    let mut state = State::default();
    Unit::read(&whole(&sequence), &mut state);
    state.sequence.is_some()
}

/// An OBU with its size.
fn whole(obu: &Obu) -> Vec<u8> {
    let mut out = Vec::new();
    obu.write(&mut out);
    out
}

/// Puts temporal units together.
#[derive(Debug)]
pub(crate) struct Av1Parts {
    pub frames: BareFrames,
    /// OBUs with their sizes.
    unit: Vec<u8>,
    /// An OBU of which more is to come.
    fragment: Vec<u8>,
    damaged: bool,
    /// Something may be missing before the first OBU that comes.
    front_lost: bool,
    malformed: u64,
}

impl Av1Parts {
    /// With layers as `map` says.
    pub fn new(map: Map) -> Av1Parts {
        Av1Parts {
            frames: BareFrames::new(Media::Av1, map),
            unit: Vec::new(),
            fragment: Vec::new(),
            damaged: false,
            front_lost: false,
            malformed: 0,
        }
    }

    /// An OBU is whole.
    fn obu(&mut self) {
        match Obu::read(&self.fragment) {
            Some((obu, _)) if obu.kind != kind::DELIMITER => obu.write(&mut self.unit),
            Some(_) => {}
            None if self.fragment.is_empty() => {}
            None => {
                self.malformed += 1;
                self.damaged = true;
            }
        }
        self.fragment.clear();
    }
}

impl Parts for Av1Parts {
    type Unit = Vec<u8>;

    fn holds_picture(&self, payload: &[u8]) -> bool {
        Elements::read(payload).is_some()
    }

    fn fit(&self, payload: &[u8]) -> Fit {
        match shows_av1(payload) {
            Some(_) => Fit::Fits,
            None => Fit::Odd,
        }
    }

    fn begins_picture(&self, _: &[u8]) -> bool {
        // A temporal unit has a time stamp of its own.
        false
    }

    fn push(&mut self, payload: &[u8], _: &mut Vec<Vec<u8>>) {
        let Some((head, mut elements)) = Elements::read(payload) else {
            self.malformed += 1;
            self.damaged = true;
            return;
        };
        // The first packet of a sequence has nothing before it.
        self.damaged |= std::mem::take(&mut self.front_lost) && head & NEW_SEQUENCE == 0;
        let mut continues = head & CONTINUES != 0;
        self.damaged |= continues == self.fragment.is_empty();
        if !continues {
            self.fragment.clear();
        }
        while let Some(element) = elements.next() {
            let Ok((element, is_last)) = element else {
                self.malformed += 1;
                self.damaged = true;
                return;
            };
            if self.unit.len() + self.fragment.len() + element.len() > MAX_FRAME {
                self.damaged = true;
                return;
            }
            if !std::mem::take(&mut continues) {
                self.fragment.clear();
            }
            self.fragment.extend_from_slice(element);
            if !(is_last && head & GOES_ON != 0) {
                self.obu();
            }
        }
    }

    fn lose(&mut self) {
        self.damaged = true;
        self.fragment.clear();
    }

    fn lose_front(&mut self) {
        self.front_lost = true;
        self.fragment.clear();
    }

    fn end_unit(&mut self, units: &mut Vec<Vec<u8>>) -> bool {
        let is_cut = !self.fragment.is_empty();
        self.fragment.clear();
        let unit = std::mem::take(&mut self.unit);
        if std::mem::take(&mut self.damaged) || is_cut {
            return true;
        }
        if !unit.is_empty() {
            units.push(unit);
        }
        false
    }

    fn frame(&mut self, unit: Vec<u8>, seq: Serial, stamp: Stamp) -> Option<TimedFrame> {
        let frame = self.frames.frame(&unit, seq, None)?;
        Some(TimedFrame {
            frame,
            stamp: Some(stamp),
            arrived: None,
        })
    }

    fn lose_last(&mut self) {
        self.frames.lose();
    }

    fn malformed(&self) -> u64 {
        self.malformed
    }
}

/// Cuts a temporal unit into payloads of at most `most` bytes, each OBU element behind its length (W = 0). `is_start`: a coded
/// video sequence begins. `send` also gets whether it is the last.
pub(super) fn packetise(
    unit: &[u8],
    is_start: bool,
    most: usize,
    mut send: impl FnMut(&[u8], bool),
) {
    // Header, length, and an octet of data at least.
    const LEAST: usize = 8;
    let kept = |it: &Obu| !matches!(it.kind, kind::DELIMITER | kind::PADDING);
    let mut all = obus(unit).filter(kept).peekable();
    let mut payload = vec![if is_start { NEW_SEQUENCE } else { 0 }];
    let mut bare = Vec::new();
    while let Some(obu) = all.next() {
        bare.clear();
        obu.write_bare(&mut bare);
        let mut rest = &bare[..];
        while !rest.is_empty() {
            if payload.len() + LEAST > most {
                send(&payload, false);
                payload.clear();
                payload.push(0);
            }
            // A length of up to 16 bits takes two octets or three.
            let room = (most - payload.len() - 3).min(rest.len());
            let is_cut = room < rest.len();
            let (now, after) = rest.split_at(room);
            put_leb128(now.len(), &mut payload);
            payload.extend_from_slice(now);
            rest = after;
            if is_cut {
                payload[0] |= GOES_ON;
                send(&payload, false);
                payload.clear();
                payload.push(CONTINUES);
            }
        }
        if all.peek().is_none() {
            send(&payload, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(payloads: &[Vec<u8>]) -> (Vec<Vec<u8>>, bool) {
        let mut parts = Av1Parts::new(Map::Auto);
        let mut units = Vec::new();
        payloads.iter().for_each(|it| parts.push(it, &mut units));
        let is_damaged = parts.end_unit(&mut units);
        (units, is_damaged)
    }

    /// A frame OBU (type 6) without a size.
    const FRAME: [u8; 4] = [0x30, 1, 2, 3];
    const SIZED: [u8; 5] = [0x32, 3, 1, 2, 3];

    #[test]
    fn elements_are_read_with_and_without_their_number() {
        // One element without a length; two, of which the second has none; two with lengths.
        let one = [&[0x10][..], &FRAME].concat();
        assert_eq!(parts(&[one]), (vec![SIZED.to_vec()], false));
        let two = [&[0x20, 4][..], &FRAME, &FRAME].concat();
        let both = [SIZED, SIZED].concat();
        assert_eq!(parts(&[two]), (vec![both.clone()], false));
        let sized = [&[0x00, 4][..], &FRAME, &[4], &FRAME].concat();
        assert_eq!(parts(&[sized]), (vec![both], false));
        // In three parts; the delimiter and what has no octets are passed over.
        let cut = [
            vec![0x60, 2, 0x12, 0, 0x30, 1],
            vec![0xD0, 2],
            vec![0x80, 1, 3, 0],
        ];
        assert_eq!(parts(&cut), (vec![SIZED.to_vec()], false));
        for lost in 0..3 {
            let mut some = cut.to_vec();
            some.remove(lost);
            // Without the middle the packet behind it has the next number but one, which the receiver tells.
            assert_eq!(parts(&some).1, lost != 1, "{lost}");
        }
        // A length that is too large, and none at all.
        assert!(parts(&[vec![0x00, 9, 0x30]]).1);
        assert!(parts(&[vec![0x00]]).1);
        assert!(parts(&[vec![0x20, 4, 0x30]]).1);
    }

    #[test]
    fn behind_a_gap_a_unit_is_whole_if_a_sequence_begins() {
        for (head, is_damaged) in [(0x10, true), (0x18, false)] {
            let mut parts = Av1Parts::new(Map::Auto);
            parts.lose_front();
            parts.push(&[&[head][..], &FRAME].concat(), &mut Vec::new());
            assert_eq!(parts.end_unit(&mut Vec::new()), is_damaged);
        }
    }

    proptest! {
        #[test]
        fn what_is_cut_comes_together_again(
            lens in prop::collection::vec(0usize..4_000, 1..6), is_start in any::<bool>()
        ) {
            let mut unit = vec![0x12, 0];
            for (index, len) in lens.iter().enumerate() {
                let head = [0x0A, 0x32, 0x36][index % 3];
                unit.push(head);
                if head & 4 != 0 {
                    unit.push(0x20);
                }
                put_leb128(*len, &mut unit);
                unit.extend(vec![index as u8; *len]);
            }
            let mut sent = Vec::new();
            packetise(&unit, is_start, 1_000, |payload, last| {
                assert!(payload.len() <= 1_000);
                sent.push((payload.to_vec(), last));
            });
            let lasts = sent.iter().filter(|it| it.1).count();
            prop_assert!(lasts == 1 && sent.last().is_some_and(|it| it.1));
            let firsts = sent.iter().filter(|it| it.0[0] & NEW_SEQUENCE != 0).count();
            prop_assert_eq!(firsts, usize::from(is_start));
            let payloads: Vec<Vec<u8>> = sent.into_iter().map(|it| it.0).collect();
            prop_assert_eq!(parts(&payloads), (vec![unit[2..].to_vec()], false));
        }

        #[test]
        fn any_payload_is_safe(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..30)
        ) {
            let mut parts = Av1Parts::new(Map::Auto);
            let mut units = Vec::new();
            for payload in &payloads {
                shows_av1(payload);
                parts.push(payload, &mut units);
            }
            parts.end_unit(&mut units);
        }
    }
}
