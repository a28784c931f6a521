//! What recovery sends again, over many patterns of loss: not what is on its way already, and not what a time-out had sent.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use layercast_core::{Span, Stream};
use layercast_tcp::{LossDetection, Profile, TcpConfig, TcpPacket, TcpStats, Variant};
use layercast_wire::{Payload, SackBlocks};

use super::net::{Net, VARIANTS, ms};

/// How often each data segment arrived, by its number in the stream.
type Arrived = Rc<RefCell<BTreeMap<u32, u32>>>;

/// Sends without end for `seconds`, one way in 20 ms; of the data segments those that `is_lost` are, by their count.
fn sends(
    config: TcpConfig,
    seconds: u64,
    mut is_lost: impl FnMut(u64) -> bool + 'static,
) -> (TcpStats, Arrived) {
    let arrived = Arrived::default();
    let seen = arrived.clone();
    let mut count = 0;
    let channel = move |host, packet: TcpPacket| {
        if host == 0 && !packet.segment.payload.is_empty() {
            count += 1;
            if is_lost(count) {
                return Vec::new();
            }
            *seen.borrow_mut().entry(packet.segment.seq.0).or_default() += 1;
        }
        vec![(ms(20), packet)]
    };
    let mut net = Net::new([config.clone(), config], Box::new(channel));
    let (near, far) = net.open();
    net.sink = Some((1, far));
    net.stream(near, Span::from_secs(seconds));
    (net.hosts[0].stats(), arrived)
}

fn modern(variant: Variant) -> TcpConfig {
    TcpConfig {
        variant,
        ..TcpConfig::from(Profile::Modern)
    }
}

/// Segments are lost at random, and none is reordered: a segment that arrives twice was sent again while it was on its way.
#[test]
fn nothing_arrives_twice_where_nothing_is_reordered() {
    for variant in [Variant::Sack, Variant::Cubic, Variant::Linux] {
        let (mut again, mut timeouts) = (0, 0);
        for seed in 0..60 {
            let mut random = Stream::new(seed, "test/loss");
            let (stats, arrived) = sends(modern(variant), 4, move |_| random.below(40) == 0);
            timeouts += stats.timeouts;
            again += stats.fast_retransmits;
            let twice = arrived
                .borrow()
                .values()
                .filter(|&&count| count > 1)
                .count();
            assert_eq!(twice, 0, "{variant:?}, seed {seed}: {stats:?}");
        }
        assert!(timeouts > 10 && again > 100, "{timeouts} {again}");
    }
}

/// Every second segment of a slow start that overshoots is lost, and of what is sent again, so that a time-out repairs the rest:
/// it sends again what was lost, and nothing that the receiver has reported, however many gaps there are.
#[test]
fn a_time_out_sends_nothing_again_that_has_arrived() {
    for variant in [Variant::Sack, Variant::Cubic, Variant::Linux] {
        let lost = |count| (100..400).contains(&count) && count % 2 == 0;
        let (stats, arrived) = sends(modern(variant), 6, lost);
        assert!(stats.timeouts > 0, "{variant:?} {stats:?}");
        let arrived = arrived.borrow();
        let twice = arrived.values().filter(|&&count| count > 1).count();
        assert_eq!(twice, 0, "{variant:?} {stats:?}");
        assert_eq!(stats.spurious_timeouts, 0, "{variant:?} {stats:?}");
        assert!(arrived.len() > 1_000, "{variant:?} {}", arrived.len());
    }
}

/// A short segment that a time-out sends again is filled with what was written since (RFC 9293 3.8.6.2.1 allows it, 4.4BSD does it).
#[test]
fn new_data_fill_what_a_time_out_sends_again() {
    for profile in [Profile::Bsd44Lite, Profile::Modern] {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let lens = seen.clone();
        let channel = move |host, packet: TcpPacket| {
            let len = packet.segment.payload.len();
            if host == 0 && len > 0 {
                lens.borrow_mut().push(len);
                if lens.borrow().len() == 1 {
                    return Vec::new();
                }
            }
            vec![(ms(20), packet)]
        };
        let config = TcpConfig::from(profile);
        let mut net = Net::new([config.clone(), config], Box::new(channel));
        let (near, far) = net.open();
        net.sink = Some((1, far));
        for _ in 0..2 {
            net.hosts[0].write(near, &Payload::Zeros(100)).unwrap();
            net.run(ms(10));
        }
        net.run(Span::from_secs(20));
        assert_eq!((&*seen.borrow(), net.sunk), (&vec![100, 200], 200));
    }
}

