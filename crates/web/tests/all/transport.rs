//! WebTransport: what viewers get, and callers that do not keep to the rules.

use std::sync::Arc;
use std::time::Duration;

use flaky_test::flaky_test as real_time;
use quinn::crypto::rustls::QuicClientConfig;
use serde_json::Value;
use tokio::time::{sleep, timeout};
use tokio_rustls::rustls;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{DigitallySignedStruct, SignatureScheme};
use web_transport_quinn::http::HeaderValue;
use web_transport_quinn::http::header::ORIGIN;
use web_transport_quinn::proto::{self, ConnectRequest};
use web_transport_quinn::{ALPN, Client, ClientBuilder, ClientError, ConnectError, Session};

use crate::media;
use crate::site::{Site, soon};

/// A caller that knows the server by the fingerprint of the certificate in `place`.
fn client(grant: &Value, place: usize) -> Client {
    let text = grant["transport"]["fingerprints"][place].as_str();
    let octets = text.expect("a fingerprint").split(':');
    let octets = octets.map(|it| u8::from_str_radix(it, 16).expect("hexadecimal"));
    let client = ClientBuilder::new().with_server_certificate_hashes(vec![octets.collect()]);
    client.expect("a client")
}

/// Calls `site` at `path`, with the ticket of `grant`, from a page of `origin`.
async fn call(grant: &Value, at: &str, query: &str, origin: &str) -> Result<Session, ClientError> {
    let url = format!("https://{at}{query}").parse::<url::Url>();
    let request = ConnectRequest::new(url.expect("a URL"))
        .with_header(ORIGIN, HeaderValue::from_str(origin).expect("a header"));
    soon("an answer", client(grant, 0).connect(request)).await
}

/// A viewer as a page of the server is one.
async fn watch(site: &Site, query: &str) -> Result<Session, ClientError> {
    let grant = site.grant().await;
    let ticket = grant["ticket"].as_str().expect("a ticket");
    let query = format!("/api/watch?ticket={ticket}{query}");
    call(
        &grant,
        &site.address,
        &query,
        &format!("http://{}", site.address),
    )
    .await
}

/// The status with which a caller was refused.
fn status(answer: Result<Session, ClientError>) -> u16 {
    match answer.err() {
        Some(ClientError::HttpError(ConnectError::ProtoError(
            proto::ConnectError::WrongStatus(Some(status)),
        ))) => status.as_u16(),
        other => panic!("{other:?}"),
    }
}

/// Number, kind, flags and content of a message.
fn parts(message: &[u8]) -> (u32, u8, u8, &[u8]) {
    let number = u32::from_be_bytes(message[..4].try_into().expect("a number"));
    (number, message[4], message[5], &message[16..])
}

#[real_time(tokio)]
async fn a_viewer_gets_each_picture_in_a_stream_and_sound_in_datagrams() {
    let Some(site) = Site::with_film(6, 2).await else {
        return;
    };
    let session = watch(&site, "").await.expect("a viewer");
    let streams = async {
        let (mut messages, mut pictures) = (Vec::new(), 0);
        while pictures < 40 {
            let mut stream = session.accept_uni().await.expect("a stream");
            let message = stream.read_to_end(1 << 20).await.expect("a message");
            pictures += usize::from(message[4] == 1);
            messages.push(message);
        }
        messages
    };
    let sounds = async {
        let mut sounds = 0;
        while sounds < 40 {
            let message = session.read_datagram().await.expect("a datagram");
            let (_, kind, _, data) = parts(&message);
            assert_eq!((kind, data[0]), (2, 0xFF), "ADTS");
            sounds += 1;
        }
    };
    let both = async { tokio::join!(streams, sounds) };
    let (mut messages, ()) = soon("pictures and sound", both).await;
    messages.sort_by_key(|it| parts(it).0);
    for (number, message) in messages.iter().enumerate() {
        assert_eq!(
            parts(message).0 as usize,
            number,
            "numbers are those of the messages"
        );
    }
    let described = messages.iter().position(|it| {
        let (_, kind, _, content) = parts(it);
        kind == 0 && serde_json::from_slice::<Value>(content).expect("JSON")["type"] == "stream"
    });
    let first = messages
        .iter()
        .position(|it| parts(it).1 == 1)
        .expect("a picture");
    assert!(
        described < Some(first),
        "the description comes before its pictures"
    );
    let (_, _, flags, data) = parts(&messages[first]);
    assert_eq!(flags, 1, "the first picture is a key picture");
    // Annex B.
    assert!(data.starts_with(&[0, 0, 0, 1]) || data.starts_with(&[0, 0, 1]));
}

