//! What `layercast send` says at its end.

use std::collections::BTreeMap;

use layercast_multicast::Outcome as Fate;
use layercast_net::{ReceiverReport, SendReport, SentFile};
use layercast_wire::multicast::MemberId;
use serde_json::{Value, json};

use super::{Say, hex, octets, words};
use crate::failure::Outcome;
use crate::output::Table;

/// More files than this are summed up for people, without a table for each.
pub const FEW: u32 = 10;
/// Files that are named because something is missing; the others are counted.
const NAMED: usize = 20;

type Names = BTreeMap<MemberId, String>;

/// What a receiver is called for people.
pub fn name(names: &Names, it: &ReceiverReport) -> String {
    match (names.get(&it.member), it.address) {
        (Some(name), _) => name.clone(),
        (None, Some(address)) => address.to_string(),
        (None, None) => hex(&it.member.0.to_be_bytes()),
    }
}

/// What became of a receiver, for programs.
pub fn receiver(names: &Names, it: &ReceiverReport) -> Value {
    let (outcome, why) = match it.outcome {
        Fate::Pending => ("pending", None),
        Fate::Delivered => ("delivered", None),
        Fate::Failed(reason) => ("failed", Some(words(reason))),
        Fate::NeverConnected => ("never answered", None),
    };
    json!({
        "name": names.get(&it.member), "member": hex(&it.member.0.to_be_bytes()),
        "address": it.address, "outcome": outcome, "why": why, "repairs": it.repairs,
        "lacks": it.lacks, "loss": it.loss, "round_trip_ms": it.round_trip.as_us() as f64 / 1e3,
    })
}

/// A rate, or a dash where nothing arrived or no time passed.
pub fn rate(octets: u64, seconds: f64) -> String {
    match octets > 0 && seconds > 0.0 {
        true => format!("{:.1} Mbit/s", octets as f64 * 8.0 / seconds / 1e6),
        false => "-".into(),
    }
}

/// What became of one receiver in all files.
#[derive(Default)]
struct Total {
    name: Option<String>,
    shown: String,
    member: String,
    files: u32,
    octets: u64,
    repairs: u64,
    /// Seconds of the sessions whose files it has.
    seconds: f64,
    /// Why it lacks a file, the last time.
    why: Option<String>,
}

/// The end of a call.
pub struct Summary<'a> {
    names: &'a Names,
    report: &'a SendReport,
    is_long: bool,
    totals: BTreeMap<MemberId, Total>,
}

