//! The messages of a running node: JSON lines, one line that is rewritten, or plain lines.

use std::io::{IsTerminal, stderr, stdout};
use std::net::SocketAddr;

use indicatif::ProgressBar;
use layercast_protect::JoinUrl;
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::line::Line;
use crate::line_out::LineOut;
use crate::metrics::Metrics;
use crate::output::{Lines, complain, print};
use crate::progress::style;

/// Reports events of a running node.
pub struct Reporter {
    to: To,
    metrics: Metrics,
}

/// Where events go.
enum To {
    /// One JSON object a line.
    Json(LineOut),
    /// A terminal: events as lines, and one line that moves, on standard error.
    Terminal(ProgressBar),
    /// Events as lines on standard error.
    Plain(LineOut),
}

impl Reporter {
    /// A reporter; JSON is written to `lines`, and each status to `metrics` too.
    pub fn new(json: bool, lines: Lines, metrics: Metrics) -> Reporter {
        let to = if json {
            To::Json(LineOut::new(lines))
        } else if !stderr().is_terminal() {
            To::Plain(LineOut::new(Lines::Stderr))
        } else {
            To::Terminal(ProgressBar::new_spinner().with_style(style("{msg}")))
        };
        Reporter { to, metrics }
    }

    /// Whether it prints JSON.
    pub fn is_json(&self) -> bool {
        matches!(self.to, To::Json(_))
    }

    /// Where values for `--metrics` go.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The node runs.
    pub fn ready(&self, node: &str, address: Option<SocketAddr>, human: &str) -> Outcome {
        let line = Line::Ready {
            node: node.to_owned(),
            address,
            url: None,
        };
        self.line(&line, human)
    }

    /// The node runs at `address` and is called by `url`, which goes to standard output, too, if that is a file or a pipe:
    /// `layercast join @FILE` reads it there.
    pub fn callable(&self, node: &str, address: SocketAddr, url: &JoinUrl, human: &str) -> Outcome {
        let line = Line::Ready {
            node: node.to_owned(),
            address: Some(address),
            url: Some(url.to_string()),
        };
        self.line(&line, human)?;
        match &self.to {
            // If the pipe is closed, the URL is not needed. The node serves in any case.
            To::Terminal(_) | To::Plain(_) if !stdout().is_terminal() => {
                if let Err(failure @ Failure::Failed { .. }) = print(&format!("{url}\n")) {
                    complain(&format!("{failure}\n  the node runs, and its URL is {url}"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A line for programs alone.
    pub fn json(&self, line: &Line) -> Outcome {
        match &self.to {
            To::Json(lines) => lines.json(line),
            To::Terminal(_) | To::Plain(_) => Ok(()),
        }
    }

    /// Something happened at second `t_s`.
    pub fn event(&self, t_s: f64, text: &str) -> Outcome {
        let line = Line::Event {
            t_s,
            text: text.to_owned(),
        };
        self.line(&line, &format!("{t_s:8.2} s  {text}"))
    }

    /// How things stand; in words for a terminal.
    pub fn status(&self, line: &Line, human: impl FnOnce() -> String) -> Outcome {
        self.metrics.line(line);
        match &self.to {
            To::Json(lines) => lines.json(line),
            To::Terminal(bar) => {
                bar.set_message(human());
                Ok(())
            }
            To::Plain(_) => Ok(()),
        }
    }

    /// Everything that was counted, after which nothing more is reported; in words for people.
    ///
    /// # Errors
    /// The output cannot be written, or its reader has stalled for some seconds.
    pub fn summary(&self, summary: &impl Serialize, human: &str) -> Outcome {
        let value = serde_json::to_value(summary).map_err(Failure::new)?;
        match &self.to {
            To::Json(lines) => lines.end_with_json(&Line::Summary(value)),
            To::Terminal(bar) => {
                bar.finish_and_clear();
                bar.println(human);
                Ok(())
            }
            To::Plain(lines) => lines.end_with(human),
        }
    }

    /// A line of JSON, or in words.
    pub fn line(&self, line: &Line, human: &str) -> Outcome {
        match &self.to {
            To::Json(lines) => lines.json(line),
            To::Terminal(bar) => {
                bar.println(human);
                Ok(())
            }
            To::Plain(lines) => lines.text(human),
        }
    }
}
