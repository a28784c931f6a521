use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::task::{Context, Poll};

use layercast_core::{Machine, Off, Span, Time};
use layercast_wire::XtpService;
use layercast_xtp::{
    ContextId, Endpoint, XtpConfig, XtpDatagram, XtpError, XtpEvent, XtpInfo, XtpSocket, XtpStats,
};

use super::carrier::{Carrier, Port};
use super::raw::RawIp;
use crate::clock::Clock;
use crate::outbox::Outbox;
use crate::random::random_seed;
use crate::timer::Timer;
use crate::udp::Udp;

/// Contexts of a socket.
const MOST: usize = 1 << 16;
/// What our timer keeps on a machine that has other things to do.
pub(super) const TIMER: Span = Span::from_us(250);
/// Bytes made ready before the kernel is called: a few batches.
const FULL: usize = 256 << 10;
/// Rounds of sending and taking before others have a turn.
const ROUNDS: usize = 16;

/// The XTP of one socket: bare packets in datagrams of UDP (specs/xtp.md 6 (15)), or in IP packets of protocol
/// 36.
///
/// One task owns it: it calls the [`endpoint`](Self::endpoint), and waits in [`event`](Self::event), which
/// sends and receives packets. Without a waiting task there is no progress; [`XtpHost`](super::XtpHost) is for
/// several tasks.
pub struct XtpNode {
    carrier: Carrier,
    clock: Clock,
    endpoint: Endpoint,
    outbox: Outbox,
    /// Packets for other hosts than those in the outbox.
    held: VecDeque<XtpDatagram>,
    /// The hosts that get copies of packets to a group, where the network has no multicast.
    fans: HashMap<SocketAddr, Vec<SocketAddr>>,
    timer: Timer,
    /// When the timer runs: the machine's deadline or earlier.
    armed: Option<Time>,
}

impl XtpNode {
    /// XTP over UDP; port 0 lets the system choose one. Must be called within a tokio runtime.
    pub fn udp(local: SocketAddr) -> io::Result<XtpNode> {
        XtpNode::over(Carrier::Udp {
            own: Box::new(Port::new(Udp::bind(local)?.without_ecn())),
            groups: Vec::new(),
        })
    }

    /// XTP over IP, at the address of a host; `EPERM` without CAP_NET_RAW. Must be called within a tokio runtime.
    pub fn raw(local: IpAddr) -> io::Result<XtpNode> {
        XtpNode::over(Carrier::Raw(Box::new(Port::new(RawIp::bind(local)?))))
    }

    fn over(carrier: Carrier) -> io::Result<XtpNode> {
        let local = carrier.local_addr();
        Ok(XtpNode {
            endpoint: Endpoint::new(MOST, &local.to_string(), &random_seed().0),
            clock: Clock::get(),
            outbox: Outbox::new(local),
            held: VecDeque::new(),
            fans: HashMap::new(),
            timer: Timer::new()?,
            armed: None,
            carrier,
        })
    }

