//! Real chains, fused and not, on the machine at hand. The clock is the caller's.

use std::hint::black_box;

use serde::Serialize;

use crate::pipeline::{Chain, Executor, Pipeline, STRIP};
use crate::profile::{COPY, StageTime};
use crate::stages::{
    AesCtr, ByteSwap, ChaCha20, Checksum, Copy, Crc32Aal5, Crc32c, Keys, Parity, Pes, Poly1305,
    Safer,
};

#[allow(missing_docs, unreachable_pub)]
mod chains {
    include!(concat!(env!("OUT_DIR"), "/chains.rs"));
}

/// Times of a chain, in ns an octet.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Measured {
    /// Name of the chain.
    pub chain: String,
    /// Octets of an ADU.
    pub octets: usize,
    /// Whether the buffers were in no cache.
    pub cold: bool,
    /// A copy, and one loop for each stage.
    pub sequential_ns: f64,
    /// One loop for all.
    pub fused_ns: f64,
    /// One loop for each stage over strips of 1 KiB.
    pub strip_ns: f64,
    /// One loop that calls a function for each stage and unit.
    pub calls_ns: f64,
    /// How much faster the fused loop is than one for each: 1 is the same.
    pub gain: f64,
}

/// Buffers and clock of measurements.
pub struct Bench<'a> {
    now_ns: &'a mut dyn FnMut() -> u64,
    runs: u32,
    junk: Vec<u64>,
}

fn keys() -> Keys {
    Keys {
        key: [7; 32],
        nonce: [9; 12],
    }
}

