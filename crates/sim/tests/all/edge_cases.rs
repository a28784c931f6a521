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

/// From 2,000 nodes on the world looks ahead, also where no host has TCP.
#[test]
fn a_layered_scenario_may_have_thousands_of_nodes() {
    let mut text = "name = \"star\"\nduration = \"1s\"\n\
        flow = [{ name = \"f\", source = \"src\", clip = { synthetic = \"canyon\" }, frame_rate = 24, delay_max = \"500ms\" }]\n\
        receiver = [{ node = \"h1\", flow = \"f\" }]\n\
        [[node]]\nname = \"sw\"\nkind = \"switch\"\n[[node]]\nname = \"src\"\nkind = \"host\"\n\
        [[link]]\na = \"src\"\nb = \"sw\"\nrate = \"100 Mbit/s\"\nqueue = \"10 ms\"\n"
        .to_owned();
    for host in 0..2_000 {
        text += &format!(
            "[[node]]\nname = \"h{host}\"\nkind = \"host\"\n\
             [[link]]\na = \"sw\"\nb = \"h{host}\"\nrate = \"100 Mbit/s\"\nqueue = \"10 ms\"\n"
        );
    }
    let summary = run(&scenario(&text));
    assert!(summary.flows[0].receivers[0].frames.base > 0);
}
