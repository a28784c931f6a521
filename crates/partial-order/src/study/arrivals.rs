//! SDUs of a finite order that arrive in permuted sequences: how many are deliverable on arrival, and how many wait.

use bytes::{Bytes, BytesMut};
use layercast_core::{Serial, Span, Stream, Time};
use serde::{Deserialize, Serialize};

use super::StudyError;
use crate::config::{Config, ConfigError, FlowConfig, MAX_PDU, Policy};
use crate::event::ReceiverEvent;
use crate::order::{Order, Sdu};
use crate::pdu::{Body, Pdu};
use crate::receiver::{Receiver, ReceiverOptions};
use crate::tolerance::Tolerance;

/// Permutations of the arrivals of a finite order.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrivals {
    /// SDUs of each flow.
    pub counts: Vec<u32>,
    /// Pairs of which the first precedes the second, each SDU as flow and number.
    pub edges: Vec<[(usize, u64); 2]>,
    /// The sequence in which SDUs are submitted, as flow and number.
    pub sequence: Vec<(usize, u64)>,
    /// An SDU arrives at most this many places before or after its own; 0: in sequence.
    pub displacement: u32,
    /// Permutations.
    pub permutations: u64,
}

/// What came of permuted arrivals.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Permuted {
    /// The number of sequences that the order permits; empty if it is not known.
    pub linear_extensions: String,
    /// Share of the SDUs that were delivered when they arrived.
    pub delivered_on_arrival: f64,
    /// Mean over the permutations of the most SDUs that waited together.
    pub waiting_max: f64,
    /// Whether each SDU was delivered once, after all its predecessors.
    pub correct: bool,
}

impl Arrivals {
    /// Feeds a receiver with each permutation.
    pub fn run(&self) -> Result<Permuted, StudyError> {
        let sdu = |(flow, number): (usize, u64)| Sdu { flow, number };
        let edges: Vec<_> = self
            .edges
            .iter()
            .map(|&[from, to]| (sdu(from), sdu(to)))
            .collect();
        let order = Order::dag(&self.counts, &edges).map_err(ConfigError::from)?;
        if self.permutations == 0 || self.sequence.iter().any(|it| it.0 >= self.counts.len()) {
            return Err(StudyError::Bounds(
                "there is at least one permutation, and each SDU has a flow",
            ));
        }
        let (mut at_once, mut waiting, mut correct) = (0_u64, 0_u64, true);
        for seed in 0..self.permutations {
            let mut random = Stream::new(seed, "arrivals");
            let mut places: Vec<(u64, Sdu)> = Vec::new();
            for (place, &it) in self.sequence.iter().enumerate() {
                let place = place as u64 + random.below(u64::from(self.displacement) + 1);
                places.push((place, sdu(it)));
            }
            places.sort_by_key(|it| it.0);
            let (now, most, good) = feed(&order, places.into_iter().map(|it| it.1))?;
            at_once += now;
            waiting += most;
            correct &= good;
        }
        let all = (self.permutations * self.sequence.len().max(1) as u64) as f64;
        Ok(Permuted {
            linear_extensions: order
                .linear_extensions()
                .map(|it| it.to_string())
                .unwrap_or_default(),
            delivered_on_arrival: at_once as f64 / all,
            waiting_max: waiting as f64 / self.permutations as f64,
            correct,
        })
    }
}

/// SDUs delivered on arrival, most that waited, and whether the deliveries are a linear extension.
fn feed(
    order: &Order,
    arrivals: impl Iterator<Item = Sdu>,
) -> Result<(u64, u64, bool), StudyError> {
    let flows = (0..order.flows())
        .map(|_| FlowConfig::new(Span::from_ms(40), Tolerance::Full))
        .collect();
    let config = Config::new(1, flows, order.clone(), Policy::PerGroup);
    let options = ReceiverOptions {
        max_pdu: MAX_PDU.max(1 << 16),
        ..ReceiverOptions::default()
    };
    let mut receiver = Receiver::opened(config, options, Time::ZERO)?;
    let (mut at_once, mut waiting, mut most) = (0, 0_u64, 0);
    let mut delivered: Vec<Sdu> = Vec::new();
    let mut count = 0;
    for sdu in arrivals {
        count += 1;
        let body = Body::Data {
            number: Serial(sdu.number as u32),
            ack: false,
            again: false,
            skip: false,
            sent: Vec::new(),
            payload: Bytes::new(),
        };
        let mut bytes = BytesMut::new();
        Pdu {
            flow: sdu.flow as u16,
            connection: 1,
            stamp: 0,
            body,
        }
        .encode(&mut bytes);
        receiver.handle(Time::ZERO, bytes.freeze());
        while receiver.poll_transmit().is_some() {}
        waiting += 1;
        while let Some(event) = receiver.poll_event() {
            if let ReceiverEvent::Deliver { flow, number, .. } = event {
                waiting -= 1;
                at_once += u64::from(Sdu { flow, number } == sdu);
                delivered.push(Sdu { flow, number });
            }
        }
        most = most.max(waiting);
    }
    let sequence = delivered.iter().enumerate().all(|(at, &sdu)| {
        delivered[at..]
            .iter()
            .all(|&later| !order.precedes(later, sdu))
    });
    Ok((at_once, most, sequence && delivered.len() == count))
}
