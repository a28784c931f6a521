use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::Arc;

use layercast_core::{
    CellRate, EndToEnd, Layer, Level, PerLayer, Quality, Rate, Refusal, Span, Time,
};
use layercast_link::{LinkConfig, LinkRepairStats, LinkStats, RateSchedule};
use layercast_media::Undecodable;
use layercast_mets::switch::{PortConfig, SwitchConfig, SwitchEvent, SwitchStats};
use layercast_mets::{
    CutStarts, LateMs, ReceiverSummary, SinkConfig, SinkEvent, SinkStats, SourceConfig,
    SourceEvent, SourceStats,
};
use layercast_monitor::Signal as ZoneSignal;
use layercast_protect::{Control, Fingerprint, WallClock};
use layercast_qos::Cause;
use layercast_repair::Means;
use layercast_wire::{ChannelStats, FlowInfo, Silence, SourceClockReport, UdpStats};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::clock::wall_clock;
use crate::command::{JoinCommand, NodeCommand};
use crate::frames::Frames;
use crate::host::{EmulatedStats, HostEmulation};
use crate::identity::Identity;
use crate::output::{Output, OutputStats};
use crate::remote::Remote;
use crate::timer::Lateness;

/// A node that sends media on: a switch, a host with sources, or both.
pub struct NodeConfig {
    /// The switch machine; its name is the name of the node.
    pub switch: SwitchConfig,
    /// Where neighbours and questions come in; port 0 lets the kernel choose. In the clear over TCP both the
    /// TCP port, for them, and the UDP port, for datagrams, are taken; otherwise see
    /// [`identity`](Self::identity) and [`control`](Self::control).
    pub listen: SocketAddr,
    /// The identity of the node on protected links. With one, neighbours connect over QUIC on the UDP port of
    /// `listen` only, datagrams use the UDP port behind it (or a free one), announced in hello, and callers on
    /// the TCP port are refused with an explanation; without one, all connect in the clear.
    pub identity: Option<Arc<Identity>>,
    /// What carries the session channel of those that come in in the clear. XTP has the ports that QUIC has
    /// with an identity; both at a time are [`NetError::NotProtected`](crate::NetError::NotProtected).
    pub control: Control,
    /// Names that belong to one identity, no other identity may use them.
    pub identities: BTreeMap<String, Fingerprint>,
    /// Neighbours to call: the ways towards sources elsewhere. For protected ones a node without an
    /// identity makes one up.
    pub upstreams: Vec<Remote>,
    /// What to do when an upstream neighbour does not answer at the start.
    pub connect: Connect,
    /// The port of a neighbour that is not in `ports`; it gets the neighbour's name and the
    /// carriage the neighbour asks for.
    pub default_port: PortConfig,
    /// Whether the rate of a link without a rate of its own is estimated ([`PortConfig::estimated`]) if it leaves the machine. Only links
    /// of datagrams that are repaired can be; one to a neighbour in `ports` is as configured there.
    pub estimate_elsewhere: bool,
    /// The ports of known neighbours, upstream ones too, by the neighbour's name.
    pub ports: BTreeMap<String, Neighbour>,
    /// How the rates of the lines to some neighbours change, by the neighbour's name.
    pub schedules: BTreeMap<String, RateSchedule>,
    /// When these schedules begin; `None`: with the node.
    pub schedules_from: Option<Time>,
    /// Ports that are IP multicast groups.
    pub groups: Vec<GroupPort>,
    /// Flows that start here.
    pub sources: Vec<LocalSource>,
    /// The host it plays, for experiments; by default none.
    pub host: HostEmulation,
    /// What is done about lost datagrams on the links to neighbours that repair them, too, and to multicast groups, where parities
    /// answer requests whatever it is; `None`: nothing. Links of cells are not repaired.
    pub repair: Option<Means>,
    /// Whether to stop when all sources have sent everything.
    pub until_finished: bool,
    /// Connections accepted at a time; a node has ports for all of them, up to 65 535.
    pub max_connections: usize,
    /// Where the wall clock is read, again and again: it can be set while the node runs. It replaces those of the
    /// switch and the sources.
    pub wall_clock: fn() -> WallClock,
    /// What the user asks while the node runs.
    pub commands: Option<mpsc::Receiver<NodeCommand>>,
}

