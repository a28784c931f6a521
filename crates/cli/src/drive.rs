//! Running a server or switch: reporting its events to the user, and its end in order.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use layercast_core::{Level, Rate, Time};
use layercast_mets::SourceEvent;
use layercast_mets::switch::SwitchEvent;
use layercast_net::{
    Bearer, Clock, LayerRepairs, LiveEvent, Node, NodeConfig, NodeEvent, NodeSummary, Remote, Trust,
};
use layercast_protect::{Control, JoinUrl};
use tokio::sync::mpsc;
use tokio::time::{Duration, interval};

use crate::address::url_of;
use crate::encoder::{self, Guided};
use crate::failure::{Failure, Outcome};
use crate::line::{Line, NodeStatus};
use crate::live::{self, Through};
use crate::metrics::Metrics;
use crate::node::{Place, Stop, parent, runtime, wait_until};
use crate::offered::Offered;
use crate::output::{Lines, Table, count as count_of};
use crate::repeats::Repeats;
use crate::reporter::Reporter;
use crate::trace::Trace;
use crate::unsent::{NotRun, Unsent};
use crate::web;

/// A node about to run.
pub struct Drive {
    /// It, with its ports taken.
    pub node: Node,
    /// Instant zero of what it tells.
    pub epoch: Time,
    /// The first text shown to a person.
    pub greeting: String,
    /// The flow to join here, if there is one from the start.
    pub flow: Option<String>,
    /// Public key of its source, if the flow is sealed.
    pub signed_by: Option<[u8; 32]>,
    /// What happens to its live input, if it has one.
    pub live: Option<mpsc::Receiver<LiveEvent>>,
    /// The ffmpeg that it comes through, if it does.
    pub through: Option<Through>,
    /// What encodes that input.
    pub encoder: Guided,
    /// Where events of the machines go.
    pub trace: Trace,
    /// Where browsers see its flow, if they do.
    pub web: Option<SocketAddr>,
}

/// Runs the node `name` of a scenario as a child of a demo.
pub fn child(place: &Place, name: &str, trace: Option<&Path>) -> Outcome {
    runtime()?.block_on(async {
        let stop = Stop::listen()?;
        let reporter = Reporter::new(true, Lines::Stdout, Metrics::default());
        let begun = parent(&stop);
        let trace = Trace::open(trace, name)?;
        // Now is the time to find out that the address is taken.
        let node = bind(place.node_config(name, Time::ZERO)?).await?;
        let address = node.local_addr();
        drop(node);
        reporter.ready(name, Some(address), "")?;
        let Ok(epoch) = begun.await else {
            return Ok(());
        };
        let drive = Drive {
            node: bind(place.node_config(name, epoch)?).await?,
            epoch,
            greeting: String::new(),
            flow: None,
            signed_by: None,
            live: None,
            through: None,
            encoder: Guided::default(),
            trace,
            web: None,
        };
        drive.run(&stop, &reporter).await
    })
}

/// Takes the ports of a node.
pub async fn bind(config: NodeConfig) -> Result<Node, Failure> {
    Node::bind(config).await.map_err(Failure::net)
}

