//! The text of a status, of servers in all conditions.
use super::*;
use crate::sample::{self, NOW};
use server_status::HeldZone;
use server_status::{SignatureSpan, StoreZoneFault, UpstreamState, UpstreamStatus, find_faults};

/// A status as a server sends it, with its faults.
fn sent(status: &Status) -> Status {
    Status { faults: find_faults(status), ..status.clone() }
}

fn is_healthy(status: &Status) -> bool {
    super::is_healthy(&sent(status))
}

fn shown(status: &Status, all_zones: bool) -> String {
    let mut out = Vec::new();
    write(&mut out, &sent(status), all_zones, Paint::NONE).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.lines().all(|line| line.trim_end() == line), "no blanks at the end\n{text}");
    text
}

/// A status with faults of many kinds.
fn troubled(zones: usize) -> Status {
    let mut status = sample::status(2, zones, 1_234);
    status.config.reloads = 3;
    status.config.reloads_refused = 1;
    status.config.errors = vec![
        "/etc/dunlin/dunlin.toml:3:1: unknown key \"listn\" (did you mean \"listen\"?)".into(),
    ];
    status.config.restart_needed = vec!["server.workers".into(), "server.port".into()];
    let behind = &mut status.zones[1];
    behind.state = ZoneState::Behind;
    behind.refused_seconds = Some(NOW - 60.0);
    behind.errors = (1..=12).map(|n| format!("zone-1.zone:{n}:7: not an IPv4 address")).collect();
    let unloaded = &mut status.zones[2];
    *unloaded = ZoneStatus {
        name: unloaded.name.clone(),
        refused_seconds: Some(NOW),
        errors: vec!["zone-2.zone: no such file".into()],
        ..ZoneStatus::default()
    };
    status
}

#[test]
fn healthy_server_shows_its_counters() {
    let expected = "\
dunlin 0.1.0, serving, up 2 h 13 min since 2026-11-21 11:47:03 UTC, process 4242

listen      0.0.0.0:53, [::]:53
config      /etc/dunlin/dunlin.toml, read 2 h 13 min ago
generation  12, published 3 min ago
streams     12 of 1,024 open, 80.0 KiB of 160 MiB buffered; closed: 2 idle
process     48.2 MiB in RAM, 63 of 65,536 files, 12 min of CPU
zones       1 current

STATE        SERIAL  RECORDS     LOADED  ZONE
current  2026112101        4  3 min ago  zone-0.example.

THREAD     CPU   RECEIVED    REPLIED  DROPPED    P50    P99
worker-0     0  1,234,000  1,231,532    2,468  20 µs  80 µs
worker-1     1  1,234,000  1,231,532    2,468  20 µs  80 µs
streams-0    -    123,000    122,754      246  20 µs  80 µs
all          -  2,591,000  2,585,818    5,182  20 µs  80 µs
the busiest worker has 1.03 times the mean load; dropped: 2,591 rate_limited, 2,591 short
";
    let status = sample::status(2, 1, 1_234);
    assert_eq!(shown(&status, false), expected);
    assert!(is_healthy(&status));
}

#[test]
fn outdated_zones_and_refused_files_have_their_reasons() {
    let status = troubled(4);
    let text = shown(&status, false);
    for expected in [
        "read 2 h 13 min ago, reloaded 3 times, refused once\n",
        "            the last reload was refused; the previous config stays in effect:\n",
        "              /etc/dunlin/dunlin.toml:3:1: unknown key \"listn\" (did you mean",
        "            changed keys that need a restart: server.workers, server.port\n",
        "2 current, 1 behind their file, 1 not loaded, answered with SERVFAIL\n",
        "\nbehind    2026112102    1,238   6 min ago  zone-1.example.\n    its file was refused 1 \
         min ago:\n    zone-1.zone:1:7: not an IPv4 address\n",
        "\n    zone-1.zone:5:7: not an IPv4 address\n    and more: `dunlin check` lists all\n",
        "\nunloaded           -        -           -  zone-2.example.\n    its file was refused 0 \
         s ago:\n    zone-2.zone: no such file\n",
    ] {
        assert!(text.contains(expected), "{expected:?} in\n{text}");
    }
    assert!(!is_healthy(&status));
}

