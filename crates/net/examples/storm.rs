//! A hostile neighbour: sends the fuzz corpus and mutations of it to a node's UDP port.
//!
//! `cargo run --release -p layercast-net --example storm -- ADDRESS CORPUS_DIR PACKETS_PER_SECOND SECONDS [SOURCE_PORT]`
//! prints how many datagrams were sent. Loopback addresses only: it is a test tool.

use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use layercast_core::Stream;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, corpus, rate, seconds, rest @ ..] = arguments.as_slice() else {
        return Err(
            "usage: storm ADDRESS CORPUS_DIR PACKETS_PER_SECOND SECONDS [SOURCE_PORT]".into(),
        );
    };
    let address: SocketAddr = address.parse()?;
    if !address.ip().is_loopback() {
        return Err(format!("{address} is not a loopback address").into());
    }
    let (rate, seconds): (u64, u64) = (rate.parse()?, seconds.parse()?);
    let port: u16 = rest.first().map_or(Ok(0), |port| port.parse())?;
    let socket = UdpSocket::bind(("127.0.0.1", port))?;
    let mut packets = Vec::new();
    collect(Path::new(corpus), &mut packets)?;
    if packets.is_empty() {
        return Err(format!("no files in {corpus}").into());
    }

    let mut random = Stream::new(1, "storm");
    let (start, length) = (Instant::now(), Duration::from_secs(seconds));
    let (mut sent, mut refused) = (0u64, 0u64);
    while start.elapsed() < length {
        let due = (start.elapsed().as_secs_f64() * rate as f64) as u64;
        while sent + refused < due {
            let mut packet = packets[random.below(packets.len() as u64) as usize].clone();
            if !packet.is_empty() && random.chance(0.5) {
                let at = random.below(packet.len() as u64) as usize;
                packet[at] ^= 1 << random.below(8);
            }
            match socket.send_to(&packet, address) {
                Ok(_) => sent += 1,
                Err(_) => refused += 1,
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    println!("{{\"sent\": {sent}, \"refused\": {refused}, \"seconds\": {seconds}}}");
    Ok(())
}

/// The contents of every file below `folder` that fits into a datagram.
fn collect(folder: &Path, packets: &mut Vec<Vec<u8>>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, packets)?;
        } else {
            let bytes = std::fs::read(&path)?;
            if bytes.len() <= 1_472 {
                packets.push(bytes);
            }
        }
    }
    Ok(())
}
