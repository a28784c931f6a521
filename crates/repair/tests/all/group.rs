//! A group in virtual time: one sending end, members with losses of their own, and a judge of deadlines at each.

use std::collections::{BTreeMap, BTreeSet};

use layercast_core::{FlowId, Layer, Machine, Off, Rate, Serial, Span, Time, earliest};
use layercast_repair::{
    Carried, Codec, Feedback, GroupConfig, GroupInput, GroupRepairer, GroupRequester, Head,
    MAX_BLOCKS, MAX_HISTORY, MAX_HOLES, MAX_KEPT, MAX_MEMBERS, MAX_OPEN, MAX_QUEUED, MemberConfig,
    Missing, RepairStats, RequestStats, RequesterInput, Unit,
};
use proptest::prelude::*;

use crate::channel::{Channel, Impairment, OCTETS, SESSION};

/// A packet: frame, place in the frame. On the wire it has a body of zeros.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Piece {
    pub frame: u64,
    pub index: u32,
}

const BODY: usize = 1_200;

pub fn codec() -> Codec<Piece> {
    Codec {
        encode: |piece| {
            let mut octets = vec![0; BODY - (piece.index as usize % 7) * 100];
            octets[..8].copy_from_slice(&piece.frame.to_be_bytes());
            octets[8..12].copy_from_slice(&piece.index.to_be_bytes());
            octets.into()
        },
        len: |piece| BODY - (piece.index as usize % 7) * 100,
        decode: |octets| {
            let frame = u64::from_be_bytes(octets.get(..8)?.try_into().ok()?);
            let index = u32::from_be_bytes(octets.get(8..12)?.try_into().ok()?);
            let len = BODY - (index as usize % 7) * 100;
            (octets.len() == len).then_some(Piece { frame, index })
        },
    }
}

type Wire = (Head, Option<Carried<Piece>>);

pub struct Member {
    pub requester: GroupRequester<Piece>,
    pub forward: Channel<Wire>,
    pub back: Channel<Feedback>,
    pub id: u64,
    pub feedback_octets: u64,
    missing: BTreeMap<u64, u32>,
    seen: BTreeSet<Piece>,
    pub twice: u64,
    /// It says this instead of the truth.
    pub lie: Option<fn(Time, Feedback) -> Option<Feedback>>,
}

pub struct Group {
    pub repairer: GroupRepairer<Piece>,
    pub members: Vec<Member>,
    pub setup: Setup,
    pub octets: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub members: usize,
    pub how: Impairment,
    pub rate: Option<Rate>,
    pub budget: Span,
    pub frames: u64,
    pub seed: u64,
}

pub struct Outcome {
    pub sent: RepairStats,
    /// For each member: frames lost, packets that came twice, counters.
    pub members: Vec<(u64, u64, RequestStats)>,
    pub frames: u64,
    /// Bits per second of the feedback of all members, with the headers of UDP and IPv4 and the seal.
    pub feedback_bps: u64,
}

impl Outcome {
    pub fn share_lost(&self) -> f64 {
        let lost: u64 = self.members.iter().map(|it| it.0).sum();
        lost as f64 / (self.frames * self.members.len() as u64) as f64
    }

    /// Octets of parities over octets of media.
    pub fn overhead(&self) -> f64 {
        let base = self.sent.layers.base;
        base.repair_octets as f64 / base.octets as f64
    }

    pub fn twice(&self) -> u64 {
        self.members.iter().map(|it| it.1).sum()
    }
}

impl Group {
    pub fn new(setup: Setup) -> Group {
        let mut group = Group {
            repairer: GroupRepairer::new(GroupConfig {
                name: "switch-group".into(),
                session: SESSION,
                rate: setup.rate,
                codec: codec(),
            }),
            members: Vec::new(),
            setup,
            octets: 0,
        };
        for id in 0..setup.members as u64 {
            group.join(Time::ZERO, id);
        }
        group
    }

    pub fn join(&mut self, now: Time, id: u64) {
        self.repairer.handle(now, GroupInput::Join(id), &mut Off);
        let setup = self.setup;
        self.members.push(Member {
            requester: GroupRequester::new(MemberConfig {
                name: format!("member{id}"),
                session: SESSION,
                first: self.repairer.next_counter(),
                asks: true,
                seed: setup.seed,
                codec: codec(),
            }),
            forward: Channel::new(setup.how, setup.seed, &format!("forward{id}")),
            back: Channel::new(setup.how, setup.seed, &format!("back{id}")),
            id,
            feedback_octets: 0,
            missing: BTreeMap::new(),
            seen: BTreeSet::new(),
            twice: 0,
            lie: None,
        });
    }

