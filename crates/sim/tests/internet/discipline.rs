//! Queue disciplines under TCP, datagrams, XTP and METS, against what the RFCs promise.

use std::collections::VecDeque;
use std::path::Path;

use layercast_sim::internet::discipline::{
    Discipline, DisciplineFactory, DropCause, Item, Port, QueueDiscipline, Span, Time,
};
use layercast_sim::internet::scenario::Scenario;
use layercast_sim::internet::*;

#[path = "../../../../examples/aqm/src/main.rs"]
mod own;

fn network(text: &str) -> Network {
    let scenario = Scenario::from_toml(text, Path::new("")).expect("a scenario");
    scenario.resolve().expect("a network")
}

fn run(text: &str) -> Report {
    Internet::new(&network(text))
        .expect("it can run")
        .run(&mut ())
}

/// Pairs of hosts on either side of a trunk with this round trip and queue; the first `flows` of them have a flow of SACK.
fn dumbbell(pairs: u32, flows: u32, mbps: u32, rtt_ms: u32, trunk: &str) -> String {
    let delay = f64::from(rtt_ms) / 2.0 - 2.0;
    format!(
        r#"
        schema = "internet/1"
        name = "dumbbell"
        run = {{ duration = "25s", warm_up = "5s" }}
        [tcp.default]
        variant = "sack"
        timestamps = false
        fast_tick = "off"
        send_buffer = "4 MB"
        recv_buffer = "4 MB"
        [tcp.ecn]
        variant = "sack"
        ecn = "rfc3168"
        timestamps = false
        fast_tick = "off"
        send_buffer = "4 MB"
        recv_buffer = "4 MB"
        [topology]
        kind = "dumbbell"
        pairs = {pairs}
        trunk = {{ rate = "{mbps} Mbit/s", delay = "{delay}ms", queue = "1000 packets", {trunk} }}
        access = {{ rate = "1 Gbit/s", delay = "1ms", queue = "unlimited" }}
        [[flow]]
        from = "left{{1..{flows}}}"
        to = "right{{1..{flows}}}"
        start_jitter = "500ms"
        "#
    )
}

fn sojourn(queue: &QueueReport) -> SojournReport {
    queue
        .discipline
        .as_ref()
        .expect("it has a discipline")
        .sojourn
}

/// Jain's index.
fn fairness(report: &Report) -> f64 {
    let rates: Vec<f64> = report.flows.iter().map(|it| it.goodput_bps).collect();
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    sum * sum / (rates.len() as f64 * squares)
}

/// RFC 8289 4.3: the standing queue of long transfers is about the target, and the link stays busy. Without CoDel it is what
/// there is room for.
#[test]
fn codel_keeps_a_standing_queue_at_its_target() {
    let fifo = run(&dumbbell(4, 4, 50, 40, "mark = \"900 packets\""));
    assert!(fifo.queues[0].mean_wait > 0.15, "{:?}", fifo.queues[0]);
    for target in [5.0, 10.0] {
        let report = run(&dumbbell(
            4,
            4,
            50,
            40,
            &format!("discipline = {{ codel = {{ target = \"{target}ms\" }} }}"),
        ));
        let queue = &report.queues[0];
        let median = sojourn(queue).p50.unwrap() * 1e3;
        assert!(
            (0.5 * target..1.3 * target).contains(&median),
            "{target} {queue:?}"
        );
        assert!(
            queue.utilisation > 0.98 && queue.dropped_full == 0,
            "{queue:?}"
        );
    }
}

/// RFC 8033 4: the delay is kept about the target.
#[test]
fn pie_keeps_the_delay_at_its_target() {
    for target in [15.0, 30.0] {
        let report = run(&dumbbell(
            4,
            4,
            50,
            40,
            &format!("discipline = {{ pie = {{ target = \"{target}ms\" }} }}"),
        ));
        let queue = &report.queues[0];
        let mean = queue.mean_wait * 1e3;
        assert!((mean / target - 1.0).abs() < 0.15, "{target} {queue:?}");
        assert!(
            queue.utilisation > 0.98 && queue.dropped_full == 0,
            "{queue:?}"
        );
    }
}

