//! What can be switched for a stream or a message, switch by switch.

use layercast_core::{Span, Time};
use layercast_wire::{Payload, XtpBody, XtpOptions, XtpPacket, XtpService};
use layercast_xtp::{
    Ask, ContextId, RateCounts, Retransmission, SendOptions, XtpConfig, XtpError, XtpEvent, XtpRate,
};

use super::net::{Net, PORT, ms, text};

fn stream() -> XtpConfig {
    XtpConfig::new(XtpService::STREAM)
}

/// An association that was opened and accepted.
fn open(net: &mut Net, near: &XtpConfig, far: &XtpConfig) -> (ContextId, ContextId) {
    let id = net.connect(near, far);
    net.run(ms(200));
    (id, net.accept())
}

/// Sends `total` zeros as one message while the other side reads; gives when all had arrived.
fn transfer(net: &mut Net, near: ContextId, far: ContextId, total: usize) -> Time {
    let (mut left, mut got) = (total, 0);
    let end = net.now + Span::from_secs(600);
    while got < total {
        if left > 0 {
            let data = Payload::Zeros(left as u32);
            left -= net.hosts[0]
                .send(near, &data, &SendOptions::MESSAGE)
                .unwrap();
        }
        got += net.read(1, far).len();
        assert!(
            net.step(end),
            "{}",
            net.log[net.log.len().saturating_sub(30)..].join("\n")
        );
        got += net.read(1, far).len();
    }
    net.now
}

fn data(net: &Net, host: usize) -> Vec<&XtpPacket> {
    let from = net.sent.iter().filter(|it| it.0 == host).map(|it| &it.1);
    from.filter(|it| it.body.data().is_some_and(|data| !data.is_empty()))
        .collect()
}

/// Packets with data of a transfer, and packets that come back.
fn there_and_back(config: &XtpConfig) -> (usize, usize) {
    let mut net = Net::losing(ms(10), &[]);
    let (near, far) = open(&mut net, config, config);
    let before = net.sent.len();
    transfer(&mut net, near, far, 400_000);
    net.run(ms(200));
    let back = net.sent[before..].iter().filter(|it| it.0 == 1).count();
    (data(&net, 0).len(), back)
}

#[test]
fn by_default_the_questions_do_not_double_the_packets_of_the_way_back() {
    let (data, back) = there_and_back(&stream());
    assert!(data > 200 && back * 2 < data, "{back} for {data}");
    let each = XtpConfig {
        ask: Ask::Every(1),
        ..stream()
    };
    let (data, back) = there_and_back(&each);
    assert!(back >= data, "each packet is asked for: {back} for {data}");
}

#[test]
fn tags_messages_and_priorities_arrive_as_they_were_sent() {
    let mut net = Net::losing(ms(10), &[5, 9]);
    let (near, far) = open(&mut net, &stream(), &stream());
    for number in 0..10_u64 {
        let how = SendOptions {
            tag: Some(number.to_be_bytes()),
            priority: Some(number as u16),
            ..SendOptions::MESSAGE
        };
        net.send_as(0, near, &Payload::Zeros(1 + 500 * number as u32), &how);
    }
    net.run(Span::from_secs(2));
    for number in 0..10_u64 {
        let mut len = 0;
        loop {
            let chunk = net.hosts[1].receive(far, 1_000).unwrap().expect("more");
            assert_eq!(chunk.tag, (len == 0).then(|| number.to_be_bytes()));
            len += chunk.data.len();
            if chunk.end_of_message {
                break;
            }
        }
        assert_eq!(len, 1 + 500 * number as usize);
    }
    let sorted = |it: &&XtpPacket| it.options.has(XtpOptions::SORT);
    assert_eq!(
        data(&net, 0)
            .iter()
            .filter(|it| sorted(it))
            .map(|it| it.sort)
            .max(),
        Some(9)
    );
}

