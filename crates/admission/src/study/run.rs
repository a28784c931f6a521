//! One run: calls, link and controller in one sequence of events.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;

use layercast_core::{Rate, Span, Stream, Time};
use serde::Serialize;

use super::calls::{Agenda, Arrivals, Request, Table};
use super::fluid::Fluid;
use super::packets::{PACKET, Packets};
use super::series::{Fingerprint, Moments, Point};
use super::setting::{Algorithm, Setting, StudyError};
use crate::config::Rule;
use crate::event::{CallId, Decision, Event, Reason, Size};
use crate::machine::Mbac;

/// What a run showed.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Run {
    /// Bits sent, percent of what the link could send.
    pub utilisation: f64,
    /// Late bits, percent of those that arrived.
    pub late: f64,
    /// Longest delay, milliseconds.
    pub max_delay_ms: f64,
    /// Calls that asked.
    pub offered: u64,
    /// Calls admitted.
    pub admitted: u64,
    /// Calls refused.
    pub rejected: u64,
    /// Refused calls that failed the test of the rate, percent.
    pub rejected_by_rate: f64,
    /// Refused calls that failed the test of the delay, percent.
    pub rejected_by_delay: f64,
    /// Mean length of the windows that ended, seconds.
    pub window_s: f64,
    /// Shortest and longest of them, seconds.
    pub windows_s: (f64, f64),
    /// Mean of the rate samples, Mbit/s.
    pub rate: f64,
    /// Their variance.
    pub rate_variance: f64,
    /// Mean delay at the ends of samples, milliseconds.
    pub delay_ms: f64,
    /// Its variance.
    pub delay_variance: f64,
    /// Mean number of calls in progress.
    pub calls: f64,
    /// Lowest and highest trigger, Mbit/s.
    pub triggers: (f64, f64),
    /// Mean peak rate of the admitted calls, kbit/s.
    pub admitted_peak: f64,
    /// Requests by size of the declared peak: an entry for each power of two in bit/s.
    pub sizes: Vec<(u32, Size)>,
    /// Events handled.
    pub events: u64,
    /// Fingerprint of all events of the controller in order, and of all decisions.
    pub log: String,
    /// Values over the time.
    pub points: Vec<Point>,
}

/// What the calls send into.
#[derive(Debug)]
enum Medium {
    Fluid(Fluid),
    Packets {
        queue: Packets,
        /// The next packet of each place of the table, if its call is ON.
        next: Vec<Time>,
        /// What remains of the spacing while it is OFF.
        rest: Vec<Span>,
        phase: Stream,
    },
}

#[derive(Debug)]
struct Runner {
    setting: Setting,
    mbac: Mbac,
    medium: Medium,
    arrivals: Arrivals,
    table: Table,
    agenda: Agenda,
    now: Time,
    delays_tested: bool,
    /// Sum of the declared peaks, for admission without measurements.
    peak_sum: Option<u64>,
    declared: Vec<u64>,
    rates: Moments,
    delays: Moments,
    calls: Moments,
    windows: Moments,
    peaks: Moments,
    log: Fingerprint,
    totals: Totals,
    marked: Totals,
    by_rate: u64,
    by_delay: u64,
    found: Run,
}

#[derive(Clone, Copy, Default, Debug)]
struct Totals {
    arrived: u64,
    late: u64,
    sent: u64,
}

