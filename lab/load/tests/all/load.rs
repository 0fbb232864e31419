//! Loads against a server whose every answer is scripted.

use crate::common::{
    FORM, Server, address, answer, name, no_listener, now, options, options_at, run, yes,
};
use lab_load::arrivals::{Arrivals, Rate, Spacing};
use lab_load::fleet::{Lookups, Resolver};
use lab_load::names::{Order, QuestionSet, QuestionSpec};
use lab_load::{LoadMode, Options, Oracle, Quantile, QuerySource, Report};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wire::{Name, NameBuf, Rtype};

const MILLISECOND: u64 = 1_000_000;

fn open(rate: f64) -> LoadMode {
    LoadMode::Open(Arrivals { rate: Rate::Constant(rate), spacing: Spacing::Even, burst: 1 })
}

#[test]
fn a_closed_loop_keeps_its_outstanding_limit() {
    let server = Server::udp(|_, query| vec![(Duration::from_millis(10), yes(query))]);
    let report = run(&options(&server));
    let counts = report.counts;
    assert_eq!((counts.timeouts, counts.unsent, counts.unexpected), (0, 0, 0));
    assert_eq!(counts.sent, server.asked.load(Ordering::Relaxed));
    // 10 under way, each for 10 ms at least: no more than 200 in 200 ms, and 10 behind.
    assert!((10..=210).contains(&counts.answered), "{}", counts.answered);
    assert!(report.times.service.min() >= 10 * MILLISECOND);
    assert_eq!(report.times.response.mean(), report.times.service.mean(), "due is when it left");
}

#[test]
fn an_open_loop_keeps_its_plan() {
    let server = Server::udp(|_, query| now(yes(query)));
    let options = Options { when: open(2_000.0), threads: 2, channels: 4, ..options(&server) };
    let report = run(&options);
    assert_eq!((report.counts.planned, report.counts.answered), (400, 400));
    assert_eq!(report.threads.len(), 2);
    assert_eq!(report.threads[0].counts.planned, 200);
}

#[test]
fn a_query_count_ends_the_load() {
    let server = Server::udp(|_, query| now(yes(query)));
    for when in [open(100_000.0), LoadMode::Closed { outstanding: 7, rate_max: None }] {
        let (threads, queries_max) = (3, Some(100));
        let report = run(&Options { when, threads, queries_max, ..options(&server) });
        assert_eq!(report.counts.answered, 100);
    }
}

#[test]
fn a_closed_loop_keeps_below_its_rate() {
    let server = Server::udp(|_, query| now(yes(query)));
    let when = LoadMode::Closed { outstanding: 10, rate_max: Some(500.0) };
    let report = run(&Options { when, ..options(&server) });
    assert!(report.counts.sent <= 100, "{}", report.counts.sent);
}

#[test]
fn timeouts_are_censored_and_in_the_histogram() {
    let server = Server::udp(|number, query| match number % 4 {
        0 => vec![],
        _ => now(yes(query)),
    });
    let report = run(&Options { when: open(1_000.0), ..options(&server) });
    assert_eq!((report.counts.timeouts, report.counts.answered), (50, 150));
    let p = |share| report.quantile(&report.times.response, share);
    assert_eq!(p(0.9), Quantile::MoreThan(300 * MILLISECOND));
    assert!(matches!(p(0.5), Quantile::Of(time) if time < 300 * MILLISECOND));
    assert!(report.mean_of_answered(&report.times.response).unwrap() < 300.0 * 1e6);
    assert!(report.busy_ns < 450 * MILLISECOND, "waiting for nothing is not a load");
}

#[test]
fn answers_after_the_timeout_are_late() {
    let server = Server::udp(|number, query| match number {
        0..10 => vec![(Duration::from_millis(100), yes(query))],
        _ => now(yes(query)),
    });
    let timeout_ns = 50 * MILLISECOND;
    let report = run(&Options { when: open(200.0), timeout_ns, ..options(&server) });
    assert_eq!((report.counts.timeouts, report.counts.late), (10, 10));
    assert_eq!((report.counts.answered, report.counts.unexpected), (30, 0));
}

