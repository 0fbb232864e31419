mod hold;

use super::*;
use compile::Image;
use image::{HASH_KEY_WORDS, HashKey};
use server_status::ZoneState;
use std::fs;
use test_support::folder::Folder;
use wire::Name;
use zone_manager::PublisherThread;

const HEAD: &str = "$TTL 60\n@ SOA ns root 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";

/// Zones at work in a folder of their own, and the control they publish through.
struct Fixture {
    folder: Arc<Folder>,
    control: ZonePublisher,
    zones: Zones,
    _running: PublisherThread,
}

impl Fixture {
    /// Starts on an empty folder.
    fn start(test: &str, names: &[&str], local: bool) -> Self {
        let folder = Folder::new(&format!("zones-{test}"));
        for name in names {
            fs::write(folder.join(name), HEAD).expect("a file");
        }
        Self::start_in(folder.into(), names, local)
    }

    fn start_in(folder: Arc<Folder>, names: &[&str], local: bool) -> Self {
        let wanted = wanted(&folder, names, local);
        let image = Image::new(Arc::new(HashKey::new([3; HASH_KEY_WORDS])));
        let (control, running) = ZonePublisher::start(image).expect("a thread");
        let (zones, command) =
            Zones::start(&control, wanted, Some(&folder.join("data"))).expect("threads");
        assert!(zones.commands.wait(command));
        Self { folder, control, zones, _running: running }
    }

    fn set(&self, names: &[&str], local: bool) {
        let command = self.zones.set(wanted(&self.folder, names, local));
        assert!(self.zones.commands.wait(command));
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), text).expect("a file");
        let file = |zone: ZoneStatus| ZoneFile {
            origin: NameBuf::from_text(zone.name.as_bytes(), Name::ROOT).expect("a name"),
            file: zone.file.into(),
            views: Vec::new(),
        };
        let zones: Vec<_> = self.zones.status().into_iter().map(file).collect();
        assert!(self.zones.commands.wait(self.zones.commands.reload(zones)));
    }

    /// The serial of a zone; 0: it is there and not loaded.
    fn serial(&self, name: &str) -> Option<u32> {
        let name = NameBuf::from_text(name.as_bytes(), Name::ROOT).expect("a name");
        let image = self.control.image();
        Some(image.zone(name.as_name())?.serial().unwrap_or_default())
    }

    fn state(&self, at: usize) -> (ZoneState, Option<u32>, usize) {
        let status = self.zones.status().swap_remove(at);
        (status.state, status.serial, status.errors.len())
    }

    fn end(self) -> Arc<Folder> {
        Arc::clone(&self.folder)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.zones.stop();
    }
}

/// Has a file be modified long ago: at a start, a younger one may be half-written.
fn age(file: &Path) {
    let opened = fs::File::options().write(true).open(file).expect("a file");
    let hour = std::time::Duration::from_secs(3_600);
    opened.set_modified(std::time::SystemTime::now() - hour).expect("a time");
}

/// Zones whose files have their names.
fn wanted(folder: &Path, names: &[&str], local: bool) -> ZoneConfig {
    let name = |text: &&str| NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name");
    let file =
        |text: &&str| ZoneFile { origin: name(text), file: folder.join(text), views: Vec::new() };
    let zones = names.iter().map(file).collect();
    let files = FilesToLoad { zones, hosts: Vec::new() };
    ZoneConfig {
        files,
        built_in: BuiltInZones { by_default: local, ..BuiltInZones::default() },
        hosts_ttl: 60,
        saved_for: Duration::from_secs(60),
    }
}

#[test]
fn status_follows_what_becomes_of_a_file() {
    let fixture = Fixture::start("status", &["a.test", "b.test"], false);
    fixture.write("b.test", &HEAD.replace("root 1", "root 7"));
    assert_eq!(fixture.state(0), (ZoneState::Current, Some(1), 0));
    assert_eq!(fixture.state(1), (ZoneState::Current, Some(7), 0));
    fixture.write("b.test", &"nonsense\n".repeat(30));
    let status = fixture.zones.status().swap_remove(1);
    assert_eq!((status.state, status.serial, status.records), (ZoneState::Behind, Some(7), 3));
    assert_eq!(status.errors.len(), crate::limits::ZONE_ERRORS_MAX + 1);
    assert!(status.errors[0].contains("b.test:1:9: "), "{:?}", status.errors);
    assert!(status.refused_seconds >= status.loaded_seconds);
    fixture.write("b.test", HEAD);
    assert_eq!(fixture.state(1), (ZoneState::Current, Some(1), 0));
}

