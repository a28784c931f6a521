use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, UdpSocket};

use layercast_core::{AnyObserver, Observer, Span, Time, earliest};
use layercast_protect::Control;
use layercast_wire::Signal;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, clock_name};
use crate::command::NodeCommand;
use crate::config::{Connect, NodeConfig, NodeEvent, NodeSummary};
use crate::connection::PeerEvent;
use crate::error::NetError;
use crate::event_loop::{Actor, Inbox, Iteration, run_event_loop};
use crate::hello::Hello;
use crate::identity::own_or_new;
use crate::intake::Intake;
use crate::local::FAREWELL;
use crate::machines::{Machines, Receiving};
use crate::not_run::NotRun;
use crate::peer::Peers;
use crate::ports::Ports;
use crate::quic;
use crate::rates::Rates;
use crate::taken::Taken;
use crate::timer::{Lateness, Timer};
use crate::udp::Udp;
use crate::xtp::{XtpDoor, XtpNode};

/// How long the node runs at most when it is asked to stop: its sources close their flows before.
const GRACE: Span = Span::from_secs(2);
/// Attempts to find a port number that is free for both TCP and UDP.
const PORT_ATTEMPTS: usize = 16;

/// A node that is bound to its address and ready to run.
pub struct Node {
    config: NodeConfig,
    /// The TCP port where neighbours connect, or are refused with an explanation.
    listener: TcpListener,
    door: Door,
    udp: Udp,
    local: SocketAddr,
}

/// The entrance for neighbours. Only a socket until the node runs: dropping the node frees the port
/// immediately.
enum Door {
    Tcp,
    Quic(UdpSocket),
    Xtp(Box<XtpNode>),
}

/// Binds and runs a node until `shutdown`, or until its sources have finished if so configured.
///
/// Events are dropped if the channel is full; `obs` sees what the machines do.
///
/// # Errors
/// The address is in use, an upstream neighbour is the node itself, an upstream neighbour cannot be reached (with [`Connect::FailFast`]), a source cannot
/// run as configured, the system refuses sockets or timers.
pub async fn run_node(
    config: NodeConfig,
    shutdown: CancellationToken,
    events: mpsc::Sender<NodeEvent>,
    obs: &mut (dyn Observer + Send),
) -> Result<NodeSummary, NetError> {
    Node::bind(config).await?.run(shutdown, events, obs).await
}

impl Node {
    /// Takes the ports of the node.
    ///
    /// # Errors
    /// They are in use, or the address is not one of this machine; the name of the node is invalid; the node is
    /// protected and its control is not.
    pub async fn bind(config: NodeConfig) -> Result<Node, NetError> {
        NetError::check_name("the node", &config.switch.name)?;
        let wanted = config.listen;
        let failed = |source| NetError::bind(wanted, source);
        let (listener, door, udp) = match (&config.identity, config.control) {
            (Some(_), Control::Xtp) => return Err(NetError::NotProtected),
            (None, Control::Tcp) => {
                let (listener, udp) = bind_both(wanted, Udp::bind).await?;
                (listener, Door::Tcp, udp)
            }
            (None, Control::Xtp) => {
                let (listener, xtp) = bind_both(wanted, XtpNode::udp).await?;
                let udp = bind_behind(wanted, xtp.local_addr()).map_err(failed)?;
                (listener, Door::Xtp(Box::new(xtp)), udp)
            }
            (Some(_), Control::Tcp) => {
                let (listener, quic) = bind_both(wanted, UdpSocket::bind).await?;
                let local = quic.local_addr().map_err(failed)?;
                let udp = bind_behind(wanted, local).map_err(failed)?;
                (listener, Door::Quic(quic), udp)
            }
        };
        let local = listener.local_addr().map_err(failed)?;
        let mut upstreams = config.upstreams.iter().map(|it| it.addr);
        if let Some(upstream) = upstreams.find(|it| is_own(*it, local)) {
            let listen = local;
            return Err(NetError::OwnUpstream { upstream, listen });
        }
        if let Some(group) = config.groups.first() {
            udp.send_to_groups(group.interface, 1)
                .map_err(|source| NetError::Group {
                    group: group.group.into(),
                    source,
                })?;
        }
        Ok(Node {
            config,
            listener,
            door,
            udp,
            local,
        })
    }

