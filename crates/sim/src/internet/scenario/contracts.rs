//! The contracts of a scenario: those of flows, and `[[contract]]`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::build::Builder;
use super::contract::ContractSpec;
use super::error::{Problem, ScenarioError};
use super::place::Place;
use super::range::{MOST, names, pairs};
use super::schema::{Scenario, mtu};
use crate::internet::components::Components;
use crate::internet::network::{HostContract, NodeIndex};

/// A contract for all packets from one host to another; with ranges for several pairs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostContractSpec {
    /// The host that sends.
    pub from: String,
    /// The host that receives.
    pub to: String,
    /// The terms.
    pub terms: ContractSpec,
}

/// The contracts of a scenario, as far as they are known.
pub(super) struct Contracts {
    has_backbone: bool,
    /// The largest packet of the backbone.
    mtu: u32,
    all: Vec<HostContract>,
    places: BTreeMap<(NodeIndex, NodeIndex), Place>,
}

impl Contracts {
    pub fn new(scenario: &Scenario, network: &Builder<'_>) -> Contracts {
        Contracts {
            has_backbone: !network.adapters.is_empty(),
            mtu: scenario.atm.as_ref().map_or(mtu(), |atm| atm.mtu),
            all: Vec::new(),
            places: BTreeMap::new(),
        }
    }

    /// One that a part of the scenario has in a field, for packets between two hosts.
    pub fn add(
        &mut self,
        place: Place,
        field: &str,
        spec: &ContractSpec,
        name: &str,
        [from, to]: [NodeIndex; 2],
    ) -> Result<(), ScenarioError> {
        let fail = |problem| Err(ScenarioError::new(place.field(field), problem));
        if !self.has_backbone {
            return fail(Problem::Needless("this network has no [atm]".to_owned()));
        }
        let terms = spec.terms(place, field, self.mtu)?;
        if let Some(first) = self.places.insert((from, to), place) {
            return fail(Problem::Duplicate {
                what: "a contract from here to there,",
                name: format!("{name},"),
                first: first.to_string(),
            });
        }
        self.all.push(HostContract {
            name: name.to_owned(),
            from,
            to,
            terms,
        });
        Ok(())
    }

    /// With those of `[[contract]]` all.
    pub fn finish(
        mut self,
        scenario: &Scenario,
        network: &Builder<'_>,
        sets: &mut Components,
    ) -> Result<Vec<HostContract>, ScenarioError> {
        for (i, spec) in scenario.contracts.iter().enumerate() {
            let place = Place::nth("contract", i);
            let from = names(&place.field("from"), &spec.from)?;
            let to = names(&place.field("to"), &spec.to)?;
            let ends = pairs(&place.field("from"), from, to)?;
            let count = (self.all.len() + ends.len()) as u64;
            if count > MOST {
                let (what, most) = ("contracts", MOST);
                let problem = Problem::TooMany { what, count, most };
                return Err(ScenarioError::new(place, problem));
            }
            for ends in &ends {
                let hosts = network.two_hosts(place, ends, sets)?;
                let name = ends.join("->");
                self.add(place, "terms", &spec.terms, &name, hosts)?;
            }
        }
        Ok(self.all)
    }
}