/// A segment that comes twice is reported once, in the first block (RFC 2883 4): below the acknowledgement, or within the second.
#[test]
fn what_comes_twice_is_reported() {
    for has_gap in [false, true] {
        let reports = Rc::new(RefCell::new(Vec::new()));
        let seen = reports.clone();
        let mut count = 0;
        let channel = move |host, packet: TcpPacket| {
            let segment = &packet.segment;
            if host == 1 {
                let blocks = segment.options.sack.as_slice();
                if let Some(&(from, to)) = blocks.first() {
                    let within = blocks
                        .get(1)
                        .is_some_and(|it| it.0.diff(from) <= 0 && it.1.diff(to) >= 0);
                    if segment.ack.diff(to) >= 0 || within {
                        seen.borrow_mut().push((to.diff(from), within));
                    }
                }
                return vec![(ms(20), packet)];
            }
            count += u32::from(!segment.payload.is_empty());
            match count {
                2 if has_gap => Vec::new(),
                4 if !segment.payload.is_empty() => {
                    vec![(ms(20), packet.clone()), (ms(21), packet)]
                }
                _ => vec![(ms(20), packet)],
            }
        };
        let config = modern(Variant::Sack);
        let mut net = Net::new([config.clone(), config], Box::new(channel));
        let (near, far) = net.open();
        net.sink = Some((1, far));
        net.hosts[0].write(near, &Payload::Zeros(8_000)).unwrap();
        net.run(Span::from_secs(2));
        assert_eq!(*reports.borrow(), [(1_448, has_gap)]);
        assert_eq!(net.sunk, 8_000);
    }
}

/// A block covers the FIN of the segment that it acknowledges, so that a time-out does not send it again.
#[test]
fn a_fin_is_acknowledged_selectively() {
    for variant in [Variant::Sack, Variant::Linux] {
        let count = Rc::new(Cell::new(0));
        let seen = count.clone();
        let channel = move |host, packet: TcpPacket| {
            let carries = host == 0 && packet.segment.seq_len() > 0;
            seen.set(seen.get() + u32::from(carries));
            // After SYN: of ten segments the last but one.
            let is_lost = carries && seen.get() == 10;
            if is_lost {
                Vec::new()
            } else {
                vec![(ms(20), packet)]
            }
        };
        let config = modern(variant);
        let mut net = Net::new([config.clone(), config], Box::new(channel));
        let (near, far) = net.open();
        net.sink = Some((1, far));
        net.hosts[0].write(near, &Payload::Zeros(14_000)).unwrap();
        net.hosts[0].shutdown(near).unwrap();
        net.run(Span::from_secs(2));
        let stats = net.hosts[0].stats();
        assert_eq!((stats.timeouts, stats.retransmitted), (1, 1), "{stats:?}");
        assert_eq!((net.sunk, count.get()), (14_000, 12));
    }
}

