//! WebTransport (over HTTP/3): a stream for each picture, so that no picture waits for a lost packet of another, and sound in datagrams.
//!
//! What a stream carries, and a datagram: the number of the message among those in streams (four octets, network order; in datagrams that
//! of the next one), and a message ([`crate::message`]). A text is a message of its own kind, with its time 0.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use axum::http::header::ORIGIN;
use axum::http::{StatusCode, Uri};
use bytes::{BufMut, Bytes, BytesMut};
use layercast_net::{Place, Places};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, Incoming, ServerConfig, TransportConfig, VarInt};
use tokio::time::{interval, timeout};
use web_transport_quinn::{ALPN, Request, ServerError, Session, SessionError};

use crate::certificates::Certificates;
use crate::message;
use crate::server::Shared;
use crate::watch::{Admitted, Asked, PATH, PATIENCE, Pipe, view};

/// Octets of the number of a message.
const NUMBER: usize = 4;

/// Time of a handshake and of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// Time that a refused caller has to read the answer.
pub const READ_WITHIN: Duration = Duration::from_secs(1);
/// A viewer that is silent for this time is gone. It acknowledges at least what keeps the connection alive.
const SILENT: Duration = Duration::from_secs(10);
const KEEP_ALIVE: Duration = Duration::from_secs(3);
/// Octets of media that are on their way; further ones are in the queue of the viewer, which skips to a key picture.
pub const ON_THEIR_WAY: u64 = 1 << 20;
/// Octets that a viewer may send before they are read, in all and in a stream: its request. Its further streams are not read.
const UNREAD: VarInt = VarInt::from_u32(1 << 17);
/// Streams of a viewer: those of HTTP/3, and its request.
const STREAMS: VarInt = VarInt::from_u32(8);
const DATAGRAMS: usize = 64 << 10;
/// H3_NO_ERROR (RFC 9114, 8.1): nothing went wrong with HTTP.
const NO_ERROR: VarInt = VarInt::from_u32(0x100);
/// Time between two looks at the age of the certificate.
const TURN_EVERY: Duration = Duration::from_secs(60 * 60);

/// An endpoint for browsers, and its certificates.
pub struct Transport {
    endpoint: Endpoint,
    certificates: Mutex<Certificates>,
}

