//! UPDATE and signed queries, as the tools of BIND and Knot send them.
use crate::served::{HEAD, Served, binary, done, short_socket, text};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use test_support::skip::skip;

/// A server that takes updates, with the zone `z.example` in its store.
pub struct Scene {
    pub served: Served,
    socket: String,
    token: String,
}

impl Scene {
    pub fn start(test: &str) -> Self {
        Self::start_with(test, "")
    }

    /// The same with further sections of the config.
    pub fn start_with(test: &str, sections: &str) -> Self {
        let socket = short_socket(test).to_str().expect("UTF-8").to_owned();
        let config = format!(
            "drain = \"0s\"\n[admin]\nsocket = \"{socket}\"\n[store]\nkind = \"redb\"\n[api]\n\
             listen = \"127.0.0.1:0\"\nupdate = \"live\"\n[[zone]]\nname = \"file.example\"\n\
             file = \"file.example.zone\"\n{sections}"
        );
        let served = Served::start(test, &config, &[("file.example.zone", HEAD)]);
        let mut scene = Self { served, socket, token: String::new() };
        let token = ["token", "create", "root", "--grant", "read,write,zones *"];
        scene.token = scene.local(&token).trim().to_owned();
        scene.api(&["zones", "create", "z.example", "--nameserver", "ns.z.example"]);
        let file = scene.file("z.zone");
        fs::write(&file, "ns 60 A 192.0.2.1\n").expect("a file");
        scene.api(&["records", "import", "z.example", file.to_str().expect("UTF-8"), "--yes"]);
        scene
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.served.folder.join(name)
    }

    /// A command over the local socket.
    pub fn local(&self, args: &[&str]) -> String {
        let mut command = binary();
        command.args(args).args(["--socket", &self.socket]).stdin(Stdio::null());
        done(args, &command.output().expect("the binary runs"))
    }

    /// A command over the API.
    pub fn api(&self, args: &[&str]) -> String {
        done(args, &self.served.command(&self.token, args).output().expect("the binary runs"))
    }

    /// Creates a key; returns its file.
    pub fn key(&self, name: &str, grant: &str, tsig: &str) -> PathBuf {
        let key = self.local(&["token", "create", name, "--grant", grant, tsig]);
        let file = self.file(name);
        fs::write(&file, key).expect("a file");
        file
    }

    pub fn dig(&self, args: &[&str]) -> String {
        let (port, ip) = (self.served.address.port().to_string(), self.served.address.ip());
        let mut command = Command::new("dig");
        command.args([&format!("@{ip}"), "-p", &port, "+tries=1", "+noedns"]).args(args);
        text(&command.output().expect("dig runs").stdout)
    }

    pub fn serial(&self) -> String {
        let soa = self.dig(&["+short", "z.example", "SOA"]);
        soa.split(' ').nth(2).expect("a serial").to_owned()
    }

    /// Starts a tool with the commands of an update.
    fn spawn(&self, tool: &mut Command, commands: &str) -> Child {
        let (port, ip) = (self.served.address.port(), self.served.address.ip());
        tool.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = tool.spawn().expect("it runs");
        let mut stdin = child.stdin.take().expect("piped");
        let input = format!("server {ip} {port}\nzone z.example.\n{commands}\nsend\n");
        stdin.write_all(input.as_bytes()).expect("it reads");
        child
    }

    fn run(&self, tool: &mut Command, commands: &str) -> Output {
        self.spawn(tool, commands).wait_with_output().expect("it ends")
    }

    /// An update that must succeed.
    fn update(&self, tool: &mut Command, commands: &str) {
        let output = self.run(tool, commands);
        assert!(output.status.success(), "{commands}: {output:?}");
    }

    /// An update that must fail; returns the message.
    fn refused(&self, key: &PathBuf, commands: &str) -> String {
        let output = self.run(&mut nsupdate(key, &[]), commands);
        assert!(!output.status.success(), "{commands}: {output:?}");
        text(&output.stderr)
    }
}

fn nsupdate(key: &PathBuf, args: &[&str]) -> Command {
    let mut command = Command::new("nsupdate");
    command.arg("-k").arg(key).args(args);
    command
}

