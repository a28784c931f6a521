use std::collections::VecDeque;
use std::ops::{AddAssign, Range};

use bytes::Bytes;
use layercast_core::{DataClass, Span, Time};
use layercast_media::TsHeaders;
use layercast_wire::{Cell, Mark, ONE_CELL, OneCell, Reassembler};
use serde::Serialize;

use crate::config::Mode;
use crate::exclp::MarkedCell;
use crate::group::{
    DATA_PIECE, Flags, HEADER, HEADER_PIECE, Layout, PACKET, RECORD, Record, STUFFING, distance,
};
use crate::parity::{
    FecController, Ordered, ParityConfig, ParityError, ParityReceiver, ParityStats,
};

/// Values of the common part indicator up to this one are parity; higher ones are reserved.
const LAST_PARITY: u8 = 126;
/// A one-cell frame that is further ahead in its sequence, modulo 128, came twice or is on the wrong circuit.
const MAX_LOST: u8 = 64;
/// Octets of headers of a group at most: fifteen packets that are nothing else.
const MAX_HEADERS: usize = 15 * (HEADER + 2 * RECORD + PACKET);
/// Octets of pictures that wait for the one-cell frame behind them at most: those of groups whose one-cell frames can be
/// missing in a row.
const MAX_WAITING: usize = 128 * 15 * PACKET;
/// Such frames at most.
const MAX_FRAMES: usize = 4_096;

/// What becomes of a packet of which octets are missing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum OnLoss {
    /// It is marked as damaged (`transport_error_indicator`); missing octets are zeros.
    #[default]
    Tei,
    /// It is left out.
    Drop,
    /// A null packet takes its place, so that the rate stays.
    NullPacket,
}

/// Parameters of an [`Aal5PlusReceiver`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiverConfig {
    /// How packets came into cells.
    pub mode: Mode,
    /// What becomes of packets of which octets are missing.
    pub on_loss: OnLoss,
    /// After a pause without cells of this length, sequence numbers say nothing: a new group is waited for.
    pub silence: Span,
}

impl Default for ReceiverConfig {
    fn default() -> ReceiverConfig {
        ReceiverConfig {
            mode: Mode::Separate,
            on_loss: OnLoss::Tei,
            silence: Span::from_ms(500),
        }
    }
}

/// What an [`Aal5PlusReceiver`] saw.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct ReceiverStats {
    /// Cells.
    pub cells: u64,
    /// Packets that came whole.
    pub packets: u64,
    /// Packets of which octets are missing.
    pub damaged_packets: u64,
    /// Groups whose headers came.
    pub groups: u64,
    /// One-cell frames (class S) that are missing in their sequence.
    pub lost_system: u64,
    /// Frames of pictures that are missing in their sequence.
    pub lost_pictures: u64,
    /// Frames with a wrong CRC or length.
    pub bad_frames: u64,
    /// Frames with a reserved common part indicator.
    pub bad_cpi: u64,
    /// Frames of parity.
    pub parities: u64,
    /// One-cell frames that are none of a group: of another version, or damaged beyond their CRC.
    pub bad_headers: u64,
    /// One-cell frames of groups whose headers are missing.
    pub orphans: u64,
    /// Frames of pictures whose place is not known because cells around them are missing.
    pub unplaced: u64,
    /// One-cell frames that came again, or that belong to another circuit.
    pub misinserted: u64,
    /// Times the sequence began again: after a pause, or after more losses than numbers can tell.
    pub resyncs: u64,
}

impl ReceiverStats {
    /// Whether something is missing or damaged, of cells with these parities.
    pub fn is_lossy(&self, parity: Option<&ParityStats>) -> bool {
        let is_lost = match parity {
            // What came back is not lost.
            Some(parity) => {
                parity.unrepaired + parity.late + parity.bad > 0
                    || parity.resyncs > 0 && self.lost_system > 0
            }
            None => self.lost_system > 0,
        };
        let marks = [
            self.damaged_packets,
            self.lost_pictures,
            self.bad_frames,
            self.bad_headers,
            self.orphans,
            self.unplaced,
        ];
        is_lost || marks.iter().any(|&it| it > 0)
    }
}

