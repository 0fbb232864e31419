//! `dunlin serve` while the API server is away, stopped, replaced, or refuses.
use crate::clustered::{answer, expect, section, serve};
use crate::served::Served;
use cluster::{Cluster, Part, objects};
use rustix::process::Signal;
use serde_json::json;
use std::net::SocketAddr;
use wire::Rtype;

const WEB: &str = "web.shop.svc.cluster.local";
/// Dunlin as the DNS of a cluster.
const MANIFEST: &str = include_str!("../../../../packaging/kubernetes/base/cluster-dns.yaml");
const KNOWN: &str = "NOERROR; A 10.96.7.7";

fn fill(cluster: &Cluster) {
    cluster.create(&objects::namespace("shop"));
    let ip = json!({ "clusterIP": "10.96.7.7" });
    cluster.create(&objects::service("shop", "web", &[("http", "TCP", 80)], ip));
}

/// Each of many queries gets the known answer.
fn check_known(server: SocketAddr, while_what: &str) {
    for _ in 0..200 {
        assert_eq!(answer(server, WEB, Rtype::A).as_deref(), Some(KNOWN), "{while_what}");
    }
}

/// A service with this last byte of its address, and its name.
fn add(cluster: &Cluster, name: &str, last: u8) -> String {
    let ip = json!({ "clusterIP": format!("10.96.7.{last}") });
    cluster.create(&objects::service("shop", name, &[("http", "TCP", 80)], ip));
    format!("{name}.shop.svc.cluster.local")
}

#[test]
#[ignore = "cluster: it starts an API server"]
fn known_names_are_answered_whatever_happens_to_the_api_server() {
    let Some(mut cluster) = Cluster::start_or_skip() else { return };
    fill(&cluster);
    let served = serve("kubernetes-faults", &cluster, "");
    let server = served.address;
    check_known(server, "all is well");

    cluster.pause(Part::ApiServer);
    check_known(server, "the API server is stopped");
    cluster.resume(Part::ApiServer);
    let name = add(&cluster, "one", 1);
    expect(server, &name, Rtype::A, "NOERROR; A 10.96.7.1");

    cluster.kill(Part::ApiServer);
    check_known(server, "the API server is dead");
    cluster.start_part(Part::ApiServer).expect("it starts");
    let name = add(&cluster, "two", 2);
    expect(server, &name, Rtype::A, "NOERROR; A 10.96.7.2");

    // Objects deleted without a watch, and whose revision is compacted, are gone after a list.
    cluster.kill(Part::ApiServer);
    cluster.start_part(Part::ApiServer).expect("it starts");
    cluster.delete(&objects::service("shop", "two", &[], json!({})));
    cluster.compact();
    expect(server, &name, Rtype::A, "NXDOMAIN");
    check_known(server, "it is listed again");

    // An empty cluster in place of the old one.
    cluster.kill(Part::ApiServer);
    cluster.kill(Part::Etcd);
    cluster.empty_etcd();
    check_known(server, "the cluster is gone");
    cluster.start_part(Part::Etcd).expect("it starts");
    cluster.start_part(Part::ApiServer).expect("it starts");
    expect(server, WEB, Rtype::A, "NXDOMAIN");
}