    /// What it runs with.
    pub fn config(&self) -> &NodeConfig {
        &self.config
    }

    /// What it runs with, such as sources that were found after its ports were taken. Another address or identity has
    /// no effect any more.
    pub fn config_mut(&mut self) -> &mut NodeConfig {
        &mut self.config
    }

    /// Where neighbours reach it.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Where it takes datagrams.
    pub fn media_addr(&self) -> SocketAddr {
        self.udp.local_addr()
    }

    /// Runs the node; see [`run_node`].
    ///
    /// # Errors
    /// As [`run_node`].
    pub async fn run(
        self,
        shutdown: CancellationToken,
        events: mpsc::Sender<NodeEvent>,
        obs: &mut (dyn Observer + Send),
    ) -> Result<NodeSummary, NetError> {
        let obs = &mut AnyObserver::new(obs);
        let Node {
            config,
            listener,
            door,
            udp,
            local,
        } = self;
        let hello = Hello {
            node: config.switch.name.clone(),
            id: config.switch.id,
            udp_port: udp.local_addr().port(),
            carriage: config.default_port.carriage,
            clock: clock_name(),
            link_key: None,
            repair: config.repair.map(|_| 0),
            group: None,
            group_repair: Some(0),
            prompt: false,
            clocks: true,
            pings: true,
        };
        let identity = own_or_new(config.identity.as_ref(), &config.upstreams)?;
        let (mut peers, queue) = Peers::new(hello.clone(), identity);
        let elsewhere = |how| format!("{} takes no calls {how} address", hello.node);
        match (door, &config.identity) {
            (Door::Quic(socket), Some(own)) => {
                let endpoint = quic::listen(socket, own);
                let endpoint =
                    endpoint.map_err(NetError::system("starting the session channel"))?;
                peers.listen_protected(endpoint, config.max_connections);
                let message = elsewhere("in the clear: use its layercasts://");
                peers.decline(listener, message);
            }
            (Door::Xtp(node), _) => {
                let door = XtpDoor::open(*node).await;
                let door = door.map_err(NetError::system("starting the session channel"))?;
                peers.listen_xtp(door, config.max_connections);
                peers.decline(listener, elsewhere("over TCP: use its ?control=xtp"));
            }
            _ => peers.listen(listener, config.max_connections),
        }
        let from = Some(local.ip()).filter(|ip| !ip.is_unspecified());
        for (index, remote) in config.upstreams.iter().enumerate() {
            peers.call(index, remote.clone(), from);
        }
        let ports = Ports::new(
            config.switch.name.clone(),
            config.switch.seed,
            config.ports,
            config.groups,
            config.identities,
            config.default_port,
            config
                .max_connections
                .saturating_add(config.upstreams.len()),
        )
        .repaired_by(config.repair.unwrap_or_default())
        .estimating_elsewhere(config.estimate_elsewhere && config.repair.is_some());
        let clock = Clock::get();
        let rates = Rates::new(
            config.schedules_from.unwrap_or(clock.now()),
            &ports,
            config.schedules,
        );
        let machines = Machines::new(
            config.switch,
            config.sources,
            config.host,
            (ports, rates),
            events,
            (clock.now(), config.wall_clock),
            obs,
        )?;
        let mut runtime = Runtime {
            machines,
            hello,
            udp,
            intake: Intake::new(),
            peers,
            reached: vec![false; config.upstreams.len()],
            connect: config.connect,
            until_finished: config.until_finished,
            stop_at: None,
            not_run: NotRun::default(),
        };
        let mut timer = Timer::new().map_err(NetError::system("creating a timer"))?;
        let mut inbox = Inbox {
            peers: queue,
            commands: config.commands,
        };
        let ended = run_event_loop(&mut runtime, &mut inbox, &mut timer, &shutdown, obs).await;
        // Also after an error: neighbours learn immediately that the node is gone.
        let summary = runtime.finish(inbox.peers, *timer.lateness(), obs).await;
        ended.map(|()| summary)
    }
}

