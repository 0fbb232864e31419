//! Zones whose files lose most of their names.
use super::*;
use crate::saved;
use zone_manager::hold::Acceptance;

/// A zone of this many names, two of which are those of every zone here.
fn zone(serial: u32, names: usize) -> String {
    let head = HEAD.replace("root 1", &format!("root {serial}"));
    let more = (2..names).map(|n| format!("n{n} A 192.0.2.{}\n", n % 250));
    head + &more.collect::<String>()
}

fn origin() -> NameBuf {
    NameBuf::from_text(b"a.test", Name::ROOT).expect("a name")
}

/// A server at work on a zone `a.test` of 100 names, which is not new.
fn start(test: &str) -> Fixture {
    let folder = Folder::new(&format!("zones-{test}"));
    fs::write(folder.join("a.test"), zone(1, 100)).expect("a file");
    Fixture::start_in(folder.into(), &["a.test"], false)
}

fn start_again(folder: Arc<Folder>) -> Fixture {
    age(&folder.join("a.test"));
    Fixture::start_in(folder, &["a.test"], false)
}

/// The names of the copy, and its note.
fn copy(folder: &Path) -> (u64, saved::CopyNote) {
    let folder = saved::folder(&folder.join("data"));
    let key = Arc::new(HashKey::new([7; HASH_KEY_WORDS]));
    let note = saved::note(&folder, origin().as_name(), &key).expect("a copy");
    let (zone, _) = saved::read(&folder, origin().as_name(), &key).expect("sound").expect("there");
    (saved::CopyNote::new(&zone, None).names, note)
}

impl Fixture {
    /// Puts a file into its place by a rename, and has it read.
    fn rename(&self, text: &str) {
        let new = self.folder.join("new");
        fs::write(&new, text).expect("a file");
        fs::rename(&new, self.folder.join("a.test")).expect("renamed");
        self.reload();
    }

    fn reload(&self) {
        let command = self.zones.reload(wanted(&self.folder, &["a.test"], false));
        assert!(self.zones.commands.wait(command));
    }

    /// What is held: names served, and names of the file.
    fn held(&self) -> Option<(u64, u64)> {
        let status = self.zones.status().swap_remove(0);
        status.held.map(|held| (held.had, held.has))
    }

    fn acceptance(&self, held: &str) -> Acceptance {
        self.control.accept(held).wait().expect("it runs")
    }

    fn accept(&self) {
        assert!(matches!(self.acceptance(&origin().to_string()), Acceptance::GiveAgain(_)));
        assert!(self.zones.commands.wait(self.zones.load(origin())));
    }
}

#[test]
fn a_file_cut_off_in_place_is_held_until_it_is_whole_again() {
    let fixture = start("hold-cut");
    fixture.write("a.test", &zone(2, 30));
    assert_eq!(fixture.held(), Some((100, 30)));
    assert_eq!(fixture.state(0), (ZoneState::Behind, Some(1), 0));
    assert_eq!(fixture.serial("a.test"), Some(1), "it is served as it was");
    fixture.reload();
    assert_eq!(fixture.held(), Some((100, 30)), "a reload is not an acceptance");
    fixture.write("a.test", "nonsense");
    assert_eq!((fixture.held(), fixture.state(0).2), (None, 1), "there is nothing to accept");
    fixture.write("a.test", &zone(3, 90));
    assert_eq!(fixture.held(), None);
    assert_eq!(fixture.state(0), (ZoneState::Current, Some(3), 0));
}

#[test]
fn a_held_file_is_served_once_it_is_accepted() {
    let fixture = start("hold-accept");
    assert_eq!(fixture.acceptance(&origin().to_string()), Acceptance::NotHeld);
    fixture.write("a.test", &zone(2, 30));
    fixture.write("a.test", &zone(2, 4));
    assert_eq!(fixture.held(), Some((100, 4)));
    fixture.accept();
    assert_eq!(fixture.held(), None);
    assert_eq!(fixture.state(0), (ZoneState::Current, Some(2), 0));
    let folder = fixture.end();
    assert_eq!(copy(&folder).0, 4, "what was accepted is kept");
    let fixture = start_again(folder);
    assert_eq!(fixture.state(0), (ZoneState::Current, Some(2), 0));
}

#[test]
fn a_file_renamed_into_place_is_never_held() {
    let fixture = start("hold-renamed");
    fixture.write("a.test", &zone(2, 30));
    assert_eq!(fixture.held(), Some((100, 30)));
    fixture.rename(&zone(3, 2));
    assert_eq!((fixture.held(), fixture.state(0).1), (None, Some(3)));
    fixture.rename(&zone(4, 100));
    fixture.rename(&zone(5, 2));
    assert_eq!((fixture.held(), fixture.state(0).1), (None, Some(5)));
}

