//! NOTIFY (RFC 1996) and other opcodes: which messages are passed on, how the others are answered,
//! and how what a handler decided is sent.

use crate::small_zone::{name, zones};
use answer::{
    AnswerCounts, ControlAnswer, Limits, NOTIFY_NAMES, NoForwarding, Now, Policy, Scratch,
    answer_control, batch,
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
        let answer = ControlAnswer::Code(rcode);
        answer_control(&policy, NOW, &mut scratch, &mut packet, answer, &mut counts);
        let mut expected = message;
        expected[2..4].copy_from_slice(&flags);
        assert_eq!((packet.verdict, packet.message()), (Verdict::Reply, &expected[..]));
        assert_eq!(counts.rcodes[rcode.index()], 1);
    }
}

/// A message with this opcode, and a record behind the question.
fn message(opcode: u8) -> Vec<u8> {
    let mut message = notify("example.org.", 6, 1, OPT);
    message[2] = opcode << 3;
    message
}

#[test]
fn opcode_with_a_handler_is_passed_on_unchanged_and_every_other_is_answered_as_before() {
    let policy = Policy { handled_opcodes: 1 << 5, ..Policy::default() };
    for opcode in (1..16).filter(|opcode| *opcode != 4) {
        let message = message(opcode);
        let (verdict, bytes, counts) = send(&policy, &message, "192.0.2.1");
        let before = send(&Policy::default(), &message, "192.0.2.1");
        assert_eq!((before.0, before.1[3] & 0xf), (Verdict::Reply, Rcode::NotImp as u8));
        if opcode == 5 {
            assert_eq!((verdict, &bytes), (Verdict::Control, &message));
            assert_eq!((counts.passed_on, counts.rcodes), (1, [0; Rcode::ALL.len()]));
        } else {
            assert_eq!((verdict, bytes, counts), before, "opcode {opcode}");
        }
    }
}

#[test]
fn answer_of_a_handler_is_sent_whole_or_truncated() {
    let asked = message(5);
    let answer = |rcode: u8, len: usize| {
        let mut answer = asked.clone();
        answer[2..4].copy_from_slice(&[0xa8, rcode]);
        answer.resize(len, 7);
        answer
    };
    let send = |transport, bytes: &[u8]| {
        let mut buf = asked.clone();
        buf.resize(asked.len().max(bytes.len()) + 100, 0xee);
        let peer = "192.0.2.1:5353".parse().unwrap();
        let mut packet = Packet::new(&mut buf, asked.len(), peer, transport);
        let (mut scratch, mut counts) = (Box::<Scratch>::default(), AnswerCounts::default());
        let (policy, answer) = (Policy::default(), ControlAnswer::Message(bytes));
        answer_control(&policy, NOW, &mut scratch, &mut packet, answer, &mut counts);
        assert_eq!(packet.verdict, Verdict::Reply);
        assert_eq!(counts.rcodes.iter().sum::<u32>(), 1);
        assert_eq!(counts.rcodes[usize::from(packet.buf[3] & 0xf)], 1);
        packet.message().to_vec()
    };
    let longest = answer(5, 65_535);
    assert_eq!(send(Transport::Stream, &longest), longest);
    // The client's OPT has 1232 bytes.
    let fits = answer(0, 1_232);
    assert_eq!(send(Transport::Datagram, &fits), fits);
    let cut = send(Transport::Datagram, &answer(5, 1_233));
    assert_eq!((&cut[..4], cut.len()), (&[0x12, 0x34, 0xaa, 5][..], 12 + OPT.len()));
    // A defect of the handler.
    let mut other = answer(0, 40);
    other[1] ^= 1;
    for defect in [other, answer(0, 11), answer(15, 40), asked.clone()] {
        let told = send(Transport::Stream, &defect);
        assert_eq!(&told[..4], [0x12, 0x34, 0xa8, 2], "SERVFAIL");
    }
}
