//! Callers over TCP, XTP and QUIC, calls over TCP, and the pauses between calls.

use layercast_core::NodeId;
use layercast_protect::LinkKey;
use layercast_wire::Carriage;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::*;
use crate::connection::Newcomer;
use crate::quic;
use crate::tls::Trust;
use crate::xtp::XtpNode;

const SOON: Duration = Duration::from_secs(10);

fn hello(node: &str) -> Hello {
    Hello {
        node: node.into(),
        id: NodeId(2),
        udp_port: 9,
        carriage: Carriage::Datagrams,
        clock: "one".into(),
        link_key: None,
        repair: None,
        group: None,
        group_repair: None,
        prompt: false,
        clocks: false,
        pings: false,
    }
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    (listener, addr)
}

async fn event(events: &mut mpsc::Receiver<PeerEvent>) -> PeerEvent {
    let event = timeout(SOON, events.recv()).await;
    event.expect("something happens").unwrap()
}

#[test]
fn the_pauses_between_calls_double_until_a_connection_was_stable() {
    let mut backoff = Backoff::default();
    let ms = Duration::from_millis;
    let mut after = |lasted, longest| backoff.after(lasted, longest).as_millis();
    let failed: Vec<_> = (0..7).map(|_| after(ms(3), BACKOFF.1)).collect();
    assert_eq!(failed, [100, 200, 400, 800, 1_600, 2_000, 2_000]);
    assert_eq!(after(STABLE, BACKOFF.1), 2_000, "not yet stable");
    assert_eq!(after(STABLE + ms(1), BACKOFF.1), 100);
    assert_eq!(after(ms(3), BACKOFF.1), 200);
    // The name may be free soon.
    let in_use: Vec<_> = (0..3).map(|_| after(ms(3), WHILE_NAME_IN_USE)).collect();
    assert_eq!(in_use, [400, 500, 500]);
}

type Channel<C> = (<C as SignalChannel>::Receiver, <C as SignalChannel>::Sender);

/// Two callers of a node with one place: the first as the node sees it, its channel, and that of the second, which heard
/// why it is refused.
async fn one_taken_one_refused<C: SignalChannel>(
    events: &mut mpsc::Receiver<PeerEvent>,
    connect: impl AsyncFn() -> C,
) -> (Box<Newcomer>, Channel<C>, Channel<C>) {
    let call = async |name: &str| {
        let (receiver, mut sender) = connect().await.split();
        sender.send(&[hello(name).signal()]).await.unwrap();
        (receiver, sender)
    };
    let first = call("first").await;
    let PeerEvent::Opened(newcomer) = event(events).await else {
        panic!("the first is taken");
    };
    assert_eq!(newcomer.hello, hello("first"));
    let mut second = call("second").await;
    let answer = timeout(SOON, second.0.recv()).await.unwrap().unwrap();
    assert!(matches!(&answer, Some(Signal::Error { message }) if message.contains("place")));
    (newcomer, first, second)
}

#[tokio::test]
async fn callers_are_taken_up_to_the_limit_and_the_others_hear_why_not() {
    let (peers, mut events) = Peers::new(hello("chuff"), None);
    let (listener, addr) = listener().await;
    peers.listen(listener, 1);
    let connect = async || TcpChannel::connect(addr, None).await.unwrap();
    let (newcomer, _first, (mut second, _sender)) =
        one_taken_one_refused(&mut events, connect).await;
    assert!(matches!(second.recv().await, Ok(None)));
    let failed = event(&mut events).await;
    assert!(matches!(
        failed,
        PeerEvent::Failed {
            upstream: None,
            error: CallError::TurnedAway(_),
            ..
        }
    ));
    drop(newcomer);
    let stats = peers.close(events).await;
    let expected = ChannelStats {
        accepted: 1,
        rejected: 1,
        ..ChannelStats::default()
    };
    assert_eq!(stats, expected);
}

