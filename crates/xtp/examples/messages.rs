//! Ten messages between two hosts over a path with 20 ms of delay that loses every tenth packet, in virtual time.
//!
//! `cargo run -p layercast-xtp --example messages`

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use layercast_core::{Machine, Off, Span, Time, earliest};
use layercast_wire::{Payload, XtpService};
use layercast_xtp::{Endpoint, SendOptions, XtpConfig, XtpError, XtpSocket};

const MESSAGES: usize = 10;
const DELAY: Span = Span::from_ms(20);
const PORT: u16 = 7_000;

fn socket(host: u8, port: u16) -> XtpSocket {
    let ip = IpAddr::V4(Ipv4Addr::new(10, 0, 0, host));
    let net = SocketAddr::new(ip, 0);
    XtpSocket { net, port }
}

fn main() -> Result<(), XtpError> {
    let mut hosts = ["left", "right"].map(|name| Endpoint::new(4, name, &[7; 32]));
    let config = XtpConfig::new(XtpService::STREAM);
    let mut now = Time::ZERO;

    hosts[1].listen(PORT, 1, config.clone())?;
    let sender = hosts[0].connect(now, socket(1, 6_000), socket(2, PORT), &config)?;
    let mut receiver = None;
    // Packets on the way: when and where they arrive.
    let mut path = VecDeque::new();
    let mut rest = Payload::Zeros(0);
    let (mut begun, mut ended, mut packets, mut lost) = (0, 0, 0u32, 0u32);
    while ended < MESSAGES {
        if rest.is_empty() && begun < MESSAGES {
            rest = Payload::Bytes(vec![begun as u8; 5_000].into());
            begun += 1;
        }
        if !rest.is_empty() {
            // `send` takes what the window has room for.
            let taken = hosts[0].send(sender, &rest, &SendOptions::MESSAGE)?;
            rest = rest.slice(taken..rest.len());
        }
        receiver = receiver.or_else(|| hosts[1].accept(PORT).map(|it| it.0));
        while let Some(chunk) = receiver.and_then(|id| hosts[1].receive(id, usize::MAX).ok()?) {
            ended += usize::from(chunk.end_of_message);
        }
        for (from, host) in hosts.iter_mut().enumerate() {
            while let Some(packet) = host.poll_transmit(now, &mut Off) {
                packets += 1;
                match packets % 10 {
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
    println!("{ended} messages in {seconds:.3} s, {packets} packets, {lost} of them lost");
    Ok(())
}