#[test]
fn a_loss_of_few_names_or_of_less_than_half_is_believed() {
    let fixture = start("hold-little");
    for (serial, names) in [(2, 51), (3, 33), (4, 14), (5, 2)] {
        fixture.write("a.test", &zone(serial, names));
        assert_eq!((fixture.held(), fixture.state(0).1), (None, Some(serial)), "{names}");
    }
}

/// A writer that was killed, and then the server.
#[test]
fn a_restart_holds_a_half_file_and_serves_the_copy() {
    let folder = start("hold-restart").end();
    assert_eq!(copy(&folder).1.names, 100);
    fs::write(folder.join("a.test"), zone(2, 30)).expect("a file");
    let fixture = start_again(folder);
    assert_eq!(fixture.held(), Some((100, 30)));
    assert_eq!(fixture.state(0), (ZoneState::Saved, Some(1), 0));
    let folder = fixture.end();
    assert_eq!(copy(&folder).0, 100, "the copy is not the half");
    let fixture = start_again(folder);
    assert_eq!(fixture.held(), Some((100, 30)), "the next restart neither believes it");
    fixture.accept();
    assert_eq!(fixture.state(0), (ZoneState::Current, Some(2), 0));
}

/// A file that was made again in place is another file, and was not renamed.
#[test]
fn a_restart_goes_on_holding_what_was_held_before() {
    let fixture = start("hold-anew");
    fs::remove_file(fixture.folder.join("a.test")).expect("a file");
    fixture.write("a.test", &zone(2, 30));
    assert_eq!(fixture.held(), Some((100, 30)));
    let fixture = start_again(fixture.end());
    assert_eq!(fixture.held(), Some((100, 30)));
}

#[test]
fn a_restart_believes_a_file_that_was_renamed_into_place_meanwhile() {
    let folder = start("hold-replaced").end();
    let new = folder.join("new");
    fs::write(&new, zone(2, 4)).expect("a file");
    fs::rename(&new, folder.join("a.test")).expect("renamed");
    let fixture = start_again(folder);
    assert_eq!(fixture.held(), None);
    assert_eq!(fixture.state(0), (ZoneState::Current, Some(2), 0));
}

/// As an earlier version wrote it, or one that was damaged.
#[test]
fn a_copy_without_a_note_is_counted_and_a_damaged_one_holds_nothing() {
    let folder = start("hold-note").end();
    let path = saved::path(&saved::folder(&folder.join("data")), origin().as_name());
    let key = Arc::new(HashKey::new([7; HASH_KEY_WORDS]));
    let load = || source_file::load(&folder.join("a.test"), origin().as_name(), &key, None);
    let (zone_served, _) = load().expect("a zone");
    saved::write(&zone_served, None, fs::File::create(&path).expect("a copy")).expect("written");
    fs::write(folder.join("a.test"), zone(2, 30)).expect("a file");
    let fixture = start_again(folder);
    assert_eq!(fixture.held(), Some((100, 30)), "whose file it was is not known");
    let folder = fixture.end();
    let mut damaged = fs::read(&path).expect("a copy");
    let last = damaged.len() - 2;
    damaged[last] ^= 1;
    fs::write(&path, damaged).expect("a copy");
    let fixture = start_again(folder);
    assert_eq!(fixture.held(), None, "nothing else can be served");
    assert_eq!(fixture.state(0), (ZoneState::Current, Some(2), 0));
}

#[test]
fn a_young_file_waits_at_the_start_while_its_copy_is_served() {
    let folder = start("hold-young").end();
    fs::write(folder.join("a.test"), zone(2, 90)).expect("a file");
    let fixture = Fixture::start_in(folder, &["a.test"], false);
    assert_eq!(fixture.state(0), (ZoneState::Saved, Some(1), 0));
    assert!(fixture.zones.status()[0].writing_seconds.is_some());
    test_support::wait::until_eq("its state", || fixture.state(0).0, ZoneState::Current);
    assert_eq!(fixture.serial("a.test"), Some(2));
    assert!(fixture.zones.status()[0].writing_seconds.is_none());
}

#[test]
fn a_hold_goes_with_its_zone() {
    let fixture = start("hold-gone");
    fixture.write("a.test", &zone(2, 30));
    assert!(fixture.held().is_some());
    fixture.set(&[], false);
    assert!(fixture.control.holds().all().is_empty());
}

/// A zone whose last line is cut: 192.0.2.234 becomes 192.0.2.2.
fn cut(serial: u32, names: usize) -> String {
    zone(serial, names) + "last A 192.0.2.2"
}

