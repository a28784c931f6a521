//! Sealed media: which members can play them, the effect of attacks, and the cost of a new key.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::common::*;
use layercast_core::{Layer, Level, NodeId, PerLayer, Span};
use layercast_mets::{SinkConfig, SinkEvent, SinkInput, Source, SourceEvent, SourceInput};
use layercast_protect::{
    Claims, ExchangeKey, MediaCipher, Place, Seed, Signer, Token, WallClock, open_grant,
};
use layercast_wire::{
    Carriage, Downward, LinkPdu, Member, MemberReport, Payload, Resource, Signal, Upward,
};

const CARRIAGES: [Carriage; 2] = [Carriage::Cells, Carriage::Datagrams];
const NONE: PerLayer<u64> = PerLayer {
    base: 0,
    e1: 0,
    e2: 0,
};

fn sealed<'a>(carriage: Carriage, gops: usize) -> World<'a> {
    let sink = sealed_sink(carriage, Some(token("dwp", Level::FULL, 3_600)));
    World::new(sealed_source(carriage, true), sink, gops)
}

fn check_content(world: &World) {
    for frame in world.played() {
        let expected = content(frame.seq.0 as usize, frame.payload.len());
        assert_eq!(frame.payload, bytes::Bytes::from(expected).into());
    }
}

#[test]
fn sealed_frames_arrive_whole_and_nobody_reads_them_on_the_way() {
    for carriage in CARRIAGES {
        let readable = RefCell::new(0);
        let mut world = sealed(carriage, 30);
        world.down = Box::new(|_, pdu| {
            let bytes = match pdu {
                LinkPdu::Mets(packet) => match &packet.payload {
                    Payload::Bytes(bytes) => bytes.to_vec(),
                    Payload::Zeros(_) => panic!("not sealed"),
                },
                LinkPdu::Cell(cell) => cell.payload.to_vec(),
                LinkPdu::Adapter(_) => vec![],
            };
            // Consecutive octets of the content differ by 31.
            let runs = bytes.windows(8).filter(|run| {
                run.windows(2)
                    .all(|pair| pair[1].wrapping_sub(pair[0]) == 31)
            });
            *readable.borrow_mut() += runs.count();
            vec![Span::from_ms(5)]
        });
        world.run_until(ms(30_000));
        let (stats, sent) = (world.sink.stats(), world.source.stats().sent);
        assert_eq!(
            (stats.played, stats.lost, stats.late),
            (sent, NONE, NONE),
            "{carriage:?}"
        );
        assert_eq!((stats.dropped.forged, sent.base), (0, 30));
        check_content(&world);
        drop(world);
        assert_eq!(readable.into_inner(), 0);
    }
}

#[test]
fn without_a_token_there_is_nothing_neither_a_join_nor_a_frame() {
    let no_token: [SinkConfig; 4] = [
        sealed_sink(Carriage::Datagrams, None),
        sink_config(Carriage::Datagrams),
        sealed_sink(Carriage::Datagrams, Some(token("njy", Level::FULL, 3_600))),
        sealed_sink(Carriage::Datagrams, Some(token("dwp", Level::FULL, 0))),
    ];
    for config in no_token {
        let mut world = World::new(sealed_source(Carriage::Datagrams, true), config, 10);
        world.run_until(ms(500));
        let refused = |event: &SinkEvent| match event {
            SinkEvent::Refused(refusal) => Some(refusal.resource),
            _ => None,
        };
        let why = world.events.iter().find_map(|(_, event)| refused(event));
        assert!(
            matches!(why, Some(Resource::Token | Resource::TokenExpired)),
            "{why:?}"
        );
        // A switch that does not care lets it join all the same.
        let flow = world.source.flow().id;
        world.input(SinkInput::Rejoin);
        let (vci, level) = (64, Level::BASE);
        world.input(SinkInput::Signal(Signal::JoinAck {
            flow,
            vci,
            level,
            agreed: None,
        }));
        world.run_until(ms(20_000));
        let stats = world.sink.stats();
        assert_eq!(stats.played, NONE);
        assert!(stats.dropped.unkeyed > 100, "{stats:?}");
    }
}

