//! `layercast path recv`: measures the trains that come.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use layercast_core::{Span, Time, earliest};
use layercast_net::{Clock, PathReceiver, RtpPath};
use layercast_sync_index::{
    Arrival, CloseCause, Counters, EstimateServer, Event, Format, Ignored, ReceiverEvent,
    ServiceMap,
};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::IndexStatus;
use super::args::Recv;
use crate::failure::{Failure, Outcome};
use crate::line::Line;
use crate::metrics::Metrics;
use crate::node::{Stop, runtime};
use crate::output::{self, Lines, count};
use crate::reporter::Reporter;

/// What the summary of `path recv` tells.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct PathReceived {
    /// Trains that began.
    pub trains: u64,
    /// Results.
    pub results: u64,
    /// Datagrams that changed nothing.
    pub ignored: Ignored,
}

/// Runs the command.
pub fn run(args: &Recv) -> Outcome {
    let config = super::config(&args.estimation)?;
    let services = super::services(args.services.as_deref())?;
    let reporter = Reporter::new(args.json, Lines::Stdout, Metrics::default());
    runtime()?.block_on(async {
        let stop = Stop::listen()?;
        let over = stop.token.child_token();
        if let Some(duration) = args.duration {
            let over = over.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_nanos(duration.as_ns())).await;
                over.cancel();
            });
        }
        let mut heard = Heard {
            start: Clock::get().now(),
            reporter: &reporter,
            services,
            publish: args.publish,
            lags: config.block(),
            peers: BTreeMap::new(),
            record: args.record.as_deref().map(Recording::open).transpose()?,
            over: over.clone(),
            trains: 0,
            results: 0,
            outcome: Ok(()),
        };
        let ignored = match args.rtp.zip(args.period) {
            Some((clock_hz, period)) => {
                let path = RtpPath::bind(args.listen, config, period, clock_hz);
                let path = path.map_err(super::failed)?;
                let addr = path.local_addr();
                let text = format!("measures RTP that arrives at {addr}; stop it with Ctrl-C");
                reporter.ready("path", Some(addr), &text)?;
                let cell = std::cell::RefCell::new(&mut heard);
                let told = |now, event| cell.borrow_mut().flow(now, period, event);
                let bad = path
                    .run(over, told, |now| cell.borrow_mut().publish(now))
                    .await;
                let bad = bad.map_err(super::failed)?;
                Ignored {
                    bad,
                    ..Ignored::default()
                }
            }
            None => {
                let receiver = PathReceiver::bind(args.listen, config, args.capacity);
                let receiver = receiver.map_err(super::failed)?;
                let addr = receiver.local_addr();
                let text = format!("measures trains at {addr}; stop it with Ctrl-C");
                reporter.ready("path", Some(addr), &text)?;
                let cell = std::cell::RefCell::new(&mut heard);
                let told = |now, from, event| cell.borrow_mut().tell(now, from, event);
                let ignored = receiver
                    .run(over, told, |now| cell.borrow_mut().publish(now))
                    .await;
                ignored.map_err(super::failed)?
            }
        };
        heard.finish(ignored)?;
        stop.outcome()
    })
}

/// Writes arrivals to a file.
struct Recording {
    path: PathBuf,
    out: BufWriter<File>,
    /// The sender that is recorded.
    from: Option<SocketAddr>,
    /// Number without wrap, of compact probes.
    number: i64,
}

impl Recording {
    fn open(path: &Path) -> Result<Recording, Failure> {
        let mut out = BufWriter::new(output::create(path)?);
        writeln!(out, "arrival_s,seq,tx_s,late,skipped")
            .map_err(|error| Failure::file(path, "write", &error))?;
        Ok(Recording {
            path: path.to_owned(),
            out,
            from: None,
            number: 0,
        })
    }

    fn write(&mut self, from: SocketAddr, it: &Arrival) -> Outcome {
        if *self.from.get_or_insert(from) != from {
            return Ok(());
        }
        let number = match it.sent_ns {
            Some(_) => i64::from(it.seq),
            None => {
                self.number += i64::from((it.seq as u16).wrapping_sub(self.number as u16) as i16);
                self.number
            }
        };
        let arrived = it.at.as_ps() as f64 / 1e12;
        let sent = it
            .sent_ns
            .map_or(String::new(), |ns| format!("{:.9}", ns as f64 / 1e9));
        let (late, skipped) = (u8::from(it.late), it.skipped);
        let written = writeln!(self.out, "{arrived:.9},{number},{sent},{late},{skipped}");
        written.map_err(|error| Failure::file(&self.path, "write", &error))
    }
}

/// A measured sender, or media flow.
struct Peer {
    server: EstimateServer,
}

/// What arrived so far.
struct Heard<'a> {
    start: Time,
    reporter: &'a Reporter,
    services: ServiceMap,
    publish: Span,
    lags: u64,
    /// By address; `None`: the media flow.
    peers: BTreeMap<Option<SocketAddr>, Peer>,
    record: Option<Recording>,
    over: CancellationToken,
    trains: u64,
    results: u64,
    outcome: Outcome,
}

