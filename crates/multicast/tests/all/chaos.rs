//! Random losses, duplicates, reordering, damage, crashes and restarts. A receiver that reports completion has the
//! object; a receiver that is present at the end has it or knows that it failed; nothing is repaired without a
//! request.

use std::collections::BTreeMap;

use layercast_core::{Rate, Span, Time};
use layercast_fec::Scheme;
use layercast_multicast::{
    Members, Memory, MemoryStore, Opening, Outcome, RateControl, ReceiverEvent, Repair, Schedule,
    Sender, SenderConfig, SenderEvent, To, Weak,
};
use layercast_wire::multicast::{Body, MemberId, State, Symbol};
use proptest::prelude::*;

use crate::net::{FIRST_AGGREGATOR, Faults, Net};
use crate::object::{content, stores};

type Objects = Net<Memory, MemoryStore>;

#[derive(Clone, Debug)]
struct Scene {
    profile: usize,
    octets: usize,
    receivers: u32,
    faults: Faults,
    /// Milliseconds, receiver, whether it keeps its data, duration of its absence.
    crashes: Vec<(u64, u32, bool, u64)>,
    sender_crash: Option<u64>,
    weak: Option<(u32, f64)>,
    /// Number of receivers per aggregator.
    aggregate: Option<u32>,
    /// Milliseconds, aggregator, duration of its absence.
    aggregator_crashes: Vec<(u64, usize, u64)>,
    seed: u64,
}

fn scene() -> impl Strategy<Value = Scene> {
    let share = |most: f64| prop_oneof![Just(0.0), 0.0..most];
    let faults = (share(0.3), share(0.1), share(0.1), share(0.01), 0u64..60).prop_map(
        |(loss, twice, damage, poison, jitter)| Faults {
            loss,
            twice,
            damage,
            poison,
            jitter: Span::from_ms(jitter),
        },
    );
    let crash = (0u64..5_000, 1u32..8, any::<bool>(), 1u64..3_000);
    let crashes = prop_oneof![Just(Vec::new()), prop::collection::vec(crash, 0..4)];
    let weak = prop::option::weighted(0.3, (1u32..8, 0.3..0.7f64));
    let sender_crash = prop::option::weighted(0.2, 0u64..3_000);
    (
        (0usize..7, 0usize..30_000, 1u32..8),
        (
            faults,
            crashes,
            sender_crash,
            weak,
            prop::option::weighted(0.4, 1u32..5),
            prop_oneof![
                Just(Vec::new()),
                prop::collection::vec((0u64..5_000, 0usize..8, 1u64..3_000), 0..3),
            ],
        ),
        any::<u64>(),
    )
        .prop_map(|((profile, octets, receivers), rest, seed)| {
            let (faults, crashes, sender_crash, weak, aggregate, aggregator_crashes) = rest;
            Scene {
                profile,
                octets,
                receivers,
                faults,
                crashes,
                sender_crash,
                weak,
                aggregate,
                aggregator_crashes,
                seed,
            }
        })
}

impl Scene {
    fn config(&self) -> SenderConfig {
        let coded = |scheme: Scheme, above| SenderConfig {
            scheme: scheme.number(),
            packet_size: 500,
            block: 7,
            repair: Repair::Parity {
                proactive: u16::from(above == 0),
                most: 20,
            },
            schedule: Schedule::Suppress {
                delta: Span::from_ms(1),
                above,
                spread: Span::from_ms(500),
            },
            sender_wait: Span::from_secs(100),
            ..SenderConfig::layercast(Rate::from_bps(200_000))
        };
        let selective = |unicast_below_permille, unasked| SenderConfig {
            packet_size: 500,
            repair: Repair::Selective {
                unicast_below_permille,
            },
            schedule: Schedule::BackOff {
                delta: Span::from_ms(5),
                unasked,
            },
            rate: RateControl::Fixed(Rate::from_bps(200_000)),
            sender_wait: Span::from_secs(100),
            ..SenderConfig::rmtp()
        };
        let start = Rate::from_bps(200_000);
        let monitor = SenderConfig::monitor(start, Rate::from_bps(50_000), Rate::from_bps(800_000));
        match self.profile {
            0 => selective(0, true),
            1 => selective(600, false),
            2 => SenderConfig {
                repair: Repair::GoBackN,
                weak: Weak::Keep,
                ..selective(0, true)
            },
            3 => coded(Scheme::XorShift, 0),
            4 => coded(Scheme::ReedSolomon, 100),
            5 => SenderConfig {
                rate: RateControl::Friendly(monitor),
                ..coded(Scheme::RaptorQ, 2)
            },
            _ => SenderConfig {
                rate: RateControl::Monitor(monitor),
                weak: Weak::Postpone {
                    polls: 3,
                    missing_permille: 200,
                    side: false,
                },
                ..selective(0, true)
            },
        }
    }

