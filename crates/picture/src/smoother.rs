//! Rates that are even: [`Smoother`] spreads pictures over time, [`VodFastStart`] sends the first minutes of a film in seconds
//! (specs/mpeg-picture-quality.md 2.9).

use std::collections::VecDeque;

use layercast_core::{DataClass, Rate, Span, Time};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Over which pictures a [`Smoother`] spreads what they consist of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Smoothing {
    /// None: all is sent as it comes.
    #[default]
    None,
    /// Each picture.
    Frame,
    /// An I or P picture with the B pictures that are sent behind it.
    References,
    /// From one I picture to the next.
    Gop,
}

impl Smoothing {
    /// Whether a picture of this class begins what is spread next.
    pub fn begins(self, class: DataClass) -> bool {
        match self {
            Smoothing::None => false,
            Smoothing::Frame => true,
            Smoothing::References => class != DataClass::Bidirectional,
            Smoothing::Gop => class == DataClass::Intra,
        }
    }
}

/// Spreads what pictures consist of evenly over their time.
///
/// The items from one beginning to the next are a window. It is sent evenly, in the time in which it came, from its end on, or
/// from the end of the window before it if that is later. So nothing waits longer than twice the longest window.
#[derive(Debug)]
pub struct Smoother<T> {
    smoothing: Smoothing,
    longest: Span,
    /// Of all windows, in order.
    items: VecDeque<T>,
    /// Windows that are complete.
    windows: VecDeque<Window>,
    /// When the open window began, and its items.
    open: Option<(Time, u64)>,
    /// When all complete windows are sent.
    end: Time,
}

/// Items that are sent evenly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Window {
    begin: Time,
    length: Span,
    count: u64,
    sent: u64,
}

impl Window {
    fn next(&self) -> Time {
        self.begin
            .saturating_add(self.length.mul_div(self.sent, self.count))
    }
}

impl<T> Smoother<T> {
    /// A smoother without items, whose windows end after `longest` at the latest: streams without I pictures have no other end.
    pub fn new(smoothing: Smoothing, longest: Span) -> Smoother<T> {
        Smoother {
            smoothing,
            longest,
            items: VecDeque::new(),
            windows: VecDeque::new(),
            open: None,
            end: Time::ZERO,
        }
    }

    /// Takes the next item; `begins` is the class of a picture that begins with it.
    pub fn push(&mut self, now: Time, item: T, begins: Option<DataClass>) {
        self.on_timeout(now);
        if begins.is_some_and(|class| self.smoothing.begins(class)) {
            self.close(now);
        }
        self.items.push_back(item);
        let (_, count) = self.open.get_or_insert((now, 0));
        *count += 1;
        if self.smoothing == Smoothing::None {
            self.close(now);
        }
    }

    /// Ends a window that is as long as one may be.
    pub fn on_timeout(&mut self, now: Time) {
        if let Some(due) = self.closes()
            && due <= now
        {
            self.close(due);
        }
    }

    /// When the next item is sent, or the open window ends.
    pub fn next_timeout(&self) -> Option<Time> {
        let next = self.windows.front().map(Window::next);
        [next, self.closes()].into_iter().flatten().min()
    }

    /// The next item that is due.
    pub fn poll(&mut self, now: Time) -> Option<T> {
        let window = self.windows.front_mut()?;
        if window.next() > now {
            return None;
        }
        window.sent += 1;
        if window.sent == window.count {
            self.windows.pop_front();
        }
        self.items.pop_front()
    }

    /// Ends the open window, as at the end of a stream.
    pub fn flush(&mut self, now: Time) {
        self.close(now);
    }

    fn closes(&self) -> Option<Time> {
        let (opened, _) = self.open?;
        Some(opened.saturating_add(self.longest))
    }

    fn close(&mut self, now: Time) {
        let Some((opened, count)) = self.open.take() else {
            return;
        };
        let (begin, length) = (now.max(self.end), now.since(opened));
        self.end = begin.saturating_add(length);
        self.windows.push_back(Window {
            begin,
            length,
            count,
            sent: 0,
        });
    }
}

/// How a server begins a film: at a high rate for some seconds, so that minutes of it are stored at the receiver, then at that
/// of the film.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VodFastStart {
    /// Rate at first, in bit/s.
    pub first_bps: u64,
    /// How long.
    pub first_seconds: f64,
    /// Rate after that, in bit/s.
    pub then_bps: u64,
}

impl Default for VodFastStart {
    /// 120 Mbit/s for 3 s, then 4 Mbit/s (specs/mpeg-picture-quality.md 3).
    fn default() -> VodFastStart {
        VodFastStart {
            first_bps: 120_000_000,
            first_seconds: 3.0,
            then_bps: 4_000_000,
        }
    }
}

/// A fast start that cannot be.
#[derive(Clone, Copy, PartialEq, Debug, Error)]
pub enum VodFastStartError {
    /// A rate at which a cell takes longer than a receiver waits for the next one.
    #[error("a rate of {0} bit/s: at least 10 kbit/s, for example 120M,3s,4M")]
    Rate(u64),
    /// A time that is none.
    #[error("{0} s at the first rate: 0 to 3600")]
    Time(f64),
}

impl VodFastStart {
    /// Longest time at the first rate, in seconds.
    pub const MOST_SECONDS: f64 = 3600.0;

    /// Lowest rate, in bit/s: a cell takes 42 ms, and 16 GiB 160 days.
    pub const LEAST_BPS: u64 = 10_000;

