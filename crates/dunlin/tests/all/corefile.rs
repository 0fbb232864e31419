//! CoreDNS with a Corefile, and Dunlin with the imported config, give the same answers.
//!
//! `corefile/said.txt` holds the answers of CoreDNS. `make campaign-differential-corefile` builds
//! CoreDNS, which takes minutes, and verifies that file.
use test_support::ports;

use crate::served::{Process, Served, binary};
use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use test_support::wait;
use wire::{Name, NameBuf, Records, Rtype, skip_name};

const ZONE: &str = "$TTL 60\n@ SOA ns root 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n\
                    www A 192.0.2.2\n A 192.0.2.3\n AAAA 2001:db8::2\n@ MX 10 www\n\
                    alias CNAME www\n*.wild TXT \"any of them\"\n";
const QUESTIONS: [(&str, Rtype); 20] = [
    ("www.example.org", Rtype::A),
    ("WWW.example.org", Rtype::AAAA),
    ("www.example.org", Rtype::MX),
    ("example.org", Rtype::MX),
    ("example.org", Rtype::SOA),
    ("alias.example.org", Rtype::A),
    ("a.wild.example.org", Rtype::TXT),
    ("absent.example.org", Rtype::A),
    ("printer.lan", Rtype::A),
    ("printer.lan", Rtype::AAAA),
    ("two.lan", Rtype::A),
    ("9.2.0.192.in-addr.arpa", Rtype::PTR),
    ("n1.up.test", Rtype::A),
    ("n2.up.test", Rtype::A),
    ("n2.up.test", Rtype::A),
    ("absent.up.test", Rtype::A),
    ("absent.up.test", Rtype::AAAA),
    ("n7.deep.below.up.test", Rtype::A),
    ("n3.stop.test", Rtype::A),
    (".", Rtype::A),
];

/// The recorded answers of CoreDNS, in the form of [`ask_all`].
const SAID: &str = include_str!("corefile/said.txt");

/// The answers of a server: for each query the RCODE, and a line for each record without its TTL.
fn ask_all(server: SocketAddr) -> Vec<String> {
    let said = |(name, rtype)| {
        let said = ask(server, name, rtype).unwrap_or_else(|| panic!("nothing is said of {name}"));
        format!("{name} {rtype}: {said}")
    };
    QUESTIONS.map(said).to_vec()
}

fn ask(server: SocketAddr, name: &str, rtype: Rtype) -> Option<String> {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let name = NameBuf::from_text(name.as_bytes(), Name::ROOT).expect("a name");
    query.extend(name.as_name().as_bytes());
    query.extend(rtype.0.to_be_bytes());
    query.extend([0, 1]);
    socket.send_to(&query, server).expect("sent");
    let mut reply = [0; 4096];
    let len = socket.recv(&mut reply).ok()?;
    let reply = &reply[..len];
    let answers_at = skip_name(reply, 12).expect("a question") + 4;
    let count = u16::from_be_bytes([reply[6], reply[7]]);
    let records = Records::new(reply, answers_at, count.into()).map(|record| {
        let record = record.expect("a record");
        let data = record.expand(&mut [0; 4096]).expect("data").to_ascii_lowercase();
        let digits: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
        format!(" {} {digits}", record.rtype)
    });
    let records: BTreeSet<String> = records.collect();
    Some(format!("{}{}", reply[3] & 15, Vec::from_iter(records).concat()))
}

/// An upstream: names that begin with `n` have an address, others do not exist.
fn other() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("bound");
    std::thread::spawn(move || {
        let mut buf = [0; 1500];
        while let Ok((len, from)) = socket.recv_from(&mut buf) {
            let Ok(end) = skip_name(&buf[..len], 12) else { continue };
            let mut reply = buf[..end + 4].to_vec();
            let (digit, is_there) = (buf[14], buf[13] | 0x20 == b'n');
            reply[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0]);
            if is_there {
                reply[7] = 1;
                reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 0, 0, digit]);
            } else {
                (reply[3], reply[9]) = (0x83, 1);
                reply.extend([0, 0, 6, 0, 1, 0, 0, 0, 60, 0, 22, 0, 0]);
                reply.extend([0; 16]);
                reply.extend([0, 0, 0, 60]);
            }
            // The client may be gone.
            let _ = socket.send_to(&reply, from);
        }
    });
    address
}

#[test]
fn imported_config_gives_the_answers_of_coredns() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("corefile");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let theirs = SocketAddr::from(ports::free_address(Ipv4Addr::LOCALHOST));
    let (port, up) = (theirs.port(), other());
    let corefile = format!(
        "example.org:{port} {{\n bind 127.0.0.1\n file example.org.zone\n}}\n\
         .:{port} {{\n bind 127.0.0.1\n hosts {{\n  192.0.2.9 printer.lan\n  192.0.2.10 two.lan\n  \
         192.0.2.11 two.lan\n  fallthrough\n }}\n forward . {up}\n cache 60\n loadbalance\n}}\n"
    );
    fs::write(folder.join("Corefile"), &corefile).expect("written");
    fs::write(folder.join("example.org.zone"), ZONE).expect("written");
    let words = ["import", "corefile", "Corefile", "--folder", "imported"];
    let output = binary().args(words).current_dir(&folder).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    // The path of the binary differs.
    if let Some(coredns) = std::env::var_os("COREDNS") {
        let mut command = Command::new(coredns);
        command.args(["-conf", "Corefile"]).current_dir(&folder).stdout(Stdio::null());
        let _coredns = Process(command.spawn().expect("it runs"));
        wait::until("an answer of CoreDNS", || ask(theirs, "ns.example.org", Rtype::A));
        assert_eq!(ask_all(theirs), Vec::from_iter(SAID.lines()), "CoreDNS has changed its mind");
    }
    // Other addresses and paths; the rest is as imported.
    let config = fs::read_to_string(folder.join("imported/dunlin.toml")).expect("a config");
    let listen = format!("[server]\nlisten = [\"127.0.0.1:{port}\"]\n");
    assert!(config.starts_with(&listen), "{config}");
    let config = format!("{}\n[admin]\nsocket = \"\"\n", config.replace(&listen, ""));
    let hosts = fs::read_to_string(folder.join("imported/hosts")).expect("a file");
    let files = [("example.org.zone", ZONE), ("hosts", hosts.as_str())];
    let served = Served::start("corefile_served", &config, &files);
    assert_eq!(ask_all(served.address), Vec::from_iter(SAID.lines()), "{corefile}\n{config}");
}
