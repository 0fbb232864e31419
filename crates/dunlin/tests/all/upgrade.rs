//! `make campaign-upgrade`: the last release, and a build whose form number is one higher, replace
//! one another on one store: alone, and in a fleet of three under writes.
use crate::served::{Served, done, holds, rcode, request, short_socket, text};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use test_support::etcd::Etcd;
use test_support::wait;

/// Writes of the newer version before one goes back.
const WRITES: u16 = 1_000;
/// Writes of the release before it.
const WRITES_BEFORE: u16 = 100;
/// What only the newer form holds: see `records::Form`.
const COMMENT: &str = "next form: not for older versions";

#[derive(Clone, Copy)]
enum Version {
    /// The last release.
    Older,
    /// The build whose form number is one higher.
    Newer,
}

impl Version {
    fn binary(self) -> PathBuf {
        let variable = match self {
            Self::Older => "DUNLIN_OLDER",
            Self::Newer => "DUNLIN_NEWER",
        };
        PathBuf::from(std::env::var_os(variable).expect("make campaign-upgrade names it"))
    }

    fn command(self) -> Command {
        Command::new(self.binary())
    }
}

/// A server on one folder, by one version after the other.
struct Server {
    served: Served,
    socket: PathBuf,
    version: Version,
}

fn name(n: u16) -> String {
    format!("n{n}.up.example")
}

fn address(n: u16) -> [u8; 4] {
    let [high, low] = n.to_be_bytes();
    [10, 1, high, low]
}

/// Whether the server at this socket has taken a write, or what it said.
fn put(socket: &Path, n: u16, comment: &str) -> Result<(), String> {
    let [a, b, c, d] = address(n);
    let mut body = json!({ "ttl": 60, "data": [format!("{a}.{b}.{c}.{d}")] });
    if !comment.is_empty() {
        body["comment"] = comment.into();
    }
    let path = format!("/v1/zones/up.example/rrsets/{}/A", name(n));
    let response = request(socket, "PUT", &path, &body.to_string());
    let response = response.map_err(|why| why.to_string())?;
    if response.starts_with("HTTP/1.1 20") { Ok(()) } else { Err(response) }
}

impl Server {
    /// Starts it on a new folder, with this store.
    fn start(test: &str, version: Version, store: &str) -> Self {
        let socket = short_socket(test);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        let socket_name = socket.display();
        let config = format!(
            "drain = \"0s\"\nname = \"{test}\"\n[admin]\nsocket = \"{socket_name}\"\n{store}\n\
             [api]\nlisten = \"127.0.0.1:0\"\n"
        );
        let served = Served::start_by(&mut version.command(), &folder, &config, &[]);
        Self { served, socket, version }
    }

    /// Ends it, and starts another version on its files.
    fn replaced(mut self, version: Version) -> Self {
        self.served.end();
        self.started(version)
    }

    fn started(self, version: Version) -> Self {
        let served = self.served.restarted_by(&mut version.command());
        Self { served, version, ..self }
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = self.version.command();
        command.args(args).arg("--socket").arg(&self.socket);
        command.stdin(std::process::Stdio::null()).output().expect("the binary runs")
    }

    fn get(&self, path: &str) -> Value {
        let response = request(&self.socket, "GET", path, "").expect("a response");
        let body = response.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
        serde_json::from_str(body).unwrap_or_else(|_| panic!("{response}"))
    }

    fn create_zone(&self) {
        let body = r#"{"nameservers":["ns.example.net."]}"#;
        let response = request(&self.socket, "PUT", "/v1/zones/up.example", body);
        let response = response.expect("a response");
        assert!(response.starts_with("HTTP/1.1 20"), "{response}");
    }

    fn put(&self, n: u16) {
        put(&self.socket, n, "").unwrap_or_else(|why| panic!("{why}"));
    }

    /// The revision of its zone, once it is served: then the serial is the same.
    fn revision(&self) -> u64 {
        let zone = || self.get("/v1/zones/up.example");
        let zone =
            wait::until_value("it is served", zone, |zone| zone["serial"] == zone["revision"]);
        zone["revision"].as_u64().expect("a number")
    }

