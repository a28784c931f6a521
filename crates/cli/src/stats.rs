//! `layercast stats` and `join --list`: what a node says about its flows and members.

use std::collections::BTreeMap;
use std::io::stdout;

use layercast_core::{
    Answered, Contract, FlowId, Level, Media, Parameter, PerLayer, Quality, Rate, Zone,
};
use layercast_media::{TOO_SLOW, advice};
use layercast_net::{
    Loss, NodeStats, Remote, XtpPlace, get_node_stats, is_source_late, list_flows,
};
use layercast_wire::{
    ClockReport, FlowInfo, Limit, LinkReport, MemberReport, MemberStats, NodeReport, PartKind,
    PartReport,
};
use serde::Serialize;
use serde_json::Value;

use crate::address;
use crate::args;
use crate::below::one_rate;
use crate::failure::{Failure, Outcome};
use crate::join::silence;
use crate::live;
use crate::node::runtime;
use crate::output::{Table, count as count_of, print, print_json, terminal_width};
use crate::reasons::HOST_STOPPED;
use crate::signals;
use crate::xtpd;
use crate::zones;

/// Runs `layercast stats`.
pub fn run(args: &args::Stats) -> Outcome {
    if let Ok(XtpPlace::Daemon(path)) = args.address.parse() {
        return xtpd::stats(&path, args.json);
    }
    // A URL in a file may have to be waited for.
    signals::exit_on_first()?;
    let url = address::parse(&args.address)?;
    let (flows, said) = runtime()?.block_on(async {
        let node = address::resolve(&url, args.ca.as_deref()).await?;
        ask(node).await
    })?;
    if args.json {
        return print_json(&node_flows(&flows, &said));
    }
    let NodeStats {
        members,
        links,
        node,
        ..
    } = said;
    let width = terminal_width(stdout());
    print(&flow_table(&flows, width))?;
    if !members.is_empty() {
        let table = member_table(&flows, &members, &links).fit(width);
        print(&format!("\n{table}"))?;
    }
    if let Some(table) = agreed_table(&flows, &members) {
        print(&format!("\n{}", table.fit(width)))?;
    }
    if !links.is_empty() {
        print(&format!("\n{}", link_table(&links).fit(width)))?;
        print(&crowd_notes(&links))?;
    }
    print(&node.as_ref().map(node_notes).unwrap_or_default())?;
    print(&flow_notes(&flows))
}

/// The flows of a node, and what it says of itself.
async fn ask(node: Remote) -> Result<(Vec<FlowInfo>, NodeStats), Failure> {
    let flows = list_flows(node.clone()).await.map_err(Failure::net)?;
    let said = get_node_stats(node, None).await.map_err(Failure::net)?;
    Ok((flows, said))
}

/// What `layercast stats --json` prints of a node.
pub async fn of_node(node: Remote) -> Result<Value, Failure> {
    let (flows, said) = ask(node).await?;
    serde_json::to_value(node_flows(&flows, &said)).map_err(Failure::new)
}

/// Runs `join --list`.
pub async fn list(node: Remote, json: bool) -> Outcome {
    let flows = list_flows(node).await.map_err(Failure::net)?;
    match json {
        true => print_json(&node_flows(&flows, &NodeStats::default())),
        false => {
            let table = flow_table(&flows, terminal_width(stdout()));
            print(&format!("{table}{}", flow_notes(&flows)))
        }
    }
}

/// The flows of a node, with `--json`.
#[derive(Serialize)]
struct NodeFlows<'a> {
    /// Flows that the node offers.
    flows: Vec<FlowStats<'a>>,
    /// Links with repair of lost packets; empty with `join --list`.
    links: &'a [LinkReport],
    /// What the node counted since it started; `null` with `join --list`, and of a node of an older version.
    node: Option<NodeCounted<'a>>,
}

/// What a node counted since it started.
#[derive(Serialize)]
pub struct NodeCounted<'a> {
    /// As a whole.
    #[serde(flatten)]
    whole: &'a NodeReport,
    /// The queues of its ports, by neighbour.
    // JSON: BTreeMap<String, layercast_link::PortStats>
    ports: Counters<'a>,
    /// Filters, by `FLOW/NEIGHBOUR`.
    // JSON: BTreeMap<String, layercast_mets::FilterStats>
    filters: Counters<'a>,
    /// Ports that admit base layers by measurement, by neighbour.
    // JSON: BTreeMap<String, layercast_link::MeasuredStats>
    admission: Counters<'a>,
    /// Sources of flows that start here, by flow.
    // JSON: BTreeMap<String, layercast_mets::SourceStats>
    sources: Counters<'a>,
    /// Links with impairments, by neighbour.
    // JSON: BTreeMap<String, layercast_link::LinkStats>
    links: Counters<'a>,
    /// Links on which lost datagrams are repaired, by neighbour.
    // JSON: BTreeMap<String, layercast_link::LinkRepairStats>
    repairs: Counters<'a>,
}

/// The counters of parts of a node, by name, as the node has them.
type Counters<'a> = BTreeMap<&'a str, &'a Value>;

impl<'a> NodeCounted<'a> {
    /// What a node says of itself and of its parts.
    pub fn new(whole: &'a NodeReport, parts: &'a [PartReport]) -> NodeCounted<'a> {
        let of = |kind| {
            let parts = parts
                .iter()
                .filter(|it| it.kind == kind && !is_question(it));
            parts.map(|it| (&*it.name, &it.counters)).collect()
        };
        NodeCounted {
            whole,
            ports: of(PartKind::Port),
            filters: of(PartKind::Filter),
            admission: of(PartKind::Admission),
            sources: of(PartKind::Source),
            links: of(PartKind::Link),
            repairs: of(PartKind::Repair),
        }
    }
}

