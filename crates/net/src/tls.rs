use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use layercast_protect::Fingerprint;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error,
    PeerMisbehaved, RootCertStore, ServerConfig, SignatureScheme,
};

use crate::identity::{Identity, IdentityError, content, read};

/// What both ends have to speak (RFC 7301).
const ALPN: &[u8] = b"layercast/1";

/// How a caller knows that it talks to the right node.
#[derive(Clone)]
pub enum Trust {
    /// By the fingerprint of its certificate.
    Node(Fingerprint),
    /// By a certificate that an authority issued for its host name or address.
    Authorities(Authorities),
    /// Not at all: encrypted, but without authentication.
    Anyone,
}

/// Authorities whose certificates are believed, and for which host.
#[derive(Clone)]
pub struct Authorities {
    verifier: Arc<WebPkiServerVerifier>,
    host: ServerName<'static>,
}

impl Authorities {
    /// Those in the PEM file `path`, for the node on `host`, a name or an address.
    ///
    /// # Errors
    /// The file cannot be read or holds no certificate, or `host` is no host.
    pub fn from_pem(path: &Path, host: &str) -> Result<Authorities, IdentityError> {
        let no_authority = || content(path, "certificate of an authority");
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&read(path)?) {
            let certificate = certificate.map_err(|_| no_authority())?;
            roots.add(certificate).map_err(|_| no_authority())?;
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
            .build()
            .map_err(|_| no_authority())?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host = ServerName::try_from(host.to_owned())
            .map_err(|_| IdentityError::Host(host.to_owned()))?;
        Ok(Authorities { verifier, host })
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trust::Node(fingerprint) => write!(f, "Node({fingerprint})"),
            Trust::Authorities(authorities) => write!(f, "Authorities({:?})", authorities.host),
            Trust::Anyone => f.write_str("Anyone"),
        }
    }
}

/// The cryptography in use, the same everywhere.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let provider = PROVIDER.get_or_init(|| Arc::new(rustls::crypto::ring::default_provider()));
    Arc::clone(provider)
}

/// TLS of a node that is called: every caller shows a certificate.
pub(crate) fn server(identity: &Identity) -> Result<ServerConfig, Error> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(Arc::new(AnyCaller))
        .with_single_cert(identity.chain.clone(), identity.key.clone_key())?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    // Each connection proves its identity.
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// TLS of a caller; the verifier remembers why it refused.
pub(crate) fn client(
    identity: &Identity,
    trust: &Trust,
) -> Result<(ClientConfig, Arc<Verifier>), Error> {
    let verifier = Arc::new(Verifier {
        trust: trust.clone(),
        refused: OnceLock::new(),
    });
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier.clone())
        .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    Ok((config, verifier))
}

/// Holds the certificate of a node against what the caller trusts.
#[derive(Debug)]
pub(crate) struct Verifier {
    trust: Trust,
    refused: OnceLock<String>,
}

impl Verifier {
    /// Why the certificate was refused, if it was.
    pub fn refused(&self) -> Option<&str> {
        self.refused.get().map(String::as_str)
    }

    /// The name to call it by; only authorities care.
    pub fn server_name(&self) -> String {
        match &self.trust {
            Trust::Authorities(authorities) => authorities.host.to_str().into_owned(),
            _ => "layercast".to_owned(),
        }
    }

    fn check(
        &self,
        certificate: &CertificateDer<'_>,
        issuers: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), (Error, String)> {
        match &self.trust {
            Trust::Anyone => Ok(()),
            Trust::Node(expected) => {
                let found = Fingerprint::of(certificate);
                if found == *expected {
                    return Ok(());
                }
                let error = CertificateError::ApplicationVerificationFailure;
                let text = format!("its certificate is {found}, expected was {expected}");
                Err((error.into(), text))
            }
            Trust::Authorities(Authorities { verifier, host }) => verifier
                .verify_server_cert(certificate, issuers, host, &[], now)
                .map(drop)
                .map_err(|error| (error.clone(), error.to_string())),
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        issuers: &[CertificateDer<'_>],
        _host: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.check(certificate, issuers, now) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err((error, text)) => {
                // Only the first refusal can end a handshake.
                let _ = self.refused.set(text);
                Err(error)
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        schemes()
    }
}

/// Takes every caller that proves to own the certificate it shows: the node judges the identity.
#[derive(Debug)]
struct AnyCaller;

impl ClientCertVerifier for AnyCaller {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _issuers: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        schemes()
    }
}

fn verify(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let algorithms = provider().signature_verification_algorithms;
    verify_tls13_signature(message, certificate, signature, &algorithms)
}

fn schemes() -> Vec<SignatureScheme> {
    provider()
        .signature_verification_algorithms
        .supported_schemes()
}

/// QUIC has TLS 1.3 only (RFC 9001).
fn no_tls12() -> Error {
    PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into()
}