pub(super) fn run(setting: &Setting) -> Result<Run, StudyError> {
    let config = setting.config();
    let late = Span::from_secs_f64(setting.late_ms / 1e3);
    let capacity = Rate::from_bps(setting.capacity_bps);
    let delays_tested = matches!(config.rule, Rule::MeasuredSum { delay: Some(_) });
    let medium = match setting.packets {
        false => Medium::Fluid(Fluid::new(setting.capacity_bps, late)),
        true => Medium::Packets {
            queue: Packets::new(capacity, late),
            next: Vec::new(),
            rest: Vec::new(),
            phase: Stream::new(setting.seed, "admission/phase"),
        },
    };
    let mut runner = Runner {
        mbac: Mbac::new(config, Time::ZERO)?,
        medium,
        arrivals: Arrivals::new(setting),
        table: Table::new(setting),
        agenda: Agenda::new(),
        now: Time::ZERO,
        delays_tested,
        peak_sum: matches!(setting.algorithm, Algorithm::PeakSum).then_some(0),
        declared: Vec::new(),
        rates: Moments::default(),
        delays: Moments::default(),
        calls: Moments::default(),
        windows: Moments::default(),
        peaks: Moments::default(),
        log: Fingerprint::new(),
        totals: Totals::default(),
        marked: Totals::default(),
        by_rate: 0,
        by_delay: 0,
        found: Run {
            windows_s: (f64::MAX, 0.0),
            triggers: (f64::MAX, 0.0),
            ..Run::default()
        },
        setting: setting.clone(),
    };
    runner.run()?;
    Ok(runner.finish())
}

impl Runner {
    fn run(&mut self) -> Result<(), StudyError> {
        let end = Time::ZERO.saturating_add(Span::from_secs_f64(self.setting.seconds));
        let step = self.setting.points_s.map(Span::from_secs_f64);
        let mut point = step.map_or(Time::MAX, |step| Time::ZERO.saturating_add(step));
        loop {
            let timeout = self.mbac.poll_timeout();
            let call = self.agenda.peek().map_or(Time::MAX, |Reverse((at, _))| *at);
            let turn = self.table.turns;
            let arrival = self.arrivals.next();
            let next = timeout.min(call).min(turn).min(arrival).min(point);
            if next > end {
                self.advance(end);
                self.flush();
                return Ok(());
            }
            self.advance(next);
            self.found.events += 1;
            // At one instant the controller measures before anything else happens.
            if next == timeout {
                self.measure();
            } else if next == point {
                self.flush();
                self.mark();
                point = point.saturating_add(step.unwrap_or(Span::MAX));
            } else if next == turn {
                self.turn();
            } else if next == call {
                self.call();
            } else if let Some(request) = self.arrivals.take(next)? {
                self.request(&request);
            }
        }
    }

    fn advance(&mut self, to: Time) {
        self.now = to;
        match &mut self.medium {
            Medium::Fluid(fluid) => {
                fluid.advance(to);
                if self.delays_tested && fluid.backlog > 0.0 {
                    let delay = fluid.delay();
                    self.mbac.on_delay(to, delay);
                }
            }
            Medium::Packets { queue, .. } => {
                while let Some(end) = queue.depart(to) {
                    self.mbac.on_transmit(end, PACKET);
                    self.totals.sent += PACKET;
                }
            }
        }
    }

    /// Reports to the controller what the fluid did since the last time.
    fn flush(&mut self) {
        let now = self.now;
        let Medium::Fluid(fluid) = &mut self.medium else {
            return;
        };
        let bits = fluid.take();
        self.mbac.on_arrival(now, bits.late, true);
        self.mbac
            .on_arrival(now, bits.arrived.saturating_sub(bits.late), false);
        self.mbac.on_transmit(now, bits.sent);
        self.totals.arrived += bits.arrived;
        self.totals.late += bits.late;
        self.totals.sent += bits.sent;
    }

    fn delay(&self) -> Span {
        match &self.medium {
            Medium::Fluid(fluid) => fluid.delay(),
            Medium::Packets { queue, .. } => queue.delay(self.now),
        }
    }

    /// Lets the controller do what is due.
    fn measure(&mut self) {
        self.flush();
        let (now, delay) = (self.now, self.delay());
        if self.delays_tested {
            self.mbac.on_delay(now, delay);
        }
        if let Medium::Fluid(fluid) = &self.medium {
            let (bits, beyond) = fluid.beyond();
            self.mbac.on_backlog(now, bits, beyond);
        }
        self.mbac.handle_timeout(now);
        while let Some(event) = self.mbac.poll_event() {
            self.note(event, delay);
        }
    }