/// The link to one neighbour.
#[derive(Clone, Debug)]
pub struct Neighbour {
    /// The port to it. Its carriage must be what the neighbour is configured for.
    pub port: PortConfig,
    /// Delay and impairments of the way to it, in real time.
    pub link: LinkConfig,
}

/// A port whose datagrams go to an IP multicast group.
#[derive(Clone, Debug)]
pub struct GroupPort {
    /// Port and impairments, common to all members.
    pub link: Neighbour,
    /// Where datagrams go.
    pub group: SocketAddrV4,
    /// Address of the interface they leave by.
    pub interface: Ipv4Addr,
    /// Names of the neighbours on it.
    pub members: Vec<String>,
}

/// A flow that starts at this node.
pub struct LocalSource {
    /// The source machine.
    pub config: SourceConfig,
    /// Its frames, taken one by one as there is room.
    pub frames: Frames,
    /// Members that have to have joined before the first frame is taken; 0: does not wait.
    pub start_when_joined: u32,
}

/// What to do when an upstream neighbour does not answer at the start. Once it has answered, it is
/// called again forever.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Connect {
    /// Call again.
    #[default]
    Retry,
    /// Give up with [`NetError::Unreachable`](crate::NetError::Unreachable).
    FailFast,
}

/// What happens at a node.
#[derive(Clone, PartialEq, Debug)]
pub enum NodeEvent {
    /// A neighbour is connected, for the first time or again.
    PeerUp {
        /// Its name.
        name: String,
        /// Where its datagrams come from.
        addr: SocketAddr,
        /// Whether we called it.
        upstream: bool,
    },
    /// The connection to a neighbour is lost.
    PeerDown {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// A caller was turned away, or an upstream neighbour cannot be reached (it is called again).
    Failed {
        /// Its address.
        addr: SocketAddr,
        /// Why.
        reason: String,
    },
    /// The URL of an upstream neighbour has changed: it is called there from now on.
    Renewed {
        /// Its new address.
        addr: SocketAddr,
    },
    /// The path to a neighbour whose rate is estimated carries more or less.
    Path {
        /// The neighbour.
        neighbour: String,
        /// The rate of its port from now on.
        rate: Rate,
    },
    /// The encoder of a flow may send more or less: the links to its receivers carry another share of it. Once a second at
    /// most, and when the rate changes by more than 5 %.
    Target {
        /// Name of the flow.
        flow: String,
        /// The rate of all its media from now on, without headers, repairs and parities.
        rate: Rate,
        /// The share of its full rate that this is; 1 at most.
        share: f64,
    },
    /// This host did not run the node when it should have, for this time in all. Reported when it is much, once a
    /// second at most.
    NotRun {
        /// In all since the last report, or within a second.
        time: Span,
    },
    /// The switch machine says.
    Switch {
        /// What.
        event: SwitchEvent,
        /// Of which neighbour, if it is about one.
        neighbour: Option<String>,
    },
    /// A source says.
    Source {
        /// Name of the flow.
        flow: String,
        /// What.
        event: SourceEvent,
    },
}

/// The counters of a node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeSummary {
    /// Name of the node.
    pub node: String,
    /// Counters of its switch.
    pub switch: SwitchStats,
    /// Its sources, by flow name.
    pub sources: BTreeMap<String, SourceStats>,
    /// Links with impairments, by neighbour.
    pub links: BTreeMap<String, LinkStats>,
    /// Links on which lost datagrams are repaired, by neighbour.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub repairs: BTreeMap<String, LinkRepairStats>,
    /// Datagrams of neighbours that sent more than this host can process, and that were dropped for it, by neighbour.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub crowded_out: BTreeMap<String, u64>,
    /// Counters of its socket.
    pub udp: UdpStats,
    /// Datagrams of neighbours that do not decode.
    pub malformed: u64,
    /// Counters of its session channels.
    pub channels: ChannelStats,
    /// Lateness of its timers.
    pub timers: Lateness,
    /// The host that it emulates, of a scenario with a host profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<EmulatedStats>,
}