impl<'a> Summary<'a> {
    /// Of a report; a long one has no table for each file.
    pub fn new(names: &'a Names, report: &'a SendReport, is_long: bool) -> Summary<'a> {
        let mut totals: BTreeMap<MemberId, Total> = BTreeMap::new();
        for file in report.manifest.iter().chain(&report.sent) {
            let is_list = report
                .manifest
                .as_ref()
                .is_some_and(|it| std::ptr::eq(it, file));
            for it in &file.receivers {
                let total = totals.entry(it.member).or_default();
                total.name = names.get(&it.member).cloned();
                total.shown = name(names, it);
                total.member = hex(&it.member.0.to_be_bytes());
                match it.outcome {
                    Fate::Delivered if !is_list => {
                        total.files += 1;
                        total.octets += file.size;
                        total.repairs += it.repairs;
                        total.seconds += file.took.as_secs_f64();
                    }
                    Fate::Delivered => {}
                    Fate::Failed(reason) => total.why = Some(words(reason).into()),
                    Fate::Pending => total.why = Some("given up".into()),
                    Fate::NeverConnected => total.why = Some("never answered".into()),
                }
            }
        }
        Summary {
            names,
            report,
            is_long,
            totals,
        }
    }

    /// Addresses that never answered.
    fn unreached(&self) -> &[std::net::SocketAddr] {
        let last = self.report.sent.last().or(self.report.manifest.as_ref());
        last.map_or(&[], |file| &file.unreached)
    }

    /// Octets that arrived, at the receiver that has most.
    fn arrived(&self) -> u64 {
        self.totals.values().map(|it| it.octets).max().unwrap_or(0)
    }

    /// Prints it.
    pub fn tell(&self, say: &Say) -> Outcome {
        say.event(self.json(), self.human().trim_end())
    }

    fn json(&self) -> Value {
        let report = self.report;
        let files: Vec<Value> = report.sent.iter().map(|file| self.file(file)).collect();
        let totals = self.totals.values();
        let totals: Vec<Value> = totals
            .map(|it| {
                let rate = (it.octets > 0 && it.seconds > 0.0)
                    .then(|| (it.octets as f64 * 8.0 / it.seconds) as u64);
                json!({
                    "name": it.name, "member": it.member, "receiver": it.shown, "files": it.files,
                    "missing": report.files.saturating_sub(it.files), "octets": it.octets,
                    "seconds": it.seconds, "rate_bps": rate, "repairs": it.repairs, "why": it.why,
                })
            })
            .collect();
        let withheld = report.withheld.iter();
        let withheld: Vec<Value> = withheld
            .map(|it| json!({"file": it.name, "size": it.size, "why": it.why}))
            .collect();
        json!({
            "report": "summary", "files": files, "of": report.files, "octets": report.octets,
            "seconds": report.took.as_secs_f64(), "receivers": totals,
            "unreached": self.unreached(), "withheld": withheld,
            "error": report.error.as_ref().map(ToString::to_string),
        })
    }

    fn file(&self, file: &SentFile) -> Value {
        let receivers = file.receivers.iter();
        let receivers: Vec<Value> = receivers.map(|it| receiver(self.names, it)).collect();
        json!({
            "file": file.name, "size": file.size, "blake3": hex(&file.digest),
            "seconds": file.took.as_secs_f64(),
            "failure": file.failure.as_ref().map(ToString::to_string),
            "receivers": receivers, "unreached": file.unreached,
            "other_key": file.other_key, "in_use": file.in_use, "octets": file.stats.octets,
            "packets": file.stats.data, "parities": file.stats.parities,
            "again": file.stats.again, "passes": file.stats.rounds, "datagrams": file.datagrams,
            "reports": file.stats.reports, "strangers": file.stats.strangers,
            "forged": file.stats.forged, "malformed": file.malformed,
        })
    }

    fn human(&self) -> String {
        let report = self.report;
        let mut text = String::new();
        let shown = report.sent.iter().filter(|_| !self.is_long);
        for file in shown {
            text.push_str(&self.one(file));
        }
        if self.is_long {
            text.push_str(&self.incomplete());
        }
        for file in &report.withheld {
            text.push_str(&format!("{}: not sent: {}\n", file.name, file.why));
        }
        let late = report.files as usize
            - (report.sent.len() + self.never_opened()).min(report.files as usize);
        if late > 0 {
            text.push_str(&format!("{late} files were not sent\n"));
        }
        let seconds = report.took.as_secs_f64();
        text.push_str(&format!(
            "{} of {} files reached all receivers, {} were to be sent, in {seconds:.1} s ({}):\n",
            self.complete(),
            report.files,
            octets(report.octets),
            rate(self.arrived(), seconds),
        ));
        text.push_str(&self.table());
        if let Some(error) = &report.error {
            text.push_str(&format!("{error}\n"));
        }
        text
    }

    /// Files that every receiver and every address has.
    fn complete(&self) -> usize {
        let has = |it: &ReceiverReport| it.outcome == Fate::Delivered;
        let all = |file: &&SentFile| {
            file.unreached.is_empty()
                && !file.receivers.is_empty()
                && file.receivers.iter().all(has)
        };
        self.report.sent.iter().filter(all).count()
    }

    /// Files that were withheld before their session began.
    fn never_opened(&self) -> usize {
        let sent = |name: &str| self.report.sent.iter().any(|it| it.name == name);
        self.report
            .withheld
            .iter()
            .filter(|it| !sent(&it.name))
            .count()
    }

    /// A line for each receiver.
    fn table(&self) -> String {
        let mut table = Table::new(&["receiver", "files", "bytes", "rate", "repairs", "missing"]);
        for it in self.totals.values() {
            let missing = self.report.files.saturating_sub(it.files);
            table.row([
                it.shown.clone(),
                it.files.to_string(),
                it.octets.to_string(),
                rate(it.octets, it.seconds),
                it.repairs.to_string(),
                match (missing, &it.why) {
                    (0, _) => "nothing".into(),
                    (missing, Some(why)) => format!("{missing} files: {why}"),
                    (missing, None) => format!("{missing} files"),
                },
            ]);
        }
        for host in self.unreached() {
            let none = || "0".to_owned();
            let missing = format!("{} files: never answered", self.report.files);
            table.row([
                host.to_string(),
                none(),
                none(),
                "-".into(),
                none(),
                missing,
            ]);
        }
        table.render()
    }

    /// Of many files those that somebody lacks.
    fn incomplete(&self) -> String {
        let lacks = |file: &&SentFile| {
            let mut receivers = file.receivers.iter();
            file.failure.is_some() || receivers.any(|it| it.outcome != Fate::Delivered)
        };
        let all: Vec<&SentFile> = self.report.sent.iter().filter(lacks).collect();
        let mut text = String::new();
        for file in all.iter().take(NAMED) {
            let lacking = file
                .receivers
                .iter()
                .filter(|it| it.outcome != Fate::Delivered);
            let lacking: Vec<String> = lacking.map(|it| name(self.names, it)).collect();
            let why = file
                .failure
                .as_ref()
                .map_or(String::new(), |it| format!(" ({it})"));
            text.push_str(&format!(
                "{}: missing at {}{why}\n",
                file.name,
                lacking.join(", ")
            ));
        }
        if let more @ 1.. = all.len().saturating_sub(NAMED) {
            text.push_str(&format!(
                "and {more} more files that are missing somewhere\n"
            ));
        }
        text
    }

    /// A file and its receivers.
    fn one(&self, file: &SentFile) -> String {
        let seconds = file.took.as_secs_f64();
        let has = |it: &&ReceiverReport| it.outcome == Fate::Delivered;
        let has = file.receivers.iter().filter(has).count();
        let sent = match file.size {
            0 => String::new(),
            size => format!(", sent {:.3} times", file.stats.octets as f64 / size as f64),
        };
        let mut text = format!(
            "{}: {} in {seconds:.1} s ({}){sent}, {} passes, blake3 {}\n",
            file.name,
            octets(file.size),
            rate(if has > 0 { file.size } else { 0 }, seconds),
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
                name(self.names, it),
                outcome,
                bytes.to_string(),
                it.repairs.to_string(),
                format!("{:.2} %", it.loss * 100.0),
            ]);
        }
        for host in &file.unreached {
            let none = || "0".to_owned();
            let outcome = "never answered".to_owned();
            table.row([host.to_string(), outcome, none(), none(), "-".to_owned()]);
        }
        text.push_str(&table.render());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_rate() {
        assert_eq!(rate(0, 0.001), "-");
        assert_eq!(rate(1_000, 0.0), "-");
        assert_eq!(rate(1_000_000, 1.0), "8.0 Mbit/s");
    }

    #[test]
    fn a_summary_without_a_session_is_printed_too() {
        let (names, report) = (Names::new(), SendReport::default());
        let summary = Summary::new(&names, &report, false);
        assert_eq!(summary.json()["report"], "summary");
        assert!(summary.human().contains("0 of 0 files reached"));
    }
}
