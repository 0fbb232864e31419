//! A server of a fleet, without DNS: its record service.
use compile::Image;
use documents::{MapEvent, MapWriter};
use fleet_state::{EtcdMap, EtcdStates};
use image::HashKey;
use keyspace::{EtcdLink, EtcdSettings};
use records::{
    Batch, Edit, Fleet, Form, KnownViews, Precondition, RecordService, Refused, Revision,
    ServiceThreads, SetKey, SetValue, SnapshotSource, StoreSource, View, WriteContext, WriteResult,
};
use server_status::Member;
use std::collections::BTreeSet;
use std::fs;
use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use store::snapshot::{self, SnapshotItem, SnapshotWriter};
use store_redb::RedbStore;
use test_support::etcd::Etcd;
use test_support::wait;
use tokio::sync::mpsc;
use wire::{Name, NameBuf, Rtype};
use zone_manager::{PublisherThread, ZonePublisher};

/// Waits until something is so.
#[track_caller]
pub fn eventually(is_so: impl Fn() -> bool) {
    wait::until_true("what this line says", is_so);
}

pub fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
}

pub fn address(text: &str) -> SetValue {
    let address: std::net::Ipv4Addr = text.parse().unwrap();
    SetValue::new(60, vec![address.octets().into()])
}

/// The folder of a server of a process.
pub fn folder(process: u32, number: u32) -> PathBuf {
    std::env::temp_dir().join(format!("dunlin-node-{process}-{number}"))
}

pub struct Node {
    folder: PathBuf,
    settings: EtcdSettings,
    running: Option<Running>,
}

struct Running {
    service: RecordService,
    publisher: ZonePublisher,
    // Ends first.
    _serving: ServiceThreads,
    _publishing: PublisherThread,
}

/// The settings of a server that may write.
fn settings(endpoints: Vec<String>, name: String) -> EtcdSettings {
    let member = Member { name, ..Member::default() };
    let prefix = "/dunlin/".to_owned();
    EtcdSettings { endpoints, prefix, member, may_write: true, ..EtcdSettings::default() }
}

impl Running {
    fn start(folder: &Path, settings: EtcdSettings) -> Self {
        let key = HashKey::new(std::array::from_fn(|n| n as u64 * 77 + 5));
        let (publisher, publishing) = ZonePublisher::start(Image::new(Arc::new(key))).unwrap();
        let may_write = settings.may_write;
        let (store, fleet) = store_etcd::open(folder, settings).unwrap();
        let fleet = Some(fleet);
        // A process that another test starts has our files, and their locks, for a moment.
        let list = Some(folder.join("zones"));
        let opening = StoreSource {
            store,
            fleet,
            waits: true,
            list,
            may_write,
            mirror: None,
            views: KnownViews::default(),
        };
        let started = publisher.start_source(opening);
        let (service, serving) = started.unwrap();
        Self { service, publisher, _serving: serving, _publishing: publishing }
    }
}

impl Node {
    pub fn start(etcd: &Etcd) -> Self {
        Self::start_on(etcd.endpoints())
    }

    pub fn start_on(endpoints: Vec<String>) -> Self {
        Self::start_with(settings(endpoints, String::new()))
    }

    /// A server with this data folder.
    pub fn start_in(etcd: &Etcd, folder: &Path) -> Self {
        let settings = settings(etcd.endpoints(), "small".to_owned());
        let (folder, running) = (folder.to_owned(), None);
        let mut node = Self { folder, settings, running };
        node.restart();
        node
    }

    /// A server of this name.
    pub fn start_named(etcd: &Etcd, name: &str) -> Self {
        Self::start_with(settings(etcd.endpoints(), name.to_owned()))
    }

    /// A server that writes nothing.
    pub fn start_reader(etcd: &Etcd) -> Self {
        let settings = settings(etcd.endpoints(), String::new());
        Self::start_with(EtcdSettings { may_write: false, ..settings })
    }

    /// A server that probes, and writes no record.
    pub fn start_prober(etcd: &Etcd, name: &str) -> Self {
        let mut settings = settings(etcd.endpoints(), name.to_owned());
        settings.member.roles = vec!["health".into()];
        Self::start_with(EtcdSettings { may_write: false, ..settings })
    }

    /// What it and the others find out about health.
    pub fn states(&self) -> EtcdStates {
        let link = EtcdLink::start(self.settings.clone()).unwrap();
        EtcdStates::start(&link, &self.folder)
    }

    /// It takes part in the elections of the server that writes a map.
    pub fn lead(&self, map: &str) -> (EtcdMap, MapWriter) {
        let link = EtcdLink::start(self.settings.clone()).unwrap();
        EtcdMap::lead(&link, &self.folder, map)
    }

