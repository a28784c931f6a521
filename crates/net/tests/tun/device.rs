//! Drives our TCP over a TUN device, behind a link that loses, reorders and duplicates.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use layercast_core::{Machine, Off, Span, Time, earliest};
use layercast_link::{Link, LinkConfig, LinkInput};
use layercast_tcp::{ConnId, Ecn, Endpoint, TcpConfig, TcpEvent, TcpPacket};
use layercast_wire::{IpBody, Ipv4Packet, Payload};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tun_rs::{DeviceBuilder, SyncDevice};

use super::kernel::pattern;

/// The kernel's address.
pub const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The address of our TCP.
pub const OURS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// Where the listener is, on whichever side.
pub const PORT: u16 = 5_001;

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(240);
const MTU: usize = 1_500;
const DEVICE: &str = "lctun";

pub struct Bench {
    pub endpoint: Endpoint,
    device: SyncDevice,
    inbound: Link<Bytes>,
    outbound: Link<Bytes>,
    start: Instant,
    events: Vec<TcpEvent>,
}

impl Bench {
    pub fn new(config: TcpConfig, weather: LinkConfig) -> Bench {
        let device = DeviceBuilder::new()
            .name(DEVICE)
            .build_sync()
            .expect("a TUN device");
        device.set_nonblocking(true).expect("a flag");
        for args in [
            format!("addr add {KERNEL}/24 dev {DEVICE}"),
            format!("link set {DEVICE} mtu {MTU} up"),
        ] {
            let status = Command::new("ip").args(args.split(' ')).status();
            assert!(status.expect("ip runs").success(), "ip {args}");
        }
        // Each bench has ports of its own: the kernel remembers those of the last one.
        static BENCHES: AtomicU32 = AtomicU32::new(0);
        let name = format!("ours-{}", BENCHES.fetch_add(1, Ordering::Relaxed));
        Bench {
            endpoint: Endpoint::new(config, &name, &[3; 32]).expect("a good configuration"),
            device,
            inbound: Link::new(weather, 1, "in"),
            outbound: Link::new(weather, 1, "out"),
            start: Instant::now(),
            events: Vec::new(),
        }
    }

    fn now(&self) -> Time {
        Time::ZERO + Span::from_ns(self.start.elapsed().as_nanos() as u64)
    }

    /// One turn of the driver; waits for the device or the next deadline if nothing is to be done.
    fn turn(&mut self) {
        let mut busy = self.receive();
        let now = self.now();
        while let Some(bytes) = self.inbound.poll_transmit(now, &mut Off) {
            busy = true;
            // The kernel's own chatter, such as router solicitations, is not for us.
            if let Ok(Ipv4Packet {
                src,
                dst: OURS,
                tos,
                body: IpBody::Tcp(segment),
                ..
            }) = Ipv4Packet::decode(bytes)
            {
                let packet = TcpPacket {
                    src,
                    dst: OURS,
                    ecn: Ecn::of_tos(tos),
                    segment,
                };
                self.endpoint.handle(now, packet, &mut Off);
            }
        }
        if self.endpoint.next_timeout().is_some_and(|at| at <= now) {
            self.endpoint.on_timeout(now, &mut Off);
        }
        while let Some(event) = self.endpoint.poll_event() {
            self.events.push(event);
        }
        if !busy {
            self.sleep(now);
        }
    }

    /// Sends what is due. Apart from `turn`, so that what was read opens the window first.
    fn flush(&mut self) {
        let now = self.now();
        while let Some(packet) = self.endpoint.poll_transmit(now, &mut Off) {
            let mut bytes = Vec::with_capacity(MTU);
            let TcpPacket {
                src,
                dst,
                ecn,
                segment,
            } = packet;
            let packet = Ipv4Packet {
                tos: ecn.in_tos(0),
                ..Ipv4Packet::new(src, dst, IpBody::Tcp(segment))
            };
            packet
                .encode_into(&mut bytes)
                .expect("a packet of lawful size");
            assert!(bytes.len() <= MTU, "{} bytes", bytes.len());
            let item = bytes.into();
            self.outbound
                .handle(now, LinkInput { ready: now, item }, &mut Off);
        }
        while let Some(bytes) = self.outbound.poll_transmit(now, &mut Off) {
            // A full device drops, as any does.
            let _ = self.device.send(&bytes);
        }
        while let Some(event) = self.endpoint.poll_event() {
            self.events.push(event);
        }
    }

