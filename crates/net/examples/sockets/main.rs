//! How Layercast does on the sockets of this machine, as JSON on standard output.
//!
//! ```text
//! sockets capacity    receivers of 1.5 Mbit/s that a server on one core feeds until a base-layer frame is
//!                     lost or late, and receivers that one core takes
//! sockets latency     delay that each switch on the way adds to a frame of one datagram
//! sockets orl         XTP as ORL measured it in 1995 (specs/xtp.md O1 to O5), as a library and by a daemon:
//!                     `layercast-lab reproduce xtp/o1-sockets`
//! sockets sandia      the same machine on the boards of 1995, in virtual time: `layercast-lab reproduce xtp/o1`
//! sockets pacing      departures of the shaper against those of the same machine in virtual time
//! sockets xtpd PATH  the daemon of `orl`, a process of its own
//! sockets testbed     flows from atc to dwp (METS E1 to E4), as JSON on standard input says:
//!                     `layercast-lab reproduce mets/e2-sockets` and the like
//! ```

mod capacity;
mod flow;
mod latency;
mod orl;
mod pacing;
mod sandia;
mod testbed;

use std::error::Error;

type Failed = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failed> {
    let what = std::env::args().nth(1).unwrap_or_default();
    let result = match what.as_str() {
        "capacity" => capacity::run()?,
        "latency" => latency::run()?,
        "orl" => orl::run()?,
        "pacing" => pacing::run()?,
        "sandia" => sandia::run()?,
        "testbed" => testbed::run()?,
        "xtpd" => orl::serve()?,
        _ => {
            return Err(
                "usage: sockets capacity | latency | orl | pacing | sandia | testbed".into(),
            );
        }
    };
    println!("{result}");
    Ok(())
}
