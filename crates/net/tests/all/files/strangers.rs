//! What strangers, copies and bad paths do to a transfer of files.

use std::time::Instant;

use layercast_wire::multicast::{
    Ask, Content, Datagram, Needs, Object, Open, PathBody, PathCheck, Poll, Terms,
};

use super::*;

/// Somebody with a socket.
struct Stranger(UdpSocket);

impl Stranger {
    async fn new() -> Stranger {
        Stranger(UdpSocket::bind(localhost()).await.unwrap())
    }

    /// Sends a packet; gives its octets.
    async fn say(&self, to: SocketAddr, session: u64, body: Body) -> usize {
        let mut bytes = Vec::new();
        Packet { session, body }.encode_into(&mut bytes);
        self.0.send_to(&bytes, to).await.unwrap()
    }

    /// The datagrams received within some milliseconds: their octets, and their content.
    async fn hear(&self, ms: u64) -> Vec<(usize, Datagram)> {
        let mut heard = Vec::new();
        let mut buffer = vec![0; 65_536];
        let wait = Duration::from_millis(ms);
        while let Ok(Ok((len, _))) = timeout(wait, self.0.recv_from(&mut buffer)).await {
            let datagram = Datagram::decode(&bytes::Bytes::copy_from_slice(&buffer[..len]));
            heard.extend(datagram.ok().map(|it| (len, it)));
        }
        heard
    }

    /// Announces something, and sends back the token, as somebody with a real address can.
    async fn announce(&self, to: SocketAddr, session: u64, open: &Open) {
        self.say(to, session, Body::Open(Box::new(open.clone())))
            .await;
        let mut buffer = [0; 2_048];
        while let Ok(Ok((len, _))) =
            timeout(Duration::from_millis(50), self.0.recv_from(&mut buffer)).await
        {
            let datagram = Datagram::decode(&bytes::Bytes::copy_from_slice(&buffer[..len]));
            if let Ok(Datagram::Path(check)) = datagram
                && let PathBody::Challenge(token) = check.body
            {
                let mut bytes = Vec::new();
                let body = PathBody::Response(token);
                PathCheck { body, ..check }.encode_into(&mut bytes);
                self.0.send_to(&bytes, to).await.unwrap();
                return;
            }
        }
    }
}

fn open_of(size: u64, packet_size: u16, scheme: u8, name: &str) -> Open {
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&size.to_be_bytes());
    digest[8..16].copy_from_slice(&blake3_start(name));
    Open {
        stamp: 1,
        packet_size,
        min_release: 0,
        terms: Terms {
            content: Content::Counts,
            in_order: false,
            unasked: false,
            goodbye: false,
            spread_us: 0,
            data_wait_ms: 0,
            sender_wait_ms: 0,
            counters: 0,
        },
        object: Some(Object {
            size,
            block: 1,
            scheme,
            digest,
            name: bytes::Bytes::copy_from_slice(name.as_bytes()),
        }),
        proof: None,
    }
}

fn blake3_start(name: &str) -> [u8; 8] {
    let mut random = Stream::new(1, name);
    random.below(u64::MAX).to_be_bytes()
}

fn poll_of(round: u16) -> Body {
    Body::Poll(Box::new(Poll {
        sync: u32::from(round) + 1,
        round,
        stamp: 1,
        upto: 0,
        sent: 9,
        ask: Ask::Everyone,
        spread_us: 0,
        group: 1,
        handshake: true,
        separate: false,
        closing: false,
        ejected: Vec::new(),
        heard: Needs::new(),
    }))
}

