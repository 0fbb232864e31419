//! Users of etcd with few rights, and rights that are taken away.
use super::node::{Node, eventually};
use super::states::{down, target};
use documents::{MapRequest, MapWriter, ReplicatedMap};
use etcd_client::{
    Client, ConnectOptions, GetOptions, Permission, PermissionType, RoleRevokePermissionOptions,
};
use fleet_state::EtcdMap;
use records::{Precondition, Refused};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use test_support::etcd::Etcd;
use tokio::runtime::{Builder, Runtime};

/// An etcd whose users have the roles of docs/etcd.md.
pub struct Guarded {
    pub etcd: Etcd,
    runtime: Runtime,
    root: Client,
    pub password: PathBuf,
}

impl Guarded {
    pub fn start() -> Option<Self> {
        let etcd = Etcd::start_or_skip(1)?;
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let password = etcd.folder().join("password");
        fs::write(&password, "secret\n").unwrap();
        let root = runtime.block_on(async {
            let mut root = Client::connect(etcd.endpoints(), None).await.unwrap();
            let users = ["root", "writer", "dns", "health", "kubernetes", "site", "a", "b"];
            for user in users {
                root.role_add(user).await.unwrap();
                root.user_add(user, "secret", None).await.unwrap();
                root.user_grant_role(user, user).await.unwrap();
            }
            root
        });
        let mut guarded = Self { etcd, runtime, root, password };
        guarded.grant("writer", "/dunlin/", PermissionType::Readwrite);
        for user in ["dns", "health", "kubernetes", "a", "b"] {
            guarded.grant(user, "/dunlin/", PermissionType::Read);
            guarded.grant(user, "/dunlin/members/", PermissionType::Readwrite);
            guarded.grant(user, "/dunlin/wait/", PermissionType::Readwrite);
        }
        // docs/sites.md
        let keys =
            ["format", "revision", "adopted", "moving", "commits/", "staged/", "zones/", "sets/"];
        for key in keys {
            guarded.grant("site", &format!("/dunlin/{key}"), PermissionType::Read);
        }
        guarded.grant("health", "/dunlin/states/", PermissionType::Readwrite);
        guarded.grant("kubernetes", "/dunlin/kubernetes/", PermissionType::Readwrite);
        guarded.grant("kubernetes", "/dunlin/leaders/", PermissionType::Readwrite);
        for cluster in ["a", "b"] {
            let prefix = format!("/dunlin/clusters/{cluster}/");
            guarded.grant(cluster, &prefix, PermissionType::Readwrite);
        }
        let Guarded { etcd, runtime, root, .. } = &mut guarded;
        runtime.block_on(async {
            root.auth_enable().await.unwrap();
            let options = ConnectOptions::new().with_user("root", "secret");
            *root = Client::connect(etcd.endpoints(), Some(options)).await.unwrap();
        });
        Some(guarded)
    }

    fn grant(&mut self, role: &str, prefix: &str, kind: PermissionType) {
        let permission = Permission::new(kind, prefix).with_prefix();
        self.runtime.block_on(self.root.role_grant_permission(role, permission)).unwrap();
    }

    fn revoke(&mut self, role: &str, prefix: &str) {
        let options = RoleRevokePermissionOptions::new().with_prefix();
        let revoked = self.root.role_revoke_permission(role, prefix, Some(options));
        self.runtime.block_on(revoked).unwrap();
    }

    pub fn node(&self, user: &str) -> Node {
        Node::start_as(&self.etcd, user, &self.password, &[user])
    }
}

