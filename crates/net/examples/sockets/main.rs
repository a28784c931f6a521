//! How Layercast does on the sockets of this machine, as JSON on standard output.
//!
//! ```text
//! sockets capacity    receivers of 1.5 Mb/s that a server on one core feeds until a base-layer frame is
//!                     lost or late, and receivers that one core takes
//! sockets latency     delay that each switch on the way adds to a frame of one datagram
//! sockets flows       delay of one flow and of eight (METS E3)
//! sockets pacing      departures of the shaper against those of the same machine in virtual time
//! ```

mod capacity;
mod flow;
mod flows;
mod latency;
mod pacing;

use std::error::Error;

type Failed = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failed> {
    let what = std::env::args().nth(1).unwrap_or_default();
    let result = match what.as_str() {
        "capacity" => capacity::run()?,
        "latency" => latency::run()?,
        "flows" => flows::run()?,
        "pacing" => pacing::run()?,
        _ => return Err("usage: sockets capacity | latency | flows | pacing".into()),
    };
    println!("{result}");
    Ok(())
}
