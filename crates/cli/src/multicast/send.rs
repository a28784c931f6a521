//! `layercast send`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

use layercast_core::{Rate, Span};
use layercast_multicast::{
    Completion, Failure as Failed, Members, Outcome as Fate, RateControl, Repair, SenderConfig,
    Weak,
};
use layercast_net::{
    Destination, ReceiverReport, SendConfig, SendEvent, SendProgress, SentFile, send_files,
};
use layercast_wire::multicast::MemberId;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::args::{PORT, Profile, Send, Speed};
use super::{Say, hex, key, member, octets, words};
use crate::failure::{Failure, Outcome};
use crate::node::{Stop, Trace, runtime};
use crate::output::Table;

/// How long answers to an announcement are waited for before it is repeated.
const REPEAT: Span = Span::from_ms(250);
/// Packets of a block, and parities that can be made of it. Large blocks need fewer parities for the worst of many
/// receivers; a file has time for them.
const BLOCK: (u16, u32) = (256, 768);
/// Receivers of a session at most.
const MOST: u32 = 65_536;

/// Runs the command.
pub fn run(args: &Send) -> Outcome {
    runtime()?.block_on(async {
        let config = config(args).await?;
        let mut trace = Trace::open(args.trace.as_deref(), "send")?;
        let stop = Stop::listen()?;
        let (told, mut events) = mpsc::channel(1_024);
        let names = args.members.iter().map(|name| (member(name), name.clone()));
        let teller = Teller {
            say: Say::new(args.json),
            names: names.collect(),
            last: (Instant::now(), 0),
        };
        let telling = tokio::spawn(async move {
            let mut teller = teller;
            while let Some(event) = events.recv().await {
                // A reader that left sees no more; the files go on.
                let _ = teller.event(event);
            }
            teller
        });
        let sent = send_files(config, stop.token.clone(), told, trace.observer()).await;
        trace.finish()?;
        let teller = telling.await.map_err(Failure::new)?;
        teller.say.end();
        let sent = sent.map_err(Failure::new)?;
        teller.summary(&sent)?;
        stop.outcome()?;
        judge(args, &sent)
    })
}

async fn config(args: &Send) -> Result<SendConfig, Failure> {
    let to = match args.group {
        Some(group) => Destination::Group {
            group,
            interface: args.interface,
            hops: args.ttl,
            side: args.side,
        },
        None => Destination::Hosts(resolve(&args.to).await?),
    };
    let start = match args.rate {
        Speed::Fixed(rate) => rate,
        Speed::Auto | Speed::Fair => Rate::from_bps(20_000_000),
    };
    let mut machine = match args.profile {
        Profile::Layercast => SenderConfig::layercast(start),
        Profile::Rmtp => SenderConfig::rmtp(),
        Profile::Frm => SenderConfig::frm(),
    };
    machine.packet_size = args.packet;
    if let Weak::Eject { min_release, .. } = &mut machine.weak {
        // At a low rate nobody is as fast as the paper's.
        *min_release = (*min_release).min(start.as_bps() / 8 * 9 / 10);
    }
    let followed = || {
        let (least, most) = (1_000_000, 10_000_000_000);
        SenderConfig::monitor(start, Rate::from_bps(least), Rate::from_bps(most))
    };
    machine.rate = match args.rate {
        Speed::Fixed(rate) => RateControl::Fixed(rate),
        // Its window and what it hears of the slowest are all the rate control that FRM has.
        Speed::Auto | Speed::Fair if args.profile == Profile::Frm => RateControl::Free,
        Speed::Auto => RateControl::Monitor(followed()),
        Speed::Fair => RateControl::Friendly(followed()),
    };
    if let Repair::Parity { proactive, most } = &mut machine.repair {
        *proactive = args.redundancy;
        (machine.block, *most) = BLOCK;
    } else if args.redundancy > 0 {
        return Err(Failure::Usage(
            "--redundancy is for --profile layercast".into(),
        ));
    }
    machine.opening.wait = REPEAT;
    let tries = args.wait.as_ms().div_ceil(REPEAT.as_ms());
    machine.opening.tries = u32::try_from(tries).unwrap_or(u32::MAX).max(1);
    // One that fails does not take it from the others.
    machine.completion = args.enough.clone().unwrap_or(Completion::AtLeast(0));
    machine.receipts = key(args.key.as_deref())?;
    let members = match args.members.is_empty() {
        false => Members::Listed(args.members.iter().map(|it| (member(it), None)).collect()),
        true => Members::Anyone {
            expect: args.receivers.or(match &to {
                Destination::Hosts(hosts) => u32::try_from(hosts.len()).ok(),
                Destination::Group { .. } => None,
            }),
            most: MOST,
            late: true,
        },
    };
    Ok(SendConfig {
        files: args.files.clone(),
        to,
        machine,
        members,
    })
}

