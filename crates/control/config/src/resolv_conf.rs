//! Servers from a file in the format of resolv.conf(5).
use crate::ServerAddress;
use forward::limits::GROUP_LEN_MAX;
use std::net::{IpAddr, SocketAddr};

/// The port of each server.
const PORT: u16 = 53;

/// The servers that the text names, without repetitions, at most [`GROUP_LEN_MAX`]. What concerns
/// the resolver of the C library (`search`, `options`) and lines that cannot be read are ignored,
/// as that resolver does.
pub fn read_nameservers(text: &str) -> Vec<ServerAddress> {
    let mut servers: Vec<ServerAddress> = Vec::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some("nameserver"), Some(word)) = (words.next(), words.next()) else { continue };
        let Some(at) = address(word) else { continue };
        let server = ServerAddress::over_udp(word, at);
        if !servers.contains(&server) && servers.len() < GROUP_LEN_MAX {
            servers.push(server);
        }
    }
    servers
}

fn address(word: &str) -> Option<SocketAddr> {
    match word.split_once('%') {
        // The kernel's number of the interface; names are not looked up.
        Some((_, scope)) => format!("[{}%{scope}]:{PORT}", word.split('%').next()?).parse().ok(),
        None => word.parse::<IpAddr>().ok().map(|address| (address, PORT).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_and_everything_else_is_ignored() {
        let text = "# nameserver 192.0.2.9\n;nameserver 192.0.2.9\nsearch a.example b.example\n\
                    nameserver\t192.0.2.1 # the first\nnameserver 2001:db8::1\r\n\
                    options ndots:5 trust-ad\nnameserver fe80::1%2\nnameserver fe80::1%eth0\n\
                    nameserver dns.example\nnameserver\nnameserver 192.0.2.1\n\x20\
                    nameserver 192.0.2.2";
        let read: Vec<_> =
            read_nameservers(text).iter().map(|server| server.address.at.to_string()).collect();
        let expected = ["192.0.2.1:53", "[2001:db8::1]:53", "[fe80::1%2]:53", "192.0.2.2:53"];
        assert_eq!(read, expected);
        let many: String = (0..40).map(|host| format!("nameserver 192.0.2.{host}\n")).collect();
        assert_eq!(read_nameservers(&many).len(), GROUP_LEN_MAX);
        assert!(read_nameservers("").is_empty());
    }
}
