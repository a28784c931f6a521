//! The short form of `make soak`.

#[path = "all/common/mod.rs"]
mod common;
#[path = "all/common/soak.rs"]
mod soak;

use std::time::Duration;

use common::real_time;
use soak::{Plan, soak};

#[real_time(tokio)]
async fn receivers_and_switches_come_and_go_and_nothing_is_lost_or_stuck() {
    let plan = Plan {
        seed: 1,
        length: Duration::from_secs(30),
        receivers: 20,
        restarts: Some(Duration::from_secs(6)),
        fresh_names: true,
    };
    let report = soak(plan, |_| {}).await;
    let told = format!("{report:#?}");
    assert!(report.joins > 60 && report.restarts >= 2, "{told}");
    assert!(
        report.undisturbed > 20 && report.played.base > 300,
        "{told}"
    );
    // What the kernel dropped because this machine is busy elsewhere was not lost by the network.
    if report.host_lost == 0 {
        assert_eq!(report.lost.base, 0, "{told}");
        assert_eq!(report.off_boundary, 0, "{told}");
    }
    let stuck = |text: &&String| {
        text.contains("stuck") || text.contains("never") || text.contains("failed")
    };
    assert_eq!(report.troubles.iter().find(stuck), None, "{told}");
    assert_eq!((report.members_left, report.malformed), (0, 0), "{told}");
}
