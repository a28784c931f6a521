//! Scenarios of internetworks: what the ready-made ones mean, and that a file survives being written.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use layercast_core::quantity::{FASTEST, LONGEST, MOST_BYTES, Quantity as _};
use layercast_core::{Rate, Span};
use layercast_link::Outages;
use layercast_sim::internet::discipline::{Bands, Dscp};
use layercast_sim::internet::scenario::{
    AtmSpec, BackSpec, BudgetSpec, Bytes, BytesOrOff, CoDelSpec, CpuSpec, DatagramSpec,
    DisciplineSpec, DrrSpec, DualPi2Spec, EcnName, FlowSpec, FqCoDelSpec, GenerateSpec, HostSpec,
    LanSpec, LinkSpec, OrOff, PieSpec, PrioritySpec, ProfileName, RedSpec, RetransmissionName,
    RouterSpec, RunSpec, Scenario, ShareName, SiteSpec, SwitchSpec, TcpSpec, Text, VariantName,
    Version, Warning, WorkloadSpec, XtpSpec, is_internet,
};
use layercast_sim::internet::{Law, Limit, Network, Role, SizeLaw, Traffic};
use layercast_sim::scenario::{GilbertSpec, JitterSpec, Ties};
use layercast_tcp::{Profile, TcpConfig, Variant};
use layercast_workload::app::HostId;
use proptest::prelude::*;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn ready_made(name: &str) -> String {
    let path = folder().join("internet").join(format!("{name}.toml"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn resolve(text: &str) -> Network {
    let scenario = Scenario::from_toml(text, Path::new("")).unwrap();
    let network = scenario.resolve().unwrap_or_else(|error| panic!("{error}"));
    // What is written means the same.
    let again = Scenario::from_toml(&scenario.to_toml().unwrap(), Path::new("")).unwrap();
    assert_eq!(again, scenario);
    let json = serde_json::to_string(&scenario).unwrap();
    assert_eq!(Scenario::from_json(&json, Path::new("")).unwrap(), scenario);
    network
}

fn load(name: &str) -> Network {
    let text = ready_made(name);
    assert!(is_internet(&text), "{name}");
    let network = resolve(&text);
    assert_eq!(network.warnings(), [], "{name}");
    network
}

fn hosts(network: &Network) -> usize {
    let hosts = network.nodes.iter();
    hosts
        .filter(|node| matches!(node.role, Role::Host(_)))
        .count()
}

fn name(network: &Network, node: layercast_sim::internet::NodeIndex) -> &str {
    &network.nodes[node.0 as usize].name
}

#[test]
fn two_thousand_transfers_begin_one_after_the_other() {
    let network = load("transfers");
    let transfers = &network.flows[1..];
    let (xtp, tcp): (Vec<_>, Vec<_>) = transfers
        .iter()
        .partition(|flow| matches!(flow.traffic, Traffic::Xtp { .. }));
    assert_eq!((xtp.len(), tcp.len()), (1_000, 1_000));
    for (n, flow) in xtp.iter().enumerate() {
        assert_eq!(flow.start.as_us(), 30_000 * n as u64, "{}", flow.name);
    }
}

#[test]
fn the_dumbbell_is_that_of_the_benchmarks() {
    let network = load("dumbbell");
    assert_eq!((network.nodes.len(), hosts(&network)), (22, 20));
    assert_eq!((network.links.len(), network.flows.len()), (21, 10));
    assert_eq!(network.duration, Span::from_secs(100));
    let trunk = &network.links[0];
    assert_eq!(trunk.ends.map(|end| name(&network, end)), ["left", "right"]);
    assert_eq!(trunk.ways[0].rate, Rate::from_bps(100_000_000));
    assert_eq!(trunk.ways[0].queue.limit, Limit::Packets(200));
    assert_eq!(trunk.delay, Span::from_ms(10));
    assert_eq!(network.links[1].ways[1].rate, Rate::from_bps(1_000_000_000));
    let Role::Host(tcp) = &network.nodes[2].role else {
        panic!("left1 is a host");
    };
    assert_eq!((tcp.variant, tcp.mss), (Variant::NewReno, 1_448));
    assert_eq!(network.flows[9].name, "left10->right10");
    assert_eq!(network.flows[9].traffic, Traffic::Bulk(None));
    assert_eq!(network.nodes[0].address, Ipv4Addr::new(10, 0, 0, 1));
}

#[test]
fn the_other_topologies_have_the_nodes_and_links_they_promise() {
    let lot = load("parking-lot");
    assert_eq!((hosts(&lot), lot.nodes.len(), lot.links.len()), (8, 12, 11));
    assert_eq!(lot.flows[3].name, "cross3");
    let fat = load("fat-tree");
    // k = 4: 4 cores, 8 + 8 routers in pods, 16 hosts; 16 + 16 + 16 links.
    assert_eq!(
        (hosts(&fat), fat.nodes.len(), fat.links.len()),
        (16, 36, 48)
    );
    assert_eq!(fat.flows[0].traffic, Traffic::Bulk(Some(20_000_000)));
    let star = load("star");
    assert_eq!(
        (hosts(&star), star.nodes.len(), star.links.len()),
        (21, 22, 21)
    );
    assert_eq!(star.links[0].ways[1].queue.limit, Limit::Packets(64));
    let gap = Law::Exponential(Span::from_ms(1));
    let size = SizeLaw::Constant(200);
    assert_eq!(
        star.flows[20].traffic,
        Traffic::Datagrams {
            gap,
            size,
            bursts: None
        }
    );
    let tree = load("tree");
    // 27 hosts and the server, 13 routers; 12 + 27 links and that of the server.
    assert_eq!(
        (hosts(&tree), tree.nodes.len(), tree.links.len()),
        (28, 41, 40)
    );
    assert!(
        tree.links
            .iter()
            .any(|link| link.ways[0].queue.red.is_some())
    );
}

/// specs/insane-simulator.md 2.9 and 2.7.
#[test]
fn xunet_is_the_network_of_the_thesis() {
    let network = load("xunet");
    assert_eq!((network.nodes.len(), hosts(&network)), (1_218, 1_212));
    assert_eq!((network.lans.len(), network.links.len()), (6, 0));
    assert_eq!(network.lans[0].stations.len(), 203);
    assert_eq!(network.ties, Ties::Ordered);
    let atm = network.atm.as_ref().unwrap();
    assert_eq!(atm.switches, ["w1", "e1", "w2", "e2", "w3", "e3"]);
    assert_eq!(atm.links.len(), 11);
    let delays: Vec<u64> = atm.links.iter().map(|link| link.delay.as_ms()).collect();
    assert_eq!(delays, [5, 5, 5, 5, 30, 0, 0, 0, 0, 0, 0]);
    assert_eq!((atm.queue.per_vc_limit, atm.queue.port_limit), (170, 800));
    let population = network.workload.as_ref().unwrap();
    assert_eq!(population.hosts.len(), 1_212);
    let named = |host: HostId| {
        let node = &network.nodes[population.hosts[host.0 as usize].0 as usize];
        (node.name.as_str(), node.address.to_string())
    };
    let sites = &population.sites;
    assert_eq!(
        named(sites.ranks[1]),
        ("site2-server1", "128.32.132.2".to_owned())
    );
    assert_eq!(
        named(sites.ranks[6]),
        ("site1-server2", "128.32.131.3".to_owned())
    );
    let last = *sites.sites[5].workstations.last().unwrap();
    assert_eq!(named(last), ("site6-ws200", "128.32.136.209".to_owned()));
    for node in &network.nodes {
        if let Role::Host(tcp) = &node.role {
            assert_eq!(**tcp, TcpConfig::from(Profile::Bsd44Lite));
        }
    }
}

#[test]
fn xunet_can_be_faster() {
    let rates = |text: &str| {
        let network = resolve(text);
        let links = &network.atm.as_ref().unwrap().links;
        assert!(links.iter().all(|link| link.rate == links[0].rate));
        [links[0].rate, network.lans[0].rate].map(|rate| rate.as_bps())
    };
    let usual = ready_made("xunet");
    assert_eq!(rates(&usual), [1_536_000, 100_000_000]);
    let kind = "kind = \"xunet\"";
    let faster = format!("{kind}\nbackbone = \"1 Gbit/s\"\nlan = \"10 Gbit/s\"");
    let faster = usual.replace(kind, &faster);
    assert_eq!(rates(&faster), [1_000_000_000, 10_000_000_000]);
}

#[test]
fn addresses_are_assigned_around_those_that_are_given() {
    let network = resolve(
        "schema = \"internet/1\"\nname = \"a\"\nrun = { duration = \"1s\" }\n\
         [[host]]\nname = \"a{1..300}\"\n[[host]]\nname = \"b{1..2}\"\naddress = \"10.0.0.1\"\n\
         [[router]]\nname = \"r\"\n[[link]]\nends = [\"a{1..300}\", \"r\"]\nrate = \"1 Mbit/s\"\ndelay = \"1ms\"\n\
         [[lan]]\nname = \"l\"\nrate = \"10 Mbit/s\"\nstations = [\"b{1..2}\", \"r\"]\n",
    );
    let address = |node: usize| network.nodes[node].address.to_string();
    assert_eq!(
        (address(0), address(300)),
        ("10.0.0.3".into(), "10.0.0.1".into())
    );
    // 10.0.0.255 and 10.0.1.0 look like no host.
    assert_eq!(
        (address(251), address(252)),
        ("10.0.0.254".into(), "10.0.1.1".into())
    );
    let mut all: Vec<_> = network.nodes.iter().map(|node| node.address).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), network.nodes.len());
}

#[test]
fn warnings_name_what_will_surprise() {
    let small = ready_made("xunet").replace("per_vc_limit = 170", "per_vc_limit = 20");
    let warning = Warning::PacketAboveCircuit {
        cells: 32,
        limit: 20,
    };
    assert_eq!(resolve(&small).warnings(), [warning]);
    let large = ready_made("dumbbell").replace("mss = 1448", "mss = 9000");
    assert!(matches!(
        &resolve(&large).warnings()[..],
        [Warning::SegmentAboveMtu { host, packet: 9_040, mtu: 1_500 }] if host == "left1"
    ));
    let red = ready_made("tree").replace("queue = \"200 packets\"", "queue = \"20 packets\"");
    assert_eq!(resolve(&red).warnings().len(), 24);
    let marking_in = |queue: &str, mark: &str, ecn: &str| {
        let queue = format!("queue = \"{queue}\", mark = \"{mark}\"");
        let text = ready_made("star").replace("queue = \"64 packets\"", &queue);
        resolve(&format!("{text}\n[tcp.default]\necn = \"{ecn}\"\n")).warnings()
    };
    let marking = |mark: &str, ecn: &str| marking_in("64 packets", mark, ecn);
    assert_eq!(marking("20 packets", "rfc3168"), []);
    assert_eq!(marking("64 packets", "dctcp").len(), 21);
    // Of packets of 1500 bytes 20 wait, one is sent and one arrives: the mark needs a byte more than 33,000.
    assert_eq!(marking_in("33000 B", "20 packets", "dctcp").len(), 21);
    assert_eq!(marking_in("33001 B", "20 packets", "dctcp"), []);
    assert_eq!(marking_in("20 packets", "30000 B", "dctcp").len(), 21);
    assert_eq!(marking_in("20 packets", "29999 B", "dctcp"), []);
    assert!(matches!(
        &marking("20 packets", "off")[..],
        [Warning::MarksNothing { link }] if link == "hub->host1"
    ));
    for discipline in ["codel", "fq_codel", "pie"] {
        let queue =
            format!("queue = \"64 packets\", discipline = {{ {discipline} = {{ ecn = true }} }}");
        let text = ready_made("star").replace("queue = \"64 packets\"", &queue);
        let warned = |ecn: &str| {
            let text = format!("{text}\n[tcp.default]\necn = \"{ecn}\"\n");
            resolve(&text).warnings().len()
        };
        assert_eq!((warned("off"), warned("rfc3168")), (1, 0), "{discipline}");
    }
}

#[test]
fn what_no_queue_of_a_path_looks_at_is_named_once() {
    let two_trunks = |first: &str, second: &str, flows: &str| {
        let trunk = |ends: &str, discipline: &str| {
            format!(
                "[[link]]\nends = [{ends}]\nrate = \"9 Mbit/s\"\ndelay = \"1ms\"\n{discipline}\n"
            )
        };
        let text = format!(
            "schema = \"internet/1\"\nname = \"n\"\n[run]\nduration = \"1s\"\n\
             [tcp.low]\nvariant = \"dctcp\"\necn = \"l4s\"\n\
             [[host]]\nname = \"a{{1..2}}\"\n[[host]]\nname = \"b\"\n[[host]]\nname = \"c\"\n\
             [[router]]\nname = \"left\"\n[[router]]\nname = \"right\"\n[[router]]\nname = \"up\"\n{}{}{}{}{flows}",
            trunk("\"a{1..2}\", \"left\"", ""),
            trunk("\"left\", \"right\"", first) + &trunk("\"right\", \"b\"", ""),
            trunk("\"left\", \"up\"", second),
            trunk("\"up\", \"c\"", ""),
        );
        resolve(&text).warnings()
    };
    let flow = |to: &str, what: &str| format!("[[flow]]\nfrom = \"a1\"\nto = \"{to}\"\n{what}\n");
    let call = "dscp = \"ef\"\ndatagrams = { gap = \"9ms\", size = \"99 B\" }";
    let unread = |to: &str| Warning::ClassUnread {
        of: format!("the flow \"a1->{to}\""),
    };
    let priority = "discipline = { priority = {} }";
    let both = flow("b", call) + &flow("c", call);
    assert_eq!(two_trunks("", "", &both), [unread("b")]);
    assert_eq!(two_trunks(priority, "", &both), [unread("c")]);
    assert_eq!(two_trunks(priority, priority, &both), []);
    assert_eq!(
        two_trunks("discipline = { codel = {} }", priority, &both),
        [unread("b")]
    );
    let generated = "[[generate]]\nsizes = \"exp(9000) B\"\nfrom = [\"a{1..2}\"]\nto = [\"c\"]\ngap = \"9ms\"\ndscp = \"le\"\n";
    let of = "the generator \"generate1\"".to_owned();
    assert_eq!(
        two_trunks(priority, "", generated),
        [Warning::ClassUnread { of }]
    );
    assert_eq!(two_trunks("", priority, generated), []);
    let scalable = flow("b", "tcp = \"low\"");
    let of = "the flow \"a1->b\"".to_owned();
    let missing = Warning::NoL4sQueue { of };
    let dual = "discipline = { dualpi2 = {} }";
    assert_eq!(two_trunks("", dual, &scalable), [missing]);
    assert_eq!(two_trunks(dual, "", &scalable), []);
}

#[test]
fn the_schema_is_recognised_in_broken_files_too() {
    assert!(is_internet("# a\n schema=\"internet/2\"\nname = \n"));
    assert!(!is_internet("name = \"schema\"\n"));
    assert!(!is_internet("[x]\nschema = \"internet/1\"\n"));
    assert!(!is_internet(""));
}

#[test]
fn the_json_schema_in_the_repository_is_current() {
    let path = folder().join("internet.schema.json");
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let current = serde_json::to_string_pretty(&Scenario::json_schema()).unwrap() + "\n";
    if std::env::var_os("LAYERCAST_WRITE_SCHEMA").is_some() {
        std::fs::write(&path, &current).unwrap();
    }
    assert!(
        found == current,
        "{} is not what `layercast sim --schema` prints",
        path.display()
    );
}

#[test]
fn the_json_schema_knows_what_the_reader_knows() {
    let schema = Scenario::json_schema();
    assert_eq!(
        schema["required"],
        serde_json::json!(["schema", "name", "run"])
    );
    assert_eq!(schema["additionalProperties"], false);
    let kinds = schema["$defs"]["Kind"]["oneOf"].as_array().unwrap();
    let kinds: Vec<_> = kinds.iter().map(|kind| &kind["const"]).collect();
    assert_eq!(kinds.len(), 6);
    assert!(kinds.iter().any(|kind| *kind == "parking-lot"));
    let link = &schema["$defs"]["LinkSpec"];
    assert_eq!(
        link["required"],
        serde_json::json!(["ends", "rate", "delay"])
    );
    assert_eq!(link["properties"]["mtu"]["default"], 1_500);
    assert_eq!(link["properties"]["rate"]["type"], "string");
}

fn span() -> impl Strategy<Value = Text<Span>> {
    (0..=LONGEST.as_ps()).prop_map(|ps| Text(Span::from_ps(ps)))
}

fn rate() -> impl Strategy<Value = Text<Rate>> {
    (1..=FASTEST.as_bps()).prop_map(|bps| Text(Rate::from_bps(bps)))
}

fn limit() -> impl Strategy<Value = Text<Limit>> {
    prop_oneof![
        Just(Text(Limit::Unlimited)),
        (1..=1_000_000_000_u32).prop_map(|n| Text(Limit::Packets(n))),
        (1..=1_000_000_000_u64).prop_map(|n| Text(Limit::Bytes(n))),
    ]
}

prop_compose! {
    fn red()(min in 0.0..1e6_f64, max in 0.0..1e6_f64, max_p in 0.0..1.0_f64, weight in 0.0..1.0_f64, gentle: bool, ecn: bool)
        -> RedSpec { RedSpec { min, max, max_p, weight, gentle, ecn } }
}

prop_compose! {
    fn gilbert()(p_gb in 0.0..1.0_f64, p_bg in 0.0..1.0_f64, good in 0.0..1.0_f64, bad in 0.0..1.0_f64)
        -> GilbertSpec { GilbertSpec { p_gb, p_bg, good, bad } }
}

fn outages() -> impl Strategy<Value = Text<Outages>> {
    prop::collection::vec((1..1_000_u64, 1..1_000_u64), 0..3).prop_map(|intervals| {
        let mut at = 0;
        let texts = intervals.into_iter().map(|(gap, long)| {
            let from = at + gap;
            at = from + long;
            format!("{from}ms..{at}ms")
        });
        let text = texts.collect::<Vec<_>>().join(",");
        let text = if text.is_empty() { "never" } else { &text };
        Text(Outages::parse(text).unwrap())
    })
}

prop_compose! {
    fn impaired()(gilbert in prop::option::of(gilbert()), jitter in prop::option::of((span(), any::<bool>())), reorder: bool,
        duplicate in 0.0..1.0_f64, down in prop::option::of(outages()))
        -> (Option<GilbertSpec>, Option<JitterSpec>, bool, f64, Option<Text<Outages>>) {
        let jitter = jitter.map(|(Text(span), normal)| match normal {
            true => JitterSpec::Normal(span),
            false => JitterSpec::Uniform(span),
        });
        (gilbert, jitter, reorder, duplicate, down)
    }
}

prop_compose! {
    fn discipline()(target in span(), interval in span(), ecn: bool, flows: u16, quantum: Option<u32>, which in 0..6,
        share: bool, small: u8)
        -> DisciplineSpec {
        match which {
            0 => DisciplineSpec::CoDel(CoDelSpec { target, interval, ecn }),
            1 => DisciplineSpec::FqCoDel(FqCoDelSpec { target, interval, ecn, flows, quantum }),
            2 => DisciplineSpec::Pie(PieSpec { target, update: interval, burst: target, ecn }),
            3 => DisciplineSpec::DualPi2(DualPi2Spec {
                target, rtt_max: interval, threshold: target, range: interval, coupling: small, classic_share: small,
            }),
            4 => DisciplineSpec::Drr(DrrSpec { share: if share { ShareName::Source } else { ShareName::Flow }, flows, quantum }),
            _ => DisciplineSpec::Priority(PrioritySpec { bands: Text(Bands::parse(&format!("{}, ef va", small % 44)).unwrap()) }),
        }
    }
}

prop_compose! {
    fn back()(rate in prop::option::of(rate()), queue in prop::option::of(limit()),
        red in prop::option::of(red()), mark in prop::option::of(limit()), loss in prop::option::of(0.0..1.0_f64),
        gilbert in prop::option::of(gilbert()), down in prop::option::of(outages()), discipline in prop::option::of(discipline()))
        -> BackSpec { BackSpec { rate, queue, red, mark, discipline, loss, gilbert, down } }
}

prop_compose! {
    fn link()(ends: [String; 2], rate in rate(), delay in span(), queue in limit(), red in prop::option::of(red()),
        mark in prop::option::of(limit()), loss in 0.0..1.0_f64, (gilbert, jitter, reorder, duplicate, down) in impaired(), mtu: u32,
        back in prop::option::of(back()), discipline in prop::option::of(discipline()))
        -> LinkSpec { LinkSpec { ends, rate, delay, queue, red, mark, discipline, loss, gilbert, jitter, reorder, duplicate, down, mtu, back } }
}

prop_compose! {
    fn xtp()(max_data: Option<u32>, window in prop::option::of(0..=MOST_BYTES), ask: Option<u32>, loose: Option<bool>, wait in span(),
        bps in prop::option::of(1..=FASTEST.as_bps()))
        -> XtpSpec {
        XtpSpec {
            max_data,
            window: window.map(Bytes),
            ask,
            error_control: loose,
            retransmission: loose.map(|_| RetransmissionName::GoBackN),
            first_wait: Some(wait),
            rate: bps.map(|bps| Text(Rate::from_bps(bps))),
            ..XtpSpec::default()
        }
    }
}

prop_compose! {
    fn flow()(name: Option<String>, from: String, to: String, start in span(), stop in prop::option::of(span()),
        bytes in prop::option::of(0..=MOST_BYTES), gap in span(), mean in 0.0..1e6_f64, stream: bool, xtp in prop::option::of(xtp()))
        -> FlowSpec {
        let (gap, size) = (Text(Law::Exponential(gap.0)), Text(SizeLaw::Exponential(mean)));
        let datagrams = stream.then_some(DatagramSpec { gap, size, on: None, off: stream.then_some(gap) });
        FlowSpec {
            name, from: from.clone(), to, start, start_jitter: start, stagger: start, stop, bytes: bytes.map(Bytes), xtp, datagrams, contract: None,
            tcp: stream.then_some(from), established: stream, dscp: Text(Dscp::of_tos(if stream { 0xb8 } else { 0 })),
        }
    }
}

prop_compose! {
    fn tcp()(mss: Option<u16>, buffer in prop::option::of(0..=MOST_BYTES), cwnd: Option<u32>, tick in span(), persist in [span(), span()],
        sack: Option<bool>)
        -> TcpSpec {
        TcpSpec {
            profile: ProfileName::Solaris,
            variant: Some(VariantName::NewReno),
            ecn: sack.map(|_| EcnName::Rfc3168),
            fast_tick: Some(Text(OrOff(sack.map(|_| tick.0)))),
            persist: Some(persist),
            mss,
            send_buffer: buffer.map(Bytes),
            max_cwnd: Some(BytesOrOff(cwnd.map(|cwnd| Bytes(u64::from(cwnd))))),
            sack,
            ..TcpSpec::default()
        }
    }
}

prop_compose! {
    fn scenario()(name: String, duration in span(), seed in 0..=i64::MAX as u64, word: String, address: u32,
        links in prop::collection::vec(link(), 0..4), flows in prop::collection::vec(flow(), 0..4),
        tcp in prop::collection::btree_map(any::<String>(), tcp(), 0..3), cpu in span(), atm: bool)
        -> Scenario {
        Scenario {
            schema: Version::Internet1,
            name,
            run: RunSpec {
                duration,
                warm_up: duration,
                seed,
                ties: Ties::Ordered,
                budget: BudgetSpec::default(),
            },
            tcp,
            topology: None,
            hosts: vec![HostSpec {
                name: word.clone(),
                address: Some(address.into()),
                tcp: Some(word.clone()),
                cpu: CpuSpec { per_cell: cpu, ..CpuSpec::default() },
            }],
            routers: vec![RouterSpec { name: word.clone(), address: None, cpu: CpuSpec::default() }],
            links,
            lans: vec![LanSpec {
                name: word.clone(),
                rate: Text(Rate::from_bps(seed % FASTEST.as_bps() + 1)),
                latency: duration,
                mtu: address,
                stations: vec![word.clone(); 2],
            }],
            atm: atm.then(|| AtmSpec {
                switches: vec![SwitchSpec { name: word.clone() }],
                policy: word.clone(),
                ..AtmSpec::default()
            }),
            flows,
            workload: Some(WorkloadSpec {
                source: word.clone(),
                sites: vec![SiteSpec { workstations: vec![word.clone()], servers: Vec::new() }],
            }),
            generators: vec![GenerateSpec {
                name: Some(word.clone()),
                sizes: Some(word.clone()),
                from: vec![word.clone()],
                load: Some(0.5),
                bins: Some(vec![Bytes(9)]),
                ..GenerateSpec::default()
            }],
            contracts: Vec::new(),
            mets: None,
            attach: Vec::new(),
            base_dir: PathBuf::new(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_reads_back(scenario in scenario()) {
        let text = scenario.to_toml().unwrap();
        prop_assert_eq!(&Scenario::from_toml(&text, Path::new("")).unwrap(), &scenario, "{}", text);
        let _ = scenario.resolve();
    }
}
