//! `layercast send`.

mod reporter;

use std::collections::BTreeMap;
use std::io::stderr;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use layercast_core::{Rate, Span};
use layercast_multicast::{
    Completion, Deadline, Failure as Unsent, Members, Outcome as Fate, RateControl, Repair,
    SenderConfig, Weak,
};
use layercast_net::{
    Destination, InputFault, Measured, ReceiverReport, SendConfig, SendEvent, SendPlan,
    SendProgress, SendReport, SentFile, TreeOptions, member_of, printable, send_plan,
};
use layercast_protect::is_host;
use layercast_wire::multicast::MemberId;
use tokio::sync::mpsc;

use self::reporter::Reporter;
use super::args::{PORT, Profile, Send, Speed};
use super::line::{SendLine, WithheldFile};
use super::summary::{self, FEW, Summary};
use super::{Say, check_side, estimate, hex, key, octets, words};
use crate::address;
use crate::failure::{Failure, Outcome};
use crate::host_port;
use crate::metrics::Metrics;
use crate::node::{Stop, runtime};
use crate::output::{are, count, terminal_width};
use crate::trace::Trace;

/// Files above this size, in octets, show the progress of reading.
const LONG_TO_READ: u64 = 64 << 20;
/// How long answers to an announcement are waited for before it is repeated.
const REPEAT: Span = Span::from_ms(250);
/// Packets of a block, and parities that can be made of it. Large blocks need fewer parities for the worst of many
/// receivers; a file has time for them.
const BLOCK: (u16, u32) = (256, 768);
/// Receivers of a session at most.
const MOST: u32 = 65_536;
/// Inputs that cannot be sent, or links that are not, that are named; the others are counted.
const MOST_FAULTS: usize = 20;
/// Events that wait to be printed.
const EVENTS: usize = 4_096;

/// Runs the command.
pub fn run(args: &Send) -> Outcome {
    let options = TreeOptions {
        follow: args.follow_links,
        rename: args.rename,
    };
    runtime()?.block_on(async {
        let config = config(args).await?;
        let plan = SendPlan::of(&args.files, options).map_err(|it| faulty(&it))?;
        let say = Say::new(args.json, Metrics::open(&args.metrics, "send")?, "send");
        tell_plan(&say, &plan)?;
        if args.dry_run {
            estimate::print(args, &config, &plan, &say)?;
            return say.close();
        }
        let mut trace = Trace::open(args.trace.as_deref(), "send")?;
        let stop = Stop::listen()?;
        let (reports, mut events) = mpsc::channel(EVENTS);
        let names = args.members.iter().chain(&args.key_members);
        let names = names.map(|name| (member_of(name), name.clone()));
        let reporter = Reporter {
            is_long: plan.files() > FEW && !args.verbose,
            say,
            names: names.collect(),
            last: (Instant::now(), 0),
            done: (0, plan.files()),
        };
        reporter.measure();
        let ring = reporter.say.metrics.monitor();
        let telling = tokio::spawn(async move {
            let mut reporter = reporter;
            while let Some(event) = events.recv().await {
                // A reader that left sees no more; the files continue.
                let _ = reporter.event(event);
            }
            reporter
        });
        let (files, folders, octets) = (plan.files(), plan.folders(), plan.octets());
        let mut observer = Measured {
            user: trace.observer(),
            ring,
        };
        let sent = send_plan(plan, config, stop.token.clone(), reports, &mut observer).await;
        let traced = trace.finish();
        let reporter = telling.await.map_err(Failure::new)?;
        reporter.say.end();
        let sent = sent.unwrap_or_else(|error| SendReport {
            files,
            folders,
            octets,
            error: Some(error),
            ..SendReport::default()
        });
        Summary::new(&reporter.names, &sent, reporter.is_long)
            .within(terminal_width(stderr()))
            .of(args.receivers.unwrap_or(0))
            .print(&reporter.say)?;
        reporter.say.close()?;
        stop.outcome()?;
        judge(args, &reporter.names, sent).and(traced)
    })
}

/// What cannot be sent, all of it.
fn faulty(faults: &[InputFault]) -> Failure {
    let line = |it: &InputFault| format!("cannot send {}: {}", printable(&it.path), it.why);
    match faults {
        [one] => Failure::new(line(one)).hint("nothing was sent"),
        all => {
            let mut lines: Vec<String> = all.iter().take(MOST_FAULTS).map(line).collect();
            if let more @ 1.. = all.len().saturating_sub(MOST_FAULTS) {
                lines.push(format!("and {more} more"));
            }
            let what = format!("{} inputs cannot be sent; nothing was sent", all.len());
            Failure::new(what).hint(lines.join("\n  "))
        }
    }
}

