use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::pin::pin;
use std::sync::Arc;

use layercast_wire::XtpService;
use layercast_xtp::remote::{Answer, Question, ServerStats};
use layercast_xtp::{XtpConfig, XtpSocket, XtpStats};
use tokio::sync::Notify;

use super::address::XtpPlace;
use super::association::XtpAssociation;
use super::backend::Backend;
use super::call::XtpCallError;
use super::far::Far;
use super::node::XtpNode;
use super::state::{Owner, State};

/// XTP for many tasks on one socket, in the life cycle of SandiaXTP (specs/xtp.md 2.14): register, configure, bind,
/// connect or listen, send, receive, close.
///
/// A library in the address space of its user: what a task sends leaves in its own call, but for small pieces sent within 50 µs of
/// each other, which leave together: when the task waits for something, or 64 KiB have come together. Packets that come, and
/// timers, are the business of a task of the runtime in which the host was made, which lives as long as the host, one of
/// its listeners or one of its associations does.
#[derive(Clone)]
pub struct XtpHost {
    owner: Arc<Owner>,
}

/// A context that is registered and does nothing yet.
pub struct XtpRegistered {
    owner: Arc<Owner>,
    config: XtpConfig,
    port: u16,
}

/// A port that takes associations; when it is dropped those not accepted are broken off.
pub struct XtpListener {
    owner: Arc<Owner>,
    port: u16,
    arrived: Arc<Notify>,
}

impl XtpHost {
    /// Starts the task that moves the packets and timers of `node`. Must be called within a tokio runtime.
    pub fn new(node: XtpNode) -> XtpHost {
        XtpHost::at(Backend::Own(Box::new(node)))
    }

    /// XTP where `place` says: by the library, or by a daemon. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The address is not ours, or there is no daemon, or none that takes us.
    pub async fn open(place: &XtpPlace) -> Result<XtpHost, XtpCallError> {
        Ok(match place {
            XtpPlace::Udp(local) => XtpHost::new(XtpNode::udp(*local)?),
            XtpPlace::Raw(local) => {
                let node = XtpNode::raw(*local).map_err(|error| match error.kind() {
                    io::ErrorKind::PermissionDenied => XtpCallError::NoRight(*local),
                    kind => XtpCallError::Socket(kind),
                });
                XtpHost::new(node?)
            }
            XtpPlace::Daemon(path) => {
                XtpHost::at(Backend::Far(Box::new(Far::connect(path).await?)))
            }
        })
    }

    fn at(backend: Backend) -> XtpHost {
        XtpHost {
            owner: Arc::new(Owner::new(backend)),
        }
    }

    /// The address of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.owner.lock().backend.local_addr()
    }

    /// What the endpoint counted so far; that of a daemon is for all its users.
    ///
    /// # Errors
    /// The daemon is gone.
    pub async fn stats(&self) -> Result<XtpStats, XtpCallError> {
        if let Backend::Own(node) = &self.owner.lock().backend {
            return Ok(node.stats());
        }
        let status = self.daemon_stats().await?;
        Ok(status.map_or_else(XtpStats::default, |it| it.endpoint))
    }

    /// What the daemon counted so far; `None` where there is none.
    ///
    /// # Errors
    /// The daemon is gone.
    pub async fn daemon_stats(&self) -> Result<Option<ServerStats>, XtpCallError> {
        Ok(match self.owner.ask(Question::Stats).await? {
            Some(Answer::Stats(stats)) => Some(*stats),
            _ => None,
        })
    }

    /// Receives datagrams to a multicast group, as [`XtpNode::join_group`].
    ///
    /// # Errors
    /// The system refuses it; `Unsupported` by a daemon, which manages its own groups.
    pub fn join_group(&self, group: SocketAddrV4, interface: Ipv4Addr) -> io::Result<()> {
        let mut state = self.owner.lock();
        state.node()?.join_group(group, interface)?;
        // The task of the socket waits for it, too, from now on.
        state.wake();
        Ok(())
    }

    /// Sends packets to multicast groups, as [`XtpNode::send_to_groups`].
    ///
    /// # Errors
    /// As above.
    pub fn send_to_groups(&self, interface: Ipv4Addr, hops: u8) -> io::Result<()> {
        self.owner.lock().node()?.send_to_groups(interface, hops)
    }

    /// Sends to each of these instead of a group, as [`XtpNode::fan_out`].
    ///
    /// # Errors
    /// As above.
    pub fn fan_out(&self, group: SocketAddr, to: Vec<SocketAddr>) -> io::Result<()> {
        self.owner.lock().node()?.fan_out(group, to);
        Ok(())
    }

    /// A context for a service, configured as the service needs.
    pub fn register(&self, service: XtpService) -> XtpRegistered {
        XtpRegistered {
            config: self.owner.lock().backend.config(service),
            owner: self.owner.clone(),
            port: 0,
        }
    }
}

