//! A transport stream as a file of cells with the time at which each is sent, so that a server only paces them
//! (specs/mpeg-picture-quality.md 2.9).
//!
//! ```text
//! 0   8  "LC-CELLS"
//! 8   1  version, 1
//! 9   1  mapping of the classes, 1: EFCI
//! 10  1  mode, 1: AAL5+, 2: classical AAL5 with marks
//! 11  1  packets of a group
//! 12  1  code of the parities, 0: none
//! 13  1  N, cells of a column
//! 14  1  M, cells of a row
//! 15  1  0
//! 16  4  number of the cells, so that a file that was cut shows it; 0: not said
//! 20  4  ticks of a second of the times, 10^9
//! 24     cells: 53 octets, and the time at which it is sent from the beginning of the file, 8 octets
//! ```
//! Integers are in network order.

use layercast_core::{CELL_SIZE, Span, Time};
use layercast_fec::MatrixCode;
use layercast_wire::{Cell, CellError};
use thiserror::Error;

use crate::datagrams::Timeline;
use crate::group::PACKET;
use crate::{
    Aal5Plus, Aal5PlusConfig, Aal5PlusError, Aal5PlusReceiver, ExclpMapping, MarkedCell, Mode,
    ParityConfig, ParityError, ReceiverConfig, SenderStats, Smoother, Smoothing, TsDatagramsError,
    VodFastStart, VodFastStartError,
};

/// Octets of the header of a file of cells.
pub const CELL_FILE_HEADER: usize = 24;
/// Octets of a cell in the file.
pub const CELL_RECORD: usize = CELL_SIZE + 8;

const MAGIC: &[u8; 8] = b"LC-CELLS";
const VERSION: u8 = 1;
const EFCI: u8 = 1;
/// Ticks of a second.
const CLOCK: u32 = 1_000_000_000;
/// Windows of a smoother end after this time: a stream without I pictures has no other end.
const LONGEST: Span = Span::from_secs(10);
/// Cells of a group are spread until the next one, or over this time.
const LONGEST_GROUP: Span = Span::from_ms(50);

/// When cells are sent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum CellPace {
    /// As the clock of the stream says, evenly over these pictures.
    Clock(Smoothing),
    /// Fast at first, whatever the clock says.
    Fast(VodFastStart),
}