/// A host that only receives one flow.
pub struct JoinConfig {
    /// The neighbour to receive from.
    pub upstream: Remote,
    /// The identity of the host on a protected link; `None`: a new one each time.
    pub identity: Option<Arc<Identity>>,
    /// The sink machine; its name is the name of the host, its carriage what it asks for.
    pub sink: SinkConfig,
    /// The group on which datagrams arrive, and the address of the interface to join it on.
    pub group: Option<(SocketAddrV4, Ipv4Addr)>,
    /// Rate of the way back; `None`: no limit.
    pub rate: Option<Rate>,
    /// Delay and impairments of the way back.
    pub link: LinkConfig,
    /// Whether lost datagrams are repaired on the link, if the neighbour does the same; not with cells. If not, a member of a
    /// `group` requests nothing, but uses what others request.
    pub repair: bool,
    /// Whether the policy of the flow replaces that of `sink`.
    pub policy_of_flow: bool,
    /// Where the media go.
    pub output: Output,
    /// What the output does with pictures that refer to a missing one.
    pub undecodable: Undecodable,
    /// Whether the output gets the frames of a fast start; `None`: a file or a program does, and a player does not, since it
    /// would play them at their speed and stay behind.
    pub fast_start: Option<bool>,
    /// A file that gets a JSON object for each frame: what became of it, and what held it and for how long.
    pub explain: Option<PathBuf>,
    /// When to leave, at the latest.
    pub leave_at: Option<Time>,
    /// Whether to stop when the flow ends, or to wait for it to come back.
    pub until_closed: bool,
    /// How long it may take at the start until the upstream neighbour answers and has the flow, before
    /// [`NetError::Unreachable`](crate::NetError::Unreachable) or [`NetError::NoSuchFlow`](crate::NetError::NoSuchFlow);
    /// an answer that waiting does not change ends it immediately. `None`: forever, whatever the answers are.
    pub start_within: Option<Span>,
    /// Whether to give up with [`NetError::Refused`](crate::NetError::Refused) when refused, or to
    /// stay and try again every second.
    pub stop_if_refused: bool,
    /// Whether to end with an error that says why if nothing was played by `leave_at`, or while `patience` lasted.
    pub must_receive: bool,
    /// How long the flow may stay away, before it is joined or after it was lost; `None`: forever.
    pub patience: Option<Span>,
    /// Instant zero of the figures in the summary.
    pub epoch: Time,
    /// Name of the link in the summary.
    pub link_name: String,
    /// Where the wall clock is read, again and again: it can be set while the host runs. It replaces that of `sink`.
    pub wall_clock: fn() -> WallClock,
    /// Whether a QoS monitor compares the received flow with what was agreed, on a thread that all receivers of the process share.
    pub monitor: bool,
    /// What the user asks while the host receives.
    pub commands: Option<mpsc::Receiver<JoinCommand>>,
}

