use core::net::SocketAddrV4;
use std::borrow::Cow;

use layercast_core::{
    Answered, CellRate, Contract, ContractError, FilterKind, FlowId, FlowSpec, FrameRate, GroupId,
    Level, Mediation, NodeId, PerLayer, PolicyError, QosPolicy, Quality, Serial, SpecError, Term,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    BasePackets, BaseParities, Bounds, Carriage, ClockReading, ClockReport, Downward, Epoch,
    Identity, MAX_PROOF, Mark, NodeReport, Opaque, PartReport, Refusal, Secret, SourceClockReport,
    Upward, changes_direction,
};

/// Longest line of the session protocol in bytes, newline included.
pub const MAX_LINE: usize = 64 * 1024;
/// Highest counter of a report: with a thousand million a second it takes a hundred days, and sums of all members keep within 64 bits.
const MAX_COUNT: u64 = 1 << 53;
/// Seconds of a day: no frame waits longer.
const DAY_S: u64 = 86_400;
/// No flow has more frames in a second.
const MOST_FRAMES: u64 = 100_000;
/// Largest number of a report that is no counter.
const MAX_NUMBER: f64 = 1e15;
/// Longest name in bytes.
pub const MAX_NAME: usize = 256;
/// Longest reason or error message in bytes.
pub const MAX_TEXT: usize = 1024;
/// Most nodes between a source and a receiver.
pub const MAX_WAY: usize = 64;

