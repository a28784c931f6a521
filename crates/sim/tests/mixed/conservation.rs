//! No packet comes from nowhere or is lost without being counted, in random networks with METS, TCP, XTP and UDP.

use layercast_sim::internet::scenario::Scenario;
use layercast_sim::internet::{Internet, Report, Stopped, Watch};
use proptest::prelude::*;

use crate::common::*;

/// Two sites with hosts, on links or LANs, and what joins them.
#[derive(Clone, Debug)]
struct Plan {
    left_on_lan: bool,
    right_on_lan: bool,
    backbone: bool,
    trunk: &'static str,
    class: bool,
    repair: bool,
    wire_check: bool,
    through_switch: bool,
    /// The peering across the trunk is down for a time.
    outage: bool,
    udp: u8,
    tcp: u8,
    xtp: bool,
    seed: u64,
}

fn plan() -> impl Strategy<Value = Plan> {
    let trunk = prop::sample::select(vec![
        r#"queue = "20 packets""#,
        r#"queue = "30 KiB""#,
        r#"queue = "40 packets", red = { min = 3, max = 12 }"#,
        r#"queue = "30 packets", loss = 0.02"#,
        r#"queue = "30 packets", mtu = 700"#,
        r#"queue = "60 packets""#,
        r#"queue = "60 packets", down = "3s..3.5s,5s..5.2s""#,
        r#"queue = "60 packets", jitter = { uniform = "9ms" }, reorder = true, duplicate = 0.05"#,
    ]);
    let switches = any::<[bool; 9]>();
    (trunk, switches, 0..3_u8, 0..3_u8, 1..1_000_u64).prop_map(
        |(
            trunk,
            [
                left,
                right,
                backbone,
                class,
                repair,
                wire_check,
                through,
                xtp,
                outage,
            ],
            udp,
            tcp,
            seed,
        )| {
            Plan {
                left_on_lan: left,
                right_on_lan: right,
                backbone,
                trunk,
                class: class && !backbone && !trunk.contains("red") && !trunk.contains("mtu"),
                repair,
                wire_check,
                through_switch: through,
                outage,
                udp,
                tcp,
                xtp,
                seed,
            }
        },
    )
}

impl Plan {
    /// Whether something is sent again until it arrives.
    fn is_reliable(&self) -> bool {
        self.tcp > 0 || self.xtp
    }

    fn text(&self) -> String {
        let mut text = format!(
            "schema = \"internet/1\"\nname = \"mixed\"\nrun = {{ duration = \"6s\", seed = {} }}\n",
            self.seed
        );
        for side in ["a", "b"] {
            text += &format!("[[router]]\nname = \"r{side}\"\n");
            for host in ["film", "udp", "tcp"] {
                text += &format!("[[host]]\nname = \"{host}-{side}\"\n");
            }
            let hosts = ["film", "udp", "tcp"].map(|host| format!("\"{host}-{side}\""));
            let on_lan = if side == "a" {
                self.left_on_lan
            } else {
                self.right_on_lan
            };
            match on_lan {
                true => {
                    text += &format!(
                        "[[lan]]\nname = \"lan-{side}\"\nrate = \"20 Mbit/s\"\nstations = [\"r{side}\", {}]\n",
                        hosts.join(", ")
                    );
                }
                false => {
                    for host in hosts {
                        text += &format!(
                            "[[link]]\nends = [{host}, \"r{side}\"]\nrate = \"20 Mbit/s\"\ndelay = \"1ms\"\nqueue = \"30 packets\"\n"
                        );
                    }
                }
            }
        }
        text += &match self.backbone {
            true => "[atm]\nswitch = [{ name = \"w\" }]\nlink = [{ ends = [\"ra\", \"w\"], rate = \"3 Mbit/s\", delay = \"2ms\" }, \
                     { ends = [\"w\", \"rb\"], rate = \"3 Mbit/s\", delay = \"2ms\" }]\nqueue = { per_vc_limit = 100 }\n"
                .to_owned(),
            false => format!(
                "[[link]]\nends = [\"ra\", \"rb\"]\nrate = \"3 Mbit/s\"\ndelay = \"5ms\"\n{}\n",
                self.trunk.replace(", ", "\n").replace("\nmax", ", max")
            ),
        };
        for n in 0..self.udp {
            let gap = ["exp(4ms)", "3ms", "9ms"][usize::from(n)];
            text += &format!(
                "[[flow]]\nname = \"udp{n}\"\nfrom = \"udp-a\"\nto = \"udp-b\"\nstop = \"4s\"\ndatagrams = {{ gap = \"{gap}\", size = \"900 B\" }}\n"
            );
        }
        for n in 0..self.tcp {
            text += &format!(
                "[[flow]]\nname = \"tcp{n}\"\nfrom = \"tcp-a\"\nto = \"tcp-b\"\nstop = \"4s\"\n"
            );
        }
        if self.xtp {
            text += "[[flow]]\nname = \"xtp\"\nfrom = \"tcp-a\"\nto = \"tcp-b\"\nstop = \"4s\"\nxtp = {}\n";
        }
        text += &format!("[mets]\nwire_check = {}\n", self.wire_check);
        let peering = |a: &str, b: &str, class: bool| {
            format!(
                "[[mets.peering]]\nends = [\"{a}\", \"{b}\"]\nrate = \"2 Mbit/s\"\nqueue = \"500 ms\"\nrepair = {}\nclass_queue = {class}\n",
                self.repair
            )
        };
        let mut across = ["film-a", "film-b"];
        if self.through_switch || self.class {
            across = ["ra", "rb"];
            for router in ["ra", "rb"] {
                text += &format!("[[mets.node]]\nname = \"{router}\"\nkind = \"switch\"\n");
            }
            text += &peering("film-a", "ra", false);
            text += &peering("ra", "rb", self.class);
            text += &peering("rb", "film-b", false);
        } else {
            text += &peering("film-a", "film-b", false);
        }
        for (at, kind) in [("2s", "link_down"), ("2300ms", "link_up")] {
            if self.outage {
                text += &format!(
                    "[[mets.fault]]\nat = \"{at}\"\nkind = \"{kind}\"\nlink = {across:?}\n"
                );
            }
        }
        text + "[[mets.flow]]\nname = \"film\"\nsource = \"film-a\"\nclip = { synthetic = \"canyon\" }\nframe_rate = 24\n\
                start = \"500ms\"\nstop = \"4s\"\ndelay_max = \"1s\"\n\
                [[mets.receiver]]\nnode = \"film-b\"\nflow = \"film\"\n"
    }
}

