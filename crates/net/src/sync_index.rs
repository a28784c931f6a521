//! Drives the ends of a synchronous train over UDP sockets (specs/available-bandwidth.md 2.1).

use std::net::SocketAddr;

use layercast_core::{Rate, Span, Time, earliest};
use layercast_sync_index::{
    ConfigError, EstimatorConfig, Event, Ignored, ProbeConfig, ProbeReceiver, ProbeSender,
    ReceiverEvent, RtpTrain, SenderEvent, SenderStats,
};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::error::NetError;
use crate::multicast::Tokens;
use crate::random::random_number;
use crate::stamped::StampedUdp;
use crate::timer::Timer;

/// Why a path cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// The system refuses a socket or a timer.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The train or its estimate cannot be configured so.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// Datagrams that are read before the next look at timers and signals.
const TURN: usize = 64;

/// What a loop over a socket waits for.
async fn wait(
    timer: &mut Timer,
    due: Option<Time>,
    socket: &StampedUdp,
    shutdown: &CancellationToken,
) -> Result<(), NetError> {
    timer
        .arm(due)
        .map_err(NetError::system("setting a timer"))?;
    tokio::select! {
        expired = timer.expired() => expired.map_err(NetError::system("waiting for a timer"))?,
        // An error of the socket is one that another host caused: reading clears it.
        _ = socket.readable() => {}
        () = shutdown.cancelled() => {}
    }
    Ok(())
}

fn timer() -> Result<Timer, NetError> {
    Timer::new().map_err(NetError::system("creating a timer"))
}

/// Sends a synchronous train to a [`PathReceiver`].
#[derive(Debug)]
pub struct PathSender {
    socket: StampedUdp,
    to: SocketAddr,
    config: ProbeConfig,
}

impl PathSender {
    /// Takes a socket; session and key of `config` are replaced by random ones. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The configuration is refused, or there is no socket.
    pub fn bind(to: SocketAddr, mut config: ProbeConfig) -> Result<PathSender, PathError> {
        config.check()?;
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        config.session = random_number() as u32;
        config.key = random_number();
        Ok(PathSender {
            socket: StampedUdp::bind(any.parse().expect("an address"))?,
            to,
            config,
        })
    }

    /// Calls the receiver and sends the train, until it is over, or `shutdown`; calls `told` with each event.
    ///
    /// # Errors
    /// The system refuses timers.
    pub async fn run(
        mut self,
        shutdown: CancellationToken,
        mut told: impl FnMut(SenderEvent),
    ) -> Result<SenderStats, PathError> {
        let clock = Clock::get();
        let mut timer = timer()?;
        let mut machine = ProbeSender::new(self.config, clock.now())?;
        loop {
            let now = clock.now();
            timer.served(now);
            if shutdown.is_cancelled() {
                machine.stop();
            }
            for _ in 0..TURN {
                let Some((at, _, datagram)) = self.socket.try_receive() else {
                    break;
                };
                // From any address, since a host may answer from another one: the key proves the receiver. A bad datagram is
                // counted.
                let _ = machine.handle_datagram(at.max(now), datagram);
            }
            machine.on_timeout(now);
            // The present instant again: a probe that leaves later than its slot is flagged.
            while let Some(datagram) = machine.poll_transmit(clock.now()) {
                self.socket.send(self.to, &datagram).await;
            }
            while let Some(event) = machine.poll_event() {
                told(event);
            }
            if machine.is_over() {
                return Ok(machine.stats());
            }
            wait(&mut timer, machine.next_timeout(), &self.socket, &shutdown).await?;
        }
    }
}

/// Measures the trains of several [`PathSender`]s.
#[derive(Debug)]
pub struct PathReceiver {
    socket: StampedUdp,
    machine: ProbeReceiver<SocketAddr>,
}

