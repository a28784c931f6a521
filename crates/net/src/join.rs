use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};

use layercast_core::{AnyObserver, Observer, Span, Time, earliest};
use layercast_media::TOO_SLOW;
use layercast_mets::{ReceiverSummary, SinkStats};
use layercast_qos::GUARD;
use layercast_wire::{Refusal, Resource, Signal, UdpStats};
use thiserror::Error;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, clock_name};
use crate::command::JoinCommand;
use crate::config::{JoinConfig, JoinCounters, JoinEvent, JoinSummary};
use crate::connection::PeerEvent;
use crate::error::{CallError, NetError};
use crate::event_loop::{Actor, Inbox, Iteration, run_event_loop};
use crate::explained::Explained;
use crate::hello::Hello;
use crate::identity::own_or_new;
use crate::loss::Loss;
use crate::monitors::{Measured, Monitors};
use crate::peer::Peers;
use crate::receiver::{Hearing, Receiver};
use crate::remote::Remote;
use crate::timer::{Lateness, Timer};
use crate::udp::Udp;

/// How long a name in use may take to become free: its owner may have been killed, and the node finds that out.
const NAME_WITHIN: Span = Span::from_secs(4);
/// A connected neighbour has advertised what it has after this time; if the flow is not among it, the user hears so.
const ADVERTISED_WITHIN: Span = Span::from_secs(1);

/// Media that come to the source by this many milliseconds after their time are worth a word.
const WORTH_MS: f64 = 100.0;

/// Receives a flow until it ends, `leave_at`, or `shutdown`.
///
/// Events are dropped if the channel is full; `obs` sees what the sink does.
///
/// # Errors
/// The upstream neighbour cannot be reached or has no such flow within
/// [`start_within`](JoinConfig::start_within), or refuses the join; the output cannot be created; the system refuses
/// sockets or timers.
pub async fn run_join(
    mut config: JoinConfig,
    shutdown: CancellationToken,
    events: mpsc::Sender<JoinEvent>,
    obs: &mut (dyn Observer + Send),
) -> Result<JoinSummary, JoinFailure> {
    let (ring, watch) = match config.monitor.then(|| Monitors::of_process().watch()) {
        Some((ring, watch)) => (Some(ring), Some(watch)),
        None => (None, None),
    };
    let user = AnyObserver::new(obs);
    let obs = &mut Measured { user, ring };
    NetError::check_name("the receiver", &config.sink.node)?;
    NetError::check_name("the flow", &config.sink.flow)?;
    let here = SocketAddr::new(source_towards(config.upstream.addr), 0);
    let udp = Udp::bind(here).map_err(|source| NetError::bind(here, source))?;
    let join_group = |(group, interface)| {
        Udp::join_group(group, interface).map_err(|source| NetError::Group {
            group: group.into(),
            source,
        })
    };
    let group = config.group.map(join_group).transpose()?;
    let identity =
        own_or_new(config.identity.as_ref(), [&config.upstream]).map_err(NetError::from)?;
    let hello = Hello {
        node: config.sink.node.clone(),
        id: config.sink.id,
        udp_port: udp.local_addr().port(),
        carriage: config.sink.carriage,
        clock: clock_name(),
        link_key: None,
        repair: (config.repair && config.group.is_none()).then_some(0),
        group: None,
        group_repair: Some(0),
        prompt: false,
        clocks: true,
        pings: true,
    };
    let (peers, queue) = Peers::new(hello, identity);
    let from = Some(here.ip()).filter(|ip| !ip.is_unspecified());
    peers.call(0, config.upstream.clone(), from);
    let mut inbox = Inbox {
        peers: queue,
        commands: config.commands.take(),
    };
    let mut timer = Timer::new().map_err(NetError::system("creating a timer"))?;
    let now = Clock::get().now();
    let mut runtime = Runtime {
        udp,
        group,
        peers,
        limits: Limits {
            upstream: config.upstream.clone(),
            flow: config.sink.flow.clone(),
            group: config.group.map(|(group, _)| group),
            until_closed: config.until_closed,
            leave_at: config.leave_at,
            start: config
                .start_within
                .map(|within| (now.saturating_add(within), within)),
            must_receive: config.must_receive,
            patience: config.patience,
            playout: config.sink.playout.delay,
            follows_clock: config.sink.follows_clock,
        },
        name_by: None,
        unanswered: None,
        away: None,
        was_joined: false,
        not_there_at: None,
        trouble: None,
        missing: None,
        receiver: Receiver::new(config, watch, events, now)?,
    };
    let ended = run_event_loop(&mut runtime, &mut inbox, &mut timer, &shutdown, obs).await;
    // Also after an error the output is complete, and the neighbour learns that the receiver is gone.
    let mut summary = runtime.finish(inbox.peers, *timer.lateness()).await;
    let Err(error) = ended else {
        return Ok(summary);
    };
    summary.missing = Some(error.to_string());
    if let NetError::Refused(refusal) = &error {
        summary.refused = Some(refusal.clone());
    }
    Err(JoinFailure {
        error,
        summary: Some(Box::new(summary)),
    })
}

