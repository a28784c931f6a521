//! `layercast nif`: simulated hosts: network interface, processor, protocols; and one on sockets.

mod buffers;
mod jitter;
mod sockets;
mod transfer;

use clap::{Args, Subcommand};

use crate::failure::Outcome;
use crate::output::Table;

/// `layercast nif`.
#[derive(Debug, Args)]
#[command(after_help = "\
Much of the delay of a packet is spent inside the machine that receives it. These commands simulate
such a machine: an adapter and its driver, the processor with interrupts and threads, TCP, and
applications. `jitter` says what file transfers do to a video, by the way the host schedules;
`transfer` how fast a bulk transfer is with the costs of a stack; `buffers` which client loses
packets if one keeps its buffers. `sockets` is `jitter` on sockets of this machine.

Examples:
  layercast nif jitter --transfers 3
  layercast nif jitter --transfers 3 --network atm --scheduling preemptive
  layercast nif transfer --receiver x-kernel --message 1024
  layercast nif sockets --transfers 3 --order priority
  layercast nif buffers --hog --pool 8")]
pub struct Nif {
    /// What to simulate
    #[command(subcommand)]
    pub command: NifCommand,
}

/// What to simulate.
#[derive(Debug, Subcommand)]
pub enum NifCommand {
    /// A host that shows a video while files are transferred to it
    Jitter(jitter::Args),
    /// A bulk transfer over TCP between two hosts on an Ethernet
    Transfer(transfer::Args),
    /// A video beside bulk transfers in one process, on sockets of this machine, in real time
    Sockets(sockets::Args),
    /// Two clients of one driver, one of which may keep its buffers
    Buffers(buffers::Args),
}

/// Runs the command.
pub fn run(args: &Nif) -> Outcome {
    match &args.command {
        NifCommand::Jitter(args) => jitter::run(args),
        NifCommand::Transfer(args) => transfer::run(args),
        NifCommand::Sockets(args) => sockets::run(args),
        NifCommand::Buffers(args) => buffers::run(args),
    }
}

/// What a host did with a video and transfers beside it.
struct Shown {
    frames: u32,
    variance_ms2: f64,
    /// The longest and the shortest time between two frames.
    periods_ms: [f64; 2],
    /// Where the frames were observed before this host processed them, and the variance there.
    before: (&'static str, f64),
    missed: u32,
    transfer_packets_per_s: f64,
}

impl Shown {
    /// The table of it, for more rows.
    fn table(&self) -> Table {
        let mut table = Table::new(&["", "value"]);
        let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
        let (Shown { frames, missed, .. }, [longest, shortest]) = (self, self.periods_ms);
        row("frames shown", frames.to_string());
        row(
            "time between two frames, variance",
            format!("{:.1} ms²", self.variance_ms2),
        );
        row(
            "longest, shortest",
            format!("{longest:.1} ms, {shortest:.1} ms"),
        );
        let (place, variance) = self.before;
        row(&format!("variance {place}"), format!("{variance:.2} ms²"));
        row("frames more than a period late", missed.to_string());
        row(
            "packets of transfers",
            format!("{:.0}/s", self.transfer_packets_per_s),
        );
        table
    }
}

/// A value by the name that its file form has.
fn named<T: serde::de::DeserializeOwned>(
    names: &'static str,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        serde_json::from_value(serde_json::Value::String(text.to_ascii_lowercase()))
            .map_err(|_| format!("it is one of {names}"))
    }
}
