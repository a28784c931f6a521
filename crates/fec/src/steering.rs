use std::collections::BTreeMap;

use layercast_core::{Span, Time};

use crate::{Controller, ControllerConfig, LossCount, Objective};

/// Reports that are listened to before it follows them: the first tell of a hundred packets each, and those who lose
/// nothing may be the first to say so.
const LISTENS: u64 = 16;

/// Lets the redundancy of live packets follow what receivers report (specs/packet-level-fec.md 2.7).
#[derive(Clone, Debug)]
pub struct Steering {
    controller: Controller,
    /// What each reported last: reports count from its start.
    told: BTreeMap<u64, LossCount>,
    /// Packets that are sent together.
    batch: u32,
    /// When a report was the first that is enough to judge by.
    began: Option<Time>,
}

impl Steering {
    /// Most packets of a block, parities included.
    pub const BLOCK: u8 = 20;
    /// Most parities of a block.
    pub const PARITIES: u8 = 4;
    /// Most parities among all packets.
    pub const CAP: f64 = 1.0 / 3.0;
    /// The code, N and M, before anything is known; no choice takes more.
    pub const FIRST: (u8, u8) = (8, 4);

    /// Steers towards at most `loss` after decoding, as a share of packets, of which `batch` are sent together.
    pub fn new(loss: f64, batch: u32) -> Steering {
        Steering {
            controller: Controller::new(controller(loss, batch)),
            told: BTreeMap::new(),
            batch,
            began: None,
        }
    }

    /// Goes on with another aim; what was learnt of receivers stays.
    pub fn set(&mut self, loss: f64, batch: u32) {
        self.batch = batch;
        self.controller.set_config(controller(loss, batch));
    }

    /// What a receiver saw since it began, told once in a `period`; gives N and M from here on, if they follow reports
    /// already.
    pub fn on_report(
        &mut self,
        now: Time,
        receiver: u64,
        total: LossCount,
        period: Span,
    ) -> Option<(u8, u8)> {
        let before = self.told.insert(receiver, total).unwrap_or_default();
        // It began anew.
        let before = match before.expected <= total.expected {
            true => before,
            false => LossCount::default(),
        };
        self.controller.report(receiver, total.since(before));
        let choice = self.controller.choose(now, period);
        // Nobody has told of packets enough yet.
        choice.driver?;
        let began = *self.began.get_or_insert(now);
        if now.since(began) < period.times(LISTENS) {
            return None;
        }
        Some(match choice.m {
            // Without parities nobody would see loss.
            0 => (self.longest(), 1),
            m => (choice.n, m),
        })
    }

    /// A receiver left: its reports count no more.
    pub fn forget(&mut self, receiver: u64) {
        self.told.remove(&receiver);
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
