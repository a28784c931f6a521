//! `layercast path send`: a train, and what its receiver says.

use std::net::SocketAddr;

use layercast_core::{Rate, Span, Time};
use layercast_net::{Clock, PathSender};
use layercast_sync_index::pdu::Reason;
use layercast_sync_index::{
    AdmissionGate, EstimateServer, Format, GateEvent, Outcome as Block, ProbeConfig,
    RateController, Refusal, SenderEvent, SenderStats, ServiceMap,
};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::IndexStatus;
use super::args::Send;
use crate::failure::{Failure, Outcome};
use crate::line::Line;
use crate::metrics::Metrics;
use crate::node::{Stop, runtime};
use crate::output::{Lines, count};
use crate::reporter::Reporter;

/// The least part of its nominal rate that a source is steered to.
const LEAST: f64 = 0.1;

/// What the summary of `path send` tells.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct PathSent {
    /// Probes sent.
    pub sent: u64,
    /// Slots left out because this host was too late.
    pub skipped: u64,
    /// Probes that left later than a tenth of the period.
    pub late: u64,
    /// Datagrams that were no answer of the receiver.
    pub bad_pdu: u64,
    /// Results of the receiver.
    pub results: u64,
    /// Whether the service of `--admit` was admitted and had its quality at the end.
    pub admitted: Option<bool>,
}

/// Runs the command.
pub fn run(args: &Send) -> Outcome {
    let services = super::services(args.services.as_deref())?;
    let gate = args
        .admit
        .as_deref()
        .map(|it| gate(it, &services))
        .transpose()?;
    let reporter = Reporter::new(args.json, Lines::Stdout, Metrics::default());
    runtime()?.block_on(async {
        let stop = Stop::listen()?;
        let to = super::resolve(&args.to).await?;
        let config = train(args.period, args.duration, args.compact, args.capacity);
        config.check().map_err(Failure::wrong_use)?;
        let clock = Clock::get();
        let start = clock.now();
        let over = stop.token.child_token();
        let control = args.steer.zip(gate.as_ref()).map(|(rate, gate)| {
            let threshold = gate.level().xi_max_ms;
            (RateController::new(threshold, LEAST), rate)
        });
        let block = args.period.times(300);
        let mut said = Said {
            to,
            start,
            reporter: &reporter,
            server: EstimateServer::new(to.to_string(), services, Span::MAX, block, start),
            gate,
            control,
            decides: args.admit.is_some() && args.duration.is_none(),
            over: over.clone(),
            results: 0,
            decision: None,
            outcome: Ok(()),
        };
        let text = format!("sends {} to {to}; stop it with Ctrl-C", config.rate());
        reporter.ready("path", None, &text)?;
        let sender = PathSender::bind(to, config).map_err(super::failed)?;
        let stats = sender
            .run(over, |event| said.tell(clock.now(), event))
            .await;
        let stats = stats.map_err(super::failed)?;
        let results = said.results;
        said.finish(stats)?;
        stop.outcome()?;
        match results {
            0 => Err(too_short(block)),
            _ => Ok(()),
        }
    })
}

/// A train that ended before the receiver had a result; `block` is how long it takes by default.
fn too_short(block: Span) -> Failure {
    Failure::new("the train was too short for a result").hint(format!(
        "a result takes 300 probes that arrive in time ({:.1} s), or as many as path recv states by -m and -n: give a longer \
         --for",
        block.as_secs_f64()
    ))
}

/// The train that options state.
pub fn train(
    period: Span,
    duration: Option<Span>,
    compact: bool,
    capacity: Option<Rate>,
) -> ProbeConfig {
    ProbeConfig {
        period,
        format: if compact {
            Format::Compact
        } else {
            Format::Full
        },
        // A lag is between two probes.
        count: duration.map(|it| it.as_ps().div_ceil(period.as_ps().max(1)) + 1),
        capacity,
        ..ProbeConfig::new(0, 0)
    }
}

fn gate(text: &str, services: &ServiceMap) -> Result<AdmissionGate, Failure> {
    let known = || {
        let levels = services.service.iter().flat_map(|service| {
            let name = &service.name;
            service
                .level
                .iter()
                .map(move |level| format!("{name}:{}", level.name))
        });
        levels.collect::<Vec<_>>().join(", ")
    };
    let found = text.split_once(':').and_then(|(service, level)| {
        AdmissionGate::new(services.get(service)?.clone(), level, AdmissionGate::AFTER)
    });
    found.ok_or_else(|| {
        let what = format!("--admit {text}: there is no such service and level");
        Failure::wrong_use(what).hint(format!("give one of {}", known()))
    })
}

