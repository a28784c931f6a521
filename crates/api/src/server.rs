use std::collections::HashMap;
use std::fmt;
use std::io::Read;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use layercast_core::{NodeId, Off, Status};
use layercast_link::QueueConfig;
use layercast_mets::SourceEvent;
use layercast_mets::switch::{PortConfig, SwitchConfig};
use layercast_net::{
    CancellationToken, Control, DropGuard, Identity, LiveOptions, Means, NetError, Node,
    NodeCommand, NodeConfig, NodeEvent, NodeSummary, outward, random_seed,
};
use layercast_protect::{Expect, JoinUrl, Seed};
use layercast_wire::Member;
use tokio::net::{ToSocketAddrs, lookup_host};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::control::keep;
use crate::error::{Error, Result};
use crate::group::{Group, OpenGroup};
use crate::inbox::Inbox;
use crate::name::{node_id, node_name};
use crate::stream::OpenStream;
use crate::upcall::{QosEvent, QosSignal, Upcalls, of_source};

/// The queue of a port without a rate, in cells: never the bottleneck.
const QUEUE: u32 = 1 << 20;
/// What may wait for the task that sorts what the node says.
const EVENTS: usize = 4_096;

/// A host with sources: it takes members, directly or by switches, and its groups are open to them.
///
/// Runs as a task of the tokio runtime it was bound in. When it is dropped it stops by itself: its
/// flows are closed in order.
pub struct Server {
    running: Arc<Running>,
    stop: CancellationToken,
    task: JoinHandle<Result<NodeSummary, NetError>>,
}

/// What the groups of a server know of it.
pub(crate) struct Running {
    pub name: String,
    pub id: NodeId,
    pub commands: mpsc::Sender<NodeCommand>,
    address: SocketAddr,
    /// What it is known by, if its links are protected.
    identity: Option<Arc<Identity>>,
    /// What carries its control if they are not.
    control: Control,
    groups: Arc<Groups>,
    /// Stops the node with its last user.
    _stop: DropGuard,
}

type Groups = Mutex<HashMap<String, Watched>>;

/// Where what is said of a group goes.
#[derive(Clone, Default)]
pub(crate) struct Watched {
    pub upcalls: Arc<Upcalls>,
    pub control: Arc<Inbox<(Member, Bytes)>>,
    /// How many have joined.
    pub members: watch::Sender<u32>,
    /// The flow is over.
    pub over: watch::Sender<bool>,
}

impl Server {
    /// Listens on `address`; port 0 lets the system choose.
    ///
    /// Its links are protected (QUIC, sealed datagrams): it makes itself an identity, and members know
    /// it by the fingerprint in [`OpenGroup::url`]. For an identity that outlives the program, or links
    /// in the clear, see [`run`](Server::run). Links that leave the machine follow what their path carries.
    ///
    /// # Errors
    /// The address is in use, or not one of this machine.
    pub async fn bind(address: impl ToSocketAddrs) -> Result<Server> {
        let config = configured(address, Identity::generate()?).await?;
        Server::run(config).await
    }

    /// Listens as [`bind`](Server::bind) does, for live streams: it is known by `identity`, so that URLs stay the same as
    /// long as that is kept, and a member that joins between two key frames gets the pictures since the last one, and so
    /// shows one immediately.
    ///
    /// # Errors
    /// As [`bind`](Server::bind).
    pub async fn bind_live(address: impl ToSocketAddrs, identity: Identity) -> Result<Server> {
        let mut config = configured(address, identity).await?;
        config.switch.fast_start = true;
        Server::run(config).await
    }

    /// Runs a node with settings of one's own: links and their rates, upstream neighbours, identity.
    /// Its commands are set here.
    ///
    /// # Errors
    /// As [`bind`](Server::bind).
    pub async fn run(mut config: NodeConfig) -> Result<Server> {
        let (commands, queue) = mpsc::channel(64);
        config.commands = Some(queue);
        let (name, id) = (config.switch.name.clone(), config.switch.id);
        let (identity, control) = (config.identity.clone(), config.control);
        let node = Node::bind(config).await?;
        let groups = Arc::new(Groups::default());
        let stop = CancellationToken::new();
        let (events, heard) = mpsc::channel(EVENTS);
        let running = Arc::new(Running {
            name,
            id,
            commands,
            address: node.local_addr(),
            identity,
            control,
            groups: Arc::clone(&groups),
            _stop: stop.clone().drop_guard(),
        });
        tokio::spawn(sort(heard, groups));
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { node.run(stop, events, &mut Off).await }
        });
        Ok(Server {
            running,
            stop,
            task,
        })
    }

    /// Opens a group (`openGroup`).
    ///
    /// # Errors
    /// `EINVAL` if there is one of that name, or if its specification makes no sense.
    pub async fn open_group(&self, group: Group) -> Result<OpenGroup> {
        OpenGroup::open(group, Arc::clone(&self.running)).await
    }

    /// Opens a group of a live stream: an MPEG transport stream that `reader` gives, at its own pace, as
    /// `layercast serve -` reads it. A read may block. The group is advertised once what it needs is known, after some
    /// seconds of media, and renegotiated where later media take more; [`Group::spec`], [`Group::composition`] and
    /// [`Group::frame_rate`] are not used.
    ///
    /// # Errors
    /// `EINVAL` if there is a group of that name; the system gives no thread.
    pub fn serve_stream(
        &self,
        group: Group,
        options: LiveOptions,
        reader: impl Read + Send + 'static,
    ) -> Result<OpenStream> {
        OpenStream::open(group, options, reader, Arc::clone(&self.running))
    }

    /// Whether a group of it, or a socket of one, is open: then it continues without this handle.
    pub fn has_groups(&self) -> bool {
        Arc::strong_count(&self.running) > 1
    }

    /// Where neighbours reach it.
    pub fn local_addr(&self) -> SocketAddr {
        self.running.address
    }

    /// Its name among the nodes.
    pub fn name(&self) -> &str {
        &self.running.name
    }

    /// Stops: flows that are open are closed in order, within 2 s. Says what the node did.
    ///
    /// # Errors
    /// The system refused sockets or timers meanwhile.
    pub async fn close(self) -> Result<NodeSummary> {
        self.stop.cancel();
        match self.task.await {
            Ok(summary) => Ok(summary?),
            Err(_) => Err(Status::Closed.into()),
        }
    }
}