/// One datagram of a stranger, and thousands of them, neither halt a receiver nor leave files.
#[tokio::test]
async fn announcements_of_strangers_cost_nothing_and_leave_no_file() {
    let folder = folder("strangers");
    let (path, content) = make(&folder, "film", 2_000_000);
    let it = receiver(1, &folder.join("r1"));
    let stranger = Stranger::new().await;
    let sending = start(
        config(&[&path], vec![it.addr], 20),
        &CancellationToken::new(),
    );
    sleep(Duration::from_millis(100)).await;
    let began = Instant::now();
    // Four GiB in packets of one octet, with a code and without; then as much as the numbers of packets hold.
    for (session, open) in [
        (1, open_of(u32::MAX.into(), 1, 0, "1/1/a")),
        (2, open_of(u32::MAX.into(), 1, 3, "1/1/b")),
        (3, open_of(64 << 30, 64, 3, "1/1/c")),
        (4, open_of(u64::MAX, u16::MAX, 3, "1/1/d")),
    ] {
        stranger.announce(it.addr, session, &open).await;
    }
    for session in 100..2_100 {
        let open = open_of(1_000 + session, 1_000, 0, "1/9/x");
        stranger
            .say(it.addr, session, Body::Open(Box::new(open)))
            .await;
    }
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
    let sent = timeout(LONG, sending).await.unwrap().unwrap().unwrap();
    assert_eq!(delivered(&sent[0]), 1, "{sent:#?}");
    sleep(Duration::from_millis(200)).await;
    assert!(fs::read(it.out.join("film")).unwrap() == content);
    only(&it.out, &["film"]);
    it.stop.cancel();
    let ended = timeout(Duration::from_secs(1), it.task).await;
    ended.expect("it ends within a second").unwrap().unwrap();
}

/// A sender with a real address may take part, but creates no file before there is data, and cannot make a
/// receiver spin.
#[tokio::test]
async fn a_session_without_data_leaves_no_file_and_can_be_stopped() {
    let folder = folder("strangers-real");
    let it = receiver(1, &folder.join("r1"));
    let stranger = Stranger::new().await;
    for session in 1..20 {
        let open = open_of(1 << 29, 64, 3, &format!("1/1/{session}"));
        stranger.announce(it.addr, session, &open).await;
        stranger.say(it.addr, session, poll_of(0)).await;
    }
    stranger.hear(100).await;
    only(&it.out, &[]);
    it.stop.cancel();
    let ended = timeout(Duration::from_secs(1), it.task).await;
    ended.expect("it ends within a second").unwrap().unwrap();
}

/// A stranger with a real address takes all sessions, and keeps them alive without data: a sender of a file gets one.
#[tokio::test]
async fn sessions_without_data_keep_no_sender_out() {
    let folder = folder("strangers-hold");
    let (path, content) = make(&folder, "film", 300_000);
    let it = receiver(1, &folder.join("r1"));
    let (stranger, to) = (Stranger::new().await, it.addr);
    let attack = tokio::spawn(async move {
        for session in 1.. {
            if session <= 8 {
                let open = open_of(1 << 29, 64, 3, &format!("1/1/{session}"));
                stranger.announce(to, session, &open).await;
            }
            for known in 1..=session.min(8) {
                stranger.say(to, known, poll_of(0)).await;
            }
            stranger.hear(10).await;
            sleep(Duration::from_millis(100)).await;
        }
    });
    // None of the sessions is silent, but the first ones are three seconds old.
    sleep(Duration::from_millis(4_500)).await;
    assert!(!attack.is_finished());
    let sent = timeout(LONG, send(config(&[&path], vec![it.addr], 20)));
    let sent = sent.await.unwrap();
    attack.abort();
    assert_eq!(delivered(&sent[0]), 1, "{sent:#?}");
    assert!(fs::read(it.out.join("film")).unwrap() == content);
    it.stop.cancel();
    let _ = timeout(LONG, it.task).await;
}

