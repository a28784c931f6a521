mod bucket;
mod queue;
mod serial;

use std::collections::VecDeque;

use layercast_core::{CELL_PAYLOAD, FlowId, Layer, PerLayer, Span, Time};
use thiserror::Error;

pub use bucket::{BucketError, BucketParams, PEAK_FACTOR};
pub use serial::{SerialHead, SerialPacer, SerialQueue};

use bucket::Bucket;
use queue::FlowQueue;

/// Time of a host that did not run which is made good: what should have left in it leaves in one burst. A host that runs many programs
/// runs each some tens of milliseconds late, again and again; what it misses then must not be lost. What it missed before is, so
/// that the burst after a long stall is bounded.
pub const CATCH_UP: Span = Span::from_ms(50);

/// How a [`Shaper`] runs (specs/mets.md 2.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShaperConfig {
    /// Interval of the hardware timer, on a grid that starts at [`Time::ZERO`].
    pub tick: Span,
    /// Most credits that leave in one tick, all flows together; `None` is no limit.
    pub tick_budget: Option<u32>,
}

/// Why the shaper did not queue an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ShaperError {
    /// The flow was never added.
    #[error("flow {0} has no shaper queue")]
    UnknownFlow(FlowId),
    /// The queue is full of base layer: try again after the next tick.
    #[error("shaper queue of flow {0} is full")]
    PushBack(FlowId),
    /// The enhancement frame was dropped whole and counted; its other items are dropped too.
    #[error("shaper queue of flow {0} is full, the enhancement frame was dropped")]
    Dropped(FlowId),
}

/// What became of a flow's items.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ShaperStats {
    /// Items released.
    pub sent: u64,
    /// Credits waiting.
    pub queued: u64,
    /// Whole frames dropped, by layer.
    pub dropped: PerLayer<u64>,
}

/// A token bucket per flow, served round robin every tick (specs/mets.md 2.5).
///
/// One credit is one cell. An item may cost more (a datagram costs `ceil(len / 48)`): it leaves if
/// any credit is left, and the debt is repaid by the next refreshes.
#[derive(Clone, Debug)]
pub struct Shaper<T> {
    config: ShaperConfig,
    /// In ascending order of flow id.
    flows: Vec<Flow<T>>,
    /// Released and not yet popped.
    out: VecDeque<(FlowId, T)>,
    /// The flow that starts the next round.
    start: usize,
    /// Number of the last tick run.
    tick: u64,
    /// Number of the tick that can send next; `None` while nothing can.
    next: Option<u64>,
    missed: u64,
}

#[derive(Clone, Debug)]
struct Flow<T> {
    id: FlowId,
    bucket: Bucket,
    queue: FlowQueue<T>,
    sent: u64,
}

/// Credits that fit into two GOPs of `gop` credits each, or 4 MiB if that is less, but at least the
/// largest frame (specs/mets.md 7).
pub fn queue_bound(gop: u32, largest_frame: u32) -> u32 {
    const FOUR_MIB: u32 = (4 << 20) / CELL_PAYLOAD as u32;
    gop.saturating_mul(2).min(FOUR_MIB).max(largest_frame)
}

impl Default for ShaperConfig {
    fn default() -> ShaperConfig {
        ShaperConfig {
            tick: Span::from_ms(1),
            tick_budget: None,
        }
    }
}

impl<T> Shaper<T> {
    /// A shaper without flows; a tick of zero means 1 ms.
    pub fn new(mut config: ShaperConfig) -> Shaper<T> {
        if config.tick == Span::ZERO {
            config.tick = ShaperConfig::default().tick;
        }
        Shaper {
            config,
            flows: Vec::new(),
            out: VecDeque::new(),
            start: 0,
            tick: 0,
            next: None,
            missed: 0,
        }
    }

    /// Adds a flow with a full bucket and room for `bound` credits; one that exists is reconfigured.
    ///
    /// `bound` must hold the largest frame of the flow, see [`queue_bound`].
    pub fn add_flow(&mut self, now: Time, id: FlowId, params: BucketParams, bound: u32) {
        self.catch_up(now);
        match self.find(id) {
            Ok(_) => self.reconfigure(now, id, params),
            Err(at) => {
                let flow = Flow {
                    id,
                    bucket: Bucket::new(params, self.tick),
                    queue: FlowQueue::new(bound),
                    sent: 0,
                };
                self.flows.insert(at, flow);
            }
        }
    }

    /// Removes a flow and returns how many of its items were still waiting.
    pub fn remove_flow(&mut self, id: FlowId) -> usize {
        let Ok(at) = self.find(id) else { return 0 };
        let flow = self.flows.remove(at);
        self.start = 0;
        self.plan();
        flow.queue.len()
    }

    /// Removes the queued items of a flow; returns each with the number of its frame.
    pub fn clear(&mut self, id: FlowId) -> impl Iterator<Item = (u32, T)> {
        let at = self.find(id).ok();
        let items = at.map(|at| self.flows[at].queue.clear());
        self.plan();
        items.into_iter().flatten()
    }

    /// Gives a flow new parameters from its next refresh on; the credit left is cut to the new depth
    /// immediately and the queue is kept.
    pub fn reconfigure(&mut self, now: Time, id: FlowId, params: BucketParams) {
        self.catch_up(now);
        if let Ok(at) = self.find(id) {
            self.flows[at].bucket.reconfigure(params);
            self.plan();
        }
    }

    /// Changes the number of credits of a flow that may wait; queued items stay.
    pub fn set_bound(&mut self, now: Time, id: FlowId, bound: u32) {
        self.catch_up(now);
        if let Ok(at) = self.find(id) {
            self.flows[at].queue.set_bound(bound);
        }
    }

