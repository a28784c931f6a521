//! Finds the packets of a transport stream in bytes that are cut anywhere.

use super::packet::{SYNC, TS_PACKET};

/// Distances between sync bytes: bare packets (ISO/IEC 13818-1, 2.4.3.2), packets behind a four-byte arrival
/// time (m2ts files of Blu-ray discs), and packets before 16 bytes of a Reed-Solomon code (EN 300 429).
const STRIDES: [usize; 3] = [TS_PACKET, 192, 204];
/// Sync bytes that must be a stride apart before packets are taken.
const WANTED: usize = 4;
/// Octets from a sync byte to the last one that is looked at.
const LOOK: usize = (WANTED - 1) * STRIDES[2] + 1 + ARRIVAL_TIME;
/// Datagrams of whole packets in a row after which each is taken for one, and others from which on they are not.
const ALIGNED: u8 = 8;
const ODD: u8 = 16;
/// Octets that some senders put before the packets of a datagram, at most.
const MAX_HEAD: usize = 32;
/// Octets of packets with all values of the continuity counter.
const ALL_COUNTERS: usize = 16 * TS_PACKET;
/// Octets of the header of a packet.
const HEADER: usize = 4;
/// Packets whose headers are kept.
const RECENT: usize = 64;
/// Bytes of the arrival time before each packet of an m2ts file.
const ARRIVAL_TIME: usize = 4;

/// Where a transport stream begins in `data`, and the distance between its packets: `wanted` sync bytes in
/// a row, all at the same distance.
pub(crate) fn find(data: &[u8], wanted: usize) -> Option<(usize, usize)> {
    let mut from = 0;
    while let Some(at) = memchr::memchr(SYNC, &data[from..]) {
        let at = from + at;
        if let Some(stride) = stride_at(&data[at..], wanted) {
            return Some((at, stride));
        }
        from = at + 1;
    }
    None
}

/// Whether `data` begin with packets of a transport stream, as far as they go.
pub(crate) fn is_aligned(data: &[u8]) -> bool {
    let packets = (data.len() / TS_PACKET).min(WANTED);
    packets > 0
        && (stride_at(data, WANTED).is_some()
            || data.iter().step_by(TS_PACKET).take(packets).all(|&byte| byte == SYNC)
            // The arrival time of an m2ts file comes before its first packet.
            || stride_at(&data[ARRIVAL_TIME..], WANTED) == Some(192))
}

/// The distance at which `wanted` sync bytes follow each other from the first byte on.
fn stride_at(data: &[u8], wanted: usize) -> Option<usize> {
    let holds =
        |from: usize, stride| (0..wanted).all(|k| data.get(from + k * stride) == Some(&SYNC));
    // The first byte of an arrival time can be 0x47 for minutes: then the packets begin behind it.
    let is_time = |stride| stride == 192 && holds(ARRIVAL_TIME, stride);
    STRIDES
        .into_iter()
        .find(|&stride| holds(0, stride) && !is_time(stride))
}

/// Octets before the packets of a datagram that holds whole ones and none that is cut.
fn head_of(data: &[u8]) -> Option<usize> {
    let behind = |head: &usize| {
        let packets = data[*head..].chunks_exact(TS_PACKET);
        let octets = TS_PACKET * packets.take_while(|it| it[0] == SYNC).count();
        let is_cut = data.get(head + octets) == Some(&SYNC);
        // Packets of 192 or 204 octets are not alone.
        let next = |stride: &usize| data.get(head + stride) == Some(&SYNC);
        let is_alone = octets > TS_PACKET || !STRIDES[1..].iter().any(next);
        !is_cut && is_alone && octets > 0
    };
    (0..=MAX_HEAD.min(data.len())).find(behind)
}

/// Where a packet stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    /// Of its first byte in the stream.
    pub offset: u64,
    /// Any number of packets may be missing before it, and the one before it may hold octets that are not its own. It is whole, and
    /// counters say what is missing, only where packets without a sync byte stand between: as many octets, the first of them a header
    /// that continues a stream. Not in datagrams that cut packets, where a foreign one is in the middle of a packet.
    pub is_broken: bool,
}