/// RFC 8290 1: flows share evenly, and the packets of one that sends little wait for one packet at most.
#[test]
fn flow_queues_share_evenly_and_let_sparse_flows_pass() {
    let with_sparse = |trunk: &str| {
        let sparse = "[[flow]]\nfrom = \"left9\"\nto = \"right9\"\ndatagrams = { gap = \"20ms\", size = \"200 B\" }";
        let mut report = run(&format!("{}{sparse}", dumbbell(9, 8, 20, 40, trunk)));
        let delay = report.flows.pop().and_then(|it| it.mean_delay);
        (report, delay.unwrap())
    };
    let (flow_queues, short) = with_sparse("discipline = { fq_codel = {} }");
    let (one_queue, long) = with_sparse("discipline = { codel = {} }");
    // Sending 200 bytes takes 0.0832 ms in all, a full packet at 20 Mbit/s 0.6 ms.
    let empty = 20e-3 + 0.0832e-3;
    assert!((empty..empty + 0.6e-3).contains(&short), "{short}");
    assert!(long > empty + 5e-3, "{long}");
    assert!(fairness(&flow_queues) > 0.995, "{}", fairness(&flow_queues));
    assert!(fairness(&flow_queues) > fairness(&one_queue));
}

/// The longer a round trip, the less a flow gets of one queue; of flow queues it gets its share.
#[test]
fn flow_queues_share_evenly_among_unlike_round_trips() {
    let run_with = |trunk: &str| {
        let mut network = network(&dumbbell(4, 4, 20, 20, trunk));
        for (n, link) in network.links.iter_mut().skip(1).enumerate().take(4) {
            link.delay = Span::from_ms(1 + 15 * n as u64);
        }
        fairness(&Internet::new(&network).unwrap().run(&mut ()))
    };
    let (one, each) = (
        run_with("discipline = { codel = {} }"),
        run_with("discipline = { fq_codel = {} }"),
    );
    assert!(one < 0.95 && each > 0.98, "{one} {each}");
}

/// Marks take the place of drops, and nothing is sent again for them.
#[test]
fn disciplines_mark_ecn_capable_packets() {
    for name in ["codel", "fq_codel", "pie"] {
        let trunk = |ecn: bool| format!("discipline = {{ {name} = {{ ecn = {ecn} }} }}");
        let marking = dumbbell(4, 4, 50, 40, &trunk(true)) + "tcp = \"ecn\"\n";
        let marked = run(&marking);
        let queue = &marked.queues[0];
        assert!(
            queue.marked > 10 && queue.dropped_red == 0,
            "{name} {queue:?}"
        );
        let sum = |of: fn(&FlowReport) -> u64| marked.flows.iter().map(of).sum::<u64>();
        assert_eq!(sum(|it| it.retransmitted), 0, "{name}");
        assert!(sum(|it| it.ecn_reductions) > 5, "{name}");
        // A discipline that does not mark, or whose packets cannot be marked, drops.
        let dropped = run(&(dumbbell(4, 4, 50, 40, &trunk(false)) + "tcp = \"ecn\"\n"));
        let unable = run(&dumbbell(4, 4, 50, 40, &trunk(true)));
        for other in [dropped, unable] {
            let queue = &other.queues[0];
            assert!(
                queue.marked == 0 && queue.dropped_red > 10,
                "{name} {queue:?}"
            );
        }
    }
}

/// From the start on, with a slow start that overshoots: what was dropped is sent again, and the first segment of a time-out that
/// turns out to be spurious, and nothing else.
#[test]
fn only_what_was_dropped_is_sent_again() {
    let mut timeouts = 0;
    for (trunk, tcp) in [
        ("discipline = { pie = { ecn = true } }", "ecn"),
        ("discipline = { pie = {} }", "default"),
        ("discipline = { codel = {} }", "default"),
        ("discipline = { fq_codel = {} }", "default"),
        ("mark = \"900 packets\"", "default"),
    ] {
        let text = dumbbell(4, 4, 50, 40, trunk) + &format!("tcp = \"{tcp}\"\n");
        let report = run(&text.replace("warm_up = \"5s\"", "warm_up = \"0s\""));
        let sum = |of: fn(&FlowReport) -> u64| report.flows.iter().map(of).sum::<u64>();
        let queue = &report.queues[0];
        let dropped = queue.dropped_full + queue.dropped_red;
        let again = sum(|it| it.retransmitted);
        assert!(
            dropped > 50 && again >= dropped && again <= dropped + sum(|it| it.timeouts),
            "{trunk}: {again} for {dropped}"
        );
        timeouts += sum(|it| it.timeouts);
    }
    assert!(timeouts > 10, "{timeouts}");
}

