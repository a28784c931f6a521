//! Flows with a contract over ATM (specs/vbr-atm-lan.md 2).

use layercast_atm::{CellContract, Conformance, FramePolicing, Peak, Sustained, UpcStats};
use layercast_core::{Rate, Span, Time};
use layercast_sim::internet::*;
use layercast_tcp::{Profile, TcpConfig};
use proptest::prelude::*;

use super::common::*;

/// Cells of the packets of these tests: 9188 bytes with the trailer of AAL5.
const CELLS: u32 = 192;
const PACKET: u32 = 9_188;
/// A link of 155.52 Mbit/s sends a cell in 2.726 us.
const LINK: u64 = 155_520_000;
/// Of the contract: 10 Mbit/s.
const SUSTAINED: Span = Span::from_ns(42_400);

fn link_period() -> Span {
    Rate::from_bps(LINK).time_for(53)
}

/// Of `burst` cells, each at the rate of the link.
fn vbr(burst: u32, conformance: Conformance) -> CellContract {
    let period = link_period();
    CellContract::Vbr {
        peak: Peak {
            period,
            tolerance: Span::ZERO,
        },
        sustained: Sustained {
            period: SUSTAINED,
            burst,
        },
        conformance,
    }
}

/// Two hosts at two routers, which are joined by a switch, and one flow from the first to the second.
fn lan(traffic: Traffic, terms: ContractTerms, tcp: TcpConfig, seconds: f64) -> Network {
    let host = |name: &str| (name.to_owned(), Some(tcp.clone()));
    let router = |name: &str| (name.to_owned(), None);
    let nodes = vec![host("a"), host("b"), router("ra"), router("rb")];
    let mut network = network(nodes, seconds);
    for (host, router) in [(0, 2), (1, 3)] {
        let mut link = link(
            host,
            router,
            1_000_000_000,
            Span::from_us(10),
            Limit::Unlimited,
        );
        link.mtu = PACKET;
        network.links.push(link);
    }
    let links = [2, 3].map(|router| AtmLink {
        ends: [AtmEnd::Adapter(NodeIndex(router)), AtmEnd::Switch(0)],
        rate: Rate::from_bps(LINK),
        delay: Span::from_us(10),
    });
    network.atm = Some(AtmBackbone {
        switches: vec!["s".to_owned()],
        links: links.to_vec(),
        queue: AtmQueue {
            discard: Discard::None,
            per_vc_limit: 100_000,
            port_limit: 100_000,
            adapter_limit: None,
            max_vcs: 100,
            low_limit: u32::MAX,
            drr_weight: 8,
        },
        policy: "noqos-conv-svc".to_owned(),
        signalling_delay: Span::ZERO,
        mtu: PACKET,
        idle: Span::from_secs(10),
        reassembly_timer: None,
        slots: false,
        per_cell: false,
    });
    network.flows.push(flow("flow", 0, 1, Span::ZERO, traffic));
    network.contracts.push(contract("flow", terms));
    network
}

/// For all packets from the first node to the second.
fn contract(name: &str, terms: ContractTerms) -> HostContract {
    HostContract {
        name: name.to_owned(),
        from: NodeIndex(0),
        to: NodeIndex(1),
        terms,
    }
}

/// Packets at a fixed distance.
fn every(gap: Span) -> Traffic {
    Traffic::Datagrams {
        gap: Law::Constant(gap),
        size: SizeLaw::Constant(PACKET),
        bursts: None,
    }
}

fn terms(contract: CellContract, shape: Shape) -> ContractTerms {
    ContractTerms {
        contract,
        shape,
        police: true,
        frames: FramePolicing::Cells,
        queue: 1_000,
    }
}

fn old() -> TcpConfig {
    let mut tcp = TcpConfig::from(Profile::SunOs413);
    tcp.mss = 9_148;
    (tcp.send_buffer, tcp.recv_buffer) = (49_152, 49_152);
    tcp
}

fn run(network: &Network) -> (FlowReport, UpcStats, ContractReport) {
    let report = Internet::new(network).expect("a network").run(&mut ());
    let atm = report.atm.expect("a backbone");
    let contract = atm.contracts[0].clone();
    let upc = contract.upc.expect("a policer");
    (report.flows[0].clone(), upc, contract)
}

