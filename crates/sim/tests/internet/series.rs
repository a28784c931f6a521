//! Series: what they tell of flows and queues, and that taking them changes nothing.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use layercast_core::{Off, Span};
use layercast_sim::internet::scenario::Scenario;
use layercast_sim::internet::{Internet, Point, PointKind, PointSink, Report, Sample, Watch};
use layercast_sim::{Outputs, Simulation, scenario};

/// A point that owns its name.
#[derive(Clone, PartialEq, Debug)]
struct Seen {
    seconds: f64,
    rate_bps: f64,
    delivered: Option<u64>,
    tcp: Option<layercast_sim::internet::TcpState>,
    queue: Option<layercast_sim::internet::QueueState>,
}

#[derive(Default)]
struct Points(BTreeMap<(String, String), Vec<Seen>>);

impl PointSink for Points {
    fn point(&mut self, point: &Point<'_>) {
        let key = (point.kind.name().to_owned(), point.name.to_owned());
        self.0.entry(key).or_default().push(Seen {
            seconds: point.at.as_secs_f64(),
            rate_bps: point.rate_bps,
            delivered: point.delivered,
            tcp: point.tcp,
            queue: point.queue,
        });
    }
}

impl Watch for Points {
    fn sample(&mut self, _: &Sample) {}

    fn point(&mut self, point: &Point<'_>) {
        PointSink::point(self, point);
    }
}

impl Points {
    fn of(&self, kind: PointKind, name: &str) -> &[Seen] {
        let key = (kind.name().to_owned(), name.to_owned());
        self.0.get(&key).map_or(&[], Vec::as_slice)
    }
}

fn run(text: &str, every: Span) -> (Report, Points) {
    let scenario = Scenario::from_toml(text, Path::new(".")).unwrap();
    let network = scenario.resolve().unwrap();
    let alone = Internet::new(&network).unwrap().run(&mut ());
    let mut points = Points::default();
    let mut internet = Internet::new(&network).unwrap();
    let report = internet.run_with_series(every, &mut points);
    assert_eq!(report, alone, "a series changes nothing");
    (report, points)
}

/// Two flows of TCP that fill a marking trunk, datagrams, and transfers; the warm-up ends between two points.
const DUMBBELL: &str = r#"
    schema = "internet/1"
    name = "dumbbell"
    run = { duration = "4s", warm_up = "1005ms", seed = 3 }
    topology = { kind = "dumbbell", pairs = 4, access = { rate = "100 Mbit/s", delay = "1ms" }, trunk = { rate = "10 Mbit/s", delay = "10ms", queue = "40 packets", mark = "30 packets" } }
    tcp = { marked = { variant = "cubic", ecn = "rfc3168" } }
    flow = [
        { name = "plain", from = "left1", to = "right1" },
        { name = "marked", from = "left2", to = "right2", tcp = "marked" },
        { name = "short", from = "left3", to = "right3", bytes = 100_000, start = "2s" },
        { name = "voice", from = "left4", to = "right4", datagrams = { gap = "20ms", size = "200 B" } },
    ]
    generate = [{ name = "web", sizes = "const(50000) B", from = ["left{1..4}"], to = ["right{1..4}"], gap = "500ms", flows = 5 }]
"#;

#[test]
fn the_points_of_a_dumbbell_add_up_to_its_report() {
    let (report, points) = run(DUMBBELL, Span::from_ms(10));
    let trunk = points.of(PointKind::Queue, "left->right");
    let names: Vec<_> = points.0.keys().collect();
    assert_eq!(trunk.len(), 400, "{names:?}");
    let queue = report.queues.iter().find(|it| it.name == "left->right");
    let queue = queue.unwrap();
    // The report begins behind the warm-up.
    let at = |seconds: f64| trunk.iter().rfind(|it| it.seconds <= seconds).unwrap();
    let (warm, last) = (at(1.005).queue.unwrap(), at(4.0).queue.unwrap());
    assert!(last.dropped - warm.dropped >= queue.dropped_full && queue.dropped_full > 0);
    assert!(last.marked - warm.marked >= queue.marked && queue.marked > 0);
    let waiting = trunk.iter().filter_map(|it| it.queue).map(|it| it.waiting);
    let most = waiting.max().unwrap();
    assert!(most > 30 && most <= queue.max_waiting.into(), "{most}");
    // Rates are what the link sent, and never more than it can.
    assert!(trunk.iter().all(|it| it.rate_bps < 10.02e6));
    let late = trunk.iter().filter(|it| it.seconds > 1.0);
    let sent: f64 = late.map(|it| it.rate_bps * 0.01 / 8.0).sum();
    assert!(
        (sent / (queue.utilisation * 3.0 * 1.25e6) - 1.0).abs() < 0.01,
        "{sent}"
    );
}

