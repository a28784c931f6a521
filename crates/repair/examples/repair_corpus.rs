//! Writes the seeds of the fuzz corpus: datagrams of a link with repair, and each with one thing wrong.
//!
//! `cargo run -p layercast-repair --example repair_corpus -- fuzz/corpus`

use std::io;

use layercast_core::{Layer, Serial};
use layercast_repair::{Arrival, Beacon, Feedback, Head, Missing, Parity};

#[path = "../../../fuzz/src/seeds.rs"]
mod seeds;

const SESSION: u16 = 7;

fn data(counter: u32) -> Head {
    Head::Data {
        session: SESSION,
        counter: Serial(counter),
        layer: Layer::E1,
    }
}

fn repair(counter: u32, back: u16) -> Head {
    Head::Repair {
        session: SESSION as u8,
        counter,
        layer: Layer::Base,
        back,
    }
}

fn marker(hi: u32) -> Head {
    Head::Marker {
        session: SESSION,
        hi: Serial(hi),
        every_ms: 0,
        rtt_us: 40_000,
        asks: hi % 2 == 1,
    }
}

fn shared(counter: u32) -> Head {
    Head::Shared {
        session: SESSION,
        counter: Serial(counter),
        layer: Layer::E1,
        parities: 0,
    }
}

/// A parity of the contents before it that the mask names.
fn parity(counter: u32, back: u16, index: u8, contents: u128) -> Head {
    Head::Parity(Parity {
        session: SESSION,
        counter: Serial(counter),
        layer: Layer::E1,
        parities: index,
        back,
        index,
        until: index + 1,
        contents,
    })
}

fn beacon(hi: u32, parities: u8) -> Head {
    Head::Beacon(Beacon {
        session: SESSION,
        hi: Serial(hi),
        parities,
        members: 20,
        deficit: 2,
        rtt_us: 40_000,
    })
}

fn feedback(tx_us: u32, hi: u32, missing: Vec<Missing>) -> Head {
    let arrivals = (0..hi.min(4) as u16).map(|back| Arrival {
        back,
        ago_us: u32::from(back) * 500,
    });
    Head::Feedback(Feedback {
        session: SESSION,
        tx_us: Serial(tx_us),
        hi: Serial(hi),
        known: hi as u16 + 1,
        window_us: 1_000,
        budget_ms: Some(200),
        next_ms: 15,
        missing,
        arrivals: arrivals.collect(),
    })
}

fn missing(back: u16, len: u16, requested: bool) -> Missing {
    Missing {
        back,
        len,
        requested,
    }
}

/// Feedback of two ports that share a line, as `fuzz/src/shared_line.rs` reads it: `apart` is how many units of 4 ms the newest datagrams
/// claim to have arrived one after another, and `step` the time between two reports in units of 1 ms, by number.
fn lies(apart: fn(u8) -> u8, step: fn(u8) -> u16) -> Vec<u8> {
    let mut all = Vec::new();
    let mut sent = 0_u16;
    for number in 0..160 {
        sent = sent.wrapping_add(step(number));
        let [high, low] = sent.to_be_bytes();
        all.extend([0x30 | (number % 2), high, low, 0, 20, 0, 8, 10, 100]);
        all.extend((0..6).flat_map(|back: u8| [back, back.saturating_mul(apart(number))]));
        all.extend([1, 0, 0, 0]);
    }
    all
}

fn main() -> io::Result<()> {
    let lies = [
        ("alike", lies(|_| 1, |_| 20)),
        ("slower", lies(|number| 1 + number / 10, |_| 20)),
        (
            "sudden",
            lies(|_| 1, |number| if number < 80 { 20 } else { 2_000 }),
        ),
    ];
    seeds::write("shared_line", lies)?;
    let lost = vec![
        missing(9, 3, true),
        missing(4, 1, false),
        missing(1, 1, true),
    ];
    let conversations = [
        ("data", vec![data(0), data(1), data(3), data(70_000)]),
        (
            "repair",
            vec![data(0), data(3), repair(4, 3), repair(5, 3), data(1)],
        ),
        ("marker", vec![data(0), marker(5), repair(6, 5), data(7)]),
        (
            "feedback",
            (20..32)
                .map(data)
                .chain([feedback(1, 10, lost.clone())])
                .collect(),
        ),
        (
            "group",
            vec![
                shared(0),
                shared(1),
                shared(3),
                beacon(3, 0),
                parity(4, 4, 0, 0b1111),
                parity(5, 5, 1, 0b1111),
                beacon(9, 2),
                shared(10),
            ],
        ),
        (
            "parities",
            vec![
                data(0),
                data(1),
                data(3),
                parity(4, 4, 0, 0b1111),
                parity(5, 5, 1, 0b1111),
                data(6),
                parity(9, 2, 0, 0b11),
            ],
        ),
        (
            "all",
            (0..12)
                .map(data)
                .chain([
                    feedback(1, 11, lost),
                    feedback(2, 3, vec![missing(3, 4, true)]),
                ])
                .collect(),
        ),
    ];
    let seeds = conversations.map(|(name, heads): (_, Vec<Head>)| {
        let mut all = Vec::new();
        for head in heads {
            let mut datagram = Vec::new();
            head.encode_into(&mut datagram);
            if !matches!(
                head,
                Head::Marker { .. } | Head::Feedback(_) | Head::Beacon(_)
            ) {
                datagram.extend_from_slice(b"content");
            }
            all.extend_from_slice(&(datagram.len() as u16).to_be_bytes());
            all.extend(datagram);
        }
        (name, all)
    });
    seeds::write("repair", seeds)
}