/// Cuts a byte stream into packets of 188 bytes, whatever stands between them.
///
/// Packets are taken after [`WANTED`] sync bytes in a row, and then as long as each one begins with a
/// sync byte. The result does not depend on how the bytes are cut. Where a sync byte is missing, the last packet may hold what came
/// behind it: packets that begin in it are taken again, and the first one is reported to be behind a break.
#[derive(Debug, Default)]
pub(crate) struct Framing {
    /// Less than a packet, or bytes in which no packets were found yet.
    rest: Vec<u8>,
    /// The distance between packets, once found.
    stride: Option<usize>,
    /// Bytes between the last packet and the next that are still to come.
    gap: usize,
    /// Bytes that belong to no packet.
    skipped: u64,
    /// Bytes taken before `rest`.
    taken: u64,
    /// The last packet, in which others may begin if no sync byte follows it.
    last: Vec<u8>,
    /// Bytes of it at the front of `rest`.
    again: usize,
    /// A sync byte was missing since the last packet.
    is_broken: bool,
    /// Octets behind the last packet that belong to none, of which the first are a header but for the sync byte.
    between: usize,
    is_header: bool,
    /// The last packets.
    recent: Recent,
    /// The bytes come in datagrams.
    in_datagrams: bool,
    /// Datagrams of whole packets in a row; and others, once there are many.
    aligned: u8,
    odd: u8,
    /// Octets before the packets in each of them.
    head: usize,
    /// The packet that the last datagram ended inside, and its offset.
    tail: Option<(u64, Vec<u8>)>,
}

impl Framing {
    /// Bytes that belong to no packet.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Takes a datagram. Once they hold whole packets, which a header may precede and padding follow, a packet that is cut ends with its
    /// datagram, and a datagram without packets is left out; until then this is [`push`](Framing::push).
    pub fn push_datagram(&mut self, data: &[u8], packet: impl FnMut(At, &[u8])) {
        let is_bare = self.stride == Some(TS_PACKET) && self.rest.is_empty();
        if self.aligned >= ALIGNED && is_bare && self.odd < ODD {
            return self.whole_packets(data, packet);
        }
        self.in_datagrams = true;
        let head = head_of(data);
        (self.aligned, self.odd) = match head {
            Some(head) if head == self.head => (self.aligned.saturating_add(1), 0),
            Some(_) => (1, 0),
            None => (0, 0),
        };
        self.head = head.unwrap_or(0);
        self.tail = None;
        let has_more = self.head > 0 || !data.len().is_multiple_of(TS_PACKET);
        if self.aligned < ALIGNED || !has_more {
            return self.push(data, packet);
        }
        // What is between the packets of two datagrams was taken for a break each time.
        let rest = std::mem::take(&mut self.rest).len();
        self.skipped += (rest - std::mem::take(&mut self.again).min(rest)) as u64;
        self.taken = self.taken.wrapping_add(rest as u64);
        (self.stride, self.gap, self.is_broken) = (Some(TS_PACKET), 0, true);
        self.whole_packets(data, packet);
    }

    /// Takes a datagram of whole packets.
    fn whole_packets(&mut self, data: &[u8], mut packet: impl FnMut(At, &[u8])) {
        let begins = |it: &(usize, &[u8])| it.1[0] == SYNC;
        let head = self.head.min(data.len());
        let (from, octets) = (self.taken + head as u64, data.len());
        self.taken += octets as u64;
        let data = &data[head..];
        let packets = || data.chunks_exact(TS_PACKET).enumerate().filter(begins);
        let (wanted, found) = (data.len() / TS_PACKET, packets().count());
        let whole = wanted * TS_PACKET;
        let cut = data.get(whole..).filter(|it| it.first() == Some(&SYNC));
        self.tail = cut.map(|it| (from + whole as u64, it.to_vec()));
        let is_first = data.first() == Some(&SYNC);
        if found == 0 || !is_first && 2 * found < wanted {
            self.skipped += octets as u64;
            self.odd += 1;
            return;
        }
        self.skipped += (octets - found * TS_PACKET) as u64;
        self.odd = 0;
        packets().for_each(|(at, it)| self.give(from + (at * TS_PACKET) as u64, it, &mut packet));
    }

    /// Passes on a packet.
    fn give(&mut self, offset: u64, bytes: &[u8], packet: &mut impl FnMut(At, &[u8])) {
        self.last.clear();
        self.last.extend_from_slice(bytes);
        self.recent.push(bytes);
        let is_broken = std::mem::take(&mut self.is_broken);
        packet(At { offset, is_broken }, bytes);
    }

