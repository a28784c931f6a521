use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use layercast_protect::Fingerprint;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, Incoming, RecvStream,
    SendStream, ServerConfig, TokioRuntime, TransportConfig, TransportErrorCode, VarInt,
};
use quinn_proto::HashedConnectionIdGenerator;
use ring::hmac;
use rustls::pki_types::CertificateDer;
use tokio::time::timeout;

use crate::channel::{
    ASK_EVERY, BytesIn, BytesOut, DEAD_AFTER, LineReceiver, LineSender, SignalChannel,
};
use crate::error::CallError;
use crate::identity::Identity;
use crate::tls::{self, Trust};

/// Octets on their way in either direction before one end has to wait for the other.
const WINDOW: u32 = 256 << 10;
/// The round trip that a call reckons with before it has measured one: what is lost of a handshake is sent again after
/// three of them, so that it has four tries within [`DEAD_AFTER`] (with the 333 ms of RFC 9002 it has two).
const FIRST_RTT: Duration = Duration::from_millis(100);
/// Why a connection ends: nothing is wrong.
const DONE: VarInt = VarInt::from_u32(0);
/// The alert of a caller that does not trust the certificate (`access_denied`, RFC 8446, 6.2).
const ACCESS_DENIED: u8 = 49;

/// A [`SignalChannel`] of one JSON object per line on the one stream of a QUIC connection: encrypted, and both
/// ends have proven their identity (RFC 9000, RFC 9001).
#[derive(Debug)]
pub struct QuicChannel {
    connection: Connection,
    send: SendStream,
    recv: RecvStream,
    identity: Fingerprint,
}

/// The stream in; the end of a connection in order is the end of the stream.
#[derive(Debug)]
pub struct QuicIn {
    connection: Connection,
    stream: RecvStream,
}

impl QuicChannel {
    /// Calls the node at `addr` as `identity`, from the address `from` if there is a choice.
    ///
    /// # Errors
    /// There is no answer, or the peer is not trusted.
    pub async fn connect(
        addr: SocketAddr,
        from: Option<IpAddr>,
        identity: &Identity,
        trust: &Trust,
    ) -> Result<QuicChannel, CallError> {
        let (connection, _) = call(addr, from, identity, trust, transport()).await?;
        let (send, recv) = connection
            .open_bi()
            .await
            .map_err(|error| explain(&error))?;
        QuicChannel::new(connection, send, recv)
    }

    /// Takes a caller.
    ///
    /// # Errors
    /// It does not complete the handshake, or shows no certificate.
    pub async fn accept(incoming: Incoming) -> Result<QuicChannel, CallError> {
        let connecting = incoming.accept().map_err(|error| explain(&error))?;
        let connection = connecting.await.map_err(|error| explain(&error))?;
        let (send, recv) = connection
            .accept_bi()
            .await
            .map_err(|error| explain(&error))?;
        QuicChannel::new(connection, send, recv)
    }

    fn new(
        connection: Connection,
        send: SendStream,
        recv: RecvStream,
    ) -> Result<QuicChannel, CallError> {
        let shown = connection
            .peer_identity()
            .and_then(|shown| shown.downcast::<Vec<CertificateDer<'static>>>().ok());
        let certificate = shown.as_ref().and_then(|shown| shown.first());
        let certificate =
            certificate.ok_or_else(|| CallError::Untrusted("it shows no certificate".into()))?;
        Ok(QuicChannel {
            identity: Fingerprint::of(certificate),
            connection,
            send,
            recv,
        })
    }
}

impl SignalChannel for QuicChannel {
    type Receiver = LineReceiver<QuicIn>;
    type Sender = LineSender<SendStream>;

    fn identity(&self) -> Option<Fingerprint> {
        Some(self.identity)
    }

    fn local(&self) -> Option<IpAddr> {
        self.connection.local_ip()
    }

    fn split(self) -> (Self::Receiver, Self::Sender) {
        let (connection, stream) = (self.connection, self.recv);
        let receiver = LineReceiver::new(QuicIn { connection, stream });
        (receiver, LineSender::new(self.send))
    }
}

impl BytesIn for QuicIn {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer).await;
        match (read, self.connection.close_reason()) {
            (Ok(count), _) => Ok(count.unwrap_or(0)),
            (Err(_), Some(ConnectionError::ApplicationClosed(close)))
                if close.error_code == DONE =>
            {
                Ok(0)
            }
            (Err(_), Some(reason)) => Err(io::Error::other(explain(&reason).to_string())),
            (Err(error), None) => Err(error.into()),
        }
    }
}

impl BytesOut for SendStream {
    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        Ok(self.write_all(bytes).await?)
    }

    async fn end(&mut self) {
        if self.finish().is_ok() {
            // Until the neighbour has everything: a connection that is closed forgets what it owes.
            let _ = self.stopped().await;
        }
    }
}

