//! `[tcp.NAME]`: a profile and what is different.

use layercast_core::Span;
use layercast_tcp::{EcnMode, LossDetection, Profile, Quirks, SlowStart, TcpConfig, Variant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::{Problem, ScenarioError};
use super::quantity::{Bytes, BytesOrOff, OrOff};
use crate::scenario::units::Quantity;
use crate::text::{Text, above_zero};

/// The stacks that need no table, by name.
pub(super) const PROFILES: [(&str, Profile); 5] = [
    ("bsd44lite", Profile::Bsd44Lite),
    ("sunos413", Profile::SunOs413),
    ("solaris", Profile::Solaris),
    ("tick10", Profile::Tick10),
    ("modern", Profile::Modern),
];

/// A stack to start from.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProfileName {
    /// 4.4BSD-Lite: MSS 512, buffers of 8 KiB, ticks of 500 and 200 ms.
    Bsd44Lite,
    /// SunOS 4.1.3: BSD ticks, MSS 1460, buffers of 48 KiB.
    SunOs413,
    /// Solaris of 1995: ticks of 200 and 50 ms.
    Solaris,
    /// A tick of 10 ms, every segment acknowledged.
    Tick10,
    /// Today: a clock of 1 ms, SACK, CUBIC, timestamps, window scaling, initial window 10.
    #[default]
    Modern,
}

/// How the congestion window answers loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VariantName {
    /// Fast retransmit, then slow start.
    Tahoe,
    /// Fast recovery until the first new acknowledgement (RFC 5681).
    Reno,
    /// Fast recovery until all sent before the loss is acknowledged (RFC 6582).
    NewReno,
    /// Recovery by selective acknowledgements (RFC 6675).
    Sack,
    /// CUBIC (RFC 9438).
    Cubic,
    /// CUBIC as Linux has it: slower where Reno is fair to it, with HyStart.
    Linux,
    /// DCTCP (RFC 8257), with ecn = "dctcp".
    Dctcp,
}

/// How losses are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RecoveryName {
    /// By duplicate and selective acknowledgements, as the variant has it.
    Duplicates,
    /// By the times of sending, with probes for the loss of the last segments: RACK-TLP (RFC 8985).
    Rack,
}

/// How the first slow start ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum SlowStartName {
    /// At the first loss or mark (RFC 5681).
    #[serde(rename = "loss")]
    Loss,
    /// When round trips grow: HyStart++ (RFC 9406).
    #[serde(rename = "hystart++")]
    HyStartPlusPlus,
}

/// Whether a host uses ECN, and what its receivers echo.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EcnName {
    /// No ECN.
    Off,
    /// A mark is echoed until the sender has reduced its window (RFC 3168).
    Rfc3168,
    /// Each mark is echoed once (RFC 8257): both hosts of a connection have to do so.
    Dctcp,
    /// As "dctcp", and data are sent as ECT(1), for the low-latency queue of "dualpi2" (RFC 9331); with the variant "dctcp".
    L4s,
}

impl EcnName {
    /// The word of a scenario.
    fn word(self) -> &'static str {
        match self {
            EcnName::Off => "\"off\"",
            EcnName::Rfc3168 => "\"rfc3168\"",
            EcnName::Dctcp => "\"dctcp\"",
            EcnName::L4s => "\"l4s\"",
        }
    }
}