/// RFC 9332: a scalable flow and a classic one share the link evenly, its packets wait a tenth of a target, and those of the
/// classic flow the target. In one queue the classic flow starves, or all wait.
#[test]
fn dualpi2_gives_low_delay_beside_classic_flows() {
    let hosts = r#"
        [tcp.l4s]
        variant = "dctcp"
        ecn = "l4s"
        send_buffer = "4 MB"
        recv_buffer = "4 MB"
        [[flow]]
        from = "left2"
        to = "right2"
        tcp = "l4s"
    "#;
    for (mbps, rtt) in [(40, 10), (120, 20)] {
        let trunk = "discipline = { dualpi2 = {} }";
        let report = run(&(dumbbell(2, 1, mbps, rtt, trunk) + hosts));
        let queue = &report.queues[0];
        let [low, classic] = &queue.discipline.as_ref().unwrap().bands[..] else {
            panic!("two bands: {queue:?}");
        };
        assert_eq!([&*low.name, &classic.name], ["low latency", "classic"]);
        let [reno, dctcp] = [0, 1].map(|n| report.flows[n].goodput_bps);
        assert!((0.5..2.0).contains(&(dctcp / reno)), "{reno} {dctcp}");
        assert!(queue.utilisation > 0.95, "{queue:?}");
        let p99 = |band: &BandReport| band.sojourn.p99.unwrap() * 1e3;
        assert!(p99(low) < 3.0, "{low:?}");
        let median = classic.sojourn.p50.unwrap() * 1e3;
        assert!((8.0..22.0).contains(&median), "{classic:?}");
        assert!(
            low.marked > 100 && low.dropped == 0 && classic.dropped > 5,
            "{queue:?}"
        );
    }
}

/// RFC 3246: packets of expedited forwarding wait for one packet of another class at most; the rest of the link is for others.
#[test]
fn classes_pass_in_their_order() {
    let flows = |dscp: &str| {
        format!(
            r#"
        [[flow]]
        name = "voice"
        from = "left3"
        to = "right3"
        dscp = "{dscp}"
        datagrams = {{ gap = "20ms", size = "200 B" }}
        [[flow]]
        name = "bulk of lower effort"
        from = "left4"
        to = "right4"
        dscp = "le"
        "#
        )
    };
    let trunk = "discipline = { priority = { bands = \"ef, *, le\" } }";
    let report = run(&(dumbbell(4, 2, 20, 40, trunk) + &flows("46")));
    let [bulk @ .., voice, lower] = &report.flows[..] else {
        panic!("four flows");
    };
    // As in the test of flow queues.
    let empty = 20e-3 + 0.0832e-3;
    let delay = voice.mean_delay.unwrap();
    assert!((empty..empty + 0.6e-3).contains(&delay), "{delay}");
    let best: f64 = bulk.iter().map(|it| it.goodput_bps).sum();
    assert!(best > 18e6 && lower.goodput_bps < 0.5e6, "{best} {lower:?}");
    let bands = &report.queues[0].discipline.as_ref().unwrap().bands;
    let names: Vec<&str> = bands.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["ef", "*", "le"]);
    assert_eq!(bands[0].sent, voice.received, "{bands:?}");
    // Without a class it waits as the others do.
    let report = run(&(dumbbell(4, 2, 20, 40, trunk) + &flows("be")));
    assert!(report.flows[2].mean_delay.unwrap() > empty + 20e-3);
}

