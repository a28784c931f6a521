//! The run on sockets: starts the processes together, does to them what the scenario says at its
//! times, and collects what they report.

use std::fs;
use std::path::Path;
use std::time::Duration;

use layercast_core::{Span, Time};
use layercast_net::{Clock, Control};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::children::{Child, Heard, News};
use super::plan::Plan;
use super::screen::Screen;
use crate::failure::Failure;
use crate::line::{Line, ReceiverStatus};

/// How long all processes may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Between "all are ready" and the start of the scenario, so that all know it before.
const LEAD: Span = Span::from_ms(500);
/// How long processes may take to report and end once they were asked to.
const END_WITHIN: Duration = Duration::from_secs(8);
/// How long after the end of the scenario frames may still be on their way to be played.
const DRAIN: Duration = Duration::from_millis(1_500);
/// How often ports that another program took are chosen again.
const ATTEMPTS: u32 = 3;

/// What a run on sockets left behind.
#[derive(Debug, Default)]
pub struct Run {
    /// The summary of each process, in the order of the plan; `None` for one that died.
    pub summaries: Vec<Option<Value>>,
    /// What happened that the scenario did not foresee: `(seconds, text)`.
    pub surprises: Vec<(f64, String)>,
    /// When the user stopped it, in seconds.
    pub interrupted: Option<f64>,
}

/// The running processes and what they say.
struct Crew<'a> {
    plan: &'a Plan,
    scenario: &'a Path,
    addresses: &'a Path,
    children: Vec<Option<Child>>,
    /// How often each process was started or killed: what an older life said last is no news.
    lives: Vec<u32>,
    news: mpsc::Receiver<Heard>,
    sender: mpsc::Sender<Heard>,
    /// Whether the scenario is over, and all are asked to finish.
    over: bool,
    run: Run,
}

/// Runs `plan`; `scenario` is the file the children read, `out` where the addresses go; with `clear` the links are
/// not protected, and that carries the control.
pub async fn run(
    plan: &Plan,
    scenario: &Path,
    out: &Path,
    clear: Option<Control>,
    screen: &mut Screen,
) -> Result<Run, Failure> {
    let addresses = out.join("addresses.json");
    let mut attempt = 1;
    loop {
        let map = plan.entries(&out.join("identities"), clear)?;
        let text = serde_json::to_string_pretty(&map).map_err(Failure::new)?;
        fs::write(&addresses, text).map_err(|error| Failure::file(&addresses, "write", &error))?;
        let mut crew = Crew::new(plan, scenario, &addresses);
        match crew.assemble().await? {
            Ready::Yes => return crew.sail(screen).await,
            Ready::Interrupted => return Err(Failure::Interrupted),
            Ready::No(last) if last.contains("in use") && attempt < ATTEMPTS => attempt += 1,
            Ready::No(last) => return Err(Failure::new(last)),
        }
    }
}

/// Whether all processes could be started.
enum Ready {
    Yes,
    Interrupted,
    /// One ended immediately, with these last words.
    No(String),
}

impl<'a> Crew<'a> {
    fn new(plan: &'a Plan, scenario: &'a Path, addresses: &'a Path) -> Crew<'a> {
        let (sender, news) = mpsc::channel(1_024);
        let count = plan.processes.len();
        Crew {
            plan,
            scenario,
            addresses,
            children: (0..count).map(|_| None).collect(),
            news,
            sender,
            over: false,
            lives: vec![0; count],
            run: Run {
                summaries: vec![None; count],
                ..Run::default()
            },
        }
    }

    fn start(&mut self, who: usize) -> Result<(), Failure> {
        let args = self.plan.processes[who].args(self.scenario, self.addresses);
        self.lives[who] += 1;
        let child = Child::start(&args, (who, self.lives[who]), self.sender.clone())
            .map_err(|error| Failure::new(format!("cannot start a process: {error}")))?;
        self.children[who] = Some(child);
        Ok(())
    }

    /// Starts every process and waits until all are ready.
    async fn assemble(&mut self) -> Result<Ready, Failure> {
        for who in 0..self.children.len() {
            self.start(who)?;
        }
        let mut waiting = self.children.len();
        let all = async {
            while waiting > 0 {
                tokio::select! {
                    _ = tokio::signal::ctrl_c() => return Ready::Interrupted,
                    news = self.news.recv() => match news {
                        Some((_, News::Said(Line::Ready { .. }))) => waiting -= 1,
                        Some(((who, _), News::Gone(status, last))) => {
                            let name = &self.plan.processes[who].name;
                            return Ready::No(format!("{name} ended immediately, {status}: {last}"));
                        }
                        _ => {}
                    }
                }
            }
            Ready::Yes
        };
        match timeout(READY_WITHIN, all).await {
            Ok(ready) => Ok(ready),
            Err(_) => Ok(Ready::No("the processes take too long to start".into())),
        }
    }

    /// The run proper.
    async fn sail(mut self, screen: &mut Screen) -> Result<Run, Failure> {
        let (epoch, epoch_ns) = epoch(self.plan.res_interval);
        for child in self.children.iter_mut().flatten() {
            child.begin(epoch_ns).await;
        }
        let at = |span: Span| epoch + Duration::from_nanos(span.as_ns());
        let end = at(self.plan.duration) + DRAIN;
        let mut faults = self.plan.faults.iter().peekable();
        let mut second = 0;
        loop {
            let next_fault = faults.peek().map_or(end, |fault| at(fault.at));
            let next_second = at(Span::from_secs(second));
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {
                    self.run.interrupted = Some(seconds_since(epoch_ns));
                    screen.say("stopping");
                    break;
                }
                _ = sleep_until(end) => break,
                _ = sleep_until(next_second) => {
                    screen.tick(second);
                    second += 1;
                }
                _ = sleep_until(next_fault), if next_fault < end => {
                    if let Some(fault) = faults.next() {
                        self.strike(&fault.node, fault.restart, epoch_ns).await?;
                    }
                }
                Some(heard) = self.news.recv() => self.hear(heard, epoch_ns, screen),
            }
        }
        self.dismiss(epoch_ns, screen).await;
        screen.finish();
        Ok(self.run)
    }

