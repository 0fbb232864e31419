//! `dunlin serve` while a stream is silent, its token is refused, and most services go.
use crate::clustered::{POLL, answer, expect, section, serve};
use crate::served::Served;
use cluster::{Cluster, Part, objects};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;
use wire::Rtype;

const WEB: &str = "web.shop.svc.cluster.local";
const KNOWN: &str = "NOERROR; A 10.96.7.7";

fn fill(cluster: &Cluster) {
    cluster.create(&objects::namespace("shop"));
    add(cluster, "web", "10.96.7.7");
}

fn add(cluster: &Cluster, name: &str, ip: &str) {
    let ip = json!({ "clusterIP": ip });
    cluster.create(&objects::service("shop", name, &[("http", "TCP", 80)], ip));
}

/// Queries for a known name, one after the other, until it is ended.
struct Client {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(u32, Vec<String>)>,
}

impl Client {
    fn start(server: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut count, mut wrong) = (0, Vec::new());
            while !stopped.load(Ordering::Relaxed) {
                count += 1;
                match answer(server, WEB, Rtype::A) {
                    Some(found) if found == KNOWN => {}
                    other => wrong.push(format!("{other:?}")),
                }
                std::thread::sleep(POLL);
            }
            (count, wrong)
        });
        Self { stop, thread }
    }

    /// Each answer was the known one.
    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        let (count, wrong) = self.thread.join().expect("it does not panic");
        assert!(count > 10 && wrong.is_empty(), "{count} queries: {wrong:?}");
    }
}

/// A relay to the API server, whose connections can fall silent and stay open.
struct Relay {
    address: SocketAddrV4,
    accepted: Arc<AtomicUsize>,
    /// Connections before this one are silent.
    silent: Arc<AtomicUsize>,
}

