//! Ports of a node that compare their paths, where all receivers but one lie in their feedback.

use std::collections::VecDeque;

use bytes::Bytes;
use layercast_core::{FlowId, Layer, Machine, Off, Rate, Serial, Span, Time};
use layercast_repair::{
    Arrival, Carried, Codec, Feedback, Head, Means, Missing, RepairConfig, Repairer, RepairerInput,
    Requester, RequesterInput, Trunks, Unit,
};

const SESSION: u16 = 7;
/// The receiver of the first port is honest.
const PORTS: usize = 3;
/// One way between the honest receiver and its port, whose path has no limit.
const WAY: Span = Span::from_ms(10);
const OCTETS: u32 = 1_000;
/// Each port sends a datagram in this time: 1.6 Mbit/s.
const EACH: Span = Span::from_ms(5);
/// Octets of one lie.
const LIE: usize = 24;

struct Port {
    repairer: Repairer<Bytes>,
    /// The newest counter that left.
    newest: Option<u64>,
}

/// The honest receiver, and what is on the way in each direction.
struct Honest {
    requester: Requester<Bytes>,
    forward: VecDeque<(Time, Head, Option<Carried<Bytes>>)>,
    back: VecDeque<(Time, Feedback)>,
    arrived: u64,
}

fn port() -> Port {
    let repairer = Repairer::new(RepairConfig {
        name: "fuzz".into(),
        session: SESSION,
        rate: None,
        measures: true,
        means: Means::Auto,
        codec: codec(),
    });
    Port {
        repairer,
        newest: None,
    }
}

fn codec() -> Codec<Bytes> {
    Codec {
        encode: Bytes::clone,
        len: Bytes::len,
        decode: Some,
    }
}

/// Feedback that claims anything of the newest counters.
fn lie(bytes: &[u8; LIE], newest: u64) -> Feedback {
    let u16_at = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let arrivals = (8..20).step_by(2).map(|at| Arrival {
        back: u16::from(bytes[at]),
        // Up to a second, in steps of 4 ms.
        ago_us: u32::from(bytes[at + 1]) * 4_000,
    });
    Feedback {
        session: SESSION,
        tx_us: Serial(u32::from(u16_at(0)) << 10),
        hi: Serial((newest as u32).wrapping_add(u32::from(bytes[2] % 4))),
        known: u16_at(4) % 512,
        window_us: u32::from(bytes[6]) << 8,
        budget_ms: (bytes[7] > 0).then_some(u16::from(bytes[7]) * 8),
        next_ms: bytes[3],
        missing: vec![Missing {
            back: u16::from(bytes[20]).max(1),
            len: u16::from(bytes[21] % 16).clamp(1, u16::from(bytes[20]).max(1)),
            requested: bytes[22] & 1 == 1,
        }],
        arrivals: arrivals.collect(),
    }
}

/// Lies of [`LIE`] octets behind one that tells whose they are and how long after the one before.
pub fn shared_line(data: &[u8]) {
    let mut ports: [Port; PORTS] = std::array::from_fn(|_| port());
    let mut honest = Honest {
        requester: Requester::new("fuzz", SESSION, codec()).prompt(),
        forward: VecDeque::new(),
        back: VecDeque::new(),
        arrived: 0,
    };
    let mut trunks = Trunks::default();
    let begin = Time::ZERO + Span::from_secs(1);
    let mut now = begin;
    for lied in data.chunks_exact(LIE + 1) {
        let (first, lied) = lied.split_first().expect("it is not empty");
        for _ in 0..1 + first / 16 {
            tick(&mut now, &mut ports, &mut honest, &mut trunks, begin);
        }
        let liar = &mut ports[1 + usize::from(*first) % (PORTS - 1)];
        if let Some(newest) = liar.newest {
            let feedback = lie(lied.try_into().expect("it is whole"), newest);
            let input = RepairerInput::Feedback(feedback);
            liar.repairer.handle(now, input, &mut Off);
        }
    }
    // The honest receiver loses nothing by the others: its path has no limit. Its port may be wrong for a second at first.
    for _ in 0..400 {
        tick(&mut now, &mut ports, &mut honest, &mut trunks, begin);
    }
    let sent = now.since(begin).as_us() / EACH.as_us();
    assert!(
        honest.arrived * 2 + 400 >= sent,
        "{} of {sent}",
        honest.arrived
    );
}

fn tick(
    now: &mut Time,
    ports: &mut [Port; PORTS],
    honest: &mut Honest,
    trunks: &mut Trunks,
    begin: Time,
) {
    *now += EACH;
    let now = *now;
    let number = now.since(begin).as_us() / EACH.as_us();
    for port in ports.iter_mut() {
        let unit = Unit {
            flow: FlowId(1),
            layer: Layer::ALL[number as usize % 3],
            stamp_us: Some(now.as_us() as u32),
            octets: OCTETS,
            last: true,
            repair: true,
            lasts: None,
        };
        let item = Bytes::from_static(&[0; OCTETS as usize]);
        let input = RepairerInput::Send {
            at: now,
            unit,
            item,
        };
        port.repairer.handle(now, input, &mut Off);
    }
    while honest.forward.front().is_some_and(|it| it.0 <= now) {
        let (_, head, item) = honest.forward.pop_front().expect("it is there");
        let input = match item {
            Some(item) => {
                honest.arrived += 1;
                RequesterInput::Datagram(head, item)
            }
            None => RequesterInput::Marker(head),
        };
        honest.requester.handle(now, input, &mut Off);
    }
    honest.requester.on_timeout(now, &mut Off);
    while honest.requester.poll_event().is_some() {}
    while let Some(feedback) = honest.requester.poll_transmit(now, &mut Off) {
        honest.back.push_back((now + WAY, feedback));
    }
    while honest.back.front().is_some_and(|it| it.0 <= now) {
        let (_, feedback) = honest.back.pop_front().expect("it is there");
        let input = RepairerInput::Feedback(feedback);
        ports[0].repairer.handle(now, input, &mut Off);
    }
    for (at, port) in ports.iter_mut().enumerate() {
        port.repairer.on_timeout(now, &mut Off);
        while let Some(out) = port.repairer.poll_transmit(now, &mut Off) {
            if let Head::Data { counter, .. } = &out.head {
                port.newest = Some(u64::from(counter.0));
            }
            if at == 0 {
                honest.forward.push_back((now + WAY, out.head, out.item));
            }
        }
    }
    if number.is_multiple_of(20) {
        compare(now, ports, trunks);
    }
}

fn compare(now: Time, ports: &mut [Port; PORTS], trunks: &mut Trunks) {
    let seen = ports.iter().zip(0..);
    let seen: Vec<_> = seen
        .filter_map(|(port, id)| Some((id, port.repairer.path_seen()?)))
        .collect();
    for ((id, _), beside) in seen.iter().zip(trunks.compare(now, &seen)) {
        let input = RepairerInput::Beside(beside);
        ports[*id as usize].repairer.handle(now, input, &mut Off);
    }
    for port in ports.iter() {
        let estimate = port.repairer.estimate().expect("it measures");
        let most = Rate::from_bps(100_000_000_000);
        let least = Rate::from_bps(64_000);
        assert!(
            estimate
                .rate
                .is_none_or(|rate| (least..=most).contains(&rate)),
            "{estimate:?}"
        );
    }
}
