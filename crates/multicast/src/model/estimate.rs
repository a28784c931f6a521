use serde::Serialize;

use super::{ModelError, RmtpModel, mean_rounds};

/// What to expect of a session before it begins.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Estimate {
    /// Until all have everything, seconds.
    pub seconds: f64,
    /// Of these, until all are connected.
    pub connection: f64,
    /// Passes beside the first.
    pub rounds: f64,
    /// Data packets sent per packet of the object, if the union of what is missing is sent again.
    pub transmissions: f64,
    /// The same if fresh parities of blocks of 100 are sent instead.
    pub with_parities: f64,
}

/// Packets of a block for which [`Estimate::with_parities`] stands.
const BLOCK: u64 = 100;

/// What delivery of `packets` to `receivers` takes that lose each packet with the chance `loss`, at `rate` packets per
/// second, with a turn-around time of `tat` and `delta` seconds between responses (specs/rmtp-large-scale.md 8: the
/// ETA).
///
/// Errors: a number out of range.
pub fn estimate(
    receivers: u64,
    packets: u64,
    loss: f64,
    rate: f64,
    tat: f64,
    delta: f64,
) -> Result<Estimate, ModelError> {
    let model = RmtpModel {
        receivers,
        lossy: None,
        packets,
        loss,
        rate,
        tat,
        delta,
        alpha: 0.0,
        buffer: None,
    };
    let session = model.session()?;
    let block = packets.min(BLOCK) as usize;
    Ok(Estimate {
        seconds: session.seconds,
        connection: session.connection.seconds,
        rounds: mean_rounds(packets as f64, receivers as f64, loss),
        transmissions: layercast_fec::model::expected(loss, receivers as f64),
        with_parities: layercast_fec::model::integrated(block, 0, loss, receivers as f64),
    })
}
