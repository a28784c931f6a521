//! The JSON Schema of values that other crates define: words, levels, policies, patterns of texts.

use std::borrow::Cow;

use layercast_core::quantity::{
    BYTES, CELL_RATES, CELLS, LONGEST, Least, TIME, pattern as quantities,
};
use layercast_core::{
    AdaptMode, CELL_PAYLOAD, Composition, FlowSpec, MaintMode, Metric, OnPlenty, QosPolicy, Rate,
    Span,
};
use layercast_fec::Scheme;
use layercast_media::Synthetic;
use layercast_mets::switch::Lowering;
use layercast_qos::{Merge, ProbeMode};
use layercast_wire::{Carriage, Mark};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::host::{HostChoice, HostProfile};
use super::limits::{MOST_QUEUED, MOST_SPARE};
use super::schema::{RateSpec, ShapingSpec};
use super::units::Quantity;

/// Longest run, era and RES interval.
pub const DAY: Span = Span::from_secs(86_400);
/// Longest delay bound: a flow specification has it in 32 bits, in milliseconds.
pub const DELAY: Span = Span::from_ms(u32::MAX as u64);
/// Names: letters, digits, '-', '_' and '.'; letters of other scripts are not distinguished from other signs.
pub const NAME: &str = "^[^\\x00-,/:-@\\[-\\^`{-\\x7f]+$";

/// Names in internetworks, which may have ranges, such as `host{1..200}`.
pub const NAMES: &str =
    "^([^\\x00-,./:-@\\[-\\^`{-\\x7f]|\\{ *\\+?[0-9]+ *\\.\\. *\\+?[0-9]+ *\\})+$";
/// Titles: text without control characters.
pub const TITLE: &str = "^[^\\x00-\\x1f\\x7f-\\x9f]+$";

/// The pattern of times above zero of at most `most`.
pub fn time_to(most: Span) -> String {
    Span::pattern_to(Least::AboveZero, most)
}

/// The pattern of sizes of queues.
pub fn queue() -> String {
    let cells = u128::from(MOST_QUEUED);
    // A part of a cell at the end is not used.
    let bytes = (cells + 1) * CELL_PAYLOAD as u128 - 1;
    let longest = u128::from(LONGEST.as_ps());
    quantities(
        &[(CELLS, cells), (BYTES, bytes), (TIME, longest)],
        Least::AboveZero,
    )
}

/// The pattern of cell rates above zero.
pub fn cell_rate() -> String {
    quantities(&[(CELL_RATES, u128::from(u32::MAX))], Least::AboveZero)
}

/// Integers from 1 to 254 and to 255, as the parsers of Rust read them.
const TO_254: &str = "\\+?0*(?:[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-4])";
const TO_255: &str = "\\+?0*(?:[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])";

/// The pattern of protections of a base layer.
pub fn protection() -> String {
    let schemes = Scheme::ALL.map(Scheme::name).join("|");
    format!("^(?:(?:{schemes}):)?(?:auto|{TO_254}\\+{TO_254})$")
}

/// The pattern of rules of filters.
pub fn rule() -> String {
    let coefficients = "\\+?0*(?:[1-9]|[1-5][0-9]|6[0-4])";
    format!("^(?:keep:IP?|drs|low-pass:{coefficients}|thin:(?:{TO_254}|\\+?0+)/{TO_255})$")
}

pub fn level(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "minimum": 0, "maximum": 2 })
}

/// A value and its meaning.
fn word(value: impl Serialize, meaning: &str) -> Value {
    json!({ "const": value, "description": meaning })
}

/// One of several words, each with its meaning.
fn words<T: Serialize>(values: &[(T, &str)]) -> Schema {
    let forms = values.iter().map(|(value, meaning)| word(value, meaning));
    json_schema!({ "oneOf": forms.collect::<Vec<_>>() })
}

pub fn composition(_: &mut SchemaGenerator) -> Schema {
    words(&[
        (
            Composition::Additive,
            "a level is the sum of its layers: a higher layer adds to the lower ones",
        ),
        (
            Composition::Alternative,
            "a level is one layer, a whole rendition: a higher one replaces the lower ones",
        ),
    ])
}

pub fn repair(_: &mut SchemaGenerator) -> Schema {
    let words = [
        word(
            "auto",
            "the same as `true`: what is lost is sent again, or parities of it; where a request would come too late, parities \
             are sent ahead",
        ),
        word("arq", "what is lost is sent again; no parities"),
        word("fec", "parities are sent ahead; nothing is sent again"),
        word("off", "the same as `false`: no repair"),
    ];
    let on =
        json!({ "type": "boolean", "description": "`true` is `\"auto\"`, `false` is `\"off\"`" });
    let forms = std::iter::once(on).chain(words);
    json_schema!({ "oneOf": forms.collect::<Vec<_>>() })
}

pub fn carriage(_: &mut SchemaGenerator) -> Schema {
    words(&[
        (Carriage::Cells, "ATM cells"),
        (Carriage::Datagrams, "one packet in a UDP datagram"),
    ])
}