/// A message of the session protocol: one JSON object per line on a reliable byte stream; the field `type`
/// distinguishes them (specs/mets.md 2.10).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Signal {
    /// First message in both directions.
    Hello {
        /// Name of the node.
        node: String,
        /// Its number, as it signs RES and ADAPT.
        id: NodeId,
        /// Version of the session protocol.
        version: u16,
        /// Where it takes datagrams of this link.
        udp_port: u16,
        /// What it wants on this link.
        carriage: Carriage,
        /// Names its clock; equal names mean that one-way delays may be believed.
        clock: String,
        /// The key of the datagrams it sends on this link, if they are protected.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        link_key: Option<Secret>,
        /// It repairs lost datagrams on this link: the session of the counters of its datagrams
        /// (docs/src/reference/link-repair.md).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        repair: Option<u16>,
        /// In an answer: the IP multicast group to which the sender sends the media of the neighbour that called.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<SocketAddrV4>,
        /// It reads the headers of a multicast group with repair. In the answer: the datagrams of this link go to such a
        /// group; this counter is the next one, and `repair` their session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group_repair: Option<u32>,
        /// It measures the path to the neighbour by the reports of link repair: they have to be frequent.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        prompt: bool,
        /// It reads [`Signal::Clock`].
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        clocks: bool,
        /// It answers [`Signal::Ping`].
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pings: bool,
    },
    /// The sender protects its datagrams with another key from soon on.
    LinkKey {
        /// The key.
        key: Secret,
    },
    /// A flow exists; travels away from the source.
    Advertise {
        /// The flow.
        flow: Box<FlowInfo>,
    },
    /// A flow exists no more.
    Withdraw {
        /// The flow.
        flow: FlowId,
        /// Why.
        reason: String,
    },
    /// A receiver wants a flow; travels towards the source.
    Join {
        /// The flow.
        flow: FlowId,
        /// The life of the flow, as advertised.
        #[serde(default, skip_serializing_if = "Epoch::is_default")]
        epoch: Epoch,
        /// The member.
        member: Member,
        /// Highest level it will ever want.
        level: Level,
        /// That it has a token, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proof: Option<Opaque>,
        /// Whether the sender has the flow already, and joins again because the channel was lost.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        again: bool,
        /// What the member answers to the offered contract, if it has a profile: what is not as offered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<Box<Bounds>>,
    },
    /// The base layer is reserved along the path.
    JoinAck {
        /// The flow.
        flow: FlowId,
        /// Its circuit on this link, where the link carries cells.
        vci: u16,
        /// The level in force.
        level: Level,
        /// What the contract of the member is from now on, if it answered the offer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agreed: Option<Box<Agreed>>,
    },
    /// The offered contract has nothing in common with the profile of a member, which therefore does not join; travels towards the source.
    Decline {
        /// The flow.
        flow: FlowId,
        /// The member.
        member: Member,
        /// Which parameter, with what is wanted and what is offered.
        refusal: Box<Refusal>,
        /// That the member has a token, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proof: Option<Opaque>,
    },
    /// The join is refused.
    JoinNak {
        /// The flow.
        flow: FlowId,
        /// What is missing, and where.
        refusal: Refusal,
    },
    /// A receiver leaves.
    Leave {
        /// The flow.
        flow: FlowId,
        /// The member.
        member: Member,
    },
    /// A member has left, though others below the sender may have stayed; travels towards the
    /// source.
    Left {
        /// The flow.
        flow: FlowId,
        /// The member.
        member: Member,
    },
    /// From a member to the source of a flow; switches only pass it on.
    ToSource {
        /// The flow.
        flow: FlowId,
        /// The sending member.
        member: Member,
        /// What.
        body: Upward,
    },
    /// From the source of a flow to one member; switches only pass it on.
    ToMember {
        /// The flow.
        flow: FlowId,
        /// The receiving member.
        member: Member,
        /// What.
        body: Downward,
    },
    /// A receiver wants a filter in its way, or wants it gone; travels towards the source as far as the
    /// flow serves this receiver alone (specs/mets.md 2.3, 2.13).
    Filter {
        /// The flow.
        flow: FlowId,
        /// The member.
        member: Member,
        /// Which filter; `None`: none any more.
        filter: Option<FilterKind>,
    },
    /// The filter in the way of the receivers below changed; travels away from the source.
    Filtered {
        /// The flow.
        flow: FlowId,
        /// The node where it is, or was.
        node: String,
        /// What filters there now; `None`: nothing.
        filter: Option<FilterKind>,
    },
    /// The source ends the flow.
    Close {
        /// The flow.
        flow: FlowId,
        /// Frames that were queued and not sent within the grace time.
        undelivered: u32,
        /// The last frame that was numbered: what is missing up to it is missing for good.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last: Option<FlowEnd>,
    },
    /// The source wants to change the flow; travels away from it. Every node reserves what is more,
    /// tentatively, and answers (specs/mets.md 2.2, `changeQoS`).
    Change {
        /// The flow as it would be, with its next revision.
        flow: Box<FlowInfo>,
        /// Number of the change, counted by the source.
        change: u32,
    },
    /// The change can be had in this branch; travels towards the source, merged by every node.
    ChangeAck {
        /// The flow.
        flow: FlowId,
        /// The reporting member: a receiver, or the member in whose name a node has joined.
        member: Member,
        /// Number of the change.
        change: u32,
    },
    /// The change cannot be had.
    ChangeNak {
        /// The flow.
        flow: FlowId,
        /// The reporting member.
        member: Member,
        /// Number of the change.
        change: u32,
        /// What is missing, and where.
        refusal: Refusal,
    },
    /// The change is in force, or void; travels away from the source.
    ChangeEnd {
        /// The flow as it is from now on.
        flow: Box<FlowInfo>,
        /// Number of the change.
        change: u32,
        /// Number of the frame, a GOP start, from which on it is in force; `None`: it is void.
        from: Option<Serial>,
    },
    /// What a receiver got so far; travels towards the source.
    Report {
        /// The flow.
        flow: FlowId,
        /// The member.
        member: Member,
        /// The figures.
        report: Box<MemberReport>,
    },
    /// Asks for the flows a node knows.
    ListFlows,
    /// Answers [`Signal::ListFlows`].
    Flows {
        /// The flows.
        flows: Vec<FlowInfo>,
    },
    /// Asks for the figures of the members.
    GetStats {
        /// Of one flow, or of all.
        flow: Option<FlowId>,
    },
    /// Answers [`Signal::GetStats`].
    Stats {
        /// One entry for each member of each flow.
        members: Vec<MemberStats>,
    },
    /// Precedes [`Signal::Stats`] in the answer to [`Signal::GetStats`].
    Links {
        /// One entry for each link with repair, or of which the node dropped datagrams.
        links: Vec<LinkReport>,
        /// What the node counted itself, in the first message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<Box<NodeReport>>,
        /// What it counted of its ports, sources and other parts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parts: Vec<PartReport>,
    },
    /// What the clock of the source of a flow shows; from the node that sends the flow to the neighbour.
    Clock {
        /// The flow.
        flow: FlowId,
        /// By the clock of the neighbour.
        clock: ClockReading,
    },
    /// Asks whether the neighbour still runs: the kernel of its host keeps the connection of a process that is stopped.
    Ping,
    /// Answers [`Signal::Ping`].
    Pong,
    /// The hello is refused: another neighbour of the node has that name.
    NameInUse {
        /// The node that refuses.
        node: String,
        /// The name.
        name: String,
    },
    /// The last message could not be served.
    Error {
        /// What is wrong, for a human.
        message: String,
    },
}