/// Why a stream is not prepared.
#[derive(Clone, Copy, PartialEq, Debug, Error)]
pub enum PreparedError {
    /// It does not go into cells.
    #[error(transparent)]
    Cells(#[from] Aal5PlusError),
    /// It has no clock.
    #[error(transparent)]
    Clock(#[from] TsDatagramsError),
    /// The fast start cannot be.
    #[error(transparent)]
    Fast(#[from] VodFastStartError),
    /// The class of a cell would not be in the file.
    #[error("classes beside the cells are lost in a file: choose the mapping Efci")]
    SideBand,
}

/// A stream in cells, each with the time at which it is sent.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The beginning of the file.
    pub header: CellFileHeader,
    /// In order.
    pub cells: Vec<(Span, MarkedCell)>,
    /// What was sent.
    pub stats: SenderStats,
}

impl Prepared {
    /// Puts a stream into cells.
    ///
    /// # Errors
    /// It has no clock, a packet does not begin with a sync byte, or a value is out of range.
    pub fn of(
        packets: &[[u8; PACKET]],
        config: Aal5PlusConfig,
        pace: CellPace,
    ) -> Result<Prepared, PreparedError> {
        if config.mapping == ExclpMapping::SideBand {
            return Err(PreparedError::SideBand);
        }
        let sender = Aal5Plus::new(config)?;
        let (cells, stats) = match pace {
            CellPace::Clock(smoothing) => by_clock(sender, packets, smoothing)?,
            CellPace::Fast(start) => fast(sender, packets, start)?,
        };
        Ok(Prepared {
            header: CellFileHeader::of(&config),
            cells,
            stats,
        })
    }
}

type Timed = (Vec<(Span, MarkedCell)>, SenderStats);

fn by_clock(
    mut sender: Aal5Plus,
    packets: &[[u8; PACKET]],
    smoothing: Smoothing,
) -> Result<Timed, PreparedError> {
    let timeline = Timeline::of(packets)?;
    let mut pictures = Smoother::new(smoothing, LONGEST);
    // The cells of a group are sent until the next group comes.
    let mut groups = Smoother::new(Smoothing::Frame, LONGEST_GROUP);
    let mut cells = Vec::with_capacity(packets.len() * 4);
    for (packet, (at, begins)) in packets.iter().zip(&timeline.packets) {
        let now = Time::ZERO + *at;
        advance(now, &mut pictures, &mut sender, &mut groups, &mut cells)?;
        pictures.push(now, packet, *begins);
    }
    let end = Time::ZERO + timeline.length;
    advance(end, &mut pictures, &mut sender, &mut groups, &mut cells)?;
    pictures.flush(end);
    while let Some(due) = pictures.next_timeout() {
        advance(due, &mut pictures, &mut sender, &mut groups, &mut cells)?;
    }
    sender.flush();
    let end = cells
        .last()
        .map_or(end, |(at, _)| end.max(Time::ZERO + *at));
    spread(end, &mut sender, &mut groups);
    groups.flush(end);
    drain(Time::MAX, &mut groups, &mut cells);
    Ok((cells, sender.stats()))
}

/// Moves packets into cells, and cells out, up to `now`.
fn advance(
    now: Time,
    pictures: &mut Smoother<&[u8; PACKET]>,
    sender: &mut Aal5Plus,
    groups: &mut Smoother<MarkedCell>,
    cells: &mut Vec<(Span, MarkedCell)>,
) -> Result<(), PreparedError> {
    loop {
        let due = [pictures.next_timeout(), sender.next_timeout()];
        let due = due.into_iter().flatten().min().filter(|&due| due <= now);
        let Some(due) = due else { break };
        pictures.on_timeout(due);
        sender.on_timeout(due);
        while let Some(packet) = pictures.poll(due) {
            sender.push(due, packet)?;
        }
        spread(due, sender, groups);
        drain(due, groups, cells);
    }
    drain(now, groups, cells);
    Ok(())
}

/// Puts what the sender has into the smoother of groups.
fn spread(now: Time, sender: &mut Aal5Plus, groups: &mut Smoother<MarkedCell>) {
    let mut begins = Some(layercast_core::DataClass::System);
    while let Some(cell) = sender.poll_cell() {
        groups.push(now, cell, begins.take());
    }
}

fn drain(now: Time, groups: &mut Smoother<MarkedCell>, cells: &mut Vec<(Span, MarkedCell)>) {
    while let Some(due) = groups.next_timeout().filter(|&due| due <= now) {
        groups.on_timeout(due);
        while let Some(cell) = groups.poll(due) {
            cells.push((due.since(Time::ZERO), cell));
        }
    }
}

fn fast(
    mut sender: Aal5Plus,
    packets: &[[u8; PACKET]],
    start: VodFastStart,
) -> Result<Timed, PreparedError> {
    start.validate()?;
    let mut cells: Vec<(Span, MarkedCell)> = Vec::with_capacity(packets.len() * 4);
    let mut take = |sender: &mut Aal5Plus| {
        while let Some(cell) = sender.poll_cell() {
            cells.push((start.time_of((cells.len() * CELL_SIZE) as u64), cell));
        }
    };
    for (number, packet) in packets.iter().enumerate() {
        let now = Time::ZERO + start.time_of((number * PACKET) as u64);
        sender.on_timeout(now);
        sender.push(now, packet)?;
        take(&mut sender);
    }
    sender.flush();
    take(&mut sender);
    Ok((cells, sender.stats()))
}

/// What a file of cells says of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellFileHeader {
    /// How packets went into cells.
    pub mode: Mode,
    /// Packets of a group.
    pub group: u8,
    /// Code, rows and columns of the parities.
    pub parity: Option<(MatrixCode, u8, u8)>,
}

/// Why octets are no file of cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum CellFileError {
    /// It does not begin as one.
    #[error("it is no file of cells: `layercast prepacketize` makes them")]
    Magic,
    /// Another version.
    #[error("a file of cells of version {0}, not 1: it was made by another release")]
    Version(u8),
    /// A field that says nothing.
    #[error("octet {place} of the header is {value}: the file is damaged")]
    Field {
        /// Its place.
        place: usize,
        /// Its value.
        value: u8,
    },
    /// Another clock.
    #[error("times of {0} ticks a second: 10^9")]
    Clock(u32),
    /// A damaged cell.
    #[error("cell {number}: {error}")]
    Cell {
        /// Its number, from 0.
        number: u64,
        /// What is wrong with it.
        error: CellError,
    },
    /// A part of a cell at the end.
    #[error("{0} octets behind the last whole cell: the file was cut")]
    Cut(usize),
}

