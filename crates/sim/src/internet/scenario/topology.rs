//! Ready-made networks.

use layercast_core::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::build::Builder;
use super::check::check_rate;
use super::error::{Problem, ScenarioError};
use super::place::Place;
use super::range::MOST;
use super::schema::LineSpec;
use super::xunet;
use crate::text::Text;

pub(super) const PLACE: Place = Place::only("topology");

/// What the network looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Hosts left1.. and right1.., `pairs` of each, at the routers left and right, which the trunk joins.
    Dumbbell,
    /// Routers r0, r1, .. in a row of `hops` trunks; host source at the first and sink at the last;
    /// across the i-th trunk, from 1, the hosts in{i} and out{i}.
    ParkingLot,
    /// `k` pods of k/2 routers pod{p}-edge{e} and as many pod{p}-agg{a}, (k/2)^2 routers core{c}, k/2 hosts
    /// at each edge: host1 to host{k^3/4}. Routers spread flows over the shortest ways.
    FatTree,
    /// Hosts host1.. at the router hub, `hosts` of them.
    Star,
    /// A router root, `fanout` routers below each (r1, r2, .. level by level), `depth` levels of links; the
    /// lowest are hosts: host1, host2, ..
    Tree,
    /// Six sites of one LAN each at an ATM backbone with one long link (specs/insane-simulator.md 2.9): hosts
    /// site1-ws1 to site6-ws200 and site1-server1 to site6-server2, routers site1 to site6, switches w1..w3, e1..e3.
    Xunet,
}

/// A ready-made network; the required keys depend on its kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TopologySpec {
    /// The kind.
    pub kind: Kind,
    /// Of a dumbbell: hosts on each side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST / 2 - 1))]
    pub pairs: Option<u32>,
    /// Of a parking lot: trunks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub hops: Option<u32>,
    /// Of a fat tree: ports of a router, even.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 128), extend("multipleOf" = 2))]
    pub k: Option<u32>,
    /// Of a star: hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST - 1))]
    pub hosts: Option<u32>,
    /// Of a tree: levels of links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 20))]
    pub depth: Option<u32>,
    /// Of a tree: links down from each router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST - 1))]
    pub fanout: Option<u32>,
    /// Of XUNET: workstations of a site; default: 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub workstations: Option<u32>,
    /// Of XUNET: servers of a site; default: 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub servers: Option<u32>,
    /// Of XUNET: rate of the backbone links in bits of cells; default: a T1, 1.536 Mbit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backbone: Option<Text<Rate>>,
    /// Of XUNET: rate of the LAN of a site; default: 100 Mbit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lan: Option<Text<Rate>>,
    /// The links of hosts; `back` is the way to the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<LineSpec>,
    /// The links between routers; `back` is from right to left, from the last to the first, or down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trunk: Option<LineSpec>,
    /// TCP of its hosts: a table [tcp.NAME], or a profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<String>,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Dumbbell => "dumbbell",
            Kind::ParkingLot => "parking-lot",
            Kind::FatTree => "fat-tree",
            Kind::Star => "star",
            Kind::Tree => "tree",
            Kind::Xunet => "xunet",
        }
    }

    /// The fields that mean something.
    fn fields(self) -> &'static [&'static str] {
        match self {
            Kind::Dumbbell => &["pairs", "access", "trunk"],
            Kind::ParkingLot => &["hops", "access", "trunk"],
            Kind::FatTree => &["k", "access", "trunk"],
            Kind::Star => &["hosts", "access"],
            Kind::Tree => &["depth", "fanout", "access", "trunk"],
            Kind::Xunet => &["workstations", "servers", "backbone", "lan"],
        }
    }
}

impl TopologySpec {
    /// Adds its nodes and links.
    pub(super) fn build(&self, to: &mut Builder<'_>) -> Result<(), ScenarioError> {
        self.nothing_needless()?;
        match self.kind {
            Kind::Dumbbell => self.dumbbell(to),
            Kind::ParkingLot => self.parking_lot(to),
            Kind::FatTree => self.fat_tree(to),
            Kind::Star => self.star(to),
            Kind::Tree => self.tree(to),
            Kind::Xunet => xunet::build(self, to),
        }
    }

    fn nothing_needless(&self) -> Result<(), ScenarioError> {
        let given = [
            ("pairs", self.pairs.is_some()),
            ("hops", self.hops.is_some()),
            ("k", self.k.is_some()),
            ("hosts", self.hosts.is_some()),
            ("depth", self.depth.is_some()),
            ("fanout", self.fanout.is_some()),
            ("workstations", self.workstations.is_some()),
            ("servers", self.servers.is_some()),
            ("backbone", self.backbone.is_some()),
            ("lan", self.lan.is_some()),
            ("access", self.access.is_some()),
            ("trunk", self.trunk.is_some()),
        ];
        let means = self.kind.fields();
        let needless = |&&(name, there): &&(&str, bool)| there && !means.contains(&name);
        match given.iter().find(needless) {
            None => Ok(()),
            Some((name, _)) => {
                let (kind, has) = (self.kind.name(), means.join(", "));
                let problem = Problem::Needless(format!("the topology {kind:?} has {has}, tcp"));
                Err(ScenarioError::new(PLACE.field(name), problem))
            }
        }
    }

    /// A number from 1 to `most`.
    pub(super) fn number(
        &self,
        name: &str,
        value: Option<u32>,
        most: u32,
    ) -> Result<u32, ScenarioError> {
        let value = value.ok_or_else(|| self.missing(name))?;
        match (1..=most).contains(&value) {
            true => Ok(value),
            false => {
                let accepted = format!("1 to {most}");
                Err(ScenarioError::value(PLACE.field(name), value, accepted))
            }
        }
    }