#[test]
fn as_many_packets_of_a_train_pass_as_the_contract_says() {
    // specs/vbr-atm-lan.md 2.3: c cells, idle for Ip between packets; of an idle policer these pass before the first
    // loss.
    let delta = (SUSTAINED - link_period()).as_ps();
    for (burst, gap_us) in [(200, 900), (1_000, 900), (1_000, 2_000), (4_000, 600)] {
        let gap = Span::from_us(gap_us);
        let idle = (gap - link_period().times(CELLS.into())).as_ps();
        let cells = u64::from(CELLS);
        let more = (u64::from(burst) - cells) * delta / (cells * delta - idle);
        let pass = 1 + more;
        let terms = terms(vbr(burst, Conformance::C), Shape::None);
        let mut network = lan(every(gap), terms, old(), 1.0);
        // The first waits for its circuit; those that wait with it come together, which is faster than the link.
        network.flows[0].start = Time::ZERO + Span::from_ms(100);
        let stop = |packets: u64| {
            Some(Time::ZERO + Span::from_ms(100) + gap.times(packets - 1) + Span::from_us(1))
        };
        network.flows[0].stop = stop(pass);
        let (flow, upc, _) = run(&network);
        assert_eq!(
            (flow.sent, upc.frames_intact),
            (pass, pass),
            "{burst} {gap_us}"
        );
        assert_eq!(flow.received, pass);
        network.flows[0].stop = stop(pass + 1);
        let (flow, upc, _) = run(&network);
        assert_eq!(
            (upc.frames_intact, upc.frames_partial),
            (pass, 1),
            "{burst} {gap_us}"
        );
        // What is left of a packet without its end spoils the next one; here there is none.
        assert_eq!((flow.sent, flow.received), (pass + 1, pass));
    }
}

#[test]
fn tagged_cells_pass_and_shaped_ones_are_not_tagged() {
    let gap = Span::from_us(2_000);
    let (flow, upc, _) = run(&lan(
        every(gap),
        terms(vbr(1_000, Conformance::B), Shape::Peak),
        old(),
        1.0,
    ));
    assert!(
        upc.tagged > 10_000 && upc.discarded_sustained + upc.discarded_peak == 0,
        "{upc:?}"
    );
    assert!(flow.received + 3 >= flow.sent);
    for shape in [Shape::Cells, Shape::Packets] {
        let (flow, upc, contract) = run(&lan(
            every(gap),
            terms(vbr(1_000, Conformance::B), shape),
            old(),
            1.0,
        ));
        assert_eq!((upc.tagged, upc.frames_partial, upc.frames_none), (0, 0, 0));
        // The input is four times the sustainable rate; a packet takes 8.14 ms at it, and the burst is five of
        // them.
        assert!((123..=130).contains(&flow.received), "{}", flow.received);
        assert!(
            contract.max_waiting > 300 && contract.mean_wait > 0.1,
            "{contract:?}"
        );
    }
}

#[test]
fn packets_go_at_the_ticks_of_a_clock_and_lose_none_of_what_the_contract_allows() {
    let sent = |shape| {
        let terms = terms(vbr(1_000, Conformance::C), shape);
        let (flow, upc, contract) = run(&lan(every(Span::from_us(2_000)), terms, old(), 10.0));
        assert_eq!(upc.discarded_peak + upc.discarded_sustained, 0);
        (flow.received, contract.mean_wait)
    };
    let (free, _) = sent(Shape::Packets);
    // A packet is earned in 8.14 ms, so that the bucket fills by less than two until the next tick.
    let (ticked, wait) = sent(Shape::Softclock(Span::from_ms(10)));
    assert!(free >= 1_200 && free - ticked <= 5, "{free} {ticked}");
    // With ticks of a second the bucket is full at each of nine: five packets, and one more if these earn it.
    let (seldom, _) = sent(Shape::Softclock(Span::from_secs(1)));
    assert!((45..=54).contains(&seldom) && wait > 0.1, "{seldom} {wait}");
}

#[test]
fn what_is_marked_before_the_policer_is_whole_and_goes_first_where_it_is_tight() {
    // Of four times the sustainable rate the network tags cells of any packet; the adapter marks packets.
    let goodput = |shape, low_limit| {
        let terms = terms(vbr(1_000, Conformance::B), shape);
        let mut network = lan(every(Span::from_us(2_000)), terms, old(), 2.0);
        let atm = network.atm.as_mut().expect("a backbone");
        atm.queue.low_limit = low_limit;
        // Half of the input.
        atm.links[1].rate = Rate::from_bps(20_000_000);
        let (flow, upc, _) = run(&network);
        (flow.received, upc)
    };
    let (all, upc) = goodput(Shape::Tagged, u32::MAX);
    assert!(
        upc.tagged == 0 && upc.passed_low > 50_000 && all > 400,
        "{upc:?}"
    );
    let (by_adapter, _) = goodput(Shape::Tagged, 200);
    let (by_network, upc) = goodput(Shape::Peak, 200);
    assert!(upc.tagged > 50_000 && upc.passed_low == 0, "{upc:?}");
    assert!(by_adapter > 2 * by_network, "{by_adapter} {by_network}");
}

#[test]
fn frames_are_policed_whole() {
    let of = |frames| {
        let mut terms = terms(vbr(1_000, Conformance::C), Shape::Peak);
        terms.frames = frames;
        let (flow, upc, _) = run(&lan(every(Span::from_us(2_000)), terms, old(), 2.0));
        (flow.received, upc)
    };
    let (cells, upc) = of(FramePolicing::Cells);
    assert!(upc.frames_partial > 500 && cells < 30, "{cells} {upc:?}");
    for frames in [
        FramePolicing::Early { longest: CELLS },
        FramePolicing::First,
    ] {
        let (whole, upc) = of(frames);
        assert_eq!((upc.frames_partial, upc.frames_false), (0, 0));
        // 10 Mbit/s are 123 packets a second.
        assert!((240..=256).contains(&whole), "{frames:?} {whole}");
    }
}

