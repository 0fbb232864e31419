//! Health of addresses: what a client of DNS sees of it, and what operators do.
use crate::served::{Served, done, rcode, refused, short_socket};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Output;
use test_support::wait;

/// A server with a store, the zone api.example, and a check of a port of loopback.
struct Scene {
    served: Served,
    socket: PathBuf,
    token: String,
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

fn config(test: &str, port: u16) -> String {
    let socket = short_socket(test);
    format!(
        "drain = \"0s\"\n[admin]\nsocket = \"{}\"\n[store]\nkind = \"redb\"\n[api]\n\
         listen = \"127.0.0.1:0\"\n[health]\nallow = [\"127.0.9.0/24\"]\n\
         [check.web]\nkind = \"tcp\"\nport = {port}\ninterval = \"200ms\"\ntimeout = \"150ms\"\n",
        socket.display()
    )
}

impl Scene {
    fn start(test: &str) -> Self {
        let port = free_port();
        let served = Served::start(test, &config(test, port), &[]);
        let socket = served.socket().expect("a socket");
        let mut scene = Self { served, socket, token: String::new(), port };
        let created = scene.told(&["token", "create", "root", "--grant", "read,write,zones *"]);
        scene.token = created.trim().to_owned();
        scene.done(&["zones", "create", "api.example", "--nameserver", "ns.example.net."]);
        scene
    }

    /// Runs a command over the API.
    fn run(&self, args: &[&str]) -> Output {
        self.served.command(&self.token, args).output().expect("the binary runs")
    }

    fn done(&self, args: &[&str]) -> String {
        done(args, &self.run(args))
    }

    fn refused(&self, args: &[&str]) -> String {
        refused(args, &self.run(args))
    }

    /// Runs a command over the admin socket.
    fn told(&self, args: &[&str]) -> String {
        self.done(&[args, &["--socket", self.socket.to_str().expect("UTF-8")]].concat())
    }

