//! The socket runtime: drives the machines of `layercast-mets` over UDP and a reliable session channel, in real time.
//!
//! There is no protocol here. A node is one loop: timers that are due, signals of neighbours,
//! datagrams; each goes into a machine, and what the machine has comes out again, batch by batch.
//!
//! | | |
//! |---|---|
//! | [`run_node`] | a switch, a host with sources, or both |
//! | [`run_join`] | a host that receives one flow |
//! | [`send_files`], [`FileReceiver`] | files to many receivers, by multicast or from host to host |
//! | [`XtpNode`] | XTP on a UDP socket, or over IP itself |
//! | [`XtpHost`] | the same for many tasks, with a socket of its own or by a daemon |
//! | [`XtpDaemon`] | the same for many processes |
//! | [`PartialOrderSender`], [`PartialOrderReceiver`] | flows with an order and tolerated loss, over UDP or QUIC datagrams |
//! | [`PathSender`], [`PathReceiver`], [`RtpPath`] | the synchronicity index of a path |
//! | [`Relay`] | an impaired path for the datagrams of any program |
//! | [`Beside`] | a video beside bulk transfers in one process, by the order of processing |
//! | [`FecTunnel`] | one end of a tunnel of parities, for the datagrams of any program |
//! | [`list_flows`], [`get_stats`] | questions to any node |
//!
//! Run each within a tokio runtime of one thread; several in one process are fine.

mod beside;
mod channel;
mod classed;
mod clock;
mod clocks;
mod command;
mod config;
mod connection;
mod egress;
mod error;
mod event_loop;
mod explained;
mod file_out;
mod frames;
mod hello;
mod host;
mod identity;
mod intake;
mod join;
mod live;
mod local;
mod loss;
mod machines;
mod monitors;
mod multicast;
mod names;
mod node;
mod not_run;
mod outbox;
mod output;
mod outward;
mod overall;
mod partial_order;
mod parts;
mod peer;
mod places;
mod ports;
mod protection;
mod pulse;
mod query;
mod quic;
mod random;
mod rates;
mod receiver;
mod relay;
mod remote;
mod secret_file;
mod sources;
mod stamped;
mod sync_index;
mod taken;
mod tcp;
mod timer;
mod tls;
mod tunnel;
mod udp;
mod writing;
mod xtp;

pub use beside::{Beside, BesideReport, Order};
pub use channel::{
    BytesIn, BytesOut, ChannelError, LineReceiver, LineSender, SignalChannel, SignalReceiver,
    SignalSender,
};
pub use classed::ClassedUdp;
pub use clock::{Clock, clock_name, flow_epoch, monotonic_ns, wall_clock};
pub use command::{FlowState, JoinCommand, NodeCommand};
pub use config::{
    Connect, GroupPort, JoinConfig, JoinCounters, JoinEvent, JoinSummary, LocalSource, Neighbour,
    NodeConfig, NodeEvent, NodeSummary, Progress,
};
pub use error::{CallError, NetError};
pub use file_out::{check_output, lock_output, open_fifo};
pub use frames::{Frames, LiveFrame};
pub use hello::{Hello, SESSION_VERSION};
pub use host::{EmulatedStats, HostEmulation};
pub use identity::{Exposed, Identity, IdentityError};
pub use join::{JoinFailure, is_source_late, run_join};
pub use layercast_link::LinkRepairStats;
pub use layercast_mets::ControlError;
pub use layercast_monitor::{Producer, Signal as ZoneSignal};
pub use layercast_protect::{Control, Fingerprint, FingerprintError};
pub use layercast_repair::{LayerRepairs, Means, RepairStats, RequestStats};
pub use live::{
    Estimated, Growth, LOAD_WINDOW, Learned, LiveEvent, LiveFlow, LiveFrom, LiveInput, LiveOptions,
};
pub use loss::Loss;
pub use machines::media_rate;
pub use monitors::{Measured, Monitors, Watch};
pub use multicast::{
    Destination, EmulateConfig, Emulated, Emulation, Ended, FileName, FileReceiver, Folder,
    IDENTITY_FILE, InputFault, RECEIVE_BUFFER, ReceiveConfig, ReceiveEvent, ReceivedFile,
    ReceiverReport, Reception, SendConfig, SendEvent, SendPlan, SendProgress, SendReport, SentFile,
    TreeOptions, WithheldFile, emulate_receivers, printable, receiver_identity, send_files,
    send_plan,
};
pub use names::{NameError, check_name, member_of};
pub use node::{Node, run_node};
pub use output::{Output, OutputStats, StreamOut, form_of};
pub use outward::outward;
pub use overall::{Overall, OverallDirection};
pub use partial_order::{
    IgnoredDatagrams, PartialOrderError, PartialOrderQueries, PartialOrderReceiver,
    PartialOrderSender,
};
pub use places::{MAX_PER_CERTIFICATE, NoPlace, Place, Places};
pub use protection::{sink_protection, source_protection};
pub use query::{NodeStats, await_flows, get_node_stats, get_stats, list_flows};
pub use quic::{QuicChannel, QuicIn};
pub use random::{random_number, random_seed};
pub use relay::{Relay, RelayConfig, RelayStats};
pub use remote::{Bearer, Remote, Renewal, Renewed};
pub use secret_file::{MAX_SECRET_FILE, SecretFile, create_secret, read_secret};
pub use stamped::COARSE;
pub use sync_index::{PathError, PathReceiver, PathSender, RtpPath};
pub use tcp::TcpChannel;
pub use timer::Lateness;
pub use tls::{Authorities, Trust};
pub use tokio_util::sync::{CancellationToken, DropGuard};
pub use tunnel::{FecTunnel, FecTunnelConfig, FecTunnelError, FecTunnelStats};

pub use layercast_wire::{ChannelStats, UdpStats};
pub use xtp::{
    XtpAssociation, XtpCallError, XtpChannel, XtpDaemon, XtpDaemonError, XtpDaemonEvent, XtpHalf,
    XtpHost, XtpListener, XtpNode, XtpPlace, XtpPlaceError, XtpRegistered,
};
