use layercast_core::{Rate, Span};
use serde::Serialize;

use super::{Line, Summary};
use crate::app::Trace;

/// How far from its line a gap may be and count as on it, of the gap the line has.
const ON_LINE: f64 = 0.1;

/// Rates of the coder.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct VideoOptions {
    /// To which changed blocks are paced.
    pub rate: Rate,
    /// Time between two frames, and between background packets.
    pub frame: Span,
}

impl Default for VideoOptions {
    fn default() -> VideoOptions {
        VideoOptions {
            rate: Rate::from_bps(128_000),
            frame: Span::from_ms(125),
        }
    }
}

/// What a packet is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Blocks that changed (conditional replenishment): the next packet comes as the rate allows.
    Cr,
    /// Background refresh: the next packet comes with the next frame.
    Bg,
}

/// A packet with the time to the next one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Packet {
    /// From the first one on.
    pub at: Span,
    /// Payload.
    pub bytes: u32,
    /// Seconds to the next.
    pub gap: f64,
    /// By the nearer line.
    pub state: State,
}

/// The two states of a stream of video.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Video {
    /// Packets, without the last one, whose gap is not known.
    pub packets: usize,
    /// Payload of these packets.
    pub bytes: u64,
    /// Time from the first packet to the last.
    pub seconds: f64,
    /// Packets of changed blocks.
    pub cr: StateSummary,
    /// Packets of background refresh.
    pub bg: StateSummary,
    /// Regression of the gap in seconds on the bytes, of changed blocks; the slope is 8 bits divided by the rate.
    pub slope: Option<Line>,
    /// Share of packets whose gap differs by more than a tenth from the nearer line.
    pub off_lines: f64,
    /// The packets.
    #[serde(skip)]
    pub samples: Vec<Packet>,
}

/// What is known of a state.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct StateSummary {
    /// Payload of all packets.
    pub bytes: u64,
    /// Bytes of a packet.
    pub size: Option<Summary>,
    /// Consecutive packets of the state, without the first and the last run of the trace, which may be cut.
    pub run: Option<Summary>,
    /// Time in the state.
    pub seconds: f64,
}

/// Sorts packets by the nearer of two lines: gap = 8 size / rate, and gap = time of a frame.
pub fn video(trace: &Trace, options: VideoOptions) -> Video {
    let mut off = 0;
    let pairs = trace.packets().windows(2).map(|two| {
        let ((at, bytes), (next, _)) = (two[0], two[1]);
        let gap = Span::from_ps(next.as_ps() - at.as_ps()).as_secs_f64();
        let lines = [options.rate.time_for(u64::from(bytes)), options.frame];
        let [paced, frame] = lines.map(Span::as_secs_f64);
        let (state, line) = match (gap - paced).abs() <= (gap - frame).abs() {
            true => (State::Cr, paced),
            false => (State::Bg, frame),
        };
        off += usize::from((gap - line).abs() > ON_LINE * line);
        Packet {
            at,
            bytes,
            gap,
            state,
        }
    });
    let samples: Vec<Packet> = pairs.collect();
    let runs: Vec<&[Packet]> = samples.chunk_by(|a, b| a.state == b.state).collect();
    let whole = runs.get(1..runs.len().saturating_sub(1)).unwrap_or(&[]);
    let of = |state| {
        let mine = || samples.iter().filter(move |packet| packet.state == state);
        let mut sizes: Vec<f64> = mine().map(|packet| f64::from(packet.bytes)).collect();
        let runs = whole.iter().filter(|run| run[0].state == state);
        let mut runs: Vec<f64> = runs.map(|run| run.len() as f64).collect();
        StateSummary {
            bytes: mine().map(|packet| u64::from(packet.bytes)).sum(),
            size: Summary::of(&mut sizes),
            run: Summary::of(&mut runs),
            seconds: mine().map(|packet| packet.gap).sum(),
        }
    };
    let (cr, bg) = (of(State::Cr), of(State::Bg));
    let paced = samples.iter().filter(|packet| packet.state == State::Cr);
    let points: Vec<(f64, f64)> = paced
        .map(|packet| (f64::from(packet.bytes), packet.gap))
        .collect();
    Video {
        packets: samples.len(),
        bytes: cr.bytes + bg.bytes,
        seconds: cr.seconds + bg.seconds,
        cr,
        bg,
        slope: Line::through(&points),
        off_lines: off as f64 / samples.len().max(1) as f64,
        samples,
    }
}
