//! A transfer between two hosts over a path with 20 ms of delay that loses every fiftieth packet, in virtual time.
//!
//! `cargo run -p layercast-tcp --example transfer`

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};

use layercast_core::{Machine, Off, Span, Time, earliest};
use layercast_tcp::{Endpoint, Profile, TcpConfig, TcpError};
use layercast_wire::Payload;

const BYTES: usize = 1_000_000;
const DELAY: Span = Span::from_ms(20);
const PORT: u16 = 80;

fn main() -> Result<(), TcpError> {
    let config = TcpConfig::from(Profile::Modern);
    let host = |name| Endpoint::new(config.clone(), name, &[7; 32]).expect("a valid configuration");
    let mut hosts = [host("left"), host("right")];
    let address = |host: u8, port| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), port);
    let mut now = Time::ZERO;

    hosts[1].listen(PORT, 1)?;
    let sender = hosts[0].connect(now, address(1, 0), address(2, PORT))?;
    let mut receiver = None;
    // Packets on the way: when and where they arrive.
    let mut path = VecDeque::new();
    let (mut written, mut read, mut packets, mut lost) = (0, 0, 0u32, 0u32);
    while read < BYTES {
        if written < BYTES {
            // Counted zeros: a simulator needs no real bytes. `write` takes what the buffer has room for.
            let rest = Payload::Zeros((BYTES - written) as u32);
            written += hosts[0].write(sender, &rest)?;
        }
        receiver = receiver.or_else(|| hosts[1].accept(PORT).map(|it| it.0));
        while let Some(data) = receiver.and_then(|id| hosts[1].read(id, usize::MAX).ok()?) {
            read += data.len();
        }
        for (from, host) in hosts.iter_mut().enumerate() {
            while let Some(packet) = host.poll_transmit(now, &mut Off) {
                packets += 1;
                match packets % 50 {
                    0 => lost += 1,
                    _ => path.push_back((now + DELAY, 1 - from, packet)),
                }
            }
        }
        let timers = earliest(hosts[0].next_timeout(), hosts[1].next_timeout());
        let Some(next) = earliest(path.front().map(|it| it.0), timers) else {
            break;
        };
        now = now.max(next);
        for host in &mut hosts {
            host.on_timeout(now, &mut Off);
        }
        while let Some((_, to, packet)) = path.pop_front_if(|it| it.0 <= now) {
            hosts[to].handle(now, packet, &mut Off);
        }
    }
    let seconds = now.since(Time::ZERO).as_secs_f64();
    println!("{read} bytes in {seconds:.3} s, {packets} packets, {lost} of them lost");
    Ok(())
}