#[test]
fn zone_with_old_signatures_is_shown_and_is_a_fault() {
    let mut status = sample::status(2, 500, 1);
    let day = 86_400;
    let span = |left: i64| {
        let expires_seconds = NOW as i64 + left;
        Some(SignatureSpan { expires_seconds, validity_seconds: 30 * day })
    };
    status.zones[1].signatures = span(8 * day);
    assert!(is_healthy(&status));
    status.zones[1].signatures = span(2 * day);
    status.zones[2].signatures = span(-day - 60);
    assert!(!is_healthy(&status));
    let text = shown(&status, false);
    for expected in [
        "zone-1.example.\n    its signatures expire in 2 d: sign it again\n",
        "zone-2.example.\n    its signatures expired 1 d ago, so validating resolvers answer \
         SERVFAIL: sign it again\n",
    ] {
        assert!(text.contains(expected), "{expected:?} in\n{text}");
    }
}

#[test]
fn held_zone_and_half_written_file_are_shown_with_a_remedy() {
    let mut status = sample::status(2, 3, 1);
    let zone = &mut status.zones[1];
    zone.state = ZoneState::Behind;
    let held =
        HeldZone { had: 2_000, has: 310, since_seconds: NOW, is_cut: false, lost_most: true };
    zone.held = Some(held);
    status.held.insert(zone.name.clone(), held);
    let held = HeldZone { had: 90, has: 4, since_seconds: NOW, is_cut: false, lost_most: true };
    status.held.insert("cluster.local.".into(), held);
    status.zones[2].writing_seconds = Some(NOW - 3.0);
    let text = shown(&status, false);
    for expected in [
        "zones       2 current, 1 behind their file, 2 held (`dunlin zones accept`)\n            \
         cluster.local.: held: its source has 4 of the 90 served names; `dunlin zones accept \
         cluster.local.` serves it nevertheless\n",
        "zone-1.example.\n    held: its file has 310 of the 2,000 served names; `dunlin zones \
         accept zone-1.example.` serves it nevertheless\n",
        "zone-2.example.\n    a process has been writing its file since 2026-11-21 14:00:00 UTC; \
         it is loaded when complete\n",
    ] {
        assert!(text.contains(expected), "{expected:?} in\n{text}");
    }
    assert!(!is_healthy(&status));
    status.zones.iter_mut().for_each(|zone| (zone.state, zone.held) = (ZoneState::Current, None));
    assert!(!is_healthy(&status), "the content of another source is held");
    status.held.clear();
    assert!(is_healthy(&status), "a half-written file is not a fault");
}

#[test]
fn failed_thread_is_shown_with_a_remedy() {
    let mut status = sample::status(1, 3, 1);
    status.failed = vec!["zone-files".into(), "control".into()];
    let expected = "\nfaults      thread_ended: zone-files and control ended: served zones no \
                    longer change; restart the server\n";
    assert!(shown(&status, false).contains(expected));
}

#[test]
fn server_that_does_not_serve_or_has_a_fault_is_not_healthy() {
    let check = |change: fn(&mut Status), expected| {
        let mut status = sample::status(1, 3, 1);
        change(&mut status);
        assert_eq!(is_healthy(&status), expected);
    };
    check(|_| {}, true);
    check(|status| status.config.restart_needed.push("server.port".into()), true);
    check(|status| status.state = ServerState::Draining, false);
    check(|status| status.state = ServerState::Starting, false);
    check(|status| status.saving = Some("no room".into()), false);
}

#[test]
fn faults_come_first_with_their_kinds() {
    let mut status = sample::status(1, 1, 1);
    status.saving = Some("the disk is\u{1b}[0m full".into());
    status.failed = vec!["control".into()];
    let text = shown(&status, false);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[2].starts_with("faults      thread_ended: control ended"), "{text}");
    let second = "            zones_not_saved: zones are not saved on disk: the disk is";
    assert!(
        lines[3].starts_with(second) && lines[4].is_empty() && !text.contains('\u{1b}'),
        "{text}"
    );
}

