//! Makes single probes. Each has one socket or process, one deadline, and bounded buffers.
mod after_request;
mod dns;
mod grpc;
mod http;
mod icmp;
mod post;
mod script;
mod tls;

pub use post::post;

use crate::check::{Check, CheckKind};
use crate::outcome::{Failure, FindUser, Passed};
use script::Scripts;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// What the probes of a check need besides it.
#[derive(Clone)]
enum Prepared {
    /// How the server is verified.
    Tls(TlsConnector),
    /// The user and the group of a script.
    User(u32, u32),
}

/// What probes need besides the checks.
#[derive(Clone)]
pub struct Probes {
    /// By the name of the check.
    prepared: Arc<HashMap<String, Prepared>>,
    find_user: FindUser,
    scripts: Arc<Scripts>,
}

impl Probes {
    /// Reads the CA certificates of the checks, and finds the users of scripts.
    ///
    /// # Errors
    /// The check, and why it cannot be used.
    pub fn new<'c>(
        checks: impl IntoIterator<Item = &'c Check>,
        find_user: FindUser,
    ) -> Result<Self, String> {
        let mut probes = Self { prepared: Arc::default(), find_user, scripts: Arc::default() };
        for check in checks {
            probes.insert(check).map_err(|why| format!("[check.{}] {why}", check.name))?;
        }
        Ok(probes)
    }

    /// Prepares a check; one of this name from before is replaced.
    ///
    /// # Errors
    /// The key of the check, and why it cannot be used.
    pub fn insert(&mut self, check: &Check) -> Result<(), String> {
        let prepared = match &check.kind {
            CheckKind::Script(script) => {
                let (uid, gid) =
                    (self.find_user)(&script.user).map_err(|why| format!("user: {why}"))?;
                Some(Prepared::User(uid, gid))
            }
            kind => {
                let protocol: &[u8] = match kind {
                    CheckKind::Grpc(_) => b"h2",
                    _ => b"http/1.1",
                };
                let connector = check.tls().map(|(tls, _)| tls::connector(tls, protocol));
                connector.transpose().map_err(|why| format!("ca: {why}"))?.map(Prepared::Tls)
            }
        };
        let all = Arc::make_mut(&mut self.prepared);
        match prepared {
            Some(prepared) => drop(all.insert(check.name.clone(), prepared)),
            None => drop(all.remove(&check.name)),
        }
        Ok(())
    }

    /// Forgets a check.
    pub fn remove(&mut self, check: &str) {
        Arc::make_mut(&mut self.prepared).remove(check);
    }

    /// Probes an address once.
    ///
    /// # Errors
    /// Why it did not pass.
    pub async fn probe(&self, check: &Check, address: IpAddr) -> Result<Passed, Failure> {
        let late = || Err(format!("no result within {} ms", check.timeout.as_millis()).into());
        timeout(check.timeout, self.exchange(check, address)).await.unwrap_or_else(|_| late())
    }

    async fn exchange(&self, check: &Check, address: IpAddr) -> Result<Passed, Failure> {
        let target = SocketAddr::new(address, check.port);
        match &check.kind {
            CheckKind::Dns(query) => dns::exchange(query, target).await?,
            CheckKind::Icmp => icmp::echo(address).await?,
            CheckKind::Script(script) => match self.prepared.get(&check.name) {
                Some(Prepared::User(uid, gid)) => {
                    self.scripts.run(script, (*uid, *gid), target).await?;
                }
                _ => return Err(Failure::NotMade("its user is not known".into())),
            },
            CheckKind::Tcp => drop(connect(target).await?),
            CheckKind::Http(_) | CheckKind::Grpc(_) => {
                return self.request(check, target).await;
            }
        }
        Ok(Passed::default())
    }

    /// A check over a connection, with TLS or without.
    async fn request(&self, check: &Check, target: SocketAddr) -> Result<Passed, Failure> {
        let stream = connect(target).await?;
        let Some((of_check, host)) = check.tls() else {
            return match &check.kind {
                CheckKind::Grpc(grpc) => grpc::exchange(grpc, target, stream).await,
                CheckKind::Http(http) => http::exchange(http, target, stream).await,
                _ => Ok(()),
            }
            .map(|()| Passed::default());
        };
        let name = tls::server_name(of_check, host, target.ip())?;
        let stream = self.secured(&check.name, name, stream).await?;
        let certificate_end = tls::certificate_end(&stream);
        match &check.kind {
            CheckKind::Grpc(grpc) => grpc::exchange(grpc, target, stream).await?,
            CheckKind::Http(http) => http::exchange(http, target, stream).await?,
            _ => {}
        }
        Ok(Passed { certificate_end })
    }

    async fn secured(
        &self,
        check: &str,
        name: rustls::pki_types::ServerName<'static>,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, Failure> {
        let Some(Prepared::Tls(connector)) = self.prepared.get(check) else {
            return Err(Failure::NotMade("TLS is not set up".into()));
        };
        let connected = connector.connect(name, stream).await;
        connected.map_err(|error| format!("TLS: {error}").into())
    }
}

/// Opens a connection that leaves nothing behind when it is closed.
async fn connect(target: SocketAddr) -> Result<TcpStream, Failure> {
    let stream = TcpStream::connect(target)
        .await
        .map_err(|error| Failure::of_socket("connecting", &error))?;
    // A reset: thousands of closed connections would each keep a port for a minute.
    let _ = stream.set_zero_linger();
    Ok(stream)
}