/// RFC 2474: whatever sends them, packets have the class of their flow in both directions.
#[test]
fn packets_of_generators_xtp_and_mets_have_their_class() {
    let text = |xtp: &str, generated: &str, mets: &str| {
        let trunk = "discipline = { priority = { bands = \"ef, af41, cs1, *\" } }";
        let trunk = format!("{trunk}, back = {{ queue = \"99 packets\", {trunk} }}");
        let more = format!(
            r#"
            [[flow]]
            from = "left2"
            to = "right2"
            xtp = {{}}
            bytes = 200000
            start = "5s"
            dscp = "{xtp}"
            [[generate]]
            sizes = "exp(30000) B"
            from = ["left3"]
            to = ["right3"]
            gap = "exp(200ms)"
            dscp = "{generated}"
            [[mets.peering]]
            ends = ["left4", "right4"]
            rate = "3 Mbit/s"
            dscp = "{mets}"
            [[mets.flow]]
            name = "canyon"
            source = "left4"
            clip = {{ synthetic = "canyon" }}
            frame_rate = 24
            [[mets.receiver]]
            node = "right4"
            flow = "canyon"
            "#
        );
        dumbbell(4, 1, 20, 40, &trunk) + &more
    };
    let sent = |text: &str, way: usize| -> Vec<u64> {
        let report = run(text);
        let name = ["left->right", "right->left"][way];
        let queue = report.queues.iter().find(|it| it.name == name).unwrap();
        let bands = &queue.discipline.as_ref().unwrap().bands;
        bands.iter().map(|it| it.sent).collect()
    };
    for way in 0..2 {
        let [xtp, mets, generated, others] = sent(&text("ef", "cs1", "af41"), way)[..] else {
            panic!("four bands");
        };
        assert!(
            xtp > 5 && mets > 15 && generated > 200 && others > 1_000,
            "{xtp} {mets} {generated} {others}"
        );
        assert_eq!(sent(&text("be", "be", "be"), way)[..3], [0, 0, 0]);
    }
    let two = text("ef", "be", "be") + "[[flow]]\nfrom = \"right2\"\nto = \"left2\"\nxtp = {}\n";
    let scenario = Scenario::from_toml(&two, Path::new("")).unwrap();
    let said = scenario.resolve().unwrap_err().to_string();
    assert!(said.contains("give both flows the same dscp"), "{said}");
}

/// A host with many flows gets the share of a host.
#[test]
fn hosts_share_a_link() {
    let share = |share: &str| {
        let trunk = format!("discipline = {{ drr = {{ share = \"{share}\" }} }}");
        let other = "[[flow]]\nfrom = \"left1\"\nto = \"right{1..4}\"\n";
        let text = dumbbell(4, 4, 20, 20, &trunk).replace("left{1..4}", "left2");
        let report = run(&(text.replacen("right{1..4}", "right1", 1) + &other.repeat(2)));
        let rates: Vec<f64> = report.flows.iter().map(|it| it.goodput_bps).collect();
        rates[0] / rates.iter().sum::<f64>()
    };
    let [host, flow] = ["source", "flow"].map(share);
    assert!((0.47..0.53).contains(&host), "{host}");
    assert!((0.09..0.13).contains(&flow), "{flow}");
}

#[test]
fn threads_are_refused_with_the_reason() {
    let network = network(&dumbbell(4, 4, 50, 40, "discipline = { codel = {} }"));
    let world = Internet::new(&network).unwrap();
    assert_eq!(
        world.divide(&network, 2).err(),
        Some(Indivisible::Disciplines)
    );
}

#[test]
fn a_fifo_queue_of_pipes_and_a_discipline_exclude_each_other() {
    let mut network = network(&dumbbell(1, 1, 50, 40, "discipline = { codel = {} }"));
    network.links[0].ways[0].queue.mark = Some(Limit::Packets(5));
    let error = Internet::new(&network).unwrap_err();
    assert!(
        error.to_string().contains("neither RED nor a threshold"),
        "{error}"
    );
}

/// Packets to a group, XTP streams and datagrams pass a discipline as others do.
#[test]
fn all_protocols_pass_a_discipline() {
    let text = r#"
        schema = "internet/1"
        name = "mixed"
        run = { duration = "4s" }
        host = [{ name = "h{1..3}" }]
        router = [{ name = "r" }]
        [[link]]
        ends = ["h{1..3}", "r"]
        rate = "10 Mbit/s"
        delay = "2ms"
        discipline = { fq_codel = { flows = 16 } }
        [[flow]]
        name = "xtp"
        from = "h1"
        to = "h2"
        xtp = {}
        bytes = 300_000
        [[flow]]
        name = "group"
        from = "h1"
        to = "h{2..3}"
        xtp = { group = {} }
        bytes = 200_000
        [[flow]]
        name = "udp"
        from = "h2"
        to = "h3"
        datagrams = { gap = "5ms", size = "1200 B" }
    "#;
    let report = run(text);
    let [xtp, group, udp] = &report.flows[..] else {
        panic!("three flows");
    };
    assert_eq!(xtp.bytes, 300_000);
    assert!(group.completed.is_some(), "{group:?}");
    assert!(udp.received > 700, "{udp:?}");
    for queue in &report.queues {
        assert!(queue.offered > 10, "{queue:?}");
        let waiting = queue.discipline.as_ref().unwrap().waiting;
        let sum = queue.sent + queue.dropped_full + queue.dropped_red + u64::from(waiting);
        assert_eq!(queue.offered, sum);
    }
}

