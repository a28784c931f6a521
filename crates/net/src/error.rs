use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::path::PathBuf;

use layercast_core::Span;
use layercast_core::quantity::Quantity;
use layercast_mets::SourceError;
use layercast_wire::Refusal;
use thiserror::Error;

use crate::identity::IdentityError;
use crate::multicast::{InputFault, printable};
use crate::names::{NameError, check_name};

/// Why a node could not start, or had to stop; one clear line each, with what to do about it.
#[derive(Debug, Error)]
pub enum NetError {
    /// Somebody else listens there.
    #[error("{addr} is in use: stop the other program, or choose another port")]
    PortInUse {
        /// The address we wanted.
        addr: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {addr}: {source}{}", remedy(source))]
    Bind {
        /// The address we wanted.
        addr: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// A node is to take flows from itself.
    #[error("the upstream {upstream} is this node itself, which listens on {listen}")]
    OwnUpstream {
        /// The upstream neighbour.
        upstream: SocketAddr,
        /// Where the node listens.
        listen: SocketAddr,
    },
    /// A protected node is to take calls over what protects nothing.
    #[error("XTP encrypts nothing: a node with an identity takes its calls over QUIC")]
    NotProtected,
    /// No answer from upstream.
    #[error("cannot reach {addr}: {reason}; is a layercast node listening there?")]
    Unreachable {
        /// The called address.
        addr: SocketAddr,
        /// What came of it.
        reason: String,
        /// Whether a later call may succeed, as when the node is about to start.
        may_pass: bool,
    },
    /// Somebody answers, but not the node that was called.
    #[error(
        "{addr} is not the node it should be: {reason}; was the join URL printed by that node?"
    )]
    Untrusted {
        /// The called address.
        addr: SocketAddr,
        /// What is wrong with its certificate.
        reason: String,
    },
    /// The node answers and does not want us.
    #[error("{addr} turned us away: {message}")]
    TurnedAway {
        /// The called address.
        addr: SocketAddr,
        /// What it says.
        message: String,
    },
    /// Another neighbour of the node has our name.
    #[error("{node} at {addr} has another neighbour with the name {name}")]
    NameInUse {
        /// The called address.
        addr: SocketAddr,
        /// Its name.
        node: String,
        /// The name wanted.
        name: String,
    },
    /// Another receiver has joined with our name and our identity, and has our place now.
    #[error(
        "another receiver with the identity of {name} has joined {node} at {addr}, and this one is out"
    )]
    Replaced {
        /// The called address.
        addr: SocketAddr,
        /// Its name.
        node: String,
        /// The name of both.
        name: String,
    },
    /// A name that no neighbour would take.
    #[error("the name of {of} cannot be used: {error}")]
    Name {
        /// Such as `the flow`.
        of: &'static str,
        /// The limit that it exceeds.
        error: NameError,
    },
    /// There is no certificate to show to neighbours.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The flow does not exist there.
    #[error("{upstream} has no flow {flow:?}; it has: {known}")]
    NoSuchFlow {
        /// The node asked.
        upstream: SocketAddr,
        /// The flow wanted.
        flow: String,
        /// The flows it has, or "none".
        known: String,
    },
    /// The time to receive is over, and nothing was played.
    #[error("nothing was received from {upstream}: {why}")]
    Nothing {
        /// The node asked.
        upstream: SocketAddr,
        /// Why, and what to do about it.
        why: String,
    },
    /// A flow of that name or number starts here already.
    #[error("flow {flow:?} is open already: close it first, or choose another name")]
    FlowExists {
        /// Its name.
        flow: String,
    },
    /// A node on the path refused the join.
    #[error("join refused by {0}")]
    Refused(Refusal),
    /// The neighbour answered, but not what was asked for.
    #[error("{addr} answered with an error: {message}")]
    Answer {
        /// The node asked.
        addr: SocketAddr,
        /// What it says.
        message: String,
    },
    /// The media go to a multicast group at which the receiver does not listen.
    #[error("{node} sends the media of {name} to {group}: join with --multicast {group}")]
    OtherGroup {
        /// The node upstream.
        node: String,
        /// The receiver.
        name: String,
        /// Where its media go.
        group: SocketAddrV4,
    },
    /// A multicast group cannot be used.
    #[error("cannot use the multicast group {group}: {source}")]
    Group {
        /// The group.
        group: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The host has no route to any destination.
    #[error("cannot send to {to}: {source}")]
    NoRoute {
        /// The first destination.
        to: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// A live input is silent.
    #[error(
        "nothing arrives at {from} for {}: does the encoder send there?",
        waited.write()
    )]
    Silent {
        /// Where it should come in.
        from: String,
        /// How long it was waited for.
        waited: Span,
    },
    /// The live input is no stream that can be served.
    #[error("the input at {from} cannot be served: {problem}")]
    Unusable {
        /// Where it comes in.
        from: String,
        /// What is wrong, and what to do about it.
        problem: String,
    },
    /// A source cannot run as configured.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A path cannot be emulated as configured.
    #[error("impossible path: {0}")]
    Path(#[from] layercast_link::ConfigError),
    /// Files cannot be sent as configured.
    #[error("impossible to send like this: {0}")]
    Multicast(#[from] layercast_multicast::ConfigError),
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Files or folders cannot be sent; nothing was.
    #[error("{}", list(.0))]
    Inputs(Vec<InputFault>),
    /// The output file cannot be created.
    #[error("cannot write {}: {source}", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The system refuses something every node needs (timers, sockets).
    #[error("{what}: {source}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

/// Why a call came to nothing.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum CallError {
    /// No node answers, as when a packet of the call is lost or the node is about to start: the next call may succeed.
    #[error("{0}")]
    NoAnswer(String),
    /// The system refuses the call, or the host answers in another protocol.
    #[error("{0}")]
    Unreachable(String),
    /// The peer that answers is not trusted.
    #[error("not trusted: {0}")]
    Untrusted(String),
    /// The node answers and does not want us.
    #[error("turned away: {0}")]
    TurnedAway(String),
    /// Another neighbour of the node has our name.
    #[error(
        "{node} has another neighbour with the name {name}; a name is free at most 3 s after its owner has gone, \
         else choose another --name"
    )]
    NameInUse {
        /// Name of the node.
        node: String,
        /// The name wanted.
        name: String,
    },
}

