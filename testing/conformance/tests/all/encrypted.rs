//! Unbound, asked by Dunlin over TLS: what it says comes through, few connections carry it, its
//! death and return lose nothing where another one is left, and one whose certificate is wrong is
//! told nothing.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use conformance::client::{ask_tcp, ask_udp};
use conformance::environment::{TestFolder, all_present, number, present};
use conformance::limits::{PATIENCE_LONG, Patience};
use conformance::names::{Name, name};
use conformance::ports::free_address;
use conformance::queries::{Query, QueryGenerator};
use conformance::reply::Reply;
use conformance::server::{Launch, Server, Software};
use conformance::world::World;
use domain::base::iana::{Class, Rtype};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use test_support::wait;

/// RD.
const FLAGS: u16 = 0x0100;
const SERVFAIL: u16 = 2;
const NAME: &str = "dns.example";
const UNTRUSTED: &str = "not signed by a trusted CA";

/// Who signs, and the files it left.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: PathBuf,
}

impl Authority {
    fn new(directory: &Path) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::create_dir_all(directory).unwrap();
        std::fs::write(directory.join("ca.pem"), issuer.pem()).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![NAME.to_owned()]).unwrap();
        let certificate = certificate.signed_by(&key, &issuer).unwrap();
        std::fs::write(directory.join("server.pem"), certificate.pem()).unwrap();
        std::fs::write(directory.join("server.key"), key.serialize_pem()).unwrap();
        Self { issuer, directory: directory.to_owned() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// An Unbound that asks a server for everything, and is asked by TLS and without.
struct Unbound {
    plain: SocketAddrV4,
    tls: SocketAddrV4,
    binary: PathBuf,
    directory: PathBuf,
    child: Child,
}

impl Unbound {
    fn start(binary: &Path, directory: &Path, authority: &Authority, whom: SocketAddrV4) -> Self {
        std::fs::create_dir_all(directory).unwrap();
        let [plain, tls] = [(); 2].map(|()| free_address(Ipv4Addr::LOCALHOST));
        let text = format!(
            "server:\n directory: {directory:?}\n chroot: \"\"\n username: \"\"\n pidfile: \"\"\n \
             interface: {}@{}\n interface: {}@{}\n tls-port: {}\n tls-service-key: {:?}\n \
             tls-service-pem: {:?}\n do-not-query-localhost: no\n module-config: \"iterator\"\n \
             use-syslog: no\n num-threads: 1\n incoming-num-tcp: 100\n qname-minimisation: no\n \
             local-zone: \"test.\" nodefault\n\
             remote-control:\n control-enable: no\n\
             forward-zone:\n name: \".\"\n forward-addr: {}@{}\n",
            plain.ip(),
            plain.port(),
            tls.ip(),
            tls.port(),
            tls.port(),
            authority.file("server.key"),
            authority.file("server.pem"),
            whom.ip(),
            whom.port(),
        );
        std::fs::write(directory.join("config"), text).unwrap();
        let (binary, directory) = (binary.to_owned(), directory.to_owned());
        let child = spawn(&binary, &directory);
        let server = Self { plain, tls, binary, directory, child };
        server.wait();
        server
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn restart(&mut self) {
        self.child = spawn(&self.binary, &self.directory);
        self.wait();
    }

    fn wait(&self) {
        let log = self.directory.join("log");
        wait_for(self.tls, || std::fs::read_to_string(&log).unwrap_or_default());
    }

    /// As Dunlin's config names it.
    fn named(&self) -> String {
        format!("tls://{}#{NAME}", self.tls)
    }
}

impl Drop for Unbound {
    fn drop(&mut self) {
        // It has ended already, at worst.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(binary: &Path, directory: &Path) -> Child {
    let log = OpenOptions::new().create(true).append(true).open(directory.join("log")).unwrap();
    Command::new(binary)
        .args(["-d", "-p", "-c"])
        .arg(directory.join("config"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// A Dunlin that forwards to these, and trusts a CA.
fn dunlin(folder: &TestFolder, servers: &[&Unbound], authority: &Authority) -> Server {
    let servers: Vec<_> = servers.iter().map(|server| format!("{:?}", server.named())).collect();
    let sections = format!(
        "[forward]\n\".\" = [{}]\n[upstream]\nca = {:?}\n",
        servers.join(", "),
        authority.file("ca.pem")
    );
    let keys = "workers = 1";
    let launch = Launch { sections: &sections, keys, ..Launch::new(Software::Dunlin, &[]) };
    let dunlin = launch.start(&folder.path).unwrap();
    wait_for(dunlin.address, || dunlin.log_end());
    dunlin
}

/// Waits until the address has a listener.
fn wait_for(address: SocketAddrV4, log: impl Fn() -> String) {
    wait::until_ok(&format!("a listener at {address}"), || {
        TcpStream::connect(address).map_err(|why| format!("{why}\n{}", log()))
    });
}

fn read(replies: Vec<Option<Vec<u8>>>) -> Vec<Option<Reply>> {
    replies.into_iter().map(|reply| reply.map(|bytes| Reply::read(&bytes))).collect()
}

/// A query as stub resolvers ask it, if there is one about this. Types that mean more than
/// themselves are answered by Unbound as it likes.
fn plain(query: Query) -> Option<Query> {
    let is_plain = query.class == Class::IN
        && !matches!(query.qtype.to_int(), 0 | 41 | 46 | 128..=255)
        && query.edns.as_ref().is_none_or(|edns| edns.version == 0);
    is_plain.then_some(Query { flags: FLAGS, edns: None, ..query })
}

/// What each of all connections of a server carried, and how many there were.
fn upstream(dunlin: &Server, nth: usize, key: &str) -> serde_json::Value {
    dunlin.status().unwrap()["upstreams"][nth][key].clone()
}

#[test]
fn answers_over_tls_equal_those_of_the_upstream() {
    if !all_present(&[Software::Knot]) {
        return;
    }
    let Some(binary) = present("unbound", "unbound") else { return };
    let folder = TestFolder::new("encrypted").unwrap();
    let seed = number("DUNLIN_SEED", 1);
    let world = World::main(&folder.path, seed).unwrap();
    let knot = Server::start(Software::Knot, &world.zones, &folder.path).unwrap();
    let authority = Authority::new(&folder.path.join("authority"));
    let unbound = Unbound::start(&binary, &folder.path.join("unbound"), &authority, knot.address);
    let dunlin = dunlin(&folder, &[&unbound], &authority);
    let mut generator = QueryGenerator::new(&world, seed);
    let queries: Vec<Query> =
        std::iter::repeat_with(|| generator.query()).filter_map(plain).take(1_000).collect();
    let packets: Vec<Vec<u8>> = queries.iter().map(Query::to_wire).collect();
    let theirs = read(ask_tcp(unbound.plain, &packets, PATIENCE_LONG));
    let ours = read(ask_tcp(dunlin.address, &packets, PATIENCE_LONG));
    let wrong: Vec<String> = queries
        .iter()
        .zip(ours.iter().zip(&theirs))
        .filter(|(query, (ours, theirs))| {
            let (ours, theirs) = (ours.as_ref(), theirs.as_ref());
            match theirs.is_some_and(|theirs| theirs.is_referral(query.qtype)) {
                // It is no answer to who asked for one.
                true => ours.is_none_or(|ours| ours.rcode != SERVFAIL),
                false => response(ours) != response(theirs),
            }
        })
        .map(|(query, both)| format!("{query}: {both:?}"))
        .collect();
    let some = wrong[..3.min(wrong.len())].join("\n");
    assert!(wrong.is_empty(), "{} of {} differ:\n{some}", wrong.len(), queries.len());
    let answered = theirs.iter().flatten().filter(|reply| reply.rcode != SERVFAIL).count();
    assert!(answered > 900, "{answered} of them say something");

    // Over UDP too. Streams leave what they do not know to the worker, so one connection can do.
    let ours = read(ask_udp(dunlin.address, &packets, PATIENCE_LONG).unwrap());
    assert!(ours.iter().all(Option::is_some));
    let opened = upstream(&dunlin, 0, "connections_opened").as_u64().unwrap();
    assert!((1..=8).contains(&opened), "{opened} connections for {} questions", 2 * packets.len());
    assert_eq!(upstream(&dunlin, 0, "fault"), serde_json::Value::Null);
}

type Records<'r> = BTreeSet<(Name, Rtype, &'r [u8])>;

/// Code and records without their TTLs, which count down.
fn response(reply: Option<&Reply>) -> Option<(u16, Records<'_>)> {
    let reply = reply?;
    let records = reply.answer.iter();
    let records =
        records.map(|record| (record.owner.clone(), record.rtype, &record.data[..])).collect();
    Some((reply.rcode, records))
}

/// This many queries for unique names.
fn queries(count: usize, first: &str) -> Vec<Vec<u8>> {
    let query = |n| {
        let name = name(&format!("{first}-{n}.served"));
        Query { flags: FLAGS, ..Query::new(name, Rtype::A) }.to_wire()
    };
    (0..count).map(query).collect()
}

#[test]
fn death_and_return_of_one_of_two_tls_upstreams_loses_nothing() {
    if !all_present(&[Software::Knot]) {
        return;
    }
    let Some(binary) = present("unbound", "unbound") else { return };
    let folder = TestFolder::new("encrypted-killed").unwrap();
    let world = World::root(&folder.path, 1).unwrap();
    let knot = Server::start(Software::Knot, &world.zones, &folder.path).unwrap();
    let authority = Authority::new(&folder.path.join("authority"));
    let mut first = Unbound::start(&binary, &folder.path.join("first"), &authority, knot.address);
    let second = Unbound::start(&binary, &folder.path.join("second"), &authority, knot.address);
    let dunlin = dunlin(&folder, &[&first, &second], &authority);
    let patience = Patience { timeout: Duration::from_secs(4), tries: 1 };
    let mut round = 0;
    let mut ask_some = || {
        round += 1;
        let packets = queries(30, &format!("killed-{round}"));
        for reply in read(ask_udp(dunlin.address, &packets, patience).unwrap()) {
            let reply = reply.unwrap_or_else(|| panic!("round {round}: no answer"));
            assert_ne!(reply.rcode, SERVFAIL, "round {round}: {}", dunlin.log_end());
        }
    };
    let answered = |nth| upstream(&dunlin, nth, "answered").as_u64().unwrap();
    wait::until_true("both are asked", || {
        ask_some();
        answered(0) > 0 && answered(1) > 0
    });
    first.kill();
    wait::until_true("the death is noticed", || {
        ask_some();
        upstream(&dunlin, 0, "state") != "up"
    });
    (0..20).for_each(|_| ask_some());
    first.restart();
    let before = answered(0);
    wait::until_true("the return is noticed", || {
        ask_some();
        answered(0) > before
    });
}

#[test]
fn untrusted_upstream_is_reported_once_and_gets_no_query() {
    if !all_present(&[Software::Knot]) {
        return;
    }
    let Some(binary) = present("unbound", "unbound") else { return };
    let folder = TestFolder::new("encrypted-unbelieved").unwrap();
    let world = World::root(&folder.path, 1).unwrap();
    let knot = Server::start(Software::Knot, &world.zones, &folder.path).unwrap();
    let authority = Authority::new(&folder.path.join("authority"));
    let other = Authority::new(&folder.path.join("other"));
    assert_ne!(authority.issuer.pem(), other.issuer.pem());
    let unbound = Unbound::start(&binary, &folder.path.join("unbound"), &authority, knot.address);
    let dunlin = dunlin(&folder, &[&unbound], &other);
    let packets = queries(50, "n");
    for reply in read(ask_tcp(dunlin.address, &packets, PATIENCE_LONG)) {
        assert_eq!(reply.map(|reply| reply.rcode), Some(SERVFAIL));
    }
    let fault = upstream(&dunlin, 0, "fault");
    assert!(fault.as_str().is_some_and(|fault| fault.contains(UNTRUSTED)), "{fault}");
    assert_eq!(upstream(&dunlin, 0, "server"), unbound.named(), "as it was written");
    assert_eq!(upstream(&dunlin, 0, "answered"), 0);
    // However many queries failed.
    let log = wait::until_value("the report", || dunlin.log_end(), |log| log.contains(UNTRUSTED));
    assert_eq!(log.matches(UNTRUSTED).count(), 1, "{log}");
}
