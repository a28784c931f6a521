//! The daemon of XTP and clients that come, die, hang, say nonsense and want too much.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use layercast_net::{
    XtpAssociation, XtpCallError, XtpDaemon, XtpDaemonError, XtpDaemonEvent, XtpHost, XtpListener,
    XtpNode, XtpPlace,
};
use layercast_wire::{Payload, XtpService};
use layercast_xtp::remote::{Frames, Parting, QUEUE, Request, ServerLimits, VERSION};
use layercast_xtp::{ContextId, SendOptions, XtpConfig, XtpError, XtpFailure, XtpSocket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::common::localhost;
use crate::common::xtpd::{Folder, PATIENCE, Serving, in_time};

const PORT: u16 = 7_000;
const STREAM: XtpService = XtpService::STREAM;

async fn listen(host: &XtpHost) -> XtpListener {
    let listener = host.register(STREAM).bind(PORT).listen(4);
    in_time(listener).await.unwrap()
}

/// Two ends of an association.
async fn pair(near: &XtpHost, far: &XtpHost, at: &XtpListener) -> (XtpAssociation, XtpAssociation) {
    let it = near
        .register(STREAM)
        .connect(far.local_addr(), PORT)
        .unwrap();
    in_time(it.connected()).await.unwrap();
    (it, in_time(at.accept()).await.unwrap())
}

async fn all_of(it: &XtpAssociation) -> Result<Vec<u8>, XtpCallError> {
    let mut out = Vec::new();
    while let Some(chunk) = in_time(it.receive(usize::MAX)).await? {
        chunk.data.append_to(&mut out);
    }
    Ok(out)
}

fn text(len: usize) -> Bytes {
    (0..len).map(|at| (at * 31 % 251) as u8).collect()
}

/// Messages of clients that do not use our library.
async fn say(path: &std::path::Path, requests: &[(Request, Bytes)]) -> UnixStream {
    let mut frames = Frames::default();
    let hello = (Request::Hello { version: VERSION }, Bytes::new());
    for (request, data) in [hello].iter().chain(requests) {
        frames.push(request, &Payload::Bytes(data.clone()));
    }
    let mut out = [std::io::IoSlice::new(&[]); 256];
    let used = frames.slices(&mut out);
    let bytes: Vec<u8> = out[..used].iter().flat_map(|it| it.to_vec()).collect();
    let mut stream = UnixStream::connect(path).await.unwrap();
    // A client expelled before the end sends no more.
    let _ = stream.write_all(&bytes).await;
    stream
}

fn connect(id: ContextId, to: SocketAddr) -> (Request, Bytes) {
    let remote = XtpSocket {
        net: to,
        port: PORT,
    };
    let config = Box::new(XtpConfig::new(STREAM));
    let request = Request::Connect {
        id,
        from: 0,
        remote,
        config,
    };
    (request, Bytes::new())
}

#[tokio::test]
async fn what_was_accepted_arrives_after_its_sender_has_gone() {
    let (mut sending, taking) = (
        Serving::start(ServerLimits::default()),
        Serving::start(ServerLimits::default()),
    );
    let far = taking.host().await;
    let listener = listen(&far).await;
    let near = sending.host().await;
    let (it, there) = pair(&near, &far, &listener).await;
    // More than the window of the receiver, which reads nothing yet, and less than the queues.
    let sent = text(250_000);
    in_time(it.send(sent.clone(), &SendOptions::MESSAGE))
        .await
        .unwrap();
    it.close_write().unwrap();
    // A process that asks for figures and nothing else is no client.
    let asks = sending.host().await;
    let seen = in_time(asks.daemon_stats()).await.unwrap().unwrap();
    assert_eq!((seen.served, seen.clients.len()), (1, 1));
    drop(asks);
    drop((it, near));
    sending
        .until(|it| matches!(it, XtpDaemonEvent::Gone(_)))
        .await;
    assert!(all_of(&there).await.unwrap() == sent);
    in_time(there.close()).await.unwrap();
    let stats = sending.end().await;
    assert_eq!((stats.expelled, stats.served), (0, 1));
}

#[tokio::test]
async fn streams_of_the_dead_are_broken_off_and_others_are_not() {
    let mut daemon = Serving::start(ServerLimits::default());
    let far = XtpHost::new(XtpNode::udp(localhost()).unwrap());
    let listener = listen(&far).await;
    let lives = daemon.host().await;
    let (other, other_there) = pair(&lives, &far, &listener).await;
    let id = ContextId::from_number(3);
    let how = SendOptions::MESSAGE;
    let listens = Request::Listen {
        port: 9,
        backlog: 4,
        config: Box::new(XtpConfig::new(STREAM)),
    };
    let requests = [
        connect(id, far.local_addr()),
        (Request::Send { id, how }, text(1_000)),
        (listens, Bytes::new()),
    ];
    let dies = say(&daemon.path, &requests).await;
    let there = in_time(listener.accept()).await.unwrap();
    let got = in_time(there.receive(usize::MAX)).await.unwrap().unwrap();
    assert_eq!(got.data.len(), 1_000);
    let taken = in_time(lives.register(STREAM).bind(9).listen(1)).await;
    assert!(taken.is_err());
    // No good-bye, and the stream has no end.
    drop(dies);
    daemon
        .until(|it| matches!(it, XtpDaemonEvent::Gone(_)))
        .await;
    let why = in_time(there.receive(1)).await.unwrap_err();
    assert!(
        matches!(why, XtpCallError::Failed(XtpFailure::Abandoned)),
        "{why}"
    );
    // Its port is free again, and the other client has not noticed.
    let again = in_time(lives.register(STREAM).bind(9).listen(1)).await;
    drop(again.unwrap());
    let sending = async {
        other.send(text(300_000), &how).await.unwrap();
        other.close_write().unwrap();
    };
    let ((), got) = tokio::join!(in_time(sending), all_of(&other_there));
    assert!(got.unwrap() == text(300_000));
    drop((other, other_there));
    assert_eq!(daemon.end().await.orphaned, 1);
}

#[tokio::test]
async fn a_client_that_hangs_holds_up_its_own_peer_only() {
    let daemon = Serving::start(ServerLimits::default());
    let far = XtpHost::new(XtpNode::udp(localhost()).unwrap());
    // It listens and wants an association, and never reads.
    let listens = Request::Listen {
        port: PORT,
        backlog: 4,
        config: Box::new(XtpConfig {
            window: 1 << 20,
            ..XtpConfig::new(STREAM)
        }),
    };
    let wants = Request::Accept {
        port: PORT,
        id: ContextId::from_number(1),
    };
    let none = Bytes::new();
    let hangs = say(&daemon.path, &[(listens, none.clone()), (wants, none)]).await;
    let good = daemon.host().await;
    let to = good.local_addr();
    let stuck = far.register(STREAM).connect(to, PORT).unwrap();
    in_time(stuck.connected()).await.unwrap();
    let filling = tokio::spawn(async move {
        let sent = stuck.send(text(8 << 20), &SendOptions::MESSAGE).await;
        (stuck, sent)
    });
    // Until the window is full: its queue is bounded.
    let stats = in_time(async {
        loop {
            let stats = good.daemon_stats().await.unwrap().unwrap();
            if stats.clients[0].waiting >= 256 << 10 {
                return stats;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    assert!(stats.clients[0].waiting < 512 << 10, "{stats:?}");
    let listener = in_time(good.register(STREAM).bind(8).listen(1))
        .await
        .unwrap();
    let it = far.register(STREAM).connect(to, 8).unwrap();
    let there = in_time(listener.accept()).await.unwrap();
    in_time(async {
        let sent = text(2 << 20);
        let sending = async {
            it.send(sent.clone(), &SendOptions::MESSAGE).await.unwrap();
            it.close_write().unwrap();
        };
        let ((), got) = tokio::join!(sending, all_of(&there));
        assert!(got.unwrap() == sent);
    })
    .await;
    assert!(!filling.is_finished());
    // When it dies, its peer hears of that.
    drop(hangs);
    let (stuck, sent) = in_time(filling).await.unwrap();
    assert!(sent.is_err());
    drop(stuck);
}

#[tokio::test]
async fn nonsense_is_answered_once_and_hurts_nobody() {
    let mut daemon = Serving::start(ServerLimits::default());
    let good = daemon.host().await;
    let listener = listen(&good).await;
    let id = ContextId::from_number(7);
    let send = |len: usize| {
        let how = SendOptions::default();
        (Request::Send { id, how }, text(len))
    };
    let nobody = std::net::UdpSocket::bind(localhost()).unwrap();
    let silent = nobody.local_addr().unwrap();
    let mut overrun = vec![connect(id, silent)];
    overrun.extend((0..2 * QUEUE / 60_000).map(|_| send(60_000)));
    let twice = vec![connect(id, silent), connect(id, silent)];
    let again = vec![(Request::Hello { version: VERSION }, Bytes::new())];
    for (requests, why) in [
        (overrun, Parting::Overrun),
        (twice, Parting::Nonsense),
        (again, Parting::Nonsense),
    ] {
        let mut stream = say(&daemon.path, &requests).await;
        let sent_away = daemon
            .until(|it| matches!(it, XtpDaemonEvent::Expelled(..)))
            .await;
        assert!(matches!(sent_away, XtpDaemonEvent::Expelled(_, it) if it == why));
        let mut rest = Vec::new();
        // It ends, with or without an error.
        let _ = in_time(stream.read_to_end(&mut rest)).await;
    }
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[3, 0, 0, 0, 0xff, 0xff, 0xff],
    ] {
        let mut stream = UnixStream::connect(&daemon.path).await.unwrap();
        let _ = stream.write_all(bytes).await;
        daemon
            .until(|it| matches!(it, XtpDaemonEvent::Expelled(_, Parting::Nonsense)))
            .await;
    }
    let far = XtpHost::new(XtpNode::udp(localhost()).unwrap());
    let (it, there) = pair(&far, &good, &listener).await;
    in_time(it.send(text(10), &SendOptions::MESSAGE))
        .await
        .unwrap();
    it.close_write().unwrap();
    assert!(all_of(&there).await.unwrap() == text(10));
    drop((it, there));
    assert_eq!(daemon.end().await.expelled, 5);
}

#[tokio::test]
async fn clients_have_what_they_may_have_and_no_more() {
    let limits = ServerLimits {
        clients: 2,
        contexts: 3,
        memory: 2 << 20,
    };
    let daemon = Serving::start(limits);
    let (one, two) = (daemon.host().await, daemon.host().await);
    let nobody = std::net::UdpSocket::bind(localhost()).unwrap();
    let silent = nobody.local_addr().unwrap();
    let open = || one.register(STREAM).connect(silent, PORT).unwrap();
    let within = [open(), open(), open()];
    let beyond = open();
    let why = in_time(beyond.connected()).await.unwrap_err();
    assert!(
        matches!(why, XtpCallError::Refused(XtpError::Full(3))),
        "{why}"
    );
    let why = in_time(beyond.send(text(10), &SendOptions::MESSAGE))
        .await
        .unwrap_err();
    assert!(
        matches!(why, XtpCallError::Refused(XtpError::Full(3))),
        "{why}"
    );
    // One that said good-bye still waits for its peer; one that was broken off does not.
    within.into_iter().for_each(XtpAssociation::abort);
    drop(beyond);

    let greedy = two
        .register(STREAM)
        .configure(|config| config.window = 1 << 30);
    let greedy = greedy.bind(PORT).listen(1);
    let why = in_time(greedy).await.err().unwrap();
    assert!(
        matches!(why, XtpCallError::Refused(XtpError::Buffers(_))),
        "{why}"
    );
    // One more gets the figures and nothing else: it is no client.
    let third = daemon.host().await;
    let stats = third.daemon_stats().await.unwrap().unwrap();
    assert_eq!((stats.clients.len(), stats.served), (2, 2));
    let refused = in_time(third.register(STREAM).bind(PORT + 1).listen(1)).await;
    let full = XtpCallError::Parted(Parting::Full(2));
    assert_eq!(refused.err().unwrap().to_string(), full.to_string());
    let listener = listen(&two).await;
    let taken = one.register(STREAM).bind(PORT).listen(1);
    let why = in_time(taken).await.err().unwrap();
    assert!(
        matches!(why, XtpCallError::Refused(XtpError::PortInUse(PORT))),
        "{why}"
    );
    drop(listener);
    // Nonsense is reported immediately, as without a daemon.
    let small = one.register(STREAM).configure(|config| config.max_data = 1);
    assert!(small.connect(two.local_addr(), PORT).is_err());
    let stats = two.daemon_stats().await.unwrap().unwrap();
    assert_eq!(stats.clients.len(), 2);
    assert_eq!(stats.clients[0].process, Some(std::process::id()));
}

#[tokio::test]
async fn one_daemon_for_a_path() {
    let folder = Folder::new();
    let path = folder.0.join("xtpd");
    let node = || XtpNode::udp(localhost()).unwrap();
    let bind = || XtpDaemon::bind(&path, node(), ServerLimits::default());
    let first = bind().unwrap();
    let second = bind().err().unwrap();
    assert!(matches!(second, XtpDaemonError::Taken(_)), "{second}");
    // It dies: the socket stays, and is taken over.
    drop(first);
    assert!(path.exists());
    let nobody = XtpHost::open(&XtpPlace::Daemon(path.clone())).await;
    let nobody = nobody.err().unwrap();
    assert!(matches!(nobody, XtpCallError::NoDaemon(..)), "{nobody}");
    let advice = format!("`layercast xtpd {}` starts a daemon", path.display());
    assert!(nobody.to_string().contains(&advice), "{nobody}");
    drop(bind().unwrap());
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "precious").unwrap();
    let no_socket = bind().err().unwrap();
    assert!(
        matches!(no_socket, XtpDaemonError::NoSocket(_)),
        "{no_socket}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[tokio::test]
async fn at_the_end_whole_messages_arrive_and_half_ones_are_no_messages() {
    let daemon = Serving::start(ServerLimits::default());
    let far = XtpHost::new(XtpNode::udp(localhost()).unwrap());
    let listener = listen(&far).await;
    let near = daemon.host().await;
    let (whole, whole_there) = pair(&near, &far, &listener).await;
    let (half, half_there) = pair(&near, &far, &listener).await;
    in_time(whole.send(text(200_000), &SendOptions::MESSAGE))
        .await
        .unwrap();
    in_time(half.send(text(200_000), &SendOptions::default()))
        .await
        .unwrap();
    // The daemon has it all.
    assert!(half.info().await.is_some());
    let path = daemon.path.clone();
    let ended = tokio::spawn(daemon.end());
    let why = in_time(whole.delivered(u64::MAX)).await.unwrap_err();
    assert!(
        matches!(why, XtpCallError::Parted(Parting::Stopping)),
        "{why}"
    );
    assert!(all_of(&whole_there).await.unwrap() == text(200_000));
    let mut got = 0;
    let why = loop {
        match in_time(half_there.receive(usize::MAX)).await {
            Ok(Some(chunk)) => got += chunk.data.len(),
            Ok(None) => panic!("half a message ended"),
            Err(why) => break why,
        }
    };
    assert_eq!(got, 200_000);
    assert!(
        matches!(why, XtpCallError::Failed(XtpFailure::Abandoned)),
        "{why}"
    );
    whole_there.close_write().unwrap();
    let stats = in_time(ended).await.unwrap();
    assert_eq!(stats.clients.len(), 1);
    assert!(!path.exists());
    assert!(
        timeout(PATIENCE, whole.send(text(1), &SendOptions::MESSAGE))
            .await
            .unwrap()
            .is_err()
    );
}
