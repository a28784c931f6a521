//! Calls: when they arrive, what they declare, when they are ON.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use layercast_core::{Span, Stream, Time};

use super::setting::{Declared, Peaks, Setting};
use crate::descriptor::{OnOff, TSpec, TSpecError};

/// A call that asks to be admitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub peak: u64,
    pub spec: TSpec,
    pub holding: Span,
}

/// Poisson arrivals, whose rate may change. What is drawn for a call does not depend on whether calls before were
/// admitted.
#[derive(Debug)]
pub(super) struct Arrivals {
    setting: Setting,
    arrivals: Stream,
    holding: Stream,
    peaks: Stream,
    declared: Stream,
    switching: Stream,
    /// Calls per second now.
    rate: f64,
    /// What remains until the next arrival, in arrivals of mean 1.
    work: f64,
    /// Since when `work` counts.
    since: Time,
    due: Time,
    switches: Time,
}

impl Arrivals {
    pub fn new(setting: &Setting) -> Arrivals {
        let stream = |name: &str| Stream::new(setting.seed, &format!("admission/{name}"));
        let mut arrivals = Arrivals {
            arrivals: stream("arrivals"),
            holding: stream("holding"),
            peaks: stream("peaks"),
            declared: stream("declared"),
            switching: stream("switching"),
            rate: setting.arrivals_per_s,
            work: 0.0,
            since: Time::ZERO,
            due: Time::ZERO,
            switches: Time::MAX,
            setting: setting.clone(),
        };
        arrivals.work = arrivals.arrivals.exponential(1.0);
        arrivals.draw_rate(Time::ZERO);
        arrivals.schedule();
        arrivals
    }

    /// The next arrival or change of the rate.
    pub fn next(&self) -> Time {
        self.due.min(self.switches)
    }

    fn schedule(&mut self) {
        let span = Span::from_secs_f64(self.work / self.rate);
        self.due = self.since.saturating_add(span);
    }

    fn draw_rate(&mut self, now: Time) {
        let Some(switching) = self.setting.switching else {
            return;
        };
        let low = self.switching.chance(switching.low_chance);
        self.rate = match low {
            true => switching.low_per_s,
            false => self.setting.arrivals_per_s,
        };
        let interval = self.switching.exponential(switching.mean_s);
        self.switches = now.saturating_add(Span::from_secs_f64(interval));
    }

    /// What is due now, if it is a call.
    pub fn take(&mut self, now: Time) -> Result<Option<Request>, TSpecError> {
        if self.switches < self.due {
            let passed = now.since(self.since).as_secs_f64();
            self.work = (self.work - passed * self.rate).max(0.0);
            self.since = now;
            self.draw_rate(now);
            self.schedule();
            return Ok(None);
        }
        self.since = now;
        self.work = self.arrivals.exponential(1.0);
        self.schedule();
        let holding = Span::from_secs_f64(self.holding.exponential(self.setting.holding_s));
        let peak = draw_peak(self.setting.peaks, &mut self.peaks);
        let other = draw_peak(self.setting.peaks, &mut self.declared);
        let own = peak as f64;
        let spec = match self.setting.declared {
            Declared::Peak => TSpec::from_bits(own, None, None),
            Declared::Independent => TSpec::from_bits(other as f64, None, None),
            Declared::Bucket(depth, rate) => {
                TSpec::from_bits(own.max(rate), Some(rate), Some(depth))
            }
            Declared::IndependentBucket(depth) => TSpec::from_bits(other as f64, None, Some(depth)),
            Declared::Equation(depth, loss) => {
                let source = OnOff {
                    peak: layercast_core::Rate::from_bps(peak),
                    on: Span::from_secs_f64(self.setting.on_s),
                    off: Span::from_secs_f64(self.setting.off_s),
                };
                TSpec::from_bits(own, Some(source.token_rate(depth, loss)), Some(depth))
            }
        };
        let spec = spec?;
        Ok(Some(Request {
            peak,
            spec,
            holding,
        }))
    }
}

/// A whole number of bit/s, so that sums of rates are exact.
fn draw_peak(peaks: Peaks, stream: &mut Stream) -> u64 {
    let peak = match peaks {
        Peaks::Fixed(rate) => rate,
        Peaks::Exponential(mean) => stream.exponential(mean),
    };
    (peak.round() as u64).max(1)
}

