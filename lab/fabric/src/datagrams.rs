//! Datagrams that are counted where they arrive.
use crate::limits::{PACKET_BYTES, PATIENCE, SILENCE};
use crate::{Result, Way, Work, failed};
use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

/// Receives until none comes.
///
/// # Errors
/// The kernel refuses.
pub fn receive(way: Way, server: OwnedFd) -> Result<Work> {
    if way == Way::Unix {
        let socket = UnixDatagram::from(server);
        let limit = |time| socket.set_read_timeout(Some(time));
        return count(limit, |bytes| socket.recv(bytes));
    }
    let socket = UdpSocket::from(server);
    count(|time| socket.set_read_timeout(Some(time)), |bytes| socket.recv(bytes))
}

fn count(
    limit: impl Fn(Duration) -> io::Result<()>,
    receive: impl Fn(&mut [u8]) -> io::Result<usize>,
) -> Result<Work> {
    let mut bytes = [0; PACKET_BYTES];
    let told = failed("cannot receive");
    limit(PATIENCE).map_err(&told)?;
    receive(&mut bytes).map_err(&told)?;
    limit(SILENCE).map_err(&told)?;
    let begin = Instant::now();
    let (mut units, mut last) = (0, begin);
    loop {
        match receive(&mut bytes) {
            Ok(_) => {
                units += 1;
                last = Instant::now();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(told(error)),
        }
    }
    Ok(Work { units, seconds: (last - begin).as_secs_f64().max(1e-9) })
}
