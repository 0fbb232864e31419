//! Health of addresses: what a client of DNS sees of it, and what operators do.
use crate::operated::{self, Operated, http};
use crate::served::{HEAD, Served, rcode};
use rustix::process::Signal;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Deref;
use std::process::Output;
use test_support::wait;

/// A server with a store, the zone api.example, and a check of a port of loopback.
struct Scene {
    operated: Operated,
    /// The port of the check.
    port: u16,
}

/// A port that is free on all addresses of loopback that tests use.
fn free_port() -> u16 {
    loop {
        let port = test_support::ports::free_address(Ipv4Addr::new(127, 0, 9, 1)).port();
        let is_free = |last: u8| TcpListener::bind((Ipv4Addr::new(127, 0, 9, last), port)).is_ok();
        if (1..=4).all(is_free) {
            return port;
        }
    }
}

fn listen(last: u8, port: u16) -> TcpListener {
    let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 9, last), port)).expect("a free port");
    // No connection is accepted, and each probe makes one: some restarts fill the usual 128.
    rustix::net::listen(&listener, 4_096).expect("it listens");
    listener
}

impl Deref for Scene {
    type Target = Operated;

    fn deref(&self) -> &Operated {
        &self.operated
    }
}

impl Scene {
    fn start(test: &str) -> Self {
        let scene = Self::start_with(test, "", &[]);
        scene.done(&["zones", "create", "api.example", "--nameserver", "ns.example.net."]);
        scene
    }

    /// A server without that zone, with more sections and these files.
    fn start_with(test: &str, sections: &str, files: &[(&str, &str)]) -> Self {
        let port = free_port();
        let more = format!(
            "[health]\nallow = [\"127.0.9.0/24\"]\n[check.web]\nkind = \"tcp\"\n\
             port = {port}\ninterval = \"200ms\"\ntimeout = \"150ms\"\n{sections}"
        );
        let served = Served::start(test, &operated::config(test, &more), files);
        Self { operated: Operated::new(served), port }
    }

    /// Ends the server by a signal, and starts it again.
    fn restarted_by(self, signal: Signal) -> Self {
        self.served.signal(signal);
        let Operated { served, token } = self.operated;
        Self { operated: Operated { served: served.restarted(), token }, ..self }
    }

    /// Gives www these addresses, with the check.
    fn set(&self, last: &[u8]) {
        let addresses: Vec<String> = last.iter().map(|last| format!("127.0.9.{last}")).collect();
        let set = ["records", "set", "api.example", "www", "A", "--ttl", "300", "--check", "web"];
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        self.done(&[&set[..], &addresses].concat());
    }

    /// The addresses that www has now, by their last byte.
    fn answered(&self) -> Vec<u8> {
        let reply = self.served.ask("www.api.example");
        assert_eq!(rcode(&reply), 0);
        let mut found: Vec<u8> = reply
            .windows(6)
            .filter(|bytes| bytes[..5] == [0, 4, 127, 0, 9])
            .map(|bytes| bytes[5])
            .collect();
        found.sort_unstable();
        found
    }

    /// Waits until `dunlin health` has all these texts.
    fn shows(&self, texts: &[&str]) {
        let shown = || self.done(&["health"]);
        wait::until_value(&format!("{texts:?} in `dunlin health`"), shown, |shown| {
            texts.iter().all(|text| shown.contains(text))
        });
    }

    /// Waits until these states are on disk, by the last bytes of the addresses.
    fn wait_until_saved(&self, states: &[(u8, &str)]) {
        let file = self.served.folder.join("data/health.state");
        let text = || std::fs::read_to_string(&file).unwrap_or_default();
        wait::until_value(&format!("saved: {states:?}"), text, |text| {
            states
                .iter()
                .all(|(last, state)| text.contains(&format!("\"127.0.9.{last}\",\"{state}\"")))
        });
    }

    fn expect(&self, last: &[u8]) {
        wait::until_eq("the last bytes of the addresses", || self.answered(), last);
    }
}