#[test]
fn only_outdated_zones_of_many_are_listed() {
    let text = shown(&troubled(5_000), false);
    assert!(
        text.contains("zones       4,998 current, 1 behind their file, 1 not loaded"),
        "{text}"
    );
    assert_eq!(text.matches(".example.\n").count(), 4, "also among the faults\n{text}");
    assert!(text.lines().count() < 40, "{text}");
    let text = shown(&sample::status(2, 5_000, 1), false);
    assert!(text.contains("zones       5,000 current\n\nTHREAD"), "no table of none\n{text}");
    let text = shown(&troubled(5_000), true);
    assert_eq!(text.matches(".example.\n").count(), 5_002);
}

#[test]
fn list_of_many_outdated_zones_is_cut() {
    let mut status = sample::status(2, 5_000, 1);
    status.zones.iter_mut().for_each(|zone| zone.state = ZoneState::Behind);
    let text = shown(&status, false);
    assert!(text.contains("and 4,960 zones more"), "{text}");
}

#[test]
fn samples_are_shown_where_some_are_taken() {
    let mut status = sample::status(1, 1, 1);
    assert!(!shown(&status, false).contains("\nsamples "));
    status.tap = TapStatus { sampled: 5_000, lost: 2, logged: 4_998, ..TapStatus::default() };
    let text = shown(&status, false);
    assert!(text.contains("\nsamples     5,000 taken, 2 lost; 4,998 logged\n"), "{text}");
    status.tap = TapStatus { dnstap_wanted: true, ..TapStatus::default() };
    let text = shown(&status, false);
    assert!(text.contains("\nsamples     0 taken; 0 to dnstap, no reader connected\n"), "{text}");
    status.tap.dnstap_lost = 7;
    let text = shown(&status, false);
    assert!(text.contains("taken; 0 to dnstap, 7 lost, no reader connected\n"), "{text}");
}

#[test]
fn starting_server_shows_defaults_and_no_zones() {
    let mut status = Status { version: "0.1.0".into(), ..Status::default() };
    let text = shown(&status, false);
    assert!(text.contains("\nconfig      none, all defaults, read 0 s ago\n"), "{text}");
    assert!(text.ends_with("\nzones       none\n"), "{text}");
    status.listen = (1..=7).map(|n| format!("192.0.2.{n}:53")).collect();
    let text = shown(&status, false);
    let listen =
        "\nlisten      192.0.2.1:53, 192.0.2.2:53, 192.0.2.3:53\n            192.0.2.4:53,";
    assert!(text.contains(listen), "{text}");
}

#[test]
fn hosts_files_are_listed_with_their_errors() {
    let mut status = sample::status(2, 1, 1_234);
    let hosts = |file: &str, names| HostsStatus {
        file: file.into(),
        state: ZoneState::Current,
        names,
        loaded_seconds: Some(NOW - 60.0),
        ..HostsStatus::default()
    };
    status.hosts = vec![hosts("/etc/hosts", 12), hosts("/srv/ads", 500_000)];
    assert!(is_healthy(&status));
    let behind = &mut status.hosts[1];
    (behind.state, behind.refused_seconds) = (ZoneState::Behind, Some(NOW - 5.0));
    behind.errors = vec!["/srv/ads:7:1: `x` is not an address".into()];
    assert!(!is_healthy(&status));
    let expected = "
STATE      NAMES     LOADED  HOSTS FILE
current       12  1 min ago  /etc/hosts
behind   500,000  1 min ago  /srv/ads
    it was refused 5 s ago:
    /srv/ads:7:1: `x` is not an address
";
    let text = shown(&status, false);
    assert!(text.contains(expected), "{text}");
}

