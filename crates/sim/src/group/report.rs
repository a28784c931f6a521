//! What a run gives.

use layercast_core::Time;
use layercast_multicast::ReceiverStats;
use serde::Serialize;

use super::counts::{Feedback, Note, Pass};
use super::cross::CrossSummary;
use super::edge::{self, EdgeCount};
use super::host::HostCount;
use super::link::LinkCount;
use super::speaker::AggregatorCount;
use super::stream::StreamCount;
use super::world::Simulation;

/// What a run gave.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct GroupSummary {
    /// Name of the scenario.
    pub scenario: String,
    /// Seed of the run.
    pub seed: u64,
    /// Receivers of the tree.
    pub receivers: u32,
    /// Source packets of the object, or packets of the stream.
    pub packets: u64,
    /// Whether the run ended before the session.
    pub partial: bool,
    /// Why the session failed.
    pub failure: Option<String>,
    /// Receivers by their state at the sender.
    pub outcomes: Outcomes,
    /// Data packets sent for each source packet.
    pub transmissions_per_packet: f64,
    /// Opening of the session, in seconds from the start.
    pub opened_s: Option<f64>,
    /// End of the session at the sender, in seconds from the start.
    pub ended_s: Option<f64>,
    /// Time at which receivers had everything, in seconds from the start.
    pub completion_s: Quantiles,
    /// Packets that the sender sent.
    pub sent: Sent,
    /// Packets that reached the sender.
    pub feedback: FeedbackSummary,
    /// Counters of aggregators.
    pub aggregators: AggregatorCount,
    /// Counters of all receivers together.
    pub received: Received,
    /// Processor time of hosts with a cost profile.
    pub cpu: Cpu,
    /// The passes of a file.
    pub passes: Vec<Pass>,
    /// Receivers expelled, postponed or failed, and handshakes.
    pub notes: Vec<Note>,
    /// Rates that the rate control chose: the time in seconds, and bit/s.
    pub rates: Vec<(f64, u64)>,
    /// Branches of the tree.
    pub links: Vec<LinkSummary>,
    /// Codes on parts of the tree.
    pub codes: Vec<EdgeCount>,
    /// TCP connections beside the group.
    pub cross: Vec<CrossSummary>,
    /// The stream, of a session with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamCount>,
    /// The receivers, with `[run] per_receiver = true`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberSummary>,
    /// Simulated time in seconds.
    pub sim_seconds: f64,
    /// Events.
    pub events: u64,
    /// Real time of the run, in seconds.
    pub wall_seconds: f64,
}

/// What the sender says of receivers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Outcomes {
    /// Receivers that have everything, as the sender knows.
    pub delivered: u32,
    /// Receivers that failed.
    pub failed: u32,
    /// Receivers that never answered.
    pub never: u32,
    /// Receivers whose result is open; a stream leaves all receivers so.
    pub pending: u32,
    /// Receivers that have everything.
    pub complete: u32,
}

/// Quantiles of times.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct Quantiles {
    /// First receiver.
    pub first: f64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Last receiver.
    pub last: f64,
}

/// What the sender sent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Sent {
    /// Data packets, parities included.
    pub data: u64,
    /// Parities.
    pub parities: u64,
    /// Source packets sent again.
    pub again: u64,
    /// Data packets to one receiver.
    pub unicast: u64,
    /// Octets of data packets, headers included.
    pub data_octets: u64,
    /// Control packets.
    pub control: u64,
    /// Octets of control packets.
    pub control_octets: u64,
    /// Polls of the group.
    pub polls: u64,
    /// Polls of one receiver.
    pub polls_each: u64,
    /// Passes.
    pub rounds: u32,
    /// Handshakes.
    pub handshakes: u64,
    /// Receivers expelled.
    pub ejected: u32,
}

/// What came back.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct FeedbackSummary {
    /// At the source's host.
    #[serde(flatten)]
    pub came: Feedback,
    /// Packets sent by receivers after they joined.
    pub answers: u64,
    /// Reports not sent because the sender had the information.
    pub suppressed: u64,
    /// Reports sent after their deadline.
    pub late: u64,
    /// Packets dropped because the socket buffer of the source was full.
    pub dropped: u64,
}

/// What receivers counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Received {
    /// Data packets.
    pub data: u64,
    /// Data packets that were not needed.
    pub duplicates: u64,
    /// Packets without room in the buffer, or out of order.
    pub overflow: u64,
    /// Blocks recovered from parities.
    pub rebuilt: u64,
    /// Packets dropped because the socket buffer of the host was full.
    pub dropped: u64,
}

/// Processor time.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct Cpu {
    /// Processor time of the source, in seconds.
    pub source_s: f64,
    /// The same, divided by the time from the opening to the end.
    pub source_share: f64,
    /// Mean processor time of the hosts of receivers, in seconds.
    pub hosts_s: f64,
    /// Processor time of the busiest host, in seconds.
    pub busiest_s: f64,
}

/// A branch of the tree.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LinkSummary {
    /// Name of the branch.
    pub name: String,
    /// What all of its copies did.
    #[serde(flatten)]
    pub count: LinkCount,
}

