//! How a running node tells what it does: JSON lines, one moving line, or plain lines.

use std::io::{IsTerminal, stderr, stdout};
use std::net::SocketAddr;

use indicatif::ProgressBar;
use layercast_protect::JoinUrl;
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::line::Line;
use crate::output::{Lines, print};
use crate::progress::style;

/// Tells it.
pub enum Teller {
    /// One JSON object a line.
    Json(Lines),
    /// A terminal: events as lines, and one line that moves, on standard error.
    Terminal(ProgressBar),
    /// Events as lines on standard error.
    Plain,
}

impl Teller {
    /// A reporter; JSON is written to `lines`.
    pub fn new(json: bool, lines: Lines) -> Teller {
        if json {
            return Teller::Json(lines);
        }
        if !stderr().is_terminal() {
            return Teller::Plain;
        }
        Teller::Terminal(ProgressBar::new_spinner().with_style(style("{msg}")))
    }

    /// The node runs.
    pub fn ready(&self, node: &str, address: Option<SocketAddr>, human: &str) -> Outcome {
        let line = Line::Ready {
            node: node.to_owned(),
            address,
            url: None,
        };
        self.tell(&line, human)
    }

    /// The node runs at `address` and is called by `url`, which goes to standard output, too, if that is a file or a pipe:
    /// `layercast join @FILE` reads it there.
    pub fn callable(&self, node: &str, address: SocketAddr, url: &JoinUrl, human: &str) -> Outcome {
        let line = Line::Ready {
            node: node.to_owned(),
            address: Some(address),
            url: Some(url.to_string()),
        };
        self.tell(&line, human)?;
        match self {
            // If the pipe is closed, the URL is not needed; the node serves all the same.
            Teller::Terminal(_) | Teller::Plain if !stdout().is_terminal() => {
                let _ = print(&format!("{url}\n"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Something happened at second `t_s`.
    pub fn event(&self, t_s: f64, text: &str) -> Outcome {
        let line = Line::Event {
            t_s,
            text: text.to_owned(),
        };
        self.tell(&line, &format!("{t_s:8.2} s  {text}"))
    }

    /// How things stand; in words for a terminal.
    pub fn status(&self, line: &Line, human: impl FnOnce() -> String) -> Outcome {
        match self {
            Teller::Json(lines) => lines.write(line),
            Teller::Terminal(bar) => {
                bar.set_message(human());
                Ok(())
            }
            Teller::Plain => Ok(()),
        }
    }

    /// Everything that was counted; in words for people.
    pub fn summary(&self, summary: &impl Serialize, human: &str) -> Outcome {
        if let Teller::Terminal(bar) = self {
            bar.finish_and_clear();
        }
        let value = serde_json::to_value(summary).map_err(Failure::new)?;
        self.tell(&Line::Summary(value), human)
    }

    fn tell(&self, line: &Line, human: &str) -> Outcome {
        match self {
            Teller::Json(lines) => return lines.write(line),
            Teller::Terminal(bar) => bar.println(human),
            Teller::Plain => eprintln!("{human}"),
        }
        Ok(())
    }
}