async fn resolve(hosts: &[String]) -> Result<Vec<SocketAddr>, Failure> {
    let mut found: Vec<SocketAddr> = Vec::new();
    for host in hosts {
        let fail = |why: &str| {
            let failure = Failure::new(format!("cannot find {host}: {why}"));
            failure.hint("check the name of the host")
        };
        let with_port = match host.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => host.clone(),
            _ => format!("{host}:{PORT}"),
        };
        let mut addresses = tokio::net::lookup_host(&with_port)
            .await
            .map_err(|error| fail(&error.to_string()))?;
        let address = addresses.next().ok_or_else(|| fail("it has no address"))?;
        if found.contains(&address) {
            return Err(Failure::Usage(format!("{host} is named twice")));
        }
        found.push(address);
    }
    if found.iter().any(SocketAddr::is_ipv6) && found.iter().any(SocketAddr::is_ipv4) {
        return Err(Failure::Usage(
            "IPv4 and IPv6 receivers take two calls, one for each".into(),
        ));
    }
    Ok(found)
}

/// The exit code.
fn judge(args: &Send, sent: &[SentFile]) -> Outcome {
    let delivered = |file: &SentFile| {
        let done = file.receivers.iter();
        done.filter(|it| it.outcome == Fate::Delivered).count()
    };
    let whole = |file: &SentFile| {
        let all = file.receivers.len() + file.unreached.len();
        let wanted = args.receivers.unwrap_or(0) as usize;
        let is_met = delivered(file) == all && delivered(file) >= wanted;
        file.failure.is_none() && (args.enough.is_some() || is_met)
    };
    let complete = sent.len() == args.files.len();
    match sent {
        _ if complete && sent.iter().all(|file| whole(file) && delivered(file) > 0) => Ok(()),
        _ if sent.iter().any(|file| delivered(file) > 0) => Err(Failure::Partial),
        [.., last] => match &last.failure {
            Some(failure @ Failed::NoReceivers) if last.other_key.is_empty() => Err(Failure::new(
                failure,
            )
            .hint("do receivers run, with the same --group, or behind the addresses of --to?")),
            Some(failure @ Failed::NoReceivers) => Err(Failure::new(failure)
                .hint("receivers have another key, or none: both sides need the same --key FILE")),
            Some(failure) => Err(Failure::new(failure)),
            None => Err(Failure::Unsatisfied),
        },
        [] => Err(Failure::Unsatisfied),
    }
}

/// Tells what happens.
struct Teller {
    say: Say,
    names: BTreeMap<MemberId, String>,
    /// When it told the last time, and what was sent then.
    last: (Instant, u64),
}

impl Teller {
    fn name(&self, it: &ReceiverReport) -> String {
        match (self.names.get(&it.member), it.address) {
            (Some(name), _) => name.clone(),
            (None, Some(address)) => address.to_string(),
            (None, None) => hex(&it.member.0.to_be_bytes()),
        }
    }

