//! One call of a sender: the manifest, then the files one after the other.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bytes::Bytes;
use layercast_core::{AnyObserver, Observer};
use layercast_fec::Scheme;
use layercast_multicast::{Failure, Members, Outcome, Sender, Source, Trigger};
use layercast_wire::multicast::manifest::{Kind, Modified, Withdrawal};
use layercast_wire::multicast::{MemberId, Reason, SEALED_OVERHEAD};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::feed::Feed;
use super::keys::Keys;
use super::link::Link;
use super::name::FileName;
use super::send::{SendConfig, SendEvent, SendReport, SentFile, WithheldFile};
use super::session::Session;
use super::source::{FileSource, Unsendable};
use super::tree::{SendPlan, TreeOptions};
use crate::clock::Clock;
use crate::error::NetError;
use crate::random::random_number;

/// How often a file is announced to listed receivers if some of them had failed with the file before: they are not
/// waited for as long again.
const TRIES_AGAIN: u32 = 4;
/// Interval of reports on reading a file for its digest.
const REPORT_PERIOD: Duration = Duration::from_millis(250);

/// Sends files and folders, all of them looked at before the first octet leaves; `shutdown` gives up, and
/// receivers keep what they have. `obs` sees the machines.
///
/// # Errors
/// An input cannot be sent ([`NetError::Inputs`] names all of them), the configuration cannot be, or the system
/// refuses sockets. Faults after receivers have answered are in the report.
pub async fn send_files(
    config: SendConfig,
    shutdown: CancellationToken,
    events: mpsc::Sender<SendEvent>,
    obs: &mut (dyn Observer + Send),
) -> Result<SendReport, NetError> {
    let plan = SendPlan::of(&config.files, TreeOptions::default()).map_err(NetError::Inputs)?;
    send_plan(plan, config, shutdown, events, obs).await
}

/// Sends what [`SendPlan::of`] has looked at; the files of `config` do not count.
///
/// # Errors
/// As [`send_files`].
pub async fn send_plan(
    plan: SendPlan,
    config: SendConfig,
    shutdown: CancellationToken,
    events: mpsc::Sender<SendEvent>,
    obs: &mut (dyn Observer + Send),
) -> Result<SendReport, NetError> {
    let obs = &mut AnyObserver::new(obs);
    let clock = Clock::get();
    let started = clock.now();
    let mut transfer = Transfer {
        link: Link::open(&config.to)?,
        members: config.members.clone(),
        report: SendReport {
            files: plan.files(),
            folders: plan.folders(),
            octets: plan.octets(),
            ..SendReport::default()
        },
        tries: config.machine.opening.tries,
        listed: BTreeSet::new(),
        revised: false,
        plan,
        config,
        shutdown,
        events,
    };
    let done = transfer.run(obs).await;
    let mut report = transfer.report;
    let udp = &transfer.link.udp;
    report.refused = udp
        .refusal()
        .map(|(to, error)| (udp.stats().send_failed, format!("{error} (to {to})")));
    report.unroutable = transfer.link.unroutable;
    report.took = clock.now().since(started);
    match done {
        Err(error) if report.manifest.is_none() => return Err(error),
        done => report.error = done.err(),
    }
    Ok(report)
}

struct Transfer {
    link: Link,
    members: Members,
    plan: SendPlan,
    config: SendConfig,
    report: SendReport,
    /// How often a session is announced.
    tries: u32,
    /// Members that have the current manifest, or have said why they cannot use it.
    listed: BTreeSet<MemberId>,
    /// A file was withdrawn since the manifest was sent.
    revised: bool,
    shutdown: CancellationToken,
    events: mpsc::Sender<SendEvent>,
}

impl Transfer {
    async fn run(&mut self, obs: &mut impl Observer) -> Result<(), NetError> {
        if !self.send_manifest(obs).await? {
            return Ok(());
        }
        let files: Vec<(u32, u64, Modified)> = self
            .plan
            .manifest
            .files()
            .map(|(at, entry)| {
                let (Kind::File { size } | Kind::Withdrawn { size, .. }) = entry.kind else {
                    return (at, 0, entry.modified);
                };
                (at, size, entry.modified)
            })
            .collect();
        for (index, (at, size, modified)) in (1..).zip(files) {
            if self.shutdown.is_cancelled() {
                return Ok(());
            }
            let name = self.name(index, at);
            match self.open(index, (size, modified), &name).await {
                Ok(source) => {
                    if self.revised {
                        self.send_manifest(obs).await?;
                    }
                    let is_last = index == self.report.files;
                    let file = self
                        .session(source, name.name.clone(), (false, is_last), obs)
                        .await?;
                    let late = |it: &MemberId| !self.listed.contains(it);
                    let is_late = delivered(&file).any(|it| late(&it));
                    if let Some(Failure::Content(error)) = &file.failure {
                        let why = error.0.clone();
                        self.withhold(at, (&name, size), Withdrawal::Changed, why);
                    }
                    self.done(file);
                    if is_late && index < self.report.files {
                        // A late receiver does not know the other files.
                        self.send_manifest(obs).await?;
                    }
                }
                Err(Unsendable {
                    cause: Withdrawal::Stopped,
                    ..
                }) => return Ok(()),
                Err(Unsendable { cause, why }) => {
                    self.withhold(at, (&name, size), cause, why);
                }
            }
        }
        if self.revised {
            // Receivers wait for a withdrawn file until they are notified.
            self.send_manifest(obs).await?;
        }
        Ok(())
    }

