use core::net::SocketAddr;

use layercast_core::Span;
use layercast_wire::{Payload, XtpDiagCode, XtpDiagValue, XtpPacket, XtpTrafficSpec};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{XtpConfigError, XtpRate};

/// An XTP packet with the addresses of what carries it; their ports are 0 where that is IP itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct XtpDatagram {
    /// Where it comes from.
    pub src: SocketAddr,
    /// Where it goes to.
    pub dst: SocketAddr,
    /// The packet.
    pub packet: XtpPacket,
}

/// One end of an association: the address of what carries it, and the port of XTP's own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct XtpSocket {
    /// Host; its port is that of the UDP below, or 0.
    pub net: SocketAddr,
    /// Port of XTP.
    pub port: u16,
}

/// Names a context of an endpoint; never used again after it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ContextId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl ContextId {
    /// Its place among the contexts of its host: no two have one at a time.
    pub const fn slot(self) -> u32 {
        self.slot
    }

    /// A name for a context that somebody else keeps, as [`remote`](super::remote) does.
    pub const fn from_number(number: u64) -> ContextId {
        ContextId {
            slot: number as u32,
            generation: (number >> 32) as u32,
        }
    }
}

/// How a message is to be sent; what is not said is as the context is configured.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct SendOptions {
    /// EOM: the last byte ends a message.
    pub end_of_message: bool,
    /// BTAG: eight bytes before the data.
    pub tag: Option<[u8; 8]>,
    /// NOERR: if it is lost, it stays lost.
    pub no_error_control: bool,
    /// NOCHECK: the data are not protected.
    pub no_checksum: bool,
    /// DREQ: tell when the peer's user has taken it all.
    pub tell_delivery: bool,
    /// SORT: less is sent before more, and both before what has no priority.
    pub priority: Option<u16>,
}

impl SendOptions {
    /// The end of a message.
    pub const MESSAGE: SendOptions = SendOptions {
        end_of_message: true,
        tag: None,
        no_error_control: false,
        no_checksum: false,
        tell_delivery: false,
        priority: None,
    };
}

/// What was received: never more than one message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// The data.
    pub data: Payload,
    /// The tag before them.
    pub tag: Option<[u8; 8]>,
    /// Whether the last byte ends a message.
    pub end_of_message: bool,
    /// Whether something before it was lost for good.
    pub gap: bool,
}

impl Chunk {
    /// Bytes that it took up in the window: the data, and eight of a tag.
    pub fn size(&self) -> u64 {
        self.data.len() as u64 + self.tag.map_or(0, |tag| tag.len() as u64)
    }
}

/// Why a context failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Error, Serialize, Deserialize)]
pub enum XtpFailure {
    /// The peer does not want the association.
    #[error("association refused: {0}")]
    Refused(XtpDiagValue),
    /// The peer released it before both sides were done.
    #[error("association abandoned by the peer")]
    Abandoned,
    /// The peer knows nothing of it, or says so.
    #[error("the peer says: {0}, {1}")]
    Diagnosed(XtpDiagCode, XtpDiagValue),
    /// The peer did not answer for too long.
    #[error("the peer does not answer")]
    TimedOut,
    /// The peer claims what cannot be.
    #[error("the peer violates the protocol")]
    Violated,
}

/// Why a call was refused.
#[derive(Clone, PartialEq, Eq, Debug, Error, Serialize, Deserialize)]
pub enum XtpError {
    /// No such context, or it is over.
    #[error("no such context")]
    Unknown,
    /// The writer is closed, here or because the peer reads no more.
    #[error("the context is closed for writing")]
    Shut,
    /// The port is taken.
    #[error("port {0} is in use")]
    PortInUse(u16),
    /// The endpoint has as many contexts as it may have.
    #[error("too many contexts: the endpoint has its {0}")]
    Full(usize),
    /// A server for several users limits the buffers of each to this number of bytes.
    #[error("buffers beyond the {0} bytes that a user may have")]
    Buffers(u64),
    /// An address that no host can have.
    #[error("{0} is no address of a context, or none for this service")]
    Address(SocketAddr),
    /// A message without a byte has no place in the stream.
    #[error("a message needs a byte or a tag")]
    Empty,
    /// Sequence numbers end at 2^63.
    #[error("the stream has no more sequence numbers")]
    Exhausted,
    /// A configuration that cannot work.
    #[error(transparent)]
    Config(#[from] XtpConfigError),
}

/// An event for the user of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XtpEvent {
    /// The peer of our association has answered.
    Connected(ContextId),
    /// An association waits for [`accept`](super::Endpoint::accept) on this port.
    Incoming(u16),
    /// There is something to receive, and was nothing.
    Readable(ContextId),
    /// There is room to send again, after data that did not fit.
    Writable(ContextId),
    /// The peer's user has taken what was sent with [`SendOptions::tell_delivery`], up to this byte.
    Delivered(ContextId, u64),
    /// Everything sent so far has left, and the peer has answered the last question:
    /// [`Endpoint::tell_settled`](super::Endpoint::tell_settled) asked for it.
    Settled(ContextId),
    /// The peer writes no more: what can be received now is all there will be.
    PeerClosed(ContextId),
    /// The peer reads no more; this number of bytes was not read.
    ReaderGone(ContextId, u64),
    /// The peer said what it can take; [`Endpoint::traffic`](super::Endpoint::traffic) tells.
    Traffic(ContextId),
    /// The peer refused what we proposed with [`set_traffic`](super::Endpoint::set_traffic).
    TrafficRefused(ContextId),
    /// Both directions are closed; everything that was to arrive has arrived.
    Closed(ContextId),
    /// The association broke off; what was not acknowledged may be lost.
    Failed(ContextId, XtpFailure),
    /// The transmitter of a multicast association has let us in: we get everything from this byte on.
    Joined(ContextId, u64),
    /// A receiver of our multicast association counts from now on.
    ReceiverJoined(ContextId, SocketAddr),
    /// A receiver has everything, and is gone.
    ReceiverDone(ContextId, SocketAddr),
    /// A receiver is gone without everything: it left, or did not answer, and had everything before this byte.
    ReceiverLost(ContextId, SocketAddr, u64),
    /// No receiver is left: a reliable transmitter waits.
    NoReceivers(ContextId),
}

