use std::fs;
use std::path::Path;

use layercast_core::{DataClass, Span, Stream, Time};
use layercast_fec::MatrixCode;
use proptest::prelude::*;

use super::*;
use crate::{
    Aal5Plus, Aal5PlusConfig, Aal5PlusError, Aal5PlusReceiver, MarkedCell, ReceiverConfig,
};

const PACKET: usize = 188;
type Packets = Vec<[u8; PACKET]>;

/// A stream of the fuzz corpus, several times over, so that it fills blocks.
fn corpus(name: &str, times: usize) -> Packets {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/ts");
    let data = fs::read(path.join(name)).expect("readable");
    let packets: &[[u8; PACKET]] = data.as_chunks().0;
    packets
        .iter()
        .copied()
        .cycle()
        .take(packets.len() * times)
        .collect()
}

fn config(code: MatrixCode, rows: usize, columns: usize) -> ParityConfig {
    ParityConfig {
        code,
        rows,
        columns,
        ..ParityConfig::default()
    }
}

fn send(parity: ParityConfig, packets: &[[u8; PACKET]]) -> Vec<MarkedCell> {
    let mut sender = Aal5Plus::new(Aal5PlusConfig {
        parity: Some(parity),
        ..Aal5PlusConfig::default()
    })
    .expect("a good configuration");
    for packet in packets {
        sender.push(Time::ZERO, packet).expect("aligned");
    }
    sender.flush();
    std::iter::from_fn(|| sender.poll_cell()).collect()
}

fn receiver(parity: ParityConfig) -> Aal5PlusReceiver {
    Aal5PlusReceiver::with_parities(ReceiverConfig::default(), parity).expect("good parities")
}

fn receive(parity: ParityConfig, cells: &[MarkedCell]) -> (Packets, ParityStats) {
    let mut receiver = receiver(parity);
    for cell in cells {
        receiver.on_cell(Time::ZERO, cell);
    }
    receiver.finish();
    let packets = std::iter::from_fn(|| receiver.poll_packet()).collect();
    (packets, receiver.parity_stats().expect("parities"))
}

/// Places of the cells of class S.
fn system(cells: &[MarkedCell]) -> Vec<usize> {
    let places = 0..cells.len();
    places
        .filter(|&at| cells[at].class == DataClass::System)
        .collect()
}

fn without(cells: &[MarkedCell], lost: &[usize]) -> Vec<MarkedCell> {
    let all = cells.iter().enumerate();
    all.filter(|(at, _)| !lost.contains(at))
        .map(|(_, cell)| *cell)
        .collect()
}

const SHAPES: [(MatrixCode, usize, usize); 7] = [
    (MatrixCode::Columns, 4, 4),
    (MatrixCode::EvenOdd, 4, 4),
    (MatrixCode::Columns, 10, 10),
    (MatrixCode::EvenOdd, 10, 10),
    (MatrixCode::TwoDiagonals, 4, 4),
    (MatrixCode::Diagonals, 5, 4),
    (MatrixCode::BothDiagonals, 4, 4),
];

#[test]
fn without_loss_the_stream_is_the_same_and_nothing_waits() {
    for (code, rows, columns) in SHAPES {
        for name in ["mpeg2", "h264", "sound"] {
            let packets = corpus(name, 3);
            let parity = config(code, rows, columns);
            let cells = send(parity, &packets);
            let (found, stats) = receive(parity, &cells);
            assert!(found == packets, "{code:?}, {name}");
            assert_eq!((stats.repaired, stats.unrepaired, stats.resyncs), (0, 0, 0));
            let matrix = parity.matrix(code).expect("a matrix");
            let data = system(&cells).len() - stats.cells as usize;
            let full = data / matrix.data_cells() * matrix.parity_cells();
            let last = sent_parities(&matrix, data % matrix.data_cells()).count();
            assert_eq!(stats.cells as usize, full + last, "{code:?}, {name}");
        }
    }
}