impl XtpRegistered {
    /// Changes what it is configured to.
    pub fn configure(mut self, change: impl FnOnce(&mut XtpConfig)) -> XtpRegistered {
        change(&mut self.config);
        self
    }

    /// Takes a port of XTP, by which peers know it.
    pub fn bind(mut self, port: u16) -> XtpRegistered {
        self.port = port;
        self
    }

    /// Opens an association with a port of XTP at a socket. FIRST leaves with what is sent in the same breath: before
    /// the task waits for anything.
    ///
    /// # Errors
    /// The configuration or the address makes no sense, or the host is full; a daemon reports this later.
    pub fn connect(self, remote: SocketAddr, port: u16) -> Result<XtpAssociation, XtpCallError> {
        let mut state = self.owner.lock();
        state.check()?;
        let remote = XtpSocket { net: remote, port };
        let id = state.backend.connect(self.port, remote, self.config)?;
        let changed = state.enter(id);
        // If nothing is sent first, the task of the socket sends FIRST.
        state.wake();
        drop(state);
        Ok(XtpAssociation::new(self.owner, id, changed))
    }

    /// Asks to be let into a multicast association that is under way: at its group, or at its transmitter.
    ///
    /// # Errors
    /// The configuration or the address makes no sense, or the host is full.
    pub fn join(self, remote: SocketAddr, port: u16) -> Result<XtpAssociation, XtpCallError> {
        let mut state = self.owner.lock();
        state.check()?;
        let remote = XtpSocket { net: remote, port };
        let id = state.backend.join(remote, self.config)?;
        let changed = state.enter(id);
        state.wake();
        drop(state);
        Ok(XtpAssociation::new(self.owner, id, changed))
    }

    /// Takes associations to its port, up to `backlog` that are not accepted yet.
    ///
    /// # Errors
    /// The configuration makes no sense, or the port is in use.
    pub async fn listen(self, backlog: usize) -> Result<XtpListener, XtpCallError> {
        let arrived = Arc::new(Notify::new());
        {
            let mut state = self.owner.lock();
            state.check()?;
            state.backend.listen(self.port, backlog, self.config)?;
            state.arrivals.insert(self.port, arrived.clone());
            state.move_on();
        }
        let listener = XtpListener {
            owner: self.owner,
            port: self.port,
            arrived,
        };
        // One's own endpoint has answered already.
        let port = listener.port;
        let listens = listener
            .until(|state| state.backend.listening(port))
            .await?;
        listens.map(|()| listener).map_err(XtpCallError::from)
    }
}

impl XtpListener {
    /// The next association. Cancelling the wait loses none.
    ///
    /// # Errors
    /// The socket broke.
    pub async fn accept(&self) -> Result<XtpAssociation, XtpCallError> {
        let (id, changed) = self
            .until(|state| {
                let id = state.backend.accept(self.port);
                // Events of the meantime are reported now, and the daemon is asked for the next.
                state.move_on();
                id.map(|id| (id, state.enter(id)))
            })
            .await?;
        Ok(XtpAssociation::new(self.owner.clone(), id, changed))
    }

    /// Waits until `look` finds what it looks for; asked again whenever something about the port is new.
    async fn until<T>(
        &self,
        mut look: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, XtpCallError> {
        loop {
            let mut arrived = pin!(self.arrived.notified());
            arrived.as_mut().enable();
            {
                let mut state = self.owner.lock();
                state.check()?;
                if let Some(found) = look(&mut state) {
                    return Ok(found);
                }
            }
            arrived.await;
        }
    }
}

impl Drop for XtpListener {
    fn drop(&mut self) {
        let mut state = self.owner.lock();
        state.arrivals.remove(&self.port);
        state.backend.unlisten(self.port);
        state.move_on();
    }
}