impl XtpEvent {
    /// The context it is about; none of an association that waits to be accepted.
    pub fn context(&self) -> Option<ContextId> {
        match *self {
            XtpEvent::Incoming(_) => None,
            XtpEvent::Connected(id)
            | XtpEvent::Readable(id)
            | XtpEvent::Writable(id)
            | XtpEvent::Delivered(id, _)
            | XtpEvent::Settled(id)
            | XtpEvent::PeerClosed(id)
            | XtpEvent::ReaderGone(id, _)
            | XtpEvent::Traffic(id)
            | XtpEvent::TrafficRefused(id)
            | XtpEvent::Closed(id)
            | XtpEvent::Failed(id, _)
            | XtpEvent::Joined(id, _)
            | XtpEvent::ReceiverJoined(id, _)
            | XtpEvent::ReceiverDone(id, _)
            | XtpEvent::ReceiverLost(id, ..)
            | XtpEvent::NoReceivers(id) => Some(id),
        }
    }
}

/// What an endpoint counts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct XtpStats {
    /// Packets received.
    pub received: u64,
    /// Packets sent.
    pub sent: u64,
    /// Data packets sent again.
    pub retransmitted: u64,
    /// Synchronizing handshakes started.
    pub handshakes: u64,
    /// Associations opened by this endpoint.
    pub active_opens: u64,
    /// Associations opened by other endpoints.
    pub passive_opens: u64,
    /// FIRST packets refused: no listener, limit reached, or not understood.
    pub refused: u64,
    /// Packets for unknown contexts.
    pub stray: u64,
    /// DIAG packets for an unknown context, or without meaning in its state.
    pub stray_diags: u64,
    /// DIAG packets not sent because of the rate limit for their destination.
    pub muted_diags: u64,
    /// Data beyond the allocation, or without room in the buffer.
    pub beyond: u64,
    /// Data received before.
    pub duplicates: u64,
    /// Impossible status, data or keys.
    pub violations: u64,
    /// Packets with a wrong checksum.
    pub damaged: u64,
    /// Packets that do not decode for other reasons.
    pub malformed: u64,
    /// Packets of unsupported types: JOIN, and multicast without a group.
    pub unsupported: u64,
    /// Receivers that requested admission to a multicast association.
    pub admitted: u64,
    /// Receivers that were dropped or gave up.
    pub lost_receivers: u64,
    /// Packets that this host dropped before it processed them, because those of their context took up its share of the buffers.
    pub crowded_out: u64,
}

/// What a context did so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct XtpCounts {
    /// Packets sent, of all kinds.
    pub sent: u64,
    /// Packets received.
    pub received: u64,
    /// Packets with data that were sent before.
    pub retransmitted: u64,
    /// User bytes in them.
    pub bytes_again: u64,
    /// Synchronizing handshakes begun.
    pub handshakes: u64,
    /// User bytes sent, once each; tags count.
    pub bytes_sent: u64,
    /// Of these, what the peer has, or does not want again.
    pub bytes_acked: u64,
    /// User bytes received in order.
    pub bytes_received: u64,
    /// Packets that this host dropped before it processed them, because the context took up its share of the buffers.
    pub crowded_out: u64,
}

/// A snapshot of a context.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct XtpInfo {
    /// Whether it is over.
    pub inactive: bool,
    /// Our end.
    pub local: XtpSocket,
    /// The other end.
    pub remote: XtpSocket,
    /// What was done.
    pub counts: XtpCounts,
    /// Bytes written and not sent.
    pub unsent: u64,
    /// Bytes sent and owed.
    pub flight: u64,
    /// Bytes received and not taken.
    pub unread: u64,
    /// Where the peer lets us send to.
    pub alloc: u64,
    /// Smoothed round trip; zero without a sample.
    pub srtt: Span,
    /// How long an answer is waited for.
    pub wait: Span,
    /// Most user bytes of a packet.
    pub max_data: u32,
    /// The rate in force.
    pub limit: XtpRate,
    /// What the peer said about traffic last.
    pub peer_traffic: XtpTrafficSpec,
    /// Receivers of a multicast association that count.
    pub receivers: usize,
    /// Bytes of memory, without the data held.
    pub memory: usize,
}
