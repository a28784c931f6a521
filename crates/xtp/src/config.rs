use std::borrow::Cow;

use layercast_core::Span;
use layercast_wire::XtpService;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What is sent again of what the peer misses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Retransmission {
    /// Everything from the first missing byte on.
    GoBackN,
    /// What is missing.
    Selective,
}

/// When the sender of data asks for the status of the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Ask {
    /// With every n-th packet, and with the last one available.
    Every(u32),
    /// Not on its own account: only timers and the options of a message do.
    Never,
}

/// Which bytes count against the rate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum RateCounts {
    /// Those of the user.
    User,
    /// Also the header of XTP.
    Xtp,
    /// Additionally this number of bytes for each packet, for the layers below.
    Wire(u32),
    /// All of the ATM cells that carry the packet in AAL5.
    Cells,
}

/// A rate and the most that may leave in one burst (specs/xtp.md 2.9).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
pub struct XtpRate {
    /// Bytes per second; 0: no limit.
    pub rate: u64,
    /// Bytes in a row.
    pub burst: u64,
}

impl XtpRate {
    /// No limit.
    pub const UNLIMITED: XtpRate = XtpRate { rate: 0, burst: 0 };

    /// How long a burst lasts: RTIMER.
    pub fn period(self) -> Span {
        match self.rate {
            0 => Span::ZERO,
            rate => Span::from_secs(1).mul_div(self.burst, rate),
        }
    }

    /// The stricter of both, where 0 says nothing.
    pub(crate) fn stricter(self, other: XtpRate) -> XtpRate {
        let least = |a: u64, b: u64| match (a, b) {
            (0, b) => b,
            (a, 0) => a,
            (a, b) => a.min(b),
        };
        XtpRate {
            rate: least(self.rate, other.rate),
            burst: least(self.burst, other.burst),
        }
    }
}

/// The configuration of a context. Start from [`XtpConfig::new`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct XtpConfig {
    /// What the association is for.
    pub service: XtpService,
    /// Most user bytes of a packet: what the path carries, less 32 bytes and the headers below.
    pub max_data: u32,
    /// Bytes received but not taken that a context holds: what it allocates.
    pub window: u32,
    /// Bytes sent but not acknowledged, or not sent, that a context holds.
    pub send_buffer: u32,
    /// Free space in that buffer at which a waiting writer is woken; zero: a third of it.
    pub wake_room: u32,
    /// Without: NOERR, what is lost is not sent again.
    pub error_control: bool,
    /// Without: NOFLOW, the allocation of the peer is not heeded.
    pub flow_control: bool,
    /// Without: NOCHECK, the data are not protected; status always is.
    pub checksum: bool,
    /// FASTNAK: gaps are to be reported immediately.
    pub fast_nak: bool,
    /// RES: the peer may allocate what its user has posted only.
    pub reservation: bool,
    /// What is sent again.
    pub retransmission: Retransmission,
    /// Keep data received beyond a gap; without it, the peer retransmits from the gap on (go-back-N).
    pub hold: bool,
    /// When status is asked for.
    pub ask: Ask,
    /// Ask by the EDGE bit instead of SREQ.
    pub edge: bool,
    /// One timer for all requests, which each sets again, instead of one for each (specs/xtp.md 2.11).
    pub single_timer: bool,
    /// How long the first answer is waited for.
    pub first_wait: Span,
    /// How long any answer is waited for at least.
    pub least_wait: Span,
    /// Unanswered handshakes after which a context is given up.
    pub retries: u32,
    /// CTIMER: silence after which the peer is asked whether it is there; zero: never.
    pub keep_alive: Span,
    /// CTIMEOUT: how long an answer may take, with all retries.
    pub give_up: Span,
    /// How long a context that is over answers what still comes.
    pub inactive: Span,
    /// What we send at most.
    pub out_limit: XtpRate,
    /// The input rate we accept at most; announced to the peer.
    pub in_limit: XtpRate,
    /// Which bytes count against a rate.
    pub rate_counts: RateCounts,
    /// Shortest time that the driver's timer can tell.
    pub timer: Span,
    /// Tell the peer our own key, which saves it a look-up.
    pub key_exchange: bool,
    /// Hand out an association of a listener only after its peer has shown that it receives what is sent to its
    /// address: for users that act on what a peer says beyond answering it. Not for one-way services, whose
    /// peers never show it.
    #[serde(default)]
    pub validate_peer: bool,
    /// What only multicast needs.
    pub group: XtpGroup,
}

