//! Distributions, traces and workloads: whatever a file holds, it is one or an error.

use layercast_workload::Workload;
use layercast_workload::app::Trace;
use layercast_workload::dist::{Columns, Distribution, Formula, Kind, Unit, condense, import};

/// Any text: a distribution that agrees with itself and survives writing, a formula, a trace, a workload.
pub fn dist(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let _ = Formula::parse(text);
    let _ = Trace::parse(text);
    let _ = Workload::parse(text, &|_| Ok(text.to_owned()));
    let columns = [Columns::Samples, Columns::ValueCdf, Columns::ValueCountCdf];
    let imported = columns.map(|columns| import("x", text, columns, "x", Unit::Bytes, Kind::Cont));
    let parsed = Distribution::parse("x", text);
    for dist in imported.into_iter().chain([parsed]).flatten() {
        for u in [0.0, 0.25, 0.5, 0.999, 1.0] {
            let value = dist.quantile(u);
            assert!(value.is_finite() && value >= 0.0);
            assert!(dist.cdf(value) >= u - 1e-9 && dist.cdf_below(value) <= u + 1e-9);
        }
        let _ = condense(&dist, 0.01).mean();
        if let Some(text) = dist.to_file() {
            let again = Distribution::parse("x", &text).expect("what was written can be read");
            assert_eq!(again.law, dist.law);
        }
    }
}
