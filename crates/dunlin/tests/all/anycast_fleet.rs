//! How many servers of a fleet may withdraw an announced address at once: three servers on one
//! machine, with a port and a table each.
use crate::anycast_bed::{ADDRESSES, missing, server};
use crate::served::{Served, binary, text};
use serde_json::Value;
use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use test_support::etcd::Etcd;
use test_support::skip::skip;
use test_support::spaces::{Host, Spaces, within};
use test_support::wait;

const NAMES: [&str; 3] = ["s1", "s2", "s3"];

/// A server of the fleet.
struct Member {
    _served: Served,
    socket: PathBuf,
}

impl Member {
    fn start(spaces: &Spaces, etcd: &Etcd, number: usize) -> Self {
        let id = std::process::id();
        let folder = std::env::temp_dir().join(format!("dunlin-anycast-fleet-{id}-{number}"));
        let socket = folder.with_extension("sock");
        let (name, endpoints, address) = (NAMES[number], etcd.endpoints(), ADDRESSES[0]);
        let config = format!(
            "listen = [\"0.0.0.0:530{number}\"]\nname = {name:?}\ndrain = \"0s\"\n\
             [admin]\nsocket = {socket:?}\n[store]\nkind = \"etcd\"\n\
             [etcd]\nendpoints = {endpoints:?}\n[anycast]\naddresses = [{address:?}]\n\
             table = 15{number}\nadd_addresses = true\nhold_down = \"1s\"\nsettle = \"0s\"\n"
        );
        let served = Served::start_by(&mut server(&spaces.server), &folder, &config, &[]);
        Self { _served: served, socket }
    }

    fn anycast(&self, args: &[&str]) -> (Option<i32>, String) {
        let output = binary().arg("anycast").args(args).arg("--socket").arg(&self.socket).output();
        let output = output.expect("it runs");
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.anycast(&["status", "-o", "json"]).1).unwrap_or_default()
    }

    fn is_announced(&self) -> bool {
        self.status()["is_announced"] == true
    }

    /// Why it stays announced, or nothing.
    fn no_permit(&self) -> String {
        self.status()["no_permit"].as_str().unwrap_or_default().to_owned()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.socket.with_extension(""));
    }
}

/// The number of servers that announce, and of those that may not withdraw.
fn counts(members: &[Member]) -> (usize, usize) {
    let announced = members.iter().filter(|one| one.is_announced()).count();
    let is_held = |one: &&Member| one.no_permit().contains("is withdrawn (");
    (announced, members.iter().filter(is_held).count())
}

#[test]
fn one_of_three_servers_withdraws_and_the_others_say_why_they_do_not() {
    if let Some(missing) = missing() {
        return skip(missing);
    }
    let spaces = Spaces::wired("dunlin-anycast-fleet", ["", ""]);
    let host = Host { space: spaces.server.clone(), address: Ipv4Addr::new(192, 0, 2, 1) };
    let started = within(&spaces.server, || Etcd::start_on(&[host], &[]));
    let Some(mut etcd) = started else { return };
    let members: Vec<Member> = (0..3).map(|nth| Member::start(&spaces, &etcd, nth)).collect();
    let expect = |what: &str, expected: (usize, usize)| {
        wait::until_eq(what, || counts(&members), expected);
    };
    expect("all announce", (3, 0));
    // What all of them find wrong at once.
    spaces.run(&format!("ip -n {{s}} addr del {}/32 dev lo", ADDRESSES[0]));
    expect("one is withdrawn, two say so", (2, 2));
    let held = members.iter().find(|one| one.is_announced()).expect("two of them");
    assert!(held.no_permit().contains("does not answer"), "{}", held.no_permit());
    spaces.run(&format!("ip -n {{s}} addr add {}/32 dev lo", ADDRESSES[0]));
    expect("all announce again", (3, 0));

    let withdraw = ["withdraw", "--reason", "rack 7"];
    // A permit is given back a moment after the announcement.
    wait::until_value(
        "a withdrawal by command",
        || members[0].anycast(&[&withdraw[..], &["--wait"]].concat()),
        |(code, _)| *code == Some(0),
    );
    let (code, told) = members[1].anycast(&withdraw);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("s1 is withdrawn (by an operator: rack 7)"), "{told}");
    assert!(told.contains("--force"), "{told}");
    expect("the refused one announces", (2, 0));
    let (code, told) = members[1].anycast(&[&withdraw[..], &["--force", "--wait"]].concat());
    assert_eq!(code, Some(0), "{told}");
    for member in &members[..2] {
        let (code, told) = member.anycast(&["announce", "--wait"]);
        assert_eq!(code, Some(0), "{told}");
    }
    expect("all announce in the end", (3, 0));
    // Without etcd nothing is known of the others.
    etcd.kill(0);
    let (code, told) = members[2].anycast(&withdraw);
    assert!(code == Some(1) && told.contains("etcd, which has the permits"), "{told}");
    assert!(members[2].is_announced());
}
