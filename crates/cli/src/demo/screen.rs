//! Live progress on standard error: one line per receiver and a bar; plain lines every few seconds
//! where there is no terminal.

use std::io::{IsTerminal, stderr};

use indicatif::{MultiProgress, ProgressBar};
use layercast_core::{Level, Span};

use crate::line::ReceiverStatus;
use crate::progress::style;

/// Seconds between the lines of a screen that is no terminal.
const PLAIN_EVERY: u64 = 5;

/// What the user sees while a demo runs.
pub struct Screen {
    live: Option<Live>,
    names: Vec<String>,
    last: Vec<ReceiverStatus>,
}

struct Live {
    all: MultiProgress,
    receivers: Vec<ProgressBar>,
    time: ProgressBar,
}

impl Screen {
    /// A screen for receivers of these `names` and a run of `duration`.
    pub fn new(names: Vec<String>, duration: Span) -> Screen {
        let live = stderr().is_terminal().then(|| {
            let all = MultiProgress::new();
            let line = || all.add(ProgressBar::new(0).with_style(style("{msg}")));
            let receivers = names.iter().map(|_| line()).collect();
            let bar = style("{bar:40} {pos}/{len} s, {eta} left");
            let time = all.add(ProgressBar::new(duration.as_ms().div_ceil(1_000)).with_style(bar));
            Live {
                all,
                receivers,
                time,
            }
        });
        let last = vec![ReceiverStatus::default(); names.len()];
        Screen { live, names, last }
    }

    /// Shows what receiver number `index` reported.
    pub fn receiver(&mut self, index: usize, status: ReceiverStatus) {
        if let Some(live) = &self.live {
            live.receivers[index].set_message(describe(&self.names[index], &status));
        }
        self.last[index] = status;
    }

    /// Shows that `seconds` of the run are over.
    pub fn tick(&mut self, seconds: u64) {
        match &self.live {
            Some(live) => live
                .time
                .set_position(seconds.min(live.time.length().unwrap_or(seconds))),
            None if seconds.is_multiple_of(PLAIN_EVERY) => {
                eprintln!("t = {seconds} s");
                for (name, status) in self.names.iter().zip(&self.last) {
                    eprintln!("{}", describe(name, status));
                }
            }
            None => {}
        }
    }

    /// Says one thing above the moving lines.
    pub fn say(&self, text: &str) {
        match &self.live {
            // A terminal that went away is no reason to stop.
            Some(live) => drop(live.all.println(text)),
            None => eprintln!("{text}"),
        }
    }

    /// Leaves the last lines standing.
    pub fn finish(&self) {
        if let Some(live) = &self.live {
            live.receivers.iter().for_each(ProgressBar::abandon);
            live.time.abandon();
        }
    }
}

fn describe(name: &str, status: &ReceiverStatus) -> String {
    if !status.joined {
        return format!("  {name:<10} not joined");
    }
    let level = Level::new(status.level).unwrap_or_default().to_string();
    let delay = status
        .delay_ms
        .map_or("-".to_owned(), |ms| format!("{ms:.0}"));
    let lost = status.lost;
    format!(
        "  {name:<10} {level:<9} {:>6.2} Mbit/s  delay {delay:>4} ms  late {}  lost {}/{}/{}",
        status.rate_bps as f64 / 1e6,
        status.late,
        lost.base,
        lost.e1,
        lost.e2
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_is_one_line() {
        let mut status = ReceiverStatus {
            joined: true,
            level: 1,
            rate_bps: 1_234_000,
            delay_ms: Some(41.6),
            ..ReceiverStatus::default()
        };
        let line = describe("wide", &status);
        assert_eq!(
            line,
            "  wide       BL+E1       1.23 Mbit/s  delay   42 ms  late 0  lost 0/0/0"
        );
        status.joined = false;
        assert_eq!(describe("wide", &status), "  wide       not joined");
    }
}