/// Additional configuration of a multicast association (specs/xtp.md 2.13).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct XtpGroup {
    /// Receivers that a transmitter keeps at most.
    pub receivers: u32,
    /// This number of receivers is awaited before the first data.
    pub wait_for: u32,
    /// Bytes per second that a receiver must take, or it is not let in; 0: whatever it takes.
    pub least_rate: u64,
    /// T_slot: a receiver delays its report of a gap by up to this time, and suppresses it if the gap is
    /// repaired meanwhile.
    pub slot: Span,
    /// Handshakes in a row after which a receiver that does not answer is dropped.
    pub misses: u32,
    /// Break off rather than continue without a receiver.
    pub strict: bool,
    /// Drop receivers that block progress for this number of handshakes; without it, all wait for them.
    pub drop_laggards: bool,
}

impl Default for XtpGroup {
    fn default() -> XtpGroup {
        XtpGroup {
            receivers: 1_024,
            wait_for: 1,
            least_rate: 0,
            slot: Span::from_ms(10),
            misses: 3,
            strict: false,
            drop_laggards: false,
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, Error, Serialize, Deserialize)]
#[error("xtp.{field}: {problem}")]
pub struct XtpConfigError {
    /// The field.
    pub field: Cow<'static, str>,
    /// What is wrong, and what is right.
    pub problem: Cow<'static, str>,
}

/// Least user bytes of a packet that we agree to.
pub(crate) const LEAST_DATA: u32 = 64;
/// What is taken of a peer that allocated nothing yet (specs/xtp.md 2.6).
pub(crate) const INITIAL_ALLOC: u32 = 64 << 10;

impl XtpConfig {
    /// What a service needs, over a path that carries IPv4 packets of 1500 bytes.
    pub fn new(service: XtpService) -> XtpConfig {
        let datagram = matches!(service, XtpService::DATAGRAM | XtpService::MULTICAST);
        XtpConfig {
            service,
            max_data: 1_448,
            window: 64 << 10,
            send_buffer: 64 << 10,
            wake_room: 0,
            error_control: !datagram,
            flow_control: !datagram,
            checksum: true,
            fast_nak: false,
            reservation: false,
            retransmission: Retransmission::Selective,
            hold: true,
            ask: match service {
                XtpService::DATAGRAM | XtpService::MULTICAST => Ask::Never,
                _ => Ask::Every(8),
            },
            edge: false,
            single_timer: false,
            first_wait: Span::from_ms(500),
            least_wait: Span::from_ms(10),
            retries: 6,
            keep_alive: Span::from_secs(60),
            give_up: Span::from_secs(120),
            inactive: Span::from_secs(30),
            out_limit: XtpRate::UNLIMITED,
            in_limit: XtpRate::UNLIMITED,
            rate_counts: RateCounts::Xtp,
            timer: Span::ZERO,
            key_exchange: service == XtpService::STREAM,
            validate_peer: false,
            group: XtpGroup::default(),
        }
    }

    /// Whether a context can work with it.
    pub fn validate(&self) -> Result<(), XtpConfigError> {
        let rates = [self.out_limit, self.in_limit];
        let rules = [
            (
                !matches!(self.service.0, 0..=6),
                "service",
                "must be between 0 and 6",
            ),
            (
                self.service == XtpService::MULTICAST && (self.error_control || self.flow_control),
                "error_control",
                "a stream without acknowledgements has no control of errors or flow",
            ),
            (
                self.group.receivers == 0 || self.group.misses == 0,
                "group.receivers",
                "receivers and misses must be above 0",
            ),
            (
                !(LEAST_DATA..=65_000).contains(&self.max_data),
                "max_data",
                "must be between 64 and 65000 bytes",
            ),
            (
                !(1_024..=1 << 30).contains(&self.window),
                "window",
                "must be between 1024 and 2^30 bytes",
            ),
            (
                !(1_024..=1 << 30).contains(&self.send_buffer),
                "send_buffer",
                "must be between 1024 and 2^30 bytes",
            ),
            (
                self.ask == Ask::Every(0),
                "ask",
                "must be every packet at most",
            ),
            (
                self.first_wait == Span::ZERO || self.least_wait == Span::ZERO,
                "least_wait",
                "waits must be above 0",
            ),
            (
                rates.iter().any(|it| it.rate > u64::from(u32::MAX)),
                "out_limit",
                "rates must fit 32 bits of bytes per second",
            ),
        ];
        match rules.into_iter().find(|(wrong, ..)| *wrong) {
            Some((_, field, problem)) => Err(XtpConfigError {
                field: field.into(),
                problem: problem.into(),
            }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_has_a_valid_configuration_and_nonsense_is_named() {
        for service in 0..=6 {
            assert_eq!(XtpConfig::new(XtpService(service)).validate(), Ok(()));
        }
        let error = XtpConfig::new(XtpService(7)).validate();
        assert_eq!(error.unwrap_err().field, "service");
        let mut config = XtpConfig::new(XtpService::STREAM);
        config.max_data = 0;
        assert_eq!(
            config.validate().unwrap_err().to_string(),
            "xtp.max_data: must be between 64 and 65000 bytes"
        );
    }
}
