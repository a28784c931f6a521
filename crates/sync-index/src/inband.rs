//! A media flow of constant spacing as the train: no probe is sent (specs/available-bandwidth.md 8, idea 7).

use layercast_core::{Span, Time};

use crate::config::{ConfigError, EstimatorConfig};
use crate::estimator::{Arrival, Estimator, Numbers};
use crate::pdu::ProbeError;

/// Octets of an RTP header without extensions.
const RTP_HEADER: usize = 12;

/// The estimator of an RTP flow (RFC 3550), whose media time stamps are the departures.
#[derive(Clone, Debug)]
pub struct RtpTrain {
    estimator: Estimator,
    clock_hz: u32,
    source: Option<u32>,
    /// Media time stamp without wrap.
    stamp: i64,
}

impl RtpTrain {
    /// A flow with a packet each `period` and a media clock of `clock_hz`, at least 1.
    ///
    /// # Errors
    /// A value of the configuration is out of its range.
    pub fn new(
        config: EstimatorConfig,
        period: Span,
        clock_hz: u32,
    ) -> Result<RtpTrain, ConfigError> {
        Ok(RtpTrain {
            estimator: Estimator::new(config, period, Numbers::Short)?,
            clock_hz: clock_hz.max(1),
            source: None,
            stamp: 1 << 32,
        })
    }

    /// Takes a packet of the flow; the first one decides the source.
    ///
    /// # Errors
    /// It is no RTP, or of another source.
    pub fn handle(&mut self, at: Time, packet: &[u8]) -> Result<(), ProbeError> {
        let header = packet.first_chunk::<RTP_HEADER>();
        let [v, _, s0, s1, t0, t1, t2, t3, r0, r1, r2, r3] =
            *header.ok_or(ProbeError::Short(packet.len()))?;
        if v >> 6 != 2 {
            return Err(ProbeError::Magic);
        }
        let (source, stamp) = (
            u32::from_be_bytes([r0, r1, r2, r3]),
            u32::from_be_bytes([t0, t1, t2, t3]),
        );
        match self.source {
            None => {
                self.source = Some(source);
                self.stamp = (1 << 32) + i64::from(stamp);
            }
            Some(known) if known != source => return Err(ProbeError::Session),
            Some(_) => self.stamp += i64::from(stamp.wrapping_sub(self.stamp as u32) as i32),
        }
        let ns = i128::from(self.stamp) * 1_000_000_000 / i128::from(self.clock_hz);
        self.estimator.arrive(Arrival {
            sent_ns: u64::try_from(ns).ok(),
            ..Arrival::new(at, u32::from(u16::from_be_bytes([s0, s1])))
        });
        Ok(())
    }

    /// What is known of the flow.
    pub fn estimator(&mut self) -> &mut Estimator {
        &mut self.estimator
    }
}