/// Those of several receivers.
impl AddAssign for ReceiverStats {
    fn add_assign(&mut self, other: ReceiverStats) {
        self.cells += other.cells;
        self.packets += other.packets;
        self.damaged_packets += other.damaged_packets;
        self.groups += other.groups;
        self.lost_system += other.lost_system;
        self.lost_pictures += other.lost_pictures;
        self.bad_frames += other.bad_frames;
        self.bad_cpi += other.bad_cpi;
        self.parities += other.parities;
        self.bad_headers += other.bad_headers;
        self.orphans += other.orphans;
        self.unplaced += other.unplaced;
        self.misinserted += other.misinserted;
        self.resyncs += other.resyncs;
    }
}

/// The receiving side of AAL5+: marked cells in, packets of a transport stream out.
///
/// Sequence numbers show what is missing. Data are put only where they are known to belong: in doubt they are left out, and
/// the packets that they would be in are damaged. A group comes out when the headers of the next one come, or at
/// [`finish`](Aal5PlusReceiver::finish).
#[derive(Debug)]
pub struct Aal5PlusReceiver {
    config: ReceiverConfig,
    frames: Reassembler,
    /// Next numbers of both sequences.
    system: Option<u8>,
    picture: Option<u8>,
    /// Number of the last one-cell frame that seemed to come again.
    stray: Option<u8>,
    heard: Option<Time>,
    group: Group,
    /// Frames of pictures since the last one-cell frame; whether each continues the sequence.
    waiting: Vec<(Bytes, bool)>,
    /// Frames were left out: the next one continues the sequence, but not what is in its place.
    is_broken: bool,
    parity: Option<Protection>,
    packets: VecDeque<[u8; PACKET]>,
    stats: ReceiverStats,
}

/// The use of parities.
#[derive(Debug)]
struct Protection {
    config: ParityConfig,
    receiver: ParityReceiver,
    control: Option<FecController>,
    /// One-cell frames that are missing since the last one that was delivered.
    holes: u8,
    /// Of numbers further ahead than this the sequence is lost.
    max_lost: u8,
}

/// The group being read.
#[derive(Default, Debug)]
struct Group {
    state: State,
    /// Number of its first cell, and its packets.
    first: u8,
    count: u8,
    headers: Vec<u8>,
    packets: Vec<[u8; PACKET]>,
    layout: Layout,
    /// Data that came: ranges in order, without overlap.
    filled: Vec<Range<usize>>,
    /// Octets of data up to the last one-cell frame.
    at: usize,
    /// The run of class S that it is of may continue.
    run_is_open: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum State {
    /// There is none.
    #[default]
    None,
    /// More headers are to come.
    Headers,
    /// All headers are there.
    Data,
}

impl Aal5PlusReceiver {
    /// A receiver that waits for a group.
    pub fn new(config: ReceiverConfig) -> Aal5PlusReceiver {
        Aal5PlusReceiver {
            config,
            frames: Reassembler::new(Mark::Last),
            system: None,
            picture: None,
            stray: None,
            heard: None,
            group: Group::default(),
            waiting: Vec::new(),
            is_broken: false,
            parity: None,
            packets: VecDeque::new(),
            stats: ReceiverStats::default(),
        }
    }

    /// A receiver that brings back lost one-cell frames by parities. It is configured as the sender; drivers call
    /// [`on_timeout`](Aal5PlusReceiver::on_timeout).
    ///
    /// # Errors
    /// The parities cannot be as they are configured.
    pub fn with_parities(
        config: ReceiverConfig,
        parity: ParityConfig,
    ) -> Result<Aal5PlusReceiver, ParityError> {
        let receiver = ParityReceiver::new(&parity)?;
        let rules = parity.control;
        let most = 2 * parity.columns;
        Ok(Aal5PlusReceiver {
            parity: Some(Protection {
                config: parity,
                receiver,
                control: rules.map(|rules| FecController::new(rules, parity.code)),
                holes: 0,
                max_lost: MAX_LOST.max(most.min(100) as u8),
            }),
            ..Aal5PlusReceiver::new(config)
        })
    }