#[test]
fn unmatched_messages_are_unexpected() {
    let server = Server::udp(|number, query| {
        let mut wrong = yes(query);
        match number % 5 {
            0 => wrong[1] ^= 1,                                      // another ID
            1 => wrong[14] ^= 1,                                     // another name
            2 => wrong.truncate(11),                                 // no message
            3 => return now(query.to_vec()),                         // no response
            _ => return [now(yes(query)), now(yes(query))].concat(), // twice
        }
        now(wrong)
    });
    let report = run(&Options { when: open(500.0), ..options(&server) });
    assert_eq!((report.counts.planned, report.counts.answered), (100, 20));
    assert_eq!((report.counts.timeouts, report.counts.unexpected), (80, 100));
}

#[test]
fn answers_from_other_addresses_are_ignored() {
    let [asked, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let server = Server::udp(|_, _| vec![]);
    let options =
        Options { server: asked.local_addr().unwrap(), queries_max: Some(5), ..options(&server) };
    let forger = std::thread::spawn(move || {
        let mut buffer = [0; 512];
        for _ in 0..5 {
            let (len, peer) = asked.recv_from(&mut buffer).unwrap();
            other.send_to(&yes(&buffer[..len]), peer).unwrap();
        }
    });
    let report = run(&options);
    forger.join().unwrap();
    assert_eq!(
        (report.counts.timeouts, report.counts.answered, report.counts.unexpected),
        (5, 0, 0)
    );
}

#[test]
fn rcodes_and_truncation_are_counted() {
    let server = Server::udp(|number, query| {
        let mut message = answer(query, [0, 2, 3, 5][number as usize % 4]);
        message[2] |= if number % 4 == 0 { 2 } else { 0 };
        now(message)
    });
    let report = run(&Options { queries_max: Some(40), ..options(&server) });
    let rcodes: Vec<_> = report.counts.rcodes().collect();
    assert_eq!(rcodes, [("NOERROR", 10), ("SERVFAIL", 10), ("NXDOMAIN", 10), ("REFUSED", 10)]);
    assert_eq!(report.counts.truncated, 10);
    assert_eq!((report.counts.answered, report.counts.wrong), (40, 0));
    let strict = Options { errors_are_wrong: true, queries_max: Some(40), ..options(&server) };
    let counts = run(&strict).counts;
    assert_eq!((counts.answered, counts.wrong), (20, 20), "NOERROR and NXDOMAIN are answers");
}

#[test]
fn content_is_compared_with_the_oracle() {
    let server = Server::udp(|number, query| match number % 10 {
        0 => now(yes(query)), // no data, where there is some
        _ => now(address(query)),
    });
    let zone = std::env::temp_dir().join(format!("dunlin-load-oracle-{}", std::process::id()));
    let names: String = (0..100).map(|n| format!("n{n} A 192.0.2.1\n")).collect();
    std::fs::write(&zone, format!("$TTL 60\n@ SOA a b 1 1 1 1 1\n@ NS n0\n{names}")).unwrap();
    let origin = NameBuf::from_text(b"example", Name::ROOT).unwrap();
    let oracle = Some(Arc::new(Oracle::read(&zone, origin.as_name()).unwrap()));
    std::fs::remove_file(&zone).unwrap();
    let asked = Options { oracle, queries_max: Some(100), ..options(&server) };
    let all = run(&Options { check_one_in: 1, ..asked.clone() }).counts;
    assert_eq!((all.answered, all.wrong, all.checked), (90, 10, 100));
    let some = run(&Options { check_one_in: 7, ..asked }).counts;
    assert_eq!((some.checked, some.answered + some.wrong), (14, 100));
}

/// A server that stands still for a while is seen by who asks at fixed times, and hardly by who
/// waits for answers before asking on.
#[test]
fn a_stall_shows_in_the_open_loop_and_hides_in_the_closed_one() {
    let stalls = || {
        Server::udp(|number, query| {
            if number == 250 {
                std::thread::sleep(Duration::from_millis(200));
            }
            now(yes(query))
        })
    };
    let (length_ns, timeout_ns) = (1_000 * MILLISECOND, 2_000 * MILLISECOND);
    let p99 = |report: &lab_load::Report| match report.quantile(&report.times.response, 0.99) {
        Quantile::Of(time) => time,
        other => panic!("{other:?}"),
    };
    let server = stalls();
    let open = run(&Options { when: open(1_000.0), length_ns, timeout_ns, ..options(&server) });
    assert_eq!(open.counts.answered, 1_000);
    // 200 of 1,000 were due in these 200 ms; the last one in a hundred waited for 190 ms or more.
    assert!(p99(&open) >= 150 * MILLISECOND, "{}", p99(&open));
    let server = stalls();
    let when = LoadMode::Closed { outstanding: 10, rate_max: Some(1_000.0) };
    let closed = run(&Options { when, length_ns, timeout_ns, ..options(&server) });
    let waited =
        closed.times.response.len() - closed.times.response.count_between(0, 150 * MILLISECOND);
    assert!(waited <= 10, "only those under way waited: {waited}");
}

#[test]
fn a_full_table_loses_and_counts() {
    let server = Server::udp(|_, _| vec![]);
    let report = run(&Options { when: open(1_000.0), outstanding_max: 32, ..options(&server) });
    assert_eq!((report.counts.planned, report.counts.sent), (200, 32));
    assert_eq!(
        (report.counts.unsent, report.counts.crowded, report.counts.timeouts),
        (168, 168, 32)
    );
    // Unsent queries had no answer either.
    assert_eq!((report.times.response.len(), report.times.service.len()), (200, 32));
}

#[test]
fn a_slow_generator_is_late_and_says_so() {
    let server = Server::udp(|_, query| now(yes(query)));
    let report =
        run(&Options { when: open(2_000.0), spin_ns: 10 * MILLISECOND, ..options(&server) });
    assert_eq!(report.counts.planned, 400);
    assert!(report.counts.unsent > 100, "{:?}", report.counts);
    assert_eq!(report.times.response.len(), 400, "what was not sent is among them");
    assert!(report.times.lateness.value_at_quantile(0.9) > 50 * MILLISECOND);
    // Half of all that was sent had to wait for half of the time; the server did not cause that.
    let (response, service) = (&report.times.response, &report.times.service);
    assert!(response.value_at_quantile(0.5) > service.value_at_quantile(0.5));
}

#[test]
fn without_a_listener_queries_time_out() {
    let server = Server::udp(|_, _| vec![]);
    let report = run(&Options {
        server: no_listener(),
        queries_max: Some(20),
        length_ns: 1_000 * MILLISECOND,
        ..options(&server)
    });
    assert_eq!((report.counts.sent, report.counts.timeouts), (20, 20));
}

#[test]
fn stop_flag_ends_the_load() {
    let server = Server::udp(|_, query| now(yes(query)));
    let options = Options { length_ns: 60_000 * MILLISECOND, ..options(&server) };
    let stop = AtomicBool::new(false);
    let mut seen = 0;
    let report = lab_load::run(&options, &stop, &mut |snapshot| {
        assert!(snapshot.until_ns > snapshot.since_ns);
        seen += 1;
        stop.fetch_or(seen == 3, Ordering::Relaxed);
    })
    .unwrap();
    assert!(report.stopped && seen >= 3 && report.whole_ns < 10_000 * MILLISECOND);
    assert_eq!(report.counts.open(), 0);
}

#[test]
fn too_many_sockets_are_an_error() {
    let server = Server::udp(|_, _| vec![]);
    let stop = AtomicBool::new(false);
    let error = |wrong: Options| lab_load::run(&wrong, &stop, &mut |_| {}).unwrap_err();
    let sources = Some("192.0.2.0/24".parse().unwrap());
    let told = error(Options { sources, threads: 2, ..options(&server) });
    assert!(told.contains("192.0.2.") && told.contains("ip route add local"), "{told}");
    let told = error(Options { netns: Some("dunlin-not-there".into()), ..options(&server) });
    assert!(told.contains("/run/netns/dunlin-not-there"), "{told}");
    let told = error(Options { cpus: vec![1_000], ..options(&server) });
    assert!(told.contains("CPU 1000"), "{told}");
}

/// The report of a load at a server that answers all, and the source addresses.
fn seen_by_its_server(options: impl FnOnce(SocketAddr) -> Options) -> (Report, Vec<SocketAddr>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let options = options(socket.local_addr().unwrap());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let answers = scope.spawn(|| {
            let (mut peers, mut buffer) = (BTreeSet::new(), [0; 512]);
            while !done.load(Ordering::Relaxed) {
                if let Ok((len, peer)) = socket.recv_from(&mut buffer) {
                    peers.insert(peer);
                    socket.send_to(&yes(&buffer[..len]), peer).unwrap();
                }
            }
            peers
        });
        let report = run(&options);
        done.store(true, Ordering::Relaxed);
        (report, answers.join().unwrap().into_iter().collect())
    })
}