impl CellFileHeader {
    fn of(config: &Aal5PlusConfig) -> CellFileHeader {
        let parity = config.parity.filter(|_| config.mode == Mode::Separate);
        CellFileHeader {
            mode: config.mode,
            group: config.group,
            parity: parity.map(|it| (it.code, it.rows as u8, it.columns as u8)),
        }
    }

    /// As octets, before this number of cells.
    pub fn encode(&self, cells: usize) -> [u8; CELL_FILE_HEADER] {
        let mut out = [0; CELL_FILE_HEADER];
        out[..8].copy_from_slice(MAGIC);
        out[8..16].copy_from_slice(&self.format());
        out[16..20].copy_from_slice(&u32::try_from(cells).unwrap_or(0).to_be_bytes());
        out[20..].copy_from_slice(&CLOCK.to_be_bytes());
        out
    }

    /// Octets 8 to 15.
    pub(crate) fn format(&self) -> [u8; 8] {
        let mode = match self.mode {
            Mode::Separate => 1,
            Mode::Mark => 2,
        };
        let (code, rows, columns) = self.parity.map_or((0, 0, 0), |(code, rows, columns)| {
            let place = MatrixCode::ALL.iter().position(|&it| it == code);
            (place.map_or(0, |it| it as u8 + 1), rows, columns)
        });
        [VERSION, EFCI, mode, self.group, code, rows, columns, 0]
    }

    /// How many cells a file has, as its header says.
    pub fn count(data: &[u8]) -> Option<u64> {
        let count = data.get(16..20)?.first_chunk()?;
        Some(u32::from_be_bytes(*count).into()).filter(|&it| it > 0)
    }

    /// Reads the beginning of a file.
    ///
    /// # Errors
    /// It is none, of another version, or damaged.
    pub fn decode(data: &[u8]) -> Result<CellFileHeader, CellFileError> {
        let head = data
            .first_chunk::<CELL_FILE_HEADER>()
            .ok_or(CellFileError::Magic)?;
        if !head.starts_with(MAGIC) {
            return Err(CellFileError::Magic);
        }
        let (mut format, mut clock) = ([0; 8], [0; 4]);
        format.copy_from_slice(&head[8..16]);
        clock.copy_from_slice(&head[20..]);
        let header = CellFileHeader::of_format(&format)?;
        match u32::from_be_bytes(clock) {
            CLOCK => Ok(header),
            clock => Err(CellFileError::Clock(clock)),
        }
    }

    /// Reads octets 8 to 15 of the header.
    pub(crate) fn of_format(format: &[u8; 8]) -> Result<CellFileHeader, CellFileError> {
        let &[version, mapping, mode, group, code, rows, columns, _] = format;
        if version != VERSION {
            return Err(CellFileError::Version(version));
        }
        let wrong = |place, value| CellFileError::Field { place, value };
        if mapping != EFCI {
            return Err(wrong(9, mapping));
        }
        let mode = match mode {
            1 => Mode::Separate,
            2 => Mode::Mark,
            _ => return Err(wrong(10, mode)),
        };
        if !(1..=15).contains(&group) {
            return Err(wrong(11, group));
        }
        let code = match usize::from(code) {
            // Without parities there is no block.
            0 if rows != 0 => return Err(wrong(13, rows)),
            0 if columns != 0 => return Err(wrong(14, columns)),
            0 => None,
            number => Some(*MatrixCode::ALL.get(number - 1).ok_or(wrong(12, code))?),
        };
        Ok(CellFileHeader {
            mode,
            group,
            parity: code.map(|code| (code, rows, columns)),
        })
    }

