//! Traces of XTP packet by packet, held against `golden/*.txt`: opening, repair, handshakes, closing.
//!
//! A line is: milliseconds, `>` from the initiator or `<` to it, kind and options, first byte and length, the
//! synchronizing value where the initiator asks, status, ranges held. Lines that begin with `#` say why the
//! others are as they are; they are not compared.
//!
//! `LAYERCAST_BLESS=1 cargo test -p layercast-xtp --test xtp golden` writes the traces again, for a change
//! that is meant, and keeps the comments: read them again then.

use layercast_core::Span;
use layercast_wire::{Payload, XtpService};
use layercast_xtp::{Ask, Retransmission, XtpConfig, XtpRate};

use super::net::{Net, PORT, ms};
use super::trace;

fn check(net: &Net, name: &str) {
    trace::check("xtp", &net.log, name);
}

/// The configuration of the Torino study: status requested with each packet, gaps reported immediately
/// (specs/tcp-xtp-over-atm.md 2.9).
fn torino(retransmission: Retransmission) -> XtpConfig {
    XtpConfig {
        max_data: 1_000,
        ask: Ask::Every(1),
        fast_nak: true,
        flow_control: false,
        single_timer: true,
        first_wait: ms(100),
        retransmission,
        hold: retransmission == Retransmission::Selective,
        out_limit: XtpRate {
            rate: 100_000,
            burst: 1_032,
        },
        ..XtpConfig::new(XtpService::STREAM)
    }
}

/// Ten packets over 20 ms each way, then both close.
fn transfer(config: &XtpConfig, lost: &'static [usize]) -> Net {
    let mut net = Net::losing(ms(20), lost);
    let near = net.connect(config, config);
    net.send(0, near, &Payload::Zeros(10_000));
    net.hosts[0].close_write(near).unwrap();
    let end = net.now + Span::from_secs(100);
    let (mut far, mut got) = (None, 0);
    while net.step(end) {
        far = far.or_else(|| net.hosts[1].accept(PORT).map(|(id, _)| id));
        if let Some(id) = far {
            got += net.read(1, id).len();
            if net.hosts[1].available(id) == Some((0, true)) {
                net.hosts[1].close_write(id).unwrap_or_default();
            }
        }
    }
    assert_eq!(got, 10_000);
    net
}

#[test]
fn a_stream_without_a_loss() {
    let config = XtpConfig {
        max_data: 1_000,
        ..XtpConfig::new(XtpService::STREAM)
    };
    check(&transfer(&config, &[]), "stream");
}

#[test]
fn selective_retransmission() {
    check(
        &transfer(&torino(Retransmission::Selective), &[6, 9]),
        "selective",
    );
}

#[test]
fn going_back() {
    check(
        &transfer(&torino(Retransmission::GoBackN), &[6, 9]),
        "go-back",
    );
}

#[test]
fn a_lost_tail_takes_a_handshake() {
    check(
        &transfer(&torino(Retransmission::Selective), &[19, 20, 21]),
        "handshake",
    );
}

#[test]
fn handshakes_back_off() {
    let mut net = Net::losing(ms(20), &[]);
    let config = XtpConfig::new(XtpService::STREAM);
    let near = net.connect(&config, &config);
    net.run(ms(100));
    net.channel = Box::new(|_, _| Vec::new());
    net.send(0, near, &Payload::Zeros(100));
    net.run(Span::from_secs(60));
    check(&net, "back-off");
}
