//! Live frames that came long before they are due.

use std::collections::VecDeque;

use layercast_core::{Span, Time};

use crate::frames::LiveFrame;

/// A frame is passed on this long before it has only the lead to wait.
const SLACK: Span = Span::from_ms(200);
/// Most that wait, in frames and in octets.
const MOST: usize = 1_024;
const MOST_OCTETS: usize = 32 << 20;

/// Holds live frames until they are about to leave, so that they can still be dropped if the stream stays ahead of its time.
#[derive(Debug)]
pub(super) struct Ahead {
    frames: VecDeque<LiveFrame>,
    octets: usize,
    horizon: Span,
    /// When the last frame that was passed on is due.
    passed: Time,
    /// There was no room: frames are refused up to one to start at.
    full: bool,
}

impl Ahead {
    /// For a stream whose frames wait for `lead`.
    pub fn new(lead: Span) -> Ahead {
        Ahead {
            frames: VecDeque::new(),
            octets: 0,
            horizon: Span::from_ps(lead.as_ps().saturating_add(SLACK.as_ps())),
            passed: Time::ZERO,
            full: false,
        }
    }

    /// When the last frame that was passed on is due.
    pub fn passed(&self) -> Time {
        self.passed
    }

    /// Whether frames are refused, since too many wait.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// How long before a frame of `due` may be passed on at `now`.
    pub fn early(&self, now: Time, due: Time) -> Span {
        due.since(now).saturating_sub(self.horizon)
    }

    /// Takes a frame. Gives the number of frames that are dropped because too many wait.
    pub fn push(&mut self, frame: LiveFrame) -> u64 {
        if self.full {
            return 1;
        }
        self.octets += frame.frame.payload.len();
        self.frames.push_back(frame);
        if self.frames.len() <= MOST && self.octets <= MOST_OCTETS {
            return 0;
        }
        let dropped = self.drop_all();
        self.full = true;
        dropped
    }

    /// Drops all frames, and gives their number.
    pub fn drop_all(&mut self) -> u64 {
        (self.octets, self.full) = (0, false);
        self.frames.drain(..).count() as u64
    }

    /// The next frame, if it may be passed on at `now`.
    pub fn pop(&mut self, now: Time) -> Option<LiveFrame> {
        let due = due(self.frames.front()?);
        if self.early(now, due) > Span::ZERO {
            return None;
        }
        let frame = self.frames.pop_front()?;
        self.octets -= frame.frame.payload.len();
        self.passed = self.passed.max(due);
        Some(frame)
    }

    /// How long after `now` the next frame may be passed on; `None` if none waits.
    pub fn wait(&self, now: Time) -> Option<Span> {
        Some(self.early(now, due(self.frames.front()?)))
    }
}

fn due(frame: &LiveFrame) -> Time {
    frame.live.map_or(Time::ZERO, |live| live.due)
}

#[cfg(test)]
mod tests {
    use layercast_core::Layer;
    use layercast_mets::AppFrame;
    use layercast_qos::LiveTime;
    use layercast_wire::Payload;

    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    fn frame(due: u64, bytes: u32) -> LiveFrame {
        LiveFrame {
            frame: AppFrame {
                layer: Layer::Base,
                gop_start: false,
                sound: false,
                time: None,
                payload: Payload::Zeros(bytes),
            },
            live: Some(LiveTime {
                due: at(due),
                arrived: at(0),
            }),
        }
    }

    #[test]
    fn frames_are_passed_on_when_they_are_about_to_leave() {
        let mut ahead = Ahead::new(Span::from_ms(40));
        for due in [140, 240, 250] {
            assert_eq!(ahead.push(frame(due, 1)), 0);
        }
        let mut passed = |now| std::iter::from_fn(|| ahead.pop(at(now))).count();
        assert_eq!((passed(0), passed(9), passed(10)), (2, 0, 1));
        assert_eq!((ahead.wait(at(10)), ahead.passed()), (None, at(250)));
    }

    #[test]
    fn what_waits_is_bounded_and_counted() {
        for (bytes, fit) in [(1_000, MOST as u64), (8 << 20, 4)] {
            let mut ahead = Ahead::new(Span::ZERO);
            let all = fit + 10;
            let dropped: u64 = (0..all).map(|_| ahead.push(frame(60_000, bytes))).sum();
            assert_eq!(dropped, all);
            assert!(ahead.is_full() && ahead.wait(at(0)).is_none());
            assert_eq!(ahead.drop_all(), 0);
            assert_eq!(ahead.push(frame(60_000, bytes)), 0);
            assert_eq!(ahead.drop_all(), 1);
        }
    }
}
