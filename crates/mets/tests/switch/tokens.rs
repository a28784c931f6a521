//! Tokens: which members may join, under what name, and up to which level.

use crate::common::ends::{Source, message};
use crate::common::{join_ack, link, ms, seal};
use layercast_core::{FlowId, Level, Machine, NodeId, Off, PortId, Serial, Time};
use layercast_mets::switch::{
    MAX_MEMBERS_PER_PORT, PortConfig, Switch, SwitchConfig, SwitchInput, SwitchTransmit,
};
use layercast_protect::{Claims, PROOF_LIFE, PROOF_SKEW, Signer, Token, WallClock};
use layercast_wire::{
    AdapterKind, Carriage, FlowInfo, LinkPdu, Member, MemberReport, Opaque, Resource, Signal,
};

const UP: PortId = PortId(0);
const A: PortId = PortId(1);
const B: PortId = PortId(2);
const NOW: u64 = 1_000;

fn signer() -> Signer {
    Signer::from_seed(&[1; 32])
}

fn proof(flow: &str, member: &str, level: Level, expires: u64) -> Opaque {
    let id = if member == "full" { 2 } else { 1 };
    proof_of(flow, (member, id), level, (NOW, expires))
}

/// A proof of the member with this name and number, made and expiring then.
fn proof_of(
    flow: &str,
    (member, id): (&str, u32),
    level: Level,
    (issued, expires): (u64, u64),
) -> Opaque {
    let claims = Claims {
        flow: flow.into(),
        member: None,
        level,
        expires,
    };
    let token = Token::issue(&signer(), claims, [2; 32]);
    let proof = token.prove(FlowId(1), (member, NodeId(id)), [3; 32], issued);
    proof.encode().into()
}

fn member(name: &str, id: u32) -> Member {
    Member {
        name: name.into(),
        id: NodeId(id),
    }
}

struct Bench {
    switch: Switch,
    info: FlowInfo,
}

/// A switch that asks for tokens, with one port up and two down.
fn bench(identity: bool) -> Bench {
    let mut switch = Switch::new(SwitchConfig {
        require_tokens: true,
        clock: WallClock(NOW * 1_000_000),
        ..SwitchConfig::default()
    });
    let mut info = Source::canyon(1, Carriage::Datagrams).info;
    if identity {
        seal(&mut info, 1, true);
    }
    for port in [UP, A, B] {
        let config = PortConfig {
            name: port.0.to_string(),
            ..link(Carriage::Datagrams, 100_000)
        };
        switch.add_port(port, config);
        switch.handle(Time::ZERO, SwitchInput::PortUp { port }, &mut Off);
    }
    let mut bench = Bench { switch, info };
    let flow = bench.info.clone();
    bench.signal(UP, Signal::Advertise { flow: flow.into() });
    bench
}

impl Bench {
    fn signal(&mut self, port: PortId, signal: Signal) -> Vec<(PortId, Signal)> {
        let input = SwitchInput::Signal { port, signal };
        self.switch.handle(Time::ZERO, input, &mut Off);
        let transmits = std::iter::from_fn(|| self.switch.poll_transmit(Time::ZERO, &mut Off));
        let signals = transmits.filter_map(|transmit| match transmit {
            SwitchTransmit::Signal { port, signal } => Some((port, signal)),
            SwitchTransmit::Pdu { .. } => None,
        });
        signals.collect()
    }

    fn join(
        &mut self,
        port: PortId,
        member: Member,
        proof: Option<Opaque>,
    ) -> Vec<(PortId, Signal)> {
        let (flow, epoch, level) = (self.info.id, self.info.epoch, Level::FULL);
        self.signal(
            port,
            Signal::Join {
                flow,
                epoch,
                member,
                level,
                proof,
                again: false,
                answer: None,
            },
        )
    }

    fn ack(&mut self) -> Vec<(PortId, Signal)> {
        let flow = self.info.id;
        self.signal(UP, join_ack(flow, 101, Level::BASE))
    }
}

fn refused(out: &[(PortId, Signal)]) -> bool {
    matches!(out, [(_, Signal::JoinNak { refusal, .. })] if matches!(refusal.resource, Resource::Token | Resource::TokenExpired))
}

/// What a join was refused for.
fn refusal(out: &[(PortId, Signal)]) -> Option<Resource> {
    out.iter().find_map(|(_, signal)| match signal {
        Signal::JoinNak { refusal, .. } => Some(refusal.resource),
        _ => None,
    })
}

