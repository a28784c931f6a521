//! AAL5+ beside classical AAL5 on one transport stream: what losses of cells cost, or speed on one core, with that of the
//! classifier and of the shared buffer, beside a copy of the same octets and a plain queue.
//!
//! Prints JSON. Usage: `aal5_plus speed FILE.ts`; `aal5_plus loss FILE.ts RATE BURST SEED`, with the mean length of a burst of lost
//! cells (1: independent losses).

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

use crc::{CRC_32_BZIP2, Crc, Table};
use layercast_atm::{Cell, FrameId, SharedBuffer, SharedBufferConfig, SharedPolicy, Vcid};
use layercast_core::Time;
use layercast_media::TsClassifier;
use layercast_picture::study::{LossSetting, cells_of};
use layercast_picture::{Aal5Plus, Aal5PlusConfig, Aal5PlusReceiver, Mode, ReceiverConfig};
use layercast_wire::OneCell;
use serde_json::{Value, json};

const PACKET: usize = 188;
/// Of which the best counts: a round is shorter than a time slice of a busy machine.
const ROUNDS: usize = 51;
/// Circuits that share the buffer, and its cells.
const CIRCUITS: u32 = 64;
const BUFFER: usize = 1_000;

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
    let classify = best(Box::new(|| {
        let mut classifier = TsClassifier::default();
        for packet in packets {
            let run = |class, range| {
                black_box((class, range));
            };
            classifier.push(black_box(packet), run).expect("aligned");
        }
    }));
    report["classifier_gbyte_s"] = (classify / 8.0).into();
    report["buffer_mcells_s"] = buffers(packets);
    report["crc_ns"] = crcs(packets);
    report
}

/// Nanoseconds of a one-cell frame that is made and read, beside the CRC-32 of its 44 octets by two libraries; that of crc32fast
/// is reflected, so that it takes octets with their bits turned round.
fn crcs(packets: &Packets) -> Value {
    static TABLE: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_BZIP2);
    let pieces: Vec<[u8; 44]> = packets
        .iter()
        .flat_map(|packet| packet.as_chunks::<44>().0)
        .copied()
        .collect();
    let frames = pieces.iter().map(|piece| OneCell {
        octets: std::array::from_fn(|at| piece[at]),
        uu: piece[40],
        cpi: 0,
    });
    let frames: Vec<OneCell> = frames.collect();
    let cells: Vec<_> = frames.iter().map(|it| it.to_cell(0, 64)).collect();
    let best = |work: &mut dyn FnMut()| {
        let rounds = (0..ROUNDS).map(|_| {
            let begun = Instant::now();
            work();
            begun.elapsed()
        });
        let time = rounds.min().unwrap_or_default();
        time.as_secs_f64() * 1e9 / pieces.len() as f64
    };
    json!({
        "one_cell_made": best(&mut || for it in &frames {
            black_box(black_box(it).to_cell(0, 64));
        }),
        "one_cell_read": best(&mut || for it in &cells {
            let _ = black_box(OneCell::read(black_box(&it.payload)));
        }),
        "crc_44_octets": best(&mut || for it in &pieces {
            black_box(TABLE.checksum(black_box(it)));
        }),
        "crc_48_octets": best(&mut || for it in &cells {
            black_box(TABLE.checksum(black_box(&it.payload)));
        }),
        "crc32fast_44_octets_turned": best(&mut || for it in &pieces {
            let turned = black_box(it).map(u8::reverse_bits);
            black_box(crc32fast::hash(&turned).reverse_bits());
        }),
    })
}

/// Millions of cells of the stream per second into a buffer that is full, and every second one out: the plain queue refuses what
/// does not fit, the shared buffer pushes out.
fn buffers(packets: &Packets) -> Value {
    let (marked, _) = cells_of(Mode::Separate, 8, packets).expect("an aligned stream");
    // Each circuit is elsewhere in the stream; eight cells are a frame, as packets of two are.
    let of = |number: u32| {
        let (vc, at) = (number % CIRCUITS, number / CIRCUITS);
        let place = at as usize + vc as usize * marked.len() / CIRCUITS as usize;
        let class = marked[place % marked.len()].class;
        Cell::of(FrameId(at / 8), Vcid(vc as u16), at % 8, 8).with_class(class)
    };
    let cells: Vec<Cell> = (0..marked.len() as u32).map(of).collect();
    let best = |work: &mut dyn FnMut() -> u64| {
        let rounds = (0..ROUNDS).map(|_| {
            let begun = Instant::now();
            let pushed = work();
            (begun.elapsed(), pushed)
        });
        let (time, pushed) = rounds.min().expect("several rounds");
        (cells.len() as f64 / time.as_secs_f64() / 1e6, pushed)
    };
    let (plain, _) = best(&mut || {
        let mut queue = VecDeque::with_capacity(BUFFER);
        for (number, cell) in cells.iter().enumerate() {
            if queue.len() < BUFFER {
                queue.push_back(*black_box(cell));
            }
            if number % 2 == 0 {
                black_box(queue.pop_front());
            }
        }
        0
    });
    let mut report = json!({ "plain_queue": plain });
    for policy in SharedPolicy::ALL {
        let (speed, pushed) = best(&mut || {
            let mut buffer = SharedBuffer::new(SharedBufferConfig {
                policy,
                // No class is refused early, so that all room is made by pushing out.
                thresholds: [100; 4],
                ..SharedBufferConfig::default()
            })
            .expect("a good configuration");
            for (number, cell) in cells.iter().enumerate() {
                black_box(buffer.enqueue(*black_box(cell)));
                if number % 2 == 0 {
                    black_box(buffer.dequeue());
                }
            }
            buffer.stats().iter().map(|it| it.pushed_out).sum()
        });
        report[policy.name()] = json!({ "mcells_s": speed, "pushed_out_percent": 100.0 * pushed as f64 / cells.len() as f64 });
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
