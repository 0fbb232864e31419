//! The tests of RFC 8906 §8, asked of running servers over UDP and over TCP.
//!
//! A row of [`CHECKS`] is the section, what is asked, and what must come back. Knot, NSD and BIND
//! are asked too: they show that the rows themselves are right. Where they differ, [`PEERS`] says
//! in what, and why.

use std::net::SocketAddrV4;

use conformance::client::{ask_tcp, ask_udp};
use conformance::environment::{TestFolder, all_present};
use conformance::limits::PATIENCE_LONG;
use conformance::names::name;
use conformance::queries::{DO, Edns, QR, Query, RD};
use conformance::reply::Reply;
use conformance::run::Transport;
use conformance::server::{Launch, Server, Software};
use conformance::sign;
use conformance::zone::{Signing, Zone};
use domain::base::iana::Rtype;

/// So long that four signatures of it are larger than 512 bytes.
const ZONE: &str = "signatures-name-their-signer-in-full.and-so-they-are-large.rfc8906.test";

/// `section | query | expectations`.
///
/// Words of a query: a type; header bits `cd ad z rd`; `opcode=N` (a header alone);
/// `edns=VERSION`, and with it `do size=N flags=N option=CODE:HEX`.
///
/// Words of an expectation, each with `!` before it for the contrary, and behind it `/udp` or
/// `/tcp` for what holds over one of them: an RCODE; `soa rrsig` in the answer section; header
/// bits `aa tc rd z ad`; `opcode=N`; `empty` for four sections without a record; `opt`;
/// `version=N do reserved option=CODE` in OPT.
const CHECKS: &str = "
    8.1.1   | soa                    | noerror soa aa !rd !ad !opt
    8.1.2   | type1000               | noerror !soa aa !rd !ad !opt
    8.1.3.1 | soa cd                 | noerror soa aa !rd !ad !opt
    8.1.3.2 | soa ad                 | noerror soa aa !rd !opt
    8.1.3.3 | soa z                  | noerror soa aa !rd !ad !z !opt
    8.1.3.4 | soa rd                 | noerror soa aa rd !ad !opt
    8.1.4   | opcode=15              | notimp opcode=15 empty !aa !rd !ad !opt
    8.1.5   | soa                    | noerror/tcp soa/tcp aa/tcp !rd/tcp !ad/tcp !opt/tcp
    8.2.1   | soa edns=0             | noerror soa aa !ad opt version=0
    8.2.2   | soa edns=1             | badvers !soa !aa !ad opt version=0
    8.2.3   | soa edns=0 option=100: | noerror soa aa !ad opt version=0 !option=100
    8.2.4   | soa edns=0 flags=64    | noerror soa aa !ad opt version=0 !reserved
    8.2.5   | soa edns=1 flags=64    | badvers !soa !aa !ad opt version=0 !reserved
    8.2.6   | soa edns=1 option=100: | badvers !soa !aa !ad opt version=0 !option=100
    8.2.7   | dnskey edns=0 do size=512 | noerror aa opt version=0 tc/udp !tc/tcp rrsig/tcp
    8.2.8   | soa edns=0 do          | noerror soa rrsig aa !ad opt version=0 do
    8.2.9   | soa edns=1 do          | badvers !soa !aa !ad opt version=0 do
    8.2.10  | soa edns=0 option=10:0102030405060708 option=3: option=9: option=8:00010000 \
            | noerror soa aa !ad opt version=0
";

/// What a peer does otherwise: the row, the words it does not keep, and why the rows stay.
const PEERS: &[(Software, &str, &str, &str)] = &[
    (
        Software::Nsd,
        "8.1.4",
        "answered over Tcp",
        "NSD closes a stream on which a message is too short for a question",
    ),
    (
        Software::Nsd,
        "8.2.9",
        "do",
        "NSD answers another version without looking at its flags; RFC 3225 §3 has DO copied",
    ),
];