/// Packets lost because the link is down have a count of their own, from the start of the run.
#[test]
fn the_points_of_a_link_that_is_down_add_up_to_its_report() {
    let trunk = "queue = \"40 packets\", mark = \"30 packets\"";
    let text = DUMBBELL.replace(trunk, "loss = 0.01, down = \"500ms..600ms, 2s..2.2s\"");
    assert_ne!(text, DUMBBELL);
    let (report, points) = run(&text, Span::from_ms(5));
    let queue = report.queues.iter().find(|it| it.name == "left->right");
    let queue = queue.unwrap();
    let trunk = points.of(PointKind::Queue, "left->right");
    let at = |seconds: f64| {
        let last = trunk.iter().rfind(|it| it.seconds <= seconds);
        last.unwrap().queue.unwrap()
    };
    let (warm, last) = (at(1.005), at(4.0));
    assert!(warm.down > 0 && queue.down > 0 && queue.lost > 0);
    assert_eq!(last.down - warm.down, queue.down);
    assert_eq!(last.lost - warm.lost, queue.lost);
}

#[test]
fn the_points_of_a_flow_show_its_window() {
    let (report, points) = run(DUMBBELL, Span::from_ms(10));
    let plain = points.of(PointKind::Flow, "plain");
    let states: Vec<_> = plain.iter().filter_map(|it| it.tcp).collect();
    assert!(states.len() > 390);
    // The window limits what is in flight, but for what recovery and duplicates add.
    assert!(
        states
            .iter()
            .all(|it| it.acknowledged + it.in_flight <= it.sent + 1)
    );
    assert!(states.is_sorted_by_key(|it| (it.acknowledged, it.sent, it.retransmitted)));
    let (first, last) = (states[5], states[states.len() - 1]);
    assert_eq!(first.ssthresh, None);
    assert!(last.ssthresh.is_some() && last.retransmitted > 0);
    let srtt = last.srtt.unwrap().as_secs_f64();
    assert!((0.022..0.080).contains(&srtt), "{srtt}");
    // Of the report, which leaves out the warm-up.
    let flow = &report.flows[0];
    let (warm, end) = (plain.iter().rfind(|it| it.seconds <= 1.005), plain.last());
    let got = end.unwrap().delivered.unwrap() - warm.unwrap().delivered.unwrap();
    assert!(got.abs_diff(flow.bytes) < 15_000, "{got} {}", flow.bytes);
    let rates: f64 = plain.iter().map(|it| it.rate_bps * 0.01 / 8.0).sum();
    assert!((rates - end.unwrap().delivered.unwrap() as f64).abs() < 1.0);
    // One that is complete has no further points, and one of datagrams has no window.
    let short = points.of(PointKind::Flow, "short");
    assert!(short[0].seconds >= 2.0 && short.last().unwrap().delivered == Some(100_000));
    assert!(
        points
            .of(PointKind::Flow, "voice")
            .iter()
            .all(|it| it.tcp.is_none())
    );
    let web = points.of(PointKind::Transfer, "web#1");
    assert!(web.last().unwrap().tcp.unwrap().acknowledged > 0);
    assert!(!points.of(PointKind::Transfer, "web#5").is_empty());
}

#[test]
fn a_point_is_that_of_a_run_which_ends_there() {
    let (_, points) = run(DUMBBELL, Span::from_ms(250));
    let (_, finer) = run(DUMBBELL, Span::from_ms(10));
    for name in ["plain", "marked"] {
        for point in points.of(PointKind::Flow, name) {
            let same = finer.of(PointKind::Flow, name);
            let same = same.iter().find(|it| it.seconds == point.seconds).unwrap();
            assert_eq!((same.tcp, same.delivered), (point.tcp, point.delivered));
        }
    }
    for point in points.of(PointKind::Queue, "left->right") {
        let same = finer.of(PointKind::Queue, "left->right");
        let same = same.iter().find(|it| it.seconds == point.seconds).unwrap();
        assert_eq!(same.queue, point.queue);
    }
}