    /// A receiver of such cells.
    ///
    /// # Errors
    /// The parities cannot be: the header is damaged.
    pub fn receiver(&self, config: ReceiverConfig) -> Result<Aal5PlusReceiver, ParityError> {
        let config = ReceiverConfig {
            mode: self.mode,
            ..config
        };
        match self.parity {
            None => Ok(Aal5PlusReceiver::new(config)),
            Some((code, rows, columns)) => {
                let parity = ParityConfig {
                    code,
                    rows: rows.into(),
                    columns: columns.into(),
                    ..ParityConfig::default()
                };
                Aal5PlusReceiver::with_parities(config, parity)
            }
        }
    }

    /// A cell as it is in a file.
    pub fn record(at: Span, cell: &Cell) -> [u8; CELL_RECORD] {
        let mut out = [0; CELL_RECORD];
        out[..CELL_SIZE].copy_from_slice(&cell.encode());
        out[CELL_SIZE..].copy_from_slice(&at.as_ns().to_be_bytes());
        out
    }

    /// The cells of a file behind its header, each with the time at which it is sent; the last item tells if the file was cut.
    pub fn cells(
        records: &[u8],
    ) -> impl Iterator<Item = Result<(Span, MarkedCell), CellFileError>> + '_ {
        let (whole, rest) = records.as_chunks::<CELL_RECORD>();
        let cells = (0..).zip(whole).map(|(number, record)| {
            let (cell, at) = record.split_at(CELL_SIZE);
            let cell = Cell::decode(cell).map_err(|error| CellFileError::Cell { number, error })?;
            let mut octets = [0; 8];
            octets.copy_from_slice(at);
            let at = Span::from_ns(u64::from_be_bytes(octets));
            Ok((at, MarkedCell::of(cell, ExclpMapping::Efci)))
        });
        let cut = (!rest.is_empty()).then_some(Err(CellFileError::Cut(rest.len())));
        cells.chain(cut)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{CellDatagram, CellWriter, MOST_CELLS, cell_bursts};

    /// A stream with a clock of this many packets, 1 ms apart; every 40th begins a picture.
    fn stream(count: usize) -> Vec<[u8; PACKET]> {
        let mut packets = crate::tests::tables();
        for number in 0..count {
            let mut packet = [number as u8; PACKET];
            packet[..4].copy_from_slice(&[0x47, 0x01, 0x00, 0x10 | number as u8 & 15]);
            if number % 40 == 0 {
                packet[1] |= 0x40;
                packet[3] |= 0x20;
                packet[4] = 7;
                packet[5] = 0x10;
                let base = (number as u32 * 90).to_be_bytes();
                packet[6..10].copy_from_slice(&[
                    base[0] >> 1,
                    base[1] >> 1 | base[0] << 7,
                    base[2] >> 1 | base[1] << 7,
                    base[3] >> 1 | base[2] << 7,
                ]);
                packet[10..12].copy_from_slice(&[base[3] << 7 | 0x7E, 0]);
                // A PES header, and the header of a picture: I first, then P.
                let kind = if number % 480 == 0 { 1 } else { 2 };
                let head = [
                    0,
                    0,
                    1,
                    0xE0,
                    0,
                    0,
                    0x80,
                    0,
                    0,
                    0,
                    0,
                    1,
                    0,
                    0,
                    kind << 3,
                    0,
                    0,
                    0,
                    0,
                    1,
                    1,
                    8,
                ];
                packet[12..12 + head.len()].copy_from_slice(&head);
            }
            packets.push(packet);
        }
        packets
    }

    fn parity() -> Option<ParityConfig> {
        Some(ParityConfig::default())
    }

    fn config(parity: Option<ParityConfig>) -> Aal5PlusConfig {
        Aal5PlusConfig {
            parity,
            ..Aal5PlusConfig::default()
        }
    }

