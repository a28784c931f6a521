//! Random schedules of one transmitter and many receivers: paths that lose, duplicate, reorder and damage,
//! hosts that fail, users that arrive late, read slowly, leave and abort. Every receiver gets exactly the bytes
//! from where it joined, or an error; a receiver reported complete is complete; and every schedule ends.
//!
//! `PROPTEST_CASES=10000 cargo test -p layercast-xtp --test xtp multicast::schedules` runs 10,000
//! schedules.

use bytes::Bytes;
use layercast_core::{Span, Stream, Time};
use layercast_wire::{Payload, XtpPacket, XtpService};
use layercast_xtp::{ContextId, SendOptions, XtpConfig, XtpDatagram, XtpEvent, XtpGroup, XtpRate};
use proptest::prelude::*;

use super::net::{Group, PORT, Way, host};
use crate::net::{ask, retransmission};

/// Byte `at` of the stream.
fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

struct Receiver {
    id: Option<ContextId>,
    /// When it asks to be let in; `None`: it listens from the beginning.
    joins: Option<Time>,
    dies: Option<Time>,
    leaves: Option<Time>,
    left: bool,
    reads: f64,
    got: Vec<u8>,
    lossy: bool,
}

impl Receiver {
    fn new(random: &mut Stream) -> Receiver {
        let some = |random: &mut Stream, chance: f64| {
            let at = Time::ZERO + Span::from_ms(random.below(8_000));
            random.chance(chance).then_some(at)
        };
        Receiver {
            id: None,
            joins: some(random, 0.3),
            dies: some(random, 0.15),
            leaves: some(random, 0.1),
            left: false,
            reads: 0.1 + random.unit(),
            got: Vec::new(),
            lossy: false,
        }
    }
}

fn ways(random: &mut Stream) -> Way {
    let bad = random.below(4) as f64 / 3.0;
    let mut weather = Stream::new(random.below(u64::MAX), "weather");
    let rates: Vec<f64> = (0..4).map(|_| bad * random.unit()).collect();
    let (loss, twice) = (0.2 * rates[0], 0.15 * rates[1]);
    let (damage, late) = (0.1 * rates[2], 0.4 * rates[3]);
    let delay = 1_000 + random.below(30_000);
    Box::new(move |_, _, datagram: XtpDatagram| {
        if weather.chance(loss) {
            return Vec::new();
        }
        let copies = if weather.chance(twice) { 2 } else { 1 };
        let mut out = Vec::new();
        for _ in 0..copies {
            let later = if weather.chance(late) {
                weather.below(3 * delay)
            } else {
                0
            };
            let mut copy = datagram.clone();
            if weather.chance(damage) {
                let mut bytes = Vec::new();
                copy.packet.encode_into(&mut bytes);
                let bit = weather.below(bytes.len() as u64 * 8) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
                let Ok(packet) = XtpPacket::decode(bytes.into()) else {
                    continue;
                };
                copy.packet = packet;
            }
            out.push((Span::from_us(delay + later), copy));
        }
        out
    })
}

fn config(random: &mut Stream, service: XtpService, receivers: usize) -> XtpConfig {
    let standard = XtpConfig::new(service);
    let sure = service == XtpService::RELIABLE_MULTICAST;
    XtpConfig {
        max_data: 256 + random.below(2_000) as u32,
        window: 4_096 + random.below(60_000) as u32,
        send_buffer: 4_096 + random.below(60_000) as u32,
        flow_control: sure && random.chance(0.8),
        fast_nak: random.chance(0.5),
        retransmission: retransmission(random),
        hold: random.chance(0.7),
        ask: ask(random),
        edge: random.chance(0.2),
        single_timer: random.chance(0.3),
        out_limit: match random.below(3) {
            0 => XtpRate {
                rate: 50_000 + random.below(5_000_000),
                burst: 1_000 + random.below(20_000),
            },
            _ => XtpRate::UNLIMITED,
        },
        group: XtpGroup {
            wait_for: 1 + random.below(receivers as u64) as u32,
            slot: Span::from_ms(random.below(30)),
            strict: random.chance(0.1),
            drop_laggards: random.chance(0.3),
            ..XtpGroup::default()
        },
        ..standard
    }
}

/// Closed or failed; never both.
fn outcome(net: &Group, n: usize) -> Option<bool> {
    let ends = |it: &&XtpEvent| matches!(it, XtpEvent::Closed(_) | XtpEvent::Failed(..));
    let told: Vec<_> = net.events[n].iter().filter(ends).collect();
    assert!(told.len() < 2, "{n}: {told:?}");
    told.first().map(|it| matches!(it, XtpEvent::Closed(_)))
}

