//! A flow of alternative layers at a switch with unlike receivers.

use crate::common::bench::{A, B, Bench, UP, idle, plain};
use crate::common::ends::packet;
use layercast_core::{
    CellRate, Composition, Layer, LayerRate, Level, LevelSet, NodeId, PortId, Rate, Serial, Span,
};
use layercast_link::LatePromise;
use layercast_mets::switch::{PortConfig, SwitchConfig, SwitchInput, SwitchTransmit};
use layercast_wire::{
    AdapterKind, AdapterMsg, Carriage, FlowInfo, FrameType, LinkPdu, Passing, Sound,
};

const ALL: LevelSet = LevelSet::ALL;

fn set(bits: u8) -> LevelSet {
    LevelSet::from_bits(bits).unwrap()
}

/// Three renditions of 300, 900 and 2,500 kbit/s.
fn flow(info: &FlowInfo) -> FlowInfo {
    let mut info = info.clone();
    info.spec.composition = Composition::Alternative;
    for (layer, kbps) in [(Layer::Base, 300), (Layer::E1, 900), (Layer::E2, 2_500)] {
        let mean = Rate::from_bps(kbps * 1_000).cells();
        info.spec.layers[layer] = LayerRate {
            mean,
            ..LayerRate::default()
        };
    }
    assert_eq!(info.spec.validate(), Ok(()));
    info
}

/// Receivers 1 at A and 2 at B, behind links of `kbps`.
fn joined(kbps: u64) -> Bench {
    let mut bench = idle_link(kbps);
    bench.join(A, 1);
    bench.join(B, 2);
    bench
}

/// Without receivers.
fn idle_link(kbps: u64) -> Bench {
    let port = PortConfig {
        rate: Some(Rate::from_bps(kbps * 1_000)),
        ..plain(Carriage::Datagrams)
    };
    let mut bench = idle(port, SwitchConfig::default());
    bench.info = flow(&bench.info);
    let info = bench.info.clone();
    bench.advertise(UP, info);
    bench
}

fn tell(
    bench: &mut Bench,
    port: PortId,
    (kind, era): (AdapterKind, u32),
    origin: u32,
    levels: LevelSet,
) -> Vec<SwitchTransmit> {
    let max = levels.highest().unwrap();
    let message = AdapterMsg {
        levels,
        ..crate::common::ends::message(&bench.info, kind, Serial(era), NodeId(origin), max)
    };
    let pdu = LinkPdu::Adapter(message);
    bench.give(SwitchInput::Pdu { port, pdu })
}

/// The levels that the switch asks for in the next eras.
fn asked(bench: &mut Bench) -> Option<LevelSet> {
    let until = bench.now + layercast_core::Span::from_secs(2);
    let out = bench.run(until);
    let res = out.iter().filter_map(|it| match it {
        SwitchTransmit::Pdu {
            port: UP,
            pdu: LinkPdu::Adapter(message),
            ..
        } => Some(message.levels),
        _ => None,
    });
    res.last()
}

/// The types of the frames of a group that go to each port, and what they state.
fn group(
    bench: &mut Bench,
    first: u32,
    carried: LevelSet,
) -> Vec<(PortId, FrameType, Option<LevelSet>)> {
    let mut all = Vec::new();
    for (place, layer) in Layer::ALL.into_iter().map(Some).chain([None]).enumerate() {
        let mut packet = packet(
            &bench.info,
            first + place as u32,
            Layer::Base,
            100,
            0,
            1_000,
        );
        match layer {
            Some(layer) => packet.header.kind = FrameType::from_layer(layer),
            None => {
                packet.header.kind = FrameType::COMMON;
                packet.header.flags = layercast_wire::Flags(packet.header.flags.0 & !1);
                packet.header.sound = Sound::new(true, 1);
            }
        }
        packet.header.passing = Passing::carrying(carried);
        if layer.is_some_and(|layer| !carried.contains(layer.level())) {
            continue;
        }
        let pdu = LinkPdu::Mets(packet);
        let mut out = bench.give(SwitchInput::Pdu { port: UP, pdu });
        let until = bench.now + layercast_core::Span::from_ms(10);
        out.extend(bench.run(until));
        all.extend(out.into_iter().filter_map(|it| match it {
            SwitchTransmit::Pdu {
                port,
                pdu: LinkPdu::Mets(packet),
                ..
            } => Some((port, packet.header.kind, packet.header.passing.set())),
            _ => None,
        }));
    }
    all.sort_by_key(|it| (it.0.0, it.1));
    all
}