    /// Kills what runs on `node`, and starts it again if that is wanted.
    async fn strike(&mut self, node: &str, restart: bool, epoch_ns: u64) -> Result<(), Failure> {
        for who in 0..self.children.len() {
            if self.plan.processes[who].node != node {
                continue;
            }
            if let Some(child) = self.children[who].take() {
                self.lives[who] += 1;
                child.kill().await;
            }
            if restart {
                self.start(who)?;
                if let Some(child) = &mut self.children[who] {
                    child.begin(epoch_ns).await;
                }
            }
        }
        Ok(())
    }

    fn hear(&mut self, heard: Heard, epoch_ns: u64, screen: &mut Screen) {
        let ((who, life), news) = heard;
        if life != self.lives[who] {
            return;
        }
        let name = &self.plan.processes[who].name;
        match news {
            News::Said(Line::Receiver(status)) => {
                if let Some(index) = self.plan.receivers().position(|i| i == who) {
                    screen.receiver(index, *status);
                }
            }
            // What receivers see is what a demo is about; the switches have their say in the report.
            News::Said(Line::Event { t_s, text }) if self.plan.is_receiver(who) => {
                screen.say(&format!("{t_s:7.2} s  {name}: {text}"));
            }
            News::Said(Line::Summary(summary)) => self.run.summaries[who] = Some(summary),
            News::Said(
                Line::Ready { .. }
                | Line::Node(_)
                | Line::Target(_)
                | Line::Path(_)
                | Line::Emulation(_)
                | Line::Edge(_)
                | Line::Index(_)
                | Line::Event { .. },
            ) => {}
            News::Gone(status, last) => {
                self.children[who] = None;
                // At the end all leave, and the last figures shall stand.
                if !self.over
                    && let Some(index) = self.plan.receivers().position(|i| i == who)
                {
                    screen.receiver(index, ReceiverStatus::default());
                }
                if !status.success() {
                    let t_s = seconds_since(epoch_ns);
                    let last = if last.is_empty() {
                        ""
                    } else {
                        &format!(": {last}")
                    };
                    let text = format!("{name} died ({status}){last}");
                    screen.say(&format!("{t_s:7.2} s  {text}"));
                    self.run.surprises.push((t_s, text));
                }
            }
        }
    }

    /// Asks all to finish, receivers first, so that the network stands until they have left.
    async fn dismiss(&mut self, epoch_ns: u64, screen: &mut Screen) {
        self.over = true;
        let receivers: Vec<usize> = self.plan.receivers().collect();
        let others = (0..self.children.len()).filter(|who| !receivers.contains(who));
        for group in [receivers.clone(), others.collect()] {
            for &who in &group {
                if let Some(child) = &mut self.children[who] {
                    child.stop();
                }
            }
            let deadline = Instant::now() + END_WITHIN;
            let mut left = self.running(&group);
            while left > 0 {
                tokio::select! {
                    _ = sleep_until(deadline) => break,
                    Some(heard) = self.news.recv() => {
                        self.hear(heard, epoch_ns, screen);
                        left = self.running(&group);
                    }
                }
            }
            for &who in &group {
                self.children[who] = None;
            }
        }
    }

    fn running(&self, group: &[usize]) -> usize {
        let running = group.iter().filter(|&&who| self.children[who].is_some());
        running.count()
    }
}

/// The start of the scenario: soon, and at a whole number of RES intervals of [`Time`], as in the
/// simulator, where it is zero. Then switches act at the same times of the scenario in both.
fn epoch(res_interval: Span) -> (Instant, u64) {
    let clock = Clock::get();
    let now = clock.now();
    let earliest = now.saturating_add(LEAD).as_ps();
    let interval = res_interval.as_ps().max(1);
    let time = Time::from_ps(earliest.div_ceil(interval).saturating_mul(interval));
    let wait = Duration::from_nanos(time.since(now).as_ns());
    (Instant::now() + wait, clock.to_monotonic(time))
}

fn seconds_since(epoch_ns: u64) -> f64 {
    let clock = Clock::get();
    let since = clock.now().since(clock.at_monotonic(epoch_ns));
    since.as_secs_f64()
}
