use layercast_core::{Span, Time};

use super::packet::{PCR_HZ, Packet};
use super::pes::PesHeader;
use crate::live::Stamp;

/// Ticks of time stamps per second.
const HZ: i64 = 90_000;
/// The video is away if none of it came for this time of the other streams, and for twice the time of a picture.
const AWAY: i64 = HZ * 3 / 10;
/// No picture takes longer.
const LONGEST_PICTURE: i64 = HZ;
/// How much of the other streams goes into one frame then.
const FRAME: i64 = (PCR_HZ / 300 / 20) as i64;
/// Streams whose time stamps are this many ahead of those of the stream that is followed take its place.
const AHEAD: u32 = 8;
/// Without a time stamp for this time, arrival counts.
const UNSTAMPED: Span = Span::from_secs(1);
/// A longer gap between two packets is a pause of the whole stream.
const PAUSE: i64 = HZ / 10;

/// The time that passes in the streams beside the video, by their time stamps; where they have none, by their arrival.
///
/// Sound waits for the end of a picture, whose time it takes. If no picture comes, this clock says when it continues alone,
/// and with which time.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// The stream whose time stamps are followed, the last of them, and when it came.
    followed: Option<(u16, Stamp, Time)>,
    /// Time stamps of others since.
    others: u32,
    /// Video came since the last time stamp: the step to the next one is no time without video. A packet of sound may hold more
    /// than [`AWAY`].
    crossed: bool,
    /// When the last packet came.
    now: Option<Time>,
    /// Ticks since the last packet of the video, now and at the last frame without it.
    passed: i64,
    framed: i64,
    /// The time of the last picture, and how long it is.
    picture: Option<Stamp>,
    length: i64,
    is_away: bool,
}

impl Beside {
    /// A packet of the video came.
    pub fn on_video(&mut self, now: Time) {
        self.now = Some(now);
        (self.passed, self.framed, self.is_away) = (0, 0, false);
        self.crossed = true;
    }

    /// A picture with this time is complete.
    pub fn on_picture(&mut self, stamp: Option<Stamp>) {
        if let (Some(stamp), Some(last)) = (stamp, self.picture) {
            self.length = stamp.since(last).clamp(0, LONGEST_PICTURE);
        }
        self.picture = stamp.or(self.picture);
    }

    /// A packet of another stream of the program, or of none (`is_ours` is not set), came.
    pub fn on_other(&mut self, now: Time, packet: &Packet, is_ours: bool) {
        let arrived = self
            .now
            .replace(now)
            .map_or(0, |last| ticks(now.since(last)));
        let header = (is_ours && packet.starts()).then(|| PesHeader::parse(packet.payload()));
        let stamp = header.flatten().and_then(|it| it.dts.or(it.pts));
        let step = match (stamp.map(Stamp::pes), &mut self.followed) {
            (Some(stamp), Some((pid, last, came))) if *pid == packet.pid() => {
                let step = stamp.since(*last);
                (*last, *came, self.others) = (stamp, now, 0);
                let crossed = std::mem::take(&mut self.crossed);
                // A jump is no time that passes.
                if crossed || step > HZ { 0 } else { step }
            }
            (Some(stamp), followed) => {
                self.others += 1;
                if followed.is_none() || self.others >= AHEAD {
                    *followed = Some((packet.pid(), stamp, now));
                    self.others = 0;
                }
                0
            }
            (None, Some((_, _, came))) if now.since(*came) < UNSTAMPED => 0,
            (None, _) => arrived.min(PAUSE),
        };
        self.passed += step.max(0);
    }

    /// That the video is away, for the first time since a packet of it came: what is there of it is complete.
    pub fn leaves(&mut self) -> bool {
        let away = self.passed > AWAY.max(2 * self.length);
        away && !std::mem::replace(&mut self.is_away, true)
    }

    /// The time of a frame that holds what came of the others, if the video is away and there is enough for one.
    pub fn frame(&mut self) -> Option<Stamp> {
        if !self.is_away || self.passed - self.framed < FRAME {
            return None;
        }
        self.framed = self.passed;
        let passed = u64::try_from(self.passed).unwrap_or(0);
        let own = || Some(self.followed?.1.minus(passed));
        self.picture = self.picture.or_else(own);
        self.picture.map(|picture| picture.plus(passed))
    }
}

fn ticks(span: Span) -> i64 {
    i64::try_from(span.mul_div(HZ as u64, 1_000_000_000_000).as_ps()).unwrap_or(i64::MAX)
}
