//! IP over an ATM backbone.

use core::net::Ipv4Addr;

use layercast_core::{Rate, Span};
use layercast_sim::internet::*;
use layercast_sim::scenario::Ties;
use layercast_tcp::{Profile, TcpConfig};
use layercast_workload::app::{HostId, Record};
use layercast_workload::{Population as Sites, Site, Workload};

use super::common::*;

/// The six sites of specs/insane-simulator.md 2.9, with `workstations` workstations each.
pub fn xunet(policy: &str, workstations: u32, seconds: f64) -> Network {
    let mut tcp = TcpConfig::from(Profile::Bsd44Lite);
    tcp.mss = 512;
    (tcp.send_buffer, tcp.recv_buffer) = (8_192, 8_192);
    let names = ["w1", "e1", "w2", "e2", "w3", "e3"];
    let each = 3 + workstations;
    let mut nodes = Vec::new();
    for name in names {
        nodes.push((format!("{name}.router"), None));
        let hosts = (0..2 + workstations).map(|n| (format!("{name}.h{n}"), Some(tcp.clone())));
        nodes.extend(hosts);
    }
    let mut network = network(nodes, seconds);
    network.ties = Ties::Ordered;
    let router = |site: u32| NodeIndex(site * each);
    for (site, name) in names.iter().enumerate() {
        let first = site as u32 * each;
        for n in 0..each {
            let address = Ipv4Addr::new(128, 32, 131 + site as u8, 1 + n as u8);
            network.nodes[(first + n) as usize].address = address;
        }
        network.lans.push(Lan {
            name: format!("{name}.lan"),
            rate: Rate::from_bps(100_000_000),
            latency: Span::from_us(10),
            mtu: 1_500,
            stations: (first..first + each).map(NodeIndex).collect(),
        });
    }
    let t1 = |a, b, ms| AtmLink {
        ends: [a, b],
        rate: Rate::from_bps(1_536_000),
        delay: Span::from_ms(ms),
    };
    let switch = AtmEnd::Switch;
    let mut links = vec![t1(switch(0), switch(1), 30)];
    for (a, b) in [(0, 2), (0, 4), (1, 3), (1, 5)] {
        links.push(t1(switch(a), switch(b), 5));
    }
    links.extend((0..6).map(|site| t1(AtmEnd::Adapter(router(site)), switch(site), 0)));
    network.atm = Some(AtmBackbone {
        switches: names.map(str::to_owned).to_vec(),
        links,
        queue: AtmQueue {
            discard: Discard::Partial,
            per_vc_limit: 170,
            port_limit: 800,
            adapter_limit: None,
            max_vcs: 8_192,
            low_limit: u32::MAX,
            drr_weight: 8,
        },
        policy: policy.to_owned(),
        signalling_delay: Span::ZERO,
        mtu: 1_500,
        idle: Span::from_secs(10),
        reassembly_timer: None,
        slots: false,
        per_cell: false,
    });
    // Servers first in each site, as they have the lower addresses.
    let host = |site: u32, n: u32| HostId(site * (each - 1) + n);
    let sites = (0..6).map(|site| Site {
        servers: vec![host(site, 0), host(site, 1)],
        workstations: (2..each - 1).map(|n| host(site, n)).collect(),
    });
    let sites = sites.collect();
    let ranks = (0..2).flat_map(|n| (0..6).map(move |site| host(site, n)));
    let none = |name: &str| Err(format!("no file {name}"));
    network.workload = Some(Population {
        workload: Workload::parse(Workload::MAH96, &none).expect("a workload"),
        hosts: (0..6)
            .flat_map(|site| (1..each).map(move |n| NodeIndex(site * each + n)))
            .collect(),
        sites: Sites {
            sites,
            ranks: ranks.collect(),
        },
    });
    network
}

#[derive(Default)]
struct Samples(Vec<Sample>);

impl Watch for Samples {
    fn sample(&mut self, sample: &Sample) {
        self.0.push(*sample);
    }
}

fn quantile(mut values: Vec<f64>, q: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() as f64 * q) as usize]
}

fn connects(samples: &Samples) -> Vec<f64> {
    let took = samples.0.iter().filter_map(|it| match it.record {
        Record::TelnetConnect { took } => Some(took.as_secs_f64() * 1e3),
        _ => None,
    });
    took.collect()
}

fn measure(policy: &str) -> (Report, Samples) {
    let network = xunet(policy, 10, 150.0);
    let mut samples = Samples::default();
    let report = Internet::new(&network).expect("it").run(&mut samples);
    (report, samples)
}