#[test]
fn a_file_written_in_place_without_a_last_newline_is_held() {
    let fixture = start("hold-newline");
    fixture.write("a.test", &cut(2, 100));
    assert_eq!(fixture.held(), Some((100, 101)));
    assert_eq!(fixture.state(0), (ZoneState::Behind, Some(1), 0));
    let held = fixture.zones.status()[0].held.expect("held");
    assert!(held.is_cut && held.reason().contains("does not end with a newline"));
    let folder = fixture.end();
    assert_eq!(copy(&folder).0, 100, "the copy is not the cut one");
    let fixture = start_again(folder);
    assert_eq!(fixture.held(), Some((100, 101)), "a restart goes on holding it");
    assert_eq!(fixture.state(0), (ZoneState::Saved, Some(1), 0));
    fixture.accept();
    assert_eq!((fixture.held(), fixture.state(0).1), (None, Some(2)));
    fixture.reload();
    assert_eq!(fixture.held(), None, "what is served is not in doubt");
    let fixture = start_again(fixture.end());
    assert_eq!((fixture.held(), fixture.state(0).1), (None, Some(2)), "nor after a restart");
    fixture.write("a.test", &(cut(2, 100) + "34\n"));
    assert_eq!((fixture.held(), fixture.state(0).0), (None, ZoneState::Current));
}

#[test]
fn a_file_without_a_last_newline_is_served_if_renamed_or_nothing_else_can_be() {
    let fixture = start("hold-newline-renamed");
    fixture.rename(&cut(2, 100));
    assert_eq!((fixture.held(), fixture.state(0)), (None, (ZoneState::Current, Some(2), 0)));
    let folder = fixture.end();
    fs::remove_dir_all(folder.join("data")).expect("the copies go");
    fs::write(folder.join("a.test"), cut(3, 50)).expect("a file");
    let fixture = start_again(folder);
    assert_eq!((fixture.held(), fixture.state(0)), (None, (ZoneState::Current, Some(3), 0)));
}

/// An included file counts as the zone's own.
#[test]
fn an_included_file_without_a_last_newline_is_held() {
    let fixture = start("hold-newline-included");
    fs::write(fixture.folder.join("more"), "more A 192.0.2.3\n").expect("a file");
    fixture.write("a.test", &(zone(2, 100) + "$INCLUDE more\n"));
    assert_eq!((fixture.held(), fixture.state(0).1), (None, Some(2)));
    fs::write(fixture.folder.join("more"), "more A 192.0.2.30\nother A 192.0.2.4").expect("a file");
    fixture.reload();
    assert_eq!(fixture.held(), Some((101, 102)));
}

/// Hosts files have no copy, but what is served stays.
#[test]
fn a_hosts_file_is_held_like_a_zone_file() {
    let fixture = start("hold-hosts");
    let file = fixture.folder.join("Hosts");
    let hosts = |names: usize| -> String {
        (0..names).map(|n| format!("192.0.2.{} h{n}\n", n % 250)).collect()
    };
    let read = |text: &str| {
        fs::write(&file, text).expect("a file");
        let mut wanted = wanted(&fixture.folder, &["a.test"], false);
        wanted.files.hosts = vec![file.clone()];
        assert!(fixture.zones.commands.wait(fixture.zones.reload(wanted)));
        let status = fixture.zones.hosts().swap_remove(0);
        (status.state, status.names, status.held.map(|held| (held.has, held.is_cut)))
    };
    assert_eq!(read(&(hosts(100) + "192.0.2.1 x")), (ZoneState::Current, 101, None), "the first");
    assert_eq!(read(&hosts(100)), (ZoneState::Current, 100, None));
    assert_eq!(read(&hosts(30)), (ZoneState::Behind, 100, Some((30, false))));
    assert_eq!(read("nonsense"), (ZoneState::Behind, 100, None), "nothing can be accepted");
    let cut_off = hosts(100) + "192.0.2.2 cut";
    assert_eq!(read(&cut_off), (ZoneState::Behind, 100, Some((101, true))));
    let name = file.display().to_string();
    assert!(matches!(fixture.acceptance(&name), Acceptance::GiveAgain(_)));
    assert!(fixture.zones.commands.wait(fixture.zones.load_hosts(file.clone())));
    let status = fixture.zones.hosts().swap_remove(0);
    assert_eq!((status.state, status.names, status.held), (ZoneState::Current, 101, None));
    assert_eq!(read(&cut_off), (ZoneState::Current, 101, None), "unchanged");
    assert!(read(&hosts(2)).2.is_some());
    fixture.set(&["a.test"], false);
    assert!(fixture.control.holds().all().is_empty(), "a hold goes with its file");
}
