//! `dunlin cache` and `dunlin upstream` on a running server that forwards.
use crate::served::{NOERROR, Served, binary, holds, query, rcode, short_socket};
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use test_support::wait::{self, deadline};

/// An upstream that answers 10.0.0.n.
struct Other {
    address: SocketAddr,
    last: Arc<AtomicU64>,
    asked: Arc<AtomicU64>,
    stops: Arc<AtomicBool>,
}

impl Other {
    fn start(last: u64) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
        let address = socket.local_addr().expect("bound");
        let other = Self {
            address,
            last: Arc::new(AtomicU64::new(last)),
            asked: Arc::default(),
            stops: Arc::default(),
        };
        let (last, asked) = (Arc::clone(&other.last), Arc::clone(&other.asked));
        let stops = Arc::clone(&other.stops);
        std::thread::spawn(move || {
            let mut buf = [0; 1500];
            while !stops.load(Ordering::SeqCst) {
                let Ok((len, from)) = socket.recv_from(&mut buf) else { continue };
                // The loop detection at the start needs no answer.
                let is_mark = buf[..len].windows(11).any(|bytes| bytes == b"dunlin-loop");
                asked.fetch_add(u64::from(!is_mark), Ordering::SeqCst);
                let mut reply = buf[..len - 11].to_vec();
                reply[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
                reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 14, 16, 0, 4, 10, 0, 0]);
                reply.push(last.load(Ordering::SeqCst) as u8);
                // The client may be gone.
                let _ = socket.send_to(&reply, from);
            }
        });
        other
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::SeqCst);
    }
}

/// A server that forwards all names to these upstreams.
fn start(test: &str, others: &[&Other]) -> Served {
    let servers: Vec<String> = others.iter().map(|o| format!("\"{}\"", o.address)).collect();
    let config = format!(
        "drain = \"0s\"\n[admin]\nsocket = \"{}\"\n[forward]\n\".\" = [{}]\n",
        short_socket(test).display(),
        servers.join(", ")
    );
    Served::start(test, &config, &[])
}

