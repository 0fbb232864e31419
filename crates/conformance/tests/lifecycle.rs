//! Config reloads and take-overs under load: no query lost, none answered wrongly, no connection
//! cut while a query was under way on it.
//!
//! `DUNLIN_RELOADS` and `DUNLIN_TAKE_OVERS` set how many there are.
#![allow(missing_docs, reason = "a test has no callers")]

use std::time::{Duration, Instant};

use conformance::Result;
use conformance::client::is_authority;
use conformance::limits::RELOAD_TIMEOUT;
use conformance::load::{self, Load, Manner, Seen};
use conformance::names::name;
use conformance::scene::{Scene, all_present, number};
use conformance::server::{Launch, Server, Software};
use conformance::zone::Zone;

/// Twelve clients with a turn each two milliseconds.
const CLIENTS: [Manner; 12] = [
    Manner::Datagrams,
    Manner::Datagrams,
    Manner::Datagrams,
    Manner::Datagrams,
    Manner::Stream,
    Manner::Stream,
    Manner::Stream,
    Manner::Halves,
    Manner::Halves,
    Manner::Pieces,
    Manner::Churn,
    Manner::Churn,
];
const INTERVAL: Duration = Duration::from_millis(2);
/// Between two events, so that the load meets both states.
const REST: Duration = Duration::from_millis(50);

#[test]
fn no_query_is_lost_while_configs_are_reloaded() {
    let subject = std::env::var("DUNLIN_SUBJECT").unwrap_or("dunlin".into());
    let subject = Software::named(&subject).expect("DUNLIN_SUBJECT names a server");
    if !all_present(&[subject]) {
        return;
    }
    let reloads = number("DUNLIN_RELOADS", 100);
    let scene = Scene::new("config-reload").unwrap();
    let zone = load::zone(&scene.path).unwrap();
    let zones = [zone.clone()];
    let server = Launch::new(subject, &zones).start(&scene.path).unwrap();
    let load = Load { server: server.address, clients: &CLIENTS, interval: INTERVAL };
    let (seen, result) =
        load.run(|| (1..=reloads).try_for_each(|generation| reload(&server, &zone, generation)));
    judge(&format!("{reloads} config reloads"), reloads, &seen, result);
}

/// A config with another zone, and with other values of what may change.
fn reload(server: &Server, zone: &Zone, generation: u64) -> Result<()> {
    let fresh = name(&format!("generation-{generation}.test"));
    let zones = [zone.clone(), Zone { name: fresh.clone(), ..zone.clone() }];
    let (idle, rate) = (10 + generation % 2, 1_000_000 * (generation % 2));
    let launch = Launch {
        keys: &format!("version = \"{generation}\""),
        sections: &format!("[streams]\nidle = \"{idle}s\"\n[limits.rate]\nper_second = {rate}\n"),
        ..Launch::new(server.software, &zones)
    };
    server.rewrite_config(&launch)?;
    server.reload()?;
    let deadline = Instant::now() + RELOAD_TIMEOUT;
    while !is_authority(server.address, &fresh) {
        if Instant::now() > deadline {
            return Err(format!(
                "config {generation} is not live after {RELOAD_TIMEOUT:?}:\n{}",
                server.log_end()
            ));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(REST);
    Ok(())
}

#[test]
fn no_query_is_lost_while_successors_take_over() {
    let take_overs = number("DUNLIN_TAKE_OVERS", 20);
    let scene = Scene::new("take-over").unwrap();
    let zones = [load::zone(&scene.path).unwrap()];
    let socket = scene.path.join("admin.sock");
    let sections = format!("[admin]\nsocket = {socket:?}\n[streams]\nidle = \"60s\"\n");
    let launch = Launch { sections: &sections, ..Launch::new(Software::Dunlin, &zones) };
    let mut server = launch.start(&scene.path).unwrap();
    let load = Load { server: server.address, clients: &CLIENTS, interval: INTERVAL };
    let (seen, result) = load.run(|| {
        for _ in 0..take_overs {
            server.take_over(&launch)?;
            std::thread::sleep(REST);
            server.check_alive()?;
        }
        Ok(())
    });
    judge(&format!("{take_overs} take-overs"), take_overs, &seen, result);
}

fn judge(what: &str, events: u64, seen: &Seen, result: Result<()>) {
    println!("{what}: {}", seen.summary());
    assert!(seen.is_flawless(), "{what}: {}", seen.report());
    assert_eq!(result, Ok(()), "{what}");
    let asked = seen.asked.load(std::sync::atomic::Ordering::Relaxed);
    assert!(asked > 50 * events, "too few questions to show anything: {asked}");
}