#[test]
fn bursts_up_to_the_guarantee_come_back_at_every_place() {
    for (code, rows, columns, guarantee) in [
        (MatrixCode::Columns, 4, 4, 4),
        (MatrixCode::EvenOdd, 4, 4, 8),
        (MatrixCode::Columns, 3, 7, 7),
        (MatrixCode::EvenOdd, 11, 2, 4),
    ] {
        for control in [None, Some(FecControllerConfig::default())] {
            let parity = ParityConfig {
                control,
                ..config(code, rows, columns)
            };
            for name in ["mpeg2", "sound"] {
                let packets = corpus(name, 4);
                let cells = send(parity, &packets);
                let system = system(&cells);
                let block = parity.matrix(code).expect("a matrix");
                let size = block.data_cells() + block.parity_cells();
                assert!(system.len() > 2 * size, "{name} has two blocks");
                for burst in 1..=guarantee {
                    for at in 0..=2 * size - burst {
                        // The first cell of a circuit that comes has number 0, or the first block is not known.
                        let lost = &system[at + 1..at + 1 + burst];
                        let (found, stats) = receive(parity, &without(&cells, lost));
                        assert!(found == packets, "{code:?}, {name}: {burst} at {at}");
                        assert_eq!((stats.unrepaired, stats.resyncs), (0, 0), "{burst} at {at}");
                    }
                }
            }
        }
    }
}

/// Whether each packet is one that was sent, in order, or is marked as damaged.
fn whole(sent: &[[u8; PACKET]], found: &[[u8; PACKET]]) -> usize {
    let mut at = 0;
    let mut whole = 0;
    for packet in found {
        if packet[1] & 0x80 != 0 {
            continue;
        }
        let next = sent[at..].iter().position(|it| it == packet);
        let next = next.expect("a packet that was never sent, or not in this order");
        at += next + 1;
        whole += 1;
    }
    whole
}

/// A stream all of whose packets differ: sound, numbered.
fn numbered(count: usize) -> Packets {
    let packets = corpus("mpeg2", 1);
    let is_table = |packet: &&[u8; PACKET]| {
        let pid = u16::from_be_bytes([packet[1] & 0x1F, packet[2]]);
        pid == 0 || pid == 0x1000
    };
    let mut packets: Packets = packets.iter().filter(is_table).take(2).copied().collect();
    let mut random = Stream::new(9, "packets");
    for number in 0..count {
        let mut packet = [0; PACKET];
        packet[..4].copy_from_slice(&[0x47, 0x01, 0x00, 0x90 | number as u8 & 15]);
        // Some are no packets of the video, and so class S.
        if number % 3 == 0 {
            packet[2] = 0x55;
        }
        for octet in &mut packet[4..] {
            *octet = random.below(256) as u8;
        }
        packets.push(packet);
    }
    packets
}

#[test]
fn lost_parities_cost_nothing() {
    for (code, rows, columns) in SHAPES {
        let packets = numbered(300);
        let parity = config(code, rows, columns);
        let cells = send(parity, &packets);
        let is_parity =
            |cell: &MarkedCell| cell.class == DataClass::System && cell.cell.payload[41] != 0;
        let rest: Vec<MarkedCell> = cells.iter().filter(|it| !is_parity(it)).copied().collect();
        let (found, stats) = receive(parity, &rest);
        // Of the last block, which is short, nothing shows that its parities are missing.
        assert!(found == packets, "{code:?}");
        assert_eq!((stats.unrepaired, stats.resyncs), (0, 0), "{code:?}");
    }
}

#[test]
fn a_late_receiver_follows_from_the_next_parity_on() {
    let parity = config(MatrixCode::Columns, 4, 4);
    let packets = numbered(400);
    let cells = send(parity, &packets);
    let system = system(&cells);
    for begin in 0..40 {
        let from = system[begin];
        // Two blocks later a cell is lost.
        let lost = system[begin + 45];
        let is_data = cells[lost].cell.payload[41] == 0;
        let (found, stats) = receive(parity, &without(&cells[from..], &[lost - from]));
        assert!(whole(&packets, &found) + 40 > packets.len() - begin * 8 / 3);
        assert_eq!(
            (stats.repaired, stats.unrepaired),
            (u64::from(is_data), 0),
            "from {begin}"
        );
    }
}

#[test]
fn more_losses_than_a_block_has_cells_begin_the_blocks_again() {
    let parity = config(MatrixCode::Columns, 4, 4);
    let packets = numbered(600);
    let cells = send(parity, &packets);
    let system = system(&cells);
    for count in [20, 33, 64, 100] {
        let lost: Vec<usize> = system[50..50 + count].to_vec();
        // Two blocks behind it repairs continue.
        let mut lost_again = lost.clone();
        lost_again.push(system[50 + count + 45]);
        let (found, stats) = receive(parity, &without(&cells, &lost_again));
        whole(&packets, &found);
        let is_data = cells[system[50 + count + 45]].cell.payload[41] == 0;
        assert_eq!(
            stats.repaired,
            u64::from(is_data),
            "{count} lost: {stats:?}"
        );
    }
}

