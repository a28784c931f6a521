//! `layercast receive`.

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Instant;

use layercast_core::Span;
use layercast_net::{
    Ended, FileReceiver, Folder, IDENTITY_FILE, Measured, NetError, ReceiveConfig, ReceiveEvent,
    ReceivedFile, Reception, member_of, printable, receiver_identity,
};
use layercast_wire::multicast::Reason;
use serde_json::json;
use tokio::sync::mpsc;

use super::args::{PORT, Receive};
use super::line::{self, ReceiveLine};
use super::summary::{FEW, rate};
use super::{Say, check_side, digest, key, octets, words};
use crate::failure::{Failure, Outcome};
use crate::metrics::Metrics;
use crate::node::{Stop, runtime};
use crate::output::{are, count};
use crate::trace::Trace;

/// Failed files that are named in the summary of many.
const NAMED: usize = 20;

/// Runs the command.
pub fn run(args: &Receive) -> Outcome {
    make_folder(&args.out)?;
    let is_new = !args.out.join(IDENTITY_FILE).exists();
    let outcome = receive(args);
    if is_new && !has_partial(&args.out) && !outcome.as_ref().is_ok_and(|it| it.is_begun) {
        // Nothing was received under it: the folder stays as it was.
        let _ = fs::remove_file(args.out.join(IDENTITY_FILE));
    }
    outcome?.judged
}

/// What became of the command once it had begun to wait for senders.
struct Received {
    /// A file came, whole or not.
    is_begun: bool,
    judged: Outcome,
}

/// Whether a file that is not whole is in the folder.
fn has_partial(out: &Path) -> bool {
    let entries = fs::read_dir(out).into_iter().flatten().flatten();
    entries
        .map(|it| it.path())
        .any(|path| path.extension().is_some_and(|it| it == "part"))
}

fn receive(args: &Receive) -> Result<Received, Failure> {
    runtime()?.block_on(async {
        let name = args.name.clone().unwrap_or_else(|| own_name(&args.out));
        let config = config(args, &name)?;
        let stop = Stop::listen()?;
        let receiver = FileReceiver::bind(config).map_err(|error| {
            let is_group = matches!(error, NetError::Group { .. });
            match Failure::net(error) {
                failure if args.group.is_some() && !is_group => {
                    failure.hint("--interface ADDR says which network the group is in")
                }
                failure => failure,
            }
        })?;
        let mut reporter = Reporter {
            say: Say::new(
                args.json,
                Metrics::open(&args.metrics, "receive")?,
                "receive",
            ),
            last: (Instant::now(), 0),
            is_verbose: args.verbose,
            ended: (0, 0),
            out: args.out.clone(),
        };
        reporter.measure();
        let ring = reporter.say.metrics.monitor();
        let from = match args.group {
            Some(group) => format!("group {group}"),
            None => receiver.local_addr().to_string(),
        };
        reporter.say.event(
            &ReceiveLine::Ready {
                name: &name,
                address: receiver.local_addr(),
                group: args.group,
            },
            &format!("waiting for a sender at {from}, as {name}"),
        )?;
        let (told, mut events) = mpsc::channel(4_096);
        let telling = tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                // A reader that left sees no more; the files continue.
                let _ = reporter.event(event);
            }
            reporter
        });
        let mut trace = Trace::open(args.trace.as_deref(), &name)?;
        let started = Instant::now();
        let mut observer = Measured {
            user: trace.observer(),
            ring,
        };
        let outcome = receiver.run(stop.token.clone(), told, &mut observer).await;
        let traced = trace.finish();
        let reporter = telling.await.map_err(Failure::new)?;
        reporter.say.end();
        let seconds = started.elapsed().as_secs_f64();
        let received = match outcome {
            Ok(received) => received,
            Err(error) => {
                let failure = Failure::net(error);
                reporter.summary(None, seconds)?;
                return Err(failure);
            }
        };
        reporter.summary(Some(&received), seconds)?;
        reporter.say.close()?;
        let judged = judge(&received);
        if judged.is_ok() {
            // Nothing is left to be resumed under it; a folder of files alone remains.
            let _ = fs::remove_file(args.out.join(IDENTITY_FILE));
        }
        Ok(Received {
            is_begun: !received.files.is_empty() || received.ended == Ended::All,
            judged: stop.outcome().and(judged).and(traced),
        })
    })
}