/// Series have the packets in the queue and those dropped, warm-up included.
#[test]
fn series_have_the_queue_of_a_discipline() {
    #[derive(Default)]
    struct Last(Option<QueueState>, u64);
    impl Watch for Last {
        fn sample(&mut self, _: &Sample) {}
        fn point(&mut self, point: &Point<'_>) {
            if point.name == "left->right" {
                self.0 = point.queue;
                self.1 = self.1.max(point.queue.map_or(0, |it| it.waiting));
            }
        }
    }
    let network = network(&dumbbell(4, 4, 50, 40, "discipline = { codel = {} }"));
    let mut last = Last::default();
    let report = Internet::new(&network)
        .unwrap()
        .run_with_series(Span::from_ms(100), &mut last);
    assert_eq!(report, Internet::new(&network).unwrap().run(&mut ()));
    let (state, longest) = (last.0.unwrap(), last.1);
    assert!(longest > 10, "{longest}");
    assert!(state.dropped > report.queues[0].dropped_red, "{state:?}");
    assert!(state.bytes.unwrap() >= 40 * state.waiting, "{state:?}");
}

/// A shaper holds packets back: the link asks again when it says so.
#[test]
fn a_discipline_may_hold_packets_back() {
    /// One packet each 10 ms.
    #[derive(Default, Debug)]
    struct Slow(VecDeque<Item>, Time);
    impl QueueDiscipline for Slow {
        fn enqueue(&mut self, item: Item, port: &mut Port<'_>) {
            match port.is_over_limit() {
                true => port.drop(item, DropCause::Full),
                false => self.0.push_back(item),
            }
        }
        fn dequeue(&mut self, port: &mut Port<'_>) -> Option<Item> {
            if port.now() < self.1 {
                return None;
            }
            let item = self.0.pop_front()?;
            self.1 = port.now().saturating_add(Span::from_ms(10));
            Some(item)
        }
        fn ready_at(&self) -> Option<Time> {
            (!self.0.is_empty()).then_some(self.1)
        }
    }
    let text = dumbbell(2, 1, 50, 40, "")
        + "[[flow]]\nfrom = \"left2\"\nto = \"right2\"\ndatagrams = { gap = \"4ms\", size = \"500 B\" }";
    let mut network = network(&text);
    network.flows.remove(0);
    let slow = DisciplineFactory::new("slow", |_| Slow::default());
    network.links[0].disciplines[0] = Some(Discipline::Own(slow));
    let report = Internet::new(&network).unwrap().run(&mut ());
    // 100 a second of 250; the rest waits.
    assert_eq!(report.queues[0].sent, 2_000);
    assert!(
        report.queues[0].max_waiting == 1_000,
        "{:?}",
        report.queues[0]
    );
}

/// The discipline of examples/aqm, which docs/src/how-to/own-aqm.md explains, is shorter than a FIFO queue on a busy link.
#[test]
fn a_discipline_of_ones_own_is_a_file() {
    let found = own::compare();
    let [(_, fifo), (_, codel), (_, blue)] = &found[..] else {
        panic!("three disciplines");
    };
    assert!(fifo.discipline.is_none() && fifo.dropped_red == 0);
    assert_eq!(blue.discipline.as_ref().unwrap().name, "blue");
    assert!(blue.dropped_red > 100 && codel.dropped_red > 100);
    assert!(blue.mean_wait < 0.7 * fifo.mean_wait, "{blue:?} {fifo:?}");
    assert!(blue.utilisation > 0.95, "{blue:?}");
    own::show(&found);
}