    pub fn leave(&mut self, now: Time, id: u64) {
        self.repairer.handle(now, GroupInput::Leave(id), &mut Off);
        self.members.retain(|member| member.id != id);
    }

    fn drain(&mut self, now: Time) {
        while let Some(out) = self.repairer.poll_transmit(now, &mut Off) {
            // Through the codec, as on a socket.
            let mut wire = Vec::new();
            out.head.encode_into(&mut wire);
            assert_eq!(wire.len(), out.head.encoded_len());
            let (head, rest) = Head::decode(&wire).expect("what is encoded decodes");
            assert!(
                rest.is_empty() && head == out.head,
                "{head:?} {:?}",
                out.head
            );
            self.octets += u64::from(OCTETS);
            for member in &mut self.members {
                member
                    .forward
                    .send(out.ready, OCTETS, (head.clone(), out.item.clone()));
            }
        }
    }

    /// Runs what is due at `now`.
    pub fn run(&mut self, now: Time, start: Time, interval: Span) {
        let budget = Some(self.setup.budget.saturating_sub(self.setup.how.delay));
        for at in 0..self.members.len() {
            let member = &mut self.members[at];
            member
                .requester
                .handle(now, RequesterInput::Budget(budget), &mut Off);
            while let Some((head, item)) = member.forward.receive(now) {
                let input = match item {
                    Some(item) => RequesterInput::Datagram(head, item),
                    None => RequesterInput::Marker(head),
                };
                member.requester.handle(now, input, &mut Off);
            }
            member.requester.on_timeout(now, &mut Off);
            while let Some(feedback) = member.requester.poll_transmit(now, &mut Off) {
                let feedback = match member.lie {
                    Some(lie) => lie(now, feedback),
                    None => Some(feedback),
                };
                let Some(feedback) = feedback else { continue };
                let mut wire = Vec::new();
                Head::Feedback(feedback.clone()).encode_into(&mut wire);
                member.feedback_octets += wire.len() as u64 + 53;
                let decoded = Head::decode(&wire).map(|it| it.0);
                if member.lie.is_none() {
                    assert_eq!(decoded, Ok(Head::Feedback(feedback.clone())));
                }
                member.back.send(now, 100, feedback);
            }
            while let Some(piece) = member.requester.poll_event() {
                member.twice += u64::from(!member.seen.insert(piece));
                let deadline = start + interval.times(piece.frame) + self.setup.budget;
                if now <= deadline
                    && let Some(left) = member.missing.get_mut(&piece.frame)
                {
                    *left -= 1;
                }
            }
            while let Some(feedback) = self.members[at].back.receive(now) {
                let from = self.members[at].id;
                let input = GroupInput::Feedback(from, feedback);
                self.repairer.handle(now, input, &mut Off);
            }
        }
        self.repairer.on_timeout(now, &mut Off);
        self.drain(now);
    }

    pub fn next(&self) -> Option<Time> {
        let members = self.members.iter().map(|member| {
            let channels = earliest(member.forward.next(), member.back.next());
            earliest(member.requester.next_timeout(), channels)
        });
        members.fold(self.repairer.next_timeout(), earliest)
    }

    /// Sends a frame of `of` packets.
    pub fn send(&mut self, now: Time, frame: u64, of: u32) {
        for index in 0..of {
            let unit = Unit {
                flow: FlowId(1),
                layer: Layer::Base,
                stamp_us: Some(now.as_us() as u32),
                octets: OCTETS,
                last: index + 1 == of,
                repair: true,
                lasts: None,
            };
            let input = GroupInput::Send {
                at: now,
                unit,
                item: Piece { frame, index },
            };
            self.repairer.handle(now, input, &mut Off);
        }
        for member in &mut self.members {
            member.missing.insert(frame, of);
        }
        self.drain(now);
    }
}

/// 25 frames a second; each 25th has 60 packets, the others 8. `before` runs before each frame.
pub fn run(setup: &Setup, mut before: impl FnMut(&mut Group, Time, u64)) -> Outcome {
    let mut group = Group::new(*setup);
    let interval = Span::from_ms(40);
    let start = Time::ZERO + Span::from_secs(1);
    let mut now = start;
    let end = start + interval.times(setup.frames) + Span::from_secs(1);
    let mut frame = 0;
    while now < end {
        while frame < setup.frames && start + interval.times(frame) <= now {
            before(&mut group, now, frame);
            let of = if frame % 25 == 0 { 60 } else { 8 };
            group.send(now, frame, of);
            frame += 1;
        }
        group.run(now, start, interval);
        let frames = (frame < setup.frames).then(|| start + interval.times(frame));
        let wake = earliest(earliest(group.next(), frames), Some(end)).unwrap_or(end);
        now = wake.max(now + Span::from_us(1));
    }
    let seconds = end.since(start).as_secs_f64();
    let octets: u64 = group.members.iter().map(|it| it.feedback_octets).sum();
    Outcome {
        sent: group.repairer.stats(),
        members: group
            .members
            .iter()
            .map(|member| {
                let lost = member.missing.values().filter(|left| **left > 0).count();
                (lost as u64, member.twice, member.requester.stats())
            })
            .collect(),
        frames: setup.frames,
        feedback_bps: (octets as f64 * 8.0 / seconds) as u64,
    }
}