    /// It answers each of these.
    fn answers(&self, names: impl Iterator<Item = u16>) {
        for n in names {
            let reply = self.served.ask(&name(n));
            assert!(rcode(&reply) == 0 && holds(&reply, &address(n)), "{}", name(n));
        }
    }

    /// The status as text, once it has these words.
    fn status_with(&self, words: &str) {
        let status = || text(&self.run(&["status"]).stdout);
        wait::until_value(words, status, |status| status.contains(words));
    }

    /// A write that needs the newer form is refused, with the reason.
    fn refuses_next_form(&self) {
        let why = put(&self.socket, 0, COMMENT).expect_err("the older form does not hold it");
        assert!(why.starts_with("HTTP/1.1 409"), "{why}");
        assert!(why.contains("store-form") && why.contains("dunlin store upgrade"), "{why}");
        assert!(why.contains("needs form 7, and the store has form 5"), "{why}");
    }

    fn upgrade(&self) -> String {
        let args = ["store", "upgrade", "--yes"];
        done(&args, &self.run(&args))
    }

    /// The older version refuses its files and leaves them as they are; then the newer one starts.
    fn refused_by_older(mut self, folder: &str) -> Self {
        self.served.end();
        let before = self.files(folder);
        let mut server = self.started(Version::Older);
        server.status_with("newer version of Dunlin");
        server.served.end();
        assert!(server.files(folder) == before, "the older version has changed nothing");
        server.started(Version::Newer)
    }

    /// The bytes of the files of its store.
    fn files(&self, folder: &str) -> Vec<Vec<u8>> {
        let folder = self.served.folder.join("data").join(folder);
        ["records.redb", "records.wal"].map(|file| fs::read(folder.join(file)).expect(file)).into()
    }
}

#[test]
#[ignore = "campaign: make campaign-upgrade, with a build of the last release"]
fn older_version_goes_on_with_what_the_newer_one_wrote() {
    let server = Server::start("upgrade-alone", Version::Older, "[store]\nkind = \"redb\"");
    server.create_zone();
    (1..=WRITES_BEFORE).for_each(|n| server.put(n));

    let server = server.replaced(Version::Newer);
    let last = WRITES_BEFORE + WRITES;
    (WRITES_BEFORE + 1..=last).for_each(|n| server.put(n));
    let (revision, store) = (server.revision(), server.get("/v1/store"));
    assert_eq!((&store["form"], &store["newest"]), (&json!(5), &json!(7)));
    server.refuses_next_form();
    server.status_with("form 5, and 7 after `dunlin store upgrade`, 1 write that need it refused");

    let server = server.replaced(Version::Older);
    server.answers(1..=last);
    assert_eq!(server.revision(), revision);
    server.put(last + 1);
    println!("alone: {WRITES} writes of the newer version are served by the older one");

    let server = server.replaced(Version::Newer);
    let unconfirmed = server.run(&["store", "upgrade"]);
    assert!(!unconfirmed.status.success(), "it asks first");
    server.refuses_next_form();
    let upgraded = server.upgrade();
    assert!(upgraded.contains("the store has form 7"), "{upgraded}");
    put(&server.socket, 0, COMMENT).expect("the newer form holds it");

    let server = server.refused_by_older("");
    server.answers(0..=last + 1);
    assert_eq!(server.get("/v1/zones/up.example/rrsets/n0.up.example/A")["comment"], COMMENT);
    println!("alone: after `dunlin store upgrade` the older one refuses the files, unchanged");
}