/// The contract of a member.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Agreed {
    /// Number of the member: several may hear the answer.
    pub member: NodeId,
    /// What is not as offered.
    #[serde(flatten)]
    pub bounds: Bounds,
}

/// Where the count of a flow ends, as the header of its last frame has it (specs/mets.md 2.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FlowEnd {
    /// Number of the last frame.
    pub seq: Serial,
    /// E1 frames up to it, modulo 256.
    pub e1_count: u8,
    /// E2 frames up to it, modulo 256.
    pub e2_count: u8,
}

/// A flow as it is advertised.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FlowInfo {
    /// The flow.
    pub id: FlowId,
    /// What a user asks for.
    pub name: String,
    /// When this life of it began: distinguished by it are the flow before and after a restart of its source.
    #[serde(default, skip_serializing_if = "Epoch::is_default")]
    pub epoch: Epoch,
    /// The group of its receivers.
    pub group: GroupId,
    /// What it needs.
    pub spec: FlowSpec,
    /// What to do when that cannot be had.
    pub policy: QosPolicy,
    /// Name of the node where it comes from.
    pub source: String,
    /// Clock of its timestamps, as in [`Signal::Hello`].
    pub clock: String,
    /// How its AAL5 frames are delimited on links of cells.
    #[serde(default)]
    pub aal5_mark: Mark,
    /// Times its specification or policy was changed since it started.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub revision: u32,
    /// Longest the base layer may take to here, in microseconds: what each node on the way has added
    /// to the advertisement (specs/mets.md 2.10).
    #[serde(default)]
    pub path_delay_us: u64,
    /// Longest the packets of its largest frame, with all layers granted, take to leave the source one after another, in
    /// microseconds: what a receiver that has seen no key frame in its turn has to expect.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spread_us: u64,
    /// Name of its core switch, where all receivers meet it (specs/mets.md 2.10); `None`: joins go the
    /// way the advertisement came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<String>,
    /// The source of the flow, if its media are sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// The parities that go with its base layer, if there are any; what they take is in the base layer of
    /// `spec`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parities: Option<BaseParities>,
    /// Media time that its source delivers for each second of time, in milliseconds, if the source is slower than real time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_ms_per_s: Option<u16>,
    /// Pictures that cannot be shown since packets were lost on the way to its source, since it is served.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub input_damaged: u64,
    /// Its source could not read its input any more: what follows is not the end of the media.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub input_failed: bool,
    /// What its source promises each receiver; `None`: what follows from the bounds of `spec`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<Contract>,
    /// How the contract is negotiated with the members; `None`: it is as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mediation: Option<Mediation>,
    /// The most throughput that all members take, in bit/s, if that is less than is offered; of a group with one rate for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_bps: Option<u64>,
    /// Rate of the slowest line on the way to here, in bit/s, of those whose rate is known; of a flow whose contract is negotiated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_bps: Option<u64>,
    /// Which way the advertisement came, where there is a core.
    #[serde(default, skip_serializing_if = "Via::is_source")]
    pub via: Via,
    /// Numbers of the nodes that the advertisement came through, that of the source first; empty where there is a core. At most [`MAX_WAY`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub way: Vec<u32>,
}

/// Which way the advertisement of a flow with a core switch came (specs/mets.md 2.10).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// Straight from the source: it finds the core, and joins wait.
    #[default]
    Source,
    /// From the core, or from the way between it and the source: joins go where it came from.
    Core,
    /// From the core back to the source: nodes that receive it are on the path between them.
    Spine,
}

impl Via {
    fn is_source(&self) -> bool {
        *self == Via::Source
    }
}

impl FlowInfo {
    /// What the source signs of it: what stays as it is all along the way and as long as it lasts.
    pub fn signed_part(&self) -> Vec<u8> {
        let tokens = self
            .identity
            .as_ref()
            .is_some_and(|identity| identity.tokens);
        let mut out = Vec::new();
        out.extend_from_slice(&self.id.0.to_be_bytes());
        out.extend_from_slice(&self.epoch.0.to_be_bytes());
        out.extend_from_slice(&self.group.0.to_be_bytes());
        out.push(u8::from(tokens));
        out.extend_from_slice(self.name.as_bytes());
        out
    }

