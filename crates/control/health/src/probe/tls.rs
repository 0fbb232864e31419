//! Verification of the server of an HTTPS check.
use super::Failure;
use crate::check::TlsCheck;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use x509_parser::prelude::{FromDer, X509Certificate};

/// A connector with the CA certificates of a check, or those of the system, which speaks this
/// protocol (ALPN).
///
/// # Errors
/// Why they cannot be used.
pub fn connector(check: &TlsCheck, protocol: &[u8]) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    match &check.ca {
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
        }
        Some(file) => {
            let place = file.display();
            let certificates = CertificateDer::pem_file_iter(file)
                .map_err(|error| format!("{place} cannot be read: {error}"))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| format!("{place}: {error}"))?;
                roots.add(certificate).map_err(|error| format!("{place}: {error}"))?;
            }
            if roots.is_empty() {
                return Err(format!("{place} has no certificate in PEM form"));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The name that the certificate has to have: that of the check, else the Host field, else the
/// address.
///
/// # Errors
/// It is not a name.
pub fn server_name(
    check: &TlsCheck,
    host: &str,
    address: IpAddr,
) -> Result<ServerName<'static>, Failure> {
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    let name = [&*check.sni, host].into_iter().find(|name| !name.is_empty());
    match name {
        None => Ok(ServerName::from(address)),
        Some(name) => ServerName::try_from(name.to_owned())
            .map_err(|_| Failure::NotMade(format!("{name:?} is not the name of a server"))),
    }
}

/// When the certificate of the server ends, since 1970.
pub fn certificate_end(stream: &TlsStream<TcpStream>) -> Option<Duration> {
    let certificate = stream.get_ref().1.peer_certificates()?.first()?;
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let end = certificate.validity().not_after.timestamp();
    Some(Duration::from_secs(end.try_into().unwrap_or_default()))
}
