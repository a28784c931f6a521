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

#[test]
fn sound_is_of_class_s_in_all_its_fragments_and_pictures_are_of_the_class_of_their_layer() {
    for mark in [Mark::First, Mark::Last] {
        let (mut by_cell, mut by_packet) = (selector(mark), selector(mark));
        let mut frame = |seq: u32, layer, is_sound: bool| {
            let mut whole = packet(seq, layer, seq == 0, 3_000);
            whole.header.sound = Sound::new(is_sound, 0);
            let cells = cells(&whole, mark).into_iter();
            let mut classes: Vec<_> = cells
                .map(|cell| by_cell.on_cell(&cell).unwrap().unit.class)
                .collect();
            for fragment in MetsPacket::fragments(whole.header, &whole.payload, 1_176) {
                // As the next node reads it.
                let mut bytes = Vec::new();
                fragment.encode_into(&mut bytes);
                let fragment = MetsPacket::decode(bytes.into(), false).unwrap();
                classes.push(by_packet.on_packet(&fragment.header).unit.class);
            }
            classes.sort();
            classes.dedup();
            classes
        };
        assert_eq!(frame(0, Layer::Base, false), [DataClass::Intra]);
        assert_eq!(frame(1, Layer::Base, true), [DataClass::System]);
        assert_eq!(frame(2, Layer::E2, false), [DataClass::Bidirectional]);
        assert_eq!(frame(3, Layer::Base, true), [DataClass::System]);
        assert_eq!(frame(4, Layer::E1, false), [DataClass::Predicted]);
    }
}

/// Three alternative layers: groups of `length` times, sound at every third one.
fn renditions(times: u32, length: u32) -> Vec<MetsPacket> {
    let (mut seq, mut sound) = (0, 0_u8);
    let mut counts = [0_u8; 3];
    let mut all = Vec::new();
    for time in 0..times {
        for layer in Layer::ALL.into_iter().map(Some).chain([None]) {
            if layer.is_none() && time % 3 > 0 {
                continue;
            }
            let mut packet = packet(seq, Layer::Base, layer.is_some() && time % length == 0, 100);
            let header = &mut packet.header;
            match layer {
                Some(layer) => {
                    header.kind = FrameType::from_layer(layer);
                    counts[layer.index()] = counts[layer.index()].wrapping_add(1);
                }
                None => {
                    header.kind = FrameType::COMMON;
                    sound = sound.wrapping_add(1);
                }
            }
            (header.e1_count, header.e2_count) = (counts[1], counts[2]);
            header.sound = Sound::new(layer.is_none(), sound);
            header.timestamp_us = time;
            header.passing = Passing::carrying(LevelSet::ALL);
            all.push(packet);
            seq += 1;
        }
    }
    all
}

fn alternative() -> Selector {
    let mut info = FlowInfo::new(FLOW, "film", "atc");
    info.spec.composition = layercast_core::Composition::Alternative;
    Selector::new(&info)
}

fn wanting(levels: u8) -> Gate {
    let levels = LevelSet::from_bits(levels).unwrap();
    Gate {
        target: levels.highest().unwrap(),
        levels,
        ..Gate::default()
    }
}

/// What a hop passes, with what it states.
fn hop(selector: &mut Selector, gate: &mut Gate, mut packet: MetsPacket) -> Option<MetsPacket> {
    let step = selector.on_packet(&packet.header);
    let passes = gate.pass(&step, Lowering::NextFrame);
    let stamp = crate::switch::forward::Stamp {
        congested: false,
        passes: gate.stated(),
    };
    packet = match stamp.put_on(layercast_wire::LinkPdu::Mets(packet)) {
        layercast_wire::LinkPdu::Mets(packet) => packet,
        _ => unreachable!(),
    };
    passes.then_some(packet)
}

#[test]
fn a_branch_passes_the_levels_that_it_wants_and_no_other_and_common_frames() {
    for levels in 1..8 {
        let (mut selector, mut gate) = (alternative(), wanting(levels));
        for packet in renditions(12, 4) {
            let kind = packet.header.kind;
            let wanted = match kind {
                FrameType::COMMON => true,
                kind => gate.levels.contains(kind.layer().unwrap().level()),
            };
            let passed = hop(&mut selector, &mut gate, packet);
            assert_eq!(passed.is_some(), wanted, "{levels:03b} {kind}");
            if let Some(packet) = passed {
                assert_eq!(packet.header.passing.set(), Some(gate.levels));
            }
        }
        assert_eq!(selector.unknown_types, 0);
    }
}