impl Relay {
    fn start(server: SocketAddrV4) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let SocketAddr::V4(address) = listener.local_addr().expect("bound") else { panic!("IPv4") };
        let (accepted, silent) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let (count, limit) = (Arc::clone(&accepted), Arc::clone(&silent));
        // It ends with the test's process.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let number = count.fetch_add(1, Ordering::SeqCst);
                let Ok(server) = TcpStream::connect(server) else { continue };
                let limit = Arc::clone(&limit);
                let is_silent = move || number < limit.load(Ordering::SeqCst);
                copy(client.try_clone().expect("a socket"), server.try_clone().expect("one"), {
                    let is_silent = is_silent.clone();
                    move || is_silent()
                });
                copy(server, client, is_silent);
            }
        });
        Self { address, accepted, silent }
    }

    fn silence(&self) {
        self.silent.store(self.accepted.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

/// Copies until one side closes, or it is silent: then it holds both open.
fn copy(mut from: TcpStream, mut to: TcpStream, is_silent: impl Fn() -> bool + Send + 'static) {
    std::thread::spawn(move || {
        let mut room = [0; 16 << 10];
        while let Ok(len @ 1..) = from.read(&mut room) {
            if is_silent() {
                // Both stay open until the test's process ends.
                std::mem::forget((from, to));
                return;
            }
            if to.write_all(&room[..len]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
}

#[test]
#[ignore = "cluster: it starts an API server"]
fn a_silent_stream_is_opened_again() {
    let Some(cluster) = Cluster::start_or_skip() else { return };
    fill(&cluster);
    let relay = Relay::start(cluster.api());
    let direct = std::fs::read_to_string(cluster.kubeconfig()).expect("a kubeconfig");
    let file = cluster.folder().join("relayed.conf");
    let relayed = direct.replace(&cluster.api().to_string(), &relay.address.to_string());
    assert_ne!(direct, relayed);
    std::fs::write(&file, relayed).expect("written");
    let served = Served::start("kubernetes-silent", &section(&file, ""), &[]);
    expect(served.address, WEB, Rtype::A, KNOWN);
    let client = Client::start(served.address);
    relay.silence();
    let begun = Instant::now();
    add(&cluster, "late", "10.96.7.8");
    expect(served.address, "late.shop.svc.cluster.local", Rtype::A, "NOERROR; A 10.96.7.8");
    println!("a change on a silent stream was answered after {:.1?}", begun.elapsed());
    client.end();
}

#[test]
#[ignore = "cluster: it starts an API server"]
fn a_token_that_is_refused_is_read_again() {
    let Some(mut cluster) = Cluster::start_or_skip() else { return };
    fill(&cluster);
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount",
                          "metadata": { "name": "dns", "namespace": "shop" } });
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": "dns" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                     "name": "cluster-admin" },
        "subjects": [{ "kind": "ServiceAccount", "name": "dns", "namespace": "shop" }] });
    cluster.create(&account);
    cluster.create(&role);
    let file = cluster.kubeconfig_of("shop", "dns", 600).expect("a token");
    let served = Served::start("kubernetes-token", &section(&file, ""), &[]);
    let client = Client::start(served.address);

    // A token is bound to its account: that of a deleted one is refused.
    cluster.delete(&account);
    cluster.create(&account);
    cluster.kill(Part::ApiServer);
    cluster.start_part(Part::ApiServer).expect("it starts");
    served.expect_line("does not accept the credentials", "Kubernetes");
    add(&cluster, "late", "10.96.7.8");
    // As a kubelet does it, in the same place.
    cluster.kubeconfig_of("shop", "dns", 600).expect("a new token");
    let begun = Instant::now();
    expect(served.address, "late.shop.svc.cluster.local", Rtype::A, "NOERROR; A 10.96.7.8");
    println!("a change was answered {:.1?} after the new token", begun.elapsed());
    client.end();
}

/// Calls a function with each number, on several threads.
fn in_parts(count: usize, act: impl Fn(usize) + Sync) {
    const THREADS: usize = 8;
    std::thread::scope(|scope| {
        for part in 0..THREADS {
            let act = &act;
            scope.spawn(move || (part..count).step_by(THREADS).for_each(act));
        }
    });
}

#[test]
#[ignore = "cluster: it starts an API server"]
fn five_thousand_deleted_services_are_gone_at_once() {
    const COUNT: usize = 5_000;
    let Some(mut cluster) = Cluster::start_or_skip() else { return };
    fill(&cluster);
    cluster.create(&objects::namespace("many"));
    let many = |at: usize| {
        let name = format!("svc-{at}");
        // Without an address, which costs the API server an object more.
        let spec = json!({ "type": "ExternalName", "externalName": "www.example.com" });
        objects::service("many", &name, &[], spec)
    };
    in_parts(COUNT, |at| drop(cluster.create(&many(at))));
    let served = serve("kubernetes-many", &cluster, "");
    let names = |at: usize| format!("svc-{at}.many.svc.cluster.local");
    for at in [0, COUNT / 2, COUNT - 1] {
        let found = answer(served.address, &names(at), Rtype::A).expect("a reply");
        assert!(found == "NOERROR; CNAME www.example.com.", "{found}");
    }
    let client = Client::start(served.address);
    in_parts(COUNT, |at| cluster.delete(&many(at)));
    let begun = Instant::now();
    for at in 0..COUNT {
        expect(served.address, &names(at), Rtype::A, "NXDOMAIN");
    }
    println!("{COUNT} services were gone {:.1?} after they were deleted", begun.elapsed());

    // As soon as the API server serves again, changes are answered.
    cluster.kill(Part::ApiServer);
    cluster.start_part(Part::ApiServer).expect("it starts");
    let begun = Instant::now();
    add(&cluster, "late", "10.96.7.8");
    expect(served.address, "late.shop.svc.cluster.local", Rtype::A, "NOERROR; A 10.96.7.8");
    println!("a change was answered {:.1?} after the API server served again", begun.elapsed());
    client.end();
}
