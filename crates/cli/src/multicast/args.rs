//! The command lines of `layercast send`, `layercast receive` and `layercast emulate-receivers`.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use layercast_core::{Rate, Span};
use layercast_multicast::Completion;

use crate::metrics::MetricsArgs;
use crate::units;

/// Port of receivers that are named without one.
pub const PORT: u16 = 7600;

/// `layercast send`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("whom").required(true), after_help = "\
Receivers run `layercast receive`. All inputs are looked at before the start; if one is missing or
cannot be sent, all such inputs are named and nothing is sent. A list of all files is sent first,
then each file as one session: it is announced, sent once to all, and repaired by parities until
every receiver says that its BLAKE3 digest is right, or is given up. The summary has a line for each
receiver. A receiver or sender that was killed resumes when it is started again.

Folders are sent with everything in them: relative paths, empty folders, permission bits and
modification times. Symbolic links in them are listed and not sent. Named pipes, sockets and devices
are refused.

Examples:
  layercast send disk.img --group 239.1.2.3:7600
  layercast send photos --to 127.0.0.1:7600
  layercast send photos --to 127.0.0.1:7600 --dry-run
  layercast send a.mkv b.mkv --group 239.1.2.3:7600 --receivers 20 --rate 400Mbit/s
  layercast send disk.img --to ann.example.net --to 192.0.2.7:7600
  layercast send disk.img --group 239.1.2.3:7600 --members ann,bob,eve --enough 2 --json | jq .

Exit codes: 0 every receiver has every file (or as many as --enough says), 1 no receiver has any
file, or an input cannot be sent, 2 wrong use, 3 a receiver or a file is missing, 130 stopped by
Ctrl-C: receivers keep what they have.")]
pub struct Send {
    /// Files and folders
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Follow symbolic links inside folders
    #[arg(long)]
    pub follow_links: bool,
    /// Replace characters that receivers refuse (control characters, changes of the direction of writing) in names
    /// inside folders by _
    #[arg(long)]
    pub rename: bool,
    /// Print what would be sent and an estimate of packets, time and memory, and send nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Share of packets that each receiver loses, 0 to 1, for the estimate of --dry-run
    #[arg(long, value_name = "SHARE", default_value = "0.01", value_parser = share, requires = "dry_run")]
    pub expect_loss: f64,
    /// Print a line for each file and each receiver of it, also for more than 10 files
    #[arg(long, short)]
    pub verbose: bool,
    /// Send to this IP multicast group
    #[arg(long, value_name = "GROUP:PORT", group = "whom", value_parser = units::group_address)]
    pub group: Option<SocketAddrV4>,
    /// Send to this host, port 7600 if none is named; may be given several times
    #[arg(long, value_name = "HOST[:PORT]", group = "whom")]
    pub to: Vec<String>,
    /// Address of the interface for multicast [default: the system chooses]
    #[arg(
        long,
        value_name = "ADDR",
        value_parser = units::interface,
        default_value = "0.0.0.0",
        hide_default_value = true,
        requires = "group",
        conflicts_with = "to"
    )]
    pub interface: Ipv4Addr,
    /// A second group, for receivers that lack too much: they are served after the others, which do not get
    /// that traffic. Receivers need the same option
    #[arg(long, value_name = "GROUP:PORT", value_parser = units::group_address, requires = "group",
          conflicts_with = "to")]
    pub side: Option<SocketAddrV4>,
    /// How far multicast goes: 1 stays in the local network
    #[arg(long, value_name = "HOPS", default_value = "1", requires = "group", conflicts_with = "to", value_parser = units::whole(0..=u8::MAX))]
    pub ttl: u8,
    /// Content octets per second, e.g. 400Mbit/s; auto: adapts to the reported loss; fair: TCP-friendly rate for the
    /// slowest receiver
    #[arg(long, value_name = "RATE|auto|fair", default_value = "100Mbit/s", value_parser = speed)]
    pub rate: Speed,
    /// Begin when N receivers have joined, or when --wait is over
    #[arg(long, value_name = "N", conflicts_with = "members", value_parser = units::whole(1..=65_536_u32))]
    pub receivers: Option<u32>,
    /// Only these receivers (receive --name), and wait for them
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', value_parser = units::Name)]
    pub members: Vec<String>,
    /// How long to wait for receivers at the beginning; others may join later
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = units::span)]
    pub wait: Span,
    /// Succeed once N (or PERCENT) receivers have everything [default: all]; stop when that is impossible
    #[arg(long, value_name = "N|PERCENT", value_parser = enough)]
    pub enough: Option<Completion>,
    /// Succeed only if these receivers (receive --name) have everything, regardless of --enough; stop once one of them
    /// fails
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', value_parser = units::Name)]
    pub key_members: Vec<String>,
    /// Expel receivers that take less than this rate [default: 1440kbit/s, or nine tenths of a lower --rate]; with
    /// --profile frm
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub min_release: Option<Rate>,
    /// Time to wait for answers, in round trips of the slowest receiver [default: 1.5]; with --profile frm
    #[arg(long, value_name = "K", value_parser = factor)]
    pub k: Option<f64>,
    /// How losses are reported and repaired
    #[arg(long, value_enum, default_value = "layercast")]
    pub profile: Profile,
    /// Parities sent immediately behind each block of 256 packets, e.g. where answers take long
    #[arg(long, value_name = "N", default_value = "0", value_parser = units::whole(0..=100_u16))]
    pub redundancy: u16,
    /// Largest content of a packet, in octets; smaller where the path to a receiver has a smaller MTU
    #[arg(long, value_name = "BYTES", default_value = "1400", value_parser = units::whole(64..=8_900_u16))]
    pub packet: u16,
    /// Key file shared with the receivers: authenticates both sides, and encrypts the files
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Print JSON lines instead of a progress bar (docs/src/reference/json.md)
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Write every packet and decision of the machines to this file (JSON-SEQ)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// `layercast receive`.
#[derive(Debug, Args)]
#[command(after_help = "\
Takes the files and folders of one sender and ends; what is not whole waits in a hidden file in DIR
(.NAME-DIGEST.part) for the next start, also of the sender. A file has its name only once its digest
is right and it is written to the disk. Nothing is written outside DIR, and no symbolic link in it
is followed.

