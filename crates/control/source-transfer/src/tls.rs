//! TLS to primaries (RFC 9103): the files that it needs, and connections.
use crate::limits::{CONNECT_MAX, TLS_FILES_INTERVAL};
use listen::{Certificates, Protocol, client_config};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use upstream::pki_types::ServerName;

/// The files for TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The CAs of primaries, PEM; `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// The certificate that primaries see, with its key.
    pub own: Option<Certificates>,
}

/// Connects by TLS. Reads the files again once in [`TLS_FILES_INTERVAL`], so that renewed ones are
/// used.
#[derive(Default)]
pub struct TlsClient(Mutex<Option<ReadFiles>>);

struct ReadFiles {
    files: TlsFiles,
    at: Instant,
    connector: TlsConnector,
}

impl TlsClient {
    /// Makes a connection to the server whose certificate has this name.
    ///
    /// # Errors
    /// A file is invalid, or there is no handshake.
    pub async fn connect(
        &self,
        files: &TlsFiles,
        name: &ServerName<'static>,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, String> {
        let handshake = self.connector(files)?.connect(name.clone(), stream);
        match timeout(CONNECT_MAX, handshake).await {
            Ok(done) => done.map_err(|why| format!("no TLS: {why}")),
            Err(_) => Err(format!("no TLS: nothing for {} s", CONNECT_MAX.as_secs())),
        }
    }

    fn connector(&self, files: &TlsFiles) -> Result<TlsConnector, String> {
        let mut read = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*read
            && known.files == *files
            && known.at.elapsed() < TLS_FILES_INTERVAL
        {
            return Ok(known.connector.clone());
        }
        let config = client_config(Protocol::Transfer, files.ca.as_deref(), files.own.as_ref())?;
        let connector = TlsConnector::from(Arc::new(config));
        let (files, at) = (files.clone(), Instant::now());
        *read = Some(ReadFiles { files, at, connector: connector.clone() });
        Ok(connector)
    }
}
