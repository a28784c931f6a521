//! Traces of TCP segment by segment, held against `golden/*.txt`: 4.4BSD-Lite, the recoveries after
//! it, time-outs and delayed acknowledgements of several profiles.
//!
//! A line is: milliseconds, `>` from the opener or `<` to it, flags as tcpdump writes them, first
//! byte and length, acknowledgement, SACK blocks; of what the opener sends its window, threshold
//! (`-` before any loss) and time-out in ms just after. SYN has number 0. Lines that begin with `#`
//! say why the others are as they are; they are not compared.
//!
//! `LAYERCAST_BLESS=1 cargo test -p layercast-tcp --test tcp golden` writes the traces again,
//! for a change that is meant, and keeps the comments: read them again then.

use layercast_core::{Span, Stream};
use layercast_tcp::{Profile, TcpConfig, TcpPacket, Variant};
use layercast_wire::Payload;

use super::net::{Channel, Net, ms};
use super::trace;

fn check(net: &Net, name: &str) {
    trace::check("tcp", &net.log, name);
}

/// 100 ms each way; of the data segments of host 0, those counted in `lost` are.
fn losing(lost: &'static [usize]) -> Channel {
    let mut count = 0;
    Box::new(move |host, packet: TcpPacket| {
        if host == 0 && !packet.segment.payload.is_empty() {
            count += 1;
            if lost.contains(&count) {
                return Vec::new();
            }
        }
        vec![(ms(100), packet)]
    })
}

/// Transfers `segments` full segments and closes.
fn transfer(config: TcpConfig, lost: &'static [usize], segments: usize) -> Net {
    transfer_over(config, losing(lost), segments, 60)
}

fn transfer_over(config: TcpConfig, channel: Channel, segments: usize, seconds: u64) -> Net {
    let mut net = Net::new([config.clone(), config], channel);
    let (near, far) = net.open();
    net.sink = Some((1, far));
    let mss = usize::from(net.hosts[0].info(near).unwrap().mss);
    let mut left = segments * mss;
    let end = net.now + Span::from_secs(seconds);
    loop {
        if left > 0 {
            left -= net.hosts[0]
                .write(near, &Payload::Zeros(left as u32))
                .unwrap();
            if left == 0 {
                net.hosts[0].shutdown(near).unwrap();
            }
        }
        if !net.step(end) {
            break;
        }
    }
    assert_eq!(net.sunk, segments * mss);
    net
}

fn lite() -> TcpConfig {
    TcpConfig::from(Profile::Bsd44Lite)
}

/// Loss recovery of today with windows small enough to read.
fn modern(variant: Variant) -> TcpConfig {
    TcpConfig {
        variant,
        initial_window: 8,
        timestamps: false,
        mss: 1_000,
        ..TcpConfig::from(Profile::Modern)
    }
}

#[test]
fn slow_start() {
    check(&transfer(lite(), &[], 30), "slow-start");
}

#[test]
fn congestion_avoidance_after_a_timeout() {
    // The first segment is lost, so that there are no duplicates; 16 more show both phases.
    check(&transfer(lite(), &[1], 24), "timeout");
}

#[test]
fn fast_recovery_of_lite_deflates_after_more_than_three() {
    check(&transfer(lite(), &[16], 36), "lite-recovery");
}

#[test]
fn fast_recovery_of_lite_stays_inflated_after_exactly_three() {
    // 9, 10 and 12 arrive behind the hole, 11 does not.
    check(&transfer(lite(), &[8, 11], 16), "lite-three");
}

#[test]
fn lite_halves_again_for_duplicates_of_what_a_timeout_sent() {
    // ECN is off: what a time-out sent again is no window that a mark has reduced.
    check(
        &transfer(lite(), &[20, 23, 25, 32, 37], 60),
        "lite-after-timeout",
    );
}

#[test]
fn reno_leaves_recovery_at_the_first_new_acknowledgement() {
    check(&transfer(modern(Variant::Reno), &[9], 40), "reno");
}

#[test]
fn reno_halves_twice_for_two_losses() {
    check(&transfer(modern(Variant::Reno), &[9, 11], 40), "reno-two");
}

#[test]
fn tahoe_starts_slowly_again() {
    let config = TcpConfig {
        variant: Variant::Tahoe,
        ..lite()
    };
    check(&transfer(config, &[16], 36), "tahoe");
}