#[test]
fn the_urgent_leave_first_across_contexts() {
    let mut net = Net::losing(ms(10), &[]);
    let mut config = stream();
    config.out_limit = XtpRate {
        rate: 100_000,
        burst: 1_480,
    };
    net.hosts[1].listen(PORT, 8, stream()).unwrap();
    let sockets = (super::net::socket(0), super::net::socket(1));
    let mut open = |config: &XtpConfig| net.hosts[0].connect(net.now, sockets.0, sockets.1, config);
    // The config limits each context: the order of equal instants is what is looked at.
    let ids: Vec<_> = (0..3).map(|_| open(&config).unwrap()).collect();
    net.run(ms(100));
    let priorities = [None, Some(20), Some(10)];
    for (id, priority) in ids.iter().zip(priorities) {
        let how = SendOptions {
            priority,
            ..SendOptions::MESSAGE
        };
        net.send_as(0, *id, &Payload::Zeros(1_000), &how);
    }
    let before = net.sent.len();
    net.drain();
    let sorts: Vec<u16> = net.sent[before..].iter().map(|(_, it)| it.sort).collect();
    assert_eq!(sorts, [10, 20, 0]);
}

#[test]
fn a_window_is_kept_and_opens_again() {
    let mut net = Net::losing(ms(10), &[]);
    let far = XtpConfig {
        window: 4_000,
        ..stream()
    };
    let (near, id) = open(&mut net, &stream(), &far);
    net.send(0, near, &Payload::Zeros(20_000));
    net.run(Span::from_secs(5));
    let info = net.hosts[1].info(id).unwrap();
    assert!((3_500..=4_000).contains(&info.unread), "{}", info.unread);
    assert_eq!(net.hosts[1].stats().beyond, 0);
    // The sender asks now and then, less and less often.
    let asked = net.hosts[0].stats().handshakes;
    assert!((2..12).contains(&asked), "{asked}");
    transfer(&mut net, near, id, 1);
}

#[test]
fn with_reservation_only_what_was_posted_is_sent() {
    let mut net = Net::losing(ms(10), &[]);
    let near = XtpConfig {
        reservation: true,
        ..stream()
    };
    let (id, far) = open(&mut net, &near, &stream());
    net.send(0, id, &Payload::Zeros(10_000));
    net.run(ms(500));
    assert!(data(&net, 0).is_empty());
    net.hosts[1].post(far, 3_000).unwrap();
    net.run(ms(500));
    assert_eq!(net.hosts[1].info(far).unwrap().unread, 3_000);
    net.read(1, far);
    net.run(Span::from_secs(1));
    assert_eq!(net.hosts[1].info(far).unwrap().unread, 0);
}

#[test]
fn the_rate_is_kept_and_the_peer_can_lower_it() {
    let mut net = Net::losing(ms(10), &[]);
    let near = XtpConfig {
        out_limit: XtpRate {
            rate: 1_000_000,
            burst: 2 * 1_448,
        },
        window: 1 << 20,
        send_buffer: 1 << 20,
        rate_counts: RateCounts::User,
        ..stream()
    };
    let far = XtpConfig {
        window: 1 << 20,
        ..stream()
    };
    let (id, other) = open(&mut net, &near, &far);
    let start = net.now;
    let took = transfer(&mut net, id, other, 500_000).since(start);
    assert!((480..540).contains(&took.as_ms()), "{took:?}");
    let slow = XtpRate {
        rate: 100_000,
        burst: 2 * 1_448,
    };
    net.hosts[1]
        .set_traffic(other, XtpRate::UNLIMITED, slow)
        .unwrap();
    net.run(ms(100));
    assert!(net.has_reported(0, XtpEvent::Traffic(id)));
    assert_eq!(net.hosts[0].info(id).unwrap().limit, slow);
    let start = net.now;
    let took = transfer(&mut net, id, other, 50_000).since(start);
    assert!((470..560).contains(&took.as_ms()), "{took:?}");
}

