//! Names that are looked up as others, hosts files and the modes of forwarding rules, through the
//! real server, with Knot behind it.
//!
//! What is looked up as another name is held against a server to which it is no other name: one
//! zone file, all of whose names are relative, is served by Knot under both.

use std::net::SocketAddrV4;
use std::path::Path;

use conformance::client::{ask_tcp, ask_udp};
use conformance::environment::{TestFolder, all_present};
use conformance::limits::PATIENCE_LONG;
use conformance::names::name;
use conformance::queries::Query;
use conformance::reply::{Reply, Section};
use conformance::server::{Launch, Server, Software};
use conformance::zone::{Signing, Zone};
use domain::base::iana::Rtype;
use test_support::wait;

/// RD.
const FLAGS: u16 = 0x0100;
const SERVFAIL: u16 = 2;
const NXDOMAIN: u16 = 3;
const REFUSED: u16 = 5;

const ZONE: &str = "$TTL 300\n@ SOA ns root 1 2 3 4 60\n@ NS ns\nns A 192.0.2.1\n\
    www A 192.0.2.2\nwww A 192.0.2.3\nwww AAAA 2001:db8::2\nalias CNAME www\n\
    chain CNAME alias\nout CNAME www.elsewhere.test.\ndangling CNAME none\n\
    cross CNAME www.old.test.\n@ MX 5 mail\n\
    @ MX 9 mail.elsewhere.test.\nmail A 192.0.2.4\n_x._tcp SRV 1 2 3 www\n\
    _x._tcp SRV 0 0 0 .\ntext TXT \"www.new.test.\" \"not a name\"\nptr PTR www\n\
    *.wild A 192.0.2.5\n*.wild MX 5 www\ndn DNAME tree\nleaf.tree A 192.0.2.6\n\
    web HTTPS 1 www alpn=h2\nweb HTTPS 2 .\na.deep.down A 192.0.2.7\n\
    caa CAA 0 issue \"ca.new.test\"\n";

/// Names below the zone, and above, beside and below those it has.
const NAMES: [&str; 24] = [
    "",
    "ns.",
    "www.",
    "alias.",
    "chain.",
    "out.",
    "dangling.",
    "none.",
    "none.www.",
    "mail.",
    "_x._tcp.",
    "_tcp.",
    "text.",
    "ptr.",
    "wild.",
    "a.wild.",
    "b.a.wild.",
    "dn.",
    "leaf.dn.",
    "none.dn.",
    "web.",
    "deep.down.",
    "a.deep.down.",
    "caa.",
];
const TYPES: [Rtype; 12] = [
    Rtype::A,
    Rtype::AAAA,
    Rtype::MX,
    Rtype::SRV,
    Rtype::CNAME,
    Rtype::TXT,
    Rtype::PTR,
    Rtype::NS,
    Rtype::SOA,
    Rtype::DNAME,
    Rtype::HTTPS,
    Rtype::CAA,
];

/// The same zone file under two names, at Knot.
struct Behind {
    folder: TestFolder,
    knot: Server,
    new: Zone,
}

impl Behind {
    fn start(test: &str) -> Self {
        let folder = TestFolder::new(test).unwrap();
        let file = folder.path.join("zone");
        std::fs::write(&file, ZONE).unwrap();
        let zone = |origin| Zone::read(name(origin), file.clone(), Signing::Unsigned).unwrap();
        let (old, new) = (zone("old.test"), zone("new.test"));
        let knot = Server::start(Software::Knot, &[old, new.clone()], &folder.path).unwrap();
        Self { folder, knot, new }
    }

    /// A Dunlin with further sections in its config, which asks Knot about all it has no zone for.
    fn dunlin(&self, zones: &[Zone], sections: &str) -> (Server, String) {
        let sections = format!("[forward]\n\".\" = [\"{}\"]\n{sections}\n", self.knot.address);
        (launch(zones, &sections).start(&self.folder.path).unwrap(), sections)
    }
}

fn launch<'a>(zones: &'a [Zone], sections: &'a str) -> Launch<'a> {
    let keys = "workers = 1";
    Launch { sections, keys, ..Launch::new(Software::Dunlin, zones) }
}

