use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Deserialize;
use thiserror::Error;

use super::{Branch, Tree};

/// A multicast tree for `layercast fec plan` (docs/src/reference/fec-models.md).
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TreeFile {
    /// The branches, in any order.
    #[schemars(length(min = 1))]
    pub branch: Vec<BranchEntry>,
}

/// A chain of links, and what is behind it: other branches, or a receiver.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BranchEntry {
    /// Name of the branch, unique in the file.
    name: String,
    /// Name of the branch at the end of which this one begins; without it, the branch begins at the source.
    parent: Option<String>,
    /// Loss probability of one link.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    loss: f64,
    /// Links of the chain; 0 if the branch only groups others.
    #[serde(default = "one")]
    #[schemars(range(max = 4_294_967_295_u32))]
    hops: u32,
    /// Copies of the branch and of all that is below it; 0 leaves them out.
    #[serde(default = "one_branch")]
    count: u64,
    /// Name in the result. Branches with the same name here are protected together. Default: `name`.
    part: Option<String>,
    /// Is the end a receiver if no branch begins there?
    #[serde(default = "yes")]
    receiver: bool,
}

fn one() -> u32 {
    1
}

fn one_branch() -> u64 {
    1
}

fn yes() -> bool {
    true
}

/// Reason why a file does not describe a tree.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum TreeFileError {
    /// Two branches have the same name.
    #[error("branch {0} is defined twice: names of branches are unique")]
    Twice(String),
    /// The parent of a branch does not exist.
    #[error("branch {name}: its parent {parent} does not exist")]
    Parent {
        /// The branch.
        name: String,
        /// The missing parent.
        parent: String,
    },
    /// A branch is its own ancestor.
    #[error(
        "branch {0} is its own ancestor: follow its parents up, and give one of them a parent that is not below {0}, or none"
    )]
    Cycle(String),
    /// The branches are nested too deeply.
    #[error("branch {0} has more than {MOST_DEPTH} branches between itself and the source")]
    Deep(String),
}

const MOST_DEPTH: usize = 256;

impl TreeFile {
    /// Returns the JSON Schema of the file.
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(TreeFile).to_value()
    }

    /// Returns the tree, and a line for each branch that was left out because it has no receivers.
    ///
    /// # Errors
    ///
    /// [`TreeFileError`] with the name of the branch.
    pub fn tree(&self) -> Result<(Tree, Vec<String>), TreeFileError> {
        let mut places = HashMap::new();
        for (place, entry) in self.branch.iter().enumerate() {
            if places.insert(entry.name.as_str(), place).is_some() {
                return Err(TreeFileError::Twice(entry.name.clone()));
            }
        }
        let mut below = vec![Vec::new(); self.branch.len()];
        let mut at_source = Vec::new();
        for (place, entry) in self.branch.iter().enumerate() {
            match &entry.parent {
                None => at_source.push(place),
                Some(parent) => match places.get(parent.as_str()) {
                    Some(&parent) => below[parent].push(place),
                    None => {
                        let (name, parent) = (entry.name.clone(), parent.clone());
                        return Err(TreeFileError::Parent { name, parent });
                    }
                },
            }
        }
        for entry in &self.branch {
            self.check_depth(entry, &places)?;
        }
        let mut warnings = Vec::new();
        let branches = at_source.iter();
        let branches = branches.filter_map(|&it| self.build(it, &below, &mut warnings));
        let tree = Tree {
            below: branches.collect(),
        };
        Ok((tree, warnings))
    }

    /// Checks that a branch leads to the source.
    fn check_depth(
        &self,
        entry: &BranchEntry,
        places: &HashMap<&str, usize>,
    ) -> Result<(), TreeFileError> {
        let mut above = entry;
        for _ in 0..MOST_DEPTH {
            match above.parent.as_ref().and_then(|it| places.get(it.as_str())) {
                None => return Ok(()),
                Some(&parent) => above = &self.branch[parent],
            }
            if above.name == entry.name {
                return Err(TreeFileError::Cycle(entry.name.clone()));
            }
        }
        Err(TreeFileError::Deep(entry.name.clone()))
    }

    fn build(
        &self,
        place: usize,
        below: &[Vec<usize>],
        warnings: &mut Vec<String>,
    ) -> Option<Branch> {
        let entry = &self.branch[place];
        let children = below[place].iter();
        let children: Vec<Branch> = children
            .filter_map(|&it| self.build(it, below, warnings))
            .collect();
        let empty = children.is_empty() && (!entry.receiver || !below[place].is_empty());
        if empty || entry.count == 0 {
            warnings.push(format!(
                "branch {} has no receivers and is left out",
                entry.name
            ));
            return None;
        }
        Some(Branch {
            name: entry.part.clone().unwrap_or_else(|| entry.name.clone()),
            loss: entry.loss,
            hops: entry.hops,
            count: entry.count,
            below: children,
        })
    }
}
