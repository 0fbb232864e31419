//! Names without number, each asked once, or twice: the process never takes more memory than it had
//! before them, the cache's, and a tenth of that.
//!
//! By itself this is the short form: any build, 120,000 names through 8 MiB. `make
//! campaign-floods-cache` is the campaign: ten million through 64 MiB. Half of them are asked over
//! UDP and half over TCP, since each thread has a share of the memory; every third is asked again,
//! or the cache would keep only the few newest.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `DUNLIN_CACHE_NAMES` | how many (120000) |
//! | `DUNLIN_CACHE_MIB` | the cache's memory (8) |

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use conformance::Result;
use conformance::client::{framed, read_message};
use conformance::environment::{TestFolder, number};
use conformance::hosts::{reset_peak, resident};
use conformance::limits::ANSWER_TIMEOUT;
use conformance::paced_client::{self, answer, wait_for};
use conformance::server::{Launch, Software};

/// Queries under way, over UDP and over TCP each.
const WINDOW: usize = 64;
/// How many names later every third is asked again.
const AGAIN: u64 = 50;
/// Names asked over TCP and over UDP before memory is measured.
const FIRST: u64 = 256;
/// Time between two lines that tell how far it is.
const TELLS: Duration = Duration::from_secs(10);

#[test]
fn endless_names_stay_within_the_memory_of_the_cache() {
    let folder = TestFolder::new("memory").unwrap();
    let (names, mebi) = (number("DUNLIN_CACHE_NAMES", 120_000), number("DUNLIN_CACHE_MIB", 8));
    let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = server.local_addr().unwrap();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| answer_anything(&server, &ends));
        let told = std::panic::catch_unwind(|| {
            let sections =
                format!("[forward]\n\".\" = [\"{address}\"]\n[cache]\nmemory = \"{mebi}MiB\"\n");
            let keys = "workers = 1";
            let launch = Launch { sections: &sections, keys, ..Launch::new(Software::Dunlin, &[]) };
            run(launch, &folder, names, mebi << 20).unwrap();
        });
        ends.store(true, Ordering::Relaxed);
        if let Err(panic) = told {
            std::panic::resume_unwind(panic);
        }
    });
}

fn run(launch: Launch<'_>, folder: &TestFolder, names: u64, memory: u64) -> Result<()> {
    let mut dunlin = launch.start(&folder.path)?;
    wait_for(&mut dunlin, "ready.test")?;
    let (to, half) = (dunlin.address, names / 2);
    // Pages of the program count, too: those of the code that answers are in RAM from here on.
    let (first, second) = (names..names + FIRST, names + FIRST..names + 2 * FIRST);
    ask_stream(to, first, &AtomicU64::new(0)).map_err(|e| format!("a client: {e}"))?;
    ask_datagrams(to, second, &AtomicU64::new(0)).map_err(|e| format!("a client: {e}"))?;
    let (idle, _) = resident(dunlin.id())?;
    reset_peak(dunlin.id())?;
    let (done, begun) = (AtomicU64::new(0), Instant::now());
    std::thread::scope(|scope| {
        let (ended, ends) = std::sync::mpsc::channel();
        let (of_streams, of_datagrams, done) = (ended.clone(), ended, &done);
        scope.spawn(move || of_streams.send(ask_stream(to, half..names, done)));
        scope.spawn(move || of_datagrams.send(ask_datagrams(to, 0..half, done)));
        loop {
            match ends.recv_timeout(TELLS) {
                Ok(client) => client.map_err(|e| format!("a client: {e}"))?,
                Err(RecvTimeoutError::Timeout) => {
                    eprintln!("{} of {names} names", done.load(Ordering::Relaxed));
                }
                // Both have ended.
                Err(RecvTimeoutError::Disconnected) => return Ok::<_, String>(()),
            }
        }
    })?;
    let took = begun.elapsed().as_secs_f64();
    dunlin.check_alive()?;
    let peak = resident(dunlin.id())?.1;
    let status = dunlin.status()?;
    let cache = |what: &str| status["cache"][what].as_u64().unwrap_or_default();
    let (entries, bytes) = (cache("entries"), cache("bytes"));
    let budget = idle + memory;
    let limit = budget + memory / 10;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "| names | cache, MiB | entries, MiB of them | idle | budget | peak | names a second |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    println!(
        "| {names} | {} | {entries}, {:.1} | {:.1} | {:.1} | {:.1} | {:.0} |",
        memory >> 20,
        mib(bytes),
        mib(idle),
        mib(budget),
        mib(peak),
        names as f64 / took
    );
    assert!(peak <= limit, "{peak} bytes in RAM, more than {limit}");
    assert!(bytes * 10 >= memory * 7, "the cache was not full: {bytes} of {memory} bytes");
    assert_eq!(cache("bytes_max"), memory);
    Ok(())
}

/// Answers with an address whatever is asked.
fn answer_anything(server: &UdpSocket, ends: &AtomicBool) {
    server.set_read_timeout(Some(Duration::from_millis(20))).expect("a socket has timeouts");
    let mut buffer = [0; 2048];
    while !ends.load(Ordering::Relaxed) {
        let Ok((len, from)) = server.recv_from(&mut buffer) else { continue };
        // Who does not read it asks again.
        let _ = server.send_to(&answer(&buffer[..len], 3_600), from);
    }
}

fn query(nth: u64) -> Vec<u8> {
    paced_client::query(&format!("name-{nth}.namespace.svc.cluster.local"))
}

/// Each name, and every third a while later once more.
fn all(names: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
    let first = names.start;
    names.flat_map(move |nth| {
        let again = nth.checked_sub(AGAIN).filter(|before| *before >= first && before % 3 == 0);
        [Some(nth), again].into_iter().flatten()
    })
}

/// Asks over UDP, with so many queries under way; who is not answered soon is asked no more.
fn ask_datagrams(
    to: SocketAddrV4,
    names: std::ops::Range<u64>,
    done: &AtomicU64,
) -> std::io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let (mut open, mut buffer) = (0, [0; 2048]);
    for (at, nth) in all(names).enumerate() {
        let mut query = query(nth);
        query[..2].copy_from_slice(&(at as u16).to_be_bytes());
        socket.send(&query)?;
        open += 1;
        while open >= WINDOW {
            // What got lost comes no more, nor does what came behind it.
            open = socket.recv(&mut buffer).map_or(0, |_| open - 1);
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Asks over one connection, with so many queries under way.
fn ask_stream(
    to: SocketAddrV4,
    names: std::ops::Range<u64>,
    done: &AtomicU64,
) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let names: Vec<u64> = all(names).collect();
    for some in names.chunks(WINDOW) {
        let queries = some.iter().flat_map(|nth| framed(&query(*nth)));
        stream.write_all(&queries.collect::<Vec<_>>())?;
        for _ in some {
            read_message(&mut stream)?;
        }
        done.fetch_add(some.len() as u64, Ordering::Relaxed);
    }
    Ok(())
}