#[test]
fn only_a_token_of_the_source_for_this_flow_and_time_opens_the_door() {
    let bad = [
        None,
        Some(vec![1; 100].into()),
        Some(proof("other", "dwp", Level::FULL, NOW + 1)),
        Some(proof("flow-1", "dwp", Level::FULL, NOW)),
        // The proof of another, seen on its way.
        Some(proof("flow-1", "njy", Level::FULL, NOW + 1)),
    ];
    let mut bench = bench(true);
    let count = bad.len() as u64;
    for proof in bad {
        let out = bench.join(A, member("dwp", 1), proof);
        assert!(refused(&out), "{out:?}");
    }
    assert_eq!(bench.switch.stats().rejected_signals.token, count);
    let good = proof("flow-1", "dwp", Level::FULL, NOW + 1);
    let out = bench.join(A, member("dwp", 1), Some(good.clone()));
    assert!(
        matches!(&out[..], [(UP, Signal::Join { proof, .. })] if proof.as_ref() == Some(&good)),
        "the proof continues with the join: {out:?}"
    );
}

#[test]
fn a_flow_that_nobody_signed_is_not_given_to_anybody() {
    let mut bench = bench(false);
    let good = proof("flow-1", "dwp", Level::FULL, NOW + 1);
    let out = bench.join(A, member("dwp", 1), Some(good));
    assert!(refused(&out));
}

#[test]
fn a_name_that_is_taken_is_not_given_to_another() {
    let mut bench = bench(true);
    let good = || Some(proof("flow-1", "dwp", Level::FULL, NOW + 1));
    bench.join(A, member("dwp", 1), good());
    bench.ack();
    let out = bench.join(B, member("dwp", 1), good());
    assert_eq!(refusal(&out), Some(Resource::NameInUse));
    // Nor under another number, whatever member the token is for.
    let other = proof_of("flow-1", ("dwp", 2), Level::FULL, (NOW, NOW + 1));
    let out = bench.join(B, member("dwp", 2), Some(other));
    assert_eq!(refusal(&out), Some(Resource::NameInUse));
    // Once its channel is gone it may come back elsewhere.
    bench
        .switch
        .handle(Time::ZERO, SwitchInput::PortDown { port: A }, &mut Off);
    let out = bench.join(B, member("dwp", 1), good());
    assert!(matches!(&out[..], [(B, Signal::JoinAck { .. })]), "{out:?}");
}

#[test]
fn nobody_is_granted_more_than_his_token_says() {
    let mut bench = bench(true);
    bench.join(
        A,
        member("base", 1),
        Some(proof("flow-1", "base", Level::BASE, NOW + 1)),
    );
    bench.ack();
    // We have joined in the name of one with the highest level, and say so when a better one comes.
    let out = bench.join(
        B,
        member("full", 2),
        Some(proof("flow-1", "full", Level::FULL, NOW + 1)),
    );
    let renamed: Vec<_> = out.iter().filter(|(port, _)| *port == UP).collect();
    assert!(
        matches!(&renamed[..], [(_, Signal::Join { member: new, .. }), (_, Signal::Leave { member: old, .. })]
            if new.name == "full" && old.name == "base"),
        "{renamed:?}"
    );
    let mut now = Time::ZERO;
    for (port, origin) in [(A, 1), (B, 2), (A, 77)] {
        // 77: whatever name it claims, it is behind that port.
        let res = message(
            &bench.info,
            AdapterKind::Res,
            Serial(1),
            NodeId(origin),
            Level::FULL,
        );
        let pdu = LinkPdu::Adapter(res);
        bench
            .switch
            .handle(now, SwitchInput::Pdu { port, pdu }, &mut Off);
    }
    let adapt = message(
        &bench.info,
        AdapterKind::Adapt,
        Serial(1),
        NodeId(9),
        Level::FULL,
    );
    let pdu = LinkPdu::Adapter(adapt);
    while let Some(next) = bench.switch.next_timeout().filter(|&next| next <= ms(600)) {
        now = next;
        bench.switch.on_timeout(now, &mut Off);
        while bench.switch.poll_transmit(now, &mut Off).is_some() {}
    }
    bench
        .switch
        .handle(now, SwitchInput::Pdu { port: UP, pdu }, &mut Off);
    assert_eq!(bench.switch.level(FlowId(1), A), Some(Level::BASE));
    assert_eq!(bench.switch.level(FlowId(1), B), Some(Level::FULL));
    // When the best one leaves, the others do not need as much any more.
    let (flow, member) = (FlowId(1), member("full", 2));
    let out = bench.signal(B, Signal::Leave { flow, member });
    let renamed = |(port, signal): &(PortId, Signal)| {
        *port == UP && matches!(signal, Signal::Join { member, .. } if member.name == "base")
    };
    assert!(out.iter().any(renamed), "{out:?}");
}

