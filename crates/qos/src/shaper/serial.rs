use layercast_core::{CellRate, FlowId, Layer, PerLayer, Span, Time};

use super::queue::FlowQueue;
use super::{CATCH_UP, ShaperError};

/// What may leave in one burst after a pause: one tick of the paper's shaper.
const BURST: Span = Span::from_ms(1);

/// The item at the head of a [`SerialQueue`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SerialHead {
    /// By when the frame should have left.
    pub deadline: Time,
    /// Whether part of the frame left already.
    pub started: bool,
}

/// The frames of one flow that wait for the pacer of their host, under the bounds of the shaper's
/// queue: whole enhancement frames give way, the base layer is pushed back (specs/mets.md 7).
#[derive(Clone, Debug)]
pub struct SerialQueue<T> {
    flow: FlowId,
    queue: FlowQueue<(Time, T)>,
}

impl<T> SerialQueue<T> {
    /// An empty queue with room for `bound` credits; see [`queue_bound`](super::queue_bound).
    pub fn new(flow: FlowId, bound: u32) -> SerialQueue<T> {
        SerialQueue {
            flow,
            queue: FlowQueue::new(bound),
        }
    }

    /// From now on there is room for `bound` credits; what is queued stays.
    pub fn set_bound(&mut self, bound: u32) {
        self.queue.set_bound(bound);
    }

    /// Makes sure that a whole frame of `cost` credits fits before its items are pushed.
    ///
    /// # Errors
    /// As [`Shaper::make_room`](super::Shaper::make_room).
    pub fn make_room(&mut self, layer: Layer, cost: u32) -> Result<(), ShaperError> {
        if self.queue.make_room(layer, u64::from(cost)) {
            return Ok(());
        }
        if layer == Layer::Base {
            return Err(ShaperError::PushBack(self.flow));
        }
        self.queue.dropped[layer] += 1;
        Err(ShaperError::Dropped(self.flow))
    }

    /// Queues one item of the frame `frame_key`, due by `deadline`, that costs `cost` credits.
    pub fn push(&mut self, layer: Layer, frame_key: u32, deadline: Time, cost: u32, item: T) {
        self.queue
            .push(layer, frame_key, cost.max(1), (deadline, item));
    }

    /// What would leave next.
    pub fn head(&self) -> Option<SerialHead> {
        let ((deadline, _), started) = self.queue.peek()?;
        Some(SerialHead {
            deadline: *deadline,
            started,
        })
    }

    /// The next item and what it costs.
    pub fn pop(&mut self) -> Option<(u32, T)> {
        let (cost, (_, item)) = self.queue.pop()?;
        Some((cost, item))
    }

    /// Removes the queued items; returns each with the number of its frame.
    pub fn clear(&mut self) -> impl Iterator<Item = (u32, T)> + use<T> {
        let items = self.queue.clear();
        items.map(|(frame, (_, item))| (frame, item))
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Frames dropped whole for want of room.
    pub fn dropped(&self) -> PerLayer<u64> {
        self.queue.dropped
    }
}

/// The spacing of an aggregate pacer: everything that leaves a host, at one rate (specs/mets.md 8).
#[derive(Clone, Copy, Default, Debug)]
pub struct SerialPacer {
    /// When what was sent last has been taken in at the other end.
    free_at: Time,
}

impl SerialPacer {
    /// Whether something may leave at `now`.
    pub fn may_send(&self, now: Time) -> bool {
        now >= self.free_at
    }

    /// Notes that `cost` credits left at `now`, to be followed at `rate`. Something `waited` if it could have left before: a late
    /// wake-up is made good by sending more immediately, up to [`CATCH_UP`].
    pub fn sent(&mut self, now: Time, cost: u32, rate: CellRate, waited: bool) {
        let most = if waited { CATCH_UP } else { BURST };
        let from = self.free_at.max(now.saturating_sub(most));
        let each = Span::from_secs(1).mul_div(u64::from(cost), u64::from(rate.0.max(1)));
        self.free_at = from.saturating_add(each);
    }

    /// When something may leave next.
    pub fn free_at(&self) -> Time {
        self.free_at
    }

