//! `[[attach]]`: hosts that are real programs when the scenario is emulated.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::atm::AtmSpec;
use super::build::Builder;
use super::error::{Problem, ScenarioError};
use super::place::Place;
use super::schema::Scenario;
use crate::internet::components::Components;
use crate::internet::network::{Flow, Generator, MetsNetwork, NodeIndex, Population};

/// A host that is a real program when the scenario is emulated (`layercast emulate`); `layercast sim` leaves it out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachSpec {
    /// The host; no flow and no workload of the scenario may use it.
    pub node: String,
    /// A TUN device (IP), a TAP device (Ethernet), or a path for the datagrams of a program.
    pub kind: AttachKind,
    /// Of TUN and TAP: the name of the network device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Of TUN and TAP: the network namespace that `layercast emulate --namespaces` makes for the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Of UDP: where programs send their datagrams, such as "127.0.0.1:5000".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
    /// Of UDP: the host where datagrams leave the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Of UDP: destination of datagrams that leave the network, such as "127.0.0.1:6000".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<SocketAddr>,
}

/// How programs are attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AttachKind {
    /// A network device that takes IP packets.
    Tun,
    /// A network device that takes Ethernet frames.
    Tap,
    /// Two sockets: datagrams to the first cross the network, and leave from the second.
    Udp,
}

/// A host that is real programs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attachment {
    /// The host.
    pub node: NodeIndex,
    /// Largest IP packet of its link.
    pub mtu: u32,
    /// How the programs are attached.
    pub to: Attached,
}

impl Attachment {
    /// The hosts that are real programs.
    pub fn nodes(&self) -> impl Iterator<Item = NodeIndex> {
        let other = match self.to {
            Attached::Path { to, .. } => Some(to),
            Attached::Device { .. } => None,
        };
        std::iter::once(self.node).chain(other)
    }
}

/// What real programs use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Attached {
    /// A network device.
    Device {
        /// Its name.
        name: String,
        /// Where it is, if it gets a namespace.
        namespace: Option<String>,
        /// Whether it takes Ethernet frames.
        is_tap: bool,
    },
    /// Two sockets.
    Path {
        /// Where programs send.
        listen: SocketAddr,
        /// The host where their datagrams leave.
        to: NodeIndex,
        /// Where they go from there.
        forward: SocketAddr,
    },
}

/// Longest name of a network device, in bytes (IFNAMSIZ of Linux, with its end).
const MAX_DEVICE: usize = 15;

/// Most attachments.
const MAX_ATTACHMENTS: u64 = 200;

/// The attachments of a scenario.
pub(super) fn attachments(
    scenario: &Scenario,
    network: &Builder<'_>,
    sets: &mut Components,
) -> Result<Vec<Attachment>, ScenarioError> {
    let count = scenario.attach.len() as u64;
    if count > MAX_ATTACHMENTS {
        let (what, most) = ("attachments", MAX_ATTACHMENTS);
        let problem = Problem::TooMany { what, count, most };
        return Err(ScenarioError::new("attach", problem));
    }
    let mut known = Known::default();
    let mut attachments = Vec::new();
    for (i, spec) in scenario.attach.iter().enumerate() {
        let place = Place::nth("attach", i);
        let node = network.host_called(&place.field("node"), &spec.node)?;
        let to = match spec.kind {
            AttachKind::Tun | AttachKind::Tap => known.device(place, spec, node)?,
            AttachKind::Udp => known.path(place, spec, node, network, sets)?,
        };
        let mtu = mtu_of(network, node, scenario.atm.as_ref());
        attachments.push(Attachment { node, mtu, to });
    }
    Ok(attachments)
}

/// What attachments have already.
#[derive(Default)]
struct Known {
    /// Hosts, and whether they are devices.
    nodes: BTreeMap<NodeIndex, (bool, Place)>,
    devices: BTreeMap<(Option<String>, String), Place>,
    listeners: BTreeMap<SocketAddr, Place>,
    ports: BTreeMap<(NodeIndex, u16), Place>,
}

impl Known {
    fn device(
        &mut self,
        place: Place,
        spec: &AttachSpec,
        node: NodeIndex,
    ) -> Result<Attached, ScenarioError> {
        for (name, given) in [
            ("listen", spec.listen.is_some()),
            ("to", spec.to.is_some()),
            ("forward", spec.forward.is_some()),
        ] {
            needless(place, name, given, "it is for kind = \"udp\"")?;
        }
        let device = needed(place, "device", &spec.device, "such as device = \"lc0\"")?;
        file_name(&place.field("device"), device, MAX_DEVICE)?;
        if let Some(namespace) = &spec.namespace {
            file_name(&place.field("namespace"), namespace, 64)?;
        }
        let key = (spec.namespace.clone(), device.clone());
        once(
            &mut self.devices,
            key,
            place,
            "device",
            "the device",
            device,
        )?;
        self.host(place, "node", node, true, &spec.node)?;
        Ok(Attached::Device {
            name: device.clone(),
            namespace: spec.namespace.clone(),
            is_tap: spec.kind == AttachKind::Tap,
        })
    }