#[test]
fn a_name_is_taken_also_before_the_flow_is_joined_upstream() {
    let mut bench = bench(true);
    let first = proof_of("flow-1", ("dwp", 1), Level::FULL, (NOW, NOW + 1));
    bench.join(A, member("dwp", 1), Some(first));
    let second = proof_of("flow-1", ("dwp", 2), Level::FULL, (NOW, NOW + 1));
    let out = bench.join(B, member("dwp", 2), Some(second));
    assert_eq!(refusal(&out), Some(Resource::NameInUse));
}

#[test]
fn a_proof_expires() {
    let issued = |issued| proof_of("flow-1", ("dwp", 1), Level::FULL, (issued, NOW + 1));
    for (at, expected) in [
        // Of 1970.
        (0, Some(Resource::StaleProof)),
        (NOW - PROOF_LIFE - 1, Some(Resource::StaleProof)),
        (NOW - PROOF_LIFE, None),
        (NOW + PROOF_SKEW, None),
        (NOW + PROOF_SKEW + 1, Some(Resource::StaleProof)),
    ] {
        let out = bench(true).join(A, member("dwp", 1), Some(issued(at)));
        assert_eq!(refusal(&out), expected, "made at {at}");
    }
}

#[test]
fn a_proof_is_for_one_number_of_a_name() {
    let seen = proof_of("flow-1", ("dwp", 1), Level::FULL, (NOW, NOW + 1));
    let out = bench(true).join(A, member("dwp", 2), Some(seen));
    assert_eq!(refusal(&out), Some(Resource::Token));
}

#[test]
fn tokens_and_proofs_expire_by_the_clock_as_it_is_set_now() {
    let mut bench = bench(true);
    let proof = |now| proof_of("flow-1", ("dwp", 1), Level::FULL, (now, NOW + 5_000));
    // The clock was wrong by an hour, and is set.
    bench
        .switch
        .set_wall_clock(WallClock((NOW + 3_600) * 1_000_000));
    let out = bench.join(A, member("dwp", 1), Some(proof(NOW)));
    assert_eq!(refusal(&out), Some(Resource::StaleProof));
    let out = bench.join(A, member("dwp", 1), Some(proof(NOW + 3_600)));
    assert_eq!(refusal(&out), None);
    bench
        .switch
        .set_wall_clock(WallClock((NOW + 5_000) * 1_000_000));
    let out = bench.join(A, member("dwp", 1), Some(proof(NOW + 5_000)));
    assert_eq!(refusal(&out), Some(Resource::TokenExpired));
}

#[test]
fn a_member_that_starts_anew_behind_its_neighbour_has_its_name_again() {
    let mut bench = bench(true);
    let proof = |id| Some(proof_of("flow-1", ("dwp", id), Level::FULL, (NOW, NOW + 1)));
    bench.join(A, member("dwp", 1), proof(1));
    bench.ack();
    let out = bench.join(A, member("dwp", 2), proof(2));
    assert_eq!(refusal(&out), None);
    let upstream: Vec<_> = out.iter().filter(|(port, _)| *port == UP).collect();
    // The source hears that the old one has left, so that it reads no more.
    assert_eq!(left(&out), [member("dwp", 1)]);
    assert!(
        upstream.iter().any(|(_, signal)| matches!(signal, Signal::Join { member: new, .. } if *new == member("dwp", 2))),
        "{upstream:?}"
    );
    assert!(
        out.iter()
            .any(|(port, signal)| *port == A && matches!(signal, Signal::JoinAck { .. }))
    );
}

/// The members that the source hears to have left.
fn left(out: &[(PortId, Signal)]) -> Vec<Member> {
    let left = out.iter().filter_map(|(port, signal)| match signal {
        Signal::Left { member, .. } if *port == UP => Some(member.clone()),
        _ => None,
    });
    left.collect()
}

#[test]
fn a_member_that_starts_anew_behind_a_switch_that_speaks_for_it_leaves_once() {
    let mut bench = bench(true);
    let proof = |name, id| Some(proof_of("flow-1", (name, id), Level::FULL, (NOW, NOW + 1)));
    bench.join(A, member("njy", 7), proof("njy", 7));
    bench.ack();
    // The switch at A has joined in the name of njy; dwp is heard of by its reports only.
    for id in [1, 3] {
        let (flow, report) = (bench.info.id, MemberReport::default());
        bench.signal(
            A,
            Signal::Report {
                flow,
                member: member("dwp", id),
                report: Box::new(report),
            },
        );
    }
    let out = bench.join(A, member("dwp", 3), proof("dwp", 3));
    assert_eq!(refusal(&out), None);
    assert_eq!(left(&out), [member("dwp", 1)]);
}

