use layercast_core::{Span, Time};
use serde::Serialize;

use super::{RTP, Recovery, SmpteHeader, SmpteHeaderError, SmpteStream, sequence};

/// Media packets that are kept, a power of two: two blocks of the largest size.
const WINDOW: u64 = 1_024;
/// Media packets of a block at most: larger ones do not fit the window.
const MAX_BLOCK: u64 = 400;
/// Parity packets that wait for media packets at most.
const MAX_WAITING: usize = 256;
/// Numbers beyond this from the expected one begin a new sequence, if two packets follow each other there.
const MAX_JUMP: u64 = WINDOW / 2;
/// After this number of media packets without a parity, at least, there are none any more.
const PATIENCE: u64 = 200;
/// MPEG transport streams (RFC 3551).
const TRANSPORT: u8 = 33;
const TS_PACKET: usize = 188;

/// Parameters of a [`SmpteReceiver`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmpteReceiverConfig {
    /// Packets wait for a missing one at most this time.
    pub max_hold: Span,
    /// All packets wait as long as one that has to be recovered, once parities come: the delay does not change with losses.
    pub steady: bool,
}

impl Default for SmpteReceiverConfig {
    fn default() -> SmpteReceiverConfig {
        SmpteReceiverConfig {
            max_hold: Span::from_secs(2),
            steady: false,
        }
    }
}

/// What a [`SmpteReceiver`] saw.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct SmpteReceiverStats {
    /// Media packets.
    pub packets: u64,
    /// Parity packets of columns, and of rows.
    pub parities: [u64; 2],
    /// Media packets that came back.
    pub recovered: u64,
    /// Media packets that are missing for good.
    pub lost: u64,
    /// Media packets that came twice, or after they were given up.
    pub dropped: u64,
    /// Media packets that came back after they were given up; they are not delivered.
    pub late: u64,
    /// Datagrams on the ports of parities that are none, or of blocks that are too large.
    pub malformed: u64,
    /// Recovered packets that are not like the others of the stream, which are left out.
    pub bad: u64,
    /// Times the sequence of the media began again.
    pub restarts: u64,
}

/// The receiving side: media and parity packets in, media packets in their order out, as far as they came or came back.
///
/// Until parities come it takes nothing: media pass by. A packet is delivered immediately if none is missing before it (or with
/// the delay of [`steady`](SmpteReceiverConfig::steady)); from a missing one on they wait until it comes back, until its parities
/// are over, or for [`max_hold`](SmpteReceiverConfig::max_hold).
#[derive(Debug)]
pub struct SmpteReceiver {
    config: SmpteReceiverConfig,
    slots: Vec<Slot>,
    ssrc: Option<u32>,
    /// The highest place so far, and that of the next packet to deliver.
    highest: u64,
    next: u64,
    /// Number of the last packet far from the others, and the last other source.
    stray: Option<u16>,
    other: (u32, u8),
    /// Packets of a block, and the highest place when its last parity came.
    block: Option<(u64, u64)>,
    delay: Option<Span>,
    waiting: Vec<Equation>,
    spare: Vec<Recovery>,
    work: Recovery,
    is_over: bool,
    stats: SmpteReceiverStats,
}

/// A media packet at its place in the sequence.
#[derive(Clone, Debug)]
struct Slot {
    place: u64,
    at: Time,
    /// It came back, and has not come otherwise.
    is_back: bool,
    octets: Vec<u8>,
}

/// A parity packet of which more than one media packet is missing.
#[derive(Debug)]
struct Equation {
    base: u64,
    offset: u64,
    count: u64,
    recovery: Recovery,
}

impl Equation {
    fn places(&self) -> impl Iterator<Item = u64> + use<> {
        let (base, offset) = (self.base, self.offset);
        (0..self.count).map(move |number| base + number * offset)
    }
}

