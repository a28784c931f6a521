//! Time to seal and to open a datagram of a link, beside the bare cipher.
#![allow(
    missing_docs,
    reason = "criterion_group! makes an undocumented function"
)]

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use layercast_protect::{LINK_OVERHEAD, LinkKey, LinkOpener, LinkSealer};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// RES or ADAPT, a datagram of cells, a full METS packet.
const SIZES: [usize; 3] = [48, 1_166, 1_200];
const BATCH: usize = 64;
const TAG: usize = 16;

fn seal_all(sealer: &mut LinkSealer, size: usize, out: &mut Vec<u8>) {
    out.clear();
    for _ in 0..BATCH {
        let sealed = sealer.seal(out, |out| out.resize(out.len() + size, 0x5A));
        assert_eq!(sealed, Ok(()));
    }
}

/// AES-256-GCM of `ring` over the same octets, in place: no counters, no window, nothing copied.
fn cipher(c: &mut Criterion) {
    let mut group = c.benchmark_group("protect/cipher");
    group.throughput(Throughput::Elements(BATCH as u64));
    let key = UnboundKey::new(&AES_256_GCM, &[7; 32]).expect("a key");
    let key = LessSafeKey::new(key);
    let nonce = |place: usize| Nonce::assume_unique_for_key([place as u8; 12]);
    let header = Aad::from([1; 9]);
    for size in SIZES {
        group.bench_function(BenchmarkId::new("seal", size), |b| {
            let mut data = vec![0x5A; BATCH * size];
            b.iter(|| {
                for (place, data) in data.chunks_mut(size).enumerate() {
                    let tag = key.seal_in_place_separate_tag(nonce(place), header, data);
                    assert!(black_box(tag).is_ok());
                }
            });
        });
        group.bench_function(BenchmarkId::new("open", size), |b| {
            let mut sealed = Vec::new();
            for place in 0..BATCH {
                let mut data = vec![0x5A; size];
                key.seal_in_place_append_tag(nonce(place), header, &mut data)
                    .expect("sealed");
                sealed.extend(data);
            }
            let open = |mut sealed: Vec<u8>| {
                for (place, data) in sealed.chunks_mut(size + TAG).enumerate() {
                    assert!(key.open_in_place(nonce(place), header, data).is_ok());
                }
                sealed
            };
            b.iter_batched(|| sealed.clone(), open, BatchSize::LargeInput);
        });
    }
    group.finish();
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

criterion_group!(benches, cipher, link);
criterion_main!(benches);
