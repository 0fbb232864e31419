//! TLS to servers: whom to believe, and what a thread remembers of whom it spoke to.
use crate::limits::SESSIONS_MAX;
use rustls::client::Resumption;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::sync::Arc;

/// Whose signatures of certificates are believed.
#[derive(Clone, Debug)]
pub struct Trust(Arc<RootCertStore>);

impl Trust {
    /// Those with these certificates, but for any that cannot be read. Nothing where none can.
    pub fn new(certificates: impl IntoIterator<Item = CertificateDer<'static>>) -> Option<Self> {
        let mut roots = RootCertStore::empty();
        let (taken, _) = roots.add_parsable_certificates(certificates);
        (taken > 0).then(|| Self(Arc::new(roots)))
    }
}

/// What one thread needs to speak TLS. The sessions it remembers are its own: no lock is shared.
#[derive(Clone, Debug)]
pub(crate) struct Tls(Arc<ClientConfig>);

impl Tls {
    pub(crate) fn new(trust: &Trust) -> Result<Self, rustls::Error> {
        let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(Arc::clone(&trust.0))
            .with_no_client_auth();
        config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
        // RFC 7858 §3.1 by its port alone; what else may listen there is not to be mistaken for it.
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
