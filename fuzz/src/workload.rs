//! Distributions, traces and workloads: whatever a file holds, it is one or an error.

use layercast_workload::Workload;
use layercast_workload::analyze::{self, Connection, HttpOptions, VideoOptions};
use layercast_workload::app::Trace;
use layercast_workload::dist::{Columns, Distribution, Formula, Kind, Unit, condense, import};

/// Any text: a distribution that agrees with itself and survives writing, a formula, a trace, what is behind it,
/// a workload.
pub fn dist(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let _ = Formula::parse(text);
    if let Ok(trace) = Trace::parse(text) {
        let found = analyze::video(&trace, VideoOptions::default());
        assert_eq!(found.packets + 1, trace.packets().len());
    }
    if let Ok(trace) = Connection::parse(text) {
        let found = analyze::http(&trace, &HttpOptions::default());
        assert!(found.pages <= found.connections.kept && found.seconds >= 0.0);
        let numbers = found.quantities.values();
        assert!(
            numbers
                .clone()
                .all(|it| it.min >= 0.0 && it.mean.is_finite())
        );
    }
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
