//! Queries to one primary: its SOA, and a transfer.
use crate::limits::{CONNECT_MAX, DATAGRAM_MAX, DATAGRAMS, STALL_MAX, TRANSFER_MAX};
use crate::message::Query;
use crate::reader::{TransferReader, Transferred};
use crate::tls::{TlsClient, TlsFiles};
use std::fmt::Display;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;
use tsig::{Exchange, Key, Unverified};
use upstream::{QueryTransport, UpstreamAddress};
use wire::{Flags, Name, Rtype};

/// A primary, the key that is shared with it, and what TLS to it needs.
pub struct Primary<'p> {
    pub address: &'p UpstreamAddress,
    pub key: Option<Arc<Key>>,
    pub tls: (&'p TlsClient, &'p TlsFiles),
}

/// A connection to a primary.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// What is known of a zone that differences can change: its serial, and the data of its SOA.
#[derive(Clone, Copy, Debug)]
pub struct KnownSoa<'k> {
    pub serial: u32,
    pub data: &'k [u8],
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Waits no longer than this.
async fn within<T, E: Display>(
    max: Duration,
    what: &str,
    awaited: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match timeout(max, awaited).await {
        Ok(done) => done.map_err(|why| format!("{what}: {why}")),
        Err(_) => Err(format!("{what}: nothing for {} s", max.as_secs())),
    }
}

impl Primary<'_> {
    /// The data of the zone's SOA there: by a datagram, or by a stream if there is no whole answer,
    /// or the address is one of streams.
    ///
    /// # Errors
    /// It does not answer, or not as it must.
    pub async fn soa(&self, zone: Name<'_>) -> Result<Vec<u8>, String> {
        let has_datagrams = self.address.over == QueryTransport::Udp;
        for _ in 0..if has_datagrams { DATAGRAMS } else { 0 } {
            let query = Query::new(zone, Rtype::SOA)?;
            // What goes wrong with datagrams, the stream says.
            if let Ok(Some(message)) = self.datagram(&query).await {
                let response = query.response(&message, true)?;
                if !response.flags.has(Flags::TC) {
                    return response.soa(zone);
                }
                break;
            }
        }
        let query = Query::new(zone, Rtype::SOA)?;
        let (mut stream, mut exchange) = self.send(&query, None).await?;
        let message = within(STALL_MAX, "no answer", receive(&mut *stream)).await?;
        let message = verify_next(&mut exchange, message)?;
        query.response(&message, true)?.soa(zone)
    }

    /// The response to a datagram, verified; `None`: none came in time. What has another ID is
    /// ignored.
    async fn datagram(&self, query: &Query) -> io::Result<Option<Vec<u8>>> {
        let any: IpAddr = match self.address.at {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).await?;
        socket.connect(self.address.at).await?;
        let (message, mut exchange) = self.signed(query, None);
        socket.send(&message).await?;
        let mut room = vec![0; usize::from(u16::MAX)];
        let receive = async {
            loop {
                let len = socket.recv(&mut room).await?;
                if query.is_answered_by(&room[..len]) {
                    // What a wrong signature says, the stream says, too, which is not as easily
                    // forged.
                    return verify_next(&mut exchange, room[..len].to_vec())
                        .map_err(io::Error::other);
                }
            }
        };
        match timeout(DATAGRAM_MAX, receive).await {
            Ok(message) => message.map(Some),
            Err(_) => Ok(None),
        }
    }

    fn signed(&self, query: &Query, known: Option<&[u8]>) -> (Vec<u8>, Option<Exchange>) {
        let mut message = query.message(known);
        let key = self.key.as_ref();
        let exchange = key.map(|key| Exchange::sign(Arc::clone(key), &mut message, now()));
        (message, exchange)
    }

    /// Sends a query over a new stream.
    async fn send(
        &self,
        query: &Query,
        known: Option<&[u8]>,
    ) -> Result<(Box<dyn Stream>, Option<Exchange>), String> {
        let connecting = TcpStream::connect(self.address.at);
        let stream = within(CONNECT_MAX, "no connection", connecting).await?;
        let mut stream: Box<dyn Stream> = match &self.address.over {
            QueryTransport::Tls(name) => {
                let (client, files) = self.tls;
                Box::new(client.connect(files, name, stream).await?)
            }
            QueryTransport::Udp | QueryTransport::Tcp => Box::new(stream),
        };
        let (message, exchange) = self.signed(query, known);
        let framed = [&(message.len() as u16).to_be_bytes()[..], &message].concat();
        within(STALL_MAX, "it takes no query", stream.write_all(&framed)).await?;
        Ok((stream, exchange))
    }

    /// Transfers a zone, as a whole, or what has changed since what is known.
    ///
    /// # Errors
    /// Why nothing of it is believed.
    pub async fn transfer(
        &self,
        zone: Name<'_>,
        known: Option<KnownSoa<'_>>,
        records_max: usize,
    ) -> Result<Transferred, String> {
        let transfer = self.read_transfer(zone, known, records_max);
        match timeout(TRANSFER_MAX, transfer).await {
            Ok(done) => done,
            Err(_) => Err(format!("it takes more than {} s", TRANSFER_MAX.as_secs())),
        }
    }

    async fn read_transfer(
        &self,
        zone: Name<'_>,
        known: Option<KnownSoa<'_>>,
        records_max: usize,
    ) -> Result<Transferred, String> {
        let rtype = if known.is_some() { Rtype::IXFR } else { Rtype::AXFR };
        let query = Query::new(zone, rtype)?;
        let (mut stream, mut exchange) = self.send(&query, known.map(|known| known.data)).await?;
        let serial = known.map(|known| known.serial);
        let mut reader = TransferReader::new(query, serial, records_max);
        loop {
            let message = within(STALL_MAX, "it stops", receive(&mut *stream)).await?;
            let message = verify_next(&mut exchange, message)?;
            if reader.push(&message)? {
                break;
            }
        }
        if exchange.is_some_and(|exchange| !exchange.is_settled()) {
            return Err(Unverified::Missing.to_string());
        }
        reader.finish()
    }
}

/// The next message of a stream.
async fn receive(stream: &mut dyn Stream) -> io::Result<Vec<u8>> {
    let mut message = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

/// The next message without its signature.
fn verify_next(exchange: &mut Option<Exchange>, message: Vec<u8>) -> Result<Vec<u8>, String> {
    match exchange {
        Some(exchange) => exchange.verify(&message, now()).map_err(|why| why.to_string()),
        None => Ok(message),
    }
}
