//! Networks of clients on a running server: denied names, counters, and reloads.
use crate::served::{
    HEAD, NOERROR, REFUSED, Served, binary, exchange, holds, query, rcode, short_socket, zone,
};
use std::fs;
use std::process::Output;
use test_support::folder::Folder;
use test_support::mmdb;
use test_support::wait::{self, deadline};

const NXDOMAIN: u8 = 3;

fn start(test: &str, network: &str) -> Served {
    let socket = short_socket(test);
    let network = format!("[[network]]\nname = \"local\"\nprefixes = [\"127.0.0.0/8\"]\n{network}");
    let config = format!("[admin]\nsocket = \"{}\"\n{network}", socket.display()) + &zone("a.test");
    Served::start(test, &config, &[("a.test.zone", HEAD), ("denied.txt", "# none\n")])
}

fn run(served: &Served, arguments: &[&str]) -> Output {
    let socket = served.socket().expect("a path");
    binary().args(arguments).arg("--socket").arg(socket).output().expect("it runs")
}

fn edit(served: &Served, old: &str, new: &str) {
    let file = served.folder.join("dunlin.toml");
    let text = fs::read_to_string(&file).expect("a config");
    assert!(text.contains(old), "{text}");
    fs::write(file, text.replace(old, new)).expect("a config");
}

