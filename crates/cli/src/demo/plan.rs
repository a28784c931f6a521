//! Which processes a scenario needs, when what happens to them, and where they listen.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};

use layercast_core::{Media, Span};
use layercast_net::{Control, Identity};
use layercast_sim::scenario::{FaultKind, Network, NodeKind, Scenario};

use crate::failure::Failure;
use crate::node::{Entry, Link};

/// What a process is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Role {
    /// A host with sources.
    Serve,
    /// A switch.
    Switch,
    /// A receiver that writes what it gets to this file.
    Join(PathBuf),
}

/// One process of the demo.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// Node or receiver name.
    pub name: String,
    /// The node it runs on.
    pub node: String,
    /// What it is.
    pub role: Role,
}

/// Something that happens to a node at a time of the scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// When.
    pub at: Span,
    /// To which node.
    pub node: String,
    /// Whether the node starts again.
    pub restart: bool,
}

/// Everything a demo does, in order.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Servers and switches first, then receivers.
    pub processes: Vec<Process>,
    /// Faults by time.
    pub faults: Vec<Fault>,
    /// Length of the run.
    pub duration: Span,
    /// Interval of the adapter in switches, which they keep on the clock and not from their start.
    pub res_interval: Span,
}

impl Plan {
    /// The processes of `scenario`, which means `network`; received streams go to `out`.
    pub fn new(scenario: &Scenario, network: &Network, out: &Path) -> Result<Plan, Failure> {
        let mut processes = Vec::new();
        for node in &scenario.nodes {
            let serves = scenario.flows.iter().any(|flow| flow.source == node.name);
            let role = match node.kind {
                NodeKind::Switch => Role::Switch,
                NodeKind::Host if serves => Role::Serve,
                NodeKind::Host => continue,
            };
            let name = node.name.clone();
            processes.push(Process {
                node: name.clone(),
                name,
                role,
            });
        }
        for receiver in &scenario.receivers {
            let name = receiver.name().to_owned();
            let flow = network.flows.iter().find(|flow| flow.name == receiver.flow);
            let media = flow.map_or(Media::default(), |flow| flow.config.flow.spec.media);
            let file = out.join(format!("{name}.{}", extension(media)));
            if processes.iter().any(|other| other.node == receiver.node) {
                return Err(Failure::new(format!(
                    "receiver {name}: node {} has another process already",
                    receiver.node
                ))
                .hint("the demo runs one process per node: give each receiver a host of its own"));
            }
            let role = Role::Join(file);
            processes.push(Process {
                name,
                node: receiver.node.clone(),
                role,
            });
        }
        if scenario.links.iter().any(|link| link.multicast.is_some()) {
            return Err(Failure::new("the demo has no multicast groups")
                .hint("run this scenario with `layercast sim`; on sockets: `layercast switch --multicast`"));
        }
        let mut faults = Vec::new();
        for fault in &scenario.faults {
            let (FaultKind::Kill | FaultKind::Restart, Some(node)) = (fault.kind, &fault.node)
            else {
                return Err(Failure::new(
                    "faults of links, and nodes that are stopped, cannot be run on sockets",
                )
                .hint("run this scenario with `layercast sim`, or kill a node instead"));
            };
            let restart = fault.kind == FaultKind::Restart;
            faults.push(Fault {
                at: fault.at,
                node: node.clone(),
                restart,
            });
        }
        faults.sort_by_key(|fault| fault.at);
        Ok(Plan {
            processes,
            faults,
            duration: scenario.duration,
            res_interval: scenario.res_interval,
        })
    }

    /// Whether process `who` is a receiver.
    pub fn is_receiver(&self, who: usize) -> bool {
        matches!(self.processes[who].role, Role::Join(_))
    }

    /// Indices of the receivers among the processes.
    pub fn receivers(&self) -> impl Iterator<Item = usize> {
        (0..self.processes.len()).filter(|&who| self.is_receiver(who))
    }

