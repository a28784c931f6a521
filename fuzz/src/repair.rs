//! Datagrams of a neighbour on a link with repair: the decoder of the headers, and the machines at both ends.

use bytes::Bytes;
use layercast_core::{FlowId, Layer, Machine, Off, Rate, Serial, Span, Time};
use layercast_repair::{
    Carried, Codec, GroupConfig, GroupInput, GroupRepairer, GroupRequester, Head, MAX_BLOCKS,
    MAX_GAPS, MAX_HISTORY, MAX_HOLES, MAX_KEPT, MAX_OPEN, MAX_QUEUED, Means, MemberConfig, Parts,
    RepairConfig, Repairer, RepairerInput, Requester, RequesterInput, SPAN, Unit,
};

/// The session of both directions.
const SESSION: u16 = 7;
/// Datagrams and markers that may leave a machine for one that came.
const MOST_OUT: usize = 64;

/// Datagrams, each behind its length in two octets. Before each of them a datagram of 1,000 octets is sent.
pub fn repair(data: &[u8]) {
    let codec = Codec {
        encode: Bytes::clone,
        len: Bytes::len,
        decode: Some,
    };
    let config = RepairConfig {
        name: "fuzz".into(),
        session: SESSION,
        rate: Some(Rate::from_bps(8_000_000)),
        measures: true,
        means: [Means::Auto, Means::Requests, Means::Parities][data.len() % 3],
        codec,
    };
    let mut group = GroupRepairer::new(GroupConfig {
        name: "fuzz".into(),
        session: SESSION,
        rate: config.rate,
        codec,
    });
    let mut member = GroupRequester::new(MemberConfig {
        name: "fuzz".into(),
        session: SESSION,
        first: Serial(0),
        asks: true,
        seed: 1,
        codec,
    });
    let joined = Time::ZERO + Span::from_secs(1);
    group.handle(joined, GroupInput::Join(1), &mut Off);
    let mut repairer = Repairer::new(config);
    let mut parts = Parts::default();
    let mut requester = Requester::new("fuzz", SESSION, codec);
    let mut now = Time::ZERO + Span::from_secs(1);
    let mut rest = data;
    while let Some((len, behind)) = rest.split_first_chunk::<2>() {
        let len = usize::from(u16::from_be_bytes(*len)).min(behind.len());
        let (datagram, behind) = behind.split_at(len);
        rest = behind;
        now += Span::from_ms(1 + len as u64 % 16);
        let unit = Unit {
            flow: FlowId(1),
            layer: Layer::ALL[len % 3],
            stamp_us: Some(now.as_us() as u32),
            octets: 1_000,
            last: len % 2 == 0,
            repair: len % 5 > 0,
            lasts: (len % 7 == 0).then_some(Span::from_ms(500)),
        };
        let item = Bytes::from(vec![len as u8; 1_000]);
        repairer.handle(
            now,
            RepairerInput::Send {
                at: now,
                unit,
                item: item.clone(),
            },
            &mut Off,
        );
        let send = GroupInput::Send {
            at: now,
            unit,
            item,
        };
        group.handle(now, send, &mut Off);
        if let Ok((head, content)) = Head::decode(datagram) {
            let mut again = Vec::new();
            head.encode_into(&mut again);
            again.extend_from_slice(content);
            assert_eq!(again, datagram);
            match head {
                Head::Data { .. } | Head::Repair { .. } => {
                    let carried = Carried::Item(Bytes::copy_from_slice(content));
                    requester.handle(now, RequesterInput::Datagram(head, carried), &mut Off);
                }
                Head::Marker { .. } => {
                    requester.handle(now, RequesterInput::Marker(head), &mut Off)
                }
                Head::Feedback(feedback) => {
                    let to_group = GroupInput::Feedback(1, feedback.clone());
                    group.handle(now, to_group, &mut Off);
                    repairer.handle(now, RepairerInput::Feedback(feedback), &mut Off);
                }
                Head::Shared { .. } | Head::Parity(_) => {
                    let content = Bytes::copy_from_slice(content);
                    let carried = match head {
                        Head::Parity(_) => Carried::Parity(content),
                        _ => Carried::Item(content),
                    };
                    let input = RequesterInput::Datagram(head.clone(), carried.clone());
                    requester.handle(now, input, &mut Off);
                    member.handle(now, RequesterInput::Datagram(head, carried), &mut Off);
                }
                Head::Part { .. } => {
                    let _ = parts.take(&head, Bytes::copy_from_slice(content));
                }
                Head::Beacon(_) => member.handle(now, RequesterInput::Marker(head), &mut Off),
            }
        }
        repairer.on_timeout(now, &mut Off);
        requester.on_timeout(now, &mut Off);
        while requester.poll_event().is_some() {}
        group.on_timeout(now, &mut Off);
        member.on_timeout(now, &mut Off);
        while member.poll_event().is_some() {}
        let mut out = 0;
        while group.poll_transmit(now, &mut Off).is_some() {
            out += 1;
        }
        while let Some(feedback) = member.poll_transmit(now, &mut Off) {
            out += 1;
            let mut octets = Vec::new();
            Head::Feedback(feedback).encode_into(&mut octets);
            assert!(Head::decode(&octets).is_ok());
        }
        while repairer.poll_transmit(now, &mut Off).is_some() {
            out += 1;
        }
        while let Some(feedback) = requester.poll_transmit(now, &mut Off) {
            out += 1;
            let mut octets = Vec::new();
            Head::Feedback(feedback).encode_into(&mut octets);
            assert!(Head::decode(&octets).is_ok());
        }
        assert!(out <= MOST_OUT, "{out} datagrams for one");
        let (history, queued, blocks) = repairer.held();
        assert!(history <= MAX_HISTORY && queued <= MAX_QUEUED && blocks <= MAX_BLOCKS);
        let (history, queued, blocks) = group.held();
        assert!(history <= MAX_HISTORY && queued <= MAX_QUEUED && blocks <= MAX_BLOCKS);
        let (holes, kept, open) = member.held();
        assert!(holes <= MAX_HOLES && kept <= MAX_KEPT && open <= MAX_OPEN);
        for clock in [repairer.clock(now), group.clock(now, 1)] {
            assert!(clock.is_none_or(|it| it.drift_ppb.abs() <= 1_000_000));
        }
        assert!(requester.missing() <= SPAN.max(MAX_GAPS as u64));
        let (kept, open) = requester.held();
        assert!(kept <= MAX_KEPT && open <= MAX_OPEN);
    }
}
