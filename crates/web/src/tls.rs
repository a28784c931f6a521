//! Certificates for HTTPS.

use std::sync::Arc;

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use ring::digest::{SHA256, digest};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::error::WebError;

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
    /// There is no certificate or no key, or they do not belong together.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Certificate, WebError> {
        let failed = |what: &str| WebError::Certificate(what.to_owned());
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let certificates = read.map_err(|_| failed("the certificate is no PEM"))?;
        if certificates.is_empty() {
            return Err(failed(
                "there is no certificate in PEM in the file of --cert",
            ));
        }
        let secret = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| failed("there is no private key in PEM in the file of --key"))?;
        Certificate::new(certificates, secret).map_err(|error| {
            failed(&format!(
                "certificate and key cannot be used together: {error}"
            ))
        })
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

impl Certificate {
    /// What makes TLS of connections.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }
}