pub fn aal5_mark(_: &mut SchemaGenerator) -> Schema {
    words(&[
        (Mark::Last, "the last cell (ITU-T I.363.5)"),
        (Mark::First, "the first cell, as in the papers"),
    ])
}

pub fn lowering(_: &mut SchemaGenerator) -> Schema {
    words(&[
        (Lowering::GopStart, "at the next start of a GOP"),
        (Lowering::NextFrame, "at the next frame"),
    ])
}

pub fn merge(_: &mut SchemaGenerator) -> Schema {
    words(&[
        (Merge::Join, "the higher of both levels"),
        (Merge::Hull, "the lowest minimum and the highest maximum"),
    ])
}

pub fn probe(_: &mut SchemaGenerator) -> Schema {
    words(&[
        (ProbeMode::Paper, "after one era without congestion"),
        (
            ProbeMode::Backoff,
            "the same; after a failed increase the next one follows 2 to 64 eras later",
        ),
    ])
}

pub fn synthetic(_: &mut SchemaGenerator) -> Schema {
    words(&[
        (
            Synthetic::Canyon,
            "bursty; I, P, B pictures of 240, 160, 120 cells",
        ),
        (
            Synthetic::Lougher,
            "a talking head; I, P, B pictures of 120, 55, 35 cells",
        ),
        (
            Synthetic::Flight,
            "high motion; I pictures of 430 cells only",
        ),
    ])
}

/// A table whose only key names its kind.
fn single(key: &str, meaning: &str, value: Value) -> Value {
    json!({
        "type": "object",
        "description": meaning,
        "properties": { key: value },
        "required": [key],
        "additionalProperties": false,
    })
}

