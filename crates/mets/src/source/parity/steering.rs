use layercast_core::{FlowSpec, NodeId, Span, Time};
use layercast_fec::{LossCount, Steering as Follower};
use layercast_wire::BasePackets;

use super::config::{base_frames, frames_together};

/// Base-layer frames that may stay lost.
const FRAME_LOSS: f64 = 1e-3;

/// Lets redundancy follow what the receivers report (specs/packet-level-fec.md 2.7).
#[derive(Debug)]
pub(super) struct Steering(Follower);

impl Steering {
    pub fn new(spec: &FlowSpec, pitch: usize) -> Steering {
        let batch = batch(spec, pitch);
        Steering(Follower::new(FRAME_LOSS / f64::from(batch), batch))
    }

    /// Frames have another size; what was learnt of receivers stays.
    pub fn set_spec(&mut self, spec: &FlowSpec, pitch: usize) {
        let batch = batch(spec, pitch);
        self.0.set(FRAME_LOSS / f64::from(batch), batch);
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
        self.0.on_report(now, u64::from(member.0), total, period)
    }

    /// A member left: its reports count no more.
    pub fn forget(&mut self, member: NodeId) {
        self.0.forget(u64::from(member.0));
    }
}

/// Packets of a mean base-layer frame; where frames share blocks, of as many as may.
fn batch(spec: &FlowSpec, pitch: usize) -> u32 {
    let frame = 48.0 * f64::from(spec.layers.base.mean.0) / base_frames(spec);
    let packets = (frame / pitch as f64).ceil() * frames_together(spec);
    packets.clamp(1.0, 1e6) as u32
}