/// Makes the folder for files, if it is not there.
fn make_folder(out: &Path) -> Outcome {
    if out.exists() && !out.is_dir() {
        let what = format!("--out {}: it is a file, not a folder", printable(out));
        return Err(Failure::new(what).hint("give a folder, or a path where one can be made"));
    }
    fs::create_dir_all(out).map_err(|error| {
        let failure = Failure::new(format!(
            "cannot make the folder {}: {error}",
            printable(out)
        ));
        failure.hint("give a folder that you may write to: --out DIR")
    })
}

fn config(args: &Receive, name: &str) -> Result<ReceiveConfig, Failure> {
    check_side(args.group, args.side)?;
    let port = match args.group {
        Some(_) => 0,
        None => PORT,
    };
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    let identity = receiver_identity(&args.out).map_err(|error| {
        let path = args.out.join(IDENTITY_FILE);
        let failure = Failure::new(format!("cannot use {}: {error}", printable(&path)));
        match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                failure.hint("the user that runs layercast may not write to this folder: give another one by --out")
            }
            ErrorKind::StorageFull => failure.hint("the disk is full: free some of it, or give another folder by --out"),
            _ => failure,
        }
    })?;
    // Without a name the identity is what the receiver is called by.
    let member = match &args.name {
        Some(name) => member_of(name),
        None => member_of(&format!("{identity:016x}")),
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
        buffer: args.buffer,
        key: key(args.key.as_deref())?,
        forever: args.forever,
        patience: args.wait.unwrap_or(Span::ZERO),
    })
}

/// The host and the folder, for display.
fn own_name(out: &Path) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let folder = fs::canonicalize(out).unwrap_or_else(|_| out.to_owned());
    format!("{}:{}", host.trim(), printable(&folder))
}

/// The exit code: success if all of it is here, whatever ended it.
fn judge(received: &Reception) -> Outcome {
    let whole = |file: &ReceivedFile| file.path.is_some();
    let (files, ended) = (&received.files, received.ended);
    let complete = received.missing == 0 && received.listed && files.iter().all(whole);
    match ended {
        // Perhaps folders without a file.
        Ended::All if complete => Ok(()),
        _ if complete && !files.is_empty() => Ok(()),
        _ if files.iter().any(whole) => Err(Failure::Partial),
        Ended::Patience if files.is_empty() && received.missing == 0 => {
            let failure = Failure::new("no sender came within --wait");
            Err(failure
                .hint(
                    "does `layercast send` run, with --to this address or the same --group? Where no route leads to the group, name \
                     the interface at both ends (--interface ADDR)",
                ))
        }
        _ => Err(Failure::Unsatisfied),
    }
}

/// Tells what happens.
struct Reporter {
    say: Say,
    /// The last report, and the packet count then.
    last: (Instant, u64),
    is_verbose: bool,
    /// Files that are complete, and those that failed.
    ended: (u32, u32),
    /// The folder of the files.
    out: PathBuf,
}

impl Reporter {
    /// Something usual of a file of a transfer of `files` files.
    fn usual(&self, files: u32, line: &ReceiveLine, human: &str) -> Outcome {
        match files > FEW && !self.is_verbose && !self.say.json {
            true => Ok(()),
            false => self.say.event(line, human),
        }
    }

