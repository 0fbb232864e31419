//! Every model answers real datagrams, refuses what is not a query, and counts all of it.

use test_support::ports;
use test_support::wait;

use crate::hosts::Hosts;
use lab_echo::limits::ROOM;
use lab_echo::{Counts, Echo, Error, Model, Options, Reason, WaitEnd};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use worker::StopHook;

/// How long what must come may take, on a machine that does other things as well.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long nothing must come where nothing should.
const SILENCE: Duration = Duration::from_millis(200);

const LOOPBACKS: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Those that work on the loopback device, and without root.
fn models() -> impl Iterator<Item = Model> {
    Model::ALL.into_iter().filter(|model| match model {
        Model::Packet | Model::AfXdp | Model::XdpTx => false,
        Model::IoUring => has_io_uring(),
        _ => true,
    })
}

/// Containers often have none. Where that is so this says it loudly, or fails if nothing may be
/// skipped.
fn has_io_uring() -> bool {
    let options = Options::new(SocketAddr::new(LOOPBACKS[0], 0), Model::IoUring);
    Echo::start(options).inspect_err(|why| crate::hosts::skip(&why.to_string())).is_ok()
}

fn start(ip: IpAddr, model: Model) -> Echo {
    Echo::start(Options::new(SocketAddr::new(ip, 0), model)).unwrap()
}

fn client(server: SocketAddr) -> UdpSocket {
    let any = if server.is_ipv4() { LOOPBACKS[0] } else { LOOPBACKS[1] };
    let client = UdpSocket::bind((any, 0)).unwrap();
    client.connect(server).unwrap();
    client
}

/// A query with all flags set but QR, of this many bytes.
fn query(id: u16, len: usize) -> Vec<u8> {
    let mut query: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
    query[..2].copy_from_slice(&id.to_be_bytes());
    query[2..4].copy_from_slice(&[0x7f, 0xff]);
    query
}

/// The answers of an echo.
fn echoed(query: &[u8]) -> Vec<u8> {
    let mut answer = query.to_vec();
    answer[2..4].copy_from_slice(&[0xf9, 0x10]);
    answer
}

fn receive(client: &UdpSocket, time: Duration) -> Option<Vec<u8>> {
    client.set_read_timeout(Some(time)).unwrap();
    let mut buffer = vec![0; 65_535];
    let len = client.recv(&mut buffer).ok()?;
    buffer.truncate(len);
    Some(buffer)
}

/// The echo's counts, once it has received so many.
fn counts(echo: &Echo, received: u64) -> Counts {
    let what = format!("{received} are counted by {:?}", echo.options().model);
    // Counted once each: between two bursts the sum is right.
    let is_right =
        |total: &Counts| total.received == received && total.answered + total.dropped() == received;
    wait::until_value(&what, || echo.snapshot().total(), is_right)
}

/// Sends what has an answer and what has none, and looks at what comes and what is counted. `room`
/// is the largest that fits.
fn converse(echo: &Echo, client: &UdpSocket, room: usize) {
    let model = echo.options().model;
    let lens = [12, 13, 44, 512, room];
    for (id, len) in (0..).zip(lens) {
        let query = query(id, len);
        client.send(&query).unwrap();
        assert_eq!(receive(client, PATIENCE), Some(echoed(&query)), "{model:?}, {len} bytes");
    }
    let mut response = query(7, 44);
    response[2] |= 0x80;
    for refused in [&response[..], &response[..11], &[], &query(8, room + 1)] {
        client.send(refused).unwrap();
    }
    let total = counts(echo, 9);
    assert_eq!(receive(client, SILENCE), None, "{model:?}");
    assert_eq!(total.answered, 5, "{model:?}: {total:?}");
    let dropped = |reason: Reason| total.dropped[reason as usize];
    assert_eq!(dropped(Reason::Response), 1, "{model:?}: {total:?}");
    assert_eq!(dropped(Reason::Short), 2, "{model:?}: {total:?}");
    assert_eq!(dropped(Reason::Oversize), 1, "{model:?}: {total:?}");
}

#[test]
fn every_model_answers_queries_only_over_both_families() {
    for ip in LOOPBACKS {
        for model in models() {
            let echo = start(ip, model);
            let client = client(echo.address());
            // Dunlin's own port has more room.
            let room = if model == Model::Worker { port_socket::limits::ROOM } else { ROOM };
            converse(&echo, &client, room);
            let last = echo.stop().unwrap();
            assert_eq!((last.total().received, last.total().answered), (9, 5), "{model:?}");
            assert!(last.cpu_time().unwrap() > Duration::ZERO, "{model:?}");
        }
    }
}