#[test]
fn a_flow_of_another_source_counts_for_nothing() {
    let right = sealed_source(Carriage::Datagrams, false);
    let mut source = right.clone();
    if let Some(protection) = &mut source.protection {
        protection.identity = Seed([9; 32]);
    }
    let clear = source_config(Carriage::Datagrams, 300);
    for source in [source, clear] {
        let mut world = World::new(source, sealed_sink(Carriage::Datagrams, None), 10);
        world.run_until(ms(500));
        assert_eq!(world.sink.stats().joins, 0);
        assert!(world.sink.awaits_flow(), "that of its source may come");
        let known = World::new(right.clone(), sealed_sink(Carriage::Datagrams, None), 10);
        let flow = Box::new(known.source.flow().clone());
        world.input(SinkInput::Signal(Signal::Advertise { flow }));
        assert_eq!(world.sink.stats().joins, 1);
    }
}

#[test]
fn forged_media_are_counted_and_change_nothing() {
    for carriage in CARRIAGES {
        let mut world = sealed(carriage, 30);
        let mut forged = 0;
        for step in 0..200 {
            world.run_until(ms(2_000 + step * 50));
            let Some(frame) = world.played().last().cloned() else {
                continue;
            };
            // A plausible packet of a frame to come, as a switch on the way could make it.
            for ahead in [1, 2, 13] {
                let mut fake = any_packet();
                let LinkPdu::Mets(packet) = &mut fake else {
                    panic!()
                };
                packet.header.seq = frame.seq.plus(ahead);
                packet.header.alf_len = 10;
                packet.header.flags |= layercast_wire::Flags::LAST;
                packet.header.flags |= layercast_wire::Flags::GOP_START;
                for len in [10, 60] {
                    packet.header.alf_len = len;
                    packet.payload = vec![world.now.as_us() as u8; len as usize].into_payload();
                    world.input(SinkInput::Pdu(LinkPdu::Mets(packet.clone())));
                    forged += 1;
                }
            }
        }
        world.run_until(ms(40_000));
        let (stats, sent) = (world.sink.stats(), world.source.stats().sent);
        assert_eq!((stats.played, stats.lost), (sent, NONE), "{carriage:?}");
        assert_eq!(stats.dropped.forged + stats.dropped.unkeyed, forged);
        check_content(&world);
    }
}

trait IntoPayload {
    fn into_payload(self) -> Payload;
}

impl IntoPayload for Vec<u8> {
    fn into_payload(self) -> Payload {
        Payload::Bytes(self.into())
    }
}

#[test]
fn a_changed_header_is_as_bad_as_changed_media() {
    let recorded: RefCell<Vec<LinkPdu>> = RefCell::default();
    let mut changes = 0;
    let mut world = sealed(Carriage::Datagrams, 10);
    world.down = Box::new(|now, pdu| {
        if now > ms(3_000) && matches!(pdu, LinkPdu::Mets(_)) && recorded.borrow().len() < 50 {
            recorded.borrow_mut().push(pdu.clone());
            return vec![];
        }
        vec![Span::from_ms(5)]
    });
    world.run_until(ms(5_000));
    for pdu in recorded.borrow().iter() {
        let LinkPdu::Mets(packet) = pdu else { continue };
        let mut later = packet.clone();
        later.header.timestamp_us = later.header.timestamp_us.wrapping_add(1);
        let mut counted = packet.clone();
        counted.header.e1_count ^= 1;
        for packet in [later, counted] {
            changes += 1;
            world.input(SinkInput::Pdu(LinkPdu::Mets(packet)));
        }
    }
    assert_eq!(world.sink.stats().dropped.forged, changes);
}

