//! The controller: requests of calls.

use std::collections::{BTreeMap, VecDeque};

use layercast_core::{Rate, Span, Time};

use crate::config::{ConfigError, DelayTest, Estimator, MbacConfig, Rule};
use crate::delay::Delay;
use crate::descriptor::TSpec;
use crate::event::{CallError, CallId, Counts, Decision, Event, Reason, Rejection, Report, Why};
use crate::levels::Control;
use crate::promise::{Ledger, Share};

/// Most events kept for a driver that does not ask.
const MAX_EVENTS: usize = 1_024;

/// The admission controller of one link and one class of traffic, sans-I/O; see the crate documentation.
#[derive(Debug)]
pub struct Mbac {
    pub(crate) config: MbacConfig,
    pub(crate) now: Time,
    /// The estimate of the rate, bit/s.
    pub(crate) estimate: u64,
    /// Counts measurements that replaced the estimate: what a call added before is no longer part of it.
    pub(crate) generation: u64,
    /// The estimate of the delay.
    pub(crate) delay: Delay,
    pub(crate) delay_generation: u64,
    pub(crate) window: Window,
    pub(crate) control: Option<Control>,
    pub(crate) ledger: Ledger,
    /// End of the running sample.
    pub(crate) next_sample: Time,
    /// Bits sent in the running sample.
    pub(crate) sent: u64,
    /// The last sample.
    pub(crate) measured: Rate,
    /// Whether the link has become too small for the estimate, and no window has measured less since.
    pub(crate) overcommitted: bool,
    /// Whether the calls send more than they declared.
    pub(crate) cheated: bool,
    pub(crate) period_ends: Time,
    pub(crate) periods: (u64, u64),
    /// Share of the queue beyond the bound, as last reported.
    pub(crate) backlog: Share,
    calls: BTreeMap<CallId, Call>,
    /// Sum of the declared peaks, bit/s.
    pub(crate) declared: u128,
    /// Sum of their squares.
    squares: u128,
    /// The peak of a refused call, and until when smaller ones wait for it.
    held: Option<(Rate, Time)>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) counts: Counts,
}

/// Measurements since the last restart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub length: Span,
    pub ends: Time,
    pub began: Time,
    /// Highest sample; none yet: no sample is complete.
    pub max: Option<Rate>,
    pub max_delay: Option<Delay>,
}

/// A call in progress, and what it added to the estimates.
#[derive(Clone, Copy, Debug)]
struct Call {
    peak: Rate,
    rate: Rate,
    /// What it added to the estimate.
    rate_added: Rate,
    generation: u64,
    delay: Delay,
    delay_generation: u64,
}

impl Mbac {
    /// A controller of an idle link; the commitment period starts now.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the field that is out of its bounds.
    pub fn new(config: MbacConfig, now: Time) -> Result<Mbac, ConfigError> {
        config.validate()?;
        let (length, control) = match config.estimator {
            Estimator::Window(window) => (window, None),
            Estimator::Levels(levels) => {
                (levels.first, Some(Control::new(levels, config.capacity)))
            }
            // There is no window that could end.
            Estimator::Average(_) => (Span::MAX, None),
        };
        let none = Delay::of(Span::ZERO, config.arithmetic);
        Ok(Mbac {
            now,
            estimate: 0,
            generation: 0,
            delay: none,
            delay_generation: 0,
            window: Window {
                length,
                ends: now.saturating_add(length),
                began: now,
                max: None,
                max_delay: None,
            },
            control,
            ledger: Ledger::new(config.promise),
            next_sample: now.saturating_add(config.sample),
            sent: 0,
            measured: Rate::default(),
            overcommitted: false,
            cheated: false,
            period_ends: now.saturating_add(config.promise.period),
            periods: (0, 0),
            backlog: Share::default(),
            calls: BTreeMap::new(),
            declared: 0,
            squares: 0,
            held: None,
            events: VecDeque::new(),
            counts: Counts::default(),
            config,
        })
    }

    /// A controller that started again while calls are in progress: its estimate is the sum of their declared
    /// rates, at most the link, until a window has measured them.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] as for [`Mbac::new`]. Calls beyond `max_calls` count for the estimate only.
    pub fn restart(
        config: MbacConfig,
        now: Time,
        survivors: impl IntoIterator<Item = (CallId, TSpec)>,
    ) -> Result<Mbac, ConfigError> {
        let mut mbac = Mbac::new(config, now)?;
        for (id, spec) in survivors {
            mbac.survive(now, id, &spec);
        }
        Ok(mbac)
    }

    /// A call is in progress that this controller did not admit, as it started again since: it is added without a
    /// test. A call that is known stays as it is.
    pub fn survive(&mut self, now: Time, id: CallId, spec: &TSpec) {
        self.advance(now, true);
        if self.calls.contains_key(&id) {
            return;
        }
        let link = self.config.capacity.as_bps();
        let sum = self.estimate.saturating_add(spec.token_rate().as_bps());
        self.estimate = sum.min(link.max(self.estimate));
        if self.calls.len() < self.config.max_calls as usize {
            self.hold(id, spec, Delay::of(Span::ZERO, self.config.arithmetic));
        }
        // Nothing of the sum may be given back singly.
        self.generation += 1;
    }

