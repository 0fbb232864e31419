//! Documents that servers share.
use crate::node::{Node, eventually, folder};
use documents::{ChangeError, DocumentSet, Value, WriteError, change};
use fleet_state::{DocumentKind, EtcdDocuments};
use keyspace::{EtcdLink, EtcdSettings};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use std::{fs, thread};
use test_support::etcd::Etcd;
use test_support::operator::Operator;

/// The set of one server.
struct Server {
    folder: PathBuf,
    set: Option<Arc<EtcdDocuments>>,
}

impl Server {
    fn new(etcd: &Etcd) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(10_000);
        let folder = folder(std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        fs::create_dir(&folder).unwrap();
        let mut server = Self { folder, set: None };
        server.start(etcd);
        server
    }

    fn start(&mut self, etcd: &Etcd) {
        let (endpoints, prefix) = (etcd.endpoints(), "/dunlin/".to_owned());
        let settings =
            EtcdSettings { endpoints, prefix, may_write: true, ..EtcdSettings::default() };
        let link = EtcdLink::start(settings).unwrap();
        let check = |name: &str, value: &Value| match value.get("n").and_then(|n| n.as_u64()) {
            Some(_) if !name.contains('/') => Ok(()),
            _ => Err("it has no number".to_owned()),
        };
        let kind = DocumentKind { name: "things", copy: "things.copy", check: Box::new(check) };
        let set = EtcdDocuments::new(&link, kind, &self.folder);
        set.start();
        self.set = Some(set);
    }

    fn set(&self) -> &EtcdDocuments {
        self.set.as_ref().expect("it runs")
    }

    fn get(&self, name: &str) -> Option<u64> {
        let content = self.set().content();
        content.borrow().documents.get(name)?.value["n"].as_u64()
    }

    fn put(&self, name: &str, n: u64) -> Result<(), ChangeError<()>> {
        change(self.set(), |_| Ok((name.to_owned(), Some(number(n)))))
    }

    /// Creates a document that does not exist.
    fn create(&self, name: &str, n: u64) -> Result<(), ChangeError<()>> {
        change(self.set(), |content| match content.documents.contains_key(name) {
            true => Err(()),
            false => Ok((name.to_owned(), Some(number(n)))),
        })
    }

    fn delete(&self, name: &str) -> Result<(), ChangeError<()>> {
        change(self.set(), |_| Ok((name.to_owned(), None)))
    }

    fn fault(&self) -> Option<String> {
        self.set().status().expect("it is needed").fault
    }

    /// Waits until the copy on the disk is as the set.
    fn is_saved(&self, text: &str) -> bool {
        let copy = fs::read_to_string(self.folder.join("replica/things.copy"));
        copy.is_ok_and(|copy| copy.contains(text))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.set = None;
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn number(n: u64) -> Value {
    Value::from_iter([("n".to_owned(), n.into())])
}

#[test]
fn document_written_on_one_server_is_on_all_and_is_readable_in_etcd() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let servers = [Server::new(&etcd), Server::new(&etcd)];
    servers[0].put("a", 1).unwrap();
    assert_eq!(servers[0].get("a"), Some(1), "where it was written it is at once");
    eventually(|| servers[1].get("a") == Some(1));
    let value = Operator::of(&etcd).get("/dunlin/things/a").expect("a key");
    assert_eq!(value, r#"{"format":1,"n":1}"#);
    servers[1].put("a", 2).unwrap();
    servers[1].put("b", 3).unwrap();
    eventually(|| servers[0].get("a") == Some(2) && servers[0].get("b") == Some(3));
    servers[0].delete("a").unwrap();
    assert_eq!(servers[0].get("a"), None);
    eventually(|| servers[1].get("a").is_none() && servers[1].get("b") == Some(3));
    // Documents that were written from older content are refused.
    let old = servers[0].set().content().borrow().as_ref().clone();
    servers[1].put("b", 4).unwrap();
    let refused = servers[0].set().write(&old, "c", Some(number(5)));
    assert_eq!(refused, Err(WriteError::Conflict));
    assert_eq!(servers[0].get("b"), Some(4), "then the newest is known");
}

#[test]
fn one_of_two_servers_wins_and_no_change_is_lost() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let servers = [Server::new(&etcd), Server::new(&etcd)];
    const ROUNDS: u64 = 40;
    let won: [AtomicU64; 2] = Default::default();
    thread::scope(|scope| {
        for (server, won) in servers.iter().zip(&won) {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    match server.create(&format!("r{round}"), round) {
                        Ok(()) => drop(won.fetch_add(1, Ordering::Relaxed)),
                        Err(ChangeError::Refused(())) => {}
                        Err(why) => panic!("{why:?}"),
                    }
                    let raised = change::<()>(server.set(), |content| {
                        let known = content.documents.get("sum");
                        let before = known.map_or(0, |found| found.value["n"].as_u64().unwrap());
                        Ok(("sum".to_owned(), Some(number(before + 1))))
                    });
                    raised.unwrap();
                }
            });
        }
    });
    assert_eq!(won.iter().map(|won| won.load(Ordering::Relaxed)).sum::<u64>(), ROUNDS);
    eventually(|| servers.iter().all(|server| server.get("sum") == Some(2 * ROUNDS)));
}

