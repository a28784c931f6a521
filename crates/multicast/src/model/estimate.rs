use serde::Serialize;

use super::{ModelError, RmtpModel, mean_rounds};

/// Prediction for a session.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Estimate {
    /// Time until all receivers have everything, in seconds.
    pub seconds: f64,
    /// Time until all are connected, in seconds; included in `seconds`.
    pub connection: f64,
    /// Passes beyond the first.
    pub rounds: f64,
    /// Data packets sent per packet of the object, if the union of the missing packets is repeated.
    pub transmissions: f64,
    /// The same with fresh parities of blocks of 100 as repairs.
    pub with_parities: f64,
}

/// Block size of [`Estimate::with_parities`].
const BLOCK: u64 = 100;

/// Predicts the delivery of `packets` to `receivers` that lose each packet with probability `loss`, at `rate` packets
/// per second, with turn-around time `tat` and `delta` seconds between responses (specs/rmtp-large-scale.md 8).
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