/// What happens at a receiving host.
#[derive(Clone, PartialEq, Debug)]
pub enum JoinEvent {
    /// The upstream neighbour is connected, for the first time or again.
    Connected {
        /// Its name.
        upstream: String,
        /// Whether the link to it is protected.
        protected: bool,
    },
    /// The receiver listens to a group, and the upstream neighbour sends its media by unicast.
    NotInGroup {
        /// The neighbour.
        upstream: String,
        /// The receiver.
        name: String,
        /// The group.
        group: SocketAddrV4,
    },
    /// The upstream neighbour is connected and has not advertised the flow; the host waits for it.
    NoSuchFlow {
        /// Its address.
        upstream: SocketAddr,
        /// The flow.
        flow: String,
        /// The flows that it has advertised, or "none".
        known: String,
    },
    /// The upstream neighbour is lost, or cannot be reached; it is called again.
    Disconnected {
        /// Why.
        reason: String,
    },
    /// The URL of the upstream neighbour has changed: it is called there from now on.
    Renewed {
        /// Its new address.
        upstream: SocketAddr,
    },
    /// The flow is advertised: for the first time, in another life, or changed.
    Advertised(Box<FlowInfo>),
    /// The flow is joined.
    Joined(Box<FlowInfo>),
    /// The flow is refused.
    Refused(Refusal),
    /// The level granted changed.
    Level {
        /// Old level.
        from: Level,
        /// New level.
        to: Level,
    },
    /// The received flow deviates from what was agreed more, or less, than before.
    Zone(ZoneSignal),
    /// The figures of the last second.
    Second(Box<Progress>),
    /// All counters, after those figures.
    Counted(Box<JoinCounters>),
    /// Whatever else the sink says, frames and the messages of the adapter excepted.
    Sink(SinkEvent),
    /// The flow has been away for [`JoinConfig::patience`]: the host leaves it.
    GaveUp {
        /// How long it has been known to be away.
        away: Span,
        /// How long ago its last packet came, if any did: that a node is dead takes seconds to notice.
        silent: Option<Span>,
    },
    /// The file of [`JoinConfig::explain`] cannot be written: it ends here, and the receiver continues.
    Unexplained {
        /// Why, with its path.
        error: String,
        /// The kind of that error.
        kind: io::ErrorKind,
    },
    /// The flow is over, or was left.
    Closed {
        /// Frames the source could not send in time.
        undelivered: u32,
    },
}

/// What a receiver got, for the eyes of a user.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Progress {
    /// Seconds since the epoch of the run.
    pub t: f64,
    /// Level granted.
    pub level: Level,
    /// Level asked for: less than the user wants after congestion, or while a red zone is answered.
    pub asked: Level,
    /// Why that is less, by the last decision that lowered it.
    #[serde(skip)]
    pub asks_less_because: Option<Cause>,
    /// What the division of the last link left over, as the last ADAPT says.
    pub left: CellRate,
    /// Media bits per second played in the last second.
    pub rate: Rate,
    /// Largest one-way delay of the last second.
    pub delay: Span,
    /// Octets of the longest datagram that came in the last second.
    #[serde(skip)]
    pub longest: usize,
    /// Mean parts of the delay of the live frames of the last second; `None` without live frames.
    pub end_to_end: Option<EndToEnd>,
    /// Highest layer played in the last second.
    pub highest: Option<Layer>,
    /// Frames played since the start.
    pub frames: PerLayer<u64>,
    /// Frames lost since the start.
    pub lost: PerLayer<u64>,
    /// Frames sent while the session channel was down, since the start; known once a frame behind them came.
    pub outage: PerLayer<u64>,
    /// Frames late since the start.
    pub late: PerLayer<u64>,
    /// Of these, frames that arrived while this host did not run the receiver.
    pub late_stopped: u64,
    /// What is known of the clock of the source, if it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_clock: Option<SourceClockReport>,
    /// Packets of the flow that came since the start, played or not.
    pub packets: u64,
    /// Packets among them with the congestion mark: a queue on the path was filling.
    pub marked: u64,
    /// Packets of the base layer that parities repaired since the start; `None` without parities.
    pub repaired: Option<u64>,
    /// The repair of lost datagrams on the link since the start, if there is any.
    pub link_repair: Option<LinkRepairStats>,
    /// Milliseconds without a picture that can be decoded, since the start.
    pub outage_ms: u64,
    /// That no packet of the flow comes, if that is so.
    pub silence: Option<Silence>,
    /// GOP starts since the start that came in part only, while the receiver waited for a whole one.
    pub cut_starts: CutStarts,
    /// By how much late frames came after their deadline, since the start.
    pub late_ms: Option<LateMs>,
    /// How long after their time live frames came to the source in the last seconds; 0 if they came in time.
    pub source_late_ms: Option<f64>,
    /// Milliseconds of media that the source delivers per second, as advertised, if it is slower than real time.
    pub media_ms_per_s: Option<u16>,
    /// Pictures that cannot be shown since packets were lost on the way to the source, as advertised, since it is served.
    pub input_damaged: u64,
    /// What the monitor of the receiver says of what was agreed; `None`: it has none, or nothing was agreed.
    pub quality: Option<Quality>,
    /// Frames that a slow reader of the output did not take, since the start.
    pub output_dropped: u64,
    /// Whether nothing can be written to the output any more.
    pub output_broken: bool,
}

