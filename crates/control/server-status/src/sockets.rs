//! Datagrams that the kernel dropped before this process read them.
use std::collections::HashSet;
use std::fs;

/// Datagrams that were dropped because the buffer of a listening UDP socket of this process was
/// full, as `/proc/self/net/udp` counts them. Unreadable files count as 0.
pub fn dropped_datagrams() -> u64 {
    let Ok(files) = fs::read_dir("/proc/self/fd") else { return 0 };
    let links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    let inodes: HashSet<u64> = links.filter_map(|link| inode(link.to_str()?)).collect();
    let tables = ["/proc/self/net/udp", "/proc/self/net/udp6"];
    let text = |table: &str| fs::read_to_string(table).unwrap_or_default();
    tables.into_iter().map(|table| dropped(&text(table), &inodes)).sum()
}

/// `socket:[4711]`.
fn inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Adds up the last column of the sockets that are ours and have no peer (proc_net(5)). A socket
/// with a peer talks to an upstream.
fn dropped(table: &str, inodes: &HashSet<u64>) -> u64 {
    let of_line = |line: &str| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let (peer, inode) = (columns.get(2)?, columns.get(9)?.parse().ok()?);
        let is_ours = peer.ends_with(":0000") && inodes.contains(&inode);
        is_ours.then(|| columns.get(12)?.parse::<u64>().ok())?
    };
    table.lines().filter_map(of_line).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn listening_sockets_of_this_process_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
            uid  timeout inode ref pointer drops\n\
            1: 0100007F:14E9 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 7 2 0 12\n\
            2: 0100007F:14E9 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 8 2 0 99\n\
            3: 0100007F:14EA 0100007F:0035 01 00000000:00000000 00:00000000 00000000 0 0 9 2 0 99\n\
            4: cut off\n";
        assert_eq!(dropped(table, &HashSet::from([7, 9])), 12);
        assert_eq!(
            (inode("socket:[7]"), inode("pipe:[7]"), inode("/dev/null")),
            (Some(7), None, None)
        );
    }

    /// A socket that is not read drops what does not fit into its buffer.
    #[test]
    fn full_buffer_is_seen() {
        let [server, client] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
        let address = server.local_addr().expect("an address");
        let before = dropped_datagrams();
        for _ in 0..20_000 {
            client.send_to(&[0; 512], address).expect("sent");
        }
        assert!(dropped_datagrams() > before);
    }
}