    /// It follows a map.
    pub fn follow(&self, map: &str) -> (EtcdMap, mpsc::Receiver<MapEvent>) {
        let link = EtcdLink::start(self.settings.clone()).unwrap();
        EtcdMap::follow(&link, &self.folder, map)
    }

    /// Starts it again on another etcd.
    pub fn move_to(&mut self, etcd: &Etcd) {
        self.stop();
        self.settings.endpoints = etcd.endpoints();
        self.restart();
    }

    /// A server with these roles that is this user of etcd.
    pub fn start_as(etcd: &Etcd, user: &str, password: &Path, roles: &[&str]) -> Self {
        let user = Some((user.to_owned(), password.to_owned()));
        let mut settings = settings(etcd.endpoints(), String::new());
        settings.member.roles = roles.iter().map(|&role| role.to_owned()).collect();
        Self::start_with(EtcdSettings { user, ..settings })
    }

    fn start_with(mut settings: EtcdSettings) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = folder(std::process::id(), number);
        // A killed process with this number may have left one.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        if settings.member.name.is_empty() {
            settings.member.name = format!("node-{}-{number}", std::process::id());
        }
        let running = Some(Running::start(&folder, settings.clone()));
        Self { folder, settings, running }
    }

    pub fn stop(&mut self) {
        self.running = None;
    }

    pub fn restart(&mut self) {
        self.running = Some(Running::start(&self.folder, self.settings.clone()));
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("it runs")
    }

    pub fn service(&self) -> &RecordService {
        &self.running().service
    }

    pub fn fleet(&self) -> &dyn Fleet {
        self.service().fleet().expect("a fleet")
    }

    pub fn revision(&self) -> Revision {
        self.service().revision().unwrap_or(Revision::NONE)
    }

    pub fn create(&self, zone: &str) -> Result<WriteResult, Refused> {
        let server = name("ns.example.");
        let ns = SetValue::new(60, vec![server.as_name().as_bytes().into()]);
        let edits = vec![Edit::put(name(zone), Rtype::NS, ns)];
        let context = WriteContext::by("a test");
        self.service().create_zone(Batch { zone: name(zone), edits, context }).wait()
    }

    pub fn delete(&self, zone: &str) -> Result<WriteResult, Refused> {
        self.service().delete_zone(name(zone), WriteContext::by("a test")).wait()
    }

    pub fn write(&self, zone: &str, edits: Vec<Edit>) -> Result<WriteResult, Refused> {
        let context = WriteContext::by("a test");
        self.service().write(Batch { zone: name(zone), edits, context }).wait()
    }

    pub fn put(&self, at: &str, text: &str, expect: Precondition) -> Result<WriteResult, Refused> {
        let edit = Edit { expect, ..Edit::put(name(at), Rtype::A, address(text)) };
        self.write("example.org.", vec![edit])
    }

    pub fn put_text(
        &self,
        at: &str,
        text: &str,
        expect: Precondition,
    ) -> Result<WriteResult, Refused> {
        let data = [&[text.len() as u8], text.as_bytes()].concat();
        let value = SetValue::new(60, vec![data.into()]);
        let edit = Edit { expect, ..Edit::put(name(at), Rtype::TXT, value) };
        self.write("example.org.", vec![edit])
    }

    fn set(&self, at: &str, rtype: Rtype) -> Option<(Revision, SetValue)> {
        let zone = name("example.org.");
        let key = SetKey { zone, name: name(at), rtype, view: View::DEFAULT };
        let set = match self.service().set(&key) {
            Err(Refused::NoSuchZone) => None,
            set => set.unwrap(),
        }?;
        Some((set.revision, set.value))
    }

    pub fn get(&self, at: &str) -> Option<(Revision, SetValue)> {
        self.set(at, Rtype::A)
    }

    pub fn get_text(&self, at: &str) -> Option<(Revision, String)> {
        let (revision, value) = self.set(at, Rtype::TXT)?;
        Some((revision, String::from_utf8_lossy(&value.data[0][1..]).into_owned()))
    }

    /// The served serial.
    pub fn serial(&self, zone: &str) -> Option<u32> {
        self.running().publisher.image().zone(name(zone).as_name())?.serial()
    }

    /// Whether a zone is answered, be it by SERVFAIL.
    pub fn holds_zone(&self, zone: &str) -> bool {
        self.running().publisher.image().zone(name(zone).as_name()).is_some()
    }

    /// Writes the SOA of a zone again with another time.
    pub fn raise_serial(&self, zone: &str) -> Result<WriteResult, Refused> {
        let of_zone = name(zone);
        let key = SetKey {
            zone: of_zone.clone(),
            name: of_zone.clone(),
            rtype: Rtype::SOA,
            view: View::DEFAULT,
        };
        let (_, mut soa) =
            self.service().set(&key).unwrap().map(|set| (set.revision, set.value)).unwrap();
        soa.ttl += 1;
        self.write(zone, vec![Edit::put(of_zone, Rtype::SOA, soa)])
    }

    /// Whether the served zone has a name.
    pub fn answers(&self, at: &str) -> bool {
        let image = self.running().publisher.image();
        let zone = image.zone(name("example.org.").as_name());
        zone.is_some_and(|zone| zone.set(name(at).as_name(), Rtype::A).is_some())
    }

    /// All content.
    pub fn export(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.service().snapshot(&mut bytes).unwrap();
        bytes
    }

    pub fn restore(&self, content: Vec<u8>) -> Result<WriteResult, Refused> {
        self.restore_from(Box::new(Cursor::new(content)))
    }

    pub fn restore_from(&self, from: Box<dyn SnapshotSource>) -> Result<WriteResult, Refused> {
        self.service().restore(from, WriteContext::by("a test")).wait()
    }

    /// The distinct addresses of all A sets at one moment.
    pub fn addresses(&self, zone: &str) -> BTreeSet<Vec<u8>> {
        let mut found = BTreeSet::new();
        let exported = self.service().export(name(zone).as_name(), &mut |_, set| {
            if set.key.rtype == Rtype::A {
                found.insert(set.value.data[0].to_vec());
            }
            ControlFlow::Continue(())
        });
        exported.unwrap();
        found
    }

    /// Gives 2,000 names of example.org this address, at once.
    pub fn put_all(&self, text: &str) -> Result<WriteResult, Refused> {
        self.put_many(2_000, text)
    }

    /// Gives this many names of example.org this address, at once.
    pub fn put_many(&self, names: u32, text: &str) -> Result<WriteResult, Refused> {
        let at = |n| name(&format!("n{n}.example.org."));
        let edit = |n| Edit::put(at(n), Rtype::A, address(text));
        self.write("example.org.", (0..names).map(edit).collect())
    }

    /// Writes eight sets of TXT records below a name, in one commit of some hundred KiB.
    pub fn put_large(&self, at: &str, seed: u8) -> Result<WriteResult, Refused> {
        let record = |n: u8| {
            let text = [&[255][..], &[b'a' + seed; 254], &[b'!' + n]].concat();
            Box::from(text.repeat(2))
        };
        let value = SetValue::new(60, (0..90).map(record).collect());
        let at = |n| name(&format!("x{n}.{at}"));
        let edits = (0..8).map(|n| Edit::put(at(n), Rtype::TXT, value.clone()));
        self.write("example.org.", edits.collect())
    }

    /// Flips bits of the replica.
    pub fn damage(&self) {
        let file = self.folder.join("replica/records.redb");
        let mut bytes = fs::read(&file).unwrap();
        let half = bytes.len() / 2;
        bytes[512..half].iter_mut().for_each(|byte| *byte ^= 0x55);
        fs::write(&file, bytes).unwrap();
    }

    /// Replaces bytes in sets of the replica, as if it had always had the others, and starts it
    /// again.
    pub fn alter(&mut self, from: &[u8], to: &[u8]) {
        let content = self.export();
        self.stop();
        let mut altered = Vec::new();
        let revision = snapshot::revision(&content).unwrap();
        let mut writer = SnapshotWriter::new(&mut altered, revision, Form::PREVIOUS).unwrap();
        snapshot::read(&mut &content[..], &mut |item| {
            match item {
                SnapshotItem::Form(_) => {}
                SnapshotItem::Zone(origin, stamp) => writer.zone(origin.as_name(), stamp).unwrap(),
                SnapshotItem::Set(key, value) => {
                    let mut value = value.to_vec();
                    if let Some(at) = value.windows(from.len()).position(|found| found == from) {
                        value[at..at + to.len()].copy_from_slice(to);
                    }
                    writer.set(key, &value).unwrap();
                }
            }
            Ok(())
        })
        .unwrap();
        writer.finish().unwrap();
        let mut store = RedbStore::open(&self.folder.join("replica"), true).unwrap();
        store.replace_by(&mut &altered[..]).unwrap();
        drop(store);
        self.restart();
    }

    /// Starts it again without its replica.
    pub fn forget(&mut self) {
        self.stop();
        fs::remove_dir_all(self.folder.join("replica")).unwrap();
        self.restart();
    }

    /// Whether a file of the replica was set aside.
    pub fn has_set_aside(&self, file: &str) -> bool {
        self.folder.join("replica/unusable").join(file).exists()
    }

    /// The revision after which the journal of a zone is complete.
    pub fn journal_begins(&self, zone: &str) -> Revision {
        self.service().journal(name(zone).as_name(), None, 1).unwrap().whole_after
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.running = None;
        let _ = fs::remove_dir_all(&self.folder);
    }
}
