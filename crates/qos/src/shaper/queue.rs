use std::collections::VecDeque;

use layercast_core::{Layer, PerLayer};

/// Something to send, and the frame it is part of.
#[derive(Clone, Debug)]
struct Item<T> {
    frame: FrameKey,
    cost: u32,
    item: T,
}

/// A frame of a flow: its layer and the number the caller gave it.
type FrameKey = (Layer, u32);

/// The bounded queue of one flow: whole enhancement frames give way to the base layer
/// (specs/mets.md 7).
#[derive(Clone, Debug)]
pub(super) struct FlowQueue<T> {
    items: VecDeque<Item<T>>,
    /// Most credits that may wait.
    bound: u64,
    /// Credits that wait, by layer.
    waiting: PerLayer<u64>,
    /// The frame whose first item left already; it cannot be dropped whole any more.
    started: Option<FrameKey>,
    /// The frame of which the rest is refused.
    refused: Option<FrameKey>,
    /// Frames dropped, by layer.
    pub(super) dropped: PerLayer<u64>,
}

impl<T> FlowQueue<T> {
    /// Changes how many credits may wait.
    pub(super) fn set_bound(&mut self, bound: u32) {
        self.bound = u64::from(bound);
    }

    pub(super) fn new(bound: u32) -> FlowQueue<T> {
        FlowQueue {
            items: VecDeque::new(),
            bound: u64::from(bound),
            waiting: PerLayer::default(),
            started: None,
            refused: None,
            dropped: PerLayer::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Items that wait.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Credits that wait.
    pub(super) fn cost(&self) -> u64 {
        self.waiting.iter().map(|(_, cost)| cost).sum()
    }

    /// Makes room for `cost` credits of `layer` by dropping the newest whole frames of the layers
    /// above it, highest first.
    pub(super) fn make_room(&mut self, layer: Layer, cost: u64) -> bool {
        for victim in [Layer::E2, Layer::E1] {
            while victim > layer && self.cost() + cost > self.bound {
                let Some(frame) = self.newest_unsent(victim) else {
                    break;
                };
                self.drop_frame(frame);
            }
        }
        self.cost() + cost <= self.bound
    }

    /// Takes an item there is room for.
    pub(super) fn push(&mut self, layer: Layer, key: u32, cost: u32, item: T) {
        let frame = (layer, key);
        debug_assert!(cost > 0, "an item without cost");
        self.waiting[layer] += u64::from(cost);
        self.items.push_back(Item { frame, cost, item });
    }

    /// Whether the frame was dropped, so that the rest of it must not be sent.
    pub(super) fn refuses(&self, layer: Layer, key: u32) -> bool {
        self.refused == Some((layer, key))
    }

    /// Drops a frame, queued or just coming in; the rest of it will be refused.
    pub(super) fn drop_frame(&mut self, frame: FrameKey) {
        let waiting = &mut self.waiting[frame.0];
        self.items.retain(|item| {
            let gone = item.frame == frame;
            if gone {
                *waiting -= u64::from(item.cost);
            }
            !gone
        });
        self.check_empty();
        self.refused = Some(frame);
        self.dropped[frame.0] += 1;
    }

    pub(super) fn pop(&mut self) -> Option<(u32, T)> {
        let Item { frame, cost, item } = self.items.pop_front()?;
        self.waiting[frame.0] -= u64::from(cost);
        self.check_empty();
        self.started = Some(frame);
        Some((cost, item))
    }

    /// What would leave next, and whether part of its frame left already.
    pub(super) fn peek(&self) -> Option<(&T, bool)> {
        let item = self.items.front()?;
        Some((&item.item, self.started == Some(item.frame)))
    }

    /// Takes everything that waits, with the number of its frame.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = (u32, T)> + use<T> {
        self.waiting = PerLayer::default();
        let items = std::mem::take(&mut self.items);
        items.into_iter().map(|item| (item.frame.1, item.item))
    }

    /// Credits wait exactly as long as items do.
    fn check_empty(&self) {
        debug_assert_eq!(self.items.is_empty(), self.cost() == 0);
    }

    fn newest_unsent(&self, layer: Layer) -> Option<FrameKey> {
        if self.waiting[layer] == 0 {
            return None;
        }
        self.items
            .iter()
            .rev()
            .map(|item| item.frame)
            .find(|&frame| frame.0 == layer && Some(frame) != self.started)
    }
}