    /// A call in progress asks for another declaration. A larger rate is tested as a request is, and restarts the
    /// window; a smaller one leaves the estimate to the next window.
    ///
    /// # Errors
    ///
    /// [`CallError::Unknown`] for a call that is not in progress; nothing changes.
    pub fn resize(&mut self, now: Time, id: CallId, spec: &TSpec) -> Result<Decision, CallError> {
        self.advance(now, true);
        let before = *self.calls.get(&id).ok_or(CallError::Unknown(id))?;
        let (old, new) = (before.rate.as_bps(), spec.token_rate().as_bps());
        let more = new.saturating_sub(old);
        if more > self.headroom().as_bps() {
            let reason = match spec.token_rate() > self.config.bound() {
                true => Reason::Never,
                false => Reason::Rate,
            };
            self.counts.refused[reason as usize] += 1;
            return Ok(Decision::Reject(self.rejection(reason)));
        }
        self.forget(id)?;
        self.hold(id, spec, before.delay);
        // What it added before may be given back unless a measurement has replaced it.
        let kept = match before.generation == self.generation {
            true => before.rate_added.as_bps(),
            false => 0,
        };
        if let Some(call) = self.calls.get_mut(&id) {
            call.rate_added = Rate::from_bps(kept.saturating_add(more));
            call.delay_generation = before.delay_generation;
        }
        if more > 0 {
            self.estimate = self.estimate.saturating_add(more);
            self.restart_window();
        }
        Ok(Decision::Admit {
            estimate: Rate::from_bps(self.estimate),
            headroom: self.headroom(),
        })
    }

    /// A call asks to be admitted.
    ///
    /// # Errors
    ///
    /// [`CallError::Known`] for a call that is in progress; nothing changes.
    pub fn request(&mut self, now: Time, id: CallId, spec: &TSpec) -> Result<Decision, CallError> {
        self.advance(now, true);
        if self.calls.contains_key(&id) {
            return Err(CallError::Known(id));
        }
        let class = spec.peak_rate().as_bps().ilog2();
        self.counts.sizes.entry(class).or_default().offered += 1;
        let bucket = self.delay_of(spec);
        if let Some(reason) = self.refuses(spec, bucket) {
            self.counts.refused[reason as usize] += 1;
            if self.config.fair_block && reason.is_rate() && self.held.is_none() {
                let wait = self.window.length.min(Span::from_secs(600));
                self.held = Some((spec.peak_rate(), self.now.saturating_add(wait)));
            }
            return Ok(Decision::Reject(self.rejection(reason)));
        }
        if self.held.is_some_and(|(peak, _)| spec.peak_rate() >= peak) {
            self.held = None;
        }
        self.estimate = self.estimate.saturating_add(spec.token_rate().as_bps());
        self.delay = self.delay.plus(bucket);
        self.hold(id, spec, bucket);
        self.counts.admitted += 1;
        self.counts.sizes.entry(class).or_default().admitted += 1;
        self.restart_window();
        Ok(Decision::Admit {
            estimate: Rate::from_bps(self.estimate),
            headroom: self.headroom(),
        })
    }

    /// Takes back an admission that a node further on refused. What the call added to the estimates goes, unless a
    /// measurement has replaced it; the window does not restart.
    ///
    /// # Errors
    ///
    /// [`CallError::Unknown`] for a call that is not in progress, as after a first rollback; nothing changes.
    pub fn rollback(&mut self, now: Time, id: CallId) -> Result<(), CallError> {
        self.advance(now, true);
        let call = self.forget(id)?;
        self.counts.rolled_back += 1;
        if call.generation == self.generation {
            let added = call.rate_added.as_bps();
            self.estimate = self.estimate.saturating_sub(added);
        }
        if call.delay_generation == self.delay_generation {
            self.delay = self.delay.minus(call.delay);
        }
        Ok(())
    }

    /// A call ended. The estimates stay: the next window sees it.
    ///
    /// # Errors
    ///
    /// [`CallError::Unknown`] for a call that is not in progress; nothing changes.
    pub fn release(&mut self, now: Time, id: CallId) -> Result<(), CallError> {
        self.advance(now, true);
        self.forget(id).map(|_| ())
    }

    /// The link has another rate. Calls in progress continue; [`Event::Overcommitted`] says what is too much, once
    /// until it fits.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for a rate of zero; nothing changes.
    pub fn set_capacity(&mut self, now: Time, capacity: Rate) -> Result<(), ConfigError> {
        self.advance(now, true);
        if capacity.as_bps() == 0 {
            let (field, problem) = ("capacity", "is above 0");
            return Err(ConfigError { field, problem });
        }
        let before = std::mem::replace(&mut self.config.capacity, capacity);
        if let Some(control) = &mut self.control {
            let from = control.rescale(before, capacity);
            let to = control.trigger;
            if from != to {
                let (at, why) = (self.now, Why::Capacity);
                self.emit(Event::TriggerMoved { at, from, to, why });
            }
        }
        let bound = self.config.bound().as_bps();
        let before = std::mem::replace(&mut self.overcommitted, self.estimate > bound);
        if self.overcommitted && !before {
            let (at, excess) = (self.now, Rate::from_bps(self.estimate - bound));
            self.emit(Event::Overcommitted { at, excess });
        }
        Ok(())
    }

