//! `layercast nif buffers`.

use layercast_host::buffers::{Adapter, Buffers};
use layercast_nif::{Policy, Refill};

use super::named;
use crate::failure::{Failure, Outcome};
use crate::output::{Table, print, print_json};
use crate::units;

/// `layercast nif buffers`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A client gets a packet only against an empty buffer that it gave. --policy:
  swap-or-return  any buffer, in exchange
  must-return     one that it gave itself: a ring has to copy the packet
  peek-only       none: it looks at the packet during the interrupt

Examples:
  layercast nif buffers --hog --pool 8
  layercast nif buffers --adapter circuits --policy must-return --json")]
pub struct Args {
    /// The adapter: ring (one ring for all) or circuits (buffers of each client)
    #[arg(long, value_name = "ring|circuits", default_value = "ring", value_parser = named::<Adapter>("ring, circuits"))]
    pub adapter: Adapter,
    /// What buffers both clients want
    #[arg(long, value_name = "NAME", default_value = "swap-or-return", value_parser = named::<Policy>("swap-or-return, must-return, peek-only"))]
    pub policy: Policy,
    /// When the driver takes empty buffers: lazy (in the interrupt) or eager (before)
    #[arg(long, value_name = "lazy|eager", default_value = "lazy", value_parser = named::<Refill>("lazy, eager"))]
    pub refill: Refill,
    /// Buffers of each client
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = units::whole(0..=10_000_u32))]
    pub pool: u32,
    /// Packets for each client
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = units::whole(1..=10_000_000_u32))]
    pub packets: u32,
    /// The second client returns no buffer
    #[arg(long)]
    pub hog: bool,
    /// Print one JSON object (docs/src/reference/json-nif.md)
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let buffers = Buffers {
        adapter: args.adapter,
        policy: args.policy,
        refill: args.refill,
        pool: args.pool,
        packets: args.packets,
        has_hog: args.hog,
    };
    let report = buffers.run().map_err(Failure::wrong_use)?;
    if args.json {
        return print_json(&report);
    }
    let mut table = Table::new(&["client", "delivered", "dropped", "copied"]);
    for (name, of) in [("first", &report.first), ("second", &report.second)] {
        let numbers = [of.delivered, of.drops.total(), of.copied].map(|it| it.to_string());
        let [delivered, dropped, copied] = numbers;
        table.row([name.to_owned(), delivered, dropped, copied]);
    }
    let kept = match report.conserved {
        true => "the number of buffers never changed",
        false => "the number of buffers changed",
    };
    print(&format!("{}\n{kept}\n", table.render().trim_end()))
}