#[test]
fn queries_of_rfc_8906_are_answered_over_udp_and_tcp() {
    let subjects = [Software::Dunlin, Software::Knot, Software::Nsd, Software::Bind];
    if !all_present(&subjects) {
        return;
    }
    let folder = TestFolder::new("rfc8906").unwrap();
    let zones = [zone(&folder)];
    let mut wrong = Vec::new();
    for software in subjects {
        let server = Server::start(software, &zones, &folder.path).unwrap();
        let mut told = PEERS.iter().filter(|peer| peer.0 == software).collect::<Vec<_>>();
        for check in rows() {
            let missed = check.ask(server.address);
            let known = told.iter().position(|peer| peer.1 == check.section && peer.2 == missed);
            match known {
                Some(known) => drop(told.remove(known)),
                None if missed.is_empty() => {}
                None => wrong.push(format!("{} {check:?}: not {missed}", software.name())),
            }
        }
        wrong.extend(told.iter().map(|peer| format!("{peer:?} is not so")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unknown_features_are_answered_as_rfc_8906_requires() {
    let folder = TestFolder::new("unknown").unwrap();
    let zones = [zone(&folder)];
    let launch = Launch { keys: "nsid = \"here\"", ..Launch::new(Software::Dunlin, &zones) };
    let server = launch.start(&folder.path).unwrap();
    let mut wrong = Vec::new();
    for row in sweep() {
        let check = Check::read(&row);
        let missed = check.ask(server.address);
        if !missed.is_empty() {
            wrong.push(format!("{check:?}: not {missed}"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong, first {}", wrong.len(), wrong[0]);
}

/// Every opcode but those served (QUERY, NOTIFY), every EDNS version and EDNS flag, many unknown
/// types and options, and every combination of the header bits of a query.
fn sweep() -> Vec<String> {
    let opcodes = (1..16).filter(|opcode| *opcode != 4);
    let opcodes = opcodes.map(|opcode| format!("3.1.4 | opcode={opcode} | notimp empty !aa !opt"));
    let versions =
        (1..256).map(|version| format!("3.2.2 | soa edns={version} | badvers !soa opt version=0"));
    let flags = (0..15).map(|bit| {
        format!("3.2.4 | soa edns=0 flags={} | noerror soa aa opt !reserved !do", 1 << bit)
    });
    // Types 128 to 255 are not data (RFC 6895 §3.1); those without a meaning are not implemented.
    let unassigned =
        (129..249).map(|rtype| format!("3.1.2 | type{rtype} edns=0 | notimp !soa !aa opt"));
    let types = [0x7f, 0x100, 1000, 4096, 0x7fff, 0x8000, 0xff00, 0xfffe];
    let types = types.map(|rtype| format!("3.1.2 | type{rtype} edns=0 | noerror !soa aa opt"));
    let options = [0, 1, 2, 16, 17, 99, 100, 4242, 26946, 65001, 65535].into_iter();
    let options = options.flat_map(|code| {
        ["", "00", "0001020304050607"].map(|data| {
            format!("3.2.3 | soa edns=0 option={code}:{data} | noerror soa aa opt !option={code}")
        })
    });
    let bits = ["cd", "ad", "z", "rd"];
    let headers = (0..16).map(|set| {
        let asked: Vec<_> = (0..4).filter(|bit| set >> bit & 1 == 1).map(|bit| bits[bit]).collect();
        let rd = if set & 8 == 0 { "!rd" } else { "rd" };
        format!("3.1.3 | soa {} | noerror soa aa !z {rd} !opt", asked.join(" "))
    });
    let known = ["3.2.3 | soa edns=0 option=3: | noerror soa aa opt option=3".into()];
    let cookie =
        ["3.2.3 | soa edns=0 option=10:0102030405060708 | noerror soa aa opt option=10".into()];
    let all = opcodes.chain(versions).chain(flags).chain(types).chain(unassigned);
    let all = all.chain(options).chain(headers);
    all.chain(known).chain(cookie).collect()
}

fn zone(folder: &TestFolder) -> Zone {
    let plain = folder.path.join("rfc8906.zone");
    let text = "$TTL 60\n@ SOA ns hostmaster 1 3600 600 86400 60\n@ NS ns\nns A 192.0.2.1\n";
    std::fs::write(&plain, text).unwrap();
    let file = sign::sign(&name(ZONE), &plain, Signing::Nsec).unwrap();
    Zone::read(name(ZONE), file, Signing::Nsec).unwrap()
}

/// A row.
#[derive(Debug)]
struct Check<'r> {
    section: &'r str,
    query: &'r str,
    expected: &'r str,
}

fn rows() -> impl Iterator<Item = Check<'static>> {
    CHECKS.lines().map(str::trim).filter(|row| !row.is_empty()).map(Check::read)
}

impl<'r> Check<'r> {
    fn read(row: &'r str) -> Self {
        let mut cells = row.split('|').map(str::trim);
        let mut cell = || cells.next().unwrap_or_else(|| panic!("three cells: {row}"));
        Self { section: cell(), query: cell(), expected: cell() }
    }

    /// Asks over UDP and TCP; returns the expectations that were not met.
    fn ask(&self, server: SocketAddrV4) -> String {
        let packet = packet(self.query);
        let datagrams = ask_udp(server, std::slice::from_ref(&packet), PATIENCE_LONG).unwrap();
        let messages = ask_tcp(server, std::slice::from_ref(&packet), PATIENCE_LONG);
        let replies = [(Transport::Udp, datagrams), (Transport::Tcp, messages)];
        let mut missed = Vec::new();
        for (transport, replies) in replies {
            let Some(reply) = &replies[0] else {
                missed.push(format!("answered over {transport:?}"));
                continue;
            };
            let mut read = Reply::read(reply);
            if transport == Transport::Udp && reply.len() > 512 {
                read.faults.push("more than 512 bytes".into());
            }
            let fault = read.faults.first().cloned();
            missed.extend(fault.map(|fault| format!("sound over {transport:?} ({fault})")));
            missed.extend(self.judge(transport, &read, reply));
        }
        missed.dedup();
        missed.join(" ")
    }

    fn judge(&self, transport: Transport, reply: &Reply, bytes: &[u8]) -> Vec<String> {
        let mut missed = Vec::new();
        for word in self.expected.split_whitespace() {
            let (bare, only) = word.split_once('/').unwrap_or((word, ""));
            let elsewhere = if transport == Transport::Udp { "tcp" } else { "udp" };
            let (bare, wanted) = bare.strip_prefix('!').map_or((bare, true), |bare| (bare, false));
            if only != elsewhere && holds(bare, reply, bytes) != wanted {
                missed.push(word.to_owned());
            }
        }
        missed
    }
}

/// Whether a word says something true of a reply.
fn holds(word: &str, reply: &Reply, bytes: &[u8]) -> bool {
    let has = |rtype| reply.answer.iter().any(|record| record.rtype == rtype);
    let opt = reply.opt.as_ref();
    let number = |text: &str| text.parse::<u16>().expect("a number");
    match word.split_once('=').unwrap_or((word, "")) {
        ("noerror", _) => reply.rcode == 0,
        ("notimp", _) => reply.rcode == 4,
        ("badvers", _) => reply.rcode == 16,
        ("soa", _) => has(Rtype::SOA),
        ("rrsig", _) => has(Rtype::RRSIG),
        ("aa", _) => reply.aa,
        ("tc", _) => reply.tc,
        ("rd", _) => reply.flags & RD != 0,
        ("z", _) => reply.flags & 0x40 != 0,
        ("ad", _) => reply.flags & 0x20 != 0,
        ("opcode", opcode) => reply.flags >> 11 & 15 == number(opcode) && reply.flags & QR != 0,
        ("empty", _) => bytes[4..12] == [0; 8],
        ("opt", _) => opt.is_some(),
        ("version", version) => opt.is_some_and(|opt| u16::from(opt.version) == number(version)),
        ("do", _) => opt.is_some_and(|opt| opt.dnssec_ok),
        ("reserved", _) => opt.is_some_and(|opt| opt.reserved != 0),
        ("option", code) => opt.is_some_and(|opt| opt.options.contains(&number(code))),
        _ => panic!("{word} is not a word of an expectation"),
    }
}

/// The message that a query's words ask for.
fn packet(words: &str) -> Vec<u8> {
    let mut query = Query::new(name(ZONE), Rtype::SOA);
    for word in words.split_whitespace() {
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        let number = || value.parse::<u16>().expect("a number");
        match word {
            "opcode" => {
                let flags = number() << 11;
                return [&[0, 0][..], &flags.to_be_bytes(), &[0; 8]].concat();
            }
            "cd" => query.flags |= 0x10,
            "ad" => query.flags |= 0x20,
            "z" => query.flags |= 0x40,
            "rd" => query.flags |= RD,
            "edns" => {
                let version = number() as u8;
                query.edns = Some(Edns { version, ..Edns::new(1232) });
            }
            "do" | "size" | "flags" | "option" => {
                set(query.edns.as_mut().expect("edns= comes first"), word, value);
            }
            rtype => query.qtype = rtype.to_uppercase().parse().expect("a type"),
        }
    }
    query.to_wire()
}

fn set(edns: &mut Edns, word: &str, value: &str) {
    match word {
        "do" => edns.flags |= DO,
        "size" => edns.size = value.parse().expect("a size"),
        "flags" => edns.flags |= value.parse::<u16>().expect("a number"),
        _ => {
            let (code, hex) = value.split_once(':').expect("CODE:HEX");
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
            let data = (0..hex.len()).step_by(2).map(byte).collect();
            edns.options.push((code.parse().expect("a code"), data));
        }
    }
}
