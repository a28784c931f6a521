use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use layercast_core::{Contract, FlowSpec, Level, Off, QosPolicy, Refusal, Span, Status};
use layercast_media::OutputForm;
use layercast_mets::{PlayoutConfig, SinkConfig, SinkEvent};
use layercast_net::{
    Authorities, Bearer, CancellationToken, Clock, DropGuard, JoinCommand, JoinConfig, JoinEvent,
    Output, Remote, StreamOut, Trust, await_flows, run_join, sink_protection,
};
use layercast_profile::Profile;
use layercast_protect::{Expect, JoinUrl};
use layercast_wire::Carriage;
use tokio::net::lookup_host;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::control::{ControlSocket, keep};
use crate::error::{Error, Result};
use crate::inbox::Inbox;
use crate::management::ManagementSocket;
use crate::media::{MediaHandle, MediaSocket};
use crate::name::{node_id, node_name};
use crate::upcall::{QosEvent, QosSignal, Upcalls, level, of_sink};

/// Frames kept for an application that is slow, some seconds of video.
const FRAMES: usize = 256;
/// What may wait for the task that sorts what the host says.
const EVENTS: usize = 4_096;
/// How long a join may take: the source of the flow may be about to open it.
const FLOW_WITHIN: Span = Span::from_secs(10);
/// How long after this time the answer to a join may come that began within it.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// Pause before a name without an address is looked up again.
const RESOLVE_AGAIN: Duration = Duration::from_millis(250);

/// Joins the flow at `url` with every setting at its default; see [`Join`].
///
/// # Errors
/// As [`Join::connect`].
pub async fn join(url: &str) -> Result<(MediaSocket, ControlSocket, ManagementSocket)> {
    Join::new(url).connect().await
}

/// A group to be joined: what `joinGroup` takes (specs/mets.md 2.2). Only the address is needed:
/// `layercasts://HOST:PORT/FLOW?..` as the source prints it, or `layercast://HOST:PORT/FLOW` in the
/// clear; without `/FLOW` it is the only flow there.
#[derive(Clone, Debug)]
pub struct Join {
    url: String,
    name: Option<String>,
    level: Level,
    policy: Option<QosPolicy>,
    spec: Option<FlowSpec>,
    profile: Option<String>,
    playout: Option<Span>,
    sync: Option<Span>,
    authorities: Option<PathBuf>,
    flow_within: Span,
    registered: bool,
}

/// A joined flow, for as long as a socket of it is there.
#[derive(Debug)]
pub(crate) struct Session {
    pub flow: String,
    pub upstream: Remote,
    pub commands: mpsc::Sender<JoinCommand>,
    pub upcalls: Arc<Upcalls>,
    pub control: Arc<Inbox<Bytes>>,
    ended: watch::Receiver<bool>,
    /// Leaves when the last socket is gone.
    _stop: DropGuard,
}

impl Join {
    /// To be joined at `url`.
    pub fn new(url: impl Into<String>) -> Join {
        Join {
            url: url.into(),
            name: None,
            level: Level::FULL,
            policy: None,
            spec: None,
            profile: None,
            playout: None,
            sync: None,
            authorities: None,
            flow_within: FLOW_WITHIN,
            registered: true,
        }
    }

    /// Name of the member, as the source sees it; unique among those that join by one node.
    pub fn name(mut self, name: impl Into<String>) -> Join {
        self.name = Some(name.into());
        self
    }

    /// The highest level wanted: 0 is the base layer, 1 adds E1, 2 adds E2.
    pub fn level(mut self, level: Level) -> Join {
        self.level = level;
        self
    }

    /// What to do when the level cannot be had, or more could, instead of what the group says.
    pub fn policy(mut self, policy: QosPolicy) -> Join {
        self.policy = Some(policy);
        self
    }

    /// Bounds of delay, jitter and loss of one's own; layers without a rate in it are not wanted.
    pub fn spec(mut self, spec: FlowSpec) -> Join {
        self.spec = Some(spec);
        self
    }