    /// What every process needs to know of the others: a free address on this machine for those that listen,
    /// and an identity for each, its key in a file in `folder`, so that a killed process has the same identity
    /// after a restart; or `clear`, what carries their control without any.
    ///
    /// Another program can still take an address before our process does; the demo then tries others.
    pub fn entries(
        &self,
        folder: &Path,
        clear: Option<Control>,
    ) -> Result<BTreeMap<String, Entry>, Failure> {
        let mut held = Vec::new();
        let mut entries = BTreeMap::new();
        fs::create_dir_all(folder).map_err(|error| Failure::file(folder, "create", &error))?;
        for (index, process) in self.processes.iter().enumerate() {
            let no_port = |error| Failure::new(format!("no free port on 127.0.0.1: {error}"));
            let address = match process.role {
                Role::Join(_) => None,
                Role::Serve | Role::Switch => {
                    let pair = free_pair().map_err(no_port)?;
                    let address = pair.0.local_addr().map_err(no_port)?;
                    held.push(pair);
                    Some(address)
                }
            };
            let link = match clear {
                Some(control) => Link::Clear(control),
                None => {
                    let identity = folder.join(format!("{index}.pem"));
                    let own = Identity::load_or_create(&identity).map_err(Failure::identity)?;
                    let fingerprint = own.fingerprint();
                    Link::Protected {
                        fingerprint,
                        identity,
                    }
                }
            };
            entries.insert(process.name.clone(), Entry { address, link });
        }
        Ok(entries)
    }
}

impl Process {
    /// The command line of this process.
    pub fn args(&self, scenario: &Path, addresses: &Path) -> Vec<String> {
        let (command, own) = match &self.role {
            Role::Serve => ("serve", ["--node", &self.name]),
            Role::Switch => ("switch", ["--node", &self.name]),
            Role::Join(_) => ("join", ["--receiver", &self.name]),
        };
        let mut args = vec![command.to_owned(), "--json".to_owned()];
        args.extend(own.map(str::to_owned));
        for (key, path) in [("--scenario", scenario), ("--addresses", addresses)] {
            args.extend([key.to_owned(), path.display().to_string()]);
        }
        if let Role::Join(file) = &self.role {
            args.extend(["--out".to_owned(), file.display().to_string()]);
        }
        args
    }
}

/// What the name of a file with such media ends in.
pub fn extension(media: Media) -> &'static str {
    match media {
        Media::Mpeg1 => "m1v",
        Media::Mpeg2 => "m2v",
        Media::H264 => "h264",
        Media::H265 => "h265",
        Media::Av1 | Media::Vp8 | Media::Vp9 => "ivf",
        Media::MpegTs => "ts",
        Media::H261 | Media::Audio | Media::Opaque => "raw",
    }
}

/// A TCP and a UDP socket on the same free port of the loopback interface.
fn free_pair() -> std::io::Result<(TcpListener, UdpSocket)> {
    let mut last = None;
    for _ in 0..32 {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        match UdpSocket::bind(tcp.local_addr()?) {
            Ok(udp) => return Ok((tcp, udp)),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| std::io::ErrorKind::AddrInUse.into()))
}

/// What happens in `scenario` after its start, for people: `(seconds, text)`.
pub fn timeline(scenario: &Scenario) -> Vec<(f64, String)> {
    let mut events = Vec::new();
    for flow in &scenario.flows {
        events.push((flow.start, format!("flow {} starts", flow.name)));
        events.extend(flow.stop.map(|at| (at, format!("flow {} ends", flow.name))));
    }
    for receiver in &scenario.receivers {
        let name = receiver.name();
        if receiver.join > Span::ZERO {
            events.push((receiver.join, format!("{name} joins {}", receiver.flow)));
        }
        events.extend(
            receiver
                .leave
                .map(|at| (at, format!("{name} leaves {}", receiver.flow))),
        );
    }
    for fault in &scenario.faults {
        let what = match fault.kind {
            FaultKind::Kill => "is killed",
            FaultKind::Stop => "is stopped",
            FaultKind::Restart => "starts again",
            FaultKind::LinkDown => "goes down",
            FaultKind::LinkUp => "comes up",
        };
        let whom = match (&fault.node, &fault.link) {
            (Some(node), _) => node.clone(),
            (None, Some([a, b])) => format!("link {a}-{b}"),
            (None, None) => continue,
        };
        events.push((fault.at, format!("{whom} {what}")));
    }
    events.retain(|(at, _)| *at < scenario.duration);
    events.sort_by_key(|(at, _)| *at);
    let events = events.into_iter();
    events.map(|(at, text)| (at.as_secs_f64(), text)).collect()
}
