//! Announced addresses, end to end: a server, its BIRD, and BIRD at its neighbor, which has
//! routes to the addresses only while the server answers.
use crate::anycast_bed::{
    ADDRESSES, Bed, GONE_MAX, SILENT_MAX, child_of, exchange_from, expect_within, field, inside,
    is_alive, missing, print_time, server, signal,
};
use crate::served::{HEAD, NOERROR, Process, REFUSED, Served, binary, query, rcode, text, zone};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use test_support::skip::skip;
use test_support::spaces::{Spaces, within};
use test_support::wait;

/// CAP_NET_ADMIN, as `/proc` writes it.
const NET_ADMIN: &str = "0000000000001000";
const EXABGP: &str = "/usr/sbin/exabgp";
const OF_EXABGP: &str = include_str!("../../../../examples/anycast/exabgp.conf");
const HOT_RESTARTS: usize = 3;
/// Bytes of the additional record of a query.
const OPT_LEN: usize = 11;

#[test]
fn end_of_a_server_withdraws_its_addresses_and_leaves_nothing() {
    if let Some(missing) = missing() {
        return skip(missing);
    }
    let mut bed = Bed::start("anycast-kill", "");
    bed.expect_answers();
    bed.expect_status(0, "\"is_announced\":true");
    let processes = wait::until("starter and keeper", || bed.processes());
    for pid in [processes.0, processes.1] {
        for key in ["CapEff", "CapPrm"] {
            assert_eq!(field(pid, key).as_deref(), Some(NET_ADMIN), "{key}");
        }
        assert_eq!(field(pid, "Uid").as_deref(), Some("65534 65534 65534 65534"));
        assert_eq!(field(pid, "NoNewPrivs").as_deref(), Some("1"));
        // They end with the server, not before.
        [Signal::TERM, Signal::INT, Signal::HUP].into_iter().for_each(|one| signal(pid, one));
    }
    assert_eq!(bed.routes(), 2);
    bed.served.child.kill().expect("it runs");
    expect_within("kill -9", bed.wait_for_routes(0, "withdrawn"), GONE_MAX);
    bed.served.status();
    bed.expect_nothing_left(processes);
}

#[test]
fn silence_withdraws_and_what_was_killed_comes_back() {
    if let Some(missing) = missing() {
        return skip(missing);
    }
    let bed = Bed::start("anycast-stop", "");
    bed.served.signal(Signal::STOP);
    expect_within("SIGSTOP", bed.wait_for_routes(0, "withdrawn"), SILENT_MAX);
    bed.served.signal(Signal::CONT);
    bed.wait_for_routes(2, "announced again after SIGCONT");
    let (_, keeper) = wait::until("starter and keeper", || bed.processes());
    signal(keeper, Signal::KILL);
    // The kernel removes the routes of the dead keeper; when BIRD sees that depends on BIRD.
    print_time("keeper killed", bed.wait_for_routes(0, "withdrawn"));
    bed.wait_for_routes(2, "announced again by a new keeper");
    bed.expect_answers();
    let (starter, keeper) = wait::until("starter and keeper", || bed.processes());
    signal(starter, Signal::KILL);
    signal(keeper, Signal::KILL);
    print_time("both killed", bed.wait_for_routes(0, "withdrawn"));
    bed.expect_status(1, "restart the server");
}

#[test]
fn server_that_ends_withdraws_before_it_stops_to_answer() {
    if let Some(missing) = missing() {
        return skip(missing);
    }
    let mut bed = Bed::start("anycast-end", "settle = \"1h\"");
    let processes = wait::until("starter and keeper", || bed.processes());
    bed.served.signal(Signal::TERM);
    bed.wait_for_routes(0, "withdrawn");
    bed.expect_status(1, "draining");
    let at = SocketAddr::from(([192, 0, 2, 1], 53));
    let reply = within(&bed.spaces.client, || exchange_from(at, &query("ns.a.test")));
    assert_eq!(rcode(&reply), NOERROR, "it answers until `settle` is over");
    bed.served.end();
    bed.expect_nothing_left(processes);
}