    fn note(&mut self, event: Event, delay: Span) {
        match event {
            Event::Sample { at, rate } => {
                self.rates.add(rate.as_bps() as f64 / 1e6);
                self.delays.add(delay.as_ms_f64());
                self.calls.add(self.table.len() as f64);
                self.log.add(&[1, at.as_ps(), rate.as_bps()]);
            }
            Event::WindowExpired {
                at, window, max, ..
            } => {
                let length = window.as_secs_f64();
                self.windows.add(length);
                let (least, most) = &mut self.found.windows_s;
                (*least, *most) = (least.min(length), most.max(length));
                self.log.add(&[2, at.as_ps(), window.as_ps(), max.as_bps()]);
            }
            Event::TriggerMoved { at, to, .. } => {
                let trigger = to.as_bps() as f64 / 1e6;
                let (least, most) = &mut self.found.triggers;
                (*least, *most) = (least.min(trigger), most.max(trigger));
                self.log.add(&[3, at.as_ps(), to.as_bps()]);
            }
            Event::AboveDeclared { at, .. } => self.log.add(&[4, at.as_ps()]),
            Event::Overcommitted { at, .. } => self.log.add(&[5, at.as_ps()]),
            Event::PeriodEnd { at, outcome } => {
                self.log
                    .add(&[6, at.as_ps(), outcome.arrived, outcome.late]);
            }
        }
    }

    fn request(&mut self, request: &Request) {
        let id = self.found.offered;
        self.found.offered += 1;
        let peak = request.spec.peak_rate().as_bps();
        let refused = match &mut self.peak_sum {
            Some(sum) if *sum + peak <= self.setting.capacity_bps => {
                *sum += peak;
                None
            }
            Some(_) => Some(Reason::Rate),
            None => {
                self.flush();
                let call = CallId { path: 0, call: id };
                match self.mbac.request(self.now, call, &request.spec) {
                    Ok(Decision::Admit { .. }) => None,
                    Ok(Decision::Reject(rejection)) => Some(rejection.reason),
                    // Numbers of calls are not used twice.
                    Err(_) => Some(Reason::Never),
                }
            }
        };
        let code = refused.map_or(7, |reason| 8 + reason as u64);
        self.log.add(&[code, self.now.as_ps(), peak]);
        if let Some(reason) = refused {
            self.found.rejected += 1;
            self.by_rate += u64::from(reason.is_rate());
            self.by_delay += u64::from(reason.is_delay());
            return;
        }
        self.found.admitted += 1;
        self.peaks.add(request.peak as f64 / 1e3);
        let place = self.table.begin(self.now, id, request);
        let index = place as usize;
        self.declared.resize(self.table.places.len(), 0);
        self.declared[index] = peak;
        let call = self.table.places[index];
        self.agenda.push(Reverse((call.ends, place)));
        match &mut self.medium {
            Medium::Fluid(fluid) => fluid.input += if call.on { call.peak } else { 0 },
            Medium::Packets {
                next, rest, phase, ..
            } => {
                next.resize(self.table.places.len(), Time::MAX);
                rest.resize(self.table.places.len(), Span::ZERO);
                // The first packet comes when 1 kbit has gathered, part of it before the call began.
                let first = spacing(call.peak).as_secs_f64() * phase.unit();
                rest[index] = Span::from_secs_f64(first);
                next[index] = Time::MAX;
                if call.on {
                    next[index] = self.now.saturating_add(rest[index]);
                    self.agenda.push(Reverse((next[index], place)));
                }
            }
        }
    }

    /// A call turns ON or OFF.
    fn turn(&mut self) {
        let now = self.now;
        let place = self.table.turn(now);
        let call = self.table.places[place as usize];
        match &mut self.medium {
            Medium::Fluid(fluid) => match call.on {
                true => fluid.input += call.peak,
                false => fluid.input -= call.peak,
            },
            Medium::Packets { next, rest, .. } => {
                let (next, rest) = (&mut next[place as usize], &mut rest[place as usize]);
                if call.on {
                    *next = now.saturating_add(*rest);
                    self.agenda.push(Reverse((*next, place)));
                } else {
                    *rest = next.since(now);
                    *next = Time::MAX;
                }
            }
        }
    }