#[test]
fn reloaded_check_probes_what_it_names_now() {
    let scene = Scene::start("health-reload");
    let other = free_port();
    let (_one, _two) = (listen(1, scene.port), listen(2, other));
    scene.set(&[1, 2]);
    scene.expect(&[1]);
    let file = scene.served.folder.join("dunlin.toml");
    let text = std::fs::read_to_string(&file).expect("a config");
    let reload = |text: &str| {
        std::fs::write(&file, text).expect("a config");
        scene.done(&["reload"])
    };
    let new = text.replace(&format!("port = {}", scene.port), &format!("port = {other}"));
    let reloaded = reload(&format!("{new}[check.new]\nkind = \"tcp\"\nport = {other}\n"));
    assert!(reloaded.starts_with("reloaded; changed: check;"), "{reloaded}");
    scene.expect(&[2]);
    let checks = scene.done(&["checks", "list"]);
    assert!(checks.contains("new") && checks.contains(&other.to_string()), "{checks}");
    reload(&new);
    let checks = scene.done(&["checks", "list"]);
    assert!(!checks.contains("new"), "{checks}");
    // Its file of CAs cannot be read: nothing is applied.
    let tls = "kind = \"https\"\nport = 1\npath = \"/\"\nca = \"no.pem\"\n";
    std::fs::write(&file, format!("{new}[check.tls]\n{tls}")).expect("a config");
    let output = scene.run(&["reload"]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.code() == Some(1) && told.contains("[check.tls] ca:"), "{told}");
    scene.expect(&[2]);
}