Examples:
  layercast receive --group 239.1.2.3:7600 --out downloads
  layercast receive --listen 0.0.0.0:7600 --forever
  layercast receive --group 239.1.2.3:7600 --name ann --wait 10min --json

Exit codes: 0 every file is here and right, 1 none is, or it failed, 2 wrong use, 3 a file is
missing, 130 stopped by Ctrl-C: what is here is kept.")]
pub struct Receive {
    /// Folder for the files
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
    /// Receive from this IP multicast group
    #[arg(long, value_name = "GROUP:PORT", value_parser = units::group_address)]
    pub group: Option<SocketAddrV4>,
    /// Address of the interface for multicast [default: the system chooses]
    #[arg(
        long,
        value_name = "ADDR",
        value_parser = units::interface,
        default_value = "0.0.0.0",
        hide_default_value = true,
        requires = "group"
    )]
    pub interface: Ipv4Addr,
    /// The sender's second group (send --side), joined only when this host lacks too much
    #[arg(long, value_name = "GROUP:PORT", value_parser = units::group_address, requires = "group")]
    pub side: Option<SocketAddrV4>,
    /// Where senders reach this host [default: 0.0.0.0:7600; with --group any port]
    #[arg(long, value_name = "ADDR", value_parser = units::listen)]
    pub listen: Option<SocketAddr>,
    /// Name of this receiver, the same after a restart [default: host and folder]
    #[arg(long, value_parser = units::Name)]
    pub name: Option<String>,
    /// Replace files of the same name; without, the new one gets a number
    #[arg(long)]
    pub overwrite: bool,
    /// Refuse larger files, in bytes: 500M, 20G [default: what the disk has]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub most: Option<u64>,
    /// Packets held until they are written to disk, for senders with --profile frm
    #[arg(long, value_name = "PACKETS", default_value = "4096", value_parser = units::whole(1..=65_536_u32))]
    pub buffer: u32,
    /// Print a line for each file, also for more than 10 files
    #[arg(long, short)]
    pub verbose: bool,
    /// Continue after the files of one sender
    #[arg(long)]
    pub forever: bool,
    /// Give up when no sender was heard for this time [default: never]
    #[arg(long, value_name = "TIME", value_parser = units::span)]
    pub wait: Option<Span>,
    /// Key file shared with the sender: authenticates both sides, and encrypts the files
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Print JSON lines instead of a progress bar (docs/src/reference/json.md)
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Write every packet and decision of the machines to this file (JSON-SEQ)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// `layercast emulate-receivers`.
#[derive(Debug, Args)]
#[command(after_help = "\
By default each receiver has its own address, losses and delay, and discards the content (hundreds
of receivers). With --lares receivers take no data and acknowledge every request one after the
other (thousands), to load the sender with answers. These are the emulators Mars and Lares of RMTP
(docs/src/specs/rmtp-large-scale.md). The command ends with the sender's last file.

Examples:
  layercast emulate-receivers --group 239.1.2.3:7600 --count 100 --loss 0.01 --delay 50ms
  layercast emulate-receivers --group 239.1.2.3:7600 --count 1000 --lares --gap 3ms
  layercast send disk.img --group 239.1.2.3:7600 --profile rmtp --rate 800kbit/s

