//! What one look shows, of servers in all conditions.
use super::*;
use crate::sample::{self, NOW};

fn shown(status: &Status, all_zones: bool) -> String {
    let mut out = Vec::new();
    write(&mut out, status, all_zones).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.lines().all(|line| line.trim_end() == line), "no blanks at the end\n{text}");
    text
}

/// A server on which much went wrong.
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
fn one_look_at_a_server_in_order() {
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
the busiest worker has 1.03 times the mean; dropped: 2,591 rate_limited, 2,591 short
";
    let status = sample::status(2, 1, 1_234);
    assert_eq!(shown(&status, false), expected);
    assert!(is_fine(&status));
}

#[test]
fn what_is_behind_or_refused_stands_there_with_its_reason() {
    let status = troubled(4);
    let text = shown(&status, false);
    for expected in [
        "read 2 h 13 min ago, reloaded 3 times, refused once\n",
        "            the last reload was refused; what was before goes on:\n",
        "              /etc/dunlin/dunlin.toml:3:1: unknown key \"listn\" (did you mean",
        "            new values that wait for a restart: server.workers, server.port\n",
        "2 current, 1 behind their file, 1 not loaded, answered with SERVFAIL\n",
        "\nbehind    2026112102    1,238   6 min ago  zone-1.example.\n    its file was refused 1 \
         min ago:\n    zone-1.zone:1:7: not an IPv4 address\n",
        "\n    zone-1.zone:5:7: not an IPv4 address\n    and more: `dunlin check` tells all\n",
        "\nunloaded           -        -           -  zone-2.example.\n    its file was refused 0 \
         s ago:\n    zone-2.zone: no such file\n",
    ] {
        assert!(text.contains(expected), "{expected:?} in\n{text}");
    }
    assert!(!is_fine(&status));
}

#[test]
fn a_thread_that_is_gone_is_told_with_what_to_do() {
    let mut status = sample::status(1, 3, 1);
    status.failed = vec!["zone-files".into(), "control".into()];
    let expected = "\nfailed      zone-files and control ended: what is served no longer changes; \
                    restart the server\n";
    assert!(shown(&status, false).contains(expected));
}

#[test]
fn only_a_server_in_order_is_fine() {
    let check = |change: fn(&mut Status), fine| {
        let mut status = sample::status(1, 3, 1);
        change(&mut status);
        assert_eq!(is_fine(&status), fine);
    };
    check(|_| {}, true);
    check(|status| status.config.restart_needed.push("server.port".into()), true);
    check(|status| status.state = State::Draining, false);
    check(|status| status.state = State::Starting, false);
    check(|status| status.failed.push("control".into()), false);
    check(|status| status.config.errors.push("f:1:1: no".into()), false);
    check(|status| status.zones[2].state = ZoneState::Saved, false);
}

#[test]
fn many_zones_are_counted_and_those_not_current_listed() {
    let text = shown(&troubled(5_000), false);
    assert!(
        text.contains("zones       4,998 current, 1 behind their file, 1 not loaded"),
        "{text}"
    );
    assert_eq!(text.matches(".example.").count(), 2, "{text}");
    assert!(text.lines().count() < 40, "{text}");
    let text = shown(&sample::status(2, 5_000, 1), false);
    assert!(text.contains("zones       5,000 current\n\nTHREAD"), "no table of none\n{text}");
    let text = shown(&troubled(5_000), true);
    assert_eq!(text.matches(".example.").count(), 5_000);
}

#[test]
fn also_what_is_behind_may_be_too_much_for_one_look() {
    let mut status = sample::status(2, 5_000, 1);
    status.zones.iter_mut().for_each(|zone| zone.state = ZoneState::Behind);
    let text = shown(&status, false);
    assert!(text.contains("and 4,960 zones more"), "{text}");
}

#[test]
fn samples_are_told_where_some_are_taken() {
    let mut status = sample::status(1, 1, 1);
    assert!(!shown(&status, false).contains("\nsamples "));
    status.tap = TapStatus { sampled: 5_000, lost: 2, logged: 4_998, ..TapStatus::default() };
    let text = shown(&status, false);
    assert!(text.contains("\nsamples     5,000 taken, 2 lost; 4,998 logged\n"), "{text}");
    status.tap = TapStatus { dnstap_wanted: true, ..TapStatus::default() };
    let text = shown(&status, false);
    assert!(text.contains("\nsamples     0 taken; 0 to dnstap, no reader is there\n"), "{text}");
    status.tap.dnstap_lost = 7;
    let text = shown(&status, false);
    assert!(text.contains("taken; 0 to dnstap, 7 lost, no reader is there\n"), "{text}");
}

#[test]
fn a_server_that_starts_has_little_to_show() {
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
fn hosts_files_are_shown_where_there_are_some() {
    let mut status = sample::status(2, 1, 1_234);
    let hosts = |file: &str, names| HostsStatus {
        file: file.into(),
        state: ZoneState::Current,
        names,
        loaded_seconds: Some(NOW - 60.0),
        ..HostsStatus::default()
    };
    status.hosts = vec![hosts("/etc/hosts", 12), hosts("/srv/ads", 500_000)];
    assert!(is_fine(&status));
    let behind = &mut status.hosts[1];
    (behind.state, behind.refused_seconds) = (ZoneState::Behind, Some(NOW - 5.0));
    behind.errors = vec!["/srv/ads:7:1: `x` is no address".into()];
    assert!(!is_fine(&status));
    let expected = "
STATE      NAMES     LOADED  HOSTS FILE
current       12  1 min ago  /etc/hosts
behind   500,000  1 min ago  /srv/ads
    it was refused 5 s ago:
    /srv/ads:7:1: `x` is no address
";
    let text = shown(&status, false);
    assert!(text.contains(expected), "{text}");
}

#[test]
fn the_store_and_who_writes_to_it_are_shown() {
    let mut status = sample::status(1, 1, 1);
    let took =
        Histogram { bounds_seconds: vec![0.001, 0.002], counts: vec![98, 2, 0], sum_seconds: 0.1 };
    status.store = Some(StoreStatus {
        file: "/var/lib/dunlin/records.redb".into(),
        octets: 3 << 20,
        free_octets: 5 << 30,
        revision: 1_234,
        zones: 2,
        rrsets: 4_321,
        fault: None,
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
        "api         3 connections, 1,108 requests, 7 refused, 1 failed; no place for 1 \
         connection; 100 writes, durable in 1 ms, 99 % in 2 ms\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(is_fine(&status));
    status.store.as_mut().expect("a store").fault = Some("damaged".into());
    assert!(shown(&status, false).contains("store       /var/lib/dunlin/records.redb: damaged\n"));
    assert!(!is_fine(&status));
}