    fn event(&mut self, event: ReceiveEvent) -> Outcome {
        match event {
            ReceiveEvent::Joined {
                name,
                size,
                files,
                held,
                sender,
            } => {
                if files <= 1 {
                    self.say.restart();
                }
                self.last = (Instant::now(), held.0);
                let resumed = match held.0 {
                    0 => String::new(),
                    _ => format!(
                        ", {} of {} {} here already",
                        held.0,
                        count(held.1, "packet"),
                        are(held.0)
                    ),
                };
                self.usual(
                    files,
                    &ReceiveLine::Joined {
                        file: &name,
                        size,
                        held: held.0,
                        packets: held.1,
                        sender,
                    },
                    &format!("{name}: {} from {sender}{resumed}", octets(size)),
                )
            }
            ReceiveEvent::Progress {
                name,
                held,
                packet,
                whole,
            } => {
                let now = Instant::now();
                let seconds = now.duration_since(self.last.0).as_secs_f64().max(1e-3);
                let came = held.0.saturating_sub(self.last.1) * u64::from(packet);
                let rate = came as f64 * 8.0 / seconds;
                self.last = (now, held.0);
                let line = ReceiveLine::Progress {
                    file: &name,
                    packets: held.0,
                    of: held.1,
                    rate_bps: rate as u64,
                    octets: whole.map(|it| it.0),
                    of_octets: whole.map(|it| it.1),
                };
                let human = format!("{:.1} Mbit/s", rate / 1e6);
                // The bar, and the time that is left, are of the whole transfer where that is known.
                self.say.progress(&line, &name, whole.unwrap_or(held), human)
            }
            ReceiveEvent::Listed {
                files,
                folders,
                octets: all,
                room,
                sender,
            } => {
                self.say.restart();
                let line = ReceiveLine::Listed {
                    files,
                    folders,
                    octets: all,
                    room,
                    sender,
                };
                let mut text = format!(
                    "{} and {}, {}, from {sender}",
                    count(files, "file"),
                    count(folders, "folder"),
                    octets(all)
                );
                if all > room {
                    text.push_str(&format!(
                        "; there is room for {}: files that are not here already may not fit",
                        octets(room)
                    ));
                }
                self.say.event(&line, &text)
            }
            ReceiveEvent::BadList {
                sender,
                why,
                reason,
                kind,
            } => {
                let remedy = list_remedy(reason, kind, &self.out);
                let text = format!(
                    "the list of files from {sender} cannot be used in {}: {why}; the files come without folders, permissions \
                     and times\n  {remedy}",
                    printable(&self.out)
                );
                let line = ReceiveLine::BadList {
                    sender,
                    why,
                    remedy,
                };
                self.say.event(&line, &text)
            }
            ReceiveEvent::Interrupted { name, reason } => {
                let why = words(reason);
                self.say.event(
                    &ReceiveLine::Interrupted { file: &name, why },
                    &format!("{name}: the sender is gone ({why}); what is here is kept, waiting for it to come back"),
                )
            }
            ReceiveEvent::Disbelieved(sender) => self.say.event(
                &ReceiveLine::Disbelieved { sender },
                &format!(
                    "files from {sender} are ignored: the sender and this receiver need the same --key FILE, and one of them has another or none"
                ),
            ),
            ReceiveEvent::Done(file) => {
                match file.path {
                    Some(_) => self.ended.0 += 1,
                    None => self.ended.1 += 1,
                }
                self.measure();
                let line = ReceiveLine::File(about(&file));
                match &file.path {
                    Some(path) => {
                        let seconds = file.took.as_secs_f64();
                        let text = format!(
                            "{}: {} in {seconds:.1} s, {} rebuilt, digest right: {}",
                            file.name.name,
                            octets(file.size),
                            count(file.stats.rebuilt, "block"),
                            printable(path)
                        );
                        self.usual(file.name.count, &line, &text)
                    }
                    None => self.say.event(&line, &failed(&file, &self.out)),
                }
            }
        }
    }

    /// How many files ended, for `--metrics`.
    fn measure(&self) {
        let (complete, failed) = self.ended;
        let files = json!({ "complete": complete, "failed": failed });
        self.say.metrics.keep("receive", "files", files);
    }