    fn scheme(&self) -> Option<Scheme> {
        Scheme::from_number(self.config().scheme)
    }

    fn sender(&self, session: u64) -> Sender<Memory> {
        let config = SenderConfig {
            opening: Opening {
                tries: 6,
                ..self.config().opening
            },
            ..self.config()
        };
        let members = Members::Anyone {
            expect: Some(self.receivers),
            most: 100,
            late: true,
        };
        let source = Memory::new("x", content(self.octets), self.scheme());
        Sender::object(session, config, members, source).unwrap()
    }

    fn run(&self) -> Objects {
        let mut net = Net::new(
            self.sender(1),
            stores(self.receivers),
            self.faults,
            self.seed,
        );
        if let Some(each) = self.aggregate {
            net.aggregate(each);
        }
        if let Some((weak, loss)) = self.weak {
            let mut random = layercast_core::Stream::new(self.seed, "weak");
            net.fate =
                Box::new(move |from, to, _| (from == weak || to == weak) && random.chance(loss));
        }
        // The schedule of events: a receiver crashes or starts, or the sender restarts.
        let mut story: BTreeMap<(u64, usize), Happening> = BTreeMap::new();
        for (at, &(ms, receiver, keeps, gone)) in self.crashes.iter().enumerate() {
            let receiver = 1 + (receiver - 1) % self.receivers;
            story.insert((ms, 2 * at), Happening::Crash(receiver, keeps));
            story.insert((ms + gone, 2 * at + 1), Happening::Start(receiver));
        }
        for (at, &(ms, aggregator, gone)) in self.aggregator_crashes.iter().enumerate() {
            if let Some(aggregator) = aggregator.checked_rem(net.aggregators.len()) {
                let at = 1_000 + 2 * at;
                story.insert((ms, at), Happening::CrashAggregator(aggregator));
                story.insert((ms + gone, at + 1), Happening::StartAggregator(aggregator));
            }
        }
        if let Some(ms) = self.sender_crash {
            story.insert((ms, usize::MAX), Happening::NewSender);
        }
        let mut down: BTreeMap<u32, MemoryStore> = BTreeMap::new();
        net.start();
        let began = net.now;
        let mut lives = 1;
        for ((ms, _), happening) in story {
            net.run_until(began + Span::from_ms(ms));
            match happening {
                Happening::Crash(number, keeps) => {
                    if net.receivers[number as usize - 1].is_some() {
                        let store = net.crash(number);
                        let fresh = MemoryStore::new(1 << 20);
                        down.insert(number, if keeps { store } else { fresh });
                    }
                }
                Happening::Start(number) => {
                    if let Some(store) = down.remove(&number) {
                        lives += 1;
                        net.restart(number, lives, store);
                    }
                }
                Happening::CrashAggregator(at) => net.aggregators[at] = None,
                Happening::StartAggregator(at) => {
                    if net.aggregators[at].is_none() {
                        lives += 1;
                        net.restart_aggregator(at, lives);
                    }
                }
                Happening::NewSender => {
                    net.sender = self.sender(2);
                    net.sender_events.clear();
                    net.start();
                }
            }
        }
        net.run();
        net
    }

    fn check(&self, net: &Objects) -> Result<(), TestCaseError> {
        prop_assert!(net.result().is_some(), "it never ends");
        let wanted = content(self.octets);
        for (number, receiver) in net.receivers.iter().enumerate() {
            let Some(receiver) = receiver else {
                continue;
            };
            if receiver.is_complete() {
                prop_assert_eq!(receiver.store().bytes(), &wanted[..]);
            }
            let heard = receiver.stats().data + receiver.stats().reports > 0;
            let is_informed = receiver.is_closed() || !heard;
            prop_assert!(is_informed, "receiver {} does not know", number + 1);
        }
        for delivery in net.sender.deliveries() {
            let aggregator = delivery.member.0 >= u64::from(FIRST_AGGREGATOR);
            if delivery.outcome == Outcome::Delivered && !aggregator {
                let events = &net.receiver_events[delivery.member.0 as usize - 1];
                prop_assert!(events.contains(&ReceiverEvent::Complete));
            }
            prop_assert_ne!(delivery.outcome, Outcome::Pending);
        }
        for delivery in net
            .aggregators
            .iter()
            .flatten()
            .flat_map(|it| it.deliveries())
        {
            if delivery.outcome == Outcome::Delivered {
                let events = &net.receiver_events[delivery.member.0 as usize - 1];
                prop_assert!(events.contains(&ReceiverEvent::Complete));
            }
        }
        prop_assert_eq!(net.sender.stats().forged, 0);
        self.only_what_was_asked_for(net)
    }

