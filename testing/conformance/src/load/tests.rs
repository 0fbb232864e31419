use super::*;
use std::net::{SocketAddr, TcpListener};

/// What a client sees of a server that does this with the first connection.
fn seen(manner: Manner, serve: impl Fn(TcpStream) + Send + 'static) -> Seen {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port());
    std::thread::spawn(move || listener.incoming().flatten().take(1).for_each(serve));
    seen_of(manner, server)
}

/// What a client sees of this server in one turn.
fn seen_of(manner: Manner, server: SocketAddrV4) -> Seen {
    let seen = Seen::default();
    let (random, open) = (Random::new(1), None);
    let source = Ipv4Addr::new(127, 0, 1, 0);
    let mut client = Client { source, server, manner, random, seen: &seen, open };
    let outcome = client.turn(Duration::ZERO);
    assert_eq!(outcome.is_ok(), seen.cut.load(Ordering::Relaxed) == 0);
    seen
}

/// A query's bytes, and the address that is right for it.
fn read_query(stream: &mut TcpStream) -> (Vec<u8>, [u8; 4]) {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut query = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut query).unwrap();
    parse(query)
}

/// A query as a datagram, and from whom.
fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut query = vec![0; 512];
    let (len, client) = socket.recv_from(&mut query).unwrap();
    query.truncate(len);
    (query, client)
}

/// A query's bytes, and the address that is right for it.
fn parse(query: Vec<u8>) -> (Vec<u8>, [u8; 4]) {
    let label = std::str::from_utf8(&query[14..13 + usize::from(query[12])]).unwrap();
    let [high, low] = label.parse::<u16>().unwrap().to_be_bytes();
    (query, [10, 0, high, low])
}

fn answer(mut query: Vec<u8>, address: [u8; 4]) -> Vec<u8> {
    query[2] |= 0x84;
    query[7] = 1;
    query.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
    query.extend(address);
    [&(query.len() as u16).to_be_bytes()[..], &query].concat()
}

#[test]
fn right_answers_pass_and_wrong_ones_fail() {
    let right = seen(Manner::Churn, |mut stream| {
        let (query, address) = read_query(&mut stream);
        stream.write_all(&answer(query, address)).unwrap();
    });
    assert!(right.is_flawless(), "{}", right.report());
    let wrong = seen(Manner::Churn, |mut stream| {
        let (query, _) = read_query(&mut stream);
        stream.write_all(&answer(query, [9; 4])).unwrap();
    });
    assert_eq!(wrong.wrong.load(Ordering::Relaxed), 1, "{}", wrong.report());
    assert!(!wrong.is_flawless());
}

#[test]
fn a_connection_that_ends_within_an_answer_is_cut() {
    let seen = seen(Manner::Churn, |mut stream| {
        let (query, address) = read_query(&mut stream);
        stream.write_all(&answer(query, address)[..20]).unwrap();
    });
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    assert_eq!((get(&seen.asked), get(&seen.lost), get(&seen.cut)), (1, 1, 1));
    assert!(!seen.is_flawless(), "{}", seen.report());
}

#[test]
fn each_of_a_burst_is_judged_whatever_their_order() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = SocketAddrV4::new(Ipv4Addr::LOCALHOST, socket.local_addr().unwrap().port());
    std::thread::spawn(move || {
        let mut queries: Vec<_> = (0..QUERIES_PER_SOCKET).map(|_| receive(&socket)).collect();
        // The last answer comes first; before it, one without a query.
        let (mut unasked, client) = queries[0].clone();
        unasked[..2].copy_from_slice(&[0xff, 0xff]);
        queries.push((unasked, client));
        for (query, client) in queries.into_iter().rev() {
            let (query, address) = parse(query);
            socket.send_to(&answer(query, address)[2..], client).unwrap();
        }
    });
    let seen = seen_of(Manner::Bursts, server);
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    assert_eq!((get(&seen.answered), get(&seen.wrong), get(&seen.lost)), (64, 1, 0));
}