    fn path(
        &mut self,
        place: Place,
        spec: &AttachSpec,
        node: NodeIndex,
        network: &Builder<'_>,
        sets: &mut Components,
    ) -> Result<Attached, ScenarioError> {
        for (name, given) in [
            ("device", spec.device.is_some()),
            ("namespace", spec.namespace.is_some()),
        ] {
            needless(place, name, given, "it is for kind = \"tun\" or \"tap\"")?;
        }
        let such = "such as listen = \"127.0.0.1:5000\"";
        let listen = *needed(place, "listen", &spec.listen, such)?;
        let name = needed(place, "to", &spec.to, "the host where the datagrams leave")?;
        let such = "such as forward = \"127.0.0.1:6000\"";
        let forward = *needed(place, "forward", &spec.forward, such)?;
        let to = network.host_called(&place.field("to"), name)?;
        if to == node {
            let accepted = "another host than node";
            return Err(ScenarioError::value(place.field("to"), name, accepted));
        }
        if !sets.same(node.0, to.0) {
            let (from, to) = (spec.node.clone(), name.clone());
            let problem = Problem::NoPath { from, to };
            return Err(ScenarioError::new(place.field("to"), problem));
        }
        let is_somewhere = forward.port() != 0 && !forward.ip().is_unspecified();
        if !is_somewhere || forward == listen {
            let accepted = "the address and port of a program, such as \"127.0.0.1:6000\"";
            return Err(ScenarioError::value(
                place.field("forward"),
                forward,
                accepted,
            ));
        }
        if listen.port() != 0 {
            once(
                &mut self.listeners,
                listen,
                place,
                "listen",
                "the address",
                listen,
            )?;
        }
        let (key, port) = ((to, forward.port()), forward.port());
        once(
            &mut self.ports,
            key,
            place,
            "forward",
            "at this host the port",
            port,
        )?;
        self.host(place, "node", node, false, &spec.node)?;
        self.host(place, "to", to, false, name)?;
        Ok(Attached::Path {
            listen,
            to,
            forward,
        })
    }

    /// A host has one device, or any number of paths.
    fn host(
        &mut self,
        place: Place,
        field: &str,
        node: NodeIndex,
        is_device: bool,
        name: &str,
    ) -> Result<(), ScenarioError> {
        if let Some((was_device, first)) = self.nodes.insert(node, (is_device, place))
            && (is_device || was_device)
        {
            let problem = Problem::Attachment(format!(
                "the host {name:?} is attached already, in {first}; a host has one device, or UDP paths only"
            ));
            return Err(ScenarioError::new(place.field(field), problem));
        }
        Ok(())
    }
}

/// Real programs do not answer as simulated ones expect.
pub(super) fn check_apart(
    scenario: &Scenario,
    attachments: &[Attachment],
    (flows, generators): (&[Flow], &[Generator]),
    (mets, workload): (Option<&MetsNetwork>, Option<&Population>),
) -> Result<(), ScenarioError> {
    for (i, attachment) in attachments.iter().enumerate() {
        let place = Place::nth("attach", i);
        let spec = &scenario.attach[i];
        let mut ends = vec![("node", attachment.node, Some(&spec.node))];
        if let Attached::Path { to, .. } = attachment.to {
            ends.push(("to", to, spec.to.as_ref()));
        }
        for (field, node, name) in ends {
            let flow = flows
                .iter()
                .find(|flow| [flow.from, flow.to].contains(&node));
            let generator = generators.iter().find(|it| it.plan.has(node));
            let mets = mets.is_some_and(|mets| mets.nodes.contains(&node));
            let user = match (flow, workload) {
                (Some(flow), _) => format!("the flow {:?}", flow.name),
                _ if let Some(generator) = generator => {
                    format!("the generator {:?}", generator.name)
                }
                _ if mets => "[mets]".to_owned(),
                (None, Some(population)) if population.hosts.contains(&node) => {
                    "the workload".to_owned()
                }
                _ => continue,
            };
            let name = name.map_or("", String::as_str);
            let problem = Problem::Config(format!(
                "{user} uses the host {name:?}, but it is real programs; attach another host, or move the traffic"
            ));
            return Err(ScenarioError::new(place.field(field), problem));
        }
    }
    Ok(())
}

fn mtu_of(network: &Builder<'_>, node: NodeIndex, atm: Option<&AtmSpec>) -> u32 {
    let links = network.links.iter();
    let link = links
        .filter(|link| link.ends.contains(&node))
        .map(|it| it.mtu);
    let lans = network.lans.iter();
    let lan = lans
        .filter(|lan| lan.stations.contains(&node))
        .map(|it| it.mtu);
    let atm = atm.filter(|_| network.adapters.contains_key(&node));
    let mut all = link.chain(lan).chain(atm.map(|it| it.mtu));
    all.next().unwrap_or(super::schema::mtu())
}

fn needed<'s, T>(
    place: Place,
    name: &str,
    value: &'s Option<T>,
    what: &str,
) -> Result<&'s T, ScenarioError> {
    let missing = || ScenarioError::new(place.field(name), Problem::Missing(what.to_owned()));
    value.as_ref().ok_or_else(missing)
}

fn needless(place: Place, name: &str, given: bool, why: &str) -> Result<(), ScenarioError> {
    match given {
        false => Ok(()),
        true => {
            let problem = Problem::Needless(why.to_owned());
            Err(ScenarioError::new(place.field(name), problem))
        }
    }
}

/// Devices and namespaces are files to the system.
fn file_name(field: &str, name: &str, most: usize) -> Result<(), ScenarioError> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    // A name that starts with '-' would be an option.
    let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    match starts && name.len() <= most && name.chars().all(fine) {
        true => Ok(()),
        false => {
            let accepted = format!("1 to {most} of a-z, 0-9, '-' and '_', a letter or digit first");
            Err(ScenarioError::value(field, format!("{name:?}"), accepted))
        }
    }
}

fn once<K: Ord>(
    taken: &mut BTreeMap<K, Place>,
    key: K,
    place: Place,
    field: &str,
    what: &'static str,
    name: impl ToString,
) -> Result<(), ScenarioError> {
    match taken.insert(key, place) {
        None => Ok(()),
        Some(first) => {
            let problem = Problem::Duplicate {
                what,
                name: name.to_string(),
                first: first.to_string(),
            };
            Err(ScenarioError::new(place.field(field), problem))
        }
    }
}