    /// What the parities did.
    pub fn parity_stats(&self) -> Option<ParityStats> {
        Some(self.parity.as_ref()?.receiver.stats())
    }

    /// The controller of the parities.
    pub fn control(&mut self) -> Option<&mut FecController> {
        self.parity.as_mut()?.control.as_mut()
    }

    /// When [`on_timeout`](Aal5PlusReceiver::on_timeout) or [`poll_control`](Aal5PlusReceiver::poll_control) is due: a missing
    /// cell was waited for long enough, or a message is to be sent.
    pub fn next_timeout(&self) -> Option<Time> {
        let parity = self.parity.as_ref()?;
        let control = parity
            .control
            .as_ref()
            .and_then(FecController::next_timeout);
        [parity.receiver.next_timeout(), control]
            .into_iter()
            .flatten()
            .min()
    }

    /// Gives up cells that were waited for long enough.
    pub fn on_timeout(&mut self, now: Time) {
        if let Some(parity) = &mut self.parity {
            parity.receiver.on_timeout(now);
            self.replay();
        }
    }

    /// The next cell for the reverse circuit, by which the sender of the circuit (VPI, VCI) is asked for another code of the
    /// parities.
    pub fn poll_control(&mut self, now: Time, circuit: (u8, u16)) -> Option<Cell> {
        let Protection {
            config, control, ..
        } = self.parity.as_mut()?;
        let (rows, columns) = (config.rows as u8, config.columns as u8);
        let message = control.as_mut()?.poll(now, rows, columns, circuit)?;
        Some(message.to_cell(circuit.0, circuit.1))
    }

    /// Takes the next cell of the circuit.
    pub fn on_cell(&mut self, now: Time, cell: &MarkedCell) {
        if !cell.cell.pti.is_data() {
            return;
        }
        self.stats.cells += 1;
        let last = self.heard.replace(now);
        if last.is_some_and(|last| now.since(last) > self.config.silence) {
            self.resync();
        }
        match self.config.mode {
            Mode::Mark => self.on_plain(cell),
            Mode::Separate => self.on_marked(now, cell),
        }
    }

    /// Ends the stream: the last group comes out.
    pub fn finish(&mut self) {
        if let Some(parity) = &mut self.parity {
            parity.receiver.restart();
            self.replay();
        }
        // Nothing shows what is missing behind the last cell: the group is whole if its frames fill it.
        let waiting: usize = self.waiting.iter().map(|(data, _)| data.len()).sum();
        let are_next = self.waiting.iter().all(|(_, is_next)| *is_next);
        let is_whole = are_next && self.group.at + waiting == self.group.layout.total();
        self.close_group(if is_whole { 0 } else { MAX_LOST });
        self.system = None;
        self.picture = None;
        self.frames.abandon();
    }

    /// The next packet.
    pub fn poll_packet(&mut self) -> Option<[u8; PACKET]> {
        self.packets.pop_front()
    }

    /// What was seen.
    pub fn stats(&self) -> ReceiverStats {
        self.stats
    }

    /// A cell of classical AAL5.
    fn on_plain(&mut self, cell: &MarkedCell) {
        match self.frames.push(&cell.cell) {
            Some(Ok(frame)) if frame.bytes.len().is_multiple_of(PACKET) => {
                for packet in frame.bytes.as_chunks().0 {
                    self.stats.packets += 1;
                    self.packets.push_back(*packet);
                }
            }
            Some(_) => self.stats.bad_frames += 1,
            None => {}
        }
    }

