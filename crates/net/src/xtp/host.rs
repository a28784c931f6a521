use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use layercast_transport::xtp::{ContextId, XtpConfig, XtpError, XtpEvent, XtpFailure, XtpStats};
use layercast_wire::XtpService;
use thiserror::Error;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::association::XtpAssociation;
use super::node::XtpNode;

/// Events of other tasks before those of this one.
const EVENTS: usize = 64;

/// Why a call of an [`XtpHost`] or what came of it failed.
#[derive(Debug, Error)]
pub enum XtpCallError {
    /// The machine refused the call.
    #[error(transparent)]
    Refused(#[from] XtpError),
    /// The association broke off.
    #[error(transparent)]
    Failed(#[from] XtpFailure),
    /// The socket is of no use any more.
    #[error("socket: {0}")]
    Socket(io::ErrorKind),
}

/// What was told of an association, for whoever asks later.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Told {
    pub(super) connected: bool,
    pub(super) peer_closed: bool,
    pub(super) settled: bool,
    /// The first byte that the transmitter of a group lets us have.
    pub(super) joined: Option<u64>,
    /// Receivers that have everything, and that are gone without.
    pub(super) receivers: (u64, u64),
    /// The peer's user has taken everything before this byte.
    pub(super) delivered: u64,
    /// Over; with the reason if it broke off.
    pub(super) over: Option<Result<(), XtpFailure>>,
}

/// One association, as its user and the task of the socket see it.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) told: Told,
    /// Something about it is new.
    pub(super) changed: Arc<Notify>,
}

/// Everything that the tasks of a host share.
pub(super) struct State {
    pub(super) node: XtpNode,
    pub(super) places: HashMap<ContextId, Place>,
    arrivals: HashMap<u16, Arc<Notify>>,
    pub(super) broken: Option<io::ErrorKind>,
    driver: Option<Waker>,
}

/// What users hold; with the last of them the task of the socket ends.
pub(super) struct Owner {
    state: Arc<Mutex<State>>,
    driver: AbortHandle,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// XTP for many tasks on one socket, in the life cycle of SandiaXTP (xtp.md 2.14): register, configure, bind, connect
/// or listen, send, receive, close.
///
/// A library in the address space of its user: what a task sends leaves in its own call. Packets that come, and
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
    /// Starts the task that moves what comes to `node` and its timers. Must be called within a tokio runtime.
    pub fn new(node: XtpNode) -> XtpHost {
        let state = Arc::new(Mutex::new(State {
            node,
            places: HashMap::new(),
            arrivals: HashMap::new(),
            broken: None,
            driver: None,
        }));
        let shared = state.clone();
        let driver = tokio::spawn(poll_fn(move |context| drive(&shared, context))).abort_handle();
        XtpHost {
            owner: Arc::new(Owner { state, driver }),
        }
    }