/// A receiver ends with the honest transfer, whatever a stranger with a real address announces and keeps alive.
#[tokio::test]
async fn a_session_without_data_does_not_keep_a_receiver_from_its_end() {
    let folder = folder("strangers-end");
    let (path, content) = make(&folder, "film", 300_000);
    let it = receiver(1, &folder.join("r1"));
    let (stranger, to) = (Stranger::new().await, it.addr);
    let hold = tokio::spawn(async move {
        let list = format!("0/9/@{:016x}/", 5);
        for (session, name) in [(1, "1/9/x"), (2, &list)] {
            let open = open_of(1 << 20, 1_000, 3, name);
            stranger.announce(to, session, &open).await;
        }
        for round in 0.. {
            for session in [1, 2] {
                stranger.say(to, session, poll_of(round)).await;
            }
            stranger.hear(20).await;
        }
    });
    sleep(Duration::from_millis(300)).await;
    let sent = send(config(&[&path], vec![it.addr], 20)).await;
    assert_eq!(delivered(&sent[0]), 1, "{sent:#?}");
    // The good-bye of the sender is on its way.
    let out = it.out.clone();
    let files = timeout(Duration::from_secs(2), it.end()).await;
    assert_eq!(files.expect("the transfer is over").len(), 1);
    assert!(!hold.is_finished());
    hold.abort();
    assert!(fs::read(out.join("film")).unwrap() == content);
}

/// An address that has sent back nothing of ours gets three octets for one at most (RFC 9000, 8.1).
#[tokio::test]
async fn a_receiver_does_not_multiply_what_comes_from_an_address_that_answers_nothing() {
    let folder = folder("reflector");
    let it = receiver(1, &folder.join("r1"));
    let stranger = Stranger::new().await;
    let mut said = 0;
    let open = open_of(1 << 27, 64, 3, "1/1/x");
    for round in 0..40 {
        said += stranger
            .say(it.addr, 1, Body::Open(Box::new(open.clone())))
            .await;
        let data = Body::Data(Data {
            round: 0,
            flags: DataFlags::default(),
            symbol: Symbol::Source(2 * u64::from(round)),
            payload: Payload::Zeros(64),
        });
        said += stranger.say(it.addr, 1, data).await;
        said += stranger.say(it.addr, 1, poll_of(round)).await;
    }
    let heard: usize = stranger.hear(400).await.iter().map(|it| it.0).sum();
    assert!(heard <= 3 * said, "{heard} for {said}");
    only(&it.out, &[]);
    it.stop.cancel();
    let _ = timeout(LONG, it.task).await;
}

/// Two receivers of one name, with identities of their own and with that of a copied folder.
#[real_time(tokio)]
async fn a_name_in_use_is_refused_aloud() {
    for (case, identity) in [("names", 2), ("copies", 1)] {
        let folder = folder(&format!("in-use-{case}"));
        let (path, content) = make(&folder, "film", 1_000_000);
        let one = receiver(1, &folder.join("r1"));
        fs::create_dir_all(folder.join("r2")).unwrap();
        let two = begin(ReceiveConfig {
            identity: Some(identity),
            ..receiver_at(1, &folder.join("r2"), localhost(), u64::MAX)
        });
        let sent = send(config(&[&path], vec![one.addr, two.addr], 20)).await;
        assert_eq!(delivered(&sent[0]), 1, "{sent:#?}");
        assert_eq!(sent[0].receivers.len(), 1, "{sent:#?}");
        let refused = &sent[0].in_use;
        assert_eq!((refused, &sent[0].unreached), (&sent[0].unreached, refused));
        assert_eq!(refused.len(), 1, "{sent:#?}");
        let (is_here, is_not) = match refused[0] == two.addr {
            true => (one, two),
            false => (two, one),
        };
        let out = is_here.out.clone();
        is_here.end().await;
        assert!(fs::read(out.join("film")).unwrap() == content);
        let files = is_not.end().await;
        assert_eq!(
            (files[0].reason, &files[0].path),
            (Some(Reason::InUse), &None)
        );
    }
}

/// A host that was named answers as a receiver that is no listed member.
#[real_time(tokio)]
async fn a_host_that_answers_under_another_name_is_told_with_it() {
    let folder = folder("other-name");
    let (path, _) = make(&folder, "film", 10_000);
    fs::create_dir_all(folder.join("r1")).unwrap();
    let it = begin(ReceiveConfig {
        name: "alice".into(),
        member: member_of("alice"),
        ..receiver_at(1, &folder.join("r1"), localhost(), u64::MAX)
    });
    let mut config = config(&[&path], vec![it.addr], 20);
    config.members = Members::Listed(vec![(member_of("bob"), None)]);
    config.machine.opening.tries = 2;
    let sent = send(config).await;
    let other = &sent[0].other_name;
    assert_eq!(other.len(), 1, "{sent:#?}");
    assert_eq!(other[&it.addr].as_deref(), Some("alice"));
    it.stop.cancel();
    let _ = timeout(LONG, it.task).await;
}

