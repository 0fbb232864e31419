//! The switch's program alone: which frames it moves, and that it moves none anywhere else.
use crate::is_root;
use crate::switch_frames::{Frame, Kind};
use bpf::Order;
use fabric::{Container, Watcher};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::time::Duration;
use test_support::spaces::{Lan, within};

/// What the kernel does with a frame: it goes on, or is moved.
const NEXT: u32 = u32::MAX;
const REDIRECT: u32 = 7;

/// `__sk_buff` up to `ifindex`, for a frame that this interface has received.
fn context(interface: u32) -> Vec<u8> {
    let mut bytes = vec![0; 192];
    bytes[40..44].copy_from_slice(&interface.to_ne_bytes());
    bytes
}

/// Whether the frame begins a flow of TCP between members, or an error would belong to none.
fn is_switched(frame: &Frame, members: &[Container]) -> bool {
    let of = |host: usize| members.get(host);
    let (Some(from), Some(to)) = (of(frame.from), of(frame.to)) else { return false };
    let is_member = from.opts_in && to.opts_in && from.interface != to.interface;
    is_member
        && frame.arrives_at == frame.from
        && !frame.has_foreign_source_mac
        && !frame.has_foreign_target_mac
        && frame.kind == Kind::Syn
        && frame.len <= 1_500
}

fn frames() -> impl Strategy<Value = Frame> {
    let kind = prop_oneof![
        4 => Just(Kind::Syn),
        1 => Just(Kind::SynAck),
        1 => Just(Kind::Ack),
        1 => Just(Kind::Fragment),
        1 => Just(Kind::Vlan),
        1 => Just(Kind::Icmp),
        1 => Just(Kind::Arp),
        1 => Just(Kind::Cut),
    ];
    let rare = || prop_oneof![6 => Just(false), 1 => Just(true)];
    let arrival = prop_oneof![5 => Just(None), 1 => (0_usize..3).prop_map(Some)];
    let len = prop_oneof![4 => 60_usize..1_500, 1 => 1_501_usize..2_500];
    (0_usize..4, 0_usize..4, kind, arrival, rare(), rare(), len, any::<u16>()).prop_map(
        |(from, to, kind, arrival, source, target, len, port)| Frame {
            from,
            to,
            kind,
            arrives_at: arrival.unwrap_or(from.min(2)),
            has_foreign_source_mac: source,
            has_foreign_target_mac: target,
            len,
            port: port.max(1),
        },
    )
}

/// What is not opted in, has a foreign source or link address, is a fragment, too long, tagged, an
/// error or no IP, or no beginning of a flow, goes on as it came. What is moved has the link
/// address of its receiver; it cannot come back to where programs of ours are.
#[test]
fn frames_are_moved_only_between_members_and_all_others_go_on_unchanged() {
    if !is_root() {
        return;
    }
    let lan = Lan::new("fabric-p", 3);
    within(&lan.switch, || {
        let mut containers = fabric::find().unwrap();
        (containers[0].opts_in, containers[1].opts_in) = (true, true);
        let mut watcher = Watcher::new(None, Order::First).unwrap();
        watcher.switch_after(Duration::from_secs(60)).unwrap();
        assert!(watcher.follow(&containers).unwrap().is_empty());
        let watcher = std::cell::RefCell::new(watcher);
        let mut runner = TestRunner::new(Config::with_cases(2_000));
        let done = runner.run(&frames(), |frame| {
            let bytes = frame.bytes(&containers);
            let at = context(containers[frame.arrives_at].interface);
            let (code, after) = watcher.borrow_mut().try_switch(&bytes, &at).unwrap();
            let expected = is_switched(&frame, &containers);
            prop_assert_eq!(code, if expected { REDIRECT } else { NEXT });
            if expected {
                prop_assert_eq!(&after[..6], &containers[frame.to].address);
                prop_assert_eq!(&after[6..], &bytes[6..]);
            } else {
                prop_assert_eq!(after, bytes);
            }
            Ok(())
        });
        done.unwrap();
    });
}