#[test]
fn a_block_that_waits_is_closed_short() {
    for code in [
        MatrixCode::Columns,
        MatrixCode::EvenOdd,
        MatrixCode::TwoDiagonals,
    ] {
        let parity = config(code, 4, 4);
        let packets = numbered(120);
        let mut sender = Aal5Plus::new(Aal5PlusConfig {
            parity: Some(parity),
            group: 1,
            ..Aal5PlusConfig::default()
        })
        .expect("a good configuration");
        let mut now = Time::ZERO;
        let mut cells = Vec::new();
        for (number, packet) in packets.iter().enumerate() {
            // Blocks of one cell, of a few, and full ones.
            now += Span::from_ms([60, 1, 1, 20, 60, 0, 0, 0, 0, 0][number % 10]);
            sender.on_timeout(now);
            sender.push(now, packet).expect("aligned");
            cells.extend(std::iter::from_fn(|| sender.poll_cell()));
        }
        sender.flush();
        cells.extend(std::iter::from_fn(|| sender.poll_cell()));
        let system = system(&cells);
        let fills: std::collections::BTreeSet<u8> = system
            .iter()
            .map(|&at| cells[at].cell.payload[41])
            .collect();
        assert!(fills.len() > 3, "blocks of several sizes: {fills:?}");
        for &lost in &system[1..] {
            let (found, stats) = receive(parity, &without(&cells, &[lost]));
            assert!(found == packets, "{code:?}: cell {lost}: {stats:?}");
        }
    }
}

#[test]
fn a_cell_that_comes_back_too_late_is_counted_and_not_delivered() {
    let parity = config(MatrixCode::Columns, 4, 4);
    let packets = numbered(60);
    let cells = send(parity, &packets);
    let system = system(&cells);
    let mut receiver = receiver(parity);
    let gap = Span::from_ms(50);
    let mut now = Time::ZERO;
    for (at, cell) in cells.iter().enumerate() {
        if at == system[3] {
            continue;
        }
        if cell.class == DataClass::System {
            now += gap;
        }
        if receiver.next_timeout().is_some_and(|due| due <= now) {
            receiver.on_timeout(now);
        }
        receiver.on_cell(now, cell);
    }
    receiver.finish();
    let found: Packets = std::iter::from_fn(|| receiver.poll_packet()).collect();
    whole(&packets, &found);
    let stats = receiver.parity_stats().expect("parities");
    assert_eq!((stats.repaired, stats.unrepaired, stats.late), (0, 1, 1));
    assert_eq!(receiver.stats().damaged_packets, 1);
}

#[test]
fn while_a_cell_is_missing_those_behind_it_wait() {
    let parity = config(MatrixCode::Columns, 4, 4);
    let packets = numbered(200);
    let cells = send(parity, &packets);
    let system = system(&cells);
    let mut receiver = receiver(parity);
    let mut came = 0;
    for (at, cell) in cells.iter().enumerate() {
        if at == system[2] {
            continue;
        }
        receiver.on_cell(Time::ZERO, cell);
        came += std::iter::from_fn(|| receiver.poll_packet()).count();
        // The parity of column 2 is cell 18 of the block.
        if at < system[18] {
            assert_eq!(came, 0, "at {at}");
        }
    }
    assert!(came > 150);
}

#[test]
fn cells_that_come_again_are_dropped() {
    let parity = config(MatrixCode::EvenOdd, 4, 4);
    let packets = numbered(200);
    let cells = send(parity, &packets);
    for at in system(&cells) {
        let mut again = cells.clone();
        again.insert(at + 1, cells[at]);
        let mut receiver = receiver(parity);
        for cell in &again {
            receiver.on_cell(Time::ZERO, cell);
        }
        receiver.finish();
        let found: Packets = std::iter::from_fn(|| receiver.poll_packet()).collect();
        assert!(found == packets, "cell {at}");
        assert_eq!(receiver.stats().misinserted, 1);
    }
}

#[test]
fn geometries_that_cannot_be_are_refused() {
    let refused = |parity: ParityConfig| {
        let sender = Aal5Plus::new(Aal5PlusConfig {
            parity: Some(parity),
            ..Aal5PlusConfig::default()
        });
        let receiver = Aal5PlusReceiver::with_parities(ReceiverConfig::default(), parity);
        let Err(Aal5PlusError::Parity(error)) = sender else {
            panic!("{parity:?} is taken");
        };
        assert_eq!(receiver.map(|_| ()), Err(error));
        error
    };
    for (code, rows, columns) in [
        (MatrixCode::Columns, 0, 4),
        (MatrixCode::Columns, 4, 0),
        (MatrixCode::Columns, 12, 10),
        (MatrixCode::EvenOdd, 12, 2),
        (MatrixCode::EvenOdd, 11, 10),
        (MatrixCode::BothDiagonals, 10, 10),
    ] {
        let error = refused(config(code, rows, columns));
        assert!(matches!(error, ParityError::Geometry(_)), "{error}");
    }
    let fixed = ParityConfig {
        control: Some(FecControllerConfig::default()),
        ..config(MatrixCode::Diagonals, 4, 4)
    };
    assert_eq!(refused(fixed), ParityError::Fixed(MatrixCode::Diagonals));
}