/// One sender has two files, another one: the receiver waits for all three.
#[real_time(tokio)]
async fn files_are_counted_for_each_sender() {
    let folder = folder("two-senders");
    let (a1, _) = make(&folder, "a1", 400_000);
    let (a2, _) = make(&folder, "a2", 400_000);
    let (b1, _) = make(&folder, "b1", 100_000);
    let it = receiver(1, &folder.join("r1"));
    let both = [
        start(
            config(&[&a1, &a2], vec![it.addr], 4),
            &CancellationToken::new(),
        ),
        start(config(&[&b1], vec![it.addr], 4), &CancellationToken::new()),
    ];
    for sending in both {
        let sent = timeout(LONG, sending).await.unwrap().unwrap().unwrap();
        assert!(sent.iter().all(|file| delivered(file) == 1), "{sent:#?}");
    }
    let out = it.out.clone();
    assert_eq!(it.end().await.len(), 3);
    only(&out, &["a1", "a2", "b1"]);
}

/// A path that drops large datagrams without a word.
#[tokio::test]
async fn a_path_that_takes_no_large_packets_is_named_after_two_passes() {
    let folder = folder("black-hole");
    let (path, content) = make(&folder, "film", 400_000);
    let [one, two] = [1, 2].map(|member| receiver(member, &folder.join(format!("r{member}"))));
    let hole = Mangler::start(
        one.addr,
        Faults {
            most: 1_300,
            ..Faults::default()
        },
        1,
    )
    .await;
    // Both are sent to, and one of them is behind the hole: the other gets all.
    let sent = send(config(&[&path], vec![hole.addr, two.addr], 100)).await;
    assert_eq!(delivered(&sent[0]), 1, "{sent:#?}");
    let failed = Outcome::Failed(Reason::Mtu);
    assert!(
        sent[0].receivers.iter().any(|it| it.outcome == failed),
        "{sent:#?}"
    );
    let packets = 400_000_u64.div_ceil(1_400);
    assert!(sent[0].stats.data <= 4 * packets, "{sent:#?}");
    let files = one.end().await;
    assert_eq!(files[0].reason, Some(Reason::Mtu));
    let out = two.out.clone();
    two.end().await;
    assert!(fs::read(out.join("film")).unwrap() == content);
    // Alone it is the end of the session.
    let three = receiver(3, &folder.join("r3"));
    let hole = Mangler::start(
        three.addr,
        Faults {
            most: 1_300,
            ..Faults::default()
        },
        1,
    )
    .await;
    let sent = send(config(&[&path], vec![hole.addr], 100)).await;
    assert_eq!(sent[0].failure, Some(Failure::Mtu(1_400)), "{sent:#?}");
    assert!(
        sent[0].stats.data <= 3 * packets,
        "the last packet is short, and arrives: {sent:#?}"
    );
    let files = three.end().await;
    assert_eq!(files[0].reason, Some(Reason::Mtu));
    // What came of it waits, hidden, for a sender with shorter packets.
    assert!(!folder.join("r3/film").exists());
}

/// A pass ends when all of its receivers have left.
#[real_time(tokio)]
async fn nothing_is_sent_to_nobody() {
    let folder = folder("nobody-left");
    let (path, _) = make(&folder, "film", 8_000_000);
    let it = receiver(1, &folder.join("r1"));
    // It takes six seconds.
    let sending = start(
        config(&[&path], vec![it.addr], 10),
        &CancellationToken::new(),
    );
    sleep(Duration::from_millis(500)).await;
    it.stop.cancel();
    let sent = timeout(Duration::from_secs(2), sending).await;
    let sent = sent
        .expect("it ends when no receiver is left")
        .unwrap()
        .unwrap();
    assert_eq!(sent[0].receivers[0].outcome, Outcome::Failed(Reason::User));
}