/// Whether a port is that of a client which asked something, such as a scrape: each has a name of its own and sends no media, so
/// that the names would be more and more.
fn is_question(part: &PartReport) -> bool {
    fn is_nothing(value: &Value) -> bool {
        match value {
            Value::Object(fields) => fields.values().all(is_nothing),
            Value::Array(entries) => entries.iter().all(is_nothing),
            Value::Number(number) => number.as_f64() == Some(0.0),
            _ => true,
        }
    }
    part.kind == PartKind::Port && part.name.starts_with("query-") && is_nothing(&part.counters)
}

/// A flow and its members.
#[derive(Serialize)]
struct FlowStats<'a> {
    /// Name of the flow.
    name: &'a str,
    /// Number of the flow.
    id: FlowId,
    /// Name of the node that sends the flow.
    source: &'a str,
    /// Name of its core switch.
    core: Option<&'a str>,
    /// The content.
    media: Media,
    /// Pictures per second.
    fps: f64,
    /// Delay bound of the flow.
    delay_max_ms: u32,
    /// Bits per second of BL, BL+E1 and BL+E1+E2 on a link, with all headers.
    level_bps: [u64; 3],
    /// What is promised a receiver: throughput in bit/s, delay and jitter in seconds, lost or late data as a share.
    contract: Contract,
    /// Media time that the source delivers for each second, in milliseconds, if it is slower than real time.
    media_ms_per_s: Option<u16>,
    /// Pictures that cannot be shown since packets were lost on the way to the source, since it is served.
    input_damaged: u64,
    /// That the source is slower than real time, or gets damaged pictures; the layers that receivers do not get, and the setting of the encoder that
    /// helps.
    advice: Vec<String>,
    /// Members of the flow; empty with `join --list`.
    members: Vec<MemberEntry<'a>>,
}

/// A member of a flow.
#[derive(Serialize)]
struct MemberEntry<'a> {
    /// What the node knows of it.
    #[serde(flatten)]
    stats: &'a MemberStats,
    /// What keeps it from getting all of the flow in time, in words; empty if nothing does.
    why: String,
}

fn node_flows<'a>(flows: &'a [FlowInfo], said: &'a NodeStats) -> NodeFlows<'a> {
    let (members, links) = (&said.members, &said.links);
    let flows = flows.iter().map(|flow| FlowStats {
        name: &flow.name,
        id: flow.id,
        source: &flow.source,
        core: flow.core.as_deref(),
        media: flow.spec.media,
        fps: flow.spec.pictures_per_second().as_f64(),
        delay_max_ms: flow.spec.delay_max_ms,
        level_bps: [Level::BASE, Level::E1, Level::FULL]
            .map(|level| flow.spec.rate_at(level).rate().as_bps()),
        contract: flow.contract_of(&flow.spec),
        media_ms_per_s: flow.media_ms_per_s,
        input_damaged: flow.input_damaged,
        advice: notes(flow).collect(),
        members: members
            .iter()
            .filter(|it| it.flow == flow.id)
            .map(|stats| MemberEntry {
                stats,
                why: whys(stats, Some(flow), members, links),
            })
            .collect(),
    });
    NodeFlows {
        flows: flows.collect(),
        links,
        node: said
            .node
            .as_ref()
            .map(|whole| NodeCounted::new(whole, &said.parts)),
    }
}

/// Losses and repairs on the links of the node, by layer.
fn link_table(links: &[LinkReport]) -> Table {
    let mut table = Table::new(&[
        "link to",
        "sent BL/E1/E2",
        "lost",
        "repairs",
        "too late",
        "over the rate",
        "repaired from there",
        "round trip",
        "path",
        "one way there/back",
    ]);
    for link in links {
        let layers = |counts: &PerLayer<u64>| {
            let counts: Vec<String> = counts.iter().map(|(_, count)| count.to_string()).collect();
            counts.join("/")
        };
        let row = [
            &link.sent,
            &link.lost,
            &link.repairs,
            &link.too_late,
            &link.over_grant,
            &link.repaired,
        ];
        let mut cells = vec![link.neighbour.clone()];
        cells.extend(row.map(layers));
        cells.push(match link.rtt_us {
            0 => "-".to_owned(),
            rtt => format!("{:.1} ms", rtt as f64 / 1e3),
        });
        cells.push(path_text(link));
        cells.push(link.clock.as_ref().map_or_else(|| "-".to_owned(), one_way));
        table.row(cells);
    }
    table
}

/// Which neighbours send more than the node can process.
fn crowd_notes(links: &[LinkReport]) -> String {
    let crowds = links.iter().filter(|link| link.crowded_out > 0);
    let lines = crowds.map(|link| {
        let (name, count) = (&link.neighbour, count_of(link.crowded_out, "datagram"));
        format!(
            "{name} sends more than the node can process: {count} of it dropped, none of its other neighbours for that\n"
        )
    });
    lines.collect()
}

/// What a node dropped for which its host, or a stranger, is the cause.
fn node_notes(node: &NodeReport) -> String {
    let udp = &node.udp;
    let mut text = String::new();
    if udp.host_lost > 0 {
        text += &format!(
            "the kernel of this host dropped {} before the node read them: the host is overloaded, or its receive buffer too small \
             (net.core.rmem_max)\n",
            count_of(udp.host_lost, "datagram")
        );
    }
    let strange = udp.unknown + udp.forged + udp.replayed;
    if strange > 0 {
        text += &format!(
            "{} dropped that no neighbour sent ({} from strangers, {} forged, {} repeated)\n",
            count_of(strange, "datagram"),
            udp.unknown,
            udp.forged,
            udp.replayed
        );
    }
    text
}