#[tokio::test]
async fn callers_over_xtp_are_taken_up_to_the_limit_and_the_others_hear_why_not() {
    let (peers, mut events) = Peers::new(hello("chuff"), None);
    let node = XtpNode::udp("127.0.0.1:0".parse().unwrap()).unwrap();
    let addr = node.local_addr();
    peers.listen_xtp(XtpDoor::open(node).await.unwrap(), 1);
    let connect = async || XtpChannel::connect(addr, None).await.unwrap();
    let (newcomer, ..) = one_taken_one_refused(&mut events, connect).await;
    assert!(newcomer.proven.is_none());
}

#[tokio::test]
async fn callers_on_protected_links_are_taken_with_the_identity_that_they_show() {
    let own = Arc::new(Identity::generate().unwrap());
    let (mut peers, mut events) = Peers::new(hello("chuff"), Some(Arc::clone(&own)));
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap();
    peers.listen_protected(quic::listen(socket, &own).unwrap(), 2);
    let trust = Trust::Node(own.fingerprint());
    let guest = Identity::generate().unwrap();
    let channel = QuicChannel::connect(addr, None, &guest, &trust);
    let channel = timeout(SOON, channel).await.unwrap().unwrap();
    let (_receiver, mut sender) = channel.split();
    let said = Hello {
        link_key: Some(LinkKey::new(0, [7; 32])),
        ..hello("guest")
    };
    sender.send(&[said.signal()]).await.unwrap();
    let PeerEvent::Opened(newcomer) = event(&mut events).await else {
        panic!("the caller is taken");
    };
    assert_eq!(newcomer.hello, said);
    assert_eq!(newcomer.proven.unwrap().identity, guest.fingerprint());
}

#[tokio::test]
async fn callers_that_say_nothing_make_room_for_one_that_says_hello() {
    let (peers, mut events) = Peers::new(hello("chuff"), None);
    let (listener, addr) = listener().await;
    peers.listen(listener, 4);
    let mut silent = Vec::new();
    for _ in 0..12 {
        silent.push(TcpStream::connect(addr).await.unwrap());
    }
    let (_receiver, mut sender) = TcpChannel::connect(addr, None).await.unwrap().split();
    sender.send(&[hello("guest").signal()]).await.unwrap();
    let opened = event(&mut events).await;
    assert!(matches!(opened, PeerEvent::Opened(_)), "{opened:?}");
    // The first ones had to go; those that hold a place are given up when their time is over.
    let mut buffer = [0];
    let closed = timeout(SOON, silent[0].read(&mut buffer)).await.unwrap();
    assert_eq!(closed.unwrap(), 0);
    let PeerEvent::Failed { error, .. } = event(&mut events).await else {
        panic!("the last ones do not say hello");
    };
    assert_eq!(error.to_string(), "no hello within 3 s");
    drop(opened);
    assert!(peers.close(events).await.rejected >= 10);
}

#[tokio::test]
async fn callers_that_are_refused_and_say_nothing_keep_no_one_from_the_reason() {
    let (peers, _events) = Peers::new(hello("chuff"), None);
    let (listener, addr) = listener().await;
    peers.decline(listener, "call layercasts:// instead".into());
    let mut silent = Vec::new();
    for _ in 0..2 * MAX_DECLINED {
        silent.push(TcpStream::connect(addr).await.unwrap());
    }
    let (mut receiver, mut sender) = TcpChannel::connect(addr, None).await.unwrap().split();
    sender.send(&[hello("guest").signal()]).await.unwrap();
    let answer = timeout(SOON, receiver.recv()).await.unwrap().unwrap();
    assert!(matches!(answer, Some(Signal::Error { .. })), "{answer:?}");
}

