//! `layercast nif transfer`.

use layercast_core::Span;
use layercast_host::transfer::{Stack, Transfer, TransferReport};

use super::named;
use crate::failure::Outcome;
use crate::output::{Table, print, print_json};
use crate::units;

const STACKS: &str = "x-kernel, bsd, sunos";

/// `layercast nif transfer`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Both hosts are SPARCstations 2 on an Ethernet of 10 Mbit/s. x-kernel takes each packet through the
protocols in a thread, bsd and sunos in software interrupts. The costs of a stack are those of
specs/network-interface-framework.md 5.

Examples:
  layercast nif transfer --receiver x-kernel --message 1024
  layercast nif transfer --sender bsd --receiver sunos --send-buffer 16384 --receive-buffer 32768")]
pub struct Args {
    /// Stack of the sender: x-kernel, bsd or sunos
    #[arg(long, value_name = "STACK", default_value = "sunos", value_parser = named::<Stack>(STACKS))]
    pub sender: Stack,
    /// Stack of the receiver
    #[arg(long, value_name = "STACK", default_value = "sunos", value_parser = named::<Stack>(STACKS))]
    pub receiver: Stack,
    /// Octets that the receiving application reads in one call
    #[arg(long, value_name = "OCTETS", default_value_t = 1_024, value_parser = units::whole(1..=1_048_576_usize))]
    pub message: usize,
    /// Socket buffer of the sender
    #[arg(long, value_name = "OCTETS", default_value_t = 32_768, value_parser = units::whole(1_460..=65_535_u32))]
    pub send_buffer: u32,
    /// Socket buffer of the receiver
    #[arg(long, value_name = "OCTETS", default_value_t = 16_384, value_parser = units::whole(1_460..=65_535_u32))]
    pub receive_buffer: u32,
    /// How long it is measured, after 2 s
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = units::duration)]
    pub duration: Span,
    /// Print one JSON object (docs/src/reference/json-nif.md)
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let transfer = Transfer {
        sender: args.sender,
        receiver: args.receiver,
        socket_buffers: [args.send_buffer, args.receive_buffer],
        message: args.message,
        duration: args.duration,
    };
    let report = transfer.run();
    match args.json {
        true => print_json(&report),
        false => print(&describe(&report)),
    }
}

fn describe(report: &TransferReport) -> String {
    let mut table = Table::new(&["", "value"]);
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    row("throughput", format!("{:.0} kB/s", report.kbytes_per_s));
    row("processor of the sender", percent(report.sender_busy));
    row("processor of the receiver", percent(report.receiver_busy));
    row("wire", percent(report.wire_busy));
    row("octets of a read", format!("{:.0}", report.read_octets));
    table.render()
}
