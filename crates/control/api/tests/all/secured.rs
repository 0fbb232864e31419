//! TLS: authentication by certificate, and certificates that change.
use crate::scene::{Reply, Scene, receive};
use listen::{Certificates, Protocol, Tls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, Issuer, KeyPair, SanType};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use test_support::folder::Folder;

/// A certificate authority.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(
            CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key"))
                .expect("a root"),
        )
    }

    /// A certificate for a name, and its key, PEM.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        let san = match name.contains(':') {
            true => SanType::URI(name.try_into().expect("a URI")),
            false => SanType::DnsName(name.try_into().expect("a name")),
        };
        params.subject_alt_names = vec![san];
        let issuer: &Issuer<'_, KeyPair> = &self.0;
        let signed = params.signed_by(&key, issuer).expect("signed");
        (signed.pem(), key.serialize_pem())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }
}

fn files(folder: &Path, authority: &Authority, name: &str) -> Certificates {
    let (cert, key) = authority.sign(name);
    let paths = ["cert.pem", "key.pem", "ca.pem"].map(|file| folder.join(file));
    for (path, text) in paths.iter().zip([cert, key, authority.pem()]) {
        fs::write(path, text).expect("written");
    }
    let [cert, key, ca] = paths;
    Certificates { cert, key, client_ca: Some(ca) }
}

/// Sends a request over TLS with this client certificate.
fn ask(
    scene: &Scene,
    authority: &Authority,
    own: Option<&(String, String)>,
    token: &str,
) -> Option<Reply> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).expect("PEM"))
        .expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = match own {
        Some((cert, key)) => {
            let cert = CertificateDer::from_pem_slice(cert.as_bytes()).expect("PEM");
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
            builder.with_client_auth_cert(vec![cert], key).expect("a pair")
        }
        None => builder.with_no_client_auth(),
    };
    let name = ServerName::try_from("api.example").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut stream = StreamOwned::new(connection, scene.connect());
    let token = match token {
        "" => String::new(),
        token => format!("Authorization: Bearer {token}\r\n"),
    };
    let head =
        format!("GET /v1/zones HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\n{token}\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    receive(&mut stream)
}

#[test]
fn certificate_and_token_are_credentials() {
    let authority = Authority::new();
    let scene = Scene::bare(|folder| {
        Some(Arc::new(
            Tls::open("api.tls", Protocol::Http, files(folder, &authority, "api.example"))
                .expect("good files"),
        ))
    });
    scene.create("ci", &["read *"], Some("spiffe://example/ci"));
    let known = authority.sign("spiffe://example/ci");
    assert_eq!(ask(&scene, &authority, Some(&known), "").expect("a reply").status, 200);
    let unknown = authority.sign("spiffe://example/other");
    ask(&scene, &authority, Some(&unknown), "").expect("a reply").refused(401);
    ask(&scene, &authority, None, "").expect("a reply").refused(401);
    assert_eq!(ask(&scene, &authority, None, &scene.root).expect("a reply").status, 200);
    let forged = Authority::new().sign("spiffe://example/ci");
    assert!(ask(&scene, &authority, Some(&forged), "").is_none(), "signed by another CA");
    scene.revoke("ci");
    ask(&scene, &authority, Some(&known), "").expect("a reply").refused(401);
}

#[test]
fn changed_certificates_are_read_again_and_bad_ones_refused() {
    let (old, new) = (Authority::new(), Authority::new());
    let mut held = None;
    let scene = Scene::bare(|folder| {
        let tls = Arc::new(
            Tls::open("api.tls", Protocol::Http, files(folder, &old, "api.example"))
                .expect("good files"),
        );
        held = Some((Arc::clone(&tls), folder.to_owned()));
        Some(tls)
    });
    let (tls, folder) = held.expect("made");
    assert!(ask(&scene, &old, None, &scene.root).is_some());
    fs::write(folder.join("cert.pem"), "no certificate, and of another length").expect("written");
    tls.update();
    assert!(ask(&scene, &old, None, &scene.root).is_some(), "the old ones still hold");
    let _ = files(&folder, &new, "api.example");
    tls.update();
    assert!(ask(&scene, &new, None, &scene.root).is_some());
    assert!(ask(&scene, &old, None, &scene.root).is_none());
}

#[test]
fn invalid_certificate_files_are_named() {
    let authority = Authority::new();
    let folder = Folder::new("api-tls");
    let good = files(&folder, &authority, "api.example");
    let missing = Certificates { cert: folder.join("missing.pem"), ..good.clone() };
    let swapped = Certificates { key: good.cert.clone(), ..good.clone() };
    let told =
        |files: Certificates| Tls::open("api.tls", Protocol::Http, files).err().unwrap_or_default();
    assert!(told(missing).contains("missing.pem: cannot be read"));
    assert!(told(swapped).contains("cert.pem: holds no private key in PEM"));
    assert_eq!(told(good), "");
}

#[test]
fn http_to_a_tls_port_is_advised_to_use_https() {
    let authority = Authority::new();
    let scene = Scene::bare(|folder| {
        Some(Arc::new(
            Tls::open("api.tls", Protocol::Http, files(folder, &authority, "api.example"))
                .expect("good files"),
        ))
    });
    let mut stream = scene.connect();
    stream.write_all(b"GET /v1/zones HTTP/1.1\r\nHost: a\r\n\r\n").expect("connected");
    let reply = receive(&mut stream).expect("a reply");
    reply.refused(400);
    let told = reply.json();
    assert!(told["detail"].as_str().is_some_and(|text| text.contains("https://")), "{told}");
}