fn ask_all(server: SocketAddrV4, queries: &[Query], by_stream: bool) -> Vec<Reply> {
    let packets: Vec<Vec<u8>> = queries.iter().map(Query::to_wire).collect();
    let replies = match by_stream {
        true => ask_tcp(server, &packets, PATIENCE_LONG),
        false => ask_udp(server, &packets, PATIENCE_LONG).unwrap(),
    };
    replies.iter().map(|reply| Reply::read(reply.as_deref().expect("a reply"))).collect()
}

fn ask(server: SocketAddrV4, owner: &str, rtype: Rtype) -> Reply {
    let query = Query { flags: FLAGS, ..Query::new(name(owner), rtype) };
    ask_all(server, &[query], false).remove(0)
}

/// The last bytes of the addresses of a name, as a text.
fn addresses(server: SocketAddrV4, owner: &str) -> String {
    let reply = ask(server, owner, Rtype::A);
    let last = |data: &[u8]| data.last().map(u8::to_string).unwrap_or_default();
    reply.answer.iter().map(|record| last(&record.data)).collect::<Vec<_>>().join(" ")
}

/// Replaces a file in one step.
fn write(file: &Path, text: &str) {
    let new = file.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, file).unwrap();
}

#[test]
fn rewritten_query_gets_the_answer_of_the_new_name() {
    if !all_present(&[Software::Knot]) {
        return;
    }
    let behind = Behind::start("rewrite");
    let rule = "[[rewrite]]\nsuffix = \"old.test\"\nto = \"new.test\"\n";
    let queries = |flags| -> Vec<Query> {
        let owners = NAMES.iter().map(|below| name(&format!("{below}Old.test")));
        let each = owners.flat_map(|owner| TYPES.map(|rtype| Query::new(owner.clone(), rtype)));
        each.map(|query| Query { flags, ..query }).collect()
    };
    let all = queries(FLAGS);
    let theirs = ask_all(behind.knot.address, &all, true);
    let own = [behind.new.clone()];
    for zones in [&own[..], &[]] {
        let (dunlin, _) = behind.dunlin(zones, rule);
        // Twice, since the second time they are known.
        for (pass, by_stream) in [("first", false), ("again", false), ("by stream", true)] {
            let ours = ask_all(dunlin.address, &all, by_stream);
            for ((query, ours), theirs) in all.iter().zip(&ours).zip(&theirs) {
                let is_negative = theirs.answer.is_empty();
                // An alias that leads out of the zone is followed, to names that Knot refuses.
                let is_out = query.name == name("out.old.test");
                let same = (ours.rcode == theirs.rcode || is_out)
                    && (known(&ours.answer) == known(&theirs.answer))
                    && (!is_negative || known(&ours.authority) == known(&theirs.authority))
                    && ours.question == query.to_wire()[12..]
                    && ours.faults.is_empty();
                assert!(same, "{pass} {query}:\nours {ours:?}\ntheirs {theirs:?}");
            }
        }
        let status = dunlin.status().unwrap();
        assert_eq!(status["failed"], serde_json::json!([]));
    }
}

/// Records without their TTLs, which may count down.
fn known(section: &Section) -> Vec<String> {
    let texts = section.iter();
    texts.map(|record| format!("{} {} {:?}", record.owner, record.rtype, record.data)).collect()
}

