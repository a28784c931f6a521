use super::*;
use layercast_wire::{MetsPacket, Passing, Payload, Segmenter, Sound, Waited};

const FLOW: FlowId = FlowId(7);

fn packet(seq: u32, layer: Layer, gop_start: bool, len: u32) -> MetsPacket {
    let mut flags = Flags::FIRST | Flags::LAST;
    if gop_start {
        flags |= Flags::GOP_START;
    }
    MetsPacket {
        header: MetsHeader {
            kind: FrameType::from_layer(layer),
            flags,
            flow: FLOW,
            seq: Serial(seq),
            timestamp_us: 0,
            e1_count: 0,
            e2_count: 0,
            alf_len: len,
            offset: 0,
            waited: Waited::default(),
            sound: Sound::default(),
            passing: Passing::default(),
        },
        payload: Payload::Zeros(len),
        congestion: false,
    }
}

/// I B P B I: levels 0, 2, 1, 2, 0.
fn trace() -> Vec<MetsPacket> {
    [
        Layer::Base,
        Layer::E2,
        Layer::E1,
        Layer::E2,
        Layer::Base,
        Layer::E1,
    ]
    .into_iter()
    .enumerate()
    .map(|(i, layer)| packet(i as u32, layer, layer == Layer::Base, 100 + 90 * i as u32))
    .collect()
}

fn cells(packet: &MetsPacket, mark: Mark) -> Vec<Cell> {
    Segmenter::mets(packet, 0, 64, mark).unwrap().collect()
}

fn selector(mark: Mark) -> Selector {
    Selector::new(&FlowInfo {
        aal5_mark: mark,
        ..FlowInfo::new(FLOW, "film", "atc")
    })
}

fn gate(level: Level) -> Gate {
    Gate {
        target: level,
        ..Gate::default()
    }
}

fn passed(mark: Mark, level: Level) -> Vec<bool> {
    let (mut selector, mut gate) = (selector(mark), gate(level));
    let trace = trace();
    let cells = trace.iter().flat_map(|packet| cells(packet, mark));
    cells
        .map(|cell| gate.pass(&selector.on_cell(&cell).unwrap(), Lowering::GopStart))
        .collect()
}

#[test]
fn both_marks_forward_the_same() {
    for level in [Level::BASE, Level::E1, Level::FULL] {
        assert_eq!(passed(Mark::First, level), passed(Mark::Last, level));
    }
    assert!(passed(Mark::Last, Level::FULL).iter().all(|&pass| pass));
    assert!(passed(Mark::Last, Level::BASE).contains(&false));
}

#[test]
fn cells_and_datagrams_get_the_same_answers() {
    let (mut by_cell, mut by_packet) = (selector(Mark::Last), selector(Mark::Last));
    let (mut a, mut b) = (gate(Level::E1), gate(Level::E1));
    for packet in trace() {
        let whole = b.pass(&by_packet.on_packet(&packet.header), Lowering::GopStart);
        for cell in cells(&packet, Mark::Last) {
            let step = by_cell.on_cell(&cell).unwrap();
            assert_eq!(a.pass(&step, Lowering::GopStart), whole);
        }
    }
}

#[test]
fn a_mask_changed_in_mid_frame_waits_for_the_gop() {
    let (mut selector, mut gate) = (selector(Mark::Last), gate(Level::FULL));
    let mut pass = |gate: &mut Gate, cell: &Cell, how| {
        let step = selector.on_cell(cell).unwrap();
        gate.pass(&step, how)
    };
    for cell in cells(&packet(0, Layer::Base, true, 500), Mark::Last) {
        assert!(pass(&mut gate, &cell, Lowering::GopStart));
    }
    for (i, cell) in cells(&packet(1, Layer::E2, false, 500), Mark::Last)
        .iter()
        .enumerate()
    {
        if i == 3 {
            gate.target = Level::BASE;
        }
        assert!(
            pass(&mut gate, cell, Lowering::GopStart),
            "the frame stays whole"
        );
    }
    let e1 = cells(&packet(2, Layer::E1, false, 10), Mark::Last);
    assert!(
        pass(&mut gate, &e1[0], Lowering::GopStart),
        "the GOP stays whole"
    );
    let e1 = cells(&packet(3, Layer::E1, false, 10), Mark::Last);
    assert!(!pass(&mut gate, &e1[0], Lowering::NextFrame));
    gate.target = Level::FULL;
    let e1 = cells(&packet(4, Layer::E1, false, 10), Mark::Last);
    assert!(
        !pass(&mut gate, &e1[0], Lowering::NextFrame),
        "raising waits for a GOP"
    );
    let base = cells(&packet(5, Layer::Base, true, 10), Mark::Last);
    assert!(pass(&mut gate, &base[0], Lowering::NextFrame));
    let e2 = cells(&packet(6, Layer::E2, false, 10), Mark::Last);
    assert!(pass(&mut gate, &e2[0], Lowering::NextFrame));
}

