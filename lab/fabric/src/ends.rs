//! Where two ends meet: a listener that the server's process gets, and how the client reaches it.
use crate::limits::PATIENCE;
use crate::ring_buffer::{Memory, connection};
use crate::spaces::Spaces;
use crate::stream::{RingStream, Stream};
use crate::{Result, Way, failed};
use lab_host::namespace::within;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// How a client reaches the server.
enum Address {
    Ring(Arc<Memory>, bool),
    Unix(UnixAddress),
    Ip(SocketAddr, Option<String>),
}

/// A server's end, and how to reach it.
pub struct Ends {
    /// What the server accepts connections, or receives datagrams, from.
    server: OwnedFd,
    address: Address,
}

/// Sends a datagram.
pub type SendDatagram = Box<dyn Fn(&[u8]) + Send>;

/// How to reach a server.
pub struct ClientEnds(Address);

/// A name that no file has.
fn unix_name() -> Result<UnixAddress> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("dunlin-lab-{}-{number}", std::process::id());
    UnixAddress::from_abstract_name(name).map_err(failed("a name of a Unix socket"))
}

/// Where a server listens: its namespace and address.
fn place(way: Way, spaces: Option<&Spaces>) -> Result<(Option<String>, Option<String>, Ipv4Addr)> {
    if !way.has_spaces() {
        return Ok((None, None, Ipv4Addr::LOCALHOST));
    }
    let [client, server] = spaces.ok_or("a bridge needs namespaces")?.hosts();
    Ok((Some(client), Some(server), Spaces::SERVER))
}

impl Ends {
    /// Ends of streams.
    ///
    /// # Errors
    /// The kernel refuses one.
    pub fn streams(
        way: Way,
        connections: usize,
        is_same_cpu: bool,
        spaces: Option<&Spaces>,
    ) -> Result<Self> {
        match way {
            Way::Threads | Way::Ring => {
                let (memory, server) = Memory::new(connections).map_err(failed("shared memory"))?;
                Ok(Self { server, address: Address::Ring(memory, is_same_cpu) })
            }
            Way::Unix => {
                let name = unix_name()?;
                let listener = UnixListener::bind_addr(&name).map_err(failed("a Unix socket"))?;
                Ok(Self { server: listener.into(), address: Address::Unix(name) })
            }
            Way::Loopback | Way::Bridge | Way::Switch => {
                let (client, server, ip) = place(way, spaces)?;
                let listen = || TcpListener::bind((ip, 0)).map_err(failed("a TCP socket"));
                let listener = within(server.as_deref(), listen)?;
                let address = listener.local_addr().map_err(failed("a TCP socket"))?;
                Ok(Self { server: listener.into(), address: Address::Ip(address, client) })
            }
        }
    }

    /// Ends of datagrams; rings have none.
    ///
    /// # Errors
    /// As [`Self::streams`].
    pub fn datagrams(way: Way, spaces: Option<&Spaces>) -> Result<Self> {
        if way == Way::Unix {
            let name = unix_name()?;
            let socket = UnixDatagram::bind_addr(&name).map_err(failed("a Unix socket"))?;
            return Ok(Self { server: socket.into(), address: Address::Unix(name) });
        }
        let (client, server, ip) = place(way, spaces)?;
        let bind = || UdpSocket::bind((ip, 0)).map_err(failed("a UDP socket"));
        let socket = within(server.as_deref(), bind)?;
        let address = socket.local_addr().map_err(failed("a UDP socket"))?;
        Ok(Self { server: socket.into(), address: Address::Ip(address, client) })
    }

    /// The server's end, and how to reach it.
    pub fn split(self) -> (OwnedFd, ClientEnds) {
        (self.server, ClientEnds(self.address))
    }
}

impl ClientEnds {
    /// The client's end of a stream.
    ///
    /// # Errors
    /// The server is not reached.
    pub fn connect(&self, number: usize) -> Result<Stream> {
        match &self.0 {
            Address::Ring(memory, is_same_cpu) => {
                let ends = connection(memory, number, false);
                Ok(Stream::Ring(RingStream::new(ends, *is_same_cpu)))
            }
            Address::Unix(name) => {
                let stream = UnixStream::connect_addr(name).map_err(failed("cannot connect"))?;
                limited_unix(stream)
            }
            Address::Ip(address, space) => {
                let connect = || TcpStream::connect(address).map_err(failed("cannot connect"));
                limited_tcp(within(space.as_deref(), connect)?)
            }
        }
    }

    /// The client's end for datagrams, as a function that sends one.
    ///
    /// # Errors
    /// The kernel refuses a socket.
    pub fn sender(&self) -> Result<SendDatagram> {
        match &self.0 {
            Address::Unix(name) => {
                let socket = UnixDatagram::unbound().map_err(failed("a Unix socket"))?;
                socket.connect_addr(name).map_err(failed("cannot connect"))?;
                socket.set_write_timeout(Some(PATIENCE)).map_err(failed("a Unix socket"))?;
                Ok(Box::new(move |bytes| drop(socket.send(bytes))))
            }
            Address::Ip(address, space) => {
                let bind = || {
                    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
                    let socket = socket.map_err(failed("a UDP socket"))?;
                    socket.connect(address).map_err(failed("cannot connect"))?;
                    Ok(socket)
                };
                let socket = within(space.as_deref(), bind)?;
                // What is dropped is not counted: the receiver counts.
                Ok(Box::new(move |bytes| drop(socket.send(bytes))))
            }
            Address::Ring(..) => Err("a ring has no datagrams".into()),
        }
    }
}

fn limited_unix(stream: UnixStream) -> Result<Stream> {
    let limits = stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
    limits.map_err(failed("a Unix socket"))?;
    Ok(Stream::Unix(stream))
}

fn limited_tcp(stream: TcpStream) -> Result<Stream> {
    let limits = stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
        .and_then(|()| stream.set_nodelay(true));
    limits.map_err(failed("a TCP socket"))?;
    Ok(Stream::Tcp(stream))
}

/// The server's ends of all connections.
///
/// # Errors
/// The kernel refuses one.
pub fn accept(
    way: Way,
    server: OwnedFd,
    connections: usize,
    is_same_cpu: bool,
) -> Result<Vec<Stream>> {
    match way {
        Way::Threads | Way::Ring => {
            let memory = Memory::open(server).map_err(failed("shared memory"))?;
            let one = |number| {
                Stream::Ring(RingStream::new(connection(&memory, number, true), is_same_cpu))
            };
            Ok((0..connections).map(one).collect())
        }
        Way::Unix => {
            let listener = UnixListener::from(server);
            let accept = |_| limited_unix(listener.accept().map_err(failed("cannot accept"))?.0);
            (0..connections).map(accept).collect()
        }
        Way::Loopback | Way::Bridge | Way::Switch => {
            let listener = TcpListener::from(server);
            let accept = |_| limited_tcp(listener.accept().map_err(failed("cannot accept"))?.0);
            (0..connections).map(accept).collect()
        }
    }
}
