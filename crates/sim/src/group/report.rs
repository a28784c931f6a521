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
    /// Of its scenario.
    pub scenario: String,
    /// Seed.
    pub seed: u64,
    /// Receivers of the tree.
    pub receivers: u32,
    /// Source packets of the object, or packets of the stream.
    pub packets: u64,
    /// Whether it was stopped before its end.
    pub partial: bool,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// What the sender says of receivers.
    pub outcomes: Outcomes,
    /// Data packets sent for each source packet.
    pub transmissions_per_packet: f64,
    /// Seconds from the start: when the session was open, and when it was over for the sender.
    pub opened_s: Option<f64>,
    /// The end.
    pub ended_s: Option<f64>,
    /// When receivers had everything, seconds from the start.
    pub completion_s: Quantiles,
    /// What the sender sent.
    pub sent: Sent,
    /// What came back to it.
    pub feedback: FeedbackSummary,
    /// What came to aggregators.
    pub aggregators: AggregatorCount,
    /// What receivers counted, all together.
    pub received: Received,
    /// Processor time.
    pub cpu: Cpu,
    /// Passes of an object.
    pub passes: Vec<Pass>,
    /// Expelled, postponed, failed, handshakes.
    pub notes: Vec<Note>,
    /// Rates that the rate control chose: seconds, bit/s.
    pub rates: Vec<(f64, u64)>,
    /// Branches of the tree.
    pub links: Vec<LinkSummary>,
    /// Codes on parts of the tree.
    pub codes: Vec<EdgeCount>,
    /// TCP beside the group.
    pub cross: Vec<CrossSummary>,
    /// A stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamCount>,
    /// Each receiver, if the scenario wants them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberSummary>,
    /// Simulated seconds.
    pub sim_seconds: f64,
    /// Events.
    pub events: u64,
    /// Duration of the run in seconds; set by the program that measures it.
    pub wall_seconds: f64,
}

/// What the sender says of receivers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Outcomes {
    /// Have everything.
    pub delivered: u32,
    /// Do not get it.
    pub failed: u32,
    /// Never answered.
    pub never: u32,
    /// Still on, as streams leave them.
    pub pending: u32,
    /// Receivers that say they have everything, themselves.
    pub complete: u32,
}

/// Quantiles of times.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct Quantiles {
    /// The first.
    pub first: f64,
    /// Mean.
    pub mean: f64,
    /// Half.
    pub p50: f64,
    /// 95 of 100.
    pub p95: f64,
    /// 99 of 100.
    pub p99: f64,
    /// The last.
    pub last: f64,
}

/// What the sender sent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Sent {
    /// Data packets, parities among them.
    pub data: u64,
    /// Parities.
    pub parities: u64,
    /// Source packets sent again.
    pub again: u64,
    /// Data packets to one receiver.
    pub unicast: u64,
    /// Octets of data packets, headers included.
    pub data_octets: u64,
    /// Other packets.
    pub control: u64,
    /// Their octets.
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
    /// Packets that receivers sent after they had joined.
    pub answers: u64,
    /// Reports not sent because the sender knew already.
    pub suppressed: u64,
    /// Reports that came after their deadline.
    pub late: u64,
    /// That found the socket buffer of the source full.
    pub dropped: u64,
}

/// What receivers counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Received {
    /// Data packets.
    pub data: u64,
    /// Not needed.
    pub duplicates: u64,
    /// No room, or out of order.
    pub overflow: u64,
    /// Blocks rebuilt.
    pub rebuilt: u64,
    /// That found the socket buffer of their host full.
    pub dropped: u64,
}

/// Processor time.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct Cpu {
    /// Seconds of the source's processor.
    pub source_s: f64,
    /// Its share of the time from the opening to the end.
    pub source_share: f64,
    /// Mean of the receivers' hosts, seconds.
    pub hosts_s: f64,
    /// The one that worked most, seconds.
    pub busiest_s: f64,
}

/// A branch of the tree.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LinkSummary {
    /// Its name.
    pub name: String,
    /// What all of its copies did.
    #[serde(flatten)]
    pub count: LinkCount,
}

/// A receiver.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MemberSummary {
    /// When it had everything, seconds from the start.
    pub complete_s: Option<f64>,
    /// What the sender says: delivered, failed, never, pending.
    pub outcome: &'static str,
    /// Data packets that came.
    pub data: u64,
    /// Not needed.
    pub duplicates: u64,
    /// Reports sent.
    pub reports: u64,
    /// Packets of a stream that its process took.
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