#[test]
fn newreno_recovers_one_hole_a_round_trip() {
    check(
        &transfer(modern(Variant::NewReno), &[9, 11, 14], 40),
        "newreno",
    );
}

/// After a time-out in a recovery all is sent again; duplicates of what the peer had are no loss, not even those
/// that acknowledge exactly what was sent before (RFC 6582 3.2).
#[test]
fn newreno_takes_the_duplicates_after_a_time_out_for_what_they_are() {
    let config = TcpConfig {
        fast_tick: None,
        ..modern(Variant::NewReno)
    };
    // A third of the segments of a window, each of them a little later than the one before.
    let mut random = Stream::new(112, "zz");
    let mut count = 0;
    let channel = move |host, packet: TcpPacket| {
        let is_data = host == 0 && !packet.segment.payload.is_empty();
        count += u64::from(is_data);
        let is_lost = is_data && (17..73).contains(&count) && random.below(3) == 0;
        match is_lost {
            true => Vec::new(),
            false => vec![(ms(100) + Span::from_us(50 * count), packet)],
        }
    };
    let stats = transfer_over(config, Box::new(channel), 200, 300).hosts[0].stats();
    assert_eq!(stats.fast_retransmits, 1);
}

#[test]
fn sack_recovers_all_holes_at_once() {
    check(&transfer(modern(Variant::Sack), &[9, 11, 14], 40), "sack");
}

#[test]
fn sack_rescues_a_lost_tail() {
    check(&transfer(modern(Variant::Sack), &[17, 24], 24), "sack-tail");
}

#[test]
fn cubic_keeps_seven_tenths() {
    check(&transfer(modern(Variant::Cubic), &[9, 11, 14], 40), "cubic");
}

/// One full segment that is never acknowledged.
fn back_off(profile: Profile, name: &str) {
    let mut net = Net::plain(profile, ms(100));
    let (near, _) = net.open();
    net.channel = Box::new(|_, _| Vec::new());
    net.write(0, near, Payload::Zeros(512));
    net.run(Span::from_secs(900));
    check(&net, name);
}

#[test]
fn time_outs_back_off() {
    back_off(Profile::Bsd44Lite, "back-off");
}

#[test]
fn time_outs_of_solaris_back_off() {
    back_off(Profile::Solaris, "back-off-solaris");
}

#[test]
fn time_outs_of_today_back_off() {
    back_off(Profile::Modern, "back-off-modern");
}

#[test]
fn what_was_sent_twice_is_not_timed() {
    let config = TcpConfig {
        initial_window: 1,
        ..modern(Variant::NewReno)
    };
    let mut net = Net::new([config.clone(), config], losing(&[2, 3]));
    let (near, far) = net.open();
    net.sink = Some((1, far));
    net.write(0, near, Payload::Zeros(6_000));
    net.run(Span::from_secs(20));
    check(&net, "karn");
}

#[test]
fn a_lost_syn_is_sent_after_6_and_30_seconds() {
    let silence = Box::new(|_, _| Vec::new());
    let mut net = Net::new([lite(), lite()], silence);
    net.connect();
    net.run(Span::from_secs(90));
    check(&net, "lost-syn");
}

/// Keystrokes every 70 ms, then two full segments back to back.
fn typing(profile: Profile, name: &str) {
    let mut net = Net::plain(profile, ms(10));
    let (near, far) = net.open();
    net.sink = Some((1, far));
    for _ in 0..12 {
        net.write(0, near, Payload::Zeros(1));
        net.run(ms(70));
    }
    let mss = u32::from(net.hosts[0].info(near).unwrap().mss);
    net.write(0, near, Payload::Zeros(2 * mss));
    net.run(ms(500));
    check(&net, name);
}

#[test]
fn acknowledgements_wait_for_the_fast_timer_and_nagle_for_them() {
    typing(Profile::Bsd44Lite, "delayed-ack");
}

#[test]
fn acknowledgements_of_solaris_wait_for_its_timer() {
    typing(Profile::Solaris, "delayed-ack-solaris");
}

#[test]
fn acknowledgements_of_today_wait_at_most_40_ms() {
    typing(Profile::Modern, "delayed-ack-modern");
}

#[test]
fn nothing_waits_without_a_fast_timer() {
    typing(Profile::Tick10, "delayed-ack-none");
}