/// A receiver.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MemberSummary {
    /// Time at which it had everything, in seconds from the start.
    pub complete_s: Option<f64>,
    /// State at the sender: delivered, failed, never, pending.
    pub outcome: &'static str,
    /// Data packets received.
    pub data: u64,
    /// Data packets that were not needed.
    pub duplicates: u64,
    /// Reports sent.
    pub reports: u64,
    /// Packets of a stream delivered to its process.
    pub taken: u64,
}

impl Simulation<'_> {
    /// What the run gave.
    pub fn summary(&self) -> GroupSummary {
        let stats = self.sender.stats();
        let counts = &self.counts;
        let packets = self.packets();
        let (outcomes, told) = self.outcomes();
        let received = self.received();
        let complete = self.members.iter().filter_map(|it| it.complete);
        let seconds = |at: Option<Time>| at.map(Time::as_secs_f64);
        let suppressed = self.members.iter().map(|it| it.stats().suppressed).sum();
        GroupSummary {
            scenario: self.group.name.clone(),
            seed: self.group.seed,
            receivers: self.members.len() as u32,
            packets,
            partial: counts.partial,
            failure: counts.failure.as_ref().map(ToString::to_string),
            outcomes,
            transmissions_per_packet: stats.data as f64 / packets.max(1) as f64,
            opened_s: seconds(counts.opened),
            ended_s: seconds(counts.ended),
            completion_s: quantiles(complete.map(Time::as_secs_f64).collect()),
            sent: Sent {
                data: stats.data,
                parities: stats.parities,
                again: stats.again,
                unicast: stats.unicast,
                data_octets: counts.data_octets,
                control: counts.control,
                control_octets: counts.control_octets,
                polls: stats.polls,
                polls_each: stats.polls_each,
                rounds: stats.rounds,
                handshakes: stats.handshakes,
                ejected: stats.ejected,
            },
            feedback: FeedbackSummary {
                came: counts.feedback,
                answers: counts.answers,
                suppressed,
                late: stats.late,
                dropped: self.source.count.dropped,
            },
            aggregators: self.aggregator_count(),
            received,
            cpu: self.cpu(),
            passes: counts.passes.clone(),
            notes: counts.notes.clone(),
            rates: counts.rates.clone(),
            links: self.link_summaries(),
            codes: edge::count(
                self.group.edges.len(),
                &self.encoders,
                &self.tree.encoders,
                &self.decoders,
            ),
            cross: self.cross_summaries(),
            stream: self.application.as_ref().map(|it| it.count()),
            members: match self.group.per_receiver {
                true => self.member_summaries(&told),
                false => Vec::new(),
            },
            sim_seconds: self.now.as_secs_f64(),
            events: self.events,
            wall_seconds: 0.0,
        }
    }

    fn packets(&self) -> u64 {
        match self.group.content {
            super::config::Content::Object { octets } => {
                octets.div_ceil(u64::from(self.group.sender.packet_size))
            }
            super::config::Content::Stream { packets, .. } => packets,
        }
    }

    fn received(&self) -> Received {
        let mut received = Received::default();
        for member in &self.members {
            let ReceiverStats {
                data,
                duplicates,
                overflow,
                rebuilt,
                ..
            } = member.stats();
            received.data += data;
            received.duplicates += duplicates;
            received.overflow += overflow;
            received.rebuilt += rebuilt;
        }
        received.dropped = self.hosts.iter().map(|host| host.count.dropped).sum();
        received
    }

    fn cpu(&self) -> Cpu {
        let seconds = |count: &HostCount| count.busy_ps as f64 / 1e12;
        let ended = self.counts.ended.unwrap_or(self.now);
        let open = self.counts.since_opened(ended);
        let source_s = seconds(&self.source.count);
        let hosts = self.hosts.iter().map(|host| seconds(&host.count));
        Cpu {
            source_s,
            source_share: if open > 0.0 { source_s / open } else { 0.0 },
            hosts_s: hosts.clone().sum::<f64>() / self.hosts.len().max(1) as f64,
            busiest_s: hosts.fold(0.0, f64::max),
        }
    }

    fn link_summaries(&self) -> Vec<LinkSummary> {
        let branches = self.group.branches.iter().zip(&self.link_counts);
        branches
            .map(|(branch, &count)| LinkSummary {
                name: branch.name.clone(),
                count,
            })
            .collect()
    }

    fn member_summaries(&self, told: &[&'static str]) -> Vec<MemberSummary> {
        let members = self.members.iter().zip(told);
        members
            .map(|(member, &outcome)| {
                let stats = member.stats();
                MemberSummary {
                    complete_s: member.complete.map(Time::as_secs_f64),
                    outcome,
                    data: stats.data,
                    duplicates: stats.duplicates,
                    reports: stats.reports,
                    taken: member.user.taken,
                }
            })
            .collect()
    }
}

/// Quantiles of times, in any order; zeros if there are none.
fn quantiles(mut times: Vec<f64>) -> Quantiles {
    if times.is_empty() {
        return Quantiles::default();
    }
    times.sort_by(f64::total_cmp);
    let at = |of: f64| times[(times.len() as f64 * of).ceil() as usize - 1];
    Quantiles {
        first: times[0],
        mean: times.iter().sum::<f64>() / times.len() as f64,
        p50: at(0.5),
        p95: at(0.95),
        p99: at(0.99),
        last: at(1.0),
    }
}
