//! A flow of alternative layers at a switch with unlike receivers.

use crate::common::bench::{A, B, Bench, UP, idle, plain};
use crate::common::ends::packet;
use layercast_core::{
    CellRate, Composition, Layer, LayerRate, Level, LevelSet, NodeId, PortId, Rate, Serial,
};
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
    let port = PortConfig {
        rate: Some(Rate::from_bps(kbps * 1_000)),
        ..plain(Carriage::Datagrams)
    };
    let mut bench = idle(port, SwitchConfig::default());
    bench.info = flow(&bench.info);
    let info = bench.info.clone();
    bench.advertise(UP, info);
    bench.join(A, 1);
    bench.join(B, 2);
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

#[test]
fn a_set_in_a_request_for_additive_layers_means_nothing() {
    let mut bench =
        crate::common::bench::bench(plain(Carriage::Datagrams), SwitchConfig::default());
    bench.join(A, 1);
    tell(&mut bench, A, (AdapterKind::Res, 1), 1, set(0b101));
    assert_eq!(asked(&mut bench), Some(LevelSet::EMPTY));
    assert_eq!(bench.info.spec.rate_of_set(LevelSet::EMPTY), CellRate(0));
}
