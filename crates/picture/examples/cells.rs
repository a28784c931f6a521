//! AAL5+ beside classical AAL5 on one transport stream: speed on one core, or what losses of cells cost.
//!
//! Prints JSON. Usage: `cells speed FILE.ts`; `cells loss FILE.ts RATE BURST SEED`, with the mean length of a burst of lost
//! cells (1: independent losses).

use std::hint::black_box;
use std::time::{Duration, Instant};

use layercast_core::Time;
use layercast_picture::study::{LossSetting, cells_of};
use layercast_picture::{Aal5Plus, Aal5PlusConfig, Aal5PlusReceiver, Mode, ReceiverConfig};
use serde_json::{Value, json};

const PACKET: usize = 188;
const ROUNDS: usize = 7;

type Packets = Vec<[u8; PACKET]>;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let report = match words[..] {
        ["speed", file] => speed(&stream(file)),
        ["loss", file, rate, burst, seed] => {
            let number = |text: &str| text.parse::<f64>().expect("a number");
            let seed = seed.parse().expect("a seed");
            losses(&stream(file), number(rate), number(burst), seed)
        }
        _ => panic!("usage: cells speed FILE.ts | cells loss FILE.ts RATE BURST SEED"),
    };
    println!("{report:#}");
}

/// The packets of an aligned file.
fn stream(file: &str) -> Packets {
    let data = std::fs::read(file).expect("a transport stream");
    data.as_chunks().0.to_vec()
}

fn config(mode: Mode) -> Aal5PlusConfig {
    Aal5PlusConfig {
        mode,
        ..Aal5PlusConfig::default()
    }
}

/// Gbit/s of the transport stream, best of several rounds.
fn speed(packets: &Packets) -> Value {
    let octets = packets.len() * PACKET;
    let best = |mut work: Box<dyn FnMut() + '_>| {
        let mut best = Duration::MAX;
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            work();
            best = best.min(begun.elapsed());
        }
        octets as f64 * 8.0 / best.as_secs_f64() / 1e9
    };
    let mut copy = packets.clone();
    let memcpy = best(Box::new(|| {
        copy.copy_from_slice(black_box(packets));
        black_box(&copy);
    }));
    let mut report = json!({ "octets": octets, "memcpy_gbit_s": memcpy });
    for (name, mode) in [("aal5_plus", Mode::Separate), ("mark", Mode::Mark)] {
        let encode = best(Box::new(|| {
            let mut sender = Aal5Plus::new(config(mode)).expect("a good configuration");
            for packet in packets {
                sender.push(Time::ZERO, black_box(packet)).expect("aligned");
                while let Some(cell) = sender.poll_cell() {
                    black_box(&cell);
                }
            }
        }));
        let (cells, _) = cells_of(mode, config(mode).group, packets).expect("an aligned stream");
        let decode = best(Box::new(|| {
            let mut receiver = receiver(mode);
            for cell in &cells {
                receiver.on_cell(Time::ZERO, black_box(cell));
                while let Some(packet) = receiver.poll_packet() {
                    black_box(&packet);
                }
            }
        }));
        report[name] = json!({ "encode_gbit_s": encode, "decode_gbit_s": decode });
    }
    report
}

fn receiver(mode: Mode) -> Aal5PlusReceiver {
    Aal5PlusReceiver::new(ReceiverConfig {
        mode,
        ..ReceiverConfig::default()
    })
}

/// Loses cells of both kinds at this mean rate, in bursts of this mean length.
fn losses(packets: &Packets, rate: f64, burst: f64, seed: u64) -> Value {
    let run = |mode: Mode| {
        let setting = LossSetting {
            mode,
            group: config(mode).group,
            rate,
            burst,
            seed,
        };
        setting
            .run(packets)
            .expect("a good setting and an aligned stream")
    };
    json!({ "aal5_plus": run(Mode::Separate), "aal5": run(Mode::Mark) })
}