/// Everything a running node consists of.
struct Runtime {
    machines: Machines,
    /// How we greet callers.
    hello: Hello,
    udp: Udp,
    intake: Intake,
    peers: Peers,
    /// Which upstream neighbours have answered so far.
    reached: Vec<bool>,
    connect: Connect,
    until_finished: bool,
    stop_at: Option<Time>,
    not_run: NotRun,
}

impl Actor for Runtime {
    type Command = NodeCommand;

    fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        self.machines.make_up(now, obs);
        self.machines.on_timeout(now, obs);
    }

    fn on_command<O: Observer>(&mut self, now: Time, command: NodeCommand, obs: &mut O) {
        self.machines.on_command(now, command, obs);
    }

    fn receive<O: Observer>(&mut self, now: Time, obs: &mut O) -> bool {
        let (udp, machines) = (&mut self.udp, &mut self.machines);
        let mut receiving = Receiving { machines, now, obs };
        let receiving = &mut receiving;
        self.intake.receive(now, udp, receiving, |receiving, udp| {
            receiving.machines.flush(udp);
        })
    }

    fn flush(&mut self) -> bool {
        self.machines.flush(&mut self.udp)
    }

    fn read_late<O: Observer>(&mut self, now: Time, obs: &mut O) {
        self.machines.read_late(now, obs);
    }

    fn held_up<O: Observer>(&mut self, since: Time, now: Time, obs: &mut O) {
        self.machines.held_up(since, now, obs);
    }

    fn late(&mut self, now: Time, late: Span) {
        self.not_run.add(now, late);
        if let Some(time) = self.not_run.poll(now) {
            self.machines.tell(NodeEvent::NotRun { time });
        }
    }

    /// A node plays nothing.
    fn stopped(&mut self, _: Time, _: Time) {}

    fn end_iteration<O: Observer>(
        &mut self,
        now: Time,
        stopping: bool,
        _: &Lateness,
        obs: &mut O,
    ) -> Result<Iteration, NetError> {
        if self.stop_at.is_none() && stopping {
            self.machines.end_sources(now, obs);
            let grace = match self.machines.finished() {
                true => Span::ZERO,
                false => GRACE,
            };
            self.stop_at = Some(now + grace);
        }
        let ending = self.until_finished || self.stop_at.is_some();
        if ending && self.machines.all_sent(now) {
            self.stop_at = earliest(self.stop_at, Some(now + FAREWELL));
        }
        if self.stop_at.is_some_and(|at| at <= now) {
            return Ok(Iteration::Over);
        }
        let mut next = self.machines.next_timeout();
        if !ending && self.machines.is_alone() {
            next = next.map(Machines::put_off);
        }
        let wake = earliest(next, self.stop_at);
        Ok(Iteration::Next(wake))
    }

    async fn ready(&mut self, blocked: bool) {
        tokio::select! {
            // An error here is one of the socket's error queue: receiving clears it.
            _ = self.udp.readable() => {}
            _ = self.udp.writable(), if blocked => {}
            () = poll_fn(|context| self.machines.poll_frame(context)) => {}
        }
    }

    fn on_peer<O: Observer>(
        &mut self,
        now: Time,
        event: PeerEvent,
        timers: &Lateness,
        obs: &mut O,
    ) -> Result<(), NetError> {
        match event {
            PeerEvent::Opened(newcomer) => {
                let index = newcomer.upstream;
                if let Some(reached) = index.and_then(|index| self.reached.get_mut(index)) {
                    *reached = true;
                }
                self.machines.attach(now, *newcomer, &self.hello, obs);
            }
            PeerEvent::Signal { peer, signal } => {
                if let Signal::GetStats { .. } = signal {
                    let (udp, channels) = (self.udp.stats(), self.peers.stats());
                    self.machines.report(now, peer, (udp, channels, timers));
                }
                self.machines.on_signal(now, peer, signal, obs);
            }
            PeerEvent::Closed { peer, reason } => self.machines.detach(now, peer, reason, obs),
            PeerEvent::Failed {
                addr,
                upstream,
                error,
            } => {
                let never = upstream
                    .and_then(|index| self.reached.get(index))
                    .is_some_and(|reached| !reached);
                if never && self.connect == Connect::FailFast {
                    return Err(NetError::call(addr, error));
                }
                let known = upstream.is_some() && !never;
                let reason = error.in_words(known);
                self.machines.tell(NodeEvent::Failed { addr, reason });
            }
            PeerEvent::Renewed { renewed } => {
                let addr = renewed.addr;
                self.machines.tell(NodeEvent::Renewed { addr });
            }
        }
        Ok(())
    }
}

