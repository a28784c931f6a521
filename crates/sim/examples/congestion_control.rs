//! A congestion control in one file: Scalable TCP (Kelly 2003) beside Reno, each alone on a long fat path.
//!
//! `cargo run --release -p layercast-sim --example congestion_control`. Nothing here is internal: a crate of one's own that
//! depends on `layercast-tcp` and `layercast-sim` does the same.

use std::path::Path;

use layercast_sim::internet::scenario::Scenario;
use layercast_sim::internet::{Internet, Role};
use layercast_tcp::{Acked, CongestionControl, ControlFactory, Window};

/// Grows by a hundredth of what is acknowledged, and gives up an eighth of the window at a loss: it recovers after the same
/// number of round trips, however large the window is.
#[derive(Default, Debug)]
struct Scalable {
    /// Bytes acknowledged that have not become a part of the window yet.
    rest: u64,
}

impl CongestionControl for Scalable {
    fn on_ack(&mut self, window: &mut Window, acked: &Acked) {
        // Below the threshold it is slow start, as of all.
        self.rest += window.slow_start(acked.bytes);
        window.grow(self.rest / 100);
        self.rest %= 100;
    }

    fn on_loss(&mut self, window: &mut Window, flight: u64) {
        self.rest = 0;
        window.set_ssthresh(flight - flight / 8);
    }
}

const SCENARIO: &str = r#"
schema = "internet/1"
name = "long fat path"
run = { duration = "120s", warm_up = "20s" }
[tcp.default]
variant = "sack"
send_buffer = "16 MB"
recv_buffer = "16 MB"
[topology]
kind = "dumbbell"
pairs = 1
trunk = { rate = "200 Mbit/s", delay = "50ms", queue = "160 packets" }
access = { rate = "1 Gbit/s", delay = "10us" }
[[flow]]
from = "left1"
to = "right1"
"#;

fn main() {
    let scenario = Scenario::from_toml(SCENARIO, Path::new("")).expect("it is a scenario");
    let controls = [
        ("Reno", None),
        ("Scalable", Some(ControlFactory::new(Scalable::default))),
    ];
    for (name, control) in controls {
        let mut network = scenario.resolve().expect("it is a network");
        for node in &mut network.nodes {
            if let Role::Host(tcp) = &mut node.role {
                tcp.control = control.clone();
            }
        }
        let report = Internet::new(&network).expect("it can run").run(&mut ());
        let (flow, queue) = (&report.flows[0], &report.queues[0]);
        println!(
            "{name:9} {:6.1} Mbit/s, {} recoveries, utilisation {:.2}",
            flow.goodput_bps / 1e6,
            flow.fast_retransmits,
            queue.utilisation,
        );
    }
}