impl SmpteReceiver {
    /// A receiver that waits for packets.
    pub fn new(config: SmpteReceiverConfig) -> SmpteReceiver {
        let none = Slot {
            place: u64::MAX,
            at: Time::ZERO,
            is_back: false,
            octets: Vec::new(),
        };
        SmpteReceiver {
            config,
            slots: vec![none; WINDOW as usize],
            ssrc: None,
            highest: 0,
            next: 1,
            stray: None,
            other: (0, 0),
            block: None,
            delay: None,
            waiting: Vec::new(),
            spare: Vec::new(),
            work: Recovery::default(),
            is_over: false,
            stats: SmpteReceiverStats::default(),
        }
    }

    /// What was seen.
    pub fn stats(&self) -> SmpteReceiverStats {
        self.stats
    }

    /// Whether parities come.
    pub fn is_active(&self) -> bool {
        self.block.is_some()
    }

    /// Takes a datagram of the port of the media. `false`: it is to be passed on now, because it is no media packet, of another
    /// source, or because no parities come.
    pub fn on_media(&mut self, now: Time, packet: &[u8]) -> bool {
        let Some(seq) = sequence(packet) else {
            return false;
        };
        let ssrc = u32::from_be_bytes([packet[8], packet[9], packet[10], packet[11]]);
        if self.ssrc.is_some_and(|it| it != ssrc) && !self.takes_over(ssrc) {
            return false;
        }
        if self.ssrc.is_none() {
            self.ssrc = Some(ssrc);
            self.begin(seq);
        }
        self.other.1 = 0;
        let mut place = self.place_of(seq);
        let is_near = place + MAX_JUMP >= self.next && place <= self.highest + MAX_JUMP;
        if !is_near {
            let is_confirmed = self.stray == Some(seq.wrapping_sub(1));
            self.stray = Some(seq);
            if !is_confirmed {
                self.stats.dropped += 1;
                return self.is_active();
            }
            self.stats.restarts += 1;
            self.begin(seq);
            place = self.place_of(seq);
        }
        self.stray = None;
        self.stats.packets += 1;
        if place >= self.next && self.has(place) && self.slot(place).is_back {
            // It was not lost: its parity was read before it, or came before it.
            self.slots[(place % WINDOW) as usize].is_back = false;
            return self.is_active();
        }
        if self.has(place) || place < self.next && self.is_active() {
            self.stats.dropped += 1;
            return self.is_active();
        }
        self.put(now, place, |octets| octets.extend_from_slice(packet));
        self.highest = self.highest.max(place);
        if !self.waiting.is_empty() {
            self.solve(now);
        }
        let is_over = |(block, seen): (u64, u64)| self.highest > seen + PATIENCE.max(4 * block);
        if self.block.is_some_and(is_over) {
            (self.block, self.delay) = (None, None);
        }
        // Packets in the queue are delivered before.
        if self.is_active() || self.next < place {
            return true;
        }
        self.next = self.next.max(place + 1);
        false
    }

    /// Takes a datagram of a port of parities.
    ///
    /// # Errors
    /// It is no parity packet; it is counted.
    pub fn on_parity(&mut self, now: Time, packet: &[u8]) -> Result<(), SmpteHeaderError> {
        let mut recovery = self.spare.pop().unwrap_or_default();
        let header = match SmpteHeader::read(packet, &mut recovery) {
            Ok(header) => header,
            Err(error) => {
                self.stats.malformed += 1;
                self.spare.push(recovery);
                return Err(error);
            }
        };
        let (offset, count) = (u64::from(header.offset), u64::from(header.count));
        let block = offset * count;
        if block > MAX_BLOCK || self.ssrc.is_none() {
            self.stats.malformed += u64::from(block > MAX_BLOCK);
            self.spare.push(recovery);
            return Ok(());
        }
        self.stats.parities[header.stream as usize] += 1;
        let known = self.block.map_or(0, |(known, _)| known);
        let block = match header.stream {
            SmpteStream::Columns => block,
            // Of columns and rows, columns take longer.
            SmpteStream::Rows => known.max(block),
        };
        if !self.is_active() {
            self.next = self.highest + 1;
        }
        self.block = Some((block, self.highest));
        if known != block {
            self.delay = None;
        }
        self.measure(now, block);
        let equation = Equation {
            base: self.place_of(header.base),
            offset,
            count,
            recovery,
        };
        if let Some(equation) = self.apply(now, equation) {
            if self.waiting.len() >= MAX_WAITING {
                let oldest = self.waiting.remove(0);
                self.spare.push(oldest.recovery);
            }
            self.waiting.push(equation);
        } else {
            self.solve(now);
        }
        Ok(())
    }