/// The path becomes longer than the time-out, and nothing is lost: F-RTO (RFC 5682) sends the first segment again and no other, and
/// leaves the window as it was.
#[test]
fn a_spurious_time_out_sends_one_segment_again() {
    for variant in [Variant::Sack, Variant::Cubic, Variant::Linux] {
        for loss_detection in [LossDetection::Duplicates, LossDetection::Rack] {
            let seen = [true, false].map(|frto| {
                let config = TcpConfig {
                    frto,
                    loss_detection,
                    recv_buffer: 1 << 17,
                    ..modern(variant)
                };
                let channel = move |_, packet| vec![(ms(20), packet)];
                let mut net = Net::new([config.clone(), config], Box::new(channel));
                let (near, far) = net.open();
                net.sink = Some((1, far));
                net.stream(near, Span::from_secs(1));
                let before = net.hosts[0].info(near).unwrap().cwnd;
                net.channel = Box::new(|host, packet| vec![([ms(500), ms(20)][host], packet)]);
                net.stream(near, ms(700));
                let after = net.hosts[0].info(near).unwrap().cwnd;
                (net.hosts[0].stats(), after >= before)
            });
            let [(with, keeps), (without, keeps_not)] = seen;
            assert!(with.timeouts > 0, "{variant:?} {with:?}");
            assert_eq!(with.spurious_timeouts, 1, "{variant:?} {with:?}");
            assert!(with.retransmitted <= with.timeouts + 1, "{with:?}");
            assert!(keeps && !keeps_not, "{variant:?} {loss_detection:?}");
            assert!(without.retransmitted > 20, "{variant:?} {without:?}");
        }
    }
}

/// A receiver tells of a segment that it does not have, or has no more (RFC 2018, 8). That the acknowledgement ends at it shows
/// this after the time-out, so that it is sent again immediately.
#[test]
fn what_a_receiver_has_forgotten_is_sent_again() {
    for variant in [Variant::Sack, Variant::Linux] {
        let config = TcpConfig {
            initial_window: 4,
            ..modern(variant)
        };
        let (mut count, mut second) = (0, None);
        let channel = move |host, mut packet: TcpPacket| {
            if host == 0 && !packet.segment.payload.is_empty() {
                count += 1;
                if count == 2 {
                    second = Some(packet.segment.seq);
                }
                if count <= 2 {
                    return Vec::new();
                }
            }
            let blocks = packet.segment.options.sack;
            if let (1, Some(from), &[(_, to), ..]) = (host, second, blocks.as_slice()) {
                packet.segment.options.sack = SackBlocks::default();
                packet.segment.options.sack.push(from, to);
            }
            vec![(ms(20), packet)]
        };
        let mut net = Net::new([config.clone(), config], Box::new(channel));
        let (near, far) = net.open();
        net.sink = Some((1, far));
        net.hosts[0].write(near, &Payload::Zeros(1 << 16)).unwrap();
        net.run(Span::from_secs(1));
        let stats = net.hosts[0].stats();
        assert_eq!(stats.timeouts, 1, "{variant:?} {stats:?}");
        let info = net.hosts[0].info(near).unwrap();
        assert!(info.acknowledged >= 1 << 16, "{variant:?} {info:?}");
    }
}

/// The first half of a window is lost, so that a time-out sends all of it again; the receiver has the other half, and answers
/// that with duplicates. They are no loss (RFC 6582, 3.2), except to 4.4BSD-Lite.
#[test]
fn duplicates_after_a_time_out_are_no_loss_to_reno() {
    let config = |quirk| {
        let mut config = modern(Variant::Reno);
        (config.sack, config.initial_window) = (false, 16);
        config.quirks.count_acks = quirk;
        config
    };
    // All but the last three of the first window, which are too few for a fast retransmit, and what is sent then.
    let lost = |count| (1..=13).contains(&count) || (17..=20).contains(&count);
    let (stats, _) = sends(config(false), 10, lost);
    assert!(stats.timeouts > 0, "{stats:?}");
    assert_eq!(stats.fast_retransmits, 0, "{stats:?}");
}

/// Of a window of four segments the first two are lost. The acknowledgements of the others come after the time-out, and before
/// that of what it sends again. Gives how many segments had been sent before those acknowledgements, before that one, and after it.
fn with_late_duplicates(variant: Variant, sack: bool) -> [u32; 3] {
    let config = TcpConfig {
        initial_window: 4,
        sack,
        ..modern(variant)
    };
    let sent = Rc::new(Cell::new(0));
    let count = sent.clone();
    let channel = move |host, packet: TcpPacket| {
        if host == 0 && !packet.segment.payload.is_empty() {
            count.set(count.get() + 1);
            if count.get() <= 2 {
                return Vec::new();
            }
        }
        let is_late = host == 1 && (1..=4).contains(&count.get());
        vec![(ms(if is_late { 200 } else { 20 }), packet)]
    };
    let mut net = Net::new([config.clone(), config], Box::new(channel));
    let (near, far) = net.open();
    net.sink = Some((1, far));
    net.hosts[0].write(near, &Payload::Zeros(1 << 16)).unwrap();
    // The time-out is after 200 ms.
    [210, 20, 20].map(|span| {
        net.run(ms(span));
        sent.get()
    })
}

