//! Transport streams through cells: the same octets without loss, and with loss exactly what the cells held.

use std::fs;
use std::path::Path;

use layercast_core::{DataClass, Span, Time};
use proptest::prelude::*;

use super::*;

const PACKET: usize = 188;

type Packets = Vec<[u8; PACKET]>;

/// A stream of the fuzz corpus.
fn corpus(name: &str) -> Packets {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/ts");
    let data = fs::read(path.join(name)).expect("readable");
    let packets = data.as_chunks().0.to_vec();
    assert!(
        packets
            .iter()
            .all(|packet: &[u8; PACKET]| packet[0] == 0x47),
        "{name}"
    );
    packets
}

fn send(config: Aal5PlusConfig, packets: &[[u8; PACKET]]) -> (Vec<MarkedCell>, SenderStats) {
    let mut sender = Aal5Plus::new(config).expect("a good configuration");
    for packet in packets {
        sender.push(Time::ZERO, packet).expect("aligned");
    }
    sender.flush();
    let cells = std::iter::from_fn(|| sender.poll_cell()).collect();
    (cells, sender.stats())
}

fn receive(config: ReceiverConfig, cells: &[MarkedCell]) -> (Packets, ReceiverStats) {
    let mut receiver = Aal5PlusReceiver::new(config);
    for cell in cells {
        receiver.on_cell(Time::ZERO, cell);
    }
    receiver.finish();
    let packets = std::iter::from_fn(|| receiver.poll_packet()).collect();
    (packets, receiver.stats())
}

const STREAMS: [&str; 6] = ["mpeg1", "mpeg2", "h264", "h265-open", "sound", "shared-pes"];

#[test]
fn without_loss_the_stream_is_the_same() {
    for name in STREAMS {
        let packets = corpus(name);
        for group in 1..=15 {
            for mode in [Mode::Separate, Mode::Mark] {
                let config = Aal5PlusConfig {
                    group,
                    mode,
                    ..Aal5PlusConfig::default()
                };
                let (cells, sent) = send(config, &packets);
                // Over the link, where the class is in the header.
                let cells: Vec<MarkedCell> = cells
                    .iter()
                    .map(|marked| {
                        let cell = layercast_wire::Cell::decode(&marked.cell.encode());
                        MarkedCell::of(cell.expect("a cell"), config.mapping)
                    })
                    .collect();
                let receiver = ReceiverConfig {
                    mode,
                    ..ReceiverConfig::default()
                };
                let (found, stats) = receive(receiver, &cells);
                assert!(found == packets, "{name}, groups of {group}, {mode:?}");
                assert_eq!(stats.packets, sent.packets);
                assert_eq!(sent.cells.iter().sum::<u64>(), cells.len() as u64);
                assert_eq!((stats.damaged_packets, stats.bad_frames), (0, 0));
            }
        }
    }
}

/// Tables that name one video.
pub(crate) fn tables() -> Packets {
    let tables = &corpus("mpeg2")[..];
    let is_table = |packet: &&[u8; PACKET]| {
        let pid = u16::from_be_bytes([packet[1] & 0x1F, packet[2]]);
        pid == 0 || pid == 0x1000
    };
    let packets: Packets = tables.iter().filter(is_table).take(2).copied().collect();
    assert_eq!(packets.len(), 2, "a PAT and a PMT");
    packets
}

/// Tables, and packets of the video that are scrambled: data of one class.
fn scrambled(count: usize) -> Packets {
    let mut packets = tables();
    for number in 0..count {
        let mut packet = [number as u8; PACKET];
        packet[..4].copy_from_slice(&[0x47, 0x01, 0x00, 0x90 | number as u8 & 15]);
        packets.push(packet);
    }
    packets
}

#[test]
fn groups_take_the_cells_of_the_table() {
    // Packets, cells of headers, of data, of classical AAL5. Groups of ten would fit one header cell without its flags.
    let table = [
        (2, 1, 8, 8),
        (4, 1, 16, 16),
        (8, 1, 31, 32),
        (9, 1, 35, 37),
        (10, 2, 39, 40),
        (12, 2, 47, 48),
    ];
    for (group, headers, data, plain) in table {
        let config = Aal5PlusConfig {
            group,
            ..Aal5PlusConfig::default()
        };
        let packets = scrambled(usize::from(group));
        let mut sender = Aal5Plus::new(config).expect("a good configuration");
        for packet in &packets[..2] {
            sender.push(Time::ZERO, packet).expect("aligned");
        }
        sender.flush();
        let before = sender.stats();
        for packet in &packets[2..] {
            sender.push(Time::ZERO, packet).expect("aligned");
        }
        let after = sender.stats();
        let of = |class: DataClass| after.cells[class.index()] - before.cells[class.index()];
        assert_eq!(of(DataClass::System), headers, "headers of {group}");
        assert_eq!(of(DataClass::Intra), data, "data of {group}");
        assert_eq!(
            after.plain_cells - before.plain_cells,
            plain,
            "classical, {group}"
        );
    }
}

