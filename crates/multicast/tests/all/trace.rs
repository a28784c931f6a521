//! The worked trace of specs/rmtp-large-scale.md 8.1, and the effect of forged reports.

use std::fmt::Write;

use layercast_core::{Off, Span, Time};
use layercast_multicast::{
    Deadline, Members, Memory, MemoryStore, Outcome, Peer, RateControl, Schedule, Sender,
    SenderConfig,
};
use layercast_wire::multicast::{
    Accept, Body, MemberId, Needs, Packet, Report, Spans, State, Symbol,
};

use crate::net::{Net, PERFECT};
use crate::object::{content, listed, stores};

fn config() -> SenderConfig {
    SenderConfig {
        packet_size: 100,
        deadline: Deadline::Linear {
            tat: Span::from_ms(100),
            alpha: Span::from_ms(50),
        },
        schedule: Schedule::BackOff {
            delta: Span::from_ms(1),
            unasked: true,
        },
        rate: RateControl::Free,
        ..SenderConfig::rmtp()
    }
}

/// A packet in the notation of the specification, with numbers from 1.
fn words(body: &Body) -> Option<String> {
    let number = |symbol: Symbol| match symbol {
        Symbol::Source(number) => number + 1,
        Symbol::Parity { .. } => 0,
    };
    Some(match body {
        Body::Open(_) => "CONN".into(),
        Body::Accept(_) => "CACK".into(),
        Body::Data(data) => {
            let last = if data.flags.0 & 1 == 1 { " LAST" } else { "" };
            format!("DT {} round {}{last}", number(data.symbol), data.round)
        }
        Body::Report(report) => match &report.state {
            State::Complete { .. } => format!("ACK round {}", report.round),
            State::Missing(spans) => {
                let spans: Vec<_> = spans.iter().map(|(from, to)| (from + 1, to)).collect();
                format!("NACK round {} {spans:?}", report.round)
            }
            other => format!("{other:?}"),
        },
        Body::Poll(_) => "POLL".into(),
        Body::Release { .. } => "REL".into(),
        Body::Released { .. } => "RACK".into(),
        _ => return None,
    })
}

#[test]
fn the_worked_trace() {
    let source = Memory::new("trace", content(500), None);
    let sender = Sender::object(7, config(), listed(3), source).unwrap();
    let mut net = Net::new(sender, stores(3), PERFECT, 1);
    let mut acks = 0;
    net.fate = Box::new(move |from, to, packet| match &packet.body {
        // Receiver 2 loses packets 2 to 4 of the first pass.
        Body::Data(data) if to == 2 && data.round == 0 => {
            matches!(data.symbol, Symbol::Source(1..=3))
        }
        // The first answer of receiver 3 is lost.
        Body::Report(_) if from == 3 => {
            acks += 1;
            acks == 1
        }
        _ => false,
    });
    net.start();
    net.run();
    let mut said: Vec<String> = Vec::new();
    for (_, from, transmit) in &net.log {
        let Some(words) = words(&transmit.packet.body) else {
            continue;
        };
        let mut line = String::new();
        let _ = match transmit.to {
            layercast_multicast::To::One(Peer(0)) => write!(line, "R{from} UC {words}"),
            layercast_multicast::To::One(Peer(to)) => write!(line, "S UC {words} to R{to}"),
            _ => write!(line, "S MC {words}"),
        };
        said.push(line);
    }
    // Answers within one back-off arrive in any order.
    for group in said.chunk_by_mut(|a, b| a.starts_with('R') == b.starts_with('R')) {
        if group[0].starts_with('R') {
            group.sort();
        }
    }
    let wanted = [
        "S MC CONN",
        "S MC CONN",
        "R1 UC CACK",
        "R2 UC CACK",
        "R3 UC CACK",
        "S MC DT 1 round 0",
        "S MC DT 2 round 0",
        "S MC DT 3 round 0",
        "S MC DT 4 round 0",
        "S MC DT 5 round 0 LAST",
        "R1 UC ACK round 0",
        "R2 UC NACK round 0 [(2, 4)]",
        "R3 UC ACK round 0",
        "S UC POLL to R3",
        "R3 UC ACK round 0",
        "S MC REL",
        "R1 UC RACK",
        "R3 UC RACK",
        "S MC DT 2 round 1",
        "S MC DT 3 round 1",
        "S MC DT 4 round 1 LAST",
        "R2 UC ACK round 1",
        "S MC REL",
        "R2 UC RACK",
    ];
    assert_eq!(said, wanted);
    let all = |net: &Net<_, _>| {
        net.sender
            .deliveries()
            .all(|it| it.outcome == Outcome::Delivered)
    };
    assert!(all(&net));
}

