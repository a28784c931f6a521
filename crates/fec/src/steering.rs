use std::collections::BTreeMap;

use layercast_core::{Span, Time};

use crate::{Controller, ControllerConfig, LossCount, Objective};

/// Reports that are collected before they are followed: the first ones cover only a hundred packets each, and
/// receivers without loss may report first.
const LISTENS: u64 = 16;

/// Adapts the redundancy of live packets to the receivers' reports (specs/packet-level-fec.md 2.7).
#[derive(Clone, Debug)]
pub struct Steering {
    controller: Controller,
    /// The last report of each receiver, cumulative since its start.
    reported: BTreeMap<u64, LossCount>,
    /// Packets that are sent together.
    batch: u32,
    /// Time of the first report with enough packets.
    began: Option<Time>,
}

impl Steering {
    /// Largest block in packets, parities included.
    pub const BLOCK: u8 = 20;
    /// Largest number of parities of a block.
    pub const PARITIES: u8 = 4;
    /// Largest share of parities among all packets.
    pub const CAP: f64 = 1.0 / 3.0;
    /// The code, N and M, before any report; no choice has more redundancy.
    pub const FIRST: (u8, u8) = (8, 4);

    /// Targets a loss of at most `loss` after decoding, as a share of packets, of which `batch` are sent together.
    pub fn new(loss: f64, batch: u32) -> Steering {
        Steering {
            controller: Controller::new(controller(loss, batch)),
            reported: BTreeMap::new(),
            batch,
            began: None,
        }
    }

    /// Changes the target; the state of the receivers is kept.
    pub fn set(&mut self, loss: f64, batch: u32) {
        self.batch = batch;
        self.controller.set_config(controller(loss, batch));
    }

    /// Processes a cumulative report of a receiver, sent once in a `period`; returns the new N and M once reports are
    /// followed.
    pub fn on_report(
        &mut self,
        now: Time,
        receiver: u64,
        total: LossCount,
        period: Span,
    ) -> Option<(u8, u8)> {
        let before = self.reported.insert(receiver, total).unwrap_or_default();
        // The receiver restarted.
        let before = match before.expected <= total.expected {
            true => before,
            false => LossCount::default(),
        };
        self.controller.report(receiver, total.since(before));
        let choice = self.controller.choose(now, period);
        // No receiver has yet reported enough packets.
        choice.driver?;
        let began = *self.began.get_or_insert(now);
        if now.since(began) < period.times(LISTENS) {
            return None;
        }
        Some(match choice.m {
            // One parity remains: without any, receivers would not notice a loss.
            0 => (self.longest(), 1),
            m => (choice.n, m),
        })
    }

    /// Removes a receiver that left.
    pub fn forget(&mut self, receiver: u64) {
        self.reported.remove(&receiver);
        self.controller.forget(receiver);
    }

    fn longest(&self) -> u8 {
        let batch = u8::try_from(self.batch).unwrap_or(u8::MAX);
        batch.clamp(1, Steering::BLOCK - 1)
    }
}

fn controller(loss: f64, batch: u32) -> ControllerConfig {
    ControllerConfig {
        objective: Objective::Live { loss, batch },
        block: Steering::BLOCK,
        parities: Steering::PARITIES,
        cap: Steering::CAP,
        ..ControllerConfig::default()
    }
}