#[test]
fn packets_are_as_small_as_the_smaller_side_wants() {
    let mut net = Net::losing(ms(10), &[]);
    let far = XtpConfig {
        max_data: 300,
        ..stream()
    };
    let (near, id) = open(&mut net, &stream(), &far);
    transfer(&mut net, near, id, 20_000);
    assert_eq!(net.hosts[0].info(near).unwrap().max_data, 300);
    assert!(data(&net, 0).iter().all(|it| it.body.encoded_len() <= 300));
}

#[test]
fn both_know_each_others_keys_after_the_exchange() {
    let mut net = Net::losing(ms(10), &[]);
    let (near, far) = open(&mut net, &stream(), &stream());
    transfer(&mut net, near, far, 10_000);
    let later = net.sent.iter().filter(|(_, it)| it.body.format() == 0);
    assert!(later.clone().count() > 3);
    assert!(later.clone().all(|(_, it)| it.key.is_return()));
    let keys = net
        .sent
        .iter()
        .filter(|(host, _)| *host == 0)
        .map(|(_, it)| it.key.own());
    let keys: Vec<_> = keys.collect();
    assert_ne!(keys.first(), keys.last());
}

/// Of a stream without error control nothing waits for anybody.
#[test]
fn an_unreliable_stream_never_blocks() {
    let config = XtpConfig {
        error_control: false,
        flow_control: false,
        checksum: false,
        ask: Ask::Never,
        out_limit: XtpRate {
            rate: 1_000_000,
            burst: 2 * 1_480,
        },
        ..stream()
    };
    // The path goes away for good after some packets.
    let mut count = 0;
    let mut net = Net::new(Box::new(move |_, packet| {
        count += 1;
        if count > 10 {
            Vec::new()
        } else {
            vec![(ms(5), packet)]
        }
    }));
    let (near, far) = open(&mut net, &config, &stream());
    let start = net.now;
    let mut sent = 0;
    while sent < 1_000_000 {
        let data = Payload::Zeros(10_000);
        sent += net.hosts[0]
            .send(near, &data, &SendOptions::MESSAGE)
            .unwrap();
        let next = net.now + ms(1);
        while net.step(next) {}
    }
    let took = net.now.since(start);
    assert!((950..1_100).contains(&took.as_ms()), "{took:?}");
    let opened: Vec<_> = data(&net, 0);
    let bits = XtpOptions::NOERR | XtpOptions::NOFLOW | XtpOptions::NOCHECK;
    assert!(opened.iter().all(|it| it.options.has(bits)));
    assert!(!net.read(1, far).is_empty());
}

#[test]
fn of_a_mixed_stream_only_the_loose_messages_are_lost() {
    // After the opening, packets of the data: 2, 3 and 5 are lost.
    let mut net = Net::losing(ms(10), &[5, 6, 8]);
    let (near, far) = open(&mut net, &stream(), &stream());
    let before = net.sent.len();
    let loose = SendOptions {
        no_error_control: true,
        ..SendOptions::MESSAGE
    };
    for (message, how) in [
        (b"one", SendOptions::MESSAGE),
        (b"two", SendOptions::MESSAGE),
        (b"3..", loose),
        (b"for", SendOptions::MESSAGE),
        (b"5..", loose),
        (b"six", SendOptions::MESSAGE),
    ] {
        net.send_as(0, near, &text(message), &how);
    }
    net.run(Span::from_secs(3));
    assert_eq!(before, 3, "{}", net.log.join("\n"));
    let mut got = Vec::new();
    while let Ok(Some(chunk)) = net.hosts[1].receive(far, 100) {
        let mut bytes = Vec::new();
        chunk.data.append_to(&mut bytes);
        got.push((chunk.gap, String::from_utf8(bytes).unwrap()));
    }
    let whole = |gap, text: &str| (gap, text.to_owned());
    assert_eq!(
        got,
        [
            whole(false, "one"),
            whole(false, "two"),
            whole(true, "for"),
            whole(true, "six")
        ],
        "{}",
        net.log.join("\n")
    );
}