Exit codes: 0 all receivers have everything, 1 none has, or failure, 2 wrong use, 3 some have, 130
stopped by Ctrl-C.")]
pub struct EmulateReceivers {
    /// The IP multicast group
    #[arg(long, value_name = "GROUP:PORT", value_parser = units::group_address)]
    pub group: SocketAddrV4,
    /// Address of the interface for multicast [default: the system chooses]
    #[arg(
        long,
        value_name = "ADDR",
        value_parser = units::interface,
        default_value = "0.0.0.0",
        hide_default_value = true
    )]
    pub interface: Ipv4Addr,
    /// Number of receivers
    #[arg(long, value_name = "N", default_value = "100", value_parser = units::whole(1..=65_536_u32))]
    pub count: u32,
    /// Loss probability of each receiver, independent: from 0, below 1
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share, conflicts_with = "lares")]
    pub loss: f64,
    /// Additional delay of each receiver
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = units::span, conflicts_with = "lares")]
    pub delay: Span,
    /// Receivers only acknowledge every request, without taking data, as the emulator Lares of RMTP does
    /// (docs/src/specs/rmtp-large-scale.md)
    #[arg(long, conflicts_with = "key")]
    pub lares: bool,
    /// Time between the answers of two receivers
    #[arg(long, value_name = "TIME", default_value = "3ms", value_parser = units::span, requires = "lares",
          conflicts_with_all = ["loss", "delay", "key"])]
    pub gap: Span,
    /// Key file shared with the sender: authenticates both sides
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Give up when no sender was heard for this time [default: never]
    #[arg(long, value_name = "TIME", value_parser = units::span)]
    pub wait: Option<Span>,
    /// Print the result as JSON (docs/src/reference/json.md)
    #[arg(long)]
    pub json: bool,
}

/// `layercast send --rate`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speed {
    /// Adapted to the reported loss.
    Auto,
    /// As fast as TCP.
    Fair,
    /// This number of octets per second.
    Fixed(Rate),
}

/// `layercast send --profile`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Profile {
    /// Parities repair the losses of all receivers; only receivers with losses answer
    Layercast,
    /// NTT/IBM's protocol of 1996: packets are retransmitted until all receivers have acknowledged everything
    Rmtp,
    /// FRM of 1996: a stream at the pace of the slowest receiver, which is expelled below 180 kB/s; after a
    /// loss everything is retransmitted (go-back-N); no late joins
    Frm,
}

fn speed(text: &str) -> Result<Speed, String> {
    match text {
        "auto" => Ok(Speed::Auto),
        "fair" => Ok(Speed::Fair),
        text => match units::rate(text) {
            Ok(rate) => Ok(Speed::Fixed(rate)),
            Err(error) => Err(format!("{error}, \"auto\" or \"fair\"")),
        },
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..1.0).contains(&share) => Ok(share),
        _ => Err("expected a probability from 0, below 1, such as 0.01".to_owned()),
    }
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if (1.001..=100.0).contains(&factor) => Ok(factor),
        _ => Err("expected a number above 1, at most 100, such as 1.5".to_owned()),
    }
}

fn enough(text: &str) -> Result<Completion, String> {
    let expected =
        || "expected a number of receivers, at least 1, or a share from 1% to 100%".to_owned();
    match text.strip_suffix('%') {
        Some(share) => match share.parse::<u32>() {
            Ok(share @ 1..=100) => Ok(Completion::Quorum(share * 10)),
            _ => Err(expected()),
        },
        None => match text.parse() {
            Ok(count @ 1..) => Ok(Completion::AtLeast(count)),
            _ => Err(expected()),
        },
    }
}

fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" | "B" => 1,
        "k" | "kB" => 1_000,
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        "T" | "TB" => 1_000_000_000_000,
        _ => return Err("expected bytes such as 700M or 20G".into()),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "expected bytes such as 700M or 20G")?;
    number
        .checked_mul(factor)
        .ok_or_else(|| "too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_and_wrong_ones_refused() {
        assert_eq!(size("20G"), Ok(20_000_000_000));
        assert!(size("20X").is_err() && size("99999999999T").is_err());
        assert_eq!(enough("90%"), Ok(Completion::Quorum(900)));
        assert_eq!(enough("3"), Ok(Completion::AtLeast(3)));
        assert!(enough("0").is_err() && enough("101%").is_err());
        assert_eq!(speed("auto"), Ok(Speed::Auto));
        assert_eq!(speed("fair"), Ok(Speed::Fair));
        assert!(speed("0bit/s").is_err());
        assert_eq!(share("0.01"), Ok(0.01));
        assert!(share("1").is_err() && share("NaN").is_err());
        assert!(
            units::group_address("10.0.0.1:7600").is_err()
                && units::group_address("239.1.2.3").is_err()
        );
    }
}
