//! ServiceExports of two clusters in one fleet, without a controller, beside two real API servers.
use crate::clustered::{answer, expect, section};
use crate::fleet_node::Node;
use cluster::{Cluster, objects};
use serde_json::{Value, json};
use test_support::etcd::Etcd;
use wire::Rtype;

const GROUP: &str = "multicluster.x-k8s.io";
const WEB: &str = "web.shop.svc.clusterset.local";
const HTTP: [(&str, &str, u16); 1] = [("http", "TCP", 80)];

fn keys(name: &str, location: &str) -> String {
    format!(
        "cluster = \"{name}\"\nlocation = \"{location}\"\n\
         multicluster_zones = [\"clusterset.local\"]\nexports = true\n"
    )
}

fn object(kind: &str, version: &str, spec: Value) -> Value {
    json!({ "apiVersion": format!("{GROUP}/{version}"), "kind": kind,
            "metadata": { "namespace": "shop", "name": "web" }, "spec": spec })
}

fn slice(net: u8, endpoints: &[u8]) -> Value {
    let endpoints: Vec<Value> =
        endpoints.iter().map(|last| objects::endpoint(&format!("10.{net}.7.{last}"))).collect();
    objects::slice("shop", "web-1", "web", &HTTP, &endpoints)
}

#[test]
#[ignore = "cluster: it starts an API server"]
fn exported_service_of_two_clusters_has_one_name_and_an_import_wins() {
    let Some(one) = Cluster::start_or_skip() else { return };
    let Some(two) = Cluster::start_or_skip() else { return };
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    // One cluster has only the newer version, the other one both.
    let clusters = [
        (&one, "fra1-a", "eu/fra1", 1, &["v1beta1"][..]),
        (&two, "ams1-a", "eu/ams1", 2, &["v1alpha1", "v1beta1"]),
    ];
    let nodes = clusters.map(|(cluster, name, location, net, versions)| {
        cluster.define(GROUP, "ServiceExport", "serviceexports", versions);
        cluster.define(GROUP, "ServiceImport", "serviceimports", versions);
        cluster.create(&objects::namespace("shop"));
        // Its endpoints are needed only once it is exported.
        cluster.create(&objects::service("shop", "web", &HTTP, json!({})));
        cluster.create(&slice(net, &[1, 2]));
        let watching = section(&cluster.kubeconfig(), &keys(name, location));
        let roles = "roles = [\"kubernetes\"]";
        let writer = Node::start_with(&format!("ke-w-{name}"), &etcd, roles, &watching);
        let follows =
            format!("[kubernetes]\nzones = [\"cluster.local\"]\n{}", keys(name, location));
        let roles = "roles = [\"dns\", \"api\"]";
        (writer, Node::start_with(&format!("ke-d-{name}"), &etcd, roles, &follows))
    });
    let servers = nodes.each_ref().map(|(_, dns)| dns.served.address);
    for server in servers {
        expect(server, "clusterset.local", Rtype::NS, "NOERROR; NS ns.dns.clusterset.local.");
        expect(server, "shop.svc.clusterset.local", Rtype::A, "NOERROR");
        assert_eq!(answer(server, WEB, Rtype::A).as_deref(), Some("NXDOMAIN"));
    }
    for (cluster, _, _, _, versions) in clusters {
        cluster.create(&object("ServiceExport", versions[0], json!({})));
    }
    let all = "NOERROR; A 10.1.7.1; A 10.1.7.2; A 10.2.7.1; A 10.2.7.2";
    for server in servers {
        expect(server, WEB, Rtype::A, all);
        let srv = format!("NOERROR; SRV 80 {WEB}.");
        expect(server, &format!("_http._tcp.{WEB}"), Rtype::SRV, &srv);
        expect(server, "dns-version.clusterset.local", Rtype::TXT, "NOERROR; TXT 1.0.0");
        expect(server, "shop.svc.clusterset.local", Rtype::A, "NOERROR");
        // KEP-1645: no name of one cluster.
        let of_cluster = answer(server, &format!("fra1-a.{WEB}"), Rtype::A);
        assert_eq!(of_cluster.as_deref(), Some("NXDOMAIN"));
    }
    // The endpoints of one cluster end, and come back.
    one.replace(&slice(1, &[]));
    servers.iter().for_each(|s| expect(*s, WEB, Rtype::A, "NOERROR; A 10.2.7.1; A 10.2.7.2"));
    one.replace(&slice(1, &[1, 2]));
    servers.iter().for_each(|server| expect(*server, WEB, Rtype::A, all));
    // A controller imports it into one of them.
    let ports = json!([{ "name": "http", "protocol": "TCP", "port": 80 }]);
    let import = object(
        "ServiceImport",
        "v1beta1",
        json!({ "type": "ClusterSetIP", "ips": ["10.200.0.1"], "ports": ports }),
    );
    one.create(&import);
    expect(servers[0], WEB, Rtype::A, "NOERROR; A 10.200.0.1");
    expect(servers[1], WEB, Rtype::A, all);
    one.delete(&import);
    expect(servers[0], WEB, Rtype::A, all);
    // An export that is taken back.
    two.delete(&object("ServiceExport", "v1alpha1", json!({})));
    servers.iter().for_each(|s| expect(*s, WEB, Rtype::A, "NOERROR; A 10.1.7.1; A 10.1.7.2"));
}
