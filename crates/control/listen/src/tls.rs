//! TLS: certificates, which are read again when their files change, and the names of clients.
use crate::limits::{CERTIFICATES_INTERVAL, HANDSHAKE_TIME_MAX, PEM_LEN_MAX};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ALL_VERSIONS, ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};
use server_status::CertificateStatus;
use std::fs::{self, File};
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The versions of TLS for transfers.
static TRANSFER_VERSIONS: &[&SupportedProtocolVersion] = &[&TLS13];

/// The protocol that clients speak inside TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http,
    /// Transfers of DNS, which need TLS 1.3 (RFC 9103 §7.1).
    Transfer,
}

/// The files of a server's certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificates {
    /// The server's certificate and its intermediates, PEM.
    pub cert: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
    /// The CAs of client certificates, PEM; `None`: clients have no certificates.
    pub client_ca: Option<PathBuf>,
}

/// The newest valid certificates.
pub struct Tls {
    /// The section of the config that names the files.
    section: &'static str,
    protocol: Protocol,
    files: Certificates,
    held: RwLock<LoadedConfig>,
}

struct LoadedConfig {
    stamps: Stamps,
    config: Arc<ServerConfig>,
    /// The files in use, and why those of now are not.
    status: Vec<CertificateStatus>,
}

/// The modification time and length of each file.
type Stamps = Vec<Option<(SystemTime, u64)>>;

impl Tls {
    /// Reads the files, which this section of the config names, as `api.tls`.
    ///
    /// # Errors
    /// The invalid file, the reason, and what to do.
    pub fn open(
        section: &'static str,
        protocol: Protocol,
        files: Certificates,
    ) -> Result<Self, String> {
        let stamps = files.stamps();
        let config = files.read(section, protocol)?;
        let status = files.status(section);
        let held = RwLock::new(LoadedConfig { stamps, config, status });
        Ok(Self { section, protocol, files, held })
    }

    /// Reads files again whenever they change.
    pub async fn follow_files(self: Arc<Self>) {
        let mut ticks = interval(CERTIFICATES_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let tls = Arc::clone(&self);
            // One that panics is logged by the panic hook; the next one tries again.
            let _ = spawn_blocking(move || tls.update()).await;
        }
    }

    /// Reads changed files again. Invalid files are reported, and the old certificates stay in use.
    pub fn update(&self) {
        let stamps = self.files.stamps();
        if stamps == self.held.read().unwrap_or_else(PoisonError::into_inner).stamps {
            return;
        }
        let section = self.section;
        let read = self.files.read(section, self.protocol);
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        held.stamps = stamps;
        match read {
            Ok(config) => {
                (held.config, held.status) = (config, self.files.status(section));
                let cert = self.files.cert.display();
                tracing::info!(%cert, "certificates of [{section}] read again");
            }
            Err(why) => {
                let why = format!("[{section}] {why}; the previous certificates stay in use");
                tracing::error!("{why}");
                held.status[0].fault = Some(why);
            }
        }
    }

    /// The certificates in use, and why the files cannot be used as they are now.
    pub fn status(&self) -> Vec<CertificateStatus> {
        self.held.read().unwrap_or_else(PoisonError::into_inner).status.clone()
    }

    /// The configuration for a new connection.
    fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.held.read().unwrap_or_else(PoisonError::into_inner).config)
    }

    /// The handshake of a new connection.
    pub async fn accept(&self, stream: TcpStream, client: IpAddr) -> Handshake {
        if self.protocol == Protocol::Http && is_plain_http(&stream).await {
            return Handshake::PlainHttp(stream);
        }
        let section = self.section;
        match timeout(HANDSHAKE_TIME_MAX, TlsAcceptor::from(self.config()).accept(stream)).await {
            Ok(Ok(stream)) => {
                let certificates = stream.get_ref().1.peer_certificates();
                let subjects = certificates.and_then(<[_]>::first).map(subjects);
                Handshake::Done(Box::new(stream), subjects.unwrap_or_default())
            }
            Ok(Err(why)) => {
                tracing::debug!(%client, "no TLS handshake with [{section}]: {why}");
                Handshake::Failed
            }
            Err(_) => {
                tracing::debug!(%client, "a TLS handshake with [{section}] took too long");
                Handshake::Failed
            }
        }
    }
}

/// The outcome of a handshake.
pub enum Handshake {
    /// The connection, and the names of the client's certificate, which is verified.
    Done(Box<TlsStream<TcpStream>>, Vec<String>),
    /// The client speaks HTTP without TLS.
    PlainHttp(TcpStream),
    /// It failed, or took too long.
    Failed,
}