impl<'a> Bench<'a> {
    /// With a clock in ns, the runs of each way, and the octets of the largest cache.
    pub fn new(now_ns: &'a mut dyn FnMut() -> u64, runs: u32, cache: usize) -> Bench<'a> {
        Bench {
            now_ns,
            runs,
            junk: vec![1; 2 * cache / 8],
        }
    }

    /// Times all chains over ADUs of `octets` octets, a multiple of 64.
    pub fn all(&mut self, octets: usize, cold: bool) -> Vec<Measured> {
        let keys = &keys();
        let mut measured = Vec::new();
        let mut add = |name: &str, stages: &[&str], compiled: &mut dyn Pipeline| {
            measured.push(self.chain(name, stages, compiled, octets, cold));
        };
        let own = &mut chains::Aal5::new(Crc32Aal5::default());
        add("copy, crc32-aal5", &["crc32-aal5"], own);
        let own = &mut chains::Sum::new(Checksum::default());
        add("copy, checksum", &["checksum"], own);
        let own = &mut chains::Xor::new(Parity::default());
        add("copy, parity", &["parity"], own);
        let own = &mut chains::Crc::new(Crc32c::default());
        add("copy, crc32c", &["crc32c"], own);
        let own = &mut chains::Seal::new(ChaCha20::new(keys), Poly1305::new(keys));
        add("copy, chacha20, poly1305", &["chacha20", "poly1305"], own);
        let own = &mut chains::Trivial::new(ByteSwap, Pes::default(), Checksum::default());
        add("bswap, pes, checksum", &["bswap", "pes", "checksum"], own);
        for rounds in [1, 6] {
            let safer = Safer::new(keys.short(), rounds);
            let own = &mut chains::SaferSum::new(ByteSwap, safer, Checksum::default());
            let name = format!("bswap, safer-k64 of {rounds}, checksum");
            add(&name, &["bswap", "safer-k64", "checksum"], own);
        }
        let own = &mut chains::ChaChaSum::new(ByteSwap, ChaCha20::new(keys), Checksum::default());
        let stages = ["bswap", "chacha20", "checksum"];
        add("bswap, chacha20, checksum", &stages, own);
        measured
    }

    /// Times each stage of the library with warm buffers: in a loop of its own, and what it adds to a fused loop.
    pub fn stages(&mut self) -> Vec<StageTime> {
        let (from, mut to) = (vec![0x5A; STAGE_OCTETS], vec![0; STAGE_OCTETS]);
        let mut found: Vec<StageTime> = Vec::new();
        for mut stage in alone(&keys()) {
            let name = stage.shapes()[0].name;
            let [alone, whole] = self.shortest(false, STAGE_OCTETS, |way| {
                let (from, to) = (black_box(&from[..]), black_box(&mut to[..]));
                stage.begin(0);
                match way {
                    0 if name == COPY => to.copy_from_slice(from),
                    0 => stage.fwd_run(0, to),
                    _ => stage.fwd_fused(from, to),
                }
                black_box(stage.finish(0));
            });
            // The first one copies.
            let base = found.first().map_or(0.0, |copy| copy.fused);
            found.push(StageTime {
                name: name.to_owned(),
                alone,
                fused: (whole - base).max(0.0),
            });
        }
        found
    }

    /// The shortest time of each of some ways over `octets` octets, in ns an octet. The runs of the ways alternate.
    fn shortest<const WAYS: usize>(
        &mut self,
        cold: bool,
        octets: usize,
        mut run: impl FnMut(usize),
    ) -> [f64; WAYS] {
        // Pushing all out of the caches takes most of the time.
        let runs = if cold {
            self.runs.div_ceil(4)
        } else {
            self.runs
        };
        let mut least = [f64::INFINITY; WAYS];
        for at in 0..=runs {
            for (way, least) in least.iter_mut().enumerate() {
                if cold {
                    let lines = self.junk.iter().step_by(8);
                    black_box(lines.fold(0_u64, |sum, it| sum.wrapping_add(*it)));
                }
                let start = (self.now_ns)();
                run(way);
                let ns = ((self.now_ns)() - start) as f64 / octets as f64;
                // The first run warms up.
                if at > 0 {
                    *least = least.min(ns);
                }
            }
        }
        least
    }

    fn chain(
        &mut self,
        name: &str,
        stages: &[&str],
        compiled: &mut dyn Pipeline,
        octets: usize,
        cold: bool,
    ) -> Measured {
        let called = Chain::of_names(stages.iter().copied(), &keys());
        let mut called = called.expect("names of the library");
        let from: Vec<u8> = (0..octets).map(|at| (at * 7) as u8).collect();
        let mut to = vec![0; octets];
        // A run over a small ADU is shorter than the clock can tell.
        let times = if cold { 1 } else { (16_384 / octets).max(1) };
        let least = self.shortest(cold, times * octets, |way| {
            for _ in 0..times {
                let (from, to) = (black_box(&from[..]), black_box(&mut to[..]));
                match way {
                    3 => {
                        called.begin(0);
                        called.fwd_fused(from, to);
                    }
                    way => once(way, compiled, from, to),
                }
                black_box(compiled.finish(0));
            }
        });
        let [sequential_ns, fused_ns, strip_ns, calls_ns] = least;
        Measured {
            chain: name.to_owned(),
            octets,
            cold,
            sequential_ns,
            fused_ns,
            strip_ns,
            calls_ns,
            gain: sequential_ns / fused_ns,
        }
    }
}

/// Octets of a run of one stage.
const STAGE_OCTETS: usize = 1 << 14;

/// A pipeline of each stage of the library, of which the compiler knows the stage.
fn alone(keys: &Keys) -> [Box<dyn Pipeline>; 11] {
    [
        Box::new(chains::Moved::new(Copy)),
        Box::new(chains::Swapped::new(ByteSwap)),
        Box::new(chains::Sum::new(Checksum::default())),
        Box::new(chains::Aal5::new(Crc32Aal5::default())),
        Box::new(chains::Crc::new(Crc32c::default())),
        Box::new(chains::Xor::new(Parity::default())),
        Box::new(chains::Pessed::new(Pes::default())),
        Box::new(chains::Safers::new(Safer::new(keys.short(), 6))),
        Box::new(chains::Aes::new(AesCtr::new(keys))),
        Box::new(chains::ChaCha::new(ChaCha20::new(keys))),
        Box::new(chains::Poly::new(Poly1305::new(keys))),
    ]
}

/// One way over one ADU.
fn once(way: usize, pipeline: &mut dyn Pipeline, from: &[u8], to: &mut [u8]) {
    pipeline.begin(0);
    let part = match way {
        0 => from.len(),
        1 => return pipeline.fwd_fused(from, to),
        _ => STRIP,
    };
    for (from, to) in from.chunks(part).zip(to.chunks_mut(part)) {
        to.copy_from_slice(from);
        Executor::Sequential.fwd(pipeline, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::LIBRARY;

    #[test]
    fn each_stage_of_the_library_is_timed() {
        let mut time = 0;
        let mut clock = || {
            time += 1 << 14;
            time
        };
        let found = Bench::new(&mut clock, 1, 1 << 12).stages();
        let names = LIBRARY.iter().map(|it| it.shape.name);
        assert!(names.eq(found.iter().map(|it| &it.name[..])), "{found:?}");
        // By this clock each loop takes 1 ns an octet, so that nothing adds to copying.
        let of = |it: &StageTime| (it.alone, it.fused);
        assert_eq!(of(&found[0]), (1.0, 1.0));
        assert!(
            found[1..].iter().all(|it| of(it) == (1.0, 0.0)),
            "{found:?}"
        );
    }

    #[test]
    fn each_way_over_each_chain_writes_the_same() {
        let mut time = 0;
        let mut clock = || {
            time += 1_000;
            time
        };
        let measured = Bench::new(&mut clock, 1, 1 << 12).all(128, true);
        assert_eq!(measured.len(), 9);
        assert!(measured.iter().all(|it| (it.gain - 1.0).abs() < 1e-9));
        let from: Vec<u8> = (0..2_048_u32).map(|at| (at * 31) as u8).collect();
        let keys = keys();
        let mut chain = chains::Seal::new(ChaCha20::new(&keys), Poly1305::new(&keys));
        let written = [0, 1, 2].map(|way| {
            let mut to = vec![0; from.len()];
            once(way, &mut chain, &from, &mut to);
            (to, chain.finish(1))
        });
        assert!(written.iter().all(|it| *it == written[0]));
        assert_ne!(written[0].0, from);
    }
}
