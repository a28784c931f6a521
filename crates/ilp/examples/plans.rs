//! How good plans are on this machine: all ways to run random chains are measured, and the way that the planner chooses is compared
//! with the fastest one. `cargo run --release -p layercast-ilp --example plans [CHAINS] [OCTETS OF THE LARGEST CACHE]`

use layercast_ilp::calibrate::{fit, measure};
use layercast_ilp::generator::CHAINS;
use layercast_ilp::harness::Harness;
use layercast_ilp::profile::Temperature;
use layercast_ilp::trial;
use rustix::time::{ClockId, clock_gettime};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let count = words.next().map_or(Ok(CHAINS), |it| it.parse())?;
    let cache = words.next().map_or(Ok(32 << 20), |it| it.parse())?;
    // What other programs do meanwhile does not count.
    let mut clock = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        1_000_000_000 * now.tv_sec as u64 + now.tv_nsec as u64
    };
    let mut harness = Harness::new(&mut clock, cache);
    harness.forced = true;
    let fit = fit("this", &measure(&mut harness)?);
    for temperature in [Temperature::Warm, Temperature::Cold] {
        let trials = trial::run(&mut harness, &fit.profile, count, temperature)?;
        for it in trials.iter().filter(|it| !it.is_right()) {
            let over = 100.0 * (it.planned.ns / it.fastest.ns - 1.0);
            println!(
                "{temperature:?} {}: {:?} takes {over:.0} % more than {:?}",
                it.chain, it.planned, it.fastest
            );
        }
        let right = trials.iter().filter(|it| it.is_right()).count();
        println!(
            "{temperature:?}: 10 % more than the fastest way at most for {right} of {} chains",
            trials.len()
        );
    }
    Ok(())
}