#[test]
fn many_sources_are_used_with_churn() {
    let (report, peers) = seen_by_its_server(|server| Options {
        when: open(100.0),
        channels: 2,
        length_ns: 1_000 * MILLISECOND,
        sources: Some("127.0.2.0/24".parse().unwrap()),
        churn_ns: Some(10 * MILLISECOND),
        timeout_ns: 5_000 * MILLISECOND,
        ..options_at(server)
    });
    assert_eq!((report.counts.answered, report.counts.unexpected), (100, 0));
    let addresses: BTreeSet<_> = peers.iter().map(SocketAddr::ip).collect();
    // 2 at first, and up to 100 that took another's place.
    assert!(peers.len() > 3 && addresses.len() > 3, "{peers:?}");
}

#[test]
fn sockets_of_all_threads_have_the_source_ports_from_the_first_on() {
    // Below those that the kernel gives to others (ip_local_port_range).
    let ports = |server| Options {
        when: open(1_000.0),
        channels: 4,
        threads: 2,
        length_ns: 100 * MILLISECOND,
        sources: Some("127.0.3.0/30".parse().unwrap()),
        source_port: Some(20_700),
        timeout_ns: 5_000 * MILLISECOND,
        ..options_at(server)
    };
    let (report, peers) = seen_by_its_server(ports);
    assert_eq!((report.counts.answered, report.counts.unexpected), (100, 0));
    let from = ["127.0.3.1:20700", "127.0.3.1:20702", "127.0.3.2:20701", "127.0.3.2:20703"];
    assert_eq!(peers.iter().map(ToString::to_string).collect::<Vec<_>>(), from);
    let _taken = UdpSocket::bind("127.0.3.2:20703").unwrap();
    let wrong = ports("127.0.0.1:53".parse().unwrap());
    let told = lab_load::run(&wrong, &AtomicBool::new(false), &mut |_| {}).unwrap_err();
    assert!(told.contains("cannot send queries from 127.0.3.2:20703: "), "{told}");
}