    /// One at the end, whatever came of it.
    fn summary(&self, received: Option<&Reception>, seconds: f64) -> Outcome {
        let files = received.map_or(&[][..], |it| &it.files);
        let ended = received.map(|it| it.ended);
        let listed = received.is_none_or(|it| it.listed);
        let whole: Vec<&ReceivedFile> = files.iter().filter(|it| it.path.is_some()).collect();
        let octets_here: u64 = whole.iter().map(|it| it.size).sum();
        // What was there already took no time to come.
        let came = whole.iter().filter(|it| it.stats.data > 0);
        let (moved, spent) = came.fold((0, 0.0), |(octets, seconds), it| {
            (octets + it.moved, seconds + it.took.as_secs_f64())
        });
        let never = received.map_or(0, |it| it.missing);
        let before = received.map_or(0, |it| it.before);
        let mut text = String::new();
        let failures = files.iter().filter(|it| it.path.is_none());
        if files.len() as u32 > FEW {
            for file in failures.clone().take(NAMED) {
                text.push_str(&format!("{}\n", failed(file, &self.out)));
            }
        }
        let failures = failures.count();
        let here = whole.len() as u64;
        text.push_str(&match (here, ended) {
            (0, Some(Ended::All)) if files.is_empty() && never == 0 && listed => {
                "the folders are here, without files".into()
            }
            _ => format!(
                "{} {} here, {} ({})",
                count(here, "file"),
                are(here),
                octets(octets_here),
                rate(moved, spent)
            ),
        });
        if before > 0 {
            let others = u64::from(before);
            text.push_str(&format!(
                ", {} {} here already since an earlier call",
                count(others, "file"),
                are(others)
            ));
        }
        if failures > 0 {
            text.push_str(&format!(", {failures} failed"));
        }
        if !listed {
            text.push_str(", but the list of files could not be used: folders, permissions and times may be missing");
        }
        if never > 0 {
            text.push_str(&format!(", {never} that were announced did not come"));
        }
        let line = ReceiveLine::Summary {
            files: files.iter().map(about).collect(),
            whole: whole.len(),
            failed: failures,
            missing: never,
            before,
            listed,
            octets: octets_here,
            seconds,
        };
        self.say.event(&line, &text)
    }
}

/// Why a file is not here, and what to do if the folder `out` refuses it.
fn failed(file: &ReceivedFile, out: &Path) -> String {
    let why = file.error.clone();
    let why = why.or_else(|| file.reason.map(|reason| words(reason).to_owned()));
    let mut text = format!("{}: failed: {}", file.name.name, why.unwrap_or_default());
    if let Some(kind) = file.error_kind.filter(|&it| is_of_disk(it)) {
        let remedy = match kind {
            ErrorKind::FileTooLarge => {
                "give a larger --most, or a folder whose file system takes files of this size"
                    .to_owned()
            }
            _ => Failure::remedy(&out.join(&file.name.name), "write", &kind.into()),
        };
        text.push_str(&format!(
            "\n  {remedy}, and start layercast receive again: what is here is kept"
        ));
    }
    text
}

/// What to do if a list of files cannot be used, in the folder `out`.
fn list_remedy(reason: Reason, kind: Option<ErrorKind>, out: &Path) -> String {
    match kind {
        Some(kind) if is_of_disk(kind) => format!(
            "{}, and start layercast receive again: what is here is kept",
            Failure::remedy(out, "write", &kind.into())
        ),
        Some(ErrorKind::NotADirectory | ErrorKind::AlreadyExists) => {
            "a file has the place of a folder: move it away, or give another folder by --out".into()
        }
        None if reason == Reason::Corrupt => {
            "somebody else sends in its name, or a device on the path changes packets: send again, with --key FILE at both \
             ends"
                .into()
        }
        _ => "use the same version of layercast at both ends (layercast --version), and send again".into(),
    }
}

/// Whether the disk or its permissions refuse a file, and not its name or content.
fn is_of_disk(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
            | ErrorKind::FileTooLarge
            | ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
    )
}