/// Limited transmit is for the duplicates before a recovery (RFC 3042): those of what was sent before a time-out send nothing.
#[test]
fn late_duplicates_send_nothing_while_a_time_out_is_repaired() {
    for variant in VARIANTS.into_iter().filter(|&it| it != Variant::Dctcp) {
        for sack in [false, true] {
            let sent = with_late_duplicates(variant, sack);
            assert_eq!(sent[..2], [5, 5], "{variant:?}, SACK {sack}");
            assert!(sent[2] > 5, "{variant:?}, SACK {sack}");
        }
    }
}

/// Duplicates send two segments beyond the window, however many of them there are before one is taken for lost (RFC 3042, 2).
#[test]
fn duplicates_send_two_segments() {
    for sack in [false, true] {
        let config = TcpConfig {
            dup_acks: 20,
            sack,
            ..modern(Variant::NewReno)
        };
        let sent = Rc::new(Cell::new(0));
        let count = sent.clone();
        let channel = move |host, packet: TcpPacket| {
            let has_data = host == 0 && !packet.segment.payload.is_empty();
            count.set(count.get() + u32::from(has_data));
            match has_data && count.get() == 1 {
                true => Vec::new(),
                false => vec![(ms(20), packet)],
            }
        };
        let mut net = Net::new([config.clone(), config], Box::new(channel));
        let (near, far) = net.open();
        net.sink = Some((1, far));
        net.hosts[0].write(near, &Payload::Zeros(1 << 16)).unwrap();
        net.run(ms(190));
        // The initial window, of which nine segments are answered by duplicates.
        assert_eq!(sent.get(), 10 + 2, "SACK {sack}");
    }
}

/// The windows in recovery, in segments sent, and the threshold.
fn in_recovery(variant: Variant) -> (Vec<u64>, u64) {
    let config = TcpConfig {
        initial_window: 100,
        ..modern(variant)
    };
    let mut count = 0;
    let channel = move |host, packet: TcpPacket| {
        count += u32::from(host == 0 && !packet.segment.payload.is_empty());
        match host == 0 && count == 5 {
            true => Vec::new(),
            false => vec![(ms(20), packet)],
        }
    };
    let mut net = Net::new([config.clone(), config], Box::new(channel));
    let (near, far) = net.open();
    net.sink = Some((1, far));
    net.hosts[0].write(near, &Payload::Zeros(1 << 20)).unwrap();
    net.run(Span::from_ms(100));
    let number = |line: &str, name: &str| {
        let mut words = line.split_whitespace().skip_while(|word| *word != name);
        words.nth(1).and_then(|word| word.parse::<u64>().ok())
    };
    let lines = net.log.iter().filter(|line| line.contains('>'));
    let known = lines.filter_map(|line| Some((number(line, "cwnd")?, number(line, "ssthresh")?)));
    let (windows, thresholds): (Vec<_>, Vec<_>) = known.unzip();
    (windows, thresholds[0])
}

#[test]
fn the_window_of_linux_falls_with_what_is_delivered() {
    // RFC 6937: seven segments for ten that arrive, and the threshold at the end.
    let (windows, threshold) = in_recovery(Variant::Linux);
    assert!(windows[0] > 5 * threshold / 4, "{windows:?} {threshold}");
    let lowest = windows.iter().position(|&it| it <= threshold);
    let lowest = lowest.expect("recovery ends");
    assert!(lowest > 40, "{windows:?} {threshold}");
    assert!(windows[..lowest].is_sorted_by(|a, b| a + 1_448 >= *b));
    let (at_once, threshold) = in_recovery(Variant::Sack);
    assert_eq!(at_once[0], threshold);
}