    /// Asserts that every repeated packet was requested since its last transmission.
    fn only_what_was_asked_for(&self, net: &Objects) -> Result<(), TestCaseError> {
        let geometry =
            layercast_multicast::Geometry::new(self.octets as u64, 500, self.config().block)
                .unwrap();
        let packets = geometry.packets() as usize;
        let mut asked = vec![false; packets];
        let mut needs = vec![0u64; geometry.blocks() as usize];
        let mut session = 0;
        for (_, from, transmit) in &net.log {
            if transmit.packet.session != session && *from == 0 {
                session = transmit.packet.session;
                asked = vec![true; packets];
                let proactive = match self.config().repair {
                    Repair::Parity { proactive, .. } => u64::from(proactive),
                    _ => 0,
                };
                needs.fill(proactive);
            }
            match &transmit.packet.body {
                Body::Report(report) => match &report.state {
                    State::Missing(spans) => {
                        for (from, to) in spans.iter() {
                            let to = match self.config().repair {
                                Repair::GoBackN => packets as u64,
                                _ => to,
                            };
                            asked[from as usize..to as usize].fill(true);
                        }
                    }
                    State::Need(blocks) => {
                        for (block, count) in blocks.iter() {
                            needs[block as usize] = needs[block as usize].max(count.into());
                            let (first, end) = geometry.range(block);
                            if u64::from(count) == end - first {
                                asked[first as usize..end as usize].fill(true);
                            }
                        }
                    }
                    State::Corrupt => {
                        asked.fill(true);
                        for block in 0..geometry.blocks() {
                            needs[block as usize] = geometry.packets_of(block).into();
                        }
                    }
                    _ => {}
                },
                Body::Data(data) => match data.symbol {
                    Symbol::Source(number) => {
                        let block = geometry.block_of(number) as usize;
                        // When a block has no fresh parity left, its sources are sent instead.
                        let instead = needs.get(block).is_some_and(|it| *it > 0);
                        let wanted = asked[number as usize] || instead;
                        prop_assert!(wanted, "packet {} was not asked for", number);
                        // A packet sent to one receiver may be sent to another as well.
                        asked[number as usize] = instead || transmit.to != To::Group;
                    }
                    Symbol::Parity { block, .. } => {
                        let need = &mut needs[block as usize];
                        prop_assert!(*need > 0, "parity of {} was not asked for", block);
                        *need -= 1;
                    }
                },
                _ => {}
            }
        }
        Ok(())
    }
}

enum Happening {
    Crash(u32, bool),
    Start(u32),
    CrashAggregator(usize),
    StartAggregator(usize),
    NewSender,
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn objects_are_complete_or_reported_as_failed(scene in scene()) {
        scene.check(&scene.run())?;
    }
}

#[test]
fn a_weak_receiver_does_not_hold_the_others_back() {
    let scene = Scene {
        profile: 4,
        octets: 29_000,
        receivers: 6,
        faults: crate::net::PERFECT,
        crashes: Vec::new(),
        sender_crash: None,
        weak: Some((6, 0.5)),
        aggregate: None,
        aggregator_crashes: Vec::new(),
        seed: 3,
    };
    let net = scene.run();
    scene.check(&net).unwrap();
    let when = |wanted: SenderEvent| {
        let at = |(at, event): &(Time, SenderEvent)| (*event == wanted).then_some(*at);
        net.sender_events.iter().find_map(at)
    };
    let last = when(SenderEvent::Delivered(MemberId(6)));
    for id in 1..6 {
        let delivered = when(SenderEvent::Delivered(MemberId(id)));
        assert!(delivered.is_some() && delivered < last, "{id}");
    }
    assert!(when(SenderEvent::Postponed(MemberId(6))).is_some());
    assert!(
        net.sender
            .deliveries()
            .all(|it| it.outcome == Outcome::Delivered)
    );
}
