use core::net::Ipv4Addr;

use layercast_tcp::TcpConfigError;
use layercast_workload::PopulationError;
use thiserror::Error;

/// Why an internetwork cannot be simulated.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum NetworkError {
    /// Two nodes have one name.
    #[error("two nodes are called {0:?}")]
    Name(String),
    /// Two nodes have one address.
    #[error("{first:?} and {second:?} both have the address {address}")]
    Address {
        /// The address.
        address: Ipv4Addr,
        /// The node that has it.
        first: String,
        /// The other node that has it.
        second: String,
    },
    /// A part refers to a node there is not.
    #[error("{part}: there is no node {index}")]
    NoNode {
        /// Such as `link 3`.
        part: String,
        /// What it says.
        index: u32,
    },
    /// A value that cannot be.
    #[error("{part}: {problem}")]
    Value {
        /// Such as `link 3`.
        part: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A host is attached to nothing, or to more than one link.
    #[error(
        "host {host:?} is attached to {count} links, LANs and adapters: a host has exactly one, a router may have more"
    )]
    Attachment {
        /// The host.
        host: String,
        /// How many it has.
        count: usize,
    },
    /// There is no way from one host to another.
    #[error("flow {flow:?}: there is no way from {from:?} to {to:?}")]
    NoWay {
        /// The flow.
        flow: String,
        /// The sender.
        from: String,
        /// The receiver.
        to: String,
    },
    /// There is no way between two METS nodes.
    #[error("peering: there is no way from {from:?} to {to:?}")]
    NoPeering {
        /// One end.
        from: String,
        /// The other.
        to: String,
    },
    /// A class queue where there can be none.
    #[error(
        "peering of {from:?} and {to:?}: a class queue needs a link between them, without RED or a discipline and with an MTU of {least} bytes or more",
        least = LEAST_MTU
    )]
    NoClass {
        /// One end.
        from: String,
        /// The other.
        to: String,
    },
    /// The table of routes would be too large.
    #[error(
        "{count} routers are on rings or between them, and {most} are the most: branches of a tree may have any number"
    )]
    Rings {
        /// Those that are.
        count: usize,
        /// Those that may be.
        most: usize,
    },
    /// A shared medium, or a backbone, on which too many have too many neighbours.
    #[error("{part}: {neighbours} pairs of routers and stations are more than {most}")]
    Crowded {
        /// Such as `LAN "office"`.
        part: String,
        /// Its routers times its stations.
        neighbours: u64,
        /// The most of all together.
        most: u64,
    },
    /// A TCP configuration that cannot be.
    #[error("host {host:?}: {error}")]
    Tcp {
        /// The host.
        host: String,
        /// What is wrong.
        error: TcpConfigError,
    },
    /// The workload does not fit the hosts.
    #[error("workload: {0}")]
    Population(#[from] PopulationError),
}

/// The least MTU of IP (RFC 791 3.2).
const MIN_MTU: u32 = 68;
/// The least MTU of a link with a class queue: a METS packet that is cut would lose its class.
pub(super) const LEAST_MTU: u32 = 1_500;
/// The largest IP packet.
pub(super) const MAX_MTU: u32 = 65_535;

impl NetworkError {
    /// Refuses an MTU that IP cannot have.
    pub(super) fn check_mtu(part: &str, mtu: u32) -> Result<(), NetworkError> {
        match (MIN_MTU..=MAX_MTU).contains(&mtu) {
            true => Ok(()),
            false => Err(NetworkError::Value {
                part: part.to_owned(),
                problem: "mtu must be from 68 to 65535 bytes".to_owned(),
            }),
        }
    }
}
