use std::{fmt, io};

use serde::Serialize;

use crate::{FlowId, Layer, QosEvent, Span, Time};

/// Which machine on which node speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Subject<'a> {
    /// Node name, as in the scenario.
    pub node: &'a str,
    /// Machine: `"source"`, `"sink"`, `"switch"`, `"link"`, `"tcp"`, `"xtp"`, `"processor"`; of reliable multicast `"sender"`, `"receiver"`,
    /// `"aggregator"`.
    pub machine: &'static str,
}

/// Why something was lost or dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Queue full.
    QueueFull,
    /// Dropped before the queue is full (RED).
    EarlyDrop,
    /// Enhancement frame discarded to protect the base layer.
    SelectiveDiscard,
    /// Rest of a frame that was already damaged.
    PartialDiscard,
    /// Link impairment.
    LinkLoss,
    /// The link was down.
    LinkDown,
    /// Gap in the sequence numbers.
    Gap,
    /// Reassembly: CRC wrong.
    Crc,
    /// Reassembly: length wrong.
    Length,
    /// Reassembly: cell without a frame, or fragment that fits nowhere.
    Orphan,
    /// Receiver interface full.
    NicOverflow,
    /// Flow, group or member not known here.
    Unknown,
    /// Does not decode, or contradicts itself.
    Malformed,
    /// Already seen.
    Duplicate,
    /// Older than what is known.
    Stale,
    /// Arrived after its deadline.
    Late,
    /// Jitter buffer full.
    BufferOverflow,
    /// Shaper queue full.
    ShaperFull,
    /// Needs a frame that is missing.
    Undecodable,
}

/// Where the delay of a frame arose, from the arrival of its last byte at the source to its hand-over at the receiver;
/// the parts add up to it.
///
/// Of frames that are not live the delay counts from the emission, and the queue of the source is part of the path.
/// Without synchronised clocks the path counts from the delay of the first frame.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct EndToEnd {
    /// From the arrival of the last byte until it was due: the rest of the picture was recognised, and the lead passed.
    pub ingest: Span,
    /// From then, or from a later arrival, until the first packet left: scheduler and shaper of the source.
    pub queue: Span,
    /// From then until the last packet was at the receiver.
    pub path: Span,
    /// From then until the hand-over.
    pub playout: Span,
}

impl EndToEnd {
    /// The sum of the parts.
    pub fn total(&self) -> Span {
        self.ingest + self.queue + self.path + self.playout
    }
}

/// Something that happened, in the manner of qlog (draft-ietf-quic-qlog-main-schema).
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(
    missing_docs,
    reason = "the fields say what they are; units live in the types"
)]
pub enum TraceEvent<'a> {
    /// A frame or packet was sent.
    Sent {
        flow: FlowId,
        layer: Option<Layer>,
        seq: u32,
        bytes: u32,
    },
    /// A frame arrived whole.
    Received {
        flow: FlowId,
        layer: Option<Layer>,
        seq: u32,
        bytes: u32,
        delay: Span,
    },
    /// A frame was played at its deadline.
    Played {
        flow: FlowId,
        layer: Layer,
        seq: u32,
        delay: Span,
        /// Of a live frame.
        #[serde(skip_serializing_if = "Option::is_none")]
        end_to_end: Option<EndToEnd>,
    },
    /// Frames or packets are missing, or something was dropped here.
    Lost {
        flow: FlowId,
        layer: Option<Layer>,
        count: u32,
        cause: Cause,
    },
    /// A frame came after its deadline.
    Late {
        flow: FlowId,
        layer: Layer,
        seq: u32,
        by: Span,
    },
    /// A packet of reliable multicast was sent, or came: what kind, and its number, that of its block, poll or member.
    Packet {
        flow: FlowId,
        sent: bool,
        what: &'static str,
        number: u64,
        bytes: u32,
    },
    /// A timer ran.
    Timer { name: &'static str },
    /// A state changed.
    State {
        flow: FlowId,
        what: &'static str,
        from: &'a str,
        to: &'a str,
    },
    /// A decision was taken, and why.
    Decision {
        flow: FlowId,
        what: &'static str,
        value: i64,
        reason: &'a str,
    },
}