#[test]
fn dead_address_is_left_out_and_comes_back() {
    let scene = Scene::start("health-dies");
    let (_one, two) = (listen(1, scene.port), listen(2, scene.port));
    scene.set(&[1, 2, 3]);
    scene.expect(&[1, 2]);
    let reply = scene.served.ask("www.api.example");
    assert!(reply.windows(4).any(|ttl| ttl == [0, 0, 0, 30]), "the TTL is at most 30 s");
    drop(two);
    scene.expect(&[1]);
    let shown = scene.done(&["health", "www.api.example"]);
    assert!(shown.contains("127.0.9.2") && shown.contains("connection refused"), "{shown}");
    let _two = listen(2, scene.port);
    scene.expect(&[1, 2]);
    drop(_one);
    drop(_two);
    scene.expect(&[1, 2]);
    let status = || scene.run(&["status", "-o", "json"]);
    let json = |output: &Output| -> serde_json::Value {
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let kinds = |output: &Output| {
        let faults = json(output)["faults"].as_array().cloned().unwrap_or_default();
        faults.into_iter().map(|fault| fault["kind"].clone()).collect::<Vec<_>>()
    };
    let is_open = |output: &Output| {
        json(output)["health"]["open_sets"] == 1
            && kinds(output) == ["health_none_up", "health_open_set"]
    };
    let status = wait::until_value("an open set, and no address that is up", status, is_open);
    assert_eq!(scene.answered(), [1, 2], "those that were up once, not the third: fail-open");
    assert_eq!(status.status.code(), Some(1), "no address is up");
}

/// Names of a zone file have the check of their zone, and each address is probed once.
#[test]
fn check_of_a_file_zone_leaves_out_what_is_dead() {
    let both = |name: &str| format!("{name} A 127.0.9.1\n{name} A 127.0.9.2\n");
    let names: String = (0..50).map(|n| both(&format!("n{n}"))).collect();
    let zone = format!("{HEAD}{}{}{names}", both("www"), both("x.static"));
    let sections = "[[zone]]\nname = \"api.example\"\nfile = \"zone\"\n[zone.check]\n\
                    name = \"web\"\nexcept = [\"ns.api.example\", \"*.static.api.example\"]\n";
    let scene = Scene::start_with("health-zone", sections, &[("zone", &zone)]);
    let (_one, two) = (listen(1, scene.port), listen(2, scene.port));
    let targets = || -> Vec<String> {
        let shown = scene.done(&["health", "-o", "json"]);
        let report: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
        let targets = report["targets"].as_array().cloned().unwrap_or_default();
        targets.iter().map(|one| format!("{} {}", one["state"], one["sets"])).collect()
    };
    // The name server and static names have none.
    wait::until_eq("state and sets of the targets", targets, ["\"up\" 51", "\"up\" 51"]);
    drop(two);
    scene.expect(&[1]);
    let not_checked = scene.served.ask("x.static.api.example");
    assert!(not_checked.windows(4).any(|bytes| bytes == [127, 0, 9, 2]));

    // The zone loses its check.
    let file = scene.served.folder.join("dunlin.toml");
    let text = std::fs::read_to_string(&file).expect("a config");
    let (without, _) = text.split_once("[zone.check]").expect("it is there");
    std::fs::write(&file, without).expect("a config");
    assert!(scene.done(&["reload"]).contains("zone.check"));
    scene.expect(&[1, 2]);
    wait::until_eq("targets", targets, [""; 0]);
}

#[test]
fn unknown_check_and_special_addresses_are_refused() {
    let scene = Scene::start("health-refused");
    let set = ["records", "set", "api.example", "www", "A", "--ttl", "300", "127.0.9.1"];
    let why = scene.refused(&[&set[..], &["--check", "none"]].concat());
    assert!(why.contains("there is no check none"), "{why}");
    let why = scene.refused(&[&set[..], &["--policy", "weighted"]].concat());
    assert!(why.contains("dunlin store upgrade"), "{why}");
    // Not in [health] allow: not probed, and its state stays unknown.
    scene.done(&[
        "records",
        "set",
        "api.example",
        "x",
        "A",
        "--ttl",
        "300",
        "--check",
        "web",
        "127.0.0.1",
    ]);
    let shown = || scene.done(&["health"]);
    let shown = wait::until_value("the target", shown, |shown| shown.contains("127.0.0.1"));
    assert!(shown.contains("no prefix of [health] allow contains it"), "{shown}");
}

#[test]
fn operator_drains_and_restores_an_address() {
    let scene = Scene::start("health-drain");
    let _listening = [listen(1, scene.port), listen(2, scene.port)];
    scene.set(&[1, 2]);
    scene.expect(&[1, 2]);
    scene.done(&["drain", "127.0.9.1", "--reason", "rack 7 moves"]);
    scene.expect(&[2]);
    let shown = scene.done(&["health"]);
    assert!(shown.contains("drain (") && shown.contains("rack 7 moves"), "{shown}");
    let why = scene.refused(&["drain", "127.0.9.2"]);
    assert!(why.contains("the last member") && why.contains("www.api.example. A"), "{why}");
    assert_eq!(scene.answered(), [2]);
    scene.done(&["force-down", "127.0.9.2"]);
    assert_eq!(scene.answered(), [2], "a drained one only if nothing else is left");
    scene.done(&["restore", "127.0.9.1"]);
    scene.expect(&[1]);
    scene.done(&["restore", "127.0.9.2"]);
    scene.expect(&[1, 2]);
    let why = scene.refused(&["drain", "127.0.9.1", "--check", "none"]);
    assert!(why.contains("there is no check none"), "{why}");
}

#[test]
fn grant_for_addresses_drains_these_and_no_others() {
    let scene = Scene::start("health-grant");
    let _listening = [listen(1, scene.port), listen(2, scene.port)];
    scene.set(&[1, 2]);
    scene.expect(&[1, 2]);
    let token = scene.done(&["token", "create", "rack", "--grant", "endpoints 127.0.9.1"]);
    let put = |last: u8, state: &str| {
        let path = format!("/v1/endpoints/127.0.9.{last}");
        let body = format!("{{\"state\":\"{state}\"}}");
        http(&scene.served, token.trim(), "PUT", &path, &body)
    };
    assert_eq!(put(2, "drain").0, 403);
    assert_eq!(put(1, "drain").0, 200);
    scene.expect(&[2]);
    scene.done(&["drain", "127.0.9.2", "--yes"]);
    scene.done(&["restore", "127.0.9.1"]);
    scene.expect(&[1]);
    let (status, response) = put(1, "drain");
    assert_eq!(status, 409, "{response}");
    assert!(!response.contains("api.example"), "it may not see the sets: {response}");
}

/// A restart neither names the dead nor forgets the living, from the first answer on.
fn restarts(test: &str, times: usize) {
    let mut scene = Scene::start(test);
    let _listening = [listen(1, scene.port), listen(3, scene.port)];
    let dies = listen(2, scene.port);
    scene.set(&[1, 2, 3]);
    scene.expect(&[1, 2, 3]);
    scene.done(&["drain", "127.0.9.3"]);
    drop(dies);
    scene.expect(&[1]);
    scene.wait_until_saved(&[(1, "up"), (2, "down")]);
    for time in 0..times {
        // Some ends are sudden.
        scene = scene.restarted_by(if time % 2 == 0 { Signal::KILL } else { Signal::TERM });
        for _ in 0..20 {
            assert_eq!(scene.answered(), [1], "restart {time}");
        }
    }
}

#[test]
fn restart_names_no_dead_address() {
    restarts("health-restart", 3);
}

#[test]
#[ignore = "slow: 200 restarts"]
fn two_hundred_restarts_name_no_dead_address() {
    restarts("health-restarts", 200);
}

#[test]
fn address_of_a_higher_tier_answers_once_the_lower_one_is_dead() {
    let scene = Scene::start("health-tiers");
    let (first, _second) = (listen(1, scene.port), listen(2, scene.port));
    let set = ["records", "set", "api.example", "www", "A", "--check", "web"];
    let members = ["127.0.9.1", "--tier", "1=127.0.9.2"];
    scene.done(&[&set[..], &members].concat());
    scene.expect(&[1]);
    assert!(scene.done(&[&set[..], &members].concat()).contains("nothing to change"));
    scene.shows(&["127.0.9.1  web    up", "127.0.9.2  web    up"]);
    drop(first);
    scene.expect(&[2]);
    scene.shows(&["127.0.9.1  web    down"]);
    // The only living one.
    let why = scene.refused(&["drain", "127.0.9.2"]);
    assert!(why.contains("neither down nor drained"), "{why}");
}

#[test]
fn check_of_the_api_is_durable_and_cannot_be_a_script() {
    let scene = Scene::start("health-checks");
    let port = format!("port={}", scene.port);
    let define = ["checks", "set", "app", "kind=tcp", &port, "interval=200ms", "timeout=150ms"];
    // What only the config defines, and what it defines already.
    for (refused, why) in [
        (&["checks", "set", "web", "kind=tcp", &port][..], "the config has a check of this name"),
        (&["checks", "set", "app", "kind=script", "port=1"], "in the config only"),
        (&["checks", "set", "app", "kind=https", "port=1", "ca=/etc/passwd"], "file of the server"),
        (&["checks", "set", "app", "kind=tcp"], "needs the key `port`"),
        (&["checks", "set", "a b", "kind=icmp"], "is not a name of a check"),
        (&["checks", "delete", "web"], "the config has a check of this name"),
        (&["checks", "delete", "app"], "there is no such check"),
    ] {
        let told = scene.refused(refused);
        assert!(told.contains(why), "{refused:?}: {told}");
    }
    scene.done(&define);
    let addresses = ["127.0.9.1", "127.0.9.2"];
    let set = ["records", "set", "api.example", "www", "A", "--check", "app"];
    let _alive = listen(1, scene.port);
    scene.done(&[&set[..], &addresses].concat());
    scene.expect(&[1]);
    let why = scene.refused(&["checks", "delete", "app"]);
    assert!(why.contains("record sets name it for 2 addresses"), "{why}");
    scene.wait_until_saved(&[(1, "up"), (2, "down")]);
    let scene = scene.restarted_by(Signal::KILL);
    assert_eq!(scene.answered(), [1], "the check and the states are there");
    assert!(scene.done(&["checks", "list"]).contains("interval=200ms"));
    // A change holds at once: a port on which nothing listens.
    let closed = format!("port={}", free_port());
    scene.done(&["checks", "set", "app", "kind=tcp", &closed, "interval=200ms", "timeout=150ms"]);
    scene.shows(&["127.0.9.1  app    down"]);
    scene.done(&["records", "delete", "api.example", "www", "A"]);
    let deleted = || scene.run(&["checks", "delete", "app"]);
    wait::until_value("no set names it", deleted, |output| output.status.success());
    assert!(!scene.done(&["checks", "list"]).contains("app"));
}

#[test]
fn policy_of_a_set_decides_each_answer_once_the_store_has_its_form() {
    let scene = Scene::start("policies");
    let set = ["records", "set", "api.example", "www", "A", "--policy"];
    let weighted = ["weighted", "--weight", "0=127.0.9.1", "--weight", "5=127.0.9.2"];
    let why = scene.refused(&[&set[..], &weighted].concat());
    assert!(why.contains("dunlin store upgrade"), "{why}");
    scene.done(&["store", "upgrade", "--yes"]);
    scene.done(&[&set[..], &weighted].concat());
    scene.expect(&[2]);
    let shown = scene.done(&["records", "get", "api.example", "www", "A"]);
    assert!(shown.contains("weight 0, policy weighted"), "{shown}");
    scene.done(&[&set[..], &["hash", "127.0.9.3", "127.0.9.4"]].concat());
    let moved = |last: &Vec<u8>| last[..] != [2];
    let chosen = wait::until_value("one by hash", || scene.answered(), moved);
    assert_eq!(chosen.len(), 1);
    (0..20).for_each(|_| assert_eq!(scene.answered(), chosen, "always the same"));
    let near = ["nearest", "--location", "eu=127.0.9.3", "--location", "us=127.0.9.4"];
    scene.done(&[&set[..], &near].concat());
    scene.expect(&[3, 4]);
}
