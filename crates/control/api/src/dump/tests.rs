//! A dump over a connection: how far it is ahead of its reader, and how it ends.
use super::*;
use crate::caller::{Origin, Peer};
use crate::server::serve_requests;
use axum::Router;
use axum::routing::get;
use compile::Loader;
use image::{HASH_KEY_WORDS, HashKey};
use listen::limits::{READ_RATE_TIME, STALL_TIME_MAX};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use wire::{Name, Rtype};

const RECORDS: usize = 30_000;

/// A zone of one record for each name, beside its apex.
fn zone() -> Arc<Zone> {
    let name = |text: &str| NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name");
    let origin = name("example.");
    let key = Arc::new(HashKey::new([3; HASH_KEY_WORDS]));
    let mut loader = Loader::new(key, origin.as_name(), None);
    let soa = [&[0, 0][..], &[0; 20]].concat();
    for (rtype, data) in [(Rtype::SOA, &soa[..]), (Rtype::NS, &[0])] {
        loader.add(origin.as_name(), rtype, 60, data, 0).expect("a record");
    }
    for number in 0..RECORDS {
        let owner = name(&format!("host-{number}.a-name-of-usual-length.example."));
        loader.add(owner.as_name(), Rtype::A, 60, &[192, 0, 2, 1], 0).expect("a record");
    }
    Arc::new(loader.finish().unwrap_or_else(|problem| panic!("{problem:?}")))
}

/// A dump that is served on a connection whose buffers hold almost nothing.
struct Scene {
    zone: Arc<Zone>,
    client: DuplexStream,
    /// Pieces made so far.
    made: Arc<AtomicUsize>,
    /// One is for the dump as long as it lasts.
    turn: Arc<()>,
    connection: JoinHandle<()>,
    _running: watch::Sender<bool>,
}

impl Scene {
    async fn new() -> Self {
        let (zone, made, turn) = (zone(), Arc::<AtomicUsize>::default(), Arc::new(()));
        let counted = Arc::clone(&made);
        let pieces = ZoneText::new(Arc::clone(&zone));
        let pieces = pieces.inspect(move |_| _ = counted.fetch_add(1, Ordering::Relaxed));
        let dump = Arc::new(Mutex::new(Some(pulled(pieces, Arc::clone(&turn)))));
        let take = move || async move { dump.lock().expect("whole").take().expect("one request") };
        let router = Router::new().route("/", get(take));
        let (mut client, server) = duplex(1 << 10);
        let (running, ending) = watch::channel(false);
        let origin = Origin::Local { uid: 1 };
        let peer = Peer { origin, subjects: Arc::default(), permit: None };
        let connection = tokio::spawn(serve_requests(server, peer, router, ending));
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("it reads");
        Self { zone, client, made, turn, connection, _running: running }
    }

    fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// Waits for the end of the connection, which holds nothing any more.
    async fn end(self) {
        let Self { zone, turn, connection, client, .. } = self;
        connection.await.expect("no panic");
        assert_eq!((Arc::strong_count(&zone), Arc::strong_count(&turn)), (1, 1));
        drop(client);
    }
}

/// Pieces that a connection has of which its client has read nothing: one on its way, and what
/// `hyper` takes before it writes.
const AHEAD_MAX: usize = 3;

#[tokio::test]
async fn dump_is_made_no_faster_than_it_is_read() {
    let mut scene = Scene::new().await;
    let (mut text, mut buf) = (Vec::new(), vec![0; 10_000]);
    while !text.ends_with(b"0\r\n\r\n") {
        let len = scene.client.read(&mut buf).await.expect("it goes on");
        assert!(len > 0, "it was cut off");
        text.extend_from_slice(&buf[..len]);
        let read = text.len() / DUMP_PIECE_LEN;
        assert!(scene.made() <= read + AHEAD_MAX, "{} made, {read} read", scene.made());
    }
    assert!(scene.made() > 5 * AHEAD_MAX, "{} pieces", scene.made());
    let lines = text.split(|byte| *byte == b'\n').filter(|line| line.ends_with(b"192.0.2.1"));
    // Chunks end anywhere between lines.
    assert_eq!(lines.count(), RECORDS);
    let Scene { client, .. } = &mut scene;
    client.shutdown().await.expect("open");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn client_that_does_not_read_is_cut_off() {
    let (scene, begin) = (Scene::new().await, Instant::now());
    let Scene { zone, made, turn, connection, client, _running } = scene;
    connection.await.expect("no panic");
    let took = begin.elapsed();
    assert!(took >= READ_RATE_TIME && took <= STALL_TIME_MAX, "{took:?}");
    assert!((1..=AHEAD_MAX).contains(&made.load(Ordering::Relaxed)));
    assert_eq!((Arc::strong_count(&zone), Arc::strong_count(&turn)), (1, 1));
    drop((client, _running));
}

#[tokio::test]
async fn client_that_hangs_up_frees_the_zone_at_once() {
    let mut scene = Scene::new().await;
    let mut buf = vec![0; 3 * DUMP_PIECE_LEN];
    scene.client.read_exact(&mut buf).await.expect("it goes on");
    assert!(Arc::strong_count(&scene.zone) > 1);
    scene.client = duplex(1).0;
    timeout(STALL_TIME_MAX / 2, scene.end()).await.expect("not by its deadline");
}