    /// Takes bytes; `packet` gets each packet of [`TS_PACKET`] bytes, and where it stands.
    pub fn push(&mut self, mut bytes: &[u8], mut packet: impl FnMut(At, &[u8])) {
        while !bytes.is_empty() {
            if let Some(stride) = self.stride
                && self.rest.is_empty()
            {
                let gap = self.gap.min(bytes.len());
                self.gap -= gap;
                self.taken += gap as u64;
                bytes = &bytes[gap..];
                if bytes.len() >= TS_PACKET && bytes[0] == SYNC {
                    let (now, after) = bytes.split_at(TS_PACKET);
                    self.give(self.taken, now, &mut packet);
                    self.taken += TS_PACKET as u64;
                    (bytes, self.gap) = (after, stride - TS_PACKET);
                    continue;
                }
            }
            let room = match self.stride {
                Some(_) => TS_PACKET - self.rest.len().min(TS_PACKET),
                None => 2 * LOOK - self.rest.len().min(2 * LOOK),
            };
            let (now, after) = bytes.split_at(room.min(bytes.len()));
            self.rest.extend_from_slice(now);
            bytes = after;
            self.settle(&mut packet);
        }
    }

    /// Takes packets out of the rest as far as they are recognisable.
    fn settle(&mut self, packet: &mut impl FnMut(At, &[u8])) {
        let mut rest = std::mem::take(&mut self.rest);
        let mut at = 0;
        loop {
            let Some(stride) = self.stride else {
                match rest.get(at..).filter(|bytes| bytes.len() >= LOOK) {
                    Some(bytes) => match stride_at(bytes, WANTED) {
                        Some(stride) => {
                            let are_packets = self.is_header
                                && self.between.is_multiple_of(TS_PACKET)
                                && self.between < ALL_COUNTERS;
                            self.is_broken &= self.in_datagrams || !are_packets;
                            (self.stride, self.again) = (Some(stride), 0);
                        }
                        None => {
                            self.skip();
                            at += 1;
                        }
                    },
                    None => break,
                }
                continue;
            };
            let gap = self.gap.min(rest.len() - at);
            self.gap -= gap;
            at += gap;
            let Some(&first) = rest.get(at) else { break };
            if first != SYNC {
                let Some(header) = rest.get(at..at + HEADER) else {
                    break;
                };
                (self.stride, self.is_broken) = (None, true);
                self.is_header = self.recent.continues(header);
                self.between = ALL_COUNTERS;
                if stride == TS_PACKET {
                    self.between = 0;
                    self.again = self.last.len().saturating_sub(1);
                    self.taken = self.taken.wrapping_sub(self.again as u64);
                    rest.splice(at..at, self.last.drain(..).skip(1));
                }
            } else if let Some(bytes) = rest.get(at..at + TS_PACKET) {
                self.give(self.taken.wrapping_add(at as u64), bytes, packet);
                at += TS_PACKET;
                self.gap = stride - TS_PACKET;
            } else {
                break;
            }
        }
        self.rest = rest;
        self.rest.drain(..at);
        self.taken = self.taken.wrapping_add(at as u64);
    }

    /// A byte belongs to no packet, or was in the last one.
    fn skip(&mut self) {
        match self.again.checked_sub(1) {
            Some(left) => self.again = left,
            None => {
                self.skipped += 1;
                self.between = self.between.saturating_add(1);
            }
        }
    }

    /// The stream is over: packets at its end are taken even if fewer sync bytes follow them. Returns the packet that it ends inside,
    /// and its offset.
    pub fn finish(&mut self, mut packet: impl FnMut(At, &[u8])) -> Option<(u64, Vec<u8>)> {
        let mut rest = std::mem::take(&mut self.rest);
        let again = std::mem::take(&mut self.again).min(rest.len());
        rest.drain(..again);
        self.taken += again as u64;
        let mut at = 0;
        while at + TS_PACKET <= rest.len() {
            let bytes = &rest[at..];
            let to_the_end = |&stride: &usize| bytes.iter().step_by(stride).all(|&b| b == SYNC);
            match STRIDES.into_iter().find(to_the_end) {
                Some(stride) => {
                    let offset = self.taken + at as u64;
                    let is_broken = std::mem::take(&mut self.is_broken);
                    packet(At { offset, is_broken }, &bytes[..TS_PACKET]);
                    at += stride;
                    self.stride = Some(stride);
                }
                None => {
                    self.skipped += 1;
                    at += 1;
                }
            }
        }
        // Behind a packet of 192 or 204 bytes, the arrival time or the code of the next one may be cut.
        let tail = rest.split_off(at.min(rest.len()));
        let offset = self.taken + rest.len() as u64;
        self.skipped += tail.len() as u64;
        self.taken = offset + tail.len() as u64;
        self.gap = 0;
        let is_packet = self.stride.take().is_some() && tail.first() == Some(&SYNC);
        is_packet.then_some((offset, tail)).or(self.tail.take())
    }
}