#[test]
fn control_messages_are_followed_once_and_refused_with_a_reason() {
    let parity = ParityConfig {
        control: Some(FecControllerConfig::default()),
        ..config(MatrixCode::Columns, 4, 4)
    };
    let mut sender = Aal5Plus::new(Aal5PlusConfig {
        parity: Some(parity),
        ..Aal5PlusConfig::default()
    })
    .expect("a good configuration");
    let message = FecControl {
        vpi: 0,
        vci: 64,
        code: MatrixCode::EvenOdd,
        rows: 4,
        columns: 4,
        seq: 7,
        loss_ppm: 3_000,
    };
    let cell = message.to_cell(0, 65);
    assert_eq!(FecControl::of_cell(&cell), Ok(message));
    let packets = numbered(400);
    let (first, rest) = packets.split_at(100);
    for packet in first {
        sender.push(Time::ZERO, packet).expect("aligned");
    }
    let before = std::iter::from_fn(|| sender.poll_cell()).count();
    assert!(before > 0);
    assert_eq!(sender.on_control(&cell), Ok(()));
    assert_eq!(sender.on_control(&cell), Ok(()));
    // The block that is open ends as it began.
    assert_eq!(sender.stats().parity_changes, 0);
    for packet in rest {
        sender.push(Time::ZERO, packet).expect("aligned");
    }
    assert_eq!(sender.stats().parity_changes, 1);
    // An older message changes nothing.
    let old = FecControl {
        code: MatrixCode::Columns,
        seq: 6,
        ..message
    };
    assert_eq!(sender.on_control(&old.to_cell(0, 65)), Ok(()));
    for packet in rest {
        sender.push(Time::ZERO, packet).expect("aligned");
    }
    assert_eq!(sender.stats().parity_changes, 1);
    let refused = |message: FecControl, sender: &mut Aal5Plus| {
        sender
            .on_control(&message.to_cell(0, 65))
            .expect_err("refused")
    };
    let other = FecControl { vci: 9, ..message };
    assert_eq!(refused(other, &mut sender), FecControlError::Circuit(0, 9));
    let other = FecControl { rows: 5, ..message };
    assert_eq!(
        refused(other, &mut sender),
        FecControlError::Geometry {
            asked: (5, 4),
            agreed: (4, 4)
        }
    );
    let mut damaged = cell;
    damaged.payload[5] ^= 1;
    assert_eq!(sender.on_control(&damaged), Err(FecControlError::NoMessage));
    let mut plain = Aal5Plus::new(Aal5PlusConfig::default()).expect("a good configuration");
    assert_eq!(plain.on_control(&cell), Err(FecControlError::NoParities));
}

/// A stream whose cells are lost at a rate that changes; messages to the sender are lost too. Returns the times of the changes
/// of the code in milliseconds, and what was not repaired from one second behind the first change on.
fn adapt(
    rates: &[(u64, f64)],
    lost_messages: usize,
    seed: u64,
) -> (Vec<(u64, MatrixCode)>, Aal5PlusReceiver) {
    let parity = ParityConfig {
        control: Some(FecControllerConfig::default()),
        ..config(MatrixCode::Columns, 4, 4)
    };
    let mut sender = Aal5Plus::new(Aal5PlusConfig {
        parity: Some(parity),
        ..Aal5PlusConfig::default()
    })
    .expect("a good configuration");
    let mut receiver = receiver(parity);
    let mut random = Stream::new(seed, "losses");
    let packets = numbered(4_000);
    let mut changes = Vec::new();
    let mut messages = 0;
    let end: u64 = rates.iter().map(|(ms, _)| ms).sum();
    for ms in 0..end {
        let now = Time::ZERO + Span::from_ms(ms);
        let (mut from, mut rate) = (0, 0.0);
        for &(len, value) in rates {
            if ms >= from {
                rate = value;
            }
            from += len;
        }
        sender.on_timeout(now);
        sender
            .push(now, &packets[ms as usize % packets.len()])
            .expect("aligned");
        while let Some(cell) = sender.poll_cell() {
            if !(cell.class == DataClass::System && random.chance(rate)) {
                receiver.on_cell(now, &cell);
            }
        }
        receiver.on_timeout(now);
        while receiver.poll_packet().is_some() {}
        if let Some(cell) = receiver.poll_control(now, (0, 64)) {
            messages += 1;
            if messages > lost_messages {
                sender
                    .on_control(&cell)
                    .expect("a message that can be followed");
            }
        }
        let wanted = receiver.control().expect("a controller").wanted();
        if changes.last().is_none_or(|&(_, code)| code != wanted) {
            changes.push((ms, wanted));
        }
    }
    (changes, receiver)
}

