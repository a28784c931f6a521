//! How fast the simulator moves PDUs over a chain of three switches (four links).

#![allow(missing_docs, reason = "criterion_group! makes a public function")]
#[path = "common/chain.rs"]
mod scenario;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

use self::scenario::{chain, run};

fn hops(c: &mut Criterion) {
    let mut group = c.benchmark_group("chain");
    group.sample_size(10);
    for (carriage, unit) in [("cells", "cell hops"), ("datagrams", "packet hops")] {
        let simulation = chain(carriage, 30);
        let summary = run(&simulation);
        group.throughput(Throughput::Elements(match carriage {
            "cells" => summary.cell_hops,
            _ => summary.packet_hops,
        }));
        group.bench_function(unit, |b| b.iter(|| run(&simulation)));
    }
    group.finish();
}

criterion_group!(benches, hops);
criterion_main!(benches);