    /// The number of the flow named `flow` of the node `node`, which is known by `key` if its links are
    /// protected: the same after each restart, and with other names or keys another.
    pub fn id_of(node: &str, key: &[u8], flow: &str) -> FlowId {
        // FNV-1a (Fowler, Noll, Vo), 64 bits folded to 32; no name holds the separator.
        let parts = [node.as_bytes(), key, flow.as_bytes()];
        let octets = parts.into_iter().flat_map(|part| part.iter().chain(&[0]));
        let hash = octets.fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
            (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3)
        });
        FlowId(((hash >> 32) as u32 ^ hash as u32).max(1))
    }

    /// A flow that nothing more is known of than what it is called and where it comes from.
    pub fn new(id: FlowId, name: &str, source: &str) -> FlowInfo {
        FlowInfo {
            id,
            name: name.into(),
            epoch: Epoch::default(),
            group: GroupId(id.0),
            spec: FlowSpec::default(),
            policy: QosPolicy::default(),
            source: source.into(),
            clock: String::new(),
            aal5_mark: Mark::default(),
            revision: 0,
            path_delay_us: 0,
            spread_us: 0,
            core: None,
            via: Via::Source,
            identity: None,
            parities: None,
            media_ms_per_s: None,
            input_damaged: 0,
            input_failed: false,
            contract: None,
            mediation: None,
            group_bps: None,
            path_bps: None,
            way: Vec::new(),
        }
    }

    /// What is promised to a receiver that gets `own` of the flow.
    pub fn contract_of(&self, own: &FlowSpec) -> Contract {
        let whole = self.contract.unwrap_or_else(|| Contract::of(&self.spec));
        let mut contract = whole.moved(&self.spec, own);
        if let Some(most) = self.group_bps.map(|bps| bps as f64) {
            let term = contract.throughput.unwrap_or(Term::agreed(0.0));
            contract.throughput = Some(Term {
                target: Some(term.target.map_or(most, |it| it.min(most)).max(term.agreed)),
                ..term
            });
        }
        contract
    }

    /// Puts another specification in place of that of the flow; a promise follows it.
    pub fn respecify(&mut self, spec: FlowSpec) {
        self.contract = self.contract.map(|it| it.moved(&self.spec, &spec));
        self.spec = spec;
    }

    /// The same state of the flow as another neighbour tells it: with its way, and what it says about the state of the input.
    pub fn heard_as(&self, told: &FlowInfo) -> FlowInfo {
        FlowInfo {
            path_delay_us: told.path_delay_us,
            path_bps: told.path_bps,
            via: told.via,
            way: told.way.clone(),
            media_ms_per_s: told.media_ms_per_s,
            input_damaged: told.input_damaged,
            input_failed: told.input_failed,
            ..self.clone()
        }
    }

    /// Whether both tell of the same flow in the same state, wherever they were heard and whatever the state of its input.
    pub fn is_same(&self, other: &FlowInfo) -> bool {
        *self == other.heard_as(self)
    }

    /// Whether `other` is the same flow in another life.
    pub fn is_other_life(&self, other: &FlowInfo) -> bool {
        self.id == other.id && self.epoch != other.epoch
    }

    /// Whether this is what became of `other` when its source changed it. What its layers are to each other never changes.
    pub fn succeeds(&self, other: &FlowInfo) -> bool {
        let changed = FlowInfo {
            spec: self.spec.clone(),
            contract: self.contract,
            mediation: self.mediation,
            group_bps: self.group_bps,
            policy: self.policy.clone(),
            revision: self.revision,
            spread_us: self.spread_us,
            ..other.clone()
        };
        let alike = self.spec.composition == other.spec.composition;
        self.revision > other.revision && alike && self.is_same(&changed)
    }
}

fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

/// A receiver of a flow.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its number.
    pub id: NodeId,
}