    fn receive(&mut self) -> bool {
        let mut any = false;
        for _ in 0..64 {
            let mut buffer = vec![0; MTU];
            match self.device.recv(&mut buffer) {
                Ok(count) => buffer.truncate(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("TUN device: {error}"),
            }
            any = true;
            let ready = self.now();
            let item = buffer.into();
            self.inbound
                .handle(ready, LinkInput { ready, item }, &mut Off);
        }
        any
    }

    fn sleep(&self, now: Time) {
        let links = earliest(self.inbound.next_timeout(), self.outbound.next_timeout());
        let next = earliest(links, self.endpoint.next_timeout());
        let most = Span::from_ms(5);
        let wait = next
            .map_or(most, |at| at.since(now))
            .as_ns()
            .min(most.as_ns());
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: wait as i64,
        };
        let mut fds = [PollFd::from_borrowed_fd(self.device.as_fd(), PollFlags::IN)];
        // Interrupted or not, the next turn looks again.
        let _ = poll(&mut fds, Some(&timeout));
    }

    pub fn wait(&mut self, what: &str, mut until: impl FnMut(&mut Bench) -> bool) {
        let start = Instant::now();
        loop {
            self.turn();
            let done = until(self);
            self.flush();
            if done {
                return;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "no {what} in {PATIENCE:?}: {:?}",
                self.events
            );
        }
    }

    pub fn wait_for_thread<T>(&mut self, thread: JoinHandle<T>) -> T {
        self.wait("end of the other side", |_| thread.is_finished());
        thread.join().expect("the other side")
    }

    pub fn was_told(&self, event: TcpEvent) -> bool {
        self.events.contains(&event)
    }

    pub fn connect_to(&mut self, host: Ipv4Addr, port: u16) -> ConnId {
        let (local, remote) = (SocketAddrV4::new(OURS, 0), SocketAddrV4::new(host, port));
        self.endpoint
            .connect(self.now(), local, remote)
            .expect("a free port")
    }

    pub fn connect(&mut self, port: u16) -> ConnId {
        let id = self.connect_to(KERNEL, port);
        self.wait("connection", |bench| {
            bench.was_told(TcpEvent::Connected(id))
        });
        id
    }

    pub fn accept(&mut self, port: u16) -> ConnId {
        let mut accepted = None;
        self.wait("incoming connection", |bench| {
            accepted = bench.endpoint.accept(port);
            accepted.is_some()
        });
        accepted.expect("a connection").0
    }

    pub fn close(&mut self, id: ConnId) {
        let _ = self.endpoint.close(self.now(), id);
        self.flush();
    }

    pub fn read(&mut self, id: ConnId) -> Vec<u8> {
        let mut out = Vec::new();
        while let Ok(Some(payload)) = self.endpoint.read(id, usize::MAX) {
            payload.append_to(&mut out);
        }
        out
    }

    pub fn read_to_end(&mut self, id: ConnId) -> Vec<u8> {
        let mut out = Vec::new();
        self.wait("end of stream", |bench| {
            out.extend(bench.read(id));
            bench.endpoint.available(id) == Some((0, true))
        });
        out
    }

    pub fn write_all(&mut self, id: ConnId, bytes: &[u8]) {
        let mut rest = Bytes::copy_from_slice(bytes);
        self.wait("room to write", |bench| {
            let taken = bench.endpoint.write(id, &Payload::Bytes(rest.clone()));
            rest = rest.split_off(taken.expect("an open connection"));
            rest.is_empty()
        });
    }

    /// Sends and receives `len` bytes of the pattern simultaneously; gives what it took.
    pub fn exchange(&mut self, id: ConnId, len: usize) -> String {
        let (mut written, mut got) = (0, 0);
        let before = self.endpoint.stats();
        let start = Instant::now();
        self.wait("end of the exchange", |bench| {
            while written < len {
                let part = (len - written).min(1 << 16);
                let data = Payload::Bytes(pattern(written, part).into());
                let taken = bench.endpoint.write(id, &data).expect("an open connection");
                written += taken;
                if taken < part {
                    break;
                }
            }
            if written == len {
                bench.endpoint.shutdown(id).expect("an open connection");
            }
            let bytes = bench.read(id);
            assert!(bytes == pattern(got, bytes.len()), "wrong bytes at {got}");
            got += bytes.len();
            bench.was_told(TcpEvent::Closed(id))
        });
        assert_eq!(got, len);
        let stats = self.endpoint.stats();
        format!(
            "{:.1} s, {} segments in, {} out, {} of them again, {} time-outs, {} fast retransmits",
            start.elapsed().as_secs_f64(),
            stats.received - before.received,
            stats.sent - before.sent,
            stats.retransmitted - before.retransmitted,
            stats.timeouts - before.timeouts,
            stats.fast_retransmits - before.fast_retransmits,
        )
    }
}
