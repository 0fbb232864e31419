//! Generated sequences of calls, to Dunlin and to a real `PowerDNS`: the same status and the same
//! zone, but for [`DIFFERENCES`].
use crate::powerdns::{ZONES, with_key};
use crate::scene::{Reply, Scene, receive};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::process::{Child, Command, Stdio};
use test_support::folder::Folder;
use test_support::ports::free_address;
use test_support::{skip, wait};

/// A difference that is meant: our status, theirs, a part of an error, and the reason.
const DIFFERENCES: &[(u16, u16, &str, &str)] = &[
    (422, 204, "disabled: has no counterpart", "a record that is not served is not stored"),
    (422, 204, "LUA records run a program", "policies and health checks stand for them"),
    (422, 204, "is in no zone of this server", "the addresses of its target are not known here"),
    (422, 204, "ttl: is not a number", "RFC 2181 §8; PowerDNS stores what its database takes"),
    (422, 204, "is a query type", "no record has the type, so the call is a mistake"),
    (422, 204, "is out of the zone", "a deletion elsewhere is a mistake, too"),
    (422, 204, "a zone needs the NS records", "a zone without NS records is none"),
    (204, 422, "Changetype not understood", "EXTEND and PRUNE are of newer servers"),
    (204, 422, "contains unsupported characters", "any label is a name (RFC 2181 §11)"),
    (204, 422, "Conflicts with pre-existing", "a REPLACE without records is a deletion"),
    (422, 204, "comments: belong to a set", "a comment is a part of its set"),
    (422, 204, "a zone needs the SOA", "a zone without an SOA is none"),
    (204, 422, "has more than one record", "the later deletion of the same set counts"),
];

const SEQUENCES: u64 = 500;
const CALLS: usize = 8;
const KEY: &str = "secret";

/// A server with an `SQLite` database.
struct Server {
    child: Child,
    address: SocketAddrV4,
    _folder: Folder,
}