#[test]
fn octets_of_cells_are_as_specified() {
    let packets = scrambled(2);
    let config = Aal5PlusConfig {
        group: 2,
        ..Aal5PlusConfig::default()
    };
    let (cells, _) = send(config, &packets);
    let first = &cells[0].cell.payload;
    // Version 1, two packets, no more headers.
    assert_eq!(first[0], 0b0100_0100);
    assert_eq!(first[1..5], packets[0][..4]);
    assert_eq!(first[5..9], packets[1][..4]);
    // T = 0 and SN 0; CPI; length 40.
    assert_eq!(first[40..44], [0, 0, 0, 40]);
    // Tables are system data: T = 1, SN 1, one cell behind the headers, packet 0 from octet 4 on, 36 octets.
    let second = &cells[1].cell.payload;
    assert_eq!(second[0], 0b0110_0010);
    assert_eq!(second[1..4], [0x00, 0x42, 0x40]);
    assert_eq!(second[4..40], packets[0][4..40]);
    assert_eq!(second[40..44], [0x81, 0, 0, 40]);
    // The next group: its headers, and one frame of class I with a sequence of its own.
    let headers = cells
        .iter()
        .rposition(|it| it.class == DataClass::System)
        .expect("headers");
    let frame = &cells[headers + 1..];
    assert_eq!(frame.len(), 8);
    assert!(
        frame
            .iter()
            .all(|it| it.class == DataClass::Intra && !it.cell.clp)
    );
    let trailer = &frame[7].cell.payload[40..44];
    assert_eq!(trailer, [0x80, 0, 0x01, 0x70]);
}

/// Which packets came whole: equal to those that were sent, in order. Others may be marked as damaged, or be missing.
fn whole(sent: &[[u8; PACKET]], found: &[[u8; PACKET]]) -> Vec<bool> {
    let mut found = found.iter().peekable();
    let whole = sent.iter().map(|packet| {
        let Some(next) = found.peek() else {
            return false;
        };
        let same_header = next[0] == packet[0]
            && next[1] & 0x7F == packet[1] & 0x7F
            && next[2..4] == packet[2..4];
        if *next == packet || next[1] & 0x80 != 0 && same_header {
            let is_whole = *next == packet;
            found.next();
            return is_whole;
        }
        false
    });
    let whole = whole.collect();
    assert!(found.next().is_none(), "packets that were never sent");
    whole
}

/// Groups of a stream: for each cell the number of its group.
fn groups(cells: &[MarkedCell]) -> Vec<usize> {
    let (mut group, mut goes_on) = (0, false);
    let number = |marked: &MarkedCell| {
        let payload = &marked.cell.payload;
        let is_header = marked.class == DataClass::System && payload[40] & 0x80 == 0;
        if is_header {
            group += usize::from(!goes_on);
            goes_on = payload[0] & 1 != 0;
        }
        group - 1
    };
    cells.iter().map(number).collect()
}

#[test]
fn a_lost_cell_costs_packets_of_its_group_and_of_no_other() {
    for name in STREAMS {
        let packets = corpus(name);
        let config = Aal5PlusConfig::default();
        let (cells, _) = send(config, &packets);
        let groups = groups(&cells);
        for (lost, &number) in groups.iter().enumerate() {
            let mut rest = cells.clone();
            let cell = rest.remove(lost);
            let (found, stats) = receive(ReceiverConfig::default(), &rest);
            let whole = whole(&packets, &found);
            let group = number * 8..packets.len().min(number * 8 + 8);
            for (number, &is_whole) in whole.iter().enumerate() {
                assert!(
                    is_whole || group.contains(&number),
                    "{name}: cell {lost}, packet {number}"
                );
            }
            let damaged = group.clone().filter(|&number| !whole[number]).count();
            assert!(damaged > 0, "{name}: cell {lost}");
            let is_header = cell.class == DataClass::System && cell.cell.payload[40] & 0x80 == 0;
            if is_header {
                // The whole group, and nothing else: the gap stays visible.
                assert_eq!(
                    found.len(),
                    packets.len() - group.len(),
                    "{name}: cell {lost}"
                );
            } else {
                assert_eq!(found.len(), packets.len());
                assert_eq!(stats.damaged_packets, damaged as u64);
            }
        }
    }
}