#[test]
fn the_branch_upstream_carries_the_levels_of_unlike_receivers_and_no_others() {
    let mut bench = joined(10_000);
    tell(&mut bench, A, (AdapterKind::Res, 1), 1, set(0b001));
    tell(&mut bench, B, (AdapterKind::Res, 1), 2, set(0b100));
    assert_eq!(
        asked(&mut bench),
        Some(set(0b101)),
        "level 1 is wanted nowhere"
    );
    tell(&mut bench, UP, (AdapterKind::Adapt, 1), 9, set(0b101));
    let passed = group(&mut bench, 0, set(0b101));
    let (low, high) = (Some(set(0b001)), Some(set(0b100)));
    let expected = [
        (A, FrameType::BL, low),
        (A, FrameType::COMMON, low),
        (B, FrameType::E2, high),
        (B, FrameType::COMMON, high),
    ];
    assert_eq!(passed, expected);
}

#[test]
fn a_link_without_room_for_a_level_carries_the_next_lower_one() {
    // 2,500 kbit/s do not fit, 900 do.
    let mut bench = joined(1_500);
    for port in [A, B] {
        tell(
            &mut bench,
            port,
            (AdapterKind::Res, 1),
            u32::from(port.0),
            set(0b100),
        );
    }
    assert_eq!(asked(&mut bench), Some(set(0b010)));
    tell(&mut bench, UP, (AdapterKind::Adapt, 1), 9, set(0b010));
    let kinds = group(&mut bench, 0, ALL).into_iter().map(|it| (it.0, it.1));
    let each = [FrameType::E1, FrameType::COMMON];
    let expected = [A, B]
        .into_iter()
        .flat_map(|port| each.map(|kind| (port, kind)));
    assert_eq!(kinds.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    // Level 1 takes its own rate, not that of level 0 besides.
    let granted = bench.switch.granted_on(A);
    assert_eq!(granted, bench.info.spec.rate_at(Level::E1));
}

/// Receivers 1 and 2 listen to one link of `kbps`: one wants the lowest level, the other one the highest.
fn unlike_members(kbps: u64) -> Bench {
    let mut bench = joined(kbps);
    tell(&mut bench, A, (AdapterKind::Res, 1), 1, set(0b001));
    tell(&mut bench, A, (AdapterKind::Res, 1), 2, set(0b100));
    tell(&mut bench, B, (AdapterKind::Res, 1), 2, set(0b001));
    bench
}

#[test]
fn a_link_that_unlike_receivers_listen_to_carries_the_sum_of_their_levels() {
    // 300 and 2,500 kbit/s fit, or else 300 and 900; 900 are not too much for both.
    for (kbps, wanted) in [
        (3_500, 0b101),
        (2_700, 0b011),
        (1_400, 0b011),
        (1_100, 0b001),
    ] {
        let mut bench = unlike_members(kbps);
        let wanted = set(wanted);
        assert_eq!(asked(&mut bench), Some(wanted), "{kbps}");
        tell(&mut bench, UP, (AdapterKind::Adapt, 1), 9, wanted);
        let passed = group(&mut bench, 0, ALL);
        let here = passed
            .iter()
            .filter(|it| it.0 == A && it.1 != FrameType::COMMON);
        let kinds = here.map(|it| (it.1, it.2));
        let expected = Layer::ALL
            .into_iter()
            .filter(|layer| wanted.contains(layer.level()))
            .map(|layer| (FrameType::from_layer(layer), Some(wanted)));
        assert_eq!(
            kinds.collect::<Vec<_>>(),
            expected.collect::<Vec<_>>(),
            "{kbps}"
        );
        assert_eq!(
            bench.switch.granted_on(A),
            bench.info.spec.rate_of_set(wanted)
        );
        assert!(bench.switch.granted_on(A).rate() <= Rate::from_bps(kbps * 1_000));
    }
}

#[test]
fn the_carried_share_counts_the_level_of_one_receiver_and_the_sum_for_unlike_ones() {
    let share = |bench: &Bench| {
        let nominal = &bench.info.spec;
        bench
            .switch
            .carried_share(bench.info.id, nominal, |_| 1.0)
            .unwrap()
    };
    // Base layers may take nine tenths of a line: the highest level alone limits here.
    let mut bench = joined(1_250);
    tell(&mut bench, A, (AdapterKind::Res, 1), 1, set(0b100));
    assert!((share(&bench) - 0.5).abs() < 0.01, "{}", share(&bench));
    let mut bench = joined(2_500);
    tell(&mut bench, A, (AdapterKind::Res, 1), 1, set(0b100));
    assert!(
        share(&bench) > 0.99,
        "not the sum of the levels: {}",
        share(&bench)
    );
    // What one of them falls back to is no reason to send less.
    tell(&mut bench, A, (AdapterKind::Res, 2), 1, set(0b001));
    assert!(share(&bench) > 0.99, "{}", share(&bench));
    let mut bench = idle_link(2_500);
    bench.join(A, 1);
    bench.join(A, 2);
    tell(&mut bench, A, (AdapterKind::Res, 1), 1, set(0b001));
    tell(&mut bench, A, (AdapterKind::Res, 1), 2, set(0b100));
    let sum = 2_500.0 / 2_800.0;
    assert!((share(&bench) - sum).abs() < 0.01, "{}", share(&bench));
}

#[test]
fn base_layers_in_whose_place_others_pass_are_not_given_away_by_measurement() {
    let admitted = |passing: LevelSet| {
        let port = PortConfig {
            rate: Some(Rate::from_bps(1_000_000)),
            measured: Some(LatePromise {
                period: Span::from_secs(10),
                ..LatePromise::default()
            }),
            ..plain(Carriage::Datagrams)
        };
        let mut bench = idle(port, SwitchConfig::default());
        bench.info.spec.composition = Composition::Alternative;
        let info = bench.info.clone();
        bench.advertise(UP, info.clone());
        bench.join(A, 1);
        tell(&mut bench, A, (AdapterKind::Res, 1), 1, passing);
        assert_eq!(asked(&mut bench), Some(passing));
        tell(&mut bench, UP, (AdapterKind::Adapt, 1), 9, passing);
        assert!(!group(&mut bench, 0, passing).is_empty());
        bench.run(bench.now + Span::from_ms(1_300));
        let others = (2..=9).filter(|&id| {
            let other = crate::common::ends::Source::canyon(id, Carriage::Datagrams).info;
            let flow = other.id;
            bench.advertise(UP, other);
            bench.join_flow((flow, UP), A, 10 + id);
            bench.refusals().is_empty()
        });
        others.count()
    };
    // Of 2,358 cells/s each base layer takes 480; nothing was sent lately.
    assert_eq!(admitted(set(0b001)), 4);
    assert_eq!(
        admitted(set(0b010)),
        3,
        "room for the base layer of the first"
    );
}

#[test]
fn a_set_in_a_request_for_additive_layers_means_nothing() {
    let mut bench =
        crate::common::bench::bench(plain(Carriage::Datagrams), SwitchConfig::default());
    bench.join(A, 1);
    tell(&mut bench, A, (AdapterKind::Res, 1), 1, set(0b101));
    assert_eq!(asked(&mut bench), Some(LevelSet::EMPTY));
    assert_eq!(bench.info.spec.rate_of_set(LevelSet::EMPTY), CellRate(0));
}
