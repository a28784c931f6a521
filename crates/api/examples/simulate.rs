//! Simulates a bottleneck link with queues of several lengths and prints a table to plot, as CSV.
//!
//! `simulate > queue.csv`, then for example gnuplot: `plot 'queue.csv' using 1:3 with linespoints`

use std::error::Error;
use std::path::Path;

use layercast_sim::internet::scenario::Scenario;
use layercast_sim::internet::{Internet, Measurements};

/// Four TCP connections over 10 Mbit/s and a round trip of 24 ms.
fn scenario(queue: u32) -> String {
    format!(
        r#"
        schema = "internet/1"
        name = "bottleneck"
        [run]
        duration = "20s"
        warm_up = "5s"
        [topology]
        kind = "dumbbell"
        pairs = 4
        trunk = {{ rate = "10 Mbit/s", delay = "10ms", queue = "{queue} packets" }}
        access = {{ rate = "1 Gbit/s", delay = "1ms" }}
        [[flow]]
        from = "left{{1..4}}"
        to = "right{{1..4}}"
        "#
    )
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("queue_packets,goodput_mbps,mean_wait_ms,drops");
    for queue in [5, 10, 20, 50, 100] {
        let network = Scenario::from_toml(&scenario(queue), Path::new("."))?.resolve()?;
        let report = Internet::new(&network)?.run(&mut Measurements::new(&network));
        let goodput: f64 = report.flows.iter().map(|flow| flow.goodput_bps).sum();
        let name = "left->right";
        let trunk = report.queues.iter().find(|queue| queue.name == name);
        let trunk = trunk.ok_or("the dumbbell has this link")?;
        let (wait, drops) = (trunk.mean_wait * 1e3, trunk.dropped_full);
        println!("{queue},{:.3},{wait:.2},{drops}", goodput / 1e6);
    }
    Ok(())
}