    fn on_marked(&mut self, now: Time, cell: &MarkedCell) {
        if let Some(frame) = self.one_cell(cell) {
            // Cells of a circuit keep their order: the frame in progress has lost its end.
            if self.frames.abandon() {
                self.stats.bad_frames += 1;
            }
            self.on_one_cell(now, frame);
            return;
        }
        if cell.class == DataClass::System {
            self.stats.bad_frames += 1;
            return;
        }
        match self.frames.push(&cell.cell) {
            Some(Ok(frame)) if self.is_data(frame.cpi) => {
                self.on_picture(frame.uu & 127, frame.bytes);
            }
            Some(Err(_)) => self.stats.bad_frames += 1,
            Some(Ok(_)) | None => {}
        }
    }

    /// Whether a frame has data; others are counted.
    fn is_data(&mut self, cpi: u8) -> bool {
        match cpi {
            0 => return true,
            1..=LAST_PARITY => self.stats.parities += 1,
            _ => self.stats.bad_cpi += 1,
        }
        false
    }

    /// The one-cell frame of the sequence of class S in a cell. A policer may have demoted it to class I.
    fn one_cell(&self, cell: &MarkedCell) -> Option<OneCell> {
        let is_demoted = cell.class == DataClass::Intra && cell.cell.pti.auu();
        if cell.class != DataClass::System && !is_demoted {
            return None;
        }
        let frame = OneCell::read(&cell.cell.payload).ok()?;
        let is_next = || {
            let flags = Flags::decode(frame.octets[0]);
            let is_cell = flags.is_some_and(|it| it.is_data == (frame.uu & 128 != 0));
            let is_parity = self.parity.is_some() && (1..=LAST_PARITY).contains(&frame.cpi);
            (is_cell && frame.cpi == 0 || is_parity)
                && self.system.is_none_or(|next| next == frame.uu & 127)
        };
        (cell.class == DataClass::System || is_next()).then_some(frame)
    }

    fn on_one_cell(&mut self, now: Time, frame: OneCell) {
        let number = frame.uu & 127;
        if self.parity.is_some() && frame.cpi > LAST_PARITY {
            // Its number counts as lost.
            self.stats.bad_cpi += 1;
            return;
        }
        let max_lost = self.parity.as_ref().map_or(MAX_LOST, |it| it.max_lost);
        let lost = self
            .system
            .map_or(0, |next| number.wrapping_sub(next) & 127);
        if lost > max_lost {
            let goes_on = self.stray == Some(number.wrapping_sub(1) & 127);
            self.stray = Some(number);
            if !goes_on {
                self.stats.misinserted += 1;
                return;
            }
            self.resync();
        }
        let lost = self.system.map_or(0, |_| lost);
        self.stray = None;
        self.system = Some((number + 1) & 127);
        self.stats.lost_system += u64::from(lost);
        let is_data = self.is_data(frame.cpi);
        let Some(parity) = &mut self.parity else {
            if is_data {
                self.deliver(lost, &frame);
            }
            return;
        };
        parity.receiver.push(now, number, lost, frame);
        if let Some(control) = &mut parity.control {
            if let Some((cells, residual, seen)) = parity.receiver.judge() {
                control.observe(now, cells, residual, seen);
            }
            parity.receiver.set_changing(control.is_changing());
        }
        self.replay();
    }

    /// Delivers those whose turn it is.
    fn replay(&mut self) {
        while let Some(parity) = &mut self.parity {
            let Some(item) = parity.receiver.poll() else {
                return;
            };
            match item {
                Ordered::Hole | Ordered::Missing(..) => {
                    parity.holes = parity.holes.saturating_add(1);
                }
                Ordered::Cell(frame) => {
                    let lost = std::mem::take(&mut parity.holes);
                    self.deliver(lost, &frame);
                }
                Ordered::Recovered(frame) => {
                    let lost = std::mem::take(&mut parity.holes);
                    self.deliver_recovered(lost, &frame);
                }
                Ordered::Picture(data, is_next) => self.wait(data, is_next),
            }
        }
    }