fn about(file: &ReceivedFile) -> line::ReceivedFile<'_> {
    line::ReceivedFile {
        file: &file.name.name,
        index: file.name.index,
        count: file.name.count,
        size: file.size,
        blake3: digest(&file.digest),
        path: file.path.as_ref().map(|it| it.display().to_string()),
        outcome: match file.path {
            Some(_) => line::Reception::Complete,
            None => line::Reception::Failed,
        },
        why: file.reason.map(words),
        error: file.error.as_deref(),
        held_before: file.held_before,
        seconds: file.took.as_secs_f64(),
        packets: file.stats.data,
        duplicates: file.stats.duplicates,
        rebuilt: file.stats.rebuilt,
        reports: file.stats.reports,
        strangers: file.stats.strangers,
        malformed: file.stats.malformed,
    }
}

#[cfg(test)]
mod tests {
    use layercast_multicast::ReceiverStats;
    use layercast_net::FileName;

    use super::*;

    fn file(path: Option<&str>, error: Option<ErrorKind>) -> ReceivedFile {
        ReceivedFile {
            name: FileName::new((1, 1, 0), [&b"six"[..]]),
            size: 1,
            digest: [0; 32],
            path: path.map(PathBuf::from),
            reason: None,
            error: error.map(|it| it.to_string()),
            error_kind: error,
            held_before: 0,
            moved: 1,
            took: Span::ZERO,
            stats: ReceiverStats::default(),
        }
    }

    fn code(files: Vec<ReceivedFile>, ended: Ended, missing: u32) -> Option<u8> {
        let received = Reception {
            files,
            ended,
            missing,
            before: 0,
            listed: true,
        };
        judge(&received).err().map(|it| it.code())
    }

    #[test]
    fn what_is_complete_is_a_success_whatever_ended_it() {
        let [whole, failed] = [file(Some("out/six"), None), file(None, None)];
        for ended in [Ended::All, Ended::Patience, Ended::Stopped] {
            assert_eq!(code(vec![whole.clone()], ended, 0), None, "{ended:?}");
            assert_eq!(code(vec![whole.clone()], ended, 1), Some(3), "{ended:?}");
            let both = vec![whole.clone(), failed.clone()];
            assert_eq!(code(both, ended, 0), Some(3), "{ended:?}");
            assert_eq!(code(vec![failed.clone()], ended, 0), Some(1), "{ended:?}");
        }
        assert_eq!(code(Vec::new(), Ended::Patience, 0), Some(1));
        assert_eq!(code(Vec::new(), Ended::All, 0), None, "folders alone");
    }

    #[test]
    fn a_list_of_files_that_cannot_be_used_has_a_remedy_for_each_cause() {
        let out = Path::new(".");
        for (reason, kind, remedy) in [
            (
                Reason::Denied,
                Some(ErrorKind::PermissionDenied),
                "check the permissions (ls -ld .)",
            ),
            (
                Reason::NoRoom,
                Some(ErrorKind::StorageFull),
                "free some space",
            ),
            (Reason::Storage, Some(ErrorKind::NotADirectory), "by --out"),
            (Reason::Corrupt, None, "--key FILE at both ends"),
            (Reason::Unsupported, None, "same version of layercast"),
            (
                Reason::Unsupported,
                Some(ErrorKind::InvalidData),
                "same version of layercast",
            ),
        ] {
            let said = list_remedy(reason, kind, out);
            assert!(said.contains(remedy), "{reason:?} {kind:?}: {said}");
        }
    }

    #[test]
    fn a_file_that_the_disk_refuses_has_a_remedy() {
        for (kind, remedy) in [
            (ErrorKind::StorageFull, "free some space on the disk"),
            (ErrorKind::QuotaExceeded, "the quota of this user"),
            (ErrorKind::FileTooLarge, "--most"),
            (ErrorKind::PermissionDenied, "check the permissions"),
            (ErrorKind::ReadOnlyFilesystem, "can be written"),
        ] {
            let said = failed(&file(None, Some(kind)), Path::new("out"));
            assert!(said.contains(remedy) && said.contains("again"), "{said}");
        }
        let said = failed(
            &file(None, Some(ErrorKind::AlreadyExists)),
            Path::new("out"),
        );
        assert!(
            !said.contains("again"),
            "another file there is no fault of the disk: {said}"
        );
    }
}
