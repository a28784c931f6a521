//! Segmentation and reassembly, and what loss does to them.

use bytes::Bytes;
use layercast_wire::{
    Cell, FrameType, MAX_CELL_PAYLOAD, Mark, MetsPacket, Payload, Pti, Reassembler,
    ReassemblyError, SegmentError, Segmenter, packet_of,
};

#[path = "samples/pdus.rs"]
mod samples;

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
