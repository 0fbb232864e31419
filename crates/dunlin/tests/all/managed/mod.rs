//! The packaged unit under the real systemd: every feature works under its restrictions, and start,
//! reload, restart, kill and stop lose no query.
mod client;
mod exercises;
mod machine;

use crate::served::{HEAD, holds, query};
use client::{ask, expect, get};
use exercises::{EXERCISES, config, place};
use machine::Machine;
use rustix::process::Signal;
use std::net::{SocketAddr, UdpSocket};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use test_support::wait::{until, until_true};

/// Addresses of a server.
#[derive(Clone, Copy)]
struct Place {
    dns: SocketAddr,
    ops: SocketAddr,
}

/// Boots a machine with every feature, unless a tool is missing.
fn boot(test: &str, place: Place, lines: &str) -> Option<Machine> {
    let files = [("dunlin.toml", &*config(place, "")), ("a.test.zone", HEAD)];
    machine::is_possible().then(|| Machine::boot(test, &files, lines))
}

#[test]
fn every_feature_works_under_the_unit() {
    let place = place(1);
    let Some(machine) = boot("managed_features", place, "") else { return };
    check_start(&machine);
    let pid = machine.property("MainPID");
    for (name, exercise) in EXERCISES {
        println!("{name}");
        exercise(&machine, place);
        assert_eq!(machine.property("MainPID"), pid, "it {name}, and ends: {}", machine.log());
    }
    // It keeps answering during the drain.
    machine.do_systemctl(&["stop", "--no-block", "dunlin"]);
    until("it is not ready", || {
        get(place.ops, "/readyz").starts_with("HTTP/1.1 503").then_some(())
    });
    expect(place.dns, "ns.a.test", [192, 0, 2, 1]);
    until_true("it ends", || machine.property("ActiveState") == "inactive");
    assert_eq!(machine.property("Result"), "success", "{}", machine.log());
}

/// The server runs, with exactly the privileges of the unit.
fn check_start(machine: &Machine) {
    machine.do_systemctl(&["start", "dunlin"]);
    let told = machine.property("StatusText");
    assert!(told.starts_with("1 of 1 zones current; listens on 127."), "{told}");
    let status = machine.told(&["cat", &format!("/proc/{}/status", machine.property("MainPID"))]);
    let [none, bind] = ["0000000000000000", "0000000000000400"];
    for (key, value) in [("CapEff", none), ("CapBnd", bind), ("NoNewPrivs", "1"), ("Seccomp", "2")]
    {
        assert!(status.lines().any(|line| line == format!("{key}:\t{value}")), "{key} {status}");
    }
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:\t")).expect("a user");
    let dunlin = machine.told(&["id", "--user", "dunlin"]);
    assert_eq!(uid.split('\t').next(), Some(dunlin.trim()));
}

/// A filter that lacked a call would be noticed: the process ends at its first use.
#[test]
fn system_call_outside_of_the_filter_ends_the_server() {
    let place = place(2);
    let lines = "SystemCallFilter=~sendmmsg\nRestart=no\n";
    let Some(machine) = boot("managed_filter", place, lines) else { return };
    machine.do_systemctl(&["start", "dunlin"]);
    let client = client::socket([127, 0, 0, 1]);
    client.send_to(&query("ns.a.test"), place.dns).expect("sent");
    until_true("it ends", || machine.property("ActiveState") == "failed");
    let signal: i32 = machine.property("ExecMainStatus").parse().expect("a number");
    assert_eq!(signal, Signal::SYS.as_raw());
}

#[test]
fn systemctl_reload_waits_and_fails_if_the_config_is_refused() {
    let place = place(3);
    let Some(machine) = boot("managed_reload", place, "") else { return };
    machine.do_systemctl(&["start", "dunlin"]);
    machine.write("a.test.zone", &format!("{HEAD}new A 192.0.2.9\n"));
    machine.do_systemctl(&["reload", "dunlin"]);
    expect(place.dns, "new.a.test", [192, 0, 2, 9]);
    machine.write("dunlin.toml", &config(place, "drian = \"1s\""));
    let (done, told) = machine.systemctl(&["reload", "dunlin"]);
    assert!(!done, "{told}");
    assert!(machine.log().contains("unknown key `drian`"), "{}", machine.log());
    assert_eq!(machine.property("ActiveState"), "active");
    machine.write("dunlin.toml", &config(place, ""));
    machine.do_systemctl(&["reload", "dunlin"]);

    // A new process outside of systemd is refused with a remedy.
    let words = ["dunlin", "serve", "--hot-restart", "-c", "/etc/dunlin/dunlin.toml"];
    let output = machine.run(&words);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("`systemctl restart dunlin`"), "{told}");
    expect(place.dns, "new.a.test", [192, 0, 2, 9]);
}

