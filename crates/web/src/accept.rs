//! Connections: a bound on their number, and on the time of handshakes and of the heads of requests. One without a request gives its place to a
//! new one.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use layercast_net::{NoPlace, Place, Places};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::transport::ON_THEIR_WAY;
use crate::watch::PATIENCE;

/// Time of a handshake of TLS, and of the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// Octets that the system keeps for a peer that does not read them; as many are on their way over WebTransport. Linux makes twice of what it
/// is asked for, and takes the administrative data of packets from it.
const KEPT: usize = ON_THEIR_WAY as usize / 2;

/// Time until a connection that found no place looks for one again.
const AGAIN: Duration = Duration::from_millis(10);

/// The peer that holds a place.
#[derive(Clone, Debug)]
pub struct Caller(Arc<Mutex<Place>>);

impl Caller {
    /// A request came: the place is kept.
    pub fn asks(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .prove();
    }
}

/// Accepts connections, and runs what `serve` makes of each; at most `most` at a time. A new one gets the place of one without a request:
/// the oldest of the address that has most of these. If there are requests in all, it waits; beyond three quarters of all from one address of
/// another host it is closed.
pub async fn accept<F>(listener: TcpListener, most: usize, serve: impl Fn(TcpStream, Caller) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let places = Places::new(most);
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            // No file descriptors are left: some will be.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let place = loop {
            match places.take(from.ip()) {
                Err(NoPlace::All(_)) => sleep(AGAIN).await,
                other => break other,
            }
        };
        let Ok(place) = place else { continue };
        let evicted = place.evicted();
        let serving = serve(stream, Caller(Arc::new(Mutex::new(place))));
        tokio::spawn(async move {
            tokio::select! {
                () = serving => {}
                () = evicted => {}
            }
        });
    }
}

/// Bounds what the system keeps for a peer that does not read, and how long: it would wait for minutes, also after the stream is closed.
fn bound(stream: &TcpStream, within: Duration) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_send_buffer_size(KEPT)?;
    socket.set_tcp_user_timeout(Some(within))?;
    // A picture is not to wait for the next one.
    stream.set_nodelay(true)
}

/// Serves `app` on one connection until it ends; one that is slow, or no HTTP, is closed.
pub async fn serve(stream: TcpStream, acceptor: Option<TlsAcceptor>, app: Router, caller: Caller) {
    if bound(&stream, PATIENCE).is_err() {
        return;
    }
    match acceptor {
        None => requests(stream, app, caller).await,
        Some(acceptor) => {
            if let Ok(Ok(stream)) = timeout(HEAD_WITHIN, acceptor.accept(stream)).await {
                requests(stream, app, caller).await;
            }
        }
    }
}

async fn requests(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    app: Router,
    caller: Caller,
) {
    let app = TowerToHyperService::new(app);
    let service = service_fn(move |request| {
        caller.asks();
        app.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .serve_connection(TokioIo::new(stream), service);
    let _ = connection.with_upgrades().await;
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const MOST: usize = 4;
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

    #[tokio::test]
    async fn connections_without_a_request_make_room_for_one_with_a_request() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let slow = || async {
            sleep(Duration::from_secs(2)).await;
            "slow"
        };
        let app = Router::new()
            .route("/", get(|| async { "here" }))
            .route("/slow", get(slow));
        tokio::spawn(accept(listener, MOST, move |stream, caller| {
            serve(stream, None, app.clone(), caller)
        }));

        let mut asking = TcpStream::connect(address).await.unwrap();
        let slow = REQUEST.split_at(5);
        let slow = [slow.0, &b"slow"[..], slow.1].concat();
        asking.write_all(&slow).await.unwrap();
        sleep(Duration::from_millis(100)).await;
        let mut idle = Vec::new();
        for index in 0..3 * MOST {
            let mut stream = TcpStream::connect(address).await.unwrap();
            // The beginning of a request is none.
            stream.write_all(&REQUEST[..index]).await.unwrap();
            idle.push(stream);
        }
        for _ in 0..3 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(REQUEST).await.unwrap();
            let mut text = String::new();
            let answer = timeout(Duration::from_secs(1), stream.read_to_string(&mut text));
            answer.await.expect("an answer").unwrap();
            assert!(text.ends_with("here"), "{text}");
        }
        // One that asked keeps its place, however many come.
        let mut text = String::new();
        asking.read_to_string(&mut text).await.unwrap();
        assert!(text.ends_with("slow"), "{text}");
    }

    #[tokio::test]
    async fn a_peer_that_stops_reading_holds_a_bounded_amount_for_a_bounded_time() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = tokio::net::TcpSocket::new_v4().unwrap();
        client.set_recv_buffer_size(64 << 10).unwrap();
        let (client, accepted) = tokio::join!(client.connect(address), listener.accept());
        let (mut client, (mut server, _)) = (client.unwrap(), accepted.unwrap());
        let within = Duration::from_millis(500);
        bound(&server, within).unwrap();
        let piece = vec![0; 16 << 10];
        // It has read fast, so that the windows of TCP are wide open.
        let reading = async {
            let mut octets = vec![0; 16 << 20];
            client.read_exact(&mut octets).await.unwrap();
        };
        let writing = async {
            for _ in 0..1_024 {
                server.write_all(&piece).await.unwrap();
            }
        };
        tokio::join!(reading, writing);
        let mut held = 0;
        let ended = timeout(Duration::from_secs(20), async {
            loop {
                match server.write(&piece).await {
                    Ok(octets) => held += octets,
                    Err(error) => return error.kind(),
                }
            }
        });
        let ended = ended.await.expect("the end of the connection");
        assert_eq!(ended, io::ErrorKind::TimedOut);
        let most = ON_THEIR_WAY as usize + (128 << 10);
        assert!(held <= most, "{held} octets");
    }
}