/// A group whose first half are data of a P picture, and whose second half begin with a B picture.
fn two_pictures() -> Packets {
    let mut packets = scrambled(0);
    let mut es = vec![0, 0, 1, 0xE0, 0, 0, 0x80, 0, 0];
    es.extend_from_slice(&[0, 0, 1, 0, 0, 2 << 3, 0xFF, 0xF8, 0, 0, 1, 1, 0x12, 0x34]);
    es.resize(4 * 184, 0x55);
    es.extend_from_slice(&[0x66; 20]);
    es.extend_from_slice(&[0, 0, 1, 0, 0, 3 << 3, 0xFF, 0xF8, 0, 0, 1, 1, 0x12, 0x34]);
    es.resize(8 * 184, 0x77);
    for (number, data) in es.chunks(184).enumerate() {
        let mut packet = [0; PACKET];
        let starts = if number == 0 { 0x40 } else { 0 };
        packet[..4].copy_from_slice(&[0x47, starts | 1, 0, 0x10 | number as u8]);
        packet[4..].copy_from_slice(data);
        packets.push(packet);
    }
    packets
}

#[test]
fn a_lost_cell_of_a_picture_damages_the_packets_of_its_run() {
    let config = Aal5PlusConfig {
        group: 8,
        ..Aal5PlusConfig::default()
    };
    let packets = two_pictures();
    let mut sender = Aal5Plus::new(config).expect("a good configuration");
    for packet in &packets[..2] {
        sender.push(Time::ZERO, packet).expect("aligned");
    }
    sender.flush();
    for packet in packets[2..].iter().chain(&packets[..2]) {
        sender.push(Time::ZERO, packet).expect("aligned");
    }
    sender.flush();
    let cells: Vec<MarkedCell> = std::iter::from_fn(|| sender.poll_cell()).collect();
    let sent = [&packets[..], &packets[..2]].concat();
    let damaged = |lost: usize| {
        let mut rest = cells.clone();
        rest.remove(lost);
        let whole = whole(&sent, &receive(ReceiverConfig::default(), &rest).0);
        let broken = (0..sent.len()).filter(|&number| !whole[number]);
        broken.map(|number| number - 2).collect::<Vec<_>>()
    };
    let of = |class: DataClass| {
        let cells = cells.iter().enumerate();
        cells
            .filter(move |(_, it)| it.class == class)
            .map(|(number, _)| number)
    };
    for lost in of(DataClass::Predicted) {
        assert_eq!(damaged(lost), [0, 1, 2, 3, 4], "cell {lost} of P");
    }
    for lost in of(DataClass::Bidirectional) {
        assert_eq!(damaged(lost), [4, 5, 6, 7], "cell {lost} of B");
    }
    // The header of the B picture: 14 octets in packet 4, between the two frames.
    let after_p = of(DataClass::Predicted).next_back().expect("P") + 1;
    assert_eq!(cells[after_p].class, DataClass::System);
    assert_eq!(damaged(after_p), [4, 5, 6, 7]);
}

#[test]
fn what_becomes_of_damaged_packets_is_chosen() {
    let packets = scrambled(8);
    let config = Aal5PlusConfig {
        group: 2,
        ..Aal5PlusConfig::default()
    };
    let (mut cells, _) = send(config, &packets);
    let lost = cells
        .iter()
        .position(|it| it.class == DataClass::Intra)
        .expect("data");
    cells.remove(lost);
    let with = |on_loss| {
        let config = ReceiverConfig {
            on_loss,
            ..ReceiverConfig::default()
        };
        receive(config, &cells).0
    };
    let (tei, drop, null) = (
        with(OnLoss::Tei),
        with(OnLoss::Drop),
        with(OnLoss::NullPacket),
    );
    assert_eq!((tei.len(), drop.len(), null.len()), (10, 8, 10));
    for number in [2, 3] {
        assert_eq!(tei[number][1], packets[number][1] | 0x80);
        assert_eq!(tei[number][2..4], packets[number][2..4]);
        assert_eq!(null[number][..4], [0x47, 0x1F, 0xFF, 0x10]);
    }
    assert_eq!(drop, [&packets[..2], &packets[4..]].concat());
    assert_eq!(null[4..], packets[4..]);
}