/// The report of a member, since it joined.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct MemberReport {
    /// The level granted.
    pub level: Level,
    /// The level that the receiver selected; `None`: it does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Level>,
    /// Rate of the level in cells per second, base layer included; 0 if it is not known.
    #[serde(default)]
    pub rate: CellRate,
    /// Frames played.
    pub frames: PerLayer<u64>,
    /// Frames of granted layers that were lost.
    pub lost: PerLayer<u64>,
    /// Frames that arrived after their playout time.
    pub late: u64,
    /// Median one-way delay in milliseconds.
    pub delay_ms_p50: f64,
    /// 99th percentile of the one-way delay in milliseconds.
    pub delay_ms_p99: f64,
    /// Playout delay in milliseconds.
    pub playout_ms: f64,
    /// Packets of the base layer before repair, of a flow with parities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<BasePackets>,
    /// Packets or cells with the congestion mark.
    #[serde(default)]
    pub marked: u64,
    /// Time without a picture that can be decoded, in milliseconds.
    #[serde(default)]
    pub outage_ms: u64,
    /// Delay of live frames from their arrival at the source to their hand-over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_to_end_ms: Option<EndToEndMs>,
    /// How long after their time all live frames of the last seconds came to the source, played or not; 0 if they came in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_late_ms: Option<f64>,
    /// Frames among the late ones that arrived while the host did not run the receiver.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late_stopped: u64,
    /// What the receiver knows of the clock of the source, where it is another one than its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_clock: Option<SourceClockReport>,
    /// What its monitor says of what was agreed, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<Quality>,
    /// How it answered the offered contract, if it has a profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answered>,
    /// The most throughput that it takes, in bit/s, whatever is offered: the least of what its lines, its host and its profile allow.
    /// Of a member with a profile in a group with one rate for all; `None`: nothing limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_bps: Option<u64>,
    /// That no packet of the flow comes, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence: Option<Silence>,
}

/// A time in which no packet of a flow came to a receiver. It begins to count after 1 s, of a flow with rarer frames after one and a half times
/// their distance.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Silence {
    /// Milliseconds since the last packet.
    pub ms: u64,
    /// Frames of granted layers whose playout time has passed since then, by the rate of the flow: they are counted as lost once a frame behind them
    /// comes, unless the source sent none.
    pub overdue: PerLayer<u64>,
}

/// Delay of live frames from the arrival of the last byte at the source to the hand-over at the receiver, in
/// milliseconds.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct EndToEndMs {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Mean: the sum of the mean parts below.
    pub mean: f64,
    /// Until the frame was complete and due at the source, at most 4095: a longer time is stated as that.
    pub ingest: f64,
    /// In the scheduler and the shaper of the source, until the first packet left.
    pub queue: f64,
    /// From the source to the arrival of the last packet.
    pub path: f64,
    /// From the arrival to the hand-over.
    pub playout: f64,
}

/// The repair of lost datagrams on one link of a node, and what the node dropped of it, since the node started.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct LinkReport {
    /// The neighbour at the other end.
    pub neighbour: String,
    /// Datagrams sent for the first time.
    pub sent: PerLayer<u64>,
    /// Datagrams sent and lost, repairs included.
    pub lost: PerLayer<u64>,
    /// Repairs sent.
    pub repairs: PerLayer<u64>,
    /// Losses that were not repaired because a repair would arrive after the deadline of the frame.
    pub too_late: PerLayer<u64>,
    /// Losses that were not repaired because the rate for repairs was used up.
    pub over_grant: PerLayer<u64>,
    /// Datagrams of the neighbour that arrived as a repair.
    pub repaired: PerLayer<u64>,
    /// Datagrams requested from the neighbour.
    pub requested: u64,
    /// Repairs of the neighbour whose content had arrived, or arrived later.
    pub spurious: u64,
    /// Smoothed round trip in microseconds; 0: unknown.
    pub rtt_us: u64,
    /// Datagrams of the neighbour that the node dropped because they came faster than it processes them: those of others were not.
    #[serde(default)]
    pub crowded_out: u64,
    /// What the port estimates of its path, where the rate of the port is `auto`.
    #[serde(default)]
    pub path: Option<PathReport>,
    /// What is known of the clock of the neighbour. `null`: nothing, or the neighbour is a multicast group.
    #[serde(default)]
    pub clock: Option<ClockReport>,
}

/// What a port estimates of its path.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct PathReport {
    /// Rate at which packets leave, in bit/s, link headers below UDP excluded; `null`: the path has not been full, and nothing
    /// limits them.
    pub rate_bps: Option<u64>,
    /// Other flows keep a queue on the path: the port takes its share of it.
    pub competes: bool,
    /// How long packets wait in queues of the path now, in microseconds.
    pub queue_us: u64,
    /// How often the rate was cut because of a queue.
    pub cuts: u64,
}