impl PathReceiver {
    /// Listens at an address. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The configuration or the address is refused.
    pub fn bind(
        local: SocketAddr,
        config: EstimatorConfig,
        capacity: Option<Rate>,
    ) -> Result<PathReceiver, PathError> {
        let machine = ProbeReceiver::new(config, capacity)?;
        let socket = StampedUdp::bind(local)?;
        Ok(PathReceiver { socket, machine })
    }

    /// The address at which it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.socket.local_addr()
    }

    /// Measures until `shutdown`; calls `told` with each event and its instant, and `at_least` as often as it says: it gets
    /// the present instant and gives the next one.
    ///
    /// # Errors
    /// The system refuses timers.
    pub async fn run(
        mut self,
        shutdown: CancellationToken,
        mut told: impl FnMut(Time, SocketAddr, ReceiverEvent),
        mut at_least: impl FnMut(Time) -> Option<Time>,
    ) -> Result<Ignored, PathError> {
        let clock = Clock::get();
        let mut timer = timer()?;
        let tokens = Tokens::new();
        loop {
            let now = clock.now();
            timer.served(now);
            let stops = shutdown.is_cancelled();
            if stops {
                self.machine.stop();
            }
            for _ in 0..TURN {
                let resolution = self.socket.resolution();
                let Some((at, from, datagram)) = self.socket.try_receive() else {
                    break;
                };
                self.machine.set_resolution(resolution);
                // A bad datagram is counted.
                let _ = self.machine.handle(at, from, tokens.of(from, 0), datagram);
            }
            let now = clock.now();
            self.machine.on_timeout(now);
            while let Some((to, datagram)) = self.machine.poll_transmit() {
                self.socket.send(to, &datagram).await;
            }
            while let Some((from, event)) = self.machine.poll_event() {
                told(now, from, event);
            }
            if stops {
                return Ok(self.machine.ignored());
            }
            let due = earliest(self.machine.next_timeout(), at_least(now));
            wait(&mut timer, due, &self.socket, &shutdown).await?;
        }
    }
}

/// Measures the path of an RTP flow of constant spacing that a program sends to this host.
#[derive(Debug)]
pub struct RtpPath {
    socket: StampedUdp,
    train: RtpTrain,
}

impl RtpPath {
    /// Listens at an address for a flow with a packet each `period` and a media clock of `clock_hz`. Must be called within a
    /// tokio runtime.
    ///
    /// # Errors
    /// The configuration or the address is refused.
    pub fn bind(
        local: SocketAddr,
        config: EstimatorConfig,
        period: Span,
        clock_hz: u32,
    ) -> Result<RtpPath, PathError> {
        let train = RtpTrain::new(config, period, clock_hz)?;
        let socket = StampedUdp::bind(local)?;
        Ok(RtpPath { socket, train })
    }

    /// The address at which it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.socket.local_addr()
    }

    /// Measures until `shutdown`, as [`PathReceiver::run`]; gives the packets that were of no use.
    ///
    /// # Errors
    /// The system refuses timers.
    pub async fn run(
        mut self,
        shutdown: CancellationToken,
        mut told: impl FnMut(Time, Event),
        mut at_least: impl FnMut(Time) -> Option<Time>,
    ) -> Result<u64, PathError> {
        let clock = Clock::get();
        let mut timer = timer()?;
        let mut ignored = 0;
        loop {
            timer.served(clock.now());
            for _ in 0..TURN {
                let Some((at, _, datagram)) = self.socket.try_receive() else {
                    break;
                };
                ignored += u64::from(self.train.handle(at, datagram).is_err());
            }
            let now = clock.now();
            let estimator = self.train.estimator();
            estimator.on_timeout(now);
            while let Some(event) = estimator.poll_event() {
                told(now, event);
            }
            if shutdown.is_cancelled() {
                return Ok(ignored);
            }
            let due = earliest(estimator.next_timeout(), at_least(now));
            wait(&mut timer, due, &self.socket, &shutdown).await?;
        }
    }
}