/// The one-way delays of a link, and how far off they may be.
fn one_way(clock: &ClockReport) -> String {
    let ms = |us: u64| us as f64 / 1e3;
    let (there, back, bound) = (clock.delay_us, clock.delay_back_us, clock.bound_us);
    format!("{:.1}/{:.1} ms \u{b1}{:.1}", ms(there), ms(back), ms(bound))
}

/// What a port estimates of its path.
fn path_text(link: &LinkReport) -> String {
    // A link towards the source carries no media from here.
    let Some(path) = link.path.as_ref().filter(|_| link.sent.total() > 0) else {
        return "-".to_owned();
    };
    let Some(rate) = path.rate_bps else {
        return "not full yet".to_owned();
    };
    let queue = path.queue_us as f64 / 1e3;
    let shared = if path.competes { ", shared" } else { "" };
    format!("{}, queue {queue:.0} ms{shared}", Rate::from_bps(rate))
}

fn flow_table(flows: &[FlowInfo], width: Option<usize>) -> String {
    if flows.is_empty() {
        return "  no flows on offer\n".to_owned();
    }
    let mut table = Table::new(&[
        "flow",
        "from",
        "frames/s",
        "BL Mbit/s",
        "BL+E1",
        "BL+E1+E2",
        "delay",
    ])
    .with_names(2);
    for flow in flows {
        let mbps = |level: Level| {
            let rate: Rate = flow.spec.rate_at(level).rate();
            format!("{:.3}", rate.as_bps() as f64 / 1e6)
        };
        table.row([
            flow.name.clone(),
            flow.source.clone(),
            flow.spec.pictures_per_second().to_string(),
            mbps(Level::BASE),
            mbps(Level::E1),
            mbps(Level::FULL),
            format!("{} ms", flow.spec.delay_max_ms),
        ]);
    }
    table.fit(width)
}

/// That the source of a flow is slower than real time or gets damaged pictures; what receivers do not get, and which setting of the encoder helps.
fn notes(flow: &FlowInfo) -> impl Iterator<Item = String> {
    let advice = advice(&flow.spec, None);
    pace(flow)
        .into_iter()
        .chain(loss(flow))
        .chain(advice.into_iter().map(|it| it.to_string()))
}

/// That the source of a flow is slower than real time, in words.
fn pace(flow: &FlowInfo) -> Option<String> {
    Some(live::slow(f64::from(flow.media_ms_per_s?) / 1e3))
}

/// That packets were lost on the way to the source of a flow, in words.
fn loss(flow: &FlowInfo) -> Option<String> {
    (flow.input_damaged > 0).then(|| live::damaged(flow.input_damaged))
}

fn flow_notes(flows: &[FlowInfo]) -> String {
    let notes = flows
        .iter()
        .flat_map(|flow| notes(flow).map(|it| format!("\n  note on {}: {it}\n", flow.name)));
    notes.collect()
}

/// What helps where the rate of a path is measured, and no setting of the node changes it.
const FOLLOW: &str = "that is what the path was found to carry (rate auto); encode with a lower bit rate, or with -maxrate and -bufsize, or let the \
                      encoder follow the path (serve --encoder-cmd)";

/// What keeps a member below the highest level of its flow, in words; `is_measured`: the rate of its link follows its path.
fn why(limit: Limit, member: &MemberStats, is_measured: bool) -> String {
    let link = match &member.next {
        Some(next) => format!("the link to {next}"),
        None => "the link".to_owned(),
    };
    match (limit, &member.next) {
        (Limit::NoDemand, _) => "it has not asked for a level yet".to_owned(),
        (Limit::Demand { level }, None) if level < member.wanted && is_red(member) => format!(
            "it asks for {level} only, since its zone is red{} (its own messages tell the last decision, and what helps)",
            match member.report.is_some_and(|it| it.marked > 0) {
                true => ", or since a queue on its path filled up",
                false => "",
            }
        ),
        (Limit::Demand { level }, None) if member.report.is_some_and(|it| it.marked > 0) => {
            let before = match &member.upstream {
                Some(upstream) => {
                    format!(", here or at a node before this one (layercast stats at {upstream})")
                }
                None => String::new(),
            };
            format!(
                "it asks for {level} only, after congestion: a queue on its path filled up{before}"
            )
        }
        (Limit::Demand { level }, None)
            if member
                .report
                .is_some_and(|it| it.answer == Some(Answered::Counter)) =>
        {
            match level < member.wanted {
                true => format!(
                    "it asks for {level} only, since its zone was red (its own messages tell)"
                ),
                false => {
                    format!(
                        "it asks for {level} only: its contract allows no more (join --profile)"
                    )
                }
            }
        }
        (Limit::Demand { level }, None) => {
            format!(
                "it asks for {level} only: by join --level, or after a red zone on its path (its own messages tell)"
            )
        }
        (Limit::Demand { level }, Some(next)) => format!(
            "{next}, the next node on its path, asks for {level} only: no link or receiver behind it takes more (layercast stats there)"
        ),
        (
            Limit::Bursts {
                level,
                needed,
                available,
            },
            _,
        ) => format!(
            "it asks for {level} only, after congestion: {link} has {}, and the busiest GOPs of level {} take up to {}: {}",
            available.rate(),
            level.up(),
            needed.rate(),
            match is_measured {
                true => FOLLOW,
                false => "raise the rate of the link, or encode with -maxrate and -bufsize",
            }
        ),
        (Limit::Link { needed, available }, _) => format!(
            "{link} carries {} besides base layers, the next level needs {}",
            available.rate(),
            needed.rate()
        ),
        // More comes to this node: what is missing is taken away here.
        (Limit::Upstream { level }, _) if level > member.level => format!(
            "{link} gets {} of the {level} that comes to this node: a filter of the flow takes the rest away (node.filters of layercast stats --json), or \
             the rest begins with the next GOP",
            member.level
        ),
        (Limit::Upstream { level }, _) => match &member.upstream {
            Some(upstream) => {
                format!("{upstream}, the node upstream, gives {level}: see layercast stats there")
            }
            None => format!(
                "the source of the flow gives {level}: pictures of higher levels do not come to it, as of a rendition that \
                     stopped (the messages of serve tell which)"
            ),
        },
    }
}

