//! What passes between a thread and the handler, and what finds no room.
use super::*;

type Decision = ControlAnswer<Box<[u8]>>;

const LONGEST: usize = u16::MAX as usize;

fn pair() -> (ControlQueue, ControlReceiver) {
    let handler = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an fd");
    ControlQueue::new(Arc::new(handler)).expect("an fd")
}

/// Passes a message on from this host and port; returns the verdict.
fn pass_from(queue: Option<&mut ControlQueue>, message: &[u8], (host, port): (u8, u16)) -> Verdict {
    let mut buf = message.to_vec();
    let peer = SocketAddr::from(([192, 0, 2, host], port));
    let mut packet = Packet::new(&mut buf, message.len(), peer, Transport::Stream);
    (packet.verdict, packet.origin.place) = (Verdict::Control, port.into());
    pass_on(queue, std::slice::from_mut(&mut packet), Duration::from_secs(7));
    packet.verdict
}

fn pass(queue: &mut ControlQueue, message: &[u8], port: u16) -> Verdict {
    pass_from(Some(queue), message, (1, port))
}

/// The ports, messages and decisions of the answers.
fn answers(queue: &mut ControlQueue) -> Vec<(u16, Vec<u8>, Decision)> {
    let mut answers = Vec::new();
    queue.take_answers(|packet, answer, since| {
        assert_eq!((packet.context.transport, since), (Transport::Stream, Duration::from_secs(7)));
        assert_eq!(packet.origin.place, u64::from(packet.peer.port()));
        let decision = match answer {
            ControlAnswer::Code(rcode) => Decision::Code(rcode),
            ControlAnswer::Message(bytes) => {
                assert!(packet.buf.len() >= bytes.len(), "room for the answer");
                Decision::Message(bytes.into())
            }
        };
        answers.push((packet.peer.port(), packet.message().to_vec(), decision));
    });
    answers
}

fn code(rcode: Rcode) -> Decision {
    Decision::Code(rcode)
}

/// The numbers of the messages that have arrived.
fn arrived(receiver: &mut ControlReceiver) -> Vec<ControlId> {
    let mut ids = Vec::new();
    receiver.drain(|message| ids.push(message.id));
    ids
}

const FULL: Verdict = Verdict::Drop(DropReason::ControlFull);

