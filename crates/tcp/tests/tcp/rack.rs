//! RACK-TLP (RFC 8985) and HyStart++ (RFC 9406) between two hosts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use layercast_core::{Span, Stream, Time};
use layercast_tcp::{LossDetection, Profile, SlowStart, TcpConfig, TcpPacket, TcpStats, Variant};
use layercast_wire::Payload;

use super::net::{Net, ms};

const VARIANTS: [Variant; 3] = [Variant::Sack, Variant::Cubic, Variant::Linux];
const BY: [LossDetection; 2] = [LossDetection::Duplicates, LossDetection::Rack];

fn config(variant: Variant, loss_detection: LossDetection) -> TcpConfig {
    TcpConfig {
        variant,
        loss_detection,
        ..TcpConfig::from(Profile::Modern)
    }
}

/// How often each data segment arrived, by its number in the stream.
type Arrived = Rc<RefCell<BTreeMap<u32, u32>>>;

/// Sends `bytes` over a path of 20 ms each way, whose data segments `fate` delays further or loses, by their count, and how often
/// each was sent. Gives when all
/// had arrived, in ms from the first data on, what the sender counted, and how many segments arrived twice.
fn transfers(
    config: TcpConfig,
    bytes: usize,
    mut fate: impl FnMut(u64, u32) -> Option<Span> + 'static,
) -> (f64, TcpStats, usize) {
    let arrived = Arrived::default();
    let seen = arrived.clone();
    let (mut count, mut sent) = (0, BTreeMap::new());
    let channel = move |host, packet: TcpPacket| {
        if host == 0 && !packet.segment.payload.is_empty() {
            count += 1;
            let times = sent.entry(packet.segment.seq.0).or_insert(0);
            *times += 1;
            let Some(more) = fate(count, *times) else {
                return Vec::new();
            };
            *seen.borrow_mut().entry(packet.segment.seq.0).or_default() += 1;
            return vec![(ms(20) + more, packet)];
        }
        vec![(ms(20), packet)]
    };
    let mut net = Net::new([config.clone(), config], Box::new(channel));
    let (near, far) = net.open();
    net.sink = Some((1, far));
    let begun = net.now;
    let (mut left, end) = (bytes, net.now + Span::from_secs(60));
    while net.sunk < bytes {
        let taken = net.hosts[0]
            .write(near, &Payload::Zeros(left as u32))
            .unwrap();
        left -= taken;
        assert!(net.step(end), "{} of {bytes}", net.sunk);
    }
    let took = net.now.since(begun).as_ms_f64();
    let twice = arrived.borrow().values().filter(|&&it| it > 1).count();
    (took, net.hosts[0].stats(), twice)
}

const SEGMENT: usize = 1_448;

#[test]
fn the_loss_of_the_last_segments_needs_no_time_out() {
    for variant in VARIANTS {
        // Of ten segments the last one, two or three.
        for lost in 1..=3 {
            let fate = move |count, _| (!(11 - lost..=10).contains(&count)).then_some(Span::ZERO);
            let [old, new] = BY.map(|by| transfers(config(variant, by), 10 * SEGMENT, fate));
            assert!(old.1.timeouts > 0 && old.0 > 200.0, "{variant:?} {old:?}");
            assert_eq!(new.1.timeouts, 0, "{variant:?}, {lost} lost: {new:?}");
            // Two round trips from the last acknowledgement to the probe, one to its own, a half for the rest; a segment alone is
            // given the time of a delayed acknowledgement on top.
            let most = if lost == 1 { 280.0 } else { 240.0 };
            assert!(new.0 < most, "{variant:?}, {lost} lost: {new:?}");
            assert_eq!(new.2, 0, "{variant:?}, {lost} lost: nothing arrives twice");
        }
    }
}

#[test]
fn a_lost_retransmission_needs_no_time_out() {
    for variant in VARIANTS {
        // Of a window of 40 the fifth segment, and that again when it is sent again.
        let fate = |count, times| (count != 5 && times != 2).then_some(Span::ZERO);
        let found = BY.map(|by| {
            let config = TcpConfig {
                initial_window: 40,
                ..config(variant, by)
            };
            transfers(config, 200 * SEGMENT, fate)
        });
        let [old, new] = found;
        assert!(old.1.timeouts > 0, "{variant:?} {old:?}");
        assert_eq!(new.1.timeouts, 0, "{variant:?} {new:?}");
        assert!(new.0 < old.0, "{variant:?} {old:?} {new:?}");
    }
}