    /// What the user wants of the network: the name of a profile of the program, such as "conferencing", or the path of a file
    /// (docs/src/reference/profiles.md). The member accepts what a source with a profile offers, counters with a value within the
    /// offer, or does not join; [`QosEvent::Agreed`] tells what is agreed.
    pub fn profile(mut self, profile: impl Into<String>) -> Join {
        self.profile = Some(profile.into());
        self
    }

    /// Plays every frame this long after it was sent, instead of after the smallest time that frames keep to but for one in a thousand.
    pub fn playout(mut self, delay: Span) -> Join {
        self.playout = Some(delay);
        self
    }

    /// Plays every frame this long after its time at the source, at the same moment at all members with the same delay, on any host:
    /// the nodes of the path measure their clocks. The path has to take less than this. It replaces [`playout`](Join::playout).
    pub fn sync(mut self, delay: Span) -> Join {
        self.sync = Some(delay);
        self
    }

    /// Believes nodes whose certificates were issued by an authority in this PEM file, where the address
    /// has no fingerprint.
    pub fn authorities(mut self, pem: impl Into<PathBuf>) -> Join {
        self.authorities = Some(pem.into());
        self
    }

    /// How long the join may take: while the name of the host has no address, no node answers there, or the flow is missing;
    /// 10 s by default.
    pub fn flow_within(mut self, span: Span) -> Join {
        self.flow_within = span;
        self
    }

    /// `false`: nothing is joined before [`ManagementSocket::register`].
    pub fn registered(mut self, registered: bool) -> Join {
        self.registered = registered;
        self
    }

    /// Joins: when this returns the base layer is reserved on the whole way.
    ///
    /// # Errors
    /// `EADMIT` with the node, the resource and what is available if the base layer does not fit, or what is offered if the profile
    /// wants more, `EINVAL` for a profile or an address that is none or a flow that is not there in time, `ENET` without an answer in time.
    pub async fn connect(self) -> Result<(MediaSocket, ControlSocket, ManagementSocket)> {
        let (played, frames) = mpsc::channel(FRAMES);
        let session = self.start(Output::Channel(played)).await?;
        let handle = MediaHandle {
            session: Arc::clone(&session),
        };
        let media = MediaSocket { frames, handle };
        let control = ControlSocket {
            session: Arc::clone(&session),
        };
        Ok((media, control, ManagementSocket::of_sink(session)))
    }

    /// Joins, and writes the media to `writer` as one MPEG transport stream, AV1, VP8 and VP9 in IVF, as `layercast join --out -` does:
    /// pictures that refer to a missing one are left out, and it stays legal when the level changes. The writer is dropped at the end
    /// of the flow; the flow is left when both sockets are gone. A writer that does not take its data loses frames.
    ///
    /// # Errors
    /// As [`connect`](Join::connect).
    pub async fn write_to(
        self,
        writer: impl Write + Send + 'static,
    ) -> Result<(ControlSocket, ManagementSocket)> {
        let output = Output::Stream(StreamOut::new(writer, true, OutputForm::Container));
        let session = self.start(output).await?;
        let control = ControlSocket {
            session: Arc::clone(&session),
        };
        Ok((control, ManagementSocket::of_sink(session)))
    }