/// A connection to the node at `addr`, with the endpoint that keeps its socket.
async fn call(
    addr: SocketAddr,
    from: Option<IpAddr>,
    identity: &Identity,
    trust: &Trust,
    transport: TransportConfig,
) -> Result<(Connection, Endpoint), CallError> {
    let unreachable = |reason: &dyn ToString| CallError::Unreachable(reason.to_string());
    let (tls, verifier) = tls::client(identity, trust).map_err(|error| unreachable(&error))?;
    let tls = QuicClientConfig::try_from(tls).map_err(|error| unreachable(&error))?;
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::new(transport));
    let from = from.unwrap_or(match addr {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    });
    let endpoint =
        Endpoint::client(SocketAddr::new(from, 0)).map_err(|error| unreachable(&error))?;
    let connecting = endpoint
        .connect_with(config, addr, &verifier.server_name())
        .map_err(|error| unreachable(&error))?;
    let answer = timeout(DEAD_AFTER, connecting).await;
    let connection = answer
        .unwrap_or(Err(ConnectionError::TimedOut))
        .map_err(|error| match verifier.refused() {
            Some(reason) => CallError::Untrusted(reason.to_owned()),
            None if matches!(error, ConnectionError::TimedOut) => CallError::silent("3 s", true),
            None => explain(&error),
        })?;
    Ok((connection, endpoint))
}

/// A connection for datagrams (RFC 9221) to the node at `addr`, with the endpoint that keeps its socket.
///
/// # Errors
/// There is no answer, or the peer is not trusted.
pub(crate) async fn connect_datagrams(
    addr: SocketAddr,
    identity: &Identity,
    trust: &Trust,
) -> Result<(Connection, Endpoint), CallError> {
    call(addr, None, identity, trust, datagrams()).await
}

/// An endpoint for connections with datagrams.
///
/// # Errors
/// The system refuses the socket, or the identity cannot be used.
pub(crate) fn listen_datagrams(socket: UdpSocket, identity: &Identity) -> io::Result<Endpoint> {
    listen_with(socket, identity, datagrams())
}

/// The endpoint of a node that is called on `socket`.
///
/// What resets the connections of its neighbours after a restart is derived from the identity: a node that
/// comes back as the one it was is missed no longer than it was away.
///
/// # Errors
/// The system refuses the socket, or the identity cannot be used.
pub(crate) fn listen(socket: UdpSocket, identity: &Identity) -> io::Result<Endpoint> {
    listen_with(socket, identity, transport())
}

fn listen_with(
    socket: UdpSocket,
    identity: &Identity,
    transport: TransportConfig,
) -> io::Result<Endpoint> {
    let tls = tls::server(identity).map_err(io::Error::other)?;
    let tls = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    // Media go where the first hello came from.
    config.migration(false);
    config.transport_config(Arc::new(transport));
    let derive = |label: &[u8]| {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, identity.key.secret_der());
        hmac::sign(&secret, label)
    };
    let reset = hmac::Key::new(hmac::HMAC_SHA256, derive(b"layercast reset").as_ref());
    let mut ids = [0; 8];
    ids.copy_from_slice(&derive(b"layercast connection ids").as_ref()[..8]);
    let ids = u64::from_be_bytes(ids);
    let mut endpoint = EndpointConfig::new(Arc::new(reset));
    endpoint.cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(ids)));
    let runtime = Arc::new(TokioRuntime);
    Endpoint::new(endpoint, Some(config), socket, runtime)
}

/// One stream in each direction, flow control instead of memory, and a neighbour that says nothing for
/// [`DEAD_AFTER`] is dead.
fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    let dead_after = VarInt::from_u32(DEAD_AFTER.as_millis() as u32);
    transport
        .max_idle_timeout(Some(dead_after.into()))
        .initial_rtt(FIRST_RTT)
        .keep_alive_interval(Some(ASK_EVERY))
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(u64::from(WINDOW));
    transport
}

/// As [`transport`], with datagrams in the place of streams.
fn datagrams() -> TransportConfig {
    let mut transport = transport();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(Some(WINDOW as usize));
    transport
}

fn explain(error: &ConnectionError) -> CallError {
    let reason = match error {
        // What a node does that has no place left for the caller.
        ConnectionError::ConnectionClosed(close)
            if close.error_code == TransportErrorCode::CONNECTION_REFUSED =>
        {
            let why = "all its places for neighbours are taken: try again later, \
                       or raise --max-neighbours there";
            return CallError::TurnedAway(why.to_owned());
        }
        ConnectionError::ConnectionClosed(close)
            if close.error_code == TransportErrorCode::crypto(ACCESS_DENIED) =>
        {
            let why = "it does not trust this node: its URL has the fingerprint of another one, or of an earlier start \
                       of this node (--identity FILE keeps the fingerprint)";
            return CallError::Unreachable(why.to_owned());
        }
        ConnectionError::TimedOut => "no answer within 3 s",
        ConnectionError::Reset => "it was restarted",
        ConnectionError::ApplicationClosed(close) if close.error_code == DONE => {
            "it closed the connection"
        }
        other => return CallError::Unreachable(other.to_string()),
    };
    CallError::NoAnswer(reason.to_owned())
}