/// Whether a parameter is red for which a receiver asks for fewer layers: fewer layers are less throughput.
fn is_red(member: &MemberStats) -> bool {
    let quality = member.report.as_ref().and_then(|it| it.quality.as_ref());
    let mut judged = quality.into_iter().flat_map(Quality::judged);
    judged.any(|(of, it)| of != Parameter::Throughput && it.zone == Zone::Red)
}

/// Age of a report, in milliseconds, above which it says nothing of the present, as in the dashboard.
const OLD_MS: u64 = 8_000;

/// Why a member gets nothing whose flow the node does not have.
const FLOW_GONE: &str =
    "its flow is not here any more: its source, or a node on the way to it, was stopped";

/// The zone of a member now: grey, if what it reported is old or its flow is not here any more.
fn zone(member: &MemberStats, flow: Option<&FlowInfo>) -> &'static str {
    let is_old = member.report_age_ms.is_some_and(|it| it > OLD_MS);
    match (&member.report, member.gone || is_old || flow.is_none()) {
        (None, _) => "-",
        (Some(_), true) => Zone::Grey.name(),
        (Some(report), false) => report.quality.unwrap_or_default().zone.name(),
    }
}

/// A delay that is this much above the playout delay, in milliseconds, is that of a queue that grows.
const QUEUES_MS: f64 = 2_000.0;
/// Lost or late frames of a member, per mille of what it was to get, that are worth a word.
const WORTH: u64 = 20;

/// What keeps a member from getting all of its flow, in words.
fn whys(
    member: &MemberStats,
    flow: Option<&FlowInfo>,
    members: &[MemberStats],
    links: &[LinkReport],
) -> String {
    if let Some(refusal) = &member.refused {
        return format!("it does not join, the offer is not what its profile wants: {refusal}");
    }
    if member.gone {
        let age = member.report_age_ms.unwrap_or_default() / 1_000;
        return format!(
            "no report for {age} s: its session ended without a farewell, since its program hangs or was killed, its host is down, or the way \
             to it is cut"
        );
    }
    let report = member.report.as_ref();
    // Of a member that is a neighbour; a group has a link of its own name.
    let link = links.iter().find(|it| it.neighbour == member.member.name);
    let on_link = link.map(|it| it.lost.total());
    let estimate = estimate(member, links);
    let pace = flow.and_then(pace);
    if let Some(text) = flow.and_then(|flow| no_room_for_base(member, flow, links)) {
        // What is lost and late follows from it.
        return text;
    }
    let behind = member.next.as_ref().filter(|_| member.level < Level::FULL);
    let of_group = flow.and_then(|flow| group_rate(member, flow, members));
    let limited = match (member.limit, behind) {
        _ if of_group.is_some() => of_group,
        (Some(limit), _) => Some(why(limit, member, estimate.is_some())),
        // Others behind that node get more: this one knows nothing of its links.
        (None, Some(next)) => Some(format!(
            "{next}, the next node on its path, gives it {} only: see layercast stats there",
            member.level
        )),
        (None, None) => None,
    };
    let all = [
        report.and_then(silent),
        limited,
        report.and_then(|report| lost(report, on_link)),
        report.and_then(|report| late(report, pace)),
    ];
    let quality = report.and_then(|it| it.quality.as_ref());
    let deviates = quality.into_iter().flat_map(zones::reasons);
    let all = all.into_iter().flatten().chain(deviates);
    all.collect::<Vec<_>>().join("; ")
}

/// That a member has all that the one rate of its group allows, which is less than the flow has; and whose rate that is.
fn group_rate(member: &MemberStats, flow: &FlowInfo, members: &[MemberStats]) -> Option<String> {
    let level = layercast_mets::group_level(flow)?;
    if member.level < level || level >= flow.spec.top_level() {
        return None;
    }
    let of_flow = members.iter().filter(|it| it.flow == flow.id && !it.gone);
    let limits = of_flow.filter_map(|it| Some((it, it.report?.most_bps?)));
    let slowest = limits.min_by_key(|&(_, most)| most);
    let whose = match slowest {
        Some((it, most)) => format!("{} takes {}", it.member.name, Rate::from_bps(most)),
        None => format!("{} at most", Rate::from_bps(flow.group_bps?)),
    };
    Some(one_rate(&whose))
}

/// The rate that was measured of the path to the next node of a member, if it is measured and was full.
fn estimate(member: &MemberStats, links: &[LinkReport]) -> Option<Rate> {
    let next = member.next.as_ref().unwrap_or(&member.member.name);
    let link = links.iter().find(|it| it.neighbour == *next)?;
    link.path.as_ref()?.rate_bps.map(Rate::from_bps)
}

/// That the way to a member carries less than the base layer of its flow takes.
fn no_room_for_base(member: &MemberStats, flow: &FlowInfo, links: &[LinkReport]) -> Option<String> {
    let next = member.next.as_ref().unwrap_or(&member.member.name);
    let (carries, helps) = match (estimate(member, links), member.limit) {
        (Some(rate), _) => (rate, FOLLOW),
        (None, Some(Limit::Bursts { available, .. })) => (
            available.rate(),
            "raise the rate of the path, or encode with a lower bit rate or with key frames further apart",
        ),
        _ => return None,
    };
    let needs = flow.spec.rate_at(Level::BASE).rate();
    (carries < needs).then(|| {
        format!(
            "the base layer needs {needs}, the path to {next} carries {carries}: its frames queue, and no playout delay helps; \
             {helps}"
        )
    })
}

