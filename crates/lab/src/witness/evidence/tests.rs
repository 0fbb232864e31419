use super::*;
use lab_host::counters::{Device, Udp};

/// What is counted on a host: packets of its device both ways, datagrams of its sockets both ways.
fn counted(packets: u64, datagrams: u64) -> Change {
    Change {
        device: Some(Device { rx_packets: packets, tx_packets: packets, ..Device::default() }),
        udp: Udp { in_datagrams: datagrams, out_datagrams: datagrams, ..Udp::default() },
        ..Change::default()
    }
}

#[test]
fn what_is_answered_past_the_sockets_is_not_counted_at_them() {
    let tally = Tally { planned: 1_000, sent: 1_000, answered: 1_000, ..Tally::default() };
    let client = counted(1_000, 0);
    let all = Balance {
        sent: Some(1_000),
        left_generator: Some(1_000),
        arrived_server: Some(1_000),
        read_server: Some(1_000),
        answered_server: Some(1_000),
        left_server: Some(1_000),
        arrived_generator: Some(1_000),
        read_generator: Some(1_000),
    };
    assert_eq!(balance(false, &tally, Some(&counted(1_000, 1_000)), &client), all);
    // Some went by the sockets: still these do not count all.
    for datagrams in [0, 7, 900] {
        let past = Balance { read_server: None, answered_server: None, ..all.clone() };
        assert_eq!(balance(false, &tally, Some(&counted(1_000, datagrams)), &client), past);
    }
}