/// Whether a client sends an HTTP request instead of a TLS handshake.
async fn is_plain_http(stream: &TcpStream) -> bool {
    let mut first = [0];
    let peeked = timeout(HANDSHAKE_TIME_MAX, stream.peek(&mut first)).await;
    matches!(peeked, Ok(Ok(1))) && first[0].is_ascii_uppercase()
}

impl Protocol {
    fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        match self {
            Self::Http => ALL_VERSIONS,
            Self::Transfer => TRANSFER_VERSIONS,
        }
    }

    /// The name that clients offer (RFC 7301); those that offer none are served, too.
    const fn alpn(self) -> &'static [u8] {
        match self {
            Self::Http => b"http/1.1",
            Self::Transfer => b"dot",
        }
    }
}

impl Certificates {
    fn stamps(&self) -> Stamps {
        let stamp = |path: &Path| {
            let found = fs::metadata(path).ok()?;
            Some((found.modified().ok()?, found.len()))
        };
        let paths = [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()];
        paths.into_iter().flatten().map(|path| stamp(path)).collect()
    }

    /// The status of each file that holds certificates; the server's own comes first.
    fn status(&self, section: &str) -> Vec<CertificateStatus> {
        let key = |name: &str| format!("[{section}] {name}");
        let own = certificate_status(&key("cert"), &self.cert);
        // While CAs change, the file has the old one and the new one.
        let of_clients = |path: &PathBuf| file_status(&key("client_ca"), path, usize::MAX);
        let of_clients = self.client_ca.iter().map(of_clients);
        [own].into_iter().chain(of_clients).collect()
    }

    /// The chain of certificates, and the key.
    fn read_own(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
        let chain = read_certificates(&self.cert)?;
        let key = PrivateKeyDer::from_pem_slice(&read_file(&self.key)?).map_err(|error| {
            format!("{}: holds no private key in PEM: {error}", self.key.display())
        })?;
        Ok((chain, key))
    }

    /// Why the two files do not fit.
    fn mismatch(&self, error: &rustls::Error) -> String {
        let (cert, key) = (self.cert.display(), self.key.display());
        format!("{cert} and {key} are not a certificate and its key: {error}")
    }