/// A receiver that was killed is not waited for with each file that follows.
#[real_time(tokio)]
async fn a_receiver_that_was_killed_is_waited_for_once() {
    let folder = folder("killed-once");
    let (large, _) = make(&folder, "large", 1_000_000);
    let (a, _) = make(&folder, "a", 1_000);
    let (b, _) = make(&folder, "b", 1_000);
    let [one, two] = [1, 2].map(|member| receiver(member, &folder.join(format!("r{member}"))));
    let mut config = config(&[&large, &a, &b], vec![one.addr, two.addr], 10);
    config.machine.silence = layercast_multicast::Silence::AskEach { tries: 2 };
    config.machine.sender_wait = Span::from_secs(3);
    let sending = start(config, &CancellationToken::new());
    sleep(Duration::from_millis(500)).await;
    two.kill().await;
    let sent = timeout(LONG, sending).await.unwrap().unwrap().unwrap();
    assert_eq!(sent[0].receivers.len(), 2, "{sent:#?}");
    for file in &sent[1..] {
        assert_eq!(delivered(file), 1, "{sent:#?}");
        assert!(file.took < Span::from_ms(1_000), "{sent:#?}");
    }
    one.end().await;
}

/// A host that is sent to and answers in the names of others delays the honest receivers once, as one that dies does.
#[real_time(tokio)]
async fn a_host_of_invented_members_does_not_delay_each_file() {
    let folder = folder("invented");
    let files = ["a", "b", "c"].map(|name| make(&folder, name, 100_000).0);
    let honest = receiver(1, &folder.join("r1"));
    let stranger = Stranger::new().await;
    let host = stranger.0.local_addr().unwrap();
    let attack = tokio::spawn(async move {
        let mut buffer = vec![0; 65_536];
        for turn in 0_u64.. {
            let (len, sender) = stranger.0.recv_from(&mut buffer).await.unwrap();
            let datagram = Datagram::decode(&bytes::Bytes::copy_from_slice(&buffer[..len]));
            let Ok(Datagram::Packet(packet)) = datagram else {
                continue;
            };
            let member = MemberId(1_000 + turn % 7);
            let mut accept = Accept::alone(member);
            accept.incarnation = turn as u32 / 50;
            stranger
                .say(sender, packet.session, Body::Accept(accept.clone()))
                .await;
            // For a crowd that answers after days.
            accept.member = MemberId(2_000);
            (accept.weight, accept.hold_us) = (u32::MAX, u32::MAX);
            stranger
                .say(sender, packet.session, Body::Accept(accept))
                .await;
            if let Body::Poll(poll) = packet.body
                && turn % 3 == 0
            {
                let report = Report {
                    sync: poll.sync,
                    stamp: poll.stamp,
                    ..Report::alone(member, State::Busy)
                };
                stranger
                    .say(sender, packet.session, Body::Report(Box::new(report)))
                    .await;
            }
        }
    });
    let paths: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let mut config = config(&paths, vec![honest.addr, host], 20);
    // One silence is 2.5 s.
    config.machine.sender_wait = Span::from_secs(10);
    let began = Instant::now();
    let sent = send(config).await;
    let took = began.elapsed();
    attack.abort();
    assert_eq!(sent.len(), 3, "{sent:#?}");
    for file in &sent {
        let one = file.receivers.iter().find(|it| it.member == MemberId(1));
        assert_eq!(one.unwrap().outcome, Outcome::Delivered, "{sent:#?}");
        assert!(file.receivers.len() <= 5, "{sent:#?}");
    }
    println!("{took:?}");
    assert!(took < Duration::from_secs(6), "{took:?}");
    honest.end().await;
}