/// A host with sources that is known by `identity`.
async fn configured(address: impl ToSocketAddrs, identity: Identity) -> Result<NodeConfig> {
    let host = |source| Error::Host {
        host: "the address to listen on".into(),
        source,
    };
    let none = || std::io::Error::other("it has no address");
    let mut found = lookup_host(address).await.map_err(host)?;
    let address = found.next().ok_or_else(|| host(none()))?;
    let switch = SwitchConfig {
        name: node_name("server"),
        id: node_id(),
        ..SwitchConfig::default()
    };
    let port = PortConfig {
        queue: QueueConfig {
            efci_on: QUEUE / 2,
            efci_off: QUEUE / 4,
            ..QueueConfig::of_limit(QUEUE)
        },
        ..PortConfig::default()
    };
    let mut config = NodeConfig::new(switch, address, port);
    config.identity = Some(Arc::new(identity));
    config.repair = Some(Means::Auto);
    config.estimate_elsewhere = true;
    Ok(config)
}

impl Running {
    /// Where what is said of the group `name` shall go from now on.
    pub fn watch(&self, name: &str) -> Result<Watched> {
        let mut groups = lock(&self.groups);
        if groups.contains_key(name) {
            return Err(Error::invalid(
                "name",
                format!("{name:?} is open here already"),
            ));
        }
        let watched = Watched::default();
        groups.insert(name.to_owned(), watched.clone());
        Ok(watched)
    }

    /// Removes the listener for events of the group `name`.
    pub fn forget(&self, name: &str) {
        lock(&self.groups).remove(name);
    }

    /// The secret that a source here signs with: as lasting as the identity of the host.
    pub fn source_seed(&self) -> Seed {
        let own = self.identity.as_ref();
        own.map_or_else(random_seed, |own| own.source_seed())
    }

    /// What a sink joins the flow `name` with, if it knows this machine as `host`.
    pub fn url(&self, name: &str, host: Option<&str>) -> JoinUrl {
        let host = match host {
            Some(host) => format!("{host}:{}", self.address.port()),
            None => SocketAddr::new(outward(self.address.ip()), self.address.port()).to_string(),
        };
        let own = self.identity.as_ref();
        JoinUrl {
            protected: own.is_some(),
            control: self.control,
            host,
            flow: Some(name.to_owned()),
            expect: own.map(|own| Expect::Node(own.fingerprint())),
            source: None,
            token: None,
        }
    }
}

fn lock(groups: &Groups) -> MutexGuard<'_, HashMap<String, Watched>> {
    // Nothing panics while it holds the lock; the table is whole in any case.
    groups.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hands what a node says to the groups it is about, until the node ends.
async fn sort(mut heard: mpsc::Receiver<NodeEvent>, groups: Arc<Groups>) {
    while let Some(event) = heard.recv().await {
        let (flow, event) = match event {
            NodeEvent::Source { flow, event } => (flow, Ok(event)),
            NodeEvent::Target { flow, rate, .. } => (flow, Err(QosEvent::TargetRate { rate })),
            _ => continue,
        };
        let Some(watched) = lock(&groups).get(&flow).cloned() else {
            continue;
        };
        match event {
            Ok(event) => watched.tell(event),
            Err(event) => watched.upcalls.push(QosSignal::Event(event)),
        }
    }
    for watched in lock(&groups).values() {
        watched.end();
    }
}

impl Watched {
    fn tell(&self, event: SourceEvent) {
        match &event {
            SourceEvent::MemberJoined(_) => self.members.send_modify(|members| *members += 1),
            SourceEvent::MemberLeft(_) => {
                self.members
                    .send_modify(|members| *members = members.saturating_sub(1));
            }
            _ => {}
        }
        match event {
            SourceEvent::Control { member, message } => keep(&self.control, (member, message)),
            event => {
                let over = matches!(event, SourceEvent::Finished { .. });
                if let Some(signal) = of_source(event) {
                    self.upcalls.push(signal);
                }
                if over {
                    self.end();
                }
            }
        }
    }

    fn end(&self) {
        self.over.send_replace(true);
        self.upcalls.inbox.close();
        self.control.close();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("name", &self.running.name)
            .field("address", &self.running.address)
            .finish_non_exhaustive()
    }
}