fn schedule(seed: u64) {
    let mut random = Stream::new(seed, "schedule");
    let service = match random.below(5) {
        0 => XtpService::MULTICAST,
        _ => XtpService::RELIABLE_MULTICAST,
    };
    let sure = service == XtpService::RELIABLE_MULTICAST;
    let count = 1 + random.below(12) as usize;
    let mut receivers: Vec<_> = (0..count).map(|_| Receiver::new(&mut random)).collect();
    let invited = receivers.iter().filter(|it| it.joins.is_none()).count();
    let near = config(&mut random, service, invited.max(1));
    let mut net = Group::over(count + 1, ways(&mut random));
    let far: Vec<_> = receivers
        .iter()
        .map(|_| XtpConfig {
            max_data: near.max_data + random.below(1_000) as u32,
            ..config(&mut random, service, 1)
        })
        .collect();
    for (n, it) in receivers.iter().enumerate() {
        if it.joins.is_none() {
            net.hosts[n + 1].listen(PORT, 4, far[n].clone()).unwrap();
        }
    }
    let (local, now) = (super::net::at(0, 6_000), net.now);
    let id = net.hosts[0]
        .connect(now, local, super::net::group(), &near)
        .unwrap();
    let total = random.below(120_000);
    let aborts = random.chance(0.05).then(|| random.below(10_000));
    let (mut sent, mut closed, mut aborted) = (0, false, false);
    let end = Time::ZERO + Span::from_secs(3_000);
    loop {
        let now = net.now;
        if !aborted && aborts.is_some_and(|at| now.as_us() / 1_000 >= at) {
            aborted = true;
            net.hosts[0].abort(now, id).unwrap();
        }
        while !aborted && sent < total && random.chance(0.8) {
            let len = (1 + random.below(6_000)).min(total - sent);
            let data: Vec<u8> = (sent..sent + len).map(byte).collect();
            let data = Payload::Bytes(Bytes::from(data));
            match net.hosts[0].send(id, &data, &SendOptions::MESSAGE) {
                Ok(0) | Err(_) => break,
                Ok(taken) => sent += taken as u64,
            }
        }
        if !aborted && sent == total && !std::mem::replace(&mut closed, true) {
            let _ = net.hosts[0].close_write(id);
        }
        for n in 1..=count {
            turn(&mut net, &mut receivers[n - 1], n, &far[n - 1], &mut random);
        }
        let over = |n: usize| {
            let it: &Receiver = &receivers[n - 1];
            let never = it.id.is_none() && it.joins.is_none();
            net.dead[n] || never || outcome(&net, n).is_some() || it.left
        };
        let done = aborted || outcome(&net, 0).is_some();
        if done && (1..=count).all(over) {
            break;
        }
        net.run(Span::from_ms(20));
        if net.now >= end {
            let last: Vec<_> = net.sent.iter().rev().take(30).collect();
            panic!("no end\n{:?}\n{last:?}", net.events);
        }
    }
    for n in 1..=count {
        check(
            &mut net,
            &mut receivers[n - 1],
            n,
            sure,
            (total, closed, id),
        );
    }
    // No schedule runs without end.
    net.run(Span::from_secs(400));
    let last = net.sent.len();
    net.run(Span::from_secs(400));
    assert_eq!(net.sent.len(), last, "somebody still speaks");
}

fn turn(net: &mut Group, it: &mut Receiver, n: usize, config: &XtpConfig, random: &mut Stream) {
    let now = net.now;
    if it.dies.is_some_and(|at| at <= now) {
        net.dead[n] = true;
    }
    match it.joins {
        Some(at) if it.id.is_none() && at <= now => it.id = Some(net.join(n, config)),
        None if it.id.is_none() => {
            it.id = net.hosts[n].accept(PORT).map(|(id, _)| id);
            if it.id.is_some() {
                // One that has left does not want to be invited once more.
                net.hosts[n].unlisten(now, PORT);
            }
        }
        _ => {}
    }
    let Some(id) = it.id.filter(|_| !it.left) else {
        return;
    };
    if it.leaves.is_some_and(|at| at <= now) {
        read(net, it, n, usize::MAX);
        it.left = true;
        match random.chance(0.5) {
            true => net.hosts[n].close(now, id).unwrap(),
            false => net.hosts[n].abort(now, id).unwrap(),
        }
        return;
    }
    if random.chance(it.reads) {
        read(net, it, n, 1 + random.below(20_000) as usize);
    }
}

fn read(net: &mut Group, it: &mut Receiver, n: usize, most: usize) {
    let id = it.id.unwrap();
    while let Ok(Some(chunk)) = net.hosts[n].receive(id, most) {
        it.lossy |= chunk.gap && !it.got.is_empty();
        chunk.data.append_to(&mut it.got);
        if it.got.len() >= most {
            break;
        }
    }
}

/// What a receiver got is what was sent, from where it joined.
fn check(
    net: &mut Group,
    it: &mut Receiver,
    n: usize,
    sure: bool,
    (total, closed, id): (u64, bool, ContextId),
) {
    if it.id.is_some() && !it.left {
        read(net, it, n, usize::MAX);
    }
    if !sure {
        return;
    }
    let joined = net.events[n].iter().find_map(|event| match event {
        XtpEvent::Joined(_, from) => Some(*from),
        _ => None,
    });
    assert!(!it.lossy, "{n}: a hole");
    let start = joined.unwrap_or(0);
    for (at, got) in (start..).zip(&it.got) {
        assert_eq!(*got, byte(at), "{n}: byte {at}, joined at {joined:?}");
    }
    let whole = start + it.got.len() as u64 == total;
    if outcome(net, n) == Some(true) && !it.left {
        assert!(closed && whole, "{n} thinks it is all there");
    }
    let done = net.reported(0, XtpEvent::ReceiverDone(id, host(n)));
    if done && !it.left && !net.dead[n] {
        assert!(whole, "the transmitter thinks {n} has everything");
    }
}

proptest! {
    #![proptest_config(crate::schedules::cases(300))]

    #[test]
    fn everybody_gets_exactly_the_bytes_or_is_told_and_it_always_ends(seed in any::<u64>()) {
        schedule(seed);
    }
}
