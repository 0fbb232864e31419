//! Conditions, reasons and the journal, by command.
use crate::operated::{Operated, config};
use crate::served::{Served, binary, text};
use std::fs;
use std::io::{BufRead, BufReader, Read, copy};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use test_support::wait::deadline;

fn start(test: &str) -> Operated {
    Operated::new(Served::start(test, &config(test, ""), &[]))
}

fn set(scene: &Operated, address: &str, more: &[&str]) -> String {
    let set = ["records", "set", "api.example", "www.api.example", "A", address];
    scene.done(&[&set[..], more].concat())
}

fn address(scene: &Operated) -> SocketAddr {
    scene.served.api().expect("an API").parse().expect("an address")
}

#[test]
fn journal_shows_conditional_writes_with_their_reasons() {
    let scene = start("journal");
    scene.done(&["zones", "create", "api.example", "--nameserver", "ns", "--reason", "begin"]);
    set(&scene, "10.0.0.1", &["--reason", "move to rack 7"]);
    set(&scene, "10.0.0.2", &["--if-match", "2"]);
    let stale = ["records", "set", "api.example", "www.api.example", "A", "10.0.0.3"];
    let told = scene.refused(&[&stale[..], &["--if-match", "2"]].concat());
    assert!(told.contains("is at revision 3, not 2"), "{told}");
    let told = scene.refused(&["zones", "delete", "api.example", "--yes", "--if-match", "2"]);
    assert!(told.contains("last written at revision 3"), "{told}");
    let file = scene.served.folder.join("more.zone");
    fs::write(&file, "$TTL 60\na A 10.0.0.9\nb A 10.0.0.9\n").expect("a file");
    let file = file.to_str().expect("UTF-8");
    let import = ["records", "import", "api.example", file, "--yes", "--if-match"];
    let told = scene.refused(&[&import[..], &["2"]].concat());
    assert!(told.contains("another client wrote first"), "{told}");
    let told = scene.refused(&[&import[..], &["2", "--stream"]].concat());
    assert!(told.contains("last written at revision 3"), "{told}");
    scene.done(&[&import[..], &["3"]].concat());
    let audited = scene.served.expect_line("audit: request", "\"revision\":4");
    let names = "a.api.example. A, b.api.example. A";
    assert_eq!((&audited["changes"], &audited["names"]), (&2.into(), &names.into()), "{audited}");
    let exported = scene.run(&["records", "export", "api.example", "--format", "zone"]);
    assert!(text(&exported.stdout).starts_with("; api.example. at revision 4\n"), "{exported:?}");
    assert_eq!(text(&exported.stderr), "exported as of revision 4\n");

    let told = scene.done(&["journal", "api.example", "--since", "1"]);
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].starts_with("revision 2  "), "{told}");
    assert!(lines[0].ends_with("  root  changed, 1 record set  \"move to rack 7\""), "{told}");
    assert_eq!(lines[1], "+ www.api.example. 300 A 10.0.0.1");
    assert_eq!(
        lines[3..5],
        ["- www.api.example. 300 A 10.0.0.1", "+ www.api.example. 300 A 10.0.0.2"]
    );
    scene.done(&["zones", "delete", "api.example", "--yes", "--reason", "moved away"]);
    let told = scene.done(&["journal", "api.example", "--since", "4", "-o", "json"]);
    let entry: serde_json::Value = serde_json::from_str(&told).expect("one line of JSON");
    assert_eq!((&entry["kind"], &entry["reason"]), (&"deleted".into(), &"moved away".into()));
    let told = scene.refused(&["journal", "api.example", "--since", "9"]);
    assert!(told.contains("set back") && told.contains("dunlin records export"), "{told}");
    let told = scene.refused(&["journal", "never.example"]);
    assert!(told.contains("no such zone"), "{told}");
}