/// The packet identifiers and counters of the last packets.
#[derive(Debug)]
struct Recent {
    packets: [[u8; 3]; RECENT],
    next: usize,
}

impl Default for Recent {
    fn default() -> Recent {
        Recent {
            packets: [[0xFF; 3]; RECENT],
            next: 0,
        }
    }
}

impl Recent {
    fn push(&mut self, packet: &[u8]) {
        let &[_, high, low, flags, ..] = packet else {
            return;
        };
        self.packets[self.next] = [high & 0x1F, low, flags];
        self.next = (self.next + 1) % RECENT;
    }

    /// Whether these octets, but for the sync byte, are the header of the next packet of one of the streams.
    fn continues(&self, header: &[u8]) -> bool {
        let &[_, high, low, flags] = header else {
            return false;
        };
        let (newer, older) = self.packets.split_at(self.next);
        let latest_first = newer.iter().rev().chain(older.iter().rev());
        let mut of_stream = latest_first.filter(|it| it[..2] == [high & 0x1F, low]);
        of_stream.next().is_some_and(|last| {
            let step = flags.wrapping_sub(last[2]) & 0x0F;
            flags >> 6 == last[2] >> 6 && step == flags >> 4 & 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packets(bytes: &[u8], cut: usize) -> (Vec<Vec<u8>>, u64) {
        let mut framing = Framing::default();
        let mut found = Vec::new();
        for piece in bytes.chunks(cut) {
            framing.push(piece, |_, packet| found.push(packet.to_vec()));
        }
        framing.finish(|_, packet| found.push(packet.to_vec()));
        (found, framing.skipped())
    }

    /// Packets that differ, as `wrap` puts them into the stream.
    fn stream(count: u8, wrap: impl Fn(&[u8]) -> Vec<u8>) -> (Vec<Vec<u8>>, Vec<u8>) {
        let plain = (0..count).map(|n| [&[SYNC, n][..], &[n; 186]].concat());
        let plain: Vec<Vec<u8>> = plain.collect();
        let bytes = plain.iter().flat_map(|packet| wrap(packet)).collect();
        (plain, bytes)
    }

    #[test]
    fn packets_of_188_192_and_204_bytes_are_found_however_they_are_cut() {
        let bare = |packet: &[u8]| packet.to_vec();
        let timed = |packet: &[u8]| [&[0x47, 1, 2, 3][..], packet].concat();
        let coded = |packet: &[u8]| [packet, &[0; 16]].concat();
        type Wrap = fn(&[u8]) -> Vec<u8>;
        let wraps: [Wrap; 3] = [bare, timed, coded];
        for wrap in wraps {
            let (plain, bytes) = stream(40, wrap);
            for cut in [1, 187, 188, 1_000, 1_316, 1_472, usize::MAX] {
                assert_eq!(packets(&bytes, cut).0, plain, "{cut}");
            }
        }
        let (plain, bytes) = stream(40, coded);
        assert_eq!(packets(&bytes, 1_472), (plain, 0));
    }

    #[test]
    fn bytes_before_and_between_packets_are_skipped_and_counted() {
        let (plain, bytes) = stream(20, <[u8]>::to_vec);
        let garbage = [&[9; 400][..], &[0x47; 3], &[9; 97]].concat();
        let mixed = [
            &garbage[..],
            &bytes[..10 * 188],
            &garbage,
            &bytes[10 * 188..],
        ]
        .concat();
        for cut in [1, 100, 1_472, usize::MAX] {
            let (found, skipped) = packets(&mixed, cut);
            assert_eq!(found, plain, "{cut}");
            assert_eq!(skipped, 2 * garbage.len() as u64, "{cut}");
        }
    }

    #[test]
    fn few_packets_are_taken_at_the_end() {
        for count in 1..5 {
            let (plain, bytes) = stream(count, <[u8]>::to_vec);
            assert_eq!(packets(&bytes, 60).0, plain);
            assert_eq!(
                packets(&bytes[..bytes.len() - 1], 60).0,
                plain[..plain.len() - 1]
            );
        }
        assert_eq!(packets(&[SYNC; 100], 9).0.len(), 0);
    }

    #[test]
    fn packets_behind_one_that_is_cut_are_found_and_told() {
        let (plain, bytes) = stream(30, <[u8]>::to_vec);
        for cut in [1, 40, 187] {
            let torn = [&bytes[..10 * 188 + cut], &bytes[15 * 188..]].concat();
            for piece in [1, 188, 1_316, usize::MAX] {
                let (mut framing, mut found) = (Framing::default(), Vec::new());
                for piece in torn.chunks(piece) {
                    framing.push(piece, |at, it| found.push((it.to_vec(), at.is_broken)));
                }
                framing.finish(|at, it| found.push((it.to_vec(), at.is_broken)));
                // The one that is cut ends with the octets behind it.
                let cut_one = [&plain[10][..cut], &plain[15][..188 - cut]].concat();
                let before = plain[..10].iter().map(|it| (it.clone(), false));
                let behind = plain[15..].iter().map(|it| (it.clone(), false));
                let mut expected: Vec<_> = before.chain([(cut_one, false)]).chain(behind).collect();
                expected[11].1 = true;
                assert_eq!(found, expected, "{cut} {piece}");
                assert_eq!(framing.skipped(), 0);
            }
        }
    }

    #[test]
    fn a_packet_that_is_cut_ends_with_its_datagram() {
        let (plain, bytes) = stream(210, <[u8]>::to_vec);
        let (mut framing, mut found) = (Framing::default(), Vec::new());
        let mut expected = Vec::new();
        for (index, datagram) in bytes.chunks(7 * 188).enumerate() {
            let len = if index % 5 == 4 && index > 8 {
                2 * 188 + 50
            } else {
                datagram.len()
            };
            let of = 7 * index..7 * index + len / 188;
            expected.extend(plain[of].iter().map(|it| (it.clone(), false)));
            framing.push_datagram(&datagram[..len], |at, it| {
                found.push((it.to_vec(), at.is_broken))
            });
            if index > 8 {
                framing.push_datagram(&[9; 700], |_, _| panic!("no packet is in it"));
            }
        }
        framing.finish(|at, it| found.push((it.to_vec(), at.is_broken)));
        assert_eq!(found, expected);
        assert_eq!(framing.skipped(), 5 * 50 + 21 * 700);
    }

    /// The packets of `data`, and which of them are behind a break.
    fn broken(data: &[u8], piece: usize) -> (Vec<Vec<u8>>, Vec<usize>, u64) {
        let (mut framing, mut found) = (Framing::default(), Vec::new());
        for piece in data.chunks(piece) {
            framing.push(piece, |at, it| found.push((it.to_vec(), at.is_broken)));
        }
        framing.finish(|at, it| found.push((it.to_vec(), at.is_broken)));
        let broken = (0..found.len()).filter(|&at| found[at].1).collect();
        let packets = found.into_iter().map(|it| it.0).collect();
        (packets, broken, framing.skipped())
    }

    #[test]
    fn octets_between_packets_may_be_in_the_one_before() {
        let (plain, bytes) = stream(60, <[u8]>::to_vec);
        for between in [1, 187, 188, 376, 700, 16 * 188] {
            for piece in [1, 189, usize::MAX] {
                let garbage = vec![0xEE; between];
                let data = [&bytes[..20 * 188], &garbage, &bytes[20 * 188..]].concat();
                let expected = (plain.clone(), vec![20], between as u64);
                assert_eq!(broken(&data, piece), expected, "{between}");
            }
        }
    }

    #[test]
    fn octets_in_a_packet_break_it_however_many_they_are() {
        let (plain, bytes) = stream(60, <[u8]>::to_vec);
        for (at, inserted) in [
            (1, 188),
            (94, 188),
            (187, 376),
            (50, 7),
            (100, 1_000),
            (4, 16 * 188),
        ] {
            let place = 20 * 188 + at;
            let data = [&bytes[..place], &vec![0xEE; inserted], &bytes[place..]].concat();
            let (found, broken, _) = broken(&data, 1_000);
            assert_eq!(broken, [21], "{at} {inserted}");
            assert_eq!((&found[..20], &found[21..]), (&plain[..20], &plain[21..]));
        }
    }

    #[test]
    fn a_packet_without_its_sync_byte_leaves_the_one_before_whole() {
        // One stream with all counters.
        let one = |n: u8| [&[SYNC, 1, 0, 0x10 | n & 15][..], &[n; 184]].concat();
        let plain: Vec<Vec<u8>> = (0..60).map(one).collect();
        for without in [&[20][..], &[20, 21], &[59]] {
            let mut damaged = plain.clone();
            without.iter().for_each(|&at| damaged[at][0] = 9);
            let (found, broken, skipped) = broken(&damaged.concat(), 500);
            let left = (0..60).filter(|at| !without.contains(at));
            assert_eq!(found, left.map(|at| plain[at].clone()).collect::<Vec<_>>());
            assert_eq!((broken, skipped), (vec![], 188 * without.len() as u64));
        }
    }

    #[test]
    fn a_foreign_datagram_among_some_that_cut_packets_breaks_the_packet_around_it() {
        let (plain, bytes) = stream(60, <[u8]>::to_vec);
        for octets in [1, 188, 700, 1_400] {
            let (mut framing, mut found) = (Framing::default(), Vec::new());
            let mut push = |it: &[u8]| {
                framing.push_datagram(it, |at, it| found.push((it.to_vec(), at.is_broken)));
            };
            for (index, datagram) in bytes.chunks(1_000).enumerate() {
                if index == 4 {
                    push(&vec![9; octets]);
                }
                push(datagram);
            }
            framing.finish(|at, it| found.push((it.to_vec(), at.is_broken)));
            // 4,000 octets are 21 packets and a part of one.
            assert_eq!(found.len(), plain.len(), "{octets}");
            let broken: Vec<usize> = (0..60).filter(|at| found[*at].1).collect();
            assert_eq!((broken, &found[22].0), (vec![22], &plain[22]), "{octets}");
        }
    }

    #[test]
    fn a_header_before_the_packets_of_each_datagram_and_padding_behind_them_are_left_out() {
        let (plain, bytes) = stream(210, <[u8]>::to_vec);
        for (head, padding) in [
            (0, 20),
            (4, 0),
            (28, 0),
            (0, 156),
            (4, 700),
            (0, 1),
            (0, 3_000),
        ] {
            let (mut framing, mut found) = (Framing::default(), Vec::new());
            for datagram in bytes.chunks(7 * 188) {
                let datagram = [&vec![1; head], datagram, &vec![0xFF; padding]].concat();
                framing.push_datagram(&datagram, |at, it| found.push((it.to_vec(), at)));
            }
            framing.finish(|at, it| found.push((it.to_vec(), at)));
            // Once that is known, nothing is missing or broken.
            let last: Vec<_> = found[found.len() - 150..].iter().collect();
            let expected = &plain[60..];
            assert!(last.iter().map(|it| &it.0).eq(expected), "{head} {padding}");
            assert!(last.iter().all(|it| !it.1.is_broken), "{head} {padding}");
            let place = 29 * (head + 7 * 188 + padding) + head + 6 * 188;
            assert_eq!(last[149].1.offset, place as u64, "{head} {padding}");
        }
    }

    #[test]
    fn datagrams_that_no_longer_hold_whole_packets_are_bytes_again() {
        let (plain, bytes) = stream(250, <[u8]>::to_vec);
        let (mut framing, mut found) = (Framing::default(), Vec::new());
        let (whole, other) = bytes.split_at(70 * 188);
        let datagrams = whole.chunks(7 * 188).chain(other.chunks(1_000));
        for datagram in datagrams {
            framing.push_datagram(datagram, |_, it| found.push(it.to_vec()));
        }
        framing.finish(|_, it| found.push(it.to_vec()));
        assert_eq!(found[found.len() - 60..], plain[190..]);
    }

    proptest! {
        #[test]
        fn the_cut_does_not_matter(
            bytes in prop::collection::vec(prop_oneof![Just(SYNC), any::<u8>()], 0..4_000),
            cut in 1usize..900,
        ) {
            prop_assert_eq!(packets(&bytes, cut), packets(&bytes, usize::MAX));
        }
    }
}