impl Drive {
    /// Runs the node until it is stopped or has sent everything.
    pub async fn run(self, stop: &Stop, reporter: &Reporter) -> Outcome {
        let node = self.node;
        let config = node.config();
        let name = config.switch.name.clone();
        let mut trace = self.trace;
        let own = config.identity.as_ref().map(|own| own.fingerprint());
        let control = config.control;
        let address = node.local_addr();
        let url = JoinUrl {
            source: self.signed_by,
            ..url_of(address, own, control, self.flow.as_deref())
        };
        let local = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let bearer = Bearer::new(own.map(Trust::Node), control);
        let local = SocketAddr::new(local, address.port());
        let here = Remote::new(local, bearer);
        if let Some(listen) = self.web {
            let url = JoinUrl {
                host: local.to_string(),
                ..url.clone()
            };
            web::beside(listen, &name, here.clone(), &url)?;
        }
        reporter.metrics().ask_node(here);
        let mut offered = Offered::of(config, self.live.is_some());
        let greeting = self.greeting + &invitation(&name, address, node.media_addr(), &url);
        reporter.callable(&name, address, &url, &greeting)?;
        // In a scenario all nodes start at the same instant, here and in the simulator: what is drawn
        // at random, such as the phases of eras, counts from there.
        wait_until(self.epoch, stop).await;
        let (events, mut heard) = mpsc::channel(1_024);
        let running = node.run(stop.token.clone(), events, trace.observer());
        let mut running = Box::pin(running);
        let clock = Clock::get();
        let mut status = NodeStatus::default();
        let mut live = self.live;
        let mut through = self.through;
        let mut guided = self.encoder;
        if let Some(rate) = guided.target {
            let flow = self.flow.as_deref().unwrap_or_default();
            guided.guide((0.0, flow), rate, 1.0, reporter)?;
        }
        let mut repeats = Repeats::default();
        let mut failures = Failures::default();
        let mut rates = Rates::default();
        let mut unsent = Unsent::default();
        let mut not_run = NotRun::of(if self.flow.is_some() {
            "serve"
        } else {
            "the switch"
        });
        // Frames that receivers of a flow reported late, as of the last report.
        let mut told_late = BTreeMap::new();
        let mut second = interval(Duration::from_secs(1));
        let summary = loop {
            tokio::select! {
                summary = &mut running => break summary.map_err(Failure::net)?,
                Some(event) = heard.recv() => {
                    let now = clock.now();
                    let t_s = now.since(self.epoch).as_secs_f64();
                    count(&mut status, &event);
                    if let Some(text) = not_run.note(now, &event)
                        && repeats.prints(now, "times in which this machine did not run it")
                    {
                        reporter.event(t_s, &text)?;
                    }
                    if let NodeEvent::Target { flow, rate, share } = &event
                        && guided.target.is_some()
                    {
                        guided.guide((t_s, flow), *rate, *share, reporter)?;
                    }
                    unsent.push(&event);
                    let heard = affects_receivers(&event, &mut told_late)
                        && failures.is_news(&event)
                        && rates.is_news(&event);
                    let more = offered.note(&event).unwrap_or_default() + &not_run.makes_late(now, &event);
                    if let Some(text) = describe(&event).filter(|_| heard) {
                        reporter.event(t_s, &(text + &more))?;
                    }
                }
                text = encoder::ended(&mut guided.encoder) => {
                    reporter.event(clock.now().since(self.epoch).as_secs_f64(), &text)?;
                }
                text = live::message(&mut through) => {
                    let now = clock.now();
                    if repeats.prints(now, "senders that come and go") {
                        reporter.event(now.since(self.epoch).as_secs_f64(), &text)?;
                    }
                }
                event = next(&mut live) => match event {
                    Some(event) => {
                        if let LiveEvent::Repaired(stats) = &event {
                            status.parities = Some(serde_json::to_value(stats).map_err(Failure::new)?);
                        }
                        if let LiveEvent::Counted { stats } | LiveEvent::End { stats } = &event {
                            status.input = Some(serde_json::to_value(stats).map_err(Failure::new)?);
                        }
                        let now = clock.now();
                        let prints = live::kind(&event).is_none_or(|kind| repeats.prints(now, kind));
                        let text = live::stopped(&event, through.as_ref()).or_else(|| live::in_words(&event));
                        if let Some(text) = text.filter(|_| prints) {
                            reporter.event(now.since(self.epoch).as_secs_f64(), &text)?;
                        }
                    }
                    None => live = None,
                },
                _ = second.tick() => {
                    let now = clock.now();
                    status.t_s = now.since(self.epoch).as_secs_f64();
                    for text in repeats.over(now) {
                        reporter.event(status.t_s, &text)?;
                    }
                    if let Some(text) = offered.second() {
                        reporter.event(status.t_s, &text)?;
                    }
                    for text in unsent.take(not_run.cause(now)) {
                        if repeats.prints(now, "frames that the source drops") {
                            reporter.event(status.t_s, &text)?;
                        }
                    }
                    let line = Line::Node(status.clone());
                    reporter.status(&line, || {
                        format!(
                            "{:8.0} s  {}, {}",
                            status.t_s,
                            count_of(status.neighbours, "neighbour"),
                            count_of(status.branches, "branch")
                        )
                    })?;
                }
            }
        };
        drop(running);
        if let Some(encoder) = guided.encoder.take() {
            encoder.end().await;
        }
        let traced = trace.finish();
        let t_s = clock.now().since(self.epoch).as_secs_f64();
        for text in repeats.rest() {
            reporter.event(t_s, &text)?;
        }
        let mut value = serde_json::to_value(&summary).map_err(Failure::new)?;
        if let Some(input) = status.input {
            value["input"] = input;
        }
        if let (Some(through), Some(_)) = (&through, value.get("input")) {
            value["input"]["reopened"] = through.control.restarts().into();
        }
        reporter.summary(&value, &in_words(&summary))?;
        // That a signal ends it is no failure of its input.
        stop.outcome()?;
        through
            .and_then(|it| it.control.failure())
            .map_or(traced, Err)
    }
}