#[test]
fn a_proof_that_is_renewed_goes_upstream_and_serves_to_join_again() {
    let mut bench = bench(true);
    let proof = |issued| proof_of("flow-1", ("dwp", 1), Level::FULL, (issued, NOW + 1));
    bench.join(A, member("dwp", 1), Some(proof(NOW - 9)));
    bench.ack();
    // The same proof again is no news.
    let out = bench.join(A, member("dwp", 1), Some(proof(NOW - 9)));
    assert!(out.iter().all(|(port, _)| *port != UP), "{out:?}");
    let newer = proof(NOW);
    let has_newer = |out: &[(PortId, Signal)]| {
        let mut upstream = out.iter().filter(|(port, _)| *port == UP);
        upstream.any(
            |(_, signal)| matches!(signal, Signal::Join { proof: Some(it), .. } if *it == newer),
        )
    };
    let out = bench.join(A, member("dwp", 1), Some(newer.clone()));
    assert!(has_newer(&out), "{out:?}");
    assert!(
        !out.iter()
            .any(|(_, signal)| matches!(signal, Signal::Leave { .. }))
    );
    for input in [
        SwitchInput::PortDown { port: UP },
        SwitchInput::PortUp { port: UP },
    ] {
        bench.switch.handle(Time::ZERO, input, &mut Off);
    }
    let flow = bench.info.clone();
    let out = bench.signal(UP, Signal::Advertise { flow: flow.into() });
    assert!(has_newer(&out), "{out:?}");
}

/// Processor time of this thread.
fn processor_time() -> std::time::Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    std::time::Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn a_flood_of_joins_behind_one_port_is_bounded_and_cheap() {
    let mut bench = bench(true);
    // Signatures cost the same for each; without them the work is that of the tables.
    bench.switch = Switch::new(SwitchConfig::default());
    for port in [UP, A, B] {
        let config = PortConfig {
            name: port.0.to_string(),
            ..link(Carriage::Datagrams, 100_000)
        };
        bench.switch.add_port(port, config);
        bench
            .switch
            .handle(Time::ZERO, SwitchInput::PortUp { port }, &mut Off);
    }
    let flow = bench.info.clone();
    bench.signal(UP, Signal::Advertise { flow: flow.into() });
    let join = |bench: &mut Bench, port, id: u32| {
        let proof = Some(id.to_be_bytes().to_vec().into());
        bench.join(port, member(&format!("m{id}"), id), proof)
    };
    join(&mut bench, A, 0);
    bench.ack();
    let begun = processor_time();
    let (mut acked, mut refused) = (1, 0);
    for id in 1..4_096 {
        match refusal(&join(&mut bench, A, id)) {
            None => acked += 1,
            Some(resource) => {
                assert_eq!(resource, Resource::TooManyMembers);
                refused += 1;
            }
        }
    }
    let spent = processor_time() - begun;
    assert_eq!(
        (acked, refused),
        (MAX_MEMBERS_PER_PORT, 4_096 - MAX_MEMBERS_PER_PORT)
    );
    // In a build without optimisation; with the square of the members it is a minute.
    assert!(spent.as_secs() < 5, "{spent:?}");
    // A member that is present may join again, and other neighbours are not affected.
    assert_eq!(refusal(&join(&mut bench, A, 7)), None);
    assert_eq!(refusal(&join(&mut bench, B, 9_999)), None);
}

#[test]
fn a_flow_whose_neighbour_upstream_stays_away_is_given_up_after_three_eras() {
    let withdrawn_by = |end: Time, back: Option<Time>| {
        let mut bench = bench(true);
        let proof = proof_of("flow-1", ("dwp", 1), Level::FULL, (NOW, NOW + 60));
        bench.join(A, member("dwp", 1), Some(proof));
        bench.ack();
        let down = SwitchInput::PortDown { port: UP };
        bench.switch.handle(Time::ZERO, down, &mut Off);
        let (mut withdrawn, mut back) = (None, back);
        while let Some(next) = bench.switch.next_timeout().filter(|&next| next <= end) {
            if back.is_some_and(|at| at <= next) {
                back = None;
                let up = SwitchInput::PortUp { port: UP };
                bench.switch.handle(next, up, &mut Off);
                let (port, flow) = (UP, bench.info.clone());
                let signal = Signal::Advertise {
                    flow: Box::new(flow),
                };
                bench
                    .switch
                    .handle(next, SwitchInput::Signal { port, signal }, &mut Off);
            }
            bench.switch.on_timeout(next, &mut Off);
            while let Some(transmit) = bench.switch.poll_transmit(next, &mut Off) {
                if let SwitchTransmit::Signal {
                    port: A,
                    signal: Signal::Withdraw { .. },
                } = transmit
                {
                    withdrawn.get_or_insert(next);
                }
            }
        }
        withdrawn
    };
    let at = withdrawn_by(ms(6_000), None).expect("it gives up");
    assert!(at >= ms(3_000) && at < ms(4_000), "{at:?}");
    // One that is back in time is not given up.
    assert_eq!(withdrawn_by(ms(4_000), Some(ms(2_000))), None);
}