/// The share `part` of `all` in per cent, if it is worth a word.
fn share(part: u64, all: u64) -> Option<f64> {
    (part * 1_000 > all * WORTH).then(|| 100.0 * part as f64 / all as f64)
}

/// That no packet comes to a member.
fn silent(report: &MemberReport) -> Option<String> {
    let silence = silence(report.silence.as_ref()?);
    Some(format!(
        "{silence}: the source pauses or is gone, or the path is cut"
    ))
}

/// That frames of a member are lost, and why; `on_link` are the datagrams that its link to this node lost.
fn lost(report: &MemberReport, on_link: Option<u64>) -> Option<String> {
    let lost = report.lost.total();
    let percent = share(lost, report.frames.total() + lost)?;
    let repaired = report
        .packets
        .map(|it| it.expected.saturating_sub(it.received));
    let helps = Loss {
        base: report.lost.base,
        marked: report.marked,
        repaired,
        on_link,
        overloaded: false,
    };
    Some(format!("{percent:.0} % of its frames were lost; {helps}"))
}

/// That frames of a member come too late, and what helps; `slow` says that the source is slower than real time.
fn late(report: &MemberReport, slow: Option<String>) -> Option<String> {
    let all = report.frames.total() + report.late;
    let rest = report.late.saturating_sub(report.late_stopped);
    let percent = match share(rest, all) {
        None => {
            let percent = share(report.late, all)?;
            return Some(format!(
                "{percent:.0} % of its frames came after their time, because its host did not run the receiver when they arrived: \
                 {HOST_STOPPED}"
            ));
        }
        Some(percent) => percent,
    };
    let dark = match report.outage_ms {
        0 => String::new(),
        ms => format!(
            ", and no picture was shown for {:.1} s in all",
            ms as f64 / 1e3
        ),
    };
    if let Some(slow) = slow {
        return Some(format!(
            "{percent:.0} % of its frames came after their time{dark}: {slow}"
        ));
    }
    let source = report.source_late_ms.unwrap_or_default();
    if is_source_late(source, 0.0) {
        return Some(format!(
            "{percent:.0} % of its frames came after their time{dark}: they come to the source itself {source:.0} ms after \
             their time, so it is slower than real time or was: {TOO_SLOW}"
        ));
    }
    let late = format!(
        "{percent:.0} % of its frames came after their time with a playout delay of {:.0} ms{dark}",
        report.playout_ms
    );
    Some(match report.delay_ms_p99 > report.playout_ms + QUEUES_MS {
        true => format!(
            "{late}: they take up to {:.1} s, as in a queue that grows: the path carries less than is sent into it, and no \
             playout delay helps",
            report.delay_ms_p99 / 1e3
        ),
        false => {
            format!("{late}; a longer one helps (join --playout or --sync, serve --delay-max)")
        }
    })
}

fn member_table(flows: &[FlowInfo], members: &[MemberStats], links: &[LinkReport]) -> Table {
    let end_to_end = |member: &MemberStats| member.report.and_then(|it| it.end_to_end_ms);
    let is_live = members.iter().any(|member| end_to_end(member).is_some());
    let mut columns = vec![
        "member", "flow", "at", "level", "zone", "report", "played", "lost", "late", "outage s",
        "delay ms",
    ];
    columns.extend(is_live.then_some("end to end ms"));
    columns.push("why no more");
    let mut table = Table::new(&columns).with_names(3).with_sentences();
    for member in members {
        let flow = flows.iter().find(|flow| flow.id == member.flow);
        let figure =
            |get: fn(&MemberReport) -> String| member.report.as_ref().map_or("-".to_owned(), get);
        let mut row = vec![
            member.member.name.clone(),
            flow.map_or_else(|| member.flow.to_string(), |flow| flow.name.clone()),
            member.node.clone(),
            match member.refused {
                Some(_) => "-".to_owned(),
                None if member.gone => "gone".to_owned(),
                None => member.level.to_string(),
            },
            zone(member, flow).to_owned(),
            // What follows is of that moment, and the level of now.
            member
                .report_age_ms
                .map_or("-".to_owned(), |ms| format!("{:.1} s ago", ms as f64 / 1e3)),
            figure(|r| r.frames.total().to_string()),
            figure(|r| r.lost.total().to_string()),
            figure(|r| r.late.to_string()),
            figure(|r| format!("{:.1}", r.outage_ms as f64 / 1e3)),
            figure(|r| match r.source_clock {
                Some(clock) => {
                    let bound = f64::from(clock.bound_us) / 1e3;
                    format!("{:.1} \u{b1}{bound:.1}", r.delay_ms_p50)
                }
                None => format!("{:.1}", r.delay_ms_p50),
            }),
        ];
        if is_live {
            row.push(end_to_end(member).map_or("-".to_owned(), |it| format!("{:.0}", it.p50)));
        }
        row.push(match flow {
            Some(_) => whys(member, flow, members, links),
            None => FLOW_GONE.to_owned(),
        });
        table.row(row);
    }
    table
}

/// What was agreed with each member that has a profile, beside what its monitor measures; `None` if there is no such member.
fn agreed_table(flows: &[FlowInfo], members: &[MemberStats]) -> Option<Table> {
    let mut table = Table::new(&["member", "flow", "offer", "agreed, and measured"])
        .with_names(2)
        .with_sentences();
    let mut is_empty = true;
    for member in members {
        let Some((report, answer)) = member.report.and_then(|it| Some((it, it.answer?))) else {
            continue;
        };
        let flow = flows.iter().find(|flow| flow.id == member.flow);
        let terms = report.quality.map(|it| zones::beside(&it));
        is_empty = false;
        table.row(vec![
            member.member.name.clone(),
            flow.map_or_else(|| member.flow.to_string(), |flow| flow.name.clone()),
            match answer {
                Answered::Accept => "accepted".to_owned(),
                Answered::Counter => "countered".to_owned(),
            },
            match terms.filter(|it| !it.is_empty()) {
                Some(terms) => terms,
                None => "nothing is measured yet".to_owned(),
            },
        ]);
    }
    (!is_empty).then_some(table)
}

