//! Speed of the classifier on one core, beside a copy of the same octets: GB/s of a transport stream.
//!
//! Prints JSON. Usage: `cargo run --release -p layercast-media --example classes FILE.ts`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use layercast_core::DataClass;
use layercast_media::TsClassifier;
use serde_json::json;

/// Octets that are read again and again: more than caches hold.
const AT_LEAST: usize = 64 << 20;
const ROUNDS: usize = 7;

fn main() {
    let path = std::env::args().nth(1).expect("usage: classes FILE.ts");
    let file = std::fs::read(&path).expect("a transport stream");
    let times = AT_LEAST.div_ceil(file.len().max(1));
    let stream = file.repeat(times);
    let packets = stream.as_chunks::<188>().0;
    let mut copy = vec![0; stream.len()];
    let (mut memcpy, mut classifier) = (Duration::MAX, Duration::MAX);
    let mut octets = [0_u64; 4];
    let mut runs = 0_u64;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        copy.copy_from_slice(black_box(&stream));
        black_box(&copy);
        memcpy = memcpy.min(begun.elapsed());

        (octets, runs) = ([0; 4], 0);
        let begun = Instant::now();
        let mut it = TsClassifier::default();
        for packet in packets {
            let _ = it.push(black_box(packet), |class: DataClass, range| {
                octets[class.index()] += range.len() as u64;
                runs += 1;
            });
        }
        classifier = classifier.min(begun.elapsed());
    }
    let speed = |time: Duration| stream.len() as f64 / time.as_secs_f64() / 1e9;
    let report = json!({
        "file": path,
        "octets": stream.len(),
        "runs_per_packet": runs as f64 / packets.len().max(1) as f64,
        "classes": octets,
        "memcpy_gb_s": speed(memcpy),
        "classifier_gb_s": speed(classifier),
    });
    println!("{report:#}");
}