fn resolver() -> Resolver {
    let name = |text: &str| NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap();
    Resolver { search: ["dev.svc.test", "svc.test"].map(name).into(), ndots: 5 }
}

#[test]
fn lookups_go_through_the_search_list() {
    // Only the name as it is has an address.
    let server = Server::udp(|_, query| match &name(query)[..] {
        "www.example." => now(address(query)),
        _ => now(answer(query, 3)),
    });
    let lookups = Lookups::new(["www.example"].into_iter(), &resolver(), FORM).unwrap();
    let asks = QuerySource::Lookups(Arc::new(lookups));
    for (when, channels) in
        [(open(100.0), 3), (LoadMode::Closed { outstanding: 10, rate_max: None }, 1)]
    {
        let asked = Options {
            asks: asks.clone(),
            when,
            channels,
            queries_max: Some(20),
            length_ns: 20_000 * MILLISECOND,
            timeout_ns: 10_000 * MILLISECOND,
            ..options(&server)
        };
        let report = run(&asked);
        let counts = report.counts;
        assert_eq!((counts.lookups, counts.lookups_found, counts.lookups_failed), (20, 20, 0));
        assert_eq!(counts.answered, 20 * 3 * 2);
        let rcodes: Vec<_> = counts.rcodes().collect();
        assert_eq!(rcodes, [("NOERROR", 40), ("NXDOMAIN", 80)]);
        assert_eq!(report.times.lookup.len(), 20);
        // A lookup takes as long as its steps, each of which waits for the one before.
        assert!(report.times.lookup.max() >= report.times.response.max());
    }
}