    /// Makes sure that a whole frame of `cost` credits fits before its items are queued; drops the
    /// newest frames of higher layers if it must.
    pub fn make_room(&mut self, id: FlowId, layer: Layer, cost: u32) -> Result<(), ShaperError> {
        let at = self.find(id).map_err(|_| ShaperError::UnknownFlow(id))?;
        let fits = self.flows[at].queue.make_room(layer, u64::from(cost));
        self.plan();
        if fits {
            return Ok(());
        }
        if layer == Layer::Base {
            return Err(ShaperError::PushBack(id));
        }
        self.flows[at].queue.dropped[layer] += 1;
        Err(ShaperError::Dropped(id))
    }

    /// Queues one item of the frame `frame_key` that costs `cost` credits (at least 1).
    ///
    /// Use [`make_room`](Shaper::make_room) first where a frame must go in whole or not at all.
    pub fn enqueue(
        &mut self,
        now: Time,
        id: FlowId,
        layer: Layer,
        frame_key: u32,
        cost: u32,
        item: T,
    ) -> Result<(), ShaperError> {
        self.catch_up(now);
        let at = self.find(id).map_err(|_| ShaperError::UnknownFlow(id))?;
        let flow = &mut self.flows[at];
        let cost = cost.max(1);
        if flow.queue.refuses(layer, frame_key) {
            return Err(ShaperError::Dropped(id));
        }
        if !flow.queue.make_room(layer, u64::from(cost)) {
            if layer == Layer::Base {
                return Err(ShaperError::PushBack(id));
            }
            flow.queue.drop_frame((layer, frame_key));
            self.plan();
            return Err(ShaperError::Dropped(id));
        }
        let was_empty = flow.queue.is_empty();
        flow.queue.push(layer, frame_key, cost, item);
        if was_empty {
            let chance = flow.bucket.next_chance(self.tick);
            self.next = self.next.into_iter().chain(chance).min();
        }
        Ok(())
    }

    /// Runs the ticks up to `now`: refreshes buckets and releases items to [`pop`](Shaper::pop).
    ///
    /// Ticks that were missed are run late, each with its budget, but no more of them than fit into [`CATCH_UP`]: of those before, the
    /// refreshes count and the budgets do not. Calling it early does nothing.
    pub fn on_tick(&mut self, now: Time) {
        let tick = self.tick_at(now);
        let Some(expected) = self.next.filter(|&next| next <= tick) else {
            return;
        };
        self.missed += tick - expected;
        let late = (CATCH_UP.as_ps() / self.config.tick.as_ps()).max(1);
        for tick in expected.max((tick + 1).saturating_sub(late))..=tick {
            self.advance(tick);
            self.serve();
        }
        self.plan();
    }

    /// When [`on_tick`](Shaper::on_tick) can release something; `None` while nothing can be sent.
    pub fn next_tick(&self) -> Option<Time> {
        let tick = self.config.tick;
        self.next
            .map(|next| Time::ZERO.saturating_add(tick.times(next)))
    }

    /// The next item that was released.
    pub fn pop(&mut self) -> Option<(FlowId, T)> {
        self.out.pop_front()
    }

    /// What became of the items of a flow.
    pub fn stats(&self, id: FlowId) -> Option<ShaperStats> {
        let flow = &self.flows[self.find(id).ok()?];
        Some(ShaperStats {
            sent: flow.sent,
            queued: flow.queue.cost(),
            dropped: flow.queue.dropped,
        })
    }

    /// Ticks that should have sent something and ran late.
    pub fn missed_ticks(&self) -> u64 {
        self.missed
    }

    fn find(&self, id: FlowId) -> Result<usize, usize> {
        self.flows.binary_search_by_key(&id, |flow| flow.id)
    }

    fn tick_at(&self, now: Time) -> u64 {
        now.as_ps() / self.config.tick.as_ps()
    }

    /// Brings the state forward over ticks at which nothing could be sent.
    fn catch_up(&mut self, now: Time) {
        let tick = self.tick_at(now);
        let idle_until = self.next.map_or(tick, |next| tick.min(next - 1));
        if idle_until > self.tick {
            self.advance(idle_until);
        }
    }

    /// Runs refreshes and the rotation of every tick up to `tick`.
    fn advance(&mut self, tick: u64) {
        let flows = self.flows.len().max(1);
        debug_assert!(tick >= self.tick, "ticks run backwards");
        let rotation = (tick - self.tick) % flows as u64;
        self.start = (self.start + rotation as usize) % flows;
        self.tick = tick;
        for flow in &mut self.flows {
            flow.bucket.advance(tick);
        }
    }

    /// Sends one item per flow and round until credits, queues or the budget of the tick run out.
    fn serve(&mut self) {
        let mut budget = self.config.tick_budget.unwrap_or(u32::MAX);
        let mut progress = true;
        while progress {
            progress = false;
            let (head, tail) = self.flows.split_at_mut(self.start);
            for flow in tail.iter_mut().chain(head) {
                if budget == 0 || !flow.bucket.may_send() {
                    continue;
                }
                let Some((cost, item)) = flow.queue.pop() else {
                    continue;
                };
                flow.bucket.take(cost);
                flow.sent += 1;
                budget = budget.saturating_sub(cost);
                self.out.push_back((flow.id, item));
                progress = true;
            }
        }
    }

    fn plan(&mut self) {
        self.next = self
            .flows
            .iter()
            .filter(|flow| !flow.queue.is_empty())
            .filter_map(|flow| flow.bucket.next_chance(self.tick))
            .min();
    }
}

#[cfg(test)]
mod tests;
