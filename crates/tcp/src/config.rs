use layercast_core::Span;
use thiserror::Error;

use super::{ControlFactory, EcnMode};

/// How the congestion window answers loss.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Variant {
    /// Fast retransmit, then slow start from one segment (Jacobson 1988; Fall & Floyd 1996).
    Tahoe,
    /// Fast retransmit and fast recovery that ends at the first new acknowledgement
    /// (RFC 5681 3.2; 4.3BSD-Reno and 4.4BSD-Lite).
    Reno,
    /// Fast recovery that lasts until everything sent before the loss is acknowledged (RFC 6582).
    NewReno,
    /// Loss recovery by selective acknowledgements (RFC 2018, RFC 6675); like NewReno with a peer
    /// that does not offer them.
    Sack,
    /// CUBIC growth (RFC 9438) over the recovery of [`Sack`](Variant::Sack).
    Cubic,
    /// CUBIC as Linux has it, with HyStart, over the recovery of [`Sack`](Variant::Sack).
    Linux,
    /// DCTCP (RFC 8257) over the recovery of [`Sack`](Variant::Sack); needs [`EcnMode::EachMark`] or [`EcnMode::L4s`].
    Dctcp,
}

/// How a connection with selective acknowledgements finds losses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum LossDetection {
    /// Three duplicates, or more than two segments acknowledged above a hole (RFC 6675).
    #[default]
    Duplicates,
    /// By the times at which segments were sent, with probes for the loss of the last ones: RACK-TLP (RFC 8985). With a peer
    /// that does not offer selective acknowledgements, as [`Duplicates`](LossDetection::Duplicates).
    Rack,
}

/// How the first slow start of a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum SlowStart {
    /// At the first loss or mark (RFC 5681).
    #[default]
    Loss,
    /// When round trips grow: HyStart++ (RFC 9406).
    HyStartPlusPlus,
}

/// A named set of parameters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Profile {
    /// 4.4BSD-Lite as INSANE simulated it (specs/insane-simulator.md 2.7): MSS 512, buffers of 8 KiB,
    /// ticks of 500 and 200 ms, first time-out after 12 ticks, no RFC 1323.
    Bsd44Lite,
    /// SunOS 4.1.3 (specs/vbr-atm-lan.md 2.5): BSD ticks, buffers of 48 KiB, MSS/8 on top in congestion
    /// avoidance.
    SunOs413,
    /// Solaris of 1995 (specs/vbr-atm-lan.md 2.5): slow tick 200 ms, delayed acknowledgements after 50 ms.
    Solaris,
    /// The 10 ms tick of specs/vbr-atm-lan.md 2.5: least time-out 20 ms, every segment acknowledged.
    Tick10,
    /// What hosts do today: a clock of 1 ms, least time-out 200 ms, first 1 s (RFC 6298), initial
    /// window 10 (RFC 6928), window scaling and timestamps (RFC 7323), SACK, CUBIC.
    Modern,
}

/// Peculiarities of old stacks that shape results (specs/insane-simulator.md 2.7, 6.2).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Quirks {
    /// The acknowledgement that completes a passive open opens the window by a segment.
    pub passive_open_counts: bool,
    /// Leaving fast recovery after exactly the threshold of duplicates leaves the window inflated.
    pub lite_deflation: bool,
    /// Congestion avoidance adds MSS/8 to each step.
    pub extra_eighth: bool,
    /// The window opens by a segment for each acknowledgement, however little it covers and
    /// however little of the window is used; half of the window, not of the flight, is left
    /// after a loss. Otherwise RFC 5681 and RFC 7661.
    pub count_acks: bool,
    /// The least time-out bounds what back-off gives (`TCPT_RANGESET` of 4.4BSD-Lite), so that several time-outs in a row are
    /// as long as the least one where round trips are much shorter. Otherwise back-off doubles it (RFC 6298, 2.4 and 5.5).
    pub min_rto_last: bool,
    /// The time-out is of mean and deviation in whole ticks, of the latter one at least (RFC 6298: G): the least
    /// time-out, if round trips are shorter than a tick.
    /// In the fixed point of 4.4BSD-Lite the deviation stays at three quarters of a tick, and the time-out at three.
    pub whole_ticks: bool,
    /// Delayed acknowledgements of all connections of a host leave at ticks of one timer, after half of the delay on average.
    /// Otherwise each connection has its own.
    pub ack_ticks: bool,
}