    /// Checks the values.
    ///
    /// # Errors
    /// A rate is too low, or the time is negative or too long.
    pub fn validate(&self) -> Result<(), VodFastStartError> {
        let least = self.first_bps.min(self.then_bps);
        if least < VodFastStart::LEAST_BPS {
            return Err(VodFastStartError::Rate(least));
        }
        match (0.0..=VodFastStart::MOST_SECONDS).contains(&self.first_seconds) {
            true => Ok(()),
            false => Err(VodFastStartError::Time(self.first_seconds)),
        }
    }

    /// When the octet behind `octets` others is sent, from the start.
    pub fn time_of(&self, octets: u64) -> Span {
        let (first, then) = (
            Rate::from_bps(self.first_bps),
            Rate::from_bps(self.then_bps),
        );
        let until = Span::from_secs_f64(self.first_seconds);
        let early = first.time_for(octets);
        if early <= until {
            return early;
        }
        let stored = self.first_octets();
        let later = then.time_for(octets.saturating_sub(stored));
        Span::from_ps(until.as_ps().saturating_add(later.as_ps()))
    }

    /// Octets that are sent at the first rate.
    pub fn first_octets(&self) -> u64 {
        (self.first_bps as f64 * self.first_seconds / 8.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Times in milliseconds at which the items come out, and their numbers.
    fn smoothed(smoothing: Smoothing, items: &[(u64, Option<DataClass>)]) -> Vec<(u64, usize)> {
        let mut smoother = Smoother::new(smoothing, Span::from_secs(2));
        let mut out = Vec::new();
        let mut drain = |smoother: &mut Smoother<usize>, until: Time| {
            while let Some(due) = smoother.next_timeout().filter(|&due| due <= until) {
                smoother.on_timeout(due);
                while let Some(item) = smoother.poll(due) {
                    out.push((due.as_us() / 1000, item));
                }
            }
        };
        let mut last = Time::ZERO;
        for (number, &(ms, begins)) in items.iter().enumerate() {
            last = Time::ZERO + Span::from_ms(ms);
            drain(&mut smoother, last);
            smoother.push(last, number, begins);
        }
        smoother.flush(last);
        drain(&mut smoother, last + Span::from_secs(60));
        out
    }

    #[test]
    fn a_window_is_sent_evenly_in_the_time_in_which_it_came() {
        use DataClass::{Bidirectional as B, Intra as I, Predicted as P};
        // An I picture of four items within 3 ms, P and B of one each, 40 ms apart; then the next I picture.
        let items = [
            (0, Some(I)),
            (1, None),
            (2, None),
            (3, None),
            (40, Some(P)),
            (80, Some(B)),
            (120, Some(I)),
        ];
        let times = |smoothing| -> Vec<u64> {
            let out = smoothed(smoothing, &items);
            assert!(out.iter().map(|&(_, number)| number).eq(0..items.len()));
            out.into_iter().map(|(at, _)| at).collect()
        };
        assert_eq!(times(Smoothing::None), [0, 1, 2, 3, 40, 80, 120]);
        assert_eq!(times(Smoothing::Frame), [40, 50, 60, 70, 80, 120, 160]);
        assert_eq!(
            times(Smoothing::References),
            [40, 50, 60, 70, 120, 160, 200]
        );
        assert_eq!(times(Smoothing::Gop), [120, 140, 160, 180, 200, 220, 240]);
    }

    #[test]
    fn a_stream_without_i_pictures_is_cut_into_the_longest_windows() {
        let items: Vec<_> = (0..100).map(|it| (it * 100, None)).collect();
        let out = smoothed(Smoothing::Gop, &items);
        assert_eq!(out.len(), items.len());
        for (at, number) in out {
            assert!(at <= items[number].0 + 4000, "item {number} at {at} ms");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_overtakes_or_waits_longer_than_two_windows(
            smoothing in prop::sample::select(vec![Smoothing::None, Smoothing::Frame, Smoothing::References, Smoothing::Gop]),
            gaps in prop::collection::vec((0_u64..300, 0_usize..8), 1..200),
        ) {
            let mut at = 0;
            let items: Vec<_> = gaps.iter().map(|&(gap, class)| {
                at += gap;
                (at, DataClass::ALL.get(class).copied().filter(|&it| it != DataClass::System))
            }).collect();
            let out = smoothed(smoothing, &items);
            prop_assert!(out.iter().map(|&(_, number)| number).eq(0..items.len()));
            prop_assert!(out.is_sorted());
            for (time, number) in out {
                prop_assert!(time >= items[number].0);
                prop_assert!(time <= items[number].0 + 4000);
            }
        }
    }

    #[test]
    fn a_fast_start_stores_minutes_in_seconds() {
        let start = VodFastStart::default();
        assert_eq!(start.first_octets(), 45_000_000);
        assert_eq!(start.time_of(0), Span::ZERO);
        assert_eq!(start.time_of(45_000_000), Span::from_secs(3));
        assert_eq!(start.time_of(45_500_000), Span::from_secs(4));
        assert_eq!(
            VodFastStart {
                then_bps: 0,
                ..start
            }
            .validate(),
            Err(VodFastStartError::Rate(0))
        );
        let long = VodFastStart {
            first_seconds: f64::NAN,
            ..start
        };
        assert!(matches!(long.validate(), Err(VodFastStartError::Time(_))));
    }
}
