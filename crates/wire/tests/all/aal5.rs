//! Segmentation and reassembly, and what loss does to them.

use bytes::Bytes;
use layercast_core::aal5_cells;
use layercast_wire::{
    Cell, Flags, FrameType, MAX_CELL_PAYLOAD, Mark, MetsPacket, Payload, Pti, Reassembler,
    ReassemblyError, SegmentError, Segmenter, packet_of,
};

use crate::samples::pdus as samples;

const LEN: u32 = 500;

fn packet(fill: u8) -> MetsPacket {
    samples::packet(FrameType::BL, Bytes::from(vec![fill; LEN as usize]).into())
}

fn cells(fill: u8, mark: Mark) -> Vec<Cell> {
    Segmenter::mets(&packet(fill), 0, 100, mark)
        .unwrap()
        .collect()
}

/// The first payload octet of each frame delivered, and what went wrong, in order.
fn run<'a>(
    mark: Mark,
    cells: impl IntoIterator<Item = &'a Cell>,
) -> Vec<Result<u8, ReassemblyError>> {
    let mut vc = Reassembler::new(mark);
    cells
        .into_iter()
        .filter_map(|cell| vc.push(cell))
        .map(|result| {
            result.map(|frame| {
                let packet = packet_of(frame).unwrap();
                let mut first = [0];
                packet.payload.copy_to(&mut first);
                assert_eq!(
                    packet.payload,
                    Bytes::from(vec![first[0]; LEN as usize]).into()
                );
                first[0]
            })
        })
        .collect()
}

#[test]
fn the_trailer_is_that_of_i_363_5() {
    // The remainder over any frame and its CRC is one constant, here taken bit by bit.
    let cell =
        samples::adapter(layercast_wire::AdapterKind::Res, layercast_core::Level::E1).to_cell();
    assert_eq!(&cell.payload[40..44], [0, 0, 0, 40]);
    let residue = cell.payload.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte) << 24, |crc, _| {
            crc << 1 ^ if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 }
        })
    });
    assert_eq!(residue, 0xc704_dd7b);
}

#[test]
fn the_mark_is_on_the_last_or_on_the_first_cell() {
    let marks = |mark| {
        cells(1, mark)
            .iter()
            .map(|cell| cell.pti.auu())
            .collect::<Vec<_>>()
    };
    let last = marks(Mark::Last);
    // 24 + 500 + 8 octets.
    assert_eq!(last.len(), 12);
    assert_eq!(last.iter().position(|&auu| auu), Some(11));
    let first = marks(Mark::First);
    assert!(first[0] && !first[1..].contains(&true));
}

#[test]
fn both_marks_deliver_the_same_frames() {
    for mark in [Mark::Last, Mark::First] {
        let stream: Vec<_> = (1..=3).flat_map(|fill| cells(fill, mark)).collect();
        assert_eq!(run(mark, &stream), [Ok(1), Ok(2), Ok(3)]);
    }
}

#[test]
fn every_lost_cell_costs_its_frame_and_no_more_than_the_next() {
    for mark in [Mark::Last, Mark::First] {
        let stream: Vec<_> = (1..=4).flat_map(|fill| cells(fill, mark)).collect();
        for lost in 12..24 {
            let kept = stream.iter().enumerate().filter(|(i, _)| *i != lost);
            let results = run(mark, kept.map(|(_, cell)| cell));
            let merged = mark == Mark::Last && lost == 23;
            let good: Vec<_> = results.iter().filter_map(|r| r.ok()).collect();
            let expected: &[u8] = if merged { &[1, 4] } else { &[1, 3, 4] };
            assert_eq!(good, expected, "{mark:?}, cell {lost} lost: {results:?}");
            assert!(
                results.len() > good.len(),
                "{mark:?}, cell {lost} lost: unnoticed"
            );
        }
    }
}

#[test]
fn a_flipped_bit_is_a_crc_error() {
    for mark in [Mark::Last, Mark::First] {
        let mut stream = cells(1, mark);
        stream[5].payload[17] ^= 4;
        assert_eq!(run(mark, &stream), [Err(ReassemblyError::Crc)]);
    }
}

#[test]
fn an_endless_frame_is_reported_once_and_forgotten() {
    let mut vc = Reassembler::new(Mark::Last);
    let filler = Cell {
        pti: Pti::data(false, false),
        ..cells(1, Mark::Last)[0]
    };
    let reports: Vec<_> = (0..5_000).filter_map(|_| vc.push(&filler)).collect();
    assert_eq!(reports, [Err(ReassemblyError::TooLong)]);
    let end = Cell {
        pti: Pti::data(false, true),
        ..filler
    };
    assert_eq!(vc.push(&end), None);
    let after: Vec<_> = cells(7, Mark::Last)
        .iter()
        .filter_map(|cell| vc.push(cell))
        .collect();
    assert!(matches!(after[..], [Ok(_)]));
}

#[test]
fn a_cell_before_any_first_is_an_orphan() {
    let stream = cells(1, Mark::First);
    let results = run(Mark::First, stream[10..].iter().chain(&stream));
    assert_eq!(
        results,
        [
            Err(ReassemblyError::Orphan),
            Err(ReassemblyError::Orphan),
            Ok(1)
        ]
    );
}

#[test]
fn one_congested_cell_marks_the_frame() {
    let mut vc = Reassembler::new(Mark::Last);
    let mut stream = cells(1, Mark::Last);
    stream[3].pti = stream[3].pti.with_congestion();
    stream.extend(cells(2, Mark::Last));
    let frames: Vec<_> = stream.iter().filter_map(|cell| vc.push(cell)).collect();
    let marks: Vec<_> = frames
        .iter()
        .map(|f| f.as_ref().unwrap().congestion)
        .collect();
    assert_eq!(marks, [true, false]);
}