#[test]
fn more_loss_brings_mode_2_and_its_success_does_not_end_it() {
    let (changes, mut receiver) = adapt(&[(5_000, 0.0), (30_000, 0.02), (15_000, 0.0)], 0, 1);
    let codes: Vec<MatrixCode> = changes.iter().map(|&(_, code)| code).collect();
    let expected = [
        MatrixCode::Columns,
        MatrixCode::EvenOdd,
        MatrixCode::Columns,
    ];
    assert_eq!(codes, expected, "{changes:?}");
    // A column loses two of its five cells every now and then at 2 %.
    assert!((5_000..12_000).contains(&changes[1].0), "{changes:?}");
    assert!((43_000..48_000).contains(&changes[2].0), "{changes:?}");
    assert_eq!(receiver.control().expect("a controller").changes(), 2);
    assert_eq!(receiver.parity_stats().expect("parities").resyncs, 0);
}

#[test]
fn a_message_that_is_lost_is_sent_again() {
    let (changes, mut receiver) = adapt(&[(1_000, 0.0), (20_000, 0.05)], 3, 2);
    assert_eq!(changes[1].1, MatrixCode::EvenOdd, "{changes:?}");
    // The fourth came.
    let control = receiver.control().expect("a controller");
    assert!(!control.is_changing());
    assert_eq!(control.next_timeout(), None);
}

proptest! {
    /// Whatever is lost, each packet of the output was sent, or is marked.
    #[test]
    fn nothing_wrong_comes_out(
        shape in 0..SHAPES.len(),
        seed in any::<u64>(),
        rate in 0.0..0.3_f64,
        burst in 1.0..12.0_f64,
        short in prop::bool::ANY,
        adaptive in prop::bool::ANY,
        pictures in prop::bool::ANY,
    ) {
        let (code, rows, columns) = SHAPES[shape];
        let has_modes = matches!(code, MatrixCode::Columns | MatrixCode::EvenOdd);
        let parity = ParityConfig {
            control: (adaptive && has_modes).then(FecControllerConfig::default),
            ..config(code, rows, columns)
        };
        let packets = numbered(400);
        let mut random = Stream::new(seed, "run");
        let mut sender = Aal5Plus::new(Aal5PlusConfig {
            parity: Some(parity),
            ..Aal5PlusConfig::default()
        }).expect("a good configuration");
        let mut receiver = receiver(parity);
        let mut found = Vec::new();
        let mut now = Time::ZERO;
        let mut is_burst = false;
        let mut take = |sender: &mut Aal5Plus, receiver: &mut Aal5PlusReceiver, now: Time, random: &mut Stream, is_over: bool| {
            while let Some(cell) = sender.poll_cell() {
                is_burst = random.chance(if is_burst { 1.0 - 1.0 / burst } else { rate / burst });
                // The end comes: nothing shows what is missing behind the last cell.
                let can_be_lost = !is_over && (pictures || cell.class == DataClass::System);
                if !(is_burst && can_be_lost) {
                    receiver.on_cell(now, &cell);
                }
            }
        };
        let last = packets.len() - 16;
        for (number, packet) in packets.iter().enumerate() {
            if short && random.chance(0.1) {
                now += Span::from_ms(random.below(80));
            }
            now += Span::from_ms(1);
            sender.on_timeout(now);
            receiver.on_timeout(now);
            if let Some(cell) = receiver.poll_control(now, (0, 64)) {
                sender.on_control(&cell).expect("can be followed");
            }
            sender.push(now, packet).expect("aligned");
            take(&mut sender, &mut receiver, now, &mut random, number >= last);
            found.extend(std::iter::from_fn(|| receiver.poll_packet()));
        }
        sender.flush();
        take(&mut sender, &mut receiver, now, &mut random, true);
        receiver.finish();
        found.extend(std::iter::from_fn(|| receiver.poll_packet()));
        whole(&packets, &found);
    }
}