#[test]
#[ignore = "cluster: it starts an API server"]
fn a_restart_without_the_api_server_serves_the_saved_state() {
    let Some(mut cluster) = Cluster::start_or_skip() else { return };
    fill(&cluster);
    let mut served = serve("kubernetes-saved", &cluster, "");
    check_known(served.address, "all is well");
    served.end();
    cluster.kill(Part::ApiServer);
    // Another folder, so that nothing else of the first start is there.
    let state = served.folder.join("data/kubernetes.state");
    let kept = std::fs::read(&state).expect("a saved state");
    let folder = served.folder.parent().expect("a folder").join("kubernetes-saved-again");
    let _ = std::fs::remove_dir_all(&folder);
    let data = folder.with_extension("data");
    std::fs::create_dir_all(&data).expect("a folder");
    std::fs::write(data.join("kubernetes.state"), &kept).expect("written");
    let keys = format!("data_dir = \"{}\"\n", data.display());
    let config = keys + &section(&cluster.kubeconfig(), "");
    let again = Served::start_by(&mut crate::served::binary(), &folder, &config, &[]);
    check_known(again.address, "only the saved state is there");
    drop(again);

    // A state with one wrong bit is refused as a whole, and left as it is.
    let mut wrong = kept.clone();
    let middle = wrong.len() / 2;
    wrong[middle] ^= 1;
    std::fs::write(data.join("kubernetes.state"), &wrong).expect("written");
    let refused = Served::start_by(&mut crate::served::binary(), &folder, &config, &[]);
    assert_eq!(answer(refused.address, WEB, Rtype::A).as_deref(), Some("SERVFAIL"));
    assert!(refused.start.iter().any(|line| line.contains("cut off or damaged")));
    drop(refused);
    assert!(std::fs::read(data.join("kubernetes.state")).expect("there") == wrong);
    cluster.start_part(Part::ApiServer).expect("it starts");
}

#[test]
#[ignore = "cluster: it starts an API server"]
fn a_service_account_with_a_verb_less_is_told_which() {
    let Some(cluster) = Cluster::start_or_skip() else { return };
    fill(&cluster);
    // What is applied is what is packaged. The address of the service is taken here.
    cluster.kubectl(&["apply", "--dry-run=server", "-f", "-"], MANIFEST).expect("it is valid");
    cluster.kubectl(&["apply", "-f", "-"], MANIFEST).expect("it is applied");
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/dunlin-dns";
    let whole = cluster.get(path).expect("a role");
    let mut lacking = whole["rules"].clone();
    lacking[1]["verbs"] = json!(["list"]);
    cluster.patch(path, &json!({ "rules": lacking }));
    let kubeconfig = cluster.kubeconfig_of("kube-system", "dunlin-dns", 600).expect("a token");
    let mut served = Served::start("kubernetes-rbac", &section(&kubeconfig, ""), &[]);
    assert_eq!(answer(served.address, WEB, Rtype::A).as_deref(), Some("SERVFAIL"));
    let told = "the verb `watch` on `endpointslices.discovery.k8s.io`";
    let was_told = served.start.iter().any(|line| line.contains(told));
    if !was_told {
        served.expect_line(told, "Kubernetes");
    }
    cluster.patch(path, &json!({ "rules": whole["rules"] }));
    expect(served.address, WEB, Rtype::A, KNOWN);
    served.signal(Signal::TERM);
    assert_eq!(served.status(), Some(0));
}

#[test]
#[ignore = "cluster: it starts an API server"]
fn a_list_that_lost_most_names_is_held() {
    let Some(mut cluster) = Cluster::start_or_skip() else { return };
    fill(&cluster);
    for last in 100..160 {
        add(&cluster, &format!("many-{last}"), last);
    }
    let served = serve("kubernetes-hold", &cluster, "hold_time = \"20s\"");
    let many = "many-150.shop.svc.cluster.local";
    assert_eq!(answer(served.address, many, Rtype::A).as_deref(), Some("NOERROR; A 10.96.7.150"));
    cluster.kill(Part::ApiServer);
    cluster.kill(Part::Etcd);
    cluster.empty_etcd();
    cluster.start_part(Part::Etcd).expect("it starts");
    cluster.start_part(Part::ApiServer).expect("it starts");
    served.expect_line("content held", "cluster.local");
    assert_eq!(answer(served.address, many, Rtype::A).as_deref(), Some("NOERROR; A 10.96.7.150"));
    // After `hold_time` the list is believed.
    expect(served.address, many, Rtype::A, "NXDOMAIN");
}