/// Packets that the network lost, by all that can lose one.
fn lost(report: &Report) -> u64 {
    let queues = report.queues.iter();
    let queues = queues.map(|it| it.dropped_full + it.dropped_red + it.lost + it.down);
    let classes = mets(report).classes.iter().map(|it| it.dropped_full);
    let adapters = report.atm.iter().flat_map(|atm| &atm.adapters);
    let frames = adapters.map(|it| it.frames_lost);
    let discarded = report.atm.as_ref().map_or(0, |atm| atm.packets_discarded);
    queues.chain(classes).chain(frames).sum::<u64>() + discarded
}

/// Stops a run before its end.
struct Early;

impl Watch for Early {
    fn sample(&mut self, _: &layercast_sim::internet::Sample) {}

    fn progress(&mut self, _: layercast_sim::internet::Progress) -> bool {
        false
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn packets_are_conserved(plan in plan()) {
        let text = plan.text();
        let scenario = Scenario::from_toml(&text, &scenarios()).unwrap();
        let network = scenario.resolve().unwrap();
        let report = Internet::new(&network).unwrap().run(&mut ());
        let mets = mets(&report);
        prop_assert_eq!(mets.wire_errors, 0);
        let mut gone = 0;
        for it in &mets.peerings {
            let link = it.port.link;
            prop_assert_eq!(link.sent + link.duplicated, link.delivered + link.lost + it.under_way);
            gone += link.lost;
        }
        prop_assert!(mets.peerings[0].port.link.sent > 200, "{}", text);
        // All sources are silent before the end, and no queue keeps a packet.
        let under_way: u64 = mets.peerings.iter().map(|it| it.under_way).sum();
        prop_assert!(under_way <= 2, "{} under way: {}", under_way, text);
        // TCP and XTP still send what they have buffered.
        let waiting: u32 = mets.classes.iter().map(|it| it.waiting).sum();
        prop_assert!(waiting == 0 || plan.is_reliable(), "{} waiting: {}", waiting, text);
        // Packets that come to the end of a peering that is down are lost there, and not by a queue.
        prop_assert!(plan.outage || gone <= lost(&report), "{} of {} lost: {}", gone, lost(&report), text);
        // Of TCP and XTP the report does not say what got lost; a packet that was cut counts once for each lost part.
        let udp = report.flows.iter().filter(|flow| flow.name.starts_with("udp"));
        let (sent, received) = udp.fold((0, 0), |sum, it| (sum.0 + it.sent, sum.1 + it.received));
        let copies: u64 = report.queues.iter().map(|it| it.duplicated).sum();
        let of_mets: u64 = mets.peerings.iter().map(|it| it.port.link.duplicated).sum();
        prop_assert!(of_mets <= copies);
        gone += (sent + copies - of_mets).saturating_sub(received);
        let is_cut = text.contains("mtu") && !plan.backbone;
        if !plan.is_reliable() && !is_cut {
            let there = gone.checked_sub(lost(&report));
            prop_assert!(there.is_some_and(|it| it == 0 || plan.outage), "{}", text);
            let silent = plan.outage && there == Some(0);
            prop_assert!(!silent, "nothing is lost by the outage: {}", text);
        }
        for queue in &report.queues {
            prop_assert_eq!(queue.offered, queue.sent + queue.dropped_full + queue.dropped_red);
        }
    }

    /// The same scenario and seed give the same bytes, and it does not matter where a run is interrupted by an observer of time.
    #[test]
    fn a_run_is_the_same_in_steps(plan in plan()) {
        let scenario = Scenario::from_toml(&plan.text(), &scenarios()).unwrap();
        let network = scenario.resolve().unwrap();
        let whole = Internet::new(&network).unwrap().run(&mut ());
        let mut steps = Internet::new(&network).unwrap();
        for ms in [1, 777, 778, 2_500] {
            let at = layercast_core::Time::ZERO + layercast_core::Span::from_ms(ms);
            prop_assert_eq!(steps.run_until(at, &mut ()), None);
        }
        prop_assert_eq!(whole, steps.run(&mut ()));
    }
}

#[test]
fn a_network_with_mets_is_not_divided_and_stops_when_asked() {
    let network = ready_made("mets-beside-tcp").resolve().unwrap();
    let mut internet = Internet::new(&network).unwrap();
    let why = internet.divide(&network, 2).unwrap_err();
    assert!(why.to_string().contains("METS"), "{why}");
    let report = internet.run(&mut Early);
    assert_eq!(report.stopped, Some(Stopped::Interrupted));
    assert!(mets(&report).flows[0].receivers.len() == 1 && report.seconds < 60.0);
}
