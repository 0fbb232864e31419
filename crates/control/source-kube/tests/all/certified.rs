//! The certificates of an API server change while it is watched.
use crate::world::write_kubeconfig;
use kube_api::lying::block;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use source_kube::client::{Access, Connection};
use source_kube::failure::Cause;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use test_support::folder::Folder;

/// The config of a server with a certificate of a new authority, and the authority as PEM.
fn certified() -> (Arc<ServerConfig>, String) {
    let key = || KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, key()).expect("an authority");
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
    let own = key();
    let certificate = params.signed_by(&own, &ca).expect("signed");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            own.serialize_der().try_into().expect("a key"),
        )
        .expect("a config");
    (Arc::new(config), ca.pem())
}

/// Answers each request with an empty object. It ends with the process.
fn serve(config: Arc<Mutex<Arc<ServerConfig>>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let config = Arc::clone(&config.lock().expect("no panic"));
            let mut session = rustls::ServerConnection::new(config).expect("a session");
            let mut stream = rustls::Stream::new(&mut session, &mut stream);
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
            if stream.read(&mut [0; 4096]).is_ok() {
                let _ = stream.write_all(head.as_bytes());
            }
        }
    });
    port
}

#[test]
fn a_new_authority_in_the_file_of_a_kubeconfig_is_followed() {
    let folder = Folder::new("authority");
    let (kubeconfig, file) = (folder.join("kubeconfig"), folder.join("ca.crt"));
    let (config, ca) = certified();
    let current = Arc::new(Mutex::new(config));
    let server = format!("https://127.0.0.1:{}", serve(Arc::clone(&current)));
    fs::write(&file, ca).expect("written");
    write_kubeconfig(&kubeconfig, &server, "    certificate-authority: ca.crt\n");
    let access = Access { kubeconfig: Some(kubeconfig), context: String::new() };
    let connection = Connection::new(access);
    block(async {
        let get = || connection.get("/version", "get", "the version");
        get().await.expect("the first authority");
        let (config, ca) = certified();
        *current.lock().expect("no panic") = config;
        let failure = get().await.expect_err("the authority is not known");
        assert_eq!(failure.cause, Cause::Connection, "{failure}");
        fs::write(&file, ca).expect("written");
        get().await.expect("the new authority");
    });
}
