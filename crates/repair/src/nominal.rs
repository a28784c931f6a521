use layercast_core::{FlowId, Serial, Span, Time};

use crate::estimate::LeastOf;

/// Flows whose clocks are followed; datagrams of further flows count as sent on time.
const MAX_FLOWS: usize = 256;
/// A time stamp this far from the usual one is that of another life of the flow.
const JUMP: Span = Span::from_secs(5);
/// For how long the least delay holds; after that the drift of the clocks shows.
const WINDOW: Span = Span::from_secs(10);

/// When each datagram of a flow would leave if nothing delayed it: its time stamp, moved by the least delay that
/// any datagram of the flow had in the last seconds.
///
/// The deadline of a frame follows from that: a datagram that an upstream hop repaired leaves late, and has as much
/// less time left on this hop. The clocks of the nodes need not agree.
#[derive(Debug, Default)]
pub(crate) struct Nominal {
    flows: Vec<FlowClock>,
    last: usize,
}

#[derive(Debug)]
struct FlowClock {
    flow: FlowId,
    /// Delay of the first datagram, modulo 2^32 microseconds; other delays count from it.
    offset: Serial,
    least: LeastOf,
}

impl Nominal {
    /// The nominal departure of a datagram with the time stamp `stamp_us` that leaves at `at`; not later than `at`.
    pub fn departure(&mut self, at: Time, flow: FlowId, stamp_us: u32) -> Time {
        let delay = Serial((at.as_us() as u32).wrapping_sub(stamp_us));
        let Some(clock) = self.clock(flow, delay) else {
            return at;
        };
        let mut extra = i64::from(delay.diff(clock.offset));
        let jumped = clock
            .least
            .get()
            .is_some_and(|least| extra.abs_diff(least) > JUMP.as_us());
        if jumped {
            *clock = FlowClock::new(flow, delay);
            extra = 0;
        }
        clock.least.add(at, extra, WINDOW);
        let least = clock.least.get().unwrap_or(extra);
        let late = Span::from_us(extra.abs_diff(least.min(extra)));
        at.saturating_sub(late)
    }

    fn clock(&mut self, flow: FlowId, delay: Serial) -> Option<&mut FlowClock> {
        let is_last = self
            .flows
            .get(self.last)
            .is_some_and(|clock| clock.flow == flow);
        if !is_last {
            let known = self.flows.iter().position(|clock| clock.flow == flow);
            if known.is_none() && self.flows.len() >= MAX_FLOWS {
                return None;
            }
            self.last = known.unwrap_or(self.flows.len());
            if known.is_none() {
                self.flows.push(FlowClock::new(flow, delay));
            }
        }
        self.flows.get_mut(self.last)
    }
}

impl FlowClock {
    fn new(flow: FlowId, offset: Serial) -> FlowClock {
        FlowClock {
            flow,
            offset,
            least: LeastOf::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delayed_datagram_has_the_departure_of_its_time_stamp() {
        let mut nominal = Nominal::default();
        let at = |us: u64| Time::ZERO + Span::from_us(us);
        // The clock of the source is far from ours, and wraps.
        let stamp = |us: u64| (us as u32).wrapping_sub(1_000);
        let flow = FlowId(1);
        assert_eq!(nominal.departure(at(0), flow, stamp(0)), at(0));
        assert_eq!(
            nominal.departure(at(40_000), flow, stamp(40_000)),
            at(40_000)
        );
        assert_eq!(
            nominal.departure(at(140_000), flow, stamp(80_000)),
            at(80_000)
        );
        assert_eq!(
            nominal.departure(at(81_000), FlowId(2), stamp(7)),
            at(81_000)
        );
        // Another life of the flow, an hour away.
        let other = stamp(3_600_000_000);
        assert_eq!(nominal.departure(at(200_000), flow, other), at(200_000));
    }
}
