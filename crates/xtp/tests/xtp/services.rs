//! The patterns of specs/xtp.md 2.6, packet by packet, and with each of their packets lost in turn.

use layercast_core::Span;
use layercast_wire::{Payload, XtpDiagValue, XtpOptions, XtpService};
use layercast_xtp::{SendOptions, XtpConfig, XtpEvent, XtpFailure};

use super::net::{Net, PORT, ms, text};

/// Kinds and options of what was sent.
fn pattern(net: &Net) -> Vec<String> {
    let line = |line: &String| {
        let from = line.find(['>', '<']).unwrap();
        let to = line.find(']').unwrap();
        line[from..=to].to_owned()
    };
    net.log.iter().map(line).collect()
}

/// A question of host 0 and, for services that have one, an answer of host 1; each is acted on as it comes.
fn play(service: XtpService, lost: &'static [usize]) -> Net {
    play_with(&XtpConfig::new(service), lost)
}

fn play_with(config: &XtpConfig, lost: &'static [usize]) -> Net {
    let mut net = Net::losing(ms(10), lost);
    let near = net.connect(config, config);
    let answers = matches!(config.service, XtpService::TRANSACTION | XtpService::STREAM);
    net.send(0, near, &text(b"question"));
    net.hosts[0].close_write(near).unwrap();
    let end = net.now + Span::from_secs(200);
    let mut far = None;
    while net.step(end) {
        far = far.or_else(|| net.hosts[1].accept(PORT).map(|(id, _)| id));
        let Some(id) = far else {
            continue;
        };
        if net.hosts[1].available(id) == Some((8, true)) {
            assert_eq!(net.read(1, id), b"question");
            if answers {
                net.send(1, id, &text(b"answer"));
            }
            net.hosts[1].close_write(id).unwrap_or_default();
        }
    }
    if answers && net.has_reported(0, XtpEvent::Closed(near)) {
        assert_eq!(net.read(0, near), b"answer");
    }
    net
}

/// Each side got exactly one outcome; returns both.
fn outcomes(net: &Net) -> [Vec<&XtpEvent>; 2] {
    let last = |event: &&XtpEvent| matches!(event, XtpEvent::Closed(_) | XtpEvent::Failed(..));
    [0, 1].map(|host| net.events[host].iter().filter(last).collect())
}

#[test]
fn a_datagram_is_one_packet() {
    let net = play(XtpService::DATAGRAM, &[]);
    assert_eq!(
        pattern(&net),
        ["> FIRST[NOERR NOFLOW RCLOSE WCLOSE EOM END]"]
    );
    assert!(
        outcomes(&net)
            .iter()
            .all(|it| matches!(it[..], [XtpEvent::Closed(_)]))
    );
}

#[test]
fn an_acknowledged_datagram_is_two() {
    let net = play(XtpService::ACKED_DATAGRAM, &[]);
    assert_eq!(
        pattern(&net),
        [
            "> FIRST[SREQ RCLOSE WCLOSE EOM]",
            "< CNTL[RCLOSE WCLOSE END]"
        ]
    );
}

#[test]
fn an_acknowledged_datagram_may_wait_for_the_user() {
    let mut net = Net::losing(ms(10), &[]);
    let config = XtpConfig::new(XtpService::ACKED_DATAGRAM);
    let near = net.connect(&config, &config);
    let how = SendOptions {
        tell_delivery: true,
        ..SendOptions::MESSAGE
    };
    net.send_as(0, near, &text(b"question"), &how);
    net.hosts[0].close_write(near).unwrap();
    net.run(ms(300));
    assert_eq!(pattern(&net), ["> FIRST[DREQ RCLOSE WCLOSE EOM]"]);
    let far = net.accept();
    assert_eq!(net.read(1, far), b"question");
    net.run(ms(100));
    assert_eq!(pattern(&net)[1..], ["< CNTL[RCLOSE WCLOSE END]"]);
    assert!(net.has_reported(0, XtpEvent::Closed(near)));
}

#[test]
fn a_transaction_is_three() {
    let net = play(XtpService::TRANSACTION, &[]);
    assert_eq!(
        pattern(&net),
        [
            "> FIRST[WCLOSE EOM]",
            "< DATA[SREQ RCLOSE WCLOSE EOM]",
            "> CNTL[RCLOSE WCLOSE END]"
        ]
    );
}

#[test]
fn a_stream_closes_gracefully() {
    let net = play(XtpService::STREAM, &[]);
    assert_eq!(
        pattern(&net),
        [
            "> FIRST[SREQ WCLOSE EOM]",
            "< TCNTL[SREQ RCLOSE]",
            "< DATA[SREQ RCLOSE WCLOSE EOM]",
            "> CNTL[WCLOSE]",
            "> CNTL[RCLOSE WCLOSE END]"
        ]
    );
}

