//! What a context is made of, and what it has to tell.

use core::net::SocketAddr;

use layercast_core::{Serial, Time};
use layercast_wire::{XtpDiagCode, XtpDiagValue, XtpKey};

use super::multicast::Part;
use crate::{XtpFailure, XtpSocket};

/// A status that was asked for and not answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) sync: Serial,
    pub(super) at: Time,
    /// What had been sent by then.
    pub(super) sent: u64,
}

/// The synchronizing handshake (specs/xtp.md 2.11): until it is answered no data are sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handshake {
    /// Any echo from here on answers it.
    pub(super) first: Serial,
    pub(super) tries: u32,
    /// When the next try is due.
    pub(super) deadline: Time,
}

/// A delivery that the peer is to tell of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    pub(super) at: u64,
    pub(super) sync: Serial,
    /// Status has been requested since, so its answer cannot be distinguished from that of the delivery.
    pub(super) blurred: bool,
}

/// What is due to be sent.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Due {
    /// FIRST, once more or for the first time.
    pub(super) first: bool,
    pub(super) answer: bool,
    /// A gap is to be reported immediately, if it is still there.
    pub(super) nak: bool,
    /// FIRST is to invite receivers once more.
    pub(super) invite: bool,
    /// The answer, or a question, is to tell the traffic.
    pub(super) traffic: bool,
    /// The question about the traffic wants an answer.
    pub(super) traffic_asks: bool,
    pub(super) probe: bool,
    /// Data lost for good are to be announced.
    pub(super) skip: bool,
    /// The end of the stream is to be announced.
    pub(super) close: bool,
    /// A delivery is to be asked for again.
    pub(super) delivery: bool,
    pub(super) diag: Option<(XtpDiagCode, XtpDiagValue)>,
}

/// An event for the endpoint, together with the user's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum News {
    Connected,
    Delivered(u64),
    PeerClosed,
    ReaderGone(u64),
    Traffic,
    TrafficRefused,
    Closed,
    Failed(XtpFailure),
    Joined(u64),
    ReceiverJoined(SocketAddr),
    ReceiverDone(SocketAddr),
    ReceiverLost(SocketAddr, u64),
    NoReceivers,
}

/// What happened that an endpoint counts.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Tally {
    pub(crate) retransmitted: u64,
    pub(crate) handshakes: u64,
    pub(crate) beyond: u64,
    pub(crate) duplicates: u64,
    pub(crate) violations: u64,
    pub(crate) unsupported: u64,
    pub(crate) stray_diags: u64,
    pub(crate) lost_receivers: u64,
}

/// The identity of a context.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    pub(crate) part: Part,
    pub(crate) local: XtpSocket,
    pub(crate) remote: XtpSocket,
    pub(crate) own: XtpKey,
    /// The key of the initiator, if that is not us.
    pub(crate) theirs: Option<XtpKey>,
    /// Synchronizing values follow this one, below 2^30: that of a responder is a secret, whose echo proves that
    /// the initiator is where it says.
    pub(crate) sync: Serial,
}