#[test]
fn what_comes_late_is_not_sent_again() {
    for variant in VARIANTS {
        // Each 7th segment comes 4 ms late, behind all of its burst; a quarter of the round trip is 10 ms.
        let late = |count, _| Some(if count % 7 == 0 { ms(4) } else { Span::ZERO });
        let [old, new] = BY.map(|by| transfers(config(variant, by), 2_000 * SEGMENT, late));
        assert!(old.1.retransmitted > 20, "{variant:?} {old:?}");
        // The first time it cannot be known.
        assert!(new.1.retransmitted <= 3, "{variant:?} {new:?}");
        assert!(new.0 < old.0, "{variant:?} {old:?} {new:?}");
    }
}

#[test]
fn random_losses_are_mended_with_nothing_sent_twice() {
    for variant in VARIANTS {
        let (mut took, mut timeouts) = ([0.0; 2], [0; 2]);
        for seed in 0..12 {
            for (n, by) in BY.into_iter().enumerate() {
                let mut random = Stream::new(seed, "test/loss");
                let fate = move |_, _| (random.below(50) != 0).then_some(Span::ZERO);
                let found = transfers(config(variant, by), 500 * SEGMENT, fate);
                took[n] += found.0;
                timeouts[n] += found.1.timeouts;
                if by == LossDetection::Rack && found.1.timeouts == 0 {
                    // The last segment, of a probe whose acknowledgement was delayed.
                    assert!(found.2 <= 1, "{variant:?}, seed {seed}: {found:?}");
                }
            }
        }
        assert!(timeouts[1] < timeouts[0] / 2, "{variant:?} {timeouts:?}");
        assert!(took[1] < took[0], "{variant:?} {took:?}");
    }
}

#[test]
fn a_delayed_acknowledgement_of_the_last_segment_brings_no_probe() {
    // 7.2: a segment alone has the time of a delayed acknowledgement on top.
    let config = config(Variant::Cubic, LossDetection::Rack);
    let (_, stats, twice) = transfers(config, SEGMENT / 2, |_, _| Some(Span::ZERO));
    assert_eq!((stats.retransmitted, twice), (0, 0));
}

/// The largest queue, in segments, of a connection without end over 10 Mbit/s and 50 ms with a queue of two bandwidth-delay
/// products, and what it sent again in the first seconds.
fn first_overshoot(slow_start: SlowStart, variant: Variant, most_waiting: u64) -> (u64, u64) {
    let config = TcpConfig {
        slow_start,
        send_buffer: 4 << 20,
        recv_buffer: 4 << 20,
        ..config(variant, LossDetection::Duplicates)
    };
    let most = Rc::new(RefCell::new(0));
    let seen = most.clone();
    let (mut free, mut now) = (Time::ZERO, Time::ZERO);
    let clock = Rc::new(RefCell::new(Time::ZERO));
    let at = clock.clone();
    let channel = move |host, packet: TcpPacket| {
        if host == 1 || packet.segment.payload.is_empty() {
            return vec![(ms(25), packet)];
        }
        now = now.max(*at.borrow());
        let sending = Span::from_us(1_200);
        free = free.max(now);
        let waits = free.since(now);
        let queue = waits.as_ps() / sending.as_ps();
        if queue >= most_waiting {
            return Vec::new();
        }
        let longest = queue.max(*seen.borrow());
        *seen.borrow_mut() = longest;
        free += sending;
        vec![(waits + sending + ms(25), packet)]
    };
    let mut net = Net::new([config.clone(), config], Box::new(channel));
    let (near, far) = net.open();
    net.sink = Some((1, far));
    let end = net.now + Span::from_secs(3);
    loop {
        net.hosts[0].write(near, &Payload::Zeros(1 << 20)).unwrap();
        let goes_on = net.step(end);
        *clock.borrow_mut() = net.now;
        if !goes_on {
            break;
        }
    }
    let queue = *most.borrow();
    (queue, net.hosts[0].stats().retransmitted)
}

#[test]
fn hystart_overshoots_less() {
    // A delay shows one round trip after the window has filled the path, and some rounds of slower growth follow (RFC 9406 4.3): the
    // queue overflows less, where it does.
    for (variant, share) in [(Variant::Sack, 0.6), (Variant::Cubic, 0.5)] {
        for bdp in [2, 4] {
            let [standard, plus] = [SlowStart::Loss, SlowStart::HyStartPlusPlus]
                .map(|it| first_overshoot(it, variant, bdp * 42).1 as f64);
            assert!(standard > 100.0, "{variant:?}, {bdp}: {standard}");
            assert!(
                plus < share * standard,
                "{variant:?}, {bdp}: {plus} {standard}"
            );
        }
    }
}