    fn received(
        header: &CellFileHeader,
        cells: impl Iterator<Item = (Span, MarkedCell)>,
    ) -> Vec<[u8; PACKET]> {
        let mut receiver = header
            .receiver(ReceiverConfig::default())
            .expect("a good header");
        for (at, cell) in cells {
            receiver.on_cell(Time::ZERO + at, &cell);
        }
        receiver.finish();
        std::iter::from_fn(|| receiver.poll_packet()).collect()
    }

    #[test]
    fn a_file_of_cells_gives_the_stream_again() {
        let packets = stream(2_000);
        for pace in [
            CellPace::Clock(Smoothing::None),
            CellPace::Clock(Smoothing::Gop),
            CellPace::Fast(VodFastStart::default()),
        ] {
            let made = Prepared::of(&packets, config(parity()), pace).expect("a good stream");
            assert!(made.cells.is_sorted_by_key(|(at, _)| *at), "{pace:?}");
            let mut file = made.header.encode(made.cells.len()).to_vec();
            for (at, cell) in &made.cells {
                file.extend_from_slice(&CellFileHeader::record(*at, &cell.cell));
            }
            let header = CellFileHeader::decode(&file).expect("a header");
            assert_eq!(header, made.header);
            assert_eq!(CellFileHeader::count(&file), Some(made.cells.len() as u64));
            let cells: Result<Vec<_>, _> =
                CellFileHeader::cells(&file[CELL_FILE_HEADER..]).collect();
            assert!(
                received(&header, cells.expect("whole cells").into_iter()) == packets,
                "{pace:?}"
            );
        }
    }

    #[test]
    fn smoothed_cells_are_sent_evenly() {
        let packets = stream(4_000);
        let most = |pace| {
            let made = Prepared::of(&packets, config(None), pace).expect("a good stream");
            // Most cells of 10 ms of a GOP in the middle.
            let mut counts = vec![0; 1_000];
            for (at, _) in &made.cells {
                counts[(at.as_ms() / 10) as usize] += 1;
            }
            counts[150..300].iter().max().copied().unwrap_or(0)
        };
        // 1 packet a millisecond: 40 cells in 10 ms, a group more or less.
        let (plain, smooth) = (
            most(CellPace::Clock(Smoothing::None)),
            most(CellPace::Clock(Smoothing::Gop)),
        );
        assert!(smooth <= plain, "{smooth} and {plain} cells");
        assert!((38..=46).contains(&smooth), "{smooth} cells");
    }

    #[test]
    fn a_fast_start_sends_at_its_rates() {
        let start = VodFastStart {
            first_bps: 10_000_000,
            first_seconds: 0.1,
            then_bps: 1_000_000,
        };
        let made = Prepared::of(&stream(2_000), config(None), CellPace::Fast(start))
            .expect("a good stream");
        let by = |seconds: f64| {
            let until = Span::from_secs_f64(seconds);
            made.cells.iter().filter(|(at, _)| *at < until).count() * CELL_SIZE * 8
        };
        assert!((980_000..1_020_000).contains(&by(0.1)), "{}", by(0.1));
        assert!((1_980_000..2_020_000).contains(&by(1.1)), "{}", by(1.1));
    }

    #[test]
    fn datagrams_have_one_class_and_give_the_cells_again() {
        let made = Prepared::of(
            &stream(2_000),
            config(parity()),
            CellPace::Clock(Smoothing::Gop),
        )
        .expect("a good stream");
        let mut writer = CellWriter::new(made.header, 7);
        let (mut datagram, mut cells, mut seq) = (Vec::new(), Vec::new(), 0);
        for burst in cell_bursts(&made.cells) {
            assert!((1..=MOST_CELLS).contains(&burst.count));
            writer.write(
                burst.at,
                &made.cells[burst.first..][..burst.count],
                &mut datagram,
            );
            assert!(datagram.len() <= 1_400);
            let read = CellDatagram::parse(&datagram).expect("a datagram of cells");
            assert_eq!(
                (read.header, read.seq, read.is_end),
                (made.header, seq, false)
            );
            seq = seq.wrapping_add(1);
            assert!(read.cells().all(|it| it.class == burst.class));
            cells.extend(read.cells());
        }
        assert!(cells.iter().eq(made.cells.iter().map(|(_, cell)| cell)));
        writer.write(Span::ZERO, &[], &mut datagram);
        assert!(CellDatagram::parse(&datagram).is_ok_and(|it| it.is_end));
    }