/// A message that names a key, with this many bytes more.
fn signed(name: &[u8], more: usize) -> Vec<u8> {
    let mut message = vec![0, 0, 0x28, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    message.extend([name, &[0, 250, 0, 255, 0, 0, 0, 0], &(more as u16).to_be_bytes()].concat());
    message.resize(message.len() + more, 0);
    message
}

#[test]
fn flood_with_the_name_of_one_key_stops_no_other() {
    let (mut queue, mut receiver) = pair();
    let pass_signed = |queue: &mut ControlQueue, name: &[u8], host| {
        pass_from(Some(queue), &signed(name, 20), (host, 1))
    };
    // From other addresses each time, as over UDP.
    let room = CONTROL_BYTES_PER_KEY_MAX / CONTROL_BYTES_MIN;
    for host in 0..room {
        assert_eq!(pass_signed(&mut queue, b"\x01a\x00", host as u8), Verdict::Control);
    }
    assert_eq!(pass_signed(&mut queue, b"\x01A\x00", 99), FULL);
    assert_eq!(pass_signed(&mut queue, b"\x01b\x00", 99), Verdict::Control);
    assert_eq!(pass_from(Some(&mut queue), b"unsigned", (98, 1)), Verdict::Control);
    // An answer makes room again.
    let first = arrived(&mut receiver)[0];
    receiver.answer(first, code(Rcode::NotAuth));
    answers(&mut queue);
    assert_eq!(pass_signed(&mut queue, b"\x01a\x00", 99), Verdict::Control);
    // The longest message has room.
    let longest = signed(b"\x01c\x00", LONGEST - 26);
    assert_eq!(pass_from(Some(&mut queue), &longest, (97, 1)), Verdict::Control);
}

#[test]
fn answer_goes_to_the_message_it_is_about_once() {
    let (mut queue, mut receiver) = pair();
    for (port, text) in [(1, "first"), (2, "second"), (3, "third")] {
        assert_eq!(pass(&mut queue, text.as_bytes(), port), Verdict::Control);
    }
    let mut seen = Vec::new();
    receiver.drain(|message| {
        assert_eq!(message.client.ip().to_string(), "192.0.2.1");
        assert_eq!(message.transport, Transport::Stream);
        seen.push((message.id, message.bytes.to_vec(), message.client.port()));
    });
    assert_eq!((seen[1].1.as_slice(), seen[1].2), (&b"second"[..], 2));
    receiver.answer(seen[1].0, code(Rcode::Refused));
    receiver.answer(seen[1].0, code(Rcode::NoError));
    receiver.answer(ControlId(99), code(Rcode::NoError));
    assert_eq!(answers(&mut queue), [(2, b"second".to_vec(), code(Rcode::Refused))]);
    assert!(queue.has_pending());
    for (id, ..) in [&seen[2], &seen[0]] {
        receiver.answer(*id, Decision::Message(b"a whole response".as_slice().into()));
    }
    let all = answers(&mut queue);
    assert_eq!(all.iter().map(|(port, ..)| *port).collect::<Vec<_>>(), [3, 1]);
    assert_eq!(all[0].2, Decision::Message(b"a whole response".as_slice().into()));
    assert!(!queue.has_pending());
}

#[test]
fn message_without_room_or_handler_is_dropped() {
    let (mut queue, mut receiver) = pair();
    assert_eq!(pass_from(None, b"a message", (1, 1)), FULL);
    let most = CONTROL_BYTES_PER_CLIENT_MAX / CONTROL_BYTES_MIN;
    assert_eq!(most, packet::BURST_MAX);
    for _ in 0..3 {
        for host in [1, 2] {
            for port in 0..most as u16 {
                let verdict = pass_from(Some(&mut queue), b"a message", (host, port));
                assert_eq!(verdict, Verdict::Control);
            }
            let verdict = pass_from(Some(&mut queue), b"a message", (host, 1));
            assert_eq!(verdict, FULL, "a client has its share");
        }
        assert_eq!(pass_from(Some(&mut queue), b"a message", (3, 1)), FULL, "in all");
        let ids = arrived(&mut receiver);
        // A message that the handler has, but has not answered, counts.
        assert_eq!(pass_from(Some(&mut queue), b"a message", (3, 1)), FULL);
        ids.into_iter().for_each(|id| receiver.answer(id, code(Rcode::NoError)));
        assert_eq!(answers(&mut queue).len(), 2 * most);
    }
}

#[test]
fn client_with_long_messages_leaves_room_for_others() {
    let (mut queue, mut receiver) = pair();
    let longest = vec![7; LONGEST];
    for port in 0..3 {
        assert_eq!(pass(&mut queue, &longest, port), Verdict::Control);
    }
    assert_eq!(pass(&mut queue, &longest, 3), FULL);
    assert_eq!(pass(&mut queue, b"short", 3), Verdict::Control, "its share has room for it");
    for port in 0..3 {
        assert_eq!(pass_from(Some(&mut queue), &longest, (2, port)), Verdict::Control);
    }
    let mut lens = Vec::new();
    receiver.drain(|message| lens.push((message.client.ip(), message.bytes.len())));
    assert_eq!(lens.len(), 7);
    assert!(lens.iter().filter(|(_, len)| *len == LONGEST).count() == 6, "{lens:?}");
}

#[test]
fn answers_without_room_wait_and_follow_in_order() {
    let (mut queue, mut receiver) = pair();
    let most = CONTROL_BYTES_PER_CLIENT_MAX / CONTROL_BYTES_MIN;
    for port in 0..most as u16 {
        assert_eq!(pass(&mut queue, b"a message", port), Verdict::Control);
    }
    let longest: Box<[u8]> = vec![7; LONGEST].into();
    for id in arrived(&mut receiver) {
        receiver.answer(id, Decision::Message(longest.clone()));
    }
    let handler = Arc::clone(&queue.handler);
    let is_woken = || rustix::io::read(&handler, &mut [0; 8]).is_ok();
    assert!(is_woken(), "messages came");
    let mut ports = Vec::new();
    while ports.len() < most {
        let some = answers(&mut queue);
        assert!(!some.is_empty() && some.len() <= CONTROL_ANSWERS_LEN_MAX / LONGEST);
        for (port, _, decision) in some {
            assert_eq!(decision, Decision::Message(longest.clone()));
            ports.push(port);
        }
        // The last answer had room: no other one waits.
        assert_eq!(is_woken(), ports.len() < most, "room was made");
        receiver.send_waiting();
    }
    assert!(ports.is_sorted() && !queue.has_pending());
    receiver.answer(ControlId(1), Decision::Message(vec![0; LONGEST + 1].into()));
    let Some((_, Decision::Code(Rcode::ServFail))) = last_event(&mut queue) else {
        panic!("an answer that no message can carry");
    };
}

/// The last answer in the ring.
fn last_event(queue: &mut ControlQueue) -> Option<(u64, Decision)> {
    let mut last = None;
    queue.answers.drain(|event| {
        if let Some((id, ControlAnswer::Code(rcode))) = read_answer(event) {
            last = Some((id, Decision::Code(rcode)));
        }
    });
    last
}

#[test]
fn query_of_the_server_itself_is_no_message() {
    let (mut queue, mut receiver) = pair();
    let is_queried = |queue: &mut ControlQueue| queue.take_answers(|_, _, _| panic!("no message"));
    assert!(!is_queried(&mut queue));
    receiver.query_self();
    receiver.query_self();
    assert!(is_queried(&mut queue));
    assert!(!is_queried(&mut queue), "it is answered once");
    for _ in 0..2 * CONTROL_ANSWERS_LEN_MAX / 16 {
        receiver.query_self();
    }
    assert!(is_queried(&mut queue), "a full ring has some");
}
