//! Trusted CA certificates for upstreams, read once at the start, before privileges are dropped.
use crate::Config;
use crate::diagnostic::Diagnostic;
use crate::limits::CA_LEN_MAX;
use std::io::Read;
use std::path::Path;
use upstream::pki_types::CertificateDer;
use upstream::pki_types::pem::PemObject;
use upstream::{QueryTransport, TrustAnchors};

/// The CA certificates of the configured file, or of the system. `None` if no upstream or primary
/// is queried over TLS.
///
/// # Errors
/// There are none.
pub fn load(config: &Config) -> Result<Option<TrustAnchors>, Diagnostic> {
    let primaries = config.secondaries.iter().flat_map(|zone| &zone.primaries);
    let servers = config.forwards.iter().flat_map(|forward| &forward.servers).chain(primaries);
    let is_needed =
        servers.into_iter().any(|server| matches!(server.address.over, QueryTransport::Tls(_)));
    match &config.upstream.ca {
        Some(file) => read(file, "[upstream] ca").map(|trust| is_needed.then_some(trust)),
        None if is_needed => system(config).map(Some),
        None => Ok(None),
    }
}

/// The CA certificates of a file that this key of the config names.
///
/// # Errors
/// There are none.
pub fn read(file: &Path, key: &str) -> Result<TrustAnchors, Diagnostic> {
    let wrong = |message: String, help: &str| Diagnostic {
        help: Some(format!("{key} names {help}")),
        ..Diagnostic::of_file(file, message)
    };
    let mut bytes = Vec::new();
    zonefile::open(file)
        .and_then(|opened| opened.take(CA_LEN_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| wrong(format!("cannot be read: {error}"), "it"))?;
    if bytes.len() as u64 > CA_LEN_MAX {
        let message = format!("is longer than {CA_LEN_MAX} bytes");
        return Err(wrong(message, "a file of certificates"));
    }
    let help = "a file with BEGIN CERTIFICATE lines, PEM";
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let certificates =
        certificates.map_err(|error| wrong(format!("holds what is not PEM: {error}"), help))?;
    TrustAnchors::new(certificates).ok_or_else(|| wrong("holds no certificate".into(), help))
}

fn system(config: &Config) -> Result<TrustAnchors, Diagnostic> {
    let found = rustls_native_certs::load_native_certs();
    TrustAnchors::new(found.certs).ok_or_else(|| {
        let message = "queries servers over TLS, but this system has no trusted CA certificates";
        let help =
            "install the package ca-certificates, or name a file: [upstream] ca = \"ca.pem\"";
        let file = config.file.as_deref().unwrap_or(Path::new("dunlin.toml"));
        Diagnostic { help: Some(help.into()), ..Diagnostic::of_file(file, message) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Result<bool, String> {
        let config = Config::parse(Path::new("/missing/f"), text).expect("a config");
        load(&config).map(|trust| trust.is_some()).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn file_without_certificates_is_refused_with_its_name() {
        assert_eq!(
            told("[forward]\n\".\" = [\"192.0.2.1\"]"),
            Ok(false),
            "there is nothing to trust"
        );
        let missing = told("upstream.ca = \"ca.pem\"").expect_err("it is not there");
        assert!(missing.starts_with("/missing/ca.pem: cannot be read"), "{missing}");
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let other = told(&format!("upstream.ca = {manifest:?}")).expect_err("it is none");
        assert!(other.contains("holds no certificate"), "{other}");
        let long = told("upstream.ca = \"/dev/zero\"").expect_err("it does not end");
        assert!(long.starts_with("/dev/zero: "), "{long}");
    }
}
