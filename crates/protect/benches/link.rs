//! Time to seal and to open a datagram of a link.
#![allow(
    missing_docs,
    reason = "criterion_group! makes an undocumented function"
)]

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use layercast_protect::{LINK_OVERHEAD, LinkKey, LinkOpener, LinkSealer};

/// RES or ADAPT, a datagram of cells, a full METS packet.
const SIZES: [usize; 3] = [48, 1_166, 1_200];
const BATCH: usize = 64;

fn seal_all(sealer: &mut LinkSealer, size: usize, out: &mut Vec<u8>) {
    out.clear();
    for _ in 0..BATCH {
        let sealed = sealer.seal(out, |out| out.resize(out.len() + size, 0x5A));
        assert_eq!(sealed, Ok(()));
    }
}

fn link(c: &mut Criterion) {
    let mut group = c.benchmark_group("protect/link");
    group.throughput(Throughput::Elements(BATCH as u64));
    for size in SIZES {
        let key = LinkKey::new(0, [7; 32]);
        group.bench_function(BenchmarkId::new("seal", size), |b| {
            let mut out = Vec::new();
            let fresh = || LinkSealer::new(&key);
            let seal = |mut sealer: LinkSealer| seal_all(&mut sealer, size, &mut out);
            b.iter_batched(fresh, seal, BatchSize::SmallInput);
        });
        group.bench_function(BenchmarkId::new("open", size), |b| {
            let mut sealed = Vec::new();
            seal_all(&mut LinkSealer::new(&key), size, &mut sealed);
            let fresh = || (LinkOpener::new(&key), sealed.clone());
            let open = |(mut opener, mut sealed): (LinkOpener, Vec<u8>)| {
                for datagram in sealed.chunks_mut(size + LINK_OVERHEAD) {
                    assert!(opener.open(datagram).is_ok());
                }
                sealed
            };
            b.iter_batched(fresh, open, BatchSize::LargeInput);
        });
    }
    group.finish();
}

criterion_group!(benches, link);
criterion_main!(benches);
