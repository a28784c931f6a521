//! What `layercast send` says at its end.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;

use layercast_multicast::{Failure, Outcome as Fate};
use layercast_net::{ReceiverReport, SendReport, SentFile};
use layercast_wire::multicast::{MemberId, Reason};

use super::line::{
    Delivery, FileReceiver, FileSummary, ReceiverTotal, SendLine, SendSummary, WithheldFile,
};
use super::{Say, digest, hex, octets, words};
use crate::failure::Outcome;
use crate::output::{Table, count};

/// More files than this are summed up for people, without a table for each.
pub const FEW: u32 = 10;
/// Files that are named because something is missing; the others are counted.
const NAMED: usize = 20;

/// Addresses that are named for a member that never answered; more are counted.
const PLACES: usize = 3;
/// What is said of a receiver of which nothing was heard.
const NEVER: &str = "never answered";

type Names = BTreeMap<MemberId, String>;

fn has(it: &ReceiverReport) -> bool {
    it.outcome == Fate::Delivered
}

fn is_absent(it: &ReceiverReport) -> bool {
    it.outcome == Fate::NeverConnected
}

/// What has a row in a table.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Member(MemberId),
    Address(SocketAddr),
}

/// Those of each place together, in the order in which the places come.
fn by_place<T>(all: impl Iterator<Item = (Place, T)>) -> Vec<Vec<T>> {
    let mut rows: Vec<Vec<T>> = Vec::new();
    let mut at = HashMap::new();
    for (place, it) in all {
        let row = *at.entry(place).or_insert(rows.len());
        match rows.get_mut(row) {
            Some(row) => row.push(it),
            None => rows.push(vec![it]),
        }
    }
    rows
}

/// What has a row of its own: a named receiver, or an address, whatever the number of members that it answers for.
fn place(names: &Names, member: MemberId, address: Option<SocketAddr>) -> Place {
    match address.filter(|_| !names.contains_key(&member)) {
        Some(address) => Place::Address(address),
        None => Place::Member(member),
    }
}

/// The receivers of a file, those of an address together.
fn receivers<'b>(names: &Names, file: &'b SentFile) -> Vec<Vec<&'b ReceiverReport>> {
    let all = file.receivers.iter();
    by_place(all.map(|it| (place(names, it.member, it.address), it)))
}

/// How many receivers have a file, and of how many: an address counts once, and has what it has under one of its names.
pub fn delivered(names: &Names, file: &SentFile) -> (usize, usize) {
    let all = receivers(names, file);
    let have = all.iter().filter(|same| same.iter().any(|it| has(it)));
    (have.count(), all.len())
}

/// What is said of an address that answered for several receivers.
fn answered_as(receivers: usize) -> String {
    match receivers {
        1 => String::new(),
        many => format!(" (it answered as {many} receivers)"),
    }
}

/// What a receiver is called for people.
pub fn name(names: &Names, it: &ReceiverReport) -> String {
    match (names.get(&it.member), &it.name, it.address) {
        (Some(name), ..) => name.clone(),
        (None, Some(name), Some(address)) => format!("{name} ({address})"),
        (None, _, Some(address)) => address.to_string(),
        (None, _, None) => hex(&it.member.0.to_be_bytes()),
    }
}

/// What became of a file at a receiver that failed.
fn cause(file: &SentFile, reason: Reason) -> &'static str {
    match (&file.failure, reason) {
        (Some(Failure::User), Reason::User) => {
            "send was stopped: the same command continues with what is missing"
        }
        _ => words(reason),
    }
}

/// What became of a receiver, for programs.
pub fn receiver<'a>(names: &'a Names, it: &'a ReceiverReport) -> FileReceiver<'a> {
    let (outcome, why) = match it.outcome {
        Fate::Pending => (Delivery::Pending, None),
        Fate::Delivered => (Delivery::Delivered, None),
        Fate::Failed(reason) => (Delivery::Failed, Some(words(reason))),
        Fate::NeverConnected => (Delivery::NeverAnswered, None),
    };
    FileReceiver {
        name: names
            .get(&it.member)
            .map(String::as_str)
            .or(it.name.as_deref()),
        member: hex(&it.member.0.to_be_bytes()),
        address: it.address,
        outcome,
        why,
        seconds: it.took.map(|it| it.as_secs_f64()),
        repairs: it.repairs,
        lacks: it.lacks,
        loss: it.loss,
        round_trip_ms: it.round_trip.as_us() as f64 / 1e3,
    }
}