/// Why a train that the receiver does not want is over.
pub fn refused(to: SocketAddr, reason: Reason) -> Failure {
    let (what, hint) = match reason {
        Reason::Busy => ("measures 16 trains already", "try again later"),
        Reason::Period => ("does not take this period", "give --period 1ms to 1s"),
        Reason::SelfCongestion => (
            "ended the train, because the path is too slow for it: probes arrive more slowly than they leave",
            "give a longer --period, or --compact",
        ),
        Reason::Ended => ("ended", "start layercast path recv there again"),
    };
    Failure::new(format!("the receiver at {to} {what}")).hint(hint)
}

/// A host that does not answer.
pub fn no_answer(to: SocketAddr) -> Failure {
    Failure::new(format!("no answer from {to}")).hint(format!(
        "start there: layercast path recv --listen 0.0.0.0:{}; a firewall has to let UDP pass in both directions",
        to.port()
    ))
}

/// A receiver that is not heard any more.
pub fn silent(to: SocketAddr) -> Failure {
    Failure::new(format!(
        "the receiver at {to} was not heard for 10 s: the train is stopped"
    ))
    .hint("check the path, and whether layercast path recv runs there")
}

/// What the receiver said so far.
struct Said<'a> {
    to: SocketAddr,
    start: Time,
    reporter: &'a Reporter,
    server: EstimateServer,
    gate: Option<AdmissionGate>,
    control: Option<(RateController, Rate)>,
    /// Whether the first result ends the train.
    decides: bool,
    over: CancellationToken,
    results: u64,
    decision: Option<Result<(), Refusal>>,
    outcome: Outcome,
}

impl Said<'_> {
    fn tell(&mut self, now: Time, event: SenderEvent) {
        let told = match event {
            SenderEvent::Started => self.note(now, "the receiver takes the train"),
            SenderEvent::Report { age, outcome, .. } => self.result(now, age, outcome),
            SenderEvent::Finished => Ok(()),
            SenderEvent::Refused(reason) => Err(refused(self.to, reason)),
            SenderEvent::NoAnswer => Err(no_answer(self.to)),
            SenderEvent::Silent => Err(silent(self.to)),
        };
        if let Err(failure) = told {
            self.over.cancel();
            if self.outcome.is_ok() {
                self.outcome = Err(failure);
            }
        }
    }

    fn note(&self, now: Time, text: &str) -> Outcome {
        self.reporter
            .event(now.since(self.start).as_secs_f64(), text)
    }

    fn result(&mut self, now: Time, age: Span, outcome: Block) -> Outcome {
        self.results += 1;
        if let Some(it) = outcome.estimate() {
            let lags = u64::from(it.n) * u64::from(it.m);
            self.server
                .set_block(Span::from_us(it.period_us.into()).times(lags));
        }
        self.server.on_outcome(now.saturating_sub(age), outcome);
        if let Some((control, _)) = &mut self.control {
            control.on_outcome(&outcome);
        }
        let event = self
            .gate
            .as_mut()
            .and_then(|gate| gate.on_outcome(Some(outcome)));
        let first = self.decision.is_none();
        let asks = first || self.decision.is_some_and(|it| it.is_err());
        if let Some(gate) = self.gate.as_mut().filter(|_| asks) {
            self.decision = Some(gate.admit());
        }
        let status = IndexStatus {
            t_s: now.since(self.start).as_secs_f64(),
            peer: Some(self.to),
            published: false,
            record: self.server.record(now),
            admitted: self.gate.as_ref().map(AdmissionGate::is_good),
            target_bps: self
                .control
                .map(|(control, rate)| (control.share() * rate.as_bps() as f64) as u64),
        };
        let text = format!("{:8.2} s  {}", status.t_s, status.in_words());
        self.reporter.line(&Line::Index(Box::new(status)), &text)?;
        match (self.decision, event) {
            (Some(Ok(())), None) if asks => self.note(now, "admitted")?,
            (Some(Err(why)), _) if first => self.note(now, &format!("not admitted: {why}"))?,
            (_, Some(GateEvent::QualityLost)) => self.note(now, "the quality is lost")?,
            (_, Some(GateEvent::QualityBack)) => self.note(now, "the quality is back")?,
            _ => {}
        }
        if self.decides {
            self.over.cancel();
        }
        Ok(())
    }

    fn finish(self, stats: SenderStats) -> Outcome {
        let admitted = self.gate.as_ref().map(AdmissionGate::is_good);
        let summary = PathSent {
            sent: stats.sent,
            skipped: stats.skipped,
            late: stats.late,
            bad_pdu: stats.bad_pdu,
            results: self.results,
            admitted,
        };
        let text = format!(
            "{} sent, {} late, {} left out; {}",
            count(stats.sent, "probe"),
            stats.late,
            count(stats.skipped, "slot"),
            count(self.results, "result")
        );
        self.outcome?;
        self.reporter.summary(&summary, &text)?;
        match admitted {
            Some(false) => Err(Failure::Unsatisfied),
            _ => Ok(()),
        }
    }
}