/// Defines types that have a JSON Schema and no values.
macro_rules! forms {
    ($($(#[$doc:meta])* $name:ident = |$generator:pat_param| $schema:expr;)*) => {$(
        $(#[$doc])*
        pub struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    )*};
}

forms! {
    /// [`QosPolicy`].
    Policy = |generator| policy(generator);

    /// A filter of a policy.
    Filter = |_| json_schema!({
        "description": "A filter of a policy.",
        "oneOf": [
            word("jitter", "jitter filter at the receiver"),
            word("picturedrop", "picture dropping"),
            word("drs", "dynamic rate shaping"),
            single(
                "lowpass",
                "low-pass: the number of DCT coefficients of 64 to keep",
                json!({ "type": "integer", "minimum": 1, "maximum": 64 }),
            ),
        ],
    });

    /// `on_scarce` of a policy.
    Scarce = |generator| json_schema!({
        "description": "Reaction to scarce bandwidth.",
        "oneOf": [
            word("inform", "inform the user; the hosts drop nothing on their own"),
            word("droplayer", "drop the highest enhancement layer"),
            word("disconnect", "end the flow"),
            single("filter", "insert a filter", generator.subschema_for::<Filter>().to_value()),
        ],
    });

    /// An alarm of a policy.
    Alarm = |_| json_schema!({
        "description": "An alarm on a metric: one event per crossing of the threshold.",
        "type": "object",
        "properties": {
            "metric": { "description": "The metric.", "oneOf": [
                word(Metric::Loss, "lost frames in permille"),
                word(Metric::Late, "frames dropped after their deadline"),
                word(Metric::Delay, "mean one-way delay in microseconds"),
                word(Metric::Jitter, "jitter in microseconds"),
                word(Metric::Rate, "cells per second"),
            ] },
            "op": { "description": "The side of the threshold that raises the alarm.", "oneOf": [
                word(">", "above"),
                word("<", "below"),
            ] },
            "threshold": { "description": "In the unit of the metric.", "type": "number" },
            "window_ms": whole(0, u32::MAX.into(), "Interval of the metric, in milliseconds."),
            "hysteresis": {
                "description": "Distance from the threshold at which the alarm is armed again.",
                "type": "number",
                "minimum": 0,
            },
            "oneshot": { "description": "Whether the alarm is removed after its first event.", "type": "boolean" },
        },
        "required": ["metric", "op", "threshold", "window_ms", "hysteresis", "oneshot"],
    });

    /// [`QosOption`](layercast_core::QosOption) of a request.
    Asked = |generator| json_schema!({
        "description": "A request to the management interface.",
        "oneOf": [
            word("maint", "maintain the flow, without periodic signals"),
            word("monitor", "maintain the flow and signal periodically"),
            word("signal", "signal periodically only"),
            single(
                "flow_spec",
                "renegotiation: a new flow specification; missing keys do not change",
                specification(),
            ),
            single("qos_policy", "a new policy", generator.subschema_for::<Policy>().to_value()),
            single("adapt", "adaptation to the bandwidth", adaptation()),
            single("filter", "use these filters and no others", list::<Filter>(generator)),
            single(
                "event",
                "attach an alarm; it replaces one of the same metric and side; window 0 removes it",
                generator.subschema_for::<Alarm>().to_value(),
            ),
        ],
    });
}

fn list<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    json!({ "type": "array", "items": generator.subschema_for::<T>() })
}

fn whole(least: u64, most: u64, meaning: &str) -> Value {
    json!({ "type": "integer", "minimum": least, "maximum": most, "description": meaning })
}

fn adaptation() -> Value {
    words(&[
        (AdaptMode::None, "none"),
        (AdaptMode::Discrete, "whole enhancement layers"),
        (AdaptMode::Continuous, "rate shaping to a real-valued rate"),
    ])
    .to_value()
}

/// The keys of a flow specification; those that are numbers by default are not negative.
fn specification() -> Value {
    let fields = serde_json::to_value(FlowSpec {
        // Zero and additive layers are not written.
        headroom_permille: 1,
        composition: Composition::Alternative,
        ..FlowSpec::default()
    });
    let mut properties = Map::from_iter([("picture_rate".to_owned(), json!(true))]);
    for (name, value) in fields
        .ok()
        .as_ref()
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let form = match value {
            Value::Number(_) => json!({ "type": "integer", "minimum": 0 }),
            Value::Object(_) => json!({ "type": "object" }),
            _ => json!(true),
        };
        properties.insert(name.clone(), form);
    }
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn policy(generator: &mut SchemaGenerator) -> Schema {
    let mode = words(&[
        (
            MaintMode::Maint,
            "maintain the flow, without periodic signals",
        ),
        (
            MaintMode::Monitor,
            "maintain the flow and signal periodically",
        ),
        (MaintMode::Signal, "signal only"),
    ]);
    let plenty = words(&[
        (OnPlenty::Ignore, "never increase"),
        (
            OnPlenty::Inform,
            "inform the user and increase only after the answer",
        ),
        (OnPlenty::AddLayer, "request the next enhancement layer"),
    ]);
    let mut properties = json!({
        "mode": mode,
        "adapt": adaptation(),
        "on_scarce": generator.subschema_for::<Scarce>(),
        "on_plenty": plenty,
        "min_level": whole(0, 2, "Least level requested."),
        "max_level": whole(0, 2, "Highest level requested."),
        "filters": list::<Filter>(generator),
        "signal_period_ms": whole(1, u32::MAX.into(), "Period of QoSMetric signals, in milliseconds."),
        "events": list::<Alarm>(generator),
        "missed_deadline_threshold": whole(1, 255, "Missed deadlines in a window of 24 that raise MISSED_DEADLINE."),
        "late_threshold": whole(1, 255, "Late frames in a GOP that move the playout point."),
    });
    properties["events"]["maxItems"] = json!(QosPolicy::MAX_ALARMS);
    let defaults = serde_json::to_value(QosPolicy::default()).unwrap_or_default();
    for (name, meaning) in [
        ("mode", "Maintenance and signals."),
        ("adapt", "Adaptation to the bandwidth."),
        ("on_scarce", "Reaction to scarce bandwidth."),
        ("on_plenty", "Reaction to available bandwidth."),
        ("filters", "Filters in use, each kind once."),
        ("events", "Alarms."),
    ] {
        properties[name]["description"] = json!(meaning);
    }
    if let Some(properties) = properties.as_object_mut() {
        for (name, form) in properties {
            form["default"] = defaults[name.as_str()].clone();
        }
    }
    json_schema!({
        "description": "QoS policy of a flow: reaction to scarce and to available bandwidth.",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    })
}

impl JsonSchema for RateSpec {
    fn schema_name() -> Cow<'static, str> {
        "RateSpec".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "Rate of a link.", "oneOf": [
            { "type": "string", "title": Rate::ACCEPTED, "pattern": Rate::pattern() },
            {
                "description": "the rate that the flow `fits` needs at a level, and a spare fraction (default: 0)",
                "type": "object",
                "properties": {
                    "fits": { "type": "string" },
                    "level": level(generator),
                    "spare": { "type": "number", "minimum": 0, "maximum": MOST_SPARE },
                },
                "required": ["fits", "level"],
                "additionalProperties": false,
            },
        ] })
    }
}

impl JsonSchema for ShapingSpec {
    fn schema_name() -> Cow<'static, str> {
        "ShapingSpec".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let count = json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX });
        json_schema!({ "description": "How a source smooths its frames.", "oneOf": [
            word("serial", "one pacer for all flows of the host, at the rate that the receivers accept"),
            word("off", "frames are sent when they are dispatched"),
            single(
                "peak_factor",
                "token bucket at a multiple, at least 1, of the mean rate of the enabled layers",
                json!({ "type": "number", "minimum": 1 }),
            ),
            {
                "description": "token bucket of b cells, refilled every p milliseconds",
                "type": "object",
                "properties": { "b": count, "p": count },
                "required": ["b", "p"],
                "additionalProperties": false,
            },
        ] })
    }
}

impl JsonSchema for HostChoice {
    fn schema_name() -> Cow<'static, str> {
        "HostChoice".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "Processing costs of a host or switch.", "oneOf": [
            word("ideal", "no costs, no bounds"),
            word("1996", "the 90 MHz Pentium and the software switch of 1996"),
            word("1996-486", "the 66 MHz 486: 1.8 times the host costs of the Pentium"),
            generator.subschema_for::<HostProfile>(),
        ] })
    }
}