#[test]
fn fresh_names_reach_the_server() {
    let server = Server::udp(|_, query| match name(query).starts_with("nx-") {
        true => now(answer(query, 3)),
        false => now(yes(query)),
    });
    let set = Arc::new(QuestionSet::from_pattern("n{i}.example", 100, Rtype::A, FORM).unwrap());
    let what =
        QuestionSpec { set, order: Order::Uniform, unique: 0.0, nxdomain: 0.25, under: None };
    let asks = QuerySource::Questions(Box::new(what));
    let report = run(&Options {
        asks,
        queries_max: Some(2_000),
        length_ns: 5_000 * MILLISECOND,
        ..options(&server)
    });
    let nxdomain = report.counts.rcodes[3];
    assert!((400..=600).contains(&nxdomain), "{nxdomain} of 2,000");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 12,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever the server does, every planned query has exactly one end, and the ends are those
    /// that the server had in mind.
    #[test]
    fn every_query_has_one_end(
        fates in prop::collection::vec(0u8..6, 1..40),
        threads in 1usize..3,
        channels in 1usize..5,
        is_open: bool,
    ) {
        let script = fates.clone();
        let server = Server::udp(move |n, query| fate(script[n as usize % script.len()], query));
        let closed = LoadMode::Closed { outstanding: 16, rate_max: None };
        let when = if is_open { open(1_000.0) } else { closed };
        let (timeout_ns, queries_max) = (100 * MILLISECOND, Some(200));
        let asked =
            Options { when, threads, channels, timeout_ns, queries_max, ..options(&server) };
        let counts = run(&asked).counts;
        let asked = server.asked.load(Ordering::Relaxed);
        prop_assert_eq!(counts.sent, asked);
        let of = |wanted: &[u8]| {
            let is_wanted = |n: &u64| wanted.contains(&fates[*n as usize % fates.len()]);
            (0..asked).filter(is_wanted).count() as u64
        };
        // Where others keep this machine busy, an answer may come too late.
        prop_assert!(counts.timeouts >= of(&[0, 1, 3]));
        prop_assert_eq!(counts.answered + counts.timeouts, asked);
        let messages = of(&[1, 3, 4, 5]) + 2 * of(&[2]);
        prop_assert!(counts.answered + counts.unexpected + counts.late <= messages);
    }
}

/// The server's behavior.
fn fate(number: u8, query: &[u8]) -> Vec<(Duration, Vec<u8>)> {
    match number {
        0 => vec![],
        1 => vec![(Duration::from_millis(200), yes(query))], // behind the timeout
        2 => [now(yes(query)), now(yes(query))].concat(),
        3 => {
            let mut wrong = yes(query);
            wrong[13] ^= 2;
            now(wrong)
        }
        _ => now(yes(query)),
    }
}