/// The configuration of a host's TCP. Start from a [`Profile`].
#[derive(Clone, PartialEq, Debug)]
pub struct TcpConfig {
    /// Congestion control, and recovery from loss.
    pub variant: Variant,
    /// How losses are found, of variants with selective acknowledgements.
    pub loss_detection: LossDetection,
    /// How the first slow start ends, of variants that count bytes; [`Linux`](Variant::Linux) has HyStart in any case.
    pub slow_start: SlowStart,
    /// Congestion control of one's own, in the place of that of the variant.
    pub control: Option<ControlFactory>,
    /// Period of the timer that counts round trips and time-outs.
    pub slow_tick: Span,
    /// How long an acknowledgement is delayed at most; `None`: not at all.
    pub fast_tick: Option<Span>,
    /// Least retransmission time-out, in slow ticks.
    pub min_rto: u32,
    /// Time-out before the first round-trip sample, in slow ticks.
    pub first_rto: u32,
    /// What back-off multiplies as long as there is no sample, in slow ticks; `None`: the time-out before it (RFC 6298 5.5).
    pub unsampled_rto: Option<u32>,
    /// Longest time-out, in slow ticks.
    pub max_rto: u32,
    /// Time-outs in a row after which a connection is given up.
    pub max_retries: u8,
    /// Shortest and longest interval of window probes.
    pub persist: (Span, Span),
    /// Largest segment we send and accept, in bytes without headers and options.
    pub mss: u16,
    /// MSS of a peer that names none.
    pub default_mss: u16,
    /// Bytes written but not acknowledged that a connection holds.
    pub send_buffer: u32,
    /// Bytes received but not read that a connection holds: the window it offers.
    pub recv_buffer: u32,
    /// Initial congestion window, in segments.
    pub initial_window: u32,
    /// Largest congestion window in bytes before window scaling; `None`: none.
    pub max_cwnd: Option<u32>,
    /// Duplicate acknowledgements that mean a loss.
    pub dup_acks: u32,
    /// New data for the duplicates before, two segments at most, except while a time-out is repaired (RFC 3042).
    pub limited_transmit: bool,
    /// A time-out is repaired when it is clear that it is not spurious (F-RTO, RFC 5682), with a peer that acknowledges selectively.
    pub frto: bool,
    /// Nagle's rule (RFC 896): no short segment while anything is unacknowledged.
    pub nagle: bool,
    /// Offer window scaling (RFC 7323 2).
    pub window_scaling: bool,
    /// Offer timestamps (RFC 7323 3).
    pub timestamps: bool,
    /// Offer selective acknowledgements, and send them (RFC 2018).
    pub sack: bool,
    /// Explicit congestion notification.
    pub ecn: EcnMode,
    /// Peculiarities.
    pub quirks: Quirks,
    /// How long a connection may take to be established.
    pub connect_timeout: Span,
    /// Twice the maximum segment lifetime: how long TIME-WAIT lasts.
    pub time_wait: Span,
    /// How long a closed connection waits for the peer's FIN.
    pub fin_wait_2: Span,
    /// Connections a host has at most.
    pub max_connections: usize,
}

/// Why a configuration cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("tcp.{field}: {problem}")]
pub struct TcpConfigError {
    /// The field.
    pub field: &'static str,
    /// What is wrong, and what is right.
    pub problem: &'static str,
}

