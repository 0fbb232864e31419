//! Two sites that share a zone, by each of three policies, while each of four things fails: no
//! answer is empty, no address leaves before it is dead, and all is as before once it is healed.
use crate::clustered::{answer, answer_to};
use crate::fleet_node::Node;
use rustix::process::Signal;
use serde_json::json;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};
use test_support::etcd::Etcd;
use test_support::forward::Forward;
use test_support::operator::Operator;
use test_support::wait::{until_eq, until_true};
use wire::Rtype;

/// The policies of names of a shared zone, each with what a client beside `fra1` and one beside
/// `ams1` gets while both sites live, and while only the other site's address does.
const POLICIES: [&str; 3] = ["all", "failover", "nearest"];

/// The sites, with the last byte of their address, which is their tier for `failover`, too.
const FRA: u8 = 1;
const AMS: u8 = 2;

const CLIENTS: [(u8, [u8; 4]); 2] = [(FRA, [10, 1, 0, 9]), (AMS, [10, 2, 0, 9])];

const NETWORKS: &str = "[ecs]\ntrust = [\"127.0.0.1\"]\n\
    [[network]]\nname = \"fra\"\nprefixes = [\"10.1.0.0/16\"]\nlocation = \"eu/fra1\"\n\
    [[network]]\nname = \"ams\"\nprefixes = [\"10.2.0.0/16\"]\nlocation = \"eu/ams1\"\n";

/// Between two probes.
const INTERVAL: Duration = Duration::from_millis(500);

fn address(site: u8) -> String {
    format!("127.0.11.{site}")
}

/// What a client beside a site gets by a policy while the addresses of these sites live.
fn wanted(policy: &str, client: u8, alive: &[u8]) -> String {
    let chosen: Vec<u8> = match policy {
        "failover" => alive.iter().min().copied().into_iter().collect(),
        "nearest" if alive.contains(&client) => vec![client],
        _ => alive.to_vec(),
    };
    let records = chosen.into_iter().map(|site| format!("; A {}", address(site)));
    format!("NOERROR{}", records.collect::<String>())
}

/// A site: its etcd, its server, the wire over which it follows the other one, and its service.
struct Site {
    number: u8,
    name: &'static str,
    etcd: Etcd,
    wire: Forward,
    node: Option<Node>,
    service: Option<TcpListener>,
    port: u16,
}

impl Site {
    /// Writes the parts of its cluster, as the leader does.
    fn fill(&self) {
        let etcd = Operator::of(&self.etcd);
        for policy in POLICIES {
            let set = json!({ "name": format!("{policy}.shop.svc.example."), "type": "A",
                              "ttl": 5, "data": [address(self.number)] });
            let tier = if policy == "failover" { self.number - 1 } else { 0 };
            let location = format!("eu/{}", self.name);
            let part = json!({ "format": 1, "created": 7, "location": location, "check": "web",
                               "policy": policy, "tier": tier, "sets": [set] });
            let key = "objects/parts/services/shop";
            let key = format!("/dunlin/clusters/{}-a/{key}/{policy}", self.name);
            etcd.put(&key, part.to_string());
        }
    }

    fn serve(&mut self, other: &str) {
        let Self { name, port, .. } = self;
        let sections = format!(
            "[health]\nallow = [\"127.0.11.0/24\"]\n[check.web]\nkind = \"tcp\"\nport = {port}\n\
             interval = \"500ms\"\ntimeout = \"500ms\"\nrise = 1\n[kubernetes]\n\
             zones = [\"cluster.local\"]\ncluster = \"{name}-a\"\nlocation = \"eu/{name}\"\n\
             shared = \"svc.example\"\n{NETWORKS}[[site]]\nname = \"{other}\"\n\
             zones = [\"svc.example\"]\nendpoints = [\"http://{}\"]\n",
            self.wire.address
        );
        let roles = "roles = [\"dns\", \"api\", \"health\"]";
        let test = format!("fail-{name}");
        self.node = Some(Node::start_without_health(&test, &self.etcd, roles, &sections));
    }

    fn server(&self) -> SocketAddr {
        self.node.as_ref().expect("it serves").served.address
    }

    fn listen(&mut self) {
        let at = (address(self.number), self.port);
        self.service = Some(TcpListener::bind((at.0.as_str(), at.1)).expect("its port"));
    }

    fn end(&mut self) {
        let node = self.node.as_mut().expect("it serves");
        node.served.signal(Signal::KILL);
        node.served.status();
        self.etcd.kill(0);
    }

    fn begin(&mut self) {
        self.etcd.start(0);
        let node = self.node.take().expect("it served");
        self.node = Some(node.restarted());
    }
}