    /// The address of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.owner.lock().node.local_addr()
    }

    /// What was counted so far.
    pub fn stats(&self) -> XtpStats {
        self.owner.lock().node.stats()
    }

    /// Takes what comes to a multicast group, as [`XtpNode::join_group`].
    ///
    /// # Errors
    /// The system refuses it.
    pub fn join_group(&self, group: SocketAddrV4, interface: Ipv4Addr) -> io::Result<()> {
        let mut state = self.owner.lock();
        state.node.join_group(group, interface)?;
        // The task of the socket waits for it, too, from now on.
        state.wake();
        Ok(())
    }

    /// Lets packets go to multicast groups, as [`XtpNode::send_to_groups`].
    ///
    /// # Errors
    /// The system refuses it.
    pub fn send_to_groups(&self, interface: Ipv4Addr, hops: u8) -> io::Result<()> {
        self.owner.lock().node.send_to_groups(interface, hops)
    }

    /// Sends to each of these instead of a group, as [`XtpNode::fan_out`].
    pub fn fan_out(&self, group: SocketAddr, to: Vec<SocketAddr>) {
        self.owner.lock().node.fan_out(group, to);
    }

    /// A context for a service, configured as the service needs.
    pub fn register(&self, service: XtpService) -> XtpRegistered {
        XtpRegistered {
            config: self.owner.lock().node.config(service),
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
    /// The configuration or the address makes no sense, or the host is full.
    pub fn connect(self, remote: SocketAddr, port: u16) -> Result<XtpAssociation, XtpCallError> {
        let mut state = self.owner.lock();
        state.check()?;
        let id = state
            .node
            .connect_from(self.port, remote, port, self.config)?;
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
        let id = state.node.join(remote, port, self.config)?;
        let changed = state.enter(id);
        state.wake();
        drop(state);
        Ok(XtpAssociation::new(self.owner, id, changed))
    }

    /// Takes associations to its port, up to `backlog` that are not accepted yet.
    ///
    /// # Errors
    /// The configuration makes no sense, or the port is in use.
    pub fn listen(self, backlog: usize) -> Result<XtpListener, XtpCallError> {
        let mut state = self.owner.lock();
        state.check()?;
        state.node.listen(self.port, backlog, self.config)?;
        let arrived = Arc::new(Notify::new());
        state.arrivals.insert(self.port, arrived.clone());
        drop(state);
        Ok(XtpListener {
            owner: self.owner,
            port: self.port,
            arrived,
        })
    }
}

impl XtpListener {
    /// The next association. Whoever stops waiting loses none.
    ///
    /// # Errors
    /// The socket broke.
    pub async fn accept(&self) -> Result<XtpAssociation, XtpCallError> {
        loop {
            let mut arrived = pin!(self.arrived.notified());
            arrived.as_mut().enable();
            {
                let mut state = self.owner.lock();
                state.check()?;
                if let Some((id, _)) = state.node.endpoint().accept(self.port) {
                    let changed = state.enter(id);
                    // What came meanwhile is told now.
                    state.move_on();
                    drop(state);
                    return Ok(XtpAssociation::new(self.owner.clone(), id, changed));
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
        state.node.unlisten(self.port);
        state.move_on();
    }
}

impl Owner {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // Whoever panicked with the lock did so between two calls of the machine.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    pub(super) fn check(&self) -> Result<(), XtpCallError> {
        match self.broken {
            Some(kind) => Err(XtpCallError::Socket(kind)),
            None => Ok(()),
        }
    }

    /// After a call of a user: what it has to send leaves now.
    pub(super) fn move_on(&mut self) {
        // What the kernel has no room for, and errors, are for the task of the socket; and there may be something to tell.
        let done = self.node.hurry();
        if self.node.has_event() || !matches!(done, Ok(true)) {
            self.wake();
        }
    }

    /// The task of the socket is to look after it.
    fn wake(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }

    fn enter(&mut self, id: ContextId) -> Arc<Notify> {
        self.places.entry(id).or_default().changed.clone()
    }

    /// Notes what happened, and wakes whom it concerns.
    fn dispatch(&mut self, event: XtpEvent) {
        let id = match event {
            XtpEvent::Incoming(port) => {
                if let Some(arrived) = self.arrivals.get(&port) {
                    arrived.notify_one();
                }
                return;
            }
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
            | XtpEvent::NoReceivers(id) => id,
        };
        let Some(Place { told, changed }) = self.places.get_mut(&id) else {
            return;
        };
        match event {
            XtpEvent::Connected(_) => told.connected = true,
            XtpEvent::Delivered(_, at) => told.delivered = at,
            XtpEvent::Settled(_) => told.settled = true,
            XtpEvent::Joined(_, first) => told.joined = Some(first),
            XtpEvent::ReceiverDone(..) => told.receivers.0 += 1,
            XtpEvent::ReceiverLost(..) => told.receivers.1 += 1,
            XtpEvent::PeerClosed(_) => told.peer_closed = true,
            XtpEvent::Closed(_) => told.over = Some(Ok(())),
            XtpEvent::Failed(_, why) => told.over = Some(Err(why)),
            _ => {}
        }
        changed.notify_waiters();
    }

    /// What was told of an association so far.
    pub(super) fn told(&self, id: ContextId) -> Told {
        self.places.get(&id).map_or(Told::default(), |it| it.told)
    }

    /// What will be told of answers from now on counts.
    pub(super) fn clear_settled(&mut self, id: ContextId) {
        if let Some(place) = self.places.get_mut(&id) {
            place.told.settled = false;
        }
    }
}

/// The task of the socket: until the last user is gone, or the socket breaks.
fn drive(shared: &Mutex<State>, context: &mut Context<'_>) -> Poll<()> {
    let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..EVENTS {
        match state.node.poll_event(context) {
            Poll::Ready(Ok(event)) => state.dispatch(event),
            Poll::Ready(Err(error)) => {
                state.broken = Some(error.kind());
                for place in state.places.values() {
                    place.changed.notify_waiters();
                }
                for arrived in state.arrivals.values() {
                    arrived.notify_one();
                }
                return Poll::Ready(());
            }
            Poll::Pending => {
                state.driver = Some(context.waker().clone());
                return Poll::Pending;
            }
        }
    }
    context.waker().wake_by_ref();
    Poll::Pending
}
