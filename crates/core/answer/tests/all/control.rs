//! NOTIFY (RFC 1996) and other opcodes: which messages are passed on, how the others are answered,
//! and how what a handler decided is sent.

use crate::common::{Burst, NOW, message as whole, section, zones};
use answer::{AnswerCounts, ControlAnswer, Limits, NOTIFY_NAMES, Policy, Scratch, answer_control};
use limit::{Acl, AclRule};
use packet::{DropReason, Packet, Transport, Verdict};
use wire::Rcode;

const OPT: &[u8] = &[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0];

/// A NOTIFY about a name, of this type and class, with a record behind the question.
fn notify(owner: &str, rtype: u16, class: u16, record: &[u8]) -> Vec<u8> {
    let additional = u16::from(!record.is_empty());
    whole(0x2400, [1, 0, 0, additional], &section(owner, rtype, class), record)
}

/// The verdict, what is in the buffer, and what is counted.
fn send(policy: &Policy<'_>, message: &[u8], from: &str) -> (Verdict, Vec<u8>, AnswerCounts) {
    Burst { client: from, ..Burst::new(&zones(), policy) }.send_one(message)
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

/// The reply to a message with what a handler decided, which is counted once.
fn decided(message: &[u8], transport: Transport, answer: ControlAnswer<&[u8]>) -> Vec<u8> {
    let mut buf = message.to_vec();
    buf.resize(66_000, 0xee);
    let peer = "192.0.2.1:5353".parse().unwrap();
    let mut packet = Packet::new(&mut buf, message.len(), peer, transport);
    let (mut scratch, mut counts) = (Box::<Scratch>::default(), AnswerCounts::default());
    answer_control(&Policy::default(), NOW, &mut scratch, &mut packet, answer, &mut counts);
    assert_eq!(packet.verdict, Verdict::Reply);
    assert_eq!(counts.rcodes.iter().sum::<u32>(), 1);
    assert_eq!(counts.rcodes[usize::from(packet.buf[3] & 0xf)], 1);
    packet.message().to_vec()
}

#[test]
fn response_has_the_code_of_the_handler_the_query_and_opt() {
    for (rcode, flags) in [(Rcode::NoError, [0xa4, 0]), (Rcode::Refused, [0xa0, 5])] {
        let mut expected = notify("example.org.", 6, 1, OPT);
        let sent = decided(&expected, Transport::Datagram, ControlAnswer::Code(rcode));
        expected[2..4].copy_from_slice(&flags);
        assert_eq!(sent, expected);
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
fn handler_answer_is_complete_or_truncated() {
    let asked = message(5);
    let answer = |rcode: u8, len: usize| {
        let mut answer = asked.clone();
        answer[2..4].copy_from_slice(&[0xa8, rcode]);
        answer.resize(len, 7);
        answer
    };
    let send = |transport, bytes: &[u8]| decided(&asked, transport, ControlAnswer::Message(bytes));
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

#[test]
fn query_for_a_transfer_is_passed_on_only_if_a_handler_serves_transfers() {
    let policy = Policy { handled_opcodes: 1, ..Policy::default() };
    let query = |rtype: u16, class: u16| {
        let mut message = notify("example.org.", rtype, class, OPT);
        message[2] = 0;
        message
    };
    for rtype in [251, 252] {
        let message = query(rtype, 1);
        let (verdict, bytes, counts) = send(&policy, &message, "192.0.2.1");
        assert_eq!((verdict, counts.passed_on, &bytes), (Verdict::Control, 1, &message));
        let (verdict, bytes, _) = send(&Policy::default(), &message, "192.0.2.1");
        assert_eq!((verdict, bytes[3] & 0xf), (Verdict::Reply, Rcode::Refused as u8));
        // Class CH has no zones.
        let (verdict, ..) = send(&policy, &query(rtype, 3), "192.0.2.1");
        assert_eq!(verdict, Verdict::Reply);
    }
    let (verdict, ..) = send(&policy, &query(6, 1), "192.0.2.1");
    assert_eq!(verdict, Verdict::Reply);
}
