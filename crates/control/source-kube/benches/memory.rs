//! `make bench-kubernetes-memory`: where the bytes of a cluster go, each as the allocator takes it.
//!
//! A tenth of `DUNLIN_SERVICES=10000` services is headless, with 100 endpoints each, in slices of
//! ten and some of a hundred. The cluster is saved, and a source starts from the saved state.
//! `DUNLIN_COMPAT=coredns`: with the names that CoreDNS has, too.
mod filled;

use filled::{ENDPOINTS, origin, settings};
use image::{NODE_HEAD_LEN, Node, Tree, ZoneTable};
use packet::View;
use source_kube::saved;
use source_kube::source::KubernetesSource;
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The system's allocator, counting the bytes that are in use, and the most that were.
struct Counting;

static LIVE: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);

/// What glibc takes for an allocation: its size and 8 bytes, in steps of 16, at least 32.
fn taken(layout: Layout) -> u64 {
    (layout.size() as u64 + 8).next_multiple_of(16).max(32)
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(taken(layout), Ordering::Relaxed) + taken(layout);
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc`'s contract, which is the same here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(taken(layout), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn live() -> u64 {
    LIVE.load(Ordering::Relaxed)
}

/// Bytes of resident memory of this process that no file has.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or_default() * 1024
}

fn main() {
    let services = std::env::var("DUNLIN_SERVICES").ok().and_then(|text| text.parse().ok());
    let services: u32 = services.unwrap_or(10_000);
    let endpoints = u64::from(services / 10 * ENDPOINTS);
    let show = |what: &str, bytes: u64| {
        println!("{what:58} {bytes:>12} B {:>6} B for each endpoint", bytes / endpoints);
    };
    let folder = std::env::temp_dir().join(format!("dunlin-bench-{}", std::process::id()));
    let begun = live();
    let cluster = filled::cluster(services);
    show("what is known of the cluster", live() - begun);
    saved::save(&folder, &["cluster.local.".to_owned()], &cluster).expect("it is saved");
    drop(cluster);
    let len = std::fs::metadata(saved::path(&folder)).map(|file| file.len());
    show("the saved state, on disk", len.expect("the file"));

    let (manager, thread) = filled::publisher();
    sync::return_freed_memory();
    let (before, resident_before) = (live(), resident());
    PEAK.store(before, Ordering::Relaxed);
    let clock = Instant::now();
    let running = manager
        .start_source(KubernetesSource { settings: settings(&folder), fleet: None })
        .expect("a thread");
    let served = clock.elapsed();
    let peak = PEAK.load(Ordering::Relaxed) - before;
    std::thread::sleep(Duration::from_millis(500));
    let steady = live() - before;
    show("source and image", steady);
    show("the same as resident memory", resident().saturating_sub(resident_before));
    let image = manager.image();
    let origin = origin();
    let zone = image.zone(origin.as_name()).expect("the zone");
    breakdown("zone", endpoints, zone.names(), zone.nodes());
    let reverse = ZoneTable::hosts(&image, View::DEFAULT, 0).expect("the layer of reverse names");
    let tree = reverse.names();
    breakdown("reverse", endpoints, tree, (0..tree.len()).filter_map(|rank| tree.at(rank)));
    show("peak of a start from the saved state", peak);
    println!(
        "peak ÷ steady: {:.2}; served {served:.0?} after the start",
        peak as f64 / steady as f64
    );
    drop(running);
    thread.stop();
    let _ = std::fs::remove_dir_all(&folder);
}

/// Sums the packed bytes of nodes.
fn breakdown<'n>(
    what: &str,
    endpoints: u64,
    names: &dyn Tree,
    nodes: impl Iterator<Item = Node<'n>>,
) {
    let mut parts: BTreeMap<String, u64> = BTreeMap::new();
    for node in nodes {
        let head = NODE_HEAD_LEN + node.name().len() + 1;
        *parts.entry("names".to_owned()).or_default() += head as u64;
        for set in node.sets() {
            *parts.entry(format!("{} records", set.rtype())).or_default() +=
                set.as_bytes().len() as u64;
        }
    }
    let count = names.len() as u64;
    // The order refers to each name by 8 bytes; a table in a leaf has about 4 to 8.
    parts.insert("order and tables of leaves (estimated)".into(), count * 14);
    println!("  {what}: {count} names");
    for (part, bytes) in parts {
        println!("  {part:56} {bytes:>12} B {:>6} B for each endpoint", bytes / endpoints);
    }
}