/// A rate, or a dash where nothing arrived or no time passed.
pub fn rate(octets: u64, seconds: f64) -> String {
    match octets > 0 && seconds > 0.0 {
        true => format!("{:.1} Mbit/s", octets as f64 * 8.0 / seconds / 1e6),
        false => "-".into(),
    }
}

/// Octets of a file that its session moved: not those that receivers had before.
fn moved(file: &SentFile) -> u64 {
    file.size.min(file.stats.octets)
}

/// An amount in words, with what sessions moved of it where receivers had the rest before: a rate beside it is that of
/// what was moved.
fn of_all(moved: u64, all: u64) -> String {
    match moved > 0 && moved < all {
        true => format!("{} now of {}", octets(moved), octets(all)),
        false => octets(all),
    }
}

/// What became of one receiver in all files.
#[derive(Clone, Default)]
struct Total {
    name: Option<String>,
    shown: String,
    address: Option<SocketAddr>,
    member: String,
    files: u32,
    octets: u64,
    repairs: u64,
    /// Octets and seconds in which sessions brought it a file: those without data found it there.
    moved: (u64, f64),
    /// Data packets sent to it, and lost on the way.
    packets: f64,
    lost: f64,
    /// It cannot use the list of files.
    is_unlisted: bool,
    /// Why it lacks a file or the list, the last time.
    why: Option<String>,
}

/// The end of a call.
pub struct Summary<'a> {
    names: &'a Names,
    report: &'a SendReport,
    is_long: bool,
    /// Columns of the terminal.
    width: Option<usize>,
    /// Receivers that were to take part (--receivers).
    wanted: u32,
    totals: BTreeMap<MemberId, Total>,
}

impl Total {
    /// What it got in all, as a member of the address with the others.
    fn with(mut self, other: &Total) -> Total {
        if other.files >= self.files && other.why.is_some() {
            self.why = other.why.clone();
        }
        self.files = self.files.max(other.files);
        self.repairs += other.repairs;
        self.packets += other.packets;
        self.lost += other.lost;
        self.moved = match other.moved.0 > self.moved.0 {
            true => other.moved,
            false => self.moved,
        };
        self.is_unlisted &= other.is_unlisted;
        self
    }