    /// A one-cell frame with data or headers, in its turn; `lost` are missing before it.
    fn deliver(&mut self, lost: u8, frame: &OneCell) {
        let number = frame.uu & 127;
        let flags = Flags::decode(frame.octets[0]);
        match flags.filter(|flags| flags.is_data == (frame.uu & 128 != 0)) {
            Some(flags) if flags.is_data => self.on_data(number, lost, flags, &frame.octets),
            Some(flags) => self.on_headers(number, lost, flags, &frame.octets),
            None => {
                self.stats.bad_headers += 1;
                self.close_group(lost.max(1));
            }
        }
    }

    /// A one-cell frame that parities brought back. It is somewhere between the frames of pictures since the last one that came:
    /// behind those that fill the octets before its own.
    fn deliver_recovered(&mut self, lost: u8, frame: &OneCell) {
        let room = match lost {
            0 => self.room_before(frame),
            _ => None,
        };
        let (mut sum, mut before) = (0, 0);
        if let Some(room) = room {
            for (data, is_next) in &self.waiting {
                if !is_next || sum + data.len() > room {
                    break;
                }
                sum += data.len();
                before += 1;
            }
        }
        let behind = self.waiting.split_off(before);
        self.deliver(lost, frame);
        match room == Some(sum) && self.group.state != State::None {
            true => self.waiting.extend(behind),
            // Frames are missing, and nothing shows on which side of it.
            false => {
                self.stats.unplaced += behind.len() as u64;
                self.is_broken |= !behind.is_empty();
            }
        }
    }

    /// Octets of pictures between the last one-cell frame and this one; `None` if they are not known.
    fn room_before(&self, frame: &OneCell) -> Option<usize> {
        let flags = Flags::decode(frame.octets[0])?;
        let group = &self.group;
        match (flags.is_data, group.state) {
            (true, State::Data) => {
                let [_, a, b, c, ..] = frame.octets;
                let record = Record::decode([a, b, c]);
                let first = (frame.uu & 127).wrapping_sub(distance(flags.count, record.rest)) & 127;
                let (packet, at) = (usize::from(record.packet), usize::from(record.at));
                let place = group.layout.before(packet, at)?;
                place.checked_sub(group.at).filter(|_| group.first == first)
            }
            (true, _) => None,
            (false, State::Data) => Some(group.layout.total() - group.at),
            (false, State::Headers) => Some(0),
            // Frames of a group whose headers are missing may be before it.
            (false, State::None) => None,
        }
    }

    /// A piece of the headers of a group.
    fn on_headers(&mut self, number: u8, lost: u8, flags: Flags, octets: &[u8; ONE_CELL]) {
        let goes_on = self.group.state == State::Headers && lost == 0;
        if !goes_on {
            self.close_group(lost);
            self.group.begin(number, flags.count);
        }
        let group = &mut self.group;
        if group.count != flags.count || group.headers.len() + HEADER_PIECE > MAX_HEADERS {
            self.stats.bad_headers += 1;
            group.state = State::None;
            return;
        }
        group.headers.extend_from_slice(&octets[1..]);
        if flags.more {
            group.state = State::Headers;
            return;
        }
        match group.read_headers() {
            Some(()) => {
                group.state = State::Data;
                self.stats.groups += 1;
            }
            None => {
                group.state = State::None;
                self.stats.bad_headers += 1;
            }
        }
    }

