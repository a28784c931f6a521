//! The encoder that `layercast serve --encoder-cmd` starts: a child that reads the rate at which to send from its standard
//! input.

use std::io::stderr;
use std::os::fd::AsFd;
use std::process::{ExitStatus, Stdio};

use layercast_core::Rate;
use rustix::process::{Pid, Signal};
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, Command};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use crate::child::{self, PATIENCE};
use crate::failure::{Failure, Outcome};
use crate::line::{EncoderTarget, Line};
use crate::reporter::Reporter;
use crate::secret;

/// A running encoder. Dropping it asks it to end.
#[derive(Debug)]
pub struct Encoder {
    /// Without passwords.
    command: String,
    /// The rate to send at; `None` before the first one.
    rate: watch::Sender<Option<Rate>>,
    /// The group of its processes, until they have ended.
    group: Option<Pid>,
    ended: oneshot::Receiver<std::io::Result<ExitStatus>>,
}

impl Encoder {
    /// Has the shell run `command`. What it prints goes to standard error. Must be called within a runtime.
    pub fn start(command: &str) -> Result<Encoder, Failure> {
        let failed = |error: std::io::Error| {
            Failure::new(format!("--encoder-cmd cannot be started with sh: {error}"))
        };
        // Standard output is for the URL, or for JSON.
        let output = stderr().as_fd().try_clone_to_owned().map_err(failed)?;
        let mut child = Command::from(child::command("sh", ["-c", command]))
            .stdin(Stdio::piped())
            .stdout(output)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let (rate, rates) = watch::channel(None);
        let (tell, ended) = oneshot::channel();
        let stdin = child.stdin.take();
        tokio::spawn(async move {
            let status = tokio::select! {
                status = child.wait() => status,
                () = write(stdin, rates) => child.wait().await,
            };
            // The program may have ended meanwhile.
            let _ = tell.send(status);
        });
        Ok(Encoder {
            command: secret::hidden(command).into_owned(),
            rate,
            group,
            ended,
        })
    }

    /// Has it send at this rate. A rate that it has not read when the next one comes is left out.
    pub fn send_at(&self, rate: Rate) {
        self.rate
            .send_if_modified(|last| last.replace(rate) != Some(rate));
    }

    /// Waits until the child exits; gives its status in words. A second call never returns.
    pub async fn ended(&mut self) -> String {
        if self.group.is_none() {
            return std::future::pending().await;
        }
        let how = match (&mut self.ended).await {
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "nothing is known of it any more".to_owned(),
        };
        // What it started, and left running.
        self.signal(Signal::TERM);
        self.group = None;
        format!(
            "the encoder (--encoder-cmd {}) ended: {how}; the flow continues without it",
            self.command
        )
    }

    /// Ends it, and all that it started: asks first, and kills what does not follow.
    pub async fn end(mut self) {
        if self.group.is_none() {
            return;
        }
        self.signal(Signal::TERM);
        if timeout(PATIENCE, &mut self.ended).await.is_err() {
            self.signal(Signal::KILL);
            let _ = timeout(PATIENCE, &mut self.ended).await;
        }
        self.group = None;
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            child::signal_group(group, signal);
        }
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
    }
}

/// Waits until the encoder exits, as [`Encoder::ended`]; without one this never returns.
pub async fn ended(encoder: &mut Option<Encoder>) -> String {
    match encoder {
        Some(encoder) => encoder.ended().await,
        None => std::future::pending().await,
    }
}

/// The encoder of what a node serves live, and its rate.
#[derive(Debug)]
pub struct Guided {
    /// The child, if there is one.
    pub encoder: Option<Encoder>,
    /// Tells its flow at which share of its full rate it sends.
    pub share: watch::Sender<f64>,
    /// The rate at the start; `None`: nothing is encoded for this node.
    pub target: Option<Rate>,
}

impl Default for Guided {
    fn default() -> Guided {
        Guided {
            encoder: None,
            share: watch::channel(1.0).0,
            target: None,
        }
    }
}

impl Guided {
    /// From second `t_s` on the encoder of `flow` is to send at this rate, a share of its full one.
    pub fn guide(
        &self,
        (t_s, flow): (f64, &str),
        rate: Rate,
        share: f64,
        reporter: &Reporter,
    ) -> Outcome {
        let target = Line::Target(EncoderTarget {
            t_s,
            flow: flow.to_owned(),
            target_bps: rate.as_bps(),
        });
        let Some(encoder) = &self.encoder else {
            return reporter.json(&target);
        };
        encoder.send_at(rate);
        self.share.send_replace(share);
        reporter.line(
            &target,
            &format!("{t_s:8.2} s  the encoder may send {rate}"),
        )
    }
}

/// Writes each rate in a line of its own, until there are no more or none is read.
async fn write(stdin: Option<ChildStdin>, mut rates: watch::Receiver<Option<Rate>>) {
    let Some(mut stdin) = stdin else { return };
    while rates.changed().await.is_ok() {
        let Some(rate) = *rates.borrow_and_update() else {
            continue;
        };
        let line = format!("{}\n", rate.as_bps());
        if stdin.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}