/// The next thing that happens to a live input; never, without one.
async fn next(live: &mut Option<mpsc::Receiver<LiveEvent>>) -> Option<LiveEvent> {
    match live {
        Some(events) => events.recv().await,
        None => std::future::pending().await,
    }
}

/// How to join what runs at `address`.
fn invitation(name: &str, address: SocketAddr, media: SocketAddr, url: &JoinUrl) -> String {
    let what = url.flow.as_deref().map_or_else(
        || format!("{name} at {address}"),
        |flow| format!("\nserving {flow} at {address}"),
    );
    let (session, media) = (address.port(), media.port());
    let ports = match (url.protected, url.control) {
        (true, _) => format!("UDP ports {session} (session) and {media} (media)"),
        (false, Control::Xtp) => {
            format!("UDP ports {session} (session, XTP) and {media} (media), in the clear")
        }
        (false, Control::Tcp) => format!("TCP and UDP port {session}, in the clear"),
    };
    format!("{what}, {ports}; watch it with\n  layercast join '{url}' --out - | ffplay -\n")
}

fn count(status: &mut NodeStatus, event: &NodeEvent) {
    match event {
        NodeEvent::PeerUp { .. } => status.neighbours += 1,
        NodeEvent::PeerDown { name, .. } => {
            status.neighbours = status.neighbours.saturating_sub(1);
            status.paths_bps.remove(name);
        }
        NodeEvent::Path { neighbour, rate } => {
            status.paths_bps.insert(neighbour.clone(), rate.as_bps());
        }
        NodeEvent::Switch { event, .. } => match event {
            SwitchEvent::Admitted { .. } => status.branches += 1,
            SwitchEvent::Released { .. } | SwitchEvent::BranchExpired { .. } => {
                status.branches = status.branches.saturating_sub(1);
            }
            _ => {}
        },
        _ => {}
    }
}

/// Whether an event matters to a receiver: frames sent late do if receivers have reported more late frames
/// since the last report.
fn affects_receivers(event: &NodeEvent, told: &mut BTreeMap<String, u64>) -> bool {
    let NodeEvent::Source {
        flow,
        event: SourceEvent::MissedDeadline { late, .. },
    } = event
    else {
        return true;
    };
    match told.get_mut(flow) {
        Some(before) => std::mem::replace(before, *late) < *late,
        None => told.insert(flow.clone(), *late).is_none() && *late > 0,
    }
}

/// Why upstream neighbours cannot be reached, as of the last report: they are called again and again.
#[derive(Default)]
struct Failures(BTreeMap<IpAddr, String>);

impl Failures {
    /// Most hosts remembered: strangers that are turned away have one each.
    const MOST: usize = 256;

    /// Whether an event is not the failure reported last of its host.
    fn is_news(&mut self, event: &NodeEvent) -> bool {
        match event {
            NodeEvent::Failed { addr, reason } => {
                if self.0.len() >= Self::MOST {
                    self.0.clear();
                }
                self.0.insert(addr.ip(), reason.clone()).as_ref() != Some(reason)
            }
            NodeEvent::PeerUp { upstream: true, .. } | NodeEvent::PeerDown { .. } => {
                self.0.clear();
                true
            }
            _ => true,
        }
    }
}

