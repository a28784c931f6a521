//! `layercast ilp verify`: random chains over random ADUs, by every executor.

use clap::Args;
use layercast_core::Stream;
use layercast_ilp::stages::LIBRARY;
use layercast_ilp::{Chain, Channel, Executor, IlpError, Keys, Pipeline, recv_adu, send_adu};
use layercast_ilp_macros::Adu;
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::output::{count, print, print_json};
use crate::units;

/// `layercast ilp verify`.
#[derive(Debug, Args)]
#[command(after_help = "\
Sends random ADUs through random chains of one to five stages of the library: as one loop for each
stage, as one fused loop, and in strips. All must give the same octets and give the ADU back. A
flipped bit of what was sent must be reported wherever the chain has a check. Exit code 1 if one
does not.

Examples:
  layercast ilp verify --cases 1000
  layercast ilp verify --cases 10000 --seed 7 --json")]
pub struct Verify {
    /// Chains with their ADUs
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = units::whole(1..=10_000_000_u32))]
    pub cases: u32,
    /// Seed of the draws
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = units::whole(0..=u64::MAX))]
    pub seed: u64,
    /// Print one JSON object (docs/src/reference/json-ilp.md)
    #[arg(long)]
    pub json: bool,
}

/// What random chains did.
#[derive(Debug, Default, Serialize)]
struct Report {
    /// Chains with their ADUs.
    cases: u32,
    /// Of them, those in which all ways gave the same octets.
    same: u32,
    /// Those in which each way gave the ADU back.
    returned: u32,
    /// Chains with a check in which a bit was flipped.
    flipped: u32,
    /// Of them, those in which each way gave an error, the same one.
    reported: u32,
    /// Octets that were sent.
    octets: u64,
}

#[derive(Adu, Clone, PartialEq, Debug)]
struct Sample {
    number: u64,
    #[xdr(max = 64)]
    name: Vec<u8>,
    #[xdr(max = 8)]
    parts: Vec<Part>,
}

#[derive(Adu, Clone, PartialEq, Debug)]
enum Part {
    Nothing,
    Octets(#[xdr(max = 2_000)] Vec<u8>),
    Place { x: i32, y: i32 },
}

const EXECUTORS: [Executor; 4] = [
    Executor::Sequential,
    Executor::Ilp,
    Executor::Strip(64),
    Executor::Strip(1_024),
];

/// Runs the command.
pub fn run(args: &Verify) -> Outcome {
    let mut rng = Stream::new(args.seed, "ilp");
    let mut report = Report::default();
    for _ in 0..args.cases {
        case(&mut rng, &mut report);
    }
    if args.json {
        print_json(&report)?;
    } else {
        print(&format!(
            "{}, {}: {} with the same octets by all ways, {} given back, {} of {} flipped bits reported\n",
            count(report.cases, "case"),
            count(report.octets, "octet"),
            report.same,
            report.returned,
            report.reported,
            report.flipped
        ))?;
    }
    let right = report.same == report.cases
        && report.returned == report.cases
        && report.reported == report.flipped;
    match right {
        true => Ok(()),
        false => Err(Failure::new("not all ways of running a chain agree")),
    }
}

fn below(rng: &mut Stream, end: usize) -> usize {
    rng.below(end as u64) as usize
}

fn octets(rng: &mut Stream, most: usize) -> Vec<u8> {
    let len = below(rng, most + 1);
    (0..len).map(|_| below(rng, 256) as u8).collect()
}

fn sample(rng: &mut Stream) -> Sample {
    let parts = below(rng, 5);
    Sample {
        number: rng.below(u64::MAX),
        name: octets(rng, 64),
        parts: (0..parts)
            .map(|_| match below(rng, 3) {
                0 => Part::Nothing,
                1 => Part::Octets(octets(rng, 400)),
                _ => Part::Place {
                    x: below(rng, 1 << 20) as i32,
                    y: -(below(rng, 1 << 20) as i32),
                },
            })
            .collect(),
    }
}

fn case(rng: &mut Stream, report: &mut Report) {
    let stages = 1 + below(rng, 5);
    let names: Vec<&str> = (0..stages)
        .map(|_| LIBRARY[below(rng, LIBRARY.len())].shape.name)
        .collect();
    let keys = Keys {
        key: std::array::from_fn(|_| below(rng, 256) as u8),
        nonce: std::array::from_fn(|_| below(rng, 256) as u8),
    };
    let adu = sample(rng);
    let number = rng.below(1 << 40);
    let channel = |executor| {
        let chain = Chain::of_names(names.iter().copied(), &keys).expect("names of the library");
        let mut channel = Channel::new(chain, executor);
        channel.seek(number);
        channel
    };
    let sent = EXECUTORS.map(|executor| {
        let mut out = vec![0; 16_384];
        let len = send_adu(&mut channel(executor), &adu, &mut out).expect("there is room");
        out.truncate(len);
        out
    });
    let mut wire = sent[0].clone();
    let received = |wire: &[u8]| {
        EXECUTORS.map(|executor| {
            let received: Result<_, IlpError> = recv_adu::<_, Sample>(&mut channel(executor), wire);
            received.map(layercast_ilp::Verified::into_inner)
        })
    };
    report.cases += 1;
    report.octets += wire.len() as u64;
    report.same += u32::from(sent.iter().all(|it| *it == wire));
    report.returned += u32::from(received(&wire).iter().all(|it| it.as_ref() == Ok(&adu)));
    if channel(Executor::Ilp).pipeline().trailer_words() > 0 {
        let at = below(rng, wire.len());
        wire[at] ^= 1 << below(rng, 8);
        let told = received(&wire);
        report.flipped += 1;
        report.reported += u32::from(told.iter().all(|it| it.is_err() && *it == told[0]));
    }
}