    /// The next media packet.
    pub fn poll(&mut self, now: Time) -> Option<&[u8]> {
        while self.next <= self.highest {
            let place = self.next;
            if self.has(place) {
                let delay = self.delay.unwrap_or(Span::ZERO);
                let slot = self.slot(place);
                if !self.is_over && slot.at.saturating_add(delay) > now {
                    return None;
                }
                self.next += 1;
                // Until it leaves it may still come.
                self.stats.recovered += u64::from(self.slot(place).is_back);
                return Some(&self.slot(place).octets);
            }
            if !self.is_over && self.may_come(now) {
                return None;
            }
            self.stats.lost += 1;
            self.next += 1;
        }
        None
    }

    /// When [`poll`](SmpteReceiver::poll) is due, if nothing comes before.
    pub fn next_timeout(&self) -> Option<Time> {
        if self.next > self.highest {
            return None;
        }
        if self.has(self.next) {
            let delay = self.delay.unwrap_or(Span::ZERO);
            return Some(self.slot(self.next).at.saturating_add(delay));
        }
        Some(self.given_up_at())
    }

    /// The stream is over: what is there comes out.
    pub fn finish(&mut self) {
        self.is_over = true;
    }

    /// Whether another source takes the place of the one that is received: three packets of it follow each other.
    fn takes_over(&mut self, ssrc: u32) -> bool {
        let (last, count) = self.other;
        self.other = (ssrc, if last == ssrc { count + 1 } else { 1 });
        if self.other.1 < 3 {
            return false;
        }
        self.stats.restarts += 1;
        self.ssrc = None;
        true
    }

    /// A sequence begins with this number.
    fn begin(&mut self, seq: u16) {
        for slot in &mut self.slots {
            slot.place = u64::MAX;
        }
        let waiting = self.waiting.drain(..).map(|it| it.recovery);
        self.spare.extend(waiting);
        self.next = (1 << 16) | u64::from(seq);
        self.highest = self.next - 1;
        (self.block, self.delay) = (None, None);
    }

    /// The place of a number: the nearest to the highest one so far.
    fn place_of(&self, seq: u16) -> u64 {
        let ahead = seq.wrapping_sub(self.highest as u16) as i16;
        self.highest.saturating_add_signed(ahead.into())
    }

    fn slot(&self, place: u64) -> &Slot {
        &self.slots[(place % WINDOW) as usize]
    }

    fn has(&self, place: u64) -> bool {
        self.slot(place).place == place
    }

    fn put(&mut self, at: Time, place: u64, write: impl FnOnce(&mut Vec<u8>)) {
        let slot = &mut self.slots[(place % WINDOW) as usize];
        (slot.place, slot.at, slot.is_back) = (place, at, false);
        slot.octets.clear();
        write(&mut slot.octets);
    }

    /// How long packets wait: as long as the parities of a block take.
    fn measure(&mut self, now: Time, block: u64) {
        if !self.config.steady || self.delay.is_some() {
            return;
        }
        let first = self.highest.saturating_sub(2 * block);
        if self.has(first) {
            let span = now.since(self.slot(first).at);
            self.delay = Some(span.min(self.config.max_hold));
        }
    }

    /// Whether the next packet, which is missing, can still come or come back.
    fn may_come(&self, now: Time) -> bool {
        let Some((block, _)) = self.block else {
            return false;
        };
        // Its parities come with the next block at the latest.
        self.highest < self.next + 2 * block && now < self.given_up_at()
    }