#[test]
fn ports_of_layered_flows_have_points() {
    let text = r#"
        name = "unequal"
        duration = "6s"
        node = [
            { name = "server", kind = "host" }, { name = "switch", kind = "switch" },
            { name = "narrow", kind = "host" },
        ]
        link = [
            { a = "server", b = "switch", rate = "100 Mbit/s", queue = "500 ms" },
            { a = "switch", b = "narrow", rate = { fits = "film", level = 1, spare = 0.1 }, queue = "500 ms", efci = 0.5 },
        ]
        flow = [{ name = "film", source = "server", clip = { synthetic = "canyon" }, frame_rate = 24, start = "1s", delay_max = "500ms" }]
        receiver = [{ node = "narrow", flow = "film" }]
    "#;
    let network = || {
        let scenario = scenario::Scenario::from_toml(text, "".as_ref()).unwrap();
        scenario.validate().unwrap()
    };
    let go_on = |_| ControlFlow::Continue(());
    let alone = Simulation::new(network()).run(&mut Off, Outputs::default(), go_on);
    let mut points = Points::default();
    let outputs = Outputs {
        series: Some((Span::from_ms(20), &mut points)),
        ..Outputs::default()
    };
    let summary = Simulation::new(network()).run(&mut Off, outputs, go_on);
    let summary = summary.unwrap();
    assert_eq!(summary, alone.unwrap(), "a series changes nothing");
    let port = points.of(PointKind::Port, "switch->narrow");
    let of_port = summary
        .queues
        .iter()
        .find(|it| it.port == "narrow")
        .unwrap();
    let most = port
        .iter()
        .filter_map(|it| it.queue)
        .map(|it| it.waiting)
        .max();
    let most = most.unwrap();
    assert!(most > 0 && most <= of_port.queue.max_queue.into());
    let bytes: f64 = port.iter().map(|it| it.rate_bps * 0.02 / 8.0).sum();
    assert!(
        (bytes - of_port.queue.bytes_out as f64).abs() < 5_000.0,
        "{bytes}"
    );
    // Its link is no queue of its own.
    assert!(points.of(PointKind::Queue, "switch->narrow").is_empty());
}

#[test]
fn links_of_a_backbone_have_points_in_cells() {
    let text = std::fs::read_to_string("../../scenarios/internet/xunet.toml").unwrap();
    let scenario = Scenario::from_toml(&text, Path::new("../../scenarios/internet")).unwrap();
    let mut network = scenario.resolve().unwrap();
    network.duration = Span::from_secs(2);
    network.warm_up = Span::ZERO;
    let mut points = Points::default();
    let mut internet = Internet::new(&network).unwrap();
    let report = internet.run_with_series(Span::from_ms(50), &mut points);
    assert_eq!(report, Internet::new(&network).unwrap().run(&mut ()));
    for queue in report.atm.unwrap().queues.iter().filter(|it| it.sent > 0) {
        let seen = points.of(PointKind::Cells, &queue.name);
        let sent: f64 = seen.iter().map(|it| it.rate_bps * 0.05 / 8.0 / 53.0).sum();
        // Cells that the backbone moves only when it is asked for the result are still to come.
        let missing = queue.sent as f64 - sent;
        assert!((0.0..8.0).contains(&missing.round()), "{sent} {queue:?}");
        assert!(seen.last().unwrap().queue.unwrap().dropped <= queue.dropped);
    }
}

/// Stops as soon as it is asked.
struct Impatient(u64);

impl Watch for Impatient {
    fn sample(&mut self, _: &Sample) {}

    fn point(&mut self, _: &Point<'_>) {
        self.0 += 1;
    }

    fn progress(&mut self, _: layercast_sim::internet::Progress) -> bool {
        false
    }
}

#[test]
fn a_series_of_many_points_between_two_events_can_be_stopped() {
    let text = r#"
        schema = "internet/1"
        name = "quiet"
        run = { duration = "1h" }
        host = [{ name = "a" }, { name = "b" }]
        link = [{ ends = ["a", "b"], rate = "10 Mbit/s", delay = "1ms" }]
        flow = [{ from = "a", to = "b", bytes = 5000 }]
    "#;
    let scenario = Scenario::from_toml(text, Path::new(".")).unwrap();
    let mut internet = Internet::new(&scenario.resolve().unwrap()).unwrap();
    let mut watch = Impatient(0);
    let report = internet.run_with_series(Span::from_us(1), &mut watch);
    assert!(report.stopped.is_some(), "{:?}", report.stopped);
    // Of the flow and of a queue for each of 256 instants, at most.
    assert!(watch.0 <= 3 * 256, "{} points", watch.0);
}
