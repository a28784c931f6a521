//! How far the departures of the shaper on a socket are from where they belong.
//!
//! Ideal are the departures of the same source machine, driven in virtual time: each timer at its
//! instant. Real are the instants at which the kernel took the datagrams in at the receiving end of
//! loopback.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, IoSliceMut, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use layercast_core::{Level, Machine, NodeId, Off, Span, Time};
use layercast_media::{Clip, Synthetic};
use layercast_mets::{Source, SourceConfig, SourceEvent, SourceTransmit};
use layercast_net::{Clock, SESSION_VERSION, clock_name};
use layercast_wire::{Carriage, LinkPdu, Member, Signal, decode_datagram};
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::Failed;
use crate::flow::{Running, base_clip, fps, frames, local, quantiles, source};

const SECONDS: u32 = 20;
const FPS: u32 = 24;

/// Which datagram: the number of its frame and its place in it.
type Key = (u32, u32);

pub fn run() -> Result<Value, Failed> {
    // All in the base layer, which is sent whatever receivers ask for.
    let canyon = Clip::synthetic(Synthetic::Canyon, fps(FPS), FPS * SECONDS, 1);
    let clip = base_clip(canyon.frames.iter().map(|frame| frame.size), fps(FPS))?;
    let start = Clock::get().now() + Span::from_secs(2);
    let config = source(&clip, 1_000, start);
    let ideal = ideal(config.clone(), &clip)?;
    let server = Running::server(vec![local(config, frames(&clip))])?;
    let real = receive(server.addr, start)?;
    server.stop()?;
    let mut errors = Vec::new();
    let (mut early, mut missed) = (0, 0);
    for (key, at) in &real {
        let Some(ideal) = ideal.get(key) else {
            missed += 1;
            continue;
        };
        let error = at.as_ps() as f64 / 1e6 - ideal.as_ps() as f64 / 1e6;
        early += u32::from(error < 0.0);
        errors.push(error);
    }
    let late = errors.iter().filter(|&&error| error > 1_000.0).count();
    Ok(json!({
        "datagrams": real.len(), "expected": ideal.len(), "not_expected": missed,
        "later_than_a_tick": late, "earlier": early, "error": quantiles(&mut errors),
    }))
}

/// Departures in virtual time.
fn ideal(config: SourceConfig, clip: &Clip) -> Result<HashMap<Key, Time>, Failed> {
    let mut source = Source::new(config)?;
    let mut frames = frames(clip);
    let mut departures = HashMap::new();
    let mut now = Clock::get().now();
    let mut ended = false;
    loop {
        while !ended && source.room() > 0 {
            match frames.next() {
                Some(frame) => source.submit(now, frame)?,
                None => {
                    source.end(now);
                    ended = true;
                }
            }
        }
        while let Some(transmit) = source.poll_transmit(now, &mut Off) {
            if let SourceTransmit::Pdu(LinkPdu::Mets(packet)) = transmit {
                departures.insert((packet.header.seq.0, packet.header.offset), now);
            }
        }
        while let Some(event) = source.poll_event() {
            if matches!(event, SourceEvent::Finished { .. }) {
                return Ok(departures);
            }
        }
        now = source
            .next_timeout()
            .ok_or("the source came to a halt")?
            .max(now);
        source.on_timeout(now, &mut Off);
    }
}

/// Arrivals at a member that does nothing but receive, until the flow is over.
fn receive(server: SocketAddr, start: Time) -> Result<Vec<(Key, Time)>, Failed> {
    let data = UdpSocket::bind("127.0.0.1:0")?;
    setsockopt(&data, sockopt::RcvBuf, &(4 << 20))?;
    setsockopt(&data, sockopt::ReceiveTimestampns, &true)?;
    data.set_read_timeout(Some(Duration::from_millis(100)))?;
    let mut session = TcpStream::connect(server)?;
    session.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut lines = BufReader::new(session.try_clone()?);
    let id = NodeId(9);
    let hello = Signal::Hello {
        node: "counter".into(),
        id,
        version: SESSION_VERSION,
        udp_port: data.local_addr()?.port(),
        carriage: Carriage::Datagrams,
        clock: clock_name(),
        link_key: None,
        repair: None,
        group: None,
        group_repair: None,
        prompt: false,
        clocks: false,
        pings: false,
    };
    session.write_all(&hello.to_line()?)?;
    let flow = loop {
        let mut line = Vec::new();
        lines.read_until(b'\n', &mut line)?;
        if let Signal::Advertise { flow } = Signal::from_line(&line)? {
            break flow.id;
        }
    };
    let name = "counter".into();
    let join = Signal::Join {
        flow,
        epoch: layercast_wire::Epoch::default(),
        member: Member { name, id },
        proof: None,
        level: Level::BASE,
        again: false,
        answer: None,
    };
    session.write_all(&join.to_line()?)?;
    let offset = realtime_offset();
    let mut arrivals = Vec::new();
    let clock = Clock::get();
    let mut buffer = vec![0; 65_536];
    let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec);
    let mut heard = Instant::now();
    let end = start + Span::from_secs(u64::from(SECONDS) + 1);
    while clock.now() < end && heard.elapsed() < Duration::from_secs(5) {
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let flags = MsgFlags::empty();
        let got = recvmsg::<()>(data.as_raw_fd(), &mut parts, Some(&mut control), flags);
        let (length, stamp) = match got {
            Ok(message) => {
                let stamp = message.cmsgs()?.find_map(|it| match it {
                    ControlMessageOwned::ScmTimestampns(stamp) => Some(stamp),
                    _ => None,
                });
                (message.bytes, stamp)
            }
            Err(Errno::EAGAIN | Errno::EINTR) => continue,
            Err(errno) => return Err(errno.into()),
        };
        heard = Instant::now();
        let stamp = stamp.ok_or("the kernel gives no time stamps")?;
        let realtime = stamp.tv_sec() * 1_000_000_000 + stamp.tv_nsec();
        let at = clock.at_monotonic((realtime - offset) as u64);
        let datagram = bytes::Bytes::copy_from_slice(&buffer[..length]);
        let _ = decode_datagram(Carriage::Datagrams, datagram, false, &mut |pdu| {
            if let LinkPdu::Mets(packet) = pdu {
                arrivals.push(((packet.header.seq.0, packet.header.offset), at));
            }
        });
    }
    Ok(arrivals)
}

/// `CLOCK_REALTIME` less `CLOCK_MONOTONIC` in nanoseconds, from the closest of some readings.
fn realtime_offset() -> i64 {
    let ns = |clock| {
        let now = clock_gettime(clock);
        now.tv_sec * 1_000_000_000 + now.tv_nsec
    };
    let readings = (0..100).map(|_| {
        let before = ns(ClockId::Monotonic);
        let realtime = ns(ClockId::Realtime);
        let after = ns(ClockId::Monotonic);
        (after - before, realtime - (before + after) / 2)
    });
    readings.min().map_or(0, |(_, offset)| offset)
}
