//! Nodes, links and LANs of a network, each checked as it is added.

use core::net::Ipv4Addr;
use std::collections::BTreeMap;

use layercast_core::{Rate, Span};
use layercast_link::{Jitter, Outages};
use layercast_tcp::{Profile, TcpConfig};

use super::check::{
    check_address, check_delay, check_mtu, check_name, check_probability, check_rate, check_span,
    kind, loss, unknown, way,
};
use super::discipline::discipline;
use super::error::{Problem, ScenarioError};
use super::place::Place;
use super::range::MOST;
use super::schema::{CpuSpec, LineSpec, Scenario};
use super::tcp::PROFILES;
use crate::internet::components::Components;
use crate::internet::network::{AtmLink, CpuCost, Impairments, Lan, Link, Node, NodeIndex, Role};
use crate::scenario::JitterSpec;
use crate::text::Text;

/// What a name is the name of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Thing {
    Host(NodeIndex),
    Router(NodeIndex),
    Switch(u32),
    Lan,
}

impl Thing {
    pub fn kind(self) -> &'static str {
        match self {
            Thing::Host(_) => "host",
            Thing::Router(_) => "router",
            Thing::Switch(_) => "switch",
            Thing::Lan => "LAN",
        }
    }
}

/// What a node is attached to.
#[derive(Clone, Copy, Default, Debug)]
struct Attached {
    count: u32,
    first: Option<Place>,
    last: Option<Place>,
}

/// A network that grows.
#[derive(Debug)]
pub(super) struct Builder<'a> {
    tcp: BTreeMap<&'a str, TcpConfig>,
    default_tcp: TcpConfig,
    names: BTreeMap<String, (Thing, Place)>,
    addresses: BTreeMap<Ipv4Addr, Place>,
    pairs: BTreeMap<[NodeIndex; 2], Place>,
    places: Vec<Place>,
    attached: Vec<Attached>,
    pub adapters: BTreeMap<NodeIndex, Place>,
    pub trunks: BTreeMap<[u32; 2], Place>,
    pub nodes: Vec<Node>,
    pub links: Vec<Link>,
    pub lans: Vec<Lan>,
    pub switches: Vec<String>,
    pub atm_links: Vec<AtmLink>,
    /// Workstations and servers of the sites that the topology has.
    pub sites: Vec<[Vec<NodeIndex>; 2]>,
}

