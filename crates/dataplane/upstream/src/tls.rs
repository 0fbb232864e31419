//! TLS to servers: trust anchors and sessions.
use crate::limits::SESSIONS_MAX;
use rustls::client::Resumption;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::sync::Arc;

/// The trusted issuers of certificates.
#[derive(Clone, Debug)]
pub struct TrustAnchors(Arc<RootCertStore>);

impl TrustAnchors {
    /// Trusts these certificates, except unreadable ones. `None` if none is readable.
    pub fn new(certificates: impl IntoIterator<Item = CertificateDer<'static>>) -> Option<Self> {
        let mut roots = RootCertStore::empty();
        let (taken, _) = roots.add_parsable_certificates(certificates);
        (taken > 0).then(|| Self(Arc::new(roots)))
    }
}

/// The TLS state of one thread. Its sessions are its own, so that no lock is shared.
#[derive(Clone, Debug)]
pub(crate) struct TlsClient(Arc<ClientConfig>);

impl TlsClient {
    pub(crate) fn new(trust: &TrustAnchors) -> Result<Self, rustls::Error> {
        let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(Arc::clone(&trust.0))
            .with_no_client_auth();
        config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
        // RFC 7858 §3.1 relies on the port; ALPN excludes other services there.
        config.alpn_protocols = vec![b"dot".to_vec()];
        Ok(Self(Arc::new(config)))
    }

    pub(crate) fn begin(
        &self,
        name: &ServerName<'static>,
    ) -> Result<ClientConnection, rustls::Error> {
        ClientConnection::new(Arc::clone(&self.0), name.clone())
    }
}