/// The rates of flows, and those of paths to neighbours, as of the last report: a flow that is shaped changes its rate all the
/// time, and so does a path that is measured.
#[derive(Default)]
struct Rates {
    flows: BTreeMap<String, u64>,
    paths: BTreeMap<String, u64>,
}

impl Rates {
    /// Changes of the rate of a flow at the same level, and of a path, in percent, that are worth a word.
    const WORTH: (u64, u64) = (10, 20);

    /// Whether an event is more than a slight change of the rate of a flow at the same level, or of a path.
    fn is_news(&mut self, event: &NodeEvent) -> bool {
        let differs = |before: Option<u64>, now: u64, percent: u64| {
            before.is_none_or(|before| before.abs_diff(now) * 100 > before * percent)
        };
        match event {
            NodeEvent::Path { neighbour, rate } => {
                let now = rate.as_bps();
                let before = self.paths.get(neighbour).copied();
                let is_worth = differs(before, now, Self::WORTH.1);
                if is_worth {
                    self.paths.insert(neighbour.clone(), now);
                }
                is_worth
            }
            NodeEvent::Source {
                flow,
                event: SourceEvent::RateChanged { from, to, rate },
            } => {
                let now = rate.rate().as_bps();
                let before = self.flows.get(flow).copied();
                if from == to && !differs(before, now, Self::WORTH.0) {
                    return false;
                }
                self.flows.insert(flow.clone(), now);
                from != to || before.is_some()
            }
            _ => true,
        }
    }
}

/// What a person wants to know of what the switch did for `neighbour`.
fn describe_switch(event: &SwitchEvent, neighbour: &str) -> String {
    match event {
        SwitchEvent::Admitted { flow, member, .. } => {
            let name = &member.name;
            format!("{name} admitted to flow {flow}: its base layer is reserved")
        }
        SwitchEvent::Refused { refusal, .. } => format!("join of {neighbour} refused: {refusal}"),
        SwitchEvent::Released { flow, .. } => format!("flow {flow}: {neighbour} released"),
        SwitchEvent::Granted {
            flow,
            from,
            to,
            reason,
            ..
        } => changed(
            &format!("flow {flow}: {neighbour} gets"),
            *from,
            *to,
            &format!(" ({reason})"),
        ),
        SwitchEvent::BranchExpired { flow, .. } => {
            format!("flow {flow}: {neighbour} was silent for three eras, given up")
        }
        SwitchEvent::FilterChanged { flow, to, .. } => match to {
            Some(rule) => format!("flow {flow}: filter {rule} in the way of {neighbour}"),
            None => format!("flow {flow}: no filter in the way of {neighbour} any more"),
        },
        SwitchEvent::FilterRefused { flow, rule, .. } => format!(
            "flow {flow}: no filter {rule} in the way of {neighbour}: the media are sealed (serve --seal), and only whole \
             layers can be left out on the way"
        ),
        SwitchEvent::PromiseEnded {
            late_ppm,
            target_ppm,
            kept,
            ..
        } => format!(
            "link to {neighbour}: {:.4} % of the base layers late in this period, {} % promised: {}",
            f64::from(*late_ppm) / 1e4,
            f64::from(*target_ppm) / 1e4,
            if *kept { "kept" } else { "broken" }
        ),
        SwitchEvent::Overcommitted { excess, .. } => format!(
            "link to {neighbour}: {excess} more admitted than the link carries now; no flow is ended"
        ),
        SwitchEvent::FlowGone { flow } => format!("flow {flow} is gone"),
    }
}

/// A change of a level in words; if the level is the same, the rest has changed.
fn changed(what: &str, from: Level, to: Level, rest: &str) -> String {
    match from == to {
        true => format!("{what} {to}{rest}"),
        false => format!("{what} {to} instead of {from}{rest}"),
    }
}

