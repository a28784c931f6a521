//! TCP that shares links with the group, checked.

use super::schema::GroupScenario;
use super::tree::check_wait;
use crate::group::cross::MOST_FLOWS;
use crate::group::{Branch, CrossSpec};
use crate::internet::scenario::{ScenarioError, unknown};

impl GroupScenario {
    /// The connections on branches of which there is one copy.
    pub(super) fn cross(&self, branches: &[Branch]) -> Result<Vec<CrossSpec>, ScenarioError> {
        let mut all = Vec::new();
        for (i, spec) in self.cross.iter().enumerate() {
            let at = |name: &str| format!("cross[{i}].{name}");
            let names = branches.iter().map(|it| it.name.as_str());
            let found = branches.iter().position(|it| it.name == spec.branch);
            let missing = || unknown(&at("branch"), "branch", &spec.branch, names);
            let branch = found.ok_or_else(missing)?;
            let mut above = Some(branch);
            while let Some(kind) = above {
                if branches[kind].count != 1 {
                    let accepted = "a branch of which there is one copy";
                    let value = format!("{:?}", spec.branch);
                    return Err(ScenarioError::value(at("branch"), value, accepted));
                }
                above = branches[kind].parent;
            }
            if !(1..=MOST_FLOWS).contains(&spec.flows) {
                let accepted = format!("1 to {MOST_FLOWS} connections");
                return Err(ScenarioError::value(at("flows"), spec.flows, accepted));
            }
            check_wait(at("delay"), spec.delay.0)?;
            all.push(CrossSpec {
                branch,
                flows: spec.flows,
                delay: spec.delay.0,
                tcp: spec.tcp.config(&at("tcp"))?,
            });
        }
        Ok(all)
    }
}
