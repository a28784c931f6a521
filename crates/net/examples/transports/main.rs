//! One end of a comparison of transports, as JSON on standard output:
//!
//! ```text
//! transports take PROTOCOL LISTEN                   receives until the end; first {"ready": address}
//! transports bulk PROTOCOL ADDRESS SECONDS [RATE]   as fast as possible, at most RATE bytes/s where XTP keeps a rate
//! transports pace PROTOCOL ADDRESS SECONDS          messages of 200 bytes, 1000 a second
//! ```
//!
//! PROTOCOL: `tcp` (of the system, no delay), `quic` (quinn), `xtp` (reliable), `xtp-loose` (no error control),
//! `xtp-open` (no error control, data without checksum), `xtp-host` (reliable, as many tasks use it). The
//! receiver reports bytes, time from the first to the last, processor time of the process, and how long the
//! messages were under way; the sender its processor time. `scripts/peers/transports.py` puts the ends
//! together, with SRT beside them (`python/layercast_lab/peers/srt.cpp`).

mod host;
mod load;
mod quic;
mod tcp;
mod xtp;

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use load::{Load, Taken};
use serde_json::{Value, json};

type Failed = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failed> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(run(&args))?;
    println!("{result}");
    Ok(())
}

async fn run(args: &[&str]) -> Result<Value, Failed> {
    let (role, protocol, address, rest) = match args {
        [role, protocol, address, rest @ ..] => {
            (*role, *protocol, address.parse::<SocketAddr>()?, rest)
        }
        _ => {
            return Err(
                "usage: transports take|bulk|pace PROTOCOL ADDRESS [SECONDS [RATE]]".into(),
            );
        }
    };
    if role == "take" {
        let mut taken = Taken::default();
        match protocol {
            "tcp" => tcp::take(address, &mut taken).await?,
            "quic" => quic::take(address, &mut taken).await?,
            "xtp-host" => host::take(address, &mut taken).await?,
            _ => xtp::take(address, protocol, &mut taken).await?,
        }
        return Ok(taken.report());
    }
    let seconds: f64 = rest.first().ok_or("for how many seconds?")?.parse()?;
    let rate = rest.get(1).map_or(Ok(0), |rate| rate.parse())?;
    let lasts = Duration::from_secs_f64(seconds);
    let mut load = match role {
        "bulk" => Load::bulk(lasts),
        "pace" => Load::paced(lasts)?,
        _ => return Err(format!("no such role: {role}").into()),
    };
    match protocol {
        "tcp" => tcp::send(address, &mut load).await?,
        "quic" => quic::send(address, &mut load).await?,
        "xtp-host" => host::send(address, &mut load).await?,
        _ => {
            let stats = xtp::send(address, protocol, rate, &mut load).await?;
            return Ok(json!({
                "sent": load.sent,
                "cpu_seconds": load.cpu(),
                "retransmitted": stats.retransmitted,
                "handshakes": stats.handshakes,
            }));
        }
    }
    Ok(json!({ "sent": load.sent, "cpu_seconds": load.cpu() }))
}

/// The line that informs the other end of the address.
fn ready(address: SocketAddr) {
    println!("{}", json!({ "ready": address.to_string() }));
}