    fn event(&mut self, event: SendEvent) -> Outcome {
        match event {
            SendEvent::Reading(name) => {
                self.say.restart();
                self.say.event(
                    json!({"report": "reading", "file": name}),
                    &format!("{name}: reading it for its digest, then announcing it"),
                )
            }
            SendEvent::Opened {
                name,
                size,
                receivers,
            } => {
                self.say.restart();
                self.last = (Instant::now(), 0);
                self.say.event(
                    json!({"report": "opened", "file": name, "size": size, "receivers": receivers}),
                    &format!("{name}: {} to {receivers} receivers", octets(size)),
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
                let mut json = self.receiver(&it);
                json["report"] = "receiver".into();
                self.say
                    .event(json, &format!("  {} {fate}", self.name(&it)))
            }
            SendEvent::NameInUse {
                member,
                holder,
                refused,
            } => {
                let name = self.names.get(&member);
                self.say.event(
                    json!({
                        "report": "name_in_use", "name": name,
                        "member": hex(&member.0.to_be_bytes()), "holder": holder, "refused": refused,
                    }),
                    &format!(
                        "  {refused} is refused: the receiver at {holder} has the same name or a copy of the same folder (receive --name)"
                    ),
                )
            }
            SendEvent::OtherKey(address) => self.say.event(
                json!({"report": "other_key", "address": address}),
                &format!("  {address} says that it has another key, or none: both sides need the same --key FILE"),
            ),
            SendEvent::Done(_) => Ok(()),
        }
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
        let human = format!(
            "{pass}, {:.1} Mbit/s, {} of {} receivers have it",
            rate / 1e6,
            it.receivers.0,
            it.receivers.1
        );
        let json = json!({
            "report": "progress", "pass": it.pass, "packets": it.packets.0, "of": it.packets.1,
            "octets": it.octets, "rate_bps": rate as u64, "delivered": it.receivers.0,
            "receivers": it.receivers.1,
        });
        self.say.progress(json, "", it.packets, human)
    }

    fn receiver(&self, it: &ReceiverReport) -> Value {
        let (outcome, why) = match it.outcome {
            Fate::Pending => ("pending", None),
            Fate::Delivered => ("delivered", None),
            Fate::Failed(reason) => ("failed", Some(words(reason))),
            Fate::NeverConnected => ("never answered", None),
        };
        json!({
            "name": self.names.get(&it.member), "member": hex(&it.member.0.to_be_bytes()),
            "address": it.address, "outcome": outcome, "why": why, "repairs": it.repairs,
            "lacks": it.lacks, "loss": it.loss, "round_trip_ms": it.round_trip.as_us() as f64 / 1e3,
        })
    }

    fn summary(&self, sent: &[SentFile]) -> Outcome {
        let mut text = String::new();
        let mut files = Vec::new();
        for file in sent {
            let receivers: Vec<Value> = file.receivers.iter().map(|it| self.receiver(it)).collect();
            let seconds = file.took.as_secs_f64();
            files.push(json!({
                "file": file.name, "size": file.size, "blake3": hex(&file.digest),
                "seconds": seconds, "failure": file.failure.as_ref().map(ToString::to_string),
                "receivers": receivers, "unreached": file.unreached,
                "other_key": file.other_key, "in_use": file.in_use, "octets": file.stats.octets,
                "packets": file.stats.data, "parities": file.stats.parities,
                "again": file.stats.again, "passes": file.stats.rounds, "datagrams": file.datagrams,
                "reports": file.stats.reports, "strangers": file.stats.strangers,
                "forged": file.stats.forged, "malformed": file.malformed,
            }));
            text.push_str(&self.human(file, seconds));
        }
        let json = json!({"report": "summary", "files": files});
        self.say.event(json, text.trim_end())
    }

    fn human(&self, file: &SentFile, seconds: f64) -> String {
        let rate = file.size as f64 * 8.0 / seconds.max(1e-3) / 1e6;
        let sent = file.stats.octets as f64 / (file.size as f64).max(1.0);
        let mut text = format!(
            "{}: {} in {seconds:.1} s ({rate:.0} Mbit/s), sent {sent:.3} times, {} passes, blake3 {}\n",
            file.name,
            octets(file.size),
            file.stats.rounds,
            hex(&file.digest)
        );
        if let Some(failure) = &file.failure {
            text.push_str(&format!("  {failure}\n"));
        }
        let mut table = Table::new(&["receiver", "outcome", "bytes", "repairs", "loss"]);
        for it in &file.receivers {
            let outcome = match it.outcome {
                Fate::Pending => "given up".to_owned(),
                Fate::Delivered => "delivered".to_owned(),
                Fate::Failed(reason) => format!("failed: {}", words(reason)),
                Fate::NeverConnected => "never answered".to_owned(),
            };
            let bytes = match it.outcome {
                Fate::Delivered => file.size,
                _ => 0,
            };
            table.row([
                self.name(it),
                outcome,
                bytes.to_string(),
                it.repairs.to_string(),
                format!("{:.2} %", it.loss * 100.0),
            ]);
        }
        for host in &file.unreached {
            let none = || "0".to_owned();
            table.row([
                host.to_string(),
                "never answered".to_owned(),
                none(),
                none(),
                "-".to_owned(),
            ]);
        }
        text.push_str(&table.render());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_each_file_counts_from_its_own_beginning() {
        let mut teller = Teller {
            say: Say::new(false),
            names: BTreeMap::new(),
            last: (Instant::now(), 1_000_000),
        };
        teller
            .event(SendEvent::Opened {
                name: "second".into(),
                size: 1,
                receivers: 1,
            })
            .unwrap();
        assert!(teller.rate(100_000) > 0.0);
    }
}