/// A call in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Active {
    pub id: u64,
    pub peak: u64,
    pub on: bool,
    pub ends: Time,
    /// Its place in the list of those that are ON, or OFF.
    index: u32,
}

/// When which place of the table ends, or sends a packet.
pub(super) type Agenda = BinaryHeap<Reverse<(Time, u32)>>;

/// Calls in progress, in places that are used again.
///
/// Times ON and OFF are exponential and the same for all, so the next call that turns is a random one of its list: one
/// clock for all calls replaces one for each.
#[derive(Debug)]
pub(super) struct Table {
    pub places: Vec<Active>,
    free: Vec<u32>,
    /// Places of calls that are OFF, and ON.
    lists: [Vec<u32>; 2],
    /// Turns per second of a call that is OFF, and ON.
    rates: [f64; 2],
    stream: Stream,
    /// What remains until the next turn, in turns of mean 1.
    work: f64,
    /// Since when `work` counts.
    since: Time,
    /// When the next call turns ON or OFF.
    pub turns: Time,
}

impl Table {
    pub fn new(setting: &Setting) -> Table {
        let mut stream = Stream::new(setting.seed, "admission/on-off");
        Table {
            places: Vec::new(),
            free: Vec::new(),
            lists: [Vec::new(), Vec::new()],
            rates: [1.0 / setting.off_s, 1.0 / setting.on_s],
            work: stream.exponential(1.0),
            stream,
            since: Time::ZERO,
            turns: Time::MAX,
        }
    }

    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Calls that are ON.
    pub fn on(&self) -> u32 {
        self.lists[1].len() as u32
    }

    /// Turns per second of all calls.
    fn rate(&self) -> f64 {
        let [off, on] = &self.lists;
        off.len() as f64 * self.rates[0] + on.len() as f64 * self.rates[1]
    }

    /// Takes off the work what passed: the rate changes now.
    fn settle(&mut self, now: Time) {
        let passed = now.since(self.since).as_secs_f64();
        self.work = (self.work - passed * self.rate()).max(0.0);
        self.since = now;
    }

    fn schedule(&mut self) {
        let rate = self.rate();
        self.turns = match rate > 0.0 {
            true => self
                .since
                .saturating_add(Span::from_secs_f64(self.work / rate)),
            false => Time::MAX,
        };
    }

    /// A call begins, ON with the stationary probability.
    pub fn begin(&mut self, now: Time, id: u64, request: &Request) -> u32 {
        self.settle(now);
        let [off, on] = self.rates;
        let call = Active {
            id,
            peak: request.peak,
            on: self.stream.chance(off / (on + off)),
            ends: now.saturating_add(request.holding),
            index: 0,
        };
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = call;
                place
            }
            None => {
                self.places.push(call);
                (self.places.len() - 1) as u32
            }
        };
        self.list(place);
        self.schedule();
        place
    }

    /// Turns the call that is due; its place.
    pub fn turn(&mut self, now: Time) -> u32 {
        let [off, on] = [0, 1].map(|at| self.lists[at].len() as f64 * self.rates[at]);
        let from = usize::from(self.stream.unit() * (off + on) >= off);
        // Rounding may choose the list that is empty.
        let from = if self.lists[from].is_empty() {
            1 - from
        } else {
            from
        };
        let count = self.lists[from].len() as u64;
        let place = self.lists[from][self.stream.below(count) as usize];
        self.unlist(place);
        self.places[place as usize].on = from == 0;
        self.list(place);
        self.since = now;
        self.work = self.stream.exponential(1.0);
        self.schedule();
        place
    }

    pub fn end(&mut self, now: Time, place: u32) {
        self.settle(now);
        self.unlist(place);
        self.free.push(place);
        self.schedule();
    }

    fn list(&mut self, place: u32) {
        let call = &mut self.places[place as usize];
        let list = &mut self.lists[usize::from(call.on)];
        call.index = list.len() as u32;
        list.push(place);
    }

    fn unlist(&mut self, place: u32) {
        let call = self.places[place as usize];
        let list = &mut self.lists[usize::from(call.on)];
        list.swap_remove(call.index as usize);
        if let Some(&moved) = list.get(call.index as usize) {
            self.places[moved as usize].index = call.index;
        }
    }
}