#[real_time(tokio)]
async fn callers_without_a_right_are_refused() {
    let Some(site) = Site::with_film(6, 1).await else {
        return;
    };
    let own = format!("http://{}", site.address);
    let port = site.address.rsplit_once(':').expect("a port").1;
    let other = format!("[::ffff:127.0.0.1]:{port}");
    let with = async |at: &str, path: &str, query: &str, origin: &str| {
        let grant = site.grant().await;
        let ticket = grant["ticket"].as_str().expect("a ticket");
        let query = format!("{path}?ticket={ticket}{query}");
        status(call(&grant, at, &query, origin).await)
    };
    let at = &*site.address;
    assert_eq!(with(at, "/api/watch", "", "http://evil.example").await, 403);
    assert_eq!(with(&other, "/api/watch", "", &own).await, 421);
    assert_eq!(with(at, "/api/flows", "", &own).await, 404);
    assert_eq!(with(at, "/api/watch", "&flow=9", &own).await, 404);
    assert_eq!(with(at, "/api/watch", "&level=e7", &own).await, 400);
    assert_eq!(with(at, "/api/watch", "&flow=x", &own).await, 400);
    let grant = site.grant().await;
    for query in ["", "?ticket=", "?ticket=0123456789abcdef0123456789abcdef"] {
        let answer = call(&grant, at, &format!("/api/watch{query}"), &own).await;
        assert_eq!(status(answer), 401, "{query}");
    }
    // The one place is free still, and then taken, also for a WebSocket.
    let first = watch(&site, "").await.expect("a viewer");
    assert_eq!(status(watch(&site, "").await), 503);
    assert_eq!(media::watch(&site, "").await.err(), Some(4_503));
    // A used ticket is none.
    let used = first.request().expect("a request").url.clone();
    let query = format!("/api/watch?{}", used.query().expect("a query"));
    assert_eq!(status(call(&grant, at, &query, &own).await), 401);
    first.close(0, b"");
    for _ in 0..50 {
        if watch(&site, "").await.is_ok() {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("the place of a viewer that left stays taken");
}

/// Takes each certificate: whose it is does not matter here.
#[derive(Debug)]
struct Anyone(rustls::crypto::CryptoProvider);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A connection of HTTP/3 before its first stream.
async fn connection(site: &Site) -> quinn::Connection {
    let provider = rustls::crypto::ring::default_provider();
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(provider.clone()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("a version");
    let verifier = Arc::new(Anyone(provider));
    let mut tls = tls
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.as_bytes().to_vec()];
    let crypto = QuicClientConfig::try_from(tls).expect("a configuration");
    let config = quinn::ClientConfig::new(Arc::new(crypto));
    let endpoint = quinn::Endpoint::client(([127, 0, 0, 1], 0).into()).expect("a socket");
    let address = site.address.parse().expect("an address");
    let calling = endpoint.connect_with(config, address, "localhost");
    calling.expect("a call").await.expect("a connection")
}

#[real_time(tokio)]
async fn a_client_reads_why_it_is_refused_before_any_control_stream_ends() {
    let site = Site::of(Vec::new(), 1).await;
    let connection = connection(&site).await;
    let mut control = connection.open_uni().await.expect("a stream");
    let mut settings = proto::Settings::default();
    settings.enable_webtransport(1);
    settings.write(&mut control).await.expect("settings");
    let mut theirs = connection.accept_uni().await.expect("a stream");
    proto::Settings::read(&mut theirs).await.expect("settings");
    let (mut send, mut receive) = connection.open_bi().await.expect("a stream");
    let url = format!("https://{}/api/watch?ticket=none", site.address);
    let request = ConnectRequest::new(url.parse::<url::Url>().expect("a URL"));
    request.write(&mut send).await.expect("a request");
    let answer = soon("an answer", proto::ConnectResponse::read(&mut receive)).await;
    let refused = matches!(&answer, Err(proto::ConnectError::WrongStatus(Some(status))) if status.as_u16() == 401);
    assert!(refused, "{answer:?}");
    // The end of the connection alone ends it, without an error of HTTP/3.
    let ended = soon("the end", theirs.read(&mut [0])).await;
    let Err(quinn::ReadError::ConnectionLost(quinn::ConnectionError::ApplicationClosed(close))) =
        ended
    else {
        panic!("{ended:?}");
    };
    assert_eq!(close.error_code.into_inner(), 0x100);
}

#[real_time(tokio)]
async fn streams_that_never_end_hold_nothing_up() {
    let Some(site) = Site::with_film(6, 2).await else {
        return;
    };
    let hostile = watch(&site, "").await.expect("a viewer");
    // It never reads, and writes as much as it is let.
    let writing = async {
        let (mut streams, mut written) = (Vec::new(), 0);
        while let Ok(Ok(mut stream)) = timeout(Duration::from_millis(300), hostile.open_uni()).await
        {
            while timeout(Duration::from_millis(100), stream.write_all(&[0x55; 4_096]))
                .await
                .is_ok_and(|it| it.is_ok())
            {
                written += 4_096;
                assert!(written < 1 << 20, "what a viewer writes is not read");
            }
            streams.push(stream);
        }
        (streams, written)
    };
    let (streams, written) = soon("the end of its rights", writing).await;
    assert!(streams.len() <= 8, "{} streams", streams.len());
    assert!(written <= 1 << 18, "{written} octets");
    let other = watch(&site, "").await.expect("another viewer");
    let mut stream = soon("a stream", other.accept_uni())
        .await
        .expect("a stream");
    soon("a message", stream.read_to_end(1 << 20))
        .await
        .expect("a message");
}