#[test]
fn hot_restarts_pass_the_keeper_on_and_the_neighbor_sees_no_update() {
    if let Some(missing) = missing() {
        return skip(missing);
    }
    let mut bed = Bed::start("anycast-hot", "hold_down = \"1s\"");
    let processes = wait::until("starter and keeper", || bed.processes());
    let before = bed.updates();
    for _ in 0..HOT_RESTARTS {
        bed.hot_restart();
        // Its own verdict is ready when it has probed.
        bed.expect_status(0, "\"is_announced\":true");
        bed.expect_answers();
    }
    assert_eq!(bed.updates(), before);
    assert!(is_alive(processes.0) && is_alive(processes.1), "the same keeper");
    bed.served.child.kill().expect("it runs");
    expect_within("kill -9 of the new one", bed.wait_for_routes(0, "withdrawn"), GONE_MAX);
    bed.expect_nothing_left(processes);
    // One that is to announce something else starts a keeper of its own.
    let (folder, space) = (bed.folder.clone(), bed.spaces.server.clone());
    bed.served = Served::spawn(&mut server(&space), &folder);
    bed.wait_for_routes(2, "announced");
    let file = folder.join("dunlin.toml");
    let config = fs::read_to_string(&file).expect("a config");
    fs::write(&file, config.replace("[anycast]", "[anycast]\ntable = 154")).expect("a config");
    bed.hot_restart();
    bed.wait_for_routes(0, "the daemon does not learn this table");
    bed.expect_status(0, "\"table\":154");
}

#[test]
fn own_queries_pass_access_lists_and_are_counted_apart() {
    if let Some(missing) = missing() {
        return skip(missing);
    }
    let limits = "[limits]\nrate.per_second = 1\n[acl]\nquery = [\"203.0.113.0/24\"]\n";
    let bed = Bed::start_with("anycast-own", limits);
    let probes = |status: &Value| status["anycast"]["probes"].as_u64().unwrap_or(0);
    let (_, status) =
        wait::until_value("probes", || bed.status(), |(_, status)| probes(status) > 20);
    let responses = |status: &Value| -> u64 {
        let threads = status["threads"].as_array().expect("threads");
        let codes = threads.iter().filter_map(|thread| thread["rcodes"].as_object());
        codes.flat_map(|codes| codes.values()).filter_map(Value::as_u64).sum()
    };
    assert_eq!(responses(&status), 0, "{status}");
    // What others send is refused: they are on no list.
    let mut own = query("id.server");
    let end = own.len() - OPT_LEN;
    own[end - 4..end].copy_from_slice(&[0, 16, 0, 3]);
    let at = SocketAddr::new(ADDRESSES[0].parse().expect("an address"), 53);
    let reply = within(&bed.spaces.client, || exchange_from(at, &own));
    assert_eq!(rcode(&reply), REFUSED);
    assert_eq!(responses(&bed.status().1), 1);
    assert_eq!(bed.routes(), 2);
}

/// ExaBGP is fed by `dunlin anycast status --follow`, and needs no table.
#[test]
fn exabgp_announces_what_the_status_says() {
    if let Some(missing) = missing() {
        return skip(missing);
    }
    let is_there = |path: &&str| Path::new(path).exists();
    if ![EXABGP, "/usr/bin/jq"].iter().all(is_there) {
        return skip("exabgp and jq: install them");
    }
    let mut bed =
        Bed::start_with_daemon("anycast-exabgp", "hold_down = \"1s\"", |spaces, folder, socket| {
            let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
            let config = OF_EXABGP.replace("/usr/share/doc/dunlin/examples", examples);
            let file = folder.join("exabgp.conf");
            fs::write(&file, config).expect("a file");
            let programs = Path::new(env!("CARGO_BIN_EXE_dunlin")).parent().expect("a folder");
            let path = format!("{}:/usr/bin:/bin", programs.display());
            let mut command = inside(&spaces.server);
            command.arg(EXABGP).arg(file).stdout(Stdio::null()).stderr(Stdio::null());
            command.env("PATH", path).env("DUNLIN_SOCKET", socket);
            // The user of the test may use the socket; a file of commands is not needed.
            command.env("exabgp_daemon_drop", "false").env("exabgp_api_cli", "false");
            Process(command.spawn().expect("it runs"))
        });
    bed.expect_answers();
    bed.served.child.kill().expect("it runs");
    print_time("kill -9 beside ExaBGP", bed.wait_for_routes(0, "withdrawn"));
    let (folder, space) = (bed.folder.clone(), bed.spaces.server.clone());
    bed.served = Served::spawn(&mut server(&space), &folder);
    bed.wait_for_routes(2, "announced again");
}