    /// When a missing packet is given up: counted from the first one behind it.
    fn given_up_at(&self) -> Time {
        let mut behind = self.next + 1..=self.highest;
        let first = behind.find(|&place| self.has(place));
        let since = first.map_or(Time::ZERO, |place| self.slot(place).at);
        since.saturating_add(self.config.max_hold)
    }

    /// Uses a parity packet: it comes back if more than one of its media packets are missing.
    fn apply(&mut self, now: Time, equation: Equation) -> Option<Equation> {
        let mut missing = None;
        for place in equation.places() {
            if self.has(place) {
                continue;
            }
            let is_gone = place + WINDOW <= self.highest;
            if is_gone || place > self.highest + MAX_JUMP {
                self.spare.push(equation.recovery);
                return None;
            }
            if missing.replace(place).is_some() {
                return Some(equation);
            }
        }
        if let Some(place) = missing {
            self.recover(now, place, &equation);
        }
        self.spare.push(equation.recovery);
        None
    }

    /// Uses parity packets that wait, as long as one of them brings a packet back.
    fn solve(&mut self, now: Time) {
        let mut at = 0;
        while at < self.waiting.len() {
            let equation = self.waiting.swap_remove(at);
            match self.apply(now, equation) {
                Some(equation) => {
                    self.waiting.push(equation);
                    let last = self.waiting.len() - 1;
                    self.waiting.swap(at, last);
                    at += 1;
                }
                // It may help others.
                None => at = 0,
            }
        }
    }

    /// Brings a packet back from the others of its parity.
    fn recover(&mut self, now: Time, place: u64, equation: &Equation) {
        let mut work = std::mem::take(&mut self.work);
        work.clone_from(&equation.recovery);
        let mut like = None;
        for other in equation.places().filter(|&it| it != place) {
            let octets = &self.slots[(other % WINDOW) as usize].octets;
            like.get_or_insert(octets[1] & 0x7F);
            work.add(octets);
        }
        let is_like = like.is_none_or(|kind| kind == work.flags[1] & 0x7F) && is_sound(&work);
        match is_like {
            true if place < self.next => self.stats.late += 1,
            true => {}
            false => self.stats.bad += 1,
        }
        if is_like {
            let behind = (place + 1..=self.highest).find(|&it| self.has(it));
            let at = behind.map_or(now, |it| self.slot(it).at);
            let ssrc = self.ssrc.unwrap_or_default();
            self.put(at, place, |octets| write(&work, place as u16, ssrc, octets));
            self.slots[(place % WINDOW) as usize].is_back = true;
            self.highest = self.highest.max(place);
        }
        self.work = work;
    }
}

/// Whether a recovered packet can be one: its length fits, and a transport stream has whole packets.
fn is_sound(recovery: &Recovery) -> bool {
    let len = usize::from(recovery.length);
    if len > recovery.body.len() || recovery.body[len..].iter().any(|&octet| octet != 0) {
        return false;
    }
    let is_plain = recovery.flags[0] == 0 && recovery.flags[1] & 0x7F == TRANSPORT;
    let packets = || recovery.body[..len].chunks(TS_PACKET);
    !is_plain || packets().all(|packet| packet.len() == TS_PACKET && packet[0] == 0x47)
}

fn write(recovery: &Recovery, seq: u16, ssrc: u32, octets: &mut Vec<u8>) {
    octets.reserve(RTP + usize::from(recovery.length));
    octets.extend_from_slice(&[0x80 | recovery.flags[0], recovery.flags[1]]);
    octets.extend_from_slice(&seq.to_be_bytes());
    octets.extend_from_slice(&recovery.timestamp.to_be_bytes());
    octets.extend_from_slice(&ssrc.to_be_bytes());
    octets.extend_from_slice(&recovery.body[..usize::from(recovery.length)]);
}