fn case(members: usize, loss: f64, budget_ms: u64, frames: u64) -> Outcome {
    let outcome = run(
        &Setup {
            members,
            how: Impairment::loss(loss),
            rate: Some(Rate::from_bps(20_000_000)),
            budget: Span::from_ms(budget_ms),
            frames,
            seed: 1,
        },
        |_, _, _| {},
    );
    let mut all = RequestStats::default();
    for member in &outcome.members {
        all.add(&member.2);
    }
    println!(
        "{members} members, loss {loss}, B={budget_ms}: lost {:.2e}, overhead {:.1} %, feedback {} kbit/s\n  {:?}\n  {all:?}",
        outcome.share_lost(),
        outcome.overhead() * 100.0,
        outcome.feedback_bps / 1_000,
        outcome.sent,
    );
    assert_eq!(outcome.twice(), 0);
    outcome
}

/// What is stated in docs/src/explanation/repair.md.
#[test]
fn parities_repair_what_each_of_many_members_loses() {
    for (members, loss, frames, lost, overhead) in [
        (1, 0.05, 1_000, 2e-3, 0.12),
        (20, 0.01, 1_000, 1e-3, 0.14),
        (20, 0.05, 1_000, 1e-3, 0.36),
        (100, 0.05, 500, 4e-3, 0.42),
    ] {
        let outcome = case(members, loss, 300, frames);
        assert!(outcome.share_lost() <= lost, "{}", outcome.share_lost());
        assert!(outcome.overhead() <= overhead, "{}", outcome.overhead());
        assert!(outcome.feedback_bps <= 100_000, "{}", outcome.feedback_bps);
        // Copies: each datagram that any member lacks is sent again once, if that arrives.
        let copies = 1.0 - (1.0 - loss).powi(members as i32);
        assert!(members == 1 || outcome.overhead() < copies, "{copies}");
    }
}

#[test]
fn the_clock_of_each_member_is_known() {
    let setup = Setup {
        members: 8,
        how: Impairment::loss(0.03),
        rate: None,
        budget: Span::from_ms(300),
        frames: 1_000,
        seed: 1,
    };
    let mut errors = Vec::new();
    run(&setup, |group, now, frame| {
        // All have one clock.
        for id in (0..8).filter(|_| frame > 500) {
            let clock = group.repairer.clock(now, id).expect("known");
            let off = clock.there.diff(Serial(now.as_us() as u32));
            errors.push(off.abs());
        }
    });
    assert!(errors.len() > 1_000);
    errors.sort_unstable();
    // Members report less often than the end of a link of two.
    let p95 = errors[errors.len() * 95 / 100];
    assert!(p95 <= 1_000, "{p95} us");
}

#[test]
fn without_loss_a_group_of_a_hundred_repairs_nothing() {
    let outcome = case(100, 0.0, 300, 250);
    assert_eq!(
        (outcome.share_lost(), outcome.sent.layers.base.repairs),
        (0.0, 0)
    );
    assert!(outcome.feedback_bps <= 30_000, "{}", outcome.feedback_bps);
}

/// Feedback of a member that claims to lack everything.
fn everything(_: Time, feedback: Feedback) -> Option<Feedback> {
    let known = feedback.known.min(2_000);
    let all = Missing {
        back: known.saturating_sub(1),
        len: known,
        requested: true,
    };
    Some(Feedback {
        known,
        missing: if known > 0 { vec![all] } else { Vec::new() },
        ..feedback
    })
}

#[test]
fn a_member_that_asks_for_everything_is_left_to_itself() {
    let setup = Setup {
        members: 10,
        how: Impairment::loss(0.01),
        rate: Some(Rate::from_bps(20_000_000)),
        budget: Span::from_ms(300),
        frames: 500,
        seed: 1,
    };
    let honest = run(&setup, |_, _, _| {});
    let lies = run(&setup, |group, _, frame| {
        if frame == 100 {
            group.members[3].lie = Some(everything);
        }
    });
    assert_eq!((honest.sent.left, lies.sent.left), (0, 1));
    assert!(lies.sent.unheeded > 0);
    // It costs what a member may lose before it is left to itself, once.
    let more = lies.sent.layers.base.repairs
        - honest
            .sent
            .layers
            .base
            .repairs
            .min(lies.sent.layers.base.repairs);
    assert!(more <= 150, "{more}");
    let lost = |outcome: &Outcome| -> u64 {
        let others = outcome
            .members
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != 3);
        others.map(|(_, member)| member.0).sum()
    };
    assert!(
        lost(&lies) <= lost(&honest) + 2,
        "{} {}",
        lost(&lies),
        lost(&honest)
    );
}