fn config(certificates: &Certificates) -> io::Result<ServerConfig> {
    let mut tls = certificates
        .used()
        .server_config()
        .map_err(io::Error::other)?;
    tls.alpn_protocols = vec![ALPN.as_bytes().to_vec()];
    let tls = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(SILENT.try_into().ok())
        .keep_alive_interval(Some(KEEP_ALIVE))
        .max_concurrent_bidi_streams(STREAMS)
        .max_concurrent_uni_streams(STREAMS)
        .receive_window(UNREAD)
        .stream_receive_window(UNREAD)
        .send_window(ON_THEIR_WAY)
        // The oldest picture first.
        .send_fairness(false)
        .datagram_receive_buffer_size(Some(DATAGRAMS))
        .datagram_send_buffer_size(DATAGRAMS);
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

impl Transport {
    /// Binds the UDP port of `address`.
    ///
    /// # Errors
    /// The port is taken, or the system has no randomness.
    pub fn bind(address: SocketAddr) -> io::Result<Transport> {
        let certificates = Certificates::new(SystemTime::now()).map_err(io::Error::other)?;
        let endpoint = Endpoint::server(config(&certificates)?, address)?;
        Ok(Transport {
            endpoint,
            certificates: Mutex::new(certificates),
        })
    }

    /// SHA-256 of the certificates by which a page may know this endpoint.
    pub fn fingerprints(&self) -> [String; 2] {
        self.turn(SystemTime::now());
        self.lock().fingerprints()
    }

    fn lock(&self) -> MutexGuard<'_, Certificates> {
        self.certificates
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses the next certificate if it is time. Connections stay.
    fn turn(&self, now: SystemTime) {
        let mut certificates = self.lock();
        // Without randomness the old one stays in use.
        if let Ok(true) = certificates.turn(now)
            && let Ok(config) = config(&certificates)
        {
            self.endpoint.set_server_config(Some(config));
        }
    }

    /// Serves viewers, at most `most` connections at a time, until it is dropped.
    pub async fn serve(&self, most: usize, shared: &Arc<Shared>) {
        let places = Places::new(most);
        let mut turn = interval(TURN_EVERY);
        loop {
            let incoming = tokio::select! {
                incoming = self.endpoint.accept() => incoming,
                _ = turn.tick() => {
                    self.turn(SystemTime::now());
                    continue;
                }
            };
            let Some(incoming) = incoming else { return };
            // When there are many, a caller first proves its address.
            if self.endpoint.open_connections() > most / 2 && incoming.may_retry() {
                let _ = incoming.retry();
                continue;
            }
            // One with a ticket keeps its place, as in `accept`.
            let Ok(place) = places.take(incoming.remote_address().ip()) else {
                incoming.refuse();
                continue;
            };
            let evicted = place.evicted();
            let serving = serve(incoming, place, Arc::clone(shared));
            tokio::spawn(async move {
                tokio::select! {
                    () = serving => {}
                    () = evicted => {}
                }
            });
        }
    }
}

/// Serves one caller until it leaves.
async fn serve(incoming: Incoming, mut place: Place, shared: Arc<Shared>) {
    let asking = async {
        let connection = incoming.accept().map_err(ServerError::from)?.await?;
        Request::accept(connection).await
    };
    let Ok(Ok(request)) = timeout(HEAD_WITHIN, asking).await else {
        return;
    };
    match admit(&request, &shared) {
        Ok(admitted) => {
            place.prove();
            if let Ok(Ok(session)) = timeout(PATIENCE, request.ok()).await {
                view(Viewer { session, sent: 0 }, admitted).await;
            }
        }
        Err(status) => {
            let connection = request.conn().clone();
            let answering = async {
                // What `reject` gives back holds no control stream: to a client the end of one is an error of the connection (RFC 9114,
                // 6.2.1), which hides the status.
                let _refused = request.respond(status).await;
                connection.closed().await
            };
            let _ = timeout(READ_WITHIN, answering).await;
            connection.close(NO_ERROR, b"");
        }
    }
}

/// The rules of a request over HTTP.
fn admit(request: &Request, shared: &Shared) -> Result<Admitted, StatusCode> {
    let authority = request.url.authority();
    let origin = request.headers.get(ORIGIN);
    if !shared.access.is_host(authority) {
        return Err(StatusCode::MISDIRECTED_REQUEST);
    }
    if !shared.access.is_origin(origin) {
        return Err(StatusCode::FORBIDDEN);
    }
    if request.url.path() != PATH {
        return Err(StatusCode::NOT_FOUND);
    }
    let uri: Uri = request
        .url
        .as_str()
        .parse()
        .map_err(|_| StatusCode::BAD_REQUEST)?;
    let admitted = Asked::of(&uri).and_then(|asked| shared.admit(&asked));
    admitted.map_err(|refusal| refusal.status())
}

/// A viewer over WebTransport.
struct Viewer {
    session: Session,
    /// Messages in streams.
    sent: u32,
}

impl Viewer {
    async fn stream(&mut self, message: Bytes) -> Result<(), SessionError> {
        let mut stream = self.session.open_uni().await?;
        let number = Bytes::copy_from_slice(&self.sent.to_be_bytes());
        self.sent = self.sent.wrapping_add(1);
        // A page that leaves stops its streams, and then the session.
        if stream
            .write_all_chunks(&mut [number, message])
            .await
            .is_ok()
        {
            let _ = stream.finish();
        }
        Ok(())
    }
}

impl Pipe for Viewer {
    async fn text(&mut self, text: String) -> bool {
        let message = message::text(&text);
        matches!(timeout(PATIENCE, self.stream(message)).await, Ok(Ok(())))
    }

    async fn media(&mut self, message: Bytes, is_sound: bool) -> bool {
        if is_sound && NUMBER + message.len() <= self.session.max_datagram_size() {
            let mut datagram = BytesMut::with_capacity(NUMBER + message.len());
            datagram.put_u32(self.sent);
            datagram.put_slice(&message);
            return self.session.send_datagram(datagram.freeze()).is_ok();
        }
        matches!(timeout(PATIENCE, self.stream(message)).await, Ok(Ok(())))
    }

    async fn gone(&mut self) {
        self.session.closed().await;
    }
}
