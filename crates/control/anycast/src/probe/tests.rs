use super::*;
use std::net::TcpListener;

const NOERROR: u8 = 0;
const REFUSED: u8 = 5;
const TEXT: &[u8] = b"token";
/// A query after its number, with an additional record.
const QUERY: &[u8] = b"\0\0\0\x01\0\0\0\0\0\x01\x02id\x06server\0\0\x10\0\x03OPT";

fn target(port: u16) -> ProbeTarget {
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    ProbeTarget { at, query: QUERY.to_vec(), text: TEXT.to_vec() }
}

/// A server that makes this of each query over UDP and TCP.
fn serve(reply: impl Fn(&[u8]) -> Vec<u8> + Send + Clone + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let socket = UdpSocket::bind(("127.0.0.1", port)).expect("the same port");
    let of_udp = reply.clone();
    thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((len, client)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&of_udp(&buffer[..len]), client);
        }
    });
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut query = vec![0; 4 + QUERY.len()];
            if stream.read_exact(&mut query).is_ok() {
                let reply = reply(&query[2..]);
                let _ =
                    stream.write_all(&[&(reply.len() as u16).to_be_bytes()[..], &reply].concat());
            }
        }
    });
    port
}

/// A response with this code and text.
fn response(query: &[u8], rcode: u8, text: &[u8]) -> Vec<u8> {
    let mut reply = query.to_vec();
    (reply[2], reply[3]) = (0x84, rcode);
    if rcode == NOERROR {
        reply[7] = 1;
        reply.truncate(reply.len() - 3);
        reply.extend([0xc0, 12, 0, 16, 0, 3, 0, 0, 0, 0, 0, text.len() as u8 + 1]);
        reply.extend([&[text.len() as u8], text, b"OPT"].concat());
    }
    reply
}

fn both(target: &ProbeTarget) -> [Probed; 2] {
    [probe_udp(target), probe_tcp(target)]
}

#[test]
fn answer_with_the_token_is_right_and_any_other_wrong() {
    let port = serve(|query| response(query, NOERROR, TEXT));
    assert_eq!(both(&target(port)), [Probed::Right, Probed::Right]);
    for (rcode, text, what) in
        [(NOERROR, &b"b2"[..], "another one has it"), (REFUSED, b"", "response code 5")]
    {
        let port = serve(move |query| response(query, rcode, text));
        for probed in both(&target(port)) {
            let Probed::Wrong(why) = probed else { panic!("{probed:?}") };
            assert!(why.contains(what), "{why}");
        }
    }
}

#[test]
fn silence_and_foreign_messages_are_missing_answers() {
    let port = serve(|query| [&[query[0] ^ 1], &response(query, NOERROR, TEXT)[1..]].concat());
    assert!(matches!(probe_udp(&target(port)), Probed::Missing(_)));
    let closed = UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    for probed in both(&target(closed.port())) {
        assert!(matches!(&probed, Probed::Missing(why) if why.contains("refused")), "{probed:?}");
    }
}

#[test]
fn wrong_answer_counts_at_once_and_a_missing_one_after_five_without_drops() {
    let (target, mut row) = (target(53), MissingRow::default());
    let wrong = row.count_result(Probed::Wrong("why".into()), "UDP", &target, || 0);
    assert!(wrong.is_some_and(|text| text.contains("127.0.0.1:53 answers")));
    let miss = |row: &mut MissingRow, drops: u64| {
        row.count_result(Probed::Missing("late".into()), "UDP", &target, || drops).is_some()
    };
    let mut found: Vec<bool> = (0..6).map(|_| miss(&mut row, 7)).collect();
    assert_eq!(found, [false, false, false, false, true, true]);
    row = MissingRow::default();
    // The sockets drop: the server is overloaded, and the others would be, too.
    found = (0..20).map(|nth| miss(&mut row, nth)).collect();
    assert!(!found.contains(&true), "{found:?}");
    assert_eq!(row.count_result(Probed::Right, "UDP", &target, || 0), None);
    assert_eq!(row.count, 0);
}

#[test]
fn drops_of_the_kernel_are_summed() {
    let v4 = "Udp: InDatagrams RcvbufErrors SndbufErrors\nUdp: 5 3 0\n";
    let extended = "TcpExt: A ListenOverflows ListenDrops\nTcpExt: 1 2 4\nIpExt: B\nIpExt: 9\n";
    assert_eq!(drops_of(v4, "Udp6InErrors 1\nUdp6RcvbufErrors   \t10\n", extended), 19);
    assert_eq!(drops_of("", "", ""), 0, "another kernel");
    assert!(socket_drops() < u64::MAX, "this one has them");
}
