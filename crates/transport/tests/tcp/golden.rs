//! Traces of 4.4BSD-Lite and of the recoveries after it, segment by segment, held against
//! `golden/*.txt`. `LAYERCAST_BLESS=1` writes them anew, for a change that is meant.
//!
//! A line is: milliseconds, `>` from the opener or `<` to it, flags as tcpdump writes them, first
//! byte and length, acknowledgement, SACK blocks. SYN has number 0.

use std::path::Path;

use layercast_core::Span;
use layercast_transport::tcp::{Profile, TcpConfig, TcpPacket, Variant};
use layercast_wire::Payload;

use super::net::{Channel, Net, ms};

fn check(net: &Net, name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tcp/golden");
    let path = folder.join(format!("{name}.txt"));
    let seen = net.log.join("\n") + "\n";
    if std::env::var("LAYERCAST_BLESS").is_ok_and(|v| v == "1") {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(&path, &seen).unwrap();
    }
    let expected = std::fs::read_to_string(&path).expect("a golden trace");
    assert!(seen == expected, "{name} differs:\n{seen}");
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
    let mut net = Net::new([config.clone(), config], losing(lost));
    let (near, far) = net.open();
    net.sink = Some((1, far));
    let mss = usize::from(net.hosts[0].info(near).unwrap().mss);
    let mut left = segments * mss;
    let end = net.now + Span::from_secs(60);
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

#[test]
fn time_outs_back_off() {
    let mut net = Net::plain(Profile::Bsd44Lite, ms(100));
    let (near, _) = net.open();
    net.channel = Box::new(|_, _| Vec::new());
    net.write(0, near, Payload::Zeros(512));
    net.run(Span::from_secs(900));
    check(&net, "back-off");
}

#[test]
fn a_lost_syn_is_sent_after_6_and_30_seconds() {
    let silence = Box::new(|_, _| Vec::new());
    let mut net = Net::new([lite(), lite()], silence);
    net.connect();
    net.run(Span::from_secs(90));
    check(&net, "lost-syn");
}

#[test]
fn acknowledgements_wait_for_the_fast_timer_and_nagle_for_them() {
    let mut net = Net::plain(Profile::Bsd44Lite, ms(10));
    let (near, far) = net.open();
    net.sink = Some((1, far));
    // Keystrokes every 70 ms: the first leaves at once, the others wait for its acknowledgement.
    for _ in 0..12 {
        net.write(0, near, Payload::Zeros(1));
        net.run(ms(70));
    }
    // Two full segments are acknowledged at once.
    net.write(0, near, Payload::Zeros(1_024));
    net.run(ms(500));
    check(&net, "delayed-ack");
}
