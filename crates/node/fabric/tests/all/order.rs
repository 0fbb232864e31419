//! Programs of others on the same interfaces.
use crate::is_root;
use crate::watch::{at_once, exchange, group, start, sum};
use bpf::Order;
use fabric::Watcher;
use test_support::spaces::{Lan, within};

/// Before, after and between the programs of two others, each counts every frame.
#[test]
fn programs_of_others_on_an_interface_see_every_frame_before_after_and_between_ours() {
    if !is_root() {
        return;
    }
    let lan = Lan::new("fabric-o", 2);
    let (first, containers) = start(&lan, Order::First);
    // Each `Last` is after all that are there: the second is between the first and the third.
    let more = [Order::Last, Order::Last, Order::First].map(|order| {
        within(&lan.switch, || {
            let mut watcher = Watcher::new(Some(group()), order).unwrap();
            assert!(watcher.follow(&containers).unwrap().is_empty());
            watcher
        })
    });
    let all: Vec<&Watcher> = [&first].into_iter().chain(&more).collect();
    let read = || all.iter().map(|one| one.read().unwrap()).collect::<Vec<_>>();
    let (before, starts) = at_once(&lan, 2, read);
    exchange(&lan, 0, 1);
    let (now, ends) = at_once(&lan, 2, read);
    for (start, end) in starts.iter().zip(&ends) {
        let counters = end.since(start);
        for host in 0..2 {
            let [(frames, bytes), _] = now[host];
            let [(old_frames, old_bytes), _] = before[host];
            let sent = sum(&counters.sent, containers[host].interface);
            assert_eq!(sent, (frames - old_frames, bytes - old_bytes));
        }
    }
}

/// A container that comes is watched; of one that goes nothing is left.
#[test]
fn containers_that_come_and_go_are_followed() {
    if !is_root() {
        return;
    }
    let lan = Lan::new("fabric-f", 3);
    let (mut watcher, containers) = start(&lan, Order::First);
    exchange(&lan, 0, 1);
    let gone = containers[0].interface;
    let knows = |watcher: &Watcher| {
        let counters = watcher.read().unwrap();
        let sent = counters.sent.keys().chain(counters.delivered.keys());
        sent.copied().any(|(one, other)| one == gone || other == fabric::Other::Container(gone))
    };
    assert!(knows(&watcher));
    within(&lan.switch, || {
        let ended = std::process::Command::new("ip").args(["link", "del", "h0"]).status();
        assert!(ended.unwrap().success());
        let left = fabric::find().unwrap();
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(watcher.follow(&left).unwrap().is_empty());
    });
    assert_eq!(watcher.watched(), 2);
    assert!(!knows(&watcher));
}

/// Interfaces of other namespaces have the same numbers.
#[test]
fn containers_of_other_machines_on_this_kernel_are_none() {
    if !is_root() {
        return;
    }
    let lans = ["fabric-x", "fabric-y"].map(|name| Lan::new(name, 2));
    for lan in &lans {
        let found = within(&lan.switch, || fabric::find().unwrap());
        let names: Vec<_> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, [lan.hosts[0].space.as_str(), lan.hosts[1].space.as_str()]);
    }
}
