//! Zones of another site: a read-only copy of what its etcd has.
use super::node::{Node, address, eventually, name};
use super::rights::Guarded;
use compile::Image;
use image::HashKey;
use keyspace::EtcdSettings;
use records::{
    Batch, Edit, KnownViews, Mirror, Precondition, RecordService, ServiceThreads, SetValue,
    StoreSource, WriteContext, WriteDelay,
};
use std::path::PathBuf;
use std::sync::Arc;
use store_etcd::EtcdMirror;
use store_redb::RedbStore;
use test_support::etcd::Etcd;
use test_support::folder::Folder;
use wire::Rtype;
use zone_manager::{PublisherThread, ZoneOwner, ZonePublisher};

/// A server that serves zones of the site `b`.
struct OtherSite {
    folder: Folder,
    settings: EtcdSettings,
    zones: Vec<&'static str>,
    publisher: ZonePublisher,
    running: Option<(RecordService, ServiceThreads, Arc<EtcdMirror>)>,
    _publishing: PublisherThread,
}

fn publisher() -> (ZonePublisher, PublisherThread) {
    let key = HashKey::new(std::array::from_fn(|n| n as u64 * 77 + 5));
    ZonePublisher::start(Image::new(Arc::new(key))).unwrap()
}

impl OtherSite {
    fn start(etcd: &Etcd, zones: &[&'static str]) -> Self {
        Self::start_as(etcd, None, zones)
    }

    fn start_as(etcd: &Etcd, user: Option<(String, PathBuf)>, zones: &[&'static str]) -> Self {
        let mut site = Self::stopped(etcd, user, zones);
        site.begin();
        site
    }

    fn stopped(etcd: &Etcd, user: Option<(String, PathBuf)>, zones: &[&'static str]) -> Self {
        let (endpoints, prefix) = (etcd.endpoints(), "/dunlin/".to_owned());
        let site = Some("b".to_owned());
        let settings = EtcdSettings { endpoints, prefix, user, site, ..EtcdSettings::default() };
        let (publisher, publishing) = publisher();
        let (folder, zones) = (Folder::new("other-site"), zones.to_vec());
        Self { folder, settings, zones, publisher, running: None, _publishing: publishing }
    }

    /// Starts as a new process.
    fn restart(&mut self) {
        self.running = None;
        (self.publisher, self._publishing) = publisher();
        self.begin();
    }

    fn begin(&mut self) {
        let opened = store_etcd::open_mirror(&self.folder.join("sites"), self.settings.clone());
        let (store, mirror) = opened.unwrap();
        let zones = self.zones.iter().map(|zone| name(zone)).collect();
        let (delay, location) = (Arc::<WriteDelay>::default(), Some("b".to_owned()));
        let of_site = Mirror { site: "b".into(), zones, location, delay };
        let (fleet, list) = (None, None);
        let mirrored = Some(of_site);
        let (service, threads) = self
            .publisher
            .start_source(StoreSource {
                store,
                fleet,
                waits: false,
                list,
                may_write: false,
                mirror: mirrored,
                views: KnownViews::default(),
            })
            .unwrap();
        self.running = Some((service, threads, mirror));
    }

    fn service(&self) -> &RecordService {
        &self.running.as_ref().unwrap().0
    }

    fn mirror(&self) -> &EtcdMirror {
        &self.running.as_ref().unwrap().2
    }

    /// The served serial; `None`: the zone is not served, or never loaded.
    fn serial(&self, zone: &str) -> Option<u32> {
        self.publisher.image().zone(name(zone).as_name())?.serial()
    }

    fn answers(&self, at: &str) -> bool {
        let image = self.publisher.image();
        let zone = image.zone(name("example.org.").as_name());
        zone.is_some_and(|zone| zone.set(name(at).as_name(), Rtype::A).is_some())
    }

    /// Waits until it serves what the home does.
    fn agrees_with(&self, home: &Node) {
        eventually(|| {
            let serial = home.serial("example.org.");
            serial.is_some() && self.serial("example.org.") == serial
        });
    }

    fn fault(&self) -> String {
        self.mirror().status().fault.unwrap_or_default()
    }
}

/// A home with the zone example.org. and a name.
fn home(etcd: &Etcd) -> Node {
    let home = Node::start(etcd);
    home.create("example.org.").unwrap();
    home.put("a.example.org.", "192.0.2.1", Precondition::Absent).unwrap();
    home
}

#[test]
fn user_who_may_only_read_serves_zones_as_their_home_does() {
    let Some(guarded) = Guarded::start() else { return };
    let home = guarded.node("writer");
    home.create("example.org.").unwrap();
    home.create("other.example.").unwrap();
    let user = Some(("site".to_owned(), guarded.password.clone()));
    let site = OtherSite::start_as(&guarded.etcd, user, &["example.org."]);
    site.agrees_with(&home);
    home.put_many(2_000, "192.0.2.9").unwrap();
    let written = home.put("a.example.org.", "192.0.2.1", Precondition::Absent).unwrap();
    eventually(|| site.answers("a.example.org.") && home.answers("a.example.org."));
    site.agrees_with(&home);
    let exported = |service: &RecordService| {
        let mut sets = Vec::new();
        let each = &mut |_, set: records::StoredSet| {
            sets.push(format!("{:?} {:?} {:?}", set.key, set.revision, set.value));
            std::ops::ControlFlow::Continue(())
        };
        service.export(name("example.org.").as_name(), each).unwrap();
        sets
    };
    assert_eq!(exported(site.service()), exported(home.service()), "sets and revisions");
    assert_eq!(site.service().revision().unwrap(), written.revision);
    let status = site.mirror().status();
    let contact = status.contact_seconds;
    assert!(status.is_following && status.bytes > 2_000 && contact.is_some(), "{status:?}");
    assert_eq!((status.home_revision, status.fault), (written.revision.0, None));
    assert!(site.mirror().space().is_some_and(|space| space.bytes > 0));
    assert_eq!(home.fleet().members().wait().unwrap().len(), 1, "it is no member");
    assert_eq!(site.publisher.catalog().owner(name("other.example.").as_name()), None);
    let refused = site.service().delete_zone(name("example.org."), WriteContext::by("a test"));
    assert_eq!(refused.wait().unwrap_err(), records::Refused::ReadOnly);
}

#[test]
fn zones_are_answered_while_the_site_is_away_and_after_a_start_without_it() {
    let Some(mut etcd) = Etcd::start_or_skip(1) else { return };
    let home = home(&etcd);
    let mut site = OtherSite::start(&etcd, &["example.org."]);
    eventually(|| site.answers("a.example.org."));
    site.agrees_with(&home);
    etcd.kill(0);
    let serial = site.serial("example.org.");
    eventually(|| site.mirror().status().fault.is_some());
    assert!(site.answers("a.example.org.") && site.serial("example.org.") == serial);
    site.restart();
    // The store of before may be closed by a thread that ends a little later.
    eventually(|| site.answers("a.example.org."));
    assert_eq!(site.serial("example.org."), serial);
    let bare = OtherSite::start(&etcd, &["example.org."]);
    let image = bare.publisher.image();
    let unloaded = image.zone(name("example.org.").as_name()).expect("it answers SERVFAIL");
    assert_eq!(unloaded.serial(), None, "a site that was never reached");
    etcd.start(0);
    eventually(|| home.put("b.example.org.", "192.0.2.2", Precondition::Anything).is_ok());
    eventually(|| site.answers("b.example.org.") && bare.answers("b.example.org."));
}

#[test]
fn older_etcd_of_a_site_is_held_until_it_is_adopted_there() {
    let Some(mut etcd) = Etcd::start_or_skip(1) else { return };
    let mut home = home(&etcd);
    let site = OtherSite::start(&etcd, &["example.org."]);
    site.agrees_with(&home);
    etcd.kill(0);
    let saved = etcd.save(0);
    etcd.start(0);
    eventually(|| home.put("b.example.org.", "192.0.2.2", Precondition::Anything).is_ok());
    eventually(|| site.answers("b.example.org.") && home.answers("b.example.org."));
    site.agrees_with(&home);
    let serial = site.serial("example.org.");
    home.stop();
    etcd.kill(0);
    etcd.load(0, &saved);
    etcd.start(0);
    eventually(|| site.fault().contains("`dunlin sites accept b`"));
    assert!(site.answers("b.example.org.") && site.serial("example.org.") == serial);
    let accepted = site.service().adopt().wait();
    assert!(accepted.is_err(), "an older one would lower the serial: {accepted:?}");
    home.restart();
    eventually(|| home.service().adopt().wait().is_ok());
    eventually(|| site.serial("example.org.") > serial);
    site.agrees_with(&home);
    eventually(|| site.fault().is_empty());
}

#[test]
fn emptied_etcd_of_a_site_loses_no_name_and_another_one_is_accepted_by_hand() {
    let Some(mut etcd) = Etcd::start_or_skip(1) else { return };
    let first = home(&etcd);
    let site = OtherSite::start(&etcd, &["example.org."]);
    site.agrees_with(&first);
    drop(first);
    etcd.kill(0);
    etcd.empty(0);
    etcd.start(0);
    // A new cluster has a random ID only with other members: this one has lost its history.
    eventually(|| site.fault().contains("`dunlin sites accept b`"));
    assert!(site.answers("a.example.org."));
    let again = Node::start(&etcd);
    again.create("example.org.").unwrap();
    for n in 0..20 {
        again.put(&format!("c{n}.example.org."), "192.0.2.3", Precondition::Absent).unwrap();
    }
    assert!(site.answers("a.example.org.") && !site.answers("c0.example.org."));
    eventually(|| site.service().adopt().wait().is_ok());
    eventually(|| site.answers("c19.example.org.") && !site.answers("a.example.org."));
}

#[test]
fn zone_with_two_homes_is_refused_at_the_second() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let home = home(&etcd);
    let mut site = OtherSite::stopped(&etcd, None, &["example.org."]);
    let folder = Folder::new("own-store");
    let own = Box::new(RedbStore::open(&folder.join("redb"), false).unwrap());
    let (service, _threads) = RecordService::start(&site.publisher, own).unwrap();
    let origin = name("example.org.");
    let ns = SetValue::new(60, vec![name("ns.example.").as_name().as_bytes().into()]);
    let batch = || {
        let www = Edit::put(name("own.example.org."), Rtype::A, address("192.0.2.7"));
        let edits = vec![Edit::put(origin.clone(), Rtype::NS, ns.clone()), www];
        Batch { zone: origin.clone(), edits, context: WriteContext::by("a test") }
    };
    service.create_zone(batch()).wait().unwrap();
    site.begin();
    eventually(|| site.service().revision().is_ok_and(|now| now == home.revision()));
    let owner = || site.publisher.catalog().owner(origin.as_name());
    assert_eq!(owner(), Some(ZoneOwner::Store));
    assert!(site.answers("own.example.org.") && !site.answers("a.example.org."));
    service.delete_zone(origin.clone(), WriteContext::by("a test")).wait().unwrap();
    site.service().settle().wait().unwrap();
    eventually(|| site.answers("a.example.org."));
    let refused = service.create_zone(batch()).wait().expect_err("it has a home");
    assert!(format!("{refused:?}").contains("site b"), "{refused:?}");
}