/// Under a key the content does not show, control messages of others are ignored, and replayed ones too.
#[tokio::test]
async fn under_a_key_nothing_shows_and_nothing_is_believed_that_is_not_sealed() {
    let folder = folder("sealed");
    let (path, content) = make(&folder, "a-secret-name", 1_000_000);
    let mut config_of_it = receiver_at(1, &folder.join("r1"), localhost(), u64::MAX);
    config_of_it.key = Some([9; 32]);
    let it = begin(config_of_it);
    let path_of_it = Mangler::start(
        it.addr,
        Faults {
            duplicate: 0.3,
            reorder: 0.05,
            loss: 0.02,
            ..Faults::default()
        },
        1,
    )
    .await;
    let mut heard = path_of_it.listen();
    let mut config = config(&[&path], vec![path_of_it.addr], 20);
    config.machine.receipts = Some([9; 32]);
    let sending = start(config, &CancellationToken::new());
    let receiver = it.addr;
    let listening = tokio::spawn(async move {
        let stranger = Stranger::new().await;
        let mut all = Vec::new();
        while let Some((sender, bytes)) = heard.recv().await {
            // The number of the session shows; what ends it in the clear is not believed, at either end.
            let session = u64::from_be_bytes(bytes[2..10].try_into().unwrap());
            let abort = Body::Abort {
                reason: Reason::User,
            };
            stranger.say(receiver, session, abort).await;
            let leave = Body::Leave {
                member: MemberId(1),
                reason: Reason::User,
            };
            stranger.say(sender, session, leave).await;
            let _ = stranger.0.send_to(&bytes, receiver).await;
            all.push(bytes);
        }
        all
    });
    let sent = timeout(LONG, sending).await.unwrap().unwrap().unwrap();
    assert_eq!(
        (delivered(&sent[0]), &sent[0].failure),
        (1, &None),
        "{sent:#?}"
    );
    let out = it.out.clone();
    let files = it.end().await;
    assert!(files[0].path.is_some(), "{files:#?}");
    assert!(fs::read(out.join("a-secret-name")).unwrap() == content);
    drop(path_of_it);
    let all = timeout(LONG, listening).await.unwrap().unwrap();
    assert!(all.len() > 100, "{}", all.len());
    let shows = |what: &[u8]| {
        all.iter()
            .any(|it| it.windows(what.len()).any(|it| it == what))
    };
    assert!(!shows(b"a-secret-name"));
    for at in (0..content.len() - 16).step_by(50_000) {
        assert!(!shows(&content[at..at + 16]));
    }
}

/// A key at one end only, or two keys: nothing is begun, and both ends say why.
#[tokio::test]
async fn another_key_is_told_at_both_ends() {
    let folder = folder("other-keys");
    let (path, _) = make(&folder, "film", 100_000);
    for (number, (ours, theirs)) in [
        (Some([1; 32]), None),
        (None, Some([1; 32])),
        (Some([1; 32]), Some([2; 32])),
    ]
    .into_iter()
    .enumerate()
    {
        let mut config_of_it =
            receiver_at(1, &folder.join(format!("r{number}")), localhost(), u64::MAX);
        config_of_it.key = theirs;
        let receiver = FileReceiver::bind(config_of_it).unwrap();
        let addr = receiver.local_addr();
        let stop = CancellationToken::new();
        let (told, mut events) = mpsc::channel(64);
        let running = {
            let stop = stop.clone();
            tokio::spawn(async move { receiver.run(stop, told, &mut Off).await })
        };
        let mut config = config(&[&path], vec![addr], 100);
        config.machine.receipts = ours;
        config.machine.opening.tries = 2;
        let sent = send(config).await;
        assert_eq!(sent[0].failure, Some(Failure::NoReceivers), "{sent:#?}");
        assert_eq!(sent[0].other_key, [addr], "{ours:?} {theirs:?}");
        let event = timeout(LONG, events.recv()).await.unwrap().unwrap();
        assert!(matches!(event, ReceiveEvent::Disbelieved(_)), "{event:?}");
        stop.cancel();
        timeout(LONG, running).await.unwrap().unwrap().unwrap();
    }
}