/// Why a client of the network gets an answer.
fn explain(served: &Served, name: &str) -> serde_json::Value {
    let output = run(served, &["explain", name, "--client", "127.0.0.1", "-o", "json"]);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Replies with a code to the clients of the network.
fn counted(served: &Served, rcode: &str) -> u64 {
    let output = run(served, &["status", "-o", "json"]);
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(status["networks"][0]["name"], "local", "{status}");
    status["networks"][0]["rcodes"][rcode].as_u64().unwrap_or_default()
}

#[test]
fn networks_deny_names_and_count_replies_and_a_reload_changes_them() {
    let served = start("networks_deny", "deny = [\"ns.a.test\"]\n");
    assert_eq!(rcode(&served.ask("ns.a.test")), NXDOMAIN);
    assert_eq!(rcode(&served.ask("NS.A.test")), NXDOMAIN);
    assert_eq!(rcode(&served.ask("a.test")), NOERROR);
    assert_eq!(counted(&served, "NXDOMAIN"), 2);
    assert!(counted(&served, "NOERROR") >= 1);
    edit(
        &served,
        "deny = [\"ns.a.test\"]",
        "deny_file = \"denied.txt\"\ndeny_answer = \"refused\"",
    );
    let told = run(&served, &["reload"]);
    let told = String::from_utf8_lossy(&told.stdout);
    assert_eq!(told, "reloaded; changed: network; read 1 zone file\n");
    assert_eq!(rcode(&served.ask("ns.a.test")), NOERROR);
    fs::write(served.folder.join("denied.txt"), "*.a.test\n").expect("a file");
    assert_eq!(run(&served, &["reload"]).status.code(), Some(0));
    assert_eq!(rcode(&served.ask("ns.a.test")), REFUSED);
    assert_eq!(counted(&served, "NXDOMAIN"), 2, "a counter goes on");
    fs::write(served.folder.join("denied.txt"), "a.te").expect("a file");
    let refused = run(&served, &["reload"]);
    let told = String::from_utf8_lossy(&refused.stdout);
    assert_eq!(refused.status.code(), Some(1), "{told}");
    assert!(told.contains("denied.txt: does not end with a newline"), "{told}");
    assert_eq!(rcode(&served.ask("ns.a.test")), REFUSED, "the rules before stay");
    let explained = explain(&served, "ns.a.test");
    assert_eq!((&explained["denied"], &explained["rcode"]), (&true.into(), &"REFUSED".into()));
    assert_eq!(rcode(&served.ask("a.test")), NOERROR);
}

/// A file of locations decides where clients are, a new one is used by itself, and one that is cut
/// off is reported and changes nothing.
#[test]
fn file_of_locations_is_followed_and_a_cut_one_refused() {
    let file = |continent| mmdb::file(&[("192.0.2.0/24", mmdb::place(continent, None, None))]);
    let socket = short_socket("networks_geo");
    let folder = Folder::new("networks-geo");
    let (geo, new) = (folder.join("geo.mmdb"), folder.join("new.mmdb"));
    fs::write(&geo, file("EU")).expect("a file");
    let config = format!(
        "[admin]\nsocket = \"{}\"\n[networks]\nmaxmind = \"{}\"\n",
        socket.display(),
        geo.display()
    ) + &zone("a.test");
    let served = Served::start("networks_geo", &config, &[("a.test.zone", HEAD)]);
    let location = || {
        let explain = ["explain", "ns.a.test", "--client", "192.0.2.9", "-o", "json"];
        let output = run(&served, &explain);
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        told["location"].as_str().map(str::to_owned)
    };
    assert_eq!(location().as_deref(), Some("eu"));
    let replace = |bytes: &[u8]| {
        fs::write(&new, bytes).expect("a file");
        fs::rename(&new, &geo).expect("renamed");
    };
    replace(&file("NA"));
    wait::until_true("the new file is used", || location().as_deref() == Some("na"));
    let whole = file("AS");
    replace(&whole[..whole.len() / 2]);
    let status = || run(&served, &["status"]);
    wait::until_true("the file is refused", || status().status.code() == Some(1));
    let told = String::from_utf8_lossy(&status().stdout).into_owned();
    assert!(told.contains("geo.mmdb: is no MaxMind file, or is cut off"), "{told}");
    assert_eq!(location().as_deref(), Some("na"), "what was read before stays");
    let told = run(&served, &["reload"]);
    assert_eq!(told.status.code(), Some(1), "{told:?}");
    let checked = binary().arg("check").arg("-c").arg(served.folder.join("dunlin.toml")).output();
    assert_eq!(checked.expect("it runs").status.code(), Some(1));
    replace(&whole);
    wait::until_true("a whole file is used", || location().as_deref() == Some("as"));
    assert_eq!(status().status.code(), Some(0));
}

/// A forwarded name is explained by the servers of its rule and what is cached.
#[test]
fn forwarded_name_is_explained_with_its_servers_and_what_is_cached() {
    let upstream = Served::start("explain_upstream", &zone("a.test"), &[("a.test.zone", HEAD)]);
    let socket = short_socket("explain_forward");
    let config = format!(
        "[admin]\nsocket = \"{}\"\n[forward]\n\"test\" = [\"{}\"]\n[[network]]\n\
         name = \"local\"\nprefixes = [\"127.0.0.0/8\"]\ndeny = [\"*.ads.test\"]\n",
        socket.display(),
        upstream.address
    );
    let served = Served::start("explain_forward", &config, &[]);
    let told = explain(&served, "ns.a.test");
    assert_eq!((&told["rcode"], &told["zone"]), (&().into(), &().into()), "{told}");
    assert_eq!(told["forward"]["suffix"], "test.");
    assert_eq!(told["forward"]["servers"], serde_json::json!([upstream.address.to_string()]));
    assert_eq!(told["forward"]["cached"], serde_json::json!([]));
    let mut query = query("ns.a.test");
    query[2] |= 1; // RD
    let reply = exchange(served.address, &query, deadline()).expect("a reply");
    assert!(holds(&reply, &[192, 0, 2, 1]));
    let told = explain(&served, "ns.a.test");
    let cached = &told["forward"]["cached"][0]["answers"][0];
    assert_eq!((&cached["rcode"], &cached["records"]), (&"NOERROR".into(), &1.into()), "{told}");
    let text = run(&served, &["explain", "ns.a.test", "--client", "127.0.0.1"]);
    let text = String::from_utf8_lossy(&text.stdout);
    let line = format!("ns.a.test. is forwarded by the rule test. to {}", upstream.address);
    assert!(text.contains(&line) && text.contains("cached by "), "{text}");
    let denied = run(&served, &["explain", "x.ads.test", "--client", "127.0.0.1"]);
    let denied = String::from_utf8_lossy(&denied.stdout);
    assert!(denied.contains("rule of the network: deny *.ads.test."), "{denied}");
    let resolver = ["explain", "ns.a.test", "--client", "127.0.0.1", "--ecs", "10.1.0.0/16"];
    let ignored = run(&served, &resolver);
    let ignored = String::from_utf8_lossy(&ignored.stdout);
    assert!(ignored.contains("client subnet 10.1.0.0/16: it is ignored"), "{ignored}");
}

const VIEW: &str = "$TTL 60\nns A 192.0.2.77\ninside A 192.0.2.78\n";

#[test]
fn clients_of_a_view_see_the_merged_zone_and_a_reload_changes_it() {
    let socket = short_socket("networks_view");
    let view = "[[zone]]\nname = \"a.test\"\nview = \"in\"\nfile = \"in.zone\"\n\
                [[network]]\nname = \"local\"\nprefixes = [\"127.0.0.0/8\"]\nview = \"in\"\n";
    let config = format!("[admin]\nsocket = \"{}\"\n{view}", socket.display()) + &zone("a.test");
    let files = [("a.test.zone", HEAD), ("in.zone", VIEW)];
    let served = Served::start("networks_view", &config, &files);
    assert!(holds(&served.ask("ns.a.test"), &[192, 0, 2, 77]));
    assert!(holds(&served.ask_over_tcp("inside.a.test"), &[192, 0, 2, 78]));
    let explained = explain(&served, "ns.a.test");
    assert_eq!((&explained["network"], &explained["view"]), (&"local".into(), &"in".into()));
    assert_eq!(explained["answer"][0]["data"], "192.0.2.77", "as queries are answered");
    let outside = run(&served, &["explain", "ns.a.test", "--client", "192.0.2.1"]);
    let outside = String::from_utf8_lossy(&outside.stdout);
    assert!(outside.starts_with("ns.a.test. A for 192.0.2.1: NOERROR"), "{outside}");
    assert!(!outside.contains("192.0.2.77"), "{outside}");
    assert_eq!(rcode(&served.ask("other.a.test")), NXDOMAIN);
    // A file in place of another is loaded by itself, and an error in it leaves the zone.
    let replace = |text: &str| {
        fs::write(served.folder.join("in.new"), text).expect("a file");
        fs::rename(served.folder.join("in.new"), served.folder.join("in.zone")).expect("renamed");
    };
    replace(&VIEW.replace("192.0.2.77", "192.0.2.79"));
    let is_new = || holds(&served.ask("ns.a.test"), &[192, 0, 2, 79]);
    wait::until_true("the new view is served", is_new);
    replace("$TTL 60\ninside A 192.0.2.80\nns CNAME inside\n");
    let refused = run(&served, &["reload"]);
    let told = String::from_utf8_lossy(&refused.stdout);
    assert!(told.contains("in.zone:3:1: ns.a.test.: a CNAME record beside"), "{told}");
    assert!(is_new(), "the zone stays as it was");
    edit(&served, "view = \"in\"\n[", "view = \"default\"\n[");
    let told = run(&served, &["reload"]);
    assert!(String::from_utf8_lossy(&told.stdout).contains("changed: network"), "{told:?}");
    assert!(holds(&served.ask("ns.a.test"), &[192, 0, 2, 1]), "the zone without a view");
    assert_eq!(rcode(&served.ask("inside.a.test")), NXDOMAIN);
}

/// Sets of a view are written by a command, and a reload takes the view from its clients and gives
/// it back.
#[test]
fn clients_of_a_view_of_the_store_get_its_sets() {
    let socket = short_socket("networks_store");
    let config = format!(
        "[admin]\nsocket = \"{}\"\n[store]\nkind = \"redb\"\nviews = [\"in\"]\n[api]\n\
         listen = \"127.0.0.1:0\"\n[[network]]\nname = \"local\"\nprefixes = [\"127.0.0.0/8\"]\n\
         view = \"in\"\n",
        socket.display()
    );
    let served = Served::start("networks_store", &config, &[]);
    let created = run(&served, &["token", "create", "root", "--grant", "read,write,zones *"]);
    let token = String::from_utf8_lossy(&created.stdout).trim().to_owned();
    let command = |arguments: &[&str]| {
        let output = served.command(&token, arguments).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let done = |arguments: &[&str]| assert_eq!(command(arguments), (Some(0), String::new()));
    done(&["zones", "create", "a.test", "--nameserver", "ns.example.net."]);
    done(&["records", "set", "a.test", "www", "A", "192.0.2.1"]);
    let set = ["records", "set", "a.test", "www", "A", "192.0.2.77", "--view"];
    let set_in = |view| [&set[..], &[view]].concat();
    let (code, why) = command(&set_in("in"));
    assert!(code == Some(1) && why.contains("dunlin store upgrade"), "{why}");
    assert_eq!(run(&served, &["store", "upgrade", "--yes"]).status.code(), Some(0));
    done(&set_in("in"));
    assert!(holds(&served.ask("www.a.test"), &[192, 0, 2, 77]));
    let pool = ["records", "set", "a.test", "pool", "A", "--policy", "weighted", "--view", "in"];
    done(&[&pool[..], &["--weight", "0=192.0.2.80", "--weight", "1=192.0.2.81"]].concat());
    done(&["records", "set", "a.test", "@", "ALIAS", "pool.a.test.", "--view", "in"]);
    for name in ["pool.a.test", "a.test"] {
        let answer = served.ask(name);
        assert!(holds(&answer, &[192, 0, 2, 81]) && !holds(&answer, &[192, 0, 2, 80]), "{name}");
    }
    let (code, why) = command(&set_in("out"));
    assert!(code == Some(1) && why.contains("[store] views of the config names in"), "{why}");
    let is_of_all = || holds(&served.ask("www.a.test"), &[192, 0, 2, 1]);
    let named = "views = [\"in\"]";
    let reload = |old: &str, new: &str| {
        edit(&served, old, new);
        let told = run(&served, &["reload"]);
        assert_eq!(told.status.code(), Some(0), "{told:?}");
    };
    edit(&served, "view = \"in\"\n", "view = \"default\"\n");
    reload(named, "views = []");
    assert!(is_of_all());
    edit(&served, "view = \"default\"\n", "view = \"in\"\n");
    reload("views = []", named);
    wait::until_true("the view is served again", || {
        holds(&served.ask("www.a.test"), &[192, 0, 2, 77])
    });
}
