//! The encoder that `layercast serve --encoder-cmd` starts: a child that reads the rate at which to send from its standard
//! input.

use std::io::{Write, stderr};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use layercast_core::Rate;
use rustix::process::{Pid, Signal};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, Command};
use tokio::sync::{oneshot, watch};
use tokio::time::{Duration, Instant, timeout};

use crate::child::{self, PATIENCE};
use crate::failure::{Failure, Outcome};
use crate::line::{EncoderTarget, Line};
use crate::reporter::Reporter;
use crate::secret;

/// Lines of an encoder that are printed in a window of time, and octets of each.
const LINES: u32 = 20;
const WINDOW: Duration = Duration::from_secs(10);
const LINE: usize = 300;

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
    /// Has the shell run `command`. What it prints goes to standard error, within a limit. Must be called within a runtime.
    pub fn start(command: &str) -> Result<Encoder, Failure> {
        let failed = |error: std::io::Error| {
            Failure::new(format!("--encoder-cmd cannot be started with sh: {error}"))
        };
        let mut child = Command::from(child::command("sh", ["-c", command]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let (rate, rates) = watch::channel(None);
        let (tell, ended) = oneshot::channel();
        let stdin = child.stdin.take();
        // Standard output is for the URL, or for JSON.
        let limit = Arc::<Mutex<Limit>>::default();
        if let Some(stdout) = child.stdout.take() {
            tokio::spawn(pass(stdout, Arc::clone(&limit)));
        }
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(pass(stderr, limit));
        }
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

/// How much of what an encoder prints is passed on.
#[derive(Debug, Default)]
struct Limit {
    /// When the window began, the lines printed in it, and those left out since one was printed.
    since: Option<Instant>,
    printed: u32,
    left_out: u64,
}

impl Limit {
    /// What is printed of a line that comes `now`; nothing if there were many.
    fn printed(&mut self, now: Instant, line: &str) -> Option<String> {
        if self
            .since
            .is_none_or(|since| now.duration_since(since) >= WINDOW)
        {
            (self.since, self.printed) = (Some(now), 0);
        }
        if self.printed == LINES {
            self.left_out += 1;
            return None;
        }
        self.printed += 1;
        let end = line.floor_char_boundary(LINE);
        let (line, rest) = line.split_at(end);
        let cut = if rest.is_empty() { "" } else { " ..." };
        let before = match std::mem::take(&mut self.left_out) {
            0 => String::new(),
            many => format!("(the encoder printed {many} more lines, which are left out)\n"),
        };
        Some(format!("{before}{line}{cut}\n"))
    }
}

/// Passes on what an encoder prints, line by line and within a limit: it may print without an end.
async fn pass(output: impl AsyncRead + Unpin, limit: Arc<Mutex<Limit>>) {
    let mut output = BufReader::new(output);
    let mut line: Vec<u8> = Vec::new();
    loop {
        let Ok(piece) = output.fill_buf().await else {
            return;
        };
        let is_over = piece.is_empty();
        // A display of progress begins its line again and again.
        let end = piece.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let taken = end.unwrap_or(piece.len());
        // One octet more tells that it is cut.
        let room = (LINE + 4).saturating_sub(line.len());
        line.extend_from_slice(&piece[..taken.min(room)]);
        let used = taken + usize::from(end.is_some());
        output.consume(used);
        if end.is_none() && !is_over {
            continue;
        }
        let text = String::from_utf8_lossy(&line);
        if !text.trim().is_empty() {
            let mut limit = limit.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(text) = limit.printed(Instant::now(), text.trim_end()) {
                // The terminal may be gone.
                let _ = stderr().write_all(text.as_bytes());
            }
        }
        line.clear();
        if is_over {
            return;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoder_that_prints_without_an_end_is_cut_short() {
        let (mut limit, begin) = (Limit::default(), Instant::now());
        let printed: Vec<_> = (0..1_000)
            .filter_map(|n| limit.printed(begin, &format!("line {n}")))
            .collect();
        assert_eq!(printed.len(), LINES as usize);
        assert_eq!(printed[0], "line 0\n");
        let later = limit.printed(begin + WINDOW, &"é".repeat(1_000)).unwrap();
        let (left_out, line) = later.trim_end().split_once('\n').unwrap();
        assert!(left_out.contains("980 more lines"), "{left_out}");
        assert!(line.len() < LINE + 6 && line.ends_with("..."), "{line}");
    }

    #[tokio::test]
    async fn lines_and_displays_of_progress_are_read_to_their_end() {
        let limit = Arc::<Mutex<Limit>>::default();
        let output = [
            b"a\rb\n\n".to_vec(),
            vec![b'x'; 1 << 20],
            b"\nlast".to_vec(),
        ]
        .concat();
        pass(&output[..], Arc::clone(&limit)).await;
        assert_eq!(limit.lock().unwrap().printed, 4);
    }
}