#[test]
fn a_zone_without_its_file_is_served_from_its_copy() {
    let folder = Fixture::start("copy", &["a.test", "b.test", "c.test"], false).end();
    let copies = saved::folder(&folder.join("data"));
    fs::remove_file(folder.join("a.test")).expect("a file");
    fs::write(folder.join("b.test"), "nonsense").expect("a file");
    age(&folder.join("b.test"));
    fs::remove_file(folder.join("c.test")).expect("a file");
    fs::write(copies.join("c.test.zone"), "of another form").expect("a file");
    let fixture = Fixture::start_in(folder, &["a.test", "b.test", "c.test"], false);
    assert_eq!(fixture.state(0), (ZoneState::Saved, Some(1), 1));
    assert_eq!(fixture.state(1), (ZoneState::Saved, Some(1), 1));
    assert_eq!(fixture.state(2), (ZoneState::Unloaded, None, 1), "what is damaged is not served");
    let serials = ["a.test", "b.test", "c.test"].map(|name| fixture.serial(name));
    assert_eq!(serials, [Some(1), Some(1), Some(0)]);
    fixture.write("a.test", &HEAD.replace("root 1", "root 2"));
    assert_eq!(fixture.state(0), (ZoneState::Current, Some(2), 0));
}

#[test]
fn zones_come_and_go_while_it_runs() {
    let fixture = Fixture::start("live", &["a.test", "b.test"], false);
    fs::write(fixture.folder.join("c.test"), HEAD).expect("a file");
    lock(&fixture.zones.saver).as_ref().expect("it saves").wait();
    fixture.set(&["c.test", "a.test", "gone.test"], false);
    let serials = ["a.test", "b.test", "c.test", "gone.test"].map(|name| fixture.serial(name));
    assert_eq!(serials, [Some(1), None, Some(1), Some(0)], "b is gone, what cannot load is there");
    let names: Vec<String> = fixture.zones.status().into_iter().map(|zone| zone.name).collect();
    assert_eq!(names, ["c.test.", "a.test.", "gone.test."], "the order of the config");
    let folder = fixture.end();
    let copies = saved::folder(&folder.join("data"));
    assert!(copies.join("a.test.zone").exists() && copies.join("c.test.zone").exists());
    assert!(!copies.join("b.test.zone").exists(), "its copy is set aside");
    assert!(copies.join("b.test.zone.removed").exists(), "for a while");
}

#[test]
fn local_zones_make_way_and_come_again() {
    let ten = "10.in-addr.arpa";
    let (loop_back, six) = ("127.in-addr.arpa", "d.f.ip6.arpa");
    let fixture = Fixture::start("local", &[ten, "ip6.arpa"], true);
    let soon = || [ten, loop_back, six, "ip6.arpa"].map(|name| fixture.serial(name));
    assert_eq!(soon(), [Some(1), Some(1), None, Some(1)]);
    let records = |name: &str| {
        let name = NameBuf::from_text(name.as_bytes(), Name::ROOT).expect("a name");
        fixture.control.image().zone(name.as_name()).map(|zone| zone.count().1)
    };
    assert_eq!((records(ten), records(loop_back)), (Some(3), Some(2)));
    fixture.set(&[], true);
    assert_eq!(soon(), [Some(1), Some(1), Some(1), None]);
    assert_eq!(records(ten), Some(2), "the local one is there again");
    fixture.set(&["ip6.arpa"], true);
    assert_eq!(soon(), [Some(1), Some(1), None, Some(1)]);
    fixture.set(&["ip6.arpa"], false);
    assert_eq!(soon(), [None, None, None, Some(1)]);
    fixture.set(&[ten], true);
    assert_eq!(soon(), [Some(1), Some(1), Some(1), None]);
}