#[test]
fn copy_holds_without_etcd_and_changes_are_refused() {
    let Some(mut etcd) = Etcd::start_or_skip(1) else { return };
    let mut server = Server::new(&etcd);
    server.put("a", 1).unwrap();
    eventually(|| server.is_saved(r#""n":1"#));
    let mode = |server: &Server| {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(server.folder.join("replica/things.copy")).unwrap().permissions().mode()
    };
    assert_eq!(mode(&server) & 0o777, 0o600, "it may have hashes of tokens");
    etcd.kill(0);
    let refused = server.put("a", 2);
    let Err(ChangeError::NotSaved(why) | ChangeError::Unknown(why)) = refused else {
        panic!("{refused:?}")
    };
    assert!(why.contains("etcd at http://127.0.0.1:"), "{why}");
    eventually(|| server.fault().is_some());
    let refused = server.put("a", 2);
    assert!(matches!(refused, Err(ChangeError::NotSaved(_))), "known to be away: {refused:?}");
    server.set = None;
    server.start(&etcd);
    assert_eq!(server.get("a"), Some(1), "a start needs no etcd");
    server.set().load().expect("it is known");
    etcd.start(0);
    eventually(|| server.put("a", 3).is_ok());
    assert_eq!(server.get("a"), Some(3));
    let new = Server::new(&etcd);
    eventually(|| new.get("a") == Some(3));
    // A damaged copy is not believed.
    server.set = None;
    let copy = server.folder.join("replica/things.copy");
    eventually(|| fs::read_to_string(&copy).is_ok_and(|text| text.contains(r#""n":3"#)));
    let text = fs::read_to_string(&copy).unwrap().replace(r#""n":3"#, r#""n":9"#);
    fs::write(&copy, text).unwrap();
    etcd.kill(0);
    server.start(&etcd);
    assert_eq!(server.get("a"), None);
    assert!(server.set().load().is_err(), "nothing is known");
    etcd.start(0);
    eventually(|| server.get("a") == Some(3));
}

#[test]
fn damaged_and_newer_documents_are_named_and_harm_no_other() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let server = Server::new(&etcd);
    server.put("good", 1).unwrap();
    let etcdctl = Operator::of(&etcd);
    for (name, value) in [
        ("text", "no JSON"),
        ("list", "[]"),
        ("none", r#"{"n":1}"#),
        ("newer", r#"{"format":2,"n":1}"#),
        ("wrong", r#"{"format":1,"n":"x"}"#),
        ("a/b", r#"{"format":1,"n":1}"#),
    ] {
        etcdctl.put(&format!("/dunlin/things/{name}"), value);
    }
    let named = |server: &Server| server.set().status().expect("needed").unusable;
    eventually(|| named(&server).len() == 6);
    let all = named(&server).join("\n");
    assert!(all.contains("newer: it has the format 2, which a newer version wrote"), "{all}");
    assert_eq!(server.get("good"), Some(1));
    server.put("good", 2).unwrap();
    server.put("text", 3).expect("a damaged one can be replaced");
    server.delete("newer").expect("and deleted");
    let other = Server::new(&etcd);
    eventually(|| other.get("good") == Some(2) && other.get("text") == Some(3));
    assert_eq!(named(&other).len(), 4);
    assert_eq!(named(&server), named(&other));
}

#[test]
fn deleted_document_does_not_return_with_an_older_etcd_until_it_is_adopted() {
    let Some(mut etcd) = Etcd::start_or_skip(1) else { return };
    let node = Node::start(&etcd);
    node.create("example.org.").unwrap();
    let server = Server::new(&etcd);
    server.put("revoked", 1).unwrap();
    server.put("kept", 1).unwrap();
    etcd.kill(0);
    let saved = etcd.save(0);
    etcd.start(0);
    eventually(|| server.delete("revoked").is_ok());
    etcd.kill(0);
    etcd.load(0, &saved);
    etcd.start(0);
    // Others write to the older etcd, so that its revision alone does not tell.
    let etcdctl = Operator::of(&etcd);
    (0..20).for_each(|_| etcdctl.put("/else", ""));
    let is_refused = |server: &Server| server.fault().is_some_and(|why| why.contains("set back"));
    eventually(|| is_refused(&server));
    assert_eq!(server.get("revoked"), None);
    assert!(matches!(server.put("new", 1), Err(ChangeError::NotSaved(_))));
    let mut server = server;
    server.set = None;
    server.start(&etcd);
    eventually(|| is_refused(&server));
    assert_eq!((server.get("revoked"), server.get("kept")), (None, Some(1)));
    node.service().adopt().wait().expect("an operator accepts it");
    eventually(|| server.get("revoked") == Some(1));
    server.delete("revoked").unwrap();
}

#[test]
fn unanswered_write_is_repeated_and_written_once() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let server = Server::new(&etcd);
    server.put("a", 1).unwrap();
    etcd.pause(0);
    thread::scope(|scope| {
        let writing = scope.spawn(|| server.create("b", 1));
        // Longer than a request may take, and shorter than a write.
        thread::sleep(Duration::from_secs(3));
        etcd.resume(0);
        match writing.join().unwrap() {
            Ok(()) | Err(ChangeError::Unknown(_)) => {}
            other => panic!("it was sent: {other:?}"),
        }
    });
    eventually(|| server.get("b") == Some(1));
    eventually(|| server.put("a", 2).is_ok());
}

#[test]
fn etcd_without_space_refuses_changes_and_says_so() {
    let quota = format!("--quota-backend-bytes={}", 4 << 20);
    let Some(etcd) = Etcd::start_with(1, &[&quota]) else { return };
    let server = Server::new(&etcd);
    server.put("a", 1).expect("there is space");
    let operator = Operator::of(&etcd);
    operator.fill("/other/", 100_000);
    // etcd raises the alarm only after a write that did not fit.
    eventually(|| matches!(server.put("a", 2), Err(ChangeError::NoSpace(_))));
    let Err(ChangeError::NoSpace(why)) = server.put("b", 1) else { panic!("there is no space") };
    assert!(why.contains("etcdctl alarm disarm"), "{why}");
    operator.delete("/other/");
    operator.make_room();
    eventually(|| server.put("a", 3).is_ok());
    assert_eq!(
        (server.get("a"), server.get("b")),
        (Some(3), None),
        "what was refused is not there"
    );
}