    /// Joins; the media go to `output`.
    async fn start(self, output: Output) -> Result<Arc<Session>> {
        let until = Instant::now() + duration(self.flow_within);
        let url: JoinUrl = self.url.parse()?;
        let wishes = self.profile.as_deref().map(wishes).transpose()?;
        let protection =
            sink_protection(&url).map_err(|error| Error::invalid("token", error.to_string()))?;
        let upstream = Remote::new(
            resolve(&url.host, until).await?,
            Bearer::new(trust(&url, self.authorities.as_deref())?, url.control),
        );
        let flow = match url.flow {
            Some(flow) => flow,
            None => only_flow(&url.host, &upstream, until).await?,
        };
        let name = self.name.unwrap_or_else(|| node_name("member"));
        let id = node_id();
        let mut sink = SinkConfig::new(&name, id, &flow, Carriage::Datagrams);
        sink.asks_at_once = true;
        sink.level = self.level;
        sink.seed = u64::from(id.0);
        sink.spec = self.spec;
        sink.wishes = wishes;
        sink.registered = self.registered;
        sink.playout = PlayoutConfig {
            delay: self.sync.or(self.playout),
            ..PlayoutConfig::live()
        };
        sink.follows_clock = self.sync.is_some();
        sink.policy = self.policy.unwrap_or_default();
        sink.protection = Some(protection);

        let (commands, queue) = mpsc::channel(64);
        let config = JoinConfig {
            output,
            start_within: Some(left(until)),
            link_name: self.url,
            commands: Some(queue),
            repair: true,
            ..JoinConfig::new(upstream.clone(), sink, Clock::get().now())
        };
        let stop = CancellationToken::new();
        let (ending, ended) = watch::channel(false);
        let (events, heard) = mpsc::channel(EVENTS);
        let session = Arc::new(Session {
            flow,
            upstream,
            commands,
            upcalls: Arc::default(),
            control: Arc::default(),
            ended,
            _stop: stop.clone().drop_guard(),
        });
        let (joined, mut answer) = oneshot::channel();
        let sorter = Sorter {
            upcalls: Arc::clone(&session.upcalls),
            control: Arc::clone(&session.control),
            joined: Some(joined),
        };
        tokio::spawn(sorter.run(heard));
        let running = async move {
            let outcome = run_join(config, stop, events, &mut Off).await;
            let _ = ending.send(true);
            outcome.map_err(|failure| failure.error)
        };
        let task = tokio::spawn(running);
        if self.registered {
            match timeout_at(until + ANSWER_WITHIN, &mut answer).await {
                Ok(Ok(Ok(()))) => {}
                Ok(Ok(Err(refusal))) => return Err(refusal.into()),
                Err(_) => return Err(Status::TimedOut.into()),
                // It ended before: the task knows why.
                Ok(Err(_)) => {
                    return Err(match task.await {
                        Ok(Err(error)) => error.into(),
                        _ => Status::Closed.into(),
                    });
                }
            }
        }
        Ok(session)
    }
}

impl Session {
    /// Waits until the flow is left or over.
    pub async fn ended(&self) {
        let mut ended = self.ended.clone();
        // An error: the sender of the notification is gone.
        let _ = ended.wait_for(|&ended| ended).await;
    }
}

/// Hands what a receiving host says to the sockets it is for.
struct Sorter {
    upcalls: Arc<Upcalls>,
    control: Arc<Inbox<Bytes>>,
    joined: Option<oneshot::Sender<Result<(), Refusal>>>,
}

impl Sorter {
    async fn run(mut self, mut heard: mpsc::Receiver<JoinEvent>) {
        while let Some(event) = heard.recv().await {
            self.sort(event);
        }
        self.upcalls.inbox.close();
        self.control.close();
    }

    fn sort(&mut self, event: JoinEvent) {
        let signal = match event {
            JoinEvent::Joined(_) if self.joined.is_none() => QosSignal::Event(QosEvent::Rejoined),
            JoinEvent::Joined(_) => return self.answer(Ok(())),
            // Before, the join itself fails or is still tried.
            JoinEvent::Disconnected { reason } if self.joined.is_none() => {
                QosSignal::Event(QosEvent::NodeLost { reason })
            }
            JoinEvent::Refused(refusal) => {
                self.answer(Err(refusal.clone()));
                QosSignal::Event(QosEvent::AdmitFailed { refusal })
            }
            JoinEvent::Level { from, to } => level(from, to),
            JoinEvent::Sink(SinkEvent::Control(message)) => {
                return keep(&self.control, message);
            }
            JoinEvent::Sink(event) => match of_sink(event) {
                Some(signal) => signal,
                None => return,
            },
            JoinEvent::Closed { undelivered } => {
                QosSignal::Event(QosEvent::GroupClosed { undelivered })
            }
            JoinEvent::Connected { .. }
            | JoinEvent::NotInGroup { .. }
            | JoinEvent::NoSuchFlow { .. }
            | JoinEvent::Disconnected { .. }
            | JoinEvent::Renewed { .. }
            | JoinEvent::Advertised(_)
            | JoinEvent::GaveUp { .. }
            | JoinEvent::Unexplained { .. }
            | JoinEvent::Zone(_)
            | JoinEvent::Second(_)
            | JoinEvent::Counted(_) => return,
        };
        self.upcalls.push(signal);
    }

