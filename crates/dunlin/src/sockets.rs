//! The sockets questions come in by. They are opened here, so that a failure can say what to do,
//! and handed to those who own them.
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

/// Lets this process open as many files as it may at all: each stream is one, and the usual lower
/// bound is less than the streams that are let in.
pub fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, limit = limit.current, "the limit of open files stays as it was");
    }
}

/// What one address is served by.
#[derive(Debug)]
pub struct Listening {
    /// The address, its port known.
    pub address: SocketAddr,
    pub streams: TcpListener,
    /// One for each worker, in their order.
    pub datagrams: Vec<OwnedFd>,
}

/// An address could not be taken.
#[derive(Debug)]
pub struct BindError {
    address: SocketAddr,
    protocol: &'static str,
    error: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, protocol, error } = self;
        write!(f, "cannot listen on {address} ({protocol}): {error}")?;
        let port = address.port();
        match Errno::from_io_error(error) {
            Some(Errno::ACCESS | Errno::PERM) => write!(
                f,
                "; ports below 1024 take a privilege: grant it by `setcap \
                 cap_net_bind_service=+ep` on the binary or by AmbientCapabilities in the systemd \
                 unit, or lower the bound by `sysctl net.ipv4.ip_unprivileged_port_start={port}`"
            ),
            Some(Errno::ADDRINUSE) => write!(
                f,
                "; another server is there: `ss -lntup 'sport = :{port}'` tells which; if it keeps \
                 one address only, such as 127.0.0.53, list the others in [server] listen"
            ),
            Some(Errno::ADDRNOTAVAIL) => {
                write!(f, "; this machine has no such address: `ip address` lists those it has")
            }
            _ => Ok(()),
        }
    }
}

impl std::error::Error for BindError {}

/// Opens a listener and `workers` UDP sockets on each address. Where the machine has no IPv6,
/// `[::]` is left out if others remain.
///
/// # Errors
/// The first address that cannot be taken.
pub fn open(addresses: &[SocketAddr], workers: usize) -> Result<Vec<Listening>, BindError> {
    let mut all = Vec::new();
    for address in addresses {
        match listen(*address, workers) {
            Err(BindError { error, .. })
                if address.is_ipv6()
                    && address.ip().is_unspecified()
                    && addresses.iter().any(SocketAddr::is_ipv4)
                    && Errno::from_io_error(&error) == Some(Errno::AFNOSUPPORT) =>
            {
                tracing::warn!(%address, "not served: this machine has no IPv6");
            }
            listening => all.push(listening?),
        }
    }
    Ok(all)
}

fn listen(address: SocketAddr, workers: usize) -> Result<Listening, BindError> {
    let failed = |protocol| move |error| BindError { address, protocol, error };
    // TCP first: UDP sockets share an address with those of another process of the same user
    // without complaint, and would share its questions too.
    let streams = plane::listen(address).map_err(failed("TCP"))?;
    let address = streams.local_addr().map_err(failed("TCP"))?;
    let datagrams = (0..workers).map(|_| port_socket::bind(address)).collect::<Result<_, _>>();
    Ok(Listening { address, streams, datagrams: datagrams.map_err(failed("UDP"))? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(address: &str) -> String {
        let address = address.parse().expect("an address");
        open(&[address], 1).map(drop).expect_err("not to be had").to_string()
    }

    #[test]
    fn all_sockets_of_an_address_have_its_port() {
        let [v4, v6] = ["127.0.0.1:0", "[::1]:0"].map(|a| a.parse().expect("an address"));
        let all = open(&[v4, v6], 3).expect("loopback can be listened on");
        for listening in all {
            assert_eq!(listening.datagrams.len(), 3);
            for datagram in &listening.datagrams {
                let bound = rustix::net::getsockname(datagram).expect("a bound socket");
                assert_eq!(SocketAddr::try_from(bound).expect("an IP"), listening.address);
            }
        }
    }

    #[test]
    fn both_families_may_listen_everywhere() {
        let port = open(&["127.0.0.1:0".parse().expect("an address")], 1).expect("a free port")[0]
            .address
            .port();
        let both = [format!("0.0.0.0:{port}"), format!("[::]:{port}")];
        let both = both.map(|a| a.parse().expect("an address"));
        assert_eq!(open(&both, 2).expect("both can be listened on").len(), 2);
    }

    #[test]
    fn a_failure_says_what_to_do() {
        let taken = open(&["127.0.0.1:0".parse().expect("an address")], 1).expect("a free port");
        let text = told(&taken[0].address.to_string());
        assert!(text.contains("(TCP)") && text.contains("another server"), "{text}");
        let text = told("192.0.2.1:5300");
        assert!(text.contains("192.0.2.1:5300") && text.contains("ip address"), "{text}");
    }
}