#[test]
fn the_largest_frame_of_the_1996_system_fits_and_no_larger() {
    let full = samples::packet(FrameType::BL, Payload::Zeros(MAX_CELL_PAYLOAD as u32));
    for mark in [Mark::Last, Mark::First] {
        let cells = Segmenter::mets(&full, 0, 100, mark).unwrap();
        assert_eq!(cells.len(), 684);
        let mut vc = Reassembler::new(mark);
        let frames: Vec<_> = cells.filter_map(|cell| vc.push(&cell)).collect();
        let [Ok(frame)] = &frames[..] else {
            panic!("{frames:?}");
        };
        assert_eq!(packet_of(frame.clone()), Ok(full.clone()));
    }
    let above = samples::packet(FrameType::BL, Payload::Zeros(32_769));
    let error = Segmenter::mets(&above, 0, 100, Mark::Last).err();
    assert_eq!(error, Some(SegmentError::TooLong(32_769)));
    let partial = samples::fragment(FrameType::BL, 100, 0, Payload::Zeros(50));
    let error = Segmenter::mets(&partial, 0, 100, Mark::First).err();
    assert_eq!(error, Some(SegmentError::Partial(50)));
}

/// What a repairing reassembler makes of cells: payload and dummies.
fn repaired(mark: Mark, cells: &[Cell]) -> Vec<Result<(Bytes, u32), ReassemblyError>> {
    let mut vc = Reassembler::repairing(mark);
    let frames = cells.iter().filter_map(|cell| vc.push(cell));
    let packets = frames.map(|result| {
        result.map(|frame| {
            let dummies = frame.dummies;
            let packet = packet_of(frame).unwrap();
            let marked = packet.header.flags.contains(Flags::DUMMY);
            assert_eq!(marked, dummies > 0);
            let mut payload = vec![0; packet.payload.len()];
            packet.payload.copy_to(&mut payload);
            (Bytes::from(payload), dummies)
        })
    });
    packets.collect()
}

#[test]
fn dummy_cells_stand_before_the_last_cell_for_those_that_were_lost() {
    let whole = cells(7, Mark::Last);
    let count = whole.len();
    for lost in 1..count - 1 {
        let mut cells = whole.clone();
        cells.remove(lost);
        let got = repaired(Mark::Last, &cells);
        let [Ok((payload, 1))] = &got[..] else {
            panic!("{got:?}")
        };
        // The last cell holds padding and trailer only, and the one before it 44 bytes.
        assert_eq!(payload.len(), LEN as usize);
        assert!(payload[456..].iter().all(|byte| *byte == 0), "cell {lost}");
        let zeros = payload[..456].iter().filter(|byte| **byte == 0).count();
        assert_eq!(zeros, if lost < count - 2 { 4 } else { 0 }, "cell {lost}");
    }
    assert_eq!(
        repaired(Mark::Last, &whole)[0].as_ref().map(|got| got.1),
        Ok(0)
    );
}

#[test]
fn only_a_packet_with_both_ends_is_repaired() {
    let (one, two) = (cells(1, Mark::Last), cells(2, Mark::Last));
    // No first cell: no header. No last cell: two packets run together.
    assert_eq!(
        repaired(Mark::Last, &one[1..]),
        [Err(ReassemblyError::Length)]
    );
    let merged: Vec<Cell> = one[..one.len() - 1].iter().chain(&two).cloned().collect();
    assert_eq!(
        repaired(Mark::Last, &merged),
        [Err(ReassemblyError::Length)]
    );
    // Two packets of different lengths, the end of one and the beginning of the other lost.
    let other = samples::packet(FrameType::E1, Bytes::from(vec![3; 900]).into());
    let other: Vec<Cell> = Segmenter::mets(&other, 0, 100, Mark::Last)
        .unwrap()
        .collect();
    let mixed: Vec<Cell> = one[..2].iter().chain(&other[9..]).cloned().collect();
    assert_eq!(repaired(Mark::Last, &mixed), [Err(ReassemblyError::Length)]);
    let mut flipped = one.clone();
    flipped[3].payload[5] ^= 1;
    assert_eq!(repaired(Mark::Last, &flipped), [Err(ReassemblyError::Crc)]);
    // With the first cell marked nothing tells the last one.
    let first = cells(1, Mark::First);
    let short: Vec<Cell> = first[..3]
        .iter()
        .chain(&first[4..])
        .chain(&first)
        .cloned()
        .collect();
    assert_eq!(
        repaired(Mark::First, &short)[0],
        Err(ReassemblyError::Length)
    );
}

#[test]
fn any_pdu_that_a_frame_takes_comes_back() {
    for len in [1, 40, 41, 1_500, 65_535] {
        let pdu = Bytes::from_iter((0..len).map(|n: usize| n as u8));
        let cells = Segmenter::pdu(Payload::Bytes(pdu.clone()), 1, 32).expect("it fits");
        assert_eq!(cells.len(), aal5_cells(len) as usize);
        let mut vc = Reassembler::new(Mark::Last);
        let frames: Vec<_> = cells.filter_map(|cell| vc.push(&cell)).collect();
        let [Ok(frame)] = &frames[..] else {
            panic!("{len}: {frames:?}");
        };
        assert!(frame.bytes == pdu, "{len}");
    }
    for len in [0, 65_536] {
        assert!(
            Segmenter::pdu(Payload::Zeros(len), 1, 32).is_none(),
            "{len}"
        );
    }
}
