//! Servers that forward to each other: the loop is reported, and looping queries end at once.

use std::net::Ipv4Addr;
use std::time::Duration;

use conformance::client::ask_udp;
use conformance::environment::TestFolder;
use conformance::limits::Patience;
use conformance::paced_client::query;
use conformance::ports::free_address;
use conformance::reply::Reply;
use conformance::server::{Launch, Server, Software};
use test_support::wait;

const SERVFAIL: u16 = 2;
const QUESTIONS: usize = 20;
/// What goes round is given up after four seconds.
const PATIENCE: Patience = Patience { timeout: Duration::from_secs(5), tries: 3 };

/// This many servers, each of which asks the next one for everything.
fn ring(folder: &TestFolder, count: usize) -> Vec<Server> {
    let ip = |nth: usize| Ipv4Addr::new(127, 0, 0, 10 + nth as u8);
    let addresses: Vec<_> = (0..count).map(|nth| free_address(ip(nth))).collect();
    (0..count)
        .map(|nth| {
            let sections = format!("[forward]\n\".\" = [\"{}\"]\n", addresses[(nth + 1) % count]);
            let keys = "workers = 2";
            let launch = Launch::new(Software::Dunlin, &[]);
            let address = Some(addresses[nth]);
            let launch = Launch { sections: &sections, keys, address, ..launch };
            launch.start(&folder.path.join(nth.to_string())).unwrap()
        })
        .collect()
}

fn ask(server: &Server, name: &str) -> u16 {
    let replies = ask_udp(server.address, &[query(&format!("{name}.example"))], PATIENCE).unwrap();
    Reply::read(replies[0].as_ref().expect("an answer")).rcode
}

fn fault(server: &Server) -> Option<String> {
    server.status().unwrap()["upstreams"][0]["fault"].as_str().map(str::to_owned)
}

/// Queries that the servers sent, and those that got no reply in time.
fn counts(servers: &[Server]) -> [u64; 2] {
    let status = |server: &Server| server.status().unwrap();
    let all: Vec<_> = servers.iter().map(status).collect();
    let sum = |key| all.iter().map(|s| s["upstreams"][0][key].as_u64().unwrap()).sum();
    ["sent", "late"].map(sum)
}

fn check(count: usize) {
    let folder = TestFolder::new(&format!("loops-{count}")).unwrap();
    let servers = ring(&folder, count);
    let mut round = 0;
    let faults = || {
        // Queries loop, so none is answered; that triggers the next loop check, at the latest half
        // a minute later.
        round += 1;
        for server in &servers {
            ask(server, &format!("before-{round}"));
        }
        servers.iter().map(fault).collect::<Vec<_>>()
    };
    wait::until_value("each reports the loop", faults, |faults| {
        faults.iter().flatten().filter(|fault| fault.contains("loop")).count() == count
    });
    let [sent, late] = counts(&servers);
    for nth in 0..QUESTIONS {
        assert_eq!(ask(&servers[nth % count], &format!("after-{nth}")), SERVFAIL);
    }
    // Round once on each of its threads, three times if datagrams get lost.
    let most = QUESTIONS * count * 3 * 3;
    let [all_sent, all_late] = counts(&servers);
    let (sent, late) = (all_sent - sent, all_late - late);
    assert!(sent <= most as u64, "{sent} questions between them");
    assert!(late < QUESTIONS as u64, "{late} of {sent} ended by a timeout, not at once");
}

#[test]
fn loop_of_two_servers_is_reported_and_ends_at_once() {
    check(2);
}

#[test]
fn loop_of_three_servers_is_reported_and_ends_at_once() {
    check(3);
}