/// What a person wants to know of an event; nothing of those that come by the second.
fn describe(event: &NodeEvent) -> Option<String> {
    Some(match event {
        NodeEvent::PeerUp { name, addr, .. } => format!("{name} connected from {addr}"),
        NodeEvent::PeerDown { name, reason } => format!("{name} disconnected: {reason}"),
        NodeEvent::Failed { addr, reason } => format!("no connection with {addr}: {reason}"),
        NodeEvent::Renewed { addr } => format!("the file has another URL: calling {addr}"),
        NodeEvent::Path { neighbour, rate } => {
            format!("the path to {neighbour} carries about {rate}")
        }
        NodeEvent::Target { .. } | NodeEvent::NotRun { .. } => return None,
        NodeEvent::Switch { event, neighbour } => {
            describe_switch(event, neighbour.as_deref().unwrap_or("itself"))
        }
        NodeEvent::Source { flow, event } => match event {
            SourceEvent::MemberJoined(member) => format!("{} joined {flow}", member.name),
            SourceEvent::MemberLeft(member) => format!("{} left {flow}", member.name),
            SourceEvent::MemberDeclined { member, refusal } => {
                let name = &member.name;
                // The refusal begins with the name.
                let refusal = refusal.to_string();
                let why = refusal
                    .strip_prefix(&format!("{name}: "))
                    .unwrap_or(&refusal);
                format!("{name} does not join {flow}, whose offer is not what it wants: {why}")
            }
            SourceEvent::MemberStale(member) => format!("nothing heard of {}", member.name),
            SourceEvent::RateChanged { from, to, rate } => {
                let rate = format!(", {}", rate.rate());
                changed(&format!("{flow}: sending"), *from, *to, &rate)
            }
            SourceEvent::GroupRate { most_bps, member } => {
                let whose = match (most_bps, member) {
                    (None, _) => "no member takes less than all".to_owned(),
                    (Some(most), None) => format!("{} at most", Rate::from_bps(*most)),
                    (Some(most), Some(member)) => {
                        format!("{} takes {}", member.name, Rate::from_bps(*most))
                    }
                };
                format!("{flow} has one rate for its group (--group single-rate): {whose}")
            }
            SourceEvent::MissedDeadline {
                missed,
                window,
                late,
            } => format!(
                "{flow}: {missed} of the last {} sent late; receivers report {} late in all",
                count_of(*window, "frame"),
                count_of(*late, "frame")
            ),
            SourceEvent::Finished { undelivered } => {
                format!(
                    "{flow} is over, {} left unsent",
                    count_of(*undelivered, "frame")
                )
            }
            _ => return None,
        },
    })
}