#[test]
fn circuits_cost_round_trips_and_sharing_them_saves_some() {
    let (each, each_samples) = measure("noqos-conv-svc");
    let (shared, shared_samples) = measure("noqos-router-svc");
    let (cached, cached_samples) = measure("noqos-conv-svccache");
    let requests = |report: &Report| -> u64 {
        let atm = report.atm.as_ref().expect("a backbone");
        atm.adapters.iter().map(|it| it.requests).sum()
    };
    // Every pair of routers needs one; conversations need two each.
    assert!(
        (30..=60).contains(&requests(&shared)),
        "{}",
        requests(&shared)
    );
    assert!(requests(&each) > 2_000, "{}", requests(&each));
    let ratio = requests(&cached) as f64 / requests(&each) as f64;
    // A short run sees mostly the first connection of each pair of hosts.
    assert!(ratio < 0.35, "{ratio}");
    let median = |samples: &Samples| quantile(connects(samples), 0.5);
    let (own, one, kept) = (
        median(&each_samples),
        median(&shared_samples),
        median(&cached_samples),
    );
    // One round trip for each of the two circuits, and one for TCP.
    assert!(own > 2.2 * one && own < 4.0 * one, "{own} {one}");
    assert!(kept < 1.4 * one, "{kept} {one}");
}

#[test]
fn every_cell_is_accounted_for() {
    for policy in [
        "noqos-conv-svc",
        "sp-telnet-app-svc",
        "nwc-ftp-conv-svccache",
        "wc-qos1-app-svc",
        "drr-telnet-conv-svccache",
        "edf-ftp-app-svc",
    ] {
        let mut network = xunet(policy, 6, 60.0);
        // Little room, so that frames lose cells.
        if let Some(atm) = &mut network.atm {
            (atm.queue.per_vc_limit, atm.queue.port_limit) = (40, 100);
        }
        let report = run(&network);
        let atm = report.atm.expect("a backbone");
        let sum = |of: fn(&CellQueueReport) -> u64| atm.queues.iter().map(of).sum::<u64>();
        assert!(sum(|it| it.dropped) > 0, "{policy}");
        assert_eq!(sum(|it| it.drops.total()), sum(|it| it.dropped), "{policy}");
        let elevated = atm.adapters.iter().map(|it| it.elevated).sum::<u64>();
        let own = policy != "noqos-conv-svc";
        assert_eq!(
            (elevated > 0, sum(|it| it.levels.received) > 0),
            (own, own),
            "{policy}"
        );
        assert_eq!(atm.unknown_vc, 0, "{policy}");
        // What was sent is on a wire at most.
        let under_way = sum(|it| it.sent) - report.cell_hops;
        assert!(under_way < 2_000, "{policy}: {under_way}");
        assert!(
            atm.frames_under_way < 1_000,
            "{policy}: {}",
            atm.frames_under_way
        );
    }
}

#[test]
fn a_bulk_transfer_gets_what_cells_leave_of_the_link() {
    let mut network = xunet("noqos-conv-svc", 1, 60.0);
    network.workload = None;
    if let Some(atm) = &mut network.atm {
        // A whole window has room: 16 segments of 12 cells.
        atm.queue.per_vc_limit = 200;
    }
    let far = network.nodes.len() as u32 / 6;
    let bulk = Traffic::Bulk(None);
    network
        .flows
        .push(flow("bulk", 1, far + 1, Span::ZERO, bulk));
    let report = run(&network);
    // A window of 8192 bytes each round trip of 60 ms, and the cells of it.
    let goodput = report.flows[0].goodput_bps;
    let round_trip = 0.060 + 2.0 * 12.0 * 276e-6;
    assert!(goodput < 8_192.0 * 8.0 / round_trip, "{goodput}");
    // The writer is woken when a third of its buffer is free.
    assert!(
        goodput > 8_192.0 * 8.0 * 2.0 / 3.0 / round_trip,
        "{goodput}"
    );
    assert_eq!(report.flows[0].retransmitted, 0);
}

#[test]
fn what_cannot_be_is_refused_before_the_run() {
    let fails = |change: fn(&mut AtmBackbone), part: &str| {
        let mut network = xunet("noqos-conv-svc", 1, 1.0);
        change(network.atm.as_mut().expect("a backbone"));
        let error = Internet::new(&network).expect_err("an error").to_string();
        assert!(error.contains(part), "{error}");
    };
    fails(|atm| atm.policy = "noqos-conv-pvc".into(), "pvc");
    fails(|atm| atm.queue.per_vc_limit = 0, "per_vc_limit");
    fails(
        |atm| atm.links[0].ends[0] = AtmEnd::Switch(99),
        "no node 99",
    );
    fails(|atm| atm.links[0].ends[0] = AtmEnd::Switch(3), "no way");
    fails(
        |atm| {
            atm.links.push(AtmLink {
                ends: [AtmEnd::Adapter(NodeIndex(0)), AtmEnd::Switch(1)],
                ..atm.links[0]
            })
        },
        "two adapters",
    );
    fails(
        |atm| atm.links[0].ends[0] = AtmEnd::Adapter(NodeIndex(1)),
        "attached to 2 links, LANs and adapters",
    );
    fails(|atm| atm.links[0].rate = Rate::from_bps(0), "ATM link 0");
}
