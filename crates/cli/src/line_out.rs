//! Lines on standard output or standard error whose reader may stall: the command does not wait for it.

use std::cell::OnceCell;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::output::{Lines, complain, count};

/// Lines that wait for a slow reader; more are left out and counted.
const WAITING: usize = 1_024;
/// Time that a reader which has stalled gets at the end of the command.
const READ_WITHIN: Duration = Duration::from_secs(2);
/// Pause between two attempts to hand over the last line.
const AGAIN: Duration = Duration::from_millis(10);

/// Writes lines on a thread of its own.
pub struct LineOut {
    to: Lines,
    state: Mutex<State>,
    left_out: AtomicU64,
}

enum State {
    Open(Writer),
    /// The system refused a thread: lines are written directly.
    Direct,
    Closed,
}

struct Writer {
    lines: SyncSender<String>,
    ended: Receiver<io::Result<()>>,
    /// Why the thread has ended, once that was asked.
    cause: OnceCell<Option<io::Error>>,
}

impl LineOut {
    /// Lines to `to`.
    pub fn new(to: Lines) -> LineOut {
        LineOut::writing(to, move |text| to.text(text))
    }

    fn writing(
        to: Lines,
        mut write: impl FnMut(&str) -> io::Result<()> + Send + 'static,
    ) -> LineOut {
        let (lines, queue) = sync_channel::<String>(WAITING);
        let (end, ended) = sync_channel(1);
        let thread = thread::Builder::new().name("lines".into());
        let spawned = thread.spawn(move || {
            let written = queue.into_iter().try_for_each(|line| write(&line));
            let _ = end.send(written);
        });
        LineOut {
            to,
            state: Mutex::new(match spawned {
                Ok(_) => State::Open(Writer {
                    lines,
                    ended,
                    cause: OnceCell::new(),
                }),
                Err(_) => State::Direct,
            }),
            left_out: AtomicU64::new(0),
        }
    }

    /// Writes one value as one line of JSON.
    pub fn json(&self, value: &impl Serialize) -> Outcome {
        self.text(&serde_json::to_string(value).map_err(Failure::new)?)
    }

    /// Writes a text as one line, or leaves it out if the reader has stalled.
    ///
    /// # Errors
    /// The reader has closed the output, or it cannot be written.
    pub fn text(&self, text: &str) -> Outcome {
        match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Open(writer) => match writer.lines.try_send(format!("{text}\n")) {
                Ok(()) => Ok(()),
                Err(TrySendError::Full(_)) => {
                    self.left_out.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                }
                Err(TrySendError::Disconnected(_)) => Err(writer.failure(self.to)),
            },
            State::Direct => self.direct(&format!("{text}\n")),
            State::Closed => Ok(()),
        }
    }

    /// Writes the last value, and waits for the reader, but no longer than [`READ_WITHIN`].
    ///
    /// # Errors
    /// As [`LineOut::text`], or the reader has stalled.
    pub fn end_with_json(&self, value: &impl Serialize) -> Outcome {
        self.end_with(&serde_json::to_string(value).map_err(Failure::new)?)
    }

    /// Writes the last text, and waits for the reader, but no longer than [`READ_WITHIN`].
    ///
    /// # Errors
    /// As [`LineOut::text`], or the reader has stalled.
    pub fn end_with(&self, text: &str) -> Outcome {
        self.close(Some(format!("{text}\n")))
    }

    /// Waits for the reader, but no longer than [`READ_WITHIN`].
    ///
    /// # Errors
    /// As [`LineOut::text`], or the reader has stalled.
    pub fn end(&self) -> Outcome {
        self.close(None)
    }

    fn close(&self, last: Option<String>) -> Outcome {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = match std::mem::replace(&mut *state, State::Closed) {
            State::Open(writer) => writer,
            State::Direct => {
                return last.map_or(Ok(()), |text| self.direct(&text));
            }
            State::Closed => return Ok(()),
        };
        let until = Instant::now() + READ_WITHIN;
        let mut waiting = last;
        while let Some(text) = waiting.take() {
            match writer.lines.try_send(text) {
                Ok(()) => {}
                Err(TrySendError::Disconnected(_)) => return Err(writer.failure(self.to)),
                Err(TrySendError::Full(_)) if Instant::now() >= until => {
                    self.left_out.fetch_add(1, Ordering::Relaxed);
                    return Err(self.unread());
                }
                Err(TrySendError::Full(text)) => {
                    waiting = Some(text);
                    thread::sleep(AGAIN);
                }
            }
        }
        if writer.cause.get().is_some() {
            return Err(writer.failure(self.to));
        }
        let Writer { lines, ended, .. } = writer;
        drop(lines);
        match ended.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(written) => written.map_err(|error| self.to.failure(&error))?,
            Err(_) => return Err(self.unread()),
        }
        let left_out = self.left_out.load(Ordering::Relaxed);
        if left_out > 0 {
            complain(&format!(
                "warning: {} left out, since {} was not read for a time",
                count(left_out, "line"),
                self.to.name()
            ));
        }
        Ok(())
    }

    fn direct(&self, text: &str) -> Outcome {
        let written = self.to.text(text);
        written.map_err(|error| self.to.failure(&error))
    }

    /// The reader does not read.
    fn unread(&self) -> Failure {
        let left_out = match self.left_out.load(Ordering::Relaxed) {
            0 => String::new(),
            left_out => format!(", and {} left out", count(left_out, "line")),
        };
        let name = self.to.name();
        Failure::new(format!(
            "the last lines could not be written: the program that reads {name} has stalled{left_out}"
        ))
        .hint(format!("let that program read {name} to its end, or redirect it to a file"))
    }
}