/// What is sent under another name, and what is not sent.
fn tell_plan(say: &Say, plan: &SendPlan) -> Outcome {
    for (path, name) in &plan.renamed {
        say.event(
            &SendLine::Renamed {
                path: printable(path),
                name,
            },
            &format!("{}: sent as {name}", printable(path)),
        )?;
    }
    let links = plan.skipped.len();
    if links > 0 && !say.json {
        let shown = plan
            .skipped
            .iter()
            .take(MOST_FAULTS)
            .map(|it| printable(it));
        let shown: Vec<String> = shown.collect();
        let more = match links.saturating_sub(MOST_FAULTS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        say.text(&format!(
            "{} {} not sent (--follow-links sends the files that they lead to): {}{more}",
            count(links as u64, "symbolic link"),
            are(links as u64),
            shown.join(", ")
        ))?;
    }
    for path in plan.skipped.iter().filter(|_| say.json) {
        let (path, why) = (printable(path), "symbolic link");
        say.event(&SendLine::Skipped { path, why }, "")?;
    }
    Ok(())
}

/// Names that are given twice, or that cannot have what is sent.
fn check_members(args: &Send) -> Result<(), Failure> {
    for (option, names) in [
        ("--members", &args.members),
        ("--key-members", &args.key_members),
    ] {
        let twice = (1..names.len()).find(|&at| names[..at].contains(&names[at]));
        if let Some(at) = twice {
            let what = format!("{option} has {} twice: name each receiver once", names[at]);
            return Err(Failure::Usage(what));
        }
    }
    let listed = args.members.len();
    if let Some(Completion::AtLeast(enough)) = args.enough
        && listed > 0
        && enough as usize > listed
    {
        return Err(Failure::Usage(format!(
            "--enough {enough} is more than --members has ({listed}): {enough} receivers can never have everything"
        )));
    }
    let stranger = |name: &&String| !args.members.is_empty() && !args.members.contains(name);
    match args.key_members.iter().find(stranger) {
        Some(name) => Err(Failure::Usage(format!(
            "--key-members has {name}, which is not in --members and so gets nothing: add it there"
        ))),
        None => Ok(()),
    }
}

async fn config(args: &Send) -> Result<SendConfig, Failure> {
    check_members(args)?;
    check_side(args.group, args.side)?;
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
        Profile::Rmtp => SenderConfig::rmtp().persistent(),
        Profile::Frm => SenderConfig::frm().persistent(),
    };
    machine.packet_size = args.packet;
    if let Weak::Eject { min_release, .. } = &mut machine.weak {
        // At a low rate no receiver is as fast as the paper's.
        let least = (*min_release).min(start.as_bps() / 8 * 9 / 10);
        *min_release = args.min_release.map_or(least, |it| it.as_bps() / 8);
    } else if args.min_release.is_some() {
        return Err(Failure::Usage("--min-release is for --profile frm".into()));
    }
    match (&mut machine.deadline, args.k) {
        (_, None) => {}
        (Deadline::Rtt { k_permille }, Some(k)) => *k_permille = (k * 1e3).round() as u32,
        _ => return Err(Failure::Usage("--k is for --profile frm".into())),
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
    if !args.key_members.is_empty() {
        let key = args.key_members.iter().map(|it| member_of(it)).collect();
        let both = (machine.completion, Completion::Key(key));
        machine.completion = Completion::Both(Box::new(both));
    }
    machine.receipts = key(args.key.as_deref())?;
    let members = match args.members.is_empty() {
        false => Members::Listed(
            args.members
                .iter()
                .map(|it| (member_of(it), None))
                .collect(),
        ),
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
        let address = match literal(host) {
            Some(address) => address,
            None => {
                let name = host.rsplit_once(':').map_or(&**host, |(name, _)| name);
                if !is_host(name) {
                    return Err(Failure::Usage(format!(
                        "--to {host}: {name:?} is neither a name nor an address (IPv6 in brackets: [2001:db8::7]:7600)"
                    )));
                }
                lookup(host).await?
            }
        };
        if let Some(problem) = host_port::no_destination(address) {
            let what = format!("--to {host} {problem}: give host and port of a receiver");
            return Err(Failure::Usage(what));
        }
        if address.ip().is_multicast() {
            let what = format!("{host} is an IP multicast group: use --group instead of --to");
            return Err(Failure::Usage(what));
        }
        if found.contains(&address) {
            return Err(Failure::Usage(format!("{host} is named twice")));
        }
        found.push(address);
    }
    if found.iter().any(SocketAddr::is_ipv6) && found.iter().any(SocketAddr::is_ipv4) {
        return Err(Failure::Usage(
            "--to names IPv4 and IPv6 receivers: send to each kind by a call of its own".into(),
        ));
    }
    Ok(found)
}

/// An address that needs no look-up: `192.0.2.1`, `192.0.2.1:7600`, `::1`, `[::1]` or `[::1]:7600`.
fn literal(host: &str) -> Option<SocketAddr> {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return Some(address);
    }
    let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let ip = bare.unwrap_or(host).parse::<IpAddr>().ok()?;
    Some(SocketAddr::new(ip, PORT))
}

