//! NOTIFY (RFC 1996): which messages are passed on, and how the others are answered.

use crate::small_zone::{name, zones};
use answer::{
    AnswerCounts, Limits, NOTIFY_NAMES, NoForwarding, Now, Policy, Scratch, answer_control, batch,
};
use limit::{Acl, AclRule};
use packet::{DropReason, Packet, Transport, Verdict};
use std::net::SocketAddr;
use wire::Rcode;

const OPT: &[u8] = &[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0];
const NOW: Now = Now { unix_seconds: 0, monotonic_micros: 0, seed: 1 };

/// A NOTIFY about a name, of this type and class, with a record behind the question.
fn notify(owner: &str, rtype: u8, class: u8, record: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34, 0x24, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    bytes[11] = u8::from(!record.is_empty());
    bytes.extend(name(owner).as_name().as_bytes());
    bytes.extend([0, rtype, 0, class]);
    bytes.extend(record);
    bytes
}

/// The verdict, what is in the buffer, and what is counted.
fn send(policy: &Policy<'_>, message: &[u8], from: &str) -> (Verdict, Vec<u8>, AnswerCounts) {
    let mut buf = vec![0xee; 1232];
    buf[..message.len()].copy_from_slice(message);
    let peer = SocketAddr::new(from.parse().unwrap(), 5353);
    let mut packets = [Packet::new(&mut buf, message.len(), peer, Transport::Datagram)];
    let (mut scratch, mut counts) = (Box::<Scratch>::default(), AnswerCounts::default());
    batch(&zones(), policy, NOW, &mut NoForwarding, &mut scratch, &mut packets, &mut counts);
    (packets[0].verdict, packets[0].message().to_vec(), counts)
}

/// Runs with a policy that obeys 192.0.2.1 alone.
fn with_policy(limits: Option<Limits<'_>>, run: impl Fn(&Policy<'_>)) {
    let mut rules = [AclRule { prefix: "192.0.2.1".parse().unwrap(), listed: true }];
    let (mut v4, mut v6) = ([0; 8], [0; 8]);
    let notify_from = Acl::build(&mut rules, false, &mut v4, &mut v6).unwrap();
    run(&Policy { notify_from, limits, ..Policy::default() });
}

#[test]
fn notify_about_a_zone_of_ours_is_passed_on_unchanged() {
    with_policy(None, |policy| {
        for record in [&[][..], OPT] {
            let message = notify("EXAMPLE.org.", 6, 1, record);
            let (verdict, bytes, counts) = send(policy, &message, "192.0.2.1");
            assert_eq!((verdict, bytes), (Verdict::Control, message));
            assert_eq!((counts.notifies, counts.rcodes), ([1, 0, 0], [0; Rcode::ALL.len()]));
        }
    });
}

#[test]
fn other_notifies_are_refused_by_what_is_wrong_with_them_and_counted() {
    let cases = [
        ("another client", "192.0.2.2", notify("example.org.", 6, 1, &[]), Rcode::Refused, 1),
        ("its zone is unknown too", "192.0.2.2", notify("a.test.", 6, 1, &[]), Rcode::Refused, 1),
        ("unknown zone", "192.0.2.1", notify("a.test.", 6, 1, &[]), Rcode::NotAuth, 2),
        ("a name in a zone", "192.0.2.1", notify("ns.example.org.", 6, 1, &[]), Rcode::NotAuth, 2),
        ("another class", "192.0.2.1", notify("example.org.", 6, 3, &[]), Rcode::NotAuth, 2),
        ("another type", "192.0.2.1", notify("example.org.", 1, 1, &[]), Rcode::FormErr, 9),
        ("malformed", "192.0.2.1", notify("example.org.", 6, 1, &[1]), Rcode::FormErr, 9),
    ];
    with_policy(None, |policy| {
        for (what, from, message, rcode, counter) in &cases {
            let (verdict, bytes, counts) = send(policy, message, from);
            assert_eq!((verdict, bytes[2]), (Verdict::Reply, 0xa0), "{what}: QR and the opcode");
            assert_eq!(bytes[3] & 0xf, *rcode as u8, "{what}");
            assert_eq!(counts.rcodes[rcode.index()], 1, "{what}");
            let expected: [u32; NOTIFY_NAMES.len()] =
                std::array::from_fn(|index| u32::from(index == *counter));
            assert_eq!(counts.notifies, expected, "{what}");
        }
    });
}

#[test]
fn client_that_may_not_query_may_notify() {
    for silent in [false, true] {
        let limits = Limits { access: Acl::NONE, silent, ..Limits::default() };
        with_policy(Some(limits), |policy| {
            let message = notify("example.org.", 6, 1, &[]);
            assert_eq!(send(policy, &message, "192.0.2.1").0, Verdict::Control);
            let refused = if silent { Verdict::Drop(DropReason::Denied) } else { Verdict::Reply };
            assert_eq!(send(policy, &message, "192.0.2.2").0, refused);
            let mut query = message;
            query[2] = 0;
            assert_eq!(send(policy, &query, "192.0.2.1").0, refused);
        });
    }
}

#[test]
fn response_has_the_code_of_the_handler_the_question_and_opt() {
    for (rcode, flags) in [(Rcode::NoError, [0xa4, 0]), (Rcode::Refused, [0xa0, 5])] {
        let message = notify("example.org.", 6, 1, OPT);
        let mut buf = message.clone();
        buf.resize(1232, 0xee);
        let peer = "192.0.2.1:5353".parse().unwrap();
        let mut packet = Packet::new(&mut buf, message.len(), peer, Transport::Datagram);
        let (mut scratch, mut counts) = (Box::<Scratch>::default(), AnswerCounts::default());
        let policy = Policy::default();
        answer_control(&policy, NOW, &mut scratch, &mut packet, rcode, &mut counts);
        let mut expected = message;
        expected[2..4].copy_from_slice(&flags);
        assert_eq!((packet.verdict, packet.message()), (Verdict::Reply, &expected[..]));
        assert_eq!(counts.rcodes[rcode.index()], 1);
    }
}