    fn read(&self, section: &str, protocol: Protocol) -> Result<Arc<ServerConfig>, String> {
        let (chain, key) = self.read_own()?;
        if is_ca(&chain[0]) {
            let cert = self.cert.display();
            tracing::warn!(
                "[{section}] {cert}: its first certificate is a CA's, which many clients refuse as \
                 a server's: sign a certificate for the server with it (docs/api.md, Certificates)"
            );
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(protocol.versions())
            .map_err(|error| error.to_string())?
            .with_client_cert_verifier(self.verifier(provider)?)
            .with_single_cert(chain, key)
            .map_err(|error| self.mismatch(&error))?;
        let mut config = config;
        config.alpn_protocols = vec![protocol.alpn().to_vec()];
        Ok(Arc::new(config))
    }

    /// Clients without a certificate need a token.
    fn verifier(
        &self,
        provider: Arc<rustls::crypto::CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, String> {
        let Some(path) = &self.client_ca else { return Ok(Arc::new(NoClientAuth)) };
        let roots = read_roots(path)?;
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .allow_unauthenticated()
            .build()
            .map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// The configuration of a client that speaks `protocol`: it trusts the CAs of a file, or those of
/// the system, and shows `own`.
///
/// # Errors
/// The invalid file, and the reason.
pub fn client_config(
    protocol: Protocol,
    ca: Option<&Path>,
    own: Option<&Certificates>,
) -> Result<ClientConfig, String> {
    let roots = match ca {
        Some(file) => read_roots(file)?,
        None => system_roots()?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(protocol.versions())
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let mut config = match own {
        None => config.with_no_client_auth(),
        Some(files) => {
            let (chain, key) = files.read_own()?;
            let with_own = config.with_client_auth_cert(chain, key);
            with_own.map_err(|error| files.mismatch(&error))?
        }
    };
    config.alpn_protocols = vec![protocol.alpn().to_vec()];
    Ok(config)
}

fn read_roots(file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(file)? {
        let added = roots.add(certificate);
        added
            .map_err(|error| format!("{}: not the certificate of a CA: {error}", file.display()))?;
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    match added {
        0 => Err("this system has no trusted CA certificates: install the package \
                  ca-certificates, or name a file"
            .into()),
        _ => Ok(roots),
    }
}

/// Whether a certificate is marked as a CA's (RFC 5280 §4.2.1.9); a server cannot use it.
fn is_ca(certificate: &CertificateDer<'_>) -> bool {
    let Ok(certificate) = webpki::EndEntityCert::try_from(certificate) else { return false };
    let (now, usage) = (UnixTime::now(), webpki::KeyUsage::server_auth());
    // Every chain is invalid without trust anchors; other properties are checked before that.
    let verified = certificate.verify_for_usage(&[], &[], &[], now, usage, None, None);
    matches!(verified, Err(webpki::Error::CaUsedAsEndEntity))
}

/// The status of a server's or client's certificate in a file that this key of the config names.
/// Intermediates follow it there.
pub fn certificate_status(key: &str, path: &Path) -> CertificateStatus {
    file_status(key, path, 1)
}

/// The status of a file of certificates: that of the last to end among the first so many.
fn file_status(key: &str, path: &Path, considered: usize) -> CertificateStatus {
    let (key, file) = (key.to_owned(), path.display().to_string());
    let status = CertificateStatus { key, file, ..CertificateStatus::default() };
    let certificates = match read_certificates(path) {
        Ok(certificates) => certificates,
        Err(why) => {
            return CertificateStatus { fault: Some(format!("{} {why}", status.key)), ..status };
        }
    };
    let validity = |der: &CertificateDer<'_>| {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let validity = certificate.validity();
        Some((validity.not_before.timestamp() as f64, validity.not_after.timestamp() as f64))
    };
    let considered = certificates.iter().take(considered);
    let found = considered.filter_map(validity).max_by(|a, b| a.1.total_cmp(&b.1));
    let (begin_seconds, end_seconds) = found.unwrap_or_default();
    CertificateStatus { begin_seconds, end_seconds, ..status }
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read_file(path)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match read {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(format!("{}: holds no certificate in PEM", path.display())),
        Err(error) => Err(format!("{}: is not PEM: {error}", path.display())),
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(PEM_LEN_MAX).read_to_end(&mut bytes))
        .map_err(|error| format!("{}: cannot be read: {error}", path.display()))?;
    Ok(bytes)
}

/// The names of a verified client certificate: the DNS names and URIs among its alternative names.
/// The common name is not used (RFC 9525 §2).
fn subjects(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(read) = webpki::EndEntityCert::try_from(certificate) else { return Vec::new() };
    let names = read.valid_dns_names().chain(read.valid_uri_names());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    #[test]
    fn file_of_certificates_tells_its_fault_and_its_end() {
        let folder = test_support::folder::Folder::new("tls");
        let [cert, key] = ["cert.pem", "key.pem"].map(|name| folder.join(name));
        let write = |end: i32| {
            let mut params = CertificateParams::new(["api.example".to_owned()]).expect("a name");
            params.not_before = rcgen::date_time_ymd(2_000, 1, 1);
            params.not_after = rcgen::date_time_ymd(end, 1, 1);
            let pair = KeyPair::generate().expect("a key");
            let signed = params.self_signed(&pair).expect("signed");
            fs::write(&cert, signed.pem()).expect("written");
            fs::write(&key, pair.serialize_pem()).expect("written");
        };
        write(3_000);
        let files = Certificates { cert: cert.clone(), key: key.clone(), client_ca: None };
        let tls = Tls::open("api.tls", Protocol::Http, files).expect("certificates");
        let [of_cert] = &tls.status()[..] else { panic!("one file") };
        assert_eq!((&of_cert.fault, of_cert.end_seconds), (&None, 32_503_680_000.0));
        assert_eq!(of_cert.expiry(32_503_680_000.0 - 20.0 * 86_400.0), None);
        assert!(
            of_cert.expiry(32_503_680_000.0 - 86_400.0).is_some_and(|why| why.contains("24 h"))
        );
        fs::write(&cert, "cut").expect("written");
        tls.update();
        let fault = tls.status()[0].fault.clone().expect("a fault");
        assert!(fault.contains("cert.pem: holds no certificate"), "{fault}");
        write(2_001);
        tls.update();
        let of_cert = &tls.status()[0];
        assert_eq!((&of_cert.fault, of_cert.end_seconds), (&None, 978_307_200.0));
        assert!(of_cert.expiry(1.7e9).is_some_and(|why| why.contains("ago: renew it")));
    }

    #[test]
    fn only_a_ca_certificate_is_reported_as_one() {
        for is_marked in [true, false] {
            let mut params = CertificateParams::new(["api.example".to_owned()]).expect("a name");
            if is_marked {
                params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            }
            let key = KeyPair::generate().expect("a key");
            let certificate = params.self_signed(&key).expect("signed");
            assert_eq!(is_ca(certificate.der()), is_marked);
        }
    }
}