/// Writes to whichever server takes them, until it is dropped.
struct Load {
    acknowledged: Arc<Mutex<BTreeSet<u16>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Load {
    /// Begins with this number.
    fn start(fleet: &[Server], first: u16) -> Self {
        let sockets: Vec<PathBuf> = fleet.iter().map(|server| server.socket.clone()).collect();
        let (acknowledged, is_over) = (Arc::default(), Arc::default());
        let (noted, over) = (Arc::clone(&acknowledged), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            let noted: Arc<Mutex<BTreeSet<u16>>> = noted;
            let over: Arc<AtomicBool> = over;
            let mut turn = 0;
            for n in first..u16::MAX {
                wait::until_true("a server takes the write", || {
                    turn += 1;
                    put(&sockets[turn % sockets.len()], n, "").is_ok()
                });
                noted.lock().expect("no panic").insert(n);
                if over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        Self { acknowledged, is_over, thread: Some(thread) }
    }

    fn count(&self) -> usize {
        self.acknowledged.lock().expect("no panic").len()
    }

    /// Waits for so many more writes.
    fn goes_on(&self, more: usize) {
        let until = self.count() + more;
        wait::until_true("writes go on", || self.count() >= until);
    }

    /// Ends it; returns what was acknowledged.
    fn end(mut self) -> BTreeSet<u16> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().expect("it runs").join().expect("no panic");
        self.acknowledged.lock().expect("no panic").clone()
    }
}

/// Replaces all servers, one after the other, while others write.
fn replace_all(fleet: Vec<Server>, version: Version, load: &Load) -> Vec<Server> {
    let replaced = fleet.into_iter().map(|server| {
        load.goes_on(50);
        server.replaced(version)
    });
    replaced.collect()
}

fn agree(fleet: &[Server], names: &BTreeSet<u16>) -> u64 {
    let newest = fleet.iter().map(Server::revision).max().expect("a server");
    wait::until_true("all have the newest revision", || {
        fleet.iter().all(|server| server.revision() == newest)
    });
    fleet.iter().for_each(|server| server.answers(names.iter().copied()));
    newest
}

#[test]
#[ignore = "campaign: make campaign-upgrade, with a build of the last release"]
fn older_fleet_goes_on_with_what_the_newer_one_wrote() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let store = format!("[store]\nkind = \"etcd\"\n[etcd]\nendpoints = {:?}", etcd.endpoints());
    let start = |test: &&str| Server::start(test, Version::Older, &store);
    let mut fleet: Vec<Server> =
        ["upgrade-a", "upgrade-b", "upgrade-c"].iter().map(start).collect();
    fleet[0].create_zone();
    let load = Load::start(&fleet, 1);
    load.goes_on(usize::from(WRITES_BEFORE));

    // Two of three: the third holds back the new form.
    let last = fleet.pop().expect("three");
    let mut fleet = replace_all(fleet, Version::Newer, &load);
    let refused = fleet[0].run(&["store", "upgrade", "--yes"]);
    let why = text(&refused.stderr);
    assert!(!refused.status.success() && why.contains("upgrade-c (version"), "{why}");
    let listed = text(&fleet[1].run(&["fleet"]).stdout);
    assert!(listed.contains("upgrade-c does not know form 7, and holds back"), "{listed}");
    fleet.push(last.replaced(Version::Newer));
    load.goes_on(usize::from(WRITES));
    fleet[2].refuses_next_form();
    let fleet = replace_all(fleet, Version::Older, &load);
    load.goes_on(50);
    let names = load.end();
    let revision = agree(&fleet, &names);
    let all = names.len();
    println!("fleet: {all} writes, {WRITES} of them beside no older version, are served by it");

    let load = Load::start(&fleet, names.last().map_or(1, |last| last + 1));
    let mut fleet = replace_all(fleet, Version::Newer, &load);
    let names: BTreeSet<u16> = names.union(&load.end()).copied().collect();
    assert!(agree(&fleet, &names) >= revision);

    // A server that is away while the form is raised, and comes back as the older version.
    let mut away = fleet.pop().expect("three");
    away.served.end();
    let listed = || text(&fleet[0].run(&["fleet"]).stdout);
    wait::until_value("two members", listed, |listed| !listed.contains("upgrade-c"));
    let upgraded = fleet[0].upgrade();
    assert!(upgraded.contains("the store has form 7"), "{upgraded}");
    wait::until_true("the other server takes what needs it", || {
        put(&fleet[1].socket, 0, COMMENT).is_ok()
    });
    let mut away = away.started(Version::Older);
    away.status_with("which a newer version wrote");
    let why = put(&away.socket, 1, "").expect_err("the keys are newer");
    assert!(why.contains("which a newer version wrote"), "{why}");
    away.answers(names.iter().copied());
    away.served.end();
    fleet.push(away.started(Version::Newer));

    // A server whose copy has what needs the new form.
    let refusing = fleet.remove(1).refused_by_older("replica");
    fleet.push(refusing);
    agree(&fleet, &names.into_iter().chain([0]).collect());
    println!(
        "fleet: after `dunlin store upgrade` the older one writes nothing, and serves its copy"
    );
}