    /// A rate, or the usual one.
    pub(super) fn rate(
        name: &str,
        rate: &Option<Text<Rate>>,
        usual: Rate,
    ) -> Result<Rate, ScenarioError> {
        let rate = rate.as_ref().map_or(usual, |rate| rate.0);
        check_rate(&PLACE.field(name), rate)?;
        Ok(rate)
    }

    fn missing(&self, name: &str) -> ScenarioError {
        let problem = Problem::Missing(format!("the topology {:?} needs it", self.kind.name()));
        ScenarioError::new(PLACE.field(name), problem)
    }

    fn line<'a>(
        &self,
        name: &str,
        line: &'a Option<LineSpec>,
    ) -> Result<&'a LineSpec, ScenarioError> {
        line.as_ref().ok_or_else(|| self.missing(name))
    }

    fn host(&self, to: &mut Builder<'_>, name: &str, router: &str) -> Result<(), ScenarioError> {
        to.host(
            PLACE,
            name.to_owned(),
            None,
            self.tcp.as_deref(),
            Default::default(),
        )?;
        let access = self.line("access", &self.access)?;
        to.link(PLACE, "access.", [name, router], access)
    }

    fn trunk(&self, to: &mut Builder<'_>, ends: [&str; 2]) -> Result<(), ScenarioError> {
        let trunk = self.line("trunk", &self.trunk)?;
        to.link(PLACE, "trunk.", ends, trunk)
    }

    fn dumbbell(&self, to: &mut Builder<'_>) -> Result<(), ScenarioError> {
        let pairs = self.number("pairs", self.pairs, (MOST / 2 - 1) as u32)?;
        for side in ["left", "right"] {
            to.router(PLACE, side.to_owned(), None, Default::default())?;
        }
        self.trunk(to, ["left", "right"])?;
        for side in ["left", "right"] {
            for i in 1..=pairs {
                self.host(to, &format!("{side}{i}"), side)?;
            }
        }
        Ok(())
    }

    fn parking_lot(&self, to: &mut Builder<'_>) -> Result<(), ScenarioError> {
        let hops = self.number("hops", self.hops, 1_000)?;
        for i in 0..=hops {
            to.router(PLACE, format!("r{i}"), None, Default::default())?;
        }
        for i in 1..=hops {
            self.trunk(to, [&format!("r{}", i - 1), &format!("r{i}")])?;
        }
        self.host(to, "source", "r0")?;
        self.host(to, "sink", &format!("r{hops}"))?;
        for i in 1..=hops {
            self.host(to, &format!("in{i}"), &format!("r{}", i - 1))?;
            self.host(to, &format!("out{i}"), &format!("r{i}"))?;
        }
        Ok(())
    }

    fn fat_tree(&self, to: &mut Builder<'_>) -> Result<(), ScenarioError> {
        let k = self.number("k", self.k, 128)?;
        if k % 2 != 0 {
            let accepted = "an even number";
            return Err(ScenarioError::value(PLACE.field("k"), k, accepted));
        }
        let half = k / 2;
        for core in 1..=half * half {
            to.router(PLACE, format!("core{core}"), None, Default::default())?;
        }
        let mut host = 0;
        for pod in 1..=k {
            for agg in 1..=half {
                let name = format!("pod{pod}-agg{agg}");
                to.router(PLACE, name.clone(), None, Default::default())?;
                for i in 1..=half {
                    self.trunk(to, [&name, &format!("core{}", (agg - 1) * half + i)])?;
                }
            }
            for edge in 1..=half {
                let name = format!("pod{pod}-edge{edge}");
                to.router(PLACE, name.clone(), None, Default::default())?;
                for agg in 1..=half {
                    self.trunk(to, [&name, &format!("pod{pod}-agg{agg}")])?;
                }
                for _ in 0..half {
                    host += 1;
                    self.host(to, &format!("host{host}"), &name)?;
                }
            }
        }
        Ok(())
    }

    fn star(&self, to: &mut Builder<'_>) -> Result<(), ScenarioError> {
        let hosts = self.number("hosts", self.hosts, (MOST - 1) as u32)?;
        to.router(PLACE, "hub".to_owned(), None, Default::default())?;
        for i in 1..=hosts {
            self.host(to, &format!("host{i}"), "hub")?;
        }
        Ok(())
    }

    fn tree(&self, to: &mut Builder<'_>) -> Result<(), ScenarioError> {
        let depth = self.number("depth", self.depth, 20)?;
        let fanout = self.number("fanout", self.fanout, (MOST - 1) as u32)?;
        let leaves = u64::from(fanout).saturating_pow(depth);
        if leaves > MOST {
            let problem = Problem::TooMany {
                what: "hosts",
                count: leaves,
                most: MOST,
            };
            return Err(ScenarioError::new(PLACE.field("fanout"), problem));
        }
        to.router(PLACE, "root".to_owned(), None, Default::default())?;
        let (mut level, mut routers) = (vec!["root".to_owned()], 0);
        for _ in 1..depth {
            let mut below = Vec::new();
            for above in &level {
                for _ in 0..fanout {
                    routers += 1;
                    let name = format!("r{routers}");
                    to.router(PLACE, name.clone(), None, Default::default())?;
                    self.trunk(to, [&name, above])?;
                    below.push(name);
                }
            }
            level = below;
        }
        let mut host = 0;
        for above in &level {
            for _ in 0..fanout {
                host += 1;
                self.host(to, &format!("host{host}"), above)?;
            }
        }
        Ok(())
    }
}
