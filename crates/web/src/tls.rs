//! HTTPS: certificates, and a listener whose handshakes do not wait for each other.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use ring::digest::{SHA256, digest};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::error::WebError;

/// Time of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Connections whose handshakes are done, and that wait to be served.
const WAITING: usize = 64;

/// What browsers know a server with HTTPS by.
pub struct Certificate {
    config: Arc<ServerConfig>,
    fingerprint: String,
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificate")
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

impl Certificate {
    /// Reads a chain of certificates and the key of the first one, in PEM.
    ///
    /// # Errors
    /// A file cannot be read, or holds no certificate or no key, or they do not belong together.
    pub fn from_pem(chain: &Path, key: &Path) -> Result<Certificate, WebError> {
        let failed = |path: &Path, problem: String| WebError::Certificate {
            path: path.to_owned(),
            problem,
        };
        let read = CertificateDer::pem_file_iter(chain).and_then(Iterator::collect);
        let certificates: Vec<CertificateDer<'static>> =
            read.map_err(|error| failed(chain, error.to_string()))?;
        if certificates.is_empty() {
            return Err(failed(chain, "it holds no certificate in PEM".to_owned()));
        }
        let secret =
            PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, error.to_string()))?;
        Certificate::new(certificates, secret).map_err(|error| failed(key, error.to_string()))
    }

    /// Makes a certificate for `names`, signed by itself: browsers warn of it.
    ///
    /// # Errors
    /// A name cannot be in a certificate.
    pub fn self_signed(names: Vec<String>) -> Result<Certificate, WebError> {
        let made = || {
            let mut params = CertificateParams::new(names)?;
            params.distinguished_name = DistinguishedName::new();
            params
                .distinguished_name
                .push(DnType::CommonName, "layercast web");
            let key = KeyPair::generate()?;
            Ok((params.self_signed(&key)?, key))
        };
        let (certificate, key) =
            made().map_err(|error: rcgen::Error| WebError::SelfSigned(error.to_string()))?;
        let secret = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        Certificate::new(vec![certificate.der().clone()], secret)
            .map_err(|error| WebError::SelfSigned(error.to_string()))
    }

    fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Certificate, rustls::Error> {
        let hash = digest(&SHA256, chain.first().map_or(&[], |it| it.as_ref()));
        let octets: Vec<String> = hash.as_ref().iter().map(|it| format!("{it:02X}")).collect();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        Ok(Certificate {
            config: Arc::new(config),
            fingerprint: octets.join(":"),
        })
    }

    /// SHA-256 of the certificate, as browsers show it.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

/// Accepts connections with TLS.
pub struct TlsListener {
    address: SocketAddr,
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
}

impl TlsListener {
    /// Takes the connections of `listener`.
    pub fn new(
        listener: TcpListener,
        address: SocketAddr,
        certificate: &Certificate,
    ) -> TlsListener {
        let acceptor = TlsAcceptor::from(Arc::clone(&certificate.config));
        let (done, ready) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            while !done.is_closed() {
                let Ok((stream, from)) = listener.accept().await else {
                    // No file descriptors are left: some will be.
                    sleep(Duration::from_millis(100)).await;
                    continue;
                };
                let (acceptor, done) = (acceptor.clone(), done.clone());
                tokio::spawn(async move {
                    // One that is slow, or no TLS, is dropped.
                    if let Ok(Ok(stream)) = timeout(HANDSHAKE, acceptor.accept(stream)).await {
                        let _ = done.send((stream, from)).await;
                    }
                });
            }
        });
        TlsListener { address, ready }
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(next) => next,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(self.address)
    }
}