    /// The next event, oldest first.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The estimate of the rate.
    pub fn estimate(&self) -> Rate {
        Rate::from_bps(self.estimate)
    }

    /// Calls in progress.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Whether a call is in progress.
    pub fn has(&self, id: CallId) -> bool {
        self.calls.contains_key(&id)
    }

    /// Where it stands.
    pub fn report(&self) -> Report {
        let declared = u64::try_from(self.declared).unwrap_or(u64::MAX);
        Report {
            window: (self.window.length < Span::MAX).then_some(self.window.length),
            trigger: self.control.as_ref().map(|control| control.trigger),
            estimate: self.estimate(),
            measured: self.measured,
            declared: Rate::from_bps(declared),
            calls: u32::try_from(self.calls.len()).unwrap_or(u32::MAX),
            promise: self.ledger.outcome(),
            kept: self.periods.0,
            broken: self.periods.1,
            counts: self.counts.clone(),
        }
    }

    /// Why a call cannot begin now, if it cannot.
    fn refuses(&mut self, spec: &TSpec, bucket: Delay) -> Option<Reason> {
        let bound = self.config.bound();
        let delay_bound = self
            .delay_test()
            .map(|test| Delay::of(test.bound, self.config.arithmetic));
        let never = delay_bound.is_some_and(|bound| bucket.exceeds(bound));
        if spec.token_rate() > bound || never {
            return Some(Reason::Never);
        }
        if self.calls.len() >= self.config.max_calls as usize {
            return Some(Reason::TableFull);
        }
        self.held = self.held.filter(|(_, until)| *until > self.now);
        if self.held.is_some_and(|(peak, _)| spec.peak_rate() < peak) {
            return Some(Reason::Fair);
        }
        let rate = spec.token_rate() > self.headroom();
        let delay = delay_bound.is_some_and(|bound| self.delay.plus(bucket).exceeds(bound));
        match (rate, delay) {
            (true, true) => Some(Reason::RateAndDelay),
            (true, false) => Some(Reason::Rate),
            (false, true) => Some(Reason::Delay),
            (false, false) => None,
        }
    }

    fn rejection(&self, reason: Reason) -> Rejection {
        Rejection {
            reason,
            estimate: Rate::from_bps(self.estimate),
            delay: self.delay_test().map(|_| self.delay.span()),
            headroom: self.headroom(),
        }
    }

    /// The largest declared rate that passes the test of the rate, as of the last input.
    pub fn headroom(&self) -> Rate {
        let bound = self.config.bound().as_bps();
        let left = bound.saturating_sub(self.estimate);
        Rate::from_bps(match self.config.rule {
            Rule::MeasuredSum { .. } => left,
            Rule::Hoeffding { exceed_ppm } => {
                let spread = libm::log(1e6 / f64::from(exceed_ppm)) / 2.0 * self.squares as f64;
                left.saturating_sub(spread.sqrt() as u64)
            }
            Rule::Tangent { space } if self.estimate > 0 && space > 0.0 => {
                let ratio = bound as f64 / self.estimate as f64;
                // Below 0 the cast gives 0; an idle link takes what it can carry.
                ((libm::log(ratio) / space * 1e6) as u64).min(bound)
            }
            Rule::Tangent { .. } => bound,
        })
    }

    fn delay_test(&self) -> Option<DelayTest> {
        match self.config.rule {
            Rule::MeasuredSum { delay } => delay,
            _ => None,
        }
    }

    /// What a call adds to the estimate of the delay.
    fn delay_of(&self, spec: &TSpec) -> Delay {
        Delay::of_bucket(spec.depth(), self.config.capacity, self.config.arithmetic)
    }

    fn hold(&mut self, id: CallId, spec: &TSpec, delay: Delay) {
        let peak = spec.peak_rate();
        let wide = u128::from(peak.as_bps());
        self.declared += wide;
        self.squares = self.squares.saturating_add(wide.saturating_mul(wide));
        let call = Call {
            peak,
            rate: spec.token_rate(),
            rate_added: spec.token_rate(),
            generation: self.generation,
            delay,
            delay_generation: self.delay_generation,
        };
        self.calls.insert(id, call);
    }

    fn forget(&mut self, id: CallId) -> Result<Call, CallError> {
        let call = self.calls.remove(&id).ok_or(CallError::Unknown(id))?;
        let wide = u128::from(call.peak.as_bps());
        self.declared -= wide;
        self.squares = self.squares.saturating_sub(wide.saturating_mul(wide));
        Ok(call)
    }

    pub(crate) fn emit(&mut self, event: Event) {
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(event);
        } else {
            self.counts.events_lost += 1;
        }
    }
}
