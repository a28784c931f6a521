use layercast_core::{Rate, Span};
use layercast_sim::internet::*;
use layercast_workload::app::Record;
use layercast_workload::{Population as Sites, Workload};

use super::common::*;

#[derive(Default)]
struct Samples(Vec<Sample>);

impl Watch for Samples {
    fn sample(&mut self, sample: &Sample) {
        self.0.push(*sample);
    }
}

/// Sites of eight workstations and two servers on a LAN, their routers joined by links of 10 Mbit/s.
fn campus(sites: u32, seconds: f64) -> Network {
    let mut nodes: Vec<_> = (0..sites).map(|n| (format!("r{n}"), None)).collect();
    let hosts = 0..sites * 10;
    nodes.extend(
        hosts
            .clone()
            .map(|n| (format!("h{n}"), Some(modern(1_448)))),
    );
    let mut network = network(nodes, seconds);
    for n in 1..sites {
        let limit = Limit::Packets(100);
        network
            .links
            .push(link(0, n, 10_000_000, Span::from_ms(10), limit));
    }
    for site in 0..sites {
        let first = sites + site * 10;
        let stations = std::iter::once(site).chain(first..first + 10);
        network.lans.push(Lan {
            name: format!("lan{site}"),
            rate: Rate::from_bps(100_000_000),
            latency: Span::from_us(10),
            mtu: 1_500,
            stations: stations.map(NodeIndex).collect(),
        });
    }
    let none = |name: &str| Err(format!("no file {name}"));
    network.workload = Some(Population {
        workload: Workload::parse(Workload::MAH96, &none).expect("a workload"),
        hosts: hosts.map(|n| NodeIndex(sites + n)).collect(),
        sites: Sites::uniform(sites, 8, 2),
    });
    network
}

#[test]
fn all_applications_do_their_work() {
    let network = campus(3, 1_500.0);
    let mut samples = Samples::default();
    let report = Internet::new(&network)
        .expect("a network")
        .run(&mut samples);
    for application in &report.applications {
        assert!(application.started > 0, "{application:?}");
    }
    let count = |what: fn(&Record) -> bool| samples.0.iter().filter(|it| what(&it.record)).count();
    assert!(count(|it| matches!(it, Record::TelnetRtt { .. })) > 100);
    assert!(count(|it| matches!(it, Record::FtpFile { .. })) > 20);
    assert!(count(|it| matches!(it, Record::HttpPage { .. })) > 100);
    assert!(count(|it| matches!(it, Record::Pushed { .. })) > 50);
    assert_eq!(count(|it| matches!(it, Record::Failed { .. })), 0);
    // Every session ends once, and every file takes a round trip at least.
    let ended = report.applications.iter().find(|it| it.name == "ftp");
    let ended = ended.expect("FTP").ended as usize;
    let sessions = count(|it| matches!(it, Record::FtpSession { .. }));
    assert!(
        (ended..=ended + 2).contains(&sessions),
        "{sessions} sessions, {ended} ended"
    );
    let instant =
        |it: &Record| matches!(it, Record::FtpFile { took, .. } if *took < Span::from_ms(20));
    assert_eq!(count(instant), 0);
    // The shortest round trip is two LANs and one link of 10 ms, there and back.
    let quickest = samples.0.iter().filter_map(|it| match it.record {
        Record::TelnetRtt { took, .. } => Some(took),
        _ => None,
    });
    let quickest = quickest.min().expect("one");
    assert!(
        quickest > Span::from_ms(20) && quickest < Span::from_ms(22),
        "{quickest}"
    );
}

#[test]
fn a_run_that_is_stopped_says_so() {
    struct Stop(u32);
    impl Watch for Stop {
        fn sample(&mut self, _: &Sample) {}
        fn progress(&mut self, progress: Progress) -> bool {
            self.0 += 1;
            assert!(progress.events > 0);
            self.0 < 3
        }
    }
    let mut network = campus(2, 10_000.0);
    let report = Internet::new(&network).expect("it").run(&mut Stop(0));
    assert_eq!(report.stopped, Some(Stopped::Interrupted));
    assert!(report.seconds < 10_000.0);
    network.budget.events = 50_000;
    let report = run(&network);
    assert_eq!(report.stopped, Some(Stopped::EventBudget));
}