#[test]
fn replayed_media_play_nothing_twice() {
    let recorded: RefCell<Vec<LinkPdu>> = RefCell::new(Vec::new());
    let mut world = sealed(Carriage::Datagrams, 60);
    world.down = Box::new(|_, pdu| {
        if matches!(pdu, LinkPdu::Mets(_)) && recorded.borrow().len() < 2_000 {
            recorded.borrow_mut().push(pdu.clone());
        }
        vec![Span::from_ms(5)]
    });
    for round in 0..10 {
        world.run_until(ms(4_000 + 2_000 * round));
        if round == 5 {
            // The channel breaks and comes back: a good moment to offer an old GOP.
            world.input(SinkInput::LinkDown);
            world.advertise();
            world.run_until(ms(4_000 + 2_000 * round + 5));
        }
        for pdu in recorded.borrow().clone() {
            world.input(SinkInput::Pdu(pdu));
        }
    }
    world.run_until(ms(50_000));
    let mut times = BTreeMap::new();
    for frame in world.played() {
        *times.entry(frame.seq.0).or_insert(0) += 1;
    }
    assert!(times.values().all(|&times| times == 1));
    let (stats, sent) = (world.sink.stats(), world.source.stats().sent);
    assert_eq!((stats.played, stats.lost), (sent, NONE));
}

#[test]
fn a_key_that_comes_late_costs_only_what_was_before_it() {
    let mut world = sealed(Carriage::Datagrams, 30);
    world.run_until(ms(2));
    world.signal_delay = Span::from_ms(3_700);
    world.run_until(ms(40_000));
    let stats = world.sink.stats();
    let first = world.played().next().unwrap();
    assert!(first.gop_start && first.layer == Layer::Base && first.seq.0 > 48);
    assert_eq!((stats.lost, stats.late), (NONE, NONE));
    assert!(stats.dropped.unkeyed > 0);
}

/// A second member, which records every packet and every key that it gets.
struct Member2 {
    exchange: ExchangeKey,
    member: Member,
}

impl Member2 {
    fn new() -> Member2 {
        Member2 {
            exchange: ExchangeKey::new([7; 32]),
            member: Member {
                name: "njy".into(),
                id: NodeId(5),
            },
        }
    }

    fn request(&self, world: &mut World, seconds: u64) {
        let token = token("njy", Level::FULL, seconds);
        let flow = world.source.flow().id;
        let unix = EPOCH + world.now.as_us() / 1_000_000;
        let proof = token.prove(flow, ("njy", NodeId(5)), self.exchange.public(), unix);
        let body = Upward::KeyRequest {
            request: proof.encode().into(),
        };
        let member = self.member.clone();
        world.send_to_source(SourceInput::Signal(Signal::ToSource { flow, member, body }));
    }

    /// The ciphers of all grants it got.
    fn ciphers(&self, world: &World) -> Vec<MediaCipher> {
        let source = Signer::from_seed(&IDENTITY.0).public();
        let flow = world.source.flow().id;
        let grants = world.told.iter().filter_map(|signal| match signal {
            Signal::ToMember {
                member,
                body: Downward::KeyGrant { grant },
                ..
            } => (*member == self.member).then_some(grant),
            _ => None,
        });
        let open = |grant: &layercast_wire::Opaque| {
            open_grant(&grant.0, &source, flow, "njy", &self.exchange)
        };
        grants
            .map(|grant| MediaCipher::new(&open(grant).unwrap()))
            .collect()
    }
}

/// How many of these packets any of the ciphers opens.
fn opened(ciphers: &[MediaCipher], pdus: &[LinkPdu]) -> usize {
    let opens = |pdu: &&LinkPdu| {
        let LinkPdu::Mets(packet) = pdu else {
            return false;
        };
        let Payload::Bytes(bytes) = &packet.payload else {
            return false;
        };
        let header = packet.header;
        let place = Place {
            flow: header.flow,
            seq: header.seq,
            offset: header.offset,
        };
        ciphers.iter().any(|cipher| {
            let layer = header.kind.layer().unwrap();
            let mut bytes = bytes.to_vec();
            cipher
                .open(layer, place, &header.fixed().encode(), &mut bytes)
                .is_ok()
        })
    };
    pdus.iter().filter(opens).count()
}