impl From<Profile> for TcpConfig {
    fn from(profile: Profile) -> TcpConfig {
        let bsd = TcpConfig {
            variant: Variant::Reno,
            loss_detection: LossDetection::Duplicates,
            slow_start: SlowStart::Loss,
            control: None,
            slow_tick: Span::from_ms(500),
            fast_tick: Some(Span::from_ms(200)),
            min_rto: 2,
            first_rto: 12,
            unsampled_rto: Some(24),
            max_rto: 128,
            max_retries: 12,
            persist: (Span::from_secs(5), Span::from_secs(60)),
            mss: 512,
            default_mss: 512,
            send_buffer: 8_192,
            recv_buffer: 8_192,
            initial_window: 1,
            max_cwnd: Some(65_535),
            dup_acks: 3,
            limited_transmit: false,
            frto: false,
            nagle: true,
            window_scaling: false,
            timestamps: false,
            sack: false,
            ecn: EcnMode::Off,
            quirks: Quirks {
                passive_open_counts: true,
                lite_deflation: true,
                extra_eighth: false,
                count_acks: true,
                min_rto_last: true,
                whole_ticks: false,
                ack_ticks: true,
            },
            connect_timeout: Span::from_secs(75),
            time_wait: Span::from_secs(60),
            fin_wait_2: Span::from_secs(600),
            max_connections: 1 << 20,
        };
        let sun = TcpConfig {
            mss: 1_460,
            send_buffer: 49_152,
            recv_buffer: 49_152,
            quirks: Quirks {
                extra_eighth: true,
                // specs/vbr-atm-lan.md 2.5: the least of two ticks is doubled.
                min_rto_last: false,
                whole_ticks: true,
                ..bsd.quirks
            },
            ..bsd.clone()
        };
        match profile {
            Profile::Bsd44Lite => bsd,
            Profile::SunOs413 => sun,
            Profile::Solaris => TcpConfig {
                slow_tick: Span::from_ms(200),
                fast_tick: Some(Span::from_ms(50)),
                ..sun
            },
            Profile::Tick10 => TcpConfig {
                slow_tick: Span::from_ms(10),
                fast_tick: None,
                ..sun
            },
            Profile::Modern => TcpConfig {
                variant: Variant::Cubic,
                slow_tick: Span::from_ms(1),
                fast_tick: Some(Span::from_ms(40)),
                min_rto: 200,
                first_rto: 1_000,
                unsampled_rto: None,
                max_rto: 60_000,
                persist: (Span::from_ms(200), Span::from_secs(60)),
                mss: 1_460,
                default_mss: 536,
                send_buffer: 1 << 20,
                recv_buffer: 1 << 20,
                initial_window: 10,
                max_cwnd: None,
                limited_transmit: true,
                frto: true,
                window_scaling: true,
                timestamps: true,
                sack: true,
                quirks: Quirks::default(),
                fin_wait_2: Span::from_secs(60),
                ..bsd
            },
        }
    }
}

