use std::collections::VecDeque;

use layercast_core::{Span, Time};

use super::codec::VideoCodec;
use super::packet::Packet;
use super::psi::ProgramMap;

/// A stream that came regularly is silent if nothing of it comes for this time while others continue.
const SILENT: Span = Span::from_secs(2);
/// A stream is regular if this many PES packets of it came, each within `SILENT` after the one before.
const REGULAR: u32 = 16;
/// A longer gap between packets is a pause of all streams.
const PAUSE: Span = Span::from_ms(500);
/// Changes kept for a caller that does not poll.
const MAX_CHANGES: usize = 64;
pub(super) const VIDEO: &str = "video";
pub(super) const SOUND: &str = "sound";
const CLOCK: &str = "program clock";

/// One of the streams of a transport stream stops while others continue, comes again, or is one that cannot be served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamChange {
    /// Its packet identifier.
    pub pid: u16,
    /// What it carries, by its `stream_id` (table 2-22): "video", "sound" or "data"; "program clock" of a stream that has
    /// nothing else.
    pub kind: &'static str,
    /// What becomes of it.
    pub state: StreamState,
    /// The program clock (PCR) comes in it, too.
    pub has_clock: bool,
}

/// What becomes of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamState {
    /// Nothing of it comes while others continue.
    Stopped,
    /// It comes again.
    Back,
    /// The program map names another codec in its place.
    OtherCodec {
        /// The codec of the flow.
        flow: VideoCodec,
        /// The codec that comes.
        comes: VideoCodec,
    },
    /// The program map names another codec for a stream of sound.
    OtherSound {
        /// The codec that it had.
        flow: &'static str,
        /// The codec that comes.
        comes: &'static str,
    },
    /// The program map names no video any more.
    Unlisted,
    /// Its packets are scrambled (`transport_scrambling_control`).
    Scrambled,
    /// They are so from now on, and receivers began with pictures that were not.
    NowScrambled,
}

impl StreamChange {
    /// Whether pictures come from now on; `None` if it says nothing of that.
    pub fn has_pictures(&self) -> Option<bool> {
        match self.state {
            _ if self.kind != VIDEO => None,
            StreamState::Back => Some(true),
            StreamState::Stopped
            | StreamState::OtherCodec { .. }
            | StreamState::Unlisted
            | StreamState::NowScrambled => Some(false),
            StreamState::OtherSound { .. } | StreamState::Scrambled => None,
        }
    }
}

/// What a stream carries, by the `stream_id` of a PES packet that begins with `payload` (table 2-22).
pub(super) fn kind_of(payload: &[u8]) -> &'static str {
    match payload {
        [0, 0, 1, 0xE0..=0xEF, ..] => VIDEO,
        [0, 0, 1, 0xC0..=0xDF | 0xBD | 0xFD, ..] => SOUND,
        _ => "data",
    }
}

/// Notices streams of a program that stop.
#[derive(Debug, Default)]
pub(super) struct SilenceWatch {
    streams: Vec<Watched>,
    now: Option<Time>,
    changes: VecDeque<StreamChange>,
}

#[derive(Debug)]
struct Watched {
    pid: u16,
    kind: &'static str,
    last: Time,
    regular: u32,
    is_silent: bool,
}

impl SilenceWatch {
    /// Takes a packet that comes `now`.
    pub fn push(&mut self, now: Time, packet: &Packet, map: &ProgramMap) {
        let gap = self.now.replace(now).map(|last| now.since(last));
        if let Some(gap) = gap.filter(|gap| *gap > PAUSE) {
            for stream in &mut self.streams {
                stream.last = stream.last.saturating_add(gap);
            }
        }
        let pid = packet.pid();
        let change = |stream: &Watched, state| StreamChange {
            pid: stream.pid,
            kind: stream.kind,
            state,
            has_clock: map.pcr_pid == stream.pid && stream.kind != CLOCK,
        };
        let is_listed = |pid: u16| map.streams.iter().any(|it| it.pid == pid);
        // A clock of its own has no payload.
        let is_clock = pid == map.pcr_pid && !is_listed(pid);
        let begins = packet.starts() || is_clock && packet.pcr().is_some();
        self.streams
            .retain(|it| is_listed(it.pid) || it.pid == map.pcr_pid);
        let mut news = Vec::new();
        for stream in &mut self.streams {
            let silent = now.since(stream.last) > SILENT;
            if stream.pid == pid && (packet.has_payload() || stream.kind == CLOCK) {
                if std::mem::take(&mut stream.is_silent) {
                    news.push(change(stream, StreamState::Back));
                } else if silent {
                    stream.regular = 0;
                }
                stream.regular = stream.regular.saturating_add(u32::from(begins));
                stream.last = now;
            } else if silent && !stream.is_silent && stream.regular >= REGULAR {
                stream.is_silent = true;
                news.push(change(stream, StreamState::Stopped));
            }
        }
        let is_new = || self.streams.iter().all(|it| it.pid != pid);
        if begins && (is_listed(pid) || is_clock) && is_new() {
            let kind = match is_clock {
                true => CLOCK,
                false => kind_of(packet.payload()),
            };
            self.streams.push(Watched {
                pid,
                kind,
                last: now,
                regular: 1,
                is_silent: false,
            });
        }
        news.truncate(MAX_CHANGES.saturating_sub(self.changes.len()));
        self.changes.extend(news);
    }

    /// The next change.
    pub fn poll(&mut self) -> Option<StreamChange> {
        self.changes.pop_front()
    }
}