#[test]
fn who_leaves_reads_no_more_and_who_stays_loses_nothing() {
    let recorded: RefCell<Vec<(layercast_core::Time, LinkPdu)>> = RefCell::default();
    let mut world = sealed(Carriage::Datagrams, 60);
    world.down = Box::new(|now, pdu| {
        if matches!(pdu, LinkPdu::Mets(_)) {
            recorded.borrow_mut().push((now, pdu.clone()));
        }
        vec![Span::from_ms(5)]
    });
    let njy = Member2::new();
    world.run_until(ms(3_000));
    njy.request(&mut world, 3_600);
    let (flow, member) = (world.source.flow().id, njy.member.clone());
    for second in 3..8 {
        // A member silent for long has left too.
        let (member, report) = (member.clone(), MemberReport::default());
        world.send_to_source(SourceInput::Signal(Signal::Report {
            flow,
            member,
            report: Box::new(report),
        }));
        world.run_until(ms(1_000 + 1_000 * second));
    }
    world.send_to_source(SourceInput::Signal(Signal::Left { flow, member }));
    world.run_until(ms(30_000));
    // It asks again: as a stranger it is not refused forever, but it is with an expired token.
    njy.request(&mut world, 20);
    world.run_until(ms(40_000));
    let ciphers = njy.ciphers(&world);
    assert_eq!(ciphers.len(), 1);
    let rekeyed: Vec<_> = world
        .source_events
        .iter()
        .filter_map(|(at, event)| matches!(event, SourceEvent::Rekeyed { .. }).then_some(*at))
        .collect();
    assert_eq!(rekeyed.len(), 1);
    assert!(
        rekeyed[0] >= ms(9_000) && rekeyed[0] < ms(9_600),
        "{rekeyed:?}"
    );
    let all = recorded.borrow();
    // What the shaper held back at that moment was sealed before.
    let later = rekeyed[0] + Span::from_ms(400);
    let part = |wanted: &dyn Fn(layercast_core::Time) -> bool| -> Vec<LinkPdu> {
        let part = all.iter().filter(|(at, _)| wanted(*at));
        part.map(|(_, pdu)| pdu.clone()).collect()
    };
    let (before, after) = (part(&|at| at < ms(9_000)), part(&|at| at > later));
    assert_eq!(opened(&ciphers, &before), before.len());
    assert!(after.len() > 1_000);
    assert_eq!(opened(&ciphers, &after), 0);
    let (stats, sent) = (world.sink.stats(), world.source.stats().sent);
    assert_eq!(
        (stats.played, stats.lost, stats.dropped.unkeyed),
        (sent, NONE, 0)
    );
    assert_eq!(
        world.count(|event| matches!(event, SinkEvent::Key { .. })),
        2
    );
}

#[test]
fn a_token_that_expires_ends_with_its_key() {
    let sink = sealed_sink(Carriage::Datagrams, Some(token("dwp", Level::FULL, 10)));
    let mut world = World::new(sealed_source(Carriage::Datagrams, true), sink, 60);
    world.run_until(ms(40_000));
    let last = world.played().last().unwrap();
    // The era in which it is seen, the grace, the rest of a GOP.
    assert!(
        last.emitted > ms(10_000) && last.emitted < ms(13_000),
        "{:?}",
        last.emitted
    );
    let refusals = world.events.iter().filter_map(|(at, event)| match event {
        SinkEvent::Refused(refusal) => Some((*at, refusal.resource)),
        _ => None,
    });
    let [(at, Resource::TokenExpired)] = refusals.collect::<Vec<_>>()[..] else {
        panic!("it is notified once");
    };
    assert!(at > ms(10_000) && at < ms(11_100), "{at:?}");
}

#[test]
fn a_member_renews_its_proof_while_it_receives() {
    let sink = sealed_sink(Carriage::Datagrams, Some(token("dwp", Level::FULL, 3_600)));
    let mut world = World::new(sealed_source(Carriage::Datagrams, true), sink, 140);
    world.run_until(ms(65_000));
    let is_ack = |signal: &&Signal| matches!(signal, Signal::JoinAck { .. });
    // At the beginning, and every half minute.
    assert_eq!(world.told.iter().filter(is_ack).count(), 3);
    let stats = world.sink.stats();
    assert_eq!((stats.joins, stats.lost), (1, NONE));
    assert_eq!(
        world.count(|event| matches!(event, SinkEvent::Joined { .. })),
        1
    );
}