    /// Octets of class S, with their place.
    fn on_data(&mut self, number: u8, lost: u8, flags: Flags, octets: &[u8; ONE_CELL]) {
        let [_, a, b, c, data @ ..] = octets;
        let record = Record::decode([*a, *b, *c]);
        let first = number.wrapping_sub(distance(flags.count, record.rest)) & 127;
        let group = &self.group;
        let is_ours = group.state == State::Data && group.first == first;
        let (packet, at) = (usize::from(record.packet), usize::from(record.at));
        let len = usize::from(record.len);
        let place = group.layout.before(packet, at).filter(|&place| {
            let fits = (1..=DATA_PIECE).contains(&len) && place + len <= group.layout.total();
            is_ours && fits && place >= group.at
        });
        let Some(place) = place else {
            self.stats.orphans += 1;
            self.close_group(lost.max(1));
            return;
        };
        self.settle(place, lost);
        self.group.put(place, &data[..len]);
        self.group.at = place + len;
        // All cells of a run are full, except possibly the last.
        self.group.run_is_open = len == DATA_PIECE;
    }

    /// A frame of data of pictures.
    fn on_picture(&mut self, number: u8, data: Bytes) {
        let next = self.picture.replace((number + 1) & 127);
        // A circuit begins with number 0. After a resynchronisation nothing tells whether earlier frames are missing.
        let begins = number == 0 && self.stats.resyncs == 0;
        let is_next = next.map_or(begins, |next| next == number);
        self.stats.lost_pictures +=
            next.map_or(0, |next| u64::from(number.wrapping_sub(next) & 127));
        match &mut self.parity {
            Some(parity) => {
                parity.receiver.push_picture(data, is_next);
                self.replay();
            }
            None => self.wait(data, is_next),
        }
    }

    /// The place of a frame shows with the next one-cell frame.
    fn wait(&mut self, data: Bytes, is_next: bool) {
        let octets: usize = self.waiting.iter().map(|(data, _)| data.len()).sum();
        let has_group = self.group.state == State::Data || self.parity.is_some();
        if has_group && self.waiting.len() < MAX_FRAMES && octets + data.len() <= MAX_WAITING {
            let is_next = is_next && !std::mem::take(&mut self.is_broken);
            self.waiting.push((data, is_next));
        } else {
            self.stats.unplaced += 1;
            self.is_broken = true;
        }
    }

    /// Puts the frames that wait where they belong: before the octet `end` of the data. `lost` one-cell frames of unknown
    /// size are missing behind the last one that came.
    fn settle(&mut self, end: usize, lost: u8) {
        let begin = self.group.at;
        let room = end - begin;
        // Frames that fill the room exactly, from the first on.
        let mut sum = 0;
        let ends = self.waiting.iter().position(|(data, _)| {
            sum += data.len();
            sum >= room
        });
        let exact = ends.filter(|_| sum == room).map(|last| last + 1);
        let count = self.waiting.len();
        let are_next = |until: usize| self.waiting[..until].iter().all(|(_, next)| *next);
        let placed = match exact {
            // Nothing is missing here, whatever was missing before.
            Some(until) if lost == 0 && until == count => until,
            // The missing frames are of the next groups: they cannot hold as much as the last frame.
            Some(until)
                if are_next(until)
                    && usize::from(lost) * DATA_PIECE < self.waiting[until - 1].0.len() =>
            {
                until
            }
            // Nothing is missing before the first gap.
            _ if lost == 0 && sum <= room => {
                let next = self.waiting.iter().position(|(_, next)| !next);
                next.unwrap_or(count)
            }
            // The run of class S before it has ended, so the next octets are of the frame that came next.
            _ if !self.group.run_is_open && count > 0 && are_next(1) => 1,
            _ => 0,
        };
        let mut at = begin;
        let mut waiting = std::mem::take(&mut self.waiting);
        for (number, (data, _)) in waiting.drain(..).enumerate() {
            if number < placed && at + data.len() <= end {
                self.group.put(at, &data);
                at += data.len();
            } else {
                self.stats.unplaced += 1;
            }
        }
        self.waiting = waiting;
        self.group.at = end;
    }

