//! A video beside bulk transfers in one process, on sockets (specs/network-interface-framework.md 4, X3): what the order in which
//! packets are processed does to the time between two frames.
//!
//! Each flow has a socket, which is a circuit of a [`VcDriver`](layercast_nif::VcDriver) with a client of its own, and one thread
//! processes the packets by the rules of the simulated host ([`Dispatcher`](layercast_nif::cpu::Dispatcher)).

mod receiver;
mod sender;

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{io, thread};

use layercast_core::Span;
use serde::{Deserialize, Serialize};

use self::receiver::Receiver;
use self::sender::Sender;

/// Which packet that waits is processed first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The one that came first.
    Fcfs,
    /// One of the video.
    Priority,
    /// One of the video whose frame is due, the earliest deadline first (deadline/workahead scheduling).
    Deadline,
}

/// A video and bulk transfers. The default is the profile of the simulated host (specs/network-interface-framework.md 3).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Beside {
    /// The order of processing.
    pub order: Order,
    /// Bulk transfers.
    pub transfers: u32,
    /// Frames of the video, of one packet each.
    pub frames: u32,
    /// Time between two frames.
    pub period: Span,
    /// Mean time of the protocols for a packet of a transfer; exponential.
    pub service: Span,
    /// Mean time of the protocols for a packet of video, uniform within 20 % of it.
    pub video_service: Span,
    /// Packets of a transfer that are not acknowledged.
    pub window: u32,
    /// Mean time from an acknowledgement to the packet that it permits; exponential.
    pub turn_around: Span,
    /// The seed of the draws; the clock of the machine is no draw.
    pub seed: u64,
}

/// What the viewer of the video and the transfers got.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BesideReport {
    /// Frames that were shown.
    pub frames: u32,
    /// Variance of the time between two frames as they were shown, in ms².
    pub variance_ms2: f64,
    /// Longest time between two frames.
    pub max_period_ms: f64,
    /// Shortest time between two frames.
    pub min_period_ms: f64,
    /// Variance of the time between two frames as they were sent, in ms²: what the machine adds without any processing.
    pub sent_variance_ms2: f64,
    /// Frames that were shown more than a period after they were sent.
    pub missed: u32,
    /// Packets of the transfers in a second.
    pub transfer_packets_per_s: f64,
    /// Longest time that a transfer waited for its turn, in ms.
    pub transfer_starved_ms: f64,
    /// Packets that the driver delivered.
    pub delivered: u64,
    /// Packets that it dropped because their client had no buffer.
    pub dropped: u64,
}

impl Default for Beside {
    fn default() -> Beside {
        Beside {
            order: Order::Fcfs,
            transfers: 3,
            frames: 200,
            period: Span::from_ms(100),
            service: Span::from_ms(2),
            video_service: Span::from_ms(2),
            window: 6,
            turn_around: Span::from_ms(20),
            seed: 1,
        }
    }
}

impl Beside {
    /// Runs it in real time, on 127.0.0.1.
    ///
    /// # Errors
    /// The system refuses sockets or a thread.
    pub fn run(&self) -> io::Result<BesideReport> {
        let mut ends = Vec::new();
        for _ in 0..=self.transfers {
            ends.push(pair()?);
        }
        let (near, far): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
        let (stop, mut sender) = (AtomicBool::new(false), Sender::new(self, far));
        let mut receiver = Receiver::new(self, near)?;
        thread::scope(|scope| {
            let sending = scope.spawn(|| sender.run(&stop));
            let received = receiver.run(self.length());
            stop.store(true, Ordering::Relaxed);
            let sent = sending.join();
            received?;
            sent.unwrap_or_else(|_| Err(io::Error::other("the sender panicked")))
        })?;
        Ok(receiver.report())
    }

    /// How long frames are waited for: what is lost never comes.
    fn length(&self) -> Duration {
        let all = self.period.times(u64::from(self.frames) + 20);
        Duration::from_nanos(all.as_ns()) + Duration::from_secs(1)
    }
}

/// Two sockets that send to each other.
fn pair() -> io::Result<(UdpSocket, UdpSocket)> {
    let (a, b) = (
        UdpSocket::bind("127.0.0.1:0")?,
        UdpSocket::bind("127.0.0.1:0")?,
    );
    a.connect(b.local_addr()?)?;
    b.connect(a.local_addr()?)?;
    for socket in [&a, &b] {
        socket.set_nonblocking(true)?;
    }
    Ok((a, b))
}

/// Octets of a packet of a transfer, and of a frame.
const BULK: usize = 1_460;
const FRAME: usize = 1_024;
/// The socket of the video; those of the transfers follow.
const VIDEO: usize = 0;

/// Waits until one of the sockets can be read, `most` at most.
fn wait(sockets: &[UdpSocket], most: Duration) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let fds = sockets.iter().map(|it| PollFd::new(it, PollFlags::IN));
    let mut fds: Vec<_> = fds.collect();
    let most = Timespec {
        tv_sec: most.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: most.subsec_nanos().into(),
    };
    match poll(&mut fds, Some(&most)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_transfers_pass_in_every_order() {
        for order in [Order::Fcfs, Order::Priority, Order::Deadline] {
            let beside = Beside {
                order,
                transfers: 2,
                frames: 20,
                period: Span::from_ms(5),
                service: Span::from_us(200),
                video_service: Span::from_us(100),
                turn_around: Span::from_us(500),
                ..Beside::default()
            };
            let report = beside.run().unwrap();
            assert_eq!((report.frames, report.dropped), (20, 0), "{report:?}");
            assert!(report.transfer_packets_per_s > 100.0, "{report:?}");
            let packets = report.delivered - u64::from(report.frames);
            assert!(packets >= 12, "{report:?}");
            assert!(report.max_period_ms >= report.min_period_ms);
        }
    }
}