/// What to do when an address cannot be listened on.
fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need root or CAP_NET_BIND_SERVICE: choose a port from 1024 on"
        }
        io::ErrorKind::AddrNotAvailable => {
            "; no interface of this host has this address: use one that `ip address` shows, 0.0.0.0 or [::]"
        }
        _ => "",
    }
}

impl CallError {
    /// No node answered `within` the time. A node in the clear does not answer a `protected` call.
    pub(crate) fn silent(within: &str, protected: bool) -> CallError {
        let why = match protected {
            true => " (a node that runs --insecure answers only layercast://)",
            false => "",
        };
        CallError::NoAnswer(format!("no answer within {within}{why}"))
    }

    /// The error for a person; `known` if the node was connected before.
    pub(crate) fn in_words(&self, known: bool) -> String {
        match self {
            CallError::Untrusted(_) if known => format!(
                "{self}: the node was started again with a new certificate, so its URL has changed; start it with \
                 --identity FILE, and its URL stays the same"
            ),
            _ => self.to_string(),
        }
    }
}

impl NetError {
    pub(crate) fn call(addr: SocketAddr, error: CallError) -> NetError {
        match error {
            CallError::NoAnswer(reason) => NetError::Unreachable {
                addr,
                reason,
                may_pass: true,
            },
            CallError::Unreachable(reason) => NetError::Unreachable {
                addr,
                reason,
                may_pass: false,
            },
            CallError::Untrusted(reason) => NetError::Untrusted { addr, reason },
            CallError::TurnedAway(message) => NetError::TurnedAway { addr, message },
            CallError::NameInUse { node, name } => NetError::NameInUse { addr, node, name },
        }
    }

    /// The error of listening on `addr`.
    pub fn bind(addr: SocketAddr, source: io::Error) -> NetError {
        match source.kind() {
            io::ErrorKind::AddrInUse => NetError::PortInUse { addr },
            _ => NetError::Bind { addr, source },
        }
    }

    /// Checks the name of something, such as `the flow`.
    pub(crate) fn check_name(of: &'static str, name: &str) -> Result<(), NetError> {
        check_name(name).map_err(|error| NetError::Name { of, error })
    }

    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> NetError {
        move |source| NetError::System { what, source }
    }
}

/// Faults that are printed; the others are counted.
const PRINTED: usize = 20;

fn list(faults: &[InputFault]) -> String {
    let mut lines = faults
        .iter()
        .take(PRINTED)
        // A path may have any octets: what a terminal would obey is escaped.
        .map(|it| format!("cannot send {}: {}", printable(&it.path), it.why))
        .collect::<Vec<String>>();
    if let more @ 1.. = faults.len().saturating_sub(PRINTED) {
        lines.push(format!("and {more} more"));
    }
    lines.push("nothing was sent".into());
    lines.join("\n")
}
