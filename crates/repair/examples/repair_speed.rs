//! What repair costs a node for each datagram of a link that loses none: nanoseconds of the sending and of the receiving end, with
//! headers written and read, and feedback.
//!
//! `cargo run --release -p layercast-repair --example repair_speed`

use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use layercast_core::{FlowId, Layer, Machine, Off, Span, Time};
use layercast_repair::{
    Carried, Codec, Head, Means, RepairConfig, Repairer, RepairerInput, Requester, RequesterInput,
    Unit,
};

const SESSION: u16 = 7;
const OCTETS: usize = 1_228;
/// Datagrams of a frame, and the time between frames: 17 Mbit/s.
const FRAME: u64 = 70;
const PERIOD: Span = Span::from_ms(40);
const FRAMES: u64 = 5_000;

fn codec() -> Codec<Bytes> {
    Codec {
        encode: Bytes::clone,
        len: Bytes::len,
        decode: Some,
    }
}

fn main() {
    let mut repairer = Repairer::new(RepairConfig {
        name: "link".into(),
        session: SESSION,
        rate: None,
        measures: false,
        means: Means::Auto,
        codec: codec(),
    });
    let mut requester = Requester::new("link", SESSION, codec());
    let budget = Some(Span::from_ms(300));
    requester.handle(Time::ZERO, RequesterInput::Budget(budget), &mut Off);
    let content = Bytes::from(vec![0x47; OCTETS]);
    let (mut sending, mut receiving) = (0, 0);
    let (mut datagrams, mut reports) = (Vec::new(), 0);
    let mut head_octets = Vec::new();
    for frame in 0..FRAMES {
        let now = Time::ZERO + PERIOD.times(frame + 1);
        let begin = Instant::now();
        repairer.on_timeout(now, &mut Off);
        for index in 0..FRAME {
            let unit = Unit {
                flow: FlowId(1),
                layer: Layer::Base,
                stamp_us: Some(now.as_us() as u32),
                octets: OCTETS as u32,
                last: index + 1 == FRAME,
                repair: true,
                lasts: None,
            };
            let item = content.clone();
            let input = RepairerInput::Send {
                at: now,
                unit,
                item,
            };
            repairer.handle(now, input, &mut Off);
            while let Some(out) = repairer.poll_transmit(now, &mut Off) {
                head_octets.clear();
                out.head.encode_into(&mut head_octets);
                datagrams.push((black_box(head_octets.len()), out));
            }
        }
        black_box(repairer.next_timeout());
        sending += begin.elapsed().as_nanos();
        let arrival = now.saturating_add(Span::from_ms(1));
        let mut feedback = None;
        let received = datagrams.len();
        let encoded: Vec<_> = datagrams
            .drain(..)
            .map(|(_, out)| {
                let mut octets = Vec::new();
                out.head.encode_into(&mut octets);
                (octets, out.item)
            })
            .collect();
        let begin = Instant::now();
        for (octets, item) in encoded {
            let Ok((head, _)) = Head::decode(&octets) else {
                continue;
            };
            let input = match item {
                Some(Carried::Item(item)) => RequesterInput::Datagram(head, Carried::Item(item)),
                _ => RequesterInput::Marker(head),
            };
            requester.handle(arrival, input, &mut Off);
            black_box(requester.poll_event());
        }
        requester.on_timeout(arrival, &mut Off);
        if let Some(report) = requester.poll_transmit(arrival, &mut Off) {
            reports += 1;
            feedback = Some(report);
        }
        black_box(requester.next_timeout());
        receiving += begin.elapsed().as_nanos();
        assert!(received as u64 >= FRAME);
        if let Some(report) = feedback {
            let begin = Instant::now();
            repairer.handle(arrival, RepairerInput::Feedback(report), &mut Off);
            sending += begin.elapsed().as_nanos();
        }
    }
    let all = u128::from(FRAMES * FRAME);
    println!(
        "{} ns a datagram sent, {} ns a datagram received, {reports} reports of {FRAMES} frames",
        sending / all,
        receiving / all
    );
}
