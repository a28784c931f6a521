//! Programs on both sides of an emulated path.

use std::net::SocketAddr;
use std::time::Duration;

use crate::common::{LONG, join, join_config, localhost, real_time, server, sink, start};
use layercast_core::{Span, Time};
use layercast_link::{LinkConfig, Loss, PathConfig};
use layercast_net::{
    CancellationToken, Clock, JoinEvent, NetError, Relay, RelayConfig, RelayStats,
};
use layercast_wire::Carriage;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

struct Running {
    addr: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<Result<RelayStats, NetError>>,
}

impl Running {
    async fn start(to: SocketAddr, link: LinkConfig) -> Running {
        Running::start_at(localhost(), to, link).await
    }

    async fn start_at(listen: SocketAddr, to: SocketAddr, link: LinkConfig) -> Running {
        let path = PathConfig {
            link,
            ..PathConfig::default()
        };
        let config = RelayConfig {
            listen,
            to,
            there: path.clone(),
            back: path,
            seed: 1,
            max_clients: 8,
            believe_clients: false,
            from_port: None,
        };
        let relay = Relay::bind(config).await.unwrap();
        let addr = relay.local_addr();
        let stop = CancellationToken::new();
        let (told, _) = mpsc::channel(1);
        let task = tokio::spawn(relay.run(stop.clone(), told));
        Running { addr, stop, task }
    }

    async fn stop(self) -> RelayStats {
        self.stop.cancel();
        self.task.await.unwrap().unwrap()
    }
}

fn late() -> LinkConfig {
    LinkConfig {
        delay: Span::from_ms(30),
        ..LinkConfig::default()
    }
}

fn now() -> Time {
    Clock::get().now()
}

#[real_time(tokio)]
async fn datagrams_and_answers_are_late_by_the_delay_each_way() {
    let echo = UdpSocket::bind(localhost()).await.unwrap();
    let path = Running::start(echo.local_addr().unwrap(), late()).await;
    let mut clients = Vec::new();
    for _ in 0..2 {
        let client = UdpSocket::bind(localhost()).await.unwrap();
        client.connect(path.addr).await.unwrap();
        clients.push(client);
    }
    let mut buffer = [0; 100];
    for (n, client) in clients.iter().enumerate() {
        let sent = now();
        client.send(&[n as u8; 10]).await.unwrap();
        let (len, from) = echo.recv_from(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..len], &[n as u8; 10]);
        let there = now().since(sent);
        assert!(there >= Span::from_ms(30), "{there}");
        echo.send_to(b"answer", from).await.unwrap();
        let len = client.recv(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..len], b"answer");
        let both = now().since(sent);
        assert!(both >= Span::from_ms(60), "{both}");
    }
    // Somebody else cannot speak for the far side.
    let stranger = UdpSocket::bind(localhost()).await.unwrap();
    clients[0].send(b"x").await.unwrap();
    let (_, from) = echo.recv_from(&mut buffer).await.unwrap();
    stranger.send_to(b"I am the echo", from).await.unwrap();
    let heard = timeout(Duration::from_millis(200), clients[0].recv(&mut buffer)).await;
    assert!(heard.is_err());
    let stats = path.stop().await;
    assert_eq!((stats.clients, stats.strangers), (2, 1));
    assert_eq!((stats.there.offered, stats.back.offered), (3, 2));
}

#[real_time(tokio)]
async fn answers_come_from_the_address_that_is_called_whatever_others_the_host_has() {
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let echo = UdpSocket::bind(localhost()).await.unwrap();
    let to = echo.local_addr().unwrap();
    let path = Running::start_at(everywhere, to, LinkConfig::default()).await;
    let client = UdpSocket::bind(localhost()).await.unwrap();
    let called = SocketAddr::from(([127, 0, 0, 2], path.addr.port()));
    client.connect(called).await.unwrap();
    client.send(b"question").await.unwrap();
    let mut buffer = [0; 100];
    let (_, from) = echo.recv_from(&mut buffer).await.unwrap();
    echo.send_to(b"answer", from).await.unwrap();
    let len = timeout(LONG, client.recv(&mut buffer)).await;
    assert_eq!(&buffer[..len.unwrap().unwrap()], b"answer");
    path.stop().await;
    // The media of a receiver come before it has sent a datagram.
    let server = start(server(Carriage::Datagrams, 2)).await;
    let path = Running::start_at(everywhere, server.addr, LinkConfig::default()).await;
    let called = SocketAddr::from(([127, 0, 0, 2], path.addr.port()));
    let receiver = join(join_config(called, sink("guest", 11, Carriage::Datagrams)));
    let summary = receiver.end().await.unwrap();
    let told = format!("{:#?}", summary.receiver);
    assert!(summary.receiver.frames.base > 2, "{told}");
    let missing = (summary.receiver.lost.base, summary.udp.unknown);
    assert_eq!(missing, (0, 0), "{told}");
    server.stop().await;
    path.stop().await;
}

#[real_time(tokio)]
async fn a_path_that_loses_everything_delivers_nothing() {
    let echo = UdpSocket::bind(localhost()).await.unwrap();
    let link = LinkConfig {
        loss: Loss::Bernoulli { p: 1.0 },
        ..LinkConfig::default()
    };
    let path = Running::start(echo.local_addr().unwrap(), link).await;
    let client = UdpSocket::bind(localhost()).await.unwrap();
    client.send_to(b"hello", path.addr).await.unwrap();
    let heard = timeout(Duration::from_millis(200), echo.recv_from(&mut [0; 10])).await;
    assert!(heard.is_err());
    assert_eq!(path.stop().await.there.link.lost, 1);
}

#[real_time(tokio)]
async fn a_receiver_behind_a_path_gets_its_media_and_its_messages_through_it() {
    let server = start(server(Carriage::Datagrams, 3)).await;
    let path = Running::start(server.addr, late()).await;
    let sink = sink("guest", 11, Carriage::Datagrams);
    let mut receiver = join(join_config(path.addr, sink));
    receiver
        .wait_for(|event| matches!(event, JoinEvent::Joined(_)))
        .await;
    let summary = receiver.end().await.unwrap();
    let told = format!("{:#?}", summary.receiver);
    assert!(summary.receiver.frames.base > 4, "{told}");
    assert_eq!(
        (summary.receiver.lost.base, summary.udp.unknown),
        (0, 0),
        "{told}"
    );
    assert!(summary.receiver.delay_ms.p50 >= 30.0, "{told}");
    let server = server.stop().await;
    assert_eq!(server.udp.unknown, 0);
    let stats = path.stop().await;
    assert_eq!((stats.clients, stats.connections), (1, 1));
    assert!(
        stats.there.offered > 4 && stats.back.offered > 100,
        "{stats:?}"
    );
    assert_eq!(stats.back.offered, stats.back.link.delivered);
}
