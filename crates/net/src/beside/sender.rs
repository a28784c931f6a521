//! The side that sends, a thread of its own: frames by the clock, and transfers by acknowledgements.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use layercast_core::{Span, Stream, Time};

use super::{BULK, Beside, FRAME, VIDEO, wait};
use crate::clock::Clock;

/// What is under way is looked at this often.
const LOOK: Duration = Duration::from_millis(20);

pub(super) struct Sender {
    config: Beside,
    sockets: Vec<UdpSocket>,
    /// When each packet of each transfer leaves that may.
    due: Vec<Vec<Time>>,
    /// The last of these: acknowledgements are answered in order.
    last: Time,
    draws: Stream,
    frames: u32,
}

impl Sender {
    pub fn new(config: &Beside, sockets: Vec<UdpSocket>) -> Sender {
        let window = vec![Time::ZERO; config.window as usize];
        Sender {
            config: *config,
            due: vec![window; config.transfers as usize],
            sockets,
            last: Time::ZERO,
            draws: Stream::new(config.seed, "beside/turn-around"),
            frames: 0,
        }
    }

    pub fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let clock = Clock::get();
        let start = clock.now();
        while !stop.load(Ordering::Relaxed) {
            let now = clock.now();
            self.take_acknowledgements(now);
            self.send_frames(start, now)?;
            self.send_packets(now)?;
            let next = self.next_timeout(start);
            let left = next.map_or(LOOK, |at| {
                Duration::from_nanos(at.since(clock.now()).as_ns())
            });
            wait(&self.sockets, left.min(LOOK))?;
        }
        Ok(())
    }

    fn frame_at(&self, start: Time) -> Option<Time> {
        let frame = self.frames;
        let at = start + self.config.period.times(u64::from(frame) + 1);
        (frame < self.config.frames).then_some(at)
    }

    fn next_timeout(&self, start: Time) -> Option<Time> {
        let packets = self.due.iter().flatten().copied();
        packets.chain(self.frame_at(start)).min()
    }

    fn take_acknowledgements(&mut self, now: Time) {
        let mean = self.config.turn_around.as_secs_f64();
        for (socket, due) in self.sockets[VIDEO + 1..].iter().zip(&mut self.due) {
            while socket.recv(&mut [0; 8]).is_ok() {
                let ready = now + Span::from_secs_f64(self.draws.exponential(mean));
                self.last = self.last.max(ready);
                due.push(self.last);
            }
        }
    }

    fn send_frames(&mut self, start: Time, now: Time) -> io::Result<()> {
        while self.frame_at(start).is_some_and(|at| at <= now) {
            let mut packet = [0; FRAME];
            packet[..8].copy_from_slice(&Clock::get().now().as_ps().to_be_bytes());
            self.frames += 1;
            send(&self.sockets[VIDEO], &packet)?;
        }
        Ok(())
    }

    fn send_packets(&mut self, now: Time) -> io::Result<()> {
        for (socket, due) in self.sockets[VIDEO + 1..].iter().zip(&mut self.due) {
            for _ in due.extract_if(.., |at| *at <= now) {
                send(socket, &[0; BULK])?;
            }
        }
        Ok(())
    }
}

/// What the kernel has no room for is lost, as on any network.
fn send(socket: &UdpSocket, packet: &[u8]) -> io::Result<()> {
    match socket.send(packet) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        // The other end was closed: it has all frames.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(error),
    }
}