impl Heard<'_> {
    fn tell(&mut self, now: Time, from: SocketAddr, event: ReceiverEvent) {
        let told = match event {
            ReceiverEvent::Opened { period, format, .. } => {
                self.open(now, Some(from), period);
                let format = match format {
                    Format::Full => "full",
                    Format::Compact => "compact",
                };
                self.note(
                    now,
                    &format!("train of {from}: a {format} probe each {period}"),
                )
            }
            ReceiverEvent::Packet(arrival) => match &mut self.record {
                Some(record) => record.write(from, &arrival),
                None => Ok(()),
            },
            ReceiverEvent::Of(event) => self.of(now, Some(from), &event),
            ReceiverEvent::Closed { why, counters, .. } => {
                self.peers.remove(&Some(from));
                self.note(now, &closed(from, why, &counters))
            }
        };
        self.keep(told);
    }

    /// An event of a media flow.
    fn flow(&mut self, now: Time, period: Span, event: Event) {
        if !self.peers.contains_key(&None) {
            self.open(now, None, period);
            let told = self.note(now, "the flow arrives");
            self.keep(told);
        }
        let told = self.of(now, None, &event);
        self.keep(told);
    }

    fn keep(&mut self, told: Outcome) {
        if let Err(failure) = told {
            self.over.cancel();
            if self.outcome.is_ok() {
                self.outcome = Err(failure);
            }
        }
    }

    fn open(&mut self, now: Time, from: Option<SocketAddr>, period: Span) {
        self.trains += 1;
        let name = from.map_or("RTP".to_owned(), |from| from.to_string());
        let block = period.times(self.lags);
        let server = EstimateServer::new(name, self.services.clone(), self.publish, block, now);
        self.peers.insert(from, Peer { server });
    }

    fn of(&mut self, now: Time, from: Option<SocketAddr>, event: &Event) -> Outcome {
        match event {
            Event::Outcome(outcome) => {
                self.results += 1;
                let Some(peer) = self.peers.get_mut(&from) else {
                    return Ok(());
                };
                peer.server.on_outcome(now, *outcome);
                let record = peer.server.record(now);
                self.line(now, from, false, record)
            }
            Event::Restarted => self.note(now, "the numbers of the packets begin again"),
            Event::SelfCongestion => self.note(now, "the train itself loads the path"),
            Event::Lag { .. } | Event::Window(_) => Ok(()),
        }
    }

    /// Prints the records that are due, and gives the instant of the next one.
    fn publish(&mut self, now: Time) -> Option<Time> {
        let due: Vec<_> = (self.peers.iter_mut())
            .filter_map(|(from, peer)| Some((*from, peer.server.poll(now)?)))
            .collect();
        for (from, record) in due {
            let told = self.line(now, from, true, record);
            self.keep(told);
        }
        self.peers.values().fold(None, |next, peer| {
            earliest(next, Some(peer.server.next_timeout()))
        })
    }

    fn line(
        &self,
        now: Time,
        peer: Option<SocketAddr>,
        published: bool,
        record: layercast_sync_index::Record,
    ) -> Outcome {
        let status = IndexStatus {
            t_s: now.since(self.start).as_secs_f64(),
            peer,
            published,
            record,
            admitted: None,
            target_bps: None,
        };
        let name = peer.map_or(String::new(), |peer| format!("{peer}: "));
        let text = format!("{:8.2} s  {name}{}", status.t_s, status.in_words());
        self.reporter.line(&Line::Index(Box::new(status)), &text)
    }

    fn note(&self, now: Time, text: &str) -> Outcome {
        self.reporter
            .event(now.since(self.start).as_secs_f64(), text)
    }

    fn finish(mut self, ignored: Ignored) -> Outcome {
        if let Some(record) = &mut self.record {
            let written = record.out.flush();
            written.map_err(|error| Failure::file(&record.path, "write", &error))?;
        }
        self.outcome?;
        let summary = PathReceived {
            trains: self.trains,
            results: self.results,
            ignored,
        };
        let text = format!(
            "{}, {}",
            count(self.trains, "train"),
            count(self.results, "result")
        );
        self.reporter.summary(&summary, &text)
    }
}

fn closed(from: SocketAddr, why: Option<CloseCause>, it: &Counters) -> String {
    let why = match why {
        None => "is over",
        Some(CloseCause::Silent) => "went silent for 10 s",
        Some(CloseCause::SelfCongestion) => "was stopped: the path is too slow for it",
        Some(CloseCause::Restarted) => "gives way to another one",
    };
    format!(
        "train of {from} {why}: {} in order, {} lost, {} reordered, {} twice, {} clock anomalies",
        it.in_order, it.lost, it.reordered, it.duplicates, it.clock_anomalies
    )
}
