//! What is counted while a group runs.

use layercast_core::{Span, Time};
use layercast_multicast::{Failure, SenderEvent};
use layercast_wire::multicast::{Body, Packet};
use serde::Serialize;

/// Packets that reached the source.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Feedback {
    /// Packets.
    pub packets: u64,
    /// Octets of these packets, in the wire format of Layercast.
    pub octets: u64,
    /// Of these packets, reports.
    pub reports: u64,
    /// Largest number of packets in 100 ms.
    pub peak: u64,
    #[serde(skip)]
    tenth: u64,
    #[serde(skip)]
    in_tenth: u64,
}

impl Feedback {
    /// A packet came.
    pub fn came(&mut self, now: Time, packet: &Packet, octets: u32) {
        self.packets += 1;
        self.octets += u64::from(octets);
        self.reports += u64::from(matches!(packet.body, Body::Report(_)));
        let tenth = now.as_us() / 100_000;
        if tenth != self.tenth {
            (self.tenth, self.in_tenth) = (tenth, 0);
        }
        self.in_tenth += 1;
        self.peak = self.peak.max(self.in_tenth);
    }
}

/// A pass.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Pass {
    /// Number of the pass.
    pub round: u16,
    /// Packets sent.
    pub packets: u64,
    /// Receivers that lack packets after it.
    pub needy: u32,
    /// Time at which its reports were complete, in seconds.
    pub at_s: f64,
}

/// A notable event of the sender.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Note {
    /// Time in seconds.
    pub at_s: f64,
    /// The event.
    pub what: String,
}

/// Notes and passes that are kept.
const MOST: usize = 1_000;

/// What is counted.
#[derive(Clone, Default, Debug)]
pub(super) struct Counts {
    pub feedback: Feedback,
    /// Packets of receivers other than their first.
    pub answers: u64,
    /// Octets of data packets and of others that the sender sent.
    pub data_octets: u64,
    pub control: u64,
    pub control_octets: u64,
    pub complete: u32,
    pub closed: u32,
    pub closed_complete: u32,
    pub opened: Option<Time>,
    pub ended: Option<Time>,
    pub failure: Option<Failure>,
    pub passes: Vec<Pass>,
    pub notes: Vec<Note>,
    pub rates: Vec<(f64, u64)>,
    pub partial: bool,
    pub aggregators: super::speaker::AggregatorCount,
}

impl Counts {
    /// The sender sends a packet.
    pub fn sent(&mut self, packet: &Packet) {
        let octets = packet.encoded_len() as u64;
        match packet.body {
            Body::Data(_) => self.data_octets += octets,
            _ => {
                self.control += 1;
                self.control_octets += octets;
            }
        }
    }

    /// The sender tells something.
    pub fn told(&mut self, now: Time, event: &SenderEvent) {
        let at_s = now.as_secs_f64();
        match event {
            SenderEvent::Opened { .. } => self.opened = Some(now),
            SenderEvent::PassDone {
                round,
                packets,
                needy,
            } => {
                let pass = Pass {
                    round: *round,
                    packets: *packets,
                    needy: *needy,
                    at_s,
                };
                if self.passes.len() < MOST {
                    self.passes.push(pass);
                }
            }
            SenderEvent::Rate(rate) => {
                if self.rates.len() < 100 * MOST {
                    self.rates.push((at_s, rate.as_bps()));
                }
            }
            SenderEvent::Closed(result) => {
                self.ended = Some(now);
                self.failure = result.clone().err();
            }
            SenderEvent::Delivered(_) | SenderEvent::Joined(_) | SenderEvent::Released { .. } => {}
            other => {
                if self.notes.len() < MOST {
                    let what = format!("{other:?}");
                    self.notes.push(Note { at_s, what });
                }
            }
        }
    }

    /// Time from the opening to an instant, seconds.
    pub fn since_opened(&self, at: Time) -> f64 {
        let opened = self.opened.unwrap_or(Time::ZERO);
        Span::as_secs_f64(at.since(opened))
    }
}
