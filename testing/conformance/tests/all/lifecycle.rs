//! Config reloads and hot restarts under load: no query lost, none answered wrongly, no connection
//! cut while a query was under way on it.
//!
//! `DUNLIN_RELOADS` and `DUNLIN_HOT_RESTARTS` set how many there are.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use conformance::Result;
use conformance::client::is_authority;
use conformance::environment::{TestFolder, all_present, number};
use conformance::load::{self, Load, Manner, Seen};
use conformance::names::{Name, name};
use conformance::server::{Launch, Server, Software};
use conformance::zone::{Signing, Zone};
use test_support::wait;

/// Sixteen clients with a turn each two milliseconds.
const CLIENTS: [Manner; 16] = [
    Manner::Datagrams,
    Manner::Datagrams,
    Manner::Datagrams,
    Manner::Datagrams,
    Manner::Bursts,
    Manner::Bursts,
    Manner::Stream,
    Manner::Stream,
    Manner::Stream,
    Manner::Halves,
    Manner::Halves,
    Manner::Pieces,
    Manner::Large,
    Manner::Churn,
    Manner::Churn,
    Manner::Churn,
];
const INTERVAL: Duration = Duration::from_millis(2);
/// Names of a zone that takes some tenths of a second to load.
const SLOW: u32 = 60_000;
/// For `[server]`: a holder keeps the sockets.
const HELD: &str = "hold_sockets = true\n";
/// Answers between two events, so that the load meets both states.
const BETWEEN: u64 = 200;

#[test]
fn no_query_is_lost_while_configs_are_reloaded() {
    let subject = std::env::var("DUNLIN_SUBJECT").unwrap_or("dunlin".into());
    let subject = Software::named(&subject).expect("DUNLIN_SUBJECT names a server");
    if !all_present(&[subject]) {
        return;
    }
    let reloads = number("DUNLIN_RELOADS", 100);
    let folder = TestFolder::new("config-reload").unwrap();
    let zone = load::zone(&folder.path).unwrap();
    let zones = [zone.clone()];
    let server = Launch::new(subject, &zones).start(&folder.path).unwrap();
    let load = Load { server: server.address, clients: &CLIENTS, interval: INTERVAL };
    let (seen, result) = load.run(|seen| {
        (1..=reloads).try_for_each(|generation| reload(&server, &zone, generation, seen))
    });
    judge(&format!("{reloads} config reloads"), reloads, &seen, result);
    if subject == Software::Dunlin {
        let config = &server.status().unwrap()["config"];
        assert_eq!(config["reloads"], reloads, "{config}");
        assert_eq!(config["reloads_refused"], 0, "{config}");
    }
}

/// A config with a new zone, without the one from two configs ago, and with other values of all
/// that may change.
fn reload(server: &Server, zone: &Zone, generation: u64, seen: &Seen) -> Result<()> {
    let named = |generation: u64| name(&format!("generation-{generation}.test"));
    let extra = |generation: u64| Zone { name: named(generation), ..zone.clone() };
    let zones = [zone.clone(), extra(generation), extra(generation - 1)];
    let launch = Launch {
        keys: &keys(generation),
        sections: &sections(generation),
        ..Launch::new(server.software, &zones)
    };
    server.rewrite_config(&launch)?;
    server.reload()?;
    let gone = generation.checked_sub(2).map(named);
    let is_served = |zone: &Name| is_authority(server.address, zone);
    wait::try_until_ok(&format!("the zones of config {generation}"), || {
        let is_live = is_served(&named(generation)) && !gone.as_ref().is_some_and(is_served);
        is_live.then_some(()).ok_or_else(|| server.log_end())
    })?;
    seen.wait_for_answers(BETWEEN)
}

/// Lines for `[server]`. Another number of workers needs a restart, which is reported.
fn keys(generation: u64) -> String {
    let workers = 1 + generation % 3;
    let udp_size = 1232 + generation % 2;
    format!(
        "workers = {workers}\nversion = \"{generation}\"\nnsid = \"{generation}\"\n\
         udp_size_max = {udp_size}\n"
    )
}

/// Sections whose values come and go, each after a period of its own. None of them blocks the load.
fn sections(generation: u64) -> String {
    let every = |period: u64| generation.is_multiple_of(period);
    let rate = if every(2) { 1_000_000 } else { 0 };
    let responses = if every(3) { 1_000_000 } else { 0 };
    let query = if every(5) { "127.0.0.0/8" } else { "any" };
    let level = ["info", "debug", "warn"][generation as usize % 3];
    let sample = if every(4) { 100 } else { 0 };
    format!(
        "[limits.rate]\nper_second = {rate}\n[limits.responses]\nper_second = {responses}\n\
         [acl]\nquery = [\"{query}\"]\n[server.cookies]\nenabled = {}\n\
         [log]\nlevel = \"{level}\"\n[log.queries]\nsample = {sample}\nfile = \"queries.log\"\n",
        every(7)
    )
}

#[test]
fn no_query_is_lost_during_hot_restarts() {
    replace_processes("hot-restart", "");
}

#[test]
fn no_query_is_lost_during_hot_restarts_of_held_servers() {
    replace_processes("held-restart", HELD);
}