async fn lookup(host: &str) -> Result<SocketAddr, Failure> {
    let fail = |why: &str| {
        let failure = Failure::new(format!("cannot find {host}: {why}"));
        failure.hint("--to takes HOST, HOST:PORT, or an address such as 192.0.2.7:7600 or [2001:db8::7]:7600")
    };
    let with_port = match host_port::split(host) {
        Ok(_) => host.to_owned(),
        Err(it) if !host.contains(':') => it.whole(host, PORT),
        Err(it) => {
            let what = format!("--to {host} {}", it.problem);
            return Err(Failure::Usage(format!("{what}: give HOST or HOST:PORT")));
        }
    };
    let found = address::first_of(&with_port).await;
    found.map_err(|why| fail(&why))
}

/// The exit code: never better than what arrived.
fn judge(args: &Send, names: &BTreeMap<MemberId, String>, report: SendReport) -> Outcome {
    let delivered = |file: &SentFile| summary::delivered(names, file).0;
    let whole = |file: &SentFile| {
        let (have, of) = summary::delivered(names, file);
        let wanted = args.receivers.unwrap_or(0) as usize;
        let is_met = have == of + file.unreached.len() && have >= wanted;
        // A refused receiver has the name of another one, or a copy of its folder.
        let is_met = is_met && file.in_use.is_empty();
        file.failure.is_none() && delivered(file) > 0 && (args.enough.is_some() || is_met)
    };
    let complete = report.sent.len() as u32 == report.files && report.withheld.is_empty();
    // Folders without a file are in the list alone.
    let list = report.manifest.iter().filter(|_| report.files == 0);
    let refuses = |it: &ReceiverReport| matches!(it.outcome, Fate::Failed(_));
    let is_listed = args.enough.is_some()
        || !report
            .manifest
            .iter()
            .any(|it| it.receivers.iter().any(refuses));
    let mut all = report.sent.iter().chain(list);
    let arrived = all.clone().any(|file| delivered(file) > 0);
    let is_empty = all.clone().next().is_none();
    if complete && is_listed && !is_empty && report.error.is_none() && all.all(whole) {
        return Ok(());
    }
    if arrived {
        return Err(Failure::Partial);
    }
    if let Some(error) = report.error {
        return Err(Failure::net(error));
    }
    let last = report.sent.last().or(report.manifest.as_ref());
    let Some(last) = last else {
        return Err(Failure::Unsatisfied);
    };
    match &last.failure {
        Some(Unsent::NoReceivers) if last.receivers.iter().any(refuses) => {
            Err(Failure::new(Unsent::Refused).hint("the table says why"))
        }
        Some(failure @ Unsent::NoReceivers) if last.other_key.is_empty() => {
            let hint = match args.group {
                Some(_) if args.interface.is_unspecified() => {
                    "do receivers run, with the same --group? Where no route leads to the group, name the interface at both \
                     ends (--interface ADDR)"
                }
                Some(_) => "do receivers run, with the same --group?",
                None => "do receivers run behind the addresses of --to?",
            };
            Err(Failure::new(failure).hint(match &report.refused {
                Some((count, why)) => {
                    format!("the system refused to send {count} of the datagrams: {why}; {hint}")
                }
                None => hint.into(),
            }))
        }
        Some(failure @ Unsent::NoReceivers) => Err(Failure::new(failure)
            .hint("receivers have another key, or none: both sides need the same --key FILE")),
        Some(failure) => Err(Failure::new(failure)),
        None => Err(Failure::Unsatisfied),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_need_no_look_up_and_have_a_port() {
        for (host, address) in [
            ("192.0.2.7", "192.0.2.7:7600"),
            ("192.0.2.7:80", "192.0.2.7:80"),
            ("::1", "[::1]:7600"),
            ("[::1]", "[::1]:7600"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(literal(host), Some(address.parse().unwrap()), "{host}");
        }
        assert_eq!(literal("ann.example.net"), None);
    }
}