#[test]
fn reserved_indicators_are_counted_and_parity_is_left_alone() {
    let (mut cells, _) = send(Aal5PlusConfig::default(), &scrambled(16));
    let mut change = |number: usize, cpi: u8| {
        let frame = layercast_wire::OneCell::read(&cells[number].cell.payload).expect("one cell");
        let changed = layercast_wire::OneCell { cpi, ..frame };
        cells[number].cell.payload = changed.to_cell(0, 64).payload;
    };
    change(1, 200);
    change(2, 5);
    let (_, stats) = receive(ReceiverConfig::default(), &cells);
    assert_eq!((stats.bad_cpi, stats.parities), (1, 1));
}

#[test]
fn a_cell_that_comes_again_is_dropped() {
    let packets = scrambled(64);
    let (cells, _) = send(Aal5PlusConfig::default(), &packets);
    for number in (0..cells.len()).filter(|&it| cells[it].class == DataClass::System) {
        let mut again = cells.clone();
        again.insert(number + 1, cells[number]);
        let (found, stats) = receive(ReceiverConfig::default(), &again);
        assert!(found == packets, "cell {number}");
        assert_eq!(stats.misinserted, 1);
    }
}

#[test]
fn after_losses_that_numbers_cannot_tell_the_sequence_begins_anew() {
    let packets = scrambled(8 * 300);
    let config = Aal5PlusConfig::default();
    let (cells, _) = send(config, &packets);
    // 100 groups are gone, a header cell each, and with a pause any number of them.
    let groups = groups(&cells);
    for (gone, pause, resyncs) in [
        (100, Span::ZERO, 1),
        (128, Span::from_secs(1), 1),
        (256, Span::from_secs(1), 1),
    ] {
        let mut receiver = Aal5PlusReceiver::new(ReceiverConfig::default());
        for (cell, &group) in cells.iter().zip(&groups) {
            if (20..20 + gone).contains(&group) {
                continue;
            }
            let now = Time::ZERO + if group < 20 { Span::ZERO } else { pause };
            receiver.on_cell(now, cell);
        }
        receiver.finish();
        let found: Packets = std::iter::from_fn(|| receiver.poll_packet()).collect();
        let stats = receiver.stats();
        assert_eq!(stats.resyncs, resyncs, "{gone} groups");
        let whole = found.iter().filter(|packet| packet[1] & 0x80 == 0).count();
        let lost = packets.len() - whole;
        // What is gone, and at most two groups to find the sequence again.
        assert!(
            (8 * gone..=8 * (gone + 2)).contains(&lost),
            "{lost} packets for {gone} groups"
        );
    }
}

/// What property tests found: the first frame of pictures was taken for the next one when those before it were missing.
#[test]
fn a_first_frame_that_is_not_the_first_sent_has_no_place() {
    let packets = scrambled(30);
    let (cells, _) = send(Aal5PlusConfig::default(), &packets);
    let groups = groups(&cells);
    // Groups 0 and 1 lose their frames, group 2 its header: its frame has the length of that of group 1.
    let rest: Vec<MarkedCell> = (cells.iter().zip(&groups))
        .filter(|&(cell, &group)| match cell.class {
            DataClass::Intra => group > 1,
            _ => group != 2,
        })
        .map(|(cell, _)| *cell)
        .collect();
    let (found, _) = receive(ReceiverConfig::default(), &rest);
    let all = whole(&packets, &found);
    // The tables and group 3.
    let expected: Vec<bool> = (0..32).map(|number| !(2..24).contains(&number)).collect();
    assert_eq!(all, expected);
}

/// What property tests found: a frame behind lost cells took their place when the stream ended there.
#[test]
fn at_the_end_of_a_stream_a_frame_behind_lost_cells_has_no_place() {
    let packets = two_pictures();
    let (mut cells, _) = send(
        Aal5PlusConfig {
            group: 10,
            ..Aal5PlusConfig::default()
        },
        &packets,
    );
    // The header of the B picture is missing, and the end of its frame is the end of the stream.
    let lost = cells
        .iter()
        .rposition(|it| it.class == DataClass::System)
        .expect("a header");
    let before = cells[..lost]
        .iter()
        .rposition(|it| it.class == DataClass::System)
        .expect("a header");
    cells.drain(before + 1..=lost);
    whole(&packets, &receive(ReceiverConfig::default(), &cells).0);
}

