use layercast_core::{CellRate, Observer, Span, Time};
use layercast_qos::{SerialHead, SerialPacer};

use super::Source;

/// The aggregate pacer of a sending host: releases what the sources of the host with
/// [`Shaping::Serial`](super::Shaping::Serial) hold, at the rate that their slowest receiver takes
/// in, the frame with the earliest deadline first and each frame whole before the next (specs/mets.md 8).
///
/// The rate is the least that the receivers of those sources advertise in RES, but never below what
/// the sources send on average: where receivers are different hosts, each gets only its own part.
#[derive(Debug)]
pub struct HostPacer {
    pacer: SerialPacer,
    grain: Span,
    waiting: bool,
}

/// The state of a source for the pacer of its host.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacerState {
    /// The rate its receivers accept; `None` if unknown.
    pub drain: Option<CellRate>,
    /// Its mean rate.
    pub mean: CellRate,
    /// The frame at the head of its queue.
    pub head: Option<SerialHead>,
}

impl HostPacer {
    /// A pacer that may send what `grain` holds in one burst, to be woken less often; zero spaces every
    /// packet or cell.
    pub fn new(grain: Span) -> HostPacer {
        HostPacer {
            pacer: SerialPacer::default(),
            grain,
            waiting: false,
        }
    }

    /// Lets the sources release what may leave at `now`; gives whether anything did.
    ///
    /// `each` calls its argument once for each source of the host, always in the same order. Call it
    /// whenever the sources were given time or input, and drain them after it gave `true`.
    pub fn run<O: Observer>(
        &mut self,
        now: Time,
        obs: &mut O,
        mut each: impl FnMut(&mut dyn FnMut(&mut Source)),
    ) -> bool {
        let mut moved = false;
        loop {
            let (mut drain, mut mean) = (None::<CellRate>, CellRate(0));
            let mut first: Option<(usize, SerialHead)> = None;
            let mut place = 0;
            each(&mut |source| {
                if let Some(state) = source.pacer_state() {
                    drain = drain.into_iter().chain(state.drain).min();
                    mean = mean.saturating_add(state.mean);
                    let own = state.head.map(|head| (place, head));
                    let heads = first.into_iter().chain(own);
                    first = SerialPacer::choose(heads.map(|head| (head, head.1)));
                }
                place += 1;
            });
            let waited = std::mem::replace(&mut self.waiting, first.is_some());
            let Some((chosen, _)) = first.filter(|_| self.pacer.may_send(now)) else {
                return moved;
            };
            let rate = drain.unwrap_or(CellRate(u32::MAX)).max(mean);
            let mut place = 0;
            each(&mut |source| {
                if place == chosen {
                    let cost = source.release_head(now, obs);
                    self.pacer.sent(now, cost, rate, waited);
                }
                place += 1;
            });
            moved = true;
        }
    }

    /// When to [`run`](HostPacer::run) it next, if no source was given anything before.
    pub fn next_timeout(&self) -> Option<Time> {
        self.waiting
            .then(|| self.pacer.free_at().saturating_add(self.grain))
    }
}

/// When the first frame of the `k`-th of `n` flows of one host is due after the first one's, so that
/// their frames do not meet: `k * period / n` (specs/mets.md 8).
pub fn stagger(k: u32, n: u32, period: Span) -> Span {
    period.mul_div(u64::from(k), u64::from(n.max(1)))
}
