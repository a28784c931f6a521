//! Terms of a contract for hostile tests.

use layercast_wire::Bounds;
use proptest::prelude::*;

/// Bounds as only a peer of ours makes them: any finite values.
pub fn bounds() -> impl Strategy<Value = Option<Box<Bounds>>> {
    let pair = || proptest::option::of([0.0..1e13, 0.0..1e13]);
    let all = (pair(), pair(), pair(), pair());
    proptest::option::of(all.prop_map(|(throughput, delay, jitter, error_rate)| {
        Box::new(Bounds {
            throughput,
            delay,
            jitter,
            error_rate,
        })
    }))
}