#[test]
fn write_is_undone_as_far_as_nothing_changed_since() {
    let scene = start("journal-revert");
    scene.done(&["zones", "create", "other.example", "--nameserver", "ns"]);
    scene.done(&["zones", "create", "api.example", "--nameserver", "ns"]);
    let import = |text: &str| {
        let file = scene.served.folder.join("sets.zone");
        fs::write(&file, text).expect("a file");
        let file = file.to_str().expect("UTF-8");
        scene.done(&["records", "import", "api.example", file, "--yes"]);
    };
    import("www 60 A 10.0.0.1\nmail 60 A 10.0.0.1\n");
    import("www 60 A 10.0.0.2\nmail 60 A 10.0.0.2\nnew 60 A 10.0.0.2\n");
    let revert = ["journal", "revert", "4"];
    let shown = "- mail.api.example. 60 A 10.0.0.2\n+ mail.api.example. 60 A 10.0.0.1\n\
                 - new.api.example. 60 A 10.0.0.2\n\
                 - www.api.example. 60 A 10.0.0.2\n+ www.api.example. 60 A 10.0.0.1\n";
    let dry = scene.done(&[&revert[..], &["--dry-run"]].concat());
    let counted = |rest: &str| format!("{shown}3 record sets of api.example. {rest}\n");
    assert_eq!(dry, counted("to undo, none changed"));
    assert!(scene.refused(&revert).contains("no terminal to confirm"));
    set(&scene, "10.0.0.3", &["--ttl", "60"]);
    let output = scene.run(&[&revert[..], &["--yes", "--reason", "a mistake"]].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = text(&output.stdout);
    assert!(
        told.contains("2 record sets of api.example. undone, and live as revision 6"),
        "{told}"
    );
    let rest = "not undone: www.api.example. A: changed since, at revision 5\n";
    assert!(told.ends_with(rest), "{told}");
    let told = scene.done(&["journal", "api.example", "--since", "5"]);
    assert!(told.lines().next().is_some_and(|line| line.ends_with("\"a mistake\"")), "{told}");
    let told = scene.done(&["journal", "revert", "6", "--zone", "api.example", "--yes"]);
    assert!(told.contains("2 record sets of api.example undone, and live as revision 7"), "{told}");
    let told = scene.refused(&["journal", "revert", "99", "--yes"]);
    assert!(told.contains("no journal has a write of revision 99"), "{told}");
    let told = scene.refused(&["journal", "revert", "2", "--yes"]);
    assert!(told.contains("delete the zone instead"), "{told}");
}

/// The address of the API, for a client that does not notice another server.
struct Proxy {
    address: SocketAddr,
    target: Arc<Mutex<Option<SocketAddr>>>,
}

impl Proxy {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let target: Arc<Mutex<Option<SocketAddr>>> = Arc::default();
        let theirs = Arc::clone(&target);
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.expect("a connection");
                let target = *theirs.lock().expect("no panic");
                let Some(Ok(server)) = target.map(TcpStream::connect) else { continue };
                for (mut from, mut to) in [
                    (client.try_clone().expect("a socket"), server.try_clone().expect("a socket")),
                    (server, client),
                ] {
                    thread::spawn(move || {
                        let _ = copy(&mut from, &mut to);
                        let _ = to.shutdown(std::net::Shutdown::Write);
                    });
                }
            }
        });
        Self { address, target }
    }

    fn aim(&self, target: Option<SocketAddr>) {
        *self.target.lock().expect("no panic") = target;
    }
}

/// A command that runs until the test ends.
struct Following(Child, Receiver<String>, Receiver<String>);

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (to, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            if to.send(line.expect("text")).is_err() {
                break;
            }
        }
    });
    lines
}

#[test]
fn journal_is_followed_over_a_restart_of_the_server() {
    let scene = start("journal-follow");
    scene.done(&["zones", "create", "api.example", "--nameserver", "ns"]);
    let proxy = Proxy::start();
    proxy.aim(Some(address(&scene)));
    let mut command = binary();
    command.env("DUNLIN_API", format!("http://{}", proxy.address));
    command.env("DUNLIN_TOKEN", &scene.token).stdin(Stdio::null());
    command.args(["journal", "api.example", "--follow", "-o", "json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let out = lines(child.stdout.take().expect("a pipe"));
    let errors = lines(child.stderr.take().expect("a pipe"));
    let following = Following(child, out, errors);
    let next = |kind: &str, revision: u64| {
        let line = following.1.recv_timeout(deadline()).expect("an entry");
        let entry: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!((&entry["kind"], &entry["revision"]), (&kind.into(), &revision.into()));
    };
    next("created", 1);
    set(&scene, "10.0.0.1", &[]);
    next("changed", 2);
    proxy.aim(None);
    let told = following.2.recv_timeout(deadline()).expect("a line");
    assert!(told.contains("waiting for the server"), "{told}");
    set(&scene, "10.0.0.2", &[]);
    let again = scene.restarted();
    proxy.aim(Some(address(&again)));
    next("changed", 3);
    assert_eq!(following.2.recv_timeout(deadline()).expect("a line"), "the server answers again");
    again.done(&["zones", "delete", "api.example", "--yes"]);
    next("deleted", 4);
}