#[test]
fn bursts_are_answered_completely_and_in_batches() {
    for model in models() {
        for batch in [None, model.batch().1.then_some(3)] {
            let listen = SocketAddr::new(LOOPBACKS[0], 0);
            let options = Options { batch, ..Options::new(listen, model) };
            let most = options.batch() as u64;
            let echo = Echo::start(options).unwrap();
            let clients = [client(echo.address()), client(echo.address())];
            let queries: Vec<_> = (0..150).map(|id| query(id, 12 + usize::from(id))).collect();
            for client in &clients {
                queries.iter().for_each(|query| assert!(client.send(query).is_ok()));
            }
            for client in &clients {
                let mut answers: Vec<_> =
                    queries.iter().map(|_| receive(client, PATIENCE).unwrap()).collect();
                answers.sort_by_key(|answer| answer[..2].to_vec());
                let wanted: Vec<_> = queries.iter().map(|query| echoed(query)).collect();
                assert!(answers == wanted, "{model:?}");
            }
            let total = counts(&echo, 300);
            assert_eq!(total.answered, 300, "{model:?}");
            assert!(total.bursts * most >= 300, "{model:?}: no more than {most} a burst");
        }
    }
}

fn free_address() -> SocketAddr {
    ports::free_address(Ipv4Addr::LOCALHOST).into()
}

#[test]
fn threads_share_the_clients_by_sockets_of_their_own_or_by_one() {
    for model in models() {
        for shared in [false, true] {
            let options = Options { threads: 3, shared, ..Options::new(free_address(), model) };
            let echo = Echo::start(options).unwrap();
            let clients: Vec<_> = (0..64).map(|_| client(echo.address())).collect();
            for client in &clients {
                client.send(&query(1, 40)).unwrap();
            }
            for client in &clients {
                assert!(receive(client, PATIENCE).is_some(), "{model:?} {shared}");
            }
            let last = echo.stop().unwrap();
            assert_eq!((last.threads.len(), last.total().answered), (3, 64), "{model:?}");
            if !shared {
                // By a hash of addresses and ports: that one thread gets all is 3 in 3^64.
                let busy = last.threads.iter().filter(|thread| thread.counts.answered > 0);
                assert!(busy.count() > 1, "{model:?}: {last:?}");
            }
        }
    }
}

#[test]
fn time_is_spent_on_each_query() {
    let spin = Duration::from_millis(20);
    for model in models() {
        let listen = SocketAddr::new(LOOPBACKS[0], 0);
        let echo = Echo::start(Options { spin, ..Options::new(listen, model) }).unwrap();
        let client = client(echo.address());
        let begun = Instant::now();
        client.send(&query(1, 40)).unwrap();
        assert_eq!(receive(&client, PATIENCE), Some(echoed(&query(1, 40))), "{model:?}");
        assert!(begun.elapsed() >= spin, "{model:?}");
    }
}

#[test]
fn threads_are_pinned_to_their_cpus() {
    let cpu = *cpu::allowed().unwrap().as_slice().last().unwrap();
    let options = Options {
        cpus: Some([cpu].into_iter().collect()),
        ..Options::new(SocketAddr::new(LOOPBACKS[0], 0), Model::Poll)
    };
    let echo = Echo::start(options).unwrap();
    assert_eq!(echo.snapshot().threads[0].cpu, Some(cpu));
    let allowed = std::fs::read_dir("/proc/self/task").unwrap().flatten().any(|task| {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        status.starts_with("Name:\techo-0\n")
            && status.contains(&format!("Cpus_allowed_list:\t{cpu}\n"))
    });
    assert!(allowed, "a thread of that name is confined to CPU {cpu}");
}

#[test]
fn socket_buffers_have_the_requested_size() {
    let mut options = Options::new(SocketAddr::new(LOOPBACKS[0], 0), Model::Blocking);
    (options.receive_buffer, options.send_buffer) = (64 << 10, 32 << 10);
    assert_eq!(Echo::start(options).unwrap().queues(), (64 << 10, 32 << 10));
}

#[test]
fn a_stop_request_ends_the_echo_at_once() {
    let mut echo = start(LOOPBACKS[0], Model::Worker);
    let stop = StopHook::new().unwrap();
    let soon = Instant::now() + Duration::from_millis(50);
    assert_eq!(echo.wait(Some(soon), stop.as_fd()), Ok(WaitEnd::TimedOut));
    assert!(Instant::now() >= soon);
    stop.stop();
    assert_eq!(echo.wait(None, stop.as_fd()), Ok(WaitEnd::Stopped));
}