#[test]
fn cached_answer_is_not_used_for_a_name_in_a_hosts_file() {
    if !all_present(&[Software::Knot]) {
        return;
    }
    let behind = Behind::start("hosts");
    let file = behind.folder.path.join("hosts");
    write(&file, "192.0.2.101 printer.lan printer\n");
    let (dunlin, sections) = behind.dunlin(&[], &format!("[hosts]\nfiles = [{file:?}]\n"));
    let address = dunlin.address;
    assert_eq!(addresses(address, "printer.lan"), "101");
    assert!(ask(address, "printer", Rtype::A).aa);
    assert_eq!(ask(address, "printer", Rtype::AAAA).rcode, 0);
    let pointer = ask(address, "101.2.0.192.in-addr.arpa", Rtype::PTR);
    assert_eq!(pointer.answer.first().expect("a name").data, b"\x07printer\x03lan\0");
    for _ in 0..3 {
        assert_eq!(addresses(address, "www.new.test"), "2 3", "known of Knot from now on");
    }
    write(&file, "192.0.2.101 printer.lan\n192.0.2.102 www.new.test\n");
    wait::until_true("the file is read", || addresses(address, "www.new.test") == "102");
    assert_eq!(ask(address, "printer", Rtype::A).rcode, SERVFAIL, "Knot says no");
    write(&file, "192.0.2.102 www.new.test\nno.address www\n");
    let is_behind = || {
        let status = dunlin.status().unwrap();
        let told = status["hosts"][0]["errors"][0].as_str().unwrap_or_default().to_owned();
        status["hosts"][0]["state"] == "behind" && told.contains("hosts:2:1: `no.address` is no")
    };
    wait::until_true("the error is reported", is_behind);
    assert_eq!(addresses(address, "www.new.test"), "102", "what it response before goes on");
    assert_eq!(addresses(address, "printer.lan"), "101");
    write(&file, "192.0.2.101 printer.lan\n");
    wait::until_true("the name is Knot's again", || addresses(address, "www.new.test") == "2 3");
    // A rule that is new goes before what is known of its name, too.
    let sections = sections + "[[rewrite]]\nexact = \"www.new.test\"\nto = \"mail.new.test\"\n";
    dunlin.rewrite_config(&launch(&[], &sections)).unwrap();
    dunlin.reload().unwrap();
    wait::until_true("the rule holds", || addresses(address, "www.new.test") == "4");
    let status = dunlin.status().unwrap();
    assert_eq!(status["config"]["restart_needed"], serde_json::json!([]));
    assert_eq!(status["hosts"][0]["names"], 1);
}

#[test]
fn rule_treats_names_by_its_mode() {
    if !all_present(&[Software::Knot]) {
        return;
    }
    let behind = Behind::start("modes");
    let knot = behind.knot.address;
    let (dunlin, _) = behind.dunlin(
        &[],
        &format!(
            "\"new.test\" = {{ servers = [\"{knot}\"], mode = \"direct\" }}\n\
             \"deep.down.old.test\" = {{ mode = \"off\" }}\n\
             \"internal\" = {{ mode = \"local\" }}"
        ),
    );
    let address = dunlin.address;
    let sent = |suffix: &str| {
        let status = dunlin.status().unwrap();
        let upstreams = status["upstreams"].as_array().unwrap().clone();
        let one = upstreams.iter().find(|upstream| upstream["suffix"] == suffix).expect("a server");
        one["sent"].as_u64().unwrap()
    };
    for _ in 0..3 {
        assert_eq!(addresses(address, "www.old.test"), "2 3");
        assert_eq!(addresses(address, "www.new.test"), "2 3");
    }
    // The counters follow a little later.
    // Each server was asked once whether it leads back here.
    wait::until_true("each question is counted", || sent("new.test.") == 4);
    assert_eq!(sent("."), 2, "and the others are kept");
    assert_eq!(ask(address, "a.deep.down.old.test", Rtype::A).rcode, REFUSED);
    for owner in ["www.internal", "internal"] {
        let reply = ask(address, owner, Rtype::A);
        let expected = if owner == "internal" { 0 } else { NXDOMAIN };
        assert_eq!((reply.rcode, reply.aa), (expected, true), "{owner}");
        let soa = reply.authority.first().expect("an SOA");
        assert_eq!((soa.owner.clone(), soa.rtype), (name("internal"), Rtype::SOA));
    }
    assert_eq!((sent("."), sent("new.test.")), (2, 4), "no query was sent for them");
}

/// An alias that leads from names of one group of servers to those of another, where nothing is
/// cached: the answer of the first is still there when the second has answered.
#[test]
fn alias_chain_crosses_upstream_groups_without_a_cache() {
    if !all_present(&[Software::Knot]) {
        return;
    }
    let behind = Behind::start("crossing");
    let knot = behind.knot.address;
    let direct =
        |suffix| format!("\"{suffix}\" = {{ servers = [\"{knot}\"], mode = \"direct\" }}\n");
    let (dunlin, _) = behind.dunlin(&[], &(direct("new.test") + &direct("old.test")));
    for _ in 0..2 {
        let reply = ask(dunlin.address, "cross.new.test", Rtype::A);
        assert_eq!((reply.rcode, reply.answer.len()), (0, 3), "{reply:?}");
    }
}
