//! QUIC by quinn, in its default configuration: one stream.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint, ServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};

use crate::load::{Load, MESSAGE, Taken};
use crate::{Failed, ready};

pub async fn take(address: SocketAddr, taken: &mut Taken) -> Result<(), Failed> {
    let made = rcgen::generate_simple_self_signed(vec!["transports".into()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key.into())?;
    let endpoint = Endpoint::server(config, address)?;
    ready(endpoint.local_addr()?);
    let connection = endpoint.accept().await.ok_or("closed")?.await?;
    let mut stream = connection.accept_uni().await?;
    let mut part = Vec::new();
    let mut kind = [0];
    stream.read_exact(&mut kind).await?;
    while let Some(chunk) = stream.read_chunk(usize::MAX, true).await? {
        taken.bytes(chunk.bytes.len());
        if kind == [1] {
            part.extend_from_slice(&chunk.bytes);
            let whole = part.len() - part.len() % MESSAGE;
            taken.messages(&part[..whole]);
            part.drain(..whole);
        }
    }
    taken.end();
    connection.close(0_u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(())
}

pub async fn send(address: SocketAddr, load: &mut Load) -> Result<(), Failed> {
    let provider = Arc::new(ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
        .with_no_client_auth();
    let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    let endpoint = Endpoint::client((Ipv4Addr::UNSPECIFIED, 0).into())?;
    let connection = endpoint
        .connect_with(config, address, "transports")?
        .await?;
    let mut stream = connection.open_uni().await?;
    stream.write_all(&[u8::from(load.is_paced())]).await?;
    load.start();
    while let Some(piece) = load.next().await {
        stream.write_chunk(piece).await?;
    }
    stream.finish()?;
    connection.closed().await;
    Ok(())
}

/// A comparison of speed needs no check of the peer.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

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
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