    /// Share of the packets sent to it that were lost; nothing where none was sent.
    fn loss(&self) -> Option<f64> {
        (self.packets > 0.0).then(|| self.lost / self.packets)
    }
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
                let told = it.name.as_deref().map(str::to_owned);
                total.name = names.get(&it.member).cloned().or(told);
                total.shown = name(names, it);
                total.address = it.address;
                total.member = hex(&it.member.0.to_be_bytes());
                total.packets += file.stats.data as f64;
                total.lost += file.stats.data as f64 * f64::from(it.loss);
                match it.outcome {
                    Fate::Delivered if !is_list => {
                        total.files += 1;
                        total.octets += file.size;
                        total.repairs += it.repairs;
                        if let Some(took) = it.took {
                            total.moved.0 += moved(file);
                            total.moved.1 += took.as_secs_f64();
                        }
                    }
                    Fate::Delivered => {}
                    Fate::Failed(reason) => {
                        total.is_unlisted |= is_list;
                        total.why = Some(cause(file, reason).into());
                    }
                    Fate::Pending => total.why = Some("given up".into()),
                    Fate::NeverConnected => total.why = Some(NEVER.into()),
                }
            }
        }
        Summary {
            names,
            report,
            is_long,
            width: None,
            wanted: 0,
            totals,
        }
    }

    /// The same where this number of receivers was to take part.
    pub fn of(mut self, wanted: u32) -> Summary<'a> {
        self.wanted = wanted;
        self
    }

    /// The same for a terminal of this width.
    pub fn within(mut self, width: Option<usize>) -> Summary<'a> {
        self.width = width;
        self
    }

    /// The last session: it shows which receivers take part at the end.
    fn last(&self) -> Option<&SentFile> {
        self.report.sent.last().or(self.report.manifest.as_ref())
    }

    /// Addresses that never answered.
    fn unreached(&self) -> &[SocketAddr] {
        self.last().map_or(&[], |file| &file.unreached)
    }

    /// Octets that arrived, at the receiver that got most.
    fn arrived(&self) -> u64 {
        self.totals.values().map(|it| it.moved.0).max().unwrap_or(0)
    }

    /// Addresses that were refused some file because another receiver has their name, and are not among those that
    /// never answered.
    fn refused(&self) -> BTreeSet<SocketAddr> {
        let sessions = self.report.manifest.iter().chain(&self.report.sent);
        let refused = sessions.flat_map(|it| &it.in_use).copied();
        refused
            .filter(|host| !self.unreached().contains(host))
            .collect()
    }

    /// Addresses of a session that are those of no known receiver. A member that never answered is at one of them, and is
    /// reported by its name.
    fn nameless(file: &SentFile) -> &[SocketAddr] {
        match file.receivers.iter().any(is_absent) {
            true => &[],
            false => &file.unreached,
        }
    }

    /// Why a member that never answered has nothing: what is known of the addresses at which it may be.
    fn why_absent(&self, hosts: &[SocketAddr]) -> String {
        let known = |host: &&SocketAddr| self.why_unreached(host) != NEVER;
        let shown = |host: &SocketAddr| match self.why_unreached(host) {
            why if why == NEVER => host.to_string(),
            why => format!("{host} ({why})"),
        };
        match hosts.len() {
            0 => NEVER.into(),
            1..=PLACES => {
                let hosts: Vec<String> = hosts.iter().map(shown).collect();
                format!("{NEVER}, at {}", hosts.join(" or "))
            }
            all => match hosts.iter().find(known) {
                Some(host) => format!("{NEVER}, at any of {all} addresses; {}", shown(host)),
                None => format!("{NEVER}, at any of {all} addresses"),
            },
        }
    }

    /// The receiver at an address, if one was heard there, or the address.
    fn called(&self, host: &SocketAddr) -> String {
        let mut there = self.totals.values();
        there
            .find(|it| it.address == Some(*host))
            .map_or_else(|| host.to_string(), |it| it.shown.clone())
    }

    /// Why nothing reached this address.
    fn why_unreached(&self, host: &SocketAddr) -> Cow<'_, str> {
        if let Some(why) = self.report.unroutable.get(host) {
            return why.into();
        }
        let answers = self.report.manifest.iter().chain(&self.report.sent);
        if let Some(name) = answers.rev().find_map(|it| it.other_name.get(host)) {
            return match name {
                Some(name) => format!("it answers as {name}, which is not in --members").into(),
                None => "it answers under no name of --members (receive --name)".into(),
            };
        }
        let mut sessions = self.report.manifest.iter().chain(&self.report.sent);
        if self.totals.values().any(|it| it.address == Some(*host)) {
            // It did in another session.
            words(Reason::Silent).into()
        } else if sessions.clone().any(|it| it.in_use.contains(host)) {
            words(Reason::InUse).into()
        } else if sessions.any(|it| it.other_key.contains(host)) {
            "it has another key, or none".into()
        } else {
            NEVER.into()
        }
    }

    /// Prints it.
    pub fn print(&self, say: &Say) -> Outcome {
        say.event(&SendLine::Summary(self.line()), self.human().trim_end())
    }

    fn line(&self) -> SendSummary<'_> {
        let report = self.report;
        let totals = self.totals.values().map(|it| {
            let (octets, seconds) = it.moved;
            let rate = (octets > 0 && seconds > 0.0).then(|| octets as f64 * 8.0 / seconds);
            ReceiverTotal {
                name: it.name.as_deref(),
                member: &it.member,
                receiver: &it.shown,
                files: it.files,
                missing: report.files.saturating_sub(it.files),
                listed: !it.is_unlisted,
                octets: it.octets,
                seconds,
                rate_bps: rate.map(|it| it as u64),
                repairs: it.repairs,
                loss: it.loss(),
                why: it.why.as_deref(),
            }
        });
        let withheld = report.withheld.iter().map(|it| WithheldFile {
            file: &it.name,
            size: it.size,
            why: &it.why,
        });
        let why = |host: &SocketAddr| (*host, self.why_unreached(host).into_owned());
        SendSummary {
            files: report.sent.iter().map(|file| self.file(file)).collect(),
            of: report.files,
            octets: report.octets,
            seconds: report.took.as_secs_f64(),
            receivers: totals.collect(),
            unreached: self.unreached(),
            why_unreached: self.unreached().iter().map(why).collect(),
            withheld: withheld.collect(),
            error: report.error.as_ref().map(ToString::to_string),
        }
    }

    fn file<'b>(&'b self, file: &'b SentFile) -> FileSummary<'b> {
        let receivers = file.receivers.iter();
        FileSummary {
            file: &file.name,
            size: file.size,
            blake3: digest(&file.digest),
            seconds: file.took.as_secs_f64(),
            failure: file.failure.as_ref().map(ToString::to_string),
            receivers: receivers.map(|it| receiver(self.names, it)).collect(),
            unreached: &file.unreached,
            other_key: &file.other_key,
            in_use: &file.in_use,
            octets: file.stats.octets,
            packets: file.stats.data,
            parities: file.stats.parities,
            again: file.stats.again,
            passes: file.stats.rounds,
            datagrams: file.datagrams,
            reports: file.stats.reports,
            strangers: file.stats.strangers,
            forged: file.stats.forged,
            malformed: file.malformed,
        }
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
        let opened = report.sent.len() + self.never_opened();
        let late = report.files.saturating_sub(opened as u32);
        if late > 0 {
            let verb = if late == 1 { "was" } else { "were" };
            text.push_str(&format!("{} {verb} not sent\n", count(late, "file")));
        }
        if report.manifest.is_none() && report.sent.is_empty() {
            // The cause follows as an error.
            text.push_str("nothing was sent\n");
            return text;
        }
        let seconds = report.took.as_secs_f64();
        text.push_str(&match report.files {
            0 => format!(
                "no files, {} without files, in {seconds:.1} s:\n",
                count(report.folders, "folder")
            ),
            files => format!(
                "{}, {} of {} in all, in {seconds:.1} s ({}):\n",
                self.reached(),
                of_all(self.arrived(), report.octets),
                count(files, "file"),
                rate(self.arrived(), seconds),
            ),
        });
        text.push_str(&self.table());
        text.push_str(&self.absent());
        if let Some(error) = &report.error {
            text.push_str(&format!("{error}\n"));
        }
        text
    }

    /// That fewer receivers took part than were to: then files are missing at some.
    fn absent(&self) -> String {
        let took_part = |file: &SentFile| receivers(self.names, file).len();
        let most = self.report.sent.iter().map(took_part).max().unwrap_or(0);
        if most >= self.wanted as usize {
            return String::new();
        }
        format!(
            "--receivers {}: {} took part (an address is one receiver, even if it answers as several)\n",
            self.wanted,
            count(most as u32, "receiver")
        )
    }

    /// How many files arrived.
    fn reached(&self) -> String {
        let some = |file: &&SentFile| file.receivers.iter().any(has);
        let some = self.report.sent.iter().filter(some).count() as u32;
        let (complete, files) = (self.complete() as u32, self.report.files);
        if complete == files {
            let all = match files {
                1 => "the file reached all receivers",
                _ => "all files reached all receivers",
            };
            return match self.totals.values().any(|it| it.is_unlisted) {
                true => format!("{all}, but not all folders, permissions and times"),
                false => all.into(),
            };
        }
        match (complete, some.saturating_sub(complete)) {
            (0, 0) => "no file reached a receiver".into(),
            (0, some) => format!("{} reached some of the receivers only", count(some, "file")),
            (complete, 0) => format!("{} reached all receivers", count(complete, "file")),
            (complete, some) => format!(
                "{} reached all receivers, {some} some of them only",
                count(complete, "file")
            ),
        }
    }

    /// Files that every receiver and every address has.
    fn complete(&self) -> usize {
        let all = |file: &&SentFile| {
            let (have, all) = delivered(self.names, file);
            file.unreached.is_empty() && file.in_use.is_empty() && have > 0 && have == all
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

    /// Files, and octets in them, that a receiver has under one of its names.
    fn got(&self, members: &[MemberId]) -> (u32, u64) {
        let is_one = |it: &ReceiverReport| has(it) && members.contains(&it.member);
        let sent = self.report.sent.iter();
        let got = sent.filter(|file| file.receivers.iter().any(is_one));
        got.fold((0, 0), |(files, octets), file| {
            (files + 1, octets + file.size)
        })
    }

    /// Names under which an address answered in the whole call.
    fn names_at(&self, place_of: Place) -> usize {
        let totals = self.totals.iter();
        let same =
            totals.filter(|(member, it)| place(self.names, **member, it.address) == place_of);
        same.count()
    }

    /// A line for each receiver.
    fn table(&self) -> String {
        let mut table = Table::new(&[
            "receiver", "files", "bytes", "rate", "repairs", "loss", "missing",
        ])
        .with_sentences();
        let at_end = |member: &MemberId| {
            let mut receivers = self.last()?.receivers.iter();
            receivers.find(|it| it.member == *member)
        };
        let totals = self.totals.iter();
        let totals = totals.map(|(member, it)| {
            let place = place(self.names, *member, it.address);
            (place, (member, it))
        });
        for same in by_place(totals) {
            let (member, first) = same[0];
            let rest = same[1..].iter();
            let it = &rest.fold(first.clone(), |sum, (_, it)| sum.with(it));
            let (files, octets) = self.got(&same.iter().map(|it| *it.0).collect::<Vec<_>>());
            let missing = self.report.files.saturating_sub(files);
            let why = match at_end(member).is_some_and(is_absent) {
                true => Some(self.why_absent(self.unreached())),
                false => it.why.clone(),
            };
            table.row([
                it.shown.clone(),
                files.to_string(),
                match it.moved.0 {
                    moved @ 1.. if moved < octets => format!("{octets}, {moved} now"),
                    _ => octets.to_string(),
                },
                rate(it.moved.0, it.moved.1),
                it.repairs.to_string(),
                it.loss()
                    .map_or("-".into(), |loss| format!("{:.2} %", loss * 100.0)),
                match (missing, &why) {
                    (0, Some(why)) if it.is_unlisted => {
                        format!("folders, permissions, times: {why}")
                    }
                    (0, _) => "nothing".into(),
                    (missing, Some(why)) => format!("{}: {why}", count(missing, "file")),
                    (missing, None) => count(missing, "file"),
                } + &answered_as(same.len()),
            ]);
        }
        let nameless = self.last().map_or(&[][..], Self::nameless);
        let known = |host: &SocketAddr| self.totals.values().any(|it| it.address == Some(*host));
        let nameless = nameless.iter().copied().filter(|host| !known(host));
        for host in nameless.chain(self.refused()) {
            let host = &host;
            let none = || "0".to_owned();
            let sent = self.report.sent.iter();
            let files = match sent.filter(|it| it.in_use.contains(host)).count() {
                0 => self.report.files,
                refused => refused as u32,
            };
            let files = count(files, "file");
            let missing = format!("{files}: {}", self.why_unreached(host));
            table.row([
                host.to_string(),
                none(),
                none(),
                "-".into(),
                none(),
                "-".into(),
                missing,
            ]);
        }
        table.fit(self.width)
    }

    /// Of many files those that somebody lacks.
    fn incomplete(&self) -> String {
        let lacks = |file: &&SentFile| {
            let (have, all) = delivered(self.names, file);
            file.failure.is_some() || have < all
        };
        let all: Vec<&SentFile> = self.report.sent.iter().filter(lacks).collect();
        let mut text = String::new();
        for file in all.iter().take(NAMED) {
            let lacking = receivers(self.names, file).into_iter();
            let lacking = lacking.filter(|same| !same.iter().any(|it| has(it)));
            let lacking: Vec<String> = lacking.map(|same| name(self.names, same[0])).collect();
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
                "and {} more missing at some receiver\n",
                count(more as u64, "file")
            ));
        }
        text
    }

    /// A file and its receivers.
    fn one(&self, file: &SentFile) -> String {
        let seconds = file.took.as_secs_f64();
        let moved = match file.receivers.iter().any(has) {
            true => moved(file),
            false => 0,
        };
        let sent = match file.size {
            0 => String::new(),
            size => format!(", sent {:.3} times", file.stats.octets as f64 / size as f64),
        };
        let mut text = format!(
            "{}: {} in {seconds:.1} s ({}){sent}, {}\n  blake3 {}\n",
            file.name,
            of_all(moved, file.size),
            rate(moved, seconds),
            count(file.stats.rounds, "pass"),
            hex(&file.digest)
        );
        if let Some(failure) = &file.failure {
            text.push_str(&format!("  {failure}\n"));
        }
        let mut table =
            Table::new(&["receiver", "bytes", "repairs", "loss", "outcome"]).with_sentences();
        for same in receivers(self.names, file) {
            let whole = same.iter().find(|it| has(it));
            let it: &ReceiverReport = whole.unwrap_or(&same[0]);
            let outcome = match it.outcome {
                Fate::Pending => "given up".to_owned(),
                Fate::Delivered => "delivered".to_owned(),
                Fate::Failed(reason) => format!("failed: {}", cause(file, reason)),
                Fate::NeverConnected => self.why_absent(&file.unreached),
            };
            let bytes = match it.outcome {
                Fate::Delivered => file.size,
                _ => 0,
            };
            table.row([
                name(self.names, it),
                bytes.to_string(),
                same.iter().map(|it| it.repairs).sum::<u64>().to_string(),
                format!("{:.2} %", it.loss * 100.0),
                outcome + &answered_as(self.names_at(place(self.names, it.member, it.address))),
            ]);
        }
        for host in Self::nameless(file) {
            let none = || "0".to_owned();
            let outcome = self.why_unreached(host).into_owned();
            table.row([self.called(host), none(), none(), "-".to_owned(), outcome]);
        }
        text.push_str(&table.fit(self.width));
        text
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::Span;
    use layercast_multicast::SenderStats;

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
        assert!(summary.line().files.is_empty());
        assert_eq!(summary.human(), "nothing was sent\n");
    }

    fn delivered(name: &str, data: u64) -> SentFile {
        SentFile {
            name: name.into(),
            size: 1_000_000,
            digest: [0; 32],
            took: Span::from_ms(1),
            failure: None,
            receivers: vec![ReceiverReport {
                member: MemberId(1),
                name: None,
                took: (data > 0).then_some(Span::from_ms(1)),
                address: None,
                outcome: Fate::Delivered,
                repairs: 0,
                lacks: 0,
                loss: 0.0,
                round_trip: Span::ZERO,
            }],
            unreached: Vec::new(),
            other_key: Vec::new(),
            in_use: Vec::new(),
            other_name: BTreeMap::new(),
            stats: SenderStats {
                data,
                octets: data * 1_000_000,
                ..SenderStats::default()
            },
            datagrams: 0,
            malformed: 0,
        }
    }

    #[test]
    fn what_was_there_already_has_no_rate() {
        let report = SendReport {
            files: 1,
            sent: vec![delivered("a", 0)],
            ..SendReport::default()
        };
        let names = Names::new();
        let summary = Summary::new(&names, &report, false);
        let text = summary.human();
        assert!(text.contains("the file reached all receivers"), "{text}");
        assert!(!text.contains("Mbit/s"), "{text}");
        assert_eq!(summary.line().receivers[0].rate_bps, None);
    }

    #[test]
    fn fewer_receivers_than_were_to_take_part_are_told() {
        let report = SendReport {
            files: 1,
            sent: vec![delivered("a", 1)],
            ..SendReport::default()
        };
        let names = Names::new();
        let text = |wanted| Summary::new(&names, &report, false).of(wanted).human();
        assert!(text(3).contains("--receivers 3: 1 receiver took part"));
        assert!(!text(1).contains("took part"));
    }

    #[test]
    fn a_receiver_that_cannot_use_the_list_is_named() {
        let mut list = delivered("list of files", 1);
        list.receivers[0].outcome = Fate::Failed(Reason::Denied);
        let report = SendReport {
            files: 1,
            manifest: Some(list),
            sent: vec![delivered("a", 1)],
            ..SendReport::default()
        };
        let names = Names::new();
        let summary = Summary::new(&names, &report, false);
        let text = summary.human();
        assert!(
            text.contains("folders, permissions, times: it may not write"),
            "{text}"
        );
        assert!(!summary.line().receivers[0].listed);
    }

    #[test]
    fn a_refused_receiver_is_reported_with_the_cause() {
        let host: SocketAddr = "192.0.2.7:7600".parse().unwrap();
        let mut list = delivered("list of files", 1);
        list.in_use.push(host);
        let mut file = delivered("a", 1);
        file.unreached.push(host);
        let mut report = SendReport {
            files: 2,
            manifest: Some(list),
            sent: vec![file, delivered("b", 1)],
            ..SendReport::default()
        };
        let names = Names::new();
        let text = Summary::new(&names, &report, false).human();
        assert!(text.contains("another receiver has its name"), "{text}");
        assert!(!text.contains("never answered"), "{text}");
        assert!(
            text.contains("1 file reached all receivers, 1 some"),
            "{text}"
        );
        // Of a group: no address was expected.
        report.sent[0].unreached.clear();
        report.sent[0].in_use.push(host);
        let text = Summary::new(&names, &report, false).human();
        assert!(
            text.contains("192.0.2.7:7600  ") && text.contains("1 file: another receiver"),
            "{text}"
        );
        assert!(!text.contains("all files reached"), "{text}");
    }

    #[test]
    fn tables_fit_a_terminal_and_are_whole_elsewhere() {
        for receivers in [1, 4, 60] {
            let mut file = delivered("a", 700);
            let one = file.receivers[0].clone();
            let outcome = |n: u64| match n % 3 {
                0 => Fate::Failed(Reason::InUse),
                _ => Fate::Delivered,
            };
            file.receivers = (1..=receivers)
                .map(|n| ReceiverReport {
                    member: MemberId(n),
                    outcome: outcome(n),
                    ..one.clone()
                })
                .collect();
            let name = |n| format!("camera-{n}.on-the-third-floor.of-the-building.example.org");
            let names: Names = (1..=receivers).map(|n| (MemberId(n), name(n))).collect();
            let report = SendReport {
                files: 1,
                sent: vec![file],
                ..SendReport::default()
            };
            let text = |width| Summary::new(&names, &report, false).within(width).human();
            for width in [80, 100] {
                let text = text(Some(width));
                // The first line has the digest.
                let lines = text.lines().filter(|line| line.starts_with("  "));
                let longest = lines.map(|line| line.chars().count()).max();
                assert!(longest <= Some(width), "{longest:?} of {width}:\n{text}");
                let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
                assert_eq!(
                    words.contains("another receiver has its name"),
                    receivers > 1
                );
            }
            assert!(text(None).contains(&name(receivers)));
            assert!(!text(None).contains('…'));
        }
    }

    #[test]
    fn a_receiver_has_its_name_and_the_rate_at_which_it_got_its_files() {
        let mut file = delivered("a", 700);
        // The session waits for a receiver that is gone.
        file.took = Span::from_secs(20);
        file.receivers[0].name = Some("ann".into());
        file.receivers[0].address = Some("192.0.2.7:7600".parse().unwrap());
        let report = SendReport {
            files: 1,
            sent: vec![file],
            took: Span::from_secs(21),
            ..SendReport::default()
        };
        let names = Names::new();
        let summary = Summary::new(&names, &report, false);
        let text = summary.human();
        let row = text.lines().last().unwrap();
        assert!(row.contains("ann (192.0.2.7:7600)"), "{text}");
        assert!(row.contains("8000.0 Mbit/s"), "{text}");
        let line = summary.line();
        assert_eq!(line.receivers[0].name, Some("ann"));
        assert_eq!(line.files[0].receivers[0].seconds, Some(1e-3));
    }

    #[test]
    fn a_host_that_answers_under_another_name_is_told_so() {
        let host: SocketAddr = "192.0.2.7:7600".parse().unwrap();
        let mut file = delivered("a", 0);
        file.receivers[0].outcome = Fate::NeverConnected;
        file.unreached.push(host);
        file.other_name.insert(host, Some("alice".into()));
        let report = SendReport {
            files: 1,
            sent: vec![file],
            ..SendReport::default()
        };
        let names = Names::from([(MemberId(1), "bob".to_owned())]);
        let text = Summary::new(&names, &report, false).human();
        let told = "192.0.2.7:7600 (it answers as alice, which is not in --members)";
        assert!(text.contains(told), "{text}");
    }

    #[test]
    fn an_address_that_answers_as_several_receivers_has_one_row() {
        let host: SocketAddr = "192.0.2.7:7600".parse().unwrap();
        let member = |member, outcome| ReceiverReport {
            member: MemberId(member),
            name: None,
            took: None,
            address: Some(host),
            outcome,
            repairs: 0,
            lacks: 0,
            loss: 0.0,
            round_trip: Span::ZERO,
        };
        let mut list = delivered("list of files", 1);
        let silent = Fate::Failed(Reason::Silent);
        list.receivers = vec![
            member(1, Fate::Failed(Reason::User)),
            member(2, silent),
            member(3, Fate::Delivered),
        ];
        let mut a = delivered("a", 1);
        a.receivers = vec![member(3, silent), member(4, silent)];
        let mut b = delivered("b", 1);
        b.receivers.clear();
        b.unreached.push(host);
        let report = SendReport {
            files: 2,
            manifest: Some(list),
            sent: vec![a, b],
            ..SendReport::default()
        };
        let names = Names::new();
        let text = Summary::new(&names, &report, false).human();
        let rows: Vec<&str> = text.lines().filter(|it| it.contains("192.0.2.7")).collect();
        // One in the table of each file, one in that of all files.
        assert_eq!(rows.len(), 3, "{text}");
        assert!(rows[0].contains("answered as 4 receivers"), "{text}");
        assert!(
            rows[2].contains("2 files: it does not answer (it answered as 4"),
            "{text}"
        );
        assert!(!text.contains(NEVER), "{text}");
    }

    #[test]
    fn an_address_that_has_every_file_under_one_of_its_names_lacks_nothing() {
        let host = Some("192.0.2.7:7600".parse().unwrap());
        let file = |name: &str, has: u64, silent: &[u64]| {
            let mut file = delivered(name, 1);
            file.receivers[0].member = MemberId(has);
            file.receivers[0].address = host;
            let one = file.receivers[0].clone();
            file.receivers
                .extend(silent.iter().map(|member| ReceiverReport {
                    member: MemberId(*member),
                    outcome: Fate::Failed(Reason::Silent),
                    ..one.clone()
                }));
            file
        };
        let report = SendReport {
            files: 2,
            octets: 2_000_000,
            sent: vec![file("a", 1, &[2]), file("b", 3, &[1])],
            ..SendReport::default()
        };
        let names = Names::new();
        let text = Summary::new(&names, &report, false).human();
        assert!(text.contains("all files reached all receivers"), "{text}");
        assert!(!text.contains("some"), "{text}");
        let rows: Vec<&str> = text.lines().filter(|it| it.contains("192.0.2.7")).collect();
        assert_eq!(rows.len(), 3, "{text}");
        let all = |row: &&str| row.contains("(it answered as 3 receivers)");
        assert!(rows.iter().all(all), "{text}");
        assert!(rows[2].contains("nothing"), "{text}");
        assert_eq!(super::delivered(&names, &report.sent[0]), (1, 1));
        let text = Summary::new(&names, &report, true).human();
        assert!(!text.contains("missing at"), "{text}");
    }

    #[test]
    fn a_rate_stands_beside_the_octets_that_were_moved() {
        let mut file = delivered("a", 1);
        file.size = 60_000_000;
        file.stats.octets = 27_700_000;
        file.took = Span::from_secs(2);
        file.receivers[0].took = Some(Span::from_secs(2));
        let report = SendReport {
            files: 1,
            octets: 60_000_000,
            sent: vec![file],
            took: Span::from_secs(4),
            ..SendReport::default()
        };
        let names = Names::new();
        let text = Summary::new(&names, &report, false).human();
        for part in [
            "a: 27.70 MB now of 60.00 MB in 2.0 s (110.8 Mbit/s)",
            "reached all receivers, 27.70 MB now of 60.00 MB of 1 file in all, in 4.0 s (55.4 Mbit/s)",
            "60000000, 27700000 now  110.8 Mbit/s",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn a_member_that_is_missing_has_one_row_with_the_addresses_at_which_it_may_be() {
        let hosts = ["192.0.2.7:7600", "192.0.2.8:7600"].map(|it| it.parse().unwrap());
        let mut file = delivered("a", 1);
        file.receivers.push(ReceiverReport {
            member: MemberId(2),
            outcome: Fate::NeverConnected,
            ..file.receivers[0].clone()
        });
        file.unreached.push(hosts[0]);
        let mut report = SendReport {
            files: 1,
            sent: vec![file],
            ..SendReport::default()
        };
        let names = [(1, "ann"), (2, "bob")];
        let names = names.map(|(number, name)| (MemberId(number), name.to_owned()));
        let names = Names::from(names);
        let rows = |report: &SendReport| {
            let text = Summary::new(&names, report, false).human();
            let rows = text.lines().filter(|it| it.contains("never answered"));
            rows.map(str::to_owned).collect::<Vec<_>>()
        };
        // One in the table of the file, one in that of all files.
        let shown = rows(&report);
        assert_eq!(shown.len(), 2, "{shown:#?}");
        for row in &shown {
            assert!(row.contains("bob"), "{row}");
            assert!(row.contains("never answered, at 192.0.2.7:7600"), "{row}");
        }
        report.sent[0].unreached.push(hosts[1]);
        report.sent[0].other_key.push(hosts[1]);
        let shown = rows(&report);
        assert_eq!(shown.len(), 2, "{shown:#?}");
        let both = "at 192.0.2.7:7600 or 192.0.2.8:7600 (it has another key, or none)";
        assert!(shown.iter().all(|it| it.contains(both)), "{shown:#?}");
        // Without a list of members an address is all that is known.
        report.sent[0].receivers.truncate(1);
        report.sent[0].unreached.truncate(1);
        let shown = rows(&report);
        assert!(
            shown
                .iter()
                .all(|it| it.trim_start().starts_with("192.0.2.7:7600")),
            "{shown:#?}"
        );
        assert_eq!(shown.len(), 2, "{shown:#?}");
    }
}
