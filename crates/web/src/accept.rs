//! Connections: a bound on their number, and on the time of handshakes and of the heads of requests, so that one that sends nothing takes no place
//! for long.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// Time of a handshake of TLS, and of the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// Accepts connections, and runs what `serve` makes of each; at most `most` at a time, and further ones wait.
pub async fn accept<F>(listener: TcpListener, most: usize, serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(most));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            // No file descriptors are left: some will be.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let serving = serve(stream);
        tokio::spawn(async move {
            serving.await;
            drop(place);
        });
    }
}

/// Serves `app` on one connection until it ends; one that is slow, or no HTTP, is closed.
pub async fn serve(stream: TcpStream, acceptor: Option<TlsAcceptor>, app: Router) {
    // A picture is not to wait for the next one.
    let _ = stream.set_nodelay(true);
    match acceptor {
        None => requests(stream, app).await,
        Some(acceptor) => {
            if let Ok(Ok(stream)) = timeout(HEAD_WITHIN, acceptor.accept(stream)).await {
                requests(stream, app).await;
            }
        }
    }
}

async fn requests(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, app: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    let _ = connection.with_upgrades().await;
}