#[test]
fn a_level_changes_with_the_group_for_cells_and_datagrams_alike() {
    for (old, new) in [
        (0b001, 0b100),
        (0b100, 0b001),
        (0b010, 0b100),
        (0b101, 0b010),
    ] {
        let (mut by_packet, mut by_cell) = (alternative(), alternative());
        let (mut gate, mut other) = (wanting(old), wanting(old));
        for packet in renditions(8, 4) {
            // In the middle of a group.
            if packet.header.timestamp_us == 2 {
                let next = wanting(new);
                (gate.target, gate.levels) = (next.target, next.levels);
                (other.target, other.levels) = (next.target, next.levels);
            }
            let (time, kind) = (packet.header.timestamp_us, packet.header.kind);
            let wanted = if time < 4 { old } else { new };
            let passes = match kind {
                FrameType::COMMON => true,
                kind => wanted >> kind.layer().unwrap().index() & 1 == 1,
            };
            for cell in cells(&packet, Mark::Last) {
                let step = by_cell.on_cell(&cell).unwrap();
                assert_eq!(
                    other.pass(&step, Lowering::GopStart),
                    passes,
                    "{time} {kind}"
                );
            }
            let passed = hop(&mut by_packet, &mut gate, packet);
            assert_eq!(
                passed.is_some(),
                passes,
                "{old:03b} {new:03b} {time} {kind}"
            );
        }
    }
}

#[test]
fn what_is_wanted_and_does_not_come_is_bridged_for_one_group_by_what_the_branch_had() {
    let (mut selector, mut gate) = (alternative(), wanting(0b100));
    let mut passed = Vec::new();
    for mut packet in renditions(16, 4) {
        let time = packet.header.timestamp_us;
        if time == 2 {
            (gate.target, gate.levels) = (Level::BASE, LevelSet::of(Level::BASE));
        }
        // Upstream, level 2 continues until time 12.
        packet.header.passing = Passing::carrying(match time < 12 {
            true => LevelSet::of(Level::FULL),
            false => LevelSet::of(Level::BASE),
        });
        let comes = packet.header.passing.set().unwrap();
        let layer = packet.header.kind.layer().unwrap();
        if packet.header.kind != FrameType::COMMON && !comes.contains(layer.level()) {
            continue;
        }
        let is_picture = packet.header.kind != FrameType::COMMON;
        if hop(&mut selector, &mut gate, packet).is_some() && is_picture {
            passed.push((time, layer.index()));
        }
    }
    let held = (0..8).map(|time| (time, 2));
    let then = (12..16).map(|time| (time, 0));
    assert_eq!(passed, held.chain(then).collect::<Vec<_>>());
}

mod line {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;
    use crate::sink::{Chooser, GapCounter, GapMark};

    /// What a link does to a datagram.
    #[derive(Clone, Copy, Debug)]
    enum Luck {
        Arrives,
        Lost,
        Twice,
        /// Behind the next one.
        Overtaken,
    }

    fn luck() -> impl Strategy<Value = Luck> {
        prop_oneof![
            20 => Just(Luck::Arrives),
            1 => Just(Luck::Lost),
            1 => Just(Luck::Twice),
            2 => Just(Luck::Overtaken),
        ]
    }

    #[derive(Default)]
    struct Link {
        held: Option<MetsPacket>,
        lost: BTreeSet<u32>,
    }

    impl Link {
        fn carry(&mut self, packet: MetsPacket, luck: Luck) -> Vec<MetsPacket> {
            let mut out = Vec::new();
            match luck {
                Luck::Lost => {
                    self.lost.insert(packet.header.seq.0);
                }
                Luck::Overtaken if self.held.is_none() => {
                    self.held = Some(packet);
                    return out;
                }
                Luck::Twice => out.extend([packet.clone(), packet]),
                _ => out.push(packet),
            }
            out.extend(self.held.take());
            out
        }
    }