#[test]
fn a_reassembly_timer_saves_the_packet_after_a_lost_end() {
    let lost = |timer| {
        let terms = terms(vbr(200, Conformance::C), Shape::Peak);
        let at_random = Traffic::Datagrams {
            gap: Law::Exponential(Span::from_ms(10)),
            size: SizeLaw::Constant(PACKET),
            bursts: None,
        };
        let mut network = lan(at_random, terms, old(), 5.0);
        network.atm.as_mut().expect("a backbone").reassembly_timer = timer;
        let report = Internet::new(&network).expect("a network").run(&mut ());
        let atm = report.atm.expect("a backbone");
        let upc = atm.contracts[0].upc.expect("a policer");
        let came: u64 = atm.adapters.iter().map(|it| it.frames).sum();
        upc.frames_intact - came
    };
    // What passed whole but came too soon after what lost its end is lost with it.
    assert!(lost(None) > 40);
    assert!(lost(Some(Span::from_ms(1))) <= 1);
}

#[test]
fn a_full_shaper_drops_packets_before_their_first_cell() {
    let mut terms = terms(
        CellContract::Cbr(vbr(1, Conformance::C).peak()),
        Shape::Peak,
    );
    if let CellContract::Cbr(peak) = &mut terms.contract {
        peak.period = SUSTAINED;
    }
    terms.queue = 10;
    let (flow, upc, contract) = run(&lan(every(Span::from_us(2_000)), terms, old(), 1.0));
    assert!(contract.dropped_full > 300, "{contract:?}");
    assert_eq!(contract.max_waiting, 10);
    assert_eq!(upc.discarded_peak + upc.frames_partial, 0);
    let under_way = flow.sent - flow.received - contract.dropped_full;
    assert!(under_way <= 12, "{under_way}");
}

#[test]
fn old_tcp_gets_little_of_a_policed_rate_and_most_of_a_shaped_one() {
    let goodput = |shape| {
        let network = lan(
            Traffic::Bulk(None),
            terms(vbr(1_000, Conformance::C), shape),
            old(),
            30.0,
        );
        let (flow, upc, _) = run(&network);
        (flow.goodput_bps, upc)
    };
    let (policed, upc) = goodput(Shape::Peak);
    assert!(upc.discarded_sustained > 0);
    // Of 10 Mbit/s of cells 8.98 are left for segments (specs/vbr-atm-lan.md 1).
    assert!(policed < 3e6, "{policed}");
    for shape in [Shape::Cells, Shape::Packets] {
        let (shaped, upc) = goodput(shape);
        assert_eq!(upc.frames_partial + upc.frames_none, 0);
        assert!((7.5e6..9e6).contains(&shaped), "{shaped}");
    }
}

#[test]
fn contracts_that_cannot_be_are_refused() {
    let good = lan(
        every(Span::from_ms(1)),
        terms(vbr(10, Conformance::C), Shape::Cells),
        old(),
        1.0,
    );
    let refused = |network: &Network, part: &str| {
        let error = Internet::new(network)
            .expect_err("a contract that cannot be")
            .to_string();
        assert!(error.contains(part), "{error}");
    };
    let mut network = good.clone();
    network.contracts[0].terms = terms(vbr(0, Conformance::C), Shape::Cells);
    refused(&network, "burst must be more than zero");
    let mut network = good.clone();
    network.contracts.push(network.contracts[0].clone());
    refused(&network, "there is another between these hosts");
    let mut network = good;
    network.atm = None;
    network
        .links
        .push(link(2, 3, 1_000_000, Span::ZERO, Limit::Unlimited));
    refused(&network, "no ATM backbone");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 10))]

    #[test]
    fn what_is_shaped_keeps_its_contract(
        burst in 1u32..500, gap_us in 100u64..9_000, bytes in 29u32..PACKET, whole: bool, exponential: bool,
    ) {
        let shape = if whole { Shape::Packets } else { Shape::Cells };
        let gap = Span::from_us(gap_us);
        let traffic = Traffic::Datagrams {
            gap: if exponential { Law::Exponential(gap) } else { Law::Constant(gap) },
            size: SizeLaw::Constant(bytes),
 bursts: None,
        };
        let network = lan(traffic, terms(vbr(burst, Conformance::C), shape), old(), 0.3);
        let (flow, upc, contract) = run(&network);
        prop_assert_eq!(upc.discarded_peak + upc.discarded_sustained + upc.tagged, 0);
        prop_assert_eq!(upc.frames_partial + upc.frames_none, 0);
        prop_assert!(flow.received <= upc.frames_intact);
        prop_assert!(upc.frames_intact + u64::from(contract.max_waiting) + contract.dropped_full + 60 >= flow.sent);
    }
}