/// Whether a site's server answers all clients as it should while the addresses of these live.
fn differs(site: &Site, alive: &[u8]) -> Option<String> {
    for policy in POLICIES {
        for (client, from) in CLIENTS {
            let name = format!("{policy}.shop.svc.example");
            let found = answer_to(from, site.server(), &name, Rtype::A).unwrap_or_default();
            let wanted = wanted(policy, client, alive);
            if found != wanted {
                return Some(format!("{policy}, client {client}: {found:?}, not {wanted:?}"));
            }
        }
    }
    None
}

/// Waits until the servers of sites answer as they should. No answer until then is empty.
fn settle(what: &str, sites: &[&Site], alive: &[u8]) {
    let began = Instant::now();
    let mut left = sites.to_vec();
    until_eq(
        &format!("{what}: answers of {alive:?}"),
        || {
            left.retain(|site| {
                for policy in POLICIES {
                    let name = format!("{policy}.shop.svc.example");
                    let found = answer(site.server(), &name, Rtype::A).unwrap_or_default();
                    assert!(
                        found.contains("; A "),
                        "{what}: {policy} at {} is {found:?}",
                        site.name
                    );
                }
                let differs = differs(site, alive).is_some();
                if !differs {
                    println!(
                        "{what}: {} after {:.2?}; the goal is 5 s",
                        site.name,
                        began.elapsed()
                    );
                }
                differs
            });
            left.iter().filter_map(|site| differs(site, alive)).collect::<Vec<_>>()
        },
        Vec::<String>::new(),
    );
}

/// For some rounds of probes, servers answer as they should: nothing leaves early.
fn stay(what: &str, sites: &[&Site], alive: &[u8]) {
    let until = Instant::now() + 3 * INTERVAL;
    while Instant::now() < until {
        for site in sites {
            assert_eq!(differs(site, alive), None, "{what}: {}", site.name);
        }
    }
}

fn start() -> Option<[Site; 2]> {
    let etcds = [Etcd::start_or_skip(1)?, Etcd::start_or_skip(1)?];
    let address_of = |etcd: &Etcd| -> SocketAddr {
        let url = etcd.endpoints().remove(0);
        url.strip_prefix("http://").and_then(|text| text.parse().ok()).expect("an address")
    };
    let [fra, ams] = etcds.each_ref().map(address_of);
    // Each follows the other one.
    let wires = [Forward::to(ams), Forward::to(fra)];
    let first = TcpListener::bind((address(FRA).as_str(), 0)).expect("a port");
    let port = first.local_addr().expect("bound").port();
    let services = [Some(first), TcpListener::bind((address(AMS).as_str(), port)).ok()];
    let names = [(FRA, "fra1"), (AMS, "ams1")];
    let parts = names.into_iter().zip(etcds).zip(wires.into_iter().zip(services));
    let site = |(((number, name), etcd), (wire, service))| Site {
        number,
        name,
        etcd,
        wire,
        node: None,
        service,
        port,
    };
    let sites: Vec<Site> = parts.map(site).collect();
    let mut sites = <[Site; 2]>::try_from(sites).ok()?;
    for (site, other) in sites.iter_mut().zip(["ams1", "fra1"]) {
        site.fill();
        site.serve(other);
    }
    Some(sites)
}

#[test]
#[ignore = "slow: four failures, each for some rounds of probes"]
fn failures_of_a_site_empty_no_answer_and_take_no_address_early() {
    let Some([mut fra, ams]) = start() else { return };
    let both = [FRA, AMS];
    settle("at first", &[&fra, &ams], &both);

    // The sites do not see each other, and all addresses live.
    fra.wire.cut(true);
    ams.wire.cut(true);
    stay("cut", &[&fra, &ams], &both);
    let is_seen = |site: &Site| {
        let status = site.node.as_ref().expect("it serves").run(&["sites"], true);
        String::from_utf8_lossy(&status.stdout).contains("not followed")
    };
    until_true("the other site is away", || is_seen(&fra) && is_seen(&ams));
    stay("cut for long", &[&fra, &ams], &both);
    fra.wire.cut(false);
    ams.wire.cut(false);
    settle("healed", &[&fra, &ams], &both);

    // The service of a site dies, and comes back.
    fra.service = None;
    settle("service dead", &[&fra, &ams], &[AMS]);
    stay("service dead", &[&fra, &ams], &[AMS]);
    fra.listen();
    settle("service back", &[&fra, &ams], &both);

    // The control plane of a site is gone, and its service lives.
    fra.end();
    stay("servers and etcd gone", &[&ams], &both);
    fra.begin();
    settle("servers and etcd back", &[&fra, &ams], &both);

    // All of a site is gone.
    fra.end();
    fra.service = None;
    settle("site gone", &[&ams], &[AMS]);
    stay("site gone", &[&ams], &[AMS]);
    fra.listen();
    fra.begin();
    settle("site back", &[&fra, &ams], &both);
}