impl Server {
    /// `None`: it is not installed.
    fn start() -> Option<Self> {
        let schema = "/usr/share/doc/pdns-backend-sqlite3/schema.sqlite3.sql";
        let folder = Folder::new("pdns");
        let (http, dns) = (free_address(Ipv4Addr::LOCALHOST), free_address(Ipv4Addr::LOCALHOST));
        let database = folder.join("zones.sqlite");
        let schema = std::fs::read_to_string(schema).ok()?;
        let mut sqlite =
            Command::new("sqlite3").arg(&database).stdin(Stdio::piped()).spawn().ok()?;
        sqlite.stdin.take()?.write_all(schema.as_bytes()).ok()?;
        sqlite.wait().ok().filter(std::process::ExitStatus::success)?;
        let mut config = String::new();
        for (key, value) in [
            ("launch", "gsqlite3"),
            ("gsqlite3-database", &database.display().to_string()),
            ("gsqlite3-pragma-synchronous", "0"),
            ("api", "yes"),
            ("api-key", KEY),
            ("webserver-address", "127.0.0.1"),
            ("webserver-port", &http.port().to_string()),
            ("local-address", "127.0.0.1"),
            ("local-port", &dns.port().to_string()),
            ("socket-dir", &folder.display().to_string()),
            ("daemon", "no"),
            ("guardian", "no"),
        ] {
            writeln!(config, "{key}={value}").expect("a String takes all");
        }
        std::fs::write(folder.join("pdns.conf"), config).expect("written");
        let child = Command::new("/usr/sbin/pdns_server")
            .arg(format!("--config-dir={}", folder.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let server = Self { child, address: http, _folder: folder };
        wait::until_ok("PowerDNS listens", || TcpStream::connect(http));
        Some(server)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Reply {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-API-Key: {KEY}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("sent");
        receive(&mut stream).expect("a reply")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Generated calls of one zone.
struct Generator {
    random: fastrand::Rng,
    zone: String,
}

impl Generator {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.random.usize(..from.len())]
    }

    fn name(&mut self) -> String {
        let zone = self.zone.clone();
        match self.pick(&["", "www", "www", "mail", "a.b", "b", "*.w", "x.w", "WWW", "_t", "odd"]) {
            "" => zone,
            "odd" => match self.random.u8(..5) {
                0 => format!("www.{}", zone.trim_end_matches('.')),
                1 => "www.elsewhere.example.".to_owned(),
                2 => format!("a*.{zone}"),
                3 => format!("a..{zone}"),
                _ => format!("x/y.{zone}"),
            },
            label => format!("{label}.{zone}"),
        }
    }

    fn content(&mut self, rtype: &str) -> String {
        let zone = self.zone.clone();
        let host = self.pick(&["h1.example.", "h2.example.", "H3.Example."]);
        let number = self.random.u8(1..4);
        match rtype {
            _ if self.random.u8(..24) == 0 => "x".to_owned(),
            "A" => format!("192.0.2.{number}"),
            "AAAA" => format!("2001:db8::{number}"),
            "CNAME" | "NS" | "PTR" | "DNAME" => host.to_owned(),
            "MX" => format!("{number}0 {host}"),
            "SRV" => format!("0 {number} 80 {host}"),
            "TXT" => match number {
                1 => "\"v=spf1 -all\"".to_owned(),
                2 => "\"a\" \"b\"".to_owned(),
                _ => "\"heritage=external-dns,external-dns/owner=me\"".to_owned(),
            },
            "CAA" => format!("0 issue \"ca{number}.example\""),
            "SOA" => format!("ns1.{zone} admin.{zone} 1 7200 900 1209600 30{number}"),
            "LUA" => "A \"ifportup(80, {'192.0.2.1'})\"".to_owned(),
            _ => host.to_owned(),
        }
    }

    fn set(&mut self) -> Value {
        let rtype = self.pick(&[
            "A", "A", "A", "AAAA", "TXT", "TXT", "CNAME", "MX", "SRV", "NS", "CAA", "a", "PTR",
            "rare",
        ]);
        let rtype = match rtype {
            "rare" => self.pick(&["LUA", "ALIAS", "DNAME", "SOA", "BAD", "TYPE65280", "ANY"]),
            rtype => rtype,
        };
        let change = self.pick(&["REPLACE", "REPLACE", "REPLACE", "REPLACE", "DELETE", "odd"]);
        let change = match change {
            "odd" => self.pick(&["replace", "delete", "EXTEND", "PRUNE", "UPSERT"]),
            change => change,
        };
        let mut set = json!({ "name": self.name(), "type": rtype, "changetype": change });
        if self.random.u8(..20) > 0 {
            let odd = [json!("60"), json!(-5), json!(4_294_967_295_u32), json!(0), Value::Null];
            let odd = odd[self.random.usize(..odd.len())].clone();
            set["ttl"] = if self.random.u8(..12) == 0 { odd } else { 60.into() };
        }
        if !change.eq_ignore_ascii_case("DELETE") && self.random.u8(..24) > 0 {
            let count = self.random.usize(..4).min(3);
            let records: Vec<_> = (0..count)
                .map(|_| {
                    let mut record =
                        json!({ "content": self.content(&rtype.to_ascii_uppercase()) });
                    match self.random.u8(..30) {
                        0 => record["disabled"] = true.into(),
                        1 => record = json!({ "disabled": false }),
                        2..12 => record["disabled"] = false.into(),
                        _ => record["set-ptr"] = false.into(),
                    }
                    record
                })
                .collect();
            set["records"] = records.into();
        }
        if self.random.u8(..40) == 0 {
            set["comments"] = json!([{ "content": "why", "account": "" }]);
        }
        set
    }

    fn call(&mut self) -> (&'static str, String, Value) {
        let path = format!("{ZONES}/{}", self.zone);
        match self.random.u8(..40) {
            0 => ("PATCH", path, json!({})),
            1 => ("PATCH", path, json!({ "rrsets": [] })),
            2 => ("GET", format!("{path}?rrset_name={}", self.name()), Value::Null),
            3 => ("PUT", path, json!({ "kind": "Native", "account": "x" })),
            4 => ("PUT", format!("{path}/rectify"), Value::Null),
            5 => ("PATCH", format!("{ZONES}/none.example."), json!({ "rrsets": [] })),
            6 => ("POST", ZONES.to_owned(), json!({ "name": self.zone, "kind": "Native" })),
            7 => ("GET", format!("{ZONES}?zone={}", self.zone), Value::Null),
            _ => {
                let count = 1 + self.random.usize(..4).saturating_sub(1);
                let rrsets: Vec<_> = (0..count).map(|_| self.set()).collect();
                ("PATCH", path, json!({ "rrsets": rrsets, "kind": "ignored" }))
            }
        }
    }
}

/// The sets of a zone, without the SOA, whose serial each server keeps.
fn content(reply: &Reply) -> BTreeMap<String, Vec<String>> {
    let zone = reply.json();
    let sets = zone["rrsets"].as_array().cloned().unwrap_or_default();
    let told = sets.iter().filter(|set| set["type"] != "SOA" && set["records"] != json!([]));
    told.map(|set| {
        let records = set["records"].as_array().cloned().unwrap_or_default();
        let mut records: Vec<_> =
            records.iter().map(|record| record["content"].to_string()).collect();
        records.sort_unstable();
        let comments = set["comments"].as_array().map(Vec::len);
        (format!("{} {} {} {comments:?}", set["name"], set["type"], set["ttl"]), records)
    })
    .collect()
}

fn error_of(reply: &Reply) -> String {
    let text = String::from_utf8_lossy(&reply.body);
    let told: Value = serde_json::from_str(&text).unwrap_or_default();
    told["error"].as_str().map_or_else(|| text.trim().to_owned(), str::to_owned)
}

/// Runs one sequence; returns the differences, each with its line of the list.
fn compare(scene: &Scene, server: &Server, seed: u64, used: &mut [usize]) -> Vec<String> {
    let zone = format!("z{seed}.example.");
    let mut generator = Generator { random: fastrand::Rng::with_seed(seed), zone: zone.clone() };
    let ours =
        |method: &str, path: &str, body: &Value| with_key(scene, &scene.root, method, path, body);
    let new = json!({ "name": zone, "kind": "Native", "nameservers": ["ns1.example."] });
    let create = || {
        assert_eq!(ours("POST", ZONES, &new).status, 201);
        assert_eq!(server.ask("POST", ZONES, &new).status, 201);
    };
    create();
    let (path, mut found) = (format!("{ZONES}/{zone}"), Vec::new());
    for _ in 0..CALLS {
        let (method, to, body) = generator.call();
        let (one, other) = (ours(method, &to, &body), server.ask(method, &to, &body));
        let call = format!("seed {seed}: {method} {to} {body}");
        if one.status != other.status {
            let (mine, theirs) = (error_of(&one), error_of(&other));
            let is_listed = |(ours, others, part, _): &(u16, u16, &str, &str)| {
                (*ours, *others) == (one.status, other.status)
                    && (mine.contains(part) || theirs.contains(part))
            };
            match DIFFERENCES.iter().position(is_listed) {
                Some(line) => used[line] += 1,
                None => found
                    .push(format!("{call}\n  {} {mine}\n  {} {theirs}", one.status, other.status)),
            }
            // The zones differ now: both begin again.
            assert_eq!(ours("DELETE", &path, &Value::Null).status, 204);
            assert_eq!(server.ask("DELETE", &path, &Value::Null).status, 204);
            create();
            continue;
        }
        let both = [ours("GET", &path, &Value::Null), server.ask("GET", &path, &Value::Null)];
        let [one, other] = both.each_ref().map(content);
        if one != other {
            found.push(format!("{call}\n  {one:?}\n  {other:?}"));
            break;
        }
    }
    found
}

#[test]
fn generated_calls_have_the_same_outcome() {
    let Some(server) = Server::start() else {
        skip::skip("pdns_server and sqlite3: scripts/require test installs them");
        return;
    };
    let scene = Scene::new();
    let (mut used, mut found) = (vec![0; DIFFERENCES.len()], Vec::new());
    for seed in 0..SEQUENCES {
        found.extend(compare(&scene, &server, seed, &mut used));
    }
    let shown = found.iter().take(30).cloned().collect::<Vec<_>>().join("\n");
    assert!(found.is_empty(), "{} differences:\n{shown}", found.len());
    for ((_, _, part, _), count) in DIFFERENCES.iter().zip(used) {
        assert!(count > 0, "the difference {part:?} is gone: remove its line");
    }
}

#[test]
fn documentation_has_the_reason_of_each_difference() {
    let page = include_str!("../../../../../docs/powerdns.md");
    for (_, _, part, reason) in DIFFERENCES {
        assert!(page.contains(reason), "docs/powerdns.md lacks {reason:?}, the reason of {part:?}");
    }
}
