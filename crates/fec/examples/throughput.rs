//! Speed of the codes on one core: octets of source packets encoded, or decoded with the most losses, per second.
//!
//! Prints JSON: for each code and block GB/s of source packets of 1,400 octets. `memcpy` copies 7 such packets;
//! `direct` is the Reed-Solomon library without this crate. Takes about ten seconds.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use layercast_fec::{Code, Scheme};
use reed_solomon_simd::ReedSolomonEncoder;
use serde_json::{Value, json};

const OCTETS: usize = 1_400;
const SHAPES: [(usize, usize); 4] = [(7, 1), (6, 2), (20, 4), (100, 20)];

fn main() {
    let mut rows = vec![row("memcpy", 0, 0, copy(), None)];
    for (n, m) in SHAPES {
        for (name, scheme) in [
            ("xor-shift", Scheme::XorShift),
            ("reed-solomon", Scheme::ReedSolomon),
            ("raptorq", Scheme::RaptorQ),
        ] {
            let mut code = scheme.code();
            let (encode, decode) = (encode(&mut *code, n, m), decode(&mut *code, n, m));
            rows.push(row(name, n, m, encode, Some(decode)));
        }
        rows.push(row("direct", n, m, direct(n, m), None));
    }
    println!("{}", Value::Array(rows));
}

fn row(scheme: &str, n: usize, m: usize, encode: f64, decode: Option<f64>) -> Value {
    json!({ "scheme": scheme, "n": n, "m": m, "encode": encode, "decode": decode })
}

/// GB/s of work on this number of octets: the best of five measurements of 60 ms.
fn speed(octets: usize, mut work: impl FnMut()) -> f64 {
    work();
    let mut best = 0.0_f64;
    for _ in 0..5 {
        let (start, mut times) = (Instant::now(), 0_u32);
        while start.elapsed() < Duration::from_millis(60) {
            (0..16).for_each(|_| work());
            times += 16;
        }
        best = best.max(f64::from(times) * octets as f64 / start.elapsed().as_secs_f64() / 1e9);
    }
    best
}

fn payloads(n: usize) -> Vec<Bytes> {
    (0..n)
        .map(|i| (0..OCTETS).map(|at| (at * 7 + i * 13) as u8).collect())
        .collect()
}

fn copy() -> f64 {
    let sources = payloads(7);
    let mut out = vec![0; 7 * OCTETS];
    speed(7 * OCTETS, || {
        for (source, out) in sources.iter().zip(out.chunks_exact_mut(OCTETS)) {
            out.copy_from_slice(black_box(source));
        }
        black_box(&out);
    })
}

fn encode(code: &mut dyn Code, n: usize, m: usize) -> f64 {
    let sources = payloads(n);
    speed(n * OCTETS, || {
        let done = code.encode(black_box(&sources), 0..m, &mut |parity| {
            black_box(parity);
        });
        assert!(done.is_ok(), "the block can be encoded");
    })
}

/// The first `m` source packets are missing, or `m - 1` if the code may need one packet more.
fn decode(code: &mut dyn Code, n: usize, m: usize) -> f64 {
    let sources = payloads(n);
    let mut parities = Vec::new();
    let put = &mut |parity: &[u8]| parities.push((parities.len(), Bytes::copy_from_slice(parity)));
    code.encode(&sources, 0..m, put)
        .expect("the block can be encoded");
    let lost = if code.scheme() == Scheme::RaptorQ {
        (m - 1).max(1)
    } else {
        m
    };
    let mut arrived: Vec<Option<Bytes>> = sources.into_iter().map(Some).collect();
    speed(n * OCTETS, || {
        arrived[..lost].fill(None);
        let done = code.decode(&mut arrived, OCTETS + 2, black_box(&parities));
        assert!(
            done.is_ok_and(|it| it.recovered.len() == lost),
            "the block can be decoded"
        );
    })
}

/// The library alone, in its default variant.
fn direct(n: usize, m: usize) -> f64 {
    let sources = payloads(n);
    let mut encoder = ReedSolomonEncoder::new(n, m, OCTETS).expect("such a code");
    speed(n * OCTETS, || {
        for source in &sources {
            encoder
                .add_original_shard(black_box(source))
                .expect("a shard");
        }
        black_box(encoder.encode().expect("all shards").recovery(0));
    })
}
