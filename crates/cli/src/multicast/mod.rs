//! `layercast send`, `layercast receive` and `layercast emulate-receivers`: files to many receivers.

pub mod args;
pub mod emulate;
mod estimate;
mod line;
pub mod receive;
pub mod send;
mod summary;

use std::io::{IsTerminal, stderr};
use std::net::SocketAddrV4;
use std::path::Path;

use indicatif::ProgressBar;
use layercast_wire::multicast::Reason;
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::line_out::LineOut;
use crate::metrics::Metrics;
use crate::output::Lines;
use crate::progress::style;
use crate::secret;
use crate::table::cut;

/// The key in a file: whatever its content, both sides make the same of it.
fn key(file: Option<&Path>) -> Result<Option<[u8; 32]>, Failure> {
    let Some(file) = file else {
        return Ok(None);
    };
    let content = secret::read(file)?;
    if content.len() < 16 {
        let failure = Failure::new(format!("{}: a key has at least 16 bytes", file.display()));
        return Err(failure.hint("head -c 32 /dev/urandom > FILE"));
    }
    Ok(Some(blake3::derive_key("layercast receipts", &content)))
}

/// The second group of a sender takes traffic off the first one, and so is another one.
fn check_side(group: Option<SocketAddrV4>, side: Option<SocketAddrV4>) -> Outcome {
    match side.filter(|_| side == group) {
        Some(side) => Err(Failure::Usage(format!(
            "--side {side} is the --group itself: name another group or port"
        ))),
        None => Ok(()),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A digest in hexadecimal; none: the content was not announced.
fn digest(bytes: &[u8; 32]) -> Option<String> {
    (*bytes != [0; 32]).then(|| hex(bytes))
}

/// Why, in words.
fn words(reason: Reason) -> &'static str {
    match reason {
        Reason::Normal => "it ended",
        Reason::User => "stopped by its user",
        Reason::Integrity => "receivers that --enough or --key-members requires are missing",
        Reason::Slow => "too slow for the others",
        Reason::Silent => "it does not answer",
        Reason::Corrupt => "the digest was wrong twice",
        Reason::NoRoom => "no room there: its disk is full, or its receive --most is smaller",
        Reason::Unsupported => "it does not support the size of the file, its code, or the terms",
        Reason::Rounds => "more passes than allowed",
        Reason::Late => "it came too late",
        Reason::Mtu => {
            "packets of this size do not arrive, shorter ones do: the MTU of the path is smaller, send with a smaller --packet"
        }
        Reason::Changed => "it changed while it was being sent",
        Reason::Denied => {
            "it may not write to its folder (permissions, or a read-only file system)"
        }
        Reason::Storage => "its folder or disk refuses it: the output of the receiver says why",
        Reason::InUse => {
            "another receiver has its name, or a copy of its folder: give it another --name, or delete .layercast-receiver in the copy"
        }
    }
}

/// Octets in words.
fn octets(count: u64) -> String {
    let units = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let fits = units.iter().find(|(_, factor)| count as f64 >= *factor);
    match fits {
        Some((unit, factor)) => format!("{:.2} {unit}", count as f64 / factor),
        None => format!("{count} B"),
    }
}

/// Characters of a name in front of a bar.
const NAME: usize = 24;

/// A bar whose message gives way on a narrow terminal: what matters most is to be at its beginning.
fn bar() -> ProgressBar {
    ProgressBar::new(1).with_style(style(
        "{prefix} [{bar:12}] {percent:>3}% {eta} left, {wide_msg}",
    ))
}

/// Says what happens: JSON lines, a bar, or plain lines where there is no terminal.
struct Say {
    json: bool,
    lines: LineOut,
    bar: Option<ProgressBar>,
    metrics: Metrics,
    /// The part of the metrics that its progress is.
    part: &'static str,
}

impl Say {
    /// Progress goes to `metrics` too, as `part`.
    fn new(json: bool, metrics: Metrics, part: &'static str) -> Say {
        let bar = (!json && stderr().is_terminal()).then(bar);
        let lines = LineOut::new(match json {
            true => Lines::Stdout,
            false => Lines::Stderr,
        });
        Say {
            json,
            lines,
            bar,
            metrics,
            part,
        }
    }

    /// Something happened.
    fn event(&self, line: &impl Serialize, human: &str) -> Outcome {
        match self.json {
            true => self.lines.json(line),
            false => self.text(human),
        }
    }

    /// Prints a line for people.
    fn text(&self, human: &str) -> Outcome {
        match &self.bar {
            Some(bar) => {
                bar.suspend(|| eprintln!("{human}"));
                Ok(())
            }
            None => self.lines.text(human),
        }
    }

    /// Shows the progress.
    fn progress(
        &self,
        line: &impl Serialize,
        name: &str,
        done: (u64, u64),
        human: String,
    ) -> Outcome {
        self.metrics.line_of(self.part, line);
        if self.json {
            return self.lines.json(line);
        }
        if let Some(bar) = &self.bar {
            bar.set_prefix(cut(name, NAME));
            bar.set_length(done.1.max(1));
            bar.set_position(done.0);
            bar.set_message(human);
        }
        Ok(())
    }

    /// A new bar for the next phase.
    fn restart(&self) {
        if let Some(bar) = &self.bar {
            bar.reset();
        }
    }

    /// Waits for a reader that has stalled, for some seconds.
    fn close(&self) -> Outcome {
        self.lines.end()
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::{ProgressDrawTarget, TermLike};

    use super::*;

    #[test]
    fn a_second_group_is_another_one() {
        let at = |port| Some(SocketAddrV4::new([239, 1, 2, 3].into(), port));
        assert!(check_side(at(1), at(2)).is_ok() && check_side(at(1), None).is_ok());
        let failure = check_side(at(1), at(1)).expect_err("the same");
        assert_eq!(failure.code(), 2);
        assert!(failure.to_string().contains("--side 239.1.2.3:1"));
    }

    /// A terminal of 80 columns that keeps what is written.
    #[derive(Clone, Default, Debug)]
    struct Narrow(Arc<Mutex<Vec<String>>>);

    impl TermLike for Narrow {
        fn width(&self) -> u16 {
            80
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, line: &str) -> io::Result<()> {
            self.write_str(line)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().expect("no test panics").push(text.to_owned());
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_progress_fits_a_terminal() {
        let terminal = Narrow::default();
        let bar = bar();
        bar.set_draw_target(ProgressDrawTarget::term_like(Box::new(terminal.clone())));
        let say = Say {
            json: false,
            lines: LineOut::new(Lines::Stderr),
            bar: Some(bar),
            metrics: Metrics::default(),
            part: "",
        };
        let human = "1067.3 Mbit/s, 10 of 60 receivers have it, repair 12, file 100 of 20000";
        let name = "a-very-long-name-of-a-file-that-is-sent-to-many.mp4";
        say.progress(&"", name, (40, 100), human.to_owned())
            .expect("it is shown");
        say.bar.as_ref().expect("there is one").tick();
        let written = terminal.0.lock().expect("no test panics").join("\n");
        let shown: Vec<&str> = written.lines().filter(|it| it.contains('[')).collect();
        assert!(
            shown.iter().any(|it| it.contains("1067.3 Mbit/s")),
            "{shown:?}"
        );
        for line in shown {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