    proptest! {
        #[test]
        fn behind_a_line_of_switches_each_time_has_one_picture_or_a_cause(
            wants in prop::collection::vec(0u8..=2, 12),
            lags in prop::collection::vec(0u32..4, 12),
            lucks in prop::collection::vec((luck(), luck()), 600),
        ) {
            const GROUP: u32 = 8;
            let all = renditions(GROUP * 12, GROUP);
            let (mut first, mut near) = (alternative(), wanting(1));
            let (mut second, mut far) = (alternative(), wanting(1));
            let (mut uplink, mut downlink) = (Link::default(), Link::default());
            let mut spec = FlowSpec {
                composition: layercast_core::Composition::Alternative,
                ..FlowSpec::default()
            };
            for layer in Layer::ALL {
                spec.layers[layer].mean = layercast_core::CellRate(100);
            }
            let mut chooser = Chooser::of(&spec).unwrap();
            let mut got: BTreeMap<u32, (MetsHeader, Level)> = BTreeMap::new();
            for (n, packet) in all.iter().enumerate() {
                let time = packet.header.timestamp_us;
                let group = (time / GROUP) as usize;
                // Both change within a group, one after the other.
                let want = Level::new(wants[group]).unwrap();
                for (gate, at) in [(&mut far, 2), (&mut near, 2 + lags[group])] {
                    if time % GROUP == at {
                        (gate.target, gate.levels) = (want, LevelSet::of(want));
                    }
                }
                let (up, down) = lucks[n];
                let on_the_way = hop(&mut first, &mut near, packet.clone());
                let arrived = on_the_way.into_iter().flat_map(|it| uplink.carry(it, up));
                for packet in arrived.collect::<Vec<_>>() {
                    let Some(packet) = hop(&mut second, &mut far, packet) else {
                        continue;
                    };
                    for packet in downlink.carry(packet, down) {
                        let header = packet.header;
                        let layer = header.kind.layer().unwrap();
                        if let Some(level) = chooser.choose(&header, layer, want) {
                            got.entry(header.seq.0).or_insert((header, level));
                        }
                    }
                }
            }
            let mut gaps = GapCounter::new(&spec);
            let (mut times, mut missing, mut so_far, mut last) = (BTreeSet::new(), 0, 0, None);
            let mut rendition = None;
            // A receiver begins with a key frame.
            let begins = |(header, _): &&(MetsHeader, Level)| header.flags.contains(Flags::GOP_START);
            for (header, level) in got.values().skip_while(|it| !begins(it)) {
                let layer = header.kind.layer().unwrap();
                let gap = gaps.advance(GapMark {
                    seq: header.seq,
                    layer,
                    gop_start: header.flags.contains(Flags::GOP_START),
                    e1_count: header.e1_count,
                    e2_count: header.e2_count,
                    sound: header.sound,
                    level: *level,
                    source: None,
                    again: false,
                });
                let lost = gap.lost;
                so_far += lost.base + lost.e1 + lost.e2 - gap.sound;
                if header.kind == FrameType::COMMON {
                    continue;
                }
                missing = so_far;
                // Never two pictures of one time.
                prop_assert!(times.insert(header.timestamp_us), "{:?}", header);
                let is_key = header.flags.contains(Flags::GOP_START);
                if rendition.replace(layer).is_some_and(|before| before != layer) && !is_key {
                    // The key frame is lost on a link.
                    let key = header.timestamp_us / GROUP * GROUP;
                    let keys = all.iter().filter(|it| it.header.timestamp_us == key);
                    let seqs = keys.map(|it| it.header.seq.0).collect::<Vec<_>>();
                    let lost = |link: &Link| seqs.iter().any(|seq| link.lost.contains(seq));
                    let held = |link: &Link| {
                        link.held.as_ref().is_some_and(|it| seqs.contains(&it.header.seq.0))
                    };
                    let is_lost = [&uplink, &downlink].into_iter().any(|it| lost(it) || held(it));
                    prop_assert!(is_lost, "{:?}", header);
                }
                last = Some(header.timestamp_us);
            }
            // Each time before the last one has a picture, or one that is lost.
            let (start, end) = (times.first().copied(), last);
            if let (Some(start), Some(end)) = (start, end) {
                let without = (start..end).filter(|time| !times.contains(time)).count();
                let is_clean = uplink.lost.is_empty() && downlink.lost.is_empty();
                prop_assert!(!is_clean || without == 0, "{} times without a picture", without);
                prop_assert_eq!(missing as usize, without);
            }
        }
    }
}
