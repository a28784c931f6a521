use std::collections::BTreeMap;

use layercast_core::{FlowSpec, NodeId, Span, Time};
use layercast_fec::{Controller, ControllerConfig, LossCount, Objective};
use layercast_wire::BasePackets;

use super::config::{AUTO_BLOCK, AUTO_CAP, AUTO_PARITIES, base_frames, frames_together};

/// Base-layer frames that may stay lost.
const FRAME_LOSS: f64 = 1e-3;

/// Reports that are listened to before it follows them: the first tell of a hundred packets each, and those who lose
/// nothing may be the first to say so.
const LISTENS: u64 = 16;

/// Lets redundancy follow what the receivers report (packet-level-fec.md 2.7).
#[derive(Debug)]
pub(super) struct Steering {
    controller: Controller,
    /// What each reported last: reports count from its join.
    told: BTreeMap<NodeId, LossCount>,
    /// Packets of a base-layer frame.
    batch: u32,
    /// When a report was the first that is enough to judge by.
    began: Option<Time>,
}

impl Steering {
    pub fn new(spec: &FlowSpec, pitch: usize) -> Steering {
        let batch = batch(spec, pitch);
        Steering {
            controller: Controller::new(controller(batch)),
            told: BTreeMap::new(),
            batch,
            began: None,
        }
    }

    /// Frames have another size; what was learnt of receivers stays.
    pub fn set_spec(&mut self, spec: &FlowSpec, pitch: usize) {
        self.batch = batch(spec, pitch);
        self.controller.set_config(controller(self.batch));
    }

    /// What a member saw since it joined; gives N and M from here on, if they follow reports already.
    pub fn on_report(
        &mut self,
        now: Time,
        member: NodeId,
        seen: BasePackets,
        period: Span,
    ) -> Option<(u8, u8)> {
        let total = LossCount {
            expected: seen.expected,
            received: seen.received,
        };
        let before = self.told.insert(member, total).unwrap_or_default();
        // It joined anew.
        let before = match before.expected <= total.expected {
            true => before,
            false => LossCount::default(),
        };
        self.controller
            .report(u64::from(member.0), total.since(before));
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

    /// A member left: its reports count no more.
    pub fn forget(&mut self, member: NodeId) {
        self.told.remove(&member);
        self.controller.forget(u64::from(member.0));
    }

    fn longest(&self) -> u8 {
        let batch = u8::try_from(self.batch).unwrap_or(u8::MAX);
        batch.clamp(1, AUTO_BLOCK - 1)
    }
}

fn controller(batch: u32) -> ControllerConfig {
    let loss = FRAME_LOSS / f64::from(batch);
    ControllerConfig {
        objective: Objective::Live { loss, batch },
        block: AUTO_BLOCK,
        parities: AUTO_PARITIES,
        cap: AUTO_CAP,
        ..ControllerConfig::default()
    }
}

/// Packets of a mean base-layer frame; where frames share blocks, of as many as may.
fn batch(spec: &FlowSpec, pitch: usize) -> u32 {
    let frame = 48.0 * f64::from(spec.layers.base.mean.0) / base_frames(spec);
    let packets = (frame / pitch as f64).ceil() * frames_together(spec);
    packets.clamp(1.0, 1e6) as u32
}
