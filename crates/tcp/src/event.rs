use core::net::{Ipv4Addr, SocketAddrV4};

use layercast_core::Span;
use layercast_wire::TcpSegment;
use thiserror::Error;

use super::control::INFINITE;
use super::{Ecn, State};

/// A TCP segment with the addresses of its IP header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TcpPacket {
    /// Where it comes from.
    pub src: Ipv4Addr,
    /// Where it goes to.
    pub dst: Ipv4Addr,
    /// Whether routers may mark it, and whether one did.
    pub ecn: Ecn,
    /// The segment.
    pub segment: TcpSegment,
}

/// Names a connection of an endpoint; never used again after it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl ConnId {
    /// A small number that no other open connection of the endpoint has; after it closed, the next may.
    pub fn index(self) -> usize {
        self.slot as usize
    }
}

/// Why a connection failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Error)]
pub enum Failure {
    /// No socket listens there.
    #[error("connection refused")]
    Refused,
    /// The peer broke it off.
    #[error("connection reset by peer")]
    Reset,
    /// The peer did not answer for too long.
    #[error("connection timed out")]
    TimedOut,
    /// Data arrived after [`close`](super::Endpoint::close) and could not be delivered.
    #[error("peer sent data after the connection was closed here")]
    Unread,
}

/// Why a call was refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Error)]
pub enum TcpError {
    /// No such connection, or it is over.
    #[error("no such connection")]
    Unknown,
    /// Writing after [`shutdown`](super::Endpoint::shutdown).
    #[error("the connection is shut for writing")]
    Shut,
    /// The port is taken.
    #[error("port {0} is in use")]
    PortInUse(u16),
    /// All ephemeral ports towards this peer are taken.
    #[error("no free port towards {0}")]
    NoPort(SocketAddrV4),
    /// The host has as many connections as it may have.
    #[error("too many connections: the host has its {0}")]
    Full(usize),
    /// Port 0, or an address that no host can have.
    #[error("{0} is no address of a connection")]
    Address(SocketAddrV4),
}

/// An event for the user of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpEvent {
    /// Our connection is established.
    Connected(ConnId),
    /// A connection waits for [`accept`](super::Endpoint::accept) on this port.
    Incoming(u16),
    /// There is something to read, and was nothing.
    Readable(ConnId),
    /// There is room to write again, after a write that did not fit.
    Writable(ConnId),
    /// The peer closed: what can be read now is all there will be.
    PeerClosed(ConnId),
    /// Both sides closed and all data arrived; a connection not yet closed here can be read on.
    Closed(ConnId),
    /// The connection is no more; what was not read or acknowledged is lost.
    Failed(ConnId, Failure),
}

/// What an endpoint counts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TcpStats {
    /// Segments that came in.
    pub received: u64,
    /// Segments that went out.
    pub sent: u64,
    /// Of these, segments with data or marks that were sent before.
    pub retransmitted: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Of these, time-outs that F-RTO found to be spurious (RFC 5682).
    pub spurious_timeouts: u64,
    /// Fast retransmits.
    pub fast_retransmits: u64,
    /// Reductions of a window for marks (ECN).
    pub ecn_reductions: u64,
    /// Connections we opened.
    pub active_opens: u64,
    /// Connections others opened.
    pub passive_opens: u64,
    /// SYNs dropped because the backlog or the host was full.
    pub refused_syns: u64,
    /// Resets sent for segments that belong to nothing.
    pub stray: u64,
}

/// What a connection did so far, in segments.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TcpCounts {
    /// That were sent, retransmissions included.
    pub sent: u64,
    /// Bytes of data in them.
    pub bytes_sent: u64,
    /// That came.
    pub received: u64,
    /// That were sent again.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Fast retransmits.
    pub fast_retransmits: u64,
    /// Reductions of the window for marks (ECN).
    pub ecn_reductions: u64,
}

/// A snapshot of a connection.
#[derive(Clone, PartialEq, Debug)]
pub struct TcpInfo {
    /// State.
    pub state: State,
    /// Our end.
    pub local: SocketAddrV4,
    /// The other end.
    pub remote: SocketAddrV4,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes.
    pub ssthresh: u64,
    /// Bytes sent and not acknowledged.
    pub flight: u64,
    /// Bytes of data acknowledged so far, all that came before them too.
    pub acknowledged: u64,
    /// Window the peer offers, bytes.
    pub peer_window: u64,
    /// Bytes of a full segment.
    pub mss: u16,
    /// Smoothed round trip; zero without a sample.
    pub srtt: Span,
    /// Retransmission time-out.
    pub rto: Span,
    /// Bytes written and not sent.
    pub unsent: u64,
    /// Bytes received and not read.
    pub unread: u64,
    /// Whether segments carry timestamps.
    pub timestamps: bool,
    /// Whether both sides use SACK.
    pub sack: bool,
    /// Whether both sides use ECN.
    pub ecn: bool,
    /// Bytes of memory, without the data held.
    pub memory: usize,
}

impl TcpInfo {
    /// The slow-start threshold, if one was ever set.
    pub fn known_ssthresh(&self) -> Option<u64> {
        (self.ssthresh < INFINITE).then_some(self.ssthresh)
    }
}
