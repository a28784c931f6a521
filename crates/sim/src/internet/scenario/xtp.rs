//! `xtp = { ... }` of a flow: what is different from a reliable stream.

use layercast_core::{Rate, Span};
use layercast_wire::XtpService;
use layercast_xtp::{Ask, RateCounts, Retransmission, XtpConfig, XtpRate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::{Problem, ScenarioError};
use super::group::GroupSpec;
use super::place::Place;
use super::quantity::Bytes;
use crate::internet::medium::packet::IP_HEADER;
use crate::internet::network::XtpDelivery;
use crate::text::{Text, above_zero};

/// Retransmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RetransmissionName {
    /// Everything from the first missing byte on.
    GoBackN,
    /// Missing data only.
    Selective,
}

/// What carries packets.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeliveryName {
    /// IP.
    #[default]
    Ip,
    /// AAL5, over a circuit for all contexts of the two hosts.
    HostPair,
    /// AAL5, over a circuit of its own.
    Context,
}

/// A stream of XTP 4.0 (docs/src/reference/xtp.md); by default reliable, with flow control and without a rate.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct XtpSpec {
    /// What carries the packets; AAL5 alone if both hosts have an ATM link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<DeliveryName>,
    /// Largest payload of a packet; headers take 52 bytes more, 32 over AAL5.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 64, max = 65_000))]
    pub max_data: Option<u32>,
    /// Receive window: bytes received but not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Bytes>,
    /// Send buffer: bytes unsent or unacknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_buffer: Option<Bytes>,
    /// false: NOERR, losses are not repaired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_control: Option<bool>,
    /// false: NOFLOW, the window of the receiver is ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_control: Option<bool>,
    /// false: NOCHECK, data are not protected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<bool>,
    /// FASTNAK: gaps are reported immediately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_nak: Option<bool>,
    /// Retransmission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmission: Option<RetransmissionName>,
    /// Whether the receiver keeps data beyond a gap; default: not with "go-back-n".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<bool>,
    /// Packets between status requests; the last packet requests status too; 0: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<u32>,
    /// One timer for all status requests, restarted by each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single_timer: Option<bool>,
    /// Unanswered handshakes after which the stream fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Time-out of the first answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = above_zero()))]
    pub first_wait: Option<Text<Span>>,
    /// Shortest time-out of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = above_zero()))]
    pub least_wait: Option<Text<Span>>,
    /// Largest rate, IP headers included; over AAL5 that of whole cells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Text<Rate>>,
    /// Largest burst; default: a packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<Bytes>,
    /// All hosts of `to` receive one stream by multicast; {} for the defaults. With `error_control = false` there
    /// are no acknowledgements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupSpec>,
}

impl XtpSpec {
    /// What carries its packets.
    pub(super) fn delivery(&self) -> XtpDelivery {
        match self.delivery.unwrap_or_default() {
            DeliveryName::Ip => XtpDelivery::Ip,
            DeliveryName::HostPair => XtpDelivery::HostPair,
            DeliveryName::Context => XtpDelivery::Context,
        }
    }

    /// The configuration of both ends.
    pub(super) fn config(&self, place: Place) -> Result<XtpConfig, ScenarioError> {
        let base = XtpConfig::new(match (&self.group, self.error_control) {
            (None, _) => XtpService::STREAM,
            (Some(_), Some(false)) => XtpService::MULTICAST,
            (Some(_), _) => XtpService::RELIABLE_MULTICAST,
        });
        let bytes = |name: &str, bytes: Option<Bytes>, base: u32| match bytes {
            None => Ok(base),
            Some(Bytes(bytes)) => u32::try_from(bytes).map_err(|_| {
                let field = place.field(format_args!("xtp.{name}"));
                ScenarioError::value(field, bytes, "bytes below 4 GiB")
            }),
        };
        if self.burst.is_some() && self.rate.is_none() {
            let problem = Problem::Needless("there is no rate".to_owned());
            return Err(ScenarioError::new(place.field("xtp.burst"), problem));
        }
        let go_back = self.retransmission == Some(RetransmissionName::GoBackN);
        let span = |time: Option<Text<Span>>, base: Span| time.map_or(base, |time| time.0);
        let config = XtpConfig {
            max_data: self.max_data.unwrap_or(base.max_data),
            // A flow has data whenever there is room for a packet.
            wake_room: self.max_data.unwrap_or(base.max_data),
            window: bytes("window", self.window, base.window)?,
            send_buffer: bytes("send_buffer", self.send_buffer, base.send_buffer)?,
            error_control: self.error_control.unwrap_or(base.error_control),
            flow_control: self.flow_control.unwrap_or(base.flow_control),
            checksum: self.checksum.unwrap_or(base.checksum),
            fast_nak: self.fast_nak.unwrap_or(base.fast_nak),
            retransmission: match go_back {
                true => Retransmission::GoBackN,
                false => Retransmission::Selective,
            },
            hold: self.hold.unwrap_or(!go_back),
            ask: match self.ask {
                None => base.ask,
                Some(0) => Ask::Never,
                Some(packets) => Ask::Every(packets),
            },
            single_timer: self.single_timer.unwrap_or(base.single_timer),
            retries: self.retries.unwrap_or(base.retries),
            first_wait: span(self.first_wait, base.first_wait),
            least_wait: span(self.least_wait, base.least_wait),
            out_limit: XtpRate {
                rate: self.rate.map_or(0, |rate| (rate.0.as_bps() / 8).max(1)),
                burst: self.burst.map_or(0, |bytes| bytes.0),
            },
            rate_counts: match self.delivery() {
                XtpDelivery::Ip => RateCounts::Wire(IP_HEADER),
                XtpDelivery::HostPair | XtpDelivery::Context => RateCounts::Cells,
            },
            ..base
        };
        config.validate().map_err(|error| {
            let problem = Problem::Config(error.problem.into_owned());
            ScenarioError::new(place.field(format_args!("xtp.{}", error.field)), problem)
        })?;
        Ok(config)
    }
}