fn in_words(summary: &NodeSummary) -> String {
    let mut table = Table::new(&[
        "port",
        "sent",
        "bytes",
        "dropped BL",
        "E1",
        "E2",
        "longest queue",
    ]);
    for (name, port) in &summary.switch.ports {
        let dropped = port.dropped();
        table.row([
            name.clone(),
            port.units_out.to_string(),
            port.bytes_out.to_string(),
            dropped.base.to_string(),
            dropped.e1.to_string(),
            dropped.e2.to_string(),
            count_of(port.max_queue, "cell"),
        ]);
    }
    let mut text = format!("{}, in sum:\n{}", summary.node, table.render());
    if !summary.repairs.is_empty() {
        let mut table = Table::new(&[
            "repairs to",
            "BL",
            "E1",
            "E2",
            "of these parities",
            "too late",
            "over the rate",
            "round trip",
        ]);
        for (name, link) in &summary.repairs {
            let layers = &link.sending.layers;
            let all = [layers.base, layers.e1, layers.e2];
            let sum = |of: fn(&LayerRepairs) -> u64| all.iter().map(of).sum::<u64>();
            table.row([
                name.clone(),
                layers.base.repairs.to_string(),
                layers.e1.repairs.to_string(),
                layers.e2.repairs.to_string(),
                sum(|layer| layer.parities).to_string(),
                sum(|layer| layer.too_late).to_string(),
                sum(|layer| layer.over_grant).to_string(),
                format!("{:.1} ms", link.sending.rtt_us as f64 / 1e3),
            ]);
        }
        text += &format!("\n{}", table.render());
    }
    for (name, count) in &summary.crowded_out {
        let count = count_of(*count, "datagram");
        text += &format!("\n{name} sent more than this host could process: {count} dropped\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use layercast_core::CellRate;

    use super::*;

    fn rate(from: Level, to: Level, rate: u32) -> NodeEvent {
        NodeEvent::Source {
            flow: "film".into(),
            event: SourceEvent::RateChanged {
                from,
                to,
                rate: CellRate(rate),
            },
        }
    }

    #[test]
    fn a_group_of_one_rate_and_a_member_that_does_not_join_are_named_once() {
        let member = layercast_wire::Member {
            name: "carl".into(),
            id: layercast_core::NodeId(3),
        };
        let said = |event| {
            let flow = "talk".into();
            describe(&NodeEvent::Source { flow, event })
        };
        let declined = SourceEvent::MemberDeclined {
            member: member.clone(),
            refusal: layercast_core::Refusal {
                node: "carl".into(),
                resource: layercast_core::Resource::WantedDelay,
                needed: 200_000,
                available: 250_000,
                measured: None,
            },
        };
        assert_eq!(
            said(declined).as_deref(),
            Some(
                "carl does not join talk, whose offer is not what it wants: delay: 200 ms at most is wanted, 250 ms at best is offered"
            )
        );
        let rate = SourceEvent::GroupRate {
            most_bps: Some(600_000),
            member: Some(member),
        };
        assert_eq!(
            said(rate).as_deref(),
            Some("talk has one rate for its group (--group single-rate): carl takes 600.0 kbit/s")
        );
    }

    #[test]
    fn a_rate_that_hardly_changes_at_the_same_level_is_no_news() {
        let mut rates = Rates::default();
        let mut told = |from, to, cells| {
            let event = rate(from, to, cells);
            rates
                .is_news(&event)
                .then(|| describe(&event).unwrap_or_default())
        };
        let full = Level::FULL;
        assert_eq!(told(full, full, 1_000), None, "nothing has changed");
        assert_eq!(told(full, full, 1_050), None);
        let grown = told(full, full, 2_000).unwrap();
        assert!(grown.contains("sending BL+E1+E2, 848.0 kbit/s"), "{grown}");
        let lower = told(full, Level::E1, 1_900).unwrap();
        assert!(
            lower.contains("sending BL+E1 instead of BL+E1+E2"),
            "{lower}"
        );
        assert_eq!(told(Level::E1, Level::E1, 1_950), None);
    }

    #[test]
    fn a_path_is_reported_when_its_rate_changes_by_a_fifth_and_its_rate_is_known_as_long_as_the_neighbour_is()
     {
        let (mut rates, mut status) = (Rates::default(), NodeStatus::default());
        let mut told = |mbps: u64| {
            let event = NodeEvent::Path {
                neighbour: "ann".into(),
                rate: layercast_core::Rate::from_bps(mbps * 100_000),
            };
            count(&mut status, &event);
            let text = rates.is_news(&event).then(|| describe(&event)).flatten();
            (text, status.paths_bps.get("ann").copied())
        };
        let said = |text: &str| Some(format!("the path to ann carries about {text}"));
        assert_eq!(told(30), (said("3.00 Mbit/s"), Some(3_000_000)));
        assert_eq!(told(25), (None, Some(2_500_000)));
        assert_eq!(told(20), (said("2.00 Mbit/s"), Some(2_000_000)));
        let gone = NodeEvent::PeerDown {
            name: "ann".into(),
            reason: "it left".into(),
        };
        count(&mut status, &gone);
        assert!(status.paths_bps.is_empty());
    }

    #[test]
    fn one_thing_is_no_plural_in_messages() {
        let event = NodeEvent::Source {
            flow: "film".into(),
            event: SourceEvent::Finished { undelivered: 1 },
        };
        assert_eq!(
            describe(&event).unwrap(),
            "film is over, 1 frame left unsent"
        );
    }
}