#[test]
fn a_member_whose_clock_is_wrong_is_told_so() {
    let sink = sealed_sink(Carriage::Datagrams, Some(token("dwp", Level::FULL, 3_600)));
    let mut world = World::new(sealed_source(Carriage::Datagrams, true), sink, 10);
    world
        .sink
        .set_wall_clock(WallClock(EPOCH * 1_000_000 - 600 * 1_000_000));
    world.run_until(ms(500));
    let stale = |event: &SinkEvent| matches!(event, SinkEvent::Refused(refusal) if refusal.resource == Resource::StaleProof);
    assert_eq!(world.count(stale), 1);
    // It is set, and all is well.
    world.sink.set_wall_clock(WallClock(EPOCH * 1_000_000));
    world.input(SinkInput::Rejoin);
    world.run_until(ms(1_000));
    assert!(world.sink.joined());
    // What has expired by the clock of the source has expired.
    world
        .source
        .set_wall_clock(WallClock((EPOCH + 3_600) * 1_000_000));
    world.run_until(ms(4_000));
    let expired = |event: &SinkEvent| matches!(event, SinkEvent::Refused(refusal) if refusal.resource == Resource::TokenExpired);
    assert_eq!(world.count(expired), 1);
}

#[test]
fn a_name_belongs_to_the_holder_of_one_token_at_the_source() {
    let sink = sealed_sink(Carriage::Datagrams, Some(token("dwp", Level::FULL, 3_600)));
    let mut world = World::new(sealed_source(Carriage::Datagrams, true), sink, 10);
    world.run_until(ms(1_000));
    let njy = Member2::new();
    njy.request(&mut world, 3_600);
    world.run_until(ms(2_000));
    // Another holder of a token for any name takes the name, with another number.
    let claims = Claims {
        flow: "bunny".into(),
        member: None,
        level: Level::FULL,
        expires: EPOCH + 3_600,
    };
    let token = Token::issue(&Signer::from_seed(&IDENTITY.0), claims, [9; 32]);
    let member = Member {
        name: "njy".into(),
        id: NodeId(6),
    };
    let flow = world.source.flow().id;
    let proof = token.prove(flow, ("njy", NodeId(6)), [8; 32], EPOCH + 2);
    let body = Upward::KeyRequest {
        request: proof.encode().into(),
    };
    let thief = member.clone();
    world.send_to_source(SourceInput::Signal(Signal::ToSource { flow, member, body }));
    world.run_until(ms(3_000));
    let denied = world.told.iter().any(|signal| {
        matches!(signal, Signal::ToMember { member, body: Downward::KeyDenied { refusal }, .. }
            if *member == thief && refusal.resource == Resource::NameInUse)
    });
    assert!(denied);
    assert_eq!(njy.ciphers(&world).len(), 1);
}

#[test]
fn a_token_for_the_base_layer_plays_no_other() {
    let sink = sealed_sink(Carriage::Datagrams, Some(token("dwp", Level::BASE, 3_600)));
    let mut world = World::new(sealed_source(Carriage::Datagrams, true), sink, 20);
    world.run_until(ms(30_000));
    let stats = world.sink.stats();
    assert_eq!(
        (stats.played.base, stats.played.e1, stats.played.e2),
        (20, 0, 0)
    );
    assert!(
        world.source.stats().sent.e1 > 0,
        "they were sent all the same"
    );
}

#[test]
fn a_source_that_starts_anew_is_followed() {
    let mut world = World::new(
        sealed_source(Carriage::Datagrams, false),
        sealed_sink(Carriage::Datagrams, None),
        40,
    );
    world.run_until(ms(8_000));
    let before = world.played().count();
    assert!(before > 100);
    let mut config = sealed_source(Carriage::Datagrams, false);
    config.start = world.now;
    if let Some(protection) = &mut config.protection {
        protection.random = Seed([12; 32]);
        protection.born = EPOCH + 8;
    }
    world.replace_source(Source::new(config).unwrap(), 20);
    world.run_until(ms(30_000));
    let after = world.played().skip(before);
    let again = after.filter(|frame| frame.gop_start).count();
    assert!(again >= 18, "{again}");
    check_content(&world);
}