/// What a receiver counted so far of what its summary has.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct JoinCounters {
    /// Counters of the sink.
    pub sink: SinkStats,
    /// Counters of the output.
    pub output: OutputStats,
    /// Counters of its socket, and of the socket of the group.
    pub udp: UdpStats,
    /// Datagrams of the upstream neighbour that do not decode.
    pub malformed: u64,
    /// Counters of its session channel.
    pub channels: ChannelStats,
    /// Connections to the upstream neighbour since the start.
    pub connected: u64,
    /// Lateness of its timers.
    pub timers: Lateness,
}

/// The counters of a receiver.
#[derive(Clone, Debug, Serialize)]
pub struct JoinSummary {
    /// The flow as received.
    pub receiver: ReceiverSummary,
    /// Counters of the sink.
    pub sink: SinkStats,
    /// Counters of the output.
    pub output: OutputStats,
    /// Counters of its socket, and of the socket of the group.
    pub udp: UdpStats,
    /// The repair of lost datagrams on the link, if there is any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_repair: Option<LinkRepairStats>,
    /// Datagrams of the upstream neighbour that do not decode.
    pub malformed: u64,
    /// Counters of its session channel.
    pub channels: ChannelStats,
    /// Connections to the upstream neighbour since the start.
    pub connected: u64,
    /// Lateness of its timers.
    pub timers: Lateness,
    /// Whether source and receiver share a clock, so that the delays are valid.
    pub synchronised: bool,
    /// Why receiving ended before the end of the flow, or did not begin; `None` if it did not (otherwise exit code 3, or 1 if nothing was received).
    pub missing: Option<String>,
    /// What was refused, by a node or by the profile of the receiver; then it did not join.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refusal>,
    /// Why the file of [`JoinConfig::explain`] is incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explain_error: Option<String>,
    /// The kind of that error, for a remedy.
    #[serde(skip)]
    pub explain_error_kind: Option<io::ErrorKind>,
}

impl NodeConfig {
    /// A node at `listen` with no neighbours to call, nothing known of callers and no sources.
    pub fn new(switch: SwitchConfig, listen: SocketAddr, default_port: PortConfig) -> NodeConfig {
        NodeConfig {
            switch,
            listen,
            identity: None,
            control: Control::default(),
            identities: BTreeMap::new(),
            upstreams: Vec::new(),
            connect: Connect::Retry,
            default_port,
            estimate_elsewhere: false,
            ports: BTreeMap::new(),
            schedules: BTreeMap::new(),
            schedules_from: None,
            groups: Vec::new(),
            sources: Vec::new(),
            host: HostEmulation::default(),
            repair: None,
            until_finished: false,
            max_connections: 256,
            wall_clock,
            commands: None,
        }
    }
}

impl JoinConfig {
    /// A host that receives from `upstream` what `sink` says, and throws it away.
    pub fn new(upstream: impl Into<Remote>, sink: SinkConfig, epoch: Time) -> JoinConfig {
        JoinConfig {
            upstream: upstream.into(),
            identity: None,
            sink,
            group: None,
            rate: None,
            link: LinkConfig::default(),
            repair: false,
            policy_of_flow: false,
            output: Output::Discard,
            undecodable: Undecodable::default(),
            fast_start: None,
            explain: None,
            leave_at: None,
            until_closed: true,
            start_within: None,
            stop_if_refused: true,
            must_receive: false,
            patience: None,
            epoch,
            link_name: String::new(),
            wall_clock,
            monitor: true,
            commands: None,
        }
    }
}