    fn answer(&mut self, outcome: Result<(), Refusal>) {
        if let Some(joined) = self.joined.take() {
            let _ = joined.send(outcome);
        }
    }
}

/// How the node at `url` is known to be the right one; `None` in the clear.
fn trust(url: &JoinUrl, authorities: Option<&Path>) -> Result<Option<Trust>> {
    Ok(match (url.protected, url.expect, authorities) {
        (false, _, _) => None,
        (true, Some(Expect::Node(fingerprint)), _) => Some(Trust::Node(fingerprint)),
        (true, Some(Expect::Anyone), _) => Some(Trust::Anyone),
        (true, None, Some(pem)) => {
            let host = url.host.rsplit_once(':').map_or("", |(host, _)| host);
            Some(Trust::Authorities(Authorities::from_pem(pem, host)?))
        }
        (true, None, None) => {
            let problem = "has no fingerprint (fp=), and no authority is named to believe";
            return Err(Error::invalid("address", problem));
        }
    })
}

/// The first address of HOST:PORT. A name without one is looked up again: a container or a host may be about to start.
async fn resolve(host: &str, until: Instant) -> Result<SocketAddr> {
    let mut last = None;
    loop {
        let source = match timeout_at(until, lookup_host(host)).await {
            Ok(Ok(mut found)) => match found.next() {
                Some(addr) => return Ok(addr),
                None => io::Error::other("it has no address"),
            },
            Ok(Err(error)) => error,
            Err(_) => last
                .take()
                .unwrap_or_else(|| io::ErrorKind::TimedOut.into()),
        };
        if Instant::now() >= until {
            let host = host.to_owned();
            return Err(Error::Host { host, source });
        }
        last = Some(source);
        sleep_until(until.min(Instant::now() + RESOLVE_AGAIN)).await;
    }
}

/// What the profile of a name, or in a file, wants of the network.
pub(crate) fn wishes(what: &str) -> Result<Contract> {
    let profile = match Profile::preset(what) {
        Some(preset) => preset,
        None => {
            let text = std::fs::read_to_string(what)
                .map_err(|error| Error::invalid("profile", format!("{what}: {error}")))?;
            Profile::from_toml(&text)
                .map_err(|error| Error::invalid("profile", format!("{what}: {error}")))?
        }
    };
    let contract = profile.contract();
    contract.map_err(|error| Error::invalid("profile", format!("{what}: {error}")))
}

fn duration(span: Span) -> Duration {
    Duration::from_secs_f64(span.as_secs_f64())
}

/// What is left of the time.
fn left(until: Instant) -> Span {
    Span::from_secs_f64(
        until
            .saturating_duration_since(Instant::now())
            .as_secs_f64(),
    )
}

/// The name of the flow, where there is only one to choose.
async fn only_flow(host: &str, node: &Remote, until: Instant) -> Result<String> {
    let flows = await_flows(node.clone(), duration(left(until)), |_| ()).await?;
    match flows.as_slice() {
        [flow] => Ok(flow.name.clone()),
        many => Err(Error::WhichFlow {
            host: host.to_owned(),
            flows: many.iter().map(|flow| flow.name.clone()).collect(),
        }),
    }
}