#[test]
fn store_and_api_are_shown_with_their_counters() {
    let mut status = sample::status(1, 1, 1);
    let took = StatusHistogram {
        bounds_seconds: vec![0.001, 0.002],
        counts: vec![98, 2, 0],
        sum_seconds: 0.1,
    };
    status.store = Some(StoreStatus {
        file: "/var/lib/dunlin/records.redb".into(),
        bytes: 3 << 20,
        free_bytes: 5 << 30,
        revision: 1_234,
        zones: 2,
        rrsets: 4_321,
        ..StoreStatus::default()
    });
    status.api = Some(ApiStatus {
        connections: 3,
        connections_full: 1,
        requests: [("200".to_owned(), 1_100), ("403".to_owned(), 7), ("507".to_owned(), 1)].into(),
        durable: took,
        ..ApiStatus::default()
    });
    let text = shown(&status, false);
    for line in [
        "store       revision 1234, 2 zones, 4,321 record sets, 3.0 MiB (5.0 GiB free)\n",
        "api         3 connections, 1,108 requests, 7 refused, 1 failed; 1 connection \
         over the limit; 100 writes, durable in 1 ms, 99 % in 2 ms\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(is_healthy(&status));
    let store = status.store.as_mut().expect("a store");
    (store.form, store.form_newest, store.form_refusals) = (5, 6, 2);
    let text = shown(&status, false);
    let form = "(5.0 GiB free); form 5, and 6 after `dunlin store upgrade`, 2 writes that need it";
    assert!(text.contains(form), "{text}");
    status.store.as_mut().expect("a store").fault = Some("damaged".into());
    assert!(shown(&status, false).contains("store       /var/lib/dunlin/records.redb: damaged\n"));
    assert!(!is_healthy(&status));
}

#[test]
fn faulty_store_is_shown_with_its_reasons_and_is_not_healthy() {
    let zone = |name: &str| StoreZoneFault { name: name.into(), reason: "a checksum".into() };
    let file = "/var/lib/dunlin/records.redb".to_owned();
    let store = StoreStatus { file, ..StoreStatus::default() };
    for (store, expected) in [
        (
            StoreStatus { writes_refused: Some("no room".into()), ..store.clone() },
            "\nfaults      store_writes_refused: the store's writes are refused: no room\n",
        ),
        (
            StoreStatus { servfail: 1, servfail_zones: vec![zone("a.test.")], ..store.clone() },
            "\n            1 zone answered with SERVFAIL:\n              a.test.: a checksum\n",
        ),
        (
            StoreStatus {
                fault: Some("/var/lib/dunlin/records.wal: cut off".into()),
                servfail: 7,
                servfail_zones: vec![zone("a.test."); 7],
                list_fault: Some("one is lost".into()),
                ..store.clone()
            },
            "store       /var/lib/dunlin/records.wal: cut off\n            7 zones answered \
             with SERVFAIL:\n              a.test.\n",
        ),
    ] {
        let mut status = sample::status(1, 1, 1);
        status.store = Some(store);
        let text = shown(&status, false);
        assert!(text.contains(expected), "{text}");
        assert!(!is_healthy(&status));
    }
}

#[test]
fn suffix_without_an_answering_server_is_not_healthy() {
    let upstream = |suffix: &str, state| UpstreamStatus {
        suffix: suffix.into(),
        server: "192.0.2.1:53".into(),
        state,
        ..UpstreamStatus::default()
    };
    let mut status = sample::status(1, 1, 1);
    let (up, down) = (UpstreamState::Up, UpstreamState::Down);
    status.upstreams = vec![upstream("a.", up), upstream("a.", down)];
    assert!(is_healthy(&status), "one of two servers answers");
    status.upstreams.push(upstream("b.", UpstreamState::Failing));
    assert!(!is_healthy(&status));
    let text = shown(&status, false);
    assert!(text.contains("no server answers for b.\n"), "{text}");
    assert!(!text.contains("answers for a."), "{text}");
}

#[test]
fn load_of_workers_is_compared_once_there_is_some() {
    let busiest = |received: u64| {
        let mut status = sample::status(2, 1, 1);
        status.threads.iter_mut().for_each(|thread| thread.received = received);
        shown(&status, false).contains("the busiest worker")
    };
    assert!(!busiest(1) && busiest(1_000));
}

#[test]
fn zones_of_the_store_are_counted_with_those_of_files() {
    let mut status = sample::status(1, 1, 1);
    status.store = Some(StoreStatus { zones: 3, ..StoreStatus::default() });
    let text = shown(&status, false);
    assert!(text.contains("\nzones       1 current, 3 of the store\n"), "{text}");
    status.zones.clear();
    assert!(shown(&status, false).contains("\nzones       3 of the store\n"));
}