#[test]
fn a_demoted_cell_of_headers_is_still_one() {
    let packets = corpus("mpeg2");
    let config = Aal5PlusConfig::default();
    let (mut cells, _) = send(config, &packets);
    for marked in &mut cells {
        if marked.class == DataClass::System {
            marked.class = DataClass::Intra;
            config.mapping.stamp(&mut marked.cell, DataClass::Intra);
        }
    }
    let (found, _) = receive(ReceiverConfig::default(), &cells);
    assert!(found == packets);
}

#[test]
fn a_group_does_not_wait_for_ever() {
    let config = Aal5PlusConfig::default();
    let mut sender = Aal5Plus::new(config).expect("a good configuration");
    let at = |ms| Time::ZERO + Span::from_ms(ms);
    assert_eq!(sender.next_timeout(), None);
    sender.push(at(10), &scrambled(0)[0]).expect("aligned");
    assert_eq!(sender.next_timeout(), Some(at(60)));
    sender.on_timeout(at(59));
    assert_eq!(sender.poll_cell(), None);
    sender.on_timeout(at(60));
    // A short group: one packet.
    let cell = sender.poll_cell().expect("a cell");
    assert_eq!(cell.cell.payload[0] >> 1 & 15, 1);
    assert_eq!(sender.next_timeout(), None);
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let new = |group, mapping| {
        let config = Aal5PlusConfig {
            group,
            mapping,
            ..Aal5PlusConfig::default()
        };
        Aal5Plus::new(config).map(|_| ())
    };
    assert_eq!(new(0, ExclpMapping::Efci), Err(Aal5PlusError::Group(0)));
    assert_eq!(new(16, ExclpMapping::Efci), Err(Aal5PlusError::Group(16)));
    assert_eq!(
        new(8, ExclpMapping::AuuLiteral),
        Err(Aal5PlusError::NoEndOfFrame)
    );
    assert_eq!(new(15, ExclpMapping::SideBand), Ok(()));
    let mut sender = Aal5Plus::new(Aal5PlusConfig::default()).expect("a good configuration");
    assert_eq!(
        sender.push(Time::ZERO, &[0; PACKET]),
        Err(Aal5PlusError::NoSync(0))
    );
    sender.flush();
    assert_eq!(
        (sender.poll_cell(), sender.stats().unaligned_packets),
        (None, 1)
    );
}

proptest! {
    /// Whatever is lost, each packet of the output was sent: in its order, whole or marked as damaged.
    #[test]
    fn any_loss_gives_packets_that_were_sent_or_marked(
        stream in 0..STREAMS.len(),
        group in 1_u8..=15,
        lost in prop::collection::vec((any::<prop::sample::Index>(), 1_usize..40), 0..6),
    ) {
        let packets = corpus(STREAMS[stream]);
        let config = Aal5PlusConfig { group, ..Aal5PlusConfig::default() };
        let (mut cells, _) = send(config, &packets);
        for (at, count) in lost {
            if cells.is_empty() {
                break;
            }
            let at = at.index(cells.len());
            cells.drain(at..cells.len().min(at + count));
        }
        let (found, stats) = receive(ReceiverConfig::default(), &cells);
        whole(&packets, &found);
        prop_assert_eq!(stats.packets + stats.damaged_packets, found.len() as u64);
    }

    #[test]
    fn any_cells_are_safe(
        stream in 0..STREAMS.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..48, any::<u8>(), 0_u8..4), 0..30),
    ) {
        let (mut cells, _) = send(Aal5PlusConfig::default(), &corpus(STREAMS[stream]));
        for (at, octet, value, rank) in damage {
            let at = at.index(cells.len());
            let marked = &mut cells[at];
            marked.cell.payload[octet] ^= value;
            marked.class = DataClass::of_rank(rank);
            // What a hostile sender can send: the CRC of a one-cell frame is right.
            if let Ok(frame) = layercast_wire::OneCell::read(&marked.cell.payload) {
                let mut octets = frame.octets;
                octets[octet % 8] ^= value;
                let forged = layercast_wire::OneCell { octets, ..frame };
                marked.cell.payload = forged.to_cell(0, 64).payload;
            }
        }
        receive(ReceiverConfig::default(), &cells);
    }
}
