use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use layercast_mets::SinkProtection;
use layercast_protect::Control;

use crate::error::CallError;
use crate::tls::Trust;

/// A node to call.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Where it is called: a TCP port, or the UDP port of QUIC or XTP.
    pub addr: SocketAddr,
    /// What carries the session channel to it.
    pub bearer: Bearer,
    /// Where its URL is read again when a call to it fails.
    pub renewal: Option<Renewal>,
}

/// Where the URL of a node is read again: a node that is started again may have another port or certificate.
#[derive(Clone)]
pub struct Renewal(Arc<dyn Fn() -> Option<Renewed> + Send + Sync>);

/// What a new URL says.
#[derive(Clone, Debug)]
pub struct Renewed {
    /// Where the node is called.
    pub addr: SocketAddr,
    /// What carries the session channel to it.
    pub bearer: Bearer,
    /// What a receiver needs for the flow, if that is sealed.
    pub protection: Option<SinkProtection>,
}

impl Renewal {
    /// `look` gives what the URL says if it has changed since the last look. It may block.
    pub fn new(look: impl Fn() -> Option<Renewed> + Send + Sync + 'static) -> Renewal {
        Renewal(Arc::new(look))
    }

    /// Reads the URL again; `None` if it is the one that is known. It may block.
    pub fn read(&self) -> Option<Renewed> {
        (self.0)()
    }

    /// As [`read`](Renewal::read), without blocking the runtime.
    pub(crate) async fn look(&self) -> Option<Renewed> {
        let renewal = self.clone();
        let looking = tokio::task::spawn_blocking(move || renewal.read());
        looking.await.ok().flatten()
    }
}

impl fmt::Debug for Renewal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Renewal")
    }
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
    /// The node at `addr`, called over `bearer`; its URL does not change.
    pub fn new(addr: SocketAddr, bearer: Bearer) -> Remote {
        Remote {
            addr,
            bearer,
            renewal: None,
        }
    }

    /// Nothing answered `within` the time.
    pub(crate) fn no_answer(&self, within: &str) -> CallError {
        CallError::silent(within, matches!(self.bearer, Bearer::Quic(_)))
    }

    /// The node at `addr`, over a protected link.
    pub fn protected(addr: SocketAddr, trust: Trust) -> Remote {
        Remote::new(addr, Bearer::Quic(trust))
    }
}

/// A node that is called in the clear, over TCP.
impl From<SocketAddr> for Remote {
    fn from(addr: SocketAddr) -> Remote {
        Remote::new(addr, Bearer::Tcp)
    }
}
