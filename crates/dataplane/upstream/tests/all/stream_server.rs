//! Servers that answer over streams, with certificates of all kinds.
#![allow(dead_code, reason = "each test needs some of it")]
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use upstream::pki_types::ServerName;
use upstream::{QueryTransport, TrustAnchors, UpstreamAddress};

/// One end of a connection, and its number at the server.
pub struct End {
    stream: Box<dyn ReadWrite>,
    pub number: usize,
}

trait ReadWrite: Read + Write + Send {}
impl<T: Read + Write + Send> ReadWrite for T {}

impl End {
    /// The next query; `None`: the other end has closed.
    pub fn next_query(&mut self) -> Option<Vec<u8>> {
        let mut len = [0; 2];
        self.stream.read_exact(&mut len).ok()?;
        let mut query = vec![0; u16::from_be_bytes(len).into()];
        self.stream.read_exact(&mut query).ok()?;
        Some(query)
    }

    pub fn send(&mut self, message: &[u8]) {
        self.send_raw(&[&(message.len() as u16).to_be_bytes()[..], message].concat());
    }

    pub fn send_raw(&mut self, bytes: &[u8]) {
        // A client that has closed receives nothing.
        let _ = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
    }

    /// Waits until the other end closes.
    pub fn wait(&mut self) {
        while self.stream.read(&mut [0; 4096]).is_ok_and(|len| len > 0) {}
    }
}

/// A query as it is sent by datagram: without options.
pub fn plain(query: &[u8]) -> Vec<u8> {
    let name_len = query[12..].iter().position(|byte| *byte == 0).unwrap() + 1;
    let opt_at = 12 + name_len + 4;
    let mut query = query[..opt_at + 11].to_vec();
    query[opt_at + 9..].fill(0);
    query
}

/// A server on loopback, a thread for each connection.
pub struct StreamServer {
    pub address: SocketAddr,
    pub opened: Arc<AtomicUsize>,
    /// How each TLS session began.
    pub sessions: Arc<Mutex<Vec<rustls::HandshakeKind>>>,
}

impl StreamServer {
    /// One that calls `act` for each connection.
    pub fn start(act: impl Fn(&mut End) + Send + Sync + 'static) -> Self {
        Self::start_tls(None, act)
    }

    pub fn start_tls(
        tls: Option<Arc<ServerConfig>>,
        act: impl Fn(&mut End) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            opened: Arc::default(),
            sessions: Arc::default(),
        };
        let (opened, sessions) = (Arc::clone(&server.opened), Arc::clone(&server.sessions));
        let act = Arc::new(act);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                stream.set_nodelay(true).unwrap();
                let number = opened.fetch_add(1, Ordering::SeqCst);
                let (act, sessions, tls) = (Arc::clone(&act), Arc::clone(&sessions), tls.clone());
                thread::spawn(move || {
                    let stream: Box<dyn ReadWrite> = match tls {
                        None => Box::new(stream),
                        Some(tls) => match handshake(tls, stream, &sessions) {
                            Some(stream) => Box::new(stream),
                            None => return,
                        },
                    };
                    act(&mut End { stream, number });
                });
            }
        });
        server
    }

    pub fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    pub fn tcp(&self) -> UpstreamAddress {
        UpstreamAddress { at: self.address, over: QueryTransport::Tcp }
    }

    pub fn tls(&self, name: &str) -> UpstreamAddress {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        UpstreamAddress { at: self.address, over: QueryTransport::Tls(name) }
    }
}

type TlsClient = StreamOwned<ServerConnection, TcpStream>;

fn handshake(
    config: Arc<ServerConfig>,
    mut stream: TcpStream,
    sessions: &Mutex<Vec<rustls::HandshakeKind>>,
) -> Option<TlsClient> {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut connection = ServerConnection::new(config).unwrap();
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).ok()?;
    }
    sessions.lock().unwrap().extend(connection.handshake_kind());
    Some(StreamOwned::new(connection, stream))
}

/// Who signs certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// The validity of a certificate.
#[derive(Clone, Copy, Default)]
pub struct CertificateOptions {
    pub is_expired: bool,
    pub is_early: bool,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// The trust anchors of its certificates.
    pub fn trust(&self) -> Option<TrustAnchors> {
        TrustAnchors::new([self.0.der().clone()])
    }

    /// For a server of this name or address.
    pub fn sign(&self, name: &str, options: CertificateOptions) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(if options.is_early { 2999 } else { 1999 }, 1, 1);
        params.not_after = date_time_ymd(if options.is_expired { 2000 } else { 3000 }, 1, 1);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"dot".to_vec()];
        Arc::new(config)
    }
}