#[test]
fn after_a_lost_end_the_next_frame_is_found_by_its_header() {
    let (mut selector, mut gate) = (selector(Mark::Last), gate(Level::BASE));
    for cell in cells(&packet(0, Layer::Base, true, 200), Mark::Last) {
        assert!(gate.pass(&selector.on_cell(&cell).unwrap(), Lowering::GopStart));
    }
    let e2 = cells(&packet(1, Layer::E2, false, 400), Mark::Last);
    for cell in &e2[..e2.len() - 1] {
        assert!(!gate.pass(&selector.on_cell(cell).unwrap(), Lowering::GopStart));
    }
    for cell in cells(&packet(2, Layer::Base, true, 200), Mark::Last) {
        assert!(gate.pass(&selector.on_cell(&cell).unwrap(), Lowering::GopStart));
    }
    assert_eq!(selector.resyncs, 1);
}

#[test]
fn a_packet_without_end_is_over_when_its_length_is() {
    let mut selector = selector(Mark::Last);
    let mut endless = cells(&packet(0, Layer::E1, false, 100), Mark::Last)[0];
    endless.payload[2] = 0;
    for i in 0..=GUARD {
        let step = selector.on_cell(&endless_body(&endless, i)).unwrap();
        assert_eq!(step.unit.packet_start, i == 0 || i == GUARD, "cell {i}");
    }
}

fn endless_body(first: &Cell, i: u32) -> Cell {
    let mut cell = *first;
    if i > 0 {
        cell.payload = [0xff; 48];
    }
    cell.pti = layercast_wire::Pti::default();
    cell
}

#[test]
fn unknown_types_go_everywhere_and_are_counted() {
    let (mut selector, mut gate) = (selector(Mark::Last), gate(Level::BASE));
    let mut probe = packet(0, Layer::Base, false, 10);
    probe.header.kind = FrameType(0x77);
    assert!(gate.pass(&selector.on_packet(&probe.header), Lowering::GopStart));
    assert_eq!(selector.unknown_types, 1);
    assert_eq!(gate.mask, None, "an unknown type starts no GOP");
}

#[test]
fn with_the_first_cell_marked_cells_before_it_are_orphans() {
    let mut selector = selector(Mark::First);
    let cells = cells(&packet(0, Layer::Base, true, 200), Mark::First);
    assert_eq!(selector.on_cell(&cells[1]), None);
    assert!(selector.on_cell(&cells[0]).is_some());
    assert!(selector.on_cell(&cells[1]).is_some());
}

#[test]
fn a_parity_goes_with_the_base_layer_and_leaves_the_frame_around_it_alone() {
    for (mark, level) in [(Mark::Last, Level::BASE), (Mark::Last, Level::FULL)] {
        let (mut selector, mut gate) = (selector(mark), gate(level));
        let mut parity = packet(0, Layer::Base, false, 300);
        parity.header.kind = FrameType::PARITY;
        let mut early = cells(&parity, mark).into_iter();
        assert!(
            early.all(|it| !gate.pass(&selector.on_cell(&it).unwrap(), Lowering::NextFrame)),
            "nothing before the first GOP"
        );
        for cell in cells(&packet(0, Layer::Base, true, 200), mark) {
            assert!(gate.pass(&selector.on_cell(&cell).unwrap(), Lowering::NextFrame));
        }
        let mut fragment = packet(1, Layer::E2, false, 200);
        fragment.header.alf_len = 400;
        fragment.header.flags = Flags::FIRST;
        let mut passes = |gate: &mut Gate, packet: &MetsPacket, starts: bool| {
            let cells = cells(packet, mark);
            let steps: Vec<Step> = cells
                .iter()
                .map(|cell| selector.on_cell(cell).unwrap())
                .collect();
            assert!(steps.iter().skip(1).all(|it| !it.unit.frame_start));
            assert_eq!(steps[0].unit.frame_start, starts);
            let parity = packet.header.kind == FrameType::PARITY;
            assert!(steps.iter().all(|it| it.parity == parity));
            let passed = steps.iter().filter(|it| gate.pass(it, Lowering::NextFrame));
            passed.count() == steps.len()
        };
        let full = level == Level::FULL;
        assert_eq!(passes(&mut gate, &fragment, true), full);
        // However far behind the parity is.
        parity.header.seq = Serial(u32::MAX - 100);
        gate.target = Level::BASE;
        assert!(passes(&mut gate, &parity, true));
        (fragment.header.offset, fragment.header.flags) = (200, Flags::LAST);
        assert_eq!(
            passes(&mut gate, &fragment, false),
            full,
            "the frame stays whole"
        );
    }
}

#[test]
fn fragments_share_the_fate_of_their_frame() {
    let (mut selector, mut gate) = (selector(Mark::Last), gate(Level::FULL));
    let mut header = packet(0, Layer::Base, true, 3_000).header;
    assert!(gate.pass(&selector.on_packet(&header), Lowering::NextFrame));
    header.kind = FrameType::E2;
    header.seq = Serial(1);
    header.flags = Flags::FIRST;
    assert!(gate.pass(&selector.on_packet(&header), Lowering::NextFrame));
    gate.target = Level::BASE;
    header.flags = Flags::LAST;
    header.offset = 1_176;
    let step = selector.on_packet(&header);
    assert!(!step.unit.frame_start);
    assert!(gate.pass(&step, Lowering::NextFrame));
}