/// Where machines report what happens; passed into every mutation.
///
/// With [`Off`] the calls vanish at compile time. Build the event inside the closure given to [`Observer::on`],
/// so that it costs nothing without an observer.
pub trait Observer {
    /// Takes one record.
    fn record(&mut self, record: &Record<'_>);

    /// Whether records are wanted at all.
    fn enabled(&self) -> bool {
        true
    }

    /// Reports what `event` builds, if anybody looks.
    fn on<'a>(&mut self, now: Time, subject: Subject<'a>, event: impl FnOnce() -> TraceEvent<'a>)
    where
        Self: Sized,
    {
        if self.enabled() {
            self.record(&Record {
                time: now,
                subject,
                event: event(),
            });
        }
    }

    /// Takes an event for a QoS monitor.
    fn measure(&mut self, _: Subject<'_>, _: &QosEvent) {}

    /// Whether events for a QoS monitor are wanted.
    fn measures(&self) -> bool {
        false
    }

    /// Hands a QoS monitor what `event` builds, if there is one.
    #[inline(always)]
    fn probe(&mut self, subject: Subject<'_>, event: impl FnOnce() -> QosEvent)
    where
        Self: Sized,
    {
        if self.measures() {
            self.measure(subject, &event());
        }
    }
}

/// One event with its time and speaker.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Record<'a> {
    /// When, in picoseconds.
    pub time: Time,
    /// The subject of the event.
    #[serde(flatten)]
    pub subject: Subject<'a>,
    /// What.
    #[serde(flatten)]
    pub event: TraceEvent<'a>,
}

/// Looks at nothing and costs nothing.
#[derive(Clone, Copy, Default, Debug)]
pub struct Off;

impl Observer for Off {
    fn record(&mut self, _: &Record<'_>) {}

    #[inline(always)]
    fn enabled(&self) -> bool {
        false
    }

    #[inline(always)]
    fn measures(&self) -> bool {
        false
    }
}

/// Either observer behind a flag known at run time only.
impl<O: Observer> Observer for Option<O> {
    fn record(&mut self, record: &Record<'_>) {
        if let Some(observer) = self {
            observer.record(record);
        }
    }

    fn enabled(&self) -> bool {
        self.as_ref().is_some_and(Observer::enabled)
    }

    fn measure(&mut self, subject: Subject<'_>, event: &QosEvent) {
        if let Some(observer) = self {
            observer.measure(subject, event);
        }
    }

    fn measures(&self) -> bool {
        self.as_ref().is_some_and(Observer::measures)
    }
}

/// Borrowed, for a driver that owns its observer.
impl<O: Observer + ?Sized> Observer for &mut O {
    fn record(&mut self, record: &Record<'_>) {
        (**self).record(record);
    }

    #[inline(always)]
    fn enabled(&self) -> bool {
        (**self).enabled()
    }

    fn measure(&mut self, subject: Subject<'_>, event: &QosEvent) {
        (**self).measure(subject, event);
    }

    #[inline(always)]
    fn measures(&self) -> bool {
        (**self).measures()
    }
}

/// Any observer, or none, behind a pointer: a driver that takes this one is compiled once, not once for each kind of
/// observer.
///
/// Whether records, and events for a monitor, are wanted is asked once, at the start.
#[derive(Default)]
pub struct AnyObserver<'a> {
    observer: Option<Box<dyn Observer + Send + 'a>>,
    enabled: bool,
    measures: bool,
}

impl<'a> AnyObserver<'a> {
    /// Borrows `observer` for one run.
    pub fn new(observer: &'a mut (dyn Observer + Send)) -> AnyObserver<'a> {
        AnyObserver::owning(observer)
    }

    /// Owns `observer`.
    pub fn owning(observer: impl Observer + Send + 'a) -> AnyObserver<'a> {
        let (enabled, measures) = (observer.enabled(), observer.measures());
        let wants = enabled || measures;
        AnyObserver {
            observer: wants.then(|| Box::new(observer) as Box<dyn Observer + Send + 'a>),
            enabled,
            measures,
        }
    }
}

impl Observer for AnyObserver<'_> {
    fn record(&mut self, record: &Record<'_>) {
        if let Some(observer) = &mut self.observer {
            observer.record(record);
        }
    }

    #[inline(always)]
    fn enabled(&self) -> bool {
        self.enabled
    }

    fn measure(&mut self, subject: Subject<'_>, event: &QosEvent) {
        if let Some(observer) = &mut self.observer {
            observer.measure(subject, event);
        }
    }

    #[inline(always)]
    fn measures(&self) -> bool {
        self.measures
    }
}

impl fmt::Debug for AnyObserver<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyObserver")
            .field("enabled", &self.enabled)
            .field("measures", &self.measures)
            .finish_non_exhaustive()
    }
}

/// Writes records as a JSON text sequence (RFC 7464: 0x1E, JSON, newline), as qlog does.
///
/// A write error is kept and given by [`JsonSeq::finish`]; machines never see it.
#[derive(Debug)]
pub struct JsonSeq<W: io::Write> {
    out: W,
    error: Option<io::Error>,
}

impl<W: io::Write> JsonSeq<W> {
    /// Starts a trace with the header record `title`.
    pub fn new(mut out: W, title: &str) -> JsonSeq<W> {
        let head = serde_json::json!({
            "qlog_format": "JSON-SEQ",
            "title": title,
            "time_unit": "ps",
        });
        let error = writeln!(out, "\u{1e}{head}").err();
        JsonSeq { out, error }
    }

    /// Flushes, and gives the first error there was.
    pub fn finish(mut self) -> io::Result<W> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.out),
        }
    }
}

