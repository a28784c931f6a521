//! A host that shows a video while files are transferred to it (specs/network-interface-framework.md 5, tables 3 and 4).

mod receiver;
mod source;
mod statistics;
mod world;

use layercast_core::Span;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use self::statistics::JitterReport;
use crate::line::Network;

/// How the host processes packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// In threads of one priority: first come, first served.
    Fcfs,
    /// In software interrupts, as BSD.
    Softirq,
    /// In software interrupts, those of the video first.
    SoftirqPriority,
    /// In threads; those of the video have a higher priority. A packet in progress is not interrupted.
    Priority,
    /// The same, and packets in progress are interrupted.
    Preemptive,
    /// In threads; that of the video by deadlines (deadline/workahead scheduling).
    Deadline,
}

/// A host and its traffic. The default is the calibrated profile of specs/network-interface-framework.md 3;
/// the files come from one machine, which sends as fast as SunOS on a SPARCstation 2.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Jitter {
    /// How it is connected.
    pub network: Network,
    /// How it processes packets.
    pub scheduling: Scheduling,
    /// File transfers to it.
    pub transfers: u32,
    /// Frames of video.
    pub frames: u32,
    /// Packets of a frame.
    pub packets_per_frame: u32,
    /// A program that always computes runs beside.
    pub has_program: bool,
    /// S: mean time of the protocols for a packet of a transfer; exponential.
    pub service: Span,
    /// Mean time of the protocols for a packet of video, uniform within 20 % of it.
    pub video_service: Span,
    /// W: packets of a transfer that are not acknowledged.
    pub window: u32,
    /// Z: mean time from an acknowledgement to the packet that it permits; exponential, in order.
    pub turn_around: Span,
    /// Time that the machine with the files takes for a packet that it sends.
    pub send: Span,
    /// Standard deviation of the normal noise whose size each frame is late by.
    pub noise: Span,
    /// What each step from the adapter to the code of a client takes: see [`Path`].
    pub step: Span,
    /// The seed.
    pub seed: u64,
}

/// Steps from the adapter to the code of a client, and which of them a stack has
/// (specs/network-interface-framework.md 2.11).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// In the interrupt, before the client can be called or a software interrupt posted.
    pub in_interrupt: u64,
    /// In the software interrupt, before the protocol is called.
    pub in_softirq: u64,
}

impl Scheduling {
    /// The steps of a packet. A framework client is called in the interrupt: entry, type, call. BSD has entry, type,
    /// queue, post, exit; then the entry of the software interrupt.
    pub fn path(self) -> Path {
        match self {
            Scheduling::Softirq | Scheduling::SoftirqPriority => Path {
                in_interrupt: 5,
                in_softirq: 1,
            },
            _ => Path {
                in_interrupt: 3,
                in_softirq: 0,
            },
        }
    }

    /// Whether it needs to know the connection of a packet before its protocols do.
    fn needs_circuits(self) -> bool {
        !matches!(self, Scheduling::Fcfs | Scheduling::Softirq)
    }
}

/// Why a host cannot be simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum JitterError {
    /// One queue for all connections has no priorities among them.
    #[error(
        "on Ethernet all connections have one client: {0:?} needs a circuit for each, as ATM has"
    )]
    NeedsCircuits(Scheduling),
    /// Nothing can be measured.
    #[error(
        "at least 3 frames are needed, of 1 to 64 packets, and at most 32 transfers with windows of 1 to 40 packets"
    )]
    Size,
}

/// The time between two frames.
pub const PERIOD: Span = Span::from_ms(100);
const MSS: u16 = 1_460;

impl Default for Jitter {
    fn default() -> Jitter {
        Jitter {
            network: Network::Ethernet,
            scheduling: Scheduling::Fcfs,
            transfers: 3,
            frames: 2_000,
            packets_per_frame: 1,
            has_program: false,
            service: Span::from_ms(2),
            video_service: Span::from_ms(2),
            window: 6,
            turn_around: Span::from_ms(20),
            send: crate::transfer::Stack::Sunos.costs().sent_segment,
            noise: Span::from_us(1_100),
            step: Span::ZERO,
            seed: 1,
        }
    }
}

impl Jitter {
    /// Simulates it.
    pub fn run(&self) -> Result<JitterReport, JitterError> {
        if self.network == Network::Ethernet && self.scheduling.needs_circuits() {
            return Err(JitterError::NeedsCircuits(self.scheduling));
        }
        let is_sound = self.frames >= 3
            && (1..=64).contains(&self.packets_per_frame)
            && self.transfers <= 32
            && (1..=40).contains(&self.window);
        match is_sound {
            true => Ok(world::World::new(self).run()),
            false => Err(JitterError::Size),
        }
    }
}