#[tokio::test]
async fn a_caller_at_a_door_that_is_closed_for_good_hears_where_to_go() {
    let (peers, mut events) = Peers::new(hello("chuff"), None);
    let (listener, addr) = listener().await;
    peers.decline(listener, "call layercasts:// instead".into());
    let (mut receiver, mut sender) = TcpChannel::connect(addr, None).await.unwrap().split();
    sender.send(&[hello("guest").signal()]).await.unwrap();
    let message = "call layercasts:// instead".into();
    let answer = timeout(SOON, receiver.recv()).await.unwrap().unwrap();
    assert_eq!(answer, Some(Signal::Error { message }));
    drop((receiver, sender));
    assert!(matches!(
        event(&mut events).await,
        PeerEvent::Failed { upstream: None, .. }
    ));
    assert_eq!(peers.close(events).await.rejected, 1);
}

#[tokio::test]
async fn a_neighbour_that_hangs_up_is_called_again() {
    let (peers, mut events) = Peers::new(hello("chuff"), None);
    let (listener, addr) = listener().await;
    peers.call(5, Remote::from(addr), None);
    for _ in 0..2 {
        let (stream, _) = timeout(SOON, listener.accept()).await.unwrap().unwrap();
        let (mut receiver, mut sender) = TcpChannel::new(stream).split();
        let said = timeout(SOON, receiver.recv()).await.unwrap().unwrap();
        assert_eq!(said, Some(hello("chuff").signal()));
        sender.send(&[hello("source").signal()]).await.unwrap();
        let PeerEvent::Opened(newcomer) = event(&mut events).await else {
            panic!("the call is answered");
        };
        assert_eq!(newcomer.upstream, Some(5));
        drop((receiver, sender));
        let closed = event(&mut events).await;
        assert!(matches!(closed, PeerEvent::Closed { .. }), "{closed:?}");
    }
}

#[tokio::test]
async fn a_node_that_is_dropped_leaves_no_connection_and_no_listener() {
    let (peers, mut events) = Peers::new(hello("chuff"), None);
    let (listener, addr) = listener().await;
    peers.listen(listener, 4);
    let (_, mut sender) = TcpChannel::connect(addr, None).await.unwrap().split();
    sender.send(&[hello("guest").signal()]).await.unwrap();
    let opened = event(&mut events).await;
    drop(peers);
    let PeerEvent::Opened(newcomer) = opened else {
        panic!("{opened:?}");
    };
    let closed = event(&mut events).await;
    assert!(matches!(closed, PeerEvent::Closed { peer, .. } if peer == newcomer.peer));
    let refused = async {
        while TcpStream::connect(addr).await.is_ok() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(SOON, refused).await.is_ok(), "no process listens");
}

#[tokio::test]
async fn a_caller_whose_place_another_one_took_is_counted_and_does_not_enter() {
    for is_evicted in [false, true] {
        let (peers, mut events) = Peers::new(hello("chuff"), None);
        let (listener, addr) = listener().await;
        let (_receiver, mut sender) = TcpChannel::connect(addr, None).await.unwrap().split();
        sender.send(&[hello("guest").signal()]).await.unwrap();
        let (stream, from) = timeout(SOON, listener.accept()).await.unwrap().unwrap();
        let connection = peers.connection();
        let by = (Instant::now() + SOON, SOON);
        let greeted = connection
            .greet(TcpChannel::new(stream), from, None, by)
            .await;
        // Its hello is read, and at the same instant another one takes its place.
        let places = Places::new(1);
        let place = places.take(from.ip()).unwrap();
        let _other = is_evicted.then(|| places.take(from.ip()).unwrap());
        let entering = tokio::spawn(async move {
            enter(&connection, (from, place), Some(greeted)).await;
        });
        match is_evicted {
            true => {
                timeout(SOON, entering).await.unwrap().unwrap();
                assert!(events.try_recv().is_err(), "it is no neighbour");
            }
            false => {
                let opened = event(&mut events).await;
                assert!(matches!(opened, PeerEvent::Opened(_)), "{opened:?}");
            }
        }
        let rejected = peers.counters.read().rejected;
        assert_eq!(rejected, u64::from(is_evicted));
    }
}