    /// The address of the socket; over IP its port is 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.carrier.local_addr()
    }

    /// User bytes of a packet that fits an Ethernet below this socket.
    pub fn max_data(&self) -> u32 {
        self.carrier.max_data()
    }

    /// What a service needs, with packets that fit an Ethernet below this socket.
    pub fn config(&self, service: XtpService) -> XtpConfig {
        XtpConfig {
            max_data: self.max_data(),
            ..XtpConfig::new(service)
        }
    }

    /// Takes associations to a port of XTP, up to `backlog` that are not accepted yet.
    pub fn listen(&mut self, port: u16, backlog: usize, config: XtpConfig) -> Result<(), XtpError> {
        self.endpoint.listen(port, backlog, on_sockets(config))
    }

    /// Opens an association with a port of XTP at a socket.
    pub fn connect(
        &mut self,
        remote: SocketAddr,
        port: u16,
        config: XtpConfig,
    ) -> Result<ContextId, XtpError> {
        self.connect_from(0, remote, port, config)
    }

    /// The same, from a port of XTP by which the peer knows us.
    pub fn connect_from(
        &mut self,
        from: u16,
        remote: SocketAddr,
        port: u16,
        config: XtpConfig,
    ) -> Result<ContextId, XtpError> {
        let socket = |net, port| XtpSocket { net, port };
        let (local, remote) = (socket(self.local_addr(), from), socket(remote, port));
        let now = self.clock.now();
        self.endpoint
            .connect(now, local, remote, &on_sockets(config))
    }

    /// Asks to be let into a multicast association, at its group or at its transmitter, as [`Endpoint::join`].
    pub fn join(
        &mut self,
        remote: SocketAddr,
        port: u16,
        config: XtpConfig,
    ) -> Result<ContextId, XtpError> {
        let socket = |net, port| XtpSocket { net, port };
        let (local, remote) = (socket(self.local_addr(), 0), socket(remote, port));
        let now = self.clock.now();
        self.endpoint.join(now, local, remote, &on_sockets(config))
    }

    /// Receives datagrams to a multicast group of UDP, on the interface with this address: invitations, data,
    /// and requests for admission to a transmitter here.
    ///
    /// # Errors
    /// The system refuses it; `Unsupported` over IP itself.
    pub fn join_group(&mut self, group: SocketAddrV4, interface: Ipv4Addr) -> io::Result<()> {
        self.carrier.join_group(group, interface)
    }

    /// Sends packets to multicast groups through the interface with this address, at most `hops` hops far.
    ///
    /// # Errors
    /// The system refuses it; `Unsupported` over IP itself.
    pub fn send_to_groups(&self, interface: Ipv4Addr, hops: u8) -> io::Result<()> {
        self.carrier.send_to_groups(interface, hops)
    }

    /// Where the network has no multicast: packets to `group` are sent to each of these instead.
    pub fn fan_out(&mut self, group: SocketAddr, to: Vec<SocketAddr>) {
        self.fans.insert(group, to);
    }

    /// The machine: what is sent, received and closed.
    pub fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// The same, to look at.
    pub(super) fn peek(&self) -> &Endpoint {
        &self.endpoint
    }

    /// What the clock of the machine shows.
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Takes no more associations to a port, as [`Endpoint::unlisten`].
    pub fn unlisten(&mut self, port: u16) {
        self.endpoint.unlisten(self.clock.now(), port);
    }

    /// What is known of a context, as [`Endpoint::info`].
    pub fn info(&self, id: ContextId) -> Option<XtpInfo> {
        self.endpoint.info(id)
    }

    /// Good-bye to a context, as [`Endpoint::close`].
    pub fn close(&mut self, id: ContextId) -> Result<(), XtpError> {
        self.endpoint.close(self.clock.now(), id)
    }

    /// Nothing more will be received, as [`Endpoint::close_read`].
    pub fn close_read(&mut self, id: ContextId) -> Result<(), XtpError> {
        self.endpoint.close_read(self.clock.now(), id)
    }

    /// Breaks a context off, as [`Endpoint::abort`].
    pub fn abort(&mut self, id: ContextId) -> Result<(), XtpError> {
        self.endpoint.abort(self.clock.now(), id)
    }

    /// What was counted so far.
    pub fn stats(&self) -> XtpStats {
        self.endpoint.stats()
    }

    /// The next event; packets are sent and received meanwhile. Cancelling the wait loses nothing.
    pub async fn event(&mut self) -> io::Result<XtpEvent> {
        poll_fn(|context| self.poll_event(context)).await
    }

    /// The next thing to know, if there is one; if not, the task of `context` is woken when to ask again.
    pub(super) fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<io::Result<XtpEvent>> {
        for _ in 0..ROUNDS {
            self.run_timers();
            self.send_all();
            let more = self.take_some();
            if let Some(event) = self.endpoint.poll_event() {
                return Poll::Ready(Ok(event));
            }
            if more {
                continue;
            }
            // What came may have an answer.
            let blocked = !self.send_all();
            self.arm()?;
            let mut ready = self.carrier.poll_readable(context).is_ready();
            ready |= blocked && self.carrier.poll_writable(context).is_ready();
            if self.timer.poll_expired(context)?.is_ready() {
                self.armed = None;
                self.timer.served(self.clock.now());
                ready = true;
            }
            if !ready {
                return Poll::Pending;
            }
        }
        // The other tasks of the thread have their turn.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether [`event`](Self::event) has something to report immediately.
    pub(super) fn has_event(&self) -> bool {
        self.endpoint.has_event()
    }

    /// Sends what may leave now, and sees to it that the timer runs in time; `false` if the kernel has no room.
    pub(super) fn hurry(&mut self) -> io::Result<bool> {
        let sent = self.send_all();
        self.arm()?;
        Ok(sent)
    }

    /// Runs what is due, also where packets never leave the time to wait.
    fn run_timers(&mut self) {
        let now = self.clock.now();
        if self.endpoint.next_timeout().is_some_and(|at| at <= now) {
            // What came while we were kept from our work is heard before anybody is given up.
            self.take_some();
            self.endpoint.on_timeout(self.clock.now(), &mut Off);
        }
    }

    /// The timer may run too early, which costs less than to set it each time that a deadline moves on.
    fn arm(&mut self) -> io::Result<()> {
        let Some(wanted) = self.endpoint.next_timeout() else {
            return Ok(());
        };
        if self.armed.is_none_or(|at| wanted < at) {
            self.timer.arm(Some(wanted))?;
            self.armed = Some(wanted);
        }
        Ok(())
    }

    /// Takes some of what has arrived; says whether there may be more.
    fn take_some(&mut self) -> bool {
        let now = self.clock.now();
        self.carrier.receive(&mut self.endpoint, now)
    }

    /// Sends what may leave; `false` if the kernel has no room for it.
    fn send_all(&mut self) -> bool {
        loop {
            if !self.carrier.flush(&mut self.outbox) {
                return false;
            }
            if !self.fill() {
                return true;
            }
        }
    }

    /// Puts what may leave into the empty outbox; `false` if there was nothing.
    fn fill(&mut self) -> bool {
        let now = self.clock.now();
        while self.outbox.waiting() < FULL {
            let next = self.held.pop_front();
            let Some(datagram) = next.or_else(|| self.endpoint.poll_transmit(now, &mut Off)) else {
                break;
            };
            if let Some(all) = self.fans.get(&datagram.dst) {
                let copy = |&dst| XtpDatagram {
                    dst,
                    ..datagram.clone()
                };
                self.held.extend(all.iter().map(copy));
                continue;
            }
            if !self.outbox.redirect(datagram.dst) {
                self.held.push_front(datagram);
                break;
            }
            let packet = &datagram.packet;
            // There is room for it below `FULL`.
            let _ = self
                .outbox
                .push(packet.encoded_len(), false, |out| packet.encode_into(out));
        }
        self.outbox.waiting() > 0
    }
}

/// A configuration with bursts no shorter than the resolution of the timer.
fn on_sockets(config: XtpConfig) -> XtpConfig {
    XtpConfig {
        timer: config.timer.max(TIMER),
        ..config
    }
}

#[cfg(test)]
mod tests;