#[cfg(test)]
mod tests {
    use layercast_core::{CellRate, Judged, LayerRate, NodeId};
    use layercast_wire::{Member, PathReport};

    use super::*;

    /// A member that wants all layers, gets the base layer and reported this.
    fn reporting(report: MemberReport) -> MemberStats {
        MemberStats {
            member: Member {
                name: "ann".into(),
                id: NodeId(1),
            },
            flow: FlowId(1),
            node: "site".into(),
            joined_at_ms: 0,
            level: Level::BASE,
            wanted: Level::FULL,
            report_age_ms: Some(400),
            report: Some(report),
            limit: None,
            upstream: None,
            next: None,
            gone: false,
            refused: None,
        }
    }

    #[test]
    fn tables_fit_a_terminal_and_are_whole_elsewhere() {
        let flow = FlowInfo::new(
            FlowId(1),
            "the-entrance-camera-of-the-building",
            "server-in-the-cellar.example.org",
        );
        for members in [1, 4, 60] {
            let members: Vec<MemberStats> = (0..members)
                .map(|n| MemberStats {
                    flow: FlowId(1),
                    joined_at_ms: 0,
                    wanted: Level::FULL,
                    member: Member {
                        name: format!("receiver-{n}-with-a-long-name.example.org"),
                        id: NodeId(n),
                    },
                    node: "switch-on-the-third-floor.example.org".into(),
                    level: Level::BASE,
                    report_age_ms: Some(400),
                    report: Some(MemberReport {
                        frames: PerLayer {
                            base: 1_234_567,
                            ..PerLayer::default()
                        },
                        playout_ms: 1_000.0,
                        ..MemberReport::default()
                    }),
                    limit: Some(Limit::NoDemand),
                    upstream: None,
                    next: None,
                    gone: false,
                    refused: None,
                })
                .collect();
            let flows = std::slice::from_ref(&flow);
            let many = PerLayer {
                base: 1_234_567,
                e1: 1_234_567,
                e2: 1_234_567,
            };
            let link = LinkReport {
                neighbour: "switch-on-the-third-floor.example.org".into(),
                sent: many,
                lost: many,
                repairs: many,
                too_late: many,
                repaired: many,
                rtt_us: 12_345,
                clock: Some(ClockReport {
                    ahead_us: 1,
                    drift_ppb: 1,
                    bound_us: 123_456,
                    age_ms: 1,
                    delay_us: 123_456,
                    delay_back_us: 123_456,
                }),
                ..LinkReport::default()
            };
            for width in [80, 100] {
                for text in [
                    flow_table(flows, Some(width)),
                    member_table(flows, &members, &[]).fit(Some(width)),
                    link_table(std::slice::from_ref(&link)).fit(Some(width)),
                ] {
                    let longest = text.lines().map(|line| line.chars().count()).max();
                    assert!(longest <= Some(width), "{longest:?} of {width}:\n{text}");
                }
                let text = member_table(flows, &members, &[]).fit(Some(width));
                let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(words.contains("has not asked for a level yet"), "{text}");
            }
            let whole = member_table(flows, &members, &[]).render();
            assert!(
                whole.contains("receiver-0-with-a-long-name.example.org"),
                "{whole}"
            );
            assert!(whole.contains("outage s"), "{whole}");
        }
    }

    #[test]
    fn clients_that_ask_have_no_counters_and_others_of_such_a_name_do() {
        let port = |name: &str, count: u64| PartReport {
            kind: PartKind::Port,
            name: name.to_owned(),
            counters: serde_json::json!({ "units_in": 0, "units_out": count, "queue_full": { "BL": 0 } }),
        };
        let parts = [port("query-7-1", 0), port("query-ann", 3), port("bob", 0)];
        let whole = NodeReport::default();
        let counted = NodeCounted::new(&whole, &parts);
        let names: Vec<&str> = counted.ports.keys().copied().collect();
        assert_eq!(names, ["bob", "query-ann"]);
    }

    #[test]
    fn a_member_of_whom_nothing_new_is_known_is_grey() {
        let film = FlowInfo::new(FlowId(1), "film", "server");
        let quality = Some(Quality {
            zone: Zone::Green,
            ..Quality::default()
        });
        let green = reporting(MemberReport {
            quality,
            ..MemberReport::default()
        });
        let flow = Some(&film);
        assert_eq!(zone(&green, flow), "green");
        assert_eq!(zone(&green, None), "grey", "its flow was withdrawn");
        let old = MemberStats {
            report_age_ms: Some(8_001),
            ..green.clone()
        };
        assert_eq!(zone(&old, flow), "grey");
        let gone = MemberStats {
            gone: true,
            ..green.clone()
        };
        assert_eq!(zone(&gone, flow), "grey");
        let flows = std::slice::from_ref(&film);
        let row = |flows: &[FlowInfo], member: &MemberStats| {
            let text = member_table(flows, std::slice::from_ref(member), &[]).render();
            text.lines().last().unwrap_or_default().to_owned()
        };
        assert!(
            row(flows, &gone).contains(" gone "),
            "the row of one that left is marked"
        );
        assert!(!row(flows, &green).contains(" gone "));
        assert!(row(&[], &green).contains(FLOW_GONE));
    }