impl TcpConfig {
    /// Checks that every value can be worked with.
    pub fn validate(&self) -> Result<(), TcpConfigError> {
        let rules = [
            (self.slow_tick == Span::ZERO, "slow_tick", "must be above 0"),
            (
                self.fast_tick == Some(Span::ZERO),
                "fast_tick",
                "must be above 0; leave it out for none",
            ),
            (self.min_rto == 0, "min_rto", "must be at least one tick"),
            (
                self.first_rto == 0,
                "first_rto",
                "must be at least one tick",
            ),
            (
                self.max_rto < self.min_rto.max(self.first_rto) || self.max_rto > 1 << 24,
                "max_rto",
                "must not be below the other time-outs, nor above 2^24 ticks",
            ),
            (
                self.unsampled_rto
                    .is_some_and(|ticks| ticks == 0 || ticks > self.max_rto),
                "unsampled_rto",
                "must be between one tick and max_rto",
            ),
            (
                self.persist.0 == Span::ZERO || self.persist.0 > self.persist.1,
                "persist",
                "must be a shortest interval above 0 and a longest not below it",
            ),
            (self.mss < 64, "mss", "must be at least 64 bytes"),
            (
                self.default_mss < 64,
                "default_mss",
                "must be at least 64 bytes",
            ),
            (
                self.send_buffer == 0 || self.send_buffer > 1 << 30,
                "send_buffer",
                "must be between 1 byte and 2^30",
            ),
            (
                self.recv_buffer < u32::from(self.mss) || self.recv_buffer > 65_535 << 14,
                "recv_buffer",
                "must hold a segment and be at most 65535 * 2^14 bytes",
            ),
            (
                !(1..=1_000).contains(&self.initial_window),
                "initial_window",
                "must be between 1 and 1000 segments",
            ),
            (
                !(1..=1_000).contains(&self.dup_acks),
                "dup_acks",
                "must be between 1 and 1000",
            ),
            (
                self.max_cwnd
                    .is_some_and(|max| max < 2 * u32::from(self.mss)),
                "max_cwnd",
                "must hold two segments",
            ),
            (
                self.variant == Variant::Dctcp && !self.ecn.echoes_each(),
                "ecn",
                "must be that of DCTCP, which computes the share of marked bytes, or L4S",
            ),
            (
                self.ecn == EcnMode::L4s
                    && self.variant != Variant::Dctcp
                    && self.control.is_none(),
                "ecn",
                "L4S needs a control that answers marks in proportion: DCTCP (RFC 9331 4.3)",
            ),
            (
                self.loss_detection == LossDetection::Rack
                    && !(self.sack
                        && matches!(
                            self.variant,
                            Variant::Sack | Variant::Cubic | Variant::Linux | Variant::Dctcp
                        )),
                "recovery",
                "RACK needs sack = true and a variant that uses it: sack, cubic, linux or dctcp",
            ),
            (
                self.slow_start == SlowStart::HyStartPlusPlus
                    && (self.quirks.count_acks
                        || (self.variant == Variant::Linux && self.control.is_none())),
                "slow_start",
                "HyStart++ needs a variant that counts bytes and has no HyStart of its own: not linux, not count_acks",
            ),
            (
                self.max_connections == 0 || self.max_connections > u32::MAX as usize,
                "max_connections",
                "must be between 1 and 2^32 - 1",
            ),
        ];
        match rules.into_iter().find(|(wrong, ..)| *wrong) {
            Some((_, field, problem)) => Err(TcpConfigError { field, problem }),
            None => Ok(()),
        }
    }

    /// The left shift of the windows we offer, so that the whole buffer can be advertised.
    pub(crate) fn window_scale(&self) -> u8 {
        let bits = 32 - self.recv_buffer.leading_zeros();
        bits.saturating_sub(16) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_valid() {
        for profile in [
            Profile::Bsd44Lite,
            Profile::SunOs413,
            Profile::Solaris,
            Profile::Tick10,
            Profile::Modern,
        ] {
            assert_eq!(TcpConfig::from(profile).validate(), Ok(()), "{profile:?}");
        }
    }

    #[test]
    fn nonsense_is_named() {
        let mut config = TcpConfig::from(Profile::Modern);
        config.recv_buffer = 0;
        assert_eq!(
            config.validate().unwrap_err().to_string(),
            "tcp.recv_buffer: must hold a segment and be at most 65535 * 2^14 bytes"
        );
        config = TcpConfig::from(Profile::Bsd44Lite);
        config.max_rto = 3;
        assert_eq!(config.validate().unwrap_err().field, "max_rto");
    }

    #[test]
    fn the_whole_buffer_can_be_told() {
        let mut config = TcpConfig::from(Profile::Modern);
        for buffer in [1_460, 65_535, 65_536, 1 << 20, 65_535 << 14] {
            config.recv_buffer = buffer;
            let scale = config.window_scale();
            assert!(scale <= 14 && buffer >> scale <= 65_535, "{buffer}");
        }
    }
}