/// Why a receiver ended without the flow.
#[derive(Debug, Error)]
#[error("{error}")]
pub struct JoinFailure {
    /// The cause.
    #[source]
    pub error: NetError,
    /// What it counted until then; `None` if it did not start.
    pub summary: Option<Box<JoinSummary>>,
}

impl From<NetError> for JoinFailure {
    fn from(error: NetError) -> JoinFailure {
        JoinFailure {
            error,
            summary: None,
        }
    }
}

/// The address of this host on the way to `upstream`: the kernel knows, without sending anything.
pub(crate) fn source_towards(upstream: SocketAddr) -> IpAddr {
    let any: IpAddr = match upstream {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    std::net::UdpSocket::bind(SocketAddr::new(any, 0))
        .and_then(|socket| {
            socket.connect(upstream)?;
            socket.local_addr()
        })
        .map_or(any, |addr| addr.ip())
}

/// When a receiving host stops.
struct Limits {
    upstream: Remote,
    flow: String,
    /// The group at which it listens.
    group: Option<SocketAddrV4>,
    until_closed: bool,
    leave_at: Option<Time>,
    /// When the flow has to be there, and how long that was from the start.
    start: Option<(Time, Span)>,
    must_receive: bool,
    patience: Option<Span>,
    /// The playout delay, if the user has fixed it.
    playout: Option<Span>,
    /// That delay counts from the clock of the source (`--sync`).
    follows_clock: bool,
}

/// Everything a running receiver consists of.
struct Runtime {
    receiver: Receiver,
    udp: Udp,
    group: Option<Udp>,
    peers: Peers,
    limits: Limits,
    /// When our name has to be free.
    name_by: Option<Time>,
    /// What came of the last call, while none has succeeded.
    unanswered: Option<(SocketAddr, CallError)>,
    /// Since when the flow is not joined.
    away: Option<Time>,
    /// Whether the flow has been joined.
    was_joined: bool,
    /// When the user hears that the connected neighbour does not have the flow.
    not_there_at: Option<Time>,
    /// What went wrong last on the connection.
    trouble: Option<String>,
    /// Why receiving ended although the flow was not over.
    missing: Option<String>,
}

impl Actor for Runtime {
    type Command = JoinCommand;

    fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        self.receiver.on_timeout(now, obs);
    }

    fn on_command<O: Observer>(&mut self, now: Time, command: JoinCommand, obs: &mut O) {
        self.receiver.command(now, command, obs);
    }

    fn receive<O: Observer>(&mut self, now: Time, obs: &mut O) -> bool {
        let mut hearing = Hearing {
            receiver: &mut self.receiver,
            now,
            obs,
        };
        let mut more = false;
        for socket in [Some(&mut self.udp), self.group.as_mut()]
            .into_iter()
            .flatten()
        {
            more |= socket.receive_turn(&mut hearing);
        }
        more
    }

    fn flush(&mut self) -> bool {
        self.receiver.flush(&mut self.udp)
    }

    fn read_late<O: Observer>(&mut self, now: Time, obs: &mut O) {
        self.receiver.read_late(now, obs);
    }

    fn held_up<O: Observer>(&mut self, since: Time, now: Time, obs: &mut O) {
        self.receiver.held_up(since, now, obs);
    }

    /// What matters to a receiver is what could not be played meanwhile.
    fn late(&mut self, _: Time, _: Span) {}

    fn stopped(&mut self, since: Time, now: Time) {
        self.receiver.stopped(since, now);
    }

    fn end_iteration<O: Observer>(
        &mut self,
        now: Time,
        stopping: bool,
        timers: &Lateness,
        obs: &mut O,
    ) -> Result<Iteration, NetError> {
        if std::mem::take(&mut self.receiver.owes_counters) {
            let counters = self.counters(timers);
            self.receiver.tell(JoinEvent::Counted(Box::new(counters)));
        }
        let start = self.limits.start.filter(|_| !self.receiver.found());
        if let Some((_, within)) = start.filter(|(by, _)| *by <= now && !stopping) {
            return Err(self.never_came(within));
        }
        let leave = self.limits.leave_at.is_some_and(|at| at <= now);
        let given_up = self.watch_flow(now);
        if (leave || given_up) && !stopping {
            if self.limits.must_receive {
                self.received_something(now)?;
            }
            self.missing = self.away.map(|since| self.absence(now.since(since)));
        }
        if leave || stopping || given_up {
            if let Some(since) = self.away.filter(|_| given_up && !leave && !stopping) {
                let away = now.since(since);
                let silent = self.receiver.silence(now);
                self.receiver.tell(JoinEvent::GaveUp { away, silent });
            }
            self.receiver.leave(now, obs);
            return Ok(Iteration::Over);
        }
        if self.receiver.closed && self.limits.until_closed {
            if self.receiver.input_failed {
                let flow = &self.limits.flow;
                self.missing = Some(format!(
                    "flow {flow} was cut short: its source could not read its input any more, and its server says why"
                ));
            }
            return Ok(Iteration::Over);
        }
        if let Some(refusal) = self.receiver.refused.take() {
            return Err(NetError::Refused(refusal));
        }
        let patience = self.away.zip(self.limits.patience);
        let give_up = patience.map(|(since, patience)| since.saturating_add(patience));
        self.tell_if_not_there(now);
        let wake = earliest(
            earliest(self.limits.leave_at, start.map(|(by, _)| by)),
            earliest(give_up, self.not_there_at),
        );
        Ok(Iteration::Next(earliest(
            self.receiver.next_timeout(),
            wake,
        )))
    }

    async fn ready(&mut self, blocked: bool) {
        tokio::select! {
            // An error here is one of the socket's error queue: receiving clears it.
            _ = self.udp.readable() => {}
            _ = readable(self.group.as_ref()) => {}
            _ = self.udp.writable(), if blocked => {}
        }
    }

    fn on_peer<O: Observer>(
        &mut self,
        now: Time,
        event: PeerEvent,
        _: &Lateness,
        obs: &mut O,
    ) -> Result<(), NetError> {
        match event {
            PeerEvent::Opened(newcomer) => {
                (self.unanswered, self.trouble) = (None, None);
                self.not_there_at = Some(now + ADVERTISED_WITHIN);
                let (node, group) = (newcomer.hello.node.clone(), newcomer.hello.group);
                self.receiver.open(now, *newcomer, obs);
                self.check_group(node, group)?;
            }
            PeerEvent::Signal {
                peer,
                signal: Signal::NameInUse { node, name },
            } if self.receiver.is_upstream(peer) => {
                let addr = self.limits.upstream.addr;
                return Err(NetError::Replaced { addr, node, name });
            }
            PeerEvent::Signal { peer, signal } => self.receiver.signal(now, peer, signal, obs),
            PeerEvent::Closed { peer, reason } => {
                self.trouble = Some(reason.clone());
                self.not_there_at = None;
                self.receiver.close(now, peer, reason, obs);
            }
            PeerEvent::Failed { addr, error, .. } => {
                let never = self.receiver.connected == 0;
                let may_pass = match error {
                    CallError::NameInUse { .. } => {
                        now < *self.name_by.get_or_insert(now + NAME_WITHIN)
                    }
                    CallError::NoAnswer(_) => true,
                    _ => false,
                };
                if never && self.limits.start.is_some() && !may_pass {
                    return Err(NetError::call(addr, error));
                }
                let reason = error.in_words(!never);
                self.trouble = Some(reason.clone());
                self.unanswered = Some((addr, error)).filter(|_| never);
                self.receiver.tell(JoinEvent::Disconnected { reason });
            }
            PeerEvent::Renewed { renewed } => {
                self.limits.upstream = Remote::new(renewed.addr, renewed.bearer.clone());
                self.receiver.renewed(*renewed);
            }
        }
        Ok(())
    }
}

