//! A libxdp dispatcher, with programs that xdp-loader loads and unloads.
use super::{AT, XDP, as_root, bpftool, expect_gone, folder, is_answer, program, serve_by, status};
use crate::pair::{Wire, is_root, leave, skip};
use crate::served::{Served, ask};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

/// Mounts a BPF file system until the other end of its input is closed, also when the test is
/// killed.
const GUARD: &str = "mkdir -p $1 && mount -t bpf bpf $1 && echo mounted; read -r _; umount $1; \
                     rmdir $1";

/// A BPF file system for one test.
struct Pins {
    folder: PathBuf,
    guard: Child,
}

impl Pins {
    fn new(test: &str) -> Self {
        let folder = folder(&format!("{test}-bpf"));
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "guard"]).arg(&folder).stdin(Stdio::piped());
        let mut guard = guard.stdout(Stdio::piped()).spawn().expect("a shell");
        let mut told = String::new();
        let output = guard.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut told).expect("a line");
        assert_eq!(told, "mounted\n");
        Self { folder, guard }
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        self.guard.wait().expect("it ends");
    }
}

/// An interface with a dispatcher that runs a counting program.
struct Ground<'p> {
    wire: Wire,
    pins: &'p Pins,
    folder: PathBuf,
}

impl<'p> Ground<'p> {
    /// `None`: this kernel has no dispatchers; prints so.
    fn new(test: &str, pins: &'p Pins) -> Option<Self> {
        let ground = Self { wire: Wire::new(), pins, folder: folder(test) };
        if Command::new("xdp-loader").arg("help").output().is_err() {
            skip("no xdp-loader (Debian: apt install xdp-tools)");
            return None;
        }
        ground.load("counter", 50);
        if ground.running().is_empty() {
            leave("no programs in others' place in this kernel (freplace)");
            return None;
        }
        Some(ground)
    }

    /// A command in the server's namespaces.
    fn command(&self, program: &str) -> Command {
        let mut command = self.wire.command(program);
        command.env("LIBXDP_BPFFS", &self.pins.folder);
        command
    }

