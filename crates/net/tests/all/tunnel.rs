//! Programs on both sides of a tunnel of parities, over a path that loses.

use std::net::SocketAddr;
use std::time::Duration;

use crate::common::{LONG, localhost, real_time};
use layercast_core::{Span, Stream};
use layercast_fec::{FecEdgeConfig, Scheme};
use layercast_net::{CancellationToken, FecTunnel, FecTunnelConfig, FecTunnelStats, NetError};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const PACKETS: u32 = 6_000;

type Ended = JoinHandle<Result<FecTunnelStats, NetError>>;

/// An end of a tunnel at a free port; gives its address, that for programs, and its end.
fn start(
    peer: SocketAddr,
    out: Option<SocketAddr>,
    stop: &CancellationToken,
) -> (SocketAddr, SocketAddr, Ended) {
    start_at([localhost(); 2], peer, out, stop)
}

/// The same at these addresses.
fn start_at(
    [listen, inside]: [SocketAddr; 2],
    peer: SocketAddr,
    out: Option<SocketAddr>,
    stop: &CancellationToken,
) -> (SocketAddr, SocketAddr, Ended) {
    let config = FecTunnelConfig {
        listen,
        peer,
        inside,
        out,
        edge: FecEdgeConfig {
            scheme: Scheme::XorShift,
            code: Some((6, 2)),
            mtu: 1_472,
            interleave: 1,
            flush: Span::from_ms(20),
            order: Span::from_ms(100),
            session: 1,
        },
    };
    let tunnel = FecTunnel::bind(&config).unwrap();
    let (addr, inside) = (tunnel.local_addr(), tunnel.inside_addr());
    (addr, inside, tokio::spawn(tunnel.run(stop.clone(), |_| {})))
}

/// Carries datagrams between two ends and loses three of a hundred; gives how many each way it lost.
async fn path(between: UdpSocket, ends: [SocketAddr; 2], stop: CancellationToken) -> [u64; 2] {
    let mut chance = Stream::new(1, "path");
    let mut buffer = vec![0; 2_048];
    let mut lost = [0; 2];
    loop {
        let (len, from) = tokio::select! {
            got = between.recv_from(&mut buffer) => got.unwrap(),
            () = stop.cancelled() => return lost,
        };
        let way = usize::from(from == ends[1]);
        if chance.chance(0.03) {
            lost[way] += 1;
        } else {
            between
                .send_to(&buffer[..len], ends[1 - way])
                .await
                .unwrap();
        }
    }
}

/// Sends numbered packets, a few in a millisecond.
async fn send(from: &UdpSocket, to: SocketAddr) {
    for number in 0..PACKETS {
        from.send_to(&packet(number), to).await.unwrap();
        if number % 8 == 7 {
            sleep(Duration::from_millis(1)).await;
        }
    }
}

fn packet(number: u32) -> Vec<u8> {
    let mut packet = number.to_be_bytes().to_vec();
    packet.resize(4 + number as usize * 37 % 1_400, number as u8);
    packet
}

/// The numbers of the packets received, until there is a pause, and the sender of the last.
async fn receive(at: &UdpSocket) -> (Vec<u32>, Option<SocketAddr>) {
    let mut buffer = vec![0; 2_048];
    let (mut numbers, mut last) = (Vec::new(), None);
    while let Ok(got) = timeout(Duration::from_secs(1), at.recv_from(&mut buffer)).await {
        let (len, from) = got.unwrap();
        let number = u32::from_be_bytes(buffer[..4].try_into().unwrap());
        assert_eq!(buffer[..len], packet(number));
        (numbers, last) = ([numbers, vec![number]].concat(), Some(from));
    }
    (numbers, last)
}

