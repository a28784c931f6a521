//! `layercast receive`.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Instant;

use layercast_core::Span;
use layercast_net::{
    Ended, FileReceiver, Folder, IDENTITY_FILE, RECEIVE_BUFFER, ReceiveConfig, ReceiveEvent,
    ReceivedFile, receiver_identity,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::args::{PORT, Receive};
use super::{Say, hex, key, member, octets, words};
use crate::failure::{Failure, Outcome};
use crate::node::{Stop, Trace, runtime};

/// Runs the command.
pub fn run(args: &Receive) -> Outcome {
    fs::create_dir_all(&args.out).map_err(|error| Failure::file(&args.out, "create", &error))?;
    runtime()?.block_on(async {
        let name = args.name.clone().unwrap_or_else(|| own_name(&args.out));
        let config = config(args, &name)?;
        let stop = Stop::listen()?;
        let receiver = FileReceiver::bind(config).map_err(|error| {
            let failure = Failure::new(&error);
            match args.group {
                Some(_) => failure.hint("--interface ADDR says which network the group is in"),
                None => failure,
            }
        })?;
        let mut teller = Teller {
            say: Say::new(args.json),
            last: (Instant::now(), 0),
        };
        let from = match args.group {
            Some(group) => format!("group {group}"),
            None => receiver.local_addr().to_string(),
        };
        teller.say.event(
            json!({"report": "ready", "name": name, "address": receiver.local_addr(), "group": args.group}),
            &format!("{name}: waiting for a sender at {from}"),
        )?;
        let (told, mut events) = mpsc::channel(1_024);
        let telling = tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                // A reader that left sees no more; the files go on.
                let _ = teller.event(event);
            }
            teller
        });
        let mut trace = Trace::open(args.trace.as_deref(), &name)?;
        let outcome = receiver
            .run(stop.token.clone(), told, trace.observer())
            .await;
        trace.finish()?;
        let teller = telling.await.map_err(Failure::new)?;
        teller.say.end();
        let (files, ended) = outcome.map_err(Failure::new)?;
        teller.summary(&files)?;
        stop.outcome()?;
        judge(&files, ended)
    })
}

fn config(args: &Receive, name: &str) -> Result<ReceiveConfig, Failure> {
    let port = match args.group {
        Some(_) => 0,
        None => PORT,
    };
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    let identity = receiver_identity(&args.out)
        .map_err(|error| Failure::file(&args.out.join(IDENTITY_FILE), "use", &error))?;
    // Without a name the identity is what the receiver is called by.
    let member = match &args.name {
        Some(name) => member(name),
        None => member(&format!("{identity:016x}")),
    };
    Ok(ReceiveConfig {
        name: name.to_owned(),
        folder: Folder {
            path: args.out.clone(),
            overwrite: args.overwrite,
            most: args.most.unwrap_or(u64::MAX),
        },
        group: args.group.map(|group| (group, args.interface)),
        side: args.side,
        listen: args.listen.unwrap_or(any),
        member,
        identity: Some(identity),
        buffer: RECEIVE_BUFFER,
        key: key(args.key.as_deref())?,
        forever: args.forever,
        patience: args.wait.unwrap_or(Span::ZERO),
    })
}

/// The host and the folder, for display.
fn own_name(out: &Path) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let folder = fs::canonicalize(out).unwrap_or_else(|_| out.to_owned());
    format!("{}:{}", host.trim(), folder.display())
}

/// The exit code.
fn judge(files: &[ReceivedFile], ended: Ended) -> Outcome {
    let whole = |file: &ReceivedFile| file.path.is_some();
    match files {
        [] if ended == Ended::Patience => Err(Failure::new("no sender came")),
        [] => Err(Failure::Unsatisfied),
        _ if ended == Ended::All && files.iter().all(whole) => Ok(()),
        _ if files.iter().any(whole) => Err(Failure::Partial),
        _ => Err(Failure::Unsatisfied),
    }
}

/// Tells what happens.
struct Teller {
    say: Say,
    /// When it told the last time, and packets then.
    last: (Instant, u64),
}

impl Teller {
    fn event(&mut self, event: ReceiveEvent) -> Outcome {
        match event {
            ReceiveEvent::Joined {
                name,
                size,
                held,
                sender,
            } => {
                self.say.restart();
                self.last = (Instant::now(), held.0);
                let resumed = match held.0 {
                    0 => String::new(),
                    _ => format!(", {} of {} packets are here already", held.0, held.1),
                };
                self.say.event(
                    json!({
                        "report": "joined", "file": name, "size": size, "held": held.0,
                        "packets": held.1, "sender": sender,
                    }),
                    &format!("{name}: {} from {sender}{resumed}", octets(size)),
                )
            }
            ReceiveEvent::Progress { name, held, packet } => {
                let now = Instant::now();
                let seconds = now.duration_since(self.last.0).as_secs_f64().max(1e-3);
                let came = held.0.saturating_sub(self.last.1) * u64::from(packet);
                let rate = came as f64 * 8.0 / seconds;
                self.last = (now, held.0);
                let json = json!({
                    "report": "progress", "file": name, "packets": held.0, "of": held.1,
                    "rate_bps": rate as u64,
                });
                let human = format!("{:.1} Mbit/s", rate / 1e6);
                self.say.progress(json, &name, held, human)
            }
            ReceiveEvent::Interrupted { name, reason } => {
                let why = words(reason);
                self.say.event(
                    json!({"report": "interrupted", "file": name, "why": why}),
                    &format!("{name}: the sender is gone ({why}); what is here is kept, waiting for it to come back"),
                )
            }
            ReceiveEvent::Disbelieved(sender) => self.say.event(
                json!({"report": "disbelieved", "sender": sender}),
                &format!(
                    "files from {sender} are ignored: the sender and this receiver need the same --key FILE, and one of them has another or none"
                ),
            ),
            ReceiveEvent::Done(file) => {
                let mut json = about(&file);
                json["report"] = "file".into();
                let text = match (&file.path, file.reason) {
                    (Some(path), _) => {
                        let seconds = file.took.as_secs_f64();
                        format!(
                            "{}: {} in {seconds:.1} s, {} blocks rebuilt, digest right: {}",
                            file.name.name,
                            octets(file.size),
                            file.stats.rebuilt,
                            path.display()
                        )
                    }
                    (None, reason) => {
                        let why = file.error.clone();
                        let why = why.or_else(|| reason.map(|reason| words(reason).to_owned()));
                        format!("{}: failed: {}", file.name.name, why.unwrap_or_default())
                    }
                };
                self.say.event(json, &text)
            }
        }
    }

    fn summary(&self, files: &[ReceivedFile]) -> Outcome {
        if !self.say.json {
            return Ok(());
        }
        let files: Vec<Value> = files.iter().map(about).collect();
        self.say
            .event(json!({"report": "summary", "files": files}), "")
    }
}

fn about(file: &ReceivedFile) -> Value {
    json!({
        "file": file.name.name, "index": file.name.index, "count": file.name.count,
        "size": file.size, "blake3": hex(&file.digest), "path": file.path,
        "outcome": if file.path.is_some() { "complete" } else { "failed" },
        "why": file.reason.map(words), "error": file.error, "held_before": file.held_before,
        "seconds": file.took.as_secs_f64(), "packets": file.stats.data,
        "duplicates": file.stats.duplicates, "rebuilt": file.stats.rebuilt,
        "reports": file.stats.reports, "strangers": file.stats.strangers,
        "malformed": file.stats.malformed,
    })
}