    #[test]
    fn a_clock_that_jumps_does_not_make_time_jump() {
        // The second half begins again at zero, and the third is hours ahead.
        let mut packets = stream(400);
        packets.extend(&stream(400)[2..]);
        let mut ahead = stream(400);
        for packet in &mut ahead {
            if packet[0] == 0x47 && packet[3] & 0x20 != 0 && packet[5] & 0x10 != 0 {
                packet[6] |= 0x40;
            }
        }
        packets.extend(&ahead[2..]);
        let made = Prepared::of(&packets, config(None), CellPace::Clock(Smoothing::None));
        let made = made.expect("a good stream");
        assert!(made.cells.is_sorted_by_key(|(at, _)| *at));
        // 1200 packets, 1 ms apart.
        let end = made.cells.last().expect("cells").0.as_ms();
        assert!((1_100..1_300).contains(&end), "{end} ms");
        assert!(received(&made.header, made.cells.into_iter()) == packets);
    }

    #[test]
    fn what_is_no_file_of_cells_is_refused() {
        let head = CellFileHeader {
            mode: Mode::Separate,
            group: 8,
            parity: None,
        }
        .encode(0);
        assert_eq!(CellFileHeader::count(&head), None);
        let with = |place: usize, value: u8| {
            let mut head = head;
            head[place] = value;
            CellFileHeader::decode(&head)
        };
        assert!(CellFileHeader::decode(&head).is_ok());
        assert_eq!(
            CellFileHeader::decode(&head[..20]),
            Err(CellFileError::Magic)
        );
        assert_eq!(with(0, b'X'), Err(CellFileError::Magic));
        assert_eq!(with(8, 2), Err(CellFileError::Version(2)));
        for (place, value) in [
            (9, 2),
            (10, 3),
            (11, 0),
            (11, 16),
            (12, 6),
            (13, 4),
            (14, 1),
        ] {
            assert_eq!(
                with(place, value),
                Err(CellFileError::Field { place, value })
            );
        }
        assert!(matches!(with(20, 1), Err(CellFileError::Clock(_))));
        let mut record = CellFileHeader::record(
            Span::ZERO,
            &layercast_wire::OneCell {
                octets: [0; 40],
                uu: 0,
                cpi: 0,
            }
            .to_cell(0, 64),
        )
        .to_vec();
        record.push(0);
        let last = CellFileHeader::cells(&record).last();
        assert_eq!(last, Some(Err(CellFileError::Cut(1))));
        record[2] ^= 1;
        let first = CellFileHeader::cells(&record).next();
        assert!(matches!(
            first,
            Some(Err(CellFileError::Cell { number: 0, .. }))
        ));
        let side = Aal5PlusConfig {
            mapping: ExclpMapping::SideBand,
            ..config(None)
        };
        let refused = Prepared::of(&stream(100), side, CellPace::Clock(Smoothing::None));
        assert_eq!(refused.err(), Some(PreparedError::SideBand));
        let refused = Prepared::of(&stream(30), config(None), CellPace::Clock(Smoothing::None));
        assert_eq!(
            refused.err(),
            Some(PreparedError::Clock(TsDatagramsError::NoClock))
        );
    }

    proptest! {
        #[test]
        fn any_octets_are_a_file_or_a_datagram_or_not(mut octets in prop::collection::vec(any::<u8>(), 0..400), is_near in any::<bool>()) {
            if is_near && octets.len() > 24 {
                octets[..16].copy_from_slice(b"LC-CELLS\x01\x01\x01\x08\x01\x04\x04\0");
            }
            if let Ok(header) = CellFileHeader::decode(&octets) {
                let _ = header.receiver(ReceiverConfig::default());
            }
            let _ = CellFileHeader::cells(&octets).count();
            if let Ok(datagram) = CellDatagram::parse(&octets) {
                let _ = datagram.cells().count();
            }
        }
    }
}