impl<W: io::Write> Observer for JsonSeq<W> {
    fn record(&mut self, record: &Record<'_>) {
        if self.error.is_some() {
            return;
        }
        let written = self.out.write_all(b"\x1e").and_then(|()| {
            serde_json::to_writer(&mut self.out, record).map_err(io::Error::from)?;
            self.out.write_all(b"\n")
        });
        self.error = written.err();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBJECT: Subject<'static> = Subject {
        node: "chuff",
        machine: "switch",
    };

    #[test]
    fn off_builds_nothing() {
        Off.on(Time::ZERO, SUBJECT, || {
            unreachable!("an event was built without an observer")
        });
        Off.probe(SUBJECT, || {
            unreachable!("an event was built without a monitor")
        });
        let mut trace = AnyObserver::owning(JsonSeq::new(Vec::new(), "test"));
        trace.probe(SUBJECT, || unreachable!("a trace is no monitor"));
    }

    /// Counts what a monitor gets.
    #[derive(Default)]
    struct Counting(u32);

    impl Observer for Counting {
        fn record(&mut self, _: &Record<'_>) {
            unreachable!("records are not wanted");
        }

        fn enabled(&self) -> bool {
            false
        }

        fn measure(&mut self, _: Subject<'_>, _: &QosEvent) {
            self.0 += 1;
        }

        fn measures(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_monitor_gets_events_and_no_records() {
        let mut counting = Counting::default();
        {
            let mut any = AnyObserver::new(&mut counting);
            any.probe(SUBJECT, QosEvent::default);
            any.on(Time::ZERO, SUBJECT, || TraceEvent::Timer { name: "era" });
            Some(&mut any).probe(SUBJECT, QosEvent::default);
        }
        assert_eq!(counting.0, 2);
    }

    #[test]
    fn records_are_json_sequences() {
        let mut seq = JsonSeq::new(Vec::new(), "test");
        seq.on(Time::from_ps(5), SUBJECT, || TraceEvent::Timer {
            name: "era",
        });
        let text = String::from_utf8(seq.finish().unwrap()).unwrap();
        let records: Vec<serde_json::Value> = text
            .split('\u{1e}')
            .skip(1)
            .map(|record| serde_json::from_str(record).unwrap())
            .collect();
        assert_eq!(records.len(), 2);
        assert_eq!(records[1]["time"], 5);
        assert_eq!(records[1]["event"], "timer");
        assert_eq!(records[1]["node"], "chuff");
    }
}
