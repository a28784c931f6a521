use core::net::Ipv4Addr;
use std::collections::{BTreeMap, BTreeSet};

use layercast_core::{Machine, Off, RequestId, Span, Time};
use proptest::prelude::*;

use super::*;
use crate::policy::MediaKind;

const IDLE: Span = Span::from_secs(10);
const CACHED: Span = Span::from_secs(300);
const TICK: Span = Span::from_ps(1);
const HOP: AtmAddress = AtmAddress(4);

/// A mapper, its network of circuits, and the fate of each packet.
struct Bench {
    mapper: FlowMapper,
    now: Time,
    /// Unanswered requests.
    asked: Vec<(RequestId, Service, Tag)>,
    /// Circuits held by the network, with the time of the last packet.
    open: BTreeMap<Vcid, Option<Time>>,
    sent: Vec<(PacketRef, Vcid)>,
    discarded: Vec<(PacketRef, DiscardCause)>,
    /// Released circuits: the time, and the time of their last use.
    released: Vec<(Time, Vcid, Option<Time>)>,
    events: Vec<VcEvent>,
    packets: u32,
}

impl Bench {
    fn new(policy: &str) -> Bench {
        Bench {
            mapper: FlowMapper::new(MapperConfig::new(policy.parse().unwrap())),
            now: Time::ZERO,
            asked: Vec::new(),
            open: BTreeMap::new(),
            sent: Vec::new(),
            discarded: Vec::new(),
            released: Vec::new(),
            events: Vec::new(),
            packets: 0,
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.mapper.poll_transmit(self.now, &mut Off) {
            match output {
                MapperOutput::Send { vc, packet } => {
                    let last = self
                        .open
                        .get_mut(&vc)
                        .expect("sent on a circuit that is not");
                    *last = Some(self.now);
                    self.sent.push((packet, vc));
                }
                MapperOutput::Setup {
                    request,
                    service,
                    tag,
                    ..
                } => self.asked.push((request, service, tag)),
                MapperOutput::Release { vc } => {
                    let last = self.open.remove(&vc).expect("released what is not");
                    self.released.push((self.now, vc, last));
                }
                MapperOutput::Discard { packet, cause } => self.discarded.push((packet, cause)),
            }
        }
        while let Some(event) = self.mapper.poll_event() {
            self.events.push(event.what);
        }
    }

    fn handle(&mut self, input: MapperInput) {
        self.mapper.handle(self.now, input, &mut Off);
        self.drain();
    }

    fn packet_to(&mut self, key: FlowKey, next_hop: AtmAddress) -> PacketRef {
        let packet = PacketRef(self.packets);
        self.packets += 1;
        self.handle(MapperInput::Packet {
            key,
            next_hop,
            packet,
        });
        packet
    }

    fn packet(&mut self, key: FlowKey) -> PacketRef {
        self.packet_to(key, HOP)
    }

    /// Advances the time, running every timer when it is due.
    fn pass(&mut self, span: Span) {
        let until = self.now + span;
        while let Some(due) = self.mapper.next_timeout().filter(|&due| due <= until) {
            self.now = due;
            self.mapper.on_timeout(due, &mut Off);
            self.drain();
        }
        self.now = until;
    }

    /// The network sets up the circuit of request number `index`, with the lowest free number.
    fn ready(&mut self, index: usize) -> Vcid {
        let (request, ..) = self.asked.remove(index);
        let vc = (1..)
            .map(Vcid)
            .find(|vc| !self.open.contains_key(vc))
            .unwrap();
        self.open.insert(vc, None);
        self.handle(MapperInput::Ready { request, vc });
        vc
    }

    fn reject(&mut self, index: usize) {
        let (request, ..) = self.asked.remove(index);
        let cause = RejectCause::Capacity(3);
        self.handle(MapperInput::Rejected { request, cause });
    }

    /// The circuit that this packet was sent on.
    fn vc_of(&self, packet: PacketRef) -> Option<Vcid> {
        let mut sent = self.sent.iter().filter(|(sent, _)| *sent == packet);
        sent.next().map(|&(_, vc)| vc)
    }

    fn stats(&self) -> MapperStats {
        self.mapper.stats()
    }
}

/// Conversation number `n` through `port` of a server.
fn tcp(n: u16, port: u16) -> FlowKey {
    FlowKey {
        src: Ipv4Addr::new(128, 32, 131, 10 + n as u8 / 4),
        dst: Ipv4Addr::new(128, 32, 134, 2),
        tos: 0,
        protocol: FlowKey::TCP,
        src_port: 1025 + n,
        dst_port: port,
        media: None,
    }
}

fn video(n: u16) -> FlowKey {
    FlowKey {
        protocol: FlowKey::UDP,
        media: Some(MediaKind::Video),
        ..tcp(n, 5004)
    }
}

#[test]
fn packets_wait_for_their_circuit_and_leave_in_order() {
    let mut bench = Bench::new("noqos-conv-svc");
    let packets: Vec<PacketRef> = (0..70).map(|_| bench.packet(tcp(0, 80))).collect();
    assert_eq!(bench.asked.len(), 1);
    assert_eq!(bench.stats().queued, 64);
    assert_eq!(
        bench.stats().pending_full[ConversationType::HttpUp.index()],
        6
    );
    bench.pass(Span::from_ms(80));
    let vc = bench.ready(0);
    let sent: Vec<PacketRef> = bench.sent.iter().map(|&(packet, _)| packet).collect();
    assert_eq!(sent, packets[..64]);
    let full = |&packet| (packet, DiscardCause::PendingFull);
    assert_eq!(
        bench.discarded,
        packets[64..].iter().map(full).collect::<Vec<_>>()
    );
    let took = Span::from_ms(80);
    assert!(bench.events.contains(&VcEvent::Ready { took }));
    let next = bench.packet(tcp(0, 80));
    assert_eq!(bench.vc_of(next), Some(vc));
}

#[test]
fn an_svc_is_released_after_ten_idle_seconds_and_not_before() {
    let mut bench = Bench::new("noqos-conv-svc");
    bench.packet(tcp(0, 80));
    bench.ready(0);
    bench.pass(IDLE);
    // At exactly that time the packet has precedence, even over a timer that runs first.
    bench.mapper.on_timeout(bench.now, &mut Off);
    let at_the_instant = bench.packet(tcp(0, 80));
    assert!(bench.vc_of(at_the_instant).is_some());
    let last = bench.now;
    bench.pass(IDLE + IDLE);
    assert_eq!(bench.released, [(last + IDLE + TICK, Vcid(1), Some(last))]);
    assert_eq!(bench.stats().bound, 0);
    bench.packet(tcp(0, 80));
    assert_eq!(bench.asked.len(), 1, "a new circuit is asked for");
}

#[test]
fn a_late_driver_changes_nothing_but_the_hour_of_the_release() {
    let mut bench = Bench::new("noqos-conv-svccache");
    bench.packet(tcp(0, 80));
    bench.ready(0);
    // Without a call of on_timeout: idle since 10 s, expired since 310 s.
    bench.now = bench.now + IDLE + CACHED + TICK;
    bench.packet(tcp(1, 80));
    assert_eq!((bench.stats().hits, bench.stats().released), (0, 1));
}

#[test]
fn a_cached_circuit_serves_the_next_for_300_seconds() {
    let mut bench = Bench::new("noqos-conv-svccache");
    bench.packet(tcp(0, 80));
    let vc = bench.ready(0);
    bench.pass(IDLE + TICK);
    assert_eq!((bench.stats().bound, bench.stats().cached), (0, 1));
    bench.pass(CACHED.saturating_sub(TICK));
    let other = bench.packet(tcp(9, 23));
    assert_eq!(
        bench.vc_of(other),
        Some(vc),
        "310 s after the last packet it is still there"
    );
    bench.pass(IDLE + CACHED + TICK);
    assert_eq!(
        bench.released,
        [(
            bench.now,
            vc,
            Some(bench.now.saturating_sub(IDLE + CACHED + TICK))
        )]
    );
    assert_eq!((bench.stats().hits, bench.stats().misses), (1, 1));
}

#[test]
fn the_circuit_used_last_is_taken_first() {
    let mut bench = Bench::new("noqos-conv-svccache");
    for n in 0..3 {
        bench.packet(tcp(n, 80));
        bench.ready(0);
        bench.pass(Span::from_secs(1));
    }
    bench.pass(IDLE);
    for (n, vc) in [(7, 3), (8, 2), (9, 1)] {
        let packet = bench.packet(tcp(n, 80));
        assert_eq!(bench.vc_of(packet), Some(Vcid(vc)));
    }
}

#[test]
fn only_the_same_tag_and_the_same_router_may_use_a_circuit_again() {
    let mut bench = Bench::new("sp-telnet-conv-svccache");
    bench.packet(tcp(0, 25));
    bench.ready(0);
    bench.pass(IDLE + TICK);
    // Tags also apply to types that are not elevated.
    for (key, hop) in [
        (tcp(1, 119), HOP),
        (tcp(1, 23), HOP),
        (tcp(1, 25), AtmAddress(5)),
    ] {
        let packet = bench.packet_to(key, hop);
        assert_eq!(bench.vc_of(packet), None);
    }
    let packet = bench.packet(tcp(1, 25));
    assert_eq!(bench.vc_of(packet), Some(Vcid(1)));

    let mut equal = Bench::new("noqos-conv-svccache");
    equal.packet(tcp(0, 25));
    equal.ready(0);
    equal.pass(IDLE + TICK);
    let packet = equal.packet(video(1));
    assert_eq!(equal.vc_of(packet), Some(Vcid(1)));
}

#[test]
fn multiplexing_determines_which_packets_share_a_circuit() {
    for (policy, circuits) in [
        ("noqos-conv-svc", 6),
        ("noqos-app-svc", 4),
        ("noqos-router-svc", 2),
    ] {
        let mut bench = Bench::new(policy);
        // Two Web connections of one pair, one of another pair, one telnet, and the same elsewhere.
        for key in [tcp(0, 80), tcp(1, 80), tcp(4, 80), tcp(0, 23)] {
            bench.packet_to(key, HOP);
        }
        for key in [tcp(0, 80), tcp(1, 80)] {
            bench.packet_to(key, AtmAddress(5));
        }
        assert_eq!(bench.asked.len(), circuits, "{policy}");
    }
}

#[test]
fn the_refused_get_best_effort_which_is_no_use_for_a_guarantee() {
    let mut bench = Bench::new("wc-video-conv-svccache");
    let first = bench.packet(video(0));
    assert!(matches!(bench.asked[0].1, Service::Guaranteed(_)));
    bench.reject(0);
    assert_eq!(bench.asked[0].1, Service::BestEffort);
    assert_eq!(bench.asked[0].2, Tag::Fallback);
    let vc = bench.ready(0);
    assert_eq!(bench.vc_of(first), Some(vc));
    bench.pass(IDLE + TICK);
    // A new request asks for its guarantee although the fallback is idle, and uses the fallback if refused.
    let second = bench.packet(video(1));
    assert_eq!(bench.vc_of(second), None);
    bench.reject(0);
    assert_eq!(bench.vc_of(second), Some(vc));
    let stats = bench.stats();
    assert_eq!((stats.fallbacks, stats.fallback_hits), (2, 1));
    assert_eq!((stats.hits, stats.misses, stats.requests), (0, 2, 3));
    assert_eq!(stats.elevated, 2);
    assert_eq!((stats.waiting, stats.queued, stats.bound), (0, 0, 1));
    // A fallback circuit is not used by other conversations, even best-effort ones.
    bench.pass(IDLE + TICK);
    let mail = bench.packet(tcp(3, 25));
    assert_eq!(bench.vc_of(mail), None);
}

#[test]
fn the_busiest_second_is_one_of_the_clock() {
    let mut bench = Bench::new("noqos-conv-svc");
    let mut ask = |at: u64, n: u16| {
        bench.pass(Time::from_ps(at * 1_000_000_000).since(bench.now));
        bench.packet(tcp(n, 80));
        bench.stats().peak_requests
    };
    // Four within one second, but two in each second of the clock.
    let peaks: Vec<u64> = (0..)
        .zip([1_600, 1_999, 2_000, 2_100, 7_000, 7_500, 7_999])
        .map(|(n, at)| ask(at, n))
        .collect();
    assert_eq!(peaks, [1, 2, 2, 2, 2, 2, 3]);
}

#[test]
fn refused_best_effort_drops_waiting_packets_with_a_record() {
    let mut bench = Bench::new("sp-telnet-conv-svc");
    let packets = [bench.packet(tcp(0, 23)), bench.packet(tcp(0, 23))];
    assert_eq!(bench.asked[0].1, Service::Priority(1));
    bench.reject(0);
    bench.reject(0);
    let cause = RejectCause::Capacity(3);
    let dropped = packets.map(|packet| (packet, DiscardCause::Rejected(cause)));
    assert_eq!(bench.discarded, dropped);
    assert!(bench.events.contains(&VcEvent::Failed { cause }));
    let stats = bench.stats();
    assert_eq!((stats.failures, stats.rejected, stats.waiting), (1, 2, 0));
}

#[test]
fn a_circuit_that_comes_too_late_is_not_leaked() {
    for (policy, cached) in [("noqos-conv-svc", 0), ("noqos-conv-svccache", 1)] {
        let mut bench = Bench::new(policy);
        let packet = bench.packet(tcp(0, 80));
        bench.pass(Span::from_secs(76));
        assert_eq!(bench.discarded, [(packet, DiscardCause::NoAnswer)]);
        bench.ready(0);
        let stats = bench.stats();
        assert_eq!((stats.cached, stats.bound), (cached, 0), "{policy}");
        assert_eq!(bench.open.len(), cached, "{policy}");
    }
    let mut bench = Bench::new("noqos-conv-svccache");
    bench.packet(tcp(0, 80));
    bench.pass(Span::from_secs(1_000));
    bench.ready(0);
    assert!(
        bench.open.is_empty(),
        "a request that is forgotten gets no circuit"
    );
    assert_eq!(bench.stats().strays, 1);
}

#[test]
fn permanent_circuits_stay_and_broken_ones_are_made_again() {
    let mut bench = Bench::new("noqos-router-pvc");
    bench.packet(tcp(0, 80));
    let vc = bench.ready(0);
    bench.pass(Span::from_secs(100_000));
    let packet = bench.packet(video(3));
    assert_eq!(bench.vc_of(packet), Some(vc));
    bench.open.remove(&vc);
    bench.handle(MapperInput::Lost { vc });
    bench.handle(MapperInput::Lost { vc });
    assert_eq!((bench.stats().lost, bench.stats().strays), (1, 1));
    bench.packet(tcp(0, 80));
    assert_eq!(bench.asked.len(), 1);
}

#[test]
fn a_failed_circuit_in_the_pool_is_not_reused() {
    let mut bench = Bench::new("noqos-conv-svccache");
    bench.packet(tcp(0, 80));
    let vc = bench.ready(0);
    bench.pass(IDLE + TICK);
    bench.open.remove(&vc);
    bench.handle(MapperInput::Lost { vc });
    let packet = bench.packet(tcp(0, 80));
    assert_eq!(bench.vc_of(packet), None);
    assert_eq!(bench.stats().cached, 0);
}

#[test]
fn answers_that_fit_nothing_are_counted() {
    let mut bench = Bench::new("noqos-conv-svc");
    bench.packet(tcp(0, 80));
    let vc = bench.ready(0);
    bench.packet(tcp(1, 80));
    let request = bench.asked[0].0;
    // The number of a circuit in use, twice; refusals of unknown requests.
    bench.handle(MapperInput::Ready { request, vc });
    let request = RequestId(77);
    bench.handle(MapperInput::Ready { request, vc });
    let cause = RejectCause::NoVcid;
    bench.handle(MapperInput::Rejected { request, cause });
    assert_eq!(bench.stats().strays, 3);
    assert_eq!((bench.stats().bound, bench.stats().waiting), (1, 1));
}

#[test]
fn conversations_are_bounded() {
    let mut mapper = MapperConfig::new("noqos-conv-svc".parse().unwrap());
    mapper.conversations = 2;
    let mut bench = Bench::new("noqos-conv-svc");
    bench.mapper = FlowMapper::new(mapper);
    let packets: Vec<PacketRef> = (0..3).map(|n| bench.packet(tcp(n, 80))).collect();
    assert_eq!(bench.discarded, [(packets[2], DiscardCause::Conversations)]);
    assert_eq!(bench.asked.len(), 2);
}

#[derive(Clone, Debug)]
enum Step {
    Packet(FlowKey, AtmAddress),
    Pass(Span),
    Ready(usize),
    Reject(usize),
    Lose(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let key = (
        0..6u16,
        prop::sample::select(vec![20, 23, 25, 80, 8080, 5004]),
    )
        .prop_map(|(n, port)| if port == 5004 { video(n) } else { tcp(n, port) });
    let hop = (1..3u16).prop_map(AtmAddress);
    // Whole seconds, so that packets and timers often coincide.
    let span = prop_oneof![
        8 => (0..3u64).prop_map(Span::from_secs),
        2 => (8..12u64).prop_map(Span::from_secs),
        1 => (70..320u64).prop_map(Span::from_secs),
        1 => Just(TICK),
    ];
    prop_oneof![
        12 => (key, hop).prop_map(|(key, hop)| Step::Packet(key, hop)),
        5 => span.prop_map(Step::Pass),
        5 => any::<usize>().prop_map(Step::Ready),
        2 => any::<usize>().prop_map(Step::Reject),
        1 => any::<usize>().prop_map(Step::Lose),
    ]
}

const POLICIES: [&str; 8] = [
    "noqos-conv-svc",
    "noqos-conv-svccache",
    "noqos-router-pvc",
    "noqos-router-svc",
    "sp-isp-app-svc",
    "wc-qos1-conv-svccache",
    "nwc-video-app-svccache",
    "wc-ftp-conv-svc",
];

proptest! {
    #[test]
    fn every_packet_has_one_end_and_no_circuit_leaks(
        policy in prop::sample::select(POLICIES.to_vec()),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut bench = Bench::new(policy);
        let policy = bench.mapper.config.policy;
        let mut keys = Vec::new();
        for step in steps {
            match step {
                Step::Packet(key, hop) => {
                    keys.push(key.packed(policy.mux(), hop));
                    bench.packet_to(key, hop);
                }
                Step::Pass(span) => bench.pass(span),
                Step::Ready(n) if !bench.asked.is_empty() => {
                    bench.ready(n % bench.asked.len());
                }
                Step::Reject(n) if !bench.asked.is_empty() => bench.reject(n % bench.asked.len()),
                Step::Lose(n) if !bench.open.is_empty() => {
                    let vc = *bench.open.keys().nth(n % bench.open.len()).unwrap();
                    bench.open.remove(&vc);
                    bench.handle(MapperInput::Lost { vc });
                }
                _ => {}
            }
            let stats = bench.stats();
            // Every packet is sent, discarded, or waiting.
            prop_assert_eq!(stats.packets, u64::from(bench.packets));
            prop_assert_eq!(stats.sent, bench.sent.len() as u64);
            let discards = bench.discarded.len();
            prop_assert_eq!(bench.sent.len() + discards + stats.queued, bench.packets as usize);
            // The mapper and the network agree on the circuits.
            prop_assert_eq!(stats.bound + stats.cached, bench.open.len());
            let gone = stats.released + stats.lost;
            prop_assert_eq!(stats.ready, gone + bench.open.len() as u64);
        }
        // Each packet once, and in order within a conversation.
        let ends: BTreeSet<PacketRef> = bench.sent.iter().map(|end| end.0)
            .chain(bench.discarded.iter().map(|end| end.0)).collect();
        prop_assert_eq!(ends.len(), bench.sent.len() + bench.discarded.len());
        let mut last = BTreeMap::new();
        for &(packet, _) in &bench.sent {
            let before = last.insert(keys[packet.0 as usize], packet);
            prop_assert!(before < Some(packet), "{packet:?} after {before:?}");
        }

        // A circuit in use is released only by the timers of its policy.
        let life = match policy.management() {
            VcManagement::Pvc => None,
            VcManagement::Svc => Some(IDLE),
            VcManagement::SvcCache => Some(IDLE + CACHED),
        };
        for (when, used) in bench.released.iter().filter_map(|&(when, _, used)| Some((when, used?))) {
            prop_assert_eq!(Some(when.since(used + TICK)), life);
        }
        if life.is_none() {
            return Ok(());
        }

        // Nothing is left after a quiet time; late answers do not cause a leak.
        bench.pass(Span::from_secs(200));
        while !bench.asked.is_empty() {
            bench.ready(0);
        }
        bench.pass(IDLE + CACHED + TICK);
        prop_assert!(bench.open.is_empty());
        let stats = bench.stats();
        prop_assert_eq!((stats.bound, stats.cached, stats.waiting, stats.queued), (0, 0, 0, 0));
        prop_assert!(bench.mapper.keys.is_empty() && bench.mapper.requests.is_empty());
        prop_assert_eq!(bench.mapper.next_timeout(), None);
        prop_assert_eq!(bench.sent.len() + bench.discarded.len(), bench.packets as usize);
    }
}
