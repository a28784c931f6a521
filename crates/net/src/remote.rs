use std::net::SocketAddr;

use layercast_protect::Control;

use crate::tls::Trust;

/// A node to call.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Where it is called: a TCP port, or the UDP port of QUIC or XTP.
    pub addr: SocketAddr,
    /// What carries the session channel to it.
    pub bearer: Bearer,
}

/// What carries a session channel.
#[derive(Clone, Debug)]
pub enum Bearer {
    /// TCP, in the clear.
    Tcp,
    /// XTP over UDP, in the clear.
    Xtp,
    /// QUIC: a protected link, and how to know that the right one answers.
    Quic(Trust),
}

impl Bearer {
    /// QUIC if there is somebody to trust, or else what carries the control in the clear.
    pub fn new(trust: Option<Trust>, control: Control) -> Bearer {
        match (trust, control) {
            (Some(trust), _) => Bearer::Quic(trust),
            (None, Control::Tcp) => Bearer::Tcp,
            (None, Control::Xtp) => Bearer::Xtp,
        }
    }
}

impl Remote {
    /// The node at `addr`, over a protected link.
    pub fn protected(addr: SocketAddr, trust: Trust) -> Remote {
        let bearer = Bearer::Quic(trust);
        Remote { addr, bearer }
    }
}

/// A node that is called in the clear, over TCP.
impl From<SocketAddr> for Remote {
    fn from(addr: SocketAddr) -> Remote {
        let bearer = Bearer::Tcp;
        Remote { addr, bearer }
    }
}
