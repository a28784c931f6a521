//! The disciplines against the RFCs, and the port against the FIFO queue of a pipe.

use std::collections::VecDeque;
use std::path::Path;

use layercast_core::Stream;
use proptest::prelude::*;

use super::*;
use crate::internet::random::{impaired, scenario};
use crate::internet::scenario::Scenario;
use crate::internet::{Internet, Report};

/// A queue in front of a link of 10 Mbit/s, alone: a packet of 1,250 bytes takes 1 ms.
struct Alone {
    discipline: Box<dyn QueueDiscipline>,
    inside: Inside,
    random: Stream,
    dropped: Vec<(Item, DropCause)>,
    limit: Limit,
    /// Bytes left of the packet being sent.
    sending: Option<u64>,
}

const RATE: Rate = Rate::from_bps(10_000_000);

impl Alone {
    fn new(discipline: Discipline, limit: Limit) -> Alone {
        let setup = Setup {
            rate: RATE,
            mtu: 1_250,
            limit,
            salt: 7,
        };
        Alone {
            discipline: discipline.make(&setup),
            inside: Inside::default(),
            random: Stream::new(1, "alone"),
            dropped: Vec::new(),
            limit,
            sending: None,
        }
    }

    fn with<T>(
        &mut self,
        now: Time,
        what: impl FnOnce(&mut dyn QueueDiscipline, &mut Port<'_>) -> T,
    ) -> T {
        let terms = (now, RATE, self.limit, self.sending);
        let mut port = Port::new(terms, &mut self.inside, &mut self.random, &mut self.dropped);
        what(&mut *self.discipline, &mut port)
    }

    fn put(&mut self, now: Time, packet: u32, flow: u32, ecn: Ecn) {
        self.offer(Item {
            ecn,
            came: ecn,
            ..item(now, packet, 1_250, flow)
        });
    }

    fn offer(&mut self, item: Item) {
        self.inside.add(item.bytes());
        self.with(item.since(), |it, port| it.enqueue(item, port));
    }

    fn take(&mut self, now: Time) -> Option<Item> {
        let item = self.with(now, |it, port| it.dequeue(port))?;
        self.inside.remove(item.bytes());
        Some(item)
    }
}

/// One of host 0 to host `flow`.
pub(super) fn item(since: Time, packet: u32, bytes: u32, flow: u32) -> Item {
    Item {
        packet,
        bytes,
        flow,
        since,
        ecn: Ecn::NotCapable,
        came: Ecn::NotCapable,
        dscp: Dscp::default(),
        ends: (NodeIndex(0), NodeIndex(flow)),
    }
}

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

/// A queue that never empties: drops begin an interval after the delay came above the target, and follow each other by
/// interval / sqrt(n) (RFC 8289 3.3). The times are those of the law, rounded up to the end of a transmission.
#[test]
fn codel_drops_at_the_times_of_its_law() {
    let mut queue = Alone::new(Discipline::CoDel(CoDelConfig::default()), Limit::Unlimited);
    let mut packet = 0;
    for _ in 0..50 {
        queue.put(Time::ZERO, packet, 1, Ecn::NotCapable);
        packet += 1;
    }
    let mut found = Vec::new();
    for ms in 0..1_000 {
        let before = queue.dropped.len();
        assert!(queue.take(at(ms)).is_some());
        found.extend(vec![ms; queue.dropped.len() - before]);
        // As many come as leave.
        while queue.inside.packets < 50 {
            queue.put(at(ms), packet, 1, Ecn::NotCapable);
            packet += 1;
        }
    }
    // The packet sent at 5 ms is the first that waited for 5 ms: the first drop is at 105 ms.
    let (mut due, mut count, mut law) = (105.0_f64, 1, Vec::new());
    while due < 999.0 {
        law.push(due.ceil() as u64);
        due += 100.0 / f64::from(count).sqrt();
        count += 1;
    }
    // The law continues from its own times, not from the ends of transmissions at which packets are dropped.
    assert_eq!(found, law);
    assert!(law.len() > 20, "{law:?}");
}

/// A marked packet is sent, an unmarked one is dropped.
#[test]
fn codel_marks_what_can_be_marked() {
    let run = |ecn: bool, field: Ecn| {
        let config = CoDelConfig {
            ecn,
            ..CoDelConfig::default()
        };
        let mut queue = Alone::new(Discipline::CoDel(config), Limit::Unlimited);
        (0..500).for_each(|n| queue.put(Time::ZERO, n, 1, field));
        let sent: Vec<Item> = (0..400).filter_map(|ms| queue.take(at(ms))).collect();
        let marked = sent.iter().filter(|it| it.ecn() == Ecn::Congested).count();
        (marked, queue.dropped.len())
    };
    let (marked, dropped) = run(true, Ecn::Capable0);
    // At 105, 205, 276, 334 and 384 ms.
    assert_eq!((marked, dropped), (5, 0));
    for (ecn, field) in [(false, Ecn::Capable0), (true, Ecn::NotCapable)] {
        let (none, same) = run(ecn, field);
        assert!(
            none == 0 && same.abs_diff(marked) <= 1,
            "{none} {same} {marked}"
        );
    }
}

#[test]
fn codel_lets_a_burst_pass_and_a_short_queue_alone() {
    let mut queue = Alone::new(
        Discipline::CoDel(CoDelConfig::default()),
        Limit::Packets(90),
    );
    for start in [0, 1_000] {
        (0..100).for_each(|n| queue.put(at(start), n, 1, Ecn::NotCapable));
        // 90 of them wait; all have left within an interval.
        assert_eq!(
            (0..95).filter_map(|ms| queue.take(at(start + ms))).count(),
            90
        );
    }
    assert!(queue.dropped.iter().all(|it| it.1 == DropCause::Full));
    assert_eq!(queue.dropped.len(), 20);
}

/// RFC 8290: queues take turns, and one that was empty goes before those that wait.
#[test]
fn flows_take_turns_and_a_new_one_is_first() {
    let mut queue = Alone::new(
        Discipline::FqCoDel(FqCoDelConfig::default()),
        Limit::Unlimited,
    );
    (0..30).for_each(|n| queue.put(Time::ZERO, n, 1, Ecn::NotCapable));
    (30..40).for_each(|n| queue.put(Time::ZERO, n, 2, Ecn::NotCapable));
    let mut sent = Vec::new();
    for ms in 0..10 {
        sent.push(queue.take(at(ms)).unwrap().flow());
    }
    assert_eq!(sent, [1, 2, 1, 2, 1, 2, 1, 2, 1, 2]);
    queue.put(at(10), 99, 3, Ecn::NotCapable);
    assert_eq!(queue.take(at(10)).unwrap().packet(), 99);
    // It had its turn: empty, it goes behind the others and is old until it has been empty there, too.
    queue.put(at(11), 98, 3, Ecn::NotCapable);
    let next: Vec<u32> = (11..15)
        .map(|ms| queue.take(at(ms)).unwrap().flow())
        .collect();
    assert_eq!(next.iter().filter(|&&flow| flow == 3).count(), 1);
}

/// The queue that is longest pays for the room, from its head (RFC 8290 4.1).
#[test]
fn a_full_fq_codel_drops_from_the_longest_queue() {
    let limit = Limit::Packets(20);
    let mut queue = Alone::new(Discipline::FqCoDel(FqCoDelConfig::default()), limit);
    (0..18).for_each(|n| queue.put(Time::ZERO, n, 1, Ecn::NotCapable));
    (18..21).for_each(|n| queue.put(Time::ZERO, n, 2, Ecn::NotCapable));
    let gone: Vec<u32> = queue.dropped.iter().map(|it| it.0.packet()).collect();
    assert_eq!(gone, (0..9).collect::<Vec<_>>());
    assert_eq!(queue.inside.packets, 12);
}

/// Less room than the rest of the packet being sent has: all that comes meanwhile is dropped, and nothing else happens.
#[test]
fn room_for_nothing_is_no_end() {
    for discipline in [
        Discipline::CoDel(CoDelConfig::default()),
        Discipline::FqCoDel(FqCoDelConfig::default()),
        Discipline::Pie(PieConfig::default()),
        Discipline::DualPi2(DualPi2Config::default()),
        Discipline::Priority(PriorityConfig::default()),
        Discipline::Drr(DrrConfig::default()),
    ] {
        let mut queue = Alone::new(discipline, Limit::Bytes(100));
        queue.sending = Some(1_000);
        (0..3).for_each(|n| queue.put(Time::ZERO, n, n, Ecn::NotCapable));
        assert_eq!((queue.inside, queue.dropped.len()), (Inside::default(), 3));
        queue.sending = None;
        queue.put(at(1), 3, 1, Ecn::NotCapable);
        assert_eq!(queue.inside.packets, 1);
    }
}

#[test]
fn a_quantum_shares_by_bytes() {
    let drr = |share| {
        Discipline::Drr(DrrConfig {
            share,
            ..DrrConfig::default()
        })
    };
    for discipline in [
        Discipline::FqCoDel(FqCoDelConfig::default()),
        drr(Share::Flow),
        drr(Share::Destination),
    ] {
        let mut queue = Alone::new(discipline, Limit::Unlimited);
        for n in 0..200 {
            queue.offer(item(Time::ZERO, n, 250, 1));
            queue.put(Time::ZERO, 1_000 + n, 2, Ecn::NotCapable);
        }
        let mut bytes = [0; 3];
        for _ in 0..120 {
            let item = queue.take(Time::ZERO).unwrap();
            bytes[item.flow() as usize] += item.bytes();
        }
        let off = bytes[1].abs_diff(bytes[2]);
        assert!(off <= 2 * 1_250, "{bytes:?}");
    }
}

/// However many flows a host has, it has the share of a host.
#[test]
fn hosts_share_evenly() {
    let config = DrrConfig {
        share: Share::Source,
        ..DrrConfig::default()
    };
    let mut queue = Alone::new(Discipline::Drr(config), Limit::Unlimited);
    for n in 0..100 {
        // Ten flows of one host, one of another.
        for (host, flow) in (0..10).map(|flow| (1, flow)).chain([(2, 10)]) {
            let ends = (NodeIndex(host), NodeIndex(flow));
            let item = item(Time::ZERO, 100 * n + flow, 1_250, flow);
            queue.offer(Item { ends, ..item });
        }
    }
    let sent = (0..100).map(|_| queue.take(Time::ZERO).unwrap().source());
    assert_eq!(sent.filter(|&host| host == 2).count(), 50);
}

/// McKenney 1991: the longest queue pays for the room, and the packet that came last goes.
#[test]
fn a_full_drr_drops_the_tail_of_the_longest_queue() {
    let limit = Limit::Packets(20);
    let mut queue = Alone::new(Discipline::Drr(DrrConfig::default()), limit);
    (0..18).for_each(|n| queue.put(Time::ZERO, n, 1, Ecn::NotCapable));
    (18..23).for_each(|n| queue.put(Time::ZERO, n, 2, Ecn::NotCapable));
    let gone: Vec<u32> = queue.dropped.iter().map(|it| it.0.packet()).collect();
    assert_eq!(gone, [17, 16, 15]);
    let left = std::iter::from_fn(|| queue.take(Time::ZERO)).count();
    assert_eq!(left, 20);
}

/// RFC 3246: a band waits while one before it has packets, and takes no room from it.
#[test]
fn bands_are_served_in_their_order() {
    let limit = Limit::Packets(6);
    let mut queue = Alone::new(Discipline::Priority(PriorityConfig::default()), limit);
    // Lower effort, best effort, expedited forwarding.
    for (n, dscp) in [
        (0, 1),
        (1, 0),
        (2, 46),
        (3, 1),
        (4, 0),
        (5, 46),
        (6, 46),
        (7, 0),
    ] {
        let dscp = Dscp::of_tos(dscp << 2);
        queue.offer(Item {
            dscp,
            ..item(Time::ZERO, n, 1_250, 1)
        });
    }
    let numbers = |it: Vec<Item>| it.iter().map(Item::packet).collect::<Vec<_>>();
    let sent = std::iter::from_fn(|| queue.take(Time::ZERO)).collect();
    assert_eq!(numbers(sent), [2, 5, 6, 1, 4, 7]);
    let gone = queue.dropped.drain(..).map(|it| it.0).collect();
    assert_eq!(numbers(gone), [3, 0]);
}

/// First in, first out, as a discipline.
#[derive(Default, Debug)]
struct Fifo(VecDeque<Item>);

impl QueueDiscipline for Fifo {
    fn enqueue(&mut self, item: Item, port: &mut Port<'_>) {
        match port.is_over_limit() {
            true => port.drop(item, DropCause::Full),
            false => self.0.push_back(item),
        }
    }

