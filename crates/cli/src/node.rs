//! What `serve`, `switch` and `join` have in common: the runtime, stopping, and the place in a
//! scenario that a child of `layercast demo` takes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, stdin};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use layercast_core::Time;
use layercast_mets::switch::PortConfig;
use layercast_net::{
    Bearer, Clock, Connect, Control, Fingerprint, Frames, Identity, LocalSource, Neighbour,
    NodeConfig, Remote, Trust, clock_name, flow_epoch,
};
use layercast_sim::scenario::Network;
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::time::{Duration, sleep};
use tokio_util::sync::CancellationToken;

use crate::address;
use crate::args::Role;
use crate::failure::{Failure, Outcome};
use crate::scenario::{self, Override};
use crate::signals;

/// File descriptors that a command opens before it does anything: runtime, signals, sockets, timers.
const DESCRIPTORS: usize = 16;

/// Checks that there are file descriptors enough: parts of the runtime cannot report that there are none.
pub fn check_descriptors() -> Result<(), Failure> {
    let opened: Result<Vec<File>, std::io::Error> =
        (0..DESCRIPTORS).map(|_| File::open("/dev/null")).collect();
    opened.map(drop).map_err(|error| {
        let limit = getrlimit(Resource::Nofile).current;
        let limit = limit.map_or("no limit".to_owned(), |limit| format!("a limit of {limit}"));
        let what = format!("cannot open the file descriptors that a node needs ({limit}): {error}");
        Failure::new(what).hint("raise the limit (ulimit -n 1024), or close other programs")
    })
}

/// A runtime on this thread: one core per node is what a soft switch gets.
///
/// # Errors
/// There are too few file descriptors, or the system refuses timers.
pub fn runtime() -> Result<Runtime, Failure> {
    check_descriptors()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.map_err(|error| Failure::new(format!("cannot start the runtime: {error}")))
}

/// Asks a node to stop: on Ctrl-C, on SIGTERM, or when the parent of a demo child is gone.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// Cancelled when it is time to stop.
    pub token: CancellationToken,
    interrupted: Arc<AtomicBool>,
}

impl Stop {
    /// Begins to listen for signals ([`signals::on_first`]).
    pub fn listen() -> Result<Stop, Failure> {
        let stop = Stop::default();
        let listener = stop.clone();
        signals::on_first(move || {
            listener.interrupted.store(true, Ordering::Relaxed);
            listener.token.cancel();
        })?;
        Ok(stop)
    }

    /// How a command ends that was stopped or came to its end.
    pub fn outcome(&self) -> Outcome {
        match self.interrupted.load(Ordering::Relaxed) {
            true => Err(Failure::Interrupted),
            false => Ok(()),
        }
    }
}

/// The place of a process in a scenario.
pub struct Place {
    /// The scenario, resolved as the simulator resolves it.
    pub network: Network,
    /// What was prepared for each process.
    entries: BTreeMap<String, Entry>,
}

/// What the parent of the children of a demo prepares for each of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Where it listens, if it does.
    pub address: Option<SocketAddr>,
    /// How its links are protected, if they are.
    pub link: Link,
}

/// The links of a process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// Protected.
    Protected {
        /// By what others know it.
        fingerprint: Fingerprint,
        /// The file with its certificate and key.
        identity: PathBuf,
    },
    /// In the clear.
    Clear(Control),
}

impl Place {
    /// Reads what `role` points to.
    pub fn load(role: &Role) -> Result<Option<Place>, Failure> {
        let (Some(scenario_file), Some(addresses_file)) = (&role.scenario, &role.addresses) else {
            return Ok(None);
        };
        let text = scenario::read(scenario_file)?;
        let named = (scenario_file.as_path(), &*text);
        let scenario = scenario::load(named, Override::default())?;
        let network = scenario::resolve(named, &scenario)?;
        let text = scenario::read(addresses_file)?;
        let entries = serde_json::from_str(&text)
            .map_err(|error| Failure::new(format!("{}: {error}", addresses_file.display())))?;
        Ok(Some(Place { network, entries }))
    }

    fn entry(&self, name: &str) -> Result<&Entry, Failure> {
        let entry = self.entries.get(name);
        entry.ok_or_else(|| Failure::new(format!("no entry for {name}")))
    }

    /// Where `node` listens.
    fn address(&self, node: usize) -> Result<SocketAddr, Failure> {
        let name = &self.network.nodes[node].name;
        let address = self.entry(name)?.address;
        address.ok_or_else(|| Failure::new(format!("no address for node {name}")))
    }