/// A member as a node knows it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MemberStats {
    /// The member.
    pub member: Member,
    /// Number of its flow.
    pub flow: FlowId,
    /// Name of the node to which it is attached.
    pub node: String,
    /// Time of the join, in milliseconds since the answering node started.
    pub joined_at_ms: u64,
    /// The level granted: to a neighbour now, to a member behind another node as of its report.
    pub level: Level,
    /// The level that the member selected.
    #[serde(default)]
    pub wanted: Level,
    /// Its last report.
    pub report: Option<MemberReport>,
    /// How long ago that came, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_age_ms: Option<u64>,
    /// Why the member is below the highest level of the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// The node from which the answering node has the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// The node to which the answering node sends the flow for this member, unless that is the member itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Its session ended without a farewell: it is listed for 60 s more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gone: bool,
    /// It has not joined, since the offered contract has nothing in common with its profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refusal>,
}

/// Why a member is below the highest level of its flow, as seen by the node that answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Limit {
    /// The member has sent no RES.
    NoDemand,
    /// The member requests no higher level: it is limited (`join --level`), or sees congestion.
    Demand {
        /// The level requested.
        level: Level,
    },
    /// The member requests no higher level after congestion, and the link is too slow for the busiest GOPs of the next one.
    Bursts {
        /// The level requested.
        level: Level,
        /// Peak rate of the next level in cells/s, base layer included.
        needed: CellRate,
        /// Rate of the link in cells/s.
        available: CellRate,
    },
    /// The link carries no more.
    Link {
        /// Measured rate of the next level in cells/s, without the reservation of the base layer.
        needed: CellRate,
        /// Rate of the link in cells/s, without the reservations of base layers.
        available: CellRate,
    },
    /// The upstream node sends no higher level.
    Upstream {
        /// The level that the upstream node sends.
        level: Level,
    },
}