/// W2: whichever packet is lost, the association ends, and nothing is lost silently.
#[test]
fn whichever_packet_is_lost_all_ends_well() {
    for service in [
        XtpService::ACKED_DATAGRAM,
        XtpService::TRANSACTION,
        XtpService::STREAM,
    ] {
        let whole = play(service, &[]).log.len();
        for lost in 1..=whole + 2 {
            let net = play(service, &*vec![lost].leak());
            let all = outcomes(&net);
            let closed = all.iter().all(|it| matches!(it[..], [XtpEvent::Closed(_)]));
            assert!(
                closed,
                "{service:?} without {lost}: {all:?}\n{}",
                net.log.join("\n")
            );
        }
        for pair in (1..=whole + 3).flat_map(|a| (a + 1..=whole + 4).map(move |b| [a, b])) {
            let net = play(service, &*pair.to_vec().leak());
            let all = outcomes(&net);
            let closed = all.iter().all(|it| matches!(it[..], [XtpEvent::Closed(_)]));
            assert!(
                closed,
                "{service:?} without {pair:?}: {all:?}\n{}",
                net.log.join("\n")
            );
        }
    }
}

#[test]
fn a_lost_datagram_is_lost() {
    let net = play(XtpService::DATAGRAM, &[1]);
    assert_eq!(net.log.len(), 1);
    assert_eq!(net.hosts[1].contexts(), 0);
}

#[test]
fn nobody_listens_or_answers() {
    let config = XtpConfig::new(XtpService::STREAM);
    let mut net = Net::losing(ms(10), &[]);
    let near = net.connect(&config, &config);
    let now = net.now;
    net.hosts[1].unlisten(now, PORT);
    net.run(ms(100));
    let refused = XtpFailure::Refused(XtpDiagValue::NO_LISTENER);
    assert!(net.has_reported(0, XtpEvent::Failed(near, refused)));
    assert_eq!(net.hosts[1].contexts(), 0);

    let mut net = Net::new(Box::new(|_, _| Vec::new()));
    let near = net.connect(&config, &config);
    net.send(0, near, &text(b"hello?"));
    net.run(Span::from_secs(300));
    assert!(net.has_reported(0, XtpEvent::Failed(near, XtpFailure::TimedOut)));
    // FIRST, seven tries, and good-bye.
    assert_eq!(net.log.len(), 9, "{}", net.log.join("\n"));
    assert!(net.sent.iter().take(8).all(|(_, it)| it.body.format() == 2));
}

#[test]
fn contexts_are_forgotten_after_their_time() {
    let config = XtpConfig::new(XtpService::STREAM);
    let mut net = Net::losing(ms(10), &[]);
    let near = net.connect(&config, &config);
    net.send(0, near, &text(b"x"));
    net.run(ms(100));
    let far = net.accept();
    let now = net.now;
    net.hosts[0].close(now, near).unwrap();
    net.hosts[1].close(now, far).unwrap();
    net.run(Span::from_secs(10));
    assert_eq!([net.hosts[0].contexts(), net.hosts[1].contexts()], [1, 1]);
    net.run(Span::from_secs(31));
    assert_eq!([net.hosts[0].contexts(), net.hosts[1].contexts()], [0, 0]);
    assert_eq!(net.hosts[0].info(near), None);
}

#[test]
fn a_reader_that_goes_away_costs_what_it_did_not_take() {
    let config = XtpConfig::new(XtpService::STREAM);
    let mut net = Net::losing(ms(10), &[]);
    let near = net.connect(&config, &config);
    net.send(0, near, &Payload::Zeros(1_000));
    net.run(ms(100));
    let far = net.accept();
    net.send(0, near, &Payload::Zeros(60_000));
    let now = net.now;
    net.hosts[1].close_read(now, far).unwrap();
    net.run(ms(100));
    assert!(
        net.has_reported(0, XtpEvent::ReaderGone(near, 60_000)),
        "{:?}",
        net.events[0]
    );
    // The other direction continues.
    net.send(1, far, &text(b"still here"));
    net.hosts[1].close_write(far).unwrap();
    net.run(ms(100));
    assert_eq!(net.read(0, near), b"still here");
    assert!(
        net.has_reported(0, XtpEvent::Closed(near)) && net.has_reported(1, XtpEvent::Closed(far))
    );
}

#[test]
fn breaking_off_is_heard_and_what_came_can_be_read() {
    let config = XtpConfig::new(XtpService::STREAM);
    let mut net = Net::losing(ms(10), &[]);
    let near = net.connect(&config, &config);
    net.send(0, near, &text(b"last words"));
    net.run(ms(100));
    let far = net.accept();
    let now = net.now;
    net.hosts[0].abort(now, near).unwrap();
    net.run(ms(100));
    assert_eq!(net.failure(1), Some(XtpFailure::Abandoned));
    assert_eq!(net.read(1, far), b"last words");
    // A peer that lost the final packet is informed when it asks.
    let mut net = Net::losing(ms(10), &[4]);
    let near = net.connect(&config, &config);
    net.run(ms(100));
    let far = net.accept();
    let now = net.now;
    net.hosts[0].abort(now, near).unwrap();
    net.run(ms(100));
    assert_eq!(net.failure(1), None, "{}", net.log.join("\n"));
    net.send(1, far, &text(b"hello?"));
    net.run(Span::from_secs(2));
    assert_eq!(net.failure(1), Some(XtpFailure::Abandoned));
    assert!(net.sent.last().unwrap().1.options.has(XtpOptions::END));
}
