use std::collections::HashMap;

use serde::Deserialize;
use thiserror::Error;

use super::{Branch, Tree};

/// A tree in a file: `[[branch]]` tables with `name`, `parent` (none: the source), `loss` per link, `hops` and
/// `count`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeFile {
    /// The branches, in any order.
    #[serde(default)]
    pub branch: Vec<BranchEntry>,
}

/// One table of a [`TreeFile`].
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BranchEntry {
    name: String,
    parent: Option<String>,
    /// Loss of one link.
    loss: f64,
    #[serde(default = "one")]
    hops: u32,
    #[serde(default = "one_branch")]
    count: u64,
    /// Name in placements, to protect several branches together.
    part: Option<String>,
    /// `false`: an end without branches below is not a receiver.
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
    #[error("branch {0} hangs on itself, over its parents")]
    Cycle(String),
    /// The branches are nested too deeply.
    #[error("branch {0} has more than {MOST_DEPTH} branches between itself and the source")]
    Deep(String),
}

const MOST_DEPTH: usize = 256;

impl TreeFile {
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
