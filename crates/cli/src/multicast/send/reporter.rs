//! The messages of `layercast send` while it runs.

use serde_json::json;

use super::*;

/// Prints the events of a transfer.
pub(super) struct Reporter {
    pub(super) say: Say,
    pub(super) names: BTreeMap<MemberId, String>,
    /// The last report, and the amount sent then.
    pub(super) last: (Instant, u64),
    /// Files that are over, and all.
    pub(super) done: (u32, u32),
    /// There are many files: what is usual of each is not printed for people.
    pub(super) is_long: bool,
}

impl Reporter {
    /// Something usual of one of perhaps many files.
    fn usual(&self, line: &SendLine, human: &str) -> Outcome {
        match self.is_long && !self.say.json {
            true => Ok(()),
            false => self.say.event(line, human),
        }
    }

    pub(super) fn event(&mut self, event: SendEvent) -> Outcome {
        match event {
            SendEvent::Reading { name, octets } => {
                let line = SendLine::Reading {
                    file: &name,
                    octets: octets.0,
                    of: octets.1,
                };
                match (octets.0, octets.1 > LONG_TO_READ) {
                    (0, _) => {
                        self.say.restart();
                        self.usual(&line, &format!("{name}: reading it for its digest"))
                    }
                    (_, true) => self.say.progress(&line, &name, octets, "reading".into()),
                    _ => Ok(()),
                }
            }
            SendEvent::Opened {
                name,
                size,
                receivers,
            } => {
                self.say.restart();
                self.last = (Instant::now(), 0);
                self.usual(
                    &SendLine::Opened {
                        file: &name,
                        size,
                        receivers,
                    },
                    &match receivers {
                        0 => format!("{name}: no receiver takes it"),
                        all => format!("{name}: {} to {}", octets(size), count(all, "receiver")),
                    },
                )
            }
            SendEvent::Progress(progress) => self.progress(&progress),
            SendEvent::Receiver(it) => {
                let fate = match it.outcome {
                    Fate::Pending => "takes part".to_owned(),
                    Fate::Delivered => "has it".to_owned(),
                    Fate::Failed(reason) => format!("failed: {}", words(reason)),
                    Fate::NeverConnected => "never answered".to_owned(),
                };
                let line = SendLine::Receiver(summary::receiver(&self.names, &it));
                let text = format!("  {} {fate}", summary::name(&self.names, &it));
                match it.outcome {
                    Fate::Failed(_) | Fate::NeverConnected => self.say.event(&line, &text),
                    _ => self.usual(&line, &text),
                }
            }
            SendEvent::NameInUse {
                member,
                holder,
                refused,
            } => {
                let name = self.names.get(&member);
                self.say.event(
                    &SendLine::NameInUse {
                        name: name.map(String::as_str),
                        member: hex(&member.0.to_be_bytes()),
                        holder,
                        refused,
                    },
                    &format!(
                        "  {refused} is refused: the receiver at {holder} has the same name or a copy of the same folder (receive --name)"
                    ),
                )
            }
            SendEvent::OtherKey(address) => self.say.event(
                &SendLine::OtherKey { address },
                &format!("  {address} says that it has another key, or none: both sides need the same --key FILE"),
            ),
            SendEvent::Withheld(file) => {
                self.done.0 += 1;
                self.measure();
                self.say.event(
                    &SendLine::Withheld(WithheldFile {
                        file: &file.name,
                        size: file.size,
                        why: &file.why,
                    }),
                    &format!("{}: not sent: {}", file.name, file.why),
                )
            }
            SendEvent::Done(file) => {
                // A file whose content failed is reported as withheld.
                self.done.0 += u32::from(!matches!(file.failure, Some(Unsent::Content(_))));
                self.measure();
                Ok(())
            }
        }
    }

    /// How many files are over, for `--metrics`.
    pub(super) fn measure(&self) {
        let (done, of) = self.done;
        let files = json!({ "done": done, "of": of });
        self.say.metrics.keep("send", "files", files);
    }

    /// Bits per second since it was asked last.
    fn rate(&mut self, octets: u64) -> f64 {
        let now = Instant::now();
        let seconds = now.duration_since(self.last.0).as_secs_f64().max(1e-3);
        let rate = octets.saturating_sub(self.last.1) as f64 * 8.0 / seconds;
        self.last = (now, octets);
        rate
    }

    fn progress(&mut self, it: &SendProgress) -> Outcome {
        let rate = self.rate(it.octets);
        let pass = match it.pass {
            0 => "first pass".to_owned(),
            pass => format!("repair {pass}"),
        };
        let file = match self.done.1 {
            0 | 1 => String::new(),
            all => format!(", file {} of {all}", (self.done.0 + 1).min(all)),
        };
        let have = match it.receivers {
            (_, 0) => "no receiver yet".to_owned(),
            (have, all) => format!("{have} of {} have it", count(all, "receiver")),
        };
        let human = format!("{:.1} Mbit/s, {have}, {pass}{file}", rate / 1e6);
        let line = SendLine::Progress {
            pass: it.pass,
            packets: it.packets.0,
            of: it.packets.1,
            octets: it.octets,
            rate_bps: rate as u64,
            delivered: it.receivers.0,
            receivers: it.receivers.1,
        };
        self.say.progress(&line, "", it.packets, human)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_each_file_counts_from_its_own_beginning() {
        let mut reporter = Reporter {
            say: Say::new(false, Metrics::default(), ""),
            names: BTreeMap::new(),
            last: (Instant::now(), 1_000_000),
            done: (0, 2),
            is_long: false,
        };
        reporter
            .event(SendEvent::Opened {
                name: "second".into(),
                size: 1,
                receivers: 1,
            })
            .unwrap();
        assert!(reporter.rate(100_000) > 0.0);
    }
}