#[test]
fn a_member_that_reports_nothing_gets_what_others_ask_for() {
    let setup = Setup {
        members: 10,
        how: Impairment::loss(0.03),
        rate: Some(Rate::from_bps(20_000_000)),
        budget: Span::from_ms(300),
        frames: 500,
        seed: 2,
    };
    let outcome = run(&setup, |group, _, _| {
        group.members[0].lie = Some(|_, _| None)
    });
    let (lost, twice, stats) = &outcome.members[0];
    assert_eq!(*twice, 0);
    assert!(stats.repaired.base > 0 && *lost < 100, "{lost} {stats:?}");
    let others: u64 = outcome.members[1..].iter().map(|it| it.0).sum();
    assert!(others * 1_000 <= 9 * 500, "{others}");
}

#[test]
fn late_parities_are_not_sent_and_losses_are_counted() {
    // One round trip is longer than the budget.
    let mut how = Impairment::loss(0.05);
    how.delay = Span::from_ms(150);
    let setup = Setup {
        members: 5,
        how,
        rate: Some(Rate::from_bps(20_000_000)),
        budget: Span::from_ms(200),
        frames: 200,
        seed: 3,
    };
    let outcome = run(&setup, |_, _, _| {});
    let base = outcome.sent.layers.base;
    assert_eq!(base.repairs, 0, "{base:?}");
    assert!(base.too_late > 0, "{base:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Over any channels, with members that come and go and one that lies, a packet is handed over at most once, repairs stay
    /// within the octets of the media, and state within its bounds.
    #[test]
    fn each_packet_once_and_all_within_bounds(
        members in 1..8_usize,
        loss in 0.0..0.4_f64,
        burst in prop_oneof![Just(1.0), 2.0..20.0_f64],
        duplicate in 0.0..0.2_f64,
        reorder in 0.0..0.2_f64,
        delay in 0..80_u64,
        rate in prop::option::of(6_u64..50),
        budget in 50..600_u64,
        liar in any::<bool>(),
        come_and_go in prop::collection::vec((0..100_u64, 0..12_u64), 0..8),
        seed in any::<u64>(),
    ) {
        let setup = Setup {
            members,
            how: Impairment {
                loss,
                burst,
                duplicate,
                reorder,
                reorder_by: Span::from_ms(20),
                delay: Span::from_ms(delay),
                jitter: Span::from_ms(3),
            },
            rate: rate.map(|mbps| Rate::from_bps(mbps * 1_000_000)),
            budget: Span::from_ms(budget),
            frames: 100,
            seed,
        };
        let outcome = run(&setup, |group, now, frame| {
            if liar && frame == 20 && !group.members.is_empty() {
                group.members[0].lie = Some(everything);
            }
            for (at, id) in &come_and_go {
                if *at == frame {
                    match group.members.iter().any(|member| member.id == *id) {
                        true => group.leave(now, *id),
                        false => group.join(now, *id),
                    }
                }
            }
            let (history, queued, blocks) = group.repairer.held();
            assert!(history <= MAX_HISTORY && queued <= MAX_QUEUED && blocks <= MAX_BLOCKS);
            for member in &group.members {
                let (holes, kept, open) = member.requester.held();
                assert!(holes <= MAX_HOLES && kept <= MAX_KEPT && open <= MAX_OPEN);
            }
        });
        prop_assert_eq!(outcome.twice(), 0);
        let base = outcome.sent.layers.base;
        prop_assert!(base.repair_octets <= base.octets + (64 << 10), "{:?}", base);
        let (least, late) = (outcome.frames, outcome.sent.layers.base.unsent);
        for (lost, _, stats) in &outcome.members {
            prop_assert!(*lost <= least, "{:?} {}", stats, late);
        }
    }
}

#[test]
fn a_group_has_at_most_a_stated_number_of_members() {
    let setup = Setup {
        members: MAX_MEMBERS + 5,
        how: Impairment::loss(0.0),
        rate: None,
        budget: Span::from_ms(300),
        frames: 1,
        seed: 1,
    };
    let mut group = Group::new(setup);
    assert_eq!(group.repairer.stats().members, MAX_MEMBERS as u64);
    group.leave(Time::ZERO, 0);
    group.join(Time::ZERO, 1_000);
    assert_eq!(group.repairer.stats().members, MAX_MEMBERS as u64);
}