#[real_time(tokio)]
async fn what_a_path_loses_comes_out_of_a_tunnel_and_answers_come_back() {
    let stop = CancellationToken::new();
    let between = UdpSocket::bind(localhost()).await.unwrap();
    let hop = between.local_addr().unwrap();
    let [caller, called, stranger] =
        [(); 3].map(|()| std::net::UdpSocket::bind(localhost()).unwrap());
    let [caller, called, stranger] = [caller, called, stranger].map(|socket| {
        socket.set_nonblocking(true).unwrap();
        UdpSocket::from_std(socket).unwrap()
    });
    let (near, inside, near_ended) = start(hop, None, &stop);
    let (far, far_inside, far_ended) = start(hop, Some(called.local_addr().unwrap()), &stop);
    let path = tokio::spawn(path(between, [near, far], stop.clone()));
    // Only the peer is listened to.
    stranger
        .send_to(&[0xe5, 0, 0, 9, 0, 0, 0, 0, 1], far)
        .await
        .unwrap();

    let ((), (there, from)) = tokio::join!(send(&caller, inside), receive(&called));
    assert_eq!(from, Some(far_inside));
    let ((), (back, from)) = tokio::join!(send(&called, far_inside), receive(&caller));
    assert_eq!(from, Some(inside));
    stop.cancel();
    let lost = path.await.unwrap();
    let near = timeout(LONG, near_ended).await.unwrap().unwrap().unwrap();
    let far = timeout(LONG, far_ended).await.unwrap().unwrap().unwrap();
    for (numbers, lost, at) in [(&there, lost[0], &far), (&back, lost[1], &near)] {
        let got = &at.edge.received;
        assert!(numbers.is_sorted_by(|a, b| a < b), "out of order, or twice");
        // Of the 240 that 8,000 datagrams lose, 3 of 6,000 packets stay lost on average.
        assert!(lost > 150 && numbers.len() as u32 > PACKETS - 20, "{got:?}");
        assert!(got.recovered > 100 && got.most_added_ms > 0.0, "{got:?}");
        assert!((got.raw_loss.unwrap() - 0.03).abs() < 0.01, "{got:?}");
        assert_eq!((at.nobody, at.send_failed), (0, 0));
    }
    assert_eq!((near.strangers, far.strangers), (0, 1));
    let sent = near.edge.sent;
    assert_eq!(sent.packets, u64::from(PACKETS));
    assert!(sent.peer_loss.is_some_and(|it| it > 0.01), "{sent:?}");
}

#[real_time(tokio)]
async fn what_comes_before_a_program_is_known_is_counted() {
    let stop = CancellationToken::new();
    let peer = UdpSocket::bind(localhost()).await.unwrap();
    let (addr, _, ended) = start(peer.local_addr().unwrap(), None, &stop);
    peer.send_to(&[0xe5, 0, 0, 9, 0, 0, 0, 0, 1], addr)
        .await
        .unwrap();
    sleep(Duration::from_millis(200)).await;
    stop.cancel();
    let stats = timeout(LONG, ended).await.unwrap().unwrap().unwrap();
    assert_eq!((stats.edge.received.packets, stats.nobody), (1, 1));
}

#[real_time(tokio)]
async fn packets_come_from_the_address_that_is_called_whatever_others_the_host_has() {
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let stop = CancellationToken::new();
    // Each end needs the address of the other: the far one is bound for a moment to learn a free port.
    let far = std::net::UdpSocket::bind(localhost()).unwrap();
    let to_far = far.local_addr().unwrap();
    drop(far);
    let echo = UdpSocket::bind(localhost()).await.unwrap();
    let (near, inside, near_end) = start_at([everywhere; 2], to_far, None, &stop);
    let called = |addr: SocketAddr| SocketAddr::from(([127, 0, 0, 2], addr.port()));
    let out = Some(echo.local_addr().unwrap());
    let (_, far_inside, far_end) = start_at([to_far, localhost()], called(near), out, &stop);
    let program = UdpSocket::bind(localhost()).await.unwrap();
    program.connect(called(inside)).await.unwrap();
    let mut buffer = [0; 100];
    // The far end calls the near one first: from then on that answers from the address called.
    echo.send_to(b"hello", far_inside).await.unwrap();
    let question = async {
        loop {
            program.send(b"question").await.unwrap();
            let heard = timeout(Duration::from_millis(200), echo.recv_from(&mut buffer)).await;
            if let Ok(Ok((len, _))) = heard {
                break len;
            }
        }
    };
    let len = timeout(LONG, question).await.unwrap();
    assert_eq!(&buffer[..len], b"question");
    echo.send_to(b"answer", far_inside).await.unwrap();
    let answer = async {
        loop {
            let len = program.recv(&mut buffer).await.unwrap();
            if &buffer[..len] == b"answer" {
                break;
            }
        }
    };
    timeout(LONG, answer).await.unwrap();
    stop.cancel();
    for end in [near_end, far_end] {
        end.await.unwrap().unwrap();
    }
}