impl<'a> Builder<'a> {
    /// With the TCP configurations of the scenario.
    pub fn new(scenario: &'a Scenario) -> Result<Builder<'a>, ScenarioError> {
        let mut tcp = BTreeMap::new();
        for (name, spec) in &scenario.tcp {
            let field = crate::place::Place::default()
                .key("tcp")
                .key(name)
                .to_string();
            check_name(&field, name)?;
            if PROFILES.iter().any(|(profile, _)| profile == name) {
                let accepted = "a name that is no profile, or \"default\"";
                return Err(ScenarioError::value(field, format!("{name:?}"), accepted));
            }
            tcp.insert(name.as_str(), spec.config(&field)?);
        }
        let default_tcp = tcp.get("default").cloned();
        Ok(Builder {
            default_tcp: default_tcp.unwrap_or_else(|| Profile::Modern.into()),
            tcp,
            names: BTreeMap::new(),
            addresses: BTreeMap::new(),
            pairs: BTreeMap::new(),
            places: Vec::new(),
            attached: Vec::new(),
            adapters: BTreeMap::new(),
            trunks: BTreeMap::new(),
            nodes: Vec::new(),
            links: Vec::new(),
            lans: Vec::new(),
            switches: Vec::new(),
            atm_links: Vec::new(),
            sites: Vec::new(),
        })
    }

    /// Whether the scenario says what hosts have that name no TCP.
    pub fn has_default_tcp(&self) -> bool {
        self.tcp.contains_key("default")
    }

    /// The TCP of a table, or of a profile.
    pub fn tcp_called(&self, field: &str, name: Option<&str>) -> Result<TcpConfig, ScenarioError> {
        let Some(name) = name else {
            return Ok(self.default_tcp.clone());
        };
        if let Some(config) = self.tcp.get(name) {
            return Ok(config.clone());
        }
        match PROFILES.iter().find(|(profile, _)| *profile == name) {
            Some(&(_, profile)) => Ok(profile.into()),
            None => {
                let profiles = PROFILES.iter().map(|(name, _)| *name);
                let known = self.tcp.keys().copied().chain(profiles);
                Err(unknown(field, "TCP configuration", name, known))
            }
        }
    }

    /// Adds a host.
    pub fn host(
        &mut self,
        place: Place,
        name: String,
        address: Option<Ipv4Addr>,
        tcp: Option<&str>,
        cpu: CpuSpec,
    ) -> Result<NodeIndex, ScenarioError> {
        let tcp = self.tcp_called(&place.field("tcp"), tcp)?;
        let index = NodeIndex(self.nodes.len() as u32);
        self.name(place, &name, Thing::Host(index))?;
        self.node(place, name, address, Role::Host(Box::new(tcp)), cpu)
    }

    /// Adds a router.
    pub fn router(
        &mut self,
        place: Place,
        name: String,
        address: Option<Ipv4Addr>,
        cpu: CpuSpec,
    ) -> Result<NodeIndex, ScenarioError> {
        let index = NodeIndex(self.nodes.len() as u32);
        self.name(place, &name, Thing::Router(index))?;
        self.node(place, name, address, Role::Router, cpu)
    }

    fn node(
        &mut self,
        place: Place,
        name: String,
        address: Option<Ipv4Addr>,
        role: Role,
        cpu: CpuSpec,
    ) -> Result<NodeIndex, ScenarioError> {
        let count = self.nodes.len() as u64 + 1;
        if count > MOST {
            let (what, most) = ("nodes", MOST);
            let problem = Problem::TooMany { what, count, most };
            return Err(ScenarioError::new(place, problem));
        }
        if let Some(address) = address {
            check_address(&place.field("address"), address)?;
            if let Some(first) = self.addresses.insert(address, place) {
                let problem = Problem::Duplicate {
                    what: "address",
                    name: address.to_string(),
                    first: first.to_string(),
                };
                return Err(ScenarioError::new(place.field("address"), problem));
            }
        }
        let CpuCost {
            per_packet,
            per_byte,
            per_cell,
            per_sent,
            per_sent_byte,
            jitter,
            ..
        } = cpu.cost();
        for (name, cost) in [
            ("cpu.per_packet", per_packet),
            ("cpu.per_byte", per_byte),
            ("cpu.per_cell", per_cell),
            ("cpu.per_sent", per_sent),
            ("cpu.per_sent_byte", per_sent_byte),
        ] {
            check_span(&place.field(name), cost, Span::ZERO, Span::from_secs(1))?;
        }
        if !(0.0..=1.0).contains(&jitter) {
            let (field, accepted) = (place.field("cpu.jitter"), "a share from 0 to 1");
            return Err(ScenarioError::value(field, jitter, accepted));
        }
        self.nodes.push(Node {
            name,
            address: address.unwrap_or(Ipv4Addr::UNSPECIFIED),
            role,
            cpu: cpu.cost(),
        });
        self.places.push(place);
        self.attached.push(Attached::default());
        Ok(NodeIndex(count as u32 - 1))
    }

    /// Adds a switch.
    pub fn switch(&mut self, place: Place, name: String) -> Result<(), ScenarioError> {
        let index = self.switches.len() as u32;
        self.name(place, &name, Thing::Switch(index))?;
        self.switches.push(name);
        Ok(())
    }

    /// Adds a shared medium.
    pub fn lan(
        &mut self,
        place: Place,
        name: String,
        rate: Rate,
        latency: Span,
        mtu: u32,
        stations: Vec<NodeIndex>,
    ) -> Result<(), ScenarioError> {
        self.name(place, &name, Thing::Lan)?;
        check_rate(&place.field("rate"), rate)?;
        check_delay(&place.field("latency"), latency)?;
        check_mtu(&place.field("mtu"), mtu)?;
        for &station in &stations {
            self.attach(station, place);
        }
        self.lans.push(Lan {
            name,
            rate,
            latency,
            mtu,
            stations,
        });
        Ok(())
    }

    /// Adds a link between two nodes; `within` is where in `place` its values are.
    pub fn link(
        &mut self,
        place: Place,
        within: &str,
        ends: [&str; 2],
        line: &LineSpec,
    ) -> Result<(), ScenarioError> {
        let at = |name: &str| place.field(format_args!("{within}{name}"));
        let a = self.node_called(&at("ends[0]"), ends[0])?;
        let b = self.node_called(&at("ends[1]"), ends[1])?;
        if a == b {
            return Err(ScenarioError::new(
                at("ends"),
                Problem::Loop(ends[0].to_owned()),
            ));
        }
        if let Some(first) = self.pairs.insert([a.min(b), a.max(b)], place) {
            let problem = Problem::Duplicate {
                what: "link",
                name: format!("{}-{}", ends[0], ends[1]),
                first: first.to_string(),
            };
            return Err(ScenarioError::new(at("ends"), problem));
        }
        check_delay(&at("delay"), line.delay.0)?;
        check_mtu(&at("mtu"), line.mtu)?;
        let jitter = line.jitter.map(|it| it.span()).unwrap_or_default();
        check_delay(&at("jitter"), jitter)?;
        check_probability(&at("duplicate"), line.duplicate)?;
        let impair = Impairments {
            loss: loss(&at, line.loss, line.gilbert)?,
            jitter: line.jitter.map_or(Jitter::None, JitterSpec::jitter),
            reorder: line.reorder,
            duplicate: line.duplicate,
        };
        let mark = line.mark.map(|mark| mark.0);
        let queue = (line.queue.0, mark);
        let there = way(&at, line.rate.0, queue, line.red, impair)?;
        let discipline_there = discipline(line.discipline, &at, &there.queue)?;
        let back = line.back.clone().unwrap_or_default();
        let at_back = |name: &str| at(&format!("back.{name}"));
        let impair = Impairments {
            loss: match (back.loss, back.gilbert) {
                (None, None) => impair.loss,
                (p, gilbert) => loss(&at_back, p.unwrap_or_default(), gilbert)?,
            },
            ..impair
        };
        let (red, mark, discipline_back) = match back.queue {
            Some(_) => (back.red, back.mark, back.discipline),
            None => (
                back.red.or(line.red),
                back.mark.or(line.mark),
                back.discipline.or(line.discipline),
            ),
        };
        let outages = |it: Option<Text<Outages>>| it.map(|it| it.0).unwrap_or_default();
        let back_down = outages(back.down.or_else(|| line.down.clone()));
        let down = [outages(line.down.clone()), back_down];
        let mark = mark.map(|mark| mark.0);
        let back = way(
            &at_back,
            back.rate.unwrap_or(line.rate).0,
            (back.queue.unwrap_or(line.queue).0, mark),
            red,
            impair,
        )?;
        let disciplines = [
            discipline_there,
            discipline(discipline_back, &at_back, &back.queue)?,
        ];
        self.attach(a, place);
        self.attach(b, place);
        self.links.push(Link {
            ends: [a, b],
            ways: [there, back],
            delay: line.delay.0,
            mtu: line.mtu,
            down,
            disciplines,
        });
        Ok(())
    }

    /// Takes note that a node is attached to what is at `place`.
    pub fn attach(&mut self, node: NodeIndex, place: Place) {
        let attached = &mut self.attached[node.0 as usize];
        attached.count += 1;
        attached.first.get_or_insert(place);
        attached.last = Some(place);
    }

    /// What has a name.
    pub fn thing(
        &self,
        field: &str,
        what: &'static str,
        name: &str,
    ) -> Result<Thing, ScenarioError> {
        match self.names.get(name) {
            Some(&(thing, _)) => Ok(thing),
            None => Err(unknown(
                field,
                what,
                name,
                self.names.keys().map(String::as_str),
            )),
        }
    }

    /// The host or router of a name.
    pub fn node_called(&self, field: &str, name: &str) -> Result<NodeIndex, ScenarioError> {
        match self.thing(field, "host or router", name)? {
            Thing::Host(index) | Thing::Router(index) => Ok(index),
            thing => Err(kind(field, name, thing, "a host or router")),
        }
    }

    /// The host of a name.
    pub fn host_called(&self, field: &str, name: &str) -> Result<NodeIndex, ScenarioError> {
        match self.thing(field, "host", name)? {
            Thing::Host(index) => Ok(index),
            thing => Err(kind(
                field,
                name,
                thing,
                "a host: only hosts send and receive",
            )),
        }
    }

    /// The hosts that `from` and `to` of a part of the scenario name: two, with a way from one to the other.
    pub fn two_hosts(
        &self,
        place: Place,
        [from, to]: &[String; 2],
        sets: &mut Components,
    ) -> Result<[NodeIndex; 2], ScenarioError> {
        let a = self.host_called(&place.field("from"), from)?;
        let b = self.host_called(&place.field("to"), to)?;
        if a == b {
            let accepted = "another host than from";
            return Err(ScenarioError::value(place.field("to"), to, accepted));
        }
        if !sets.same(a.0, b.0) {
            let (from, to) = (from.clone(), to.clone());
            let problem = Problem::NoPath { from, to };
            return Err(ScenarioError::new(place.field("to"), problem));
        }
        Ok([a, b])
    }

    fn name(&mut self, place: Place, name: &str, thing: Thing) -> Result<(), ScenarioError> {
        check_name(&place.field("name"), name)?;
        if let Some((_, first)) = self.names.insert(name.to_owned(), (thing, place)) {
            let problem = Problem::Duplicate {
                what: "the name",
                name: format!("{name:?}"),
                first: first.to_string(),
            };
            return Err(ScenarioError::new(place.field("name"), problem));
        }
        Ok(())
    }

    /// Where the thing of a name is in the scenario.
    pub fn place_of(&self, name: &str) -> Option<Place> {
        self.names.get(name).map(|&(_, place)| place)
    }

    /// Checks that every host has one attachment, and every router any.
    pub fn check_attachments(&self) -> Result<(), ScenarioError> {
        for ((node, place), attached) in self.nodes.iter().zip(&self.places).zip(&self.attached) {
            let name = &node.name;
            let problem = match (&node.role, attached) {
                (_, Attached { count: 0, .. }) => {
                    format!(
                        "{name:?} is attached to nothing; add a [[link]] or [[atm.link]], or name it in a [[lan]]"
                    )
                }
                (
                    Role::Host(_),
                    Attached {
                        count: 2..,
                        first: Some(first),
                        last: Some(last),
                    },
                ) => {
                    format!(
                        "the host {name:?} is attached to {first} and {last}; hosts have one attachment \
                         and do not forward: make it a [[router]], or remove one"
                    )
                }
                _ => continue,
            };
            return Err(ScenarioError::new(
                place.field("name"),
                Problem::Attachment(problem),
            ));
        }
        Ok(())
    }

    /// Gives addresses of 10.0.0.0/8 to the nodes that have none, in their order.
    pub fn assign_addresses(&mut self) {
        let mut next = u32::from(Ipv4Addr::new(10, 0, 0, 1));
        for node in &mut self.nodes {
            if !node.address.is_unspecified() {
                continue;
            }
            // Those that look like the number or the broadcast of a network are left out.
            while matches!(next & 0xff, 0 | 0xff) || self.addresses.contains_key(&next.into()) {
                next += 1;
            }
            node.address = next.into();
            next += 1;
        }
    }
}