/// A TCP configuration: a profile and overrides of it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("allOf" = [
    {
        "if": { "properties": { "ecn": { "const": "l4s" } }, "required": ["ecn"] },
        "then": { "properties": { "variant": { "const": "dctcp" } }, "required": ["variant"] }
    },
    {
        "if": { "properties": { "variant": { "const": "dctcp" } }, "required": ["variant"] },
        "then": { "properties": { "ecn": { "not": { "enum": ["off", "rfc3168"] } } } }
    },
    {
        "if": { "properties": { "recovery": { "const": "rack" } }, "required": ["recovery"] },
        "then": { "properties": {
            "sack": { "not": { "const": false } },
            "variant": { "not": { "enum": ["tahoe", "reno", "newreno"] } }
        } }
    },
    {
        "if": { "properties": { "slow_start": { "const": "hystart++" } }, "required": ["slow_start"] },
        "then": { "properties": { "variant": { "not": { "const": "linux" } } } }
    },
]))]
pub struct TcpSpec {
    /// The stack to start from.
    pub profile: ProfileName,
    /// Congestion control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<VariantName>,
    /// Period of the timer that counts round trips and time-outs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = above_zero()))]
    pub slow_tick: Option<Text<Span>>,
    /// Longest delay of an acknowledgement; "off": no delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_tick: Option<Text<OrOff<Span>>>,
    /// Least retransmission time-out: whole slow ticks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = above_zero()))]
    pub min_rto: Option<Text<Span>>,
    /// Time-out before the first sample: whole slow ticks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_rto: Option<Text<Span>>,
    /// Base of the back-off before the first sample: whole slow ticks. Default: `first_rto`; twice that in the profiles of BSD.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = above_zero()))]
    pub unsampled_rto: Option<Text<Span>>,
    /// Longest time-out: whole slow ticks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_rto: Option<Text<Span>>,
    /// Consecutive time-outs after which a connection fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u8>,
    /// Shortest and longest interval of window probes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persist: Option<[Text<Span>; 2]>,
    /// Largest segment in bytes, without headers and options.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 64))]
    pub mss: Option<u16>,
    /// MSS of a peer that announces none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 64))]
    pub default_mss: Option<u16>,
    /// Bytes written but not acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_buffer: Option<Bytes>,
    /// Bytes received but not read: the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recv_buffer: Option<Bytes>,
    /// Initial congestion window in segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub initial_window: Option<u32>,
    /// Largest congestion window before window scaling, in bytes, or "off".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cwnd: Option<BytesOrOff>,
    /// Duplicate acknowledgements that indicate a loss.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub dup_acks: Option<u32>,
    /// Limited transmit (RFC 3042).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_transmit: Option<bool>,
    /// A time-out is repaired when it is clear that it is not spurious (F-RTO, RFC 5682), with selective acknowledgements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frto: Option<bool>,
    /// No short segment while anything is unacknowledged (RFC 896).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nagle: Option<bool>,
    /// Offer window scaling (RFC 7323).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_scaling: Option<bool>,
    /// Offer timestamps (RFC 7323); they take 12 bytes of each segment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamps: Option<bool>,
    /// Offer selective acknowledgements (RFC 2018).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sack: Option<bool>,
    /// How losses are found, of the variants "sack", "cubic", "linux" and "dctcp" with sack = true. Default: "duplicates".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryName>,
    /// How the first slow start ends, of all variants but "linux", which has HyStart. Default: "loss".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_start: Option<SlowStartName>,
    /// Explicit congestion notification. Default: "off"; with the variant "dctcp", "dctcp".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<EcnName>,
    /// The acknowledgement that completes a passive open grows the window by a segment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passive_open_counts: Option<bool>,
    /// Leaving fast recovery after exactly three duplicates leaves the window inflated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lite_deflation: Option<bool>,
    /// Congestion avoidance adds MSS/8 to each step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_eighth: Option<bool>,
    /// The window grows by a segment for each acknowledgement, however little it covers, and duplicates after a time-out may be
    /// taken for a loss, as in 4.4BSD-Lite; false: bytes acknowledged are counted (RFC 5681, RFC 3465, RFC 6582).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count_acks: Option<bool>,
    /// The least time-out bounds what back-off gives, as in 4.4BSD-Lite; false: back-off doubles it (RFC 6298).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rto_last: Option<bool>,
    /// The time-out is computed from mean and deviation in whole ticks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole_ticks: Option<bool>,
    /// Delayed acknowledgements of all connections of a host leave at ticks of one timer with the period `fast_tick`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_ticks: Option<bool>,
    /// Time limit of connection establishment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<Text<Span>>,
    /// How long TIME-WAIT lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_wait: Option<Text<Span>>,
    /// How long a closed connection waits for the peer's FIN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fin_wait_2: Option<Text<Span>>,
}