#[test]
fn user_of_the_role_dns_follows_and_is_a_member_and_writes_no_record() {
    let Some(guarded) = Guarded::start() else { return };
    let (writer, dns) = (guarded.node("writer"), guarded.node("dns"));
    let made = writer.create("example.org.").unwrap();
    eventually(|| dns.revision() == made.revision);
    eventually(|| dns.fleet().members().wait().is_ok_and(|members| members.len() == 2));
    // It waits, and is waited for.
    let written = writer.put("a.example.org.", "192.0.2.1", Precondition::Absent).unwrap();
    assert_eq!(writer.fleet().wait(written.revision).wait(), Ok(()));
    assert_eq!(dns.fleet().wait(written.revision).wait(), Ok(()));
    match dns.put("a.example.org.", "192.0.2.9", Precondition::Anything) {
        Err(Refused::Unreachable(why)) => assert!(why.contains("permission denied"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(writer.revision(), written.revision);
}

#[test]
fn user_of_the_role_health_writes_what_it_finds_and_no_record() {
    let Some(guarded) = Guarded::start() else { return };
    let (writer, health, dns) =
        (guarded.node("writer"), guarded.node("health"), guarded.node("dns"));
    let made = writer.create("example.org.").unwrap();
    eventually(|| health.revision() == made.revision && dns.revision() == made.revision);
    let (found, seen) = (health.states(), dns.states());
    eventually(|| seen.states().vantages().len() == 1);
    eventually(|| found.states().vantages().iter().any(|vantage| vantage.is_own));
    found.states().say(&target(1), Some(&down()));
    eventually(|| seen.states().count() == 1);
    match health.put("a.example.org.", "192.0.2.9", Precondition::Anything) {
        Err(Refused::Unreachable(why)) => assert!(why.contains("permission denied"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn user_of_the_role_kubernetes_is_elected_and_writes_no_record() {
    let Some(guarded) = Guarded::start() else { return };
    let (writer, cluster, dns) =
        (guarded.node("writer"), guarded.node("kubernetes"), guarded.node("dns"));
    let made = writer.create("example.org.").unwrap();
    eventually(|| cluster.revision() == made.revision && dns.revision() == made.revision);
    let (_leading, source) = cluster.lead("kubernetes");
    source.map.set_origin(Some("the cluster 1".into()));
    source.map.set_ready(true);
    eventually(|| source.map.leader().is_own);
    // A user without the right is not elected, and says why.
    let (_refused, other) = dns.lead("kubernetes");
    other.map.set_origin(Some("the cluster 1".into()));
    other.map.set_ready(true);
    drop((_leading, source));
    drop(cluster);
    eventually(|| other.map.leader().fault.is_some_and(|why| why.contains("permission denied")));
    assert!(!other.map.leader().is_own);
}

/// A server that writes the objects of a cluster, with a user for that cluster alone.
fn writer_of(guarded: &Guarded, cluster: &str) -> (Node, EtcdMap, Arc<ReplicatedMap>) {
    let node = guarded.node(cluster);
    let (map, MapWriter { map: shared, mut requests, .. }) =
        node.lead(&format!("clusters/{cluster}"));
    std::thread::spawn(move || {
        while let Some(request) = requests.blocking_recv() {
            if let MapRequest::Values { keys, answer } = request {
                let value = |key: String| (key, Some(b"{}".to_vec()));
                let _ = answer.send(keys.into_iter().map(value).collect());
            }
        }
    });
    shared.set_origin(Some(format!("the cluster {cluster}")));
    shared.set_ready(true);
    (node, map, shared)
}

#[test]
fn stolen_credential_of_a_cluster_writes_no_key_of_another() {
    let Some(guarded) = Guarded::start() else { return };
    let (one, _one, a) = writer_of(&guarded, "a");
    let (_other, _two, b) = writer_of(&guarded, "b");
    eventually(|| a.leader().is_own && b.leader().is_own);
    a.touch(["services/shop/web".to_owned()]);
    b.touch(["services/shop/web".to_owned()]);
    // The connection of `root` lives in this runtime.
    let runtime = &guarded.runtime;
    let has = |key: &str| {
        let mut root = guarded.root.clone();
        let got = runtime.block_on(root.get(key, None)).unwrap();
        got.kvs().first().map(|kv| (kv.lease(), kv.value().to_vec()))
    };
    let objects = "/dunlin/clusters/b/objects/";
    eventually(|| has(&format!("{objects}complete")).is_some());
    eventually(|| has("/dunlin/clusters/a/objects/services/shop/web").is_some());
    let leader = "/dunlin/clusters/b/leader";
    let (lease, before) = has(leader).expect("a leader");

    // All that the credential of `a` could try.
    let options = ConnectOptions::new().with_user("a", "secret");
    let refused: Vec<Result<(), etcd_client::Error>> = runtime.block_on(async {
        let connected = Client::connect(guarded.etcd.endpoints(), Some(options)).await;
        let mut stolen = connected.unwrap();
        vec![
            stolen.put(format!("{objects}services/shop/web"), "x", None).await.map(drop),
            stolen.put(format!("{objects}services/shop/new"), "x", None).await.map(drop),
            stolen.delete(format!("{objects}complete"), None).await.map(drop),
            stolen.put(leader, "a", None).await.map(drop),
            stolen.delete(leader, None).await.map(drop),
            stolen.put(format!("{leader}/origin"), "x", None).await.map(drop),
            stolen.lease_revoke(lease).await.map(drop),
            stolen.put("/dunlin/kubernetes/services/shop/web", "x", None).await.map(drop),
        ]
    });
    for (at, result) in refused.into_iter().enumerate() {
        let why = result.expect_err(&format!("write {at}")).to_string();
        assert!(why.contains("permission denied"), "write {at}: {why}");
    }
    assert_eq!(has(leader), Some((lease, before)));
    assert!(b.leader().is_own);
    // It is not elected for the other cluster either.
    let (_refused, other) = one.lead("clusters/b");
    other.map.set_origin(Some("the cluster b".into()));
    other.map.set_ready(true);
    eventually(|| other.map.leader().name.is_some());
    assert!(b.leader().is_own && !other.map.leader().is_own);
}

/// Also the parts that it has of a shared zone.
#[test]
fn cluster_is_retired_by_a_user_who_may_write_it_and_by_no_other() {
    let Some(guarded) = Guarded::start() else { return };
    let count = |cluster: &str| {
        let (options, mut root) = (GetOptions::new().with_prefix(), guarded.root.clone());
        let got = root.get(format!("/dunlin/clusters/{cluster}/objects/"), Some(options));
        guarded.runtime.block_on(got).unwrap().count()
    };
    for cluster in ["a", "b"] {
        for key in ["services/shop/web", "parts/services/shop/web", "complete"] {
            let (key, mut root) =
                (format!("/dunlin/clusters/{cluster}/objects/{key}"), guarded.root.clone());
            guarded.runtime.block_on(root.put(key, "{}", None)).unwrap();
        }
    }
    let retire = |user: &str| {
        let node = guarded.node(user);
        eventually(|| node.fleet().members().wait().is_ok_and(|members| !members.is_empty()));
        node.fleet().retire("a").wait()
    };
    for user in ["b", "dns"] {
        match retire(user) {
            Err(Refused::Unreachable(why)) => assert!(why.contains("permission denied"), "{why}"),
            other => panic!("{user}: {other:?}"),
        }
    }
    assert_eq!((count("a"), count("b")), (3, 3));
    let part = retire("a").unwrap().unwrap();
    assert_eq!((part.services, part.objects), (1, 2));
    assert_eq!((count("a"), count("b")), (0, 3), "nothing of the other is touched");
}

#[test]
fn first_write_after_a_new_password_is_not_refused() {
    let Some(mut guarded) = Guarded::start() else { return };
    let node = guarded.node("writer");
    node.create("example.org.").unwrap();
    let changed = guarded.root.user_change_password("writer", "other");
    guarded.runtime.block_on(changed).unwrap();
    fs::write(&guarded.password, "other\n").unwrap();
    node.put("a.example.org.", "192.0.2.1", Precondition::Absent).unwrap();
}

#[test]
fn logins_that_an_operator_disables_and_enables_are_followed() {
    let Some(mut guarded) = Guarded::start() else { return };
    let node = guarded.node("writer");
    node.create("example.org.").unwrap();
    guarded.runtime.block_on(guarded.root.auth_disable()).unwrap();
    guarded.etcd.kill(0);
    guarded.etcd.start(0);
    let write = |address| node.put("a.example.org.", address, Precondition::Anything);
    eventually(|| write("192.0.2.1").is_ok());
    let fresh = guarded.node("writer");
    eventually(|| fresh.get("a.example.org.").is_some());
    guarded.runtime.block_on(async {
        let mut open = Client::connect(guarded.etcd.endpoints(), None).await.unwrap();
        open.auth_enable().await.unwrap();
    });
    write("192.0.2.2").unwrap();
}

#[test]
fn revoked_rights_stop_writes_alone_and_come_back() {
    let Some(mut guarded) = Guarded::start() else { return };
    let node = guarded.node("writer");
    node.create("example.org.").unwrap();
    node.put("a.example.org.", "192.0.2.1", Precondition::Absent).unwrap();
    guarded.revoke("writer", "/dunlin/");
    let write = |address| node.put("a.example.org.", address, Precondition::Anything);
    match write("192.0.2.2") {
        Err(Refused::Unreachable(why)) => assert!(why.contains("[etcd] user"), "{why}"),
        other => panic!("{other:?}"),
    }
    let serial = node.serial("example.org.").expect("it is served");
    assert!(node.get("a.example.org.").is_some());
    guarded.grant("writer", "/dunlin/", PermissionType::Readwrite);
    eventually(|| write("192.0.2.3").is_ok());
    eventually(|| node.serial("example.org.").is_some_and(|now| now > serial));
}
