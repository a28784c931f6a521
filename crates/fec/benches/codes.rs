//! Time to encode a block and to repair the largest number of losses, by code, with packets of 1,400 octets.

#![allow(
    missing_docs,
    reason = "criterion_group! makes an undocumented function"
)]

use std::hint::black_box;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use layercast_fec::Scheme;

fn codes(criterion: &mut Criterion) {
    for (name, scheme) in [
        ("xor_shift", Scheme::XorShift),
        ("reed_solomon", Scheme::ReedSolomon),
        ("raptorq", Scheme::RaptorQ),
    ] {
        let mut group = criterion.benchmark_group(format!("fec_{name}"));
        for (n, m) in [(7, 1), (6, 2), (20, 4), (100, 20)] {
            let mut code = scheme.code();
            let sources: Vec<Bytes> = (0..n).map(|i| vec![i as u8; 1_400].into()).collect();
            let mut parities = Vec::new();
            let mut keep =
                |parity: &[u8]| parities.push((parities.len(), Bytes::copy_from_slice(parity)));
            code.encode(&sources, 0..m, &mut keep)
                .expect("the block can be encoded");
            group.throughput(Throughput::Elements(n as u64));
            group.bench_function(BenchmarkId::new("encode", format!("{n}+{m}")), |bench| {
                bench.iter(|| {
                    code.encode(black_box(&sources), 0..m, &mut |parity| {
                        black_box(parity);
                    })
                });
            });
            let mut arrived: Vec<Option<Bytes>> = sources.into_iter().map(Some).collect();
            group.bench_function(BenchmarkId::new("decode", format!("{n}+{m}")), |bench| {
                bench.iter(|| {
                    arrived[..m].fill(None);
                    code.decode(&mut arrived, 1_402, black_box(&parities))
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, codes);
criterion_main!(benches);