impl Writer {
    /// Why the thread has ended.
    fn failure(&self, to: Lines) -> Failure {
        // It takes no more lines, so the result is there or on its way.
        match self.cause.get_or_init(|| self.ended.recv().ok()?.err()) {
            Some(error) => to.failure(error),
            None => Failure::BrokenPipe,
        }
    }
}

impl Drop for LineOut {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        // The caller has the failure already.
        if matches!(state, State::Open(writer) if writer.cause.get().is_some()) {
            return;
        }
        if let Err(failure @ Failure::Failed { .. }) = self.end() {
            complain(&failure.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_full_device_is_the_cause_however_often_it_is_asked() {
        let out = LineOut::writing(Lines::Stdout, |_| Err(io::ErrorKind::StorageFull.into()));
        let mut failures = Vec::new();
        while failures.len() < 3 {
            failures.extend(out.text("a line").err());
        }
        failures.extend(out.end().err());
        assert_eq!(failures.len(), 4);
        for failure in failures {
            assert!(matches!(failure, Failure::Failed { .. }), "{failure:?}");
        }
    }

    #[test]
    fn a_stalled_reader_costs_lines_and_at_most_two_seconds() {
        let (go, stalled) = channel::<()>();
        let out = LineOut::writing(Lines::Stdout, move |_| {
            let _ = stalled.recv();
            Ok(())
        });
        let begun = Instant::now();
        for n in 0..2 * WAITING {
            out.json(&n).unwrap();
        }
        assert!(begun.elapsed() < Duration::from_secs(1));
        let failure = out.end_with_json(&"summary").unwrap_err();
        assert!(begun.elapsed() < READ_WITHIN + Duration::from_secs(2));
        assert_eq!(failure.code(), 1);
        let said = failure.to_string();
        assert!(
            said.contains("standard output has stalled") && said.contains("left out"),
            "{said}"
        );
        assert!(out.text("more").is_ok(), "after the end nothing is written");
        drop(go);
    }

    #[test]
    fn everything_is_written_in_order_for_a_reader_that_reads() {
        let written = Arc::new(Mutex::new(String::new()));
        let seen = Arc::clone(&written);
        let out = LineOut::writing(Lines::Stderr, move |text| {
            seen.lock().unwrap().push_str(text);
            Ok(())
        });
        out.json(&1).unwrap();
        out.text("two").unwrap();
        out.end_with("three").unwrap();
        assert_eq!(*written.lock().unwrap(), "1\ntwo\nthree\n");
    }

    #[test]
    fn a_reader_that_left_is_told() {
        let out = LineOut::writing(Lines::Stdout, |_| Err(io::ErrorKind::BrokenPipe.into()));
        let mut result = Ok(());
        for _ in 0..100 {
            result = out.text("line");
            if result.is_err() {
                break;
            }
            thread::sleep(AGAIN);
        }
        assert!(matches!(result, Err(Failure::BrokenPipe)), "{result:?}");
    }
}