impl TcpSpec {
    /// The configuration; `field` is the path of this table.
    pub(crate) fn config(&self, field: &str) -> Result<TcpConfig, ScenarioError> {
        let base = TcpConfig::from(match self.profile {
            ProfileName::Bsd44Lite => Profile::Bsd44Lite,
            ProfileName::SunOs413 => Profile::SunOs413,
            ProfileName::Solaris => Profile::Solaris,
            ProfileName::Tick10 => Profile::Tick10,
            ProfileName::Modern => Profile::Modern,
        });
        let tick = self.slow_tick.map_or(base.slow_tick, |tick| tick.0);
        let ticks = |name: &str, time: Option<Text<Span>>, base: u32| match time {
            None => Ok(base),
            Some(Text(time)) => ticks(time, tick).ok_or_else(|| {
                let accepted = format!("a multiple of slow_tick, which is {}", tick.write());
                ScenarioError::value(format!("{field}.{name}"), time.write(), accepted)
            }),
        };
        let bytes = |name: &str, bytes: Option<Bytes>, base: u32| match bytes {
            None => Ok(base),
            Some(Bytes(bytes)) => u32::try_from(bytes).map_err(|_| {
                let accepted = "bytes below 4 GiB";
                ScenarioError::value(format!("{field}.{name}"), bytes, accepted)
            }),
        };
        let span = |time: Option<Text<Span>>, base: Span| time.map_or(base, |time| time.0);
        let first_rto = ticks("first_rto", self.first_rto, base.first_rto)?;
        let config = TcpConfig {
            control: None,
            variant: match self.variant {
                None => base.variant,
                Some(VariantName::Tahoe) => Variant::Tahoe,
                Some(VariantName::Reno) => Variant::Reno,
                Some(VariantName::NewReno) => Variant::NewReno,
                Some(VariantName::Sack) => Variant::Sack,
                Some(VariantName::Cubic) => Variant::Cubic,
                Some(VariantName::Linux) => Variant::Linux,
                Some(VariantName::Dctcp) => Variant::Dctcp,
            },
            loss_detection: match self.recovery {
                None => base.loss_detection,
                Some(RecoveryName::Duplicates) => LossDetection::Duplicates,
                Some(RecoveryName::Rack) => LossDetection::Rack,
            },
            slow_start: match self.slow_start {
                None => base.slow_start,
                Some(SlowStartName::Loss) => SlowStart::Loss,
                Some(SlowStartName::HyStartPlusPlus) => SlowStart::HyStartPlusPlus,
            },
            slow_tick: tick,
            fast_tick: self.fast_tick.map_or(base.fast_tick, |tick| tick.0.0),
            min_rto: ticks("min_rto", self.min_rto, base.min_rto)?,
            first_rto,
            unsampled_rto: match (self.unsampled_rto, base.unsampled_rto) {
                (None, None) => None,
                // As much longer than the first as that of the profile.
                (None, Some(ticks)) => Some(scaled(ticks, first_rto, base.first_rto)),
                (given, _) => Some(ticks("unsampled_rto", given, 0)?),
            },
            max_rto: ticks("max_rto", self.max_rto, base.max_rto)?,
            max_retries: self.max_retries.unwrap_or(base.max_retries),
            persist: self
                .persist
                .map_or(base.persist, |[least, most]| (least.0, most.0)),
            mss: self.mss.unwrap_or(base.mss),
            default_mss: self.default_mss.unwrap_or(base.default_mss),
            send_buffer: bytes("send_buffer", self.send_buffer, base.send_buffer)?,
            recv_buffer: bytes("recv_buffer", self.recv_buffer, base.recv_buffer)?,
            initial_window: self.initial_window.unwrap_or(base.initial_window),
            max_cwnd: match self.max_cwnd {
                None => base.max_cwnd,
                Some(BytesOrOff(None)) => None,
                Some(BytesOrOff(most @ Some(_))) => Some(bytes("max_cwnd", most, 0)?),
            },
            dup_acks: self.dup_acks.unwrap_or(base.dup_acks),
            limited_transmit: self.limited_transmit.unwrap_or(base.limited_transmit),
            frto: self.frto.unwrap_or(base.frto),
            nagle: self.nagle.unwrap_or(base.nagle),
            window_scaling: self.window_scaling.unwrap_or(base.window_scaling),
            timestamps: self.timestamps.unwrap_or(base.timestamps),
            sack: self.sack.unwrap_or(base.sack),
            ecn: match (self.ecn, self.variant) {
                (None, Some(VariantName::Dctcp)) | (Some(EcnName::Dctcp), _) => EcnMode::EachMark,
                (None, _) => base.ecn,
                (Some(EcnName::Off), _) => EcnMode::Off,
                (Some(EcnName::Rfc3168), _) => EcnMode::Classic,
                (Some(EcnName::L4s), _) => EcnMode::L4s,
            },
            quirks: Quirks {
                passive_open_counts: self
                    .passive_open_counts
                    .unwrap_or(base.quirks.passive_open_counts),
                lite_deflation: self.lite_deflation.unwrap_or(base.quirks.lite_deflation),
                extra_eighth: self.extra_eighth.unwrap_or(base.quirks.extra_eighth),
                count_acks: self.count_acks.unwrap_or(base.quirks.count_acks),
                min_rto_last: self.min_rto_last.unwrap_or(base.quirks.min_rto_last),
                whole_ticks: self.whole_ticks.unwrap_or(base.quirks.whole_ticks),
                ack_ticks: self.ack_ticks.unwrap_or(base.quirks.ack_ticks),
            },
            connect_timeout: span(self.connect_timeout, base.connect_timeout),
            time_wait: span(self.time_wait, base.time_wait),
            fin_wait_2: span(self.fin_wait_2, base.fin_wait_2),
            max_connections: base.max_connections,
        };
        config.validate().map_err(|error| {
            let problem = match error.field {
                // The only rules about a word: the message names the accepted ones.
                "ecn" => Problem::Value {
                    value: self.ecn.map_or("\"off\"", EcnName::word).to_owned(),
                    accepted: match self.ecn {
                        Some(EcnName::L4s) => {
                            "\"off\", \"rfc3168\" or \"dctcp\"; \"l4s\" is for variant = \"dctcp\""
                        }
                        _ => "\"dctcp\" or \"l4s\", as the variant is \"dctcp\"",
                    }
                    .to_owned(),
                },
                _ => Problem::Config(error.problem.to_owned()),
            };
            ScenarioError::new(format!("{field}.{}", error.field), problem)
        })?;
        Ok(config)
    }
}

/// `ticks` as a time of `to` instead of `from` ticks.
fn scaled(ticks: u32, to: u32, from: u32) -> u32 {
    let scaled = u64::from(ticks) * u64::from(to) / u64::from(from.max(1));
    u32::try_from(scaled).unwrap_or(u32::MAX)
}

/// The time in whole ticks.
fn ticks(time: Span, tick: Span) -> Option<u32> {
    let whole = time.as_ps().checked_div(tick.as_ps())?;
    let exact = time.as_ps().is_multiple_of(tick.as_ps());
    exact
        .then_some(whole)
        .and_then(|ticks| u32::try_from(ticks).ok())
}