#[test]
fn invalid_options_are_refused_with_a_remedy() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let told = |options: Options| Echo::start(options).err().expect("refused").to_string();
    let listen = taken.local_addr().unwrap();
    assert!(told(Options::new(listen, Model::Poll)).contains("ss -lunp"));
    let elsewhere = "192.0.2.1:5353".parse().unwrap();
    assert!(told(Options::new(elsewhere, Model::Poll)).contains("ip address"));
    // Nor may another process share its sockets.
    let many = Options { threads: 2, ..Options::new(listen, Model::Poll) };
    assert!(told(many).contains("ss -lunp"));
    let one = Echo::start(Options { threads: 2, ..Options::new(free_address(), Model::Poll) });
    let one = one.unwrap();
    assert!(told(one.options().clone()).contains("ss -lunp"));
    // The test harness has threads.
    let forked = Options { processes: 2, ..Options::new(free_address(), Model::Poll) };
    assert!(told(forked).contains("cannot be forked"));
    let far = SocketAddr::new(LOOPBACKS[0], 0);
    let far = Options { netns: Some("no-such-one".into()), ..Options::new(far, Model::Poll) };
    assert_eq!(Echo::start(far).err().map(|e| matches!(e, Error::Invalid(_))), Some(true));
}

#[test]
fn packet_sockets_answer_like_the_stack() {
    let Some(hosts) = Hosts::up("lab-echo-packets") else { return };
    for (ip, threads, shared) in [
        (crate::hosts::V4, 1, false),
        (crate::hosts::V6, 1, false),
        (crate::hosts::V4, 3, false),
        (crate::hosts::V6, 2, true),
    ] {
        let options = Options {
            threads,
            shared,
            netns: Some(hosts.server()),
            ..Options::new(SocketAddr::new(ip, 5353), Model::Packet)
        };
        let echo = Echo::start(options).unwrap();
        let client = hosts.client(ip);
        client.connect((ip, 5353)).unwrap();
        // Of the room, the headers take their share; what is larger arrives whole on a device
        // whose packets may be as large.
        let headers = if ip.is_ipv4() { 28 } else { 48 };
        converse(&echo, &client, ROOM - headers);
        // Each in its turn has one, and the kernel behind us answers none with "unreachable".
        assert!(client.take_error().unwrap().is_none());
        let last = echo.stop().unwrap();
        let busy = last.threads.iter().filter(|thread| thread.counts.received > 0).count();
        assert!(shared || busy == threads, "{last:?}");
    }
}

#[test]
fn af_xdp_frames_are_answered_like_the_stack() {
    let Some(hosts) = Hosts::of_mtu("lab-echo-xdp", 1_500) else { return };
    let _polls = hosts.let_client_poll();
    for model in [Model::AfXdp, Model::XdpTx] {
        for ip in [crate::hosts::V4, crate::hosts::V6] {
            let netns = Some(hosts.server());
            let options = Options { netns, ..Options::new(SocketAddr::new(ip, 5353), model) };
            let echo = Echo::start(options.clone()).unwrap();
            let error = Echo::start(options.clone()).err().expect("the port is taken").to_string();
            assert!(error.contains("ss -lunp"), "{error}");
            let client = hosts.client(ip);
            client.connect((ip, 5353)).unwrap();
            for (id, len) in (0..).zip([12, 13, 44, 512]) {
                let query = query(id, len);
                client.send(&query).unwrap();
                assert_eq!(receive(&client, PATIENCE), Some(echoed(&query)), "{model:?}, {len}");
            }
            let mut response = query(7, 44);
            response[2] |= 0x80;
            for refused in [&response[..], &response[..11], &[]] {
                client.send(refused).unwrap();
            }
            let total = counts(&echo, 7);
            let dropped = [Reason::Response, Reason::Short].map(|r| total.dropped[r as usize]);
            assert_eq!((total.answered, dropped), (4, [1, 2]), "{model:?}: {total:?}");
            assert_eq!(receive(&client, SILENCE), None, "{model:?}");
            echo.stop().unwrap();
            assert!(!hosts.has_program(), "{model:?} leaves nothing behind");
        }
    }
    let many = Options {
        threads: 2,
        netns: Some(hosts.server()),
        ..Options::new(SocketAddr::new(crate::hosts::V4, 5353), Model::AfXdp)
    };
    let error = Echo::start(many).err().expect("one queue").to_string();
    assert!(error.contains("queues for 1 threads"), "{error}");
}

#[test]
fn sockets_belong_to_the_requested_namespace() {
    let Some(hosts) = Hosts::up("lab-echo-netns") else { return };
    let own = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    let options = Options {
        netns: Some(hosts.server()),
        busy_poll: Duration::from_micros(50),
        ..Options::new(SocketAddr::new(crate::hosts::V4, 5353), Model::Recvmmsg)
    };
    let echo = Echo::start(options).unwrap();
    let client = hosts.client(crate::hosts::V4);
    client.connect((crate::hosts::V4, 5353)).unwrap();
    client.send(&query(1, 40)).unwrap();
    assert_eq!(receive(&client, PATIENCE), Some(echoed(&query(1, 40))));
    echo.stop().unwrap();
    assert_eq!(std::fs::read_link("/proc/thread-self/ns/net").unwrap(), own, "we are back");
}
