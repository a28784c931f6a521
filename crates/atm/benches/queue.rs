//! Time for a cell to enter and leave an output queue.
#![allow(
    missing_docs,
    reason = "criterion_group! makes an undocumented function"
)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use layercast_atm::{
    Cell, Class, Discipline, FrameId, OutputQueue, QueueConfig, TrafficSpec, Vcid,
};
use layercast_core::{Rate, Time};

const CIRCUITS: u16 = 64;
/// Cells that are always waiting.
const BACKLOG: u32 = 100;

/// Cells of many circuits in turn, one in and one out, through a queue that is never empty.
fn pass(c: &mut Criterion) {
    let mut group = c.benchmark_group("atm/queue");
    group.throughput(Throughput::Elements(1));
    for (name, discipline) in [
        ("fcfs", Discipline::Fcfs),
        ("nwc", Discipline::RcspNwc),
        ("drr", Discipline::Drr),
        ("edf", Discipline::Edf),
    ] {
        let config = QueueConfig {
            discipline,
            ..QueueConfig::new(Rate::from_bps(1_536_000))
        };
        let mut queue = OutputQueue::new(config).expect("a good configuration");
        // Together the circuits may use the whole link, and they do.
        let mean = config.cell_time.times(u64::from(CIRCUITS));
        let traffic = TrafficSpec {
            x_min: mean.mul_div(1, 2),
            x_ave: mean,
            interval: mean.times(10),
        };
        for vc in 0..CIRCUITS {
            queue.open(Vcid(vc), Class::Level(3), Some(traffic));
        }
        let mut now = Time::ZERO;
        let mut sent = 0_u32;
        let mut next = 0_u32;
        group.bench_function(name, |b| {
            b.iter(|| {
                now += config.cell_time;
                let vc = Vcid((next % u32::from(CIRCUITS)) as u16);
                let cell = Cell::of(FrameId(next), vc, next % 12, 12);
                next = next.wrapping_add(1);
                let taken = queue.enqueue(now, cell);
                let gone = (queue.len() > BACKLOG).then(|| queue.dequeue(now));
                sent = sent.wrapping_add(u32::from(gone.flatten().is_some()));
                taken
            });
        });
        assert!(sent > 0, "nothing was sent");
    }
    group.finish();
}

criterion_group!(benches, pass);
criterion_main!(benches);