/// Hot restarts with these keys of `[server]` beside others.
fn replace_processes(folder: &str, more: &str) {
    let hot_restarts = number("DUNLIN_HOT_RESTARTS", 20);
    let folder = TestFolder::new(folder).unwrap();
    let zones = [load::zone(&folder.path).unwrap()];
    let new_process = |generation: u64| {
        // More, fewer, as many: sockets are new, several to a worker, or stay.
        let workers = [2, 3, 1, 4, 4, 1][generation as usize % 6];
        let threads = 1 + generation % 2;
        let keys = format!("workers = {workers}\n{more}");
        let sections = format!("[streams]\nidle = \"60s\"\nthreads = {threads}\n");
        (keys, sections)
    };
    let (keys, sections) = new_process(0);
    let launch =
        Launch { keys: &keys, sections: &sections, ..Launch::new(Software::Dunlin, &zones) };
    let mut server = launch.start(&folder.path).unwrap();
    let load = Load { server: server.address, clients: &CLIENTS, interval: INTERVAL };
    let (seen, result) = load.run(|seen| {
        for generation in 1..=hot_restarts {
            let (keys, sections) = new_process(generation);
            server.hot_restart(&Launch { keys: &keys, sections: &sections, ..launch })?;
            seen.wait_for_answers(BETWEEN)?;
            server.check_alive()?;
        }
        Ok(())
    });
    judge(&format!("{hot_restarts} hot restarts"), hot_restarts, &seen, result);
}

/// A thousand queries a second, each sent once: those of the time without a server wait in the
/// sockets that its holder keeps. What the killed server has read ends with it: at most one query
/// of each client, while a second without sockets would cost each some sixty.
#[test]
fn queries_wait_while_a_killed_server_is_started_again() {
    let kills = number("DUNLIN_KILLS", 5);
    let folder = TestFolder::new("held-killed").unwrap();
    let zones = [load::zone(&folder.path).unwrap()];
    let launch = Launch { keys: HELD, ..Launch::new(Software::Dunlin, &zones) };
    let mut server = launch.start(&folder.path).unwrap();
    let (clients, interval) = ([Manner::Datagrams; 16], Duration::from_millis(16));
    let load = Load { server: server.address, clients: &clients, interval };
    let (seen, result): (_, Result<()>) = load.run(|seen| {
        for _ in 0..kills {
            server.kill_held()?;
            seen.wait_for_answers(BETWEEN)?;
            server.check_alive()?;
        }
        Ok(())
    });
    println!("{kills} servers killed: {}", seen.summary());
    assert_eq!(result, Ok(()));
    let [asked, wrong, lost, cut] =
        [&seen.asked, &seen.wrong, &seen.lost, &seen.cut].map(|one| one.load(Ordering::Relaxed));
    assert!(wrong + cut == 0 && lost <= kills * clients.len() as u64, "{}", seen.report());
    assert!(asked > 50 * kills, "too few queries to show anything: {asked}");
}

/// New processes with more workers bind sockets beside the inherited ones, and are killed while
/// they load zones.
#[test]
fn no_query_is_lost_to_new_processes_that_never_serve() {
    let attempts = number("DUNLIN_HOT_RESTARTS", 20) / 2;
    let folder = TestFolder::new("never-serves").unwrap();
    let zone = load::zone(&folder.path).unwrap();
    let slow = slow_zone(&folder.path).unwrap();
    let zones = [zone.clone()];
    let launch = Launch { keys: "workers = 1", ..Launch::new(Software::Dunlin, &zones) };
    let mut server = launch.start(&folder.path).unwrap();
    let zones = [zone, slow];
    let new_process = Launch { keys: "workers = 4", zones: &zones, ..launch };
    let load = Load { server: server.address, clients: &CLIENTS, interval: INTERVAL };
    let (seen, result) = load.run(|seen| {
        for _ in 0..attempts {
            server.kill_new_process(&new_process, 4, || seen.wait_for_answers(BETWEEN))?;
            seen.wait_for_answers(BETWEEN)?;
            server.check_alive()?;
        }
        Ok(())
    });
    judge(&format!("{attempts} new processes that died"), attempts, &seen, result);
}

/// A zone that takes so long to load that what happens meanwhile can be seen.
fn slow_zone(directory: &Path) -> Result<Zone> {
    let file = directory.join("slow.zone");
    let head = "$TTL 60\n@ SOA ns hostmaster 1 3600 600 86400 60\n@ NS ns\nns A 192.0.2.1\n";
    let text = format!("{head}$GENERATE 1-{SLOW} a$ A 192.0.2.1\n");
    std::fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(Zone { name: name("slow.test"), file, signing: Signing::Unsigned, nodes: BTreeMap::new() })
}

fn judge(what: &str, events: u64, seen: &Seen, result: Result<()>) {
    println!("{what}: {}", seen.summary());
    assert!(seen.is_flawless(), "{what}: {}", seen.report());
    assert_eq!(result, Ok(()), "{what}");
    let asked = seen.asked.load(Ordering::Relaxed);
    assert!(asked > 50 * events, "too few questions to show anything: {asked}");
}
