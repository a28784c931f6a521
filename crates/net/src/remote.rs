use std::net::SocketAddr;

use crate::tls::Trust;

/// A node to call.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Where it is called: a TCP port, or the UDP port of QUIC for a protected link.
    pub addr: SocketAddr,
    /// How to know on a protected link that it is the right one; `None`: a link in the clear.
    pub trust: Option<Trust>,
}

impl Remote {
    /// The node at `addr`, over a protected link.
    pub fn protected(addr: SocketAddr, trust: Trust) -> Remote {
        Remote {
            addr,
            trust: Some(trust),
        }
    }
}

/// A node that is called in the clear.
impl From<SocketAddr> for Remote {
    fn from(addr: SocketAddr) -> Remote {
        Remote { addr, trust: None }
    }
}
