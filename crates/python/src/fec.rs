//! Models and studies of FEC: a question in JSON, its answer in JSON.

use layercast_fec::model::{
    CostKind, Effect, Resequencing, Tree, TreeFile, cost, integrated, plan, reseq, residual,
    sack_efficiency, tcp_efficiency,
};
use layercast_fec::study::{Bursts, Order, Share, Stalls, Star, Steps};
use pyo3::prelude::*;
use serde::Deserialize;

use crate::{all, each, failed, json};

/// What can be asked; points are lists of numbers in the order of the arguments in Rust.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ask", deny_unknown_fields)]
enum Question {
    /// N, M, e.
    Residual { points: Vec<(usize, usize, f64)> },
    /// N, M, e, G.
    Cost {
        kind: CostKind,
        points: Vec<(usize, usize, f64, f64)>,
    },
    /// k, proactive parities, e, G.
    Integrated {
        points: Vec<(usize, usize, f64, f64)>,
    },
    /// N, M, e, W.
    Tcp {
        points: Vec<(usize, usize, f64, f64)>,
    },
    /// N, M, e, W.
    Sack {
        points: Vec<(usize, usize, f64, f64)>,
    },
    /// N, M, e, W, G.
    Reseq {
        points: Vec<(usize, usize, f64, u16, f64)>,
    },
    /// Height, branch, receivers, loss of the shared part and of the branches.
    Tree3 {
        points: Vec<(u32, u32, u64, f64, f64)>,
    },
    /// Height, branch, LAN links, receivers, receivers of a LAN, losses.
    Tree4 {
        points: Vec<(u32, u32, u32, u64, u64, [f64; 3])>,
    },
    /// Placements on any tree.
    Plan { tree: TreeFile, effect: Effect },
    /// Real blocks to a star.
    Star { study: Star },
    /// A stream over a channel with bursts.
    Bursts { study: Bursts },
    /// Delivery in order.
    Order { study: Order },
    /// A controller and its group.
    Steps { study: Steps },
    /// A transport that stalls for a window.
    Stalls { study: Stalls },
    /// A protected transfer beside an unprotected one.
    Share { study: Share },
}

/// Answers a question about FEC.
#[pyfunction]
pub fn fec_json(py: Python<'_>, question: &str) -> PyResult<String> {
    let question: Question = serde_json::from_str(question).map_err(failed)?;
    py.detach(|| answer(question))
}

fn answer(question: Question) -> PyResult<String> {
    match question {
        Question::Residual { points } => each(points, |(n, m, e)| residual(n, m, e)),
        Question::Cost { kind, points } => {
            each(points, |(n, m, e, group)| cost(n, m, e, group, kind))
        }
        Question::Integrated { points } => {
            each(points, |(k, more, e, group)| integrated(k, more, e, group))
        }
        Question::Tcp { points } => {
            each(points, |(n, m, e, window)| tcp_efficiency(n, m, e, window))
        }
        Question::Sack { points } => {
            each(points, |(n, m, e, window)| sack_efficiency(n, m, e, window))
        }
        Question::Reseq { points } => each(points, |(n, m, e, window, group)| -> Resequencing {
            reseq(residual(n, m, e), window, group)
        }),
        Question::Tree3 { points } => {
            let tree = |(height, branch, receivers, shared, loss)| {
                Tree::tree3(height, branch, receivers, shared, loss).expected()
            };
            json(&all(points.into_iter().map(tree))?)
        }
        Question::Tree4 { points } => {
            let tree = |(height, branch, lan, receivers, size, losses)| {
                Tree::tree4(height, branch, lan, receivers, size, losses).expected()
            };
            json(&all(points.into_iter().map(tree))?)
        }
        Question::Plan { tree, effect } => {
            let (tree, _) = tree.tree().map_err(failed)?;
            json(&plan(&tree, effect).map_err(failed)?)
        }
        Question::Star { study } => json(&study.run().map_err(failed)?),
        Question::Bursts { study } => json(&study.run().map_err(failed)?),
        Question::Order { study } => json(&study.run().map_err(failed)?),
        Question::Steps { study } => json(&study.run().map_err(failed)?),
        Question::Stalls { study } => json(&study.run().map_err(failed)?),
        Question::Share { study } => json(&study.run().map_err(failed)?),
    }
}