/// `knsupdate` with the key of a file for `nsupdate`.
fn knsupdate(key: &PathBuf, args: &[&str]) -> Command {
    let key = fs::read_to_string(key).expect("a file");
    let words: Vec<&str> = key.split(['"', ' ', ';', '\n', '\t']).collect();
    let behind = |word: &str| {
        let mut rest = words.iter().skip_while(|found| **found != word).skip(1);
        rest.find(|found| !found.is_empty()).expect("a value")
    };
    let mut command = Command::new("knsupdate");
    let key = format!("{}:{}:{}", behind("algorithm"), behind("key"), behind("secret"));
    command.args(["-y", &key]).args(args);
    command
}

pub fn lacks_tools() -> bool {
    let lacks = |tool: &str| {
        let mut command = Command::new(tool);
        command.arg("-V").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_err()
    };
    let is_missing = ["nsupdate", "knsupdate", "dig"].into_iter().any(lacks);
    if is_missing {
        skip("nsupdate, dig and knsupdate (Debian: bind9-dnsutils, knot-dnsutils)");
    }
    is_missing
}

const CREATE: &str = "update add new.z.example. 60 A 192.0.2.1\n\
                      update add new.z.example. 60 TXT \"a text\"";
const CHANGE: &str = "prereq yxrrset new.z.example. A\nupdate delete new.z.example. A\n\
                      update add new.z.example. 30 A 192.0.2.2";
const CHANGE_AGAIN: &str = "update delete new.z.example. A\n\
                            update add new.z.example. 30 A 192.0.2.2";
const DELETE: &str = "update delete new.z.example.";

#[test]
fn nsupdate_and_knsupdate_create_change_and_delete_and_the_second_run_changes_nothing() {
    if lacks_tools() {
        return;
    }
    let scene = Scene::start("update-tools");
    let keys = ["hmac-sha1", "hmac-sha256", "hmac-sha384", "hmac-sha512"].map(|algorithm| {
        scene.key(algorithm, "read,write z.example", &format!("--tsig={algorithm}"))
    });
    let tool = |number: usize| {
        let key = &keys[number % keys.len()];
        match number {
            0..4 => nsupdate(key, &[]),
            4..8 => nsupdate(key, &["-v"]),
            8..12 => knsupdate(key, &[]),
            _ => knsupdate(key, &["-v"]),
        }
    };
    for number in 0..16 {
        let run = |commands: &str| scene.update(&mut tool(number), commands);
        let addresses = || scene.dig(&["+short", "new.z.example", "A"]);
        // Each is served when its response comes.
        run(CREATE);
        assert_eq!(addresses(), "192.0.2.1\n", "tool {number}");
        let serial = scene.serial();
        run(CREATE);
        assert_eq!(scene.serial(), serial, "tool {number}: nothing to create");
        run(CHANGE);
        assert_eq!(addresses(), "192.0.2.2\n");
        let serial = scene.serial();
        run(CHANGE_AGAIN);
        assert_eq!(scene.serial(), serial, "tool {number}: nothing to change");
        run(DELETE);
        assert_eq!(addresses(), "");
        let serial = scene.serial();
        run(DELETE);
        assert_eq!(scene.serial(), serial, "tool {number}: nothing to delete");
    }
    let journal = scene.api(&["journal", "z.example", "-o", "json"]);
    assert!(journal.contains("hmac-sha512") && journal.contains("UPDATE"), "{journal}");
}

