//! Rows of docs/src/reference/edge-cases.md that need a whole network.

use crate::common::{CHAIN, run, scenario};

#[test]
fn whichever_cell_is_marked_a_loss_free_run_is_the_same() {
    let run_with = |mark: &str| {
        let text = CHAIN
            .replace("carriage = \"datagrams\"", "carriage = \"cells\"")
            .replace("duration", &format!("aal5_mark = \"{mark}\"\nduration"));
        run(&scenario(&text))
    };
    let (first, last) = (run_with("first"), run_with("last"));
    assert!(last.cell_hops > 100_000 && last.flows[0].receivers.len() == 3);
    assert_eq!(first.flows, last.flows);
    assert_eq!(first.cell_hops, last.cell_hops);
    assert_eq!(first.queues, last.queues);
}