impl Runtime {
    /// Compares where the neighbour sends the media with where the receiver listens.
    fn check_group(&self, node: String, theirs: Option<SocketAddrV4>) -> Result<(), NetError> {
        let name = self.receiver.name().to_owned();
        match (theirs, self.limits.group) {
            (Some(group), own) if own != Some(group) => {
                Err(NetError::OtherGroup { node, name, group })
            }
            (None, Some(group)) => {
                self.receiver.tell(JoinEvent::NotInGroup {
                    upstream: node,
                    name,
                    group,
                });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Why the flow was not there `within` its time.
    fn never_came(&mut self, within: Span) -> NetError {
        if let Some((addr, error)) = self.unanswered.take() {
            return NetError::call(addr, error);
        }
        let upstream = self.limits.upstream.addr;
        if self.receiver.connected == 0 {
            let within = format!("{:.1} s", within.as_secs_f64());
            return NetError::call(upstream, self.limits.upstream.no_answer(&within));
        }
        match self.trouble.take() {
            Some(trouble) => NetError::Nothing {
                upstream,
                why: format!("the connection was lost: {trouble}"),
            },
            None => self.no_such_flow(),
        }
    }

    /// Tells the user once in each connection that the neighbour does not have the flow, if it has not advertised it in time.
    fn tell_if_not_there(&mut self, now: Time) {
        if self.receiver.found() {
            self.not_there_at = None;
        } else if self.not_there_at.take_if(|at| *at <= now).is_some() {
            self.receiver.tell(JoinEvent::NoSuchFlow {
                upstream: self.limits.upstream.addr,
                flow: self.limits.flow.clone(),
                known: self.receiver.known_flows(),
            });
        }
    }

    fn no_such_flow(&self) -> NetError {
        if self.receiver.has_foreign() {
            return NetError::Refused(Refusal {
                node: self.receiver.name().to_owned(),
                resource: Resource::Identity,
                needed: 0,
                available: 0,
                measured: None,
            });
        }
        NetError::NoSuchFlow {
            upstream: self.limits.upstream.addr,
            flow: self.limits.flow.clone(),
            known: self.receiver.known_flows(),
        }
    }

    /// Notes since when the flow is away; gives whether it has been for longer than the user waits.
    fn watch_flow(&mut self, now: Time) -> bool {
        if !self.receiver.awaits_flow() {
            (self.away, self.trouble) = (None, None);
            self.was_joined = true;
            return false;
        }
        let since = *self.away.get_or_insert(now);
        let patience = self.limits.patience;
        patience.is_some_and(|patience| now >= since.saturating_add(patience))
    }

    /// What is wrong after `time` without the flow.
    fn absence(&self, time: Span) -> String {
        let (upstream, flow) = (self.limits.upstream.addr, &self.limits.flow);
        let why = match &self.trouble {
            Some(trouble) => format!(": {trouble}"),
            None => format!(", which has: {}", self.receiver.known_flows()),
        };
        let time = time.as_secs_f64();
        match self.was_joined {
            true => format!(
                "flow {flow} was found lost {time:.1} s ago and is not back at {upstream}{why}"
            ),
            false => {
                let what = match self.receiver.core() {
                    Some(core) => format!(
                        "its core {core}, through which all joins go (serve --core), or a node on the way to it, is not there: is a \
                         switch of that name running?"
                    ),
                    None => {
                        "its source, or a node on the way to it, is gone; is the server running?"
                            .into()
                    }
                };
                format!(
                    "{upstream} offers flow {flow}, but no answer to the join came in {time:.1} s: {what}"
                )
            }
        }
    }

    /// Whether anything was played; else what was in the way.
    fn received_something(&self, now: Time) -> Result<(), NetError> {
        let (receiver, upstream) = (&self.receiver, self.limits.upstream.addr);
        let nothing = |why: String| Err(NetError::Nothing { upstream, why });
        let stats = receiver.stats();
        if receiver.has_played() {
            return Ok(());
        }
        if let Some(trouble) = &self.trouble {
            return nothing(format!("no connection at the end: {trouble}"));
        }
        if receiver.connected == 0 {
            return nothing(
                "no connection in this time; is a layercast node listening there?".into(),
            );
        }
        if !receiver.found() {
            return Err(self.no_such_flow());
        }
        if let Some(why) =
            why_nothing_played(&stats, self.limits.playout, self.limits.follows_clock)
        {
            return nothing(why);
        }
        if let Some(since) = self.away {
            return nothing(self.absence(now.since(since)));
        }
        let elsewhere = self.udp.stats().unknown;
        if elsewhere > 0 {
            return nothing(format!(
                "{elsewhere} datagrams came from an address other than that of the node, and media are taken from no \
                 other: call the node at the address that it sends from; where its TCP port is forwarded, forward its \
                 UDP port too"
            ));
        }
        if stats.dropped.unkeyed > 0 {
            return nothing("the media are sealed, and no key came; is the token valid?".into());
        }
        if stats.packets == 0 {
            return nothing(
                "no packet of the flow came in this time: its source is gone, waits or pauses; look whether its server \
                 runs, or receive for longer (--for)"
                    .into(),
            );
        }
        nothing(match receiver.repair_stats() {
            Some(_) => {
                "no picture to start at came in this time: a GOP takes longer, or the source pauses; receive for longer \
                 (--for)"
                    .into()
            }
            // Without repair the losses of the link are not counted.
            None => "no picture to start at came in this time: a GOP takes longer, the source pauses, or the path carries short \
                     packets only (MTU), which is not known without link repair (--repair auto at both ends); receive for \
                     longer (--for), or look whether the path carries IP packets of 1280 bytes (ping -M do -s 1252 HOST)"
                .into(),
        })
    }

    /// What it counted so far.
    fn counters(&self, timers: &Lateness) -> JoinCounters {
        let receiver = &self.receiver;
        JoinCounters {
            sink: receiver.stats(),
            output: receiver.out.stats(),
            udp: moved(&self.udp, self.group.as_ref()),
            malformed: receiver.malformed,
            channels: self.peers.stats(),
            connected: receiver.connected,
            timers: *timers,
        }
    }

    async fn finish(mut self, queue: mpsc::Receiver<PeerEvent>, timers: Lateness) -> JoinSummary {
        self.receiver.flush(&mut self.udp);
        self.receiver.hang_up();
        let channels = self.peers.close(queue).await;
        let udp = moved(&self.udp, self.group.as_ref());
        let receiver = self.receiver;
        let sink = receiver.stats();
        let link_repair = receiver.repair_stats();
        let unexplained = receiver.explained.and_then(Explained::finish).unzip();
        JoinSummary {
            receiver: ReceiverSummary {
                repair: sink.repair,
                end_to_end_ms: sink.end_to_end_ms,
                ..receiver.log.finish()
            },
            sink,
            link_repair,
            malformed: receiver.malformed,
            connected: receiver.connected,
            synchronised: receiver.synchronised,
            missing: self.missing,
            refused: None,
            explain_error: unexplained.0,
            explain_error_kind: unexplained.1,
            output: receiver.out.finish().await,
            udp,
            channels,
            timers,
        }
    }
}

/// Whether frames that come `late_ms` after their deadline do so because their media come `source_ms` after their time
/// to the source.
pub fn is_source_late(source_ms: f64, late_ms: f64) -> bool {
    source_ms >= WORTH_MS && source_ms >= late_ms / 2.0
}

/// When no playout delay helps.
const NO_DELAY: &str = "No delay helps where the path carries less than the base layer needs (layercast stats at the node \
                        before this receiver tells)";

/// Why nothing was played of a flow of which media came, and what helps; `playout` is the playout delay if it is fixed.
/// `None` if nothing was lost and nothing late. `sync`: the playout delay counts from the clock of the source.
fn why_nothing_played(stats: &SinkStats, playout: Option<Span>, sync: bool) -> Option<String> {
    let (lost, late) = (stats.lost.base, stats.late.base);
    let cut = &stats.cut_starts;
    if let Some(by) = stats.late_ms.filter(|_| late > 0 && late >= lost) {
        let after = format!(
            "the flow was joined, but every frame came after its time, by {:.0} ms (median; {:.0} ms at most for 99 % of \
             {late} base-layer frames)",
            by.p50, by.p99
        );
        if let Some(source) = stats
            .source_late_ms
            .filter(|it| is_source_late(*it, by.p50))
        {
            return Some(format!(
                "{after}: they come to the source itself {source:.0} ms after their time: {TOO_SLOW}"
            ));
        }
        return Some(match playout {
            Some(playout) => {
                let playout = playout.as_ms_f64();
                let option = if sync { "--sync" } else { "--playout" };
                format!(
                    "{after}: the playout delay of {playout:.0} ms is too short for this path; leave {option} out, or give \
                     at least {option} {:.0}ms. {NO_DELAY}",
                    (playout + by.p99).ceil() + GUARD.as_ms_f64()
                )
            }
            None => format!(
                "{after}: the path takes longer than the delay bound of the flow; serve it with a --delay-max that is at \
                 least {:.0} ms longer. {NO_DELAY}",
                by.p99.ceil()
            ),
        });
    }
    let cause = Loss {
        base: lost,
        marked: stats.marked,
        repaired: stats.repair.map(|repair| repair.recovered),
        on_link: None,
        overloaded: false,
    };
    match cut.lost_percent() {
        Some(percent) => Some(format!(
            "the flow was joined, but no key frame came whole: {percent} % of the bytes of {} key frames are missing, and \
             {lost} base-layer frames are lost: {cause}",
            cut.starts
        )),
        None => (lost > 0).then(|| {
            format!("the flow was joined, but no frame came whole ({lost} base-layer frames are lost): {cause}")
        }),
    }
}

/// What the socket of a receiver and that of its group moved.
fn moved(udp: &Udp, group: Option<&Udp>) -> UdpStats {
    let mut all = udp.stats();
    if let Some(group) = group {
        all.add(&group.stats());
    }
    all
}

async fn readable(socket: Option<&Udp>) {
    match socket {
        // An error is one of the socket's error queue: receiving clears it.
        Some(socket) => drop(socket.readable().await),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::PerLayer;
    use layercast_mets::{CutStarts, LateMs};

    use super::*;

    #[test]
    fn the_cause_of_a_flow_without_a_picture_is_named_with_its_remedy() {
        let base = |base| PerLayer {
            base,
            ..PerLayer::default()
        };
        let says = |stats: &SinkStats, playout, parts: &[&str]| {
            let why = why_nothing_played(stats, playout, false).expect("a cause");
            for part in parts {
                assert!(why.contains(part), "{part}: {why}");
            }
        };
        assert_eq!(why_nothing_played(&SinkStats::default(), None, false), None);
        let late = SinkStats {
            late: base(423),
            late_ms: Some(LateMs {
                p50: 12.0,
                p99: 61.5,
            }),
            ..SinkStats::default()
        };
        says(
            &late,
            Some(Span::ZERO),
            &[
                "after its time, by 12 ms",
                "playout delay of 0 ms",
                "--playout 72ms",
            ],
        );
        says(&late, None, &["--delay-max", "62 ms longer"]);
        // A path that takes longer than a source that is late by less.
        let source = |ms| SinkStats {
            source_late_ms: Some(ms),
            ..late.clone()
        };
        says(&source(50.0), None, &["--delay-max", "62 ms longer"]);
        for playout in [None, Some(Span::ZERO)] {
            says(
                &source(640.0),
                playout,
                &["source itself 640 ms after", "encoder is too slow"],
            );
            let why = why_nothing_played(&source(640.0), playout, false).expect("a cause");
            assert!(
                !why.contains("--delay-max") && !why.contains("--playout"),
                "{why}"
            );
        }
        let by_clock = why_nothing_played(&late, Some(Span::ZERO), true).expect("a cause");
        assert!(by_clock.contains("at least --sync 72ms") && !by_clock.contains("--playout"));
        let cut = SinkStats {
            cut_starts: CutStarts {
                starts: 11,
                bytes: 1_000,
                came: 700,
            },
            ..SinkStats::default()
        };
        says(
            &cut,
            None,
            &["30 % of the bytes of 11 key frames", "--protect-base auto"],
        );
        let full = SinkStats { marked: 5, ..cut };
        says(&full, None, &["a queue on the path was full", "-maxrate"]);
        let lost = SinkStats {
            lost: base(50),
            ..SinkStats::default()
        };
        says(
            &lost,
            Some(Span::ZERO),
            &[
                "50 base-layer frames are lost",
                "--protect-base",
                "--repair auto",
            ],
        );
    }
}