    /// Sends the current list; `false`: there is no receiver, and the files need not be tried.
    async fn send_manifest(&mut self, obs: &mut impl Observer) -> Result<bool, NetError> {
        let octets = Bytes::from(self.plan.manifest.encode());
        let name = FileName::new((0, self.report.files, self.plan.manifest.batch()), []);
        let scheme = Scheme::from_number(self.config.machine.scheme);
        let source = FileSource::memory(octets, name.to_object(), scheme);
        // It is sent before the files, and behind them where some were withdrawn; or there are none.
        let is_last = self.report.files == 0 || self.report.manifest.is_some();
        let file = self
            .session(source, "list of files".into(), (true, is_last), obs)
            .await?;
        // A receiver that cannot use the list can take files.
        self.listed = answering(&file).collect();
        self.revised = false;
        let somebody = !self.listed.is_empty();
        self.expect(&file);
        self.report.manifest = Some(file);
        Ok(somebody)
    }

    fn name(&self, index: u32, at: u32) -> FileName {
        let manifest = &self.plan.manifest;
        let numbers = (index, self.report.files, manifest.batch());
        FileName::new(numbers, manifest.path(at))
    }

    /// Reads a file for its digest, beside the loop: that may take a while.
    async fn open(
        &self,
        index: u32,
        (size, modified): (u64, Modified),
        name: &FileName,
    ) -> Result<FileSource, Unsendable> {
        let Some(path) = self.plan.sources.get(index as usize - 1).cloned() else {
            return Err(std::io::Error::from(std::io::ErrorKind::NotFound).into());
        };
        let scheme = Scheme::from_number(self.config.machine.scheme);
        let (object, shown) = (name.to_object(), name.name.clone());
        let (events, shutdown) = (self.events.clone(), self.shutdown.clone());
        let mut report_at = Instant::now();
        let mut read = move |octets| {
            if report_at <= Instant::now() {
                report_at = Instant::now() + REPORT_PERIOD;
                // The events may have no listener, here and below.
                let _ = events.try_send(SendEvent::Reading {
                    name: shown.clone(),
                    octets: (octets, size),
                });
            }
            !shutdown.is_cancelled()
        };
        let open = move || {
            read(0);
            FileSource::open(&path, (size, modified), object, scheme, read)
        };
        let opened = tokio::task::spawn_blocking(open).await;
        opened.unwrap_or_else(|error| Err(std::io::Error::other(error).into()))
    }

    async fn session(
        &mut self,
        source: FileSource,
        name: String,
        (is_list, is_last): (bool, bool),
        obs: &mut impl Observer,
    ) -> Result<SentFile, NetError> {
        let mut machine = self.config.machine.clone();
        machine.opening.tries = self.tries;
        if let Some(fits) = self.link.payload {
            let sealing = match machine.receipts {
                Some(_) => SEALED_OVERHEAD as u16,
                None => 0,
            };
            let fits = fits.saturating_sub(sealing).max(1);
            machine.packet_size = machine.packet_size.min(fits);
        }
        let is_stream = matches!(machine.trigger, Trigger::Timer { .. });
        let object = source.object();
        let (number, members) = (random_number(), self.members.clone());
        let keys = Keys::sender(machine.receipts.as_ref(), number);
        let is_listed = matches!(self.config.members, Members::Listed(_));
        let kind = (number, is_listed, keys);
        let (events, shutdown) = (&self.events, &self.shutdown);
        if is_stream {
            let sender = Sender::stream(number, machine.clone(), members)?;
            let feed = Feed::new(source, &object, machine.packet_size)?;
            let sender = sender.announcing(object.clone());
            let session = Session::new(&mut self.link, sender, Some(feed), name, kind, &object);
            session.run(is_last, shutdown, events, obs).await
        } else {
            let mut sender = Sender::object(number, machine, members, source)?;
            if is_list && self.report.files > 0 {
                sender.be_brief();
            }
            let session = Session::new(&mut self.link, sender, None, name, kind, &object);
            session.run(is_last, shutdown, events, obs).await
        }
    }

    /// Those that have failed are not waited for again; they may come late.
    fn expect(&mut self, file: &SentFile) {
        let there = answering(file).count();
        match &mut self.members {
            Members::Anyone { expect, .. } => *expect = Some(there.max(1) as u32),
            Members::Listed(listed) if there < listed.len() => {
                self.tries = self.tries.min(TRIES_AGAIN);
            }
            Members::Listed(_) => {}
        }
    }

    fn done(&mut self, file: SentFile) {
        self.expect(&file);
        let _ = self
            .events
            .try_send(SendEvent::Done(Box::new(file.clone())));
        self.report.sent.push(file);
    }

    fn withhold(
        &mut self,
        at: u32,
        (name, size): (&FileName, u64),
        cause: Withdrawal,
        why: String,
    ) {
        self.plan.manifest.withdraw(at, cause);
        self.revised = true;
        let file = WithheldFile {
            name: name.name.clone(),
            size,
            why,
        };
        let _ = self.events.try_send(SendEvent::Withheld(file.clone()));
        self.report.withheld.push(file);
    }
}

/// Receivers that answer the next announcement, too: those that have the file, and those that said why they do not take it.
fn answering(file: &SentFile) -> impl Iterator<Item = MemberId> + '_ {
    let answers = |outcome| match outcome {
        Outcome::Delivered => true,
        Outcome::Failed(reason) => matches!(
            reason,
            Reason::NoRoom
                | Reason::Denied
                | Reason::Storage
                | Reason::Unsupported
                | Reason::Corrupt
        ),
        Outcome::Pending | Outcome::NeverConnected => false,
    };
    let receivers = file.receivers.iter();
    let there = receivers.filter(move |it| answers(it.outcome));
    there.map(|it| it.member)
}

fn delivered(file: &SentFile) -> impl Iterator<Item = MemberId> + '_ {
    let done = file.receivers.iter();
    done.filter(|it| it.outcome == Outcome::Delivered)
        .map(|it| it.member)
}