/// Why a line is no message, or a message no line.
#[derive(Debug, Error)]
pub enum SignalError {
    /// A line above [`MAX_LINE`]; the stream cannot be read any further.
    #[error("session message is longer than 65536 bytes")]
    TooLong,
    /// Not JSON, or a field is missing or has the wrong type.
    #[error("session message: {0}")]
    Json(#[from] serde_json::Error),
    /// A message we do not know.
    #[error("session message of unknown type {0:?}")]
    UnknownType(String),
    /// A name or text that is too long, or has control characters.
    #[error("session message: {field} {problem}")]
    Text {
        /// The offending field.
        field: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A figure that is not a number, or too large for one that can be meant.
    #[error("session message: {0} is not a number of at most 1e15")]
    NotFinite(&'static str),
    /// A counter that nothing can have counted.
    #[error("session message: a counter of {0} is above 2^53")]
    Count(&'static str),
    /// More of a flow than there can be: delays of more than a day, more than 100,000 frames/s.
    #[error("session message: {0} of a flow is {1}, which is above {2}")]
    Bound(&'static str, u64, u64),
    /// A flow specification that cannot be meant.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A policy that contradicts itself.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A contract that cannot be.
    #[error("contract: {0}")]
    Contract(#[from] ContractError),
}

impl Signal {
    /// The message as a line, newline included.
    pub fn to_line(&self) -> Result<Vec<u8>, SignalError> {
        self.check()?;
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        if line.len() > MAX_LINE {
            return Err(SignalError::TooLong);
        }
        Ok(line)
    }

    /// The message in a line, with or without its newline.
    pub fn from_line(line: &[u8]) -> Result<Signal, SignalError> {
        if line.len() > MAX_LINE {
            return Err(SignalError::TooLong);
        }
        let signal: Signal = serde_json::from_slice(line).map_err(|error| why(line, error))?;
        signal.check()?;
        Ok(signal)
    }

    /// Checks names, figures, specifications and policies.
    pub fn check(&self) -> Result<(), SignalError> {
        match self {
            Signal::Hello {
                node,
                clock,
                link_key,
                ..
            } => {
                name("node", node)?;
                name("clock", clock)?;
                link_key
                    .as_ref()
                    .map_or(Ok(()), |key| secret("link_key", key))
            }
            Signal::LinkKey { key } => secret("key", key),
            Signal::Advertise { flow } => flow.check(),
            Signal::Change { flow, .. } | Signal::ChangeEnd { flow, .. } => flow.check(),
            Signal::Withdraw { reason, .. } => text("reason", reason, MAX_TEXT),
            Signal::Join {
                member,
                proof,
                answer,
                ..
            } => {
                member.check()?;
                answer.as_deref().map_or(Ok(()), Bounds::check)?;
                proof
                    .as_ref()
                    .map_or(Ok(()), |proof| proof.check("proof", MAX_PROOF))
            }
            Signal::Leave { member, .. }
            | Signal::Left { member, .. }
            | Signal::ChangeAck { member, .. } => member.check(),
            Signal::Filter { member, filter, .. } => {
                member.check()?;
                QosPolicy::check_filters(filter.as_slice()).map_err(SignalError::Policy)
            }
            Signal::Filtered { node, filter, .. } => {
                name("node", node)?;
                QosPolicy::check_filters(filter.as_slice()).map_err(SignalError::Policy)
            }
            Signal::ToSource { member, body, .. } => {
                member.check()?;
                body.check()
            }
            Signal::ToMember { member, body, .. } => {
                member.check()?;
                body.check()
            }
            Signal::ChangeNak {
                member, refusal, ..
            } => {
                member.check()?;
                name("node", &refusal.node)
            }
            Signal::JoinNak { refusal, .. } => name("node", &refusal.node),
            Signal::Decline {
                member,
                refusal,
                proof,
                ..
            } => {
                member.check()?;
                name("node", &refusal.node)?;
                proof
                    .as_ref()
                    .map_or(Ok(()), |proof| proof.check("proof", MAX_PROOF))
            }
            Signal::JoinAck { agreed, .. } => {
                let bounds = agreed.as_ref().map(|it| &it.bounds);
                Ok(bounds.map_or(Ok(()), Bounds::check)?)
            }
            Signal::Report { member, report, .. } => {
                member.check()?;
                report.check()
            }
            Signal::Flows { flows } => flows.iter().try_for_each(FlowInfo::check),
            Signal::Stats { members } => members.iter().try_for_each(MemberStats::check),
            Signal::Links { links, parts, .. } => {
                parts.iter().try_for_each(PartReport::check)?;
                links
                    .iter()
                    .try_for_each(|link| name("neighbour", &link.neighbour))
            }
            Signal::NameInUse { node, name: taken } => {
                name("node", node)?;
                name("name", taken)
            }
            Signal::Error { message } => text("message", message, MAX_TEXT),
            Signal::Clock { .. }
            | Signal::Close { .. }
            | Signal::ListFlows
            | Signal::GetStats { .. }
            | Signal::Ping
            | Signal::Pong => Ok(()),
        }
    }
}

impl FlowInfo {
    fn check(&self) -> Result<(), SignalError> {
        name("name", &self.name)?;
        name("source", &self.source)?;
        name("clock", &self.clock)?;
        self.core
            .as_ref()
            .map_or(Ok(()), |core| name("core", core))?;
        self.identity.as_ref().map_or(Ok(()), Identity::check)?;
        self.spec.validate()?;
        self.policy.validate()?;
        self.contract.as_ref().map_or(Ok(()), Contract::check)?;
        let picture_rate = self.spec.picture_rate.unwrap_or(self.spec.frame_rate);
        let per_day = |rate: FrameRate| u64::from(rate.num) * DAY_S / u64::from(rate.den).max(1);
        let frames = per_day(self.spec.frame_rate).max(per_day(picture_rate));
        for (field, value, most) in [
            (
                "delay_max_ms",
                u64::from(self.spec.delay_max_ms),
                DAY_S * 1_000,
            ),
            (
                "jitter_max_ms",
                u64::from(self.spec.jitter_max_ms),
                DAY_S * 1_000,
            ),
            ("path_delay_us", self.path_delay_us, DAY_S * 1_000_000),
            ("spread_us", self.spread_us, DAY_S * 1_000_000),
            ("frame_rate", frames, DAY_S * MOST_FRAMES),
            ("input_damaged", self.input_damaged, MAX_COUNT),
            ("way", self.way.len() as u64, MAX_WAY as u64),
        ] {
            if value > most {
                return Err(SignalError::Bound(field, value, most));
            }
        }
        Ok(())
    }
}

impl Member {
    fn check(&self) -> Result<(), SignalError> {
        name("member", &self.name)
    }
}

impl MemberReport {
    /// The level that the receiver selected; of one that does not tell it is at least `known`, and what is granted.
    pub fn selected(&self, known: Level) -> Level {
        self.wanted.unwrap_or(known.max(self.level))
    }

    fn check(&self) -> Result<(), SignalError> {
        let packets = self.packets.unwrap_or_default();
        for (field, counters) in [
            ("frames", self.frames.iter().map(|it| *it.1).max()),
            ("lost", self.lost.iter().map(|it| *it.1).max()),
            ("late", Some(self.late.max(self.late_stopped))),
            ("packets", Some(packets.expected.max(packets.received))),
            ("marked", Some(self.marked)),
            ("outage_ms", Some(self.outage_ms)),
            (
                "silence",
                self.silence.map(|it| {
                    it.ms
                        .max(it.overdue.iter().map(|it| *it.1).max().unwrap_or(0))
                }),
            ),
        ] {
            if counters.is_some_and(|it| it > MAX_COUNT) {
                return Err(SignalError::Count(field));
            }
        }
        for (field, value) in [
            ("delay_ms_p50", self.delay_ms_p50),
            ("delay_ms_p99", self.delay_ms_p99),
            ("playout_ms", self.playout_ms),
            ("source_late_ms", self.source_late_ms.unwrap_or_default()),
        ] {
            if !is_meant(value) {
                return Err(SignalError::NotFinite(field));
            }
        }
        let quality = self.quality.unwrap_or_default();
        if !quality
            .judged()
            .all(|(_, it)| is_meant(it.agreed) && is_meant(it.measured))
        {
            return Err(SignalError::NotFinite("quality"));
        }
        let delay = self.end_to_end_ms.unwrap_or_default();
        let (quantiles, parts) = (
            [delay.p50, delay.p99, delay.mean],
            [delay.ingest, delay.queue, delay.path, delay.playout],
        );
        match quantiles.iter().chain(&parts).all(|&it| is_meant(it)) {
            true => Ok(()),
            false => Err(SignalError::NotFinite("end_to_end_ms")),
        }
    }
}

impl MemberStats {
    fn check(&self) -> Result<(), SignalError> {
        self.member.check()?;
        name("node", &self.node)?;
        for other in self.upstream.iter().chain(&self.next) {
            name("node", other)?;
        }
        if let Some(refusal) = &self.refused {
            name("node", &refusal.node)?;
        }
        self.report.as_ref().map_or(Ok(()), MemberReport::check)
    }
}

/// Whether a number of a report can be meant: sums of such numbers stay numbers, and can be read.
fn is_meant(value: f64) -> bool {
    value.abs() <= MAX_NUMBER
}

pub(crate) fn name(field: &'static str, value: &str) -> Result<(), SignalError> {
    text(field, value, MAX_NAME)
}

fn secret(field: &'static str, value: &Secret) -> Result<(), SignalError> {
    name(field, &value.0)
}

pub(crate) fn text(field: &'static str, value: &str, bound: usize) -> Result<(), SignalError> {
    let problem = if value.len() > bound {
        "is too long"
    } else if value.chars().any(char::is_control) {
        // They end up in terminals and logs.
        "has control characters"
    } else if value.chars().any(changes_direction) {
        "has characters that change the direction of writing"
    } else {
        return Ok(());
    };
    Err(SignalError::Text { field, problem })
}

/// Tells a message of a later version from one that is broken.
fn why(line: &[u8], error: serde_json::Error) -> SignalError {
    #[derive(Deserialize)]
    struct Tag<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
    }
    const KNOWN: &[&str] = &[
        "hello",
        "link_key",
        "advertise",
        "withdraw",
        "join",
        "join_ack",
        "join_nak",
        "decline",
        "leave",
        "left",
        "filter",
        "filtered",
        "to_source",
        "to_member",
        "close",
        "change",
        "change_ack",
        "change_nak",
        "change_end",
        "report",
        "list_flows",
        "flows",
        "get_stats",
        "stats",
        "links",
        "clock",
        "ping",
        "pong",
        "name_in_use",
        "error",
    ];
    match serde_json::from_slice::<Tag<'_>>(line) {
        Ok(tag) if !KNOWN.contains(&&*tag.kind) => {
            SignalError::UnknownType(tag.kind.chars().take(64).collect())
        }
        _ => SignalError::Json(error),
    }
}