    #[test]
    fn what_was_agreed_with_a_member_is_beside_what_is_measured() {
        let flow = FlowInfo::new(FlowId(1), "film", "server");
        let flows = std::slice::from_ref(&flow);
        let delay = Judged {
            agreed: 0.154,
            measured: 0.012,
            zone: Zone::Green,
        };
        let report = MemberReport {
            quality: Some(Quality {
                delay_s: Some(delay),
                ..Quality::default()
            }),
            ..MemberReport::default()
        };
        assert!(
            agreed_table(flows, &[reporting(report)]).is_none(),
            "it has no profile"
        );
        let answered = MemberReport {
            answer: Some(Answered::Counter),
            ..report
        };
        let table = agreed_table(flows, &[reporting(report), reporting(answered)]);
        let text = table.expect("a member with a profile").render();
        let row = text.lines().last().unwrap_or_default();
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(
            words.join(" "),
            "ann film countered delay in the network 12 ms, at most 154 ms agreed"
        );
        assert_eq!(text.lines().count(), 2, "{text}");
    }

    #[test]
    fn late_frames_have_a_reason_of_their_own() {
        let report = MemberReport {
            frames: PerLayer {
                base: 900,
                ..PerLayer::default()
            },
            late: 100,
            playout_ms: 20.0,
            outage_ms: 12_300,
            ..MemberReport::default()
        };
        let text = late(&report, None).expect("worth a word");
        for part in [
            "10 % of its frames",
            "playout delay of 20 ms",
            "12.3 s",
            "--playout",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let slow = MemberReport {
            source_late_ms: Some(5_440.0),
            ..report
        };
        let text = late(&slow, None).expect("worth a word");
        for part in [
            "10 % of its frames",
            "source itself 5440 ms after",
            "encoder is too slow",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("--playout"), "{text}");
        let stopped = MemberReport {
            late_stopped: 95,
            ..report
        };
        let text = late(&stopped, None).expect("worth a word");
        assert!(
            text.contains("10 % of its frames")
                && text.contains("its host did not run the receiver"),
            "{text}"
        );
        assert!(!text.contains("--playout"), "{text}");
        assert_eq!(lost(&report, None), None);
        let dropped = MemberReport {
            lost: PerLayer {
                e2: 100,
                ..PerLayer::default()
            },
            ..report
        };
        let text = |on_link| lost(&dropped, on_link).expect("worth a word");
        assert!(
            text(Some(0)).contains("10 % of its frames were lost; the last link lost no packet")
        );
        assert!(text(Some(5)).contains("the path itself loses packets"));
        assert_eq!(late(&MemberReport { late: 10, ..report }, None), None);
    }

    #[test]
    fn a_path_below_the_base_layer_is_told_with_both_rates() {
        let mut flow = FlowInfo::new(FlowId(1), "film", "server");
        flow.spec.layers.base.mean = CellRate(2_000);
        let member = |limit| MemberStats {
            node: "server".into(),
            limit,
            ..reporting(MemberReport {
                frames: PerLayer {
                    base: 5,
                    ..PerLayer::default()
                },
                late: 100,
                ..MemberReport::default()
            })
        };
        let hangs = MemberStats {
            gone: true,
            report_age_ms: Some(12_400),
            ..member(None)
        };
        let text = whys(&hangs, Some(&flow), &[], &[]);
        assert!(text.starts_with("no report for 12 s: its session ended"));
        let link = |bps| LinkReport {
            neighbour: "ann".into(),
            path: Some(PathReport {
                rate_bps: Some(bps),
                ..PathReport::default()
            }),
            ..LinkReport::default()
        };
        let bursts = Some(Limit::Bursts {
            level: Level::BASE,
            needed: CellRate(6_000),
            available: CellRate(1_000),
        });
        for (member, links) in [
            (member(Some(Limit::NoDemand)), vec![link(424_000)]),
            (member(bursts), Vec::new()),
        ] {
            let text = whys(&member, Some(&flow), &[], &links);
            for part in [
                "the base layer needs ",
                "carries 424.0 kbit/s",
                "no playout delay helps",
            ] {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert!(
                !text.contains("busiest") && !text.contains("--playout"),
                "{text}"
            );
            // No setting changes the rate of a path that is measured.
            let is_measured = !links.is_empty();
            assert_ne!(text.contains("raise the rate"), is_measured, "{text}");
            assert_eq!(text.contains("--encoder-cmd"), is_measured, "{text}");
        }
        let text = whys(&member(bursts), Some(&flow), &[], &[link(4_240_000)]);
        assert!(
            text.contains("busiest") && text.contains("--encoder-cmd"),
            "{text}"
        );
        assert!(!text.contains("raise the rate"), "{text}");
        let text = whys(&member(None), Some(&flow), &[], &[link(4_240_000)]);
        assert!(text.contains("a longer one helps"), "{text}");
        let queued = MemberReport {
            late: 100,
            playout_ms: 500.0,
            delay_ms_p99: 12_700.0,
            ..MemberReport::default()
        };
        let text = late(&queued, None).unwrap();
        assert!(
            text.contains("12.7 s") && !text.contains("--playout"),
            "{text}"
        );
        // A link towards the source has carried no media: nothing is estimated.
        let mut upstream = link(0);
        if let Some(path) = &mut upstream.path {
            path.rate_bps = None;
        }
        assert_eq!(path_text(&upstream), "-");
        upstream.sent.base = 1;
        assert_eq!(path_text(&upstream), "not full yet");
    }

    #[test]
    fn the_one_rate_of_a_group_is_told_with_the_member_whose_it_is() {
        let layer = |mean| LayerRate {
            mean: CellRate(mean),
            ..LayerRate::default()
        };
        let mut flow = FlowInfo::new(FlowId(1), "talk", "server");
        flow.spec.layers = PerLayer {
            base: layer(472),
            e1: layer(943),
            e2: layer(1_887),
        };
        let member = |name: &str, level, most_bps| MemberStats {
            member: Member {
                name: name.into(),
                id: NodeId(1),
            },
            node: "server".into(),
            level,
            limit: Some(Limit::Upstream { level }),
            ..reporting(MemberReport {
                most_bps,
                ..MemberReport::default()
            })
        };
        let all = [
            member("ann", Level::E1, None),
            member("bob", Level::E1, Some(700_000)),
            member("carl", Level::E1, Some(900_000)),
            member("dan", Level::BASE, None),
        ];
        let said = |flow: &FlowInfo| all.each_ref().map(|it| whys(it, Some(flow), &all, &[]));
        let before = said(&flow);
        flow.group_bps = Some(700_000);
        let said = said(&flow);
        for text in &said[..3] {
            assert_eq!(
                text,
                "the flow has one rate for its group (--group single-rate): bob takes 700.0 kbit/s"
            );
        }
        // It gets less than the group.
        assert_eq!(said[3], before[3]);
    }

    #[test]
    fn of_a_counter_the_state_tells_whether_its_contract_or_a_red_zone_is_why() {
        let member = |wanted| MemberStats {
            wanted,
            limit: Some(Limit::Demand { level: Level::BASE }),
            ..reporting(MemberReport {
                answer: Some(Answered::Counter),
                ..MemberReport::default()
            })
        };
        for (wanted, says) in [
            (Level::BASE, "its contract allows no more (join --profile)"),
            (Level::FULL, "its zone was red"),
        ] {
            let text = whys(&member(wanted), None, &[], &[]);
            assert!(text.contains(says), "{text}");
        }
    }

    /// What is said of a member that wants all layers and gets one.
    fn said_red(
        limit: Limit,
        upstream: Option<&str>,
        next: Option<&str>,
        marked: u64,
        lost: Option<Judged>,
    ) -> String {
        let member = MemberStats {
            limit: Some(limit),
            upstream: upstream.map(str::to_owned),
            next: next.map(str::to_owned),
            ..reporting(MemberReport {
                marked,
                quality: lost.map(|_| Quality {
                    error_rate: lost,
                    ..Quality::default()
                }),
                ..MemberReport::default()
            })
        };
        whys(&member, None, &[], &[])
    }

    #[test]
    fn a_red_zone_is_the_reason_of_a_lower_demand_and_marks_only_where_there_were_any() {
        let lost = Judged {
            agreed: 0.01,
            measured: 0.08,
            zone: Zone::Red,
        };
        let level = Level::BASE;
        for (marked, queue) in [(0, false), (3, true)] {
            let text = said_red(Limit::Demand { level }, None, None, marked, Some(lost));
            assert!(text.contains("since its zone is red"), "{text}");
            assert_eq!(text.contains("a queue on its path"), queue, "{text}");
            let text = said_red(Limit::Demand { level }, None, None, marked, None);
            assert!(!text.contains("since its zone is red"), "{text}");
        }
    }

    #[test]
    fn the_node_and_the_link_that_limit_a_member_are_named() {
        let said = |limit, upstream, next, marked| said_red(limit, upstream, next, marked, None);
        let (needed, available) = (CellRate(2_000), CellRate(1_000));
        let level = Level::BASE;
        let bursts = Limit::Bursts {
            level,
            needed,
            available,
        };
        for (limit, upstream, next, parts) in [
            (
                Limit::Demand { level },
                None,
                None,
                ["it asks for BL only", "join --level"],
            ),
            (
                Limit::Demand { level },
                None,
                Some("mid"),
                ["mid, the next node", "stats there"],
            ),
            (
                Limit::Upstream { level },
                Some("top"),
                None,
                ["top, the node upstream, gives BL", "stats there"],
            ),
            (
                Limit::Upstream { level },
                None,
                None,
                ["the source of the flow gives BL", "messages of serve"],
            ),
            (
                Limit::Upstream { level: Level::FULL },
                Some("top"),
                None,
                [
                    "the link gets BL of the BL+E1+E2 that comes to this node",
                    "a filter of the flow",
                ],
            ),
            (
                Limit::Link { needed, available },
                None,
                Some("mid"),
                ["the link to mid carries 424.0 kbit/s", "needs 848.0 kbit/s"],
            ),
            (
                bursts,
                None,
                Some("mid"),
                [
                    "the link to mid has 424.0 kbit/s",
                    "BL+E1 take up to 848.0 kbit/s",
                ],
            ),
        ] {
            let text = said(limit, upstream, next, 0);
            for part in parts {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
        let text = said(Limit::Demand { level }, Some("top"), None, 3);
        for part in ["after congestion", "layercast stats at top"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("--level"), "{text}");
    }

    #[test]
    fn a_slow_source_is_named_in_the_notes_and_for_late_frames() {
        let flow = FlowInfo {
            media_ms_per_s: Some(851),
            input_damaged: 3,
            ..FlowInfo::new(FlowId(1), "camera", "server")
        };
        let flows = [flow, FlowInfo::new(FlowId(2), "film", "server")];
        let text = flow_notes(&flows);
        for part in [
            "note on camera: the source delivers 0.85 s of media per second",
            "encoder is too slow",
            "longer delay does not help",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("note on film"), "{text}");
        let nothing = NodeStats::default();
        let [camera, film] = &node_flows(&flows, &nothing).flows[..] else {
            panic!("two flows");
        };
        assert_eq!((camera.media_ms_per_s, camera.advice.len()), (Some(851), 2));
        assert!(
            camera.advice[1].contains("3 pictures cannot be shown"),
            "{:?}",
            camera.advice
        );
        assert_eq!((film.media_ms_per_s, film.advice.len()), (None, 0));
        let report = MemberReport {
            late: 1,
            ..MemberReport::default()
        };
        let text = late(&report, pace(&flows[0])).expect("worth a word");
        assert!(text.contains("0.85 s of media per second"), "{text}");
        assert!(!text.contains("--playout"), "{text}");
    }
}