fn report(member: u64, sync: u32, state: State) -> Packet {
    Packet {
        session: 7,
        body: Body::Report(Box::new(Report {
            sync,
            ..Report::alone(MemberId(member), state)
        })),
    }
}

fn collecting() -> Net<Memory, MemoryStore> {
    let config = SenderConfig {
        receipts: Some([9; 32]),
        ..config()
    };
    let source = Memory::new("x", content(500), None);
    let members = Members::Anyone {
        expect: Some(2),
        most: 2,
        late: false,
    };
    let sender = Sender::object(7, config, members, source).unwrap();
    let mut net = Net::new(sender, stores(2), PERFECT, 1);
    // Once data is sent, all genuine packets of the receivers are lost.
    net.fate = Box::new(|from, _, packet| from > 0 && !matches!(packet.body, Body::Accept(_)));
    net.start();
    net.run_until(Time::ZERO + Span::from_ms(1_120));
    assert!(net.data().count() >= 5);
    net
}

#[test]
fn forged_reports_are_counted_and_change_nothing() {
    let spans = |from, to| Spans::of([(from, to)]).0;
    let forged = [
        // Numbers beyond the object, empty reports, counts instead of ranges.
        State::Missing(spans(0, 6)),
        State::Missing(Spans::new()),
        State::Need(Needs::of([(0, 1)]).0),
        State::Need(Needs::of([(9, 1)]).0),
        State::Levels {
            received: 1,
            delivered: 0,
            gaps: Spans::new(),
        },
        // A receipt made without the key.
        State::Complete { receipt: [0; 16] },
    ];
    let mut net = collecting();
    for state in &forged {
        for from in [1, 99] {
            net.sender
                .handle(net.now, Peer(from), &report(1, 0, state.clone()), &mut Off);
        }
    }
    // A poll that was never sent; an unknown member; another member's name.
    net.sender
        .handle(net.now, Peer(1), &report(1, 77, State::Busy), &mut Off);
    net.sender
        .handle(net.now, Peer(1), &report(55, 0, State::Busy), &mut Off);
    net.sender.handle(
        net.now,
        Peer(2),
        &report(1, 0, State::Missing(spans(0, 5))),
        &mut Off,
    );
    let stats = *net.sender.stats();
    assert_eq!(stats.forged, forged.len() as u64 + 1);
    assert_eq!(stats.strangers, forged.len() as u64 + 2);
    assert_eq!(stats.reports, 0);
    let before = net.data().count();
    net.run();
    // Both receivers are silent for the sender: nothing was repeated, and none counts as complete.
    assert_eq!(net.data().count(), before);
    assert!(net.sender.deliveries().all(|it| it.complete == 0));
    assert!(net.result().is_some_and(|it| it.is_err()));
}

#[test]
fn strangers_cannot_fill_the_list() {
    let mut net = collecting();
    for number in 0..1_000u32 {
        let accept = Accept::alone(MemberId(1_000 + u64::from(number)));
        let packet = Packet {
            session: 7,
            body: Body::Accept(accept),
        };
        net.sender.handle(net.now, Peer(number), &packet, &mut Off);
    }
    assert_eq!(net.sender.deliveries().count(), 2);
    assert_eq!(net.sender.stats().strangers, 1_000);
}
