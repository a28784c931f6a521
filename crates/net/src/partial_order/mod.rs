//! Drives partial order connections over UDP sockets and QUIC datagrams.

mod carrier;
mod receiver;
mod sender;

use std::io;
use std::net::SocketAddr;

use layercast_partial_order::pdu::Reject;
use layercast_partial_order::{ConfigError, SubmitError};
use serde::Serialize;
use thiserror::Error;

pub use receiver::{PartialOrderQueries, PartialOrderReceiver};
pub use sender::PartialOrderSender;

use crate::error::CallError;

/// Commands and events that wait between a connection and its user.
const QUEUE: usize = 64;
/// Largest PDU in a QUIC datagram, bytes: fits the smallest path of QUIC, 1,200 octets (RFC 9000, section 14).
const QUIC_PDU: usize = 1_120;

/// Why a partial order connection cannot be used.
#[derive(Debug, Error)]
pub enum PartialOrderError {
    /// The system refuses the socket.
    #[error("the socket of {0} cannot be used: {1}")]
    Socket(SocketAddr, io::Error),
    /// The QUIC connection does not come about.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The SDU is refused, and would be refused later, too.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The connection has no such flow.
    #[error("the connection has {flows} flows, there is no flow {flow}")]
    NoFlow {
        /// The flow, from 0.
        flow: usize,
        /// Number of flows.
        flows: usize,
    },
    /// The receiver refuses the connection, or gave it up.
    #[error(transparent)]
    Rejected(#[from] Reject),
    /// The receiver does not answer.
    #[error("the receiver does not answer; check its address, and whether it runs")]
    PeerDead,
    /// The connection is closed.
    #[error("the connection is closed")]
    Closed,
}

/// Datagrams that changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct IgnoredDatagrams {
    /// Malformed, of another connection, or contradicting the state of this one.
    pub bad_pdu: u64,
    /// From another address than that of the peer.
    pub strangers: u64,
}