impl Runtime {
    async fn finish<O: Observer>(
        mut self,
        queue: mpsc::Receiver<PeerEvent>,
        timers: Lateness,
        obs: &mut O,
    ) -> NodeSummary {
        self.machines.stop(Clock::get().now(), obs);
        self.machines.flush(&mut self.udp);
        self.machines.hang_up();
        let channels = self.peers.close(queue).await;
        let udp = self.udp.stats();
        self.machines
            .summary(self.hello.node, udp, channels, timers)
    }
}

/// A TCP listener and a UDP socket on one port number. One that is in use may become free while [`Taken`] waits.
pub(crate) async fn bind_both<S>(
    addr: SocketAddr,
    bind: impl Fn(SocketAddr) -> io::Result<S>,
) -> Result<(TcpListener, S), NetError> {
    let mut taken = Taken::default();
    loop {
        match listen_both(addr, &bind).await {
            Ok(both) => return Ok(both),
            Err(error) => match taken.pause(&error) {
                Some(pause) => sleep(pause).await,
                None => return Err(NetError::bind(addr, error)),
            },
        }
    }
}

async fn listen_both<S>(
    addr: SocketAddr,
    bind: impl Fn(SocketAddr) -> io::Result<S>,
) -> io::Result<(TcpListener, S)> {
    let mut attempts = 1;
    loop {
        let listener = TcpListener::bind(addr).await?;
        match bind(listener.local_addr()?) {
            Ok(udp) => return Ok((listener, udp)),
            // The kernel chose a port whose UDP twin is taken: let it choose again.
            Err(_) if addr.port() == 0 && attempts < PORT_ATTEMPTS => attempts += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Whether a call to `addr` reaches the node that listens on `listen`.
fn is_own(addr: SocketAddr, listen: SocketAddr) -> bool {
    // Only an address of this host can be bound.
    let is_here = |ip| UdpSocket::bind(SocketAddr::new(ip, 0)).is_ok();
    let same = addr.ip() == listen.ip();
    let same_kind = addr.is_ipv4() == listen.is_ipv4();
    addr.port() == listen.port()
        && (same || same_kind && listen.ip().is_unspecified() && is_here(addr.ip()))
}

/// The socket for datagrams of a node whose neighbours come in at `local`: the port behind, where one
/// was asked for and that is free, for the sake of firewalls.
fn bind_behind(wanted: SocketAddr, local: SocketAddr) -> io::Result<Udp> {
    let on = |port| SocketAddr::new(local.ip(), port);
    match local.port().checked_add(1).filter(|_| wanted.port() != 0) {
        Some(behind) => Udp::bind(on(behind)).or_else(|_| Udp::bind(on(0))),
        None => Udp::bind(on(0)),
    }
}