    fn loader(&self, words: &[&str]) -> String {
        // A machine can build one at a time.
        static SOLE: Mutex<()> = Mutex::new(());
        let sole = SOLE.lock().expect("nothing fails in here");
        let output = self.command("xdp-loader").args(words).output().expect("it runs");
        drop(sole);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Loads a counting program with this name.
    fn load(&self, name: &str, priority: u32) {
        self.load_by("native", name, priority);
    }

    fn load_by(&self, mode: &str, name: &str, priority: u32) {
        let object = build("count.c", &format!("{name}.o"), &format!("-DNAME={name}"));
        let object = object.to_str().expect("a path");
        self.loader(&["load", "-m", mode, "-P", &priority.to_string(), "s0", object]);
    }

    /// The names and IDs of the dispatcher's programs.
    fn running(&self) -> Vec<(String, String)> {
        let told = self.loader(&["status", "s0"]);
        let words = told.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let runs = words.filter(|words| words.first() == Some(&"=>"));
        runs.map(|words| (words[2].to_owned(), words[3].to_owned())).collect()
    }

    fn names(&self) -> Vec<String> {
        self.running().into_iter().map(|(name, _)| name).collect()
    }

    fn number(&self, name: &str) -> String {
        let running = self.running();
        let found = running.iter().find(|(there, _)| there == name);
        found.unwrap_or_else(|| panic!("no {name} in {running:?}")).1.clone()
    }

    /// The counter of a program.
    fn counted(&self, name: &str) -> u64 {
        let told = json(&["prog", "show", "id", &self.number(name)]);
        let map = told["map_ids"][0].to_string();
        let told = json(&["map", "dump", "id", &map]);
        told[0]["formatted"]["value"].as_u64().unwrap_or_else(|| panic!("{told}"))
    }

    /// All pinned objects of the kernel: programs, links and tables.
    fn things(&self) -> BTreeSet<[String; 2]> {
        let mut things = BTreeSet::new();
        let mut add = |kind: &str, words: &[&str]| {
            let told = json(words);
            things.insert([kind.to_owned(), told["id"].to_string()]);
            let maps = told["map_ids"].as_array().into_iter().flatten();
            things.extend(maps.map(|id| ["map".to_owned(), id.to_string()]));
        };
        for folder in files(&self.pins.folder.join("xdp")) {
            let name = folder.to_str().expect("a path");
            add("prog", &["prog", "show", "id", name.rsplit('-').next().expect("a number")]);
            for file in files(&folder) {
                let file = file.to_str().expect("a path");
                let kind = if file.ends_with("-link") { "link" } else { "prog" };
                add(kind, &[kind, "show", "pinned", file]);
            }
        }
        things
    }

    fn serve(&self, keys: &str) -> Served {
        self.serve_from(&self.folder, keys)
    }

    fn serve_from(&self, folder: &Path, keys: &str) -> Served {
        serve_by(&mut self.command(&program()), folder, keys)
    }

    /// Sends a query over AF_XDP.
    fn ask(&self, count: u64) {
        let taken = || status(&self.folder)["xdp"]["passed"]["taken"].as_u64().expect("a count");
        let before = taken();
        for _ in 0..count {
            assert!(is_answer(&self.wire.in_client(|| ask(AT, "ns.a.test"))));
        }
        assert_eq!(taken(), before + count);
    }
}

impl Drop for Ground<'_> {
    fn drop(&mut self) {
        // Pinned objects outlive the interface.
        for folder in files(&self.pins.folder.join("xdp")) {
            let _ = std::fs::remove_dir_all(folder);
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Builds a program of this folder, once.
fn build(source: &str, object: &str, flag: &str) -> PathBuf {
    static BUILT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(object);
    let mut built = BUILT.lock().expect("no other test failed in here");
    if built.insert(path.clone()) {
        let source = here.join("tests/all/xdp").join(source);
        let mut build = Command::new(here.join("../kernel/bpf/bpf/build"));
        let output = build.arg(source).arg(&path).arg(flag).output().expect("bpf/build is there");
        assert!(output.status.success(), "clang and llvm-strip are there: {output:?}");
    }
    path
}

fn json(words: &[&str]) -> Value {
    let output = bpftool(&[&["-j"], words].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{words:?}: {output:?}"))
}

#[test]
#[ignore = "kernel: it needs programs in others' place (freplace)"]
fn dunlin_joins_a_dispatcher_and_keeps_other_programs() {
    if !is_root() {
        return;
    }
    let pins = Pins::new("joins");
    let Some(ground) = Ground::new("joins", &pins) else { return };
    let before = ground.number("counter");
    for (priority, sees) in [(60, true), (40, false)] {
        let mut served = ground.serve(&format!("{}priority = {priority}\n", as_root()));
        assert!(served.start.iter().any(|line| line.contains("AF_XDP attached")));
        let told = status(&ground.folder);
        let xdp = &told["xdp"];
        assert_eq!((&xdp["mode"], &xdp["joined"]), (&"native".into(), &true.into()), "{xdp}");
        let order = if sees { ["counter", "dunlin"] } else { ["dunlin", "counter"] };
        assert_eq!(ground.names(), order);
        assert_eq!(ground.number("counter"), before);
        let counted = ground.counted("counter");
        ground.ask(10);
        let more = ground.counted("counter") - counted;
        assert_eq!(more >= 10, sees, "{more}");
        ground.wire.ping("192.0.2.1");
        assert!(ground.counted("counter") > counted);
        let things = ground.things();
        served.end();
        assert_eq!(ground.running(), [("counter".to_owned(), before.clone())]);
        let left = ground.things();
        // A dispatcher and a counter, each with its table, and a link.
        assert_eq!(left.len(), 5, "{left:?}");
        expect_gone(&ground.wire, things.difference(&left));
        let counted = ground.counted("counter");
        ground.wire.ping("192.0.2.1");
        assert!(ground.counted("counter") > counted);
    }
}

#[test]
#[ignore = "kernel: it needs programs in others' place (freplace)"]
fn dunlin_runs_in_the_mode_of_the_dispatcher() {
    if !is_root() {
        return;
    }
    let pins = Pins::new("generic");
    let Some(ground) = Ground::new("generic", &pins) else { return };
    ground.loader(&["unload", "s0", "-a"]);
    ground.load_by("skb", "counter", 50);
    let mut served = ground.serve(&as_root());
    assert_eq!(status(&ground.folder)["xdp"]["mode"], "generic");
    assert_eq!(ground.names(), ["counter", "dunlin"]);
    ground.ask(3);
    served.end();
    assert_eq!(ground.names(), ["counter"]);
}

#[test]
#[ignore = "kernel: it needs programs in others' place (freplace)"]
fn other_programs_come_and_go_while_dunlin_serves() {
    if !is_root() {
        return;
    }
    let pins = Pins::new("others");
    let Some(ground) = Ground::new("others", &pins) else { return };
    let mut served = ground.serve(&as_root());
    ground.ask(3);
    ground.load("other", 10);
    assert_eq!(ground.names(), ["other", "counter", "dunlin"]);
    ground.ask(3);
    let counter = ground.number("counter");
    ground.loader(&["unload", "s0", "-i", &counter]);
    assert_eq!(ground.names(), ["other", "dunlin"]);
    ground.ask(3);
    // The last program but ours is unloaded, and another one loaded.
    ground.loader(&["unload", "s0", "-i", &ground.number("other")]);
    assert_eq!(ground.names(), ["dunlin"]);
    ground.ask(3);
    ground.load("counter", 90);
    assert_eq!(ground.names(), ["dunlin", "counter"]);
    ground.ask(3);
    let things = ground.things();
    served.end();
    assert_eq!(ground.names(), ["counter"]);
    let left = ground.things();
    assert_eq!(left.len(), 5, "{left:?}");
    expect_gone(&ground.wire, things.difference(&left));
    // If it is the last one, nothing is left.
    let mut served = ground.serve(&as_root());
    ground.loader(&["unload", "s0", "-i", &ground.number("counter")]);
    ground.ask(3);
    let things = ground.things();
    served.end();
    assert!(!ground.wire.has_program());
    assert_eq!(ground.things(), BTreeSet::new());
    expect_gone(&ground.wire, things.iter());
}

#[test]
#[ignore = "kernel: it needs programs in others' place (freplace)"]
fn unloaded_program_is_joined_again_at_a_reload() {
    if !is_root() {
        return;
    }
    let pins = Pins::new("reload");
    let Some(ground) = Ground::new("reload", &pins) else { return };
    let mut served = ground.serve(&as_root());
    ground.ask(1);
    ground.loader(&["unload", "s0", "-a"]);
    assert!(is_answer(&ground.wire.in_client(|| ask(AT, "ns.a.test"))), "by a socket");
    ground.load("counter", 50);
    served.signal(Signal::HUP);
    served.expect_line("AF_XDP detached", "s0");
    served.expect_line("AF_XDP attached", "s0");
    assert_eq!(ground.names(), ["counter", "dunlin"]);
    ground.ask(1);
    // The dispatcher is gone.
    ground.loader(&["unload", "s0", "-a"]);
    served.end();
    assert_eq!(ground.things(), BTreeSet::new());
}

#[test]
#[ignore = "kernel: it needs programs in others' place (freplace)"]
fn program_of_a_killed_server_passes_all_and_is_replaced() {
    if !is_root() {
        return;
    }
    let pins = Pins::new("killed");
    let Some(ground) = Ground::new("killed", &pins) else { return };
    // The server is killed, or may no longer detach.
    for (keys, end) in [(as_root(), Signal::KILL), (XDP.to_owned(), Signal::INT)] {
        for _ in 0..2 {
            let mut served = ground.serve(&keys);
            assert_eq!(ground.names(), ["counter", "dunlin"]);
            ground.ask(3);
            assert_eq!(ground.things().len(), 12, "{:?}", ground.things());
            served.signal(end);
            if end == Signal::INT {
                served.expect_line("stays in its dispatcher", "s0");
            }
            served.status();
            assert_eq!(ground.names(), ["counter", "dunlin"]);
            ground.wire.ping("192.0.2.1");
            // A server with sockets only receives passed packets.
            let sockets = as_root().replace("port = \"xdp\"", "port = \"socket\"");
            let beside = ground.serve(&sockets);
            for _ in 0..3 {
                assert!(is_answer(&ground.wire.in_client(|| ask(AT, "ns.a.test"))));
            }
            drop(beside);
        }
    }
    let things = ground.things();
    let mut served = ground.serve(&as_root());
    ground.ask(3);
    served.end();
    assert_eq!(ground.names(), ["counter"]);
    expect_gone(&ground.wire, things.difference(&ground.things()));
}

#[test]
#[ignore = "kernel: it needs programs in others' place (freplace)"]
fn two_interfaces_have_two_dispatchers() {
    if !is_root() {
        return;
    }
    let pins = Pins::new("two");
    let Some(one) = Ground::new("one", &pins) else { return };
    let Some(other) = Ground::new("another", &pins) else { return };
    let mut served = [one.serve(&as_root()), other.serve(&as_root())];
    for ground in [&one, &other] {
        assert_eq!(ground.names(), ["counter", "dunlin"]);
        ground.ask(3);
    }
    served[0].end();
    assert_eq!(one.names(), ["counter"]);
    assert_eq!(other.names(), ["counter", "dunlin"]);
    other.ask(3);
}

#[test]
#[ignore = "kernel: it needs programs in others' place (freplace)"]
fn unsupported_dispatcher_is_left_alone_and_reported() {
    if !is_root() {
        return;
    }
    let pins = Pins::new("refused");
    let Some(ground) = Ground::new("refused", &pins) else { return };
    let expect_failed = |keys: &str, why: &str| {
        let program = ground.wire.program();
        let served = ground.serve(keys);
        let failed = status(&ground.folder)["xdp"]["failed"].to_string();
        assert!(failed.contains("another XDP program is attached to s0"), "{failed}");
        assert!(failed.contains(why), "{failed}");
        assert!(is_answer(&ground.wire.in_client(|| ask(AT, "ns.a.test"))));
        assert_eq!(ground.wire.program(), program);
        drop(served);
    };
    // Ten programs are loaded.
    (0..9).for_each(|_| ground.load("counter", 50));
    expect_failed(&as_root(), "10 programs already");
    // The pinned files are missing.
    ground.loader(&["unload", "s0", "-a"]);
    ground.load("counter", 50);
    let [folder] = &files(&ground.pins.folder.join("xdp"))[..] else { panic!("one folder") };
    let aside = folder.with_file_name("aside");
    std::fs::rename(folder, &aside).expect("renamed");
    expect_failed(&as_root(), "prog0-prog");
    std::fs::rename(&aside, folder).expect("renamed");
    // Nor is a dispatcher of a known version with unknown content.
    ground.loader(&["unload", "s0", "-a"]);
    let newer = build("newer.c", "newer.o", "-DNONE");
    let plain = build("count.c", "plain.o", "-DNAME=plain");
    for (object, why) in [(newer, "protocol 9"), (plain, "detach it")] {
        let object = object.to_str().expect("a path");
        let ip = |words: &[&str]| {
            let output = ground.wire.command("ip").args(words).output().expect("it runs");
            assert!(output.status.success(), "{words:?}: {output:?}");
        };
        ip(&["link", "set", "dev", "s0", "xdp", "object", object, "section", "xdp"]);
        expect_failed(&as_root(), why);
        ip(&["link", "set", "dev", "s0", "xdp", "off"]);
    }
}

#[test]
#[ignore = "kernel: it needs programs in others' place (freplace)"]
fn second_server_is_refused_by_the_dispatcher() {
    if !is_root() {
        return;
    }
    let pins = Pins::new("sole");
    let Some(ground) = Ground::new("sole", &pins) else { return };
    let served = ground.serve(&as_root());
    let second = folder("sole-second");
    let beside = ground.serve_from(&second, &as_root().replace(":53", ":54"));
    let failed = status(&second)["xdp"]["failed"].to_string();
    assert!(failed.contains("another Dunlin"), "{failed}");
    ground.ask(3);
    drop((served, beside));
    let _ = std::fs::remove_dir_all(second);
}