    /// A call sends a packet or ends. Entries of packets that were put off while the call was OFF are void.
    fn call(&mut self) {
        let Some(mut head) = self.agenda.peek_mut() else {
            return;
        };
        let Reverse((now, place)) = *head;
        let index = place as usize;
        let call = self.table.places[index];
        if let Medium::Packets { queue, next, .. } = &mut self.medium
            && next[index] == now
        {
            let late = queue.arrive(now);
            self.mbac.on_arrival(now, PACKET, late);
            self.totals.arrived += PACKET;
            self.totals.late += if late { PACKET } else { 0 };
            next[index] = now.saturating_add(spacing(call.peak));
            // In place: one way down the heap, not one up and one down.
            *head = Reverse((next[index], place));
            return;
        }
        PeekMut::pop(head);
        if call.ends == now {
            self.end(place);
        }
    }

    fn end(&mut self, place: u32) {
        let call = self.table.places[place as usize];
        match &mut self.medium {
            Medium::Fluid(fluid) => fluid.input -= if call.on { call.peak } else { 0 },
            Medium::Packets { next, .. } => next[place as usize] = Time::MAX,
        }
        match &mut self.peak_sum {
            Some(sum) => *sum -= self.declared[place as usize],
            None => {
                let id = CallId {
                    path: 0,
                    call: call.id,
                };
                let released = self.mbac.release(self.now, id);
                debug_assert!(released.is_ok(), "a call in progress is known");
            }
        }
        self.table.end(self.now, place);
    }

    /// A point of the series.
    fn mark(&mut self) {
        let percent = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
        let (all, old) = (self.totals, self.marked);
        let report = self.mbac.report();
        let step = self.setting.points_s.unwrap_or(1.0);
        let link = (self.setting.capacity_bps as f64 * step) as u64;
        self.found.points.push(Point {
            at_s: self.now.as_secs_f64(),
            late: percent(all.late, all.arrived),
            late_now: percent(all.late - old.late, all.arrived - old.arrived),
            utilisation: percent(all.sent - old.sent, link),
            trigger: report.trigger.map_or(0.0, |it| it.as_bps() as f64 / 1e6),
            window_s: report.window.map_or(0.0, Span::as_secs_f64),
            calls: self.table.len() as u32,
            on: self.table.on(),
        });
        self.marked = all;
    }

    fn finish(mut self) -> Run {
        let percent = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
        let highest = match &self.medium {
            Medium::Fluid(fluid) => fluid.highest / self.setting.capacity_bps as f64,
            Medium::Packets { queue, .. } => queue.highest.as_secs_f64(),
        };
        let link = self.setting.capacity_bps as f64 * self.setting.seconds;
        let none = |pair: (f64, f64)| if pair.0 > pair.1 { (0.0, 0.0) } else { pair };
        let rejected = self.found.rejected;
        Run {
            utilisation: 100.0 * self.totals.sent as f64 / link,
            late: percent(self.totals.late, self.totals.arrived),
            max_delay_ms: 1e3 * highest,
            rejected_by_rate: percent(self.by_rate, rejected),
            rejected_by_delay: percent(self.by_delay, rejected),
            window_s: self.windows.mean,
            windows_s: none(self.found.windows_s),
            rate: self.rates.mean,
            rate_variance: self.rates.variance(),
            delay_ms: self.delays.mean,
            delay_variance: self.delays.variance(),
            calls: self.calls.mean,
            triggers: none(self.found.triggers),
            admitted_peak: self.peaks.mean,
            sizes: self.mbac.report().counts.sizes.into_iter().collect(),
            log: format!("{:016x}", self.log.0),
            ..std::mem::take(&mut self.found)
        }
    }
}

/// Time between two packets of a call that is ON.
fn spacing(peak_bps: u64) -> Span {
    Span::from_secs(1).mul_div(PACKET, peak_bps)
}