    fn dequeue(&mut self, _: &mut Port<'_>) -> Option<Item> {
        self.0.pop_front()
    }
}

fn run(scenario: &str, discipline: Option<Discipline>) -> Report {
    let scenario = Scenario::from_toml(scenario, Path::new(".")).unwrap();
    let mut network = scenario.resolve().unwrap();
    for link in &mut network.links {
        for (way, place) in link.ways.iter_mut().zip(&mut link.disciplines) {
            way.queue.red = None;
            place.clone_from(&discipline);
        }
    }
    Internet::new(&network).unwrap().run(&mut ())
}

proptest! {
    // Each case is two runs.
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]

    /// A packet of a FIFO queue fares alike, whether its departure is known at its arrival or decided at the end of the one
    /// before it.
    #[test]
    fn a_fifo_port_is_the_queue_of_a_pipe(
        scenario in prop_oneof![scenario(vec!["xtp = {}"]), impaired(vec!["xtp = {}"])],
    ) {
        let fifo = DisciplineFactory::new("fifo", |_| Fifo::default());
        let (fused, events) = (run(&scenario, None), run(&scenario, Some(Discipline::Own(fifo))));
        prop_assert_eq!(&fused.flows, &events.flows, "{}", &scenario);
        prop_assert_eq!(fused.node_drops, events.node_drops);
        prop_assert_eq!(fused.packet_hops, events.packet_hops);
        for (fused, port) in fused.queues.iter().zip(&events.queues) {
            let same = |it: &crate::internet::QueueReport| {
                (it.offered, it.dropped_full, it.max_waiting, it.mean_waiting.to_bits())
            };
            prop_assert_eq!(same(fused), same(port), "{}", &scenario);
        }
    }