#[test]
fn update_is_refused_by_its_code_and_a_key_does_only_what_its_grants_cover() {
    if lacks_tools() {
        return;
    }
    let scene = Scene::start("update-refused");
    let acme = scene.key("acme", "write z.example _acme-challenge.*.z.example TXT", "--tsig");
    let all = scene.key("all", "read,write *", "--tsig");
    scene.update(
        &mut nsupdate(&acme, &[]),
        "update add _acme-challenge.www.z.example. 60 TXT token",
    );
    for commands in [
        CREATE,
        "update add _acme-challenge.www.z.example. 60 SRV 0 0 1 ns.z.example.",
        "update delete ns.z.example.",
        "update add _acme-challenge.www.z.example. 60 TXT more\nupdate delete ns.z.example. A",
    ] {
        let told = scene.refused(&acme, commands);
        assert!(told.contains("REFUSED"), "{commands}: {told}");
    }
    for (commands, code) in [
        ("prereq nxdomain ns.z.example.\nupdate add a.z.example. 60 A 192.0.2.1", "YXDOMAIN"),
        ("prereq yxdomain a.z.example.\nupdate add a.z.example. 60 A 192.0.2.1", "NXDOMAIN"),
        ("prereq nxrrset ns.z.example. A\nupdate add a.z.example. 60 A 192.0.2.1", "YXRRSET"),
        ("prereq yxrrset ns.z.example. TXT\nupdate add a.z.example. 60 A 192.0.2.1", "NXRRSET"),
        ("update add a.other.example. 60 A 192.0.2.1", "NOTZONE"),
        ("zone file.example.\nupdate add a.file.example. 60 A 192.0.2.1", "REFUSED"),
        ("zone none.example.\nupdate add a.none.example. 60 A 192.0.2.1", "NOTAUTH"),
    ] {
        let told = scene.refused(&all, commands);
        assert!(told.contains(code), "{commands}: {told}");
    }
    assert_eq!(scene.dig(&["+short", "a.z.example", "A"]), "");
    let mut unsigned = Command::new("nsupdate");
    let told = text(&scene.run(&mut unsigned, CREATE).stderr);
    assert!(told.contains("REFUSED"), "{told}");
}

#[test]
fn refused_signature_says_in_the_log_which_part_of_it() {
    if lacks_tools() {
        return;
    }
    let scene = Scene::start("update-signatures");
    scene.key("one", "read,write z.example", "--tsig");
    let told = |key: &str| scene.dig(&["-y", key, "ns.z.example", "A"]);
    let expect = |fault: &str, what: &str| {
        let line = scene.served.expect_line("a signature is refused", what);
        assert_eq!(line["fault"], fault, "{line}");
    };
    let reply = told("hmac-sha256:one:c2VjcmV0");
    assert!(reply.contains("NOTAUTH") && reply.contains("BADSIG"), "{reply}");
    expect("MAC", "another secret");
    let reply = told("hmac-sha512:one:c2VjcmV0");
    assert!(reply.contains("BADKEY"), "{reply}");
    expect("algorithm", "another algorithm than hmac-sha512.");
    // An unknown key never leaves the data plane, so a flood of them costs nothing here.
    assert!(told("hmac-sha256:two:c2VjcmV0").contains("BADKEY"));
    scene.local(&["token", "revoke", "one"]);
    test_support::wait::until_true("the key is gone", || {
        told("hmac-sha256:one:c2VjcmV0").contains("BADKEY")
    });
}

#[test]
fn signed_query_gets_a_signed_answer() {
    if lacks_tools() {
        return;
    }
    let scene = Scene::start("update-queries");
    let key = scene.key("one", "read z.example", "--tsig");
    let key = key.to_str().expect("UTF-8");
    for transport in ["+notcp", "+tcp"] {
        for (name, code) in
            [("ns.z.example", "NOERROR"), ("none.z.example", "NXDOMAIN"), ("other.", "REFUSED")]
        {
            let reply = scene.dig(&["-k", key, transport, name, "A"]);
            assert!(reply.contains(&format!("status: {code}")), "{reply}");
            assert!(reply.contains("hmac-sha256. ") && reply.contains(" NOERROR 0"), "{reply}");
            assert!(!reply.contains("verify"), "{reply}");
        }
    }
}

#[test]
fn update_outlives_a_kill_and_parallel_updates_of_one_set_lose_none() {
    if lacks_tools() {
        return;
    }
    let scene = Scene::start("update-killed");
    let key = scene.key("one", "read,write z.example", "--tsig");
    let add = |host: u8| {
        let commands = format!("update add many.z.example. 60 A 10.0.0.{host}");
        scene.spawn(&mut nsupdate(&key, &[]), &commands)
    };
    let all: Vec<Child> = (0..20).map(add).collect();
    for child in all {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{output:?}");
    }
    scene.served.signal(rustix::process::Signal::KILL);
    let Scene { served, socket, token } = scene;
    let scene = Scene { served: served.restarted(), socket, token };
    let lines = scene.dig(&["+short", "+tcp", "many.z.example", "A"]);
    assert_eq!(lines.lines().count(), 20, "{lines}");
    // The key is there, too.
    scene.update(&mut nsupdate(&key, &[]), CREATE);
}
