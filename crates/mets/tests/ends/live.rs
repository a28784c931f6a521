//! Live frames: when they leave, and where their delay arises.

use bytes::Bytes;
use layercast_core::{EndToEnd, Layer, Level, Machine, Off, Span, Time};
use layercast_mets::{
    AppFrame, PlayoutConfig, Shaping, Sink, SinkConfig, SinkEvent, SinkInput, Source, SourceConfig,
    SourceTransmit,
};
use layercast_qos::LiveTime;
use layercast_wire::{Carriage, LinkPdu, Signal};

use crate::common::{content, ms, sink_config, source_config};

/// An hour after the clock began: nothing counts from the first frame.
const HOUR: u64 = 3_600_000;

fn source(shaping: Shaping) -> Source {
    let config = SourceConfig {
        shaping,
        start: ms(HOUR),
        ..source_config(Carriage::Datagrams, 1_000)
    };
    Source::new(config).unwrap()
}

fn frame(n: usize, bytes: usize) -> AppFrame {
    AppFrame {
        layer: Layer::Base,
        gop_start: n.is_multiple_of(12),
        sound: false,
        time: None,
        payload: Bytes::from(content(n, bytes)).into(),
    }
}

/// By how much the frames come late: the third, and the fourth behind it.
const LATE: [u64; 4] = [0, 0, 70, 40];

/// Feeds four frames of 6,000 bytes, 40 ms apart, each when it is recognised to be complete: 5 ms after its last byte.
/// They are due 20 ms after an even arrival. Gives the packets with the time at which they left.
fn run(source: &mut Source) -> Vec<(Time, LinkPdu)> {
    let mut left = Vec::new();
    let mut frames = (0..).zip(LATE).peekable();
    let mut now = ms(HOUR);
    loop {
        while let Some(transmit) = source.poll_transmit(now, &mut Off) {
            if let SourceTransmit::Pdu(pdu @ LinkPdu::Mets(_)) = transmit {
                left.push((now, pdu));
            }
        }
        while source.poll_event().is_some() {}
        let complete = |&(n, late): &(u64, u64)| ms(HOUR + n * 40 + late + 5);
        let timeout = source.next_timeout();
        let at = [frames.peek().map(complete), timeout]
            .into_iter()
            .flatten()
            .min();
        now = match at.filter(|&at| at <= ms(HOUR + 1_000)) {
            Some(at) => now.max(at),
            None => return left,
        };
        if let Some((n, late)) = frames.next_if(|it| complete(it) <= now) {
            let live = LiveTime {
                due: ms(HOUR + n * 40 + 20),
                arrived: ms(HOUR + n * 40 + late),
            };
            source
                .submit_live(now, frame(n as usize, 6_000), live)
                .unwrap();
        }
        source.on_timeout(now, &mut Off);
    }
}

#[test]
fn a_frame_leaves_whole_when_it_is_due_or_complete() {
    let left = run(&mut source(Shaping::Off));
    let times: Vec<u64> = left
        .iter()
        .map(|(at, _)| at.as_us() / 1_000 - HOUR)
        .collect();
    let packets = times.len() / 4;
    assert!(packets > 3, "{times:?}");
    let each = |at| std::iter::repeat_n(at, packets);
    let expected: Vec<u64> = [20, 60, 155, 165].into_iter().flat_map(each).collect();
    assert_eq!(times, expected);
}

#[test]
fn the_shaper_of_the_paper_spreads_a_frame_over_its_time() {
    let left = run(&mut source(Shaping::default()));
    let first: Vec<Time> = left.iter().map(|(at, _)| *at).collect();
    assert!(first[first.len() / 4 - 1].since(first[0]) > Span::from_ms(20));
}

/// A sink that has joined the flow of `source`.
fn joined(source: &Source) -> Sink {
    let mut sink = Sink::new(SinkConfig {
        playout: PlayoutConfig::live(),
        ..sink_config(Carriage::Datagrams)
    });
    let flow = source.flow().clone();
    let id = flow.id;
    sink.handle(
        ms(HOUR),
        SinkInput::Signal(Signal::Advertise {
            flow: Box::new(flow),
        }),
        &mut Off,
    );
    while sink.poll_transmit(ms(HOUR), &mut Off).is_some() {}
    let ack = Signal::JoinAck {
        flow: id,
        vci: 0,
        level: Level::FULL,
        agreed: None,
    };
    sink.handle(ms(HOUR), SinkInput::Signal(ack), &mut Off);
    sink
}

#[test]
fn the_parts_of_the_delay_add_up_to_the_time_from_arrival_to_hand_over() {
    let mut source = source(Shaping::Off);
    let left = run(&mut source);
    let mut sink = joined(&source);
    let path = Span::from_ms(7);
    let mut packets = left.into_iter().peekable();
    let (mut now, mut played) = (ms(HOUR), Vec::new());
    loop {
        let arrives = packets.peek().map(|(at, _)| *at + path);
        let Some(at) = [arrives, sink.next_timeout()].into_iter().flatten().min() else {
            break;
        };
        if at > ms(HOUR + 1_000) {
            break;
        }
        now = now.max(at);
        match packets.next_if(|(at, _)| *at + path <= now) {
            Some((_, pdu)) => sink.handle(now, SinkInput::Pdu(pdu), &mut Off),
            None => sink.on_timeout(now, &mut Off),
        }
        while let Some(event) = sink.poll_event() {
            if let SinkEvent::Frame(frame) = event {
                played.push((now, frame));
            }
        }
    }
    assert_eq!(played.len(), 4);
    // The third frame left when it was complete, 5 ms after its last byte, and moved the playout point: the fourth waits
    // for it. The header states that in units of 2 ms, and the rest is the path's.
    let expected = [(20, 0, 7, 10), (20, 0, 7, 10), (0, 6, 6, 10), (0, 6, 6, 40)];
    for (n, (handed, frame)) in played.iter().enumerate() {
        let delay = frame.end_to_end(*handed);
        let (ingest, queue, path, playout) = expected[n];
        let parts = EndToEnd {
            ingest: Span::from_ms(ingest),
            queue: Span::from_ms(queue),
            path: Span::from_ms(path),
            playout: Span::from_ms(playout),
        };
        assert_eq!(delay, parts, "{n}");
        let arrived = ms(HOUR + n as u64 * 40 + LATE[n]);
        assert_eq!(delay.total(), handed.since(arrived), "{n}");
    }
}