    /// How to call `node`.
    pub fn remote(&self, node: usize) -> Result<Remote, Failure> {
        let bearer = match &self.entry(&self.network.nodes[node].name)?.link {
            Link::Protected { fingerprint, .. } => Bearer::Quic(Trust::Node(*fingerprint)),
            Link::Clear(control) => Bearer::new(None, *control),
        };
        Ok(Remote::new(self.address(node)?, bearer))
    }

    /// The identity of the process `name`, if its links are protected.
    pub fn identity(&self, name: &str) -> Result<Option<Arc<Identity>>, Failure> {
        match &self.entry(name)?.link {
            Link::Protected { identity, .. } => {
                address::own(Identity::from_pem(identity, identity)).map(Some)
            }
            Link::Clear(_) => Ok(None),
        }
    }

    /// The runtime configuration of the server or switch `name`, its flows starting at `epoch`
    /// and as the scenario says.
    pub fn node_config(&self, name: &str, epoch: Time) -> Result<NodeConfig, Failure> {
        let unknown = || Failure::new(format!("the scenario has no server or switch {name}"));
        let index = self.network.node(name).ok_or_else(unknown)?;
        let node = &self.network.nodes[index];
        let switch = node.switch.clone().ok_or_else(unknown)?;
        let default_port = PortConfig {
            carriage: self.network.carriage,
            ..PortConfig::default()
        };
        let mut config = NodeConfig::new(switch, self.address(index)?, default_port);
        config.identity = self.identity(name)?;
        if let Link::Clear(control) = self.entry(name)?.link {
            config.control = control;
        }
        config.connect = Connect::Retry;
        config.schedules_from = Some(epoch);
        for &upstream in &node.upstreams {
            config.upstreams.push(self.remote(upstream)?);
        }
        for port in &node.ports {
            let neighbour = Neighbour {
                port: port.config.clone(),
                link: port.out,
            };
            let schedule = &self.network.links[port.link].schedule;
            for name in self.names(port.neighbour) {
                config.schedules.insert(name.clone(), schedule.clone());
                config.ports.insert(name, neighbour.clone());
            }
        }
        for &flow in &node.sources {
            let flow = &self.network.flows[flow];
            let mut source = flow.config.clone();
            source.start = after(epoch, source.start);
            source.flow.clock = clock_name();
            source.flow.epoch = flow_epoch();
            config.sources.push(LocalSource {
                config: source,
                frames: Frames::of(flow.frames()),
                start_when_joined: 0,
            });
        }
        Ok(config)
    }
}

impl Place {
    /// The names under which processes of `node` say hello: a host without a switch is there with
    /// its receivers only.
    fn names(&self, node: usize) -> Vec<String> {
        let node = &self.network.nodes[node];
        if node.switch.is_some() {
            return vec![node.name.clone()];
        }
        let receivers = node.receivers.iter();
        receivers
            .map(|&i| self.network.receivers[i].name.clone())
            .collect()
    }
}

/// Checks before anything starts that the file of an option can be written.
///
/// # Errors
/// As [`layercast_net::check_output`].
pub fn check_output(path: Option<&Path>) -> Outcome {
    let Some(path) = path else { return Ok(()) };
    layercast_net::check_output(path).map_err(|error| Failure::file(path, "write", &error))
}

/// The instant of a run on sockets that is `time` of the scenario.
pub fn after(epoch: Time, time: Time) -> Time {
    epoch.saturating_add(time.since(Time::ZERO))
}

/// Waits until `time`, or until it is time to stop.
pub async fn wait_until(time: Time, stop: &Stop) {
    let wait = time.since(Clock::get().now());
    let wait = Duration::from_nanos(wait.as_ns());
    stop.token.run_until_cancelled(sleep(wait)).await;
}

/// What a child hears from its parent on standard input: first when the scenario starts, then
/// nothing more until it shall stop, which is when the input ends.
///
/// The thread stays in its read when the process ends before its parent does.
pub fn parent(stop: &Stop) -> oneshot::Receiver<Time> {
    let (epoch, begun) = oneshot::channel();
    let token = stop.token.clone();
    thread::spawn(move || {
        let mut lines = stdin().lock().lines();
        if let Some(Ok(line)) = lines.next()
            && let Ok(ns) = line.trim().parse()
        {
            let _ = epoch.send(Clock::get().at_monotonic(ns));
        }
        while let Some(Ok(_)) = lines.next() {}
        token.cancel();
    });
    begun
}