/// Sends queries over UDP and TCP all the time, each once; returns their number.
fn load(server: SocketAddr, stop: &AtomicBool, asked: &AtomicU64) {
    while !stop.load(Ordering::Relaxed) {
        expect(server, "ns.a.test", [192, 0, 2, 1]);
        asked.fetch_add(2, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn restart_under_systemd_loses_no_query() {
    let place = place(4);
    let Some(machine) = boot("managed_restart", place, "") else { return };
    machine.do_systemctl(&["start", "dunlin"]);
    machine.told(&["touch", "/run/dunlin/tap.sock"]);
    let (stop, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let clients: Vec<_> =
            (0..4).map(|_| scope.spawn(|| load(place.dns, &stop, &asked))).collect();
        for _ in 0..3 {
            let pid = machine.property("MainPID");
            machine.do_systemctl(&["restart", "dunlin"]);
            assert_ne!(machine.property("MainPID"), pid, "another process");
        }
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().expect("every question is answered"));
    });
    let asked = asked.into_inner();
    println!("{asked} questions");
    assert!(asked > 100, "too few to show anything");
    let kept = "UDP of two workers, TCP, ops and the API";
    assert_eq!(machine.property("NFileDescriptorStore"), "5", "{kept}");

    machine.told(&["ls", "/run/dunlin/tap.sock"]);
    // A zone without its file is answered from its copy.
    std::fs::remove_file(machine.folder.join("a.test.zone")).expect("it is there");
    machine.do_systemctl(&["restart", "dunlin"]);
    expect(place.dns, "ns.a.test", [192, 0, 2, 1]);

    // Queries that arrive while the server is dead are answered by the next one.
    machine.do_systemctl(&["kill", "--signal=KILL", "dunlin"]);
    until_true("systemd notices", || machine.property("SubState") == "auto-restart");
    assert!(holds(&ask(place.dns, "ns.a.test"), &[192, 0, 2, 1]));
    assert_eq!(machine.property("NRestarts"), "1");

    machine.do_systemctl(&["stop", "dunlin"]);
    UdpSocket::bind(place.dns).expect("no process has the socket");
}

/// The service replaces a server that was started in a shell.
#[test]
fn service_replaces_a_server_started_by_hand() {
    let place = place(5);
    let lines = "ExecStart=\nExecStart=/usr/bin/dunlin serve --hot-restart -c \
                 /etc/dunlin/dunlin.toml\n";
    let Some(machine) = boot("managed_hot_restart", place, lines) else { return };
    machine.write("dunlin.toml", &config(place, "user = \"dunlin\""));
    machine.told(&["install", "-d", "-o", "dunlin", "-g", "dunlin", "/run/dunlin", LOGS, STATE]);
    let words = ["dunlin", "serve", "-c", "/etc/dunlin/dunlin.toml"];
    let mut by_hand = machine.command(&words).stderr(Stdio::null()).spawn().expect("nsenter runs");
    // Its exit status is 1: dnstap has no reader.
    until("it serves", || {
        let output = machine.run(&["dunlin", "status"]);
        String::from_utf8_lossy(&output.stdout).contains(", serving, ").then_some(())
    });
    machine.do_systemctl(&["start", "dunlin"]);
    assert!(by_hand.wait().expect("it ends").success());
    // The log has its own thread.
    until_true("it says so", || machine.log().contains("hot restart done"));
    expect(place.dns, "ns.a.test", [192, 0, 2, 1]);
    // From here on the unit is the packaged one.
    let edit = "sed -i /ExecStart/d /etc/systemd/system/dunlin.service.d/test.conf";
    machine.told(&["sh", "-c", &format!("{edit} && systemctl daemon-reload")]);
    machine.do_systemctl(&["restart", "dunlin"]);
    expect(place.dns, "ns.a.test", [192, 0, 2, 1]);
}

/// Folders that the unit creates, and that a manual start has to create.
const LOGS: &str = "/var/log/dunlin";
const STATE: &str = "/var/lib/dunlin";

/// The optional socket unit: the first query starts the service, which inherits the socket.
#[test]
fn query_to_the_socket_unit_starts_the_service() {
    let place = place(6);
    let Some(machine) = boot("managed_socket", place, "") else { return };
    let dns = place.dns;
    let lines = format!(
        "[Socket]\nListenDatagram=\nListenStream=\nListenDatagram={dns}\nListenDatagram={dns}\n\
         ListenStream={dns}\n"
    );
    let write = "mkdir -p $0.d && printf %s \"$1\" >$0.d/test.conf && systemctl daemon-reload";
    machine.told(&["sh", "-c", write, "/etc/systemd/system/dunlin.socket", &lines]);
    machine.do_systemctl(&["start", "dunlin.socket"]);
    assert_eq!(machine.property("ActiveState"), "inactive");
    expect(dns, "ns.a.test", [192, 0, 2, 1]);
    assert_eq!(machine.property("NFileDescriptorStore"), "2", "[ops] and [api] are not given");
    assert!(!machine.log().contains("share a UDP socket"), "{}", machine.log());
    machine.do_systemctl(&["restart", "dunlin"]);
    expect(dns, "ns.a.test", [192, 0, 2, 1]);
}