    /// The group ends; `lost` one-cell frames are missing since the last one that came.
    fn close_group(&mut self, lost: u8) {
        if self.group.state == State::Data {
            self.settle(self.group.layout.total(), lost);
            for number in 0..self.group.packets.len() {
                self.send(number);
            }
        } else {
            self.stats.unplaced += self.waiting.len() as u64;
            self.waiting.clear();
        }
        self.group.state = State::None;
    }

    fn send(&mut self, number: usize) {
        let mut packet = self.group.packets[number];
        if self.group.is_whole(number) {
            self.stats.packets += 1;
            self.packets.push_back(packet);
            return;
        }
        self.stats.damaged_packets += 1;
        match self.config.on_loss {
            OnLoss::Tei => {
                packet[1] |= 0x80;
                self.packets.push_back(packet);
            }
            OnLoss::Drop => {}
            OnLoss::NullPacket => {
                let mut null = [STUFFING; PACKET];
                null[..HEADER].copy_from_slice(&[0x47, 0x1F, 0xFF, 0x10]);
                self.packets.push_back(null);
            }
        }
    }

    /// Sequence numbers begin again.
    fn resync(&mut self) {
        self.stats.resyncs += 1;
        if let Some(parity) = &mut self.parity {
            parity.receiver.restart();
            self.replay();
        }
        self.close_group(MAX_LOST);
        (self.system, self.picture, self.stray) = (None, None, None);
        self.frames.abandon();
    }
}

impl Group {
    fn begin(&mut self, first: u8, count: u8) {
        (self.first, self.count, self.at) = (first, count, 0);
        self.run_is_open = true;
        self.state = State::Headers;
        self.headers.clear();
        self.packets.clear();
        self.layout.clear();
        self.filled.clear();
    }

    /// Makes packets of the headers; `None` if they are not those of a group.
    fn read_headers(&mut self) -> Option<()> {
        let heads = usize::from(self.count) * HEADER;
        let (heads, mut records) = self.headers.split_at_checked(heads)?;
        if heads.is_empty() {
            return None;
        }
        for head in heads.as_chunks::<HEADER>().0 {
            let mut packet = [0; PACKET];
            packet[..HEADER].copy_from_slice(head);
            let has_field = head[3] & 0x20 != 0;
            let has_payload = head[3] & 0x10 != 0;
            if has_field || !has_payload {
                packet[HEADER..].fill(STUFFING);
            }
            self.packets.push(packet);
        }
        // Where the data of each packet begin behind what records hold.
        let mut pes = [0_usize; 16];
        while let Some((&record, rest)) = records.split_first_chunk::<RECORD>() {
            let record = Record::decode(record);
            let (at, len) = (usize::from(record.at), usize::from(record.len));
            if len == 0 {
                break;
            }
            let number = usize::from(record.packet);
            let packet = self.packets.get_mut(number)?;
            let place = packet.get_mut(at..at + len).filter(|_| at >= HEADER)?;
            let (octets, rest) = rest.split_at_checked(len)?;
            place.copy_from_slice(octets);
            pes[number] = pes[number].max(at + len);
            records = rest;
        }
        for (packet, behind) in self.packets.iter_mut().zip(pes) {
            let headers = TsHeaders::of(packet)?;
            let data = headers.packet.max(behind);
            // The data are zeros until they come.
            packet[data..].fill(0);
            self.layout.push(data);
        }
        Some(())
    }

    fn put(&mut self, at: usize, data: &[u8]) {
        let range = at..at + data.len();
        let mut taken = 0;
        for (packet, part) in self.layout.parts(range.clone()) {
            let len = part.len();
            self.packets[packet][part].copy_from_slice(&data[taken..taken + len]);
            taken += len;
        }
        match self.filled.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.filled.push(range),
        }
    }

    /// Whether all data of a packet came.
    fn is_whole(&self, packet: usize) -> bool {
        let wanted = self.layout.of(packet);
        let mut filled = self.filled.iter();
        wanted.is_empty() || filled.any(|it| it.start <= wanted.start && wanted.end <= it.end)
    }
}