#[test]
fn operator_withdraws_over_a_restart() {
    if let Some(missing) = missing() {
        return skip(missing);
    }
    let mut bed = Bed::start("anycast-out", "settle = \"0s\"\nhold_down = \"1s\"");
    let command = |bed: &Bed, args: &[&str]| {
        let output = binary().arg("anycast").args(args).arg("--socket").arg(&bed.socket).output();
        let output = output.expect("it runs");
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let (code, told) = command(&bed, &["status"]);
    assert!(code == Some(0) && told.contains("announced since"), "{told}");
    let (code, told) = command(&bed, &["withdraw", "--reason", "rack 7 moves", "--wait"]);
    assert!(code == Some(0) && told.contains("by an operator: rack 7 moves"), "{told}");
    bed.wait_for_routes(0, "withdrawn");
    let (folder, space) = (bed.folder.clone(), bed.spaces.server.clone());
    bed.served.end();
    bed.served = Served::spawn(&mut server(&space), &folder);
    bed.expect_status(1, "rack 7 moves");
    assert_eq!(bed.routes(), 0);
    let (code, told) = command(&bed, &["announce", "--wait"]);
    assert!(code == Some(0) && told.contains("announced since"), "{told}");
    bed.wait_for_routes(2, "announced");
}

/// Without BIRD: what keeps addresses from being announced is one error, and the server answers.
#[test]
fn impossible_announcement_is_a_fault_and_no_process_starts_without_addresses() {
    if let Some(missing) = missing() {
        return skip(missing);
    }
    let spaces = Spaces::wired("dunlin-anycast-none", ["", ""]);
    let folder = std::env::temp_dir().join(format!("dunlin-anycast-none-{}", std::process::id()));
    let start = |anycast: &str| {
        let mut command = inside(&spaces.server);
        command.args(["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin"]);
        command.arg(env!("CARGO_BIN_EXE_dunlin"));
        let socket = folder.with_extension("sock");
        let config = format!(
            "listen = [\"0.0.0.0:53\"]\n[admin]\nsocket = {socket:?}\n{anycast}{}",
            zone("a.test")
        );
        (Served::start_by(&mut command, &folder, &config, &[("a.test.zone", HEAD)]), socket)
    };
    let (served, _) = start("");
    assert_eq!(child_of(served.child.id(), "anycast-starter"), None);
    drop(served);
    spaces.run("ip -n {s} addr add 198.51.100.53/32 dev lo");
    let (served, socket) = start("[anycast]\naddresses = [\"198.51.100.53\"]\n");
    let told = |line: &String| line.contains("[anycast] needs CAP_NET_ADMIN");
    assert!(served.start.iter().any(told), "{:?}", served.start);
    wait::until_value(
        "a fault",
        || {
            let args = ["status", "--socket"];
            let output = binary().args(args).arg(&socket).output().expect("it runs");
            (output.status.code(), text(&output.stdout))
        },
        |(code, told)| *code == Some(1) && told.contains("no TUN device without CAP_NET_ADMIN"),
    );
    let check = binary().arg("check").arg(folder.join("dunlin.toml")).output().expect("it runs");
    assert_eq!(check.status.code(), Some(1), "{}", text(&check.stdout));
    drop(served);
    fs::remove_dir_all(folder).expect("removed");
}