    /// Packets are sent, dropped or wait, whatever the discipline, and a run can be repeated.
    #[test]
    fn packets_are_conserved(
        scenario in scenario(vec!["xtp = {}", "tcp = \"ecn\""]), which in 0..6_usize,
    ) {
        let scenario = scenario.replace("warm_up = \"303ms\"", "warm_up = \"0s\"");
        let scenario = format!("{scenario}\n[tcp.ecn]\necn = \"rfc3168\"\n");
        let codel = CoDelConfig { target: Span::from_ms(1), interval: Span::from_ms(10), ecn: true };
        let discipline = [
            Discipline::CoDel(codel),
            Discipline::FqCoDel(FqCoDelConfig { codel, flows: 4, quantum: None }),
            Discipline::Pie(PieConfig { target: Span::from_ms(2), burst: Span::ZERO, ecn: true, ..PieConfig::default() }),
            Discipline::DualPi2(DualPi2Config { target: Span::from_ms(1), ..DualPi2Config::default() }),
            Discipline::Priority(PriorityConfig::default()),
            Discipline::Drr(DrrConfig { share: Share::Source, ..DrrConfig::default() }),
        ][which].clone();
        let report = run(&scenario, Some(discipline.clone()));
        for queue in &report.queues {
            let waiting = queue.discipline.as_ref().map_or(0, |it| it.waiting);
            let known = queue.sent + queue.dropped_full + queue.dropped_red + u64::from(waiting);
            prop_assert_eq!(queue.offered, known, "{:?}", queue);
            let bands = queue.discipline.iter().flat_map(|it| &it.bands);
            let [sent, dropped, marked] = bands.fold([0; 3], |sum, it| {
                [sum[0] + it.sent, sum[1] + it.dropped, sum[2] + it.marked]
            });
            let whole = [queue.sent, queue.dropped_full + queue.dropped_red, queue.marked];
            prop_assert!([[0; 3], whole].contains(&[sent, dropped, marked]), "{:?}", queue);
        }
        prop_assert_eq!(report, run(&scenario, Some(discipline)));
    }
}