    /// Which of the flows goes next: the one in the middle of a frame, else the earliest deadline;
    /// of equals the first.
    pub fn choose<K>(heads: impl Iterator<Item = (K, SerialHead)>) -> Option<K> {
        heads
            .min_by_key(|(_, head)| (!head.started, head.deadline))
            .map(|(key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn us(n: u64) -> Time {
        Time::ZERO + Span::from_us(n)
    }

    fn heads(queues: &[SerialQueue<u32>]) -> impl Iterator<Item = (usize, SerialHead)> + '_ {
        let heads = queues.iter().map(SerialQueue::head).enumerate();
        heads.filter_map(|(place, head)| Some((place, head?)))
    }

    #[test]
    fn credits_leave_at_the_rate_and_the_burst_after_a_stall_is_bounded() {
        let rate = CellRate(10_000);
        let mut pacer = SerialPacer::default();
        let mut sent_at = |now: Time, waited| {
            let mut sent = 0;
            while pacer.may_send(now) {
                pacer.sent(now, 1, rate, waited);
                sent += 1;
            }
            (sent, pacer.free_at())
        };
        assert_eq!(sent_at(us(5_000), false), (11, us(5_100)));
        assert_eq!(sent_at(us(5_099), true), (0, us(5_100)));
        assert_eq!(sent_at(us(5_100), true), (1, us(5_200)));
        // A wake-up that is 30 ms late costs nothing.
        assert_eq!(sent_at(us(35_200), true), (301, us(35_300)));
        // Ten are a tick; after a pause no more leave than that, and after a long stall what 50 ms hold.
        assert_eq!(sent_at(us(1_000_000), false), (11, us(1_000_100)));
        assert_eq!(sent_at(us(2_000_000), true), (501, us(2_000_100)));
    }

    #[test]
    fn a_full_queue_drops_enhancement_frames_whole_and_pushes_the_base_layer_back() {
        let mut queue = SerialQueue::new(FlowId(1), 10);
        for (frame, layer) in [(1, Layer::Base), (2, Layer::E2)] {
            queue.make_room(layer, 5).unwrap();
            for _ in 0..5 {
                queue.push(layer, frame, us(9), 1, frame);
            }
        }
        assert_eq!(
            queue.make_room(Layer::E2, 1),
            Err(ShaperError::Dropped(FlowId(1)))
        );
        assert_eq!(queue.make_room(Layer::E1, 5), Ok(()));
        assert_eq!(
            queue.make_room(Layer::Base, 6),
            Err(ShaperError::PushBack(FlowId(1)))
        );
        let dropped = queue.dropped();
        assert_eq!((dropped.e1, dropped.e2), (0, 2));
        let left: Vec<u32> = queue.clear().map(|(frame, _)| frame).collect();
        assert_eq!(left, [1; 5]);
    }

    proptest! {
        #[test]
        fn frames_are_never_mixed_and_leave_by_deadline(
            frames in prop::collection::vec((0usize..4, 0u64..100, 1u32..9), 1..60),
        ) {
            let mut queues: Vec<_> = (0..4).map(|n| SerialQueue::new(FlowId(n), 10_000)).collect();
            let mut last = [0u64; 4];
            for (key, (flow, gap, items)) in frames.iter().enumerate() {
                last[*flow] += gap;
                for _ in 0..*items {
                    queues[*flow].push(Layer::E1, key as u32, us(last[*flow]), 1, key as u32);
                }
            }
            let mut order: Vec<(u32, Time)> = Vec::new();
            while let Some(flow) = SerialPacer::choose(heads(&queues)) {
                let deadline = queues[flow].head().unwrap().deadline;
                let (_, frame) = queues[flow].pop().unwrap();
                if order.last().is_none_or(|(before, _)| *before != frame) {
                    order.push((frame, deadline));
                }
            }
            // Each frame in one piece, and all of them in the order of their deadlines.
            prop_assert_eq!(order.len(), frames.len());
            prop_assert!(order.is_sorted_by_key(|(_, deadline)| *deadline));
        }
    }
}