    fn told_refused(&self, args: &[&str]) -> String {
        self.refused(&[args, &["--socket", self.socket.to_str().expect("UTF-8")]].concat())
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
        let shown = || self.told(&["health"]);
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
        scene.told(&["reload"])
    };
    let new = text.replace(&format!("port = {}", scene.port), &format!("port = {other}"));
    let reloaded = reload(&format!("{new}[check.new]\nkind = \"tcp\"\nport = {other}\n"));
    assert!(reloaded.starts_with("reloaded; changed: check;"), "{reloaded}");
    scene.expect(&[2]);
    let checks = scene.told(&["checks", "list"]);
    assert!(checks.contains("new") && checks.contains(&other.to_string()), "{checks}");
    reload(&new);
    let checks = scene.told(&["checks", "list"]);
    assert!(!checks.contains("new"), "{checks}");
    // Its file of CAs cannot be read: nothing is applied.
    let tls = "kind = \"https\"\nport = 1\npath = \"/\"\nca = \"no.pem\"\n";
    std::fs::write(&file, format!("{new}[check.tls]\n{tls}")).expect("a config");
    let output = scene.run(&["reload", "--socket", scene.socket.to_str().expect("UTF-8")]);
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
    let shown = scene.told(&["health", "www.api.example"]);
    assert!(shown.contains("127.0.9.2") && shown.contains("connection refused"), "{shown}");
    let _two = listen(2, scene.port);
    scene.expect(&[1, 2]);
    drop(_one);
    drop(_two);
    scene.expect(&[1, 2]);
    let socket = scene.socket.to_str().expect("UTF-8");
    let status = || scene.run(&["status", "-o", "json", "--socket", socket]);
    let json = |output: &Output| -> serde_json::Value {
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let is_open = |output: &Output| json(output)["health"]["open_sets"] == 1;
    let status = wait::until_value("an open set", status, is_open);
    assert_eq!(scene.answered(), [1, 2], "those that were up once, not the third: fail-open");
    assert_eq!(status.status.code(), Some(1), "no address is up");
    let status = json(&status);
    let kinds = status["faults"].as_array().expect("faults").iter().map(|fault| &fault["kind"]);
    assert!(kinds.eq(["health_none_up", "health_open_set"]), "{}", status["faults"]);
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
    let shown = || scene.told(&["health"]);
    let shown = wait::until_value("the target", shown, |shown| shown.contains("127.0.0.1"));
    assert!(shown.contains("no prefix of [health] allow contains it"), "{shown}");
}

#[test]
fn operator_drains_and_restores_an_address() {
    let scene = Scene::start("health-drain");
    let _listening = [listen(1, scene.port), listen(2, scene.port)];
    scene.set(&[1, 2]);
    scene.expect(&[1, 2]);
    scene.told(&["drain", "127.0.9.1", "--reason", "rack 7 moves"]);
    scene.expect(&[2]);
    let shown = scene.told(&["health"]);
    assert!(shown.contains("drain (") && shown.contains("rack 7 moves"), "{shown}");
    let why = scene.told_refused(&["drain", "127.0.9.2"]);
    assert!(why.contains("the last member") && why.contains("www.api.example. A"), "{why}");
    assert_eq!(scene.answered(), [2]);
    scene.told(&["force-down", "127.0.9.2"]);
    assert_eq!(scene.answered(), [2], "a drained one only if nothing else is left");
    scene.told(&["restore", "127.0.9.1"]);
    scene.expect(&[1]);
    scene.told(&["restore", "127.0.9.2"]);
    scene.expect(&[1, 2]);
    let why = scene.told_refused(&["drain", "127.0.9.1", "--check", "none"]);
    assert!(why.contains("there is no check none"), "{why}");
}

#[test]
fn grant_for_addresses_drains_these_and_no_others() {
    let scene = Scene::start("health-grant");
    let _listening = [listen(1, scene.port), listen(2, scene.port)];
    scene.set(&[1, 2]);
    scene.expect(&[1, 2]);
    let token = scene.told(&["token", "create", "rack", "--grant", "endpoints 127.0.9.1"]);
    let put = |last: u8, state: &str| {
        let api = scene.served.api().expect("said");
        let body = format!("{{\"state\":\"{state}\"}}");
        let request = format!(
            "PUT /v1/endpoints/127.0.9.{last} HTTP/1.1\r\nHost: {api}\r\nConnection: close\r\n\
             Authorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            token.trim(),
            body.len()
        );
        let mut stream = TcpStream::connect(api).expect("it listens");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("a response");
        response
    };
    let response = put(2, "drain");
    assert!(response.starts_with("HTTP/1.1 403"), "{response}");
    let response = put(1, "drain");
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    scene.expect(&[2]);
    scene.told(&["drain", "127.0.9.2", "--yes"]);
    scene.told(&["restore", "127.0.9.1"]);
    scene.expect(&[1]);
    let response = put(1, "drain");
    assert!(response.starts_with("HTTP/1.1 409"), "{response}");
    assert!(!response.contains("api.example"), "it may not see the sets: {response}");
}

/// A restart neither names the dead nor forgets the living, from the first answer on.
fn restarts(test: &str, times: usize) {
    let scene = Scene::start(test);
    let _listening = [listen(1, scene.port), listen(3, scene.port)];
    let dies = listen(2, scene.port);
    scene.set(&[1, 2, 3]);
    scene.expect(&[1, 2, 3]);
    scene.told(&["drain", "127.0.9.3"]);
    drop(dies);
    scene.expect(&[1]);
    scene.wait_until_saved(&[(1, "up"), (2, "down")]);
    let Scene { mut served, socket, token, port } = scene;
    for time in 0..times {
        // Some ends are sudden.
        served.signal(if time % 2 == 0 { Signal::KILL } else { Signal::TERM });
        served = served.restarted();
        let scene = Scene { served, socket: socket.clone(), token: token.clone(), port };
        for _ in 0..20 {
            assert_eq!(scene.answered(), [1], "restart {time}");
        }
        served = scene.served;
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
    let why = scene.told_refused(&["drain", "127.0.9.2"]);
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
        let told = scene.told_refused(refused);
        assert!(told.contains(why), "{refused:?}: {told}");
    }
    scene.told(&define);
    let addresses = ["127.0.9.1", "127.0.9.2"];
    let set = ["records", "set", "api.example", "www", "A", "--check", "app"];
    let _alive = listen(1, scene.port);
    scene.done(&[&set[..], &addresses].concat());
    scene.expect(&[1]);
    let why = scene.told_refused(&["checks", "delete", "app"]);
    assert!(why.contains("record sets name it for 2 addresses"), "{why}");
    scene.wait_until_saved(&[(1, "up"), (2, "down")]);
    let Scene { mut served, socket, token, port } = scene;
    served.signal(Signal::KILL);
    served = served.restarted();
    let scene = Scene { served, socket, token, port };
    assert_eq!(scene.answered(), [1], "the check and the states are there");
    assert!(scene.told(&["checks", "list"]).contains("interval=200ms"));
    // A change holds at once: a port on which nothing listens.
    let closed = format!("port={}", free_port());
    scene.told(&["checks", "set", "app", "kind=tcp", &closed, "interval=200ms", "timeout=150ms"]);
    scene.shows(&["127.0.9.1  app    down"]);
    scene.done(&["records", "delete", "api.example", "www", "A"]);
    let socket = scene.socket.to_str().unwrap();
    let deleted = || scene.run(&["checks", "delete", "app", "--socket", socket]);
    wait::until_value("no set names it", deleted, |output| output.status.success());
    assert!(!scene.told(&["checks", "list"]).contains("app"));
}

#[test]
fn policy_of_a_set_decides_each_answer_once_the_store_has_its_form() {
    let scene = Scene::start("policies");
    let set = ["records", "set", "api.example", "www", "A", "--policy"];
    let weighted = ["weighted", "--weight", "0=127.0.9.1", "--weight", "5=127.0.9.2"];
    let why = scene.refused(&[&set[..], &weighted].concat());
    assert!(why.contains("dunlin store upgrade"), "{why}");
    scene.told(&["store", "upgrade", "--yes"]);
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