fn told(test: &str, words: &[&str]) -> Output {
    binary().args(words).arg("--socket").arg(short_socket(test)).output().expect("it runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The output of a command that succeeds.
fn done(test: &str, words: &[&str]) -> String {
    let output = told(test, words);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {output:?}");
    text(&output)
}

/// A query with RD.
fn ask(served: SocketAddr, name: &str) -> Vec<u8> {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(deadline())).expect("a timeout");
    let mut query = query(name);
    query[2] |= 1;
    socket.send_to(&query, served).expect("sent");
    let mut reply = vec![0; 1500];
    let len = socket.recv(&mut reply).expect("a reply");
    reply.truncate(len);
    assert_eq!(rcode(&reply), NOERROR, "{name}");
    reply
}

fn says(served: SocketAddr, name: &str, last: u8) -> bool {
    holds(&ask(served, name), &[10, 0, 0, last])
}

#[test]
fn flushed_name_is_queried_again() {
    let test = "commands_flush";
    let other = Other::start(1);
    let served = start(test, &[&other]);
    for name in ["www.a.test", "www.b.test"] {
        assert!(says(served.address, name, 1));
    }
    other.last.store(2, Ordering::SeqCst);
    let shown = done(test, &["cache", "show", "WWW.a.test"]);
    assert!(shown.contains("NOERROR"), "{shown}");
    assert_eq!(
        done(test, &["cache", "flush", "a.test"]),
        "flushed 0 answers from 3 threads\n",
        "what lies below it stays"
    );
    let went = done(test, &["cache", "flush", "--subtree", "a.test."]);
    // The worker that was queried has it, and so has the owner shard, which may be the same.
    let either = ["1 answer", "2 answers"].map(|n| format!("flushed {n} from 3 threads\n"));
    assert!(either.contains(&went), "{went}");
    let shown = done(test, &["cache", "show", "www.a.test", "A"]);
    assert_eq!(shown, "no answer is cached in 3 threads\n");
    assert!(says(served.address, "www.a.test", 2));
    let shown = done(test, &["cache", "show", "www.b.test"]);
    assert!(shown.contains("NOERROR"), "{shown}");
    done(test, &["cache", "flush", "--all"]);
    let status: serde_json::Value =
        serde_json::from_str(&done(test, &["status", "-o", "json"])).expect("JSON");
    assert_eq!((&status["cache"]["entries"], &status["cache"]["bytes"]), (&0.into(), &0.into()));
    assert!(says(served.address, "www.b.test", 2));
}

#[test]
fn drained_upstream_gets_no_query_and_stays_drained_across_a_reload() {
    let test = "commands_drain";
    let (first, second) = (Other::start(1), Other::start(2));
    let served = start(test, &[&first, &second]);
    let drained = first.address.to_string();
    let told_so = done(test, &["upstream", "drain", &drained]);
    assert_eq!(told_so, format!("{drained} is drained, for .\n"));
    let reloaded = done(test, &["reload"]);
    assert!(reloaded.starts_with("reloaded"), "{reloaded}");
    let states = || {
        let list = done(test, &["upstream", "list", "-o", "json"]);
        let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
        [0, 1].map(|at: usize| list[at]["state"].as_str().expect("a state").to_owned())
    };
    assert_eq!(states(), ["drained", "up"]);
    for nth in 0..40 {
        assert!(says(served.address, &format!("n{nth}.test"), 2));
    }
    assert_eq!(first.asked(), 0);
    let all = done(test, &["upstream", "drain", &second.address.to_string()]);
    assert!(all.contains("every server of . is drained:"), "{all}");
    assert_eq!(rcode(&ask(served.address, "still.test")), NOERROR);
    let again = done(test, &["upstream", "restore", &drained]);
    assert_eq!(again, format!("{drained} is restored, for .\n"));
    assert_eq!(states(), ["up", "drained"]);
    let before = second.asked();
    for nth in 0..40 {
        assert!(says(served.address, &format!("m{nth}.test"), 1));
    }
    assert_eq!(second.asked(), before);
}

#[test]
fn impossible_command_is_refused_with_a_reason() {
    let test = "commands_wrong";
    let other = Other::start(1);
    let _served = start(test, &[&other]);
    let none = "commands_none";
    let config =
        format!("drain = \"0s\"\n[admin]\nsocket = \"{}\"\n", short_socket(none).display());
    let _server = Served::start(none, &config, &[]);
    for (test, words, status, why) in [
        (test, &["cache", "flush"][..], 2, "required"),
        (test, &["cache", "flush", "--subtree"], 2, "required"),
        (test, &["cache", "flush", "a.test", "--all"], 2, "cannot be used"),
        (test, &["cache", "flush", "a..test"], 1, "is not a name"),
        (test, &["cache", "show", "a.test", "QUAD"], 1, "is not a type"),
        (test, &["upstream", "drain", "192.0.2.9"], 1, "those that it names: 127.0.0.1:"),
        (none, &["upstream", "drain", "192.0.2.9"], 1, "has no rule"),
    ] {
        let output = told(test, words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {error}");
        assert!(error.contains(why), "{words:?}: {error}");
    }
    assert_eq!(done(none, &["cache", "flush", "--all"]), "flushed 0 answers from 0 threads\n");
    assert_eq!(
        done(none, &["upstream", "list"]),
        "no upstreams: [forward] has no rule with servers\n"
    );
}

/// While the caches of all threads are flushed again and again, every query is answered, and no
/// answer is older than the last flush.
#[test]
fn flush_under_load_loses_no_query_and_leaves_no_old_answer() {
    let test = "commands_load";
    let other = Other::start(1);
    let served = start(test, &[&other]);
    let stops = AtomicBool::new(false);
    let answered = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for client in 0..3 {
            let (address, stops, answered) = (served.address, &stops, &answered);
            scope.spawn(move || {
                for nth in (0..200).cycle() {
                    if stops.load(Ordering::SeqCst) {
                        break;
                    }
                    ask(address, &format!("n{nth}.c{client}.test"));
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for now in 2..12 {
            other.last.store(now, Ordering::SeqCst);
            let scope: &[&str] = match now % 3 {
                0 => &["--all"],
                1 => &["--subtree", "test"],
                _ => &["--subtree", "."],
            };
            done(test, &[&["cache", "flush"], scope].concat());
            for name in ["n7.c0.test", "n7.c1.test", "n7.c2.test", "n8.c0.test"] {
                assert!(says(served.address, name, now as u8), "{name} after {now}");
            }
        }
        stops.store(true, Ordering::SeqCst);
    });
    assert!(answered.load(Ordering::SeqCst) > 100);
}

/// Replaces text in the config, as Kubernetes does: by another file.
fn edit(served: &Served, old: &str, new: &str) {
    let file = served.folder.join("dunlin.toml");
    let text = fs::read_to_string(&file).expect("a config");
    assert!(text.contains(old), "{text}");
    fs::write(served.folder.join("new.toml"), text.replace(old, new)).expect("a config");
    fs::rename(served.folder.join("new.toml"), file).expect("replaced");
}

fn json(test: &str, words: &[&str]) -> serde_json::Value {
    let output = told(test, &[words, &["-o", "json"]].concat());
    serde_json::from_str(&text(&output)).expect("JSON")
}

/// Waits until the server reports this fault, or none of this kind.
fn expect_fault(test: &str, kind: &str, is_there: bool) -> String {
    let text = |faults: &serde_json::Value| {
        let mut faults = faults.as_array().expect("a list").iter();
        faults.find(|fault| fault["kind"] == kind).map(|fault| fault["text"].to_string())
    };
    let what = format!("{} {kind}", if is_there { "a fault" } else { "no fault" });
    let faults = wait::until_value(
        &what,
        || json(test, &["status"])["faults"].take(),
        |faults| text(faults).is_some() == is_there,
    );
    text(&faults).unwrap_or_default()
}

#[test]
fn reloaded_forward_rule_holds_at_once_and_cache_and_queries_under_way_stay() {
    let test = "commands_reload";
    let (first, second) = (Other::start(1), Other::start(2));
    let slow = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    slow.set_read_timeout(Some(deadline())).expect("a timeout");
    let slow_address = slow.local_addr().expect("bound");
    let served = start(test, &[&first]);
    let (old, new) = (first.address.to_string(), second.address.to_string());
    assert!(says(served.address, "cached.test", 1));
    // A rule is added: what is cached of its names is wrong.
    edit(&served, "[forward]\n", &format!("[forward]\n\"slow\" = [\"{slow_address}\"]\n"));
    assert!(says(served.address, "cached.slow", 1));
    let reloaded = done(test, &["reload"]);
    assert!(reloaded.starts_with("reloaded; changed: forward;"), "{reloaded}");
    let address = served.address;
    let asking = std::thread::spawn(move || ask(address, "www.slow"));
    let mut buf = [0; 1500];
    let (len, from) = loop {
        let (len, from) = slow.recv_from(&mut buf).expect("a query");
        if buf[..len].windows(4).any(|bytes| bytes.eq_ignore_ascii_case(b"\x03www")) {
            break (len, from);
        }
    };
    edit(&served, &old, &new);
    edit(&served, &format!("\"slow\" = [\"{slow_address}\"]\n"), "");
    done(test, &["upstream", "drain", &old]);
    done(test, &["reload"]);
    assert!(says(served.address, "new.test", 2) && says(served.address, "www.slow", 2));
    let asked = second.asked();
    assert!(says(served.address, "cached.test", 1));
    assert_eq!(second.asked(), asked, "the cache is as it was");
    let mut reply = buf[..len - 11].to_vec();
    reply[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 14, 16, 0, 4, 10, 0, 0, 9]);
    slow.send_to(&reply, from).expect("sent");
    let reply = asking.join().expect("an answer");
    assert!(holds(&reply, &[10, 0, 0, 9]), "the query under way was disturbed: {reply:?}");
    let list = json(test, &["upstream", "list"]);
    assert_eq!((list[0]["server"].as_str(), list.as_array().map(Vec::len)), (Some(&*new), Some(1)));
}

#[test]
fn servers_of_a_file_are_followed_and_a_bad_file_is_a_fault() {
    let test = "commands_resolv";
    let config = |folder: &std::path::Path| {
        let file = folder.join("resolv.conf");
        let (socket, file) = (short_socket(test), file.display().to_string());
        format!(
            "drain = \"0s\"\n[admin]\nsocket = \"{}\"\n[forward]\n\".\" = {file:?}\n",
            socket.display()
        )
    };
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let text = "search example.\nnameserver 127.0.0.77\noptions ndots:5\n";
    let served =
        Served::start_by(&mut binary(), &folder, &config(&folder), &[("resolv.conf", text)]);
    let server = || json(test, &["upstream", "list"])[0]["server"].clone();
    assert_eq!(server(), "127.0.0.77");
    fs::write(folder.join("resolv.conf"), "search example.\n").expect("a file");
    let fault = expect_fault(test, "upstream_file_refused", true);
    assert!(fault.contains("names no server") && fault.contains("stay in use"), "{fault}");
    assert_eq!(server(), "127.0.0.77");
    fs::write(folder.join("other"), "nameserver 127.0.0.78\n").expect("a file");
    fs::rename(folder.join("other"), folder.join("resolv.conf")).expect("replaced");
    expect_fault(test, "upstream_file_refused", false);
    assert_eq!(server(), "127.0.0.78");
    drop(served);
}

#[test]
fn watched_config_is_loaded_without_a_command_and_a_bad_one_is_a_fault() {
    let test = "commands_watch";
    let (first, second) = (Other::start(1), Other::start(2));
    let served = start(test, &[&first]);
    edit(&served, "drain = \"0s\"\n", "drain = \"0s\"\nwatch_config = true\n");
    let reloaded = done(test, &["reload"]);
    assert!(reloaded.contains("server.watch_config"), "{reloaded}");
    edit(&served, &first.address.to_string(), &second.address.to_string());
    served.expect_line("reloaded", "forward");
    assert!(says(served.address, "a.test", 2));
    edit(&served, "watch_config = true", "watch_config = 1");
    let fault = expect_fault(test, "config_refused", true);
    assert!(fault.contains("expected true or false"), "{fault}");
    assert!(says(served.address, "b.test", 2));
    edit(&served, "watch_config = 1", "watch_config = true");
    expect_fault(test, "config_refused", false);
}

/// Invalid requests, and clients that close at once, delay no other client.
#[test]
fn hostile_requests_are_bounded() {
    let test = "commands_hostile";
    let other = Other::start(1);
    let served = start(test, &[&other]);
    assert!(says(served.address, "www.test", 1));
    let label = "a".repeat(3_000);
    for says in [
        format!("{{\"flush\":{{\"name\":\"{label}\"}}}}"),
        "{\"flush\":{\"name\":\"a..b\\n\"}}".to_owned(),
        "{\"flush\":{\"subtree\":7}}".to_owned(),
        "{\"show\":{\"name\":\"a\",\"rtype\":\"\"}}".to_owned(),
        "{\"drain\":{\"server\":\"\",\"drained\":true}}".to_owned(),
    ] {
        let mut stream = UnixStream::connect(short_socket(test)).expect("a server");
        let line = format!("{{\"protocol\":1,\"says\":{{\"command\":{says}}}}}\n");
        stream.write_all(line.as_bytes()).expect("it reads");
        let mut said = String::new();
        std::io::Read::read_to_string(&mut stream, &mut said).expect("a reply");
        assert!(said.contains("refused"), "{said}");
    }
    // Each sends a command and closes at once.
    for _ in 0..100 {
        let mut stream = UnixStream::connect(short_socket(test)).expect("a server");
        let line = b"{\"protocol\":1,\"says\":{\"command\":{\"flush\":\"all\"}}}\n";
        // The server may refuse a connection above its maximum.
        let _ = stream.write_all(line);
    }
    let flush = || told(test, &["cache", "flush", "--all"]);
    wait::until_value("a flush", flush, |output| output.status.success());
    assert!(says(served.address, "www.test", 1));
    fs::metadata(short_socket(test)).expect("it is still there");
}

#[test]
fn root_zone_is_created_only_after_a_question() {
    let mut command = binary();
    command.args(["zones", "create", ".", "--nameserver", "ns.example"]);
    let output = command.stdin(std::process::Stdio::null()).output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("becomes NXDOMAIN") && error.contains("--yes"), "{error}");
}