#[test]
fn deliveries_are_told_when_the_user_has_them() {
    let mut net = Net::losing(ms(10), &[]);
    let (near, far) = open(&mut net, &stream(), &stream());
    let how = SendOptions {
        tell_delivery: true,
        ..SendOptions::MESSAGE
    };
    net.send_as(0, near, &Payload::Zeros(1_000), &how);
    net.run(ms(5));
    // A question in between must not be taken for the answer.
    let now = net.now;
    net.hosts[0].probe(now, near).unwrap();
    net.run(Span::from_secs(5));
    let told = XtpEvent::Delivered(near, 1_000);
    assert!(!net.has_reported(0, told), "{}", net.log.join("\n"));
    net.read(1, far);
    net.run(ms(100));
    assert!(net.has_reported(0, told), "{}", net.log.join("\n"));
}

#[test]
fn an_edge_asks_like_sreq() {
    let config = XtpConfig {
        edge: true,
        ask: Ask::Every(2),
        ..stream()
    };
    let mut net = Net::losing(ms(10), &[]);
    let (near, far) = open(&mut net, &config, &stream());
    let before = net.sent.len();
    transfer(&mut net, near, far, 30_000);
    let later = &net.sent[before..];
    let asked = |it: &&(usize, XtpPacket)| it.0 == 0 && it.1.options.has(XtpOptions::SREQ);
    assert_eq!(
        later.iter().filter(asked).count(),
        0,
        "{}",
        net.log.join("\n")
    );
    assert!(later.iter().filter(|it| it.0 == 1).count() >= 10);
    assert_eq!(net.hosts[0].stats().handshakes, 0);
}

#[test]
fn only_what_is_missing_is_sent_again_or_all_from_there() {
    let resent = |retransmission, hold, fast_nak| {
        let near = XtpConfig {
            retransmission,
            fast_nak,
            ..stream()
        };
        let far = XtpConfig { hold, ..stream() };
        let mut net = Net::losing(ms(10), &[6, 9]);
        let (id, other) = open(&mut net, &near, &far);
        transfer(&mut net, id, other, 30_000);
        let spans = net
            .sent
            .iter()
            .any(|(_, it)| matches!(&it.body, XtpBody::Ecntl { spans, .. } if !spans.is_empty()));
        assert_eq!(spans, hold);
        net.hosts[0].stats().retransmitted
    };
    for fast_nak in [false, true] {
        assert_eq!(resent(Retransmission::Selective, true, fast_nak), 2);
        assert!(resent(Retransmission::GoBackN, true, fast_nak) > 4);
        assert!(resent(Retransmission::Selective, false, fast_nak) > 4);
    }
}

#[test]
fn silence_is_broken_by_the_keep_alive_and_the_dead_are_noticed() {
    let mut net = Net::losing(ms(10), &[]);
    let (near, far) = open(&mut net, &stream(), &stream());
    net.run(Span::from_secs(600));
    assert_eq!((net.failure(0), net.failure(1)), (None, None));
    assert!(net.sent.len() < 50, "{}", net.sent.len());
    net.channel = Box::new(|_, _| Vec::new());
    net.run(Span::from_secs(300));
    assert!(net.failure(0).is_some() && net.failure(1).is_some());
    let error = net.hosts[0].send(near, &text(b"x"), &SendOptions::MESSAGE);
    assert_eq!(error, Err(XtpError::Shut));
    let now = net.now;
    net.hosts[1].close(now, far).unwrap();
    assert_eq!(net.hosts[1].close(now, far), Err(XtpError::Unknown));
}

#[test]
fn an_idle_context_takes_little() {
    let mut net = Net::losing(ms(10), &[9, 20]);
    let (near, far) = open(&mut net, &stream(), &stream());
    transfer(&mut net, near, far, 1_000_000);
    net.run(Span::from_secs(5));
    for (host, id) in [(0, near), (1, far)] {
        let memory = net.hosts[host].info(id).unwrap().memory;
        println!("host {host}: {memory} bytes");
        assert!(memory < 16_000, "{memory} bytes");
    }
}
