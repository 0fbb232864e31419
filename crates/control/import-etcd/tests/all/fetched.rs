//! Keys as they are read from a real etcd.
use etcd_client::{Client, PutOptions};
use import_etcd::{Source, fetch};
use test_support::etcd::Etcd;

const KEYS: usize = 1_500;

#[test]
fn keys_are_read_in_pages_with_their_leases() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut client = Client::connect(etcd.endpoints(), None).await.expect("etcd");
        for number in 0..KEYS {
            let key = format!("/skydns/local/skydns/{number}");
            client.put(key, "{}", None).await.expect("put");
        }
        let lease = client.lease_grant(600, None).await.expect("a lease").id();
        let leased = Some(PutOptions::new().with_lease(lease));
        client.put("/skydns/local/skydns/leased", "{}", leased).await.expect("put");
        client.put("/skydns2/local/skydns/other", "{}", None).await.expect("put");
    });
    let source = Source { endpoints: etcd.endpoints(), ..Source::default() };
    let entries = fetch(&source, "/skydns/").expect("read");
    assert_eq!(entries.len(), KEYS + 1);
    assert!(entries.is_sorted_by_key(|entry| entry.key.clone()));
    let leased: Vec<_> = entries.iter().filter(|entry| entry.lease_seconds.is_some()).collect();
    assert_eq!(leased.len(), 1);
    assert!(leased[0].lease_seconds > Some(500) && leased[0].key.ends_with("/leased"));
    drop(etcd);
    let gone = fetch(&source, "skydns").expect_err("etcd has ended");
    assert!(gone.contains("etcd at http://127.0.0.1:"), "{gone}");
}
